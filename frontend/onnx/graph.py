"""The importer: an ONNX graph, node by node, into the bindings of one graph function."""
from __future__ import annotations

from functools import cache, partial

import numpy as np
from onnx import TensorShapeProto

from ...ir.expr import Var, as_expr
from ...ir.module import IRModule
from ...ir.names import unique_name
from ...ir.origin import Origin
from ...ir.relax.block_builder import BlockBuilder
from ...ir.relax.budget import excess
from ...ir.relax.control import graph_functions
from ...ir.relax.expr import Constant, RelaxCall, RelaxExpr, RelaxVar, TensorStructInfo, TupleGetItem
from ...ir.transform.graph import remove_unused
from ..builder import Builder
from ..problems import listed
from ..shapes import MOST_DIM, shape_text
from . import load
from .attributes import check_inputs, first_version, read_attributes, schema_of
from .captures import subgraphs, used_names
from .choices import Choices
from .converter import CONVERTERS, NodeContext, converter_for, qualified
from .dim_names import names_in, value_of
from .errors import OnnxImportError, UnknownBound
from .functions import has_function, standard_nodes
from .interface import ABSENT, SEQUENCE, TENSOR, Value, elements
from .names import identifier
from .operands import LISTS, converted
from .ops_sequence import Absent, Sequence
from .qdq import integer_nodes


# Operators whose result has the shape of their first operand, and those that broadcast.
KEEP = ("Abs", "Cast", "CastLike", "Ceil", "Cos", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Relu",
        "Round", "Sigmoid", "Sign", "Sin", "Sqrt", "Tanh")
BROADCAST = ("Add", "Div", "Mul", "Pow", "Sub")


class GraphImporter:
    """State of one import. `values`: {ONNX tensor name: graph expression or Symbolic}."""

    def __init__(self, graph, expanded, opset, source, pins, bounds=None, shapes=None, choices=None, literal=False):
        """expanded: function (graph) -> its nodes; source: the Source of the weights; bounds: {name: upper bound} of
        dimensions that a run decides; shapes: see interface.py; choices: the Choices of this attempt; literal: every
        declared extent of 0 is one, see _dim; else `guesses` names tensors of which one is taken for unknown."""
        self.shapes, self.literal, self.guesses = dict(shapes or {}), literal, set()
        self.graph, self.expanded, self.opset, self.source = graph, expanded, opset, source
        self.nodes, self.bounds, self.used_bounds = expanded(graph), dict(bounds or {}), set()
        self.readers = {}  # nodes by the tensors that they read
        self.note_readers(self.nodes)
        self.declared = load.declared_shapes(graph)
        self.choices = choices or Choices()
        self.narrowed = {}  # {title of a node: what the program does not do of it}
        self.samples = {}  # {input: numbers that it may hold}, of those that a run checks
        self.bodies, self.depth = {}, 0  # functions of branches and loops; how deep the graph lies inside of nodes
        self.pins, self.used_pins, self.dims = dict(pins or {}), set(), {}
        self.whole = {d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
        self.values, self.builder = {}, BlockBuilder()
        self.names = set()
        self.taken = None  # names of tensors, once a function of the standard is expanded

    def run(self, name):
        """The IRModule. `name`: the module's, an identifier."""
        load.check_order(self.graph, self.nodes)
        nodes = load.reachable(self.graph, self._in_integers(self.nodes))
        self._check_operators(nodes)
        self._import_weights(nodes)
        weights = {t.name for t in self.graph.initializer}
        inputs = [self._import_input(i) for i in self.graph.input if i.name not in weights]
        params = [p for _, some in inputs for p in some]
        self._check_pins([value.name for value, _ in inputs])
        with self.builder.function("main", params):
            with self.builder.dataflow():
                for node in nodes:
                    self.import_node(node)
                results = [self._output(o.name) for o in self.graph.output]
            outputs = [x for _, some in results for x in some]
            if not outputs:
                raise OnnxImportError("the model's outputs are no tensors: they are empty sequences, or absent")
            self.builder.emit_func_output(outputs[0] if len(outputs) == 1 else outputs)
        values = {"input_values": tuple(tuple(v) for v, _ in inputs),
                  "output_values": tuple(tuple(v) for v, _ in results)}
        attrs = {"global_symbol": "main", "input_names": tuple(p.origin.name for p in params),
                 "output_names": tuple(name for v, _ in results for name in v.names)}
        if any(v.kind != TENSOR for v, _ in (*inputs, *results)):
            attrs.update(values)
        samples = tuple((k, self.samples[name]) for k, name in enumerate(attrs["input_names"]) if name in self.samples)
        attrs.update({"samples": samples} if samples else {})
        func = remove_unused(self.builder.get()["main"]).replace(attrs=attrs)
        self._check_bounds()
        attrs = {"name": name, "dims": tuple(self.dims.values()), "opset": self.opset}
        most = tuple((var, self.bounds[key]) for key, var in self.dims.items() if key in self.bounds)
        attrs.update({"most": most} if most else {})
        mod = IRModule({"main": func, **self.bodies}, attrs)
        return mod.with_functions(graph_functions(mod))

    # ------------------------------------------------------------ before the nodes

    def _check_operators(self, nodes):
        """All operators that cannot be imported, in one error."""
        lines = listed((self._operator_problem(node), node.title) for node in nodes)
        if lines:
            raise OnnxImportError(f"the model uses operators that cannot be imported:\n{lines}\n"
                                  "rewrite or replace them before the export")

    def _operator_problem(self, node):
        held = [p for g in subgraphs(node.proto) for n in self.expanded(g) if (p := self._operator_problem(n))]
        if held:
            return held[0]
        node, opset = node.proto, node.opset
        kind = qualified(node.op_type, node.domain)
        if node.domain not in load.KNOWN_DOMAINS:
            return f"{kind} (unknown operator: no operator of the domain {node.domain!r} is known)"
        schema = schema_of(node.op_type, opset, node.domain)
        if schema is None:
            since = first_version(node.op_type, node.domain)
            return f"{kind} (unknown operator)" if since is None else (
                f"{kind} (exists from opset {since} on, the node is of opset {opset})")
        if schema.since_version > load.READ_OPSETS.get(node.domain, load.READ_OPSET):
            return f"{kind} (its version of opset {schema.since_version} is newer than this importer knows)"
        if converter_for(node.op_type, opset, node.domain) is None and not has_function(schema):
            return f"{kind} (unknown operator: no converter" + (
                f" for opset {opset})" if kind in CONVERTERS else ")")
        return None

    def _in_integers(self, nodes):
        """The nodes, with operators of integers for what quantization tools write with conversions."""
        tensors = {t.name: t for t in self.graph.initializer}

        @cache
        def constant(name):
            return None if name not in tensors else load.array_of(tensors[name], self.source, f"initializer {name!r}")

        return integer_nodes(nodes, constant, [o.name for o in self.graph.output])

    def _import_weights(self, nodes):
        used = {name for node in nodes for name in used_names(node.proto)} | {o.name for o in self.graph.output}
        for tensor in self.graph.initializer:
            if tensor.name in used:
                array = load.array_of(tensor, self.source, f"initializer {tensor.name!r}")
                self.values[tensor.name] = Constant(array, tensor.name)

    def _import_input(self, proto):
        """(Value, its parameters)."""
        value, parts = elements(proto, self.shapes)
        params = [self._parameter(part, proto.name) for part in parts]
        self.values[proto.name] = {TENSOR: lambda: params[0], SEQUENCE: lambda: Sequence(tuple(params)),
                                   ABSENT: Absent}[value.kind]()
        return value, params

    def _parameter(self, part, source):
        """A parameter: dtype, and dims that are fixed, pinned, shared by name or fresh."""
        name = unique_name(identifier(part.name, "input"), self.names)
        empty = [getattr(d, "dim_value", None) == 0 and d.HasField("dim_value") for d in part.dims]
        if any(empty[:1]) and not self.literal and self._is_read(source):
            empty[0] = False
            self.guesses.add(source)
        dims = [0 if none else self._dim(d, f"{name}_d{axis}") for axis, (none, d) in enumerate(zip(empty, part.dims))]
        problem = excess(dims)
        if problem:
            raise OnnxImportError(f"graph input {part.name!r} of shape {shape_text(dims)} {problem}")
        return RelaxVar(name, TensorStructInfo(tuple(dims), part.dtype), Origin(part.name, "", part.name))

    def _is_read(self, name):
        """Whether some node takes the elements of a tensor, not its dtype alone, nor as a list of numbers."""
        return any(used == name and (node.proto.op_type, k) not in LISTS | {("CastLike", 1)}
                   for node in self.nodes for k, used in enumerate(node.proto.input))

    def _dim(self, proto, fallback):
        """A dimension of an input. Values below 1 are how some exporters write "unknown"; 0 is so only as the first
        dimension, the batch, of a tensor that is read: elsewhere it means that there are no elements. Given by the
        caller, a dimension is a number or a name."""
        if isinstance(proto, int):
            return proto
        if isinstance(proto, str):
            proto = TensorShapeProto.Dimension(dim_param=proto)
        if proto.HasField("dim_value") and proto.dim_value > 0:
            return proto.dim_value
        named = any(c.isalpha() or c == "_" for c in proto.dim_param)  # "", "?", "-1": nothing known, no two are one
        if not named and fallback not in self.pins and proto.dim_param in self.pins:
            return self._dim_called(proto.dim_param)  # "?" pins all dimensions of that name
        return self._dim_called(proto.dim_param if named else fallback)

    def _dim_called(self, key, within=()):
        """The dimension of a name: pinned to a size or an expression of others, or a variable; what is named by an
        expression of dimensions of inputs is that. within: names whose expressions it stands in."""
        if key in within:
            raise OnnxImportError(f"dims says of {key!r} what depends on itself: {', '.join(map(repr, within))}")
        size = self.pins.get(key)
        if size is not None:
            self.used_pins.add(key)
            names = names_in(size) if isinstance(size, str) else None
            if names and names <= self.whole:
                return value_of(size, {name: self._dim_called(name, (*within, key)) for name in names})
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise OnnxImportError(f"dims pins {key!r} to {size!r}; a dimension is an integer from 1 up, or made "
                                      "of other dimensions and numbers by + * and //")
            return size
        names = names_in(key) if key not in self.dims else None
        if names and names <= self.whole - {key}:
            return value_of(key, {name: self._dim_called(name) for name in names})
        if key not in self.dims:
            least = 1
            if key in self.bounds:
                self.used_bounds.add(key)
                self._bound(key)
                least = 0
            self.dims[key] = Var(unique_name(identifier(key, "n"), self.names), "int64", None, least)
        return self.dims[key]

    def _bound(self, name):
        """The number that `bounds` says of a dimension."""
        bound = self.bounds[name]
        if isinstance(bound, bool) or not isinstance(bound, int) or not 0 < bound <= MOST_DIM:
            raise OnnxImportError(f"bounds says that {name!r} is at most {bound!r}; a bound is an integer from 1 up")
        return bound

    def _check_pins(self, inputs):
        if unknown := sorted(set(self.shapes) - set(inputs)):
            raise OnnxImportError(f"shapes names {', '.join(map(repr, unknown))}, and the model's inputs are "
                                  f"{', '.join(map(repr, inputs)) or 'none'}")
        unknown = sorted(set(self.pins) - self.used_pins)
        if unknown:
            known = sorted(self.used_pins | set(self.dims))
            raise OnnxImportError(f"dims names {', '.join(map(repr, unknown))}, and the model's symbolic dimensions "
                                  f"are {', '.join(map(repr, known)) or 'none: every input shape is fixed'}")

    # ------------------------------------------------------------ nodes

    def import_node(self, node):
        """Convert a node; its results are `values` then."""
        whole, node, title, opset = node, node.proto, node.title, node.opset
        schema = schema_of(node.op_type, opset, node.domain)
        check_inputs(node, schema, title)
        attrs = read_attributes(node, schema, title)
        inputs = [self.values[name] if name else None for name in node.input]
        converter = converter_for(node.op_type, opset, node.domain)
        if converter is None:
            return self._expand(whole, schema, title, inputs)
        origin = node.name or next(filter(None, node.output), node.op_type)
        hint = identifier(next(filter(None, node.output), node.op_type), "t")

        def emit(value):
            part = getattr(value, "op", "part").rpartition(".")[2].removeprefix("call_")
            return self.builder.emit(value, f"{hint}_{part}", Origin(origin, node.op_type, ""))

        context = NodeContext(node, title, opset, inputs, attrs, list(node.output), emit, self)
        results = self._converted(converter, context)
        results = results if isinstance(results, tuple) else (results,)
        for name, value in zip(node.output, results):
            if name:
                self.values[name] = self._named(value, name, Origin(origin, node.op_type, name), context)
        for name in node.output[len(results):]:
            if name:
                raise context.error(f"output {name!r} is not supported; only the first {len(results)} are")

    def _expand(self, node, schema, title, inputs):
        """Import the nodes of the function by which the standard defines the operator."""
        if self.taken is None:
            self.taken = {*self.values, *(n for other in self.nodes for n in (*other.proto.input, *other.proto.output))}
        infos = [getattr(x, "struct_info", None) for x in inputs]
        nodes = standard_nodes(node, schema, infos, self.taken, self.opset)
        if nodes is None:
            raise OnnxImportError(f"{title}: the standard defines no function for these attributes and inputs, and "
                                  "there is no converter")
        self._check_operators(nodes)
        self.note_readers(nodes)
        for part in nodes:
            self.import_node(part)

    @staticmethod
    def _converted(converter, context):
        """Convert one node. An exception of no class of the importer is a fault of the converter, or a model that
        it should have refused: the error says so, and which node it was."""
        try:
            return converted(context, converter)
        except OnnxImportError:
            raise
        except Exception as error:
            raise context.error(f"internal error: {type(error).__name__}: {error}; the node is not valid, or the "
                                "importer at fault") from error

    def _named(self, value, name, origin, context):
        """Bind a result under its tensor's name; constants take the name, other values have one already."""
        if isinstance(value, (RelaxCall, TupleGetItem)):
            return context.bound(value) or self.builder.emit(value, identifier(name, "t"), origin)
        if isinstance(value, Constant) and not value.name:
            return value.replace(name=name)
        return value

    def _output(self, name):
        """(Value, its tensors)."""
        value = self.values[name]
        if isinstance(value, Absent):
            return Value(name, ABSENT, 0), []
        if isinstance(value, Sequence):
            found = Value(name, SEQUENCE, len(value.items))
            return found, [self._tensor(*pair) for pair in zip(value.items, found.names)]
        return Value(name), [self._tensor(value, name)]

    def _tensor(self, value, name):
        value = self.tensor_of(value, self.builder, name)
        if not isinstance(value, RelaxExpr):
            way = getattr(value, "way_out", "export the model with the elements that it is made of")
            raise OnnxImportError(f"graph output {name!r} is {value}; only tensors are outputs: {way}")
        return value

    # ------------------------------------------------------------ what a run decides

    @staticmethod
    def tensor_of(value, builder, name):
        """A value as a tensor; one that is made of dimensions is computed."""
        emit = partial(builder.emit, name_hint=identifier(name, "t"))
        return Builder(lambda call: emit(call, origin=Origin(name, "", name))).tensor(value)

    def add_body(self, name, func):
        """Take a Function as the body of a branch or loop; returns its name."""
        name = unique_name(name, {"main", *self.bodies})
        self.bodies[name] = func
        return name

    def note_sample(self, name, numbers):
        """What an input may hold that the run checks: for self-tests, where the tensor is an input of the graph."""
        self.samples.setdefault(name, tuple(np.asarray(numbers).reshape(-1).tolist()))

    def note_ones(self, name):
        """Let self-tests have inputs of integers that a tensor is computed from, as a mask is counted, hold ones."""
        made = {n: node.proto for node in self.nodes for n in node.proto.output if node.proto.op_type != "Shape"}
        todo, seen = [name], set()
        while todo:
            name = todo.pop()
            if name in made and name not in seen:
                todo += [n for n in made[name].input if n]
            elif getattr(getattr(self.values.get(name), "struct_info", None), "ndim", 0) > 1:
                self.note_sample(name, [1])
            seen.add(name)

    def new_dim(self, name, most):
        """A dimension that a run decides, with an upper bound that is an expression of the inputs' dimensions."""
        taken = {v.name for v in self.dims.values()} | self.used_bounds
        name = unique_name(name, taken)
        self.used_bounds.add(name)
        return Var(name, "int64", as_expr(most).astype("int64"))

    def decided(self, node, name, most, what, axis=None):
        """A dimension that a run decides. most: its upper bound where that is known, an int or expression; else it is
        that of `bounds`, or what the model declares as the extent of (number of an output of the node, axis); the error
        for want of one asks for it."""
        if most is None and name not in self.bounds and axis is not None:
            most = self._declared(node, *axis)
        if most is not None:
            return self.new_dim(name, most)
        if name not in self.bounds:
            raise UnknownBound(str(node.error(
                f"{what} is decided by a run, and nothing says how large it is at most, which the memory plan must "
                f"know: give a bound, for example --bound {name}=100, or bounds={{{name!r}: 100}} in Python")))
        return self.new_dim(name, self._bound(name))

    def _declared(self, node, output, axis):
        """An extent that the model declares for a result; for a list also what it declares for a list that is computed
        from it element by element, which is no shorter. None where that is no number."""
        name = node.outputs[output] if output < len(node.outputs) else ""
        dims = self.declared_dims(name)
        if dims is None:
            dims = self.declared_dims(name, BROADCAST)
            dims = dims if dims is not None and len(dims) == 1 else None
        found = dims[axis] if dims is not None and axis < len(dims) else None
        if found == 0 and not self.literal:
            self.guesses.add(name)
            return None
        return found if isinstance(found, int) else None

    def declared_dims(self, name, others=()):
        """The shape that the model declares for a tensor, or for what operators that keep shapes, and `others`, compute
        from it, with None for an extent that is not known; None where it declares none."""
        seen = set()
        while name and name not in self.declared and name not in seen:
            seen.add(name)
            name = next((n.output[0] for n in self.readers.get(name, ())
                         if n.op_type in KEEP and n.input[0] == name or n.op_type in others), None)
        return [self._declared_dim(d) for d in self.declared[name]] if name in self.declared else None

    def _declared_dim(self, proto):
        if proto.HasField("dim_value"):
            return proto.dim_value if proto.dim_value >= 0 else None
        return self.pins.get(proto.dim_param, self.dims.get(proto.dim_param)) if proto.dim_param else None

    def note_readers(self, nodes):
        """Add nodes to the `readers` of the tensors that they read."""
        for node in nodes:
            for name in node.proto.input:
                self.readers.setdefault(name, []).append(node.proto)

    def _check_bounds(self):
        unknown = sorted(set(self.bounds) - self.used_bounds)
        if unknown:
            raise OnnxImportError(f"bounds names {', '.join(map(repr, unknown))}, and the dimensions that callers "
                                  f"pass or a run decides are "
                                  f"{', '.join(map(repr, sorted(self.used_bounds | set(self.dims)))) or 'none'}")
