"""What LegalizeOps makes of operators that are not one function of topi each: rows of LEGALIZE beside those of
legalize_rows.py, and one way for all others, the lowering of their row of the operator table."""
from __future__ import annotations

from ... import te, topi
from ...dtype import DataType
from ...expr import Var, const, is_const_int
from ...op import OPS, InferError
from ...relax.block_builder import call_op
from ...relax.composites import SHARED
from ...relax.composites_nn import NN
from ...relax.composites_tensor import TENSORS
from ...relax.expr import (RelaxCall, ShapeExpr, ShapeStructInfo, TupleStructInfo, call_pure_packed,
                           call_tir)
from ...relax.tensor_calls import TensorCall
from ...schedule import Schedule
from ...topi.apply import LoopProgram, apply
from ...upper import upper
from ..lower_ops import function_of_call
from .legalize_rows import LEGALIZE, stays

# ---------------------------------------------------------------- shapes


def _collapse_sum(builder, call):
    return builder.call_te(topi.collapse_sum, call.args[0], ShapeExpr(call.struct_info.shape))


def _layout_transform(builder, call):
    """A copy, whose result transform_layout then stores in the other layout."""
    x, index_map = call.args[0], call.attrs.get("index_map")
    if index_map is None:
        return lowered(builder, call)  # between named layouts
    separators = [tuple(map(int, call.attrs.get(k) or ())) for k in ("axis_separators", "input_axis_separators")]
    dtype, pad = x.struct_info.dtype, call.attrs.get("pad_value")
    try:
        _, outside = index_map.non_surjective_inverse(x.struct_info.shape)
    except ValueError:
        return _several(builder, call)
    name = "te_layout_transform" + ("_with_pad" if not hasattr(outside, "value") else "")
    name += "_axis_separator" if separators[0] else ""
    made = TensorCall(lambda t: te.compute(t.shape, lambda *i: t[i], name=name), [x], {}, lambda a: a, None)
    schedule = Schedule(made.func)
    schedule.transform_layout(name, ("write", 0), index_map, const((float if DataType(dtype).is_float else int)(
        getattr(pad, "value", pad) or 0), dtype))
    for kind, given in zip(("write", "read"), separators):
        if given:
            schedule.set_axis_separator(name, (kind, 0), given)
    return call_tir(builder.add_func(schedule.mod["main"], name), made.args, call.struct_info, made.dims)


def _dynamic_slice(builder, call):
    """A first kernel tells the shape, which dimensions of their own then stand for."""
    x = call.args[0]
    lengths = builder.emit(builder.call_te(topi.slice_lengths, *call.args, primfunc_name_hint="shape_func"))
    rank = x.struct_info.ndim
    shape = builder.emit(call_pure_packed("vm.builtin.tensor_to_shape", lengths, sinfo_args=ShapeStructInfo(ndim=rank)))
    dims = tuple(Var("s", "int64") for _ in range(rank))
    builder.match_cast(shape, ShapeStructInfo(dims))
    return builder.call_te(topi.dynamic_strided_slice, *call.args, ShapeExpr(dims))


def _strided_slice(builder, call):
    """Of an axis whose extent a run tells as slice_at, which is given places that lie inside."""
    dims, axes = call.args[0].struct_info.shape, call.attrs.get("axes") or range(len(call.attrs["begin"]))
    known = all(is_const_int(dims[a]) for a in axes) and all(isinstance(p, int) for p in call.attrs["begin"])
    inside = known or call.attrs.get("assume_inbound") or set(call.attrs) == set(OPS["strided_slice"].attrs)
    return (_SLICE if inside else _several)(builder, call)


def _resize(builder, call):
    """Of NHWC as of NCHW, whose axes are put back."""
    return (_several if sorted(call.attrs.get("layout") or "") == sorted("NHWC") and call.attrs["layout"] != "NCHW"
            else lowered)(builder, call)


# ---------------------------------------------------------------- attention

def _attention(builder, call):
    if "heads" in call.attrs:
        return lowered(builder, call)  # of the table's form
    scale, causal, window = (call.attrs.get(k) for k in ("scale", "causal_mask", "window_size"))
    scale = getattr(scale, "value", scale)
    name = "attention_bias" if len(call.args) > 3 else "attention"
    try:
        return builder.call_te(topi.nn.attention, *call.args, scale=scale, causal_mask=causal, window_size=window,
                               primfunc_name_hint=name)
    except InferError as error:
        return stays(call, str(error))


# ---------------------------------------------------------------- gradients

def _given(call, **defaults):
    return {k: call.attrs.get(k, v) for k, v in defaults.items()}


def _nll_loss_backward(builder, call):
    weights = call.args[3] if len(call.args) > 3 else None
    return builder.call_te(topi.nn.nll_loss_backward, *call.args[:3], weights,
                           **_given(call, reduction="mean", ignore_index=-100))


def _pool_backward(kind):
    def legalize(builder, call):
        attrs = _given(call, pool_size=(1, 1), strides=(1, 1), padding=(0, 0, 0, 0), layout="NCHW")
        if call.attrs.get("out_layout") not in (None, "", attrs["layout"]):
            return stays(call, f"layout {attrs['layout']} to {call.attrs['out_layout']}")
        more = _given(call, ceil_mode=False, count_include_pad=False, dilation=(1, 1))
        return builder.call_te(topi.nn.pool_grad, *call.args, attrs["pool_size"], attrs["strides"], attrs["padding"],
                               kind, layout=attrs["layout"], **more, primfunc_name_hint=f"{kind}_pool2d_backward")
    return legalize


# ---------------------------------------------------------------- all others

def lowered(builder, call):
    """A call as the operator's row lowers it, or, in classic form, as the operators that it is made of."""
    spec = OPS.get(call.op)
    if spec is None or set(call.attrs) - set(spec.attrs):
        return _several(builder, call)
    if spec.lower is None:
        return stays(call, "such operands")
    hint = str(call.op).rpartition(".")[2]

    def function(*args, attrs):
        return apply(str(call.op), args, attrs)
    try:
        return builder.call_te(function, *call.args, attrs=dict(call.attrs), primfunc_name_hint=hint)
    except LoopProgram:
        call = call_op(str(call.op), *call.args, **call.attrs)  # with the attributes that were not given
        func, args, dims = function_of_call(call)
        infos = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else call.struct_info
        return call_tir(builder.add_func(func.with_attr("tir.noalias", True), hint), args, infos, dims)
    except InferError as error:
        return stays(call, str(error))


def _several(builder, call):
    try:
        made = upper("in_operators")(call)
    except (InferError, TypeError) as error:
        return stays(call, str(error))
    again = isinstance(made, RelaxCall) and made.op == call.op
    return lowered(builder, builder.normalize(made)) if again else made


_SLICE = LEGALIZE["strided_slice"]
for _way in (_layout_transform, _attention, _resize, _strided_slice, lowered):
    _way.as_written = True  # takes calls without attributes that were not given

LEGALIZE.update({
    "collapse_sum_to": _collapse_sum, "collapse_sum_like": _collapse_sum, "layout_transform": _layout_transform,
    "image.resize2d": _resize, "dynamic_strided_slice": _dynamic_slice, "strided_slice": _strided_slice,
    "nn.attention": _attention,
    "grad.nll_loss_backward": _nll_loss_backward,
    **{f"grad.{kind}_pool2d_backward": _pool_backward(kind) for kind in ("max", "avg")},
    "grad.take_backward": lambda builder, call: builder.call_te(topi.take_backward, *call.args, call.attrs.get("axis")),
    **{f"grad.{mark}": lambda builder, call: call.args[0] for mark in ("no_grad", "start_checkpoint", "end_checkpoint")},
})
_ALONE = {"nn.dropout", "wrap_param"}  # nothing to compute: DecomposeOpsForInference takes the first away
LEGALIZE.update(dict.fromkeys((name for name in (*OPS, *SHARED, *TENSORS, *NN) if name not in LEGALIZE and
                               name not in _ALONE), lowered))
__all__ = ["LEGALIZE", "lowered"]
