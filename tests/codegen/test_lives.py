"""Lives of buffers in trees, held against runs of these trees: what a run uses between is alive, and lies apart."""
from itertools import combinations

import pytest
from hand_made import I, M, N, arena, number, operand, seq
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.codegen.lives import lives, place_buffers, upper_bound, upper_bounds
from ingot.codegen.memory_plan import ALIGN, Buffer
from ingot.codegen.package import evaluate_dim
from ingot.codegen.tree import Call, For, If, Let, ProgramError, Read, Seq, While, children, is_leaf, leaves
from ingot.ir.expr import Max, Min, Var

BUFFERS = 6
COND = I < 1


def call(*buffers):
    return Call("k", tuple(map(arena, buffers)))


# ---------------------------------------------------------------- what runs do

def runs(node, moment, most=2):
    """All (moments that a run passes, in order) of a tree that begins at `moment`, loops run up to `most` times."""
    if is_leaf(node):
        return {(moment,)}
    starts, inner = [moment], children(node)
    for child in inner:
        starts.append(starts[-1] + len(leaves(child)))
    each = [runs(child, at, most) for child, at in zip(inner, starts)]
    if isinstance(node, If):
        return each[0] | each[1]
    if isinstance(node, Seq):
        return set(_products(each))
    return {path for times in range(most + 1) for path in _products(each * times)}


def _products(each):
    found = {()}
    for paths in each:
        found = {(*a, *b) for a in found for b in paths}
        found = set(sorted(found)[::max(1, len(found) // 300)])  # some of very many
    return found


def alive_in(tree):
    """{buffer: moments at which it is alive in some run: from its first use in that run to its last}."""
    used = [{o.index for o in leaf.operands} for leaf in leaves(tree)]
    found = {}
    for path in runs(tree, 0):
        for b in {b for moment in path for b in used[moment]}:
            uses = [at for at, moment in enumerate(path) if b in used[moment]]
            found.setdefault(b, set()).update(path[uses[0]:uses[-1] + 1])
    return found


def moments(life):
    return {t for first, last in life for t in range(first, last + 1)}


some_calls = st.lists(st.integers(0, BUFFERS - 1), max_size=2, unique=True).map(lambda b: call(*b))
trees = st.recursive(some_calls, lambda inner: st.one_of(
    st.lists(inner, max_size=3).map(lambda items: Seq(tuple(items))),
    st.tuples(inner, inner).map(lambda two: If(COND, seq(two[0]), seq(two[1]))),
    inner.map(lambda body: While(COND, seq(body))), inner.map(lambda body: For(I, number(2), seq(body)))), max_leaves=9)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(trees)
def test_what_runs_keep_is_alive(tree):
    found, kept = lives(tree), alive_in(tree)
    assert all(kept[b] <= moments(found[b]) for b in kept)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.recursive(some_calls, lambda inner: st.one_of(
    st.lists(inner, max_size=4).map(lambda items: Seq(tuple(items))),
    st.tuples(inner, inner).map(lambda two: If(COND, seq(two[0]), seq(two[1])))), max_leaves=8))
def test_without_loops_nothing_else_is_alive(tree):
    assert {b: moments(life) for b, life in lives(tree).items()} == alive_in(tree)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(trees, st.lists(st.integers(1, 500), min_size=BUFFERS, max_size=BUFFERS),
       st.lists(st.sampled_from(["global", "device"]), min_size=BUFFERS, max_size=BUFFERS))
def test_what_runs_keep_lies_apart(tree, sizes, memories):
    plan = place_buffers([Buffer("b", number(n), memory=m) for n, m in zip(sizes, memories)], tree)
    spans = [(plan.offset(n).value, plan.offset(n).value + size) for n, size in enumerate(sizes)]
    assert all(begin % ALIGN == 0 and end <= plan.bytes_of(m).value for (begin, end), m in zip(spans, memories))
    kept = alive_in(tree)
    for a, b in combinations(sorted(kept), 2):
        if memories[a] == memories[b] and kept[a] & kept[b]:
            assert spans[a][1] <= spans[b][0] or spans[b][1] <= spans[a][0]


# ---------------------------------------------------------------- examples

@pytest.mark.parametrize("tree, expected", [
    (seq(call(0), call(1), call(0)), {0: ((0, 2),), 1: ((1, 1),)}),
    (If(COND, seq(call(0), call(0)), seq(call(1))), {0: ((0, 1),), 1: ((2, 2),)}),
    # Set in both branches and used after them: not alive at the beginning of either.
    (seq(If(COND, seq(call(), call(0)), seq(call(), call(0))), call(0)), {0: ((1, 1), (3, 4))}),
    # Set before, used in one branch.
    (seq(call(0), If(COND, seq(call(1), call(1)), seq(call(0), call()))), {0: ((0, 0), (3, 3)), 1: ((1, 2),)}),
    (seq(call(), While(COND, seq(call(), call(0), call())), call()), {0: ((1, 3),)}),
    (seq(call(0), While(COND, seq(call(), call(1))), call(0)), {0: ((0, 3),), 1: ((1, 2),)}),
    (For(I, number(3), seq(If(COND, seq(call(0)), seq(call(1))))), {0: ((0, 1),), 1: ((0, 1),)}),
    (seq(), {}),
])
def test_lives(tree, expected):
    assert lives(tree) == expected


def test_branches_share_memory_and_loops_do_not():
    buffers = [Buffer("b", number(64)), Buffer("b", number(64))]
    branches = If(COND, seq(call(0)), seq(call(1)))
    assert place_buffers(buffers, branches).total.value == 64
    assert place_buffers(buffers, While(COND, seq(branches))).total.value == 128


def test_what_init_writes_lasts():
    buffers = [Buffer("b", number(64)), Buffer("b", number(64))]
    run = seq(call(0), call(1))
    assert place_buffers(buffers, run).total.value == 64
    assert place_buffers(buffers, run, init=seq(call(0))).total.value == 128


# ---------------------------------------------------------------- sizes

K = Var("k", "int64")


def test_sizes_that_a_run_determines_take_their_bounds():
    """n is at most 2 k + 1, and i less than that: k is the caller's."""
    run = seq(Let(N, Read(operand("input")), K * 2 + 1), For(I, N, seq(call(0, 1))))
    bounds = upper_bounds(run)
    plan = place_buffers([Buffer("b", N * 64), Buffer("c", (I + 1) * 64)], run)
    assert [evaluate_dim(b.bytes, {"k": 3}) for b in plan.buffers] == [7 * 64, 7 * 64]
    assert evaluate_dim(plan.total, {"k": 3}) == 14 * 64
    for size, most in ((N * 4, 28), (N * 4 + 8, 36), (N // 2, 3), (Max(N, number(9)), 9), (Min(N, number(2)), 2),
                       (I, 6),
                       (K * 5, 15)):
        assert evaluate_dim(upper_bound(size, bounds), {"k": 3}) == most


@pytest.mark.parametrize("size, message", [
    (M * 4, "the size m \\* 4 depends on m, which has no upper bound"), (number(9) - N, "not known to grow with n"),
    (N * (N - 1), "not known to grow with n"), (number(100) // N, "not known to grow with n"),
])
def test_other_sizes_have_none(size, message):
    run = seq(Let(N, number(1), number(7)), Let(M, number(1)), call(0))
    with pytest.raises(ProgramError, match=message):
        place_buffers([Buffer("b", size)], run)
