"""PyExprVisitor and PyExprMutator: what they meet, what they rewrite, and what stays."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify
from ingot.script import ir as I, relax as R


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            t = (z, R.exp(y))
            out = R.add(t[0], t[1])
            R.output(out)
        return out


@R.function
def branches(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.nn.relu(x)
        y = R.add(a, x)
    else:
        y = R.multiply(x, x)
    z = R.nn.relu(y)
    return z


@relax.expr_functor.visitor
class Calls(relax.PyExprVisitor):
    def __init__(self):
        self.names = []

    def visit_call_(self, call):
        self.names.append(call.op.name)
        super().visit_call_(call)


def calls(func):
    found = Calls()
    found.visit_expr(func)
    return found.names


def test_visitor_meets_every_call():
    assert calls(Net["main"]) == ["relax.matmul", "relax.nn.relu", "relax.exp", "relax.add"]
    assert calls(branches) == ["relax.nn.relu", "relax.add", "relax.multiply", "relax.nn.relu"]
    with pytest.raises(TypeError, match="Calls visits graph expressions and functions, not a int"):
        Calls().visit_expr(3)


@relax.expr_functor.mutator
class Wider(relax.PyExprMutator):
    """relu(y) becomes max(y, 0) of two bindings; the constant is doubled before."""

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.nn.relu"):
            return call
        twice = self.builder_.emit(relax.op.add(call.args[0], call.args[0]))
        assert self.lookup_binding(twice).op.name == "relax.add"
        return relax.op.maximum(twice, relax.const(0.0))


@tvm.ir.transform.module_pass(opt_level=0, name="Widen")
class Widen:
    def transform_module(self, mod, ctx):
        rewriter = Wider(mod)
        for gv, func in mod.functions.items():
            assert gv.name_hint == gv
            if isinstance(func, relax.Function):
                rewriter.builder_.update_func(gv, rewriter.visit_expr(func))
        return rewriter.builder_.get()


def test_mutator_as_a_pass():
    mod = Widen()(Net)
    verify(mod)
    assert calls(mod["main"]) == ["relax.matmul", "relax.add", "relax.maximum", "relax.exp", "relax.add"]
    x, w = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)[:, :, :4]
    x = x[:2, :3]
    y = x @ w
    np.testing.assert_allclose(evaluate(mod, (x, w)), np.maximum(2 * y, 0) + np.exp(y), rtol=1e-5)


def test_mutator_goes_into_branches():
    new = Wider(tvm.IRModule({"main": branches})).visit_expr(branches)
    verify(tvm.IRModule({"main": new}))
    assert calls(new) == ["relax.add", "relax.maximum", "relax.add", "relax.multiply", "relax.add", "relax.maximum"]


class Nothing(relax.PyExprMutator):
    """Rewrites nothing."""


@pytest.mark.parametrize("func", [Net["main"], branches], ids=["dataflow", "branches"])
def test_what_is_not_rewritten_stays(func):
    tvm.ir.assert_structural_equal(Nothing().visit_expr(func), func)


class Drop(relax.PyExprMutator):
    def visit_call_(self, call):
        return self.visit_expr(call.args[0]) if call.op.name == "relax.nn.relu" else super().visit_call_(call)


def test_a_binding_replaced_by_a_variable_is_another_name():
    new = Drop().visit_expr(Net["main"])
    assert calls(new) == ["relax.matmul", "relax.exp", "relax.add"]
    assert len(new.bindings) == len(Net["main"].bindings) and new.bindings[1].value is new.bindings[0].var
    verify(tvm.IRModule({"main": new}))


def test_definitions_blocks_and_operators_have_hooks():
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(relax.op.nn.relu(x))
        bb.emit_func_output(y)
    func, seen = bb.get()["main"], []

    class Seen(relax.PyExprVisitor):
        def visit_op_(self, op):
            seen.append(str(op))

        def visit_var_def_(self, var):
            seen.append(f"def {var.name}")

        def visit_dataflow_block_(self, block):
            seen.append("dataflow")
            super().visit_dataflow_block_(block)

        def visit_var_binding_(self, binding):
            seen.append("binding")
            super().visit_var_binding_(binding)

    Seen().visit_expr(func)
    assert seen == ["def x", "dataflow", "binding", "nn.relu", f"def {y.name}"]

    class Wider(relax.PyExprMutator):
        def visit_var_def_(self, var):
            return relax.Var(var.name, relax.TensorStructInfo((4, 3), "float32"))

    new = Wider().visit_expr(func)
    assert [int(d.value) for d in new.ret_struct_info.shape] == [4, 3] and func.ret_struct_info.shape[0].value == 2


def test_a_mutator_gives_sequences_blocks_and_functions_inside():
    """What is visited alone comes back as what it was; functions that are values are rewritten, too."""
    @R.function
    def outer(x: R.Tensor((2, 3), "float32")):
        @R.function
        def inner(y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            z = R.nn.relu(y)
            return z
        w = inner(x)
        return w
    new = Wider(tvm.IRModule({"main": outer})).visit_expr(outer)
    verify(tvm.IRModule({"main": new}))
    assert calls(new.bindings[0].value) == ["relax.add", "relax.maximum"]
    seq = branches.body
    assert Nothing().visit_expr(seq) is seq and Nothing().visit_binding_block(seq.blocks[0]) is seq.blocks[0]
    block = Wider().visit_binding_block(branches.bindings[0].value.true_branch.blocks[0])
    assert isinstance(block, relax.BindingBlock) and len(block.bindings) == 3
    hidden = Net["main"].bindings[0].var
    assert isinstance(hidden, relax.DataflowVar) and isinstance(hidden, relax.Var) and isinstance(outer, relax.Expr)
    assert isinstance(Net["main"].body.blocks[0], relax.BindingBlock)


def test_a_mutator_binds_by_hand():
    """Methods may emit what they bind, and say what a variable is from then on."""
    class ByHand(relax.PyExprMutator):
        def visit_var_binding_(self, binding):
            value = self.visit_expr(binding.value)
            if isinstance(value, relax.Call) and value.op.name == "relax.exp":
                assert self.builder_.current_block_is_dataflow()
                half = self.builder_.emit(relax.op.multiply(value, relax.const(0.5)), "half")
                self.set_var_remap(binding.var.vid, half)
            else:
                super().visit_var_binding_(binding)

        def visit_constant_(self, constant):
            return constant

    new = ByHand().visit_expr(Net["main"])
    verify(tvm.IRModule({"main": new}))
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    y = x @ w
    np.testing.assert_allclose(evaluate(new, (x, w)), np.maximum(y, 0) + np.exp(y) / 2, rtol=1e-5)


def test_a_sequence_without_dataflow_ends_a_dataflow_block():
    a = relax.Var("a", relax.TensorStructInfo((2,), "float32"))
    b, c = (relax.Var(n, relax.TensorStructInfo((2,), "float32")) for n in "bc")
    seq = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(b, relax.op.add(a, a)),
                                             relax.VarBinding(c, relax.op.exp(b))])], c)
    bb = relax.BlockBuilder()
    with bb.function("main", [a]):
        with bb.dataflow():
            bb.emit(relax.op.negative(a))
            out = bb.emit_output(bb.emit(seq))
        bb.emit_func_output(out)
    func = bb.get()["main"]
    assert [type(block).__name__ for block in func.body.blocks] == ["DataflowBlock", "BindingBlock", "DataflowBlock"]
    np.testing.assert_allclose(evaluate(func, [np.array([1, 2], np.float32)]), np.exp([2, 4]), rtol=1e-6)
