"""det: the determinants of the matrices that the last two axes hold."""
from __future__ import annotations

import numpy as np

from ... import te, tir
from ...expr import const
from ...op import register
from ..expr import TensorStructInfo
from .common import fail, need_dtype, same_dim, shape_text, te_shape, tensor
from .precision import narrow, sum_dtype, widen_array


def _infer(call):
    x = tensor(call)
    need_dtype(call, x, "float")
    if x.ndim < 2 or not same_dim(x.shape[-1], x.shape[-2]):
        fail(call, f"takes square matrices in the last two axes, got {shape_text(x)}")
    return TensorStructInfo(x.shape[:-2], x.dtype)


def _lower(args, attrs, out):
    """Gaussian elimination with the greatest element of a column as the pivot: rows change places, and the sign."""
    x, = args
    acc, size = sum_dtype(x.dtype), x.shape[-1]

    def body(ins, outs):
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        m = ib.allocate(acc, (size, size), "rows")
        det, other = (ib.allocate(acc, (1,), n) for n in ("det", "factor"))
        pivot = ib.allocate("int32", (1,), "pivot")
        scopes = [ib.for_range(0, d, f"b{k}") for k, d in enumerate(outs[0].shape)]
        at = tuple(s.__enter__() for s in scopes)
        with ib.for_range(0, size, "i") as i:
            with ib.for_range(0, size, "j") as j:
                m[i, j] = source[(*at, i, j)].astype(acc)
        det[0] = const(1.0, acc)
        with ib.for_range(0, size, "k") as k:
            pivot[0] = k.astype("int32")
            with ib.for_range(k + 1, size, "i") as i:
                with ib.if_scope(tir.abs(m[i, k]) > tir.abs(m[pivot[0].astype(k.dtype), k])):
                    pivot[0] = i.astype("int32")
            with ib.if_scope(pivot[0].astype(k.dtype) != k):
                det[0] = const(-1.0, acc) * det[0]
                with ib.for_range(0, size, "j") as j:
                    other[0] = m[k, j]
                    m[k, j] = m[pivot[0].astype(k.dtype), j]
                    m[pivot[0].astype(k.dtype), j] = other[0]
            det[0] = det[0] * m[k, k]
            with ib.if_scope(m[k, k] != const(0.0, acc)):
                with ib.for_range(k + 1, size, "i") as i:
                    other[0] = m[i, k] / m[k, k]
                    with ib.for_range(k + 1, size, "j") as j:
                        m[i, j] = m[i, j] - other[0] * m[k, j]
        target[at] = det[0]
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
        return ib.get()

    return narrow(te.extern([te_shape(out)], [x], body, "det", [acc])[0], out.dtype)


def _evaluate(args, attrs):
    return np.asarray(np.linalg.det(widen_array(np.asarray(args[0])))).astype(args[0].dtype)


register("det", _infer, _lower, _evaluate, "opaque")
