"""Inputs and outputs of a model that are no tensors: sequences and optional values.

A sequence is as many tensors of the network as it has elements, which the caller says by `shapes`. How values of the
model correspond to tensors of the network says a tuple of Values.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .errors import OnnxImportError, UndeclaredInput
from .load import dtype_of
from .names import printable

TENSOR, SEQUENCE, ABSENT = "tensor", "sequence", "absent"


class Value(NamedTuple):
    """An input or output of the model: a tensor, a sequence of `count` tensors, or an optional value that is absent."""

    name: str
    kind: str = TENSOR
    count: int = 1

    @property
    def names(self):
        """The names of its tensors."""
        return [f"{self.name}_{k}" for k in range(self.count)] if self.kind == SEQUENCE else [self.name] * self.count


@dataclass(frozen=True)
class Element:
    """A tensor of an input: its name, dtype, and dimensions: ints, names, or TensorShapeProto.Dimensions."""

    name: str
    dtype: str
    dims: tuple


def elements(proto, shapes):
    """(Value, its Elements) of a graph input. shapes: {input: its shape, a list of those of a sequence's elements, or
    None where an optional value is absent}, of inputs whose declaration leaves that open. Raises UndeclaredInput where
    that is not given."""
    what = f"graph input {proto.name!r}"
    given, declared, optional = proto.name in shapes, proto.type, False
    shape = shapes.get(proto.name)
    if declared.WhichOneof("value") == "optional_type":
        declared, optional = declared.optional_type.elem_type, True
    kind = declared.WhichOneof("value")
    if optional and given and shape is None:
        return Value(proto.name, ABSENT, 0), ()
    if kind == "sequence_type":
        tensor = declared.sequence_type.elem_type.tensor_type
        dtype = dtype_of(tensor.elem_type, what)
        if not isinstance(shape, (list, tuple)):
            raise _wanted(proto.name, "is a sequence, of which the C must know the elements", True, optional)
        found = tuple(Element(f"{proto.name}_{k}", dtype, _dims(f"{what}: element {k}", proto.name, tensor, s))
                      for k, s in enumerate(shape))
        return Value(proto.name, SEQUENCE, len(found)), found
    if kind != "tensor_type":
        raise OnnxImportError(f"{what} is a {kind or 'value of unknown type'}; only tensors, sequences of tensors and "
                              "optional ones are supported")
    if optional and not given:
        raise _wanted(proto.name, "is an optional value, of which the C must know whether it is there", optional=True)
    tensor = declared.tensor_type
    dtype = dtype_of(tensor.elem_type, what)
    return Value(proto.name), (Element(proto.name, dtype, _dims(what, proto.name, tensor, shape)),)


def _dims(what, name, tensor, given):
    """The dimensions of a tensor: those that are given, else those that are declared."""
    declared = tuple(tensor.shape.dim) if tensor.HasField("shape") else None
    if given is None and declared is None:
        raise _wanted(name, "declares no shape, not even a rank")
    if given is None:
        return declared
    if not isinstance(given, (list, tuple)) or not all(
            isinstance(d, str) or isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in given):
        raise OnnxImportError(f"{what}: shapes says {given!r}, and a shape is a tuple of sizes and of names of "
                              "symbolic dimensions")
    sizes = [d.dim_value or None for d in declared or ()] or [None] * len(given)
    if declared is not None and len(declared) != len(given) or any(
            a not in (None, b) for a, b in zip(sizes, given)):
        raise OnnxImportError(f"{what}: shapes says {tuple(given)}, and the model declares "
                              f"{tuple(d.dim_value or d.dim_param or '?' for d in declared)}")
    return tuple(given)


def _wanted(name, problem, more=False, optional=False):
    """The error for want of a shape, or of several: `more`."""
    shape, text = ("[(2, 3), (4, 3)]", "2,3;4,3") if more else ("(2, 3)", "2,3")
    absent = f", or None (--shape {printable(name)}=none) where it is absent" if optional else ""
    return UndeclaredInput(f"graph input {name!r} {problem}; say its shape, for example --shape "
                           f"'{printable(name)}={text}', or shapes={{{name!r}: {shape}}} in Python{absent}")
