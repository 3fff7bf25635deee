"""Helpers of the operator tests: lower a call and interpret it, evaluate it, compare the two."""
import numpy as np
from interp import run

from ingot.ir import op as op_table
from ingot.ir import te
from ingot.ir.expr import IntImm, Var
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_op
from ingot.ir.tir.stmt import Block
from ingot.ir.node import collect


def array(shape, seed=0, dtype="float32"):
    """Values around zero; integers in [-9, 9]."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def arrays(*shapes, dtype="float32"):
    return [array(s, i, dtype) for i, s in enumerate(shapes)]


def call_of(name, shapes, attrs, dtype="float32"):
    """The inferred call of `name` on variables of `shapes` (ints, or Vars for symbolic dimensions)."""
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    return call_op(name, *(RelaxVar(f"a{i}", TensorStructInfo(s, t)) for i, (s, t) in enumerate(zip(shapes, dtypes))),
                   **attrs)


def lower(call):
    """The PrimFunc of a call: its arguments, then its result."""
    inputs = [te.placeholder([int(d) if isinstance(d, IntImm) else d for d in a.struct_info.shape],
                             a.struct_info.dtype, f"a{i}") for i, a in enumerate(call.args)]
    result = op_table.get(call.op).lower(inputs, call.attrs, call.struct_info)
    assert result.dtype == call.struct_info.dtype
    return te.create_prim_func([*inputs, result])


def block_names(func):
    return [b.name_hint for b in collect(func, Block) if b.name_hint != "root"]


def evaluate(name, inputs, **attrs):
    """The reference evaluation, whose shape and dtype must be those inferred."""
    call = call_of(name, [x.shape for x in inputs], attrs, [x.dtype.name for x in inputs])
    result = op_table.get(name).evaluate(inputs, call.attrs)
    assert result.shape == call.struct_info.static_shape
    assert result.dtype.name == call.struct_info.dtype
    return result


def check(name, inputs, tolerance=2e-5, batch_axes=None, **attrs):
    """Interpret the lowered call and compare with the reference, statically shaped and with a symbolic batch.

    batch_axes: per input, the axis that the symbolic lowering makes a variable (None: none); default axis 0 of the
    first input. Returns (the static PrimFunc, the result).
    """
    expected = evaluate(name, inputs, **attrs)
    dtypes = [x.dtype.name for x in inputs]
    func = lower(call_of(name, [x.shape for x in inputs], attrs, dtypes))
    _run_and_compare(func, inputs, expected, tolerance)
    batch = Var("n", "int64")
    axes = batch_axes or [0] + [None] * (len(inputs) - 1)
    shapes = [tuple(batch if k == axis else d for k, d in enumerate(x.shape)) for x, axis in zip(inputs, axes)]
    call = call_of(name, shapes, attrs, dtypes)
    _run_and_compare(lower(call), inputs, expected, tolerance)
    return func, expected


def _run_and_compare(func, inputs, expected, tolerance):
    actual = np.full(expected.shape, 77, expected.dtype)
    run(func, *inputs, actual)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
