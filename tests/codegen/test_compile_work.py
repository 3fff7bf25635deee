"""How much work a compilation does, counted: equal kernels are made once, and passes visit each node a few times."""
from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.codegen import scheduling
from ingot.codegen.compile import Options, compile_module, lower
from ingot.ir.node import Mutator, Visitor
from ingot.ir.schedule import rules
from ingot.ir.schedule.rules.threads import parallel_loops
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


@pytest.mark.parametrize("network, threads, asked, shared", [
    ((12,), "none", 0, False),      # equal kernels
    ((3, 4), "openmp", 1, False),   # too small for threads, whatever the kernels are
    ((3, 10, 8), "openmp", 2, False),  # kernels that have parallel loops, but too many waits
    ((12, 12, 4), "openmp", 2, True)])
def test_kernels_are_lowered_decided_and_scheduled_once(network, threads, asked, shared, counted):
    """Also where threads do not pay, which all decisions together tell."""
    for owner, name in ((lower_ops, "Lowering"), (scheduling, "Decision"), (rules, "_apply"),
                        (scheduling, "threads_worth")):
        counts = counted(owner, name)
    stages = lowered(chain(*network), threads=threads)
    kernels = len(stages.kernels)
    assert network[2:] or kernels < 10 < len(stages.tir["main"].bindings) or network[0] < 10
    assert counts["Decision"] == counts["_apply"] == kernels >= counts["Lowering"]
    assert counts["threads_worth"] == asked
    assert any(parallel_loops(f.body) for f in stages.kernels.values()) == shared


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
    """A longer chain has no new kernel: only the graph grows, and visits grow in proportion."""
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
