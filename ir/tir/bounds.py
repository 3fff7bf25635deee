"""check_bounds: refuse a PrimFunc that reads or writes outside a buffer, where an iteration that does is found."""
from __future__ import annotations

from contextlib import contextmanager
from functools import reduce
from math import prod

import numpy as np

from .. import expr as E
from ..arith.int_set import _Lanes
from ..node import Visitor, children, collect
from . import stmt as S
from .intrinsics import INTEGER_INTRINSICS
from .verifier import VerifyError

POINTS = 1 << 14  # how many iterations of an access are looked at, at most: all of them, or those at the ends of loops
_AXES = 24  # numpy's arrays have no more than 32

FUNCTIONS = {
    E.Add: np.add, E.Sub: np.subtract, E.Mul: np.multiply, E.FloorDiv: np.floor_divide, E.FloorMod: np.mod,
    E.Div: lambda a, b: np.sign(a) * np.sign(b) * (abs(a) // abs(b)), E.Mod: np.fmod, E.Min: np.minimum,
    E.Max: np.maximum, E.EQ: np.equal, E.NE: np.not_equal, E.LT: np.less, E.LE: np.less_equal, E.GT: np.greater,
    E.GE: np.greater_equal, E.And: np.logical_and, E.Or: np.logical_or, E.Not: np.logical_not, E.Select: np.where,
    "tir.if_then_else": np.where, **dict.fromkeys(("tir.likely", "tir.ignore_loop_partition"), lambda a: a),
    **{f"tir.{n}": INTEGER_INTRINSICS[n].numpy for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")},
}
_DIVISIONS = (E.FloorDiv, E.FloorMod, E.Div, E.Mod)


class _Unknown(Exception):
    """A value that only a run tells: of memory, of a parameter, of arithmetic that overflows or divides by 0."""


def check_bounds(func):
    """Return `func`; raise VerifyError where an iteration that surely runs reads or writes outside a buffer.

    Requires: a PrimFunc that is not lowered. An iteration surely runs when all loops, predicates and conditions around
    the access, also those of if_then_else, Select, `and` and `or`, are known numbers there and let it through. So what
    depends on a symbolic dimension or on data passes, as do buffers that are views of another's memory. Of large
    loops, only the iterations near the ends and near the constants of conditions are looked at.
    """
    loops = collect(func.body, (S.For, S.While, S.AttrStmt))
    if not any(c.op == "tir.ret" for c in collect(loops, E.Call)):  # one in a loop leaves out what comes before it
        with np.errstate(all="ignore"):
            _Checker(func).visit(func.body)
    return func


class _Checker(Visitor):
    def __init__(self, func):
        self.func = func
        self.buffers = set(func.buffer_map.values())  # those that are no views
        self.domains = {}    # Var -> (least, greatest) value of a loop variable
        self.lets = {}       # Var -> its value, in other variables
        self.guards = ()     # conditions around the place
        self.blocks = []     # names of blocks around the place
        self.over = False    # after a return

    @contextmanager
    def where(self, *conditions):
        """Within the `with`, the conditions hold."""
        saved, self.guards = self.guards, (*self.guards, *conditions)
        yield
        self.guards = saved

    # ------------------------------------------------------------ statements

    def visit(self, value):
        return None if self.over else super().visit(value)

    def visit_Buffer(self, b):
        pass

    def visit_For(self, s):
        self.visit((s.min, s.extent))
        self._loop(s.loop_var, s.min, s.extent, s.body)

    def visit_AttrStmt(self, s):
        self.visit(s.value)
        if isinstance(s.target, E.IterVar):  # an index of a thread
            dtype = s.target.var.dtype
            self._loop(s.target.var, E.const(0, dtype), E.cast(s.value, dtype), s.body)
        else:
            self.visit(s.body)

    def _loop(self, var, least, extent, body):
        try:
            low, high = self._range(least)[0], self._range(least + extent - 1)[1]
        except _Unknown:
            return  # nobody knows whether it runs at all
        if low > high:
            return
        self.domains[var] = (low, high)
        fixed = not self._grid((least, extent))
        with self.where(*(() if fixed else (var >= least, var < least + extent))):
            self.visit(body)

    def visit_BlockRealize(self, s):
        block = s.block
        self.visit(s.iter_values)
        self.lets.update((iv.var, value) for iv, value in zip(block.iter_vars, s.iter_values))
        self.visit(s.predicate)
        self.buffers.update(block.alloc_buffers, (m.buffer for m in block.match_buffers))
        first = [E.EQ(iv.var, iv.dom.min) for iv in block.iter_vars if iv.iter_type == "reduce"]
        self.blocks.append(block.name_hint)
        with self.where(s.predicate):
            with self.where(*first):
                self.visit(block.init)
            self.visit(block.body)
        self.blocks.pop()

    def visit_DeclBuffer(self, s):
        self.buffers.add(s.buffer)
        self.visit(s.body)

    def visit_LetStmt(self, s):
        self.visit(s.value)
        self.lets[s.var] = s.value
        self.visit(s.body)

    visit_Let = visit_LetStmt

    def _branches(self, condition, yes, no):
        self.visit(condition)
        with self.where(condition):
            self.visit(yes)
        with self.where(E.Not(condition)):
            self.visit(no)

    def visit_IfThenElse(self, s):
        self._branches(s.condition, s.then_case, s.else_case)

    def visit_While(self, s):
        self._branches(s.condition, s.body, None)

    visit_AssertStmt = visit_While

    # ------------------------------------------------------------ expressions

    def visit_Select(self, e):
        self._branches(e.condition, e.true_value, e.false_value)

    def visit_And(self, e):
        self._branches(e.a, e.b, None)

    def visit_Or(self, e):
        self._branches(e.a, None, e.b)

    def visit_Call(self, e):
        if e.op == "tir.if_then_else":
            self._branches(*e.args)
        elif e.op != "tir.address_of":  # an address may be one past the end
            self.visit(e.args)
            self.over = self.over or e.op == "tir.ret"

    def visit_BufferLoad(self, e):
        self._access("reads", e.buffer, e.indices)

    def visit_BufferStore(self, s):
        self.visit(s.value)
        self._access("writes", s.buffer, s.indices)

    def _access(self, verb, buffer, indices):
        self.visit(indices)
        if buffer in self.buffers and len(indices) == len(buffer.shape):
            for axis in range(len(indices)):
                try:
                    self._index(verb, buffer, indices, axis)
                except _Unknown:
                    pass

    def _index(self, verb, buffer, indices, axis):
        """Raise VerifyError where one index of an access leaves its dimension; _Unknown where that is not known."""
        index, size = plain, _ = indices[axis], buffer.shape[axis]
        while isinstance(plain, E.Var) and plain in self.lets:
            plain = self.lets[plain]
        low, high = self.domains.get(plain, (-1, 0)) if isinstance(plain, E.Var) else (-1, 0)
        if low >= 0 and isinstance(size, E.IntImm) and high < size.value:
            return
        lanes = {}
        scalar = _Lanes(lanes).visit(index)
        if not all(isinstance(r.extent, E.IntImm) for r in lanes.values()):
            raise _Unknown  # vectors of as many lanes as a processor has
        self.domains.update((v, (0, r.extent.value - 1)) for v, r in lanes.items())
        env = self._grid((scalar, size, self.guards))
        at, size, *guards = (self._value(e, env) for e in (scalar, size, *self.guards))
        at, size, runs, *points = np.broadcast_arrays(at, size, reduce(np.logical_and, guards, True), *env.values())
        wrong = runs & ((at < 0) | (at >= size))
        if not wrong.any():
            return
        worst = np.argmax(np.where(wrong, np.maximum(-at, at - size + 1), 0))
        place = ", ".join(f"{v.name} = {p.flat[worst]}" for v, p in zip(env, points) if v not in lanes)
        name = self.func.attrs.get("global_symbol", "main")
        block = f"block {self.blocks[-1]} " if self.blocks else ""
        shape = f"({', '.join(map(str, buffer.shape))}{',' if len(indices) == 1 else ''})"
        raise VerifyError(
            f"PrimFunc {name}: {block}{verb} {buffer.name}[{', '.join(map(str, indices))}] outside the shape {shape} of "
            f"buffer {buffer.name}: index {index} of dimension {axis} runs from {at[runs].min()} to {at[runs].max()}"
            f"{f', and is {at.flat[worst]} where {place}' if place else ''}; guard the access with T.if_then_else, "
            "T.where or `if`, or change the shape or the loops")

    # ------------------------------------------------------------ values

    def _range(self, e):
        """(least, greatest) value of an expression of loop variables, at the iterations that are looked at."""
        values = self._value(e, self._grid(e))
        return int(np.min(values)), int(np.max(values))

    def _grid(self, *roots):
        """{Var: array of values}, each along an axis of its own, for the loop variables behind expressions."""
        found, seen, constants, stack = {}, set(), {0}, list(roots)
        while stack:
            for v in collect(stack.pop(), (E.Var, E.IntImm)):
                if isinstance(v, E.IntImm):
                    constants.update((v.value - 1, v.value, v.value + 1))
                elif v in self.domains:
                    found[v] = self.domains[v]
                elif v not in seen:
                    seen.add(v)
                    stack.append(self.lets.get(v, ()))
        if len(found) > _AXES:
            raise _Unknown
        return dict(zip(found, np.meshgrid(*_samples(list(found.values()), constants), indexing="ij", sparse=True)))

    def _value(self, e, env):
        """The values of an integer expression at the points of `env`; raises _Unknown."""
        if isinstance(e, E.Var):
            if e not in env and e not in self.lets:
                raise _Unknown
            return env[e] if e in env else self._value(self.lets[e], env)
        if not (e.dtype.is_int or e.dtype.is_bool) or e.dtype.lanes > 1:
            raise _Unknown
        if isinstance(e, E.IntImm):
            value = e.value
        elif isinstance(e, E.Cast):
            value = self._value(e.value, env)
        else:
            value = self._result(e, env)
        if e.dtype.is_bool:
            return np.not_equal(value, 0)
        low, high = max(e.dtype.min_value(), -1 << 63), min(e.dtype.max_value(), (1 << 63) - 1)
        if np.any(np.less(value, low)) or np.any(np.greater(value, high)):
            raise _Unknown
        return np.asarray(value, np.int64)

    def _result(self, e, env):
        function = FUNCTIONS.get(e.op if isinstance(e, E.Call) else type(e))
        if function is None or isinstance(e, E.BinaryExpr) and e.dtype.is_bool:
            raise _Unknown
        parts = [self._value(p, env) for p in (e.args if isinstance(e, E.Call) else children(e))]
        if isinstance(e, _DIVISIONS) and not np.all(parts[1]):
            raise _Unknown
        return function(*parts)


def _samples(domains, constants):
    """Lists of values, one for each (least, greatest), of at most POINTS combinations: all, or the ends and constants.

    The smaller domains are complete first.
    """
    picks = [sorted({low, min(low + 1, high), max(high - 1, low), high, *(c for c in constants if low <= c <= high)})
             for low, high in domains]
    while prod(map(len, picks)) > POINTS:
        longest = max(picks, key=len)
        del longest[(len(longest) - 1) // 2]
    for k in sorted(range(len(domains)), key=lambda k: domains[k][1] - domains[k][0]):
        low, high = domains[k]
        if prod(map(len, picks)) // len(picks[k]) * (high - low + 1) <= POINTS:
            picks[k] = range(low, high + 1)
    return picks


__all__ = ["check_bounds"]
