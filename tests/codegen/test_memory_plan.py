"""The memory plan: live buffers never overlap, everything is aligned, and little is wasted."""
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import needs_zoo, zoo, zoo_names

from ingot.codegen.memory_plan import ALIGN, Buffer, plan_memory, split_constant
from ingot.codegen.program import build_program
from ingot.frontend.onnx import from_onnx
from ingot.ir.arith import Analyzer
from ingot.ir.expr import Var, const, substitute
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.pipeline import graph_passes
from machines import machine

N, M = Var("n", "int64"), Var("m", "int64")


def value(e, **dims):
    known = {N: const(dims.get("n", 1), "int64"), M: const(dims.get("m", 1), "int64")}
    return Analyzer().simplify(substitute(e, known)).value


def lower_bound(buffers, **dims):
    """The largest sum of bytes alive at one time."""
    return max((sum(value(b.bytes, **dims) for b in buffers if b.first <= t <= b.last)
                for t in {b.first for b in buffers}), default=0)


def check(buffers, budget=0, **dims):
    """A plan's promises for one choice of dimensions; returns its total."""
    plan = plan_memory(buffers, budget)
    total = value(plan.total, **dims)
    spans = []
    for n, b in enumerate(buffers):
        begin = value(plan.offset(n), **dims)
        assert begin % ALIGN == 0 and begin + value(b.bytes, **dims) <= total
        spans.append((begin, begin + value(b.bytes, **dims), b.first, b.last))
    for (b0, e0, f0, l0), (b1, e1, f1, l1) in combinations(spans, 2):
        assert f0 > l1 or f1 > l0 or e0 <= b1 or e1 <= b0
    assert total >= lower_bound(buffers, **dims)
    return total


def buffer(size, first, last, part=None):
    return Buffer("b", size if not isinstance(size, int) else const(size, "int64"), ((first, last),),
                  part and const(part, "int64"))


lives = st.tuples(st.integers(0, 20), st.integers(0, 6))
sizes = st.one_of(st.integers(0, 5000), st.sampled_from([1, 64, 128, 4096]))
units = st.sampled_from([const(1, "int64"), N, N * 4, N * M, (N + 2) * (M + 2) * 4, N * 100 + 50, (N + 1) // 2 * 64])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(sizes, lives), max_size=25))
def test_live_buffers_do_not_overlap(items):
    check([buffer(size, first, first + life) for size, (first, life) in items])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from([64, 192, 100]), lives), max_size=25),
       st.sampled_from([1, 3000, 1 << 20]))
def test_where_there_is_room_buffers_that_threads_divide_differently_lie_apart(items, budget):
    buffers = [buffer(count * part, first, first + life, part) for count, part, (first, life) in items]
    total, least = check(buffers, budget), check(buffers)
    assert total == least or least < total <= budget
    apart = sum(check([b for b in buffers if b.part.value == part]) for part in (64, 192, 100))
    assert total == (apart if apart <= budget else least)
    plan = plan_memory(buffers, 1 << 20)
    assert not any(plan.meet(a, b) for a, b in combinations(range(len(buffers)), 2)
                   if buffers[a].part.value != buffers[b].part.value)


def test_a_buffer_without_parts_is_one():
    buffers = [buffer(64, 0, 0), buffer(128, 1, 1), buffer(128, 2, 2, 64)]
    assert check(buffers) == 128
    assert check(buffers, 1 << 10) == 256
    symbolic = [buffer(N * 64, 0, 0), buffer(N * 128, 1, 1)]
    assert check(symbolic, 1 << 10, n=1) == 128


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 300), units, lives), max_size=10), st.integers(1, 7), st.integers(1, 7))
def test_symbolic_buffers_do_not_overlap_for_any_dimensions(items, n, m):
    check([buffer(unit * size, first, first + life) for size, unit, (first, life) in items], n=n, m=m)


def test_an_empty_plan():
    plan = plan_memory([])
    assert value(plan.total) == 0 and plan.regions == ()


@pytest.mark.parametrize("lengths", [[500, 756, 500, 500, 756, 500, 500, 756], [8, 8, 8, 1, 8, 8], [9, 1, 9, 1, 9],
                                     [1, 2, 3, 4, 5, 4, 3, 2, 1], [7, 5, 3, 7, 5, 3, 7, 5, 3]])
def test_a_chain_needs_no_more_than_its_largest_neighbours(lengths):
    buffers = [buffer(size * ALIGN, n, n + 1) for n, size in enumerate(lengths)]
    assert check(buffers) == lower_bound(buffers)


def test_constants_of_any_dtype_share_one_region():
    plan = plan_memory([Buffer("a", const(64, "int64"), ((0, 1),)), Buffer("b", const(128, "int32"), ((2, 2),))])
    assert len(plan.regions) == 1 and plan.total.value == 128


def test_lengths_of_life_meet_at_both_ends():
    """A buffer dies in the call that reads it last, whose results are alive by then."""
    assert check([buffer(64, 0, 1), buffer(64, 1, 2)]) == 128
    assert check([buffer(64, 0, 1), buffer(64, 2, 3)]) == 64


def test_one_dimension_scales_one_plan():
    buffers = [buffer(N * (1000 * size), n, n + 1) for n, size in enumerate([3, 5, 2, 5, 3])]
    plan = plan_memory(buffers)
    assert len(plan.regions) == 1 and plan.regions[0].unit is N
    for n in (1, 3, 8):
        assert check(buffers, n=n) <= 1.05 * lower_bound(buffers, n=n)


def test_small_symbolic_sizes_are_rounded_once():
    buffers = [buffer((N + 2) * (M + 2) * 4, 0, 1), buffer(N * 4, 0, 1)]
    total = check(buffers, n=100, m=100)
    assert total <= lower_bound(buffers, n=100, m=100) + 2 * ALIGN


@pytest.mark.parametrize("e, expected", [
    (const(12, "int64"), (12, 1)), (N * 12, (12, 5)), (N * 4 * (M * 3), (12, 35)), (N * 12 + 8, (4, 17)),
    ((N * 12 + 8) * 2, (8, 17)), (N, (1, 5)), ((N + 1) // 2, (1, 3)),
])
def test_constant_factors_are_found(e, expected):
    factor, rest = split_constant(e)
    assert (factor, value(rest, n=5, m=7)) == expected
    assert factor * value(rest, n=5, m=7) == value(e, n=5, m=7)


def test_the_bound_of_a_region_is_of_unrounded_bytes():
    plan = plan_memory([buffer(100, 0, 1), buffer(10, 1, 1)])
    assert plan.regions[0].lower_bound == 110 and plan.regions[0].bytes == 192


@needs_zoo
@pytest.mark.parametrize("name", zoo_names)
def test_networks_are_planned_within_a_tenth_of_the_bound(name):
    mod = from_onnx(zoo().load(name))
    for run in graph_passes(2, machine(lanes=1)):  # packed weights would change nothing here
        mod = run(mod)
    program = build_program(lower_ops(mod), "net")
    total = value(plan_memory(program.plan.buffers).total)
    assert total <= 1.10 * lower_bound(program.plan.buffers)
