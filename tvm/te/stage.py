"""Stage: what a schedule is told about the loops of one operation. It records; replay.py carries out."""
from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import EQ, IterVar, Range, Var, as_expr, const, is_const_int
from ...ir.schedule.errors import ScheduleError
from ...ir.schedule.te_intrin import TensorIntrin
from ...ir.te.tensor import ComputeOp
from ...ir.tir.hints import DOUBLE_BUFFER


@dataclass(frozen=True)
class Split:
    """parent = outer * (extent of inner) + inner. factors: what tir's split gets."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factors: tuple


@dataclass(frozen=True)
class Fuse:
    """The axes, outermost first, counted by one."""

    axes: tuple
    fused: IterVar


@dataclass(frozen=True)
class Reorder:
    """The axes in their new order, each at the place of another."""

    axes: tuple


@dataclass(frozen=True)
class Mark:
    """A fact about a loop (or, axis None, about the stage's block): the tir primitive and its other arguments."""

    primitive: str
    axis: IterVar
    args: tuple = ()


def refuse(primitive, argument, reason, hint=""):
    """Raise the ScheduleError of a refused request; nothing has changed."""
    raise ScheduleError(primitive, argument, reason, hint)


class Stage:
    """One operation of a schedule.

    op, origin_op: the operation now and as the user wrote it (caching and rfactor replace it; its spatial axes stay).
    all_iter_vars: every axis ever; leaf_iter_vars: those that are loops now, outermost first; relations: Split, Fuse
    and Reorder in order. attach_type: "root", "inline" or "scope", the last with attach_stage and attach_ivar. scope:
    the memory of its results. reads: {(stage, output): tensor} that it reads from caches.
    """

    def __init__(self, schedule, op, scope="global"):
        self.schedule, self.op, self.origin_op, self.scope = schedule, op, op, scope
        self.is_output = False
        self.all_iter_vars = [*getattr(op, "axis", ()), *getattr(op, "reduce_axis", ())]
        self.leaf_iter_vars = list(self.all_iter_vars)
        self.relations, self.marks, self.reads = [], [], {}
        self.attach_type, self.attach_stage, self.attach_ivar = "root", None, None

    def __repr__(self):
        return f"stage({self.op.name})"

    # ------------------------------------------------------------ structure

    def split(self, parent, factor=None, nparts=None):
        """Split an axis into (outer, inner): `factor` is the extent of inner, or `nparts` that of outer.

        Where they do not divide the extent, the last iterations are cut off by a condition.
        """
        self._require_leaf("split", "parent", parent)
        if (factor is None) == (nparts is None):
            refuse("split", "", f"axis {parent.var.name} of stage {self.op.name}: "
                   f"{'neither' if factor is None else 'both'} of factor and nparts are given", "give one")
        name, given = ("factor", factor) if nparts is None else ("nparts", nparts)
        number = _positive(given)
        if number is None:
            refuse("split", f"'{name}'", f"for axis {parent.var.name} of stage {self.op.name} must be a positive int, "
                   f"not {given!r}")
        extent = parent.dom.extent
        rest = (extent + (number - 1)) // number
        number = const(number, extent.dtype)
        outer = _derived(parent, "outer", rest if nparts is None else number)
        inner = _derived(parent, "inner", number if nparts is None else rest)
        factors = (None, int(number)) if nparts is None else (int(number), None)
        at = self._place(parent)
        self.leaf_iter_vars[at:at + 1] = [outer, inner]
        self.all_iter_vars += [outer, inner]
        self.relations.append(Split(parent, outer, inner, factors))
        return outer, inner

    def fuse(self, *axes):
        """Make neighbouring axes, outermost first, one; returns it."""
        axes = _flat(axes)
        if not axes:
            refuse("fuse", "'axes'", f"of stage {self.op.name} is empty", "give the axes to fuse, outermost first")
        for a in axes:
            self._require_leaf("fuse", "axes", a)
        places = [self._place(a) for a in axes]
        if places != list(range(places[0], places[0] + len(axes))):
            refuse("fuse", "'axes'", f"{_names(axes)} are not neighbours, outermost first, among the axes "
                   f"{_names(self.leaf_iter_vars)} of stage {self.op.name}", "reorder them first")
        if len(axes) == 1:
            return axes[0]
        extent = axes[0].dom.extent
        for a in axes[1:]:
            extent = extent * a.dom.extent
        types = {a.iter_type for a in axes}
        fused = IterVar(Range(const(0, extent.dtype), extent),
                        Var(".".join(a.var.name for a in axes) + ".fused", extent.dtype),
                        types.pop() if len(types) == 1 else "opaque")
        self.leaf_iter_vars[places[0]:places[0] + len(axes)] = [fused]
        self.all_iter_vars.append(fused)
        self.relations.append(Fuse(axes, fused))
        return fused

    def reorder(self, *axes):
        """Nest the given axes in the given order, outermost first; the others stay in place."""
        axes = _flat(axes)
        for a in axes:
            self._require_leaf("reorder", "axes", a)
        places = sorted(self._place(a) for a in axes)
        if len(set(places)) != len(axes):
            refuse("reorder", "'axes'", f"{_names(axes)} of stage {self.op.name} has an axis twice")
        for place, a in zip(places, axes):
            self.leaf_iter_vars[place] = a
        self.relations.append(Reorder(axes))

    def tile(self, x_parent, y_parent, x_factor, y_factor):
        """Split two axes and nest them as (x_outer, y_outer, x_inner, y_inner), which is returned."""
        if x_parent is y_parent:
            refuse("tile", "'y_parent'", f"axis {x_parent.var.name} of stage {self.op.name} is given twice")
        xo, xi = self.split(x_parent, factor=x_factor)
        yo, yi = self.split(y_parent, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    # ------------------------------------------------------------ where it is computed

    def compute_at(self, parent, scope):
        """Compute inside the loop over axis `scope` of stage `parent`, which uses the result."""
        if not isinstance(parent, Stage) or parent.schedule is not self.schedule:
            refuse("compute_at", "'parent'", f"must be another stage of the schedule of {self.op.name}")
        if parent is self:
            refuse("compute_at", "'parent'", f"is the stage {self.op.name} itself")
        self._require_movable("compute_at")
        parent._require_leaf("compute_at", "scope", scope)
        self.attach_type, self.attach_stage, self.attach_ivar = "scope", parent, scope

    def compute_inline(self):
        """Compute each element where it is used; the stage disappears."""
        self._require_movable("compute_inline")
        if self.op.reduce_axis:
            refuse("compute_inline", "", f"stage {self.op.name} is a reduction", "use compute_at")
        self.attach_type, self.attach_stage, self.attach_ivar = "inline", None, None

    def compute_root(self):
        """Compute before everything that uses it, in loops of its own; how every stage starts."""
        self.attach_type, self.attach_stage, self.attach_ivar = "root", None, None

    def set_scope(self, scope):
        """Keep the results in another kind of memory, such as "local"."""
        self.scope = scope

    # ------------------------------------------------------------ marks

    def vectorize(self, var):
        """Run the axis as lanes of vectors."""
        self._mark("vectorize", var)

    def parallel(self, var):
        """Run the axis on several threads."""
        self._mark("parallel", var)

    def unroll(self, var):
        """Repeat the body instead of looping."""
        self._mark("unroll", var)

    def bind(self, ivar, thread_ivar):
        """Run the axis on the GPU threads of te.thread_axis(...)."""
        if not isinstance(thread_ivar, IterVar) or not thread_ivar.thread_tag:
            refuse("bind", "'thread_ivar'", f"for axis {getattr(getattr(ivar, 'var', None), 'name', ivar)} of stage "
                   f"{self.op.name} is no thread axis", 'make one: te.thread_axis("threadIdx.x")')
        self._mark("bind", ivar, thread_ivar.thread_tag)

    def pragma(self, var, pragma_type, pragma_value=None):
        """Attach pragma_type: pragma_value to the axis, as "auto_unroll_max_step", "unroll_explicit", "import_c"."""
        self._mark("annotate", var, f"pragma_{pragma_type}", True if pragma_value is None else pragma_value)

    def storage_align(self, axis, factor, offset):
        """Let the stride of dimension `axis` (of op.axis) of the result be offset modulo factor, in elements."""
        place = next((i for i, a in enumerate(getattr(self.op, "axis", ())) if a is axis), None)
        if place is None:
            refuse("storage_align", "'axis'", f"must be one of s[{self.op.name}].op.axis")
        self.marks.append(Mark("storage_align", None, (0, place, factor, offset)))

    def tensorize(self, var, tensor_intrin):
        """Let an intrinsic (of te.decl_tensor_intrin, or the name of a tir TensorIntrin) do the loops from `var` in:
        the last one that is given for an axis."""
        if not isinstance(tensor_intrin, (str, TensorIntrin)):
            refuse("tensorize", "'tensor_intrin'", f"for stage {self.op.name} must be of te.decl_tensor_intrin or a "
                   f"name, not {tensor_intrin!r}")
        self.marks = [m for m in self.marks if m.primitive != "tensorize" or m.axis is not var]
        self._mark("tensorize", var, tensor_intrin)

    def double_buffer(self):
        """Fill two copies of the result in turns, so that one is filled while the other one is read."""
        self.marks.append(Mark("annotate", None, (DOUBLE_BUFFER, 0)))

    def set_store_predicate(self, predicate):
        """Let the thread that `predicate` tells, as thread == 0, store the result. Nothing is done about it: of threads
        that reduce together one stores anyhow, of others each holds the same value."""
        sides = (predicate.a, predicate.b) if isinstance(predicate, EQ) else ()
        if not any(isinstance(side, Var) for side in sides) or not any(map(is_const_int, sides)):
            refuse("set_store_predicate", "'predicate'", f"for stage {self.op.name} must be that a thread axis is a "
                   f"number, as thread_x.var.equal(0), not {predicate}")

    def prefetch(self, tensor, var, offset):
        """Ask in each turn of the axis for what the stage reads of `tensor` `offset` turns later, a cache line at a
        time. A host's C does; what it asks for need not exist."""
        if tensor.key not in [t.key for t in self.schedule.inputs(self)]:
            refuse("prefetch", "'tensor'", f"stage {self.op.name} does not read {tensor.name}")
        if _positive(offset) is None:
            refuse("prefetch", "'offset'", f"for stage {self.op.name} must be a positive int, not {offset!r}")
        self._mark("prefetch", var, tensor, int(offset))

    # ------------------------------------------------------------ for the package

    def _mark(self, primitive, axis, *args):
        self._require_leaf(primitive, "var", axis)
        self.marks.append(Mark(primitive, axis, args))

    def _place(self, axis):
        return next(i for i, a in enumerate(self.leaf_iter_vars) if a is axis)

    def _require_leaf(self, primitive, argument, axis):
        """Refuse unless the axis is a loop of this stage now."""
        if not isinstance(axis, IterVar):
            refuse(primitive, f"'{argument}'", f"for stage {self.op.name} must be an axis (IterVar), not {axis!r}",
                   f"take one of s[{self.op.name}].op.axis or what split, tile and fuse return")
        if any(a is axis for a in self.leaf_iter_vars):
            return
        name, known = axis.var.name, f"its axes now are {_names(self.leaf_iter_vars) or 'none'}"
        for step in self.relations:
            if isinstance(step, Split) and step.parent is axis:
                refuse(primitive, f"'{argument}'", f"axis {name} of stage {self.op.name} is split already", known)
            if isinstance(step, Fuse) and any(a is axis for a in step.axes):
                refuse(primitive, f"'{argument}'", f"axis {name} of stage {self.op.name} is fused already", known)
        for stage in self.schedule.stages:
            if stage is not self and any(a is axis for a in stage.all_iter_vars):
                refuse(primitive, f"'{argument}'", f"axis {name} is of stage {stage.op.name}, not of stage "
                       f"{self.op.name}", known)
        refuse(primitive, f"'{argument}'", f"axis {name} is not of stage {self.op.name}", known)

    def _require_movable(self, primitive):
        if not isinstance(self.op, ComputeOp):
            refuse(primitive, "", f"stage {self.op.name} is a {type(self.op).__name__}, which is no compute")
        if self.is_output:
            refuse(primitive, "", f"stage {self.op.name} is an output of the schedule", "only what others use can move")


def _positive(value):
    if hasattr(value, "__index__") and not isinstance(value, bool) and int(value) > 0:
        return int(value)
    return None


def _derived(parent, suffix, extent):
    return IterVar(Range(const(0, extent.dtype), as_expr(extent)), Var(f"{parent.var.name}.{suffix}", extent.dtype),
                   parent.iter_type)


def _flat(axes):
    return tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes


def _names(axes):
    return ", ".join(a.var.name for a in axes)


def root_values(stage, kind):
    """({axis of the operation: its value over the loops now}, [conditions that splits need]) of one iterator type."""
    values = {a: a.var for a in stage.leaf_iter_vars}
    conditions = []
    for step in reversed(stage.relations):
        if isinstance(step, Split):
            low, extent = step.parent.dom.min, step.parent.dom.extent
            value = values[step.outer] * step.inner.dom.extent + values[step.inner]
            covered = step.outer.dom.extent * step.inner.dom.extent
            if step.parent.iter_type == kind and not (is_const_int(covered) and is_const_int(extent)
                                                      and covered.value == extent.value):
                conditions.append(value < extent)
            values[step.parent] = value if is_const_int(low, 0) else value + low
        elif isinstance(step, Fuse):
            rest = values[step.fused]
            for a in reversed(step.axes[1:]):
                values[a], rest = rest % a.dom.extent + a.dom.min, rest // a.dom.extent
            values[step.axes[0]] = rest + step.axes[0].dom.min
    return values, conditions
