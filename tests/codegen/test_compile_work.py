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


def chain(length, size=16, more=0):
    """A chain of convolutions, each with weights and names of its own, and with so many more channels than the last;
    of 0 they are equal."""
    rng, nodes, weights = np.random.default_rng(0), [], []
    for n in range(length):
        shape = 8 + (n + 1) * more, 8 + n * more, 3, 3
        weights.append(numpy_helper.from_array(rng.standard_normal(shape, np.float32), f"w{n}"))
        nodes.append(helper.make_node("Conv", [f"x{n}", f"w{n}"], [f"x{n + 1}"], f"conv{n}", pads=[1] * 4))
    ends = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [1, 8 + n * more, size, size])
            for n in (0, length)]
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


@pytest.fixture
def visits(monkeypatch):
    """A function of a model: how many nodes all passes visit."""
    counts = Counter()
    for walker in (Mutator, Visitor):
        original = walker.visit

        def visit(self, value, original=original):
            counts["all"] += 1
            return original(self, value)
        monkeypatch.setattr(walker, "visit", visit)

    def count(model):
        counts.clear()
        compile_module(ingot.from_onnx(model), Options.check(target="x86-64-v3", threads="none"))
        return counts["all"]
    return count


def test_passes_visit_each_node_as_often_in_a_network_of_twice_the_size(visits):
    """Of a longer chain no kernel is new: what grows is the graph, and visits grow as it does."""
    short, middle, long = (visits(chain(length)) for length in (20, 40, 80))
    assert 0 < long - middle <= 2.2 * (middle - short)


def test_passes_visit_each_kernel_as_often_in_a_network_of_twice_as_many(visits):
    """Kernels that differ in their channels: visits grow as the number of kernels does."""
    short, middle, long = (visits(chain(length, size=6, more=1)) for length in (8, 16, 24))
    assert 0 < long - middle <= 1.5 * (middle - short)


def test_visits_do_not_double_with_each_operator_that_reads_the_last_twice(visits):
    """x + |x|, again and again: as a tree 2^n loads over n operators."""
    def model(depth):
        nodes = [helper.make_node("Conv", ["x0", "w"], ["y0"], "conv")]
        for n in range(depth):
            nodes += [helper.make_node("Abs", [f"y{n}"], [f"a{n}"], f"abs{n}"),
                      helper.make_node("Add", [f"y{n}", f"a{n}"], [f"y{n + 1}"], f"add{n}")]
        weights = [numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "w")]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 6, 6]) for name in ("x0", f"y{depth}")]
        return helper.make_model(helper.make_graph(nodes, "deep", ends[:1], ends[1:], weights),
                                 opset_imports=[helper.make_opsetid("", 13)])

    assert visits(model(16)) < 3 * visits(model(8))
