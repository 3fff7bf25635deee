"""Random ONNX graphs of all families of operators, and what makes a failing one small."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper, printer, shape_inference

FLOAT = TensorProto.FLOAT
_UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "HardSigmoid", "LeakyRelu", "Elu", "Floor",
          "Sin", "Softsign", "HardSwish", "Identity")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_REDUCE = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare")


class RandomModel:
    """A graph that grows by random steps over values of known shapes. One axis may be symbolic: the first, "n"."""

    def __init__(self, seed, steps=7):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.shapes = [], {}, {}
        rank = int(self.rng.integers(2, 5))
        shape = [int(self.rng.integers(1, 4)), *(int(d) for d in self.rng.integers(2, 14, rank - 1))]
        self.first, self.symbolic = shape[0], bool(self.rng.random() < 0.25)
        self.inputs = {"x": tuple(shape)}
        self.shapes["x"] = tuple(shape)
        if self.rng.random() < 0.3 and not self.symbolic:
            self.inputs["z"] = self.shapes["z"] = tuple(d if self.rng.random() < 0.6 else 1 for d in shape)
        table = [self.unary, self.binary, self.constant_operand, self.conv, self.conv, self.pool, self.matmul,
                 self.reduce, self.reshape, self.transpose, self.concat, self.split, self.gather, self.softmax,
                 self.norm, self.attention, self.slice, self.pad, self.where, self.batch_norm]
        for _ in range(steps):
            name = self.pick()
            table[int(self.rng.integers(len(table)))](name, self.shapes[name])
        self.outputs = self._unread()

    # ---- growing --------------------------------------------------------------------------------------------------

    def pick(self):
        """A value, mostly one of the last."""
        names = list(self.shapes)
        return names[-1 - min(int(self.rng.exponential(1.2)), len(names) - 1)]

    def node(self, op, inputs, shape, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(int(d) for d in shape)
        return name

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def draw(self, *shape, scale=1.0):
        return self.weight((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def axes(self, shape):
        """Axes that steps may change the order or number of: not the first one, where that is symbolic."""
        return range(1 if self.symbolic else 0, len(shape))

    def _unread(self):
        read = {name for node in self.nodes for name in node.input}
        return [name for name in self.shapes if name not in read and name not in self.inputs][:3] or ["v0"]

    # ---- steps ----------------------------------------------------------------------------------------------------

    def unary(self, x, shape):
        self.node(str(self.rng.choice(_UNARY)), [x], shape)

    def binary(self, x, shape):
        others = []
        for name, other in self.shapes.items():
            try:
                result = np.broadcast_shapes(shape, other)
            except ValueError:
                continue
            if not self.symbolic or len(result) == len(shape) == len(other) and other[0] == shape[0]:
                if np.prod(result) <= 20000:
                    others.append((name, result))
        name, result = others[int(self.rng.integers(len(others)))]
        pair = [x, name] if self.rng.random() < 0.5 else [name, x]
        self.node(str(self.rng.choice(_BINARY)), pair, result)

    def constant_operand(self, x, shape):
        sizes = [d if self.rng.random() < 0.5 else 1 for d in shape]
        if self.symbolic:
            sizes[0] = 1
        sizes = sizes[int(self.rng.integers(0, len(sizes) + 1)):]
        self.node(str(self.rng.choice((*_BINARY, "PRelu"))), [x, self.draw(*sizes)], shape)

    def conv(self, x, shape):
        if len(shape) not in (3, 4):
            return self.unary(x, shape)
        channels, spatial = shape[1], shape[2:]
        group = channels if self.rng.random() < 0.3 else 1
        filters = group * int(self.rng.integers(1, 3)) if group > 1 else int(self.rng.choice([1, 3, 8, 16, 20, 32]))
        kernel = [int(self.rng.integers(1, min(4, d) + 1)) for d in spatial]
        if self.rng.random() < 0.5:
            kernel = [min(3, d) for d in spatial]
        strides = [int(self.rng.choice([1, 1, 2])) for _ in spatial]
        dilations = [2 if k > 1 and 2 * (k - 1) < d and self.rng.random() < 0.2 else 1 for k, d in zip(kernel, spatial)]
        pads = [int(self.rng.integers(0, k)) for k in kernel * 2]
        rank = len(spatial)
        sizes = [(d + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
                 for i, d in enumerate(spatial)]
        terms = channels // group * int(np.prod(kernel))
        inputs = [x, self.draw(filters, channels // group, *kernel, scale=terms ** -0.5)]
        inputs += [self.draw(filters, scale=0.3)] if self.rng.random() < 0.6 else []
        self.node("Conv", inputs, (shape[0], filters, *sizes), group=group, strides=strides, dilations=dilations,
                  pads=pads, kernel_shape=kernel)

    def pool(self, x, shape):
        if len(shape) != 4:
            return self.reduce(x, shape)
        if self.rng.random() < 0.25:
            op = str(self.rng.choice(["GlobalAveragePool", "GlobalMaxPool"]))
            return self.node(op, [x], (*shape[:2], 1, 1))
        kernel = [int(self.rng.integers(1, min(3, d) + 1)) for d in shape[2:]]
        pads = [int(self.rng.integers(0, k)) for k in kernel * 2]
        strides = [int(self.rng.integers(1, 3)) for _ in kernel]
        sizes = [(d + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i, d in enumerate(shape[2:])]
        op = str(self.rng.choice(["MaxPool", "AveragePool"]))
        more = {"count_include_pad": int(self.rng.integers(2))} if op == "AveragePool" else {}
        self.node(op, [x], (*shape[:2], *sizes), kernel_shape=kernel, pads=pads, strides=strides, **more)

    def matmul(self, x, shape):
        columns = int(self.rng.choice([1, 5, 16, 33]))
        weights = self.draw(shape[-1], columns, scale=shape[-1] ** -0.5)
        if len(shape) == 2 and self.rng.random() < 0.5:
            return self.node("Gemm", [x, weights, self.draw(columns)], (shape[0], columns), alpha=0.5)
        self.node("MatMul", [x, weights], (*shape[:-1], columns))

    def reduce(self, x, shape):
        axis = int(self.rng.integers(1, len(shape))) if len(shape) > 1 else 0
        keep = 1 if len(shape) < 3 else int(self.rng.integers(2))
        op = str(self.rng.choice(_REDUCE))
        result = [1 if n == axis else d for n, d in enumerate(shape) if keep or n != axis]
        if op == "ReduceSum":
            return self.node(op, [x, self.weight(np.array([axis]))], result, keepdims=keep)
        self.node(op, [x], result, keepdims=keep, axes=[axis])

    def reshape(self, x, shape):
        rest = list(shape[1:])
        if len(rest) == 1:
            size = rest[0]
            factor = next((f for f in (4, 3, 2) if size % f == 0), 1)
            result = [factor, size // factor]
        else:
            at = int(self.rng.integers(0, len(rest) - 1))
            result = [*rest[:at], rest[at] * rest[at + 1], *rest[at + 2:]]
        self.node("Reshape", [x, self.weight(np.array([0, *result]))], (shape[0], *result))

    def transpose(self, x, shape):
        free = list(self.axes(shape))
        perm = [*range(len(shape) - len(free)), *(int(a) for a in self.rng.permutation(free))]
        self.node("Transpose", [x], [shape[a] for a in perm], perm=perm)

    def concat(self, x, shape):
        axis = int(self.rng.integers(1, len(shape))) if len(shape) > 1 else 0
        same = [n for n, s in self.shapes.items() if len(s) == len(shape) and all(
            a == b for k, (a, b) in enumerate(zip(s, shape)) if k != axis)]
        other = str(self.rng.choice(same))
        total = shape[axis] + self.shapes[other][axis]
        if axis or not self.symbolic:
            self.node("Concat", [x, other], [total if n == axis else d for n, d in enumerate(shape)], axis=axis)

    def split(self, x, shape):
        axis = len(shape) - 1
        if shape[axis] < 2 or axis == 0:
            return self.unary(x, shape)
        first = int(self.rng.integers(1, shape[axis]))
        sizes = [first, shape[axis] - first]
        names = [f"v{len(self.nodes)}_{k}" for k in range(2)]
        self.nodes.append(helper.make_node("Split", [x, self.weight(np.array(sizes))], names,
                                           name=f"n{len(self.nodes)}", axis=axis))
        for name, size in zip(names, sizes):
            self.shapes[name] = (*shape[:-1], size)

    def gather(self, x, shape):
        axis = int(self.rng.integers(1, len(shape))) if len(shape) > 1 else 0
        if axis == 0 and self.symbolic:
            return
        indices = self.rng.integers(-shape[axis], shape[axis], int(self.rng.integers(1, 5)))
        self.node("Gather", [x, self.weight(indices)], [len(indices) if n == axis else d for n, d in enumerate(shape)],
                  axis=axis)

    def slice(self, x, shape):
        axis = len(shape) - 1
        if axis == 0 or shape[axis] < 2:
            return self.unary(x, shape)
        step = int(self.rng.choice([1, 2, -1]))
        start, end = int(self.rng.integers(0, shape[axis] // 2)), int(self.rng.integers(shape[axis] // 2 + 1, 99))
        start, end = (start, end) if step > 0 else (end, start)
        size = len(range(shape[axis])[start:end:step])
        if size:
            given = [self.weight(np.array([v])) for v in (start, end, axis, step)]
            self.node("Slice", [x, *given], (*shape[:-1], size))

    def pad(self, x, shape):
        pads = [0 if self.symbolic and n % len(shape) == 0 else int(self.rng.integers(0, 3))
                for n in range(2 * len(shape))]
        result = [d + pads[n] + pads[n + len(shape)] for n, d in enumerate(shape)]
        if np.prod(result) <= 20000:
            self.node("Pad", [x, self.weight(np.array(pads)), self.weight(np.float32(0.5))], result)

    def softmax(self, x, shape):
        self.node("Softmax", [x], shape, axis=-1)

    def norm(self, x, shape):
        scale, shift = self.draw(shape[-1]), self.draw(shape[-1])
        self.node("LayerNormalization", [x, scale, shift], shape, axis=-1, epsilon=1e-2)

    def batch_norm(self, x, shape):
        if len(shape) < 3:
            return self.norm(x, shape)
        scale, shift, mean = (self.draw(shape[1]) for _ in range(3))
        variance = self.weight((self.rng.random(shape[1]) + 0.5).astype(np.float32))
        self.node("BatchNormalization", [x, scale, shift, mean, variance], shape)

    def where(self, x, shape):
        chosen = self.node("Greater", [x, self.weight(np.float32(0.1))], shape)
        del self.shapes[chosen]  # of booleans
        other = self.draw(1) if self.rng.random() < 0.5 else x
        self.node("Where", [chosen, x, other], shape)

    def attention(self, x, shape):
        if len(shape) != 3:
            return self.softmax(x, shape)
        width = 16
        q, k, v = (self.node("MatMul", [x, self.draw(shape[-1], width, scale=shape[-1] ** -0.5)],
                             (*shape[:2], width)) for _ in range(3))
        turned = self.node("Transpose", [k], (shape[0], width, shape[1]), perm=[0, 2, 1])
        dots = self.node("MatMul", [q, turned], (shape[0], shape[1], shape[1]))
        scaled = self.node("Mul", [dots, self.weight(np.float32(0.25))], (shape[0], shape[1], shape[1]))
        shares = self.node("Softmax", [scaled], (shape[0], shape[1], shape[1]), axis=-1)
        self.node("MatMul", [shares, v], (*shape[:2], width))

    # ---- the model ------------------------------------------------------------------------------------------------

    def model(self):
        def info(name, shape):
            dims = ["n", *shape[1:]] if self.symbolic and shape and shape[0] == self.first else list(shape)
            return helper.make_tensor_value_info(name, FLOAT, dims)
        read = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes, "random", [info(n, s) for n, s in self.inputs.items()],
            [info(n, self.shapes[n]) for n in self.outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items() if n in read])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def feeds(self):
        return {n: self.rng.standard_normal(s).astype(np.float32) for n, s in self.inputs.items()}


# ---- making a failing model small ---------------------------------------------------------------------------------

def part_of(model, outputs, cuts=()):
    """The part of `model` that computes `outputs`; the tensors `cuts`, {name: array}, are inputs of it."""
    makers = {name: node for node in model.graph.node for name in node.output if name not in dict(cuts)}
    needed, waiting = [], list(outputs)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and node not in needed:
            needed.append(node)
            waiting += node.input
    nodes = [node for node in model.graph.node if node in needed]
    read = {name for node in nodes for name in node.input}
    inputs = [i for i in model.graph.input if i.name in read] + [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in dict(cuts).items() if n in read]
    values = {v.name: v for v in shape_inference.infer_shapes(model).graph.value_info}
    values.update((o.name, o) for o in model.graph.output)
    graph = helper.make_graph(nodes, "smaller", inputs, [values[n] for n in outputs],
                              [t for t in model.graph.initializer if t.name in read])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


def shrunk(model, feeds, fails, value_of):
    """(model, feeds) that still fail and have as few nodes as cutting off outputs and inputs leads to.

    fails(model, feeds) says whether a model fails; value_of(model, name, feeds) is a tensor of it, as it should be."""
    def attempt(smaller, given):
        given = {i.name: given[i.name] for i in smaller.graph.input if i.name in given}
        try:
            return (smaller, given) if smaller.graph.node and fails(smaller, given) else None
        except Exception:  # noqa: BLE001  (a part that no side can run shows nothing)
            return None

    for name in [name for node in model.graph.node for name in node.output]:  # the first wrong tensor
        try:
            found = attempt(part_of(model, [name]), feeds)
        except KeyError:
            continue
        if found:
            model, feeds = found
            break
    outputs = [o.name for o in model.graph.output]
    for name in [name for node in reversed(model.graph.node) for name in node.output if name not in outputs]:
        if not any(name in node.input for node in model.graph.node):
            continue
        try:
            array = value_of(model, name, feeds)
            found = attempt(part_of(model, outputs, {name: array}), {**feeds, name: array})
        except Exception:  # noqa: BLE001
            continue
        if found:
            model, feeds = found
    return model, feeds


def text_of(model):
    return printer.to_text(model)
