"""Networks whose course a run decides: branches, loops, scans, and results whose sizes the data decide. Shapes are
declared, so that every bound is known."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info
MOST = 5  # turns of a Loop, of which rows are stacked


def graph(name, nodes, inputs, outputs, weights=None):
    """inputs, outputs: {name: (element type, shape)}."""
    infos = ([info(k, *v) for k, v in tensors.items()] for tensors in (inputs, outputs))
    return helper.make_graph(nodes, name, *infos, [numpy_helper.from_array(np.asarray(v), k)
                                                   for k, v in (weights or {}).items()])


def model(name, nodes, inputs, outputs, weights=None):
    return helper.make_model(graph(name, nodes, inputs, outputs, weights), ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])


def branches_net():
    """If by the sum of x [3, 4]: its first row twice, or all of its rows scaled, which is a dimension of the run."""
    few = graph("few", [node("Slice", ["x", "zero", "one"], ["f"]), node("Concat", ["f", "f"], ["a"], axis=0)], {},
                {"a": (FLOAT, [2, 4])})
    all_ = graph("all", [node("Mul", ["x", "s"], ["b"])], {}, {"b": (FLOAT, [3, 4])})
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "half"], ["c"]),
             node("If", ["c"], ["t"], then_branch=few, else_branch=all_), node("Exp", ["t"], ["y"])]
    return model("branches_net", nodes, {"x": (FLOAT, [3, 4])}, {"y": (FLOAT, ["rows", 4])},
                 {"half": np.float32(0.5), "zero": np.int64([0]), "one": np.int64([1])})


def turns_net():
    """Loop of n turns at most, while the state [4] is small; its rows are stacked, a dimension of the run."""
    body = graph("body", [node("Add", ["v", "v"], ["d"]), node("Add", ["d", "x"], ["w"]),
                          node("ReduceMax", ["w"], ["m"], keepdims=0), node("Less", ["m", "limit"], ["go"]),
                          node("Identity", ["w"], ["row"])],
                 {"i": (INT64, []), "c": (BOOL, []), "v": (FLOAT, [4])},
                 {"go": (BOOL, []), "w": (FLOAT, [4]), "row": (FLOAT, [4])})
    return model("turns_net", [node("Loop", ["n", "", "x"], ["last", "rows"], body=body)],
                 {"x": (FLOAT, [4]), "n": (INT64, [])}, {"last": (FLOAT, [4]), "rows": (FLOAT, [MOST, 4])},
                 {"limit": np.float32(20)})


def scanned_net(rows=6):
    """Scan of x [rows, 3], backwards: running sums, and products with a matrix; a branch in each turn."""
    twice = graph("twice", [node("Add", ["t", "t"], ["p"])], {}, {"p": (FLOAT, [3])})
    once = graph("once", [node("Neg", ["t"], ["q"])], {}, {"q": (FLOAT, [3])})
    body = graph("body", [node("Add", ["v", "e"], ["t"]), node("ReduceSum", ["t"], ["s"], keepdims=0),
                          node("Less", ["s", "half"], ["c"]),
                          node("If", ["c"], ["r"], then_branch=twice, else_branch=once),
                          node("MatMul", ["r", "w"], ["m"])],
                 {"v": (FLOAT, [3]), "e": (FLOAT, [3])}, {"t": (FLOAT, [3]), "m": (FLOAT, [3])})
    return model("scanned_net", [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1,
                                      scan_input_directions=[1])],
                 {"start": (FLOAT, [3]), "x": (FLOAT, [rows, 3])}, {"last": (FLOAT, [3]), "y": (FLOAT, [rows, 3])},
                 {"half": np.float32(0.5), "w": np.random.default_rng(5).standard_normal((3, 3)).astype(np.float32)})


def selected_net(rows=5):
    """The places where x [rows, 3] is above 0.5, and what a matrix makes of the rows that they are in."""
    nodes = [node("Greater", ["x", "half"], ["c"]), node("NonZero", ["c"], ["places"]),
             node("Transpose", ["places"], ["pairs"], perm=[1, 0]),
             node("Slice", ["pairs", "zero", "one", "one"], ["k"]),
             node("Squeeze", ["k", "one"], ["at"]), node("Gather", ["x", "at"], ["taken"]),
             node("MatMul", ["taken", "w"], ["y"])]
    return model("selected_net", nodes, {"x": (FLOAT, [rows, 3])},
                 {"places": (INT64, [2, "count"]), "y": (FLOAT, ["count", 4])},
                 {"half": np.float32(0.5), "zero": np.int64([0]), "one": np.int64([1]),
                  "w": np.random.default_rng(6).standard_normal((3, 4)).astype(np.float32)})


CONTROL = {"branches_net": branches_net, "turns_net": turns_net, "scanned_net": scanned_net,
           "selected_net": selected_net, "scanned_rows": lambda: scanned_net("n"),
           "selected_rows": lambda: selected_net("n")}


def control_feeds(name, seed, rows=6):
    """Inputs of a network of CONTROL, whose course differs from seed to seed; rows: its symbolic dimension."""
    rng = np.random.default_rng(seed)
    shapes = {"branches_net": {"x": (3, 4)}, "turns_net": {"x": (4,)}, "scanned_net": {"start": (3,), "x": (6, 3)},
              "selected_net": {"x": (5, 3)}, "scanned_rows": {"start": (3,), "x": (rows, 3)},
              "selected_rows": {"x": (rows, 3)}}[name]
    feeds = {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    return {**feeds, "n": np.array(rng.integers(0, MOST + 1))} if name == "turns_net" else feeds
