"""What LegalizeOps makes of each operator: LEGALIZE, {operator: f(builder, call)}.

Most rows are a function of topi, and which attributes of the call it takes.
"""
from __future__ import annotations

import logging

import numpy as np

from ... import te, tir, topi
from ...dtype import DataType
from ...expr import cast, const
from ...op import OP_ATTRS
from ...relax.expr import Constant, PrimValue, RelaxTuple, ShapeExpr, TupleStructInfo, call_dps_packed
from ...relax.expr import const as graph_const
from ...topi.apply import apply

LEGALIZE = OP_ATTRS.setdefault("FLegalize", {})


def _rows(rows):
    LEGALIZE.update(rows)


def _function(name):
    """topi's function."""
    found = topi
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _by_topi(name, *attrs, hint=None, **given):
    """topi's function `name` of the operands, then of attributes of the call, under their own names where written
    "own=attribute"."""
    positional = [a for a in attrs if "=" not in a]
    named = dict(a.split("=") for a in attrs if "=" in a)

    def legalize(builder, call):
        keywords = {own: call.attrs[a] for own, a in named.items()}
        arguments = *call.args, *(call.attrs.get(a) for a in positional)
        return builder.call_te(_function(name), *arguments, **keywords, **given,
                               primfunc_name_hint=hint or name.rpartition(".")[2])
    return legalize


def scalar(value):
    """A constant without dimensions as an expression; others as they are."""
    if isinstance(value, Constant) and value.data.ndim == 0:
        return const(value.data[()].item(), value.struct_info.dtype)
    return value


def _number(value):
    """A constant without dimensions, or a PrimValue, as a number of Python's."""
    if isinstance(value, Constant) and value.data.ndim == 0:
        return value.data[()].item()
    value = value.value if isinstance(value, PrimValue) else value
    return value.value if hasattr(value, "value") else value


# ---------------------------------------------------------------- elements

_UNARY = """abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh exp floor log logical_not negative round
    rsqrt sigmoid sign sin sinh sqrt tan tanh""".split()
_BINARY = """add divide floor_divide multiply power subtract equal mod floor_mod greater greater_equal less less_equal
    not_equal maximum minimum bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and logical_or
    logical_xor""".split()


def _binary(name):
    """A constant without dimensions stays in the code."""
    def legalize(builder, call):
        a, b = call.args
        b = scalar(b)
        a = a if not isinstance(b, type(call.args[1])) else scalar(a)
        return builder.call_te(_function(name), a, b, primfunc_name_hint=name)
    return legalize


def _as_dtype(value, dtype):
    """A constant without dimensions in another dtype, wrapped where that does not have the number."""
    if not isinstance(value, Constant) or value.data.ndim or value.struct_info.dtype == dtype:
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        return graph_const(value.data.astype(DataType(dtype).numpy), dtype)


def _astype(builder, call):
    x = call.args[0]
    if isinstance(x, Constant) and x.data.ndim == 0:
        return _as_dtype(x, call.attrs["dtype"])
    return builder.call_te(topi.cast, x, call.attrs["dtype"])


_rows({
    **{name: _by_topi(name, hint=f"tir_{name}") for name in _UNARY}, **{name: _binary(name) for name in _BINARY},
    "square": lambda builder, call: builder.call_te(lambda x: x * x, call.args[0], primfunc_name_hint="tir_square"),
    "clip": _by_topi("clip", "min", "max", hint="tir_clip"), "erf": _by_topi("erf"), "astype": _astype,
    "nn.relu": _by_topi("nn.relu"), "nn.leaky_relu": _by_topi("nn.leaky_relu", "alpha"),
    "nn.gelu_tanh": _by_topi("nn.gelu_tanh"), "nn.selu": _by_topi("nn.selu"), "nn.silu": _by_topi("nn.silu"),
    "nn.gelu": lambda builder, call: builder.call_te(
        topi.nn.gelu_tanh if call.attrs["approximate"] == "tanh" else topi.nn.gelu, call.args[0],
        primfunc_name_hint="gelu_tanh" if call.attrs["approximate"] == "tanh" else "gelu"),
    "where": _by_topi("where"),
})

# ---------------------------------------------------------------- reductions

def _layer_norm(builder, call):
    x, gamma, beta = call.args
    gamma, beta = (gamma if call.attrs.get("scale", True) else None), (beta if call.attrs.get("center", True) else None)
    return builder.call_te(topi.nn.layer_norm, x, gamma, beta, call.attrs["axes"], call.attrs["epsilon"])


_rows({
    **{name: _by_topi(name, "axis", "keepdims") for name in (
        "sum", "prod", "max", "min", "mean", "variance", "std", "argmax", "argmin")},
    "nn.softmax": _by_topi("nn.softmax", "axis"), "nn.log_softmax": _by_topi("nn.log_softmax", "axis"),
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _by_topi("nn.rms_norm", "axes", "epsilon"),
    "nn.group_norm": _by_topi("nn.group_norm", "num_groups", "channel_axis", "axes", "epsilon"),
})

# ---------------------------------------------------------------- shapes


def _reshape(builder, call):
    return builder.call_te(topi.reshape, call.args[0], call.struct_info.shape, primfunc_name_hint="reshape")


def _fields(builder, args):
    """The tensors of operands, of which one may be a tuple, or a variable that holds one."""
    given = args[0]
    while not isinstance(given, RelaxTuple) and (bound := builder.lookup_binding(given)) is not None and isinstance(
            bound, (RelaxTuple, type(given))):
        given = bound
    if isinstance(given, RelaxTuple):
        return list(given.fields)
    fields = getattr(given.struct_info, "fields", None)
    return list(args) if fields is None else [builder.emit(given[k]) for k in range(len(fields))]


def _concat(builder, call):
    return builder.call_te(topi.concatenate, _fields(builder, call.args), call.attrs["axis"] or 0)


def _take(builder, call):
    mode = call.attrs.get("mode")
    mode = mode if mode in ("clip", "nan") else "wrap"  # -1 is the last, unless it says otherwise
    return builder.call_te(topi.take, *call.args, call.attrs.get("axis"), mode=mode)


def _split(builder, call):
    parts = call.attrs.get("indices_or_sections")
    if parts is None:  # the sizes of the parts
        parts = tuple(int(n) for n in np.cumsum(call.attrs["sections"][:-1]))
    return builder.call_te(topi.split, call.args[0], parts, call.attrs["axis"])


def _strided_slice(builder, call):
    begin, end, strides, axes = (call.attrs.get(k) for k in ("begin", "end", "strides", "axes"))
    strides = (1,) * len(begin) if strides is None else strides
    if not all(isinstance(n, int) for n in (*begin, *strides)) and call.attrs.get("assume_inbound"):
        def strided_slice(x, begin, strides, shape):
            first = dict(zip((a % x.ndim for a in axes or range(len(begin))), zip(begin, strides)))
            return te.compute(shape, lambda *i: x[tuple(
                v * first[k][1] + first[k][0] if k in first else v for k, v in enumerate(i))], name="T_strided_slice")
        return builder.call_te(strided_slice, call.args[0], begin, strides, call.struct_info.shape)
    return builder.call_te(topi.strided_slice, call.args[0], begin, end, strides, axes)


_rows({
    "reshape": _reshape, "flatten": _reshape, "concat": _concat, "split": _split, "strided_slice": _strided_slice,
    "broadcast_to": _by_topi("broadcast_to"), "permute_dims": _by_topi("transpose", "axes"),
    "squeeze": _by_topi("squeeze", "axis"), "expand_dims": _by_topi("expand_dims", "axis"),
    "tile": _by_topi("tile", "repeats"), "repeat": _by_topi("repeat", "repeats", "axis"),
    "flip": _by_topi("flip", "axis"), "take": _take,
    "gather_elements": lambda builder, call: builder.call_te(topi.gather, call.args[0], call.attrs["axis"],
                                                             call.args[1]),
})


def _all(value):
    """One number, or several."""
    return value if isinstance(value, tuple) else (value,)


def stays(call, why):
    """A call that is left alone, and why."""
    logging.getLogger(__name__).info("%s stays: no tensor expression of %s", call.op, why)
    return call


# ---------------------------------------------------------------- tensors of nothing but numbers


def _full(value=None, hint="full"):
    def legalize(builder, call):
        info = call.struct_info
        fill = value if value is not None else call.args[1]
        fill = _number(_as_dtype(fill, info.dtype)) if isinstance(fill, (Constant, PrimValue)) else fill
        return builder.call_te(topi.full, ShapeExpr(info.shape), info.dtype, fill, primfunc_name_hint=hint)
    return legalize


def _eye(hint):
    def legalize(builder, call):
        n, m = call.struct_info.shape
        given = [_number(a) for a in call.args[(1 if hint == "eye_like" else 2):]]
        k = call.attrs.get("k", given[0] if given else 0)
        return builder.call_te(topi.eye, n, m, k, call.struct_info.dtype, primfunc_name_hint=hint)
    return legalize


def _arange(builder, call):
    ends = [a.value for a in call.args]
    dtype = call.attrs["dtype"]
    if all(hasattr(e, "value") for e in ends):
        return graph_const(np.arange(*(e.value for e in ends), dtype=str(dtype)), dtype)
    return builder.call_te(topi.arange, *ends, dtype)


_rows({
    "full": _full(), "full_like": _full(), "ones": _full(1, "ones"), "ones_like": _full(1, "ones"),
    "zeros": _full(0, "zeros"), "zeros_like": _full(0, "zeros"), "eye": _eye("eye"), "eye_like": _eye("eye_like"),
    "arange": _arange,
    **{name: lambda builder, call, name=name: builder.call_te(
        topi.trilu, call.args[0], call.attrs["k"], name == "triu", primfunc_name_hint=name)
       for name in ("tril", "triu")},
})

# ---------------------------------------------------------------- products


def _matmul(builder, call):
    a, b = call.args
    if "void" in (a.struct_info.dtype, b.struct_info.dtype):
        raise AssertionError("To legalize R.matmul, the dtype of both operands must be known; they are "
                             f"{a.struct_info} and {b.struct_info}")
    return builder.call_te(topi.graph_matmul, a, b, call.attrs.get("out_dtype"), primfunc_name_hint="matmul")


def _cross_entropy(x, y):
    total = -topi.sum(x * y)
    return te.compute((), lambda: total[()] / x.shape[0], name="T_divide") if x.ndim > 1 else total


def _nll_loss(builder, call):
    attrs = call.attrs["reduction"], call.attrs["ignore_index"]
    if len(call.args) == 3:
        return builder.call_te(topi.nn.nll_loss, *call.args, *attrs)

    def nll_loss_without_weight(predictions, targets):
        classes = predictions.shape[1 if predictions.ndim > 1 else 0]
        return topi.nn.nll_loss(predictions, targets, topi.full((classes,), predictions.dtype, 1.0), *attrs)
    return builder.call_te(nll_loss_without_weight, *call.args)


def _batch_norm(builder, call):
    """The statistics are those given, which are results, too."""
    def batch_norm(*tensors):
        return topi.nn.batch_norm(*tensors, *(call.attrs[k] for k in ("axis", "epsilon")),
                                  *(call.attrs.get(k, True) for k in ("center", "scale")))[0]
    made = builder.call_te(batch_norm, *call.args)
    several = isinstance(call.struct_info, TupleStructInfo)
    return RelaxTuple((builder.emit(made), *call.args[3:])) if several else made


_rows({
    "nn.cross_entropy_with_logits": lambda builder, call: builder.call_te(
        _cross_entropy, *call.args, primfunc_name_hint="cross_entropy_with_logits"),
    "nn.nll_loss": _nll_loss, "nn.batch_norm": _batch_norm,
})


# ---------------------------------------------------------------- quantization

def _quantized(value, dtype):
    """A number held in the range of a dtype."""
    low, high = DataType(dtype).finite_range() if DataType(dtype).is_float else (
        DataType(dtype).min_value(), DataType(dtype).max_value())
    return cast(tir.max(tir.min(value, const(high, value.dtype)), const(low, value.dtype)), dtype)


def _of_axis(parameter, i, axis):
    return parameter[i[axis]] if isinstance(parameter, te.Tensor) else parameter


def _quantize(builder, call):
    axis, dtype = call.attrs["axis"], call.attrs["out_dtype"]

    def quantize(x, scale, zero):
        def element(*i):
            scaled = x[i] / _of_axis(scale, i, axis)
            whole = tir.round(scaled) if DataType(dtype).is_int else scaled
            return _quantized(whole + _of_axis(zero, i, axis), dtype)
        return te.compute(x.shape, element, name="quantized")
    return builder.call_te(quantize, call.args[0], *map(scalar, call.args[1:]))


def _dequantize(builder, call):
    axis, dtype = call.attrs["axis"], call.attrs["out_dtype"]

    def dequantize(x, scale, zero):
        def element(*i):
            wide = cast(x[i], "float32" if x.dtype.is_float else "int32")
            value = cast(wide - _of_axis(zero, i, axis), "float32") * cast(_of_axis(scale, i, axis), "float32")
            return value if dtype == "float32" else _quantized(value, dtype)
        return te.compute(x.shape, element, name="dequantized")
    return builder.call_te(dequantize, call.args[0], *map(scalar, call.args[1:]))


_rows({"quantize": _quantize, "dequantize": _dequantize})

_rows({"matmul": _matmul, "einsum": lambda builder, call: builder.call_te(
    topi.einsum, call.attrs["subscripts"], *_fields(builder, call.args), primfunc_name_hint="einsum")})

# ---------------------------------------------------------------- windows


def _conv(rank):
    def legalize(builder, call):
        attrs = call.attrs
        layout, kernel = attrs.get("data_layout") or "NC" + "DHW"[3 - rank:], attrs["kernel_layout"]
        if attrs.get("out_layout") not in (None, "", layout) or len(layout) != rank + 2 or len(kernel) != rank + 2:
            return stays(call, f"layouts {layout} and {kernel} to {attrs.get('out_layout')}")
        return builder.call_te(topi.nn.conv, *call.args, attrs["strides"], attrs["padding"], attrs["dilation"],
                               attrs["groups"], layout, kernel, attrs.get("out_dtype"),
                               primfunc_name_hint=f"conv{rank}d")
    return legalize


def _conv_transpose(rank):
    def legalize(builder, call):
        attrs, space = call.attrs, "DHW"[3 - rank:]
        layouts = attrs.get("data_layout") or "NC" + space, attrs.get("kernel_layout") or "IO" + space
        if layouts != ("NC" + space, "IO" + space) or set(_all(attrs["dilation"])) != {1}:
            return stays(call, f"layouts {' and '.join(layouts)}, dilation {attrs['dilation']}")
        function = {1: topi.nn.group_conv1d_transpose_ncw, 2: topi.nn.group_conv2d_transpose_nchw,
                    3: topi.nn.group_conv3d_transpose_ncdhw}[rank]
        return builder.call_te(function, *call.args, attrs["strides"], attrs["padding"], call.struct_info.dtype,
                               attrs["output_padding"], attrs["groups"], primfunc_name_hint=f"conv{rank}d_transpose")
    return legalize


def _pool(kind, rank):
    def legalize(builder, call):
        attrs = call.attrs
        layout = attrs.get("layout") or "NC" + "DHW"[3 - rank:]
        if attrs.get("out_layout") not in (None, "", layout):
            return stays(call, f"layout {layout} to {attrs.get('out_layout')}")
        given = {"count_include_pad": attrs["count_include_pad"]} if kind == "avg" else {}
        return builder.call_te(_function(f"nn.pool{rank}d"), call.args[0], attrs["pool_size"], attrs["strides"],
                               attrs["dilation"], attrs["padding"], kind, attrs["ceil_mode"], layout, **given,
                               primfunc_name_hint=f"{kind}_pool{rank}d")
    return legalize


def _adaptive(kind, rank):
    def legalize(builder, call):
        layout = call.attrs.get("layout") or "NC" + "DHW"[3 - rank:]
        if call.attrs.get("out_layout") not in (None, "", layout):
            return stays(call, f"layout {layout} to {call.attrs.get('out_layout')}")
        return builder.call_te(_function(f"nn.adaptive_pool{'' if rank == 2 else f'{rank}d'}"), call.args[0],
                               call.attrs["output_size"], kind, layout,
                               primfunc_name_hint=f"adaptive_{kind}_pool{rank}d")
    return legalize


def _pad(builder, call):
    widths = call.attrs["pad_width"]
    pairs = widths if isinstance(widths[0], tuple) else tuple(zip(widths[::2], widths[1::2]))
    if call.attrs["pad_mode"] == "reflect":
        return builder.call_te(topi.nn.mirror_pad, call.args[0], *zip(*pairs), mode="REFLECT", primfunc_name_hint="pad")
    if call.attrs["pad_mode"] != "constant":
        return builder.call_te(lambda x: apply("nn.pad", [x], call.attrs), *call.args, primfunc_name_hint="pad")
    return builder.call_te(topi.nn.pad, call.args[0], *zip(*pairs), call.attrs["pad_value"], primfunc_name_hint="pad")


_rows({
    **{f"nn.conv{n}d": _conv(n) for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose(n) for n in (1, 2, 3)},
    **{f"nn.{kind}_pool{n}d": _pool(kind, n) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{n}d": _adaptive(kind, n) for kind in ("max", "avg") for n in (1, 2, 3)},
    "nn.pad": _pad,
})

# ---------------------------------------------------------------- sorting

def _topk(builder, call):
    """In classic form it says what it gives; the table's operator gives values and indices of int64."""
    kind, dtype = call.attrs.get("ret_type"), call.attrs.get("dtype")
    return builder.call_te(topi.topk, call.args[0], call.attrs["k"], call.attrs["axis"], kind or "both",
                           not call.attrs["largest"], dtype or ("int32" if kind else "int64"))


_rows({
    "sort": lambda builder, call: builder.call_te(
        topi.sort, call.args[0], call.attrs["axis"], not call.attrs["descending"]),
    "argsort": lambda builder, call: builder.call_te(
        topi.argsort, call.args[0], None, call.attrs["axis"], not call.attrs["descending"], call.attrs["dtype"]),
    "topk": _topk,
})

# ---------------------------------------------------------------- workers

_REDUCTIONS = ("sum", "prod", "min", "max", "avg")


def _disco(name, more):
    """A call of the runtime of workers, of the tensor and what more(call) gives."""
    def legalize(builder, call):
        return call_dps_packed(f"runtime.disco.{name}", [call.args[0], *more(call)], call.struct_info)
    return legalize


def _scatter(builder, call):
    """Parts lie one behind another: the axis is split, and the workers' comes first."""
    x, axis, workers = call.args[0], call.attrs["axis"], call.attrs["num_workers"]
    shape = x.struct_info.shape
    x = builder.emit_te(topi.reshape, x, (*shape[:axis], workers, shape[axis] // workers, *shape[axis + 1:]))
    if axis:
        order = (axis, *range(axis), *range(axis + 1, len(shape) + 1))
        x = builder.emit_te(topi.transpose, x, order)
    return call_dps_packed("runtime.disco.scatter_from_worker0", [x, PrimValue(False)], call.struct_info)


_rows({
    "ccl.allreduce": _disco("allreduce", lambda call: (
        ShapeExpr((_REDUCTIONS.index(call.attrs.get("op_type", "sum")),)),
        PrimValue(call.attrs.get("in_group", True)))),
    "ccl.allgather": _disco("allgather", lambda call: (PrimValue(call.attrs.get("in_group", True)),)),
    "ccl.broadcast_from_worker0": _disco("broadcast_from_worker0", lambda call: (PrimValue(False),)),
    "ccl.scatter_from_worker0": _scatter,
    **{f"grad.{name}": lambda builder, call: call.args[0] for name in (
        "no_grad", "start_checkpoint", "end_checkpoint")},
})
