"""Operators of classic models besides trees: ml.lookup, values by keys; ml.squared_distance between rows;
ml.coupled_probabilities, the probabilities of classes from those of pairs of classes."""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import cast, const, is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, need_rank, need_same_dtype, same_dim, same_shape, shape_text, te_shape, tensors


# ---------------------------------------------------------------- ml.lookup

def _infer_lookup(call):
    """ml.lookup(x, keys [k], values [k], other [1]): the value beside the key that an element is, else `other`. Keys
    are in ascending order; one that is NaN is never found."""
    x, keys, values, other = tensors(call)
    need_dtype(call, x, "number")
    need_same_dtype(call, (x, keys))
    need_same_dtype(call, (values, other))
    if keys.ndim != 1 or not same_shape(keys.shape, values.shape) or not same_dim(other.shape[0], 1):
        fail(call, f"keys {shape_text(keys)} and values {shape_text(values)} must be lists of one length")
    return TensorStructInfo(x.shape, values.dtype)


def _lower_lookup(args, attrs, out):
    """By bisection: the first key that is not below the element."""
    def body(ins, outs):
        ib = tir.ir_builder.create()
        x, keys, values, other, target = map(ib.buffer_ptr, (*ins, *outs))
        size = keys.buffer.shape[0]
        low, high = (ib.allocate("int32", (1,), name) for name in ("low", "high"))
        scopes = [ib.for_range(0, d, f"i{n}") for n, d in enumerate(ins[0].shape)]
        at = tuple(s.__enter__() for s in scopes)
        low[0], high[0] = const(0), cast(size, "int32")
        with ib.while_loop(low[0] < high[0]):
            middle = ib.let("middle", low[0] + (high[0] - low[0]) // 2)
            with ib.if_scope(keys[middle] < x[at]):
                low[0] = middle + 1
            with ib.else_scope():
                high[0] = middle
        target[at] = other[0]
        with ib.if_scope(low[0] < size):
            with ib.if_scope(keys[low[0]] == x[at]):
                target[at] = values[low[0]]
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
        return ib.get()

    return te.extern([te_shape(out)], list(args), body, "lookup", [out.dtype])[0]


def _evaluate_lookup(args, attrs):
    x, keys, values, other = map(np.asarray, args)
    place = np.minimum(np.searchsorted(keys, x), len(keys) - 1)
    return np.where(keys[place] == x, values[place], other[0])


register("ml.lookup", _infer_lookup, _lower_lookup, _evaluate_lookup, "opaque", (4, 4))


# ---------------------------------------------------------------- ml.squared_distance

def _infer_distance(call):
    """ml.squared_distance(x [n, k], y [m, k]): [n, m]."""
    x, y = need_rank(call, 0, 2), need_rank(call, 1, 2)
    need_dtype(call, x, "float")
    need_same_dtype(call, (x, y))
    if not same_dim(x.shape[1], y.shape[1]):
        fail(call, f"rows of {shape_text(x)} and {shape_text(y)} differ in length")
    return TensorStructInfo((x.shape[0], y.shape[0]), x.dtype)


def _lower_distance(args, attrs, out):
    x, y = args
    k = te.reduce_axis((0, x.shape[1]), "k")

    def element(i, j):
        difference = x[i, k.var] - y[j, k.var]
        return te.sum(difference * difference, k)

    return te.compute(te_shape(out), element, name="squared_distance")


def _evaluate_distance(args, attrs):
    x, y = map(np.asarray, args)
    with np.errstate(all="ignore"):
        return np.stack([np.square(x - row).sum(axis=1) for row in y], axis=1).astype(x.dtype)


register("ml.squared_distance", _infer_distance, _lower_distance, _evaluate_distance, "reduction", (2, 2))


# ---------------------------------------------------------------- ml.coupled_probabilities

TURNS, TOLERANCE = 100, 0.005


def _infer_coupled(call):
    """ml.coupled_probabilities(r [n, k, k]), where r[i, j] is how probable class i is against j: [n, k], the
    probabilities that fit best, by the second method of Wu, Lin and Weng (2004)."""
    r = need_rank(call, 0, 3)
    need_dtype(call, r, "float")
    if not is_const_int(r.shape[1]) or not same_dim(r.shape[1], r.shape[2]):
        fail(call, f"{shape_text(r)} must be a square of known size for each row")
    return TensorStructInfo(r.shape[:2], r.dtype)


def _lower_coupled(args, attrs, out):
    dtype, size = out.dtype, int(args[0].shape[1])
    one, zero = const(1, dtype), const(0, dtype)

    def body(ins, outs):
        ib = tir.ir_builder.create()
        r, p = map(ib.buffer_ptr, (ins[0], outs[0]))
        q, qp = ib.allocate(dtype, (size, size), "q"), ib.allocate(dtype, (size,), "qp")
        pqp, worst, step = (ib.allocate(dtype, (1,), name) for name in ("pqp", "worst", "change"))
        turn = ib.allocate("int32", (1,), "turn")
        with ib.for_range(0, ins[0].shape[0], "n") as n:
            with ib.for_range(0, size, "i") as i:
                p[n, i], q[i, i] = const(1 / size, dtype), zero
                with ib.for_range(0, size, "j") as j:
                    with ib.if_scope(i != j):
                        q[i, i] = q[i, i] + r[n, j, i] * r[n, j, i]
                        q[i, j] = zero - r[n, j, i] * r[n, i, j]
            turn[0] = const(0)
            with ib.while_loop(turn[0] < TURNS):
                turn[0] = turn[0] + 1
                pqp[0], worst[0] = zero, zero
                with ib.for_range(0, size, "i") as i:
                    qp[i] = zero
                    with ib.for_range(0, size, "j") as j:
                        qp[i] = qp[i] + q[i, j] * p[n, j]
                    pqp[0] = pqp[0] + p[n, i] * qp[i]
                with ib.for_range(0, size, "i") as i:
                    worst[0] = tir.max(worst[0], tir.abs(qp[i] - pqp[0]))
                with ib.if_scope(worst[0] < const(TOLERANCE / size, dtype)):
                    turn[0] = const(TURNS)
                with ib.else_scope():
                    with ib.for_range(0, size, "i") as i:
                        step[0] = (pqp[0] - qp[i]) / q[i, i]
                        p[n, i] = p[n, i] + step[0]
                        pqp[0] = (pqp[0] + step[0] * (step[0] * q[i, i] + qp[i] + qp[i])) / (one + step[0]) / (
                            one + step[0])
                        with ib.for_range(0, size, "j") as j:
                            qp[j] = (qp[j] + step[0] * q[i, j]) / (one + step[0])
                            p[n, j] = p[n, j] / (one + step[0])
        return ib.get()

    return te.extern([te_shape(out)], list(args), body, "coupled_probabilities", [dtype])[0]


def _evaluate_coupled(args, attrs):
    with np.errstate(all="ignore"):
        return np.stack([_coupled(row) for row in np.asarray(args[0])])


def _coupled(r):
    size, dtype = len(r), r.dtype.type
    r = r * (1 - np.eye(size, dtype=r.dtype))
    q = np.diag(np.square(r).sum(axis=0)) - r.T * r
    p = np.full(size, 1 / size, r.dtype)
    for _ in range(TURNS):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < dtype(TOLERANCE / size):
            break
        for i in range(size):
            step = (pqp - qp[i]) / q[i, i]
            p[i] += step
            pqp = (pqp + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) / (1 + step)
            qp, p = (qp + step * q[i]) / (1 + step), p / (1 + step)
    return p


register("ml.coupled_probabilities", _infer_coupled, _lower_coupled, _evaluate_coupled, "opaque")
