"""Graph functions written by hand: what they mean, that they verify, and that they read back."""
import numpy as np
import pytest

import ingot
from ingot.ir import relax, tir
from ingot.ir.dtype import DataType
from ingot.ir.expr import Var
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax.expr import (BindingBlock, Constant, DataflowBlock, DataflowVar, MatchCast, RelaxVar,
                                 TensorStructInfo)
from ingot.ir.relax.verifier import verify
from ingot.ir.script import metadata
from ingot.ir.script.errors import ScriptError
from ingot.ir.script.functions import from_source
from ingot.ir.script.highlight import highlight, show
from ingot.script import ir as I  # noqa: E741
from ingot.script import relax as R
from ingot.script import tir as T


def check_round_trip(mod):
    back = from_source(mod.script(), metadata(mod))
    assert structural_equal(back, mod), f"\n{mod.script()}\n{back.script()}"


# ---------------------------------------------------------------- the two-layer perceptron

@I.ir_module
class MLP:
    @T.prim_func
    def dense_relu(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        B = T.match_buffer(b, (m,), "float32")
        Z = T.match_buffer(z, (n, m), "float32")
        Y = T.alloc_buffer((n, m), "float32")
        for i, j, r in T.grid(n, m, k):
            with T.block("Y"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vr] * W[vr, vj]
        for i, j in T.grid(n, m):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = T.max(Y[vi, vj] + B[vj], T.float32(0))

    @R.function
    def main(x: R.Tensor((1, 12), "float32"), w0: R.Tensor((12, 8), "float32"), b0: R.Tensor((8,), "float32"),
             w1: R.Tensor((8, 4), "float32"), b1: R.Tensor((4,), "float32")):
        cls = MLP
        with R.dataflow():
            lv0 = R.call_tir(cls.dense_relu, (x, w0, b0), R.Tensor((1, 8), dtype="float32"))
            lv1 = R.call_tir(cls.dense_relu, (lv0, w1, b1), out_sinfo=R.Tensor((1, 4), dtype="float32"))
            out = R.nn.softmax(lv1, axis=-1)
            R.output(out)
        return out


def test_a_module_of_both_kinds_of_functions():
    verify(MLP)
    main = MLP["main"]
    (block,) = main.body.blocks
    assert isinstance(block, DataflowBlock)
    assert [type(b.var) for b in block.bindings] == [DataflowVar, DataflowVar, RelaxVar]
    assert main.ret_struct_info.static_shape == (1, 4)
    check_round_trip(MLP)


def test_it_runs():
    mod = from_source("""
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor(("n", 12), "float32")) -> R.Tensor(("n", 4), "float32"):
                with R.dataflow():
                    h = R.nn.relu(R.add(R.matmul(x, metadata["relax.expr.Constant"][0]), R.const(0.5, "float32")))
                    y = R.matmul(h, metadata["relax.expr.Constant"][1]) * 2.0
                    R.output(y)
                return y
    """, {"relax.expr.Constant": [np.ones((12, 8), "float32"), np.ones((8, 4), "float32")]})
    verify(mod)
    x = np.full((3, 12), 0.25, np.float32)
    with ingot.compile(mod, opt_level=0) as library:
        (found,) = library.run({"x": x}).values()
    np.testing.assert_allclose(found, np.full((3, 4), 3.5 * 8 * 2), rtol=1e-6)
    check_round_trip(mod)


def test_a_text_can_hold_its_constants():
    func = graph("return R.add(y, metadata['relax.expr.Constant'][0])", metadata={
        "relax.expr.Constant": [np.array([0.1, np.nan, -0.0, 3], "float32")]})
    mod = ingot.IRModule({"main": func})
    for node in (func, mod):
        text = node.script(show_meta=True)
        assert structural_equal(from_source(text), node), text
    assert MLP.script(show_meta=True) == MLP.script()


# ---------------------------------------------------------------- pieces

def graph(*lines, metadata=None, params='x: R.Tensor((1, "n"), "float32"), y: R.Tensor((4, 4), "float32")'):
    """The function "main" of these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return from_source(f"@R.function\ndef main({params}):\n{body}", metadata)


def test_symbolic_dimensions_are_one_variable():
    func = graph("n = T.int64()", "z: R.Tensor((1, n * 2), 'float32') = R.concat((x, x), axis=1)", "return z")
    (n,) = collect(func, Var)
    assert n.dtype == "int64" and structural_equal(from_source(str(func)), func)


def test_nested_calls_are_bound_one_by_one():
    func = graph("return R.nn.relu(R.add(y, R.multiply(y, y)))")
    assert [b.value.op for b in func.bindings] == ["multiply", "add", "nn.relu"]
    assert func.body.body is func.bindings[-1].var and isinstance(func.body.blocks[0], BindingBlock)


def test_blocks_alternate_with_dataflow():
    func = graph("a = R.nn.relu(y)", "with R.dataflow():", "    b = R.exp(a)", "    c = R.abs(b)", "    R.output(c)",
                 "d = R.add(c, a)", "return (d, c)")
    assert [type(b).__name__ for b in func.body.blocks] == ["BindingBlock", "DataflowBlock", "BindingBlock"]
    assert func.ret_struct_info.fields[0].static_shape == (4, 4)
    assert structural_equal(from_source(str(func)), func)


def test_of_values_of_one_name_a_dataflow_block_gives_the_last():
    func = graph("with R.dataflow():", "    b = R.exp(y)", "    b = R.abs(b)", "    R.output(b)", "return b")
    first, last = (b.var for b in func.bindings)
    assert isinstance(first, DataflowVar) and isinstance(last, RelaxVar) and func.outputs == [last]


def test_match_cast_defines_dimensions():
    func = graph("m = T.int64()", 'z = R.match_cast(x, R.Tensor((1, m), "float32"))', "return z")
    (binding,) = func.bindings
    assert isinstance(binding, MatchCast) and binding.var.struct_info.shape[1].name == "m"
    assert structural_equal(from_source(str(func)), func)


def test_match_cast_takes_what_makes_annotations():
    proxy = R.entry.ShapeProxy
    assert proxy.__name__ == "ShapeProxy"
    func = ingot.script.from_source("""@R.function
def f(x: R.Object):
    y = R.match_cast(x, proxy)
    return y""", extra_vars={"proxy": proxy})
    assert func.bindings[0].var.struct_info == relax.ShapeStructInfo()


def test_branches():
    func = graph("if c:", "    a = R.add(y, y)", "    b = R.exp(R.abs(a))", "else:", "    b = y", "return R.nn.relu(b)",
                 params='c: R.Tensor((), "bool"), y: R.Tensor((4, 4), "float32")')
    branch, relu = func.bindings
    assert isinstance(branch.value, relax.If) and branch.value.false_branch.blocks == ()
    assert len(branch.value.true_branch.blocks[0].bindings) == 3 and relu.value.args == (branch.var,)
    assert structural_equal(from_source(str(func)), func), str(func)
    with_dims = graph("if c:", "    b: R.Tensor((4,), 'int8') = y", "else:", "    b: R.Tensor((4,), 'int8') = y",
                      "return b", params='c: R.Tensor((), "bool"), y: R.Tensor((4,), "int8")')
    assert structural_equal(from_source(str(with_dims)), with_dims)


def test_tuples_shapes_and_numbers():
    func = graph("p = R.tuple(y, R.const(1, 'int32'))", "s = R.shape([4, 2 * 2])", "v = R.prim_value(3)", "t = (y, y)",
                 "a, b = t", "c = p[0]", "d = p[-1]", "return (a, b, c, d)")
    assert [type(b.value).__name__ for b in func.bindings] == [
        "RelaxTuple", "ShapeExpr", "PrimValue", "RelaxTuple", "TupleGetItem", "TupleGetItem", "TupleGetItem",
        "TupleGetItem"]
    assert structural_equal(from_source(str(func)), func)


def test_operators_of_python():
    func = graph("a = y + 1.0", "b = 2 - y", "c = a * b / y", "d = a < y", "return (c, d)")
    assert [b.value.op for b in func.bindings] == ["add", "subtract", "multiply", "divide", "less"]


def test_attributes_by_position_and_by_name():
    func = graph("a = R.permute_dims(y, [1, 0])", 'b = R.astype(y, "float16")', "c = R.sum(y, axis=[0], keepdims=True)",
                 "d = R.reshape(y, (2, 8))", "return (a, b, c, d)")
    values = [b.value for b in func.bindings]
    assert values[0].attrs == {"axes": (1, 0)} and values[1].struct_info.dtype == "float16"
    assert values[2].attrs == {"axis": (0,), "keepdims": True} and values[3].struct_info.static_shape == (2, 8)


def test_calls_of_functions():
    mod = from_source("""
        @I.ir_module
        class Module:
            @R.function
            def half(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                y = R.multiply(x, R.const(0.5, "float32"))
                return y

            @R.function
            def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                y: R.Tensor((4,), "float32") = Module.half(x)
                return y
    """)
    verify(mod)
    check_round_trip(mod)


def test_calls_of_packed_functions():
    func = graph('a = R.call_packed("f", x, y, sinfo_args=R.Tensor((4, 4), "float32"))',
                 'b = R.call_dps_packed("g", (a, y), out_sinfo=R.Tensor((4, 4), "float32"))', "return b")
    assert [(b.value.op, b.value.attrs) for b in func.bindings] == [
        ("call_packed", {"func": "f"}), ("call_dps_packed", {"func": "g"})]
    assert structural_equal(from_source(str(func)), func)


def test_call_tir_with_dimensions_and_several_outputs():
    func = graph("n = T.int64()", "p = R.call_tir(cls.f, (x,), out_sinfo=[R.Tensor((1, n), 'float32'), "
                 "R.Tensor((n,), 'int8')], tir_vars=R.shape([n]))", "return p").replace(attrs={})
    call = func.bindings[0].value
    assert [d.name for d in call.attrs["sym_args"]] == ["n"] and len(call.struct_info.fields) == 2
    assert structural_equal(from_source(str(func)), func)


@pytest.mark.parametrize("text, info", [
    ("R.Tensor", TensorStructInfo(None, "void")), ("R.Tensor(ndim=2)", TensorStructInfo(None, "void", 2)),
    ('R.Tensor("float32", ndim=3)', TensorStructInfo(None, "float32", 3)), ("R.Object", relax.ObjectStructInfo()),
    ("R.Shape", relax.ShapeStructInfo()), ("R.Shape([2, 3])", relax.ShapeStructInfo(relax.ShapeExpr((2, 3)).values, 2)),
    ("R.Shape(ndim=2)", relax.ShapeStructInfo(None, 2)), ('R.Prim("int64")', relax.PrimStructInfo(DataType("int64"))),
    ('R.Tuple(R.Object, R.Tensor((2,), "int8"))',
     relax.TupleStructInfo((relax.ObjectStructInfo(), TensorStructInfo((2,), "int8")))),
    ('R.Tuple([R.Object])', relax.TupleStructInfo((relax.ObjectStructInfo(),)))])
def test_struct_info(text, info):
    func = graph("return v", params=f"v: {text}")
    assert structural_equal(func.params[0].struct_info, info)
    assert structural_equal(from_source(str(func)), func)


def test_decorated_functions_alone():
    scale = np.array([2.0], "float32")

    @R.function
    def doubled(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        R.func_attr({"num_input": 1})
        y = R.multiply(x, R.const(scale))
        return y
    assert doubled.attrs == {"num_input": 1, "global_symbol": "doubled"}
    (constant,) = collect(doubled, Constant)
    assert constant.data.tolist() == [2.0]
    assert structural_equal(from_source(str(doubled), metadata(doubled)), doubled)


def test_every_operator_is_named_by_the_table():
    from ingot.ir.op import OPS
    for name in OPS:
        found = R
        for part in name.split("."):
            found = getattr(found, part)
        assert found.name == name


def test_the_package_says_it_as_tvm_does():
    assert ingot.script.from_source is from_source and ingot.script.ir_module is I.ir_module
    assert ingot.script.tir is T and ingot.script.relax is R


# ---------------------------------------------------------------- showing

def test_show_is_coloured_on_a_terminal_only(capsys, monkeypatch):
    MLP["dense_relu"].show()
    assert capsys.readouterr().out == MLP["dense_relu"].script() + "\n"

    class Terminal(list):
        isatty, flush = staticmethod(lambda: True), staticmethod(lambda: None)
        write = list.append
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    show("for i in T.grid(4):  # x", terminal)
    assert "".join(terminal) == highlight("for i in T.grid(4):  # x") + "\n"
    assert "\033[34mfor\033[0m" in "".join(terminal) and "\033[90m# x\033[0m" in "".join(terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show("for", plain)
    assert "".join(plain) == "for\n"


def test_both_kinds_of_functions_show(capsys):
    MLP.show()
    MLP["main"].show()
    assert capsys.readouterr().out.count("def main(") == 2
    assert isinstance(MLP["dense_relu"], tir.PrimFunc)


def test_a_function_inside_a_function_is_a_value():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            @R.function
            def twice(y: R.Tensor(("n", 4), "float32")):
                R.func_attr({"Composite": "my.twice"})
                with R.dataflow():
                    out = R.add(y, y)
                    R.output(out)
                return out
            once = twice(x)
            again = twice(once)
            return again

    inner, first, second = Module["main"].bindings
    assert inner.value.attrs == {"Composite": "my.twice"} and first.value.op is second.value.op is inner.var
    assert second.var.struct_info.shape[0] is Module["main"].params[0].struct_info.shape[0]
    verify(Module)
    check_round_trip(Module)


def test_a_function_inside_a_dataflow_block_is_refused():
    with pytest.raises(ScriptError, match="put the function before it"):
        from_source("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    with R.dataflow():
        @R.function
        def inner(y: R.Tensor((4,), "float32")):
            return y
        z = inner(x)
        R.output(z)
    return z
""")
