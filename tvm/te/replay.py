"""From the stages of a te schedule to a scheduled PrimFunc: every request becomes a primitive of tir.Schedule."""
from __future__ import annotations

from dataclasses import replace

from ...ir.schedule import Schedule, ScheduleError
from ...ir.te.create import Lowering
from ...ir.te.tensor import ComputeOp, ExternOp, ScanOp, Tensor
from ...ir.tir.hints import PREFETCH_TURNS
from .stage import Fuse, Split, refuse


def replay(schedule, args, name):
    """The PrimFunc `name` of `args`, scheduled.

    First what is inlined goes; then, from the outputs back to the inputs, each stage is moved to where it is computed
    and its loops are split, fused, reordered and bound to threads, which says what producers in shared memory are to
    hold; then loops are marked and tensorized. So it does not matter in what order these were asked for. At last a
    reduction starts before its outermost loop, as TVM's do, unless threads reduce together.

    An argument that is inlined, or computed where it is used, is computed in full besides, as its caller expects it.
    """
    return _Replay(schedule, args, name).run()


class _Replay:
    def __init__(self, schedule, args, name):
        self.schedule = schedule
        self.whole = {}  # an operation that computes an argument in full -> that which is computed elsewhere
        lowering = Lowering(self._resolve, lambda op: "global" if op in self.whole else schedule.scope(op),
                            lambda op: op not in self.whole and schedule[op].attach_type == "scope")
        func = lowering.function(args).with_attr("global_symbol", name)
        _require_scopes(schedule, lowering.given - self.whole.keys())
        # producers first
        self.blocks = {schedule[op]: names for op, names in lowering.blocks.items() if op not in self.whole}
        self.in_scan, self.given, self.declare = lowering.inside, lowering.given, lowering.declare
        self.tir = Schedule(func)
        self.loops = {}  # stage -> {axis: LoopRV}

    def _resolve(self, tensor, reader):
        """The tensor that an operation reads in place of another one; what it is as an argument (reader None).

        What computes an argument in full reads other arguments, which are there in full too."""
        tensor = self.schedule.resolve(tensor, self.whole.get(reader, reader))
        op = next((whole for whole, elsewhere in self.whole.items() if elsewhere is tensor.op), None)
        if reader is None and op is None and isinstance(tensor.op, ComputeOp) and (
                self.schedule[tensor].attach_type in ("inline", "scope")):
            op = replace(tensor.op)
            self.whole[op] = tensor.op
        return Tensor(op, tensor.value_index) if op and (reader is None or reader in self.whole) else tensor

    def run(self):
        for stage in self.blocks:
            self._require_consistent(stage)
        inlined = [s for s in self.blocks if s.attach_type == "inline"]
        for stage in inlined:
            for block in self.blocks.pop(stage):
                self._do(stage, None, "compute_inline", block)
        order = list(reversed(self.blocks))
        for stage in order:
            self._move(stage)
            self._shape(stage)
            self._mark_all([stage], lambda primitive: primitive == "bind")
        self._mark_all(order, lambda primitive: primitive not in ("bind", "tensorize"))
        self._mark_all(order, lambda primitive: primitive == "tensorize")
        for stage in order:
            self._start(stage)
        return self.tir.func

    def _do(self, stage, axis, primitive, *args, **kwargs):
        """Apply a primitive of tir.Schedule; a refusal names the stage and the axis."""
        try:
            return getattr(self.tir, primitive)(*args, **kwargs)
        except ScheduleError as e:
            where = f"stage {stage.op.name}" + (f", axis {axis.var.name}" if axis is not None else "")
            reason = f"({where}) {e.reason}"
            raise ScheduleError(e.primitive, e.argument, reason, e.hint, e.func, e.at, e.level) from None

    # ------------------------------------------------------------ structure

    def _move(self, stage):
        """Put a stage where it is computed, and note its loops."""
        blocks = self.blocks[stage]
        if stage.attach_type == "scope":
            loop = self._loop("compute_at", stage.attach_stage, stage.attach_ivar)
            self._do(stage, stage.attach_ivar, "compute_at", blocks[0], loop, preserve_unit_loops=True)
        axes = () if isinstance(stage.op, (ExternOp, ScanOp)) else stage.op.axis + stage.op.reduce_axis
        loops = self.tir.get_loops(self.tir.get_block(blocks[0]))
        self.loops[stage] = dict(zip(axes, loops[len(loops) - len(axes):]))
        if stage.op in self.in_scan:
            del self.loops[stage][axes[0]]

    def _loop(self, primitive, stage, axis):
        if axis not in self.loops[stage]:
            self._refuse(primitive, stage, f"axis {axis.var.name} is the time of a scan, whose turns keep their order",
                         "choose another axis")
        return self.loops[stage][axis]

    def _shape(self, stage):
        """Split, fuse and reorder a stage's loops."""
        loops = self.loops[stage]
        for step in stage.relations:
            if isinstance(step, Split):
                loops[step.outer], loops[step.inner] = self._do(
                    stage, step.parent, "split", self._loop("split", stage, step.parent), list(step.factors))
            elif isinstance(step, Fuse):
                nest = [self._loop("fuse", stage, a) for a in step.axes]
                loops[step.fused] = self._do(stage, step.axes[0], "fuse", *nest)
            else:
                self._do(stage, None, "reorder", *(self._loop("reorder", stage, a) for a in step.axes))

    def _mark_all(self, stages, wanted):
        for stage in stages:
            for mark in stage.marks:
                if wanted(mark.primitive):
                    self._mark(stage, mark)

    def _mark(self, stage, mark):
        if mark.axis is None:
            self._do(stage, None, mark.primitive, self.blocks[stage][0], *mark.args)
        elif mark.primitive == "tensorize":
            self._tensorize(stage, mark.axis, *mark.args)
        elif mark.primitive == "prefetch":
            self._prefetch(stage, mark.axis, *mark.args)
        else:
            self._do(stage, mark.axis, mark.primitive, self._loop(mark.primitive, stage, mark.axis), *mark.args)

    def _prefetch(self, stage, axis, tensor, turns):
        """Note at the axis' loop what it is to ask for; two stages may share one."""
        loop = self._loop("prefetch", stage, axis)
        known = self.tir.get(loop).annotations.get(PREFETCH_TURNS, {})
        buffer = self.declare(self.schedule.resolve(tensor, stage.op))
        self._do(stage, axis, "annotate", loop, PREFETCH_TURNS, {**known, buffer.name: turns})

    def _start(self, stage):
        """Let the init of a reduction have loops of its own; where it cannot, it stays with the first iteration."""
        outermost = next((a for a in stage.leaf_iter_vars if a.iter_type == "reduce"), None)
        if outermost is None or isinstance(stage.op, ScanOp) or any(
                m.primitive == "tensorize" or m.primitive == "bind" and m.axis.iter_type == "reduce"
                for m in stage.marks):
            return
        try:
            self.tir.decompose_reduction(self.blocks[stage][0], self.loops[stage][outermost])
        except ScheduleError:
            pass

    # ------------------------------------------------------------ tensorize

    def _tensorize(self, stage, axis, intrin):
        """Use an intrinsic; where the reduction goes on outside, its reset and update parts."""
        loop = self._loop("tensorize", stage, axis)
        if isinstance(intrin, str):
            self._do(stage, axis, "tensorize", loop, intrin)
            return
        place = stage.leaf_iter_vars.index(axis)
        outside = [a for a in stage.leaf_iter_vars[:place] if a.iter_type == "reduce"]
        if not outside:
            self._do(stage, axis, "tensorize", loop, intrin.registered("body"))
            return
        if intrin.reset is None or intrin.update is None:
            self._refuse("tensorize", stage, f"its reduction goes on outside axis {axis.var.name}, and intrinsic "
                         f"{intrin.name} has no reset and update", "let fcompute return (body, reset, update)")
        block = self.blocks[stage][0]
        init = self._do(stage, axis, "decompose_reduction", block, self.loops[stage][outside[0]])
        spatial = sum(a.iter_type == "spatial" for a in stage.leaf_iter_vars[place:])
        for at, part in ((loop, "update"), (self.tir.get_loops(init)[-spatial], "reset")):
            self._do(stage, axis, "tensorize", at, intrin.registered(part))

    # ------------------------------------------------------------ checks

    def _refuse(self, primitive, stage, reason, hint):
        raise ScheduleError(primitive, "", f"(stage {stage.op.name}) {reason}", hint)

    def _require_consistent(self, stage):
        """Check the conditions that later requests may have broken."""
        if stage.attach_type == "inline" and (stage.relations or stage.marks):
            self._refuse("compute_inline", stage, "its loops are split, reordered or marked, and inlining drops them",
                         "leave out one of both")
        if stage.attach_type != "scope":
            return
        parent, axis = stage.attach_stage, stage.attach_ivar
        if not any(a is axis for a in parent.leaf_iter_vars):
            self._refuse("compute_at", stage, f"axis {axis.var.name} of stage {parent.op.name}, where it is computed, "
                         "is no loop any more", "move it after the last split, fuse and rfactor of that stage")
        if parent.attach_type == "inline":
            self._refuse("compute_at", stage, f"stage {parent.op.name}, where it is computed, is inlined", "")
        if parent not in self.blocks:
            self._refuse("compute_at", stage, f"stage {parent.op.name}, where it is computed, is not needed for the "
                         "arguments", "list its result among them")
        order = list(self.blocks)
        if order.index(parent) < order.index(stage):
            self._refuse("compute_at", stage, f"stage {parent.op.name}, where it is computed, comes before it",
                         "choose a stage that uses its result")


def _require_scopes(schedule, given):
    """Parameters lie in the caller's memory."""
    for op in given:
        stage = schedule[op]
        if stage.scope != "global":
            refuse("set_scope", "'scope'", f"stage {op.name} is an argument, whose memory is the caller's",
                   "use cache_read or cache_write to have it in other memory")
