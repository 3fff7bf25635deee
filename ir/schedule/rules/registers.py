"""Parts of the rules that keep the sums of a tile in registers: finding the reduction, its epilogue, its loops."""
from __future__ import annotations

from ...expr import IntImm, is_const_int
from .blocks import find_block, inline_all, iter_vars, read_index
from .threads import PARALLEL_MIN_PARTS

# Stages whose name ends so are reductions over operands packed for one vector per step.
PACKED = "_packed"


def anchored(sch, fits):
    """(name of the first block for which fits(block), the output block that reads it) with everything else inlined;
    None where there is no such block, or several outputs. A reduction that is the output writes through a local copy.
    """
    anchor = find_block(sch, fits)
    if anchor is None:
        return None
    inline_all(sch, keep={anchor})
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return None
    epilogue = outputs[0]
    if sch.get(epilogue).name_hint == anchor:
        epilogue = sch.cache_write(sch.get_block(anchor), 0, "local")
    return anchor, epilogue


def ranks(block):
    """How many spatial and how many reduce iteration variables a reduction has."""
    return len(iter_vars(block, "spatial")), len(iter_vars(block, "reduce"))


def through_memory(sch, epilogue, anchor, at):
    """Copy the accumulators of a tile to memory, where the epilogue reads them in another order, or one by one."""
    copy = sch.cache_read(epilogue, read_index(sch, epilogue, anchor), "local")
    sch.compute_at(copy, at, preserve_unit_loops=True)
    return copy


def in_registers(sch, points, lanes):
    """Unroll the loops over the points of a tile, so that the indices of its registers are constants."""
    for loop in points:
        sch.unroll(loop)
    sch.vectorize(lanes)


def keep_rolled(sch, loops):
    """Ask the C compiler not to unroll the loop around a register tile: several turns at once would need more registers
    than there are (gcc 12 then runs at 110 instead of 190 GFLOP/s)."""
    inner = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if inner:
        sch.annotate(inner[-1], "pragma_unroll", 1)


def steps(block):
    """How often a block runs: the multiply-adds of a product. Symbolic extents count as many."""
    steps = 1
    for iv in block.iter_vars:
        steps *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else PARALLEL_MIN_PARTS
    return steps
