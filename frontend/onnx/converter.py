"""The table of converters, and what a converter sees of its node.

A converter is a function `node -> value` (or a tuple, one value per output) registered for an operator from an
opset on: `@converts("Softmax", 1)` and `@converts("Softmax", 13)`; the largest not above the model's opset is used.
Values are graph expressions, or `Symbolic` tensors of dimensions; `node.call` and the rest of `builder.Builder` make
them.
"""
from __future__ import annotations

from ...ir.relax.expr import Constant
from ..builder import Builder
from ..shapes import Symbolic, dims_of, shape_text
from .errors import OnnxImportError
from .names import identifier, printable

CONVERTERS: dict[str, dict[int, object]] = {}


def converts(op_type, *versions):
    """Register the decorated function as the converter of `op_type` from each of the opsets `versions` on."""
    def register(function):
        rows = CONVERTERS.setdefault(op_type, {})
        for version in versions or (1,):
            if version in rows:
                raise ValueError(f"{op_type} has two converters from opset {version} on")
            rows[version] = function
        return function
    return register


def converter_for(op_type, opset):
    """The converter of the largest version not above `opset`, or None."""
    rows = CONVERTERS.get(op_type, {})
    version = max((v for v in rows if v <= opset), default=None)
    return None if version is None else rows[version]


class NodeContext(Builder):
    """One ONNX node as its converter sees it.

    inputs: values, None where an optional input is absent. attrs: {name: value} with defaults filled in.
    outputs: names, "" where an optional output is not asked for. scope: the importer of the graph that it stands in.
    """

    def __init__(self, proto, title, opset, inputs, attrs, outputs, emit, scope=None):
        super().__init__(emit)
        self.proto, self.title, self.opset = proto, title, opset
        self.inputs, self.attrs, self.outputs, self.scope = inputs, attrs, outputs, scope

    @property
    def stem(self):
        """An identifier after the first result, for names of what the node makes besides."""
        return identifier(next(filter(None, self.outputs)), "t")

    # ------------------------------------------------------------ errors

    def error(self, message):
        """An OnnxImportError that names this node and the shapes of its inputs."""
        shown = [f"{printable(name)}: {_described(x)}" for name, x in zip(self.proto.input, self.inputs)
                 if x is not None]
        return OnnxImportError(f"{self.title}: {message}" + (f"; inputs {', '.join(shown)}" if shown else ""))

    # ------------------------------------------------------------ inputs and attributes

    def input(self, index):
        """Input `index`, or None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index, what):
        """Input `index` as a numpy array, or None when absent. It must be known at compile time."""
        x = self.input(index)
        if x is None:
            return None
        if not isinstance(x, Constant):
            raise self.error(f"{what} must be constant, and depends on data; export the model with a constant {what}")
        return x.data

    def dims(self, index, what):
        """Input `index` as a list of ints and dimension expressions, or None when absent."""
        x = self.input(index)
        if x is None:
            return None
        if isinstance(x, Symbolic):
            return list(x.array.reshape(-1))
        if not isinstance(x, Constant):
            raise self.error(f"{what} depends on data; export with static shapes")
        return [int(v) for v in x.data.reshape(-1)]

    def ints(self, index, what):
        """Input `index` as a list of ints, or None when absent; symbolic elements are an error."""
        values = self.dims(index, what)
        for v in values or ():
            if not isinstance(v, int):
                raise self.error(f"{what} depends on the symbolic dimension {v}; pin it with dims")
        return values

    def attr(self, name, default=None):
        """An attribute's value; `default` when it is absent or this opset does not have it."""
        value = self.attrs.get(name)
        return default if value is None else value

    def choice(self, name, *known):
        """A string attribute that must be one of `known`."""
        value = self.attr(name, known[0])
        if value not in known:
            raise self.error(f"attribute {name} is {value!r}; supported are {', '.join(map(repr, known))}")
        return value

    def axis(self, axis, rank, what="axis"):
        """`axis` in [0, rank), counted from the end when negative."""
        if not -rank <= axis < rank:
            raise self.error(f"{what} {axis} is outside a tensor of {rank} dimensions")
        return axis % rank

    def axes(self, axes, rank):
        """Several axes in [0, rank), each once."""
        found = tuple(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            raise self.error(f"axes {tuple(axes)} name one axis twice")
        return found

    def wants(self, index):
        """True when output `index` is used by the model."""
        return index < len(self.outputs) and bool(self.outputs[index])


def _described(value):
    """A value in messages: its dtype and shape, or what it is instead of a tensor."""
    info = getattr(value, "struct_info", None)
    return str(value) if info is None else f"{info.dtype}{shape_text(dims_of(value))}"
