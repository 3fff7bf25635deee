"""A number that is not finite, or huge, changes nothing but the results of its own image, row or sequence."""
import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_supported_here
from networks import make_model

TARGETS = ["c", "x86-64-v3", "x86-64-v4", "x86-64-v4-zen4"]
here = [pytest.param(t, marks=pytest.mark.skipif(not is_supported_here(Target.get(t)), reason=f"{t} does not run here"))
        for t in TARGETS]
VALUES = (np.nan, np.inf, -np.inf, 1e20)
# An algorithm, the sizes of the kernel, the stride and the input's channels: those that float32's accuracy admits.
WINOGRAD = (*((f"winograd{tile}", 3, 1, channels) for tile in (2, 3, 4) for channels in (16, 40)),
            ("winograd2", 5, 1, 64), ("winograd2", 5, 2, 32))


class Cases:
    """Nodes of one model, each with inputs of its own. `axes`: of the rows of inputs and outputs."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs, self.axes = [], {}, {}, {}, {}
        self.rng = np.random.default_rng(0)

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values)
        return name

    def weight(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32))

    def input(self, *shape, axis=0):
        name = f"x{len(self.inputs)}"
        self.inputs[name], self.axes[name] = (np.float32, list(shape)), axis
        return name

    def hidden(self, op, *args, **attributes):
        """The name of what a node computes from others' outputs and for others."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(args), [name], name=name, **attributes))
        return name

    def __call__(self, op, *args, shape, axis=0, **attributes):
        """A node whose first output is one of the model, of this shape."""
        name = self.hidden(op, *args, **attributes)
        self.outputs[name], self.axes[name] = (np.float32, list(shape)), axis


def products(net):
    """Rows by a constant and by an input, of one panel and of several, few rows and many, short sums and long ones."""
    for rows, depth, columns in ((3, 64, 48), (5, 700, 20), (40, 96, 112), (17, 33, 35)):
        net("MatMul", net.input(rows, depth), net.weight(depth, columns), shape=(rows, columns))
        net("Gemm", net.input(rows, depth), net.weight(columns, depth), net.weight(columns), transB=1,
            shape=(rows, columns))
    net("MatMul", net.input(3, 6, 40), net.weight(40, 33), shape=(3, 6, 33))
    net("MatMul", net.input(3, 4, 24), net.input(3, 24, 40), shape=(3, 4, 40))  # each in its own matrix of a batch
    net("MatMul", net.weight(7, 40), net.input(40, 70, axis=1), shape=(7, 70), axis=1)


def convolutions(net):
    """Images of a batch: dense ones by every algorithm that a target chooses, by channels, in groups, transposed."""
    for channels, filters, size, kernel, more in (
            (3, 20, (11, 9), 3, {}), (32, 48, (14, 13), 3, {}), (40, 24, (9, 10), 1, {}), (16, 32, (12, 12), 5, {}),
            (32, 32, (15, 12), 3, {"strides": [2, 2]}), (16, 16, (7, 9), 3, {"dilations": [2, 2]}),
            (20, 20, (9, 8), 3, {"group": 20}), (24, 48, (9, 8), 3, {"group": 2}), (24, 24, (7, 7), 1, {"group": 3})):
        pad = kernel // 2 * more.get("dilations", [1])[0]
        stride = more.get("strides", [1])[0]
        shape = (3, filters, *(-(-s // stride) for s in size))
        weight = net.weight(filters, channels // more.get("group", 1), kernel, kernel)
        net("Conv", net.input(3, channels, *size), weight, net.weight(filters), shape=shape, pads=[pad] * 4, **more)
    net("ConvTranspose", net.input(3, 16, 5, 6), net.weight(16, 24, 4, 4), strides=[2, 2], pads=[1] * 4,
        shape=(3, 24, 10, 12))


def others(net):
    net("MaxPool", net.input(3, 20, 9, 8), kernel_shape=[3, 3], pads=[1] * 4, shape=(3, 20, 9, 8))
    net("AveragePool", net.input(3, 20, 9, 8), kernel_shape=[3, 3], pads=[1] * 4, shape=(3, 20, 9, 8))
    net("GlobalAveragePool", net.input(3, 20, 9, 8), shape=(3, 20, 1, 1))
    for size in (10, 33, 64, 150):
        net("Softmax", net.input(6, size), shape=(6, size))
        net("LogSoftmax", net.input(6, size), shape=(6, size))
        net("LayerNormalization", net.input(6, size), net.weight(size), net.weight(size), shape=(6, size))
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp"):
            axes = {"axes": [1]} if op != "ReduceSum" else {}
            extra = [net.constant([1])] if op == "ReduceSum" else []
            net(op, net.input(6, size), *extra, keepdims=0, shape=(6,), **axes)
        net("InstanceNormalization", net.input(3, 5, 6, 7), net.weight(5), net.weight(5), shape=(3, 5, 6, 7))
    net("LRN", net.input(3, 9, 5, 6), size=5, shape=(3, 9, 5, 6))
    for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "HardSwish"):
        net(op, net.input(5, 37), shape=(5, 37))


def recurrent(net):
    """Sequences of a batch."""
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for hidden, both in ((16, False), (20, True)):
            n = 1 + both
            net(op, net.input(4, 3, 10, axis=1), net.weight(n, gates * hidden, 10),
                net.weight(n, gates * hidden, hidden), net.weight(n, 2 * gates * hidden), hidden_size=hidden,
                direction="bidirectional" if both else "forward", shape=(4, n, 3, hidden), axis=2)


def attention(net):
    """Queries, keys and values of each sequence of a batch, in heads."""
    batch, length, heads, size = 3, 9, 2, 16
    width = heads * size
    split, join = net.constant([0, -1, heads, size]), net.constant([0, -1, width])
    x = net.input(batch, length, width)
    parts = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        y = net.hidden("MatMul", x, net.weight(width, width))
        parts.append(net.hidden("Transpose", net.hidden("Reshape", y, split), perm=perm))
    scores = net.hidden("Mul", net.hidden("MatMul", *parts[:2]), net.constant(np.float32(0.25)))
    y = net.hidden("MatMul", net.hidden("Softmax", scores, axis=-1), parts[2])
    y = net.hidden("Reshape", net.hidden("Transpose", y, perm=[0, 2, 1, 3]), join)
    net("MatMul", y, net.weight(width, width), shape=(batch, length, width))


def model_of(*parts):
    net = Cases()
    for part in parts:
        part(net)
    return net, make_model("isolation", net.nodes, net.inputs, net.outputs, net.weights)


def spoiled(feeds, axes, place, value, rng):
    """The inputs with one number of the row at `place` (0: the first, 1: the last) replaced, and {input: that row}."""
    changed = {}
    for name, array in feeds.items():
        array = np.moveaxis(array.copy(), axes[name], 0)
        row = array[-place]
        row[tuple(int(rng.integers(n)) for n in row.shape)] = value
        changed[name] = np.moveaxis(array, 0, axes[name])
    return changed


def check_isolation(library, net):
    """Nothing outside of a row that is spoiled changes, by a bit."""
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, (_, shape) in net.inputs.items()}
    clean = {name: np.moveaxis(y.copy(), net.axes[name], 0) for name, y in library.run(feeds).items()}
    wrong, spread = set(), set()
    for value in VALUES:
        for place in (0, 1, 2):
            found = library.run(spoiled(feeds, net.axes, place, value, rng))
            for name, y in found.items():
                y = np.moveaxis(y, net.axes[name], 0)
                other = np.arange(len(clean[name])) != -place % len(clean[name])
                if not np.array_equal(y[other], clean[name][other]):
                    wrong.add(f"{name} {net.outputs[name][1]}: {value} in row {-place}")
                if not np.array_equal(y[~other], clean[name][~other]):
                    spread.add(name)
    assert not wrong, "\n".join(sorted(wrong))
    assert spread == set(clean), "rows that nothing changed"
    assert all(np.isfinite(y).all() for y in clean.values())


@pytest.mark.parametrize("part, target, kept", [
    pytest.param(part, *p.values, ("float32", "strict")[(n + k) % 2], marks=p.marks)
    for k, part in enumerate((products, convolutions, others, recurrent, attention)) for n, p in enumerate(here)])
def test_what_is_not_finite_stays_in_its_row(part, target, kept):
    net, model = model_of(part)
    with ingot.compile(model, target=target, threads="none", accuracy=kept) as library:
        check_isolation(library, net)


@pytest.mark.parametrize("target", here[1:])
def test_winograd_keeps_it_in_its_image(target):
    """Where it may change all points."""
    net, algorithms = Cases(), {}
    for algorithm, kernel, stride, channels in WINOGRAD:
        for filters, size in ((32, (15, 14)), (64, (7, 7))):
            algorithms[f"conv_{len(net.nodes)}"] = algorithm
            net("Conv", net.input(3, channels, *size), net.weight(filters, channels, kernel, kernel),
                net.weight(filters), shape=(3, filters, *(-(-s // stride) for s in size)), pads=[kernel // 2] * 4,
                strides=[stride] * 2)
    model = make_model("isolation", net.nodes, net.inputs, net.outputs, net.weights)
    with ingot.compile(model, target=target, threads="none", algorithms=algorithms) as library:
        made = [k for k in library.model.kernels.values() if any("winograd" in str(b) for b in k.bounds)]
        assert len(made) == len(net.outputs)
        check_isolation(library, net)
