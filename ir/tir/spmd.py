"""Lowered GPU kernels in Python, thread by thread: run_threads(func, *arrays).

A loop bound to a thread axis is no loop here: each thread of a block is a generator that runs from one barrier (or
shuffle) to the next one, and blocks run one after the other. A loop around bound ones is the threads' own. So a program
without a barrier that it needs goes wrong: accesses of two threads to one element, one of them a store, without a
barrier between raise RaceError; barriers that some threads do not reach raise DivergenceError.
"""
from __future__ import annotations

from itertools import product

import numpy as np

from ..node import collect
from . import stmt as S
from .interpreter import RUNTIME, Compiler, with_workspace

WARP, reread = 32, RUNTIME["reread"]
AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


class RaceError(AssertionError):
    """Two threads use one byte, one of them stores, and no barrier is between."""


class DivergenceError(AssertionError):
    """Some threads wait where others never come."""


def run_threads(func, *arrays, backwards=False):
    """Run `func` on arrays and scalars in parameter order; outputs are written in place. backwards: the last thread of
    a block runs first. Raises RaceError, DivergenceError."""
    compiler = _Threads()
    launch = _Launch(backwards)
    scope = {**RUNTIME, "launch": launch, "reread": launch.reread}
    exec(compile(compiler.function(func), "<threads of a PrimFunc>", "exec"), scope)
    with np.errstate(all="ignore"):
        scope["kernel"](*with_workspace(func, arrays))


# ---------------------------------------------------------------- running

class _Watched:
    """An array that notes which thread touches which element."""

    def __init__(self, array, launch, name):
        self.array, self.launch, self.name = array, launch, name
        self.numbers = np.arange(array.nbytes).reshape(*array.shape, array.itemsize)
        self.seen = {}  # byte -> [number of the last store, {thread: when it loaded}]

    def viewed(self, dtype, shape):
        """The same memory as another buffer sees it."""
        view = _Watched(reread(self.array, dtype, shape), self.launch, self.name)
        view.seen = self.seen
        return view

    def __getitem__(self, key):
        now = self.launch.now
        for n in np.ravel(self.numbers[key]):
            store, loads = self.seen.setdefault((self.launch.block, int(n)), [None, {}])
            self._check(store, now, n)
            loads[now[0]] = now
        return self.array[key]

    def __setitem__(self, key, value):
        now = self.launch.now
        for n in np.ravel(self.numbers[key]):
            known = self.seen.setdefault((self.launch.block, int(n)), [None, {}])
            self._check(known[0], now, n)
            for load in known[1].values():
                self._check(load, now, n)
            known[0], known[1] = now, {}
        self.array[key] = value

    def _check(self, before, now, n):
        if before is None or before[0] == now[0] or before[1] != now[1]:
            return
        if before[0] // WARP == now[0] // WARP and before[2] != now[2]:
            return
        raise RaceError(f"threads {before[0]} and {now[0]} use byte {n} of {self.name} without a barrier between")


class _Launch:
    """Runs blocks. now: (thread, barriers of the block so far, barriers of its warp so far)."""

    def __init__(self, backwards):
        self.backwards, self.now, self.block, self.memory = backwards, (0, 0, 0), 0, {}
        self.copies = {}  # (block, thread) -> groups of copies under way, the last one of which is still open

    def reread(self, array, dtype, shape):
        return array.viewed(dtype, shape) if isinstance(array, _Watched) else reread(array, dtype, shape)

    def watch(self, array, name):
        return array if isinstance(array, _Watched) else _Watched(array, self, name)

    def shared(self, name, make):
        """The array of a name that the threads of a block share."""
        if name not in self.memory:
            self.memory[name] = _Watched(make(), self, name)
        return self.memory[name]

    def copy(self, target, to, source, start, count, reads=True):
        """Start an asynchronous copy of `count` neighbours, of zeros where not `reads`: nobody knows what the target
        holds until it has arrived."""
        to, start = ((*place[:-1], slice(place[-1], place[-1] + count)) for place in (to, start))
        values = source[start].copy() if reads else np.zeros(count, target.array.dtype)
        target[to] = np.full(count, _spoiled(values[0]))
        self._groups()[-1].append((target, to, values))

    def commit(self):
        self._groups().append([])

    def wait(self, pending):
        """Let copies arrive, until `pending` groups at most are under way."""
        groups = self._groups()
        while len(groups) - 1 > pending:
            for target, to, values in groups.pop(0):
                target[to] = values

    def _groups(self):
        return self.copies.setdefault((self.block, self.now[0]), [[]])

    def __call__(self, thread, grid, block):
        for place in product(*(range(grid.get(axis, 1)) for axis in reversed(GRID))):
            self.block, self.memory = self.block + 1, {}
            self._block(thread, dict(zip(reversed(GRID), place)), [block.get(axis, 1) for axis in AXES])

    def _block(self, thread, place, extents):
        indices = [dict(zip(reversed(AXES), xyz)) for xyz in product(*map(range, reversed(extents)))]
        live = {n: thread({**place, **index}) for n, index in enumerate(indices)}
        answers, waiting, barriers, warps = dict.fromkeys(live), {}, 0, {}
        while live:
            for n in sorted(answers, reverse=self.backwards):
                self.now = (n, barriers, warps.get(n // WARP, 0))
                try:
                    waiting[n] = live[n].send(answers[n])
                except StopIteration:
                    del live[n]
            answers = {}
            for warp in {n // WARP for n in waiting}:
                answers.update(self._warp(warp, waiting, live, len(indices), warps))
            if not answers and live:
                if len(live) < len(indices) or any(request[0] != "block" for request in waiting.values()):
                    raise DivergenceError(f"threads wait for others that never come: {sorted(waiting)[:4]} ... of "
                                          f"{len(indices)} at {sorted({r[0] for r in waiting.values()})}")
                answers, barriers = dict.fromkeys(waiting), barriers + 1
            for n in answers:
                del waiting[n]

    def _warp(self, warp, waiting, live, count, warps):
        """{thread: answer} of the threads of a warp when all that a mask names wait at one operation."""
        here = {n: waiting[n] for n in range(warp * WARP, min((warp + 1) * WARP, count)) if n in waiting}
        answers = {}
        for n, request in here.items():
            if request[0] == "block" or n in answers:
                continue
            group = [warp * WARP + lane for lane in range(WARP) if request[1] >> lane & 1]
            group = [m for m in group if m < count]
            if not all(m in here and here[m][:2] == request[:2] for m in group):
                continue
            if request[0] == "warp":
                warps[warp] = warps.get(warp, 0) + 1
                answers.update(dict.fromkeys(group))
            else:
                answers.update({m: self._shuffled(m, here) for m in group})
        return answers

    def _shuffled(self, n, here):
        kind, _, value, by, width = here[n]
        lane = n % WARP
        first = lane // width * width
        to = {"shuffle": first + by % width, "shuffle_up": lane - by, "shuffle_down": lane + by,
              "shuffle_xor": lane ^ by}[kind]
        if not first <= to < first + width:
            return value
        source = n - lane + to
        return here[source][2] if source in here and here[source][0] == kind else _spoiled(value)


def _spoiled(value):
    """What a lane that does not exist has."""
    dtype = np.asarray(value).dtype
    return dtype.type(np.nan) if dtype.kind == "f" else dtype.type(1) if dtype.kind == "b" else dtype.type(
        np.iinfo(dtype).max // 3)


# ---------------------------------------------------------------- the text

class _Threads(Compiler):
    """Kernels become generator functions."""

    def __init__(self):
        super().__init__()
        self.inside, self.private, self.around = None, set(), set()

    def stmt_For(self, s):
        loops = [x for x in collect(s, S.For) if x.kind == "thread_binding"]
        if loops and self.inside is None:
            self._kernel(s, loops)
        elif s.kind != "thread_binding" or s.thread_binding.startswith(("vthread", "cthread")):
            super().stmt_For(s)
        else:
            self._bound(s)

    def _kernel(self, s, loops):
        extents = {axis: [self.expr(x.min + x.extent) for x in loops if x.thread_binding == axis]
                   for axis in GRID + AXES}
        sizes = ["{" + ", ".join(f"'{a}': max({', '.join(extents[a])}, 0)" for a in axes if extents[a]) + "}"
                 for axes in (GRID, AXES)]
        self.inside, self.private = f"thread_{len(self.names)}", set()
        self.axes = {x.thread_binding for x in loops if x.thread_binding in AXES}
        used = {a.buffer for a in collect(s, (S.BufferLoad, S.BufferStore)) if self.known(a.buffer)}
        for b in sorted(used, key=self.name):
            self.emit(f"{self.name(b)} = launch.watch({self.name(b)}, '{b.name}')")
        self.emit(f"def {self.inside}(index):")
        self.depth += 1
        self.stmt_For(s)
        self.emit("yield from ()")
        self.depth -= 1
        self.emit(f"launch({self.inside}, {', '.join(sizes)})")
        for b in sorted(used, key=self.name):
            self.emit(f"{self.name(b)} = {self.name(b)}.array")
        self.inside = None

    def _bound(self, s):
        axis, low, var = s.thread_binding, self.expr(s.min), self.name(s.loop_var)
        if self.is_nonneg(s.min):
            self.nonneg.add(id(s.loop_var))
        self.emit(f"{var} = index['{axis}']")
        around = self.around
        self.around = around | {axis}
        self.nested(f"if {low} <= {var} < {low} + {self.expr(s.extent)}:", s.body)
        self.around = around

    def allocate(self, buffer):
        if self.inside is None or not buffer.scope.startswith("shared"):
            self.private.add(id(buffer))
            return super().allocate(buffer)
        first = len(self.lines)
        super().allocate(buffer)
        head, _, value = self.lines[first].partition(" = ")
        self.lines[first] = f"{head} = launch.shared('{self.name(buffer)}', lambda: {value})"

    def stmt_BufferStore(self, s):
        missing = [] if self.inside is None or id(s.buffer) in self.private else sorted(self.axes - self.around)
        if missing:  # the first thread writes for all
            self.emit("if " + " and ".join(f"index['{axis}'] == 0" for axis in missing) + ":")
            self.depth += 1
        super().stmt_BufferStore(s)
        self.depth -= bool(missing)

    def expr_Call(self, e):
        op = e.op.removeprefix("tir.")
        if op == "tvm_storage_sync":
            return "(yield ('warp', 0xffffffff))" if e.args[0].value == "warp" else "(yield ('block',))"
        if op.startswith("tvm_warp_shuffle"):
            mask, value, by, width = map(self.expr, e.args[:4])
            return f"(yield ('{op.removeprefix('tvm_warp_')}', int({mask}) & 0xffffffff, {value}, {by}, {width}))"
        if op == "ptx_cp_async":
            to, start = (a.args[0] for a in e.args[:2])
            places = (f"{self.name(a.buffer)}, ({self.indices(a.buffer, a.indices)},)" for a in (to, start))
            condition = [self.expr(c) for c in e.args[3:]]
            return f"launch.copy({', '.join([*places, str(e.args[2].value // to.dtype.bytes), *condition])})"
        if op in ("ptx_commit_group", "ptx_wait_group"):
            return f"launch.{op.split('_')[1]}({', '.join(map(self.expr, e.args))})"
        return super().expr_Call(e)


__all__ = ["run_threads", "RaceError", "DivergenceError"]
