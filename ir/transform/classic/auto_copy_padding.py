"""The strides of shared memory that copies use: those for which the threads of a warp use different banks."""
from __future__ import annotations

from ...expr import Call, IntImm, Ramp, Var, as_expr, free_vars, substitute
from ...node import Mutator, Visitor, collect
from ...tir.stmt import Block
from ..gpu.threads import AXES, WARP, is_bound
from .auto_copy_stages import value_of

BANKS, WORD = 32, 32  # banks of shared memory, each of so many bits
MOST = 4              # a row grows by no more than one in so many


class Padding:
    """What copies of a function use of shared memory, and the strides for that. accesses: {buffer: [of each dimension
    the indices that the threads of one warp use at once]}."""

    def __init__(self, func):
        pointers = {v for call in collect(func.body, Call) for v in call.args if isinstance(v, Var)}
        views = func.views()
        self.may = {b for block in collect(func.body, Block) for b in block.alloc_buffers
                    if b.scope in ("shared", "shared.dyn") and b.data not in pointers and b.data not in views}
        self.accesses, self.steps = {}, {}

    def note(self, body, copy):
        """Enter what the statement of a copy uses."""
        self.may.update(b for b in copy.buffers if b.scope.startswith("shared"))
        for buffer, step in copy.pads.items():
            self._step(buffer, step)
        _Uses(self, copy).visit(body)

    def _step(self, buffer, step):
        self.steps[buffer] = max(step, self.steps.get(buffer, 1))

    def add(self, buffer, indices, vector=1):
        if buffer in self.may:
            self.accesses.setdefault(buffer, []).append(tuple(indices))
            self._step(buffer, vector)

    def apply(self, body):
        """The body with padded buffers."""
        new = {b: b.replace(strides=self._strides(b)) for b in self.accesses
               if not b.strides and all(isinstance(s, IntImm) for s in b.shape)}
        return _Padded(new).visit(body) if new else body

    def _strides(self, buffer):
        """Strides, from the innermost dimension on: of each row the least padding with the fewest threads at one bank.
        Beyond the rows it is a dimension's own index that counts."""
        bits, row, strides = buffer.dtype.bits, 1, [1]
        last = len(buffer.shape) - 1
        for dim in range(last, 0, -1):
            row *= buffer.shape[dim].value
            pads = range(0, min(row // MOST, BANKS * WORD // bits) + 1, self.steps.get(buffer, 1))
            row += min(pads, key=lambda pad: max(
                _crowded(a, dim, row + pad, bits, dim == last) for a in self.accesses[buffer]))
            strides.append(row)
        return tuple(as_expr(s, buffer.shape[0].dtype) for s in reversed(strides))


def _crowded(access, dim, stride, bits, inner):
    """How many words of one bank a warp uses."""
    rows, columns = access[dim - 1], access[dim]
    words = {(r * stride + (c if inner else 0)) * bits // WORD for r, c in zip(rows, columns)}
    counts = [0] * BANKS
    for word in words:
        counts[word % BANKS] += 1
    return max(counts)


class _Uses(Visitor):
    """Accesses of a copy's statement, by the threads of the first warp in the first iteration."""

    def __init__(self, padding, copy):
        self.padding, self.copy = padding, copy
        self.values = {loop.loop_var: loop.min for loop in copy.outer if not is_bound(loop, "threadIdx")}
        self.axes = {loop.loop_var: loop.thread_binding for loop in copy.thread_loops()}
        self.vector = None

    def visit_For(self, loop):
        if is_bound(loop, "threadIdx"):
            self.axes[loop.loop_var] = loop.thread_binding
        else:
            self.values[loop.loop_var] = loop.min
        before, self.vector = self.vector, loop if loop.kind == "vectorized" else self.vector
        self.visit(loop.body)
        self.vector = before

    def visit_Block(self, block):
        """A tile that a warp moves at once; of other blocks it is not known how."""
        if not collect(block.body, Call):
            return
        for match in block.match_buffers:
            corner = self._numbers([r.min for r in match.source.region], {})
            extents = [r.extent.value for r in match.source.region]
            if corner is not None:
                *_, rows, columns = extents
                tile = [(y, x) for y in range(rows) for x in range(columns)]
                fixed = [[c] * len(tile) for c in corner[:-2]]
                self.padding.add(match.source.buffer, [
                    *fixed, [corner[-2] + y for y, _ in tile], [corner[-1] + x for _, x in tile]])

    def visit_BufferStore(self, store):
        self.visit((store.value, store.indices))
        self._access(store)

    def visit_BufferLoad(self, load):
        self.visit(load.indices)
        self._access(load)

    def _access(self, access):
        if access.buffer not in self.padding.may or any(isinstance(i, Ramp) for i in access.indices):
            return
        points = [self._numbers(access.indices, lane) for lane in self._lanes()]
        if None not in points:
            vector = self.vector.extent.value if self.vector is not None and self._is_run(access.indices[-1]) else 1
            self.padding.add(access.buffer, zip(*points), vector)

    def _is_run(self, index):
        """Whether neighbours of the vector are neighbours in memory."""
        v = self.vector.loop_var
        one, two = (self._numbers([substitute(index, {v: as_expr(n, v.dtype)})], {}) for n in (0, 1))
        return one is not None and two is not None and two[0] - one[0] == 1

    def _lanes(self):
        """{axis: index} of each thread of a warp."""
        extents = [self.copy.threads.get(axis, 1) for axis in AXES]
        for n in range(min(WARP, extents[0] * extents[1] * extents[2])):
            yield {AXES[0]: n % extents[0], AXES[1]: n // extents[0] % extents[1],
                   AXES[2]: n // extents[0] // extents[1]}

    def _numbers(self, indices, lane):
        """The indices of a thread; None where they follow from more than loops."""
        found = []
        for index in indices:
            given = {}
            for v in free_vars(index):
                value = lane.get(self.axes[v], 0) if v in self.axes else getattr(self.values.get(v), "value", None)
                if value is None:
                    return None
                given[v] = value
            try:
                found.append(value_of(index, given))
            except KeyError:  # an expression of another kind
                return None
        return found


class _Padded(Mutator):
    def __init__(self, new):
        self.new = new

    def visit_Buffer(self, b):
        return self.new.get(b, b)


__all__ = ["Padding"]
