"""Rows of rewrite rules as text: ("min(x + y, x + z)", "x + min(y, z)") with an optional condition, compiled once.

In a row, names that begin with c are integer constants, others any expression. Operators are Python's: `//` and `%`
round down, tdiv and tmod toward zero, `&`, `|` and not_ join conditions, min, max and select are what they say. So a
row is also a Python expression, and tests evaluate it on small integers as it stands. A condition asks of constants
what Python can, and of expressions what PROOFS offers.

Two marks widen a row: "~" before the pattern, for all orders of the operands of its commutative operators; "div" and
"mod", for both kinds of division.
"""
from __future__ import annotations

import ast
import re
from itertools import product

from ...expr import (EQ, LE, LT, NE, Add, And, Div, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Mul, Not, Or, Select,
                     Sub, binary, const, logical_and, logical_or)
from ..linear import DoesNotFit
from ..simplify import same

OPERATORS = {ast.Add: Add, ast.Sub: Sub, ast.Mult: Mul, ast.FloorDiv: FloorDiv, ast.Mod: FloorMod, ast.BitAnd: And,
             ast.BitOr: Or, ast.Lt: LT, ast.LtE: LE, ast.Eq: EQ, ast.NotEq: NE}
FUNCTIONS = {"min": Min, "max": Max, "tdiv": Div, "tmod": Mod, "floordiv": FloorDiv, "floormod": FloorMod, "not_": Not,
             "select": Select}
COMMUTATIVE = (Add, Mul, Min, Max, EQ, NE, And, Or)
BUILD = {And: logical_and, Or: logical_or, Not: Not, Select: Select}
_EITHER = re.compile(r"\b(div|mod)(?=\()")
PYTHON = {"min": min, "max": max, "abs": abs, "__builtins__": {}}  # what a part of constants may call
PROOFS = ("nonneg", "pos", "le", "lt", "equal", "constant", "outside", "ordered")  # of expressions, by the rewriter
_RING = (ast.Add, ast.Sub, ast.Mult)  # what numbers that wrap around keep the laws of, alone


class Rule:
    """One row: apply(e, prover) gives the rewritten expression, or None. is_exact: whether it holds of numbers only
    that do not wrap around."""

    def __init__(self, pattern, result, condition=None):
        self.text = pattern, result, condition
        tree = pattern if isinstance(pattern, ast.AST) else _parsed(pattern)
        self.kind = _kind(tree)
        self.match, self.make = _matcher(tree), _maker(_parsed(result))
        self.is_exact = _is_exact(tree, _parsed(result))
        self.condition = condition and compile(condition, "<condition>", "eval")

    def apply(self, e, prover):
        found = {}
        if not self.match(e, found):
            return None
        numbers = {name: value.value for name, value in found.items() if name[0] == "c"}
        if self.condition and not eval(self.condition, {**PYTHON, **prover.proofs}, {**found, **numbers}):
            return None
        try:
            return self.make(found, numbers, _dtype_of_numbers(e, found))
        except (OverflowError, ValueError, ZeroDivisionError, DoesNotFit):
            return None  # a constant that the dtype does not hold


def _is_exact(*trees):
    """Whether sums, differences or products are beside what is of none of these."""
    inside = [n for tree in trees for n in ast.walk(tree) if _kind_of(n) and not _of_constants(n)]
    sums = [isinstance(n, ast.BinOp) and isinstance(n.op, _RING) for n in inside]
    return any(sums) and not all(sums)


def _kind_of(n):
    return isinstance(n, (ast.BinOp, ast.Compare)) or isinstance(n, ast.Call)


def _dtype_of_numbers(e, found):
    """The dtype of the numbers in a result: that of the operands, under conditions of what these compare."""
    dtype = getattr(e, "a", e).dtype
    return next((v.dtype for v in found.values() if not v.dtype.is_bool), dtype) if dtype.is_bool else dtype


def compiled(rows):
    """{class of nodes: [Rule]} of rows of text, in their order, the row as it is written before its other orders."""
    rules = {}
    for row in rows:
        for pattern, result, condition in _both_divisions(row):
            given = _parsed(pattern.removeprefix("~"))
            for tree in _orders(given) if pattern.startswith("~") else (given,):
                rule = Rule(tree, result, condition)
                rules.setdefault(rule.kind, []).append(rule)
    return rules


def _both_divisions(row):
    """The row for both kinds of division, where it says div or mod."""
    texts = [text or "" for text in (*row, None)[:3]]
    kinds = ("floor", "t") if any(_EITHER.search(text) for text in texts) else ("",)
    return [tuple(_EITHER.sub(rf"{kind}\1", text) or None for text in texts) for kind in kinds]


def _parsed(text):
    return ast.parse(text, mode="eval").body


def _kind(n):
    """The class of nodes that a part of a pattern matches, None for names and numbers."""
    if isinstance(n, ast.BinOp):
        return OPERATORS[type(n.op)]
    if isinstance(n, ast.Compare):
        return OPERATORS[type(n.ops[0])]
    return FUNCTIONS[n.func.id] if isinstance(n, ast.Call) else None


def _operands(n):
    if isinstance(n, ast.BinOp):
        return [n.left, n.right]
    return [n.left, n.comparators[0]] if isinstance(n, ast.Compare) else n.args


def _with(n, operands):
    if isinstance(n, ast.BinOp):
        return ast.BinOp(operands[0], n.op, operands[1])
    if isinstance(n, ast.Compare):
        return ast.Compare(operands[0], n.ops, [operands[1]])
    return ast.Call(n.func, list(operands), [])


def _orders(n):
    """A pattern in every order of its commutative operators: as it is written first, turned around as a whole last."""
    kind = _kind(n)
    if kind is None:
        return [n]
    inner = list(product(*(_orders(part) for part in _operands(n))))
    turned = [operands[::-1] for operands in inner] if kind in COMMUTATIVE else []
    found = {}
    for operands in (*inner, *turned):
        tree = _with(n, operands)
        found.setdefault(ast.dump(tree), tree)
    return list(found.values())


# ---------------------------------------------------------------- matching

def _number(n):
    """The number that a part of a row is, or None."""
    if isinstance(n, ast.UnaryOp) and isinstance(n.operand, ast.Constant):
        return -n.operand.value
    return n.value if isinstance(n, ast.Constant) else None


def _matcher(n):
    """The function (e, found) that says whether `e` is as the pattern and puts what its names are into found."""
    value = _number(n)
    if value is not None:
        return lambda e, found: type(e) is IntImm and e.value == value
    if isinstance(n, ast.Name):
        return _name_matcher(n.id, n.id[0] == "c")
    kind, parts = _kind(n), [_matcher(part) for part in _operands(n)]
    if kind is Not:
        return lambda e, found: type(e) is Not and parts[0](e.a, found)
    if kind is Select:
        return lambda e, found: type(e) is Select and parts[0](e.condition, found) and (
            parts[1](e.true_value, found) and parts[2](e.false_value, found))
    left, right = parts
    return lambda e, found: type(e) is kind and left(e.a, found) and right(e.b, found)


def _name_matcher(name, constant):
    def match(e, found):
        if constant and type(e) is not IntImm:
            return False
        known = found.setdefault(name, e)
        return known is e or same(known, e)
    return match


# ---------------------------------------------------------------- building

def _of_constants(n):
    """Whether a part of a result is a number computed from constants alone."""
    inside = list(ast.walk(n))
    names = [m.id for m in inside if isinstance(m, ast.Name)]
    return bool(names) and all(name[0] == "c" or name in PYTHON for name in names) and not any(
        isinstance(m, ast.Compare) for m in inside)


def _maker(n):
    """The function (found, numbers, dtype) that builds a result; numbers are of `dtype`, truths bool."""
    value = _number(n)
    if isinstance(value, bool):
        return lambda found, numbers, dtype: const(value)
    if value is not None:
        return lambda found, numbers, dtype: const(value, dtype)
    if _of_constants(n):
        code = compile(ast.fix_missing_locations(ast.Expression(n)), "<constant>", "eval")
        return lambda found, numbers, dtype: const(eval(code, dict(PYTHON), numbers), dtype)
    if isinstance(n, ast.Name):
        name = n.id
        return lambda found, numbers, dtype: found[name]
    kind, parts = _kind(n), [_maker(part) for part in _operands(n)]
    build = BUILD.get(kind) or (lambda a, b: binary(kind, a, b))
    return lambda found, numbers, dtype: build(*(part(found, numbers, dtype) for part in parts))
