"""DecomposeOpsForInference and DecomposeOpsForTraining of scripts:
normalizations in operators that they are made of."""
from __future__ import annotations

from ...expr import Var
from ...names import unique_name
from ...op import OPS
from ...relax.expr import (Function, MatchCast, RelaxCall, RelaxTuple, RelaxVar, ShapeExpr, ShapeStructInfo,
                           TensorStructInfo, TupleGetItem, TupleStructInfo, call_pure_packed, const)
from ...relax.op import call as operator
from ..call_rules import apply_rule


def decompose_for_inference(mod, func_name=None):
    """A module whose graph functions, or function func_name alone, have no nn.batch_norm, which is written out by the
    moving statistics, and no R.tensor_to_shape, whose dimensions get names (R.match_cast)."""
    return _over(_over(mod, func_name, _IN_TUPLES), func_name, _FOR_INFERENCE)


def decompose_for_training(mod, func_name=None):
    """As decompose_for_inference, of statistics of the data: nn.batch_norm gives new moving statistics, too, and there
    is no nn.layer_norm."""
    return _over(_over(_over(mod, func_name, _IN_TUPLES), func_name, _FOR_TRAINING), func_name, _FOR_INFERENCE)


def _over(mod, func_name, rules):
    if func_name is not None and func_name not in mod:
        raise ValueError(f"there is no function {func_name!r}; there are {', '.join(mod.functions)}")

    def rule(context, value):
        found = rules.get(value.op if isinstance(value, RelaxCall) else RelaxTuple)
        if found and getattr(value, "op", None) in OPS:  # in classic form attributes are those that were given
            value = value.replace(attrs={**OPS[value.op].attrs, **value.attrs})
        return found and found(context, value)
    return mod.with_functions({
        n: apply_rule(f, rule, (RelaxCall, RelaxTuple)) if isinstance(f, Function) and func_name in (None, n) else f
        for n, f in mod.functions.items()})


def _normal(context, x, mean, variance, attrs, gamma, beta):
    """((x - mean) / sqrt(variance + epsilon)) * gamma + beta, the last call not bound yet; without gamma where `scale`
    is false, without beta where `center` is."""
    bind, dtype, epsilon = context.emit, x.struct_info.dtype, attrs["epsilon"]
    centered = bind(operator("subtract", x, mean()))
    deviation = bind(operator("sqrt", bind(operator("add", variance(), const(epsilon, dtype)))))
    result = operator("divide", centered, deviation)
    for asked, name, factor in (("scale", "multiply", gamma), ("center", "add", beta)):
        if attrs.get(asked, True):
            result = operator(name, bind(result), factor())
    return result


def _in_tuple(context, call):
    """A nn.batch_norm that is a tuple itself, in classic form, as the tuple of its result and the moving statistics."""
    if not isinstance(call.struct_info, TupleStructInfo):
        return None
    return RelaxTuple((context.emit(call.replace(struct_info=call.args[0].struct_info)), *call.args[3:]))


def _other_axes(call):
    ndim = call.args[0].struct_info.ndim
    return [k for k in range(ndim) if k != call.attrs["axis"] % ndim]


def _batch_norm(context, call):
    x, gamma, beta, mean, variance = call.args

    def wide(value):
        return lambda: context.emit(operator("expand_dims", value, axis=_other_axes(call)))
    return _normal(context, x, wide(mean), wide(variance), call.attrs, wide(gamma), wide(beta))


def _layer_norm(context, call):
    x, gamma, beta = call.args
    axes = list(call.attrs["axes"])

    def moment(name):
        return lambda: context.emit(operator(name, x, axis=axes, keepdims=True))
    return _normal(context, x, moment("mean"), moment("variance"), call.attrs, lambda: gamma, lambda: beta)


def _tensor_to_shape(context, call):
    """The shape, by a function of the runtime; its dimensions are names that a MatchCast gives."""
    info = call.struct_info
    if not isinstance(info, ShapeStructInfo) or info.ndim < 0 or "dims" in call.attrs:
        return None
    given = context.emit(call_pure_packed("vm.builtin.tensor_to_shape", *call.args, sinfo_args=info), "gv")
    dims = tuple(Var("x", "int64") for _ in range(info.ndim))
    context.bindings.append(MatchCast(RelaxVar(unique_name("y", context.names), ShapeStructInfo(dims)), given))
    return ShapeExpr(dims)


# ---------------------------------------------------------------- training

def _batch_norm_of_data(context, call):
    """nn.batch_norm by the mean and the variance of the data."""
    moments = [context.emit(operator(name, call.args[0], axis=_other_axes(call), keepdims=False))
               for name in ("mean", "variance")]
    return call.replace(args=(*call.args[:3], *moments))


def _moving(context, value):
    """The tuple of a nn.batch_norm of data: its result, and the moving statistics after it."""
    call = context.producer(value.fields[0], "nn.batch_norm") if len(value.fields) == 3 else None
    if call is None or not all(isinstance(a.struct_info, TensorStructInfo) for a in value.fields[1:]):
        return None
    rate, dtype, moments = call.attrs["momentum"], call.args[0].struct_info.dtype, call.args[3:]
    inner = context.emit(RelaxTuple((value.fields[0], *moments)))

    def mixed(old, new):
        kept, given = (context.emit(operator("multiply", const(k, dtype), x))
                       for k, x in ((1 - rate, old), (rate, new)))
        return context.emit(operator("add", kept, given))
    return RelaxTuple((context.emit(TupleGetItem(inner, 0)), *map(mixed, value.fields[1:], moments)))


_IN_TUPLES = {"nn.batch_norm": _in_tuple}
_FOR_INFERENCE = {"nn.batch_norm": _batch_norm, "tensor_to_shape": _tensor_to_shape}
_FOR_TRAINING = {"nn.layer_norm": _layer_norm, "nn.batch_norm": _batch_norm_of_data, RelaxTuple: _moving}

__all__ = ["decompose_for_inference", "decompose_for_training"]
