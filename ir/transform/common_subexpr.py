"""CommonSubexprElimTIR: index expressions that a loop body repeats get a name."""
from __future__ import annotations

from ..dtype import DataType
from ..expr import (Add, Call, Cast, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, Select, Sub, Var, is_const_int)
from ..node import Mutator, Visitor
from ..tir.stmt import BufferStore, Evaluate, LetStmt, SeqStmt

NAME = "at"
LEAST_OPERATORS = 3  # fewer are as quick to read as a name
_OPERATORS = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod)
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def common_subexpr_elim(func, enable_cse_tir=True, identify_equiv_terms=False):
    """Requires flat buffers. Ensures that an integer expression of at least LEAST_OPERATORS operators, which the stores
    directly in one body (of a loop, branch or function) repeat, is the value of a `let` around them.

    Only what is evaluated in any case moves: nothing under a condition, no division by a variable. Expressions are the
    same when they are written the same; identify_equiv_terms is accepted where it asks for no more.
    """
    if identify_equiv_terms:
        raise ValueError("CommonSubexprElimTIR compares expressions as they are written: leave identify_equiv_terms "
                         "False; Simplify brings equal ones to one form")
    return func.replace(body=_Name().visit(func.body)) if enable_cse_tir else func


class _Name(Mutator):
    """Every statement that directly holds stores is a body."""

    def visit_SeqStmt(self, s):
        if not any(map(_is_plain, s.seq)):
            return self.generic_visit(s)
        out, run = [], []
        for x in s.seq:  # runs of plain statements are bodies of their own: what is between may change their sense
            if _is_plain(x):
                run.append(x)
                continue
            out += self._named(run)
            out.append(self.visit(x))
            run = []
        out += self._named(run)
        return s if all(a is b for a, b in zip(out, s.seq)) else SeqStmt(tuple(out)) if len(out) > 1 else out[0]

    def visit_BufferStore(self, store):
        return self._named([store])[0]

    visit_Evaluate = visit_BufferStore

    def _named(self, stmts):
        """[the statements], with a let around all of them for what they repeat."""
        if not stmts:
            return []
        scan = _Scan()
        scan.visit(stmts)
        again = scan.repeated()
        if not again:
            return stmts
        value = {key: scan.example[key] for key in again}
        variable = {key: Var(NAME, e.dtype) for key, e in value.items()}
        body = _Replace(scan.key, variable).visit(SeqStmt(tuple(stmts)))
        body = body if len(stmts) > 1 else body.seq[0]
        for key in sorted(again, key=lambda k: -scan.size[k]):  # the smaller ones outside
            inner = {k: v for k, v in variable.items() if k != key and scan.size[k] < scan.size[key]}
            body = LetStmt(variable[key], _Replace(scan.key, inner).visit(value[key]), body)
        return [body]


def _is_plain(stmt):
    return isinstance(stmt, (BufferStore, Evaluate))


class _Scan(Visitor):
    """Counts the expressions of statements that are always evaluated, by a key that equal ones share."""

    def __init__(self):
        self.keys, self.interned = {}, {}  # id(expression) -> its key; what an expression is made of -> key
        self.keep = []
        self.count, self.example, self.size, self.inside = {}, {}, {}, {}

    def visit(self, value):
        if isinstance(value, (Select, Call)) and _is_choice(value):
            return self.visit(value.condition if isinstance(value, Select) else value.args[0])
        if isinstance(value, _OPERATORS) and value.dtype in _INTEGERS:
            self._seen(value)
        return super().visit(value)

    def visit_Buffer(self, _):
        """Its shape is not evaluated."""

    def _seen(self, e):
        key = self.key(e)
        if key is None or self.size[key] < LEAST_OPERATORS:
            return
        self.count[key] = self.count.get(key, 0) + 1
        self.example.setdefault(key, e)

    def repeated(self):
        """Keys of what is worth a name: not what is only ever a part of another, nor what names inside make short."""
        again = sorted((key for key, count in self.count.items() if count > 1), key=self.size.get)
        again = [k for k in again if not any(k in self.inside[o] and self.count[o] == self.count[k] for o in again)]
        chosen = []
        for key in again:
            named = max((self.size[c] for c in chosen if c in self.inside[key]), default=0)
            if self.size[key] - named >= LEAST_OPERATORS:
                chosen.append(key)
        return chosen

    def key(self, e):
        """A number that equal expressions share; None for one that may not move."""
        if id(e) not in self.keys:
            self.keep.append(e)
            self.keys[id(e)] = self._made(e)
        return self.keys[id(e)]

    def _made(self, e):
        if isinstance(e, Var):
            return self._intern(("v", id(e)), 0, frozenset())
        if isinstance(e, IntImm):
            return self._intern(("i", e.value, e.dtype), 0, frozenset())
        if isinstance(e, Cast) and e.dtype in _INTEGERS and e.value.dtype in _INTEGERS:
            a = self.key(e.value)
            return None if a is None else self._intern(("cast", e.dtype, a), self.size[a], self.inside[a] | {a})
        if not isinstance(e, _OPERATORS) or isinstance(e, _DIVISIONS) and not (
                isinstance(e.b, IntImm) and not is_const_int(e.b, 0)):
            return None
        a, b = self.key(e.a), self.key(e.b)
        if a is None or b is None:
            return None
        return self._intern((type(e), a, b), 1 + self.size[a] + self.size[b], self.inside[a] | self.inside[b] | {a, b})

    def _intern(self, made, size, inside):
        key = self.interned.setdefault(made, len(self.interned))
        self.size[key], self.inside[key] = size, inside
        return key


_INTEGERS = (DataType("int32"), DataType("int64"))


def _is_choice(e):
    return isinstance(e, Select) or e.op == "tir.if_then_else"


class _Replace(Mutator):
    def __init__(self, key, variable):
        self.key, self.variable = key, variable

    def visit(self, value):
        if self.variable and isinstance(value, _OPERATORS) and value.dtype in _INTEGERS:
            found = self.variable.get(self.key(value))
            if found is not None:
                return found
        return super().visit(value)
