"""relax.op: every operator under TVM Relax's name, with its argument names, order and defaults; R.* is the same.

    relax.op.add(x, y)    relax.op.nn.conv2d(x, w, strides=2, padding=1)    relax.op.sum(x, axis=[1], keepdims=True)

The table names only what TVM orders otherwise than the operator's row does. nn.batch_norm is a tuple, as TVM's: of the
row's call, and the moving mean and variance, which inference leaves as they are.
"""
from __future__ import annotations

from .. import op as op_table
from ..expr import FloatImm, IntImm, PrimExpr
from ..upper import provides
from . import composites, ops as _rows  # noqa: F401  (fills the table)
from .block_builder import call_op
from .classic import dtype_of
from .control import BODIES
from .composites_nn import NN
from .composites_tensor import TENSORS
from .graph_calls import GraphNamespace
from .runtime_calls import RUNTIME
from .expr import (  # noqa: F401
    PrimValue, RelaxExpr, RelaxTuple, call_builtin_with_ctx, call_dps_packed, call_inplace_packed, call_packed,
    call_pure_packed, call_tir, call_tir_with_grad, const, get_shape_of)
from .inplace import call_tir_inplace  # noqa: F401

_CONV = "data weight strides padding dilation groups data_layout kernel_layout out_layout out_dtype"
_POOL = "data pool_size strides padding dilation ceil_mode {}layout out_layout"
_OWN = {
    **{f"nn.conv{n}d": _CONV for n in (1, 2, 3)},
    "nn.conv2d_transpose": _CONV.replace("dilation", "output_padding dilation"),
    **{f"qnn.{name}": "data weight input_zero_point kernel_zero_point" + attrs for name, attrs in (
        ("matmul", " out_dtype"), *((f"conv{n}d", " strides padding dilation groups out_dtype") for n in (2, 3)))},
    "nn.conv2d_gathered": "data weight places strides padding dilation data_layout",
    "nn.conv2d_phases": "data weight strides padding output_padding out_channels data_layout",
    **{f"nn.max_pool{n}d": _POOL.format("") for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _POOL.format("count_include_pad ") for n in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": "data output_size layout out_layout",
    "nn.adaptive_max_pool2d": "data output_size layout out_layout",
    "nn.batch_norm": "data gamma beta moving_mean moving_var axis epsilon center scale momentum",
    "nn.layer_norm": "data gamma beta axes epsilon center scale",
    "nn.instance_norm": "data gamma beta channel_axis axes epsilon center scale",
    "nn.rms_norm": "data weight axes epsilon",
    "nn.attention": "query key value bias heads head_size offsets scale lanes",
    "image.resize2d": "data size roi layout method coordinate_transformation_mode rounding_method cubic_alpha "
                      "cubic_exclude extrapolation_value out_dtype shape?",
    "matmul": "x1 x2 out_dtype x3? x4?", "take": "x indices axis mode", "where": "condition x1 x2",
    "gather_elements": "data indices axis", "concat": "tensors axis", "split": "x indices_or_sections axis",
    "strided_slice": "x axes begin end strides assume_inbound", "one_hot": "indices on_value off_value depth axis",
    "memory.join": "tensors axis", "memory.border": "shape pad_width pad_value dtype",
    "memory.inlay": "border x pad_width", "reshape": "x shape", "broadcast_to": "x shape",
    "full": "shape fill_value dtype", "shape_to_tensor": "shape", "slice_at": "x begins sizes axes strides",
    "image.list_boxes": "boxes scores limit overlap least most corners",
    "ml.tree_ensemble": "x roots features splits children weights table1? table2? table3? count tables comparison "
                        "aggregate marks",
    "ml.tree_branches": "x weights table1? table2? count roots features splits children kinds tables aggregate marks",
    "matmul_quantized": "x w scales zeros? b_layout n_size bits plan",
    "ml.lookup": "x keys values other", "qnn.requantize": "x multiplier shift",
    **{name: "data " + rest for name, rest in (
        ("tile", "repeats"), ("repeat", "repeats axis"), ("flip", "axis"), ("cumsum", "axis dtype exclusive"),
        ("cumprod", "axis dtype exclusive"), ("logcumsumexp", "axis dtype exclusive"), ("cummax", "axis"),
        ("cummin", "axis"))},
    **{f"nn.{cell}{kind}": f"{given} r b {states} hidden_size direction activations" for cell, states in (
        ("gru", "h0"), ("rnn", "h0"), ("lstm", "h0 c0")) for kind, given in (("", "x w"), ("_steps", "p"))},
}


def _parameters(spec):
    """Classic parameters of an operator that the table above does not name."""
    least, most = spec.arity
    more = [f"x{n}?" for n in range(least + 1, most + 1)] if "arithmetic" in spec.attrs else []
    tensors = {1: "data" if spec.name.startswith("nn.") else "x", 2: "x1 x2", 3: "start end step",
               4: "x1 x2 x3 x4"}[most - len(more)]
    return " ".join([tensors, *more, *spec.attrs])


def _finish(operator, args, attrs):
    """The inferred call. Numbers and arrays beside tensors become constants of the tensors' dtype."""
    dtype = attrs.get("dtype") if operator == "full" else None
    if op_table.get(operator).kind in ("elementwise", "broadcast"):
        known = [dtype_of(a) for a in args if isinstance(a, RelaxExpr) and hasattr(a.struct_info, "dtype")]
        dtype = known[-1] if known else None  # of where: not the condition's
        args = [_constant(a, dtype) for a in args]
    elif operator == "full":
        args = [args[0], _constant(args[1], dtype)]
    result = call_op(operator, *args, **attrs)
    return RelaxTuple((result, *args[3:])) if operator == "nn.batch_norm" else result


def _constant(value, dtype):
    """A Constant of a number, an array, an immediate or a PrimValue; other graph expressions pass."""
    value = value.value if isinstance(value, PrimValue) else value
    if isinstance(value, (IntImm, FloatImm)):
        return const(value.value, dtype or value.dtype)
    if isinstance(value, PrimExpr):
        raise TypeError(f"an operator on tensors takes tensors and numbers that are known; {value} is symbolic: compute "
                        "with it in a prim_func, which R.call_tir(..., tir_vars=...) gives it")
    return value if isinstance(value, RelaxExpr) else const(value, dtype)


SIGNATURES = {name: f"{name}: {_OWN.get(name) or _parameters(spec)}" for name, spec in op_table.OPS.items()}
SIGNATURES["nn.dense"] = "nn.dense: data weight out_dtype"
# As the first scripts for Relax call them.
SIGNATURES |= {"dense": SIGNATURES["nn.dense"], "relu": SIGNATURES["nn.relu"], "softmax": SIGNATURES["nn.softmax"]}
SIGNATURES["nn.leakyrelu"] = "nn.leaky_relu: data alpha"
def _shape_of(ops, x):
    """The shape of a tensor, as a value."""
    return get_shape_of(x)


_shape_of.inline = composites.linear.inline = True  # TVM's is three calls, too
_COMPOSITES = {**composites.SHARED, "shape_of": _shape_of, "linear": composites.linear, **TENSORS, **NN}
_namespace = GraphNamespace(SIGNATURES, _finish, _COMPOSITES, RUNTIME)
call, names = _namespace.call, _namespace.names
_KNOWN = frozenset(names()) - frozenset(BODIES)
provides("graph_operator")(call)
provides("classic_call")(_namespace.again)
provides("in_operators")(_namespace.in_operators)
provides("classic_names")(lambda: _KNOWN)


def register_gradient(op_name, fgradient=None, level=10):
    """Let transform.Gradient differentiate an operator by fgradient(result, call, gradient, builder), which gives a list:
    of each operand the derivative, or grad.no_grad(operand). Without it, a decorator of one."""
    return op_table.register_op_attr(op_name, "FPrimalGradient", fgradient, level)


__all__ = ["call", "call_builtin_with_ctx", "call_dps_packed", "call_inplace_packed", "call_packed",
           "call_pure_packed", "call_tir", "call_tir_inplace", "call_tir_with_grad", "names",
           "register_gradient"]


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return _namespace.member(name)


def __dir__():
    return sorted({n.partition(".")[0] for n in names()} | set(__all__))
