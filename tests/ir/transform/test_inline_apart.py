"""Functions that are inlined in dataflow blocks which may not hold what they do; functions that leave modules."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.relax.expr import DataflowVar
from ingot.ir.script.functions import from_source

TEXT = '''
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.add(x, x)
            b = cls.choose(a, c)
            d = R.multiply(b, a)
            R.output(d)
        return d

    @R.function(private=True)
    def choose(y: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        if c:
            z = R.exp(y)
        else:
            z = R.negative(y)
        return z
'''


@pytest.mark.parametrize("made", [
    lambda mod: relax.transform.InlinePrivateFunctions()(mod),
    lambda mod: tvm.IRModule({"main": mod["main"].inline_functions({"choose": mod["choose"]})})], ids=["pass", "method"])
def test_a_branch_ends_the_dataflow_block(made):
    """What is used on both sides of it is a Var from then on."""
    mod = from_source(TEXT)
    after = made(mod)
    assert relax.analysis.well_formed(after) and len(after.functions) == 1
    blocks = after["main"].body.blocks
    assert [type(b).__name__ for b in blocks] == ["DataflowBlock", "BindingBlock", "DataflowBlock"]
    assert not isinstance(blocks[0].bindings[0].var, DataflowVar)
    x = np.array([0.5, 1, 2], np.float32)
    vm = relax.VirtualMachine(tvm.compile(after, "c"), tvm.cpu())
    for c, want in ((True, np.exp(2 * x) * 2 * x), (False, -4 * x * x)):
        np.testing.assert_allclose(vm["main"](tvm.nd.array(x), tvm.nd.array(np.array(c))).numpy(), want, rtol=1e-5)


def test_functions_are_left_out_of_modules():
    mod = from_source(TEXT).clone()
    del mod["choose"]
    assert list(map(str, mod.functions)) == ["main"]
    with pytest.raises(KeyError, match="choose"):
        del mod["choose"]


def test_expressions_that_are_never_negative():
    n, m = tvm.tir.Var("n", "int64"), tvm.tir.Var("m", "int64")
    tensor = relax.TensorStructInfo((n - 1, 4, m), "float32")
    info = relax.TupleStructInfo([tensor, relax.ShapeStructInfo((m, n - 1, n)), relax.PrimStructInfo(value=n * 2)])
    found = relax.analysis.collect_non_negative_expressions(info)
    assert [str(e) for e in found] == [str(e) for e in (n - 1, m, n)]
