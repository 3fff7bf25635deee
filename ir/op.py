"""The operator table of the graph IR: one OpSpec per operator, as data. Families register rows in ir/relax/ops/.
Op is an operator by its name, with the attributes that scripts register.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

KINDS = ("elementwise", "broadcast", "injective", "reduction", "anchor", "view", "opaque")
OPS: dict[str, "OpSpec"] = {}


@dataclass(frozen=True)
class OpSpec:
    """One operator.

    name: "nn.conv2d". arity: (least, most) number of arguments, most None for any number.
    attrs: {attribute: default}; `REQUIRED` marks one without a default. Unknown attributes are errors.
    infer(call) -> StructInfo, from call.args[i].struct_info and call.attrs; raises InferError.
    lower(args, attrs, out) -> te.Tensor, a tuple of them, or a PrimFunc; args are te.Tensor (tensors) or expressions
      (ShapeExpr -> tuple of PrimExpr, PrimValue -> PrimExpr), out the inferred StructInfo.
    evaluate(args, attrs) -> numpy array or tuple: the reference; args are numpy arrays (ShapeExpr -> tuple of ints).
    te(args, attrs, out): as lower, but always te tensors, where `lower` makes a PrimFunc; else None.
    kind: how fusion sees it. elementwise: output[i] from input[i] of the same shape; broadcast: elementwise with
      broadcasting; injective: each output element copies one input element; reduction; anchor: the costly core of
      a fused kernel (conv2d, matmul); view: same bytes under another shape; opaque: fused with nothing.
    """

    name: str
    arity: tuple
    attrs: dict
    infer: Callable
    lower: Callable | None
    evaluate: Callable
    kind: str
    te: Callable | None = None


class _Required:
    def __repr__(self):
        return "REQUIRED"


REQUIRED = _Required()


class InferError(ValueError):
    """Arguments of an operator that contradict each other; the message names shapes and the operator."""


def register(name, infer, lower, evaluate, kind, arity=(1, 1), te=None, **attrs):
    """Add one row to the table."""
    if kind not in KINDS:
        raise ValueError(f"operator {name}: kind {kind!r} is none of {', '.join(KINDS)}")
    if name in OPS:
        raise ValueError(f"operator {name} is registered twice")
    OPS[name] = OpSpec(name, arity, attrs, infer, lower, evaluate, kind, te)
    return OPS[name]


def get(name):
    """The row of `name`; KeyError with the way out when there is none."""
    if name not in OPS:
        raise KeyError(f"unknown operator {name!r}; ir/relax/ops/ registers the known ones")
    return OPS[name]


def takes_tuple(op):
    """Whether what a call calls is the name of an operator of any number of tensors, which TVM has in a tuple."""
    return isinstance(op, str) and op in OPS and OPS[op].arity[1] is None


# ---------------------------------------------------------------- names and attributes, as scripts have them

OP_ATTRS = {}  # attribute of operators -> {operator: value}, as register_op_attr has them
_LEVELS = {}  # (operator, attribute) -> the level at which its value was said


class Op(str):
    """The callee of a Call: its name, a string that scripts also read as call.op.name and compare with Op.get(name)."""

    __slots__ = ()
    space = ""  # what TVM writes before the names

    @property
    def name(self):
        return self.space + self

    def same_as(self, other):
        """Whether both are one operator."""
        return self == other

    def get_attr(self, attr_name):
        """What is registered for the operator; None where nothing is."""
        return OP_ATTRS.get(attr_name, {}).get(self)

    def has_attr(self, attr_name):
        return self in OP_ATTRS.get(attr_name, {})

    def set_attr(self, attr_name, value, plevel=10):
        """Register a value. What was registered at a higher level stays."""
        if _LEVELS.get((self, attr_name), plevel) <= plevel:
            OP_ATTRS.setdefault(attr_name, {})[self] = value
            _LEVELS[self, attr_name] = plevel

    def reset_attr(self, attr_name):
        OP_ATTRS.get(attr_name, {}).pop(self, None)
        _LEVELS.pop((self, attr_name), None)

    @staticmethod
    def get(op_name):
        name = op_name.removeprefix("relax.")
        return Op("nn.leaky_relu" if name == "nn.leakyrelu" else name)


def register_op_attr(op_name, attr_key, value=None, level=10):
    """Let Op.get(op_name).get_attr(attr_key) be a value; without one, a decorator of it."""
    def register(given):
        Op.get(op_name).set_attr(attr_key, given, level)
        return given
    return register if value is None else register(value)


def lowering_attr(target):
    """The attribute of operators that holds the rules for a kind of target."""
    return f"{target}.FLowerIntrinsic"


def register_intrin_lowering(op_name, target, *, f=None, level=10):
    """Let tvm.build for a kind of target ("default": for any) replace calls of an intrinsic, such as "tir.exp", by
    f(call); without `f`, a decorator of it. Of two rules that of the higher level holds, of equal ones the later."""
    return register_op_attr(op_name, lowering_attr(target), f, level)
