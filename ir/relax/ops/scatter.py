"""scatter_elements, scatter_nd and gather_nd: elements at places that other tensors hold.

Indices below 0 count from the end; those out of range are held inside, so that no access strays. Of updates to one
place the last one stays, or all take part where `reduction` says how.
"""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import is_const_int
from ...op import register
from ..expr import TensorStructInfo
from .common import (fail, need_dtype, need_same_dtype, normalize_axis, same_dim, same_shape, shape_text,
                     te_shape, tensors)
from .injective import held_index, hold_indices

# reduction -> (of expressions, the ufunc)
REDUCTIONS = {
    "none": (lambda old, new: new, None),
    "add": (lambda old, new: old + new, np.add),
    "mul": (lambda old, new: old * new, np.multiply),
    "min": (tir.min, np.minimum),
    "max": (tir.max, np.maximum),
}


def _check_update(call, x, indices, updates):
    need_dtype(call, indices, "int")
    need_same_dtype(call, [x, updates])
    reduction = call.attrs["reduction"]
    if reduction not in REDUCTIONS:
        fail(call, f"reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")
    if reduction != "none" and not x.dtype.is_bool:
        need_dtype(call, x, "number")


def _combined(old, new, reduction):
    """The element that a place holds after an update."""
    if old.dtype.is_bool and reduction != "none":  # sums and maxima of bools are "or", products and minima "and"
        return (tir.any if reduction in ("add", "max") else tir.all)(old, new)
    return REDUCTIONS[reduction][0](old, new)


def _loops(ib, shape, name):
    """(indices, scopes) of nested loops over a shape; the scopes are left in reverse."""
    scopes = [ib.for_range(0, d, f"{name}{k}") for k, d in enumerate(shape)]
    return [s.__enter__() for s in scopes], scopes


def _leave(scopes):
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)


def updated(args, out, name, places, reduction):
    """The tensor `args[0]` with args[2] stored where places(indices buffer, position in the updates) says."""
    def body(ins, outs):
        ib = tir.ir_builder.create()
        x, indices, updates, target = (ib.buffer_ptr(b) for b in (*ins, outs[0]))
        at, scopes = _loops(ib, ins[0].shape, "i")
        target[tuple(at)] = x[tuple(at)]
        _leave(scopes)
        at, scopes = _loops(ib, ins[2].shape, "u")
        place = places(indices, at)
        target[place] = _combined(target[place], updates[tuple(at)], reduction)
        _leave(scopes)
        return ib.get()

    return te.extern([te_shape(out)], list(args), body, name, [out.dtype])[0]


# ---------------------------------------------------------------- scatter_elements

def _infer_elements(call):
    x, indices, updates = tensors(call)
    axis = normalize_axis(call, call.attrs["axis"], x.ndim)
    _check_update(call, x, indices, updates)
    fits = indices.ndim == x.ndim and same_shape(indices.shape, updates.shape) and all(
        k == axis or same_dim(a, b) or is_const_int(a) and is_const_int(b) and b.value <= a.value
        for k, (a, b) in enumerate(zip(x.shape, indices.shape)))
    if not fits:
        fail(call, f"indices {shape_text(indices)} and updates {shape_text(updates)} must have one shape, which fits "
                   f"inside {shape_text(x)} outside axis {axis}")
    return x


def _lower_elements(args, attrs, out):
    axis = attrs["axis"] % out.ndim
    extent = args[0].shape[axis]

    def places(indices, at):
        return (*at[:axis], held_index(indices[tuple(at)], extent), *at[axis + 1:])

    return updated(args, out, "scatter_elements", places, attrs["reduction"])


def _evaluate_elements(args, attrs):
    x, indices, updates = (np.asarray(a) for a in args)
    axis = attrs["axis"] % x.ndim
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis] = hold_indices(indices, x.shape[axis])
    return _scattered(x, tuple(np.broadcast_arrays(*grid)), updates, attrs["reduction"])


def _scattered(x, places, updates, reduction):
    result, ufunc = x.copy(), REDUCTIONS[reduction][1]
    if ufunc is None:
        result[places] = updates  # numpy keeps the last one
    else:
        with np.errstate(all="ignore"):
            ufunc.at(result, places, updates)
    return result


# ---------------------------------------------------------------- scatter_nd

def _depth(call, x, indices, skipped=0):
    """How many axes of x the last dimension of indices names."""
    depth = indices.shape[-1] if indices.ndim else None
    if not is_const_int(depth) or not 1 <= depth.value <= x.ndim - skipped:
        fail(call, f"the last dimension of indices {shape_text(indices)} must be a number of 1 to {x.ndim - skipped}: "
                   f"the axes of {shape_text(x)} that are indexed")
    return depth.value


def _infer_nd(call):
    x, indices, updates = tensors(call)
    _check_update(call, x, indices, updates)
    wanted = (*indices.shape[:-1], *x.shape[_depth(call, x, indices):])
    if not same_shape(updates.shape, wanted):
        fail(call, f"updates {shape_text(updates)} must be {shape_text(wanted)}: for indices {shape_text(indices)} of "
                   f"{shape_text(x)}")
    return x


def _lower_nd(args, attrs, out):
    x, rank, depth = args[0], args[1].ndim - 1, int(args[1].shape[-1])

    def places(indices, at):
        found = (held_index(indices[(*at[:rank], k)], x.shape[k]) for k in range(depth))
        return (*found, *at[rank:])

    return updated(args, out, "scatter_nd", places, attrs["reduction"])


def _evaluate_nd(args, attrs):
    x, indices, updates = (np.asarray(a) for a in args)
    places = tuple(hold_indices(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))
    return _scattered(x, places, updates, attrs["reduction"])


register("scatter_elements", _infer_elements, _lower_elements, _evaluate_elements, "opaque", arity=(3, 3), axis=0,
         reduction="none")
register("scatter_nd", _infer_nd, _lower_nd, _evaluate_nd, "opaque", arity=(3, 3), reduction="none")


# ---------------------------------------------------------------- gather_nd

def _infer_gather_nd(call):
    x, indices = tensors(call)
    need_dtype(call, indices, "int")
    batch = call.attrs["batch_dims"]
    if not 0 <= batch < min(x.ndim, indices.ndim) or not same_shape(x.shape[:batch], indices.shape[:batch]):
        fail(call, f"the first {batch} dimensions (batch_dims) of {shape_text(x)} and of indices {shape_text(indices)} "
                   "must be the same")
    depth = _depth(call, x, indices, batch)
    for k in range(batch, batch + depth):
        if is_const_int(x.shape[k], 0):
            fail(call, f"axis {k} of {shape_text(x)} has no elements that an index could mean")
    return TensorStructInfo((*indices.shape[:-1], *x.shape[batch + depth:]), x.dtype)


def _lower_gather_nd(args, attrs, out):
    x, indices = args
    rank, depth, batch = indices.ndim - 1, int(indices.shape[-1]), attrs["batch_dims"]

    def element(*i):
        found = (held_index(indices[(*i[:rank], k)], x.shape[batch + k]) for k in range(depth))
        return x[(*i[:batch], *found, *i[rank:])]

    return te.compute(te_shape(out), element, name="gather_nd")


def _evaluate_gather_nd(args, attrs):
    x, indices = (np.asarray(a) for a in args)
    batch = attrs["batch_dims"]
    grid = np.indices(indices.shape[:-1], sparse=True)[:batch]
    return x[(*grid, *(hold_indices(indices[..., k], x.shape[batch + k]) for k in range(indices.shape[-1])))]


register("gather_nd", _infer_gather_nd, _lower_gather_nd, _evaluate_gather_nd, "injective", arity=(2, 2), batch_dims=0)
