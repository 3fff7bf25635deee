"""InjectPermutedLayout: rows of shared memory whose chunks of 8 elements change places from row to row.

Threads that read one column of several rows at once, as ldmatrix does, then find them in other banks. In rows of a
multiple of 64 elements, chunk c of row r lies at c xor r % 8; in those of a multiple of 32, at c xor r % 8 / 2.
"""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Call, FloorDiv, FloorMod, IntImm, Range, StringImm, Var, const, is_const_int, substitute
from ...node import Mutator, collect
from ...tir.intrin import address_of, intrinsic
from ...tir.signatures import complete_signatures
from ...tir.stmt import Block, BufferLoad
from ..walk import without

KEY = "permuted_layout"
CHUNK = 8
# Operations that read and write shared memory by a pointer: the places of that and of an offset, in elements
_POINTERS = {"tir.ptx_ldmatrix": (5, 6), "tir.mma_store": (2, None)}


def inject_permuted_layout(func):
    """Requires opaque blocks, no matched buffers. Ensures that no block says `permuted_layout`: in those that said so
    (with anything but 0 or ""), elements of shared buffers of two dimensions or more are where the layout has them.

    Raises ValueError for rows of other lengths, and where a block that does not say so uses the same buffer.
    """
    if not any(_asked(b) for b in collect(func.body, Block)):
        return func
    permute = _Permute(func)
    body = permute.visit(func.body)
    for buffer in permute.moved:
        if buffer in permute.kept:
            raise ValueError(f"{func.title}: {buffer.name} is used in blocks with and without the annotation "
                             f"\"{KEY}\"; annotate each block that reads or writes it")
    return complete_signatures(func.replace(body=body))[0]  # elements have moved within their rows


def _asked(block):
    value = block.annotations.get(KEY, 0)
    value = value.value if isinstance(value, (IntImm, StringImm)) else value
    return value not in (0, "", False)


def _row_of(buffer, func):
    """Elements of a row. Raises ValueError for rows that have no layout."""
    rows, row = buffer.shape[-2:]
    size = row.value if isinstance(row, IntImm) else 0
    fits = size and (size % 64 == 0 or size % 32 == 0 and isinstance(rows, IntImm) and rows.value % 2 == 0)
    if not fits or buffer.strides and not (is_const_int(buffer.strides[-1], 1) and is_const_int(
            buffer.strides[-2], size)):
        raise ValueError(f"{func.title}: a permuted layout has rows of a multiple of 64 elements, or an even number of "
                         f"rows of a multiple of 32, without gaps; {buffer.name} has the shape "
                         f"({', '.join(map(str, buffer.shape))})")
    return size


class _Permute(Mutator):
    def __init__(self, func):
        self.func, self.an = func, Analyzer()
        self.inside = False
        self.moved, self.kept = {}, {}  # shared buffers: ordered sets

    def visit_For(self, loop):
        self.an.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
        return self.generic_visit(loop)

    def visit_Block(self, block):
        around = self.inside
        self.inside = around or _asked(block)
        done = {name: self.visit(getattr(block, name)) for name in ("init", "body")}
        self.inside = around
        return without(block, KEY).replace(**done) if KEY in block.annotations else block.replace(**done)

    def wanted(self, buffer):
        """Whether accesses to a buffer change here."""
        if not buffer.scope.startswith("shared") or len(buffer.shape) < 2:
            return False
        (self.moved if self.inside else self.kept)[buffer] = True
        return self.inside

    def chunk(self, buffer, row, column):
        """(a variable for the place of an element's chunk in its row, that place)."""
        by = self.an.simplify(row % 8)
        if _row_of(buffer, self.func) % 64:
            by = self.quotient(by, 2)
        place = intrinsic("bitwise_xor", self.quotient(self.an.simplify(column), CHUNK), by)
        v = Var("chunk", place.dtype)
        self.an.bind(v, Range(const(0, v.dtype), const(max(8, buffer.shape[-1].value // CHUNK), v.dtype)))
        return v, place

    def quotient(self, e, by):
        """e // by; of a remainder it is left as it is."""
        return FloorDiv(e, const(by, e.dtype)) if isinstance(e, FloorMod) else self.an.simplify(e // by)

    def _access(self, node):
        node = self.generic_visit(node)
        if not self.wanted(node.buffer):
            return node
        *outer, row, column = node.indices
        chunk, place = self.chunk(node.buffer, row, column)
        column = substitute(self.an.simplify(chunk * CHUNK + column % CHUNK), {chunk: place})
        return node.replace(indices=(*outer, row, column))

    visit_BufferLoad = visit_BufferStore = _access

    def visit_Call(self, call):
        pointer, offset = _POINTERS.get(call.op, (None, None))
        source = call.args[pointer] if pointer is not None else None
        if not (isinstance(source, Call) and source.op == "tir.address_of" and self.wanted(source.args[0].buffer)):
            return self.generic_visit(call)
        load = source.args[0]
        if call.dtype.bits < 16:
            raise ValueError(f"{self.func.title}: {load.buffer.name} holds {call.dtype}; a permuted layout is of "
                             "elements of 16 bits and more")
        size = const(_row_of(load.buffer, self.func))
        *outer, row, column = load.indices
        at = row * size + column + (call.args[offset] if offset is not None else 0)
        row, column = self.an.simplify(at // size), self.an.simplify(at % size)
        chunk, place = self.chunk(load.buffer, row, column)
        at = substitute(self.an.simplify(row * size + chunk * CHUNK + column % CHUNK), {chunk: place})
        args = list(call.args)
        args[pointer] = address_of(BufferLoad(load.buffer, (*outer, FloorDiv(at, size), FloorMod(at, size))))
        if offset is not None:
            args[offset] = const(0, args[offset].dtype)
        return call.replace(args=tuple(args))


__all__ = ["inject_permuted_layout"]
