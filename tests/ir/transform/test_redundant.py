"""Passes that leave out reshapes and layouts which lead back, and those that make other loops of operators."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source

T = relax.transform


def module(text):
    return from_source("@I.ir_module\nclass M:\n" + "\n".join("    " + line for line in text.strip().splitlines()))


def calls(mod):
    return [str(c.op) for c in collect(mod["main"].body, RelaxCall)]


def run(mod, *arrays):
    vm = relax.VirtualMachine(tvm.compile(mod, "c"), tvm.cpu())
    return vm["main"](*map(tvm.nd.array, arrays)).numpy()


def test_reshapes_of_reshapes():
    mod = module('''
@R.function
def main(x: R.Tensor(("n", 6), "float32")):
    n = T.int64()
    with R.dataflow():
        a = R.reshape(x, R.shape([n, 6]))
        b = R.reshape(a, R.shape([n * 2, 3]))
        c = R.reshape(b, R.shape([n, 2, 3]))
        y = R.exp(c)
        R.output(y)
    return y
''')
    after = T.RemoveRedundantReshape()(mod)
    assert calls(after) == ["reshape", "exp"] and relax.analysis.well_formed(after)
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, [x]), evaluate(mod, [x]))
    primitive = mod.with_function("main", mod["main"].with_attr("Primitive", 1))
    assert structural_equal(T.RemoveRedundantReshape()(primitive), primitive)


@pytest.mark.parametrize("first, second, kept", [
    (lambda i, j: (i * 4 + j,), lambda k: (k // 4, k % 4), 0), (lambda i, j: (j, i), lambda i, j: (j, i), 0),
    (lambda i, j: (i * 4 + j,), lambda k: (k % 4, k // 4), 2),  # the same shape, and another order
    (lambda i, j: (j, i), lambda i, j: (i, j), 2)], ids=["rows", "transposed", "columns", "once"])
def test_layouts_that_lead_back(first, second, kept):
    bb, x = relax.BlockBuilder(), relax.Var("x", relax.TensorStructInfo((4, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(relax.op.layout_transform(x, index_map=first))
            b = bb.emit(relax.op.layout_transform(a, index_map=second))
            y = bb.emit_output(relax.op.exp(b))
        bb.emit_func_output(y)
    mod = bb.get()
    after = T.OptimizeLayoutTransform()(mod)
    assert calls(after).count("layout_transform") == kept
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    np.testing.assert_allclose(run(after, x), run(mod, x), rtol=1e-6)


def test_fast_math():
    mod = module('''
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    a = R.nn.softmax(x, axis=0)
    b = R.exp(a)
    c = R.tanh(b)
    d = R.erf(c)
    return R.add(d, x)
''')
    after = T.FastMathTransform()(mod)
    assert calls(after) == ["call_tir"] * 4 + ["add"] and relax.analysis.well_formed(after)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(after, x), run(mod, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("x, w, axes", [((5, 6), (7, 6), None), ((2, 5, 6), (2, 7, 6), [0, 2, 1]),
                                        ((2, 5, 6), (7, 6), [1, 0]), ((6,), (3, 7, 6), [0, 2, 1])])
def test_products_of_what_is_transposed(x, w, axes):
    mod = module(f'''
@R.function
def main(x: R.Tensor({x}, "float32"), w: R.Tensor({w}, "float32")):
    with R.dataflow():
        t = R.permute_dims(w, {axes})
        y = R.matmul(x, t)
        R.output(y)
    return y
''')
    after = T.FuseTransposeMatmul()(mod)
    assert calls(after) == ["call_tir"] and "NT_matmul" in after and relax.analysis.well_formed(after)
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(np.float32) for s in (x, w))
    np.testing.assert_allclose(run(after, a, b), run(mod, a, b), rtol=1e-4, atol=1e-5)


def test_products_that_stay():
    """Another permutation, and a transposition outside of a dataflow block."""
    flow, plain = "    with R.dataflow():\n        {}\n        {}\n        R.output(y)\n", "    {}\n    {}\n"
    for x, w, axes, form in (((6, 2), (6, 2, 6), [2, 1, 0], flow), ((2, 6, 6), (2, 2, 6), [0, 2, 1], plain)):
        lines = form.format(f"t = R.permute_dims(w, {axes})", "y = R.matmul(x, t)")
        mod = module(f'@R.function\ndef main(x: R.Tensor({x}, "float32"), w: R.Tensor({w}, "float32")):\n{lines}    return y')
        assert structural_equal(T.FuseTransposeMatmul()(mod), mod)


def test_equal_layouts_are_made_once():
    """Index maps are equal whose own variables are others; different ones stay apart."""
    bb, x = relax.BlockBuilder(), relax.Var("x", relax.TensorStructInfo((8,), "float32"))
    maps = [lambda i: (i // 4, i % 4), lambda k: (k // 4, k % 4), lambda i: (i % 2, i // 2)]
    with bb.function("main", [x]):
        a, b, c = (bb.emit(relax.op.layout_transform(x, index_map=m)) for m in maps)
        bb.emit_func_output(relax.op.add(relax.op.multiply(a, b), relax.op.reshape(c, (2, 4))))
    mod = bb.get()
    after = T.DeadCodeElimination()(T.EliminateCommonSubexpr()(mod))
    assert calls(after).count("layout_transform") == 2
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(after, x), run(mod, x))
