"""LowerThreadAllreduce: reductions that a program has threads do together become shuffles, or trees in shared memory.

T.tvm_thread_allreduce(n, n values, condition, n elements, threads) combines what the threads along some axes have, by
the reducer that the attribute "reduce_scope" around gives: afterwards the elements are the result in each of them. An
element is of a buffer of its own, one for each thread; the buffer in which the result comes about takes its place.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...arith import Analyzer
from ...expr import EQ, Call, Cast, IntImm, Select, StringImm, Var, const, free_vars, is_const_int, substitute
from ...node import Mutator, collect
from ...target import kind_of
from ...te.tensor import CommReducer
from ...tir.buffer import decl_buffer
from ...tir.device_ops import ALLREDUCE
from ...tir.stmt import AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, SeqStmt
from ..walk import StmtMutator
from .barriers import SYNC
from .thread_reduction import FULL, ThreadReductionError
from .threads import AXES, WARP, is_bound

SCOPE = "reduce_scope"
MOST_THREADS = 1024


def lower_thread_allreduce(func, shuffles=True, active=True):
    """Requires flat buffers. Ensures that no call is tvm_thread_allreduce: threads that are neighbours, and that fill
    warps or are parts of one, hand values on by shuffles; others join in shared memory, with their barriers.

    shuffles: whether threads of a warp can hand registers on. active: shuffles are among the threads that are active
    there, and shared results are marked as volatile, as in TVM, which has no masks for Metal; else they are among all
    threads, and ThreadReductionError is raised where some threads do not come, or where the threads are no constant number.
    """
    if not any(c.op == ALLREDUCE for c in collect(func.body, Call)):
        return func
    return func.replace(body=_Lower(func, shuffles, active).visit(func.body))


@dataclass(frozen=True)
class _Axis:
    """A thread axis around: its variable, and its extent."""

    tag: str
    var: Var
    extent: int


class _Lower(StmtMutator):
    def __init__(self, func, shuffles, active):
        self.func, self.shuffles, self.active = func, shuffles, active
        self.masked = not active or kind_of(func.attrs.get("target")) != "metal"
        self.axes, self.reducers, self.results = [], [], {}  # results: old buffer -> (new one, index of the result)
        self.varying, self.skipped = set(), None
        self.an = Analyzer()

    def fail(self, why):
        raise ThreadReductionError(f"{self.func.title}: tvm_thread_allreduce {why}")

    # ------------------------------------------------------------ what is around

    def visit_For(self, loop):
        if is_bound(loop, "threadIdx"):
            return loop.replace(body=self._in_threads(_Axis(loop.thread_binding, loop.loop_var, _number(loop.extent)),
                                                      loop.body))
        return self._inside((loop.min, loop.extent), loop)

    def visit_AttrStmt(self, stmt):
        tag = getattr(stmt.target, "thread_tag", None) or ""
        if stmt.attr_key == "thread_extent" and tag.startswith("threadIdx"):
            return stmt.replace(body=self._in_threads(_Axis(tag, stmt.target.var, _number(stmt.value)), stmt.body))
        if stmt.attr_key != SCOPE or not isinstance(stmt.target, CommReducer):
            return stmt.replace(body=self.visit(stmt.body))
        self.reducers.append(stmt.target)
        body = self.visit(stmt.body)
        self.reducers.pop()
        return stmt.replace(body=body) if self.active else body

    def _in_threads(self, axis, body):
        self.axes.append(axis)
        self.varying.add(axis.var)
        body = self.visit(body)
        self.axes.pop()
        return body

    def _inside(self, values, stmt):
        around = self.skipped
        if not self.varying.isdisjoint(free_vars(values)):
            self.skipped = stmt
        stmt = stmt.replace(body=self.visit(stmt.body)) if isinstance(stmt, For) else super().visit_IfThenElse(stmt)
        self.skipped = around
        return stmt

    def visit_IfThenElse(self, branch):
        return self._inside(branch.condition, branch)

    def visit_LetStmt(self, stmt):
        if not self.varying.isdisjoint(free_vars(stmt.value)):
            self.varying.add(stmt.var)
        return super().visit_LetStmt(stmt)

    def visit_DeclBuffer(self, decl):
        body = self.visit(decl.body)
        found = self.results.get(decl.buffer)
        if found is None:
            return decl.replace(body=body)
        new, index = found
        body = _Elements(decl.buffer, new, index).visit(body)
        if self.active and new.scope == "shared":
            body = AttrStmt(new, "volatile_scope", const(1), body)
        return DeclBuffer(new, body)

    def visit_Evaluate(self, stmt):
        call = stmt.value
        return self._reduced(call) if isinstance(call, Call) and call.op == ALLREDUCE else stmt

    # ------------------------------------------------------------ one reduction

    def _reduced(self, call):
        if not self.reducers:
            self.fail("stands outside of T.attr(T.comm_reducer(...), \"reduce_scope\", ...)")
        reducer, count = self.reducers[-1], call.args[0].value
        values, condition, elements = call.args[1:1 + count], call.args[1 + count], call.args[2 + count:2 + 2 * count]
        threads = [v for v in call.args[2 + 2 * count:] if not is_const_int(v, 0)]
        if len(reducer.result) != count:
            self.fail(f"reduces {count} values by a reducer of {len(reducer.result)}")
        if not is_const_int(condition, 1):
            values = tuple(Select(condition, v, init) for v, init in zip(values, reducer.identity))
        buffers = [(e.value if isinstance(e, Cast) else e).buffer for e in elements]
        axes = sorted({a.tag: a for a in self.axes}.values(), key=lambda a: AXES.index(a.tag))
        if any(a.extent is None for a in axes):
            self.fail("needs threads of a constant number")
        known = [a for a in axes if any(a.var is v for v in threads)]
        if len(known) < len(threads):
            self.fail("names a thread that no loop around is bound to")
        axes = [a for a in axes if a.extent > 1]
        own = _Together([a for a in axes if a in known], [a for a in axes if a not in known], axes)
        if own.count == 1:
            return _stores(buffers, values)
        if not self.active and self.skipped is not None:
            self.fail("stands where some threads do not come; move it out of the condition or loop that differs "
                      "between threads")
        if self.shuffles and own.in_warps([v.dtype for v in values]):
            new, lines, index = self._by_warps(own, reducer, values)
        else:
            new, lines, index = self._in_memory(own, reducer, values)
        for b, n in zip(buffers, new):
            self.results[b] = (n, index)
        return lines

    # ------------------------------------------------------------ by shuffles

    def _by_warps(self, own, reducer, values):
        """(the buffers with the results, the statement, the index of a result)."""
        if own.count <= WARP:
            partial, held, lines = self._one_warp(own, reducer, values, own.count)
            lane = const(own.count) * own.group if own.others else const(0)
            for b in partial:
                lines.append(BufferStore(b, self._shuffle("", held[len(values):], _first(b), lane), (const(0),)))
            return partial, _declared(held, lines), const(0)
        warps = own.count // WARP
        staged = [decl_buffer((warps * own.groups,), v.dtype, "red_buf_staging", "shared") for v in values]
        partial, held, lines = self._one_warp(own, reducer, values, WARP)
        at = own.group * warps
        keep = _stores(staged, map(_first, partial), at + own.index // WARP)
        lines += [IfThenElse(_equal(own.index % WARP, 0), keep), _sync("shared")]
        again, more, later = self._one_warp(own, reducer, [BufferLoad(s, (at + own.index,)) for s in staged], warps,
                                            own.index < warps)
        done = [decl_buffer((own.groups,), v.dtype, "red_result", "shared") for v in values]
        lines += [*later, IfThenElse(_equal(own.index, 0), _stores(done, map(_first, again), own.group)),
                  _sync("shared")]
        return done, _declared([*staged, *held, *partial, *more, *again], lines), own.group

    def _one_warp(self, own, reducer, values, count, condition=None):
        """(buffers of the results of the first lanes, further buffers, one for each value and the mask, statements)."""
        results = [decl_buffer((1,), v.dtype, f"red_buf{n}", "local") for n, v in enumerate(values)]
        others = [decl_buffer((1,), v.dtype, f"t{n}", "local") for n, v in enumerate(values)]
        masks = [decl_buffer((1,), "uint32", "mask", "local")] * self.masked
        start = _stores(results, values)
        lines = [start if condition is None else IfThenElse(condition, start)]
        if condition is not None and not self.active:  # what other lanes have must be something
            lines.insert(0, _stores(results, reducer.identity))
        lines += [BufferStore(mask, self._mask(own), (const(0),)) for mask in masks]
        step = 1
        while step * 2 < count:
            step *= 2
        while step:
            for b, other in zip(results, others):
                lines.append(BufferStore(other, self._shuffle("_down", masks, _first(b), const(step)), (const(0),)))
            joined = _stores(results, _joined(reducer, map(_first, results), map(_first, others)))
            lines.append(joined if step * 2 <= count else IfThenElse(own.index + step < count, joined))
            step //= 2
        return results, [*others, *masks], lines

    def _mask(self, own):
        if self.active:
            return Call("uint32", "tir.tvm_warp_activemask", ())
        total, whole = own.total, IntImm("uint32", FULL)
        rest = IntImm("uint32", (1 << total % WARP) - 1)
        if total % WARP == 0 or total < WARP:
            return whole if total % WARP == 0 else rest
        return Select(own.number < total // WARP * WARP, whole, rest)

    def _shuffle(self, how, masks, value, by):
        width, mask = const(WARP), _first(masks[0]) if masks else const(0)
        return Call(value.dtype, f"tir.tvm_warp_shuffle{how}", (mask, value, by, width, width))

    # ------------------------------------------------------------ in shared memory

    def _in_memory(self, own, reducer, values):
        shared = [decl_buffer((own.groups * own.count,), v.dtype, f"red_buf{n}", "shared")
                  for n, v in enumerate(values)]

        def place(index):
            return self.an.simplify(own.group * own.count + index) if own.others else index

        def joined(step):
            own_values, others = ([BufferLoad(s, (place(i),)) for s in shared] for i in (own.index, own.index + step))
            return _joined(reducer, own_values, others)

        at, whole = place(own.index), 1
        lines = [_sync("shared"), *(BufferStore(s, v, (at,)) for s, v in zip(shared, values)), _sync("shared")]
        while whole < own.count:
            whole *= 2
        if whole > own.count:
            whole //= 2
            lines += [IfThenElse(own.index < own.count - whole, _stores(shared, joined(whole), at)), _sync("shared")]
        aligned = own.groups == 1 or own.in_row % WARP == 0
        together = self.active and aligned  # by waits of a warp, as TVM has them, where half of it may be away
        while whole > 1 and (whole > own.in_row or whole > WARP or not together):
            whole //= 2
            lines += [IfThenElse(own.index < whole, _stores(shared, joined(whole), at)), _sync("shared")]
        if whole > 1:
            condition, steps = own.index < whole // 2, []
            while whole > 1:
                whole //= 2
                kept = [Var(f"w_{whole}_{n}", s.dtype) for n, s in enumerate(shared)]
                step = SeqStmt((_sync("warp"), *_flat(_stores(shared, kept, at)), _sync("warp")))
                for v, value in zip(kept, joined(whole)):
                    step = LetStmt(v, value, step)
                steps.append(step)
            lines += [IfThenElse(condition, _several(steps)), _sync("shared")]
        return shared, _several(lines), place(const(0))


class _Together:
    """The threads that reduce together, along the axes `along`, and their groups, along `others`."""

    def __init__(self, along, others, axes):
        self.along, self.others = along, others
        self.count, self.groups = (prod(a.extent for a in part) for part in (along, others))
        self.index, self.group, self.number = map(_flattened, (along, others, axes))
        self.total = self.count * self.groups
        self.in_row = 1  # threads that reduce together and follow one another
        for a in axes:
            if a not in along:
                break
            self.in_row *= a.extent

    def in_warps(self, dtypes):
        """Whether shuffles reach all of them."""
        if any(t.lanes > 1 or t != "float16" and not 32 <= t.bits <= 64 for t in dtypes) or self.in_row != self.count:
            return False
        several = self.total <= MOST_THREADS and self.count % WARP == 0
        return WARP % self.count == 0 or several or self.groups == 1 and self.count <= WARP


def _flattened(axes):
    index, scale = None, 1
    for a in axes:
        index = a.var if index is None else index + a.var * scale
        scale *= a.extent
    return const(0) if index is None else index


def _number(extent):
    return extent.value if isinstance(extent, IntImm) else None


def _first(buffer):
    return BufferLoad(buffer, (const(0),))


def _equal(a, b):
    return EQ(a, const(b, a.dtype))


def _joined(reducer, own, others):
    return substitute(reducer.result, {**dict(zip(reducer.lhs, own)), **dict(zip(reducer.rhs, others))})


def _stores(buffers, values, index=None):
    return _several([BufferStore(b, v, (const(0) if index is None else index,)) for b, v in zip(buffers, values)])


def _several(stmts):
    flat = [x for s in stmts for x in _flat(s)]
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def _flat(stmt):
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def _sync(scope):
    return Evaluate(Call("int32", SYNC, (StringImm(scope),)))


def _declared(buffers, lines):
    body = _several(lines)
    for b in buffers:
        body = DeclBuffer(b, body)
    return body


class _Elements(Mutator):
    """Puts an element of another buffer for those of a buffer of one element."""

    def __init__(self, old, new, index):
        self.old, self.new, self.index = old, new, index

    def _access(self, node):
        node = self.generic_visit(node)
        return node.replace(buffer=self.new, indices=(self.index,)) if node.buffer is self.old else node

    visit_BufferLoad = visit_BufferStore = _access


__all__ = ["lower_thread_allreduce"]
