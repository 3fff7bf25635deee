"""The names of graph functions in a script, R.*: struct info, calls, and every operator of the table by its name."""
from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from .. import op as op_table
from ..expr import as_expr, const
from ..module import GlobalVar
from ..relax.expr import Constant, PrimValue, RelaxTuple, ShapeExpr
from . import specs as S
from .functions import relax_function
from .namespaces import Namespace


@dataclass(frozen=True)
class InfoSpec(S.Spec):
    """Struct info as written: dimensions may be quoted."""

    name: str
    args: tuple = ()
    kwargs: dict = None
    place = "an annotation, or struct info in a call"


class InfoName(InfoSpec):
    """R.Tensor and its like, with or without arguments."""

    def __call__(self, *args, **kwargs):
        return InfoSpec(self.name, args, kwargs)


@dataclass(frozen=True)
class OpName:
    """An operator: the parser builds the call."""

    name: str


@dataclass(frozen=True)
class Special:
    """A call with a reading of its own: RelaxParser's method `call_<name>`."""

    name: str


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


class Globals:
    """`cls` (or the class by its name): cls.add is the GlobalVar of function add, defined before or after."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return GlobalVar(name)


def _const(value, dtype=None):
    return Constant(np.array(value, dtype or ("float32" if isinstance(value, float) else None)))


def _prim_value(value):
    return PrimValue(const(value, "int64") if type(value) is int else as_expr(value))


def _operator(prefix):
    """Looks for the operator `prefix` + name. A prefix of operators (R.nn) is a namespace of its own."""
    def other(name):
        full = prefix + name
        if full in op_table.OPS:
            return OpName(full)
        if any(known.startswith(full + ".") for known in op_table.OPS):
            return Namespace(f"R.{full}", {}, _operator(full + "."))
        near = difflib.get_close_matches(full, [*op_table.OPS, *ROWS], 1)
        raise AttributeError(f"no operator or name R.{full}" + (f"; did you mean R.{near[0]}?" if near else ""))
    return other


ROWS = {
    "function": relax_function, "func_attr": lambda attrs: S.AttrsSpec("function", dict(attrs)),
    **{name: InfoName(name) for name in ("Tensor", "Shape", "Prim", "Tuple", "Object")},
    "dataflow": DataflowSpec, "output": lambda *names: OutputSpec(names), "match_cast": CastSpec,
    "const": _const, "shape": lambda dims: ShapeExpr(tuple(dims)),
    "prim_value": _prim_value, "tuple": lambda *fields: RelaxTuple(tuple(fields)),
    **{name: Special(name) for name in ("call_tir", "call_packed", "call_dps_packed")},
}
R = Namespace("R", ROWS, _operator(""))

__all__ = ["Globals", "R", "ROWS"]
