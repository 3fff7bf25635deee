"""Struct info of calls at the edges: one part, symbolic parts, more than there are, what operands contradict."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, tir
from ingot.ir.op import InferError
from ingot.relax import TensorStructInfo, Var, op
from ingot.relax.analysis import collect_non_negative_expressions, defined_symbolic_vars
from ingot.script import ir as I
from ingot.script import relax as R

n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def var(*shape, dtype="float32"):
    return Var("x", TensorStructInfo(shape, dtype))


@pytest.mark.parametrize("call, message", [
    (lambda: op.full((2, 3), var(1)), "fill_value must be a tensor without dimensions"),
    (lambda: op.full_like(var(2, 3), Var("v", TensorStructInfo(None, "float32", -1))), "without dimensions"),
    (lambda: op.where(var(2, 3), var(2, 3), var(2, 3)), "the condition must be bool"),
    (lambda: op.image.resize2d(var(1, 3, 8, 8), (3, 3, 3)), "size has 3 numbers, it must have 2"),
    (lambda: op.split(var(6), [Var("v", relax.PrimStructInfo("int64"))]), "must be integers"),
    (lambda: op.nn.layer_norm(var(2, 4), var(4, dtype="int8"), var(4), axes=-1), "differ in dtype"),
    (lambda: op.concat([var(n, 4), var(n, 5)], axis=0), "axis 1 differs|do not fit|differ"),
    (lambda: op.scatter_elements(var(4, 4), var(n, m, dtype="int64"), var(n + 1, m)), "must have one shape"),
    (lambda: op.memory.view(var(n), relax.ShapeExpr((n + 1,))), "more than|larger than"),
    (lambda: op.memory.view(var(8), relative_byte_offset=relax.PrimValue(16)), "ends beyond it"),
])
def test_refused(call, message):
    with pytest.raises(InferError, match=message):
        call()


def test_one_part_is_the_tensor_itself():
    x = var(n, 4)
    for parts in (1, []):
        assert op.split(x, parts, axis=1).struct_info == TensorStructInfo((n, 4), "float32")

    @I.ir_module
    class Split:
        @R.function
        def main(x: R.Tensor((6,), "float32")):
            y = R.split(x, 1)
            return R.add(y, y)

    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(tvm.compile(Split, "c")(x), x + x)


def test_parts_of_symbolic_axes():
    fields = op.split(var(n, 3), [2, 5]).struct_info.fields
    for extent in (0, 1, 3, 5, 9):
        x = np.zeros((extent, 3))
        known = {n: tir.const(extent, "int64")}
        sizes = [int(tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(f.shape[0], known)).value) for f in fields]
        assert sizes == [len(p) for p in (x[:2], x[2:5], x[5:])]
    assert [int(f.shape[0]) for f in op.split(var(6), [-2, 4, 2, 9]).struct_info.fields] == [0, 4, 0, 4, 0]


def test_dimensions_that_may_differ_are_not_known():
    assert op.concat([var(n, 3), var(m, 2)], axis=1).struct_info == TensorStructInfo(None, "float32", 2)
    assert op.concat([var(n, 3), var(n, 2)], axis=1).struct_info == TensorStructInfo((n, 5), "float32")


def test_topk_takes_no_more_than_there_are():
    @I.ir_module
    class Top:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            return R.topk(x, k=6, axis=1, ret_type="values")

    x = np.random.default_rng(0).random((2, 4), np.float32)
    np.testing.assert_array_equal(tvm.compile(Top, "c")(x), -np.sort(-x, 1))


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_rounding_integers(name):
    bb = relax.BlockBuilder()
    x = var(3, dtype="int64")
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(getattr(op, name)(x)))
    value = np.array([-(1 << 62) - 1, 0, (1 << 60) + 1])
    np.testing.assert_array_equal(tvm.compile(bb.get(), "c")(value), value)


def test_which_dimensions_struct_info_tells():
    params = [Var("a", TensorStructInfo((n * m, n - 2), "float32")), Var("n", relax.PrimStructInfo(value=n)),
              Var("s", relax.ShapeStructInfo((m, 4)))]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(params[0])
    assert set(defined_symbolic_vars(bb.get()["main"])) == {n, m}
    found = collect_non_negative_expressions(relax.TupleStructInfo([p.struct_info for p in params]))
    tvm.ir.assert_structural_equal(found, [n * m, n - 2, m])


def test_arguments_are_converted():
    from ingot.relax.utils import args_converter

    @args_converter.auto
    def f(x: relax.Expr, n: int, *rest: relax.Expr):
        return x, n, rest

    x, number, rest = f((1, 2), 3, 4, "text")
    assert isinstance(x, relax.ShapeExpr) and number == 3
    assert [type(r) for r in rest] == [relax.PrimValue, relax.PrimValue]

    @args_converter.to_list_expr("xs")
    def g(xs, other=None):
        return xs, other

    assert isinstance(g([1, 2])[0][1], relax.PrimValue) and g(None) == (None, None)
    with pytest.raises(TypeError, match="a list of graph expressions"):
        g(1)
    with pytest.raises(ValueError, match="has no parameter ys"):
        args_converter.to_expr("ys")(lambda x: x)


@I.ir_module
class Taken:
    @R.function
    def main(x: R.Tensor(("n", 3, 4), "float32"), i: R.Tensor((2, 2), "int32")):
        return R.take(x, i, axis=1, mode="nan")


@I.ir_module
class Parts:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        y = R.split(x, [2, 5], axis=0)
        z = R.split(x, 3, axis=0)
        a, c = y[0], y[2]
        d, f = z[0], z[2]
        return R.sum(a, axis=0), R.sum(c, axis=0), R.sum(d), f


@pytest.mark.parametrize("legalize", [lambda mod: mod, lambda mod: relax.transform.LegalizeOps()(mod)])
def test_take_gives_nan_outside(legalize):
    x, i = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[0, -1], [3, 2]], np.int32)
    expected = np.where(((i >= 0) & (i < 3))[None, :, :, None], x[:, np.clip(i, 0, 2)], np.nan)
    np.testing.assert_array_equal(tvm.compile(legalize(Taken), "c")(x, i), expected)
    with pytest.raises(InferError, match="which int32 has not"):
        op.take(var(3, dtype="int32"), var(2, dtype="int64"), axis=0, mode="nan")


@pytest.mark.parametrize("legalize", [lambda mod: mod, lambda mod: relax.transform.LegalizeOps()(mod)])
def test_symbolic_axes_are_split(legalize):
    built = tvm.compile(legalize(Parts), "c")
    for n in (3, 5, 8):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        size = -(-n // 3)
        for found, expected in zip(built(x), (x[:2].sum(0), x[5:].sum(0), x[:size].sum(), x[2 * size:])):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="no result for these sizes"):  # of one row no three parts
        built(np.ones((1, 3), np.float32))
