"""Helpers: lower a call of any operator (shape arguments, tuples, PrimFuncs), interpret it, compare with evaluate."""
import numpy as np
from interp import run

from ingot.ir import op as op_table
from ingot.ir import te
from ingot.ir.expr import IntImm, Var
from ingot.ir.relax import RelaxVar, ShapeExpr, TensorStructInfo, TupleStructInfo, call_op
from ingot.ir.tir import PrimFunc

N = Var("n", "int64")


def infos(call):
    """The struct infos of a call's results, as a list."""
    out = call.struct_info
    return list(out.fields) if isinstance(out, TupleStructInfo) else [out]


def call_of(name, args, attrs=None, symbolic=()):
    """The inferred call: arrays become variables, tuples shape arguments. symbolic: {(argument, axis): Var}."""
    symbolic = dict(symbolic)
    relax_args = []
    for n, a in enumerate(args):
        if isinstance(a, tuple):
            relax_args.append(ShapeExpr(tuple(symbolic.get((n, k), d) for k, d in enumerate(a))))
        else:
            shape = tuple(symbolic.get((n, k), d) for k, d in enumerate(a.shape))
            relax_args.append(RelaxVar(f"a{n}", TensorStructInfo(shape, a.dtype.name)))
    return call_op(name, *relax_args, **(attrs or {}))


def lower(call):
    """The PrimFunc of a call over its tensor arguments, then its results."""
    def dims(values):
        return tuple(d.value if isinstance(d, IntImm) else d for d in values)

    lowered = [a.values if isinstance(a, ShapeExpr) else te.placeholder(
        dims(a.struct_info.shape), a.struct_info.dtype, a.name) for a in call.args]
    result = op_table.get(call.op).lower(lowered, call.attrs, call.struct_info)
    if isinstance(result, PrimFunc):
        return result
    results = list(result) if isinstance(result, tuple) else [result]
    assert [r.dtype for r in results] == [i.dtype for i in infos(call)]
    return te.create_prim_func([a for a in lowered if isinstance(a, te.Tensor)] + results)


def evaluate(name, args, attrs=None):
    """The results of the reference as a list."""
    call = call_of(name, args, attrs)
    result = op_table.get(name).evaluate(list(args), call.attrs)
    return list(result) if isinstance(result, tuple) else [result]


def interpret(call, args, results):
    """Run the lowered call on arrays; returns arrays shaped like `results`."""
    outputs = [np.full(r.shape, 77, r.dtype) for r in results]
    run(lower(call), *(a for a in args if not isinstance(a, tuple)), *outputs)
    return outputs


def check(name, *args, attrs=None, symbolic=(), tolerance=1e-5):
    """Compare interpreted lowering and reference; with `symbolic`, also lowered with those dimensions as variables.

    Returns the list of results of the reference.
    """
    expected = evaluate(name, args, attrs)
    calls = [call_of(name, args, attrs)]
    assert [i.static_shape for i in infos(calls[0])] == [e.shape for e in expected]
    assert [i.dtype for i in infos(calls[0])] == [e.dtype.name for e in expected]
    if symbolic:
        calls.append(call_of(name, args, attrs, symbolic))
    for call in calls:
        for mine, want in zip(interpret(call, args, expected), expected):
            np.testing.assert_allclose(mine, want, rtol=tolerance, atol=tolerance)
    return expected


def floats(*shape, seed=0, low=-3.0, high=3.0):
    """float32 values spread evenly between low and high, shuffled."""
    count = int(np.prod(shape))
    values = np.linspace(low, high, max(count, 1))[:count]
    return np.random.default_rng(seed).permutation(values).reshape(shape).astype(np.float32)


def ints(*shape, seed=0, low=-7, high=8, dtype="int32"):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
