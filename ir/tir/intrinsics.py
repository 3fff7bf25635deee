"""Intrinsics, one row each: everything that the compiler knows of a function or an operation of the hardware.

From the rows come the builders of tir and te, the names of script, the operators of the graph that are one intrinsic,
numpy's evaluation, what VectorizeLoop may make a vector of, the C that is printed, and how much work a call counts as.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ..dtype import DataType
from ..expr import Add, Call, Div, FloatImm, Max, Mul

SERIES = 16  # operations that a function counts as which is a series of about this length


@dataclass(frozen=True)
class Intrinsic:
    """name: what calls are known by, as "tir.exp". numpy: its evaluation, of `arity` arrays.

    spellings  {"dialect dtype": the function's name, or a quotient or product in which {} stands for the operand}
    expand     the expression that it is, for dtypes that a dialect has no spelling for
    vector     whether simd.h has T_name, so that loops over it become vectors
    cost       floating-point operations that a call counts as
    is_costly  whether it is computed once, and not again for each stage that reads it
    ulp        units in the last place that the float32 result may be off; None: as the C library's
    operator   whether an operator of the graph of the same name is the intrinsic alone
    result     the result's dtype, where it is not that of the first operand
    integers   how many of the last operands are integers
    operands   the dtypes of operands that have several, None for any; (): they meet in one
    takes      the dtypes of the first operand; (): all that its kind has
    """

    name: str
    numpy: Callable
    arity: int = 1
    spellings: dict = field(default_factory=dict, hash=False)
    expand: Callable | None = None
    vector: bool = False
    cost: int = SERIES
    is_costly: bool = False
    ulp: float | None = None
    operator: bool = False
    result: str | None = None
    integers: int = 0
    operands: tuple = ()
    takes: tuple = ()


def _c(name=None, runtime=None, cuda=None):
    """The C spellings of a function of math.h, and of one of ingot_math.h that stands for it in float32; cuda: CUDA's
    own, where it is as exact, to 2 ulp and better."""
    own = {"c float32": f"{name}f", "c float64": name} if name else {}
    return {**own, **({"c float32": runtime} if runtime else {}), **({"cuda float32": cuda} if cuda else {})}


# ---------------------------------------------------------------- evaluation

def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


def _lgamma(x):
    def at(v):
        return math.inf if v == -math.inf or v <= 0 and v == int(v) else math.lgamma(v)
    return np.vectorize(at, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


def _gelu(x):
    """x Phi(x), with Phi the normal distribution; its limit, 0, at minus infinity."""
    half_erfc = np.vectorize(lambda v: math.erfc(-v * math.sqrt(0.5)) / 2, otypes=[np.float64])(x)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x), 0, np.asarray(x) * half_erfc).astype(np.asarray(x).dtype)


def integer_power(a, b):
    """a ** b of integers, wrapping around; to a power below 0, 1 and -1 stay what they are and all else becomes 0."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(over="ignore"):
        power = np.power(a, np.maximum(b, 0))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, inverse, power).astype(a.dtype)[()]


def _power(a, b):
    return np.power(a, b) if np.asarray(a).dtype.kind in "fV" else integer_power(a, b)


def _popcount(x):
    bits = np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")
    return np.vectorize(lambda v: int(v).bit_count(), otypes=[np.asarray(x).dtype])(bits)[()]


def _clz(x):
    bits = np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")
    return np.vectorize(lambda v: 8 * bits.dtype.itemsize - int(v).bit_length(), otypes=[np.int32])(bits)[()]


def _bit_field(a, n, bits):
    a = np.asarray(a)
    return (a >> np.asarray(n).astype(a.dtype) & a.dtype.type((1 << int(bits)) - 1))[()]


def _word(*values):
    bytes_ = [np.asarray(v).astype(np.int64) & 255 for v in values]
    return sum(v << 8 * n for n, v in enumerate(bytes_)).astype(np.uint32).view(np.int32)[()]


def _saturated(dtype):
    def saturated(x, zero):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.clip(np.rint(x) + np.float32(zero), least, most).astype(dtype)[()]
    return saturated


def _dot(left, right):
    bits = 8 * np.dtype(left).itemsize

    def dot(a, b, c):
        a, b, total = np.asarray(a, np.int32), np.asarray(b, np.int32), np.asarray(c, np.int64)
        for n in range(0, 32, bits):
            x, y = ((v >> n & (1 << bits) - 1).astype(f"uint{bits}").view(dtype).astype(np.int64)
                    for v, dtype in ((a, left), (b, right)))
            total = total + x * y
        return total.astype(np.int32)[()]
    return dot


def _pair(low, high):
    bits = [np.asarray(v).astype(np.int64) & 0xffff for v in (low, high)]
    return (bits[0] | bits[1] << 16).astype(np.uint32).view(np.int32)[()]


def _dot_pairs(a, b, c, word):
    total = np.asarray(c, np.int64)
    for pair, first in ((a, 0), (b, 8)):
        for n in (0, 16):
            x = (np.asarray(pair, np.int32) >> n & 0xffff).astype(np.uint16).view(np.int16).astype(np.int64)
            w = (np.asarray(word, np.int32) >> n + first & 255).astype(np.uint8).view(np.int8).astype(np.int64)
            total = total + x * w
    return total.astype(np.int32)[()]


def _halves(words, dtype):
    """The two numbers of 16 bits in each word, as float32: [..., 2]."""
    return np.ascontiguousarray(words, "<i4")[..., None].view(np.uint16).view(DataType(dtype).numpy).astype(np.float32)


def _dot_of_halves(left, right):
    def dot(a, b, c):
        return (np.float32(c) + (_halves(a, left) * _halves(b, right)).sum(-1, dtype=np.float32))[()]
    return dot


def _matrix_dot_of_halves(left, right):
    def dot(a, b, c):
        x, y = _halves(a, left).reshape(2, 4), _halves(b, right).reshape(2, 4)
        return np.asarray(c, np.float32) + (x @ y.T).reshape(-1)
    return dot


def _zipped(size):
    """half(a, b, n): the first or second half of the words of a and b in turns, so many at a time."""
    def half(a, b, n):
        both = np.stack([np.asarray(v).reshape(-1, size) for v in (a, b)], axis=1).reshape(-1)
        return both[n * len(a):(n + 1) * len(a)]
    return half


def _matrix_dot(left, right):
    def dot(a, b, c):
        x, y = (np.ascontiguousarray(v, "<i4").view(dtype).astype(np.int64).reshape(2, 8)
                for v, dtype in ((a, left), (b, right)))
        return (np.asarray(c, np.int64) + (x @ y.T).reshape(-1)).astype(np.int32)
    return dot


def _taps(dtype):
    def taps(a, sides, c, middle, n):
        a = np.asarray(a, "<i4")[..., None].view(dtype).astype(np.int64)
        left, right = np.moveaxis(np.asarray(sides, "<i4")[..., None].view("<i2").astype(np.int64), -1, 0)
        products = (a[..., t + int(n)] * w for t, w in enumerate((left, np.asarray(middle, np.int64), right)))
        return (np.asarray(c, np.int64) + sum(products)).astype(np.int32)[()]
    return taps


def _pair_taps(a, b, c, sides, middle, n):
    x = np.stack([np.asarray(pair, np.int32) >> by & 0xffff for pair in (a, b) for by in (0, 16)])
    x = x.astype(np.uint16).view(np.int16).astype(np.int64)[int(n):int(n) + 3]
    left, right = (np.asarray(np.asarray(sides, np.int32) >> by & 0xffff, np.uint16).view(np.int16) for by in (0, 16))
    products = (value * np.asarray(w, np.int64) for value, w in zip(x, (left, middle, right)))
    return (np.asarray(c, np.int64) + sum(products)).astype(np.int32)[()]


def _bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32).reshape(np.shape(x))


def _greater(a, b):
    return np.where(_bits(a).view(np.int32) > _bits(b).view(np.int32), a, b)[()]


def _fixed(a, b, n):
    both = _bits(a).astype(np.uint64) << np.uint64(32) | _bits(b)
    return (both << np.uint64(n) >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.float32)[()]


def _top_bits(a, n, bits):
    first = _bits(a) << np.uint32(32 - bits - n) & np.uint32(-1 << 32 - bits & 0xffffffff)
    return first.view(np.int32).astype(np.float32)[()]


# ---------------------------------------------------------------- expansion

def _call(name, *args):
    return Call(args[0].dtype, "tir." + name, args)


def _number(value, x):
    return FloatImm(x.dtype, value)


def _expanded_gelu(x):
    x = Max(_number(-40, x), x)  # 0 at minus infinity
    erf = _call("erf", Mul(x, _number(0.5 ** 0.5, x)))
    return Mul(Mul(_number(0.5, x), x), Add(_number(1, x), erf))


# ---------------------------------------------------------------- rows

def _rows(*rows):
    return {row.name: row for row in rows}


def _libm(name, numpy, arity=1, **fields):
    """A function of math.h without a vector form."""
    return Intrinsic(name, numpy, arity, _c(name), **fields)


# Of floats. Errors of those of ingot_math.h are measured by tests/runtime_c/test_simd.py.
INTRINSICS = _rows(
    Intrinsic("exp", np.exp, 1, _c("exp", "ingot_expf", "expf"), None, True, is_costly=True, ulp=1.1, operator=True),
    Intrinsic("log", np.log, 1, _c("log", "ingot_logf", "logf"), None, True, is_costly=True, ulp=1, operator=True),
    Intrinsic("sqrt", np.sqrt, 1, _c("sqrt", "ingot_sqrtf", "sqrtf"), None, True, 1, True, ulp=0.5, operator=True),
    Intrinsic("tanh", np.tanh, 1, _c("tanh", "ingot_tanhf", "tanhf"), None, True, is_costly=True, ulp=1.9,
              operator=True),
    Intrinsic("erf", _erf, 1, _c("erf", "ingot_erff", "erff"), None, True, is_costly=True, ulp=1.4, operator=True),
    Intrinsic("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 1, {
        "c float32": "ingot_sigmoidf", "c float64": "1.0 / (1.0 + exp(-{}))"}, None, True, is_costly=True, ulp=2),
    Intrinsic("silu", lambda x: x / (1 + np.exp(-x)), 1, _c(runtime="ingot_siluf"),
              lambda x: Mul(x, _call("sigmoid", x)), True, is_costly=True, ulp=2.8),
    Intrinsic("gelu", _gelu, 1, _c(runtime="ingot_geluf"), _expanded_gelu, True, is_costly=True),
    Intrinsic("floor", np.floor, 1, _c("floor", "ingot_floorf", "floorf"), None, True, 1, operator=True),
    Intrinsic("ceil", np.ceil, 1, _c("ceil", "ingot_ceilf", "ceilf"), None, True, 1, operator=True),
    Intrinsic("round", np.rint, 1, _c("nearbyint", "ingot_roundf", "rintf"), None, True, 1, operator=True),
    _libm("trunc", np.trunc, cost=1, operator=True),
    Intrinsic("abs", np.abs, 1, _c("fabs"), None, True, 1),
    *(_libm(name, getattr(np, function), operator=True) for name, function in (
        ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"),
        ("sinh", "sinh"), ("cosh", "cosh"), ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh"))),
    _libm("pow", _power, 2, is_costly=True), _libm("fmod", np.fmod, 2), _libm("atan2", np.arctan2, 2),
    Intrinsic("isnan", np.isnan, result="bool"), Intrinsic("isinf", np.isinf, result="bool"),
    Intrinsic("exp2", np.exp2, 1, _c("exp2", cuda="ingot_exp2f")),
    Intrinsic("exp10", lambda x: np.power(10.0, x), expand=lambda x: _call("pow", _number(10, x), x)),
    _libm("expm1", np.expm1), _libm("log2", np.log2), _libm("log10", np.log10), _libm("log1p", np.log1p),
    _libm("lgamma", _lgamma, operator=True), _libm("nearbyint", np.rint, cost=1),
    Intrinsic("rsqrt", lambda x: 1 / np.sqrt(x), expand=lambda x: Div(_number(1, x), _call("sqrt", x)), cost=1),
    _libm("hypot", np.hypot, 2), _libm("copysign", np.copysign, 2, cost=1),
    _libm("fma", lambda x, y, z: x * y + z, 3, cost=2),
    # The C library's int is 32 bits. A half's neighbour is not that of the float32 that it is computed in.
    _libm("ldexp", np.ldexp, 2, cost=1, integers=1, operands=(None, "int32"), takes=("float32", "float64")),
    _libm("nextafter", np.nextafter, 2, cost=1, takes=("float32", "float64")),
)
BYTES = 256  # the numbers that a byte can be, and those of a table of what becomes of each
LOOKUPS = {"int8": "lookup_i8", "uint8": "lookup_u8"}  # what looks up lanes in a table, given by its first element
# What vectors hold as int32 or float32, and memory as it is: the intrinsic of int32 vectors that gives its bits.
NARROW = {"int8": "low_i8", "uint8": "low_u8", "int16": "low_i16"}
_SIGNS = {"u8": "uint8", "s8": "int8"}
ROUNDS = {"int8": "round_i8", "uint8": "round_u8"}  # what rounds a float32, adds an integer and saturates
ALL_ROUNDS = {**ROUNDS, "int16": "round_i16", "uint16": "round_u16"}
DOTS = {f"dot_{x}{y}": (_SIGNS[x], _SIGNS[y]) for x in _SIGNS for y in _SIGNS}  # name: (dtypes of bytes)
PAIR_DOTS = {"dot_s16s8": ("int16", "int8")}  # the same of rows of 16 bits
ALL_DOTS = {**DOTS, **PAIR_DOTS}
NEAREST_HALVES = {"float16": "nearest_f16", "bfloat16": "nearest_bf16"}  # what rounds a float32 to one
HALF_DOTS = {"dot_bf16": ("bfloat16", "bfloat16")}  # of two numbers of 16 bits a word, with sums of float32
SHORT_DOTS = {"dot_s16s16": ("int16", "int16")}  # of two integers of 16 bits a word
INTEGER_DOTS = {**DOTS, **SHORT_DOTS}  # those that vectors of int32 have
WORD_DOTS = {**INTEGER_DOTS, **HALF_DOTS}  # those that vectors have
CONTRACTIONS = {**ALL_DOTS, **SHORT_DOTS, **HALF_DOTS}
TAPS = {"int8": "taps_s8", "uint8": "taps_u8"}  # the same of three bytes of a word and three weights
PAIR_TAPS = {"int16": "taps_s16"}  # of three numbers of two pairs
ALL_TAPS = {**TAPS, **PAIR_TAPS}
# Of integers. Shifts to the right keep the sign; clz counts the zeros above the highest bit set; bit_field(a, n, bits)
# is the number of so many bits that begins at the n-th bit of an unsigned a, where n is below the bits of a.
# word(a, b, c, d): the lowest bytes of four numbers as those of an int32, a's lowest; dot_u8s8(a, b, c) and its like: c
# and the products of the four bytes of a, with a sign or without, and those of b; pair(a, b): the lowest 16 bits of two
# numbers as those of an int32, a's lowest; dot_s16s16(a, b, c): c and the products of the two numbers of a pair a and
# those of b; dot_s16s8(a, b, c, w): c and the products of two pairs, a and b, and the bytes of w, a's being bytes 0 and
# 2; taps_u8(a, sides, c, middle, n) and taps_s8: c and the products of three bytes of a, from the n-th on, 0 or 1, and
# three weights, of which `sides` holds the outer ones as numbers of 16 bits; taps_s16(a, b, c, sides, middle, n): the
# same of three of the four numbers of two pairs.
INTEGER_INTRINSICS = _rows(*(Intrinsic(name, numpy, arity, result=result) for name, numpy, arity, result in (
    ("bitwise_and", np.bitwise_and, 2, None), ("bitwise_or", np.bitwise_or, 2, None),
    ("bitwise_xor", np.bitwise_xor, 2, None), ("bitwise_not", np.invert, 1, None),
    ("shift_left", np.left_shift, 2, None), ("shift_right", np.right_shift, 2, None),
    ("popcount", _popcount, 1, None), ("clz", _clz, 1, "int32"))),
    Intrinsic("bit_field", _bit_field, 3, integers=2),
    Intrinsic("word", _word, 4, {"c int32": "ingot_word"}, None, True, result="int32"),
    *(Intrinsic(name, _saturated(dtype), 2, {f"c {dtype}": f"ingot_{name}"}, cost=4, result=dtype, integers=1,
                takes=("int32", "float32")) for dtype, name in ALL_ROUNDS.items()),
    *(Intrinsic(name, _dot(*dtypes), 3, {"c int32": f"ingot_{name}"}, None, True, 8, result="int32")
      for name, dtypes in INTEGER_DOTS.items()),
    Intrinsic("pair", _pair, 2, {"c int32": "ingot_pair"}, None, True, result="int32"),
    *(Intrinsic(name, _dot_pairs, 4, {"c int32": f"ingot_{name}"}, cost=8, result="int32") for name in PAIR_DOTS),
    *(Intrinsic(name, _taps(dtype), 5, {"c int32": f"ingot_{name}"}, cost=6, result="int32", integers=1)
      for dtype, name in TAPS.items()),
    *(Intrinsic(name, _pair_taps, 6, {"c int32": f"ingot_{name}"}, cost=6, result="int32", integers=1)
      for name in PAIR_TAPS.values()))
# Of words of two floats of 16 bits, which pair(a, b) makes of their bits: c and both products, in float32; products are
# exact, and how sums are rounded is the instruction's.
HALF_INTRINSICS = _rows(*(
    Intrinsic(name, _dot_of_halves(*dtypes), 3, {"c float32": f"ingot_{name}"}, None, True, 4, result="float32",
              operands=("int32", "int32", "float32")) for name, dtypes in HALF_DOTS.items()))
# Of the bits of float32. fixed(a, b, n): the integer, with its sign, that the 32 bits from the n-th on of a and then b
# are, where n is a multiple of 4 below 32; greater(a, b): that whose bits are the greater integer, of magnitudes the
# greater number, of which NaN is the greatest; top_bits(a, n, bits): the integer, with its sign, of 32 bits of which
# the highest are so many of a from the n-th lowest on.
BIT_INTRINSICS = _rows(
    Intrinsic("fixed", _fixed, 3, _c(runtime="ingot_fixedf"), None, True, 0, integers=1, takes=("float32",)),
    Intrinsic("top_bits", _top_bits, 3, _c(runtime="ingot_top_bitsf"), None, True, 0, integers=2, takes=("float32",)),
    Intrinsic("greater", _greater, 2, _c(runtime="ingot_greaterf"), None, True, 0, takes=("float32",)),
)
# Of float vectors: what VectorizeLoop makes of reductions over lanes and of stores to the first lanes, LaneIndexedFMA
# and RegisterPromote of operands in vectors, and RegisterTranspose. first_n(a, b, n): n lanes of a, then those of b;
# evens(a, b, w), of blocks of w lanes: a's even ones, each followed by b's; odds(a, b, w): a's odd ones, each followed
# by b's; lane(a, l): lane l of a, in all lanes; fma_lane(a, l, b, c): lane(a, l) * b + c; accumulate(a, b, c):
# a * b + c, in the register of c; dot_u8s8_lane(a, l, b, c) and its like: dot_u8s8(lane(a, l), b, c);
# matrix_dot_u8s8(a, b, c) and its like: c, four numbers, and the product of two rows of eight bytes, a, by two
# columns, b; zip_words(a, b, n), zip_pairs(a, b, n): the n-th half of a's and b's lanes in turns, one or two at a
# time; unzip_words(a, b, n): every other lane of both, from n on; held(a): a, in a register; add_scaled(a, x, c):
# a * x + c of int32, where x is one number; low_u8(a) and its like: the lowest bits of int32, as numbers of a narrower
# dtype.
# The order of reduce_add is a tree.
VECTOR_INTRINSICS = _rows(*(Intrinsic(name, numpy, arity, vector=True) for name, numpy, arity in (
    ("reduce_add", np.sum, 1), ("reduce_min", np.min, 1), ("reduce_max", np.max, 1),
    ("reduce_greater", lambda a: reduce(_greater, a), 1),
    ("first_n", lambda a, b, n: np.where(np.arange(len(a)) < n, a, b), 3),
    ("evens", lambda a, b, w: np.where(np.arange(len(a)) & w, np.roll(b, w), a), 3),
    ("odds", lambda a, b, w: np.where(np.arange(len(a)) & w, b, np.roll(a, -w)), 3),
    ("lane", lambda a, l: np.full_like(a, a[l]), 2), ("fma_lane", lambda a, l, b, c: a[l] * b + c, 4),
    ("accumulate", lambda a, b, c: a * b + c, 3), ("held", lambda a: a, 1),
    ("add_scaled", lambda a, x, c: a * x + c, 3),
    *((name, lambda a, dtype=dtype: a.astype(dtype).astype(np.int32), 1) for dtype, name in NARROW.items()),
    *((name, lambda a, dtype=dtype: a.astype(DataType(dtype).numpy).astype(np.float32), 1)
      for dtype, name in NEAREST_HALVES.items()),
    ("zip_words", _zipped(1), 3), ("zip_pairs", _zipped(2), 3),
    ("unzip_words", lambda a, b, n: np.concatenate([a, b])[n::2], 3),
    *((name.replace("dot", "matrix_dot"), _matrix_dot(*dtypes), 3) for name, dtypes in DOTS.items()),
    *((name.replace("dot", "matrix_dot"), _matrix_dot_of_halves(*dtypes), 3) for name, dtypes in HALF_DOTS.items()),
    *((f"{name}_lane", lambda a, l, b, c, dot=make(*dtypes): dot(np.full_like(a, a[l]), b, c), 4)
      for make, rows in ((_dot, INTEGER_DOTS), (_dot_of_halves, HALF_DOTS)) for name, dtypes in rows.items()))))
SCALAR_INTRINSICS = {**INTRINSICS, **INTEGER_INTRINSICS, **BIT_INTRINSICS, **HALF_INTRINSICS}
ALL_INTRINSICS = {**SCALAR_INTRINSICS, **VECTOR_INTRINSICS}
# What has a vector form that a loop may become.
VECTOR_CALLS = frozenset(name for name, row in SCALAR_INTRINSICS.items() if row.vector)
VECTOR_CALLS_OF_INTEGERS = frozenset(name for name in VECTOR_CALLS if "c int32" in SCALAR_INTRINSICS[name].spellings)
