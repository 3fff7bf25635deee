"""Random ONNX graphs of nested If, Loop and Scan, whose course constants, shapes or data decide."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SHAPE = (3, 4)
_UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softsign")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")


class RandomControl:
    """A model over values of the shape [3, 4]. model: the ModelProto; feeds: arrays for it."""

    def __init__(self, seed, steps=5, depth=3):
        self.rng, self.count, self.turns = np.random.default_rng(seed), 0, {}
        self.symbolic = bool(self.rng.random() < 0.3)
        rows = "n" if self.symbolic else SHAPE[0]
        nodes, values = self.block(["x", "z"], steps, depth)
        outputs = dict.fromkeys([values[-1], *self.rng.choice(values, 2)])
        nodes += [helper.make_node("Identity", [v], [f"y{k}"]) for k, v in enumerate(outputs)]
        inputs = [helper.make_tensor_value_info(name, FLOAT, [rows, SHAPE[1]]) for name in ("x", "z")]
        inputs += [helper.make_tensor_value_info("k", INT64, []), helper.make_tensor_value_info("c", BOOL, [])]
        found = [helper.make_tensor_value_info(f"y{k}", FLOAT, None) for k in range(len(outputs))]
        weights = [numpy_helper.from_array(np.float32(0.5), "half"), numpy_helper.from_array(np.float32(0), "zero"),
                   numpy_helper.from_array(np.array(2, np.int64), "two"),
                   numpy_helper.from_array(np.array(True), "yes"),
                   numpy_helper.from_array(np.array(False), "no"),
                   numpy_helper.from_array(np.array([0], np.int64), "axis")]
        graph = helper.make_graph(nodes, "g", inputs, found, weights)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.feeds = {"x": self.rng.standard_normal(SHAPE).astype(np.float32),
                      "z": self.rng.standard_normal(SHAPE).astype(np.float32),
                      "k": np.array(self.rng.integers(0, 5), np.int64), "c": np.array(self.rng.random() < 0.5)}

    def new(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def block(self, values, steps, depth):
        """(nodes, all values that are seen after them)."""
        nodes, values = [], list(values)
        for _ in range(int(self.rng.integers(1, steps + 1))):
            nests = [self.choice, self.loop, self.loop, self.scan] if depth else []
            kinds = [self.unary, self.binary, self.binary, *nests]
            made, value = kinds[int(self.rng.integers(len(kinds)))](values, depth - 1)
            nodes += made
            values.append(value)
        return nodes, values

    def pick(self, values):
        return values[-1 - min(int(self.rng.exponential(1.5)), len(values) - 1)]

    def unary(self, values, depth):
        out = self.new()
        return [helper.make_node(self.rng.choice(_UNARY), [self.pick(values)], [out])], out

    def binary(self, values, depth):
        out = self.new()
        return [helper.make_node(self.rng.choice(_BINARY), [self.pick(values), self.pick(values)], [out])], out

    def condition(self, values):
        """(nodes, a bool): constant, an input, or of data."""
        kind = self.rng.random()
        if kind < 0.4:
            return [], str(self.rng.choice(["yes", "no", "c"]))
        total, out = self.new("s"), self.new("b")
        return [helper.make_node("ReduceSum", [self.pick(values)], [total], keepdims=0),
                helper.make_node("Less", [total, "half"], [out])], out

    def choice(self, values, depth):
        nodes, cond = self.condition(values)
        branches = []
        for _ in range(2):
            inner, seen = self.block(values, 3, depth)
            branches.append(helper.make_graph(inner, self.new("g"), [], [helper.make_tensor_value_info(
                seen[-1], FLOAT, None)]))
        out = self.new()
        return [*nodes, helper.make_node("If", [cond], [out], then_branch=branches[0], else_branch=branches[1])], out

    def loop(self, values, depth):
        """Two carried values, in any order, and perhaps rows, which are summed up. A bounded number of turns."""
        nodes, cond = self.condition(values)
        index, going, a, b = (self.new(s) for s in ("i", "t", "c", "c"))
        inner, seen = self.block([*values, a, b], 3, depth)
        more, again = self.condition(seen)
        scale = self.new()
        inner += [*more, helper.make_node("Identity", [again], [f"{again}_{going}"]),
                  helper.make_node("Mul", [seen[-1], "half"], [scale])]
        results = [scale, str(self.rng.choice([a, b, scale]))]
        results = [results[int(n)] for n in self.rng.permutation(2)]
        finals, outs = [], []
        for r in results:
            finals.append(self.new())
            inner.append(helper.make_node("Identity", [r], [finals[-1]]))
            outs.append(self.new())
        stacked = bool(self.rng.random() < 0.5)
        rows = [self.new()] if stacked else []
        inner += [helper.make_node("Tanh", [scale], rows)] if stacked else []
        info = helper.make_tensor_value_info
        body = helper.make_graph(
            inner, self.new("g"),
            [info(index, INT64, []), info(going, BOOL, []), info(a, FLOAT, None), info(b, FLOAT, None)],
            [info(f"{again}_{going}", BOOL, []), *(info(f, FLOAT, None) for f in [*finals, *rows])])
        trip = str(self.rng.choice(["two", "k"]))
        every = [self.new() for _ in rows]
        nodes.append(helper.make_node("Loop", [trip, cond if self.rng.random() < 0.5 else "", self.pick(values),
                                               self.pick(values)], [*outs, *every], body=body))
        if stacked:
            self.turns[f"{every[0]}_turns"] = 8
            out = self.new()
            total = self.new()
            nodes += [helper.make_node("ReduceSum", [every[0], "axis"], [total], keepdims=0),
                      helper.make_node("Add", [total, outs[0]], [out])]
            return nodes, out
        return nodes, outs[int(self.rng.integers(2))]

    def scan(self, values, depth):
        """Over rows of x, in either direction, along either axis."""
        axis, back = int(self.rng.integers(2)), int(self.rng.integers(2))
        if self.symbolic:
            axis = 0
        first, source = self.pick(values), self.pick(values)
        start, state, row, total, result = (self.new() for _ in range(5))
        nodes = [helper.make_node("ReduceSum", [first], [start], keepdims=0)]
        inner = [helper.make_node("ReduceSum", [row], [total], keepdims=0),
                 helper.make_node("Add", [state, total], [f"{total}_n"]),
                 helper.make_node("Mul", [row, state], [f"{row}_m"]),
                 helper.make_node("Tanh", [f"{row}_m"], [f"{row}_r"])]
        info = helper.make_tensor_value_info
        body = helper.make_graph(inner, self.new("g"), [info(state, FLOAT, []), info(row, FLOAT, [SHAPE[1 - axis]])],
                                 [info(f"{total}_n", FLOAT, []), info(f"{row}_r", FLOAT, [SHAPE[1 - axis]])])
        nodes.append(helper.make_node("Scan", [start, source], [self.new(), result], body=body, num_scan_inputs=1,
                                      scan_input_axes=[axis], scan_input_directions=[back],
                                      scan_output_axes=[axis], scan_output_directions=[int(self.rng.integers(2))]))
        return nodes, result
