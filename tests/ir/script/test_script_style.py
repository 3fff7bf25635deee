"""Options of script(...): marks, forms and prefixes, and the script of any part of a program."""
import inspect

import pytest

from ingot import tir
from ingot.ir.node import structural_equal
from ingot.runtime import ObjectPath
from ingot.script import from_source, ir as I, relax as R, tir as T
from ingot.script.highlight import cprint


@I.ir_module
class Two:
    @T.prim_func
    def scaled(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for i, j in T.grid(8, 4):
            with T.block("scaled"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    @R.function
    def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
        y = R.call_tir(Two.scaled, (x,), R.Tensor((8, 4), "float32"))
        z = R.add(y, y)
        return z


def body(text):
    """The text below its imports."""
    return text.partition("\n\n")[2]


def golden(text):
    return inspect.cleandoc(text)


STORE = Two["scaled"].body.block.body.body.body.block.body


def test_statements_and_expressions_are_underlined():
    text = Two["scaled"].script(obj_to_underline=[STORE])
    assert "        B[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)\n" in text
    lines = text.split("\n")
    assert lines[-1] == " " * lines[-2].index("B[") + "^" * len(lines[-2].strip())
    path = ObjectPath.root().attr("functions").map_value(Two.get_global_var("scaled")).attr("body").attr("block").attr(
        "body").attr("body").attr("body").attr("block").attr("body").attr("value").attr("a")
    lines = Two.script(path_to_underline=[path]).split("\n")
    at = next(n for n, line in enumerate(lines) if "^" in line)
    assert lines[at - 1][lines[at].index("^"):len(lines[at])] == "A[vi, vj] * T.float32(2.0)"
    whole = Two.script(path_to_underline=[ObjectPath.root()]).split("\n")
    assert [line.strip("^ ") for line in whole].count("") > 10 and "^^^" not in whole[0]


def test_few_lines_around_what_is_underlined():
    text = Two["scaled"].script(obj_to_underline=[STORE], num_context_lines=1)
    assert text.startswith("(... 9 lines skipped ...)\n") and text.count("\n") == 3
    numbered = Two["scaled"].script(obj_to_underline=[STORE.value], num_context_lines=0, print_line_numbers=True)
    assert numbered.split("\n")[1].startswith("11  ")
    assert numbered.split("\n")[2].index("^") == numbered.split("\n")[1].index("A[")


def test_notes_stand_behind_a_line_or_above_several():
    loop = Two["scaled"].body.block.body
    text = Two["scaled"].script(obj_to_annotate={STORE: "the store", loop: "the loops", STORE.value: "the sum"})
    assert "    # the loops\n    for i, j in T.grid(8, 4):" in text
    assert text.endswith("T.float32(1.0)  # the sum  # the store")
    binding = Two["main"].body.blocks[0].bindings[1]
    assert "= R.add(y, y)  # doubled" in Two.script(obj_to_annotate={binding: "doubled"})
    assert structural_equal(from_source(text), Two["scaled"])  # comments change nothing

    @T.prim_func
    def lets(n: T.int32):
        x = n + 1
        y = x * 2
        T.evaluate(y)
    noted = lets.script(path_to_annotate={ObjectPath.root().attr("body").attr("body"): "note"})
    assert golden(noted).endswith("    # note\n    with T.LetStmt(x * 2) as y:\n        T.evaluate(y)")


def test_longer_forms():
    text = Two.script(syntax_sugar=False)
    assert "T.grid" not in text and "remap" not in text and "A = T.match_buffer(" in text and 'T.block("root")' in text
    assert structural_equal(from_source(text), Two)


def test_prefixes():
    text = Two.script(ir_prefix="IR", tir_prefix="tir", relax_prefix="rx", module_alias="Module")
    assert text.startswith("".join(
        f"# from tvm.script import {name} as {new}\n" for name, new in (("ir", "IR"), ("tir", "tir"), ("relax", "rx"))))
    assert "@tir.prim_func" in text and "rx.call_tir(Module.scaled" in text
    assert "T." not in text.replace("IR.", "").replace("# with T.block", "")
    assert structural_equal(from_source(text), Two)
    for name in ("2I", "a b", ""):
        with pytest.raises(ValueError, match="is no identifier"):
            Two.script(tir_prefix=name)
    quoted = from_source('@T.prim_func\ndef f():\n    T.evaluate(T.call_extern("int32", "T.x", 1))')
    assert '"T.x"' in quoted.script(tir_prefix="tt")
    for clash in ({"tir_prefix": "A", "relax_prefix": "x"}, {"module_alias": "x"}):  # names of parameters, otherwise
        assert structural_equal(from_source(Two.script(**clash)), Two)


def test_parts_of_programs_declare_what_they_use():
    n, A = tir.Var("n", "int64"), tir.decl_buffer((4, 4), "float32", "A")
    assert (n + 1).script() == "n = T.int64()\nn + T.int64(1)"
    assert tir.BufferStore(A, A[0, 1], [1, n]).script() == golden("""
        n = T.int64()
        A = T.Buffer((4, 4))
        A[1, n] = A[0, 1]""")
    assert A.script() == 'A = T.Buffer((4, 4))\nA' and A[0:2, 1].script().endswith("A[0:2, 1]")
    match = tir.MatchBufferRegion(tir.decl_buffer((2, 2), "float32", "S"), A[0:2, 0:2])
    assert match.script().endswith('S = T.match_buffer(A[0:2, 0:2], (2, 2))')
    assert tir.IterVar((0, 8), "v", tir.IterVar.CommReduce).script() == golden("""
        v = T.int32()
        T.iter_var(v, T.Range(0, 8), "CommReduce", "")""")
    assert tir.Select(True, 0, 2).script() == "T.Select(T.bool(True), 0, 2)"
    let = tir.LetStmt(tir.Var("x", "int64"), 3, tir.Evaluate(0))
    assert let.script() == "with T.LetStmt(T.int64(3)) as x:\n    T.evaluate(0)"


def test_parts_are_shown(capsys):
    STORE.show(style="none")
    cprint(STORE, style="light")
    cprint("T.evaluate(0)")
    assert capsys.readouterr().out == f"{STORE.script()}\n" * 2 + "T.evaluate(0)\n"
