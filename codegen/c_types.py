"""How dtypes, names and numbers are spelled in C."""
from __future__ import annotations

import hashlib
import math
import re

import numpy as np

from ..ir.tir.intrinsics import INTRINSICS
from .reserved import MACRO_FAMILIES, MACROS

# Letters of a name: C99 promises that compilers tell names apart by their first 63, and some get a number behind.
MOST_LETTERS = 56
C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    "float16": "uint16_t", "bfloat16": "uint16_t",  # and from here on their bits
    **dict.fromkeys(("int4", "int2", "uint4", "uint2", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                     "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"), "uint8_t"),
}
# How numbers are written that are no plain digits.
NUMBERS = {"uint32": "{}u", "int64": "INT64_C({})", "uint64": "UINT64_C({})", "least": "INT{bits}_MIN", "nan": "NAN",
           "infinity": "INFINITY", "float32": "{}f", "float64": "{}"}
# dtype -> how ingot_half.h calls it: ingot_f16_to_f32 ...
SMALL_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
                "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0",
                "float4_e2m1fn": "e2m1"}
KEYWORDS = frozenset("""
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex
_Imaginary _Alignas _Alignof _Atomic _Generic _Noreturn _Static_assert _Thread_local asm typeof
alignas alignof and and_eq bitand bitor bool catch class compl concept constexpr const_cast decltype delete
dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid
typename using virtual wchar_t xor xor_eq main typeof_unqual char8_t char16_t char32_t co_await co_return co_yield
consteval constinit
""".split())
_LIBM = {"rint", "round", *(row.spellings["c float64"] for row in INTRINSICS.values()
                             if row.spellings.get("c float64", "").isidentifier())}
# What generated text may call or name: a variable called so would hide it.
USED = frozenset([*_LIBM, *(name + "f" for name in _LIBM), "isnan", "isinf"])
_USED_PATTERN = re.compile(r"(INGOT|ingot|[fi]32x\d+)(_.*)?$|u?int\d+_t$|U?INT\d+_(MIN|MAX|C)$|(size|ptrdiff)_t$")


def shortened(name, most=MOST_LETTERS):
    """`name`, or where it has more than `most` letters its first ones and a hash of all."""
    if len(name) <= most:
        return name
    digits = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[:most - 9].rstrip('_')}_{digits}"


def identifier(text, fallback="v", most=MOST_LETTERS):
    """`text` as a C and C++ identifier that is no keyword, macro, reserved name or name that generated text uses, and
    has at most `most` letters."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", str(text)).strip("_")
    name = re.sub(r"__+", "_", name) or fallback
    if name[0].isdigit():
        name = f"{fallback}{name}"
    return shortened(name, most) + "_" * _is_used(name)


def _is_used(name):
    return (name in KEYWORDS or name in USED or name in MACROS or _USED_PATTERN.match(name) is not None
            or MACRO_FAMILIES.fullmatch(name) is not None)


def c_string(text):
    """The inside of a C string literal: UTF-8, octal where C or a reader could take a byte for something else."""
    return "".join(chr(b) if 32 <= b < 127 and chr(b) not in '\\"?' else f"\\{b:03o}" for b in str(text).encode())


def c_comment(text):
    """The inside of a C comment, which names in it do not end."""
    return text.replace("*/", "* /")


class UnsupportedType(ValueError):
    """A dtype that C code cannot hold yet."""


def c_type(dtype):
    """The C type of a dtype of one lane. Raises UnsupportedType where there is none."""
    if dtype not in C_TYPES:
        raise UnsupportedType(f"dtype {dtype} has no C type; it must be one of {', '.join(C_TYPES)}")
    return C_TYPES[dtype]


# DLPack's codes of types; float8 ones have a code each.
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_FLOAT8 = {"float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
           "float4_e2m1fn": 17}


def dlpack_type(dtype):
    """(code, bits) of a DataType in DLPack."""
    return _FLOAT8.get(dtype.element, _CODES.get(dtype.code)), dtype.bits


def literal(dtype, value, numbers=NUMBERS):
    """The shortest literal that reads back as `value` in `dtype`. Integers narrower than int are literals of type int,
    as C promotes them anyway, and so are small int64 ones; see CExpr on how their arithmetic is widened. numbers: as
    NUMBERS, of another dialect of C."""
    if dtype in SMALL_FLOATS:
        return str(int(np.asarray(value, dtype.numpy).view(f"u{dtype.bytes}")))
    if dtype.is_float:
        return _float_literal(dtype, value, numbers)
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.bits < 8:
        return str(value & ((1 << dtype.bits) - 1))
    if dtype.code == "uint" and dtype.bits >= 32:
        return numbers[dtype.element].format(value)
    if value == dtype.min_value() and dtype.bits >= 32:  # -2147483648 would be the negation of a larger type
        return numbers["least"].format(bits=dtype.bits)
    return str(value) if fits_int(value) else numbers["int64"].format(value)


def fits_int(value):
    """Whether a plain integer literal has type int on machines of 32 bits and more."""
    return -(1 << 31) < value < 1 << 31


def _float_literal(dtype, value, numbers):
    if math.isnan(value):
        return numbers["nan"]
    if dtype == "float32":
        with np.errstate(over="ignore"):
            value = np.float32(value)
    if math.isinf(value):
        return ("" if value > 0 else "-") + numbers["infinity"]
    if dtype != "float32":
        return numbers["float64"].format(repr(value))
    digits = np.format_float_scientific(value, unique=True)  # the shortest ones, as Python lays them out
    return numbers["float32"].format(repr(float(digits)))
