"""cumsum and cumprod: each output element continues the one before it along an axis."""
from __future__ import annotations

from functools import partial

import numpy as np

from ... import te, tir
from ...dtype import DataType
from ...expr import Var, as_expr, const
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, normalize_axis, te_shape, tensor


def _infer(call):
    """dtype None: the input's. exclusive: an element does not count itself."""
    x, dtype = tensor(call), call.attrs["dtype"]
    need_dtype(call, x, "number")
    normalize_axis(call, call.attrs["axis"], x.ndim)
    try:
        return TensorStructInfo(x.shape, dtype or x.dtype)
    except ValueError as error:
        return fail(call, str(error))


def _lower(args, attrs, out, name, combine, identity):
    x, axis, exclusive = args[0], attrs["axis"] % args[0].ndim, attrs["exclusive"]

    def body(ins, outs):
        source, target = ins[0], outs[0]
        at = tuple(Var(f"i{k}", as_expr(d).dtype) for k, d in enumerate(target.shape))
        before = (*at[:axis], at[axis] - 1, *at[axis + 1:])
        first = const(identity, out.dtype) if exclusive else source[at].astype(out.dtype)
        rest = combine(target[before], source[before if exclusive else at].astype(out.dtype))
        loops = tir.BufferStore(target, tir.if_then_else(at[axis] == 0, first, rest), at)
        for k in [axis, *(k for k in reversed(range(len(at))) if k != axis)]:  # the scan is innermost
            loops = tir.For(at[k], const(0, at[k].dtype), as_expr(target.shape[k]), "serial", loops)
        return loops

    return te.extern([te_shape(out)], [x], body, name, [out.dtype])[0]


def _evaluate(args, attrs, function, identity):
    x, axis = np.asarray(args[0]), attrs["axis"]
    result = function(x, axis=axis, dtype=DataType(attrs["dtype"] or x.dtype.name).numpy)
    if not attrs["exclusive"] or not x.shape[axis]:
        return result
    first = np.full_like(result.take([0], axis), identity)
    return np.concatenate([first, result.take(range(x.shape[axis] - 1), axis)], axis)


for _name, _combine, _numpy, _identity in (("cumsum", lambda a, b: a + b, np.cumsum, 0),
                                           ("cumprod", lambda a, b: a * b, np.cumprod, 1)):
    register(_name, _infer, partial(_lower, name=_name, combine=_combine, identity=_identity),
             partial(_evaluate, function=_numpy, identity=_identity), "opaque", axis=REQUIRED, dtype=None,
             exclusive=False)
