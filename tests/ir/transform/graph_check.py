"""Helpers of the graph pass tests: small modules, running them at any stage, and checking that passes keep results."""
import numpy as np
from interp import run as run_prim_func

from ingot.ir.expr import Var
from ingot.ir.module import IRModule
from ingot.ir.relax import (Constant, DataflowVar, RelaxCall, RelaxVar, TensorStructInfo, TupleStructInfo, VarBinding,
                            call_op, dataflow_function)
from ingot.ir.relax.evaluate import dim_value, evaluate_expr, run_call
from ingot.ir.relax.verifier import verify
from ingot.ir.te.create import unique_name
from ingot.ir.transform.fold_constants import fold_constants
from ingot.ir.transform.fold_scale import decompose_batch_norm, fold_scale_axis
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.identities import remove_identities
from ingot.ir.transform.in_place import in_place
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.outputs import materialize_outputs
from ingot.ir.transform.pack import pack_weights, split_padding
from ingot.ir.transform.pool_early import pool_early
from ingot.ir.transform.project_inputs import project_inputs
from ingot.ir.transform.slice_early import slice_early
from machines import machine

PASSES = [fold_constants, decompose_batch_norm, fold_scale_axis, remove_identities, slice_early,
          pool_early, project_inputs, split_padding, lambda mod: pack_weights(mod, machine(4)), fuse_ops, in_place,
          materialize_outputs]


def data(*shape, seed=0, scale=1.0):
    """Values around zero, float32."""
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def const(*shape, seed=0, name="w"):
    return Constant(data(*shape, seed=seed + 100), name)


def param(name, *shape, dtype="float32"):
    return RelaxVar(name, TensorStructInfo(shape, dtype))


class Graph:
    """A module being built: g.op("nn.relu", x) binds a call, returns its variable; g.module(outputs) is the result."""

    def __init__(self, *params):
        self.params, self.bindings, self.names = params, [], {p.name for p in params}

    def op(self, name, *args, **attrs):
        return self.bind(call_op(name, *args, **attrs), name.rpartition(".")[2])

    def bind(self, value, name="item"):
        var = DataflowVar(unique_name(name, self.names), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    def module(self, *outputs):
        return IRModule({"main": dataflow_function(self.params, self.bindings, outputs, {"global_symbol": "main"})})


def ops(mod, name="main"):
    """The operators of a function in order; calls of groups as the tuple of their operators."""
    found = []
    for b in mod[name].bindings:
        if isinstance(b.value, RelaxCall):
            found.append(tuple(ops(mod, b.value.attrs["gv"].name)) if b.value.op == "call" else b.value.op)
    return found


def execute(mod, *inputs):
    """The outputs of "main" at any stage: operators by their reference, groups likewise, PrimFuncs interpreted."""
    return _execute(mod, mod["main"], inputs)


def _execute(mod, func, inputs):
    dims, values = {}, dict(zip(func.params, inputs))
    for p, x in values.items():
        for d, size in zip(p.struct_info.shape, x.shape):
            if isinstance(d, Var):
                dims[d] = size
    for b in func.bindings:
        values[b.var] = _value(mod, b.value, values, dims)
        if isinstance(b.var.struct_info, TensorStructInfo):
            assert values[b.var].shape == tuple(dim_value(d, dims) for d in b.var.struct_info.shape), b.var.name
    return tuple(np.asarray(evaluate_expr(o, values, dims)) for o in func.outputs)


def _value(mod, value, values, dims):
    if not isinstance(value, RelaxCall) or value.op not in ("call", "call_tir"):
        return evaluate_expr(value, values, dims)
    args = [evaluate_expr(a, values, dims) for a in value.args]
    callee = mod[value.attrs["gv"]]
    if value.op == "call":
        return _execute(mod, callee, args)[0]
    several = isinstance(value.struct_info, TupleStructInfo)
    infos = value.struct_info.fields if several else (value.struct_info,)
    outs = [np.full([dim_value(d, dims) for d in i.shape], 77, i.dtype.numpy) for i in infos]
    run_call(callee, (*args, *outs), [dim_value(d, dims) for d in value.attrs["sym_args"]], run_prim_func)
    return tuple(outs) if several else outs[0]


def close(actual, expected, tolerance=1e-4):
    """Equal within `tolerance` of the largest magnitude."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        assert a.shape == e.shape and a.dtype == e.dtype
        scale = max(float(np.abs(e).max(initial=0)), 1e-6) if e.dtype.kind == "f" else 1
        np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * scale)


def check(mod, *inputs, passes=PASSES, lower=True, compare=close):
    """Run passes (and lower_ops), each of which must keep the module well formed and its results. Returns the module
    before lowering."""
    expected = execute(verify(mod), *inputs)
    for p in passes:
        mod = verify(p(mod))
        compare(execute(mod, *inputs), expected)
    if lower:
        compare(execute(verify(lower_ops(materialize_outputs(mod))), *inputs), expected)
    return mod


def weights(mod):
    """All constants of more than one element that main's calls read, each once."""
    found = {id(a.data): a for b in mod["main"].bindings if isinstance(b.value, RelaxCall) for a in b.value.args
             if isinstance(a, Constant) and a.data.size > 1}
    return list(found.values())


__all__ = ["Graph", "PASSES", "check", "close", "const", "data", "execute", "ops", "param", "weights"]
