"""concat and padding as loop programs: straight copies, without conditions, right for every shape."""
import itertools

import numpy as np
import pytest
from interp import run

from ingot.ir.expr import Select, Var
from ingot.ir.node import collect
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.ops.copies import lower_concat, lower_pad, pads_planes
from ingot.ir.te import placeholder
from ingot.ir.tir.stmt import BufferStore, For, IfThenElse
from ingot.ir.tir.verifier import verify


def data(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def tensors(shapes, dtype="float32"):
    return [placeholder(s, dtype, f"x{k}") for k, s in enumerate(shapes)]


def output(op, shapes, dtype="float32", **attrs):
    return call_op(op, *(RelaxVar(f"x{k}", TensorStructInfo(s, dtype)) for k, s in enumerate(shapes)),
                   **attrs).struct_info


def concat(shapes, axis, dtype="float32"):
    return verify(lower_concat(tensors(shapes, dtype), {"axis": axis}, output("concat", shapes, dtype, axis=axis)))


@pytest.mark.parametrize("shapes, axis", [
    ([(2, 3), (2, 5)], 1), ([(2, 3), (4, 3)], 0), ([(2, 3), (2, 5)], -1), ([(4,), (1,), (2,)], 0),
    ([(1, 2, 3, 4), (1, 5, 3, 4), (1, 1, 3, 4)], 1), ([(3, 2)], 1), ([(2, 0), (2, 3)], 1),
])
def test_concat(shapes, axis):
    arrays = [data(*s) for s in shapes]
    expected = np.concatenate(arrays, axis)
    func, out = concat(shapes, axis), np.full(expected.shape, np.nan, np.float32)
    run(func, *arrays, out)
    np.testing.assert_array_equal(out, expected)
    assert not collect(func.body, (IfThenElse, Select))
    assert len(collect(func.body, BufferStore)) == len(shapes)


def test_concat_of_one_tensor_several_times_reads_one_parameter():
    x, = tensors([(2, 3)])
    func = verify(lower_concat([x, x], {"axis": 0}, output("concat", [(2, 3), (2, 3)], axis=0)))
    assert len(func.params) == 2
    value, out = data(2, 3), np.empty((4, 3), np.float32)
    run(func, value, out)
    np.testing.assert_array_equal(out, np.concatenate([value, value]))


@pytest.mark.parametrize("dtype", ["int64", "bool", "float64"])
def test_concat_of_other_types(dtype):
    func = concat([(2,), (3,)], 0, dtype)
    arrays = [np.arange(n).astype(dtype) for n in (2, 3)]
    out = np.empty(5, dtype)
    run(func, *arrays, out)
    np.testing.assert_array_equal(out, np.concatenate(arrays))


def test_concat_of_symbolic_extents():
    n, m = Var("n", "int64"), Var("m", "int64")
    shapes = [(n, 3), (2, 3), (m, 3)]
    func = lower_concat(tensors(shapes), {"axis": 0}, output("concat", shapes, axis=0))
    func = func.replace(params=(*func.params, n, m))
    arrays, out = [data(k, 3) for k in (4, 2, 5)], np.empty((11, 3), np.float32)
    run(verify(func), *arrays, out, 4, 5)
    np.testing.assert_array_equal(out, np.concatenate(arrays))


# ---------------------------------------------------------------- padding

def pad(shape, pads, value=0.0, dtype="float32"):
    x, = tensors([shape], dtype)
    width = tuple(itertools.chain(*pads))
    return verify(lower_pad(x, pads, value, output("nn.pad", [shape], dtype, pad_width=width)))


@pytest.mark.parametrize("shape, pads", [
    ((2, 3, 4), [(0, 0), (1, 2), (3, 0)]), ((1, 2, 3, 4), [(0, 0), (0, 0), (1, 1), (1, 1)]),
    ((2, 1, 2, 1), [(0, 0), (0, 0), (0, 3), (2, 0)]), ((2, 1, 2, 3, 2), [(0, 0)] * 3 + [(1, 0), (0, 1)]),
    ((1, 2, 3), [(0, 0), (0, 0), (0, 0)]),
])
@pytest.mark.parametrize("value", [0.0, -1.5])
def test_pad(shape, pads, value):
    assert pads_planes(pads)
    x, func = data(*shape), pad(shape, pads, value)
    expected = np.pad(x, pads, constant_values=value)
    out = np.full(expected.shape, np.nan, np.float32)
    run(func, x, out)
    np.testing.assert_array_equal(out, expected)
    assert not collect(func.body, (IfThenElse, Select))


def test_pad_of_integers():
    x, out = np.arange(8, dtype=np.int32).reshape(1, 2, 4), np.empty((1, 4, 5), np.int32)
    run(pad((1, 2, 4), [(0, 0), (1, 1), (0, 1)], 7, "int32"), x, out)
    np.testing.assert_array_equal(out, np.pad(x, [(0, 0), (1, 1), (0, 1)], constant_values=7))


def test_a_plane_is_filled_and_copied_in_one_turn():
    """The sides and the inside are under the loops over planes, so that a plane is in the cache once."""
    func = pad((2, 3, 4, 5), [(0, 0), (0, 0), (1, 1), (1, 1)])
    loops = collect(func.body, For)
    assert [str(f.extent) for f in loops if len(collect(f, BufferStore)) == 5] == ["3", "2"]


@pytest.mark.parametrize("pads, fits", [
    ([(0, 0), (1, 1)], False), ([(0, 0), (1, 1), (1, 1)], True), ([(1, 0), (1, 1), (1, 1)], False),
    ([(0, 0), (-1, 1), (1, 1)], False), ([(0, 0), (0, 1), (0, 0), (0, 0)], True),
    ([(0, 0), (0, 1), (0, 0), (0, 0), (0, 0)], False),
])
def test_which_paddings_are_of_planes(pads, fits):
    assert pads_planes(pads) is fits
