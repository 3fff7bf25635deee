"""How a kernel's work is shared by the threads of a team that calls it together.

The network's run, or a module's entry, opens one parallel region around its kernels. Every thread then runs a kernel's
statements, takes turns of its parallel loops (runtime_c/ingot_team.h), and waits at their end; what writes memory
outside of parallel loops is done by one thread while the others wait, or by each for itself (pragma_each_thread).
"""
from __future__ import annotations

from ..ir.node import collect
from ..ir.tir.hints import EACH_THREAD
from ..ir.tir.stmt import (AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, For, IfThenElse, LetStmt,
                           SeqStmt)
from ..ir.transform.workspace import touched_by_each

# Attributes: around what one thread does; around loops that each thread runs for itself, and the one that they prepare.
ONCE, PREPARED = "team_once", "team_prepared"


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
    """ids of the buffers of a team's body that one thread may read after another wrote: those that are read and
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
