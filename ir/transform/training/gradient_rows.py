"""GRADIENTS: how each operator is differentiated, {operator: f(result, call, gradient, builder)}.

A row gives the gradient with respect to each operand of the call, from that with respect to its result (a variable, as
the result is); grad.no_grad(operand) where there is none. Rows are written here as expressions of the gradient g, the
result and the operands. An operator that takes any number of tensors has one operand, their tuple.
"""
from __future__ import annotations

import math
from functools import reduce

from ...dtype import DataType
from ...op import OP_ATTRS, InferError, takes_tuple
from ...relax.expr import RelaxTuple, const
from ...relax.op import call as op
from ...relax.ops.common import same_dim

GRADIENTS = OP_ATTRS.setdefault("FPrimalGradient", {})
TE_GRADIENTS = {}  # what call_tir_with_grad names: {name: f(gradient, operands ..., options) -> te.Tensors}


def operands(call):
    """The operands of a call, as rows have them."""
    return (RelaxTuple(call.args),) if takes_tuple(call.op) else call.args


def _row(gradients):
    """The row of gradients(g, result, call), of which None says that an operand has none."""
    def row(result, call, gradient, builder):
        found = gradients(gradient, result, call)
        return [op("grad.no_grad", x) if g is None else g for x, g in zip(operands(call), found, strict=True)]
    return row


def _elementwise(gradient):
    """The row of gradient(g, y, x), y a function of the tensor x."""
    return _row(lambda g, y, call: [gradient(g, y, *call.args)])


def _broadcast(gradients):
    """The row of gradients(g, z, x, y), z a function of tensors of shapes that are broadcast."""
    return _row(lambda g, z, call: [
        partial and fitted(partial, x) for partial, x in zip(gradients(g, z, *call.args), call.args, strict=True)])


def fitted(gradient, x):
    """A gradient summed over the axes along which x was repeated."""
    ours, its = gradient.struct_info.shape, x.struct_info.shape
    if len(ours) == len(its) and all(map(same_dim, ours, its)):
        return gradient
    return op("collapse_sum_to", gradient, its)


def _like(x, value):
    """A constant without dimensions, of x's dtype."""
    return const(value, x.struct_info.dtype)


def _count(name, x, axes=None):
    """How many elements x has, or has along axes. InferError where a run tells."""
    dims = [d for n, d in enumerate(x.struct_info.shape) if axes is None or n in _axes(axes, x)]
    if not all(hasattr(d, "value") for d in dims):
        raise InferError(f"the gradient of {name} takes known dimensions, it is of {x.struct_info}; give the shapes")
    return reduce(lambda a, b: a * b.value, dims, 1)


def _axes(axis, x):
    axes = (axis,) if isinstance(axis, int) else axis
    return [int(a) % x.struct_info.ndim for a in axes]


# ---------------------------------------------------------------- elements

GRADIENTS.update({name: _elementwise(gradient) for name, gradient in {
    "abs": lambda g, y, x: g * op("where", x < _like(x, 0), -_like(x, 1), _like(x, 1)),
    "acos": lambda g, y, x: -g / op("sqrt", _like(x, 1) - x * x),
    "acosh": lambda g, y, x: g / op("sqrt", x * x - _like(x, 1)),
    "asin": lambda g, y, x: g / op("sqrt", _like(x, 1) - x * x),
    "asinh": lambda g, y, x: g / op("sqrt", x * x + _like(x, 1)),
    "astype": lambda g, y, x: op("astype", g, str(x.struct_info.dtype)),
    "atan": lambda g, y, x: g / (_like(x, 1) + x * x),
    "atanh": lambda g, y, x: g / (_like(x, 1) - x * x),
    "cos": lambda g, y, x: -g * op("sin", x),
    "cosh": lambda g, y, x: g * op("sinh", x),
    "erf": lambda g, y, x: g * (_like(x, 2 / math.sqrt(math.pi)) * op("exp", -(x * x))),
    "exp": lambda g, y, x: g * y,
    "log": lambda g, y, x: g / x,
    "negative": lambda g, y, x: -g,
    "nn.relu": lambda g, y, x: op("where", x < _like(x, 0), _like(x, 0), g),
    "nn.silu": lambda g, y, x: (lambda s: g * (s + y * (_like(x, 1) - s)))(op("sigmoid", x)),
    "nn.softplus": lambda g, y, x: g * op("sigmoid", x),
    "reciprocal": lambda g, y, x: -g * (y * y),
    "rsqrt": lambda g, y, x: _like(x, -0.5) * g * y / x,
    "sigmoid": lambda g, y, x: g * y * (_like(x, 1) - y),
    "sin": lambda g, y, x: g * op("cos", x),
    "sinh": lambda g, y, x: g * op("cosh", x),
    "sqrt": lambda g, y, x: _like(x, 0.5) * g / y,
    "square": lambda g, y, x: g * (_like(x, 2) * x),
    "tan": lambda g, y, x: g * (_like(x, 1) + y * y),
    "tanh": lambda g, y, x: g * (_like(x, 1) - y * y),
}.items()})


def _power(g, z, x, y):
    """The logarithm of 0 counts as 0: a power of 0 does not change with a positive exponent. Where the exponent is 0 the
    result is 1 of every base, also of 0, whose power of -1 is infinite."""
    zero, one = _like(x, 0), _like(y, 1)
    below = op("where", op("equal", y, zero), one, y - one)
    return g * y * x ** below, g * z * op("where", op("equal", x, zero), zero, op("log", x))


GRADIENTS.update({name: _broadcast(gradients) for name, gradients in {
    "add": lambda g, z, x, y: (g, g),
    "subtract": lambda g, z, x, y: (g, -g),
    "multiply": lambda g, z, x, y: (g * y, g * x),
    "divide": lambda g, z, x, y: (g / y, -g * z / y),
    "power": _power,
    "maximum": lambda g, z, x, y: (op("where", x < y, _like(x, 0), g), op("where", x >= y, _like(x, 0), g)),
    "minimum": lambda g, z, x, y: (op("where", x >= y, _like(x, 0), g), op("where", x < y, _like(x, 0), g)),
    "where": lambda g, z, condition, x, y: (
        None, op("where", condition, g, _like(x, 0)), op("where", condition, _like(y, 0), g)),
}.items()})


def _clip(g, y, call):
    """What lies between the limits passes."""
    x, outside = call.args[0], None
    for limit, beyond in (("min", "less"), ("max", "greater")):
        if call.attrs.get(limit) is not None:
            one = op(beyond, x, _like(x, getattr(call.attrs[limit], "value", call.attrs[limit])))
            outside = one if outside is None else op("logical_or", outside, one)
    return [g if outside is None else op("where", outside, _like(x, 0), g)]


def _gelu(g, y, call):
    """x times the normal distribution of x, exactly."""
    x = call.args[0]
    if call.attrs.get("approximate", "none") != "none":
        raise InferError("the gradient of nn.gelu is that of the exact one; write the approximation in operators")
    below = _like(x, 0.5) + _like(x, 0.5) * op("erf", _like(x, math.sqrt(0.5)) * x)
    density = _like(x, 1 / math.sqrt(2 * math.pi)) * op("exp", _like(x, -0.5) * (x * x))
    return [g * (below + x * density)]


# ---------------------------------------------------------------- reductions

def _wide(g, call):
    """The gradient of a reduction with the axes that were reduced, each of extent 1."""
    axis = call.attrs.get("axis")
    return op("expand_dims", g, axis) if axis and not call.attrs.get("keepdims") else g


def _sum(g, y, call):
    return [op("broadcast_to", _wide(g, call), call.args[0].struct_info.shape)]


def _mean(g, y, call):
    count = _count("mean", call.args[0], call.attrs.get("axis"))
    return _sum(g / _like(call.args[0], count), y, call)


def _variance(g, y, call):
    x, axis = call.args[0], call.attrs.get("axis")
    away = x - op("mean", x, axis=axis, keepdims=True)
    return [_wide(g, call) * (_like(x, 2 / _count("variance", x, axis)) * away)]


def _extreme(g, y, call):
    """Elements that are the greatest, or the least, share the gradient."""
    x, axis = call.args[0], call.attrs.get("axis")
    best = op(str(call.op), x, axis=axis, keepdims=True)
    mine = op("astype", op("equal", x, best), str(x.struct_info.dtype))
    return [_wide(g, call) * (mine / op("sum", mine, axis=axis, keepdims=True))]


def _normal(g, x, axes, epsilon, mean):
    """The gradient with respect to x of (x - mean) / sqrt(the mean of its squares + epsilon), and that quotient."""
    def average(value):
        return op("mean", value, axis=axes, keepdims=True)
    away = x - average(x) if mean else x
    scale = op("rsqrt", average(away * away) + _like(x, epsilon))
    normal = away * scale
    inner = g - normal * average(g * normal)
    return scale * (inner - average(g) if mean else inner), normal


def _norm(mean):
    """The row of a norm over axes, which follow each other, by a scale, and a shift behind it where it has one."""
    def gradients(g, y, call):
        x, scale, *shift = call.args
        axes = _axes(call.attrs["axes"], x)
        if axes != sorted(axes) or axes[-1] != x.struct_info.ndim - 1:
            raise InferError(f"the gradient of {call.op} takes the last axes, not {axes} of {x.struct_info}")
        of_x, normal = _normal(g * scale, x, axes, call.attrs["epsilon"], mean)
        return [of_x, fitted(g * normal, scale), *(fitted(g, b) for b in shift)]
    return gradients


def _instance_norm(g, y, call):
    """A norm of each channel of each image, by a scale and a shift for each channel."""
    x, scale, shift = call.args
    spatial = list(range(2, x.struct_info.ndim))
    wide = op("expand_dims", scale, [n - 1 for n in spatial])
    of_x, normal = _normal(g * wide, x, spatial, call.attrs["epsilon"], True)
    return [of_x, *(op("reshape", fitted(each, wide), t.struct_info.shape) for each, t in (
        (g * normal, scale), (g, shift)))]


def _softmax(g, y, call):
    return [(g - op("sum", g * y, [call.attrs["axis"]], True)) * y]


def _log_softmax(g, y, call):
    return [g - op("sum", g, [call.attrs["axis"]], True) * op("exp", y)]


# ---------------------------------------------------------------- shapes

def _reshape(g, y, call):
    return [op("reshape", g, call.args[0].struct_info.shape), *[None] * (len(call.args) - 1)]


def _permute_dims(g, y, call):
    axes = call.attrs.get("axes")
    if axes is None:
        return [op("permute_dims", g)]
    axes = _axes(axes, call.args[0])
    return [op("permute_dims", g, axes=[axes.index(n) for n in range(len(axes))])]


def _concat(g, y, call):
    axis, places, at = int(call.attrs.get("axis") or 0), [], 0
    for x in call.args[:-1]:
        at += _known("concat", x.struct_info.shape[axis])
        places.append(at)
    return [op("split", g, places, axis) if places else RelaxTuple((g,))]


def _split(g, y, call):
    return [op("concat", g, int(call.attrs.get("axis") or 0))]


def _squeezed(g, y, call):
    return [op("squeeze", g, call.attrs["axis"])]


def _cumsum(g, y, call):
    """The sum of what comes after."""
    x, axis = call.args[0], call.attrs.get("axis")
    flat, along = (op("flatten", g), 0) if axis is None else (g, int(axis))
    back = op("flip", op("cumsum", op("flip", flat, along), along, exclusive=call.attrs.get("exclusive")), along)
    return [_cast(back if axis is not None else op("reshape", back, x.struct_info.shape), x)]


def _pad(g, y, call):
    """Less what was added, zeros where something was cut off."""
    if call.attrs.get("pad_mode", "constant") != "constant":
        raise InferError(f"the gradient of nn.pad takes constants around, not mode {call.attrs['pad_mode']!r}")
    return [op("nn.pad", g, [-int(k) for k in call.attrs["pad_width"]])]


def _strided_slice(g, y, call):
    """Zeros around it."""
    x, attrs = call.args[0], call.attrs
    dims = [_known("strided_slice", d) for d in x.struct_info.shape]
    places = [slice(None)] * len(dims)
    for a, begin, end, step in zip(attrs["axes"], attrs["begin"], attrs["end"], attrs["strides"] or [1] * len(dims)):
        places[a % len(dims)] = slice(*(int(getattr(v, "value", v)) for v in (begin, end, step)))
    taken = [range(d)[p] for d, p in zip(dims, places)]
    if any(r.step != 1 or not r for r in taken):
        raise InferError(f"the gradient of strided_slice takes steps of 1, not {attrs['strides']} of {x.struct_info}")
    return [op("nn.pad", g, [n for r, d in zip(taken, dims) for n in (r.start, d - r.stop)])]


def _triangle(g, y, call):
    return [op(str(call.op), g, call.attrs.get("k", 0)), *[None] * (len(call.args) - 1)]


def _take(g, y, call):
    x, indices = call.args
    return [op("grad.take_backward", g, x, indices, call.attrs.get("axis")), None]


# ---------------------------------------------------------------- products

def _turned(x):
    ndim = x.struct_info.ndim
    return op("permute_dims", x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])


def _of_matrices(g, a, b):
    return op("matmul", g, _turned(b)), op("matmul", _turned(a), g)


def _of_row(g, a, b):
    g = op("expand_dims", g, -2)
    return op("matmul", g, _turned(b)), op("matmul", op("expand_dims", a, 1), g)


def _of_column(g, a, b):
    g = op("expand_dims", g, -1)
    return op("matmul", g, op("expand_dims", b, 0)), op("squeeze", op("matmul", _turned(a), g), -1)


_PRODUCTS = {(False, False): _of_matrices, (True, False): _of_row, (False, True): _of_column,
             (True, True): lambda g, a, b: (g * b, g * a)}  # {which operands are vectors: gradients}


def _matmul(g, y, call):
    """In the dtype of the result, which may be wider than that of the operands."""
    a, b = (_cast(x, g) for x in call.args)
    found = _PRODUCTS[a.struct_info.ndim == 1, b.struct_info.ndim == 1](g, a, b)
    return [_cast(fitted(gradient, x), x) for gradient, x in zip(found, call.args)]


def _cast(value, like):
    """A value in the dtype of another."""
    dtype = like.struct_info.dtype
    return value if value.struct_info.dtype == dtype else op("astype", value, str(dtype))


# ---------------------------------------------------------------- convolutions and pools

def _conv2d(g, y, call):
    """That of the image is a transposed convolution; that of the weights a convolution of the image, the batch its
    channels, by g, in which strides and dilations change places."""
    attrs, (x, w) = call.attrs, call.args
    layouts = [attrs.get("data_layout", "NCHW"), attrs.get("kernel_layout", "OIHW"), attrs.get("out_layout") or "NCHW"]
    if layouts != ["NCHW", "OIHW", "NCHW"]:
        raise InferError(f"the gradient of nn.conv2d takes layouts NCHW and OIHW, not {', '.join(layouts)}")
    strides, dilation, groups = tuple(attrs["strides"]), tuple(attrs["dilation"]), attrs["groups"]
    padding = tuple(attrs["padding"])
    (_, _, *extent), (_, _, *kernel), (_, _, *windows) = (
        [_known("nn.conv2d", d) for d in t.struct_info.shape] for t in (x, w, y))
    reached = [(n - 1) * s - p - q + (k - 1) * d + 1 for n, s, p, q, k, d in zip(
        windows, strides, padding[:2], padding[2:], kernel, dilation)]
    of_image = op("nn.conv2d_transpose", g, w, strides=strides, padding=padding, dilation=dilation, groups=groups,
                  output_padding=tuple(n - r for n, r in zip(extent, reached)), data_layout="NCHW",
                  kernel_layout="IOHW")
    taps = op("nn.conv2d", _batch_as_channels(x, groups), op("permute_dims", g, axes=[1, 0, 2, 3]), strides=dilation,
              padding=padding, dilation=strides, groups=groups)
    of_weights = op("permute_dims", taps, axes=[1, 0, 2, 3])
    if [d.value for d in of_weights.struct_info.shape[2:]] != kernel:  # the image's last rows, which no window reached
        of_weights = op("strided_slice", of_weights, axes=[2, 3], begin=[0, 0], end=kernel)
    return [of_image, of_weights]


def _known(name, dim):
    if not hasattr(dim, "value"):
        raise InferError(f"the gradient of {name} takes known dimensions; {dim} is told by a run")
    return dim.value


def _batch_as_channels(x, groups):
    """[n, group c, h, w] as [c, group n, h, w]."""
    n, channels, h, w = (_known("nn.conv2d", d) for d in x.struct_info.shape)
    each = channels // groups
    if groups == 1:
        return op("permute_dims", x, axes=[1, 0, 2, 3])
    x = op("permute_dims", op("reshape", x, (n, groups, each, h, w)), axes=[2, 1, 0, 3, 4])
    return op("reshape", x, (each, groups * n, h, w))


def _pool(kind):
    def gradients(g, y, call):
        names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "count_include_pad", "layout",
                 "out_layout")
        return [op(f"grad.{kind}_pool2d_backward", g, call.args[0], **{
            k: call.attrs[k] for k in names if k in call.attrs})]
    return gradients


# ---------------------------------------------------------------- losses

def _cross_entropy_with_logits(g, y, call):
    x, labels = call.args
    if x.struct_info.ndim > 1:
        g = g / _like(g, _count("nn.cross_entropy_with_logits", x, (0,)))
    return [-g * labels, -g * x]


def _nll_loss(g, y, call):
    given = {k: call.attrs[k] for k in ("reduction", "ignore_index") if k in call.attrs}
    return [op("grad.nll_loss_backward", g, *call.args, **given), *[None] * (len(call.args) - 1)]


def _nll_loss_of_all(g, y, call):
    return [*_nll_loss(g, y, call)[:2], *(_of_class_weights(g, y, call) for _ in call.args[2:])]


def _of_class_weights(g, y, call):
    """What each class loses by its predictions, less the mean where that is taken: its divisor grows by each weight."""
    x, classes, weights = call.args
    axis, reduction = min(x.struct_info.ndim - 1, 1), call.attrs.get("reduction", "mean")
    others = [n for n in range(x.struct_info.ndim) if n != axis]
    ones = op("ones", weights.struct_info.shape, str(weights.struct_info.dtype))
    meant = op("grad.nll_loss_backward", _like(x, -1), x, classes, ones, reduction="sum",
               ignore_index=call.attrs.get("ignore_index", -100))  # 1 for the class that is meant, 0 for others
    if reduction == "none":
        return op("sum", -(op("expand_dims", g, axis) * x * meant), others)
    each = op("sum", -(x * meant), others)
    if reduction == "sum":
        return g * each
    count = op("sum", meant, others)
    return g * (each - y * count) / op("sum", count * weights)


GRADIENTS.update({name: _row(gradients) for name, gradients in {
    "broadcast_to": lambda g, y, call: [op("collapse_sum_to", g, call.args[0].struct_info.shape), None],
    "clip": _clip, "concat": _concat, "copy": lambda g, y, call: [g], "cumsum": _cumsum, "expand_dims": _squeezed,
    "flatten": _reshape, "flip": lambda g, y, call: [op("flip", g, call.attrs["axis"])],
    **dict.fromkeys(("full", "full_like"), lambda g, y, call: [None, op("sum", g)]),
    "matmul": _matmul, "max": _extreme, "mean": _mean, "min": _extreme,
    "nn.avg_pool2d": _pool("avg"), "nn.conv2d": _conv2d,
    "nn.cross_entropy_with_logits": _cross_entropy_with_logits, "nn.gelu": _gelu,
    "nn.instance_norm": _instance_norm, "nn.layer_norm": _norm(True), "nn.rms_norm": _norm(False), "nn.pad": _pad,
    "strided_slice": _strided_slice,
    "nn.leaky_relu": lambda g, y, call: [op("where", call.args[0] < _like(g, 0), _like(g, call.attrs["alpha"]) * g, g)],
    "nn.log_softmax": _log_softmax, "nn.max_pool2d": _pool("max"), "nn.nll_loss": _nll_loss, "nn.softmax": _softmax,
    "permute_dims": _permute_dims, "reshape": _reshape, "split": _split, "squeeze": _reshape, "sum": _sum,
    "take": _take, "tril": _triangle, "triu": _triangle, "variance": _variance,
}.items()})

# By scripts' rows a loss has no gradient of its weights. Where weights are computed, zeros would be wrong.
WHOLE = {GRADIENTS["nn.nll_loss"]: _row(_nll_loss_of_all)}  # {row: the one that Gradient takes in its place}

# ---------------------------------------------------------------- none

GRADIENTS.update({name: _row(lambda g, y, call: [None] * len(call.args)) for name in """
    equal greater greater_equal less less_equal not_equal logical_and logical_not logical_or logical_xor isfinite isinf
    isnan argmax argmin zeros_like ones_like zeros ones arange ceil floor round sign trunc floor_divide
    one_hot grad.no_grad""".split()})


# ---------------------------------------------------------------- functions of scripts

def _call_tir_with_grad(result, call, gradient, builder):
    """By the function that is registered under the call's te_grad_name."""
    name = call.attrs["te_grad_name"]
    if name not in TE_GRADIENTS:
        raise InferError(f"call_tir_with_grad: no gradient {name!r} is registered; relax.training.utils."
                         "register_te_gradient does that")
    made = builder.emit_te(TE_GRADIENTS[name], gradient, *call.args, **call.attrs["te_grad_kwargs"],
                           primfunc_name_hint=name)
    many = getattr(made.struct_info, "fields", None)
    found = [made] if many is None else [made[n] for n in range(len(many))]
    if len(found) != len(call.args):
        raise InferError(f"call_tir_with_grad: gradient {name!r} gives {len(found)} tensors, the call has "
                         f"{len(call.args)} operands")
    return found


GRADIENTS["call_tir_with_grad"] = _call_tir_with_grad


def is_float(info):
    """Whether a struct info is that of a tensor of floats, which alone have gradients."""
    return hasattr(info, "dtype") and hasattr(info, "ndim") and DataType(info.dtype).is_float


__all__ = ["GRADIENTS", "TE_GRADIENTS", "WHOLE", "fitted", "is_float", "operands"]
