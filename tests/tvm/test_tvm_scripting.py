"""tvm.script.printer, tvm.script.parser.core and tvm.ir.diagnostics: what a script's own printers and parsers call."""
import inspect

import pytest

from ingot.ir.diagnostics import override_renderer
from ingot.ir.object_path import ObjectPath
from ingot.script import ScriptError, from_source
from ingot.script.parser.core import doc as nodes
from ingot.script.parser.core.diagnostics import Source
from ingot.script.parser.core.evaluator import ExprEvaluator
from ingot.script.printer import doc as D
from ingot.script.printer.doc import OperationKind as K
from ingot.script.printer.doc_printer import to_python_script
from ingot.tir import Var

X, Y = D.IdDoc("x"), D.IdDoc("y")


def op(kind, *operands):
    return D.OperationDoc(kind, operands)


@pytest.mark.parametrize("doc, text", [
    (op(K.Sub, X, op(K.Sub, X, Y)), "x - (x - y)"), (op(K.Mult, op(K.Add, X, Y), X), "(x + y) * x"),
    (op(K.Pow, op(K.Pow, X, Y), op(K.USub, X)), "(x ** y) ** -x"), (op(K.Lt, op(K.Lt, X, Y), X), "(x < y) < x"),
    (op(K.Pow, D.LiteralDoc(-1), D.LiteralDoc(-2)), "(-1) ** -2"), (op(K.Sub, X, D.LiteralDoc(-0.0)), "x - -0.0"),
    (op(K.Not, op(K.And, X, Y)), "not (x and y)"),
    (op(K.IfThenElse, op(K.Lt, X, Y), X, op(K.IfThenElse, X, X, Y)), "x if x < y else (x if x else y)"),
    (X[D.LiteralDoc(1):Y, Y].attr("f").call(D.LiteralDoc(0.1), key=D.TupleDoc([X])),
     "x[1:y, y].f(0.10000000000000001, key=(x,))"),
    (D.LambdaDoc([X, Y], D.DictDoc({D.LiteralDoc("a\n\"b"): op(K.Invert, X)})), 'lambda x, y: {"a\\n\\"b": ~x}'),
])
def test_expressions(doc, text):
    assert to_python_script(doc) == text


def test_statements():
    assign = D.AssignDoc(D.TupleDoc([X, Y]), D.TupleDoc([Y, D.LiteralDoc(True)]))
    assign.comment = "swapped"
    loop = D.ForDoc(X, Y, [D.ScopeDoc(Y, X, []), D.IfDoc(X, [D.ReturnDoc(Y)], [D.WhileDoc(X, [assign])])])
    func = D.FunctionDoc(D.IdDoc("f"), [D.AssignDoc(X, None, Y)], [Y], D.LiteralDoc(None), [loop])
    func.comment = "what it does"
    text = to_python_script(D.ClassDoc(D.IdDoc("C"), [], [func, D.CommentDoc("end"), D.AssertDoc(X, Y)]))
    assert text == """class C:
    @y
    def f(x: y) -> None:
        \"\"\"
        what it does
        \"\"\"
        for x in y:
            with x as y:
                pass
            if x:
                return y
            else:
                while x:
                    x, y = y, True  # swapped

    # end
    assert x, y"""
    for wrong in (lambda: D.AssignDoc(X, None), lambda: D.AssignDoc(X[Y], Y, Y), lambda: D.IfDoc(X, [], [])):
        with pytest.raises(ValueError, match="Doc: "):
            wrong()


def test_what_stands_for_a_path_is_underlined():
    root = ObjectPath.root()
    near, far = D.IdDoc("near"), D.IdDoc("far")
    near.source_paths, far.source_paths = [root.attr("a").attr("b")], [root.attr("a")]
    block = D.StmtBlockDoc([D.ExprStmtDoc(far), *(D.ExprStmtDoc(X) for _ in range(6)), D.ExprStmtDoc(op(K.Add, X, near))])
    text = to_python_script(block, path_to_underline=[root.attr("a").attr("b").attr("c")], num_context_lines=1,
                            print_line_numbers=True)
    assert text == "(... 6 lines skipped ...)\n7 x\n8 x + near\n      ^^^^"


def test_sources_and_values():
    source = Source(test_sources_and_values)
    assert source.source == inspect.getsource(test_sources_and_values) and source.start_line > 1
    assert isinstance(source.as_ast().body[0], nodes.FunctionDef)
    a = Var("a")
    text = Source("n + 1, xs[1:], len(xs), a + n, a < 2 and a > 0").as_ast().body[0].value
    found = ExprEvaluator.eval(None, {"n": 2, "xs": [1, 2, 3], "a": a}, text)
    assert found[:3] == (3, [2, 3], 3) and [str(e) for e in found[3:]] == ["a + 2", "a < 2 and a > 0"]


def test_renderers_are_told_of_refused_scripts():
    seen = []
    override_renderer(seen.append)
    try:
        with pytest.raises(ScriptError, match="nothing"):
            from_source("@T.prim_func\ndef main():\n    T.evaluate(nothing)")
    finally:
        override_renderer(None)
    (found,) = seen[0].diagnostics
    assert (found.span.line, found.span.column) == (3, 16) and "nothing" in found.message
