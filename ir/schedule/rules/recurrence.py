"""Recurrences: the sums of a time step stay in registers until the new state is made of them."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from ...expr import is_const_int
from ...relax.ops.recurrent_weights import width_of
from ..plan import Kernel, Match, Plan, Stages, Tile
from .blocks import blocks, iter_vars, outer_spatial, vectorizes
from .registers import in_registers, ranks, steps, turn_of
from .threads import parallel_nest

LEAST_LANES = 4
ROWS = (4, 3, 2, 1)


def recurrence(sch, target):
    """Loops over time around reductions and what is made of these: both per tile of columns (and rows of a batch),
    whose sums are in registers. What runs along no time may run in parallel.

        for time: for tile: sums = bias;  for k: for rows, gates, vectors: sums += broadcast(state) * weights; new state
    """
    parts = {b.name_hint: _parts(sch, b.name_hint) for b in blocks(sch)
             if any(iv.iter_type == "scan" for iv in b.iter_vars)}
    parts = {step: found for step, found in parts.items() if found}
    if not parts:
        return None
    kernels = {part: _kernel(sch, *part) for found in parts.values() for part in found}

    works = [_work(sch, step) for step in parts]

    def apply(plan, target):
        own = dict(zip(kernels, plan.stages))
        for step, found in parts.items():
            for part in found:
                _tile(sch, target, own[part].tile, kernels[part].lanes(target), *part)
        for step, work in zip(parts, works):
            parallel_nest(sch, target, outer_spatial(sch, sch.get_block(step)), work)

    shared = sum(work >= target.cost("threads.least_work") for work in works)
    return Match(Stages("recurrence", tuple(kernels.values()), max(works), "directions", shared), apply)


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
            parts.append((tuple(children[n].name_hint for n in part if children[n].init is not None),
                          tuple(children[n].name_hint for n in stages)))
            start = end + 1
    return parts


def _kernel(sch, reductions, stages):
    gates = sum(iter_vars(sch.get(sch.get_block(r)), "spatial")[1].dom.extent.value for r in reductions)
    batch, hidden = (iv.dom.extent.value for iv in sch.get(sch.get_block(stages[0])).iter_vars)
    in_vectors = all(vectorizes(sch.get(sch.get_block(s))) for s in (*reductions, *stages))
    return Step(batch, hidden, gates, in_vectors, _panel(sch, reductions[0]))


def _tile(sch, target, tile, lanes, reductions, stages):
    anchor = sch.get_block(stages[0])
    b, j = sch.get_loops(anchor)
    bo, bi = sch.split(b, [None, tile.rows])
    jo, ji = sch.split(j, [None, tile.vectors * lanes])
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
        turn_of(sch, target, block, (k,))


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


@dataclass(frozen=True)
class Step(Kernel):
    """The result of a step's sums: a batch of rows of `hidden` states, each of so many gates. in_vectors: whether all
    stages have vectors. width: of the panels that weights are in; None where they are in none."""

    batch: int
    hidden: int
    gates: int
    in_vectors: bool = True
    width: int | None = None

    rule = "recurrence"

    def lanes(self, target):
        """The lanes of the vectors that hold states; 1 if no vectors do."""
        lanes = target.lanes
        while lanes > 1 and (self.hidden % lanes or not self.in_vectors):
            lanes = lanes // 2 if lanes > LEAST_LANES else 1
        return lanes

    def candidates(self, target):
        """Tiles that divide rows and states, so that no tile is cut. The sums leave registers for the state's value and
        for weights on their way."""
        most_accumulators = min(target.registers - 4, target.accumulators or target.registers)
        vectors = self.hidden // self.lanes(target)
        tiles = [Tile(v, rows) for rows in ROWS if self.batch % rows == 0 for v in range(1, vectors + 1)
                 if vectors % v == 0 and (rows * v * self.gates <= most_accumulators or rows * v == 1)]
        of_panels = [t for t in tiles if t.vectors * self.lanes(target) == self.width]
        for tile in sorted(of_panels or tiles, key=lambda t: -t.vectors):
            yield Plan(self.rule, tile=tile)

    def cost(self, plan, target):
        """Loads for an FMA."""
        rows, vectors = plan.tile.rows, plan.tile.vectors
        return (self.gates * vectors + rows) / (rows * vectors * self.gates)


def _work(sch, step):
    """What threads may share of a step: directions do not depend on one another. 1 where there is one."""
    block = sch.get(sch.get_block(step))
    outer = takewhile(lambda iv: iv.iter_type == "spatial", block.iter_vars)
    several = any(not is_const_int(iv.dom.extent, 1) for iv in outer)
    return steps(block) * sum(steps(part) for part in map(sch.get, sch.get_child_blocks(sch.get_block(step)))
                              if iter_vars(part, "reduce")) if several else 1
