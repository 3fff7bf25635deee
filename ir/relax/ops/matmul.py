"""matmul with numpy's semantics: 1-D operands, broadcast batch dimensions.

b_layout "KN" is the plain [..., K, N]; "NK" has a matrix the other way round. "KN16n" is a constant packed in panels:
[ceil(N / 16), K, 16], zero where N is not a multiple; attribute n_size is the true N. out_dtype (default: the
operands') is also the dtype of the sum.

By an `arithmetic` other than "fma" b_layout is "operands": those that it packed; n_size is N, and rows are of its whole
blocks of terms. Words of bytes (words.py) may be of a batch of matrices. plan: what passes decided of its kernel's
schedule (schedule/plan.py).
"""
from __future__ import annotations

import re

import numpy as np

from ... import te
from ...dtype import DataType
from ...expr import is_const_int
from ...op import InferError, register
from ...tir.intrinsics import INTEGER_DOTS
from ..arithmetic import ARITHMETICS, LANES, Rows
from ..expr import TensorStructInfo
from .common import (broadcast_index, broadcast_shapes, dim_text, fail, need_dtype, need_same_dtype, same_dim,
                     shape_text, te_shape, tensor)
from .contraction import FMA, arithmetic_of, check_operands, contract, product, result_name
from .precision import as_dtype, narrow, of_few_bits, sum_dtype

_PACKED = re.compile(r"KN(\d+)n$")
COPIED_BYTES = 1 << 24  # of weights that the reference copies at a time, to another type or address
OPERANDS = "operands"  # the b_layout of arithmetics with operands of their own


def packed_lanes(b_layout):
    """The n of a packed layout "KN{n}n"; None for any other layout."""
    match = _PACKED.match(b_layout)
    return int(match[1]) if match else None


# ---------------------------------------------------------------- struct info

def _infer(call):
    if call.attrs["arithmetic"] != FMA or len(call.args) != 2:
        return _infer_by(call, arithmetic_of(call))
    a, b = tensor(call, 0), tensor(call, 1)
    need_dtype(call, a, "number")
    need_dtype(call, b, "number")
    dtype = DataType(call.attrs["out_dtype"] or need_same_dtype(call, (a, b)))
    if a.ndim == 0 or b.ndim == 0:
        fail(call, f"takes operands of at least 1 dimension, got shapes {shape_text(a)} and {shape_text(b)}")
    lanes = packed_lanes(call.attrs["b_layout"])
    if lanes is not None:
        return _infer_packed(call, a, b, lanes, dtype)
    if call.attrs["b_layout"] == "NK":
        if b.ndim != 2:
            fail(call, f"b_layout 'NK' is of a matrix, not {shape_text(b)}")
        _check_inner(call, a, b, 1)
        return TensorStructInfo((*a.shape[:-1], b.shape[0]), dtype)
    if call.attrs["b_layout"] != "KN":
        fail(call, f"b_layout {call.attrs['b_layout']!r} must be KN, NK or KN{{n}}n")
    k_axis = max(b.ndim - 2, 0)
    _check_inner(call, a, b, k_axis)
    try:
        batch = broadcast_shapes(call, a.shape[:-2], b.shape[:-2])
    except InferError as error:
        reason = str(error).removeprefix(f"{call.op}: ")
        fail(call, f"batch dimensions (all but the last two) of {shape_text(a)} and {shape_text(b)}: {reason}")
    return TensorStructInfo(batch + a.shape[-2:-1] + (b.shape[-1:] if b.ndim > 1 else ()), dtype)


def _infer_by(call, row):
    a, size, layout = tensor(call, 0), call.attrs["n_size"], call.attrs["b_layout"]
    if layout != OPERANDS:
        fail(call, f"b_layout {layout!r} must be {OPERANDS!r} by {row.name}")
    if a.ndim < 2 or size is None or not is_const_int(a.shape[-1]):
        fail(call, f"takes rows of at least 2 dimensions, the last one static, not {shape_text(a)}, and n_size, by "
                   f"{row.name}")
    depth = a.shape[-1].value
    if depth % row.block:
        fail(call, f"rows {shape_text(a)} must be of whole blocks of {row.block} terms, filled up with zeros, by "
                   f"{row.name}")
    batch = max(tensor(call, 1).ndim - row.operands[0].rank, 0) if row.name in INTEGER_DOTS else 0
    check_operands(call, row, a, depth, size, batch=batch)
    outer = broadcast_shapes(call, a.shape[:-2], tensor(call, 1).shape[:batch])
    return TensorStructInfo((*outer, a.shape[-2], size), row.result)


def _infer_packed(call, a, b, lanes, dtype):
    size = call.attrs["n_size"]
    if size is None:
        fail(call, f"b_layout {call.attrs['b_layout']!r} needs attribute n_size")
    outer = -(-size // lanes)
    if b.ndim != 3 or not same_dim(b.shape[0], outer) or not same_dim(b.shape[2], lanes):
        fail(call, f"packed operand {shape_text(b)} does not hold n_size={size} in blocks of {lanes}: it must be "
                   f"({outer}, {dim_text(a.shape[-1])}, {lanes})")
    _check_inner(call, a, b, 1)
    return TensorStructInfo((*a.shape[:-1], size), dtype)


def _check_inner(call, a, b, k_axis):
    if not same_dim(a.shape[-1], b.shape[k_axis]):
        fail(call, f"shapes {shape_text(a)} and {shape_text(b)} do not multiply: dim {a.ndim - 1} of the first is "
                   f"{dim_text(a.shape[-1])}, dim {k_axis} of the second is {dim_text(b.shape[k_axis])}")


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    if attrs["arithmetic"] != FMA:
        return _lower_by(ARITHMETICS[attrs["arithmetic"]], *args, shape=te_shape(out))
    a, b = args
    lanes = packed_lanes(attrs["b_layout"])
    acc = sum_dtype(out.dtype)
    if lanes is not None:
        return narrow(_lower_packed(a, b, te_shape(out), attrs["b_layout"], acc), out.dtype)
    k, plain = te.reduce_axis((0, a.shape[-1]), "k"), attrs["b_layout"] == "KN"
    rows, columns = min(a.ndim - 1, 1), min(b.ndim - 1, 1)

    def element(*i):
        batch, inner = i[:len(i) - rows - columns], i[len(i) - rows - columns:]
        left = broadcast_index(batch, a.shape[:-2]) + inner[:rows] + (k.var,)
        right = broadcast_index(batch, b.shape[:-2]) + ((k.var,) + inner[rows:] if plain else inner[rows:] + (k.var,))
        return te.sum(a[left].astype(acc) * b[right].astype(acc), k)

    return narrow(te.compute(te_shape(out), _named(element, out.ndim), name="matmul"), out.dtype)


def _named(element, rank):
    """`element` with named axes for te.compute, which calls loops after parameters."""
    return {1: lambda n: element(n), 2: lambda m, n: element(m, n), 3: lambda b, m, n: element(b, m, n),
            4: lambda b, h, m, n: element(b, h, m, n)}.get(rank, element)


def _lower_by(row, a, *operands, shape):
    *outer, lines, _ = shape
    rows = Rows(tuple(outer), lines, (), (int(a.shape[-1]),), lambda at, k: a[(*broadcast_index(at, a.shape[:-1]), *k)])
    batch, given = operands[0].shape[:-row.operands[0].rank], {}
    if batch:
        given["place"] = lambda outer, panel: (*broadcast_index(outer, batch), panel)
    result = contract(row, rows, operands, lambda operand, block, lane: operand[block * LANES + lane], **given)
    return te.compute(shape, lambda *i: result(i[:-1], (i[-1] // LANES, i[-1] % LANES)),
                      name=result_name("matmul", row.name))


def _lower_packed(a, b, shape, b_layout, acc):
    k, lanes = te.reduce_axis((0, a.shape[-1]), "k"), packed_lanes(b_layout)

    def element(*i):
        *rows, outer, lane = i
        return te.sum(a[(*rows, k.var)].astype(acc) * b[outer, k.var, lane].astype(acc), k)

    named = (lambda m, no, ni: element(m, no, ni)) if len(shape) == 2 else element
    packed = te.compute((*shape[:-1], b.shape[0], lanes), named, name="matmul_packed")
    return te.compute(shape, _named(lambda *i: packed[i[:-1] + (i[-1] // lanes, i[-1] % lanes)], len(shape)),
                      name="matmul")


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    if attrs["arithmetic"] != FMA:
        return product(ARITHMETICS[attrs["arithmetic"]], args[0], args[1:], attrs["n_size"])
    a, b = args
    b = b.T if attrs["b_layout"] == "NK" else b
    dtype = DataType(attrs["out_dtype"] or a.dtype.name).numpy
    acc = sum_dtype(dtype.name).numpy
    if of_few_bits(a, b, dtype):
        acc = np.dtype(np.float64)
    if packed_lanes(attrs["b_layout"]) is not None:
        b = b.transpose(1, 0, 2).reshape(b.shape[1], -1)[:, :attrs["n_size"]]
    a = a.astype(acc, copy=False)
    if b.ndim < 2 or b.nbytes <= COPIED_BYTES or b.dtype == acc and b.flags.aligned:
        return as_dtype(np.matmul(a, b.astype(acc, copy=False)), dtype)
    columns = max(1, COPIED_BYTES * b.shape[-1] // b.nbytes)
    parts = [np.matmul(a, b[..., n:n + columns].astype(acc)) for n in range(0, b.shape[-1], columns)]
    return as_dtype(np.concatenate(parts, -1), dtype)


register("matmul", _infer, _lower, _evaluate, "anchor", (2, 4), b_layout="KN", out_dtype=None, n_size=None,
         arithmetic=FMA, plan=None)


# ---------------------------------------------------------------- nn.dense: rows times rows of the weight

def _infer_dense(call):
    x, w = tensor(call, 0), tensor(call, 1)
    dtype = DataType(call.attrs["out_dtype"] or need_same_dtype(call, (x, w)))
    if w.ndim != 2 or x.ndim < 1 or not same_dim(x.shape[-1], w.shape[1]):
        fail(call, f"takes [..., K] and a weight [N, K], not {shape_text(x)} and {shape_text(w)}")
    return TensorStructInfo((*x.shape[:-1], w.shape[0]), dtype)


def _lower_dense(args, attrs, out):
    x, w = args
    k, acc = te.reduce_axis((0, x.shape[-1]), "k"), sum_dtype(out.dtype)
    return narrow(te.compute(te_shape(out), lambda *i: te.sum(
        x[(*i[:-1], k.var)].astype(acc) * w[i[-1], k.var].astype(acc), k), name="dense"), out.dtype)


register("nn.dense", _infer_dense, _lower_dense, lambda args, attrs: _evaluate(
    [args[0], args[1].T], {"arithmetic": FMA, "b_layout": "KN", **attrs}), "anchor", (2, 2), out_dtype=None)
