"""How much work a compilation does, counted: equal kernels are made once, and passes visit each node a few times."""
from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.codegen import scheduling
from ingot.codegen.compile import Options, compile_module, lower
from ingot.ir.node import Mutator, Visitor
from ingot.ir.transform import lower_ops


def chain(length, size=16):
    """A chain of equal convolutions, each with weights and names of its own."""
    rng, nodes, weights = np.random.default_rng(0), [], []
    for n in range(length):
        weights.append(numpy_helper.from_array(rng.standard_normal((8, 8, 3, 3), np.float32), f"w{n}"))
        nodes.append(helper.make_node("Conv", [f"x{n}", f"w{n}"], [f"x{n + 1}"], f"conv{n}", pads=[1] * 4))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, size, size]) for name in ("x0", f"x{length}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


@pytest.fixture
def counted(monkeypatch):
    """A function that counts the calls of another one, by its name."""
    counts = Counter()

    def count(owner, name):
        original = getattr(owner, name)

        def wrapped(*args, **kwargs):
            counts[name] += 1
            return original(*args, **kwargs)
        monkeypatch.setattr(owner, name, wrapped)
        return counts
    return count


def lowered(model, **options):
    return lower(ingot.from_onnx(model), Options.check(target="x86-64-v3", **options))


def test_equal_kernels_are_made_and_scheduled_once(counted):
    counts = counted(lower_ops, "Lowering")
    counted(scheduling, "schedule_by_rule")
    stages = lowered(chain(12), threads="none")
    assert len(stages.tir["main"].bindings) > 12
    assert counts["schedule_by_rule"] == len(stages.kernels) < 10
    assert counts["Lowering"] <= len(stages.kernels)


def test_a_network_too_small_for_threads_is_scheduled_once(counted):
    counts = counted(scheduling, "schedule_by_rule")
    stages = lowered(chain(3, size=4))
    assert counts["schedule_by_rule"] == len(stages.kernels)
    assert not any(stages.loops.values())


def test_passes_visit_each_node_as_often_in_a_network_of_twice_the_size(monkeypatch):
    """Of a longer chain no kernel is new: what grows is the graph, and visits grow as it does."""
    visits = Counter()
    for walker in (Mutator, Visitor):
        original = walker.visit

        def visit(self, value, original=original):
            visits["all"] += 1
            return original(self, value)
        monkeypatch.setattr(walker, "visit", visit)

    def count(length):
        visits.clear()
        compile_module(ingot.from_onnx(chain(length)), Options.check(target="x86-64-v3", threads="none"))
        return visits["all"]

    short, middle, long = count(20), count(40), count(80)
    assert 0 < long - middle <= 2.2 * (middle - short)
