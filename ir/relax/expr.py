"""Graph IR nodes and struct info. Names are TVM Relax's; classes that TensorIR names too are RelaxVar, RelaxCall
inside the package and Var, Call in `ingot.relax`."""
from __future__ import annotations

import numpy as np

from ..dtype import DataType
from ..expr import IntImm, PrimExpr, as_expr, cast
from ..module import BaseFunc, GlobalVar  # noqa: F401
from ..node import Mutator, Node, node, node_field
from ..origin import Origin


# ---------------------------------------------------------------- struct info

class StructInfo(Node):
    """What is known of a value before it runs."""

    __slots__ = ()

    def __str__(self):
        from ..script import script
        return script(self)


@node
class TensorStructInfo(StructInfo):
    """shape: a tuple of int64 expressions, or None when at most the number of dimensions is known (ndim, -1: not)."""

    shape: tuple
    dtype: DataType
    ndim: int = -1

    def __post_init__(self):
        object.__setattr__(self, "dtype", DataType(self.dtype))
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(cast(as_expr(s), "int64") for s in self.shape))
            object.__setattr__(self, "ndim", len(self.shape))

    @property
    def static_shape(self):
        """The shape as ints; None when any dimension is symbolic."""
        if self.shape is None or not all(isinstance(s, IntImm) for s in self.shape):
            return None
        return tuple(s.value for s in self.shape)


@node
class ShapeStructInfo(StructInfo):
    values: tuple = None
    ndim: int = -1


@node
class PrimStructInfo(StructInfo):
    dtype: DataType


@node
class TupleStructInfo(StructInfo):
    fields: tuple


@node
class ObjectStructInfo(StructInfo):
    pass


# ---------------------------------------------------------------- expressions

class RelaxExpr(Node):
    """Base of graph expressions; every one has `struct_info`."""

    __slots__ = ()

    def __str__(self):
        from ..script import script
        return script(self)


@node
class RelaxVar(RelaxExpr):
    """A graph variable, equal only to itself."""

    name: str
    struct_info: StructInfo
    origin: Origin = node_field(ignore=True, default=None)
    _is_binder_leaf = True


@node
class DataflowVar(RelaxExpr):
    """A variable visible only inside its dataflow block."""

    name: str
    struct_info: StructInfo
    origin: Origin = node_field(ignore=True, default=None)
    _is_binder_leaf = True


@node
class Constant(RelaxExpr):
    """A tensor known at compile time. `data` is a numpy array and must not be written to; `name` is the model's."""

    data: np.ndarray
    name: str = node_field(ignore=True, default="")

    @property
    def struct_info(self):
        return TensorStructInfo(self.data.shape, self.data.dtype.name)


@node
class ShapeExpr(RelaxExpr):
    """A shape as a value: int64 expressions."""

    values: tuple

    def __post_init__(self):
        object.__setattr__(self, "values", tuple(cast(as_expr(v), "int64") for v in self.values))

    @property
    def struct_info(self):
        return ShapeStructInfo(self.values, len(self.values))


@node
class PrimValue(RelaxExpr):
    value: PrimExpr

    @property
    def struct_info(self):
        return PrimStructInfo(self.value.dtype)


@node
class RelaxTuple(RelaxExpr):
    fields: tuple

    @property
    def struct_info(self):
        return TupleStructInfo(tuple(f.struct_info for f in self.fields))


@node
class TupleGetItem(RelaxExpr):
    tuple_value: RelaxExpr
    index: int

    @property
    def struct_info(self):
        return self.tuple_value.struct_info.fields[self.index]


@node
class RelaxCall(RelaxExpr):
    """A call of an operator (op: its name, a key of the OpSpec table) or, op "call_tir", of the PrimFunc attrs["gv"].

    call_tir is destination-passing: args are the inputs, struct_info the outputs allocated for it;
    attrs["sym_args"] are the symbolic dimensions passed after the tensors.
    """

    op: str
    args: tuple
    attrs: dict
    struct_info: StructInfo


@node
class If(RelaxExpr):
    """true_branch where `cond`, a bool tensor without dimensions, holds, else false_branch; both are SeqExprs."""

    cond: RelaxExpr
    true_branch: RelaxExpr
    false_branch: RelaxExpr

    @property
    def struct_info(self):
        return self.true_branch.struct_info


# ---------------------------------------------------------------- bindings and functions

@node
class VarBinding(Node):
    """var = value."""

    var: RelaxExpr = node_field(define=True)
    value: RelaxExpr = None


@node
class MatchCast(Node):
    """var = value, checked at run time to have var's struct info, which may define symbolic dimensions."""

    var: RelaxExpr = node_field(define=True)
    value: RelaxExpr = None


@node
class BindingBlock(Node):
    bindings: tuple


@node
class DataflowBlock(Node):
    """Bindings without side effects or control flow."""

    bindings: tuple


@node
class SeqExpr(RelaxExpr):
    blocks: tuple
    body: RelaxExpr

    @property
    def struct_info(self):
        return self.body.struct_info


@node
class Function(BaseFunc):
    """A graph function. attrs: "global_symbol", "num_input" ..."""

    params: tuple = node_field(define=True)
    body: SeqExpr = None
    ret_struct_info: StructInfo = None
    attrs: dict = node_field(default_factory=dict)

    @property
    def bindings(self):
        """All bindings in order."""
        return [b for block in self.body.blocks for b in block.bindings]

    @property
    def outputs(self):
        """The returned values: one, or a tuple's fields."""
        out = self.body.body
        return list(out.fields) if isinstance(out, RelaxTuple) else [out]

    def script(self, show_meta=False):
        from ..script import script
        return script(self, show_meta)

    __str__ = script

    def show(self):
        from ..script.highlight import show
        show(self.script())


def call_tir(gv, args, out_sinfo, sym_args=()):
    """A destination-passing call of the PrimFunc `gv` (GlobalVar). out_sinfo: a TensorStructInfo or a list of them."""
    sinfo = TupleStructInfo(tuple(out_sinfo)) if isinstance(out_sinfo, (list, tuple)) else out_sinfo
    return RelaxCall("call_tir", tuple(args), {"gv": gv, "sym_args": tuple(sym_args)}, sinfo)


def dataflow_function(params, bindings, outputs, attrs=None):
    """A Function of one dataflow block. outputs: list of values; more than one are returned as a tuple.

    DataflowVars among the outputs become RelaxVars of the same name, since they leave their block.
    """
    bindings, outputs = _visible(tuple(bindings), list(outputs))
    body = outputs[0] if len(outputs) == 1 else RelaxTuple(tuple(outputs))
    return Function(tuple(params), SeqExpr((DataflowBlock(bindings),), body), body.struct_info, dict(attrs or {}))


def _visible(bindings, outputs):
    """Bindings and outputs with the DataflowVars that are outputs replaced."""
    leaving = {id(o): RelaxVar(o.name, o.struct_info, o.origin) for o in outputs if isinstance(o, DataflowVar)}
    if not leaving:
        return bindings, outputs

    class Replace(Mutator):
        def visit_DataflowVar(self, v):
            return leaving.get(id(v), v)

        def visit_Constant(self, c):
            return c

    return Replace().visit(bindings), [leaving.get(id(o), o) for o in outputs]
