"""create_schedule: the older way to schedule, by stages of tensor operations. A thin layer over tir.Schedule."""
from __future__ import annotations

from ...ir.expr import IterVar, Var, const, is_const_int, logical_and
from ...ir.te.create import Lowering
from ...ir.te.operation import compute, reduce_axis
from ...ir.te.tensor import ComputeOp, Operation, Reduce, ScanOp, Tensor, rewritten
from ...ir.tir.intrin import if_then_else
from .replay import replay
from .stage import Reorder, Split, Stage, refuse, root_values


def create_schedule(ops):
    """A Schedule whose outputs are the given operations (or tensors), with a stage for everything behind them."""
    ops = [o.op if isinstance(o, Tensor) else o for o in (ops if isinstance(ops, (list, tuple)) else [ops])]
    for o in ops:
        if not isinstance(o, Operation):
            raise TypeError(f"create_schedule takes operations such as C.op, not a {type(o).__name__}")
    return Schedule(ops)


class Schedule:
    """Stages, and how each is to be computed. s[C] is the stage of a tensor or operation.

    stages: producers first; outputs: the operations asked for. stage_map: {operation: stage}, for those that caching
    and rfactor have replaced too.
    """

    def __init__(self, ops):
        self.stage_map = {op: Stage(self, op) for op in Lowering().order(ops)}
        self.stages = list(self.stage_map.values())
        self._outputs = [self.stage_map[op] for op in ops]
        for stage in self._outputs:
            stage.is_output = True

    @property
    def outputs(self):
        return [stage.op for stage in self._outputs]

    def __getitem__(self, key):
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise TypeError(f"a schedule is indexed with a tensor or an operation, not a {type(key).__name__}")
        if op not in self.stage_map:
            raise KeyError(f"{op.name} is not in the schedule, which has "
                           f"{', '.join(stage.op.name for stage in self.stages)}")
        return self.stage_map[op]

    def normalize(self):
        """The schedule itself: its loops start at 0 anyhow."""
        return self

    def create_group(self, outputs, inputs, include_inputs=False):
        """Not there: compute_at moves one stage at a time."""
        refuse("create_group", "", "is not supported", "use compute_at on each stage")

    def to_prim_func(self, args, name="main"):
        """The scheduled PrimFunc of `args` (tensors, inputs and outputs; scalar Vars), called `name`.

        Raises ScheduleError, naming the stage, for what tir.Schedule refuses.
        """
        return replay(self, args, name)

    # ------------------------------------------------------------ caches

    def cache_read(self, tensor, scope, readers):
        """Let `readers` (operations or tensors) read a copy of the tensor in memory `scope`; returns the copy."""
        stage = self[tensor]
        readers = readers if isinstance(readers, (list, tuple)) else [readers]
        if not readers:
            refuse("cache_read", "'readers'", f"of {tensor.name} is empty", "name who reads the copy")
        for other in self.stages:
            if isinstance(other.op, ScanOp) and tensor.op in [s.op for s in other.op.state]:
                refuse("cache_read", "'tensor'", f"{tensor.name} is a state of scan {other.op.name}, which is copied "
                       "before it is computed")
        found = [self[r] for r in readers]
        for reader in found:
            if all(self[t] is not stage for t in self.inputs(reader)):
                refuse("cache_read", "'readers'", f"stage {reader.op.name} does not read {tensor.name}",
                       f"it reads {', '.join(t.name for t in self.inputs(reader)) or 'nothing'}")
        names = [f"ax{i}" for i in range(tensor.ndim)]
        copy = compute(tensor.shape, lambda *i: tensor[i], f"{tensor.name}.{scope}", varargs_names=names)
        for reader in found:
            key = stage, tensor.value_index
            while key in reader.reads:  # the copy of a copy is read instead of the last one
                last = reader.reads[key]
                key = self[last], last.value_index
            reader.reads[key] = copy
        self._insert(copy.op, scope, self.stages.index(stage) + 1)
        return copy

    def cache_write(self, tensor, scope):
        """Compute the tensor (or list: all outputs of one operation) in memory `scope`, and copy it out of there.

        Returns the tensor in that memory, which has the reduction; the stage of the old one only copies.
        """
        several = isinstance(tensor, (list, tuple))
        tensors = list(tensor) if several else [tensor]
        if not tensors or len({t.op for t in tensors}) != 1:
            refuse("cache_write", "'tensor'", "must be a tensor, or the outputs of one operation")
        stage = self[tensors[0]]
        op = stage.op
        if not isinstance(op, ComputeOp):
            refuse("cache_write", "'tensor'", f"{op.name} is a {type(op).__name__}, which is no compute")
        if len(tensors) != op.num_outputs:
            refuse("cache_write", "'tensor'", f"{op.name} has {op.num_outputs} outputs, {len(tensors)} are given",
                   "give all in a list")
        if stage.relations or stage.marks:
            refuse("cache_write", "'tensor'", f"stage {op.name} is split, reordered or marked already",
                   "cache_write comes first")
        axis = tuple(_copied(iv, ".c") for iv in op.axis)
        body = rewritten(op.body, {a.var: b.var for a, b in zip(op.axis, axis)})
        cached = ComputeOp(f"{op.name}.{scope}", axis, op.reduce_axis, body, dict(op.attrs), op.tag)
        indices = tuple(iv.var for iv in op.axis)
        reading = tuple(Tensor(cached, i)[indices] for i in range(op.num_outputs))
        new = self._insert(cached, scope, self.stages.index(stage))
        self._replace(stage, op.replace(reduce_axis=(), body=reading), new)
        stage.all_iter_vars, stage.leaf_iter_vars = list(op.axis), list(op.axis)
        return [Tensor(cached, i) for i in range(op.num_outputs)] if several else Tensor(cached, tensors[0].value_index)

    # ------------------------------------------------------------ rfactor

    def rfactor(self, tensor, axis, factor_axis=0):
        """Reduce into one partial result per value of `axis`, a reduce axis of the tensor's stage, then reduce those.

        Returns the tensor of partial results (a list when there are several outputs); its dimension factor_axis counts
        the values of `axis`, and its stage reduces over the stage's other reduce axes. The tensor's stage reduces over
        one new axis; splits of its spatial axes stay.
        """
        stage = self[tensor]
        op = stage.op
        self._require_factorable(stage, axis)
        place = factor_axis + len(op.axis) + 1 if factor_axis < 0 else factor_axis
        if not 0 <= place <= len(op.axis):
            refuse("rfactor", "'factor_axis'", f"{factor_axis} is no dimension of the partial results of {op.name}, "
                   f"which have {len(op.axis) + 1}")
        partial = _partial(stage, axis, place)
        again = reduce_axis(axis.dom, axis.var.name + ".v")
        indices = [iv.var for iv in op.axis]
        indices.insert(place, again.var)
        sources = [None] * op.num_outputs
        for i, part in enumerate(op.body):
            sources[part.value_index] = Tensor(partial, i)[tuple(indices)]
        body = tuple(part.replace(source=tuple(sources), axis=(again,), condition=const(True)) for part in op.body)
        new = self._insert(partial, stage.scope, self.stages.index(stage))
        self._replace(stage, op.replace(reduce_axis=(again,), body=body), new)
        _drop_reduction(stage, again)
        outputs = [Tensor(partial, i) for i in range(op.num_outputs)]
        return outputs[0] if len(outputs) == 1 else outputs

    def _require_factorable(self, stage, axis):
        op = stage.op
        stage._require_leaf("rfactor", "axis", axis)
        if not isinstance(op.body[0], Reduce) or axis.iter_type != "reduce":
            refuse("rfactor", "'axis'", f"{axis.var.name} of stage {op.name} is no axis of a reduction",
                   "take a reduce axis, or a part that split made of one")
        if op.body[0].init:
            refuse("rfactor", "'tensor'", f"the reduction of stage {op.name} starts from an init, which would be added "
                   "once per partial result", "add it in a compute of its own")
        mixed = next((a for a in stage.leaf_iter_vars if a.iter_type == "opaque"), None)
        if mixed is not None:
            refuse("rfactor", "'axis'", f"axis {mixed.var.name} of stage {op.name} fuses the reduction with other axes",
                   "fuse after rfactor")
        marked = next((m.axis for m in stage.marks if m.axis is not None and m.axis.iter_type == "reduce"), None)
        if marked is not None:
            refuse("rfactor", "'axis'", f"axis {marked.var.name} of stage {op.name} is marked already",
                   "mark the axes after rfactor")

    # ------------------------------------------------------------ for the package

    def resolve(self, tensor, reader):
        """The tensor that `reader` (None: an argument) reads in place of `tensor`: it, or a copy of it."""
        reads = self[reader].reads if reader is not None else {}
        key = self[tensor], tensor.value_index
        while key in reads:
            key = self[reads[key]], reads[key].value_index
        return Tensor(key[0].op, key[1])

    def scope(self, op):
        """In what memory the results of an operation lie."""
        return self[op].scope

    def inputs(self, stage):
        """The tensors that a stage reads, caches among them."""
        return [self.resolve(t, stage.op) for t in stage.op.input_tensors]

    def _insert(self, op, scope, place):
        stage = Stage(self, op, scope)
        self.stage_map[op] = stage
        self.stages.insert(place, stage)
        return stage

    def _replace(self, stage, op, new):
        """Let a stage have another operation, which reads stage `new`, where its old expression has gone."""
        stage.op = op
        self.stage_map[op] = stage
        new.reads, stage.reads = stage.reads, {}


def _copied(iv, suffix=""):
    return IterVar(iv.dom, Var(iv.var.name + suffix, iv.var.dtype), "spatial")


def _partial(stage, axis, place):
    """The operation of the partial results of a stage's reduction, one per value of `axis`."""
    op = stage.op
    values, conditions = root_values(stage, "reduce")
    rest = tuple(a for a in stage.leaf_iter_vars if a.iter_type == "reduce" and a is not axis)
    axes = [_copied(iv) for iv in op.axis]
    mapping = {old.var: new.var for old, new in zip(op.axis, axes)}
    factor = _copied(axis)
    axes.insert(place, factor)
    mapping.update((iv.var, rewritten(values[iv], {axis.var: factor.var})) for iv in op.reduce_axis)
    first = op.body[0]
    condition = rewritten(first.condition, mapping)
    for c in conditions:
        condition = logical_and(condition, rewritten(c, {axis.var: factor.var}))
    source = tuple(rewritten(e, mapping) for e in first.source)
    if rest:
        body = tuple(part.replace(source=source, axis=rest, condition=condition) for part in op.body)
    else:
        body = tuple(source[p.value_index] if is_const_int(condition, 1) else if_then_else(
            condition, source[p.value_index], p.combiner.identity[p.value_index]) for p in op.body)
    return ComputeOp(op.name + ".rf", tuple(axes), rest, body, dict(op.attrs), op.tag)


def _drop_reduction(stage, again):
    """Take a stage's reduce axes away, and give it one new one."""
    gone = {a for a in stage.all_iter_vars if a.iter_type == "reduce"}
    relations = []
    for step in stage.relations:
        if isinstance(step, Reorder):
            left = tuple(a for a in step.axes if a not in gone)
            if len(left) > 1:
                relations.append(Reorder(left))
        elif (step.parent if isinstance(step, Split) else step.fused) not in gone:
            relations.append(step)
    stage.relations = relations
    stage.all_iter_vars = [a for a in stage.all_iter_vars if a not in gone] + [again]
    stage.leaf_iter_vars = [a for a in stage.leaf_iter_vars if a not in gone] + [again]
