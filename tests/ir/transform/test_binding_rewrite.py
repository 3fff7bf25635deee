"""DataflowBlockRewrite: bindings of a dataflow block added, left out and used in the place of others."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import structural_equal
from ingot.ir.relax.evaluate import evaluate
from ingot.relax.binding_rewrite import DataflowBlockRewrite
from ingot.script import relax as R


@R.function
def func(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.negative(x)
        c = R.add(a, x)
        unused = R.multiply(b, b)
        R.output(c)
    d = R.add(c, c)
    return d


X = np.array([0.5, 1, 2], np.float32)


def rewrite():
    names = {b.var.name: b.var for b in func.bindings}
    return DataflowBlockRewrite(func.body.blocks[0], func), names


def test_uses_are_replaced():
    """The function that it began with stays; what is no longer used can be left out."""
    rw, names = rewrite()
    rw.replace_all_uses(names["a"], names["b"])
    rw.remove_unused(names["a"])
    rw.remove_all_unused()
    new = rw.mutated_root_fn()
    assert [b.var.name for b in rw.mutated_dfb().bindings] == ["b", "c"] and new.body.blocks[0] is rw.mutated_dfb()
    np.testing.assert_allclose(evaluate(new, [X]), [0, 0, 0])
    np.testing.assert_allclose(evaluate(func, [X]), 2 * (np.exp(X) + X), rtol=1e-6)
    assert relax.analysis.well_formed(new)


def test_bindings_are_added():
    rw, names = rewrite()
    rw.add(relax.op.multiply(names["c"], names["c"]), name="c")
    rw.add(names["c"], is_dfvar=True)
    first, second = (b.var for b in rw.mutated_dfb().bindings[-2:])
    assert first.name != "c" and not isinstance(first, relax.DataflowVar) and isinstance(second, relax.DataflowVar)
    assert second.name.startswith("tmp")
    rw.replace_all_uses(names["d"], first)
    np.testing.assert_allclose(evaluate(rw.mutated_root_fn(), [X]), (np.exp(X) + X) ** 2, rtol=1e-6)
    mod = rw.mutate_irmodule(tvm.IRModule({"main": func, "other": func.with_attr("n", 1)}))
    assert mod["main"] is rw.mutated_root_fn() and structural_equal(mod["other"], func.with_attr("n", 1))


def test_a_block_that_is_left_empty_goes():
    @R.function
    def dead(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return x
    rw = DataflowBlockRewrite(dead.body.blocks[0], dead)
    rw.remove_unused(dead.bindings[0].var)
    assert not rw.mutated_root_fn().body.blocks and not rw.mutated_dfb().bindings


def test_what_cannot_be():
    rw, names = rewrite()
    other = relax.Var("other", relax.TensorStructInfo((3,), "float32"))
    for change, message in ((lambda: rw.remove_unused(names["a"]), "a is used"),
                            (lambda: rw.remove_unused(other), "the block binds no other"),
                            (lambda: rw.replace_all_uses(names["a"], names["c"]), "c would use c, which is not bound there"),
                            (lambda: rw.replace_all_uses(names["c"], names["b"]), "d would use b, which is not bound"),
                            (lambda: rw.add_binding(func.bindings[0]), "a is bound already"),
                            (lambda: rw.mutate_irmodule(tvm.IRModule()), "none of the module's")):
        with pytest.raises(ValueError, match=message):
            change()
    rw.remove_unused(other, allow_undef=True)
    assert rw.mutated_root_fn() is func
    with pytest.raises(ValueError, match="none of the function's"):
        DataflowBlockRewrite(relax.DataflowBlock(()), func)
