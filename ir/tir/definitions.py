"""Where variables are defined: once each, and before they are used."""
from __future__ import annotations

from contextlib import contextmanager

from ..expr import IterVar, Var
from ..node import Visitor, collect, structural_equal
from .verifier import VerifyError


def verify_ssa(func):
    """Whether each variable of a PrimFunc is defined once. The same `let` of an expression may stand in several places,
    and threads may be launched again."""
    try:
        require_definitions([func], again=True)
    except VerifyError:
        return False
    return True


def require_definitions(funcs, again=False):
    """Raise VerifyError unless the variables of PrimFuncs are defined once, among all of them, and used inside of the
    statements that define them. again: the same `let` of an expression may be there more than once."""
    found = _Definitions(again)
    for func in funcs:
        found.function(func)


class _Definitions(Visitor):
    def __init__(self, again):
        self.again = again
        self.open, self.past = {}, {}   # Var -> the place of its definition, while its scope lasts and after it
        self.lets, self.threads = {}, set()
        self.keep, self.path = [], []

    def function(self, func):
        self.threads = set()
        self.path = [f"function {func.attrs.get('global_symbol', 'main')}"]
        dims = collect([(b.shape, b.strides, b.elem_offset) for b in func.buffer_map.values()], Var)
        variables = dict.fromkeys([*func.params, *dims, *(b.data for b in func.buffer_map.values())])
        with self.defining(*variables):
            self.visit(func.body)

    @contextmanager
    def defining(self, *variables, place=None):
        if place:
            self.path.append(place)
        here = ", ".join(self.path)
        for v in variables:
            if v in self.open:
                raise VerifyError(f"TIR is ill-formed, due to multiple nested definitions of variable {v.name}: in "
                                  f"{self.open[v]}, and again in {here}")
            if v in self.past:
                raise VerifyError(f"TIR is ill-formed, due to multiple definitions of variable {v.name}: in "
                                  f"{self.past[v]}, and again in {here}")
            self.open[v] = here
        yield
        for v in variables:
            self.past[v] = self.open.pop(v)
        if place:
            self.path.pop()

    def visit_Var(self, v):
        if v in self.past and v not in self.open:
            raise VerifyError(f"Invalid use of undefined variable {v.name} at {', '.join(self.path)}: it was defined in "
                              f"{self.past[v]}, and is no longer in-scope.")

    def visit_For(self, loop):
        self.visit((loop.min, loop.extent))
        with self.defining(loop.loop_var, place=f"loop {loop.loop_var.name}"):
            self.visit(loop.body)

    def visit_LetStmt(self, let):
        self.visit(let.value)
        with self.defining(let.var, place=f"let {let.var.name}"):
            self.visit(let.body)

    def visit_Let(self, let):
        known = self.lets.get(let.var)
        if self.again and known is not None and structural_equal(known.value, let.value):
            return
        self.lets[let.var] = let
        self.visit_LetStmt(let)

    def visit_AttrStmt(self, attr):
        if not isinstance(attr.target, IterVar):
            return self.generic_visit(attr)
        var = attr.target.var
        self.visit(attr.value)
        if var in self.threads:  # of this function, launched again
            self.past.pop(var, None)
        new = () if var in self.open and var in self.threads else (var,)
        self.threads.add(var)
        with self.defining(*new, place=f"thread {var.name}"):
            self.visit(attr.body)

    def visit_Block(self, block):
        own = dict.fromkeys(v for iv in block.iter_vars for v in (iv.var,))
        with self.defining(*own, place=f"block {block.name_hint}"):
            self.visit((block.init, block.body))

    def visit_CommReducer(self, _):
        pass

    def visit_Buffer(self, _):
        pass


def allocated_bytes(func):
    """{scope: bytes}: the most memory that a lowered PrimFunc holds at once, of what has a known size."""
    found = _Allocated()
    found.visit(func.body)
    return found.most


class _Allocated(Visitor):
    def __init__(self):
        self.now, self.most = {}, {}

    def visit_DeclBuffer(self, decl):
        self.holding([decl.buffer], lambda: self.visit(decl.body))

    def visit_Block(self, block):
        self.holding(block.alloc_buffers, lambda: self.visit((block.init, block.body)))

    def holding(self, buffers, visit):
        before = dict(self.now)
        for b in buffers:
            size = (b.dtype.bits * b.dtype.lanes + 7) // 8
            for extent in b.shape:
                size *= getattr(extent, "value", 0)
            self.now[b.scope] = self.now.get(b.scope, 0) + size
            self.most[b.scope] = max(self.most.get(b.scope, 0), self.now[b.scope])
        visit()
        self.now = before


__all__ = ["allocated_bytes", "require_definitions", "verify_ssa"]
