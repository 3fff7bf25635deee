"""The names of graph functions in a script, R.*: struct info, calls, and every operator of the table by its name."""
from __future__ import annotations

import difflib
from dataclasses import dataclass
from types import SimpleNamespace

from ..module import GlobalVar
from ..relax import control, expr, op
from ..relax.control import CONTROL
from ..relax.expr import (PACKED, DataTypeImm, ExternFunc, PrimValue, RelaxString, RelaxTuple, ShapeExpr, TupleGetItem,
                          const)
from ..upper import upper
from . import specs as S
from .macros import macro
from .namespaces import Namespace


# What struct info says of itself; a description outside a script answers in its place.
_TOLD = frozenset({"shape", "dtype", "ndim", "vdevice", "fields", "values", "value", "params", "ret", "purity", "is_base_of",
                   "script", "show"})


@dataclass(frozen=True, eq=False)
class InfoSpec(S.Spec):
    """Struct info as written: dimensions may be quoted. Outside a script it stands for what it describes."""

    name: str
    args: tuple = ()
    kwargs: dict = None
    place = "an annotation, or struct info in a call"

    def __getattr__(self, name):
        if name not in _TOLD:
            # of a copy in the making, which has no name yet, too
            raise AttributeError(f"R.{vars(self).get('name')}(...) has no {name}")
        return getattr(self.struct_info(), name)

    def __eq__(self, other):
        if isinstance(other, InfoSpec):
            return (self.name, self.args, self.kwargs) == (other.name, other.args, other.kwargs)
        return isinstance(other, expr.StructInfo) and self.struct_info() == other

    __hash__ = object.__hash__

    def as_struct_info(self, dict_globals=None):
        """struct_info, as TVM names it."""
        return self.struct_info()

    def struct_info(self):
        """The StructInfo outside a script, where dimensions are expressions and none is quoted."""
        made = getattr(expr, {"Callable": "Func"}.get(self.name, self.name) + "StructInfo")
        args, kwargs = self.args, self.kwargs or {}
        if self.name == "Tensor":
            kwargs = {"dtype": "void", **kwargs} if len(args) < 2 else kwargs
            if args and isinstance(args[0], str):  # R.Tensor("float32", ndim=2)
                args, kwargs = (), {**kwargs, "dtype": args[0]}
        if self.name == "Tuple" and not (len(args) == 1 and isinstance(args[0], (list, tuple))):
            args = (args,)
        if self.name == "Callable" and not args:
            return made.opaque_func(**kwargs)
        for d in args[0] if args and isinstance(args[0], (list, tuple)) and self.name in ("Tensor", "Shape") else ():
            if isinstance(d, str):
                raise TypeError(f'R.{self.name}: the quoted dimension "{d}" means something inside a script only; make '
                                f'{d} = tir.Var("{d}", "int64")')
        return made(*args, **kwargs)


class InfoName(InfoSpec):
    """R.Tensor and its like, with or without arguments."""

    @property
    def __name__(self):
        return f"{self.name}Proxy"

    def __call__(self, *args, **kwargs):
        return InfoSpec(self.name, args, kwargs)


@dataclass(frozen=True)
class Special:
    """A call with a reading of its own in a script: RelaxParser's method `call_<name>`."""

    name: str

    def __call__(self, *args, **kwargs):
        if self.name == "ExternFunc":  # of a module
            return ExternFunc(*args, **kwargs)
        return getattr(control if self.name in CONTROL else op, self.name)(*args, **kwargs)


@dataclass(frozen=True)
class DataflowSpec(S.Spec):
    place = "`with R.dataflow():`"


@dataclass(frozen=True)
class OutputSpec(S.Spec):
    names: tuple
    place = "the last statement of a dataflow block"


@dataclass(frozen=True)
class CastSpec(S.Spec):
    """R.match_cast(value, info)"""

    value: object
    info: object
    place = "`name = R.match_cast(value, info)`"


@dataclass(frozen=True)
class PerAxis:
    """x.shape and x.strides of a tensor: x.shape[axis] is what a run finds there."""

    tensor: object
    fact: str


@dataclass(frozen=True)
class DTypeFacts:
    """x.dtype of a tensor, as a run finds it."""

    tensor: object
    type_code, bits, lanes = (property(lambda self, what=what: op.call(f"inspect.tensor_dtype_{what}", self.tensor))
                              for what in ("code", "bits", "lanes"))


# x.NAME of a tensor x, which a run tells
FACTS = {
    "dtype": DTypeFacts, "shape": lambda x: PerAxis(x, "tensor_shape_i"),
    "strides": lambda x: PerAxis(x, "tensor_stride_i"),
    **{name: lambda x, name=name: op.call(f"inspect.tensor_{name}", x)
       for name in ("ndim", "byte_offset", "elem_offset")},
}


class Globals:
    """`cls` (or the class by its name): cls.add is the GlobalVar of function add, defined before or after."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return GlobalVar(name)


def _operator(name):
    """R.add, R.nn: the operators as relax.op names them."""
    try:
        return getattr(op, name)
    except AttributeError:
        near = difflib.get_close_matches(name, [*op.names(), *ROWS], 1)
        hint = f"; did you mean R.{near[0]}?" if near else ""
        raise AttributeError(f"no operator or name R.{name}{hint}") from None


ROWS = {
    "func_attr": lambda attrs: S.AttrsSpec("function", dict(attrs)),
    **{name: InfoName(name) for name in ("Tensor", "Shape", "Prim", "Tuple", "Object", "Callable")},
    "dataflow": DataflowSpec, "output": lambda *names: OutputSpec(names), "match_cast": CastSpec,
    "macro": macro,
    "const": const, "shape": ShapeExpr, "ShapeExpr": ShapeExpr, "TupleGetItem": TupleGetItem,
    "prim_value": PrimValue, "tuple": lambda *fields: RelaxTuple(fields),
    "str": RelaxString, "dtype": DataTypeImm,
    "device": lambda dev_type, dev_id=0: upper("device")(dev_type, dev_id),
    **{kind: lambda dev_id=0, kind=kind: upper("device")(kind, dev_id) for kind in ("cpu", "cuda", "gpu")},
    **{name: Special(name) for name in (
        *CONTROL, *PACKED, "assert_op", "call_tir", "call_tir_inplace", "call_tir_with_grad", "ExternFunc", "emit_te",
        "to_vdevice")},
}
ROWS["entry"] = SimpleNamespace(StructInfoProxy=InfoSpec, **{  # where scripts look up what R.Tensor makes
    f"{name}Proxy": ROWS[name] for name in ("Tensor", "Shape", "Prim", "Tuple", "Object", "Callable")})
R = Namespace("R", ROWS, _operator)
ROWS["op"] = R  # relax.op.add in scripts that write R as relax

__all__ = ["FACTS", "Globals", "PerAxis", "R", "ROWS"]
