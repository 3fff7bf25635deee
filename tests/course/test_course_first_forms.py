"""Forms of the first scripts for Relax: names without R, DynTensorType, relax.vm.build, passes as mutators, FuseTIR."""
from __future__ import annotations

import numpy as np

import ingot as tvm
from ingot import relax, topi
from ingot.script import relax as R

W = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
B = np.random.default_rng(1).standard_normal(4).astype(np.float32)


def test_names_without_a_namespace():
    @tvm.script.ir_module
    class First:
        @R.function
        def main(x: Tensor((3, 4), "float32"), y: Tensor((3, 4), "float32")):  # noqa: F821
            with relax.dataflow():
                lv0 = relax.multiply(x, y)
                gv0 = relax.add(lv0, y)
                relax.output(gv0)
            return gv0

    @tvm.script.ir_module
    class Now:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                lv0 = R.multiply(x, y)
                gv0 = R.add(lv0, y)
                R.output(gv0)
            return gv0

    tvm.ir.assert_structural_equal(First, Now)
    fused = _Fma().visit_expr(First["main"])
    assert [b.value.op.name for b in fused.bindings] == ["relax.multiply", "relax.ewise_fma"]
    assert len(relax.analysis.remove_all_unused(fused).bindings) == 1


class _Fma(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        inner = self.lookup_binding(call.args[0]) if call.op == tvm.ir.Op.get("relax.add") else None
        if inner is None:
            return call
        return relax.Call(tvm.ir.Op.get("relax.ewise_fma"), [*inner.args, call.args[1]], None, None)


def dense_add(x):
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.dense(x, relax.const(W, "float32")))
            gv = bb.emit_output(relax.op.add(y, relax.const(B, "float32")))
        bb.emit_func_output(gv)
    return bb.get()


def test_a_dense_layer_is_an_operator():
    x = relax.Var("x", (2, 6), relax.DynTensorType(2, "float32"))
    mod = dense_add(x)
    assert mod["main"].bindings[0].value.op == tvm.ir.Op.get("relax.nn.dense")
    assert [d.value for d in x.shape_.values] == [2, 6] and x._checked_type_.ndim == 2
    data = np.random.default_rng(2).random((2, 6), np.float32)
    vm = relax.VirtualMachine(relax.vm.build(mod, target="llvm"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](tvm.nd.array(data)).numpy(), data @ W.T + B, rtol=1e-5, atol=1e-6)
    assert vm.module.time_evaluator("main", tvm.cpu(), number=1)(data).mean > 0


def test_fuse_tir_makes_one_function_of_a_primitive_one():
    bb = relax.BlockBuilder()
    x, w, b = (relax.Var(n, R.Tensor(s, "float32")) for n, s in (("x", (2, 6)), ("w", (4, 6)), ("b", (4,))))
    with bb.function("fused_dense_add", [x, w, b], attrs={"Primitive": 1}, private=True):
        with bb.dataflow():
            y = bb.emit_te(topi.nn.dense, x, w)
            gv = bb.emit_output(bb.call_te(topi.add, y, b))
        bb.emit_func_output(gv)
    fused = bb.get().get_global_var("fused_dense_add")
    x = relax.Var("x", R.Tensor((2, 6), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            one = bb.emit(relax.Call(fused, [x, relax.const(W), relax.const(B)]))
            gv = bb.emit_output(relax.op.nn.relu(one))
        bb.emit_func_output(gv)
    mod = relax.transform.FuseTIR()(bb.get())
    assert sorted(mod.functions) == ["fused_dense_add", "main"]

    def dense_and_add(x, w, b):
        return topi.add(topi.nn.dense(x, w), b)

    other = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 6), "float32"))
    with other.function("main", [x]):
        with other.dataflow():
            one = other.emit(other.call_te(dense_and_add, x, relax.const(W), relax.const(B),
                                           primfunc_name_hint="fused_dense_add"))
            gv = other.emit_output(relax.op.nn.relu(one))
        other.emit_func_output(gv)
    tvm.ir.assert_structural_equal(mod["fused_dense_add"], other.get()["fused_dense_add"])
    data = np.random.default_rng(2).random((2, 6), np.float32)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](data).numpy(), np.maximum(data @ W.T + B, 0), rtol=1e-5, atol=1e-6)


def test_fuse_tir_hands_on_dimensions_that_no_shape_tells():
    n = tvm.tir.Var("n", "int64")
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((n * 2,), "float32"))
    s = relax.Var("s", R.Tensor((n,), "float32"))
    with bb.function("fused_twice", [x], attrs={"Primitive": 1}, private=True):
        with bb.dataflow():
            y = bb.emit_te(topi.add, x, x)
            gv = bb.emit_output(bb.call_te(topi.nn.relu, y))
        bb.emit_func_output(gv)
    fused = bb.get().get_global_var("fused_twice")
    with bb.function("main", [x, s]):
        with bb.dataflow():
            gv = bb.emit_output(relax.Call(fused, [x]))
        bb.emit_func_output(gv)
    mod = relax.transform.FuseTIR()(bb.get())
    assert relax.analysis.well_formed(mod)
    data = np.random.default_rng(2).standard_normal(6).astype(np.float32)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](data, data[:3]).numpy(), np.maximum(2 * data, 0))
