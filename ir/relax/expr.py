"""Graph IR nodes; struct info is in struct_info.py. Names are TVM Relax's; classes that TensorIR names too are
RelaxVar, RelaxCall inside the package and Var, Call in `ingot.relax`."""
from __future__ import annotations

import numpy as np

from ..dtype import DataType
from ..elements import Elements
from ..expr import Op, PrimExpr, Var as PrimVar, as_expr
from ..expr import const as prim_const
from ..module import BaseFunc, GlobalVar
from ..node import Mutator, Node, collect, node, node_field
from ..origin import Origin
from ..upper import upper, upper_method
from .callees import CALLEES, apart
from .struct_info import (  # noqa: F401
    FuncStructInfo, ObjectStructInfo, PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo,
    as_dims, as_struct_info, static_type)


# ---------------------------------------------------------------- expressions

def _method(name, swapped=False):
    def method(self, *others):
        return upper("graph_operator")(name, *(others[::-1] + (self,) if swapped else (self,) + others))
    return method


class RelaxExpr(Node):
    """Base of graph expressions; every one has `struct_info`. Python's operators, except == and !=, make calls."""

    __slots__ = ()

    def __str__(self):
        return upper("script")(self)

    __add__, __radd__ = _method("add"), _method("add", True)
    __sub__, __rsub__ = _method("subtract"), _method("subtract", True)
    __mul__, __rmul__ = _method("multiply"), _method("multiply", True)
    __truediv__, __rtruediv__ = _method("divide"), _method("divide", True)
    __floordiv__, __rfloordiv__ = _method("floor_divide"), _method("floor_divide", True)
    __mod__, __rmod__ = _method("mod"), _method("mod", True)
    __pow__, __rpow__ = _method("power"), _method("power", True)
    __neg__, astype = _method("negative"), _method("astype")
    __lt__, __le__, __gt__, __ge__ = (_method(n) for n in ("less", "less_equal", "greater", "greater_equal"))

    @property
    def struct_info_(self):
        return self.struct_info

    @property
    def shape_(self):
        """The shape of a tensor, as TVM named it before struct info."""
        return get_shape_of(self)

    @property
    def checked_type(self):
        """The struct info of a tensor without its shape, as TVM named it before struct info."""
        return static_type(self.struct_info)

    checked_type_ = _checked_type_ = checked_type

    def __call__(self, *args, attrs=None):
        """A call of a function that is a value."""
        return RelaxCall(self, args, attrs)

    def __getitem__(self, index):
        """An item of a tuple."""
        fields = self.fields if isinstance(self, RelaxTuple) else getattr(self.struct_info, "fields", None)
        if fields is None or not isinstance(index, int):
            raise TypeError(f"only tuples are indexed, by an int; this is {self.struct_info}: use relax.op.take or "
                            "relax.op.strided_slice")
        if not -len(fields) <= index < len(fields):
            raise IndexError(f"Tuple index out of range: item {index} of a tuple of {len(fields)}")
        return self.fields[index] if isinstance(self, RelaxTuple) else TupleGetItem(self, index % len(fields))


class _AnyVar(RelaxExpr):
    __slots__ = ()

    def __post_init__(self):
        info = self.struct_info
        if isinstance(info, (list, tuple, ShapeExpr)) and isinstance(self.origin, TensorStructInfo):
            info = self.origin.replace(shape=info)  # Var(name, shape, DynTensorType(ndim, dtype)), as TVM had it
            object.__setattr__(self, "origin", None)
        if info is not None:
            object.__setattr__(self, "struct_info", as_struct_info(info))

    @property
    def name_hint(self):
        return self.name

    @property
    def vid(self):
        """What tells a variable from others: itself."""
        return self


@node
class RelaxVar(_AnyVar):
    """A graph variable, equal only to itself."""

    name: str
    struct_info: StructInfo = None
    origin: Origin = node_field(ignore=True, default=None)
    _is_binder_leaf = True


@node
class DataflowVar(_AnyVar):
    """A variable visible only inside its dataflow block."""

    name: str
    struct_info: StructInfo = None
    origin: Origin = node_field(ignore=True, default=None)
    _is_binder_leaf = True


@node
class Constant(RelaxExpr):
    """A tensor known at compile time. `data` is a numpy array and must not be written to; `name` is the model's."""

    data: np.ndarray
    name: str = node_field(ignore=True, default="")

    def __post_init__(self):
        object.__setattr__(self, "data", Elements.of(self.data))

    @property
    def struct_info(self):
        return TensorStructInfo(self.data.shape, self.data.dtype.name)


@node
class ShapeExpr(RelaxExpr):
    """A shape as a value: int64 expressions."""

    values: tuple

    def __post_init__(self):
        for v in getattr(self.values, "values", self.values):
            if isinstance(v, PrimVar) and v.dtype != "int64":
                raise TypeError(f"the value in ShapeStructInfo can only have dtype of int64, {v.name} is {v.dtype}")
        object.__setattr__(self, "values", as_dims(self.values))

    def __getitem__(self, index):
        if not isinstance(index, int):
            return self.values[index]
        if not -len(self.values) <= index < len(self.values):
            raise IndexError(f"ShapeExpr index out of range: {index} of {len(self.values)} dimensions")
        return self.values[index]

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    @property
    def struct_info(self):
        return ShapeStructInfo(self.values, len(self.values))


@node
class PrimValue(RelaxExpr):
    """A number; Python's integers are int64."""

    value: PrimExpr

    def __post_init__(self):
        value = self.value
        object.__setattr__(self, "value", prim_const(int(value), "int64") if isinstance(
            value, int) and not isinstance(value, bool) else as_expr(value))

    @property
    def struct_info(self):
        return PrimStructInfo(value=self.value)


@node
class RelaxString(RelaxExpr):
    """A string as a value."""

    value: str

    @property
    def struct_info(self):
        return ObjectStructInfo()


@node
class DataTypeImm(RelaxExpr):
    """A dtype as a value."""

    value: DataType

    def __post_init__(self):
        object.__setattr__(self, "value", DataType(self.value))

    @property
    def struct_info(self):
        return ObjectStructInfo()


@node
class RelaxTuple(RelaxExpr):
    fields: tuple

    def __post_init__(self):
        object.__setattr__(self, "fields", tuple(self.fields))

    @property
    def struct_info(self):
        infos = tuple(f.struct_info for f in self.fields)
        return None if None in infos else TupleStructInfo(infos)

    def __len__(self):
        return len(self.fields)

    def __bool__(self):  # a value that is there, also without fields
        return True


@node
class TupleGetItem(RelaxExpr):
    tuple_value: RelaxExpr
    index: int

    @property
    def struct_info(self):
        fields = getattr(self.tuple_value.struct_info, "fields", None)
        return None if fields is None else fields[self.index]


class Attrs(dict):
    """A call's attributes: a dict that scripts also read as call.attrs.axis."""

    def __getattr__(self, name):
        if name in self:
            value = self[name]
            numbers = isinstance(value, tuple) and value and all(type(v) is int for v in value)
            return tuple(prim_const(v, "int64") for v in value) if numbers else value
        raise AttributeError(f"no attribute {name}; there are {', '.join(self) or 'none'}")


class _GraphOp(Op):
    """call.op.name is "relax.add", as TVM has it."""

    __slots__ = ()
    space = "relax."


@node
class ExternFunc(RelaxExpr):
    """A foreign function as a value: what call_packed and call_dps_packed call by name, or the callee of a call."""

    global_symbol: str
    struct_info: StructInfo = node_field(ignore=True, default=None)

    def __post_init__(self):
        if self.struct_info is None:
            object.__setattr__(self, "struct_info", FuncStructInfo.opaque_func())

    attrs = property(lambda self: {}, doc="As functions of a module have them: none.")

    def __str__(self):
        return self.global_symbol


def extern(name, struct_info=None):
    """The ExternFunc `name`."""
    return ExternFunc(name, struct_info)


# What struct info names as a derive_func -> the function that tells a result's struct info from a call's arguments.
DERIVED = {}

# Calls of foreign functions.
PACKED = ("call_packed", "call_pure_packed", "call_inplace_packed", "call_dps_packed", "call_builtin_with_ctx")


# Operators with side effects.
IMPURE = frozenset({"call_packed", "print", "assert_op", "invoke_closure", "call_inplace_packed",
                    "call_builtin_with_ctx", "vm.call_tir_dyn", "memory.kill_storage", "memory.kill_tensor",
                    "vm.kill_object"})

# The attribute of a call_tir or call_if that has side effects.
EFFECTS = "effects"

# Operators that give new memory, which a later call fills.
ALLOCATORS = frozenset({"builtin.alloc_tensor", "memory.alloc_storage", "memory.alloc_tensor", "vm.alloc_storage",
                        "vm.alloc_tensor"})


@node
class RelaxCall(RelaxExpr):
    """A call of an operator (op: its name, a key of the OpSpec table), of a function that is a value (op: a variable),
    or of a function of the module:

    "call": of the graph function attrs["gv"]. "call_tir": of the PrimFunc attrs["gv"], destination-passing: args are
    the inputs, struct_info the outputs allocated for it; attrs["sym_args"] are the symbolic dimensions passed after
    the tensors. "call_dps_packed": as call_tir, of the foreign function named attrs["func"]. "call_packed": of the
    foreign function attrs["func"], which returns its result and may have side effects; "call_pure_packed": has none;
    "call_builtin_with_ctx": as call_packed, of a function of the runtime that is given the machine first.
    "call_inplace_packed": none but that result n is argument attrs["inplace_indices"][n], changed (-1: a new value).
    "call_if", "call_loop", "tensor_to_shape": what a run decides, see control.py.
    """

    op: object
    args: tuple
    attrs: dict = node_field(default_factory=dict)
    struct_info: StructInfo = None

    def __init__(self, op, args, attrs=None, struct_info=None, sinfo_args=None):
        """sinfo_args: of a foreign function, what TVM has in place of struct_info: one, or a list of them."""
        if isinstance(struct_info, (list, tuple)):
            struct_info, sinfo_args = None, struct_info
        if struct_info is None and sinfo_args:
            one = isinstance(sinfo_args, (list, tuple)) and len(sinfo_args) == 1
            struct_info = as_struct_info(sinfo_args[0] if one else sinfo_args)
        for name, value in zip(self._fields, (op, args, attrs, struct_info)):
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self):
        if isinstance(self.op, GlobalVar):  # as TVM has calls of functions
            object.__setattr__(self, "attrs", {**(self.attrs or {}), "gv": self.op})
            object.__setattr__(self, "op", "call")
        if isinstance(self.op, ExternFunc):
            object.__setattr__(self, "attrs", {**(self.attrs or {}), "func": self.op.global_symbol})
            info = self.op.struct_info
            if self.struct_info is None:
                derived = DERIVED.get(info.derive_func) if isinstance(info.derive_func, str) else None
                object.__setattr__(self, "struct_info", info.ret if derived is None else derived(*self.args))
            object.__setattr__(self, "op", "call_pure_packed" if info.purity else "call_packed")
        if isinstance(self.op, RelaxExpr):
            if self.op.struct_info is not None and not isinstance(self.op.struct_info, FuncStructInfo):
                raise ValueError(f"only functions are called; {getattr(self.op, 'name', 'this')} is "
                                 f"{self.op.struct_info}, not a FuncStructInfo")
        else:
            object.__setattr__(self, "op", _GraphOp(self.op))
        object.__setattr__(self, "args", tuple(self.args))
        if self.op in CALLEES and self.args and isinstance(self.args[0], (GlobalVar, ExternFunc)):
            for name, value in zip(("args", "attrs"), apart(self.op, self.args, self.attrs or {})):
                object.__setattr__(self, name, value)
        if type(self.attrs) is not Attrs:
            attrs = (self.attrs or {}).items()  # a dtype as operators write it: equal calls have equal attributes
            object.__setattr__(self, "attrs", Attrs({k: str(v) if type(v) is DataType else v for k, v in attrs}))

    @property
    def sinfo_args(self):
        """What a call of a PrimFunc or foreign function declares its result to be."""
        declares = isinstance(self.op, str) and self.op.startswith("call_") and self.struct_info is not None
        return (self.struct_info,) if declares else ()


@node
class If(RelaxExpr):
    """true_branch where `cond`, a bool tensor without dimensions, holds, else false_branch; both are SeqExprs."""

    cond: RelaxExpr
    true_branch: RelaxExpr
    false_branch: RelaxExpr

    def __post_init__(self):
        _wrap(self, "true_branch")
        _wrap(self, "false_branch")

    @property
    def struct_info(self):
        return self.true_branch.struct_info


# ---------------------------------------------------------------- bindings and functions

class Binding(Node):
    """Base of bindings."""

    __slots__ = ()


@node
class VarBinding(Binding):
    """var = value."""

    var: RelaxExpr = node_field(define=True)
    value: RelaxExpr = None


@node
class MatchCast(Binding):
    """var = value, checked at run time to have var's struct info, which may define symbolic dimensions."""

    var: RelaxExpr = node_field(define=True)
    value: RelaxExpr = None

    def __init__(self, var, value, struct_info=None):
        """struct_info: of the variable."""
        if struct_info is not None:
            object.__setattr__(var, "struct_info", as_struct_info(struct_info))
        object.__setattr__(self, "var", var)
        object.__setattr__(self, "value", value)

    @property
    def struct_info(self):
        return self.var.struct_info


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


def _wrap(node, name):
    """Make a field that is an expression by itself a SeqExpr of it."""
    value = getattr(node, name)
    if isinstance(value, RelaxExpr) and not isinstance(value, SeqExpr):
        object.__setattr__(node, name, SeqExpr((), value))


@node
class Function(BaseFunc):
    """A graph function. attrs: "global_symbol", "num_input" ... is_pure: whether it says that it has no side effects.

    TVM's order of arguments, is_pure before attrs, is taken too.
    """

    params: tuple = node_field(define=True)
    body: SeqExpr = None
    ret_struct_info: StructInfo = None
    attrs: dict = node_field(default_factory=dict)
    is_pure: bool = True

    def __post_init__(self):
        if isinstance(self.attrs, bool):
            is_pure, attrs = self.attrs, self.is_pure
            object.__setattr__(self, "attrs", attrs if isinstance(attrs, dict) else {})
            object.__setattr__(self, "is_pure", is_pure)
        if self.attrs is None:
            object.__setattr__(self, "attrs", {})
        object.__setattr__(self, "is_pure", bool(self.is_pure))
        _wrap(self, "body")
        if self.ret_struct_info is not None:
            object.__setattr__(self, "ret_struct_info", as_struct_info(self.ret_struct_info))

    bind_params = upper_method("bind_params")  # ir/transform/bind_params.py
    bind_symbolic_vars = upper_method("bind_symbolic_vars")
    inline_functions = upper_method("inline_functions")  # ir/transform/inline_functions.py

    @property
    def bindings(self):
        """All bindings in order."""
        return [b for block in self.body.blocks for b in block.bindings]

    @property
    def struct_info(self):
        """Of the function as a value, which bindings inside another function hold."""
        return FuncStructInfo(tuple(p.struct_info for p in self.params), self.ret_struct_info, self.is_pure)

    @property
    def outputs(self):
        """The returned values: one, or a tuple's fields."""
        out = self.body.body
        return list(out.fields) if isinstance(out, RelaxTuple) else [out]

    def script(self, show_meta=False, **options):
        """The function in script syntax; see script.script for what options do."""
        return upper("script")(self, show_meta, **options)

    __str__ = script

    def show(self, style=None, **options):
        """Print the script, coloured on a terminal."""
        upper("show")(self.script(**options), style=style)


def call_tir(gv, args, out_sinfo, tir_vars=()):
    """A destination-passing call of the PrimFunc `gv` (GlobalVar). out_sinfo: a TensorStructInfo or a list of them.

    args: a graph expression, a tuple or a list of them. tir_vars: dimensions (or a ShapeExpr) passed after the tensors.
    """
    attrs = {"gv": gv, "sym_args": tuple(getattr(tir_vars, "values", tir_vars) or ())}
    return RelaxCall("call_tir", _call_args(args), attrs, as_struct_info(out_sinfo))


def call_tir_with_grad(gv, args, out_sinfo, te_grad_name, te_grad_kwargs=None, tir_vars=()):
    """As call_tir, of a PrimFunc whose gradient is the registered function te_grad_name, called with te_grad_kwargs."""
    return with_grad(call_tir(gv, args, out_sinfo, tir_vars), te_grad_name, te_grad_kwargs)


def with_grad(call, te_grad_name, te_grad_kwargs=None):
    """A call_tir as a call_tir_with_grad."""
    grad = {"te_grad_name": te_grad_name, "te_grad_kwargs": dict(te_grad_kwargs or {})}
    return call.replace(op="call_tir_with_grad", attrs={**call.attrs, **grad})


def without_grad(call):
    """A call_tir_with_grad as a call_tir."""
    return call.replace(op="call_tir", attrs={k: v for k, v in call.attrs.items() if not k.startswith("te_grad_")})


def foreign_name(func):
    """What the attribute "func" says: a foreign function's name, or the variable it is bound to. TypeError for others."""
    if isinstance(func, GlobalVar):
        raise TypeError(f"{func.name} is a function of the module: call_tir calls a PrimFunc, {func.name}(...) another one")
    return func if isinstance(func, (RelaxVar, DataflowVar)) else str(func)


def call_dps_packed(func, args, out_sinfo):
    """A destination-passing call of the foreign function named `func`: its inputs, then its outputs."""
    return RelaxCall("call_dps_packed", _call_args(args), {"func": foreign_name(func)}, as_struct_info(out_sinfo))


def call_packed(func, *args, sinfo_args=None):
    """A call of the foreign function named `func`, which returns what sinfo_args says (None: some object)."""
    info = ObjectStructInfo() if sinfo_args is None else as_struct_info(
        sinfo_args[0] if isinstance(sinfo_args, (list, tuple)) and len(sinfo_args) == 1 else sinfo_args)
    return RelaxCall("call_packed", _call_args(args), {"func": foreign_name(func)}, info)


def call_pure_packed(func, *args, sinfo_args=None):
    """As call_packed, of a function without side effects."""
    return call_packed(func, *args, sinfo_args=sinfo_args).replace(op="call_pure_packed")


def call_builtin_with_ctx(func, args, *, sinfo_args=None):
    """As call_packed, of a function of the runtime that is given the virtual machine before the arguments, a tuple."""
    return call_packed(func, *_call_args(args), sinfo_args=sinfo_args).replace(op="call_builtin_with_ctx")


def call_inplace_packed(func, *args, inplace_indices, sinfo_args=None):
    """As call_pure_packed, of a function that changes arguments and returns them: result n is argument
    inplace_indices[n], or new where that is -1. ValueError where none is changed, or one is no argument."""
    places = (inplace_indices,) if isinstance(inplace_indices, int) else tuple(inplace_indices)
    call = call_packed(func, *args, sinfo_args=sinfo_args)
    if not places or max(places) < 0 or not all(-1 <= p < len(call.args) for p in places):
        raise ValueError(f"call_inplace_packed of {func}: inplace_indices {list(places)} must name one or more of its "
                         f"{len(call.args)} arguments")
    return call.replace(op="call_inplace_packed", attrs={**call.attrs, "inplace_indices": places})


def _call_args(args):
    args = getattr(args, "fields", args)
    return tuple(args) if isinstance(args, (list, tuple)) else (args,)


def const(value, dtype=None):
    """A Constant of a number, a nested list or an array. Without a dtype numbers and lists of them are float32, int32
    or bool; arrays keep their own."""
    dtype = getattr(dtype, "dtype", dtype)  # struct info has one
    array = np.array(value, None if dtype is None else DataType(dtype).numpy)
    if dtype is None and not hasattr(value, "dtype"):
        array = array.astype({"int64": "int32", "float64": "float32"}.get(array.dtype.name, array.dtype))
    return Constant(array)


def get_shape_of(expr):
    """The shape of a tensor as a ShapeExpr; ValueError when it is not known."""
    shape = getattr(expr.struct_info, "shape", None)
    if shape is None:
        raise ValueError(f"the shape of {getattr(expr, 'name', 'the value')} is not known: it is {expr.struct_info}")
    return ShapeExpr(shape)


def dataflow_function(params, bindings, outputs, attrs=None):
    """A Function of one dataflow block. outputs: list of values; more than one are returned as a tuple."""
    body = outputs[0] if len(outputs) == 1 else RelaxTuple(tuple(outputs))
    return function_of_blocks(params, (DataflowBlock(tuple(bindings)),), body, attrs)


def function_of_blocks(params, blocks, result, attrs=None, pure=True):
    """A Function of these blocks. DataflowVars in the result become RelaxVars of the same name, since they leave
    their block."""
    leaving = {id(v): RelaxVar(v.name, v.struct_info, v.origin) for v in collect(result, DataflowVar)}
    if leaving:
        class Replace(Mutator):
            def visit_DataflowVar(self, v):
                return leaving.get(id(v), v)

            def visit_Constant(self, c):
                return c
        blocks, result = Replace().visit((tuple(blocks), result))
    return Function(tuple(params), SeqExpr(tuple(blocks), result), result.struct_info, dict(attrs or {}), pure)
