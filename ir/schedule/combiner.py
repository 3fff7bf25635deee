"""Reductions as algebra: how a block's update joins what it has with new terms, and why terms may be regrouped."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ..expr import (
    EQ, GE, GT, LE, LT, NE, Add, And, FloatImm, IntImm, Max, Min, Mul, Not, Or, PrimExpr, Select, Var, const,
    operation_of, substitute)
from ..node import Mutator, collect, structural_equal
from ..tir.stmt import BufferLoad, BufferStore, LetStmt, SeqStmt

NEUTRAL = {Add: 0, Mul: 1}  # operations with a neutral element, which their reductions must start from
_COMPARED = {EQ: "==", NE: "!=", GE: ">=", GT: ">", LE: "<=", LT: "<"}
_JOINED = {And: "and", Or: "or"}
_CHOSEN = {Min: "min", Max: "max", "tir.greater": "max"}


@dataclass(frozen=True)
class Combiner:
    """buffers[n][indices] = results[n], over own (their elements before) and new (which stand for `terms`)."""

    buffers: tuple
    indices: tuple
    inits: tuple
    terms: tuple
    own: tuple
    new: tuple
    results: tuple

    def joined(self, elements, terms):
        """The results for other elements and terms."""
        return substitute(self.results, dict(zip(self.own + self.new, (*elements, *terms))))

    @property
    def operation(self):
        """The operation that joins one element with one term, such as Add; tuple for several elements at once."""
        return type(self.results[0]) if len(self.results) == 1 else tuple


class _No(Exception):
    """Why a block's update is no combiner."""


def combiner_of(block):
    """(Combiner, "") of a reduction block whose terms may be joined in any order and grouping; else (None, the reason).

    Joined must be by sum or product, from 0 or 1; or by comparing and choosing alone, as min, max and argmax do.
    """
    try:
        found = _parsed(block)
        compared = [n for n in range(len(found.results)) if not _is_plain(found, n)]
        if compared:
            _require_order_free(found, compared)
    except _No as why:
        return None, str(why)
    return found, ""


def _parsed(block):
    inits, updates = _stores(block.init), _stores(block.body)
    order = {r.buffer: n for n, r in enumerate(block.writes)}  # of the signature, whatever that of the stores
    updates.sort(key=lambda update: order.get(update[0].buffer, len(order)))
    buffers, indices = tuple(s.buffer for s, _ in updates), updates[0][0].indices
    started = {s.buffer: (s, value) for s, value in inits}
    if set(started) != set(buffers) or not len(started) == len(buffers) == len(inits):
        raise _No("its init and its body are not one store each of the same buffers")
    for store in (*(s for s, _ in inits), *(s for s, _ in updates)):
        if not structural_equal(store.indices, indices):
            raise _No("its init does not store where its body does")
    loads = [BufferLoad(b, indices) for b in buffers]
    values = tuple(value for _, value in updates)
    terms = tuple(_term(value, own, buffers) for value, own in zip(values, loads))
    own, new = (tuple(Var(f"{side}{n}", b.dtype) for n, b in enumerate(buffers)) for side in "xy")
    results = _Replace([*zip(loads, own), *zip(terms, new)]).visit(values)
    return Combiner(buffers, indices, tuple(started[b][1] for b in buffers), terms, own, new, results)


def why_not_plain(block):
    """None where a reduction block stores its start values as they are, and its results as they are if it is one, else
    as variables of lets, one each: the form in which TVM factors reductions. Else the reason. The block is one of
    combiner_of."""
    if isinstance(block.init, LetStmt):
        return f"its init keeps {block.init.var.name} in a variable; store the value itself"
    lets, stmt = set(), block.body
    while isinstance(stmt, LetStmt):
        lets.add(stmt.var)
        stmt = stmt.body
    stores = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
    if not lets and len(stores) == 1:
        return None
    for store in stores:
        if store.value not in lets:
            return (f"its value of {store.buffer.name} is no variable of its own; keep each in one before "
                    "the stores")
        lets.remove(store.value)
    if lets:
        return f"variable {lets.pop().name} is no result of it; put its value in where it is used"
    shape = stores[0].buffer.shape
    other = next((s.buffer for s in stores if not structural_equal(s.buffer.shape, shape)), None)
    return other and (f"{stores[0].buffer.name} and {other.name} are of different shapes; give the results buffers of "
                      "one shape")


def _stores(stmt):
    """[(BufferStore, its value with lets put in)] of stores side by side, none of which uses what one before wrote."""
    lets, written, out = {}, set(), []
    while isinstance(stmt, LetStmt):
        lets[stmt.var] = substitute(stmt.value, lets)
        stmt = stmt.body
    for store in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        if not isinstance(store, BufferStore):
            raise _No("its init and its body are not one store each of the same buffers")
        if any(load.buffer in written for load in collect(store.value, BufferLoad)):
            raise _No(f"its value of {store.buffer.name} uses what the store before has changed; keep the values in "
                      "variables first")
        written.add(store.buffer)
        out.append((store, substitute(store.value, lets)))
    return out


def _term(value, own, buffers):
    """The term that `value` combines with the element `own`."""
    kind, sides = operation_of(value)
    if kind is Select:
        sides = value.true_value, value.false_value
    elif kind not in (*NEUTRAL, *_CHOSEN):
        raise _No(f"it combines by {type(value).__name__}, which is not one of sum, product, min and max, or a choice "
                  "between both")
    a, b = sides
    term = next((t for t, other in ((b, a), (a, b)) if structural_equal(other, own)), None)
    if term is None or any(load.buffer in buffers for load in collect(term, BufferLoad)):
        raise _No(f"it does not combine {own.buffer.name} at the element it writes with a new term")
    return term


class _Replace(Mutator):
    """Puts other expressions for equal ones."""

    def __init__(self, pairs):
        self.pairs = pairs

    def visit(self, value):
        for old, new in self.pairs:
            if isinstance(value, PrimExpr) and structural_equal(old, value):
                return new
        return super().visit(value)


def _is_plain(found, n):
    """Whether result n is a sum or a product; it must start from the neutral element then."""
    result, init = found.results[n], found.inits[n]
    if type(result) not in NEUTRAL:
        return False
    neutral = const(NEUTRAL[type(result)], result.dtype)
    if not isinstance(init, (IntImm, FloatImm)) or init.value != neutral.value:
        raise _No(f"its init {init} is not the neutral element {neutral} of its operation")
    return True


# ---------------------------------------------------------------- choices between values

def _require_order_free(found, chosen):
    """Refuse unless results that only compare and choose come out the same in whatever order and grouping.

    Such a result depends on the order of the values alone, so that trying every order of three of them (two, or one
    and the init) proves it. Of several terms that tie, another one may be chosen.
    """
    names = {v: (f"{side}[{n}]", n) for side, variables in (("x", found.own), ("y", found.new))
             for n, v in enumerate(variables) if n in chosen}
    texts = []
    for n in range(len(found.results)):
        text, kind = _choice(found.results[n], names) if n in chosen else ("None", n)
        if kind != n:
            raise _No(f"its value of {found.buffers[n].name} is chosen from another buffer's")
        texts.append(text)
    join = eval(f"lambda x, y: ({', '.join(texts)},)")  # the text is made above of names and comparisons alone
    ones = [(0, 1, 2) if n in chosen else (None,) for n in range(len(texts))]
    values = list(product(*ones))
    if any(join(join(a, b), c) != join(a, join(b, c)) for a, b, c in product(values, repeat=3)):
        raise _No("the result of its choice depends on how the terms are grouped")
    apart = [(a, b) for a, b in product(values, repeat=2) if all(a[n] != b[n] for n in chosen)]
    if any(join(a, b) != join(b, a) for a, b in apart):
        raise _No("the result of its choice depends on the order of the terms")
    start = tuple(_rank(found, n) if n in chosen else None for n in range(len(texts)))
    around = product(*([r for r in (0, 1, 2) if start[n] == 1 or r >= start[n] == 0 or r <= start[n] == 2]
                       if n in chosen else (None,) for n in range(len(texts))))
    if any(join(join(start, a), start) != join(start, a) for a in around):
        raise _No(f"its init {', '.join(map(str, found.inits))} changes the result where it joins in twice")


def _rank(found, n):
    """Where init n lies among all values: 0 the least, 2 the greatest, 1 anywhere."""
    init, dtype = found.inits[n], found.buffers[n].dtype
    if not isinstance(init, (IntImm, FloatImm)):
        raise _No(f"its init {init} is no constant")
    return 0 if init.value == dtype.min_value() else 2 if init.value == dtype.max_value() else 1


def _choice(e, names):
    """(Python text, which result's values it is one of; None for a condition) of what compares and chooses alone."""
    kind, operands = operation_of(e)
    if kind is Var and e in names:
        return names[e]
    if kind in _CHOSEN or kind in _COMPARED:
        (a, of), (b, other) = (_choice(v, names) for v in operands)
        if of is not None and of == other:
            return (f"{_CHOSEN[kind]}({a}, {b})", of) if kind in _CHOSEN else (f"({a} {_COMPARED[kind]} {b})", None)
    if kind is Select:
        (c, test), (a, of), (b, other) = (_choice(v, names) for v in (e.condition, e.true_value, e.false_value))
        if test is None and of is not None and of == other:
            return f"({a} if {c} else {b})", of
    if kind in _JOINED:
        (a, of), (b, other) = _choice(e.a, names), _choice(e.b, names)
        if of is None and other is None:
            return f"({a} {_JOINED[kind]} {b})", None
    if kind is Not:
        a, of = _choice(e.a, names)
        if of is None:
            return f"(not {a})", None
    raise _No("it does more than compare and choose between what it has and the new term")
