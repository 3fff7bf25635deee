"""The importer of torch's graphs: node by node into the bindings of one graph function."""
from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from ...ir.expr import PrimExpr
from ...ir.op import InferError
from ...ir.relax import op as relax_op
from ...ir.relax.block_builder import BlockBuilder
from ...ir.relax.expr import (
    Constant, PrimValue, RelaxExpr, RelaxTuple, ShapeExpr, TensorStructInfo, TupleStructInfo, const)
from ..builder import Builder
from ..problems import listed
from ..shapes import dims_of
from . import (  # noqa: F401  (fill the tables)
    ops_complex, ops_create, ops_index, ops_math, ops_nn, ops_order, ops_pool, ops_reduce, ops_tensor)
from .dtypes import array_of, category, promoted
from .ops_complex import Pair, convert_complex, holds_pair
from .table import find, has_shape_of_others, takes_axis
from .writes import Memory, changes, is_view


class TorchImportError(ValueError):
    """A graph that cannot be imported. The text names nodes and their targets."""


class SharedWriteError(TorchImportError):
    """A graph that reads, through one tensor, what it wrote through another of the same memory."""


def target_of(node):
    """A node's target as a name: "conv2d.default", "relu", "view"."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def is_node(value):
    return hasattr(value, "all_input_nodes")


class Importer(Builder):
    """State of one import. env: {node: a graph expression, or a Python value}; block_builder: where bindings go;
    params: {torch parameter: its graph expression}."""

    def __init__(self):
        self.block_builder = BlockBuilder()
        super().__init__(lambda value: self.block_builder.emit(value))
        self.env, self.params, self.node = {}, {}, None
        self.memory = Memory()

    # ------------------------------------------------------------ the graph

    def run(self, nodes, unwrap_unit_return_tuple, no_bind_return_tuple):
        """Import the nodes from the first to the output; the function's result."""
        nodes = list(nodes)
        self.check(nodes)
        for node in nodes:
            with self._at(node):
                self.check_memory(node)
            if node.op == "output":
                return self.output(self.arg(node.args[0]), unwrap_unit_return_tuple, no_bind_return_tuple)
            with self._at(node):
                self.enter(node, self.value_of(node))
        raise TorchImportError("the graph has no output")

    def output(self, value, unwrap, no_bind):
        """The function's result, of a graph's value."""
        emit = self.block_builder.emit_output
        several = isinstance(value, (tuple, list, RelaxTuple)) or hasattr(value, "fields")
        if several and unwrap and len(value) == 1:
            return emit(self.expr(value[0]))
        if several and no_bind:
            return [emit(self.expr(v)) for v in value]
        return emit(self.expr(value))

    def check(self, nodes):
        """All nodes that nothing converts, in one error."""
        lines = listed((self.problem(node), f"node {self.source(node)[0]!r}") for node in nodes)
        if lines:
            raise TorchImportError("the graph has nodes that cannot be imported:\n" + lines)

    def problem(self, node):
        """Why a node cannot be imported, or None."""
        if node.op in ("call_function", "call_method"):
            if find(target_of(node)):
                return None
            target = str(self.source(node)[1])
            return f"Unsupported function type {target.partition('.')[2] or target} ({target})"
        return None if node.op in ("placeholder", "output", "get_attr") else f"Unsupported op {node.op}"

    def source(self, node):
        """(name, target) of the node that the user has written."""
        return node.name, node.target

    def value_of(self, node):
        """What a node gives."""
        name, args, kwargs = target_of(node), self.arg(node.args), self.arg(dict(node.kwargs))
        if holds_pair(args) or holds_pair(kwargs):
            return convert_complex(self, name, args, kwargs)
        if takes_axis(name) and args and self.is_tensor(args[0]) and not self.rank(args[0]):
            shaped = has_shape_of_others(name) and any(
                self.is_tensor(a) and self.rank(a) for a in (*args[1:], *kwargs.values()))
            args = [self.op("reshape", a, [1]) if self.is_tensor(a) and not self.rank(a) else a for a in args]
            result = find(name)(self, *args, **kwargs)
            return result if shaped else self.without_axis(result)
        return find(name)(self, *args, **kwargs)

    def without_axis(self, value):
        """Results of what was computed along an axis of one element, of a tensor that has no axis."""
        if isinstance(value, (tuple, list)):
            return tuple(map(self.without_axis, value))
        if isinstance(value.struct_info, TupleStructInfo):
            return tuple(self.without_axis(self.emit(value[n])) for n in range(len(value.struct_info.fields)))
        return self.op("reshape", value, []) if self.rank(value) else value

    # ------------------------------------------------------------ memory

    def layer_of(self, node):
        """What a node of layers calls, or None."""
        return None

    def enter(self, node, value):
        """A node's value in env. Where the node writes to a tensor, all names of that have it."""
        layer, target = self.layer_of(node), node.args[0] if node.args else None
        name = target_of(node) if layer is None else type(layer).__name__
        names = [node]
        if node.op in ("placeholder", "get_attr") or not is_node(target) or not self.in_memory(self.env[target]):
            self.memory.made(node)
        elif changes(node, name, layer):
            if self.is_tensor(value) and self.is_tensor(self.env[target]):
                value = self.cast(value, self.dtype(self.env[target]))
            names = self.memory.written(node, target)
        else:
            self.memory.made(node, target if is_view(name) and self.may_share(node, value) else None)
        self.env.update((n, value) for n in names)

    def in_memory(self, value):
        return self.is_tensor(value) or isinstance(value, (list, tuple, Pair)) or isinstance(
            getattr(value, "struct_info", None), TupleStructInfo)

    def may_share(self, node, value):
        """Whether a view's value is in memory, and is not a copy: of another dtype, or gathered by a tensor."""
        source = self.env[node.args[0]]
        if not self.in_memory(value) or self.is_tensor(value) and self.is_tensor(source) and (
                self.dtype(value) != self.dtype(source)):
            return False
        return not any(self.is_tensor(self.env[n]) for n in node.all_input_nodes[1:])

    def check_memory(self, node):
        """Raise TorchImportError where a node reads what was written through another tensor, or, of the output, where
        memory that is not the graph's own has changed."""
        old = self.memory.read_old(node)
        if old:
            given, writer = old
            raise SharedWriteError(f"node {writer.name!r} ({target_of(writer)}) writes to memory that {given.name!r} "
                                   f"shares, which node {node.name!r} reads then; write to a clone(), or compute the "
                                   "new value without writing")
        if node.op == "output":
            for owner, writer, lost in self.memory.lost(node.all_input_nodes):
                self.check_written(owner, writer, lost)

    def check_written(self, owner, writer, lost):
        """Raise TorchImportError where the write of a node must be seen outside. lost: no result is the new value."""
        raise NotImplementedError

    def refuse_write(self, writer, kind, name):
        """Raise what a node's write to an input, or to other tensors of a model, is."""
        way = ("the caller's tensor would keep its old value; return the new value as a result" if kind == "input" else
               "a compiled function keeps nothing between calls; make it an input, and return its new value")
        raise TorchImportError(f"node {writer!r} writes to the {kind} {name!r}: {way}")

    @contextmanager
    def _at(self, node):
        """Errors name the node."""
        self.node = node
        try:
            yield
        except TorchImportError:
            raise
        except (InferError, TypeError, ValueError, KeyError, IndexError) as error:
            raise self.error(str(error.args[0] if error.args else error)) from error

    def error(self, message):
        if self.node is None:
            return TorchImportError(message)
        shapes = [f"{n.name}: {self.env[n].struct_info}" for n in self.node.all_input_nodes
                  if isinstance(self.env.get(n), RelaxExpr)]
        return TorchImportError(f"node {self.node.name!r} ({target_of(self.node)}"
                                + (f" of {', '.join(shapes)}" if shapes else "") + f"): {message}")

    # ------------------------------------------------------------ arguments

    def arg(self, value):
        """An argument of a node, with values in place of nodes."""
        if is_node(value):
            return self.env[value]
        if isinstance(value, (tuple, list)):
            return (tuple if isinstance(value, tuple) else list)(map(self.arg, value))
        if isinstance(value, dict):
            return {k: self.arg(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(*map(self.arg, (value.start, value.stop, value.step)))
        return value

    def retrieve_args(self, node):
        """A node's arguments, for converters of one's own."""
        return self.arg(node.args)

    def constant(self, tensor):
        """A torch tensor as a Constant, which shares its memory; a complex one as a Pair of two."""
        if tensor.is_complex():
            return Pair(*(Constant(np.ascontiguousarray(array_of(v))) for v in (tensor.real, tensor.imag)))
        return Constant(array_of(tensor))

    # ------------------------------------------------------------ what converters call

    def op(self, name, *args, **attrs):
        """A variable bound to relax.op's `name` of arguments."""
        return self.emit(self.made(name, *args, **attrs))

    def made(self, name, *args, **attrs):
        """The call of relax.op's `name`, to be an argument of another; it is bound then."""
        return relax_op.call(name, *args, **attrs)

    def emit(self, value):
        return self.block_builder.emit(value)

    def shape_of(self, x):
        """The dimensions of a tensor, as struct info has them."""
        return ShapeExpr(tuple(x.struct_info.shape))

    def dims(self, x):
        """The dimensions of a tensor: ints and expressions."""
        return dims_of(x)

    def rank(self, x):
        return len(x.struct_info.shape)

    def dtype(self, x):
        return str(x.struct_info.dtype)

    def const_like(self, value, x):
        """A number as a constant of a tensor's dtype."""
        return const(value, self.dtype(x))

    def result_dim(self, axis):
        """A dimension of the node's result, where the graph says it: ExportedProgramImporter; else None."""
        return None

    def cast(self, x, dtype):
        """`x` in a dtype; `x` itself where it has it."""
        return x if self.dtype(x) == dtype else self.op("astype", x, dtype)

    def expr(self, value):
        """A value as a graph expression: numbers and dimensions are scalars of the program."""
        if isinstance(value, RelaxExpr):
            return value
        if isinstance(value, (tuple, list)):
            return RelaxTuple(tuple(self.expr(v) for v in value))
        if isinstance(value, Pair):
            raise self.error("a complex tensor cannot be a result of the function; return torch.view_as_real of it")
        if isinstance(value, (PrimExpr, int, float)):
            return PrimValue(value)
        raise self.error(f"the value {value!r} cannot be a result of the function")

    def is_tensor(self, value):
        return isinstance(value, RelaxExpr) and isinstance(value.struct_info, TensorStructInfo)

    def common(self, *values):
        """Operands in the dtype that torch promotes them to; numbers are constants, dimensions tensors of it."""
        tensors = [v for v in values if self.is_tensor(v)]
        shaped, scalars = ([self.dtype(t) for t in tensors if bool(self.rank(t)) == some] for some in (True, False))
        numbers = [0 if isinstance(v, bool) else 2 if isinstance(v, float) else 1
                   for v in values if not self.is_tensor(v)]
        dtype = promoted(shaped, scalars, numbers)
        return [self.as_operand(v, dtype) for v in values]

    def as_operand(self, value, dtype):
        """A tensor, number or dimension as a tensor of a dtype."""
        if isinstance(value, PrimExpr):
            return self.tensor(value, dtype)
        if not self.is_tensor(value):
            return const(value, dtype)
        if isinstance(value, Constant) and not value.data.shape and self.dtype(value) != dtype:
            return const(value.data.item(), dtype)
        return self.cast(value, dtype)

    def floats(self, x):
        """`x`, as float32 where it holds integers: of functions that give floats."""
        return x if category(self.dtype(x)) == 2 else self.cast(x, "float32")


__all__ = ["Importer", "SharedWriteError", "TorchImportError", "is_node", "target_of"]
