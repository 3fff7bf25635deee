"""matmul_quantized: rows of floats times columns that are integers of a few bits, with a scale for each block of terms.

    y[m, n] = sum over blocks g: scales[n, g] * sum over terms k of g: x[m, k] * (w[n, k] - zeros[n, g])

x [..., M, K] and scales [N, G] are float32; w [N, K] are int8, int4 or int2; zeros [N, G], which may be left out, are
float32. Blocks have K / G terms. So it is with b_layout "NK".

With "words" the columns are constants in the order in which a tile of sums reads them, `panel` columns beside one
another: w [ceil(N / panel), K / n, panel] of float32, whose 32 bits are n terms of a column, the first one lowest, or
of 8 bits the numbers themselves, and scales and zeros [ceil(N / panel), G, panel]. n_size is N, bits those of a term.
plan: what passes decided of its kernel's schedule (schedule/plan.py).
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import const, is_const_int
from ...op import register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import fail, need_dtype, need_rank, same_dim, shape_text, te_shape, tensor

WORDS, PLAIN = "words", "NK"
BLOCKS, SUMS, ROWS, DIVIDED = STAGES = [f"quantized_{name}" for name in ("blocks", "sums", "rows", "divided")]
_WORD = 32


def terms_of_word(bits):
    """How many terms a word holds; numbers of 8 bits are stored as they are."""
    return _WORD // bits if bits < 8 else 1


def fits_words(depth, blocks, bits):
    """Whether blocks of terms are whole words."""
    return depth // blocks % terms_of_word(bits) == 0


# ---------------------------------------------------------------- packing

def pack(w, bits, panel):
    """Integers [N, K] as words."""
    n, (rows, depth) = terms_of_word(bits), w.shape
    w = np.pad(w.astype(np.int8), ((0, -rows % panel), (0, 0)))
    w = w.reshape(-1, panel, depth // n, n).transpose(0, 2, 1, 3)
    if n == 1:
        return np.ascontiguousarray(w[..., 0]).astype(np.float32)
    words = np.zeros(w.shape[:-1], np.uint32)
    for k in range(n):
        words |= (w[..., k].astype(np.uint32) & np.uint32((1 << bits) - 1)) << np.uint32(bits * k)
    return words.view(np.float32)


def unpack(words, bits, columns):
    """The integers [N, K] of words, as float32."""
    n = terms_of_word(bits)
    top_bits = intrin.BIT_INTRINSICS["top_bits"].numpy
    parts = [top_bits(words, bits * k, bits) * _unit(bits) for k in range(n)] if n > 1 else [words]
    terms = np.stack(parts, axis=2).reshape(words.shape[0], -1, words.shape[2])
    return terms.transpose(0, 2, 1).reshape(-1, terms.shape[1])[:columns]


def _unit(bits):
    """What the highest bits of a word are times, to be the number that they are by themselves."""
    return np.float32(2.0 ** (bits - _WORD))


def pack_blocks(values, panel):
    """Numbers [N, G] of blocks in panels."""
    values = np.pad(values, ((0, -len(values) % panel), (0, 0)))
    return np.ascontiguousarray(values.reshape(-1, panel, values.shape[1]).swapaxes(1, 2))


# ---------------------------------------------------------------- struct info

def _infer(call):
    layout = call.attrs["b_layout"]
    if layout not in (PLAIN, WORDS):
        fail(call, f"b_layout {layout!r} must be {PLAIN} or {WORDS}")
    x, w, *blocks = (tensor(call, k) for k in range(len(call.args)))
    if x.ndim < 2 or not is_const_int(x.shape[-1]):
        fail(call, f"takes rows of at least 2 dimensions, the last one static, not {shape_text(x)}")
    for info in (x, *blocks):
        if info.dtype != "float32":
            need_dtype(call, info, "float")
            fail(call, f"computes in float32, not {info.dtype}")
    rank = 3 if layout == WORDS else 2
    for k in range(1, len(call.args)):
        need_rank(call, k, rank)
    depth, size = x.shape[-1].value, call.attrs["n_size"] if layout == WORDS else w.shape[0]
    n = terms_of_word(call.attrs["bits"]) if layout == WORDS else 1
    lead = (w.shape[0], w.shape[2]) if layout == WORDS else (w.shape[0],)
    groups = blocks[0].shape[1]
    wanted = [(lead[0], depth // n, *lead[1:]), *[(lead[0], groups, *lead[1:])] * len(blocks)]
    for info, shape in zip((w, *blocks), wanted):
        if not all(map(same_dim, info.shape, shape)):
            fail(call, f"shapes {shape_text(x)}, {shape_text(w)} and {', '.join(map(shape_text, blocks))} do not fit")
    if not is_const_int(groups) or depth % groups.value:
        fail(call, f"{depth} terms are no whole number of {shape_text(blocks[0])}'s blocks")
    return TensorStructInfo((*x.shape[:-1], size), "float32")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    x, w, scales, *zeros = args
    groups, depth = int(scales.shape[1]), int(x.shape[-1])
    size, shape = depth // groups, te_shape(out)
    if attrs["b_layout"] == PLAIN:
        return _lower_plain(x, w, scales, zeros, groups, size, shape)
    rows, panels, panel = shape[:-1], int(w.shape[0]), int(w.shape[2])
    bits, n = attrs["bits"], terms_of_word(attrs["bits"])
    word, term = te.reduce_axis((0, size // n), "k"), te.reduce_axis((0, n), "t")
    # Rows are divided, not scales: large numbers stay finite.
    divided = x if n == 1 else te.compute(
        (*rows, depth), lambda *i: x[i] * const(float(_unit(bits)), "float32"), name=DIVIDED)

    def element(*i):
        *at, p, g, c = i
        own = w[p, g * (size // n) + word.var, c]
        own = own if n == 1 else intrin.top_bits(own, term.var * bits, bits)
        return te.sum(divided[(*at, g * size + word.var * n + term.var)] * own, [word, term])

    sums = te.compute((*rows, panels, groups, panel), element, name=BLOCKS)
    whole = _sums_of_rows(x, rows, groups, size) if zeros else None
    g = te.reduce_axis((0, groups), "g")

    def total(*i):
        *at, p, c = i
        part = sums[(*at, p, g.var, c)]
        part = part - whole[(*at, g.var)] * zeros[0][p, g.var, c] if zeros else part
        return te.sum(part * scales[p, g.var, c], g)

    made = te.compute((*rows, panels, panel), total, name=SUMS)
    return te.compute(shape, lambda *i: made[(*i[:-1], i[-1] // panel, i[-1] % panel)], name="matmul_quantized")


def _sums_of_rows(x, rows, groups, size):
    """The sums of the terms of each block."""
    k = te.reduce_axis((0, size), "k")
    return te.compute((*rows, groups), lambda *i: te.sum(x[(*i[:-1], i[-1] * size + k.var)], k), name=ROWS)


def _lower_plain(x, w, scales, zeros, groups, size, shape):
    k, g = te.reduce_axis((0, size), "k"), te.reduce_axis((0, groups), "g")

    def element(*i):
        *at, n, b = i
        own = w[n, b * size + k.var].astype("float32")
        return te.sum(x[(*at, b * size + k.var)] * (own - zeros[0][n, b] if zeros else own), k)

    sums = te.compute((*shape, groups), element, name=BLOCKS)
    return te.compute(shape, lambda *i: te.sum(sums[(*i, g.var)] * scales[i[-1], g.var], g), name="matmul_quantized")


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    x, w, scales, *zeros = args
    if attrs["b_layout"] == WORDS:
        columns = attrs["n_size"]
        w = unpack(w, attrs["bits"], columns)
        scales, *zeros = (v.transpose(0, 2, 1).reshape(-1, v.shape[1])[:columns] for v in (scales, *zeros))
    return x @ dequantized(w, scales, *zeros).T


def dequantized(w, scales, zeros=None):
    """The columns [N, K] as float32."""
    whole = w.astype(np.float32).reshape(*scales.shape, -1)
    whole = whole if zeros is None else whole - zeros[..., None]
    return (whole * scales[..., None]).reshape(w.shape)


register("matmul_quantized", _infer, _lower, _evaluate, "anchor", (3, 4), b_layout=PLAIN, n_size=None, bits=8,
         plan=None)
