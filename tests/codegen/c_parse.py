"""C expressions parsed by pycparser, and the trees that expressions should parse to, both as nested tuples."""
import re

from pycparser import c_ast, c_parser

from ingot.codegen.c_expr import CAST_THROUGH, COMPUTED_IN, SUFFIX, CExpr
from ingot.codegen.c_types import literal
from ingot.ir import expr as E
from ingot.ir.tir.intrinsics import INTRINSICS
from ingot.ir.tir.stmt import BufferLoad

_TYPEDEFS = "".join(f"typedef int {u}int{b}_t;" for u in ("", "u") for b in (8, 16, 32, 64))
_PARSER = c_parser.CParser()


def parse(text, casts=True):
    """The tree of a C expression, with or without its casts. Raises pycparser's error for what is none."""
    unit = _PARSER.parse(f"{_TYPEDEFS} void f(void) {{ x = {text}; }}")
    return _tree(unit.ext[-1].body.block_items[0].rvalue, casts)


def _tree(n, casts):
    if isinstance(n, c_ast.BinaryOp):
        return n.op, _tree(n.left, casts), _tree(n.right, casts)
    if isinstance(n, c_ast.UnaryOp):
        return n.op, _tree(n.expr, casts)
    if isinstance(n, c_ast.TernaryOp):
        return "?:", _tree(n.cond, casts), _tree(n.iftrue, casts), _tree(n.iffalse, casts)
    if isinstance(n, c_ast.Cast):
        inner = _tree(n.expr, casts)
        return ("cast", n.to_type.type.type.names[0], inner) if casts else inner
    if isinstance(n, c_ast.ArrayRef):
        return "[]", _tree(n.name, casts), _tree(n.subscript, casts)
    if isinstance(n, c_ast.FuncCall):
        return ("call", n.name.name, *(_tree(a, casts) for a in (n.args.exprs if n.args else ())))
    if isinstance(n, c_ast.ID):
        return n.name
    return n.value


_OPS = {E.Add: "+", E.Sub: "-", E.Mul: "*", E.Div: "/", E.Mod: "%", E.EQ: "==", E.NE: "!=", E.LT: "<", E.LE: "<=",
        E.GT: ">", E.GE: ">=", E.And: "&&", E.Or: "||"}
_HELPERS = {E.Min: "min", E.Max: "max", E.FloorDiv: "floordiv", E.FloorMod: "floormod"}


def expected(e):
    """The expected result of parse(text of e, casts=False)."""
    kind = type(e)
    if isinstance(e, (E.IntImm, E.FloatImm)):
        return _number(literal(e.dtype, e.value))
    if kind is BufferLoad:
        return "[]", e.buffer.name, expected(e.indices[0])
    if kind is E.Var:
        return e.name
    if kind is E.Not:
        return "!", expected(e.a)
    if kind is E.Cast:
        inner = expected(e.value)
        if e.value.dtype.is_float and e.dtype.is_int:
            return "call", f"ingot_{SUFFIX[e.value.dtype]}_to_{SUFFIX[CAST_THROUGH[str(e.dtype)]]}", inner
        return ("!=", inner, _number(literal(e.value.dtype, 0))) if e.dtype.is_bool else inner
    if kind is E.Select or kind is E.Call and e.op == "tir.if_then_else":
        parts = (e.condition, e.true_value, e.false_value) if kind is E.Select else e.args
        return ("?:", *map(expected, parts))
    if kind is E.Call:
        return _call(e.op.removeprefix("tir."), e.dtype, *e.args)
    return _binary(e, kind)


def _binary(e, kind):
    if e.dtype.code == "uint":
        kind = {E.FloorDiv: E.Div, E.FloorMod: E.Mod}.get(kind, kind)
    if e.dtype.is_float and kind is E.Mod:
        return _call("fmod", e.dtype, e.a, e.b)
    if e.dtype.is_float and kind is E.FloorDiv:
        return _call("floor", e.dtype, E.Div(e.a, e.b))
    name = _HELPERS.get(kind) or CExpr({}, set()).function(e, kind.__name__)
    if name:
        wide, operands = COMPUTED_IN.get(e.dtype, e.dtype), [expected(e.a), expected(e.b)]
        if wide == "uint64" and kind in (E.Min, E.Max):
            return "?:", ("<" if kind is E.Min else ">", *operands), *operands
        wide = e.dtype if name in ("div", "mod") and e.dtype == "uint32" else wide
        if e.dtype.is_float and not isinstance(e.a, E.FloatImm):
            name, operands = (name, operands[::-1]) if isinstance(e.b, E.FloatImm) else (name + "imum", operands)
        return "call", f"ingot_{name}_{SUFFIX[wide]}", *operands
    if kind is E.Sub and E.is_const_int(e.a, 0) and e.dtype.code == "int":
        return "-", expected(e.b)
    if kind is E.Add and isinstance(e.b, E.IntImm) and -(1 << 31) < e.b.value < 0:
        return "-", expected(e.a), str(-e.b.value)
    return _OPS[kind], expected(e.a), expected(e.b)


def _call(name, dtype, *args):
    if name == "abs" and dtype.is_int:
        x = args[0]
        return expected(x) if dtype.code == "uint" else expected(E.Max(x, E.Sub(E.IntImm(dtype, 0), x)))
    return "call", INTRINSICS[name].spellings[f"c {dtype}"], *map(expected, args)


def _number(text):
    if text.startswith("-"):
        return "-", _number(text[1:])
    wide = re.match(r"U?INT64_C\((.*)\)$", text)
    return ("call", text.partition("(")[0], wide[1]) if wide else text


# ---------------------------------------------------------------- parentheses

def needless_parentheses(text):
    """The texts in parentheses that could go without a change of meaning and are not there for the reader: around
    && within ||, comparisons, choices and what starts with a minus."""
    tree, found = parse(text), []
    for start, end in _pairs(text):
        inside = text[start + 1:end]
        before = text[:start].rstrip()
        if re.search(r"\w$", before) or re.fullmatch(r"u?int\d+_t|float|double", inside):
            continue  # a call, or a cast
        kept_for_reading = parse(inside)[0] in ("&&", "==", "!=", "<", "<=", ">", ">=", "?:") or inside.startswith("-")
        if kept_for_reading:
            continue
        try:
            if parse(text[:start] + " " + inside + " " + text[end + 1:]) == tree:
                found.append(inside)
        except Exception:
            pass
    return found


def _pairs(text):
    stack = []
    for n, c in enumerate(text):
        if c == "(":
            stack.append(n)
        elif c == ")":
            yield stack.pop(), n
