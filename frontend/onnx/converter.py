"""The table of converters, and what a converter sees of its node.

A converter is a function `node -> value` (or a tuple, one value per output) registered for an operator from an
opset on: `@converts("Softmax", 1)` and `@converts("Softmax", 13)`; the largest not above the model's opset is used.
Operators of another domain name it: `@converts("Scaler", 1, domain="ai.onnx.ml")`.
Operators of com.microsoft, which have one version, are registered by `@microsoft("Gelu")`.
Values are graph expressions, or `Symbolic` tensors of dimensions; `node.call` and the rest of `builder.Builder` make
them.
"""
from __future__ import annotations

from ...ir.origin import Origin
from ...ir.relax.expr import Constant
from ..builder import Builder
from ..shapes import Symbolic, dims_of, shape_text
from .errors import OnnxImportError, UnknownOperand
from .load import DOMAINS
from .msft_schemas import MICROSOFT
from .names import identifier, printable

CONVERTERS: dict[str, dict[int, object]] = {}


def qualified(op_type, domain=""):
    """The name of an operator in the table and in errors."""
    return f"{domain}::{op_type}" if domain not in DOMAINS else op_type


def converts(op_type, *versions, domain=""):
    """Register the decorated function as the converter of `op_type` from each of the opsets `versions` on."""
    def register(function):
        rows = CONVERTERS.setdefault(qualified(op_type, domain), {})
        for version in versions or (1,):
            if version in rows:
                raise ValueError(f"{op_type} has two converters from opset {version} on")
            rows[version] = function
        return function
    return register


def microsoft(op_type):
    """Register the decorated function as the converter of an operator of com.microsoft."""
    return converts(op_type, domain=MICROSOFT)


def converter_for(op_type, opset, domain=""):
    """The converter of the largest version not above `opset`, or None."""
    rows = CONVERTERS.get(qualified(op_type, domain), {})
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

    def inside(self, builder):
        """The same node, where what it makes goes to the builder of a body."""
        def emit(value):
            part = getattr(value, "op", "part").rpartition(".")[2]
            return builder.emit(value, f"{self.stem}_{part}", Origin(self.name, self.proto.op_type, ""))

        return NodeContext(self.proto, self.title, self.opset, self.inputs, self.attrs, self.outputs, emit, self.scope)

    @property
    def name(self):
        """What the model calls the node: its name, or its first result."""
        return self.proto.name or next(filter(None, self.outputs), self.proto.op_type)

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

    def unknown(self, message):
        """The same error, of an operand that only a run knows."""
        return UnknownOperand(str(self.error(message)))

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
            raise self.unknown(f"{what} must be constant, and depends on data; export the model with a constant {what}")
        return x.data

    def dims(self, index, what):
        """Input `index` as a list of ints and dimension expressions, or None when absent."""
        x = self.input(index)
        if x is None:
            return None
        if isinstance(x, Symbolic):
            return list(x.array.reshape(-1))
        if not isinstance(x, Constant):
            raise self.unknown(f"{what} depends on data; make it an initializer, or declare the shapes of the node's "
                               "results, which may tell it")
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
