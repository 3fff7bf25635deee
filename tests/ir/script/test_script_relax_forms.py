"""Forms of graph functions in scripts: purity, statements of nothing, branches, macros, devices; and what is refused."""
import pytest

from ingot import relax
from ingot.ir.node import structural_equal
from ingot.script import ScriptError, from_source
from ingot.script import ir as I  # noqa: E741
from ingot.script import relax as R
from ingot.script import tir as T

HEAD = "# from tvm.script import ir as I\n# from tvm.script import tir as T\n# from tvm.script import relax as R\n\n"
MESSAGES = '''# from tvm.script import relax as R

@R.function(pure=False)
def main(x: R.Tensor((), dtype="int32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((), dtype="int32"):
    if c:
        R.print(x, format=R.str("yes {}"))
    else:
        R.print(x, format=R.str("no {}"))
    R.assert_op(c, x, format=R.str("x: {}"))
    if c:
        w: R.Tensor((), dtype="int32") = R.add(x, x)
        y_then: R.Tensor((), dtype="int32") = R.multiply(w, w)
        y: R.Tensor((), dtype="int32") = y_then
    else:
        w: R.Tensor((), dtype="int32") = R.add(x, x)
        y: R.Tensor((), dtype="int32") = w
    return y
'''
DEVICES = HEAD.replace("# from tvm.script import tir as T\n", "") + '''@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global"), I.vdevice("cuda", 0, "global"), \
I.vdevice("cuda -arch=sm_80", 0, "global")]})
    @R.function
    def main(x: R.Tensor((2,), dtype="int8", vdevice="cuda:1")) -> R.Tensor((2,), dtype="int8", vdevice="cuda:1"):
        return x
'''


def one(*lines, params='x: R.Tensor((2,), "float32")', pure="", returns=""):
    return from_source(HEAD + f"@R.function{pure}\ndef main({params}){returns}:\n" + "".join(
        f"    {line}\n" for line in "\n".join(lines).split("\n")))


@pytest.mark.parametrize("text", [MESSAGES, DEVICES], ids=["messages", "devices"])
def test_what_is_read_is_printed(text):
    assert from_source(text).script() == text.rstrip()


def test_purity():
    loud = 'y = R.call_packed("f", x, sinfo_args=R.Tensor((2,), "float32"))'
    wrong, right = one(loud, "return y"), one(loud, "return y", pure="(pure=False)")
    assert wrong.is_pure and not right.is_pure and not right.struct_info.purity
    assert not relax.analysis.well_formed(wrong) and relax.analysis.well_formed(right)
    assert relax.analysis.well_formed(wrong.with_attr("relax.force_pure", True))
    assert not relax.analysis.well_formed(right.with_attr("relax.force_pure", True))
    assert not structural_equal(wrong, right)


def test_results_say_what_callers_know():
    func = one("m = T.int64()", "y = R.match_cast(x, R.Tensor((m,)))", "return y", params="x: R.Tensor")
    assert func.ret_struct_info == relax.TensorStructInfo(None, "void", 1)
    returned = one("with R.dataflow():", "    y = R.add(x, x)", "    return y")
    assert structural_equal(returned, one("with R.dataflow():", "    y = R.add(x, x)", "    R.output(y)", "return y"))


def test_annotations():
    func = one("y: R.Tensor(ndim=1) = R.add(x, x)", "z: R.Object = x", "return z")
    y, z = (b.var.struct_info for b in func.bindings)
    assert y == relax.TensorStructInfo(None, "void", 1) and z == func.params[0].struct_info
    shaped = one("y: R.Tensor((2,)) = R.add(x, x)", "return y", params='x: R.Tensor((2,), "float16")')
    assert shaped.bindings[0].var.struct_info == relax.TensorStructInfo((2,), "float16")


def test_macros():
    two = R.prim_value(2)

    @R.macro
    def plus(value):
        w = R.add(value, R.const(1.0, "float32"))
        return R.full_like(w, R.const(0.0, "float32")), two

    two = R.prim_value(3)

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = plus(x)
        return y

    assert [b.var.name for b in main.bindings][0] == "w" and main.bindings[-1].value.fields[1].value.value == 2


WRONG = {
    "y: R.Shape = x\nreturn x": "Invalid annotation",
    "R.add(x, x)\nreturn x": "Non-void expressions must be bound to a variable",
    "with R.dataflow():\n    y = R.add(x, x)\n    R.output()\nz = R.add(y, y)\nreturn z": "'y' is not defined here",
    "with R.dataflow():\n    y = R.add(x, x)\n    R.output(x, y)\nreturn y": "R.output lists x",
    "n = T.int32()\ny = R.call_dps_packed('f', x, R.Tensor((n,)))\nreturn y": "can only have dtype of int64",
    "y: R.Tensor(ndim=-2) = R.add(x, x)\nreturn y": "ndim is a number of dimensions",
}


@pytest.mark.parametrize("body", WRONG)
def test_what_is_refused(body):
    with pytest.raises(ScriptError, match=WRONG[body]):
        one(body)


def test_parameters_and_attributes_that_are_refused():
    with pytest.raises(ScriptError, match="the symbolic dimension m of parameter x is not defined"):
        one("return x", params='x: R.Tensor(("m + 1",), "float32")')
    with pytest.raises(ScriptError, match="private and has a global_symbol"):
        one('R.func_attr({"global_symbol": "main"})', "return x", pure="(private=True)")


def test_index_maps_of_layouts():
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        return R.layout_transform(x, index_map=T.index_map(lambda i: (i // 4, i % 4)))
    assert [d.value for d in main.ret_struct_info.shape] == [2, 4]
    assert structural_equal(from_source(HEAD + str(main)), main)


def test_foreign_functions_of_a_module():
    @I.ir_module
    class Given:
        ext = R.ExternFunc("ext_symbol")

        @R.function
        def main(x: R.Tensor((2,))) -> R.Tensor((2,)):
            return x
    text = Given.script()
    assert '    ext = R.ExternFunc("ext_symbol")\n    @R.function' in text
    assert structural_equal(from_source(text), Given) and Given["ext"].global_symbol == "ext_symbol"


def test_annotations_that_values_imply_are_left_out():
    func = one("y = R.add(x, x)", 'z: R.Tensor(ndim=1, dtype="float32") = R.add(y, x)', "w = (z, y)[1]",
               'v = R.match_cast(w, R.Tensor((2,), "float32"))', "return v")
    lines = [line.strip() for line in func.script(show_all_struct_info=False).split("\n")]
    assert "y = R.add(x, x)" in lines and 'z: R.Tensor(dtype="float32", ndim=1) = R.add(y, x)' in lines
    assert 'v = R.match_cast(w, R.Tensor((2,), dtype="float32"))' in lines
    assert structural_equal(from_source(func.script(show_all_struct_info=False)), func)


def test_a_function_alone_calls_one_with_a_name_of_python():
    text = """@R.function
def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
    y = R.call_tir(max, (x,), out_sinfo=R.Tensor((8,), "float32"))
    return y"""
    func = from_source(text)
    assert "R.call_tir(max, " in func.script() and structural_equal(from_source(func.script()), func)
