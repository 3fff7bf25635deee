"""topk: the k greatest or least elements along an axis, in order, and where they are. NaN counts as the greatest."""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import as_expr, cast, const, is_const_int
from ...op import REQUIRED, register
from ..expr import TensorStructInfo, TupleStructInfo
from .common import as_dim, fail, need_dtype, normalize_axis, same_dim, shape_text, te_shape, tensor


def _infer(call):
    x, k = tensor(call), call.attrs["k"]
    need_dtype(call, x, "number")
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    extent = x.shape[axis]
    if not isinstance(k, int) and same_dim(k, extent):  # all of an axis whose extent a run tells
        return TupleStructInfo((TensorStructInfo(x.shape, x.dtype), TensorStructInfo(x.shape, "int64")))
    if not isinstance(k, int) or k < 1 or is_const_int(extent) and k > extent.value:
        fail(call, f"k={k} must be from 1 to the elements of axis {axis} of {shape_text(x)}")
    if not is_const_int(extent):
        fail(call, f"axis {axis} of {shape_text(x)} is symbolic; topk needs its size: pin it (compile with "
                   "dims={name: size}, or --dim name=size)")
    shape = (*x.shape[:axis], as_dim(k), *x.shape[axis + 1:])
    return TupleStructInfo((TensorStructInfo(shape, x.dtype), TensorStructInfo(shape, "int64")))


def _before(a, b, largest):
    """Whether a comes before b, which stood before it in the tensor."""
    if largest:
        first = a > b
        return tir.any(first, tir.all(tir.isnan(a), tir.Not(tir.isnan(b)))) if a.dtype.is_float else first
    first = a < b
    return tir.any(first, tir.all(tir.isnan(b), tir.Not(tir.isnan(a)))) if a.dtype.is_float else first


def _lower(args, attrs, out):
    """Each element goes down the list of those found to the first that it is before, from which on all move down: so
    the list stays in order, and of equals the first stays ahead."""
    x, k, largest = args[0], attrs["k"], attrs["largest"]
    axis = attrs["axis"] % x.ndim

    def body(ins, outs):
        ib = tir.ir_builder.create()
        source, values, places = (ib.buffer_ptr(b) for b in (*ins, *outs))
        value, place = (ib.allocate(d, (1,), n) for d, n in ((x.dtype, "value"), ("int64", "place")))
        swapped, moved = (ib.allocate(d, (1,), n) for d, n in ((x.dtype, "swapped"), ("int64", "moved")))
        found = ib.allocate("int32", (1,), "found")
        others = [ib.for_range(0, d, f"i{n}") for n, d in enumerate(ins[0].shape) if n != axis]
        at = [s.__enter__() for s in others]
        with ib.for_range(0, ins[0].shape[axis], "j") as j:
            value[0], place[0] = source[(*at[:axis], j, *at[axis:])], cast(j, "int64")
            found[0] = const(0)
            last = (*at[:axis], as_expr(k - 1), *at[axis:])
            with ib.if_scope(tir.any(j < k, _before(value[0], values[last], largest))):
                with ib.for_range(0, k, "p") as p:
                    spot = (*at[:axis], p, *at[axis:])
                    with ib.if_scope(p >= j):  # nothing is there yet
                        values[spot], places[spot] = value[0], place[0]
                    with ib.else_scope():
                        with ib.if_scope(tir.any(found[0] > 0, _before(value[0], values[spot], largest))):
                            found[0] = const(1)
                            swapped[0], moved[0] = values[spot], places[spot]
                            values[spot], places[spot] = value[0], place[0]
                            value[0], place[0] = swapped[0], moved[0]
        for scope in reversed(others):
            scope.__exit__(None, None, None)
        return ib.get()

    return tuple(te.extern([te_shape(f) for f in out.fields], [x], body, "topk", [f.dtype for f in out.fields]))


def _evaluate(args, attrs):
    x, axis = np.asarray(args[0]), attrs["axis"] % np.ndim(args[0])
    if attrs["largest"]:  # sorted backwards, from the end, so that of equals the first comes last
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    count = attrs["k"] if isinstance(attrs["k"], int) else x.shape[axis]
    order = np.take(order, np.arange(count), axis).astype(np.int64)
    return np.take_along_axis(x, order, axis), order


register("topk", _infer, _lower, _evaluate, "opaque", k=REQUIRED, axis=-1, largest=True)
