"""Parts of the rules that keep the sums of a tile in registers: finding the reduction, its epilogue, its loops."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import IntImm, is_const_int
from ...node import collect
from ...tir.hints import ACCUMULATE, HOLD, LANES, REDUCE_LANES, UNROLL
from ...tir.intrinsics import NARROW
from ...tir.stmt import BlockRealize, For, statements
from ..blocks import binding_of, uses
from ..primitives.sample import divisors
from .blocks import FLOATS, find_block, inline_all, iter_vars, only_output, operand_loads, place_of, read_index
from .threads import PARALLEL_MIN_PARTS

MOST_TERMS = 8  # in an iteration of the loop around a small tile
# Stages whose name ends so are reductions over operands packed for one vector per step.
PACKED = "_packed"


def anchored(sch, fits, keep=()):
    """(name of the first block for which fits(block), the output block that reads it) with everything else inlined but
    the blocks `keep`; None where there is no such block, or several outputs. A reduction that is the output writes
    through a local copy.
    """
    anchor = find_block(sch, fits)
    if anchor is None:
        return None
    inline_all(sch, keep={anchor, *keep}, joined=True)
    epilogue = only_output(sch)
    if epilogue is None:
        return None
    if sch.get(epilogue).name_hint == anchor:
        epilogue = sch.cache_write(sch.get_block(anchor), 0, "local")
    return anchor, epilogue


def ranks(block):
    """How many spatial and how many reduce iteration variables a reduction has."""
    return len(iter_vars(block, "spatial")), len(iter_vars(block, "reduce"))


def reduce_lanes(sch, block, tree):
    """Reduce the lanes of a vector, which the loop `tree` runs over, to a number."""
    sch.annotate(tree, REDUCE_LANES, 1)
    sch.decompose_reduction(block, tree)


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


def by_element(target, block):
    """(target, the buffer) for a reduction where FMAs may take the elements of a buffer out of vectors: so many
    steps as a vector has lanes take what lies in a row, each for all lanes of the result. (target without by_element,
    None) where they may not."""
    k, lane = iter_vars(block, "reduce")[-1], iter_vars(block, "spatial")[-1]
    if target.by_element and isinstance(k.dom.extent, IntImm) and k.dom.extent.value % target.lanes == 0:
        for load in operand_loads(block):
            if load.dtype in FLOATS and not uses(load.indices, {lane.var}) and _in_a_row(load, k.var):
                return target, load.buffer
    return target.without("by_element"), None


def _in_a_row(load, k):
    """Whether each step of k takes the next element of a buffer."""
    *outer, index = load.indices
    strides = load.buffer.strides
    return Analyzer().step(index, k) == 1 and not uses(outer, {k}) and (not strides or is_const_int(strides[-1], 1))


def lane_by_lane(sch, target, reduce, operand):
    """(loops, [] or the unrolled loop over lanes inside of them) of loops over the terms of a tile's sums; operand: of
    by_element."""
    if operand is None:
        return reduce, []
    *outer, k = reduce
    k, lane = sch.split(k, [None, target.lanes])
    sch.unroll(lane)
    sch.annotate(lane, LANES, [operand.name])
    return [*outer, k], [lane]


def words_by_lane(target, dot, words):
    """Whether the products of so many words of a row, by the dot products of a name, take each out of a vector."""
    return dot in target.dots_by_lane and words % target.lanes == 0


def word_by_word(sch, target, loop):
    """(loop, the unrolled loop inside of it over the words of a vector) of a loop over words (LaneIndexedDot)."""
    loop, word = sch.split(loop, [None, target.lanes])
    sch.unroll(word)
    return loop, word


def hold(sch, block, loop, buffers, lanes=None):
    """Pin in registers, before each iteration of a loop, what it reads from buffers more than once: vectors along the
    last dimension, each element where the target's have one of the `lanes`. Vectors of narrow integers are made by each
    load, which compilers find to be the same."""
    for buffer in buffers:
        if buffer.dtype in NARROW:
            continue
        copy = sch.cache_read(block, place_of(sch.get(block), buffer), "local", [block])
        sch.compute_at(copy, loop, preserve_unit_loops=True)
        *points, lane = sch.get_loops(copy)[-len(buffer.shape):]
        if lanes == 1:
            element, lane = sch.split(lane, [None, 1])
            points.append(element)
        in_registers(sch, points, lane)
        sch.annotate(points[-1], HOLD, 1)


def turn_of(sch, target, block, loops, several=True):
    """The loop around a register tile, of those over its terms, whose reduction is decomposed; the last where none has
    turns. Small tiles take several terms an iteration. The C compiler is asked to unroll no more: several iterations at
    once would need more registers than there are (gcc 12 then runs at 110 instead of 190 GFLOP/s). several: whether an
    iteration may have several terms."""
    inner = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if several and inner and inner[-1] == loops[-1] and _several_terms(sch, target, block, inner):
        sch.annotate(inner[-1], ACCUMULATE, 1)
    turn = (inner or loops)[-1]
    if inner:
        sch.annotate(turn, UNROLL, 1)
    return turn


def _several_terms(sch, target, block, loops):
    """Unroll the last loop around a small tile, or a part of it: its iterations become terms of an iteration of the
    last loop. False where the tile is not small, or terms share elements with neighbours in a window, which compilers
    would keep in registers; and where that loop would have two iterations, which gcc would unroll in spite of what it
    is asked."""
    loop, (*_, term) = sch.get(loops[-1]), iter_vars(sch.get(block), "reduce")
    points = _moving(loop.body, sch.get(block))
    if not isinstance(loop.extent, IntImm) or _multiply_adds(loop.body) > target.cost("tile.small") or any(
            uses(index, {term.var}) and uses(index, points)
            for load in operand_loads(sch.get(block)) for index in load.indices):
        return False
    if len(loops) == 1 or loop.extent.value > MOST_TERMS or is_const_int(sch.get(loops[-2]).extent, 2):
        terms = max((n for n in divisors(loop.extent.value) if n <= MOST_TERMS // 2 and loop.extent.value > 2 * n),
                    default=1)
        if terms == 1:
            return False
        loops[-1:] = sch.split(loops[-1], [None, terms])
    sch.unroll(loops.pop())
    return True


def _moving(stmt, block):
    """The spatial variables of a block that loops in a statement move."""
    loops = {loop.loop_var for loop in collect(stmt, For)}
    binding = next(binding_of(realize) for realize in collect(stmt, BlockRealize) if realize.block is block)
    return {iv.var for iv in iter_vars(block, "spatial") if uses(binding[iv.var], loops)}


def _multiply_adds(stmt):
    """How often the statements of a register tile run in an iteration of the loop around it."""
    times = stmt.extent.value if isinstance(stmt, For) and stmt.kind == "unrolled" else 1
    return times * max(map(_multiply_adds, statements(stmt)), default=1)


def steps(block):
    """How often a block runs: the FMAs of a product. Symbolic extents count as many."""
    steps = 1
    for iv in block.iter_vars:
        steps *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else PARALLEL_MIN_PARTS
    return steps
