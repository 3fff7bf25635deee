"""Quantize a network by onnxruntime's tools, and say what that costs and saves, by Ingot's own runs of both networks.

    report = ingot.quantize("net.onnx", "calibration.npz", "net_int8.onnx", keep_float=2)
    report.layers[0].name, report.layers[0].sqnr        # the worst first
    report = ingot.quantize("net.onnx", "calibration.npz", "net_int8.onnx", integer_io=True)
    report.ends["input"].scale                          # the caller quantizes what it passes

onnxruntime calibrates and writes the network (DequantizeLinear and QuantizeLinear around every operator). Needs
onnxruntime: pip install ingot[quantize].
"""
from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from . import api

ACTIVATIONS = {"uint8": "QUInt8", "int8": "QInt8", "int16": "QInt16"}
SUFFIX = "_DequantizeLinear_Output"  # of the names that onnxruntime gives to what is dequantized
MOST_SAMPLES = 8  # that layers are compared on
EXACT_DB = 200.0  # what stands for no error at all
MILLISECOND = 1e-3


@dataclass(frozen=True)
class Layer:
    """What lies between quantized tensors. nodes: the names of its nodes, in order; op: their operators. cosine: of the
    angle between its float result and the quantized one; sqnr: power of the signal over that of the error, in dB; lost:
    how many dB less than the least of what it reads, by which layers are ranked."""

    nodes: tuple[str, ...]
    op: str
    cosine: float
    sqnr: float
    lost: float

    @property
    def name(self):
        return self.nodes[0]


@dataclass(frozen=True)
class Cost:
    """ram: bytes of the arena; flash: of weights; seconds: of a run, None where this machine cannot run the target."""

    ram: int
    flash: int
    seconds: float | None


@dataclass(frozen=True)
class End:
    """An input or output of integers: its real values are (q - zero_point) * scale."""

    dtype: np.dtype
    scale: float
    zero_point: int

    def quantized(self, array):
        """Real values as the integers that the network takes: to nearest, halves to even, within the type."""
        limits = np.iinfo(self.dtype)
        q = np.rint(np.asarray(array, np.float32) / np.float32(self.scale)) + np.float32(self.zero_point)
        return np.clip(q, limits.min, limits.max).astype(self.dtype)

    def real(self, array):
        """The real values of integers that the network gives."""
        return (np.asarray(array, np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


@dataclass(frozen=True)
class Report:
    """What quantization did. layers: the worst first; kept: names of those that stay float; before, after: Cost; ends:
    {name: End} of inputs and outputs that are integers."""

    layers: tuple[Layer, ...]
    kept: tuple[str, ...]
    before: Cost
    after: Cost
    ends: dict[str, End]

    @property
    def ends_text(self):
        """A line for each input and output of integers: its type, and what a value stands for."""
        return "".join(f"\n{name}: {end.dtype}, {end.scale!r} * (q - ({end.zero_point}))"
                       for name, end in self.ends.items())

    def rows(self):
        """The costs as rows of text: what, before, after."""
        def time(cost):
            return "-" if cost.seconds is None else f"{cost.seconds / MILLISECOND:.3f}"
        return [("RAM, bytes", f"{self.before.ram:,}", f"{self.after.ram:,}"),
                ("flash, bytes", f"{self.before.flash:,}", f"{self.after.flash:,}"),
                ("time, ms", time(self.before), time(self.after))]


def quantize(model, data, output, keep_float=0, activations="uint8", per_channel=True, integer_io=False, **options):
    """Write a network quantized to 8 bits.

    model: a path to an ONNX file. data: inputs to calibrate on: a path to an .npz of arrays by the names of inputs,
    each [N, ...] with a sample in each row (where the input has a batch of 1, rows of that), or to a folder of .npz
    files of one sample each; or a list of {name: array}.
    output: the file to write. keep_float: so many layers stay float, those that lose most. activations: "uint8", "int8"
    or "int16". per_channel: a scale for each output channel of weights, else one for all. integer_io: inputs and outputs
    are integers, too, where the network quantizes them by one scale; the Report's ends say how. options: of
    ingot.compile, by which both networks are run.

    Returns a Report. Raises ValueError for data that the network does not take, ImportError without onnxruntime.
    """
    if activations not in ACTIVATIONS:
        raise ValueError(f"activations must be one of {', '.join(ACTIVATIONS)}, not {activations!r}")
    if keep_float < 0:
        raise ValueError(f"keep_float must be a number of layers, at least 0, not {keep_float}")
    tools, samples = _tools(), samples_of(data, onnx.load(model, load_external_data=False))
    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        tools.quant_pre_process(str(model), str(plain), skip_symbolic_shape=True)

        def layers_without(kept):
            nodes = [name for layer in kept for name in layer.nodes]
            tools.quantize_static(str(plain), str(made), _reader(tools, samples), per_channel=per_channel,
                                  quant_format=tools.QuantFormat.QDQ, nodes_to_exclude=nodes,
                                  activation_type=getattr(tools.QuantType, ACTIVATIONS[activations]),
                                  weight_type=tools.QuantType.QInt8)
            return compared(onnx.load(plain), onnx.load(made), samples[:MOST_SAMPLES], options)

        layers, kept = layers_without(()), ()
        if keep_float:
            kept = layers[:keep_float]
            layers = layers_without(kept)
        ends = {}
        if integer_io:
            proto = onnx.load(made)
            ends = with_integer_ends(proto)
            onnx.save(proto, made)
        integers = {name: ends[name].quantized(array) if name in ends else array for name, array in samples[0].items()}
        report = Report(layers, tuple(layer.name for layer in kept), _cost(plain, samples[0], options),
                        _cost(made, integers, options), ends)
        _replace(made, Path(output))
    return report


def _tools():
    try:
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise ImportError(f"quantize needs onnxruntime ({error}): pip install ingot[quantize]") from error
    quantization.quant_pre_process = quant_pre_process
    return quantization


def _reader(tools, samples):
    rest = iter(samples)

    class Reader(tools.CalibrationDataReader):
        def get_next(self):
            return next(rest, None)

    return Reader()


def _replace(made, output):
    """Put a whole file in place, or none."""
    part = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        part.write_bytes(made.read_bytes())
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)


# ---------------------------------------------------------------- calibration data

def samples_of(data, proto):
    """The samples, a list of {input: array}. data: see quantize. Raises ValueError where names or shapes are wrong."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = {i.name: i.type.tensor_type for i in proto.graph.input if i.name not in constants}
    if not isinstance(data, (str, Path)):
        samples = [dict(sample) for sample in data]
    elif Path(data).is_dir():
        samples = [_arrays(file) for file in sorted(Path(data).glob("*.npz"))]
    else:
        samples = _rows(_arrays(data), inputs)
    if not samples:
        raise ValueError(f"{data} has no samples to calibrate on")
    return [{name: _fitting(name, array, inputs) for name, array in _complete(sample, inputs).items()}
            for sample in samples]


def _arrays(path):
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, EOFError, AttributeError) as error:
        raise ValueError(f"{path} is no .npz file of arrays: {error}") from error


def _complete(sample, inputs):
    if sample.keys() != inputs.keys():
        raise ValueError(f"samples must have the inputs {', '.join(inputs)}, not {', '.join(sample) or 'none'}")
    return sample


def _rows(arrays, inputs):
    """The samples that lie in the rows of arrays."""
    counts = {name: len(array) for name, array in _complete(arrays, inputs).items() if array.ndim}
    if len(counts) != len(arrays) or len(set(counts.values())) != 1:
        raise ValueError(f"each input must have as many samples as the others, not {counts}")
    batched = {name: array.ndim == len(inputs[name].shape.dim) for name, array in arrays.items()}
    return [{name: array[n:n + 1] if batched[name] else array[n] for name, array in arrays.items()}
            for n in range(next(iter(counts.values())))]


def _fitting(name, array, inputs):
    dims = [d.dim_value or None for d in inputs[name].shape.dim]
    if array.ndim != len(dims) or any(d and d != n for d, n in zip(dims, array.shape)):
        wanted = ", ".join("?" if d is None else str(d) for d in dims)
        raise ValueError(f"input {name!r} is ({wanted}); a sample of it has shape {array.shape}")
    return np.ascontiguousarray(array, onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type))


# ---------------------------------------------------------------- layers

def compared(plain, quantized, samples, options):
    """The Layers of a float network and its quantized form, those that lose most first. Nodes of the float one have
    names, as onnxruntime's tools ask for."""
    makers = {name: node for node in plain.graph.node for name in node.output}
    inputs = {i.name for i in plain.graph.input}
    names = [n.output[0].removesuffix(SUFFIX) for n in quantized.graph.node
             if n.op_type == "DequantizeLinear" and n.output[0].endswith(SUFFIX)]
    names = [name for name in dict.fromkeys(names) if name in makers or name in inputs]
    sums = {name: np.zeros(4) for name in names}
    with (_shown(plain, [n for n in names if n in makers], options) as left,
          _shown(quantized, [n + SUFFIX for n in names], options) as right):
        for sample in samples:
            found, given = right.run(sample), {**sample, **left.run(sample)}
            for name in names:
                a, b = (np.asarray(v, np.float64).reshape(-1) for v in (given[name], found[name + SUFFIX]))
                sums[name] += a @ b, a @ a, b @ b, (a - b) @ (a - b)
    decibels = {name: _decibels(power, error) for name, (_, power, _, error) in sums.items()}
    order = {name: n for n, node in enumerate(plain.graph.node) for name in node.output}
    layers = []
    for name in (n for n in names if n in makers):
        nodes, sources = _layer(name, makers, decibels)
        nodes.sort(key=lambda node: order[node.output[0]])
        lost = min((decibels[i] for i in sources), default=EXACT_DB) - decibels[name]
        layers.append(Layer(tuple(n.name or n.output[0] for n in nodes), " + ".join(n.op_type for n in nodes),
                            _cosine(*sums[name][:3]), decibels[name], lost))
    return tuple(sorted(layers, key=lambda layer: -layer.lost))


def _layer(name, makers, known):
    """(the nodes that make a tensor of the nearest ones before it that are known, these)."""
    nodes, found, todo = [makers[name]], [], list(makers[name].input)
    while todo:
        name = todo.pop()
        if name in known:
            found.append(name)
        elif name in makers and not any(makers[name] is node for node in nodes):
            nodes.append(makers[name])
            todo.extend(makers[name].input)
    return nodes, found


def _decibels(power, error):
    return EXACT_DB if not error else float(np.clip(10 * np.log10(max(power, 1e-300) / error), -EXACT_DB, EXACT_DB))


def _cosine(product, *powers):
    length = float(np.sqrt(powers[0] * powers[1]))
    return float(product / length) if length else float(not any(powers))


def _shown(proto, names, options):
    """The library of a network that also returns some of its tensors."""
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    there = {o.name for o in shown.graph.output}
    kinds = {v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.value_info}
    shown.graph.output.extend(kinds.get(name) or onnx.helper.make_tensor_value_info(
        name, onnx.TensorProto.FLOAT, None) for name in names if name not in there)
    return api.compile(shown, **{**options, "target": "host", "name": None, "threads": None, "weights": None})


# ---------------------------------------------------------------- inputs and outputs

def with_integer_ends(proto):
    """Make inputs and outputs of a quantized ModelProto integers, in place: {name: End} of those that are.

    An input that nothing but QuantizeLinear nodes of one scale and zero point reads is taken quantized; an output that a
    DequantizeLinear makes for nobody else is given as it was. The others stay as they are.
    """
    graph = proto.graph
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    given = {o.name for o in graph.output} | set(_read_inside(graph))
    ends, gone, renamed = {}, set(), {}
    for value in graph.input:
        readers = [n for n in graph.node if value.name in n.input]
        found = {_end(n, "QuantizeLinear", constants) for n in readers}
        if len(found) == 1 and None not in found and given.isdisjoint({value.name, *(n.output[0] for n in readers)}):
            ends[value.name], = found
            gone |= {n.output[0] for n in readers}
            renamed |= {n.output[0]: value.name for n in readers}
    makers = {name: n for n in graph.node for name in n.output}
    for value in graph.output:
        node = makers.get(value.name)
        end = node and _end(node, "DequantizeLinear", constants)
        free = node and node.input[0] in makers and node.input[0] not in {*given, *gone, *renamed}
        if end and free and not any(value.name in n.input for n in graph.node):
            ends[value.name] = end
            gone.add(value.name)
            renamed[node.input[0]] = value.name
    kept = [n for n in graph.node if n.output[0] not in gone]
    for node in kept:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    del graph.node[:]
    graph.node.extend(kept)
    for value in (*graph.input, *graph.output):
        if value.name in ends:
            value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(ends[value.name].dtype)
    stale = [v for v in graph.value_info if v.name in renamed or v.name in ends]
    for value in stale:
        graph.value_info.remove(value)
    return ends


def _read_inside(graph):
    """The names that branches and bodies of loops read."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from (name for n in inner.node for name in n.input)
                yield from (o.name for o in inner.output)
                yield from _read_inside(inner)


def _end(node, op, constants):
    """The End of a node of op with one constant scale; None of others."""
    if node.op_type != op or len(node.input) < 3 or not all(name in constants for name in node.input[1:3]):
        return None
    scale, zero = (constants[name] for name in node.input[1:3])
    if scale.size != 1 or scale.dtype != np.float32 or zero.dtype not in (np.int8, np.uint8, np.int16, np.uint16):
        return None
    return End(zero.dtype, float(scale.reshape(())), int(zero.reshape(())))


# ---------------------------------------------------------------- costs

def _cost(path, sample, options):
    report = api.memory_report(str(path), **options)
    library = api.compile(str(path), **options)
    seconds = None
    if str(library.model.target) == str(api.Options.check().target) or str(library.model.target) == "c":
        with library:
            arrays = [sample[i.source_name] for i in library.inputs]
            seconds = library.time(*arrays, repeat=10).median
    return Cost(report.total, library.model.program.weights_bytes, seconds)


__all__ = ["quantize", "Report", "Layer", "Cost", "End"]
