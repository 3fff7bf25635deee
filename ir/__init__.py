"""The intermediate representations and their rewrites. `from ingot import ir` has the names of both IRs."""
import sys as _sys

from .container import Array, DictAttrs, Map  # noqa: F401
from .compare import assert_structural_equal, get_first_structural_mismatch, structural_equal  # noqa: F401
from .env_func import EnvFunc  # noqa: F401
from .expr import FloatImm, IntImm, PrimExpr, StringImm  # noqa: F401
from .expr import Range as _Range
from .module import BaseFunc, CallingConv, GlobalVar, IRModule  # noqa: F401
from .node import Node, load_json, make_node, save_json, structural_hash  # noqa: F401
from .op import Op, register_intrin_lowering, register_op_attr  # noqa: F401
from .supply import GlobalVarSupply, NameSupply  # noqa: F401
from .transform import instrument  # noqa: F401
from .types import FuncType, PointerType, PrimType, TupleType, Type  # noqa: F401
from .vdevice import DummyGlobalInfo, GlobalInfo, VDevice  # noqa: F401
from . import analysis, topi, transform  # noqa: F401

BaseExpr = Node  # of expressions of both kinds
base = _sys.modules[__name__]  # scripts find comparisons and JSON there, too


class _Ranges(type):
    def __call__(cls, begin, end=None):
        begin, end = (0, begin) if end is None else (begin, end)
        return _Range.from_min_extent(begin, end - begin)

    def __instancecheck__(cls, value):
        return isinstance(value, _Range)


class Range(metaclass=_Ranges):
    """Range(end) or Range(begin, end), as scripts write a tir.Range, which itself is made of min and extent."""

    from_min_extent = staticmethod(_Range.from_min_extent)
