"""Recurrences: the sums of a time step stay in registers until the new state is made of them."""
from __future__ import annotations

from ...relax.ops.recurrent_weights import width_of
from .blocks import blocks, iter_vars, outer_spatial, vectorizes
from .registers import in_registers, ranks, steps, turn_of
from .threads import parallel_nest

LEAST_LANES = 4
ROWS = (4, 3, 2, 1)


def recurrence(sch, cpu):
    """Loops over time around reductions and what is made of these: both per tile of columns (and rows of a batch),
    whose sums are in registers. What runs along no time may run in parallel.

        for time: for tile: sums = bias;  for k: for rows, gates, vectors: sums += broadcast(state) * weights; new state
    """
    parts = {b.name_hint: _parts(sch, b.name_hint) for b in blocks(sch)
             if any(iv.iter_type == "scan" for iv in b.iter_vars)}
    parts = {step: found for step, found in parts.items() if found}
    for step, found in parts.items():
        for part in found:
            _tile(sch, cpu, *part)
        _parallel(sch, cpu, step)
    return bool(parts)


def _parts(sch, step):
    """The stages of a step as (names of reductions, names of what is made of them); a part ends with the last stage
    that reads its reductions. None where a stage is not over rows and columns, a reduction not over rows, gates and
    columns."""
    children = [sch.get(b) for b in sch.get_child_blocks(sch.get_block(step))]
    if any(ranks(c) != ((2, 0) if c.init is None else (3, 1)) or len(c.writes) != 1 for c in children):
        return []
    made = [c.writes[0].buffer for c in children]
    reads = [{r.buffer for r in c.reads} for c in children]
    parts, start = [], 0
    for end, block in enumerate(children):
        part = range(start, end + 1)
        sums = {made[n] for n in part if children[n].init is not None}
        if block.init is None and sums & reads[end] and not any(sums & later for later in reads[end + 1:]):
            known = set(sums)
            stages = []
            for n in part:
                if children[n].init is None and known & reads[n]:
                    known.add(made[n])
                    stages.append(n)
            parts.append(([children[n].name_hint for n in part if children[n].init is not None],
                          [children[n].name_hint for n in stages]))
            start = end + 1
    return parts


def _tile(sch, cpu, reductions, stages):
    gates = sum(iter_vars(sch.get(sch.get_block(r)), "spatial")[1].dom.extent.value for r in reductions)
    anchor = sch.get_block(stages[0])
    batch, hidden = (iv.dom.extent.value for iv in sch.get(anchor).iter_vars)
    rows, vectors, lanes = choose(cpu, batch, hidden, gates, all(
        vectorizes(sch.get(sch.get_block(s))) for s in (*reductions, *stages)), _panel(sch, reductions[0]))
    b, j = sch.get_loops(anchor)
    bo, bi = sch.split(b, [None, rows])
    jo, ji = sch.split(j, [None, vectors * lanes])
    sch.reorder(jo, bo, bi, ji)
    for name in stages[1:]:
        sch.reverse_compute_at(sch.get_block(name), bo, preserve_unit_loops=True)
    for name in reversed(reductions):
        sch.compute_at(sch.get_block(name), bo, preserve_unit_loops=True)
    for name in stages:
        block = sch.get_block(name)
        consumers = {sch.get(c).name_hint for c in sch.get_consumers(block)}
        if consumers and consumers <= set(stages):
            sch.set_scope(block, 0, "local")
        _registers(sch, sch.get_loops(block)[2:], lanes)
    for name in reductions:
        block = sch.get_block(name)
        sch.set_scope(block, 0, "local")
        *points, k = sch.get_loops(block)[2:]
        sch.reorder(k, *points)
        _registers(sch, points, lanes)
        sch.decompose_reduction(block, k)
        turn_of(sch, cpu, block, (k,))


def _registers(sch, points, lanes):
    """Unroll the loops over the points of a tile, the last one cut into vectors."""
    *outer, j = points
    if lanes > 1:
        j, lane = sch.split(j, [None, lanes])
        in_registers(sch, (*outer, j), lane)
    else:
        for loop in points:
            sch.unroll(loop)


def _panel(sch, reduction):
    """The states of a panel of weights; None where these are in none."""
    return next(filter(None, (width_of(r.buffer.shape) for r in sch.get(sch.get_block(reduction)).reads)), None)


def choose(cpu, batch, hidden, gates, vectors_exist=True, width=None):
    """(rows, vectors, lanes) of a tile, all dividing what they are of, so that no tile is cut: the least loads for a
    multiply-add. The sums leave room for the state's value and for weights on their way. width: of the panels that
    weights are in, if they are."""
    room = min(cpu.registers - 4, cpu.accumulators or cpu.registers)
    lanes = cpu.lanes
    while lanes > 1 and (hidden % lanes or not vectors_exist):
        lanes = lanes // 2 if lanes > LEAST_LANES else 1
    tiles = [(rows, vectors, lanes) for rows in ROWS if batch % rows == 0
             for vectors in range(1, hidden // lanes + 1)
             if hidden // lanes % vectors == 0 and (rows * vectors * gates <= room or rows * vectors == 1)]
    of_panels = [t for t in tiles if t[1] * lanes == width]
    return min(of_panels or tiles, key=lambda t: ((gates * t[1] + t[0]) / (t[0] * t[1] * gates), -t[1]))


def _parallel(sch, cpu, step):
    """Directions do not depend on one another: in parallel when the work is worth it."""
    block = sch.get_block(step)
    loops = outer_spatial(sch, block)
    work = steps(sch.get(block)) * sum(
        steps(sch.get(b)) for b in sch.get_child_blocks(block) if iter_vars(sch.get(b), "reduce"))
    parallel_nest(sch, cpu, loops, work)
