"""IRModule and PrimFunc as scripts use them: lookup, attributes, specialize, and what a value refuses."""
import numpy as np
import pytest
from interp import run

from ingot import ir, tir
from ingot.ir.compare import assert_structural_equal
from ingot.ir.expr import Var
from ingot.ir.node import collect
from ingot.ir.script.functions import from_source
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T


@I.ir_module
class Two:
    I.module_attrs({"name": "two"})

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.evaluate(0)

    @T.prim_func
    def helper(n: T.int64):
        T.evaluate(0)


# ---------------------------------------------------------------- modules

def test_looking_things_up():
    var = Two.get_global_var("helper")
    assert isinstance(var, ir.GlobalVar) and var.name_hint == "helper" and Two[var] is Two["helper"] and var in Two
    assert [v.name_hint for v in Two.get_global_vars()] == ["main", "helper"]
    assert [(v.name_hint, f) for v, f in Two.functions_items()] == [("helper", Two["helper"]), ("main", Two["main"])]
    assert Two.get_attr("name") == "two" and Two.get_attr("other") is None
    with pytest.raises(KeyError, match="no function 'nope' in the module; it has main, helper"):
        Two.get_global_var("nope")


def test_making_modules():
    by_var = ir.IRModule({ir.GlobalVar("f"): Two["main"]})
    assert list(by_var.functions) == ["f"] and by_var["f"] is Two["main"]
    assert list(ir.IRModule.from_expr(Two["main"]).functions) == ["main"]
    named = Two["main"].with_attr("global_symbol", "g")
    assert list(ir.IRModule.from_expr(named).functions) == ["g"] and ir.IRModule.from_expr(Two) is Two
    assert Two.with_function("x", named)["x"] is named and "x" not in Two


def test_attributes_of_modules():
    more = Two.with_attr("a", 1).with_attr({"b": 2, "c": 3})
    assert more.attrs == {"name": "two", "a": 1, "b": 2, "c": 3}
    assert more.without_attr("a").attrs == {"name": "two", "b": 2, "c": 3} and Two.without_attr("a") is Two


def test_a_clone_changes_alone():
    mod, other = Two.clone(), Two["main"].with_attr("a", 1)
    mod["x"] = other
    mod.update_func(mod.get_global_var("main"), other)
    assert list(mod.functions) == [*Two.functions, "x"] and mod["main"] is other and Two["main"] is not other
    mod.update(Two)
    mod.update({"y": other})
    assert mod["main"] is Two["main"] and mod["x"] is mod["y"] is other and "x" not in Two and mod.attrs == Two.attrs


def test_options_of_the_printer(capsys):
    assert "class Other:" in Two.script(name="Other") and "def other(" in Two["main"].script(name="other")
    assert Two.script(verbose_expr=True, num_context_lines=3) == Two.script()
    assert "\n  @T.prim_func\n  def main" in Two.script(indent_spaces=2)
    numbered = Two.script(print_line_numbers=True).split("\n")
    assert numbered[0].startswith(" 1 # from tvm.script") and numbered[-1].startswith(f"{len(numbered)}   ")
    with pytest.raises(TypeError, match="script: unknown option nam"):
        Two.script(nam="x")
    Two.show(style="light", black_format=False)
    Two["main"].show(style="none")
    assert capsys.readouterr().out == f"{Two.script()}\n{Two['main'].script()}\n"


# ---------------------------------------------------------------- functions

def test_attributes_of_functions():
    func = Two["main"].without_attr("global_symbol").with_attr("a", 1).with_attr({"b": 2, "a": 3})
    assert func.attrs == {"a": 3, "b": 2} and func.without_attr("b").attrs == {"a": 3}
    assert Two["main"].without_attr("b") is Two["main"] and Two["main"].ret_type == "void"
    assert from_source("@T.prim_func\ndef main(x: T.float32):\n    T.evaluate(T.ret(x))").ret_type == "float32"


@T.prim_func
def copy(a: T.handle, b: T.handle, scale: T.float32):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n * 4), "float32")
    C = T.alloc_buffer((m, n), "float32")
    for i, j in T.grid(m, n):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * scale
    for i, j in T.grid(m, n * 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj // 4]


def test_specialize_a_shape():
    a = copy.params[0]
    func = copy.specialize({a: tir.decl_buffer((3, 5), "float32")})
    assert [tuple(int(e) for e in b.shape) for b in func.buffers] == [(3, 5), (3, 20)] and len(func.params) == 3
    assert not collect(func.body, Var) or {v.name for v in collect(func.body, Var)} <= {
        "i", "j", "vi", "vj", "scale", "A", "B", "C"}
    assert [str(e) for e in func.root.alloc_buffers[0].shape] == ["3", "5"]
    tir.analysis.verify_well_formed(func)
    x, y = np.random.default_rng(0).standard_normal((3, 5)).astype("float32"), np.zeros((3, 20), "float32")
    run(func, x, y, 2)
    np.testing.assert_array_equal(y, np.repeat(x * 2, 4, axis=1))


def test_specialize_scalars_and_dimensions():
    a, _, scale = copy.params
    m, n = copy.buffer_map[a].shape
    func = copy.specialize({scale: 2, a: tir.decl_buffer((m, 8), "float32")})
    assert len(func.params) == 2 and func.buffers[0].shape[0] is m and str(func.buffers[1].shape[1]) == "32"
    assert any(isinstance(e, tir.FloatImm) and e.value == 2.0 for e in collect(func.body, tir.FloatImm))
    assert copy.specialize({}).body is copy.body


@pytest.mark.parametrize("number, value, message", [
    (0, lambda: tir.decl_buffer((3, 5), "float16"), "the dtype of buffer A is float32, that of buffer float16"),
    (0, lambda: tir.decl_buffer((3,), "float32"), r"buffer A has shape \(m, n\), buffer \(3\)"),
    (1, lambda: tir.decl_buffer((3, 5), "float32"), "the shape of buffer B says n \\* 4 where 5 is given"),
    (0, lambda: 3, "parameter a is a buffer: give a Buffer"),
    (2, lambda: tir.decl_buffer((3,), "float32"), "parameter scale is a scalar, not a buffer"),
    (None, lambda: 3, "other is no parameter of the function; it has a, b, scale")])
def test_what_specialize_refuses(number, value, message):
    param = Var("other") if number is None else copy.params[number]
    with pytest.raises(ValueError, match=message):
        copy.specialize({param: value()})


def test_specialize_wants_one_value_of_a_dimension():
    a, b, _ = copy.params
    with pytest.raises(ValueError, match="the shape of buffer B says 3 where 4 is given"):
        copy.specialize({a: tir.decl_buffer((3, 5), "float32"), b: tir.decl_buffer((4, 20), "float32")})


def test_private_functions_have_no_symbol():
    mod = from_source("""
@I.ir_module
class M:
    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32")):
        return x
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = M.inner(x)
        return y
""")
    assert mod["inner"].attrs == {} and mod["main"].attrs == {"global_symbol": "main"}
    assert mod.script().count("(private=True)") == 1 and "global_symbol" not in mod.script()
    assert_structural_equal(from_source(mod.script()), mod)
    public = mod.with_function("inner", mod["inner"].with_attr("global_symbol", "other"))
    with pytest.raises(ValueError, match="global_symbol|attrs"):
        assert_structural_equal(mod, public)
    assert 'R.func_attr({"global_symbol": "other"})' in public.script()
    assert_structural_equal(from_source(public.script()), public)
