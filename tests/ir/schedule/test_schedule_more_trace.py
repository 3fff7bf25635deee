"""Sampling, seeds, JSON and simplification of traces."""
from collections import Counter

import pytest

from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import assert_same, elementwise, loop_text, matmul, packed_conv, replayed, schedule


def sampled(func, seed=0):
    """A schedule with a sample of everything."""
    sch = schedule(func, seed=seed)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.get_producers("D")
    sch.sample_perfect_tile(k, 2)
    tiles = sch.sample_perfect_tile(j, 3, 16)
    sch.split(j, tiles)
    sch.annotate(i, "unroll", sch.sample_categorical([0, 16, 64], [0.25, 0.25, 0.5]))
    sch.compute_at(block, sch.sample_compute_location(block))
    sch.transform_layout("D", ("read", 0), lambda i, j: (j, i)) if "C" in names(sch) else None
    sch.enter_postproc()
    sch.parallel(sch.get_loops("D")[0])
    return sch


def names(sch):
    return [sch.get(b).name_hint for b in sch.get_child_blocks("root")]


@pytest.mark.parametrize("seed", range(8))
def test_traces_with_samples_round_trip(seed):
    func = matmul(13, 24, 9, relu=True)
    sch = sampled(func, seed)
    assert_same(func, sch.func)
    saved = replayed(func, sch)
    assert str(saved.trace) == str(sch.trace) and saved.trace.as_json() == sch.trace.as_json()


def test_simplified_drops_what_nothing_uses():
    sch = sampled(matmul(13, 24, 9, relu=True))
    full, short = str(sch.trace), str(sch.trace.simplified())
    assert "get_producers" in full and "get_producers" not in short
    assert full.count("sample_perfect_tile") == 2 and short.count("sample_perfect_tile") == 1
    assert "enter_postproc" in short and "parallel" in short
    assert "parallel" not in str(sch.trace.simplified(remove_postproc=True))
    assert "parallel" not in sch.trace.as_json(remove_postproc=True)
    other = Schedule(matmul(13, 24, 9, relu=True))
    sch.trace.apply(other, remove_postproc=True)
    assert {t.split(":")[2] for t in loop_text(other, "D")} == {"serial"}


# ---------------------------------------------------------------- sampling

def test_perfect_tiles_are_perfect_and_even():
    sch = schedule(elementwise((12, 5)))
    loop = sch.get_loops("C")[0]
    drawn = Counter()
    for _ in range(600):
        tile = tuple(map(sch.get, sch.sample_perfect_tile(loop, 2, 4)))
        assert tile[0] * tile[1] == 12 and tile[1] <= 4
        drawn[tile] += 1
    assert set(drawn) == {(12, 1), (6, 2), (4, 3), (3, 4)} and min(drawn.values()) > 100
    tiles = {tuple(map(sch.get, sch.sample_perfect_tile(loop, 3, 16))) for _ in range(600)}
    assert len(tiles) == 18  # ordered factorizations of 12 = 2^2 * 3 in three factors


def test_categorical_follows_probabilities_and_decisions():
    sch = schedule(elementwise())
    drawn = Counter(sch.get(sch.sample_categorical([5, 6], [0.9, 0.1])) for _ in range(400))
    assert drawn[5] > 320 > drawn[6] > 10
    assert sch.get(sch.sample_categorical([5, 6], [0.9, 0.1], decision=1)) == 6


def test_compute_locations_are_legal():
    func = packed_conv(o=20, w=8)
    found = Counter()
    for seed in range(60):
        sch = schedule(func, seed=seed)
        place = sch.sample_compute_location("conv2d")
        sch.compute_at("conv2d", place)
        found["conv2d" in names(sch), len(loop_text(sch, "conv2d")) if "conv2d" in names(sch) else 0] += 1
        assert_same(func, sch.func) if seed < 12 else None
    assert len(found) >= 2 and (False, 0) in found


def test_seeds():
    first, second = schedule(matmul(), seed=3), schedule(matmul(), seed=3)
    draw = [[s.get(v) for v in s.sample_perfect_tile(s.get_loops("C")[0], 2)] for s in (first, second)]
    assert draw[0] == draw[1] and first.fork_seed() == second.fork_seed() != first.fork_seed()
    first.seed(7)
    second.seed(7)
    assert first.rng.random() == second.rng.random()
    assert first.copy().rng.random() != first.rng.random()


@pytest.mark.parametrize("call, message", [
    (lambda s: s.sample_categorical([], []), "there are 0 candidates"),
    (lambda s: s.sample_perfect_tile(s.get_loops("C")[0], 2, 0), "'max_innermost_factor': 0 is not positive"),
    (lambda s: s.unroll(s.sample_compute_location("C", -1)), "the handle stands for no loop but the root; only comp"),
    (lambda s: s.split(s.sample_categorical([1], [1]), [2]), "argument 'loop': must be a loop .LoopRV., not ExprRV"),
])
def test_sampling_refuses(call, message):
    with pytest.raises(ScheduleError, match=message):
        call(schedule(matmul()))
