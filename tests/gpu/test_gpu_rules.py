"""Rules for GPUs: the kernels of networks, scheduled and lowered, run thread by thread against the interpreted graph.

run_threads raises where two threads use one element without a barrier between, and where some wait for others that
never come."""
import numpy as np
import pytest
from interp import run_threads
from onnx import TensorProto, helper, numpy_helper

from ingot import api
from ingot.codegen.compile import Options, optimize
from ingot.ir.module import IRModule
from ingot.ir.relax import evaluate as relax
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.ir.schedule.plan import Plan
from ingot.ir.schedule.rules import apply, rules_of, schedule_by_rule
from ingot.ir.target import Target
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import For
from ingot.ir.node import collect
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.pass_table import RELAX, TIR

CUDA = Target.get("cuda-sm_80")
LOOPS = ("LiftImports", "ResolveViews", "NameLoops", "LowerCrossThreadReduction", "LowerInitBlock", "RemoveNoOp",
         "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque", "CompactBufferAllocation",
         "LowerMatchBuffer", "LowerOpaqueBlock", "GuardRedundantStores", "ThreadSync")


def _random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _graph(nodes, inputs, outputs, weights, opset=20):
    """A model; inputs: {name: shape} of float32; outputs: names, of what they turn out to be."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    outs = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_model(helper.make_graph(nodes, "net", infos, outs, constants),
                             opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _model(op, *shapes, weights=(), opset=20, outputs=1, **attributes):
    """A model of one node over inputs x0, x1 ... of given shapes and weights w0, w1 ..."""
    names = [f"x{n}" for n in range(len(shapes))]
    constants = {f"w{n}": w for n, w in enumerate(weights)}
    outs = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, [*names, *constants], outs, name="node", **attributes)
    return _graph([node], dict(zip(names, shapes)), outs, constants, opset)


def _attention(queries, keys, heads=2, size=16, mask=True):
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
             helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "c"], ["scaled"]),
             *([helper.make_node("Add", ["scaled", "m"], ["masked"])] if mask else []),
             helper.make_node("Softmax", ["masked" if mask else "scaled"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["y"])]
    inputs = {"q": [1, heads, queries, size], "k": [1, heads, keys, size], "v": [1, heads, keys, size],
              **({"m": [1, 1, queries, keys]} if mask else {})}
    return _graph(nodes, inputs, ["y"], {"c": np.float32(0.35)})


def _layer(op, gates, directions=1, sequences=3):
    weights = [_random(directions, gates * 5, n) for n in (6, 5)]
    return _model(op, [4, sequences, 6], weights=weights, hidden_size=5,
                  direction="bidirectional" if directions == 2 else "forward")


NORM = [_random(100), _random(100)]
CASES = {  # name: (model, rule of its last kernel, sizes of symbolic dimensions)
    "softmax of short rows": (_model("Softmax", [4, 6, 100]), "rows", {}),
    "softmax of long rows": (_model("Softmax", [2, 2055]), "rows", {}),
    "softmax of symbolic rows": (_model("Softmax", ["n", "m"]), "rows", {"n": 3, "m": 77}),
    "softmax over channels": (_model("Softmax", [2, 33, 3, 5], axis=1), "points", {}),
    "layer norm": (_model("LayerNormalization", [2, 7, 100], weights=NORM), "rows", {}),
    "layer norm of symbolic rows": (_model("LayerNormalization", ["n", "s", 100], weights=NORM), "rows",
                                    {"n": 2, "s": 3}),
    "instance norm": (_model("InstanceNormalization", [2, 3, 9, 9], weights=[_random(3), _random(3)]), "rows", {}),
    "mean over an image": (_model("GlobalAveragePool", [2, 5, 13, 13]), "rows", {}),
    "sum of all": (_model("ReduceSum", [33, 65], keepdims=0), "rows", {}),
    "sum of nothing": (_model("ReduceSum", [2, 0, 4], weights=[np.array([1])]), "fallback", {}),
    "argmax": (_model("ArgMax", [3, 100], axis=-1), "rows", {}),
    "vector by a matrix": (_model("MatMul", [1, 300], weights=[_random(300, 50)]), None, {}),
    "depthwise convolution": (_model("Conv", [1, 6, 14, 14], weights=[_random(6, 1, 3, 3)], group=6,
                                     pads=[1, 1, 1, 1]), None, {}),
    "max pool": (_model("MaxPool", [1, 6, 15, 15], kernel_shape=[3, 3], strides=[2, 2]), "points", {}),
    "transpose": (_model("Transpose", [2, 70, 45], perm=[0, 2, 1]), "transpose", {}),
    "symbolic transpose": (_model("Transpose", ["n", 70, "m"], perm=[2, 0, 1]), None, {"n": 3, "m": 35}),
    "elementwise": (_model("Exp", [7, 1023]), None, {}),
    "symbolic elementwise": (_model("Exp", ["n", 3, "m"]), None, {"n": 9, "m": 31}),
    "running sums": (_model("CumSum", [5, 40], weights=[np.array(1)]), "fallback", {}),
    "greatest elements": (_model("TopK", [40, 9], weights=[np.array([4])], outputs=2), "fallback", {}),
    "lstm": (_layer("LSTM", 4), "stepwise", {}),
    "lstm of both directions": (_layer("LSTM", 4, 2), "stepwise", {}),
    "lstm of symbolic sequences": (_layer("LSTM", 4, sequences="b"), "stepwise", {"b": 3}),
    "gru": (_layer("GRU", 3), "stepwise", {}),
    "attention over few keys": (_attention(9, 17), "stepwise", {}),
    "attention over many keys": (_attention(3, 530, heads=1, size=8, mask=False), "stepwise", {}),
    "attention over symbolic keys": (_attention("s", "t"), "stepwise", {"s": 5, "t": 70}),
}


def _lowered(model):
    """(the module of PrimFuncs, the same scheduled and lowered to threads, the rule of each)."""
    mod = RELAX["LegalizeOps"]()(optimize(api.load(model), Options(CUDA, 2, "none", "array", "net")))
    schedules = {n: schedule_by_rule(f, CUDA) for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
    made = {}
    for name, sch in schedules.items():
        func = Sequential([TIR[n]() for n in LOOPS])(IRModule({"main": sch.func}))["main"]
        made[name] = func.with_attr(dict(mod[name].attrs))
    return mod, mod.with_functions({**mod.functions, **made}), {n: s.plan.rule for n, s in schedules.items()}


def _inputs(model, sizes):
    rng = np.random.default_rng(2)
    shapes = [[d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in i.type.tensor_type.shape.dim]
              for i in model.graph.input]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", CASES)
def test_threads_make_what_the_graph_says(name, monkeypatch):
    model, rule, sizes = CASES[name]
    mod, threads, rules = _lowered(model)
    assert rule in (None, list(rules.values())[-1]), rules
    inputs = _inputs(model, sizes)
    expected = _as_tuple(relax.evaluate(mod, inputs))
    for backwards in (False, True):
        monkeypatch.setattr(relax.run_call, "__defaults__", (
            lambda func, *arrays, way=backwards: run_threads(func, *arrays, backwards=way),))
        for want, got in zip(expected, _as_tuple(relax.evaluate(threads, inputs))):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_nest_is_a_kernel(name):
    _, threads, _ = _lowered(CASES[name][0])
    for func in threads.functions.values():
        if isinstance(func, PrimFunc):
            nests = getattr(func.body, "seq", (func.body,))
            assert all(any(loop.thread_binding == "blockIdx.x" for loop in collect(nest, For)) for nest in nests), func


def test_what_is_independent_is_shared():
    """Columns of a scan, and rows of a sort, are threads' own."""
    for name, extent in (("running sums", 5), ("greatest elements", 40)):
        _, threads, _ = _lowered(CASES[name][0])
        found = [loop.extent.value for f in threads.functions.values() if isinstance(f, PrimFunc)
                 for loop in collect(f.body, For) if loop.thread_binding == "threadIdx.x"]
        assert extent in found, name


def test_rules_follow_the_kind_of_target():
    assert "fallback" in rules_of(CUDA) and "fallback" not in rules_of(Target.get("x86-64-v3"))


def test_a_plan_is_followed():
    model, _, _ = CASES["softmax of short rows"]
    mod = RELAX["LegalizeOps"]()(optimize(api.load(model), Options(CUDA, 2, "none", "array", "net")))
    func, = (f for f in mod.functions.values() if isinstance(f, PrimFunc))
    sch = Schedule(func)
    plan = apply(Plan("rows", "block", turn=64), sch, CUDA)
    assert plan.turn == 64 and str(plan) == "64 threads a row"
    assert {loop.extent.value for loop in collect(sch.func.body, For) if loop.thread_binding == "threadIdx.x"} == {64}


def test_lift_loops_refuses_what_depends():
    mod = RELAX["LegalizeOps"]()(api.load(_model("CumSum", [40], weights=[np.array(0)])))
    func, = (f for f in mod.functions.values() if isinstance(f, PrimFunc) and "cumsum" in str(f))
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="has no loop whose iterations are known to be independent"):
        sch.lift_loops(sch.get_child_blocks(sch.get_block("root"))[0])
