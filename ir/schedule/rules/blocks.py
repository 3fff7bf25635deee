"""Queries of the rules about blocks: finding, inlining, extents."""
from __future__ import annotations

from ...expr import BinaryExpr, Call, Cast, IntImm, Select
from ...node import collect
from ...tir.hints import WHOLE
from ...tir.intrinsics import NARROW, NEAREST_HALVES, SCALAR_INTRINSICS, VECTOR_CALLS
from ...tir.lookups import is_lookup
from ...tir.stmt import Block, BufferLoad, BufferStore
from ..blocks import uses
from ..errors import ScheduleError

SYMBOLIC = 1 << 20  # stands for an extent that is not known
PADDED = "pad"  # the stage of nn.pad in a kernel with others
FLOATS = ("float32", *NEAREST_HALVES)  # what vectors compute in, and what they widen


def blocks(sch):
    """The blocks of the working function but the root, in order of execution."""
    return [b for b in collect(sch.func.body, Block) if b.name_hint != "root"]


def find_block(sch, wanted):
    """The name of the first block for which wanted(block), else None."""
    return next((b.name_hint for b in blocks(sch) if wanted(b)), None)


def other_blocks(sch, output):
    """The names of all blocks but `output`."""
    name = sch.get(output).name_hint
    return [b.name_hint for b in blocks(sch) if b.name_hint != name]


def iter_vars(block, kind):
    """The iteration variables of a block of one type: "spatial" or "reduce"."""
    return [iv for iv in block.iter_vars if iv.iter_type == kind]


def operand_loads(block):
    """The loads of a reduction but those of its own result: what it adds up or multiplies, not what indices read."""
    loads = [load for load in collect(block.body, BufferLoad) if load.buffer is not block.writes[0].buffer]
    inside = {id(index) for load in loads for index in collect(load.indices, BufferLoad)}
    return [load for load in loads if id(load) not in inside]


def innermost(access):
    """The index along the innermost dimension of what is read or written; None of a tensor of rank 0."""
    return access.indices[-1] if access.indices else None


def vectorizes(block, lane=None):
    """Every value of the block has a vector form, so that a loop over it may be vectorized: over iteration variable
    `lane`, on which no choice depends."""
    accesses = collect(block.body, (BufferLoad, BufferStore))
    return all(_has_vector_form(c, lane) for c in collect(block.body, Call)) and (
        all(access.buffer.dtype in FLOATS for access in accesses) and not _moves_halves(block.body)
        or _integers_vectorize(block.body, accesses))


def _moves_halves(body):
    """Whether floats of 16 bits only move: nothing widens them to those that vectors hold."""
    return any(store.value.dtype in NEAREST_HALVES and isinstance(store.value, BufferLoad)
               for store in collect(body, BufferStore))


def _integers_vectorize(body, accesses):
    """Whether what a block computes of integers, in int32, has a vector form: others are loaded and stored."""
    if any(access.buffer.dtype not in ("float32", "int32", *NARROW)
           or collect(access.indices, BufferLoad) and not is_lookup(access) for access in accesses):
        return False
    stored = [store.value for store in collect(body, BufferStore) if store.value.dtype in NARROW]
    computed = [e for e in collect(body, (BinaryExpr, Select, Call)) if e.dtype in NARROW]
    return not computed and all(isinstance(e, Cast) or is_lookup(e) for e in stored) and all(
        e.value.dtype in ("float32", "int32") or e.dtype in ("float32", "int32") and e.value.dtype in NARROW
        for e in collect(body, Cast))


def _has_vector_form(call, lane):
    name = call.op.removeprefix("tir.")
    return name in VECTOR_CALLS or lane is not None and name == "if_then_else" and not uses(call.args[0], {lane})


def _is_costly(call):
    """Whether it is profitable to compute a call once rather than inlining into several consumers."""
    row = SCALAR_INTRINSICS.get(call.op.removeprefix("tir."))
    return row is not None and row.is_costly


def inline_all(sch, keep=(), joined=False):
    """Inline every elementwise stage but the outputs, those in `keep` and costly ones with several consumers.

    joined: a costly one too whose consumers have become one block, as x of x + tanh(x) has. Compilers find that it is
    read at one place; as a block of its own it would keep a tile of sums from what reads them.
    """
    outputs = {sch.get(b).name_hint for b in sch.get_output_blocks("root")}
    todo = [b for b in blocks(sch) if b.name_hint not in (*keep, *outputs) and b.init is None]
    while todo:
        left = []
        for block in todo:
            rv = sch.get_block(block.name_hint)
            if any(_is_costly(c) for c in collect(block.body, Call)) and len(sch.get_consumers(rv)) > 1:
                left.append(block)
                continue
            try:
                sch.compute_inline(rv)
            except ScheduleError:
                pass  # it is not a plain elementwise stage: left as it is
        todo = left if joined and len(left) < len(todo) else ()


def only_output(sch):
    """The block that makes the result; None where there are several results."""
    outputs = sch.get_output_blocks("root")
    return outputs[0] if len(outputs) == 1 else None


def store_border(sch, padded):
    """Store the border of a padded image, or of the part of it that an iteration needs, apart from what is inside.
    Returns the blocks of its sides. Whether a row of a side is there is asked once, before all of it."""
    rank = len(sch.get(padded).iter_vars)
    sides = sch.decompose_border(padded, sch.get_loops(padded)[-rank])
    for side in sides:
        sch.annotate(sch.get_loops(side)[2 - rank], WHOLE, 0)
    return sides


def outer_spatial(sch, block):
    """The leading loops of a block that only spatial iteration variables use, for a block whose loops are its iteration
    variables in order."""
    spatial = []
    for loop, iv in zip(sch.get_loops(block), sch.get(block).iter_vars):
        if iv.iter_type != "spatial":
            break
        spatial.append(loop)
    return spatial


def static_extent(sch, loop):
    """A loop's extent; a large number for a symbolic one."""
    return static(sch.get(loop).extent)


def static(extent):
    """The value of an extent; a large number for a symbolic one."""
    return extent.value if isinstance(extent, IntImm) else SYMBOLIC


def read_index(sch, block, producer):
    """Which of the block's reads is the producer's result."""
    return place_of(sch.get(block), sch.get(sch.get_block(producer)).writes[0].buffer)


def place_of(block, buffer):
    """Which of a block's reads is of a buffer."""
    return next(n for n, r in enumerate(block.reads) if r.buffer is buffer)
