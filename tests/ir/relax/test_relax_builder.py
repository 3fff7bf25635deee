"""relax.BlockBuilder and the classes of graph functions, used as TVM's tutorials use them."""
import numpy as np
import pytest

import ingot
from ingot import relax, te, topi
from ingot.ir.expr import Var
from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import BindingBlock, DataflowBlock, DataflowVar, RelaxVar
from ingot.ir.relax.verifier import verify
from ingot.ir.script import metadata
from ingot.ir.script.functions import from_source
from ingot.ir.tir import PrimFunc

N = Var("n", "int64")


def var(name, *shape, dtype="float32"):
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def mlp():
    bb, x, w = relax.BlockBuilder(), var("x", N, 4), var("w", 4, 3)
    with bb.function("main", [x, w]):
        with bb.dataflow():
            lv = bb.emit(relax.op.matmul(x, w))
            gv = bb.emit_output(relax.op.nn.relu(lv))
        bb.emit_func_output(gv)
    return bb.get()


def test_the_classic_module():
    mod = mlp()
    verify(mod)
    assert [b.var.name for b in mod["main"].bindings] == ["lv", "gv"] and mod["main"].attrs["global_symbol"] == "main"
    (block,) = mod["main"].body.blocks
    assert isinstance(block, DataflowBlock) and [type(b.var) for b in block.bindings] == [DataflowVar, RelaxVar]
    assert structural_equal(from_source(mod.script()), mod)
    assert relax.analysis.well_formed(mod) and relax.analysis.well_formed(mod["main"])
    broken = mod["main"].replace(params=mod["main"].params[:1])
    assert not relax.analysis.well_formed(broken)
    assert [v.name for v in relax.analysis.free_vars(broken)] == ["w"]
    assert [v.name for v in relax.analysis.bound_vars(mod["main"])] == ["x", "w", "lv", "gv"]
    assert len(relax.analysis.all_vars(mod["main"])) == 4 and not relax.analysis.contains_impure_call(mod["main"])


def test_blocks_alternate_and_names_count():
    bb, x = relax.BlockBuilder(), var("x", 3)
    with bb.function("f", attrs={"k": 1}, private=True):
        assert relax.BlockBuilder.current() is bb and bb.current_func == "f"
        a = bb.emit(x + 1)
        b = bb.emit(a * a)
        with bb.dataflow():
            c = bb.emit(relax.op.exp(b))
            d = bb.emit_output([c, relax.op.abs(c)], name_hint="pair")
        e = bb.emit(d[1], "e")
        assert bb.lookup_binding(b).op == "multiply" and bb.lookup_binding(x) is None
        bb.emit_func_output((e, relax.op.negative(e)), params=[x])
    assert relax.BlockBuilder.current() is None and bb.current_func is None
    func = verify(bb.finalize())["f"]
    assert [type(block) for block in func.body.blocks] == [BindingBlock, DataflowBlock, BindingBlock]
    assert [b.var.name for b in func.bindings] == ["gv", "gv1", "lv", "lv1", "pair", "e", "gv2"]
    assert func.attrs == {"k": 1}
    value = np.float32([-1, 0.5, 2])
    np.testing.assert_allclose(evaluate(func, [value])[1], -np.exp((value + 1) ** 2), rtol=1e-6)


def test_nested_calls_are_bound_one_by_one():
    bb, x = relax.BlockBuilder(), var("x", 2, 6)
    with bb.function("main", [x]):
        with bb.dataflow():
            value = bb.normalize(relax.op.reshape(relax.op.add(relax.op.exp(x), relax.const(1.0)), (3, -1)))
            assert value.op == "reshape" and isinstance(value.args[0], DataflowVar)
            out = bb.emit(value)
            with pytest.raises(ValueError, match="emit_func_output inside a dataflow block"):
                bb.emit_func_output(out)
        bb.emit_func_output(out)  # a DataflowVar that is returned becomes a Var
    assert [b.value.op for b in verify(bb.get())["main"].bindings] == ["exp", "add", "reshape"]


def test_emit_te():
    def scaled(a, b, factor, axes, more):
        return [topi.multiply(topi.add(a, b), factor), topi.sum(more["a"], axes["axis"])]

    bb, x, y = relax.BlockBuilder(), var("x", N, 4), var("y", N, 4)
    with bb.function("main", [x, y]):
        with bb.dataflow():
            total = bb.emit_te(topi.add, x, y, primfunc_name_hint="plus")
            again = bb.emit_te(topi.add, total, y, primfunc_name_hint="plus")
            other = bb.emit_te(topi.add, again, relax.const(np.ones((4,), "float32")))
            both = bb.emit_te(scaled, other, y, 2.0, {"axis": 1}, more={"a": x}, name_hint="both")
            called = bb.call_te(topi.reshape, both[0], relax.ShapeExpr((4, N)), primfunc_attrs={"op_pattern": 1})
            out = bb.emit_output((called, both[1]))
        bb.emit_func_output(out)
    mod = verify(bb.get())
    assert list(mod.functions) == ["plus", "add", "scaled", "reshape", "main"]  # one PrimFunc for equal calls
    assert mod["reshape"].attrs == {"tir.noalias": True, "op_pattern": 1} and isinstance(mod["plus"], PrimFunc)
    a, b = (np.random.default_rng(s).random((3, 4), np.float32) for s in (0, 1))
    first, second = evaluate(mod, [a, b])
    np.testing.assert_allclose(first, ((a + 2 * b + 1 + b) * 2).reshape(4, 3), rtol=1e-6)
    np.testing.assert_allclose(second, a.sum(1), rtol=1e-6)
    assert structural_equal(from_source(mod.script(), metadata(mod)), mod)


def test_functions_of_the_module():
    bb, x = relax.BlockBuilder(mlp()), var("x", 3)
    a = te.placeholder((3,), name="a")
    twice = te.create_prim_func([a, te.compute((3,), lambda i: a[i] * 2.0, "twice")])
    thrice = te.create_prim_func([a, te.compute((3,), lambda i: a[i] * 3.0, "thrice")])
    gv = bb.add_func(twice, "kernel")
    assert bb.add_func(twice, "other").name == "kernel" and bb.add_func(thrice, "kernel").name == "kernel1"
    with bb.function("g", [x]):
        out = bb.emit(relax.call_tir(gv, x, relax.TensorStructInfo((3,), "float32")))
        bb.emit_func_output(out)
    mod = verify(bb.get())
    value = np.float32([1, 2, 3])
    assert evaluate(mod.with_function("main", mod["g"]), [value]).tolist() == [2, 4, 6]
    bb.update_func(gv, thrice)
    bb.update_func(GlobalVar("of_another_module"), twice)
    assert bb.get()["of_another_module"] is twice
    assert evaluate(bb.get().with_function("main", mod["g"]), [value]).tolist() == [3, 6, 9]
    call = relax.Call("call", (x,), {"gv": GlobalVar("g")}, None)
    with bb.function("outer", [x]):
        bb.emit_func_output(call)
    assert bb.get()["outer"].ret_struct_info.static_shape == (3,)
    assert evaluate(bb.get().with_function("main", bb.get()["outer"]), [value]).tolist() == [3, 6, 9]


def test_a_function_may_be_built_inside_another():
    """The outer one goes on where it was; its names, bindings and dataflow block are not those of the inner one."""
    bb, (x, y) = relax.BlockBuilder(), (relax.Var(n, relax.TensorStructInfo((3,), "float32")) for n in "xy")
    with bb.function("main", [x]):
        with bb.dataflow():
            doubled = bb.emit(relax.op.add(x, x))
            with bb.function("squared", [y], private=True):
                squared = bb.emit_func_output(bb.emit(relax.op.multiply(y, y)))
            out = bb.emit_output(squared(doubled))
        assert bb.current_func == "main"
        bb.emit_func_output(out)
    assert [b.var.name for block in bb.get()["main"].body.blocks for b in block.bindings] == ["lv", "gv"]
    assert [b.var.name for block in bb.get()["squared"].body.blocks for b in block.bindings] == ["gv"]
    assert evaluate(bb.get(), [np.float32([1, 2, 3])]).tolist() == [4, 16, 36]
    with pytest.raises(ZeroDivisionError):
        with bb.function("outer", [x]):
            with bb.function("inner", [y]):
                1 / 0
    assert bb.current_func is None and relax.BlockBuilder.current() is None


def function_of(body, *params):
    bb = relax.BlockBuilder()
    with bb.function("main", list(params)):
        body(bb)


@pytest.mark.parametrize("body, error, message", [
    (lambda bb: None, ValueError, "function main ended without emit_func_output"),
    (lambda bb: bb.emit(3), TypeError, "expected a graph expression, not 3"),
    (lambda bb: bb.emit_te(lambda: 3), TypeError, "must return a te.Tensor or several, not 3"),
    (lambda bb: bb.emit_te(topi.exp, relax.Var("u", relax.TensorStructInfo(None, "float32"))), TypeError,
     "u is R.Tensor.*; a tensor expression takes tensors of known shape"),
    (lambda bb: bb.add_func(3, "f"), TypeError, "add_func takes a PrimFunc, a graph function or an ExternFunc, not a int"),
    (lambda bb: bb.update_func("f", mlp()["main"]), ValueError, "update_func of f, which is no function"),
    (lambda bb: [bb.dataflow().__enter__(), bb.dataflow().__enter__()], ValueError, "a dataflow block inside another"),
    (lambda bb: bb.emit_func_output(relax.const(1), params=[]), ValueError, "params are given twice"),
])
def test_errors(body, error, message):
    with pytest.raises(error, match=message):
        function_of(body)
    assert relax.BlockBuilder.current() is None


def test_parameters_are_vars_of_their_own():
    with pytest.raises(TypeError, match="a parameter must be a Var with struct info"):
        function_of(lambda bb: None, relax.const(1))
    bb = relax.BlockBuilder()
    with pytest.raises(ValueError, match="function f has no params"):
        with bb.function("f"):
            bb.emit_func_output(relax.const(1))


def test_what_classes_take():
    info = relax.TensorStructInfo([N, 4])
    assert info.dtype == "float32" and info.ndim == 2 and relax.TensorStructInfo(dtype="int8", ndim=3).shape is None
    assert relax.TensorStructInfo(relax.ShapeExpr([2, N]), "int8").shape[1] is N
    assert relax.ShapeStructInfo([2, 3]).ndim == 2 and relax.PrimStructInfo("int64").dtype.is_int
    assert relax.TupleStructInfo([info]).fields == (info,) and relax.Tuple([relax.const(1)]).struct_info.fields
    assert relax.PrimValue(3).value.dtype == "int64" and relax.Var("x", info).name_hint == "x"
    assert [relax.const(v).data.dtype.name for v in (1, 1.0, True, [1, 2], np.float64(1))] == [
        "int32", "float32", "bool", "int32", "float64"]
    assert relax.const([1, 2], "float16").data.dtype == np.float16 and relax.get_shape_of(var("x", N)).values[0] is N
    with pytest.raises(TypeError, match="expected struct info such as"):
        relax.Var("x", (3, 4))
    first, second = relax.Tuple((relax.const(1), relax.const(2)))  # a tuple unpacks
    assert first.data == 1 and second.data == 2  # a literal tuple gives its fields
    call = relax.call_dps_packed("f", relax.const(1), relax.TensorStructInfo((2,), "int8"))
    assert call.attrs == {"func": "f"} and len(call.args) == 1
    assert relax.call_packed("f", first, sinfo_args=[info]).struct_info is info
    assert isinstance(relax.call_pure_packed("f").struct_info, relax.ObjectStructInfo)


def test_a_built_network_compiles():
    bb, x, w = relax.BlockBuilder(), var("x", N, 5), var("w", 5, 7)

    def dense(a, b):
        return topi.nn.relu(topi.add(topi.matmul(a, b), 0.5))

    with bb.function("main", [x, w]):
        with bb.dataflow():
            hidden = bb.emit_te(dense, x, w)
            out = bb.emit_output(hidden / (relax.op.sum(hidden, 1, True) + 1))
        bb.emit_func_output(out)
    mod = IRModule(bb.get().functions, {"name": "built", "dims": (N,)})
    a, b = (np.random.default_rng(s).random(shape, np.float32) - 0.5 for s, shape in ((0, (3, 5)), (1, (5, 7))))
    hidden = np.maximum(a @ b + 0.5, 0)
    with ingot.compile(mod) as library:
        np.testing.assert_allclose(library(a, b), hidden / (hidden.sum(1, keepdims=True) + 1), rtol=1e-5)
    assert not collect(mod["main"], relax.If)


def test_emit_func_output_gives_the_function():
    bb = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorStructInfo((2,), "float32")) for name in "xy")
    with bb.function("double", [x], private=True):
        double = bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    with bb.function("main", [y]):
        call = bb.emit(relax.Call(double, [y]))
        assert double.struct_info.ret.shape == call.struct_info.shape
        main = bb.emit_func_output(call)
        with pytest.raises(ValueError, match="late is emitted after emit_func_output, which ends main"):
            bb.emit(relax.op.add(y, y), "late")
    assert (double.name_hint, main.name_hint) == ("double", "main")
    vm = relax.VirtualMachine(relax.build(bb.get(), "c"))
    assert vm["main"](np.ones(2, np.float32)).numpy().tolist() == [2, 2]


def test_functions_of_one_name():
    bb, x = relax.BlockBuilder(), var("x", 2)
    inner = bb.add_func(relax.ExternFunc("theirs"), "theirs")
    assert bb.add_func(relax.extern("theirs"), "theirs") == inner
    with bb.function("main", [x], private=True):
        doubled = bb.emit_func_output(bb.emit(x + x))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(doubled(x)))
    mod = bb.finalize()
    assert sorted(mod.functions) == ["main", "main1", "theirs"] and relax.analysis.well_formed(mod)
    assert evaluate(mod, [np.ones(2, np.float32)]).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="function main is in the module already"):
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(relax.op.exp(x)))
    assert bb.get()["main1"].attrs["global_symbol"] == "main"  # the first is there


def test_calls_as_tvm_writes_them():
    x, f, info, named = var("x", 2, 3), GlobalVar("f"), var("x", 2, 3).struct_info, ingot.ir.Op.get
    for call, same in (
            (relax.Call(named("relax.call_tir"), [f, relax.Tuple([x, x]), relax.ShapeExpr([N])], None, [info]),
             relax.call_tir(f, [x, x], info, [N])),
            (relax.Call(named("relax.call_dps_packed"), [relax.ExternFunc("g"), relax.Tuple([x])], None, [info]),
             relax.call_dps_packed("g", x, info)),
            (relax.BlockBuilder().normalize(relax.Call(named("relax.concat"), [relax.Tuple([x, x])], {"axis": 0})),
             relax.op.concat([x, x], 0))):
        assert structural_equal(call, same)


def test_slices_of_a_call_are_as_those_of_a_variable():
    x = var("x", 2, 3)
    nested = relax.op.strided_slice(relax.op.add(x, x), [1], [0], [2])
    assert nested.attrs == relax.op.strided_slice(x, [1], [0], [2]).attrs


def test_a_function_inside_another_is_evaluated_and_has_its_dimensions():
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32")):
        w = R.multiply(x, R.const(2.0))

        @R.function
        def inner(y: R.Tensor(("m",), "float32"), i: R.Tensor((), "int32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            if R.less(i, R.const(1, "int32")):
                r: R.Tensor((m,), "float32") = R.add(y, R.const(0.5))
            else:
                r: R.Tensor((m,), "float32") = inner(R.add(y, y), R.subtract(i, R.const(1, "int32")))
            return r

        z = inner(w, k)
        return z
""")
    assert evaluate(mod, [np.ones(3, "float32"), np.array(2, "int32")]).tolist() == [8.5] * 3
    assert structural_equal(from_source(verify(mod).script()), mod)


def test_calls_of_what_is_of_another_kind_are_refused():
    own, foreign, x = GlobalVar("f"), relax.ExternFunc("my.f"), var("x", 2)
    for op, callee in (("call_tir", foreign), ("call_dps_packed", own), ("call_pure_packed", own)):
        with pytest.raises(TypeError, match=f"{op} calls .*, not "):
            relax.Call(ingot.ir.Op.get(f"relax.{op}"), [callee, relax.Tuple([x])])
    with pytest.raises(TypeError, match="call_tir of .* takes the tuple of its arguments"):
        relax.Call(ingot.ir.Op.get("relax.call_tir"), [own])
    with pytest.raises(TypeError, match="f is a function of the module: call_tir calls a PrimFunc"):
        relax.op.call_dps_packed(own, [x], x.struct_info)


def test_a_call_of_a_function_that_the_module_lacks_is_refused():
    bb, x = relax.BlockBuilder(), var("x", 2)
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.call_tir(GlobalVar("f"), [x], x.struct_info)))
    with pytest.raises(ValueError, match="gv: the module has no function f; it has main"):
        relax.build(bb.get(), "c")


def test_a_call_of_an_extern_func_of_the_module_is_well_formed():
    """Where it fits what is known of the function: pure or not, and its arguments."""
    for pure, count, well in ((True, 1, True), (False, 1, False), (True, 2, False)):
        bb, x = relax.BlockBuilder(), var("x", 2)
        info = relax.FuncStructInfo([x.struct_info], x.struct_info, pure)
        ext = bb.add_func(relax.ExternFunc("theirs", info), "ext")
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(relax.Call(ext, [x] * count, None, [x.struct_info])))
        assert relax.analysis.well_formed(bb.get()) is well
