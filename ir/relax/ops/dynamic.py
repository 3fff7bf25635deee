"""Tensors and dimensions, each made of the other; slices by dimensions; results whose size the data decide."""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import Max, Min, Not, Select, Var, as_expr, cast, const, logical_and, logical_or
from ...op import REQUIRED, register
from ...tir import ir_builder
from ...tir.stmt import BufferStore, For, IfThenElse, SeqStmt
from ..expr import TensorStructInfo, TupleStructInfo
from .common import (as_dim, fail, need_rank, normalize_axes, product, same_dim, shape_argument, shape_text, simplify,
                     te_shape, tensor)


def _infer_shape_to_tensor(call):
    """int64 [number of dimensions]."""
    return TensorStructInfo((len(shape_argument(call, 0)),), "int64")


def _lower_shape_to_tensor(args, attrs, out):
    values = [cast(v, "int64") for v in args[0]]

    def element(i):
        chosen = values[-1] if values else const(0, "int64")
        for k, v in reversed(list(enumerate(values[:-1]))):
            chosen = Select(i == k, v, chosen)
        return chosen

    return te.compute((len(values),), element, name="shape")


register("shape_to_tensor", _infer_shape_to_tensor, _lower_shape_to_tensor,
         lambda args, attrs: np.array(args[0], np.int64), "opaque")


# ---------------------------------------------------------------- slices whose place and size are dimensions

def _infer_slice_at(call):
    """slice_at(x, begins, sizes): of each of `axes` the elements begin, begin + stride ..., which must lie in it."""
    x, begins, sizes, axes = tensor(call), shape_argument(call, 1), shape_argument(call, 2), call.attrs["axes"]
    if not len(begins) == len(sizes) == len(axes) == len(call.attrs["strides"]):
        fail(call, f"axes {axes}, strides {call.attrs['strides']}, {len(begins)} begins and {len(sizes)} sizes must "
                   "have one length")
    shape = list(x.shape)
    normalize_axes(call, axes, x.ndim)  # refuses those that are none
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    return TensorStructInfo(tuple(shape), x.dtype)


def _lower_slice_at(args, attrs, out):
    x, begins, _ = args
    parts = {a: (b, s) for a, b, s in zip(attrs["axes"], begins, attrs["strides"])}

    def index(n, i):
        begin, stride = parts.get(n, (0, 1))
        return i * stride + begin

    return te.compute(te_shape(out), lambda *i: x[tuple(index(n, k) for n, k in enumerate(i))], name="slice_at")


def _evaluate_slice_at(args, attrs):
    x, begins, sizes = args
    for axis, begin, size, stride in zip(attrs["axes"], begins, sizes, attrs["strides"]):
        x = np.take(x, begin + stride * np.arange(size), axis)
    return x


register("slice_at", _infer_slice_at, _lower_slice_at, _evaluate_slice_at, "injective", (3, 3), axes=REQUIRED,
         strides=REQUIRED)


# ---------------------------------------------------------------- results whose size the data decide
# They come in tensors of the largest size, of which the first rows are meant, with their number [1] beside them.

def _infer_nonzero(call):
    """list_nonzero(x): (indices of the elements that are not 0, [elements of x, dimensions of x]; their number)."""
    x = tensor(call)
    return TupleStructInfo((TensorStructInfo((as_dim(product(x.shape)), as_dim(max(x.ndim, 1))), "int64"), _NUMBER))


def _lower_nonzero(args, attrs, out):
    def body(ins, outs):
        (x,), (places, number) = ins, outs
        at = [Var(f"i{k}", as_expr(d).dtype) for k, d in enumerate(x.shape)]
        count = number[0]
        kept = [BufferStore(places, cast(i, "int64"), (count, const(k))) for k, i in enumerate(at)] or [
            BufferStore(places, const(0, "int64"), (count, const(0)))]
        found = SeqStmt((*kept, BufferStore(number, count + 1, (const(0),))))
        loops = IfThenElse(x[tuple(at)] != const(0, x.dtype) if not x.dtype.is_bool else x[tuple(at)], found)
        for i, extent in reversed(list(zip(at, x.shape))):
            loops = For(i, const(0, i.dtype), as_expr(extent), "serial", loops)
        return SeqStmt((BufferStore(number, const(0, "int64"), (const(0),)), loops))

    return tuple(te.extern([te_shape(f) for f in out.fields], [args[0]], body, "list_nonzero", ["int64"] * 2))


def _evaluate_nonzero(args, attrs):
    x = np.asarray(args[0])
    found = np.argwhere(x.reshape(x.shape or (1,)))
    return _padded(found, x.size), np.array([len(found)], np.int64)


_NUMBER = TensorStructInfo((1,), "int64")
register("list_nonzero", _infer_nonzero, _lower_nonzero, _evaluate_nonzero, "opaque")


def _padded(rows, most):
    """`rows` with rows of 0 after them."""
    return np.concatenate([rows, np.zeros((most - len(rows), *rows.shape[1:]), rows.dtype)]).astype(np.int64)


def _infer_unique(call):
    """list_unique(x [n, k]): of the rows that are no repetitions, in order of their values (sorted) or of occurrence:
    (where each occurs first [n]; which of them each row of x is [n]; how often each occurs [n]; their number)."""
    x = need_rank(call, 0, 2)
    return TupleStructInfo((*(TensorStructInfo((x.shape[0],), "int64"),) * 3, _NUMBER))


def _lower_unique(args, attrs, out):
    """Insertion into a sorted list. `number` holds the number, then the sign of a comparison and a place."""
    def body(ins, outs):
        (x,), (first, inverse, counts, number, state) = ins, outs
        ib = ir_builder.create()
        x, first, inverse, counts, number, state = map(ib.buffer_ptr, (x, first, inverse, counts, number, state))
        rows, columns = args[0].shape
        zero, one = const(0, "int64"), const(1, "int64")

        def less(p, q):
            """p < q; NaN is one value, after all numbers."""
            if not args[0].dtype.is_float:
                return p < q
            p, q = (cast(v, "float32") if v.dtype.bits < 32 else v for v in (p, q))
            return logical_or(p < q, logical_and(tir.isnan(q), Not(tir.isnan(p))))

        def compare(a, b):
            """state[0] = the sign of row a less row b."""
            state[0] = zero
            with ib.for_range(0, columns, "k") as k:
                with ib.if_scope(state[0] == 0):
                    with ib.if_scope(less(x[a, k], x[b, k])):
                        state[0] = -one
                    with ib.if_scope(less(x[b, k], x[a, k])):
                        state[0] = one

        def search(i):
            """state[1]: the place among the unique rows that row i has, or comes to; state[2]: whether it is there."""
            state[1], state[2] = zero, zero
            with ib.for_range(0, number[0], "u", dtype="int64") as u:
                with ib.if_scope(state[2] == 0):
                    compare(i, first[u])
                    with ib.if_scope(state[0] == 0):
                        state[1] = u
                        state[2] = one
                    with ib.else_scope():
                        if attrs["sorted"]:
                            with ib.if_scope(state[0] > 0):
                                state[1] = u + 1
                        else:
                            state[1] = u + 1

        number[0] = zero
        with ib.for_range(0, rows, "i") as i:
            search(cast(i, "int64"))
            with ib.if_scope(state[2] == 0):
                with ib.for_range(0, number[0] - state[1], "s", dtype="int64") as s:
                    first[number[0] - s] = first[number[0] - s - 1]
                first[state[1]] = cast(i, "int64")
                counts[number[0]] = zero
                number[0] = number[0] + 1
        with ib.for_range(0, rows, "j") as j:
            search(cast(j, "int64"))
            inverse[j] = state[1]
            counts[state[1]] = counts[state[1]] + 1
        return ib.get()

    shapes = [*(te_shape(f) for f in out.fields), (3,)]
    return tuple(te.extern(shapes, [args[0]], body, "list_unique", ["int64"] * 5))[:4]


def _evaluate_unique(args, attrs):
    x = np.asarray(args[0])
    if x.dtype.kind not in "biu":  # numbers in the place of values, as numpy has several NaNs in rows
        columns = [np.unique(c.astype(np.float64), return_inverse=True)[1].reshape(-1) for c in x.T]
        x = np.stack(columns, axis=1) if columns else x
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=0)
    inverse = inverse.reshape(-1)
    if not attrs["sorted"]:
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return *(_padded(a, len(x)) for a in (first,)), inverse.astype(np.int64), _padded(counts, len(x)), np.array(
        [len(first)], np.int64)


register("list_unique", _infer_unique, _lower_unique, _evaluate_unique, "opaque", sorted=True)


def _infer_nms(call):
    """image.list_boxes(boxes [batch, n, 4], scores [batch, classes, n], limit, overlap, least), the last three without
    dimensions: (batch, class and number of the boxes that are kept, [batch * classes * min(n, most), 3]; their number):
    of each class the best `limit`, whose scores are above `least`, but none that shares more than `overlap` with a
    better one. most: what `limit` is at most. corners: whether boxes are two corners, y and x, else centers and sizes,
    x and y."""
    boxes, scores = need_rank(call, 0, 3), need_rank(call, 1, 3)
    if not (same_dim(boxes.shape[0], scores.shape[0]) and same_dim(boxes.shape[1], scores.shape[2]) and
            same_dim(boxes.shape[2], 4)) or boxes.dtype != scores.dtype:
        fail(call, f"boxes {shape_text(boxes)} and scores {shape_text(scores)} do not fit")
    rows = product([*scores.shape[:2], Min(boxes.shape[1], as_dim(call.attrs["most"]))])
    return TupleStructInfo((TensorStructInfo((simplify(as_dim(rows)), 3), "int64"), _NUMBER))


def _lower_nms(args, attrs, out):
    boxes, scores = args[:2]
    dtype = boxes.dtype

    def body(ins, outs):
        ib = ir_builder.create()
        b, s, limit, shared, least, places, number, best, alive = map(ib.buffer_ptr, (*ins, *outs))
        batches, classes, n = scores.shape
        zero, one = const(0, "int64"), const(1, "int64")

        def edges(batch, k):
            y, x, h, w = (b[batch, k, c] for c in range(4))
            if attrs["corners"]:
                return Min(y, h), Min(x, w), Max(y, h), Max(x, w)
            half = const(0.5, dtype)  # x, y, width, height
            return x - w * half, y - h * half, x + w * half, y + h * half

        def overlap(batch, i, j):
            """(what two boxes share, what both cover)."""
            p, q = edges(batch, i), edges(batch, j)
            none = const(0, dtype)
            sides = [Max(Min(p[k + 2], q[k + 2]) - Max(p[k], q[k]), none) for k in (0, 1)]
            areas = [(e[2] - e[0]) * (e[3] - e[1]) for e in (p, q)]
            both = sides[0] * sides[1]
            return both, areas[0] + areas[1] - both

        number[0] = zero
        with ib.for_range(0, batches, "batch") as batch:
            with ib.for_range(0, classes, "kind") as kind:
                with ib.for_range(0, n, "i") as i:
                    alive[i] = cast(s[batch, kind, i] > least[()], "int64")
                best[0] = zero
                with ib.for_range(0, Min(as_expr(n), const(attrs["most"], as_expr(n).dtype)), "turn") as turn:
                    with ib.if_scope(logical_and(best[0] >= 0, cast(turn, "int64") < limit[()])):
                        best[0] = -one
                        with ib.for_range(0, n, "j") as j:
                            with ib.if_scope(alive[j] != 0):
                                with ib.if_scope(best[0] < 0):
                                    best[0] = cast(j, "int64")
                                with ib.else_scope():
                                    with ib.if_scope(s[batch, kind, j] > s[batch, kind, best[0]]):
                                        best[0] = cast(j, "int64")
                        with ib.if_scope(best[0] >= 0):
                            for c, value in enumerate((batch, kind, best[0])):
                                places[number[0], c] = cast(value, "int64")
                            number[0] = number[0] + 1
                            alive[best[0]] = zero
                            with ib.for_range(0, n, "k") as k:
                                both, all_ = overlap(batch, k, best[0])
                                with ib.if_scope(both > all_ * shared[()]):
                                    alive[k] = zero
        return ib.get()

    shapes = [*(te_shape(f) for f in out.fields), (1,), (boxes.shape[1],)]
    return tuple(te.extern(shapes, list(args), body, "list_boxes", ["int64"] * 4))[:2]


def _evaluate_nms(args, attrs):
    boxes, scores, limit, overlap, least = map(np.asarray, args)
    kept = []
    for batch in range(scores.shape[0]):
        if attrs["corners"]:
            a, c = boxes[batch, :, :2], boxes[batch, :, 2:]
            low, high = np.minimum(a, c), np.maximum(a, c)
        else:
            half = boxes[batch, :, 2:] * boxes.dtype.type(0.5)
            low, high = boxes[batch, :, :2] - half, boxes[batch, :, :2] + half
        area = np.prod(high - low, axis=1)
        for kind in range(scores.shape[1]):
            alive = scores[batch, kind] > least
            for _ in range(min(boxes.shape[1], attrs["most"], int(limit))):
                if not alive.any():
                    break
                best = int(np.argmax(np.where(alive, scores[batch, kind], -np.inf)))
                kept.append((batch, kind, best))
                alive[best] = False
                both = np.prod(np.maximum(np.minimum(high, high[best]) - np.maximum(low, low[best]), 0), axis=1)
                alive &= ~(both > (area + area[best] - both) * overlap)
    most = scores.shape[0] * scores.shape[1] * min(boxes.shape[1], attrs["most"])
    return _padded(np.array(kept, np.int64).reshape(-1, 3), most), np.array([len(kept)], np.int64)


register("image.list_boxes", _infer_nms, _lower_nms, _evaluate_nms, "opaque", (5, 5), most=REQUIRED,
         corners=True)
