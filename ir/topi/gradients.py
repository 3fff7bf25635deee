"""topi's gradients of pools, of the negative log likelihood and of taking rows, which graphs of training call."""
from __future__ import annotations

from .. import te, tir
from ..expr import Select, as_expr, cast, const
from ..op import InferError
from ..relax.classic import plain
from ..relax.composites import axis_in
from ..relax.expr import TensorStructInfo
from ..relax.ops.common import flat_index
from ..relax.ops.injective import held_index
from ..relax.ops.scatter import updated
from .apply import fits
from .elements import compute
from .reductions import arg_reducer
from .windows import Windows, axes_named


def take_backward(ops, output_grad, x, indices, axis=None):
    """Of each element of x the sum of output_grad where it was taken."""
    if axis is None and x.ndim != 1:
        raise InferError(f"axis must be given for a tensor of {x.ndim} dimensions")
    axis = axis_in("take_backward", plain(axis or 0), x.ndim)
    fits("output_grad", output_grad.shape, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]))
    rank = indices.ndim

    def places(taken, at):
        own = held_index(taken[tuple(at[axis:axis + rank])], x.shape[axis])
        return (*at[:axis], own, *at[axis + rank:])
    zeros = compute(x.shape, lambda *i: const(0, x.dtype), "zeros", "ax")
    return updated((zeros, indices, output_grad), TensorStructInfo(x.shape, x.dtype), "take_backward", places, "add")


def nll_loss_backward(ops, output_grad, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    """The gradient of nll_loss with respect to predictions, of `output_grad`, that of the loss."""
    if reduction not in ("mean", "sum", "none"):
        raise InferError(f"reduction={reduction!r} is none of mean, sum, none")
    axis, zero = (1 if predictions.ndim > 1 else 0), const(0, predictions.dtype)
    fits("targets", targets.shape, (*predictions.shape[:axis], *predictions.shape[axis + 1:]))
    fits("output_grad", output_grad.shape, targets.shape if reduction == "none" else ())

    def weight(target):
        own = const(1, predictions.dtype) if weights is None else weights[held_index(target, predictions.shape[axis])]
        return Select(target != const(ignore_index, target.dtype), own, zero)
    total = None
    if reduction == "mean":
        over = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(targets.shape)]
        value = weight(targets[tuple(k.var for k in over)])
        total = compute((), lambda: te.sum(value, axis=over) if over else value, "all_weights", "ax")

    def element(*i):
        at = (*i[:axis], *i[axis + 1:])
        target = targets[at]
        value = zero - output_grad[at if reduction == "none" else ()] * weight(target)
        value = value if total is None else value / total[()]
        own = held_index(target, predictions.shape[axis])
        return Select(cast(own, "int64").equal(cast(i[axis], "int64")), value, zero)
    return compute(predictions.shape, element, "nll_loss_backward", "ax")


def pool_grad(ops, grads, data, kernel, stride, padding, pool_type, ceil_mode=False, count_include_pad=True,
              layout="NCHW", dilation=1):
    """The gradient of nn.pool2d with respect to data: that of a window's average goes to all its elements, that of its
    maximum to the first of the greatest."""
    if pool_type not in ("max", "avg"):
        raise InferError(f"pool_type={pool_type!r} is neither 'max' nor 'avg'")
    pool = Windows(data, kernel, stride, dilation, padding, ceil_mode, axes_named(layout, "HW"))
    fits("grads", grads.shape, pool.shape)
    greatest = _places(pool) if pool_type == "max" else None
    over = [te.reduce_axis((0, k), f"w{n}") for n, k in enumerate(pool.kernel)]

    def element(*i):
        at, inside = list(i), []
        for n, a in enumerate(pool.axes):
            first = i[a] + pool.head[n] - over[n].var * pool.dilation[n]
            last = as_expr(pool.shape[a]) - 1
            window = tir.floordiv(first, pool.stride[n])
            inside += [tir.floormod(first, pool.stride[n]).equal(0), window >= 0, window <= last]
            at[a] = tir.max(tir.min(window, last), 0)
        at = tuple(at)
        if greatest is not None:
            mine = flat_index([k.var for k in over], pool.kernel)
            value, inside = grads[at], [*inside, greatest[at].equal(cast(mine, greatest.dtype))]
        else:
            value = grads[at] / cast(pool.count(at, count_include_pad), grads.dtype)
        return te.sum(Select(tir.all(*inside), value, const(0, grads.dtype)), axis=over)
    return compute(data.shape, element, "T_pool_grad", "ax")


def _places(pool):
    """Where in each window its first greatest element is, counted along the window's rows."""
    x = pool.padded_by(None)
    reducer = arg_reducer("argmax", lambda a, b: a > b)

    def best(*i):
        place = flat_index([k.var for k in pool.over], pool.kernel)
        return reducer((cast(place, "int32"), x[pool.at(i)]), axis=pool.over)
    return compute(pool.shape, best, "maxpool_grad_argmax", "ax")[0]


COMPOSITES = {"nn.pool_grad": pool_grad, "nn.nll_loss_backward": nll_loss_backward, "take_backward": take_backward}
