"""PointerValueTypeRewrite: arrays that are accessed by vectors hold vectors."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Ramp, const, is_const_int
from ...node import Mutator, Visitor
from ...tir.intrin import truncdiv
from ...tir.shuffle import Shuffle
from ...tir.stmt import BufferStore


def pointer_value_type_rewrite(func):
    """Requires no blocks. Ensures that an array, a parameter's or an allocated one, whose accesses are vectors of one
    number of lanes, each at a multiple of these, holds vectors of so many, and has so many fewer of them in its last
    dimension. A number that is read at a known place of its vector is a T.Shuffle of that. Arrays of which single
    elements are stored or have their address taken stay what they are, as do those with strides or offsets,
    constants, those of which some lanes are masked, and those of several dtypes."""
    return _rewritten(func, numbers=True, parameters=True)


def vectors_in_allocations(func):
    """The same for what the function allocates or gets by a let, where no number is read alone: what StorageRewrite
    ends with."""
    return _rewritten(func, numbers=False, parameters=False)


def _rewritten(func, numbers, parameters):
    found = _Arrays(numbers)
    for buffer in func.buffer_map.values():
        found.array(buffer)
    found.visit(func.body)
    own = {b.data for b in func.buffer_map.values()}.union(func.params)
    lanes = {data: a.vector() for data, a in found.arrays.items() if parameters or data not in own}
    lanes = {data: n for data, n in lanes.items() if n}
    if not lanes:
        return func
    rewrite = _Vectors(lanes)
    return func.replace(body=rewrite.visit(func.body),
                        buffer_map={p: rewrite.visit(b) for p, b in func.buffer_map.items()})


class _Array:
    """The memory at a pointer: the buffers over it, the lanes of its accesses (1: an element alone) and the multiples
    at which numbers are read."""

    def __init__(self):
        self.buffers, self.lanes, self.numbers = {}, set(), []

    def vector(self):
        """How many lanes its elements are to have; None where they stay what they are."""
        if len(self.lanes) != 1 or len({b.dtype for b in self.buffers}) != 1:
            return None
        lanes, = self.lanes
        fits = lanes > 1 and all(coeff % lanes == 0 for coeff in self.numbers)
        return lanes if fits and all(_may_hold(b, lanes) for b in self.buffers) else None


def _may_hold(buffer, lanes):
    """Whether a buffer may have vectors of so many lanes as elements."""
    offset = buffer.elem_offset if buffer.elem_offset is not None else const(0)
    if not buffer.shape or buffer.strides or buffer.dtype.lanes > 1 or not is_const_int(offset, 0):
        return False
    return _is_multiple(Analyzer().modular_set(buffer.shape[-1]), lanes)


def _is_multiple(known, lanes):
    return known.coeff % lanes == 0 and known.base % lanes == 0


class _Arrays(Visitor):
    """The arrays of a body. numbers: whether numbers may be read alone where all else is vectors."""

    def __init__(self, numbers):
        self.numbers, self.an, self.arrays = numbers, Analyzer(), {}

    def array(self, buffer):
        array = self.arrays.setdefault(buffer.data, _Array())
        array.buffers[buffer] = True
        return array

    def visit_DeclBuffer(self, decl):
        self.array(decl.buffer)
        self.visit(decl.body)

    def visit_LetStmt(self, let):
        if let.constant is not None:
            self.arrays.setdefault(let.var, _Array()).lanes.add(1)
        self.generic_visit(let)

    def _access(self, access):
        array, index = self.array(access.buffer), access.indices[-1] if access.indices else None
        if isinstance(index, Ramp):
            whole = is_const_int(index.stride, 1) and index.count is None and isinstance(index.lanes, int)
            aligned = whole and _is_multiple(self.an.modular_set(index.base), index.lanes)
            array.lanes.add(index.lanes if aligned else 1)
        elif self.numbers and index is not None and index.dtype.lanes == 1 and not isinstance(access, BufferStore):
            array.numbers.append(self.an.modular_set(index).coeff)
        else:
            array.lanes.add(1)
        self.generic_visit(access)

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Call(self, call):
        if call.op == "tir.address_of":
            self.array(call.args[0].buffer).lanes.add(1)
        elif call.op == "tir.tvm_access_ptr":  # its numbers are of elements
            self.arrays.setdefault(call.args[1], _Array()).lanes.add(1)
        self.generic_visit(call)


class _Vectors(Mutator):
    """Makes the arrays in `lanes`, {data pointer: lanes}, hold vectors."""

    def __init__(self, lanes):
        self.lanes, self.an, self.new = lanes, Analyzer(), {}

    def visit_Buffer(self, buffer):
        lanes = self.lanes.get(buffer.data)
        if lanes is None:
            return buffer
        if buffer not in self.new:
            *outer, last = buffer.shape
            self.new[buffer] = buffer.replace(dtype=buffer.dtype.with_lanes(lanes), shape=(
                *outer, self.an.simplify(last // const(lanes, last.dtype))))
        return self.new[buffer]

    def visit_BufferLoad(self, load):
        lanes, index = self.lanes.get(load.buffer.data), load.indices[-1] if load.indices else None
        vector = self._access(load)
        if lanes is None or isinstance(index, Ramp):
            return vector
        return Shuffle.extract_element(vector, self.an.modular_set(index).base % lanes)

    def visit_BufferStore(self, store):
        return self._access(store)

    def _access(self, access):
        lanes, access = self.lanes.get(access.buffer.data), self.generic_visit(access)
        if lanes is None:
            return access
        *outer, last = access.indices
        base = last.base if isinstance(last, Ramp) else last
        return access.replace(indices=(*outer, truncdiv(base, const(lanes, base.dtype))))
