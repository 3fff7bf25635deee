"""Results of a script's T.* functions that are no expressions: requests to the statement parser.

A request is only data; TIRParser turns it into nodes where its place in the script says what it belongs to.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ..dtype import DataType
from ..expr import AS_VARIABLE, IterVar, Var
from ..tir.buffer import decl_buffer


class Spec:
    """Base of requests. `place` says where one may stand, for error messages."""

    place = "a script"


@dataclass(frozen=True)
class Fresh(Spec):
    """T.int64(): a variable to be made under the name it is assigned to. most: the upper bound of a dimension that a
    run decides, T.int64(most=8). is_size: whether it is never negative, T.int64(is_size_var=True).

    Outside of scripts it computes as the variable that it stands for."""

    dtype: DataType
    most: object = None
    is_size: bool = False
    place = "`name = T.int64()`"

    @cached_property
    def var(self):
        return Var("v", self.dtype, self.most, is_size=self.is_size)

    def __prim_expr__(self):
        return self.var


for _method in AS_VARIABLE:
    setattr(Fresh, _method, getattr(IterVar, _method))


@dataclass(frozen=True)
class Meta(Spec):
    """T.meta_var(value): the name stands for the value itself."""

    value: object
    place = "`name = T.meta_var(value)`"

    def __iter__(self):
        """Each of several values."""
        return map(Meta, self.value)


@dataclass(frozen=True)
class Head:
    """One loop: `minimum` to `stop`, None for a `minimum` of 0."""

    kind: str
    minimum: object
    stop: object
    thread: str | None = None
    annotations: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Loops(Spec):
    heads: tuple
    place = "`for ... in`"


@dataclass(frozen=True)
class BlockSpec(Spec):
    name: str
    no_realize: bool = False
    place = "`with T.block(name):`"


@dataclass(frozen=True)
class InitSpec(Spec):
    place = "`with T.init():` in a block"


@dataclass(frozen=True)
class AxisSpec(Spec):
    iter_type: str
    dom: object
    value: object
    place = "`v = T.axis.spatial(extent, value)` in a block"


@dataclass(frozen=True)
class RemapSpec(Spec):
    kinds: str
    values: tuple
    place = '`vi, vj = T.axis.remap("SS", [i, j])` in a block'


@dataclass(frozen=True)
class RegionsSpec(Spec):
    """T.reads and T.writes."""

    field: str
    regions: tuple
    place = "a statement of its own in a block"


@dataclass(frozen=True)
class WhereSpec(Spec):
    predicate: object
    place = "a statement of its own in a block"


@dataclass(frozen=True)
class AttrsSpec(Spec):
    """T.block_attr, T.func_attr and R.func_attr. owner: "block" or "function"."""

    owner: str
    attrs: dict
    place = "a statement of its own"


@dataclass(frozen=True)
class LetSpec(Spec):
    value: object
    dtype: str | None
    var: object = None
    place = "`with T.LetStmt(value) as name:`"


@dataclass(frozen=True)
class ConstantSpec(Spec):
    """T.allocate_const: a ConstantArray, to which a name points."""

    value: object
    place = "`name = T.allocate_const(data, dtype, extents)`"


@dataclass(frozen=True)
class AssertSpec(Spec):
    condition: object
    message: object
    place = "`with T.Assert(condition, message):`"


@dataclass(frozen=True)
class AttrSpec(Spec):
    target: object
    key: str
    value: object
    place = "a statement of its own, or `with T.attr(...):`"


@dataclass(frozen=True)
class RealizeSpec(Spec):
    """T.realize: the memory of a region of a buffer, where a condition holds."""

    region: object
    scope: str
    condition: object = True
    place = "a statement of its own, or `with T.realize(region, scope):`"


@dataclass(frozen=True)
class EnvThread(Spec):
    """T.env_thread(tag): a variable that T.launch_thread, or T.attr with "thread_extent", gives its range."""

    tag: str
    place = '`name = T.env_thread("threadIdx.x")`'


@dataclass(frozen=True)
class LaunchSpec(Spec):
    """T.launch_thread(thread, extent): thread is a tag or the variable of an EnvThread."""

    thread: object
    extent: object
    place = '`with T.launch_thread("threadIdx.x", 32) as name:`, or `name = T.launch_thread(...)`'


@dataclass(frozen=True)
class Ignored(Spec):
    """A redundant statement, which the parser ignores: T.preflattened_buffer."""

    place = "a statement of its own"


@dataclass(frozen=True)
class WhileSpec(Spec):
    condition: object
    place = "`with T.While(condition):`"


@dataclass(frozen=True)
class BufferSpec(Spec):
    """A buffer to be made under the name it is assigned to.

    how: "buffer" (T.Buffer: memory that others own), "alloc", "match", "decl" or "allocate". layout: those of
    decl_buffer's other arguments that are given. source: what a match matches.
    """

    how: str
    shape: tuple
    dtype: str = "float32"
    data: object = None
    layout: dict = field(default_factory=dict)
    source: object = None
    place = "`name = T.alloc_buffer(shape, dtype)`"

    def make(self, name, convert):
        """The Buffer. convert(value): an expression of what was written in the script."""
        layout = dict(self.layout)
        if "strides" in layout:
            layout["strides"] = [Var(s, "int32") if isinstance(s, str) else convert(s) for s in layout["strides"]]
        if "elem_offset" in layout:
            layout["elem_offset"] = convert(layout["elem_offset"])
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        return decl_buffer([convert(s) for s in shape], self.dtype, name, data=getattr(self.data, "data", self.data),
                           **layout)
