"""How a kernel's work is shared by the threads of a team that calls it together.

The network's run, or a module's entry, opens one parallel region around its kernels. Every thread then runs a kernel's
statements, takes turns of its parallel loops (runtime_c/ingot_team.h), and waits at their end; what writes memory
outside of parallel loops is done by one thread while the others wait, or by each for itself (pragma_each_thread).

`shared_by_team` makes such a function of a kernel: the protocol is a few attributes, which TEMPLATES print.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import mul

from ..ir.expr import Call, Div, Mod, StringImm, Var, cast, const, free_vars, is_const_int
from ..ir.node import collect
from ..ir.tir.hints import EACH_THREAD, THREAD_OWN, THREAD_ROWS, TILE
from ..ir.tir.stmt import (AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt,
                           SeqStmt, Stmt)
from ..ir.transform.walk import StmtMutator
from ..ir.transform.workspace import touched_by_each
from .index_uses import is_offset

# Attributes: around what one thread does; around loops that each thread runs for itself, and the one that they prepare;
# around what threads take pieces of.
ONCE, PREPARED, SHARED = "team_once", "team_prepared", "team_shared"

# How these print: {share} is the target, a Share, {start} the value, a call, [body] the statements, [before] those that
# come before the last.
_TAKEN = """\
for (ingot_share {share} = {start}; ingot_take(&{share});) {
    [body]
}
ingot_wait(worker);"""
TEMPLATES = {ONCE: _TAKEN, SHARED: _TAKEN, PREPARED: """\
ingot_share {share} = {start};
if (ingot_take(&{share})) {
    [before]
    do {
        [body]
    } while (ingot_take(&{share}));
}
ingot_wait(worker);"""}


def has_parallel_loop(stmt):
    """Whether a statement holds a parallel loop."""
    return any(loop.kind == "parallel" for loop in collect(stmt, For))


def team_body(body):
    """`body` for a team of threads: its parallel loops as they are, the rest under AttrStmt(ONCE).

    None where threads could not follow one another: there is no parallel loop; a loop or a branch around one depends on
    memory, which another thread may have changed by then; a buffer around one would be every thread's own that is not
    meant to be, or a loop that each thread runs for itself reads what others write; or the kernel may fail. Such
    kernels open regions themselves.
    """
    if not has_parallel_loop(body) or collect(body, AssertStmt) or _overwrites(body):
        return None
    try:
        return _team(body)
    except _Alone:
        return None


class _Alone(Exception):
    """The kernel opens its own parallel regions."""


def _team(stmt):
    if _by_each(stmt):
        raise _Alone
    if isinstance(stmt, AttrStmt) and stmt.attr_key == PREPARED:
        return stmt
    if not has_parallel_loop(stmt):
        return AttrStmt(None, ONCE, None, stmt)
    if isinstance(stmt, For):
        return stmt if stmt.kind == "parallel" else _around(stmt, (stmt.min, stmt.extent), "body")
    if isinstance(stmt, IfThenElse):
        return _around(stmt, stmt.condition, "then_case", "else_case")
    if isinstance(stmt, LetStmt):
        return _around(stmt, stmt.value, "body")
    if isinstance(stmt, AttrStmt) or isinstance(stmt, DeclBuffer) and stmt.buffer in touched_by_each(stmt):
        return _around(stmt, (), "body")
    if isinstance(stmt, SeqStmt):
        return stmt.replace(seq=tuple(_team(s) for s in _merged(stmt.seq)))
    raise _Alone


def _around(stmt, decided_by, *fields):
    """A statement that every thread runs, with the statements in `fields` for the team."""
    if collect(decided_by, BufferLoad):
        raise _Alone
    return stmt.replace(**{f: _team(s) for f in fields if (s := getattr(stmt, f)) is not None})


def _by_each(stmt):
    """Whether a statement is a loop that each thread runs for itself."""
    return isinstance(stmt, For) and EACH_THREAD in stmt.annotations


def _overwrites(body):
    """Whether a thread may write what another, in such a loop, has still to read."""
    each = [loop for loop in collect(body, For) if _by_each(loop)]
    inside = {id(store) for store in collect(each, BufferStore)}
    written = {id(s.buffer) for s in collect(body, BufferStore) if id(s) not in inside}
    return any(id(load.buffer) in written for load in collect(each, BufferLoad))


def _merged(stmts):
    """Statements in order, those between parallel loops as one, and those by each thread with the loop after them."""
    serial, each = [], []
    for s in stmts:
        if _by_each(s):
            each.append(s)
        elif each:
            yield from _joined(serial)
            yield _prepared(each, s)
            serial, each = [], []
        elif has_parallel_loop(s):
            yield from _joined(serial)
            yield s
            serial = []
        else:
            serial.append(s)
    yield from _joined([*serial, *each])


def _prepared(each, loop):
    """Loops that each thread runs for itself, and the parallel one that alone reads what they make: a thread that comes
    too late for it does none of them."""
    if not isinstance(loop, For) or loop.kind != "parallel":
        raise _Alone
    return AttrStmt(None, PREPARED, None, SeqStmt((*each, loop)))


def _joined(stmts):
    return [] if not stmts else stmts if len(stmts) == 1 else [SeqStmt(tuple(stmts))]


def passed_between_threads(body):
    """The ids of a team's buffers that one thread may read after another wrote them: all that are read and
    written, where there is more than one piece of shared work. To the compiler they must not look private."""
    if _pieces(body) < 2:
        return set()
    read, written, own = ({id(s.buffer) for s in collect(body, kind)} for kind in (BufferLoad, BufferStore, DeclBuffer))
    return read & written - own


def _pieces(stmt):
    """How many pieces of shared work follow one another, a loop around them counted as many."""
    if isinstance(stmt, AttrStmt) and stmt.attr_key == ONCE or isinstance(stmt, For) and stmt.kind == "parallel":
        return 1
    if isinstance(stmt, SeqStmt):
        return sum(map(_pieces, stmt.seq))
    inner = [s for f in ("body", "then_case", "else_case") if (s := getattr(stmt, f, None)) is not None]
    return sum(map(_pieces, inner)) * (2 if isinstance(stmt, For) else 1)


# ---------------------------------------------------------------- the protocol

class Share:
    """An ingot_share, and the variables that are its fields: a thread has the iterations from `begin` to `end`, in turn
    `repeat` of the loops around them."""

    def __init__(self, name):
        self.name = name
        self.repeat, self.begin, self.end = self.fields = [Var(n, "int64") for n in ("repeat", "begin", "end")]


@dataclass(frozen=True)
class Team:
    """A kernel that a team of threads calls together.

    body: statements for each thread, with the attributes of TEMPLATES; worker: the thread's ingot_worker; exchanged:
    ids of the buffers that threads hand to one another; wide: ids of the lets that may be of more bits than their type;
    waits: whether threads wait for one another at the end.
    """

    body: Stmt
    worker: Var
    exchanged: frozenset
    wide: frozenset
    waits: bool


def shared_by_team(body):
    """The Team of a kernel's lowered body, None where team_body is."""
    body = team_body(body)
    if body is None:
        return None
    protocol = _Protocol()
    new = protocol.visit(body)
    return Team(new, protocol.worker, frozenset(passed_between_threads(body)), frozenset(protocol.wide), _waits(new))


class _Protocol(StmtMutator):
    """Makes parallel loops, and what stands under ONCE and PREPARED, what TEMPLATES print."""

    def __init__(self):
        self.worker, self.wide = Var("worker", "handle"), set()

    def visit_For(self, loop):
        return self.shared(loop) if loop.kind == "parallel" else super().visit_For(loop)

    def visit_AttrStmt(self, stmt):
        if stmt.attr_key == PREPARED:
            *each, loop = stmt.body.seq
            return self.shared(loop, each)
        if stmt.attr_key == ONCE:
            self.wide.update(_offsets([a for a in collect(stmt.body, AttrStmt) if a.attr_key == TILE]))
            return stmt.replace(target=Share("once"), value=self.start("ingot_once"))
        return super().visit_AttrStmt(stmt)

    def start(self, function, *counts):
        return Call("handle", "tir.call_extern", (StringImm(function), self.worker, *counts))

    def shared(self, loop, each=()):
        """A nest of parallel loops of which a thread takes pieces: iterations of all of them as one loop, or where the
        innermost is marked, some of its iterations, the thread's rows, in each iteration of the others. each: what it
        does for itself once it has a piece, before the first."""
        nest = parallel_nest(loop)
        body, marks = nest[-1].body, nest[-1].annotations
        self.wide.update(_offsets([*each, body]))
        body, *each = map(one_thread, (body, *each))
        share = Share("share")
        rows = len(nest) - 1 if THREAD_ROWS in marks else 0
        outer, inner = nest[:rows], nest[rows:]
        start = self.start("ingot_own" if THREAD_OWN in marks else "ingot_shared", _turns(outer), _turns(inner))
        begin, end = share.begin, share.end
        if len(inner) == 1:
            begin, end = (_value(inner[0], turn) for turn in (begin, end))
            body = For(inner[0].loop_var, begin, end - begin, "serial", body)
        else:
            turn = Var("turn", "int64")
            body = For(turn, begin, end - begin, "serial", _counted(inner, turn, body))
        body = _counted(outer, share.repeat, body)
        key, body = (PREPARED, SeqStmt((*each, body))) if each else (SHARED, body)
        return AttrStmt(share, key, start, body)


def _turns(nest):
    """How many iterations loops have together, as an int64."""
    return reduce(mul, (cast(loop.extent, "int64") for loop in nest), const(1, "int64"))


def _value(loop, turn):
    """A loop's variable in an iteration, counted from 0 in an int64."""
    value = cast(turn, loop.loop_var.dtype)
    return value if is_const_int(loop.min, 0) else loop.min + value


def _counted(nest, turn, body):
    """`body` with the variables of loops that are counted as one, in `turn`."""
    for n, loop in reversed(list(enumerate(nest))):
        own = Div(turn, _turns(nest[n + 1:])) if nest[n + 1:] else turn
        body = LetStmt(loop.loop_var, _value(loop, Mod(own, _turns([loop])) if n else own), body)
    return body


def one_thread(body):
    """A statement whose parallel loops are loops of the thread that runs it."""
    return _Serial().visit(body)


class _Serial(StmtMutator):
    def visit_For(self, loop):
        loop = super().visit_For(loop)
        return loop.replace(kind="serial") if loop.kind == "parallel" else loop


def _offsets(stmts):
    """The ids of let variables that only serve as indices: they may have as many bits as addresses, so that
    compilers need not widen them in every iteration."""
    return {id(let.var) for let in collect(stmts, LetStmt) if is_offset(let)}


def _waits(stmt):
    """Whether a team's statement ends in a wait."""
    if isinstance(stmt, SeqStmt):
        return _waits(stmt.seq[-1])
    if isinstance(stmt, AttrStmt) and stmt.attr_key in TEMPLATES:
        return True
    return isinstance(stmt, (AttrStmt, LetStmt, DeclBuffer)) and _waits(stmt.body)


def parallel_nest(loop):
    """The parallel loops, from this one inward, that hold nothing but the next, within bounds that none changes."""
    nest = [loop]
    while isinstance(loop.body, For) and loop.body.kind == "parallel":
        loop = loop.body
        if any(v is outer.loop_var for v in free_vars((loop.min, loop.extent)) for outer in nest):
            break
        nest.append(loop)
    return nest
