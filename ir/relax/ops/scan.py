"""cumsum, cumprod, logcumsumexp, cummax and cummin: each output element continues the one before it along an axis."""
from __future__ import annotations

import math
from functools import partial

import numpy as np

from ... import te, tir
from ...dtype import DataType
from ...expr import Var, as_expr, cast, const
from ...op import REQUIRED, register
from ..expr import TensorStructInfo, TupleStructInfo
from .common import fail, need_dtype, normalize_axis, te_shape, tensor
from .special import TE, log1p


def _infer(call):
    """dtype None: the input's. exclusive: an element does not count itself."""
    x, dtype = tensor(call), call.attrs["dtype"]
    need_dtype(call, x, "number")
    normalize_axis(call, call.attrs["axis"], x.ndim)
    try:
        return TensorStructInfo(x.shape, dtype or x.dtype)
    except ValueError as error:
        return fail(call, str(error))


def _infer_floats(call):
    need_dtype(call, tensor(call), "float")
    return _infer(call)


def _scanned(shape, axis, store):
    """The loops over a shape, the scan innermost. store(here, before): the statement for one element."""
    at = tuple(Var(f"i{k}", as_expr(d).dtype) for k, d in enumerate(shape))
    loops = store(at, (*at[:axis], at[axis] - 1, *at[axis + 1:]))
    for k in [axis, *(k for k in reversed(range(len(at))) if k != axis)]:
        loops = tir.For(at[k], const(0, at[k].dtype), as_expr(shape[k]), "serial", loops)
    return loops


def _lower(args, attrs, out, name, combine, identity):
    x, axis, exclusive = args[0], attrs["axis"] % args[0].ndim, attrs["exclusive"]

    def body(ins, outs):
        source, target = ins[0], outs[0]

        def store(at, before):
            first = const(identity, out.dtype) if exclusive else source[at].astype(out.dtype)
            rest = combine(target[before], source[before if exclusive else at].astype(out.dtype))
            return tir.BufferStore(target, tir.if_then_else(at[axis] == 0, first, rest), at)
        return _scanned(target.shape, axis, store)

    return te.extern([te_shape(out)], [x], body, name, [out.dtype])[0]


def _evaluate(args, attrs, function, identity):
    x, axis = np.asarray(args[0]), attrs["axis"]
    result = function(x, axis=axis, dtype=DataType(attrs["dtype"] or x.dtype.name).numpy)
    if not attrs["exclusive"] or not x.shape[axis]:
        return result
    first = np.full_like(result.take([0], axis), identity)
    return np.concatenate([first, result.take(range(x.shape[axis] - 1), axis)], axis)


def _log_add(a, b):
    """log(exp(a) + exp(b)), of which none overflows; of two like infinities that."""
    most, least = tir.max(a, b), tir.min(a, b)
    return tir.Select(a == b, a + const(math.log(2), a.dtype), most + log1p(TE, tir.exp(least - most)))


def _numpy_log_add(x, axis, dtype):
    return np.logaddexp.accumulate(x.astype(dtype), axis=axis)


_SCANS = (("cumsum", _infer, lambda a, b: a + b, np.cumsum, 0), ("cumprod", _infer, lambda a, b: a * b, np.cumprod, 1),
          ("logcumsumexp", _infer_floats, _log_add, _numpy_log_add, -math.inf))
for _name, _check, _combine, _numpy, _identity in _SCANS:
    register(_name, _check, partial(_lower, name=_name, combine=_combine, identity=_identity),
             partial(_evaluate, function=_numpy, identity=_identity), "opaque", axis=REQUIRED, dtype=None,
             exclusive=False)


# ---------------------------------------------------------------- extrema so far, and where they are

def _infer_extremum(call):
    x = tensor(call)
    need_dtype(call, x, "number")
    normalize_axis(call, call.attrs["axis"], x.ndim)
    return TupleStructInfo((TensorStructInfo(x.shape, x.dtype), TensorStructInfo(x.shape, "int64")))


def _lower_extremum(args, attrs, out, name):
    """The last of equals counts, and NaN more than numbers, as in torch."""
    x, axis = args[0], attrs["axis"] % args[0].ndim

    def body(ins, outs):
        (source,), (values, places) = ins, outs

        def store(at, before):
            here, best = source[at], values[before]
            wins = here >= best if name == "cummax" else here <= best
            if x.dtype.is_float:
                wins = tir.any(tir.isnan(here), wins)
            first = at[axis] == 0
            value = tir.if_then_else(first, here, tir.if_then_else(wins, here, best))
            place = cast(at[axis], "int64")
            place = tir.if_then_else(first, place, tir.if_then_else(wins, place, places[before]))
            return tir.SeqStmt((tir.BufferStore(places, place, at), tir.BufferStore(values, value, at)))
        return _scanned(values.shape, axis, store)

    return tuple(te.extern([te_shape(f) for f in out.fields], [x], body, name, [f.dtype for f in out.fields]))


def _evaluate_extremum(args, attrs, function):
    x, axis = np.asarray(args[0]), attrs["axis"]
    values = function.accumulate(x, axis=axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    wins = (x == values) | (x != x)
    places = np.where(wins, np.arange(x.shape[axis], dtype=np.int64).reshape(shape), 0)
    return values, np.maximum.accumulate(places, axis=axis)


for _name, _numpy in (("cummax", np.maximum), ("cummin", np.minimum)):
    register(_name, _infer_extremum, partial(_lower_extremum, name=_name),
             partial(_evaluate_extremum, function=_numpy), "opaque", axis=REQUIRED)
