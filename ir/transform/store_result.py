"""Functions that return a number (T.ret): kernels store it in a buffer of one element, which is one parameter more."""
from __future__ import annotations

from ..expr import Call, Not, Range, Var, const, is_const_int, logical_and
from ..node import collect
from ..tir.buffer import decl_buffer
from ..tir.stmt import (AttrStmt, BlockRealize, BufferLoad, BufferRegion, BufferStore, DeclBuffer, Evaluate,
                        IfThenElse, LetStmt, SeqStmt, seq)

RETURNS = "returns"  # the attribute of a function whose last parameter is what it returned
NEVER, MAYBE, ALWAYS = range(3)  # whether a statement ends the function


def store_result(func):
    """Requires blocks. Ensures that a PrimFunc with tir.ret has none, but the attribute "returns" and as last parameter
    a buffer of one element, where it stores what it returned; nothing runs after that. A loop that returned goes
    through its other turns without effect. Raises ValueError for a function that returns in some cases only, values of
    several dtypes, or from a loop whose turns run together."""
    found = returns(func.body)
    if not found:
        return func
    dtypes = list(dict.fromkeys(c.args[0].dtype for c in found))
    if len(dtypes) > 1 or dtypes[0] == "handle" or dtypes[0].lanes != 1:
        raise ValueError(f"{func.title} returns values of {' and '.join(dtypes)}: C returns one number of one dtype")
    result, done = decl_buffer((1,), dtypes[0], "result"), decl_buffer((1,), "bool", "returned", scope="local")
    exits = _Exits(func, result, None)
    body, ends = exits.visit(func.body)
    if ends != ALWAYS:
        raise ValueError(f"{func.title} returns a value in some cases only: return one at its end, too")
    if exits.asked:
        exits = _Exits(func, result, done)
        body, _ = exits.visit(func.body)
        body = _started(body, done)
    handle = Var("result", "handle")
    return func.replace(params=(*func.params, handle), buffer_map={**func.buffer_map, handle: result}, body=body,
                        attrs={**func.attrs, RETURNS: True})


def returns(stmt):
    """The calls of tir.ret below a statement."""
    return [c for c in collect(stmt, Call) if c.op == "tir.ret"]


def ends_always(stmt):
    """Whether a statement ends the function, whatever its conditions are."""
    if isinstance(stmt, SeqStmt):
        return any(map(ends_always, stmt.seq))
    if isinstance(stmt, IfThenElse):
        return ends_always(stmt.then_case) and ends_always(stmt.else_case)
    if isinstance(stmt, (LetStmt, AttrStmt, DeclBuffer)):
        return ends_always(stmt.body)
    return isinstance(stmt, Evaluate) and bool(returns(stmt))


def _started(body, done):
    """The body of a function that begins by saying that it did not return yet."""
    start = BufferStore(done, const(False), (const(0),))
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        root = body.block
        return body.replace(block=root.replace(
            body=seq(start, root.body), alloc_buffers=(*root.alloc_buffers, done),
            reads=_without(root.reads, done), writes=_without(root.writes, done)))
    return DeclBuffer(done, seq(start, body))


def _without(regions, buffer):
    return tuple(r for r in regions if r.buffer is not buffer)


class _Exits:
    """visit(statement): (the statement that stores what was returned, whether it ends the function). done: the buffer
    that says whether the function returned; asked: whether one is needed."""

    def __init__(self, func, result, done):
        self.func, self.result, self.done, self.asked = func, result, done, False

    def visit(self, stmt):
        if not returns(stmt):
            return stmt, NEVER
        return getattr(self, f"visit_{type(stmt).__name__}")(stmt)

    def going_on(self):
        """The condition that the function did not return."""
        self.asked = True
        return const(True) if self.done is None else Not(BufferLoad(self.done, (const(0),)))

    def visit_Evaluate(self, stmt):
        call = stmt.value
        if call.op != "tir.ret":
            raise ValueError(f"{self.func.title}: {call} has a tir.ret in it, which is a statement")
        zero = (const(0),)
        stores = [BufferStore(self.result, call.args[0], zero)]
        if self.done is not None:
            stores.append(BufferStore(self.done, const(True), zero))
        return seq(*stores), ALWAYS

    def visit_SeqStmt(self, stmt):
        return self.sequence(stmt.seq)

    def sequence(self, statements):
        first, *rest = statements
        before, ends = self.visit(first)
        if ends == ALWAYS or not rest:
            return before, ends
        if ends == MAYBE and isinstance(before, IfThenElse) and isinstance(first, IfThenElse):
            for case, other in (("then_case", "else_case"), ("else_case", "then_case")):
                if ends_always(getattr(first, case)):  # what follows runs on the other way
                    around = getattr(first, other)
                    after, then = self.sequence([*([around] if around else []), *rest])
                    return before.replace(**{other: after}), then if then == ALWAYS else MAYBE
        after, then = self.sequence(rest)
        if ends == NEVER:
            return seq(before, after), then
        return seq(before, IfThenElse(self.going_on(), after)), ALWAYS if then == ALWAYS else MAYBE

    def other(self, branch):
        return (None, NEVER) if branch.else_case is None else self.visit(branch.else_case)

    def visit_IfThenElse(self, stmt):
        then, ends = self.visit(stmt.then_case)
        other, other_ends = self.other(stmt)
        return stmt.replace(then_case=then, else_case=other), ends if ends == other_ends else MAYBE

    def visit_For(self, loop):
        if loop.kind in ("parallel", "vectorized", "thread_binding"):
            raise ValueError(f"{self.func.title}: loop {loop.loop_var.name} is {loop.kind} and returns a value: no "
                             "turn of it may end the function")
        return loop.replace(body=IfThenElse(self.going_on(), self.visit(loop.body)[0])), MAYBE

    def visit_While(self, loop):
        going_on = logical_and(self.going_on(), loop.condition)
        return loop.replace(condition=going_on, body=self.visit(loop.body)[0]), MAYBE

    def visit_BlockRealize(self, realize):
        block = realize.block
        if returns(block.init):
            raise ValueError(f"{self.func.title}: the init of block {block.name_hint} returns a value")
        body, ends = self.visit(block.body)
        root = not block.iter_vars and realize is self.func.body
        touched = () if root else tuple(BufferRegion(b, (Range(const(0), const(1)),)) for b in (
            self.result, *([self.done] if self.done is not None else [])))
        block = block.replace(body=body, writes=(*block.writes, *touched), reads=(*block.reads, *touched[1:]))
        return realize.replace(block=block), ends if is_const_int(realize.predicate, 1) else min(ends, MAYBE)

    def within(self, stmt):
        body, ends = self.visit(stmt.body)
        return stmt.replace(body=body), ends

    visit_LetStmt = visit_AttrStmt = visit_AssertStmt = visit_DeclBuffer = within


__all__ = ["RETURNS", "store_result"]
