"""Sampling, seeds, JSON and simplification of traces."""
import json
from collections import Counter
from itertools import product
from math import prod

import pytest

from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError, Trace
from ingot.ir.schedule.random_engine import RandomEngine
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
    for n in range(60):
        sch = schedule(func, seed=n * 10 ** 7)
        place = sch.sample_compute_location("conv2d")
        sch.compute_at("conv2d", place)
        found["conv2d" in names(sch), len(loop_text(sch, "conv2d")) if "conv2d" in names(sch) else 0] += 1
        assert_same(func, sch.func) if n < 12 else None
    assert len(found) >= 2 and (False, 0) in found


def test_seeds():
    first, second = schedule(matmul(), seed=3), schedule(matmul(), seed=3)
    draw = [[s.get(v) for v in s.sample_perfect_tile(s.get_loops("C")[0], 2)] for s in (first, second)]
    assert draw[0] == draw[1] and first.fork_seed() == second.fork_seed() != first.fork_seed()
    first.seed(7)
    second.seed(7)
    assert first.fork_seed() == second.fork_seed()
    assert first.copy().fork_seed() != first.fork_seed()
    with pytest.raises(ValueError, match="a seed is not negative, and -3 is"):
        first.seed(-3)
    with pytest.raises(TypeError, match="a seed is an int or None, not 'x'"):
        Schedule(matmul(), seed="x")


def test_numbers_of_a_seed():
    """Schedules draw what TVM's with the same seed draw: a seed times 48271, again and again, modulo 2 ** 31 - 1."""
    draws = RandomEngine(42)
    assert [draws.below(8) for _ in range(3)] == [
        42 * 48271 ** n % (2 ** 31 - 1) // ((2 ** 31 - 2) // 8) for n in (1, 2, 3)]
    draws.seed(42)
    first = draws.fork()
    assert first == 42 * 48271 * 32767 % 1999999973
    counts = Counter(RandomEngine(n * 10 ** 6).weighted([0.1, 0, 0.9]) for n in range(1, 1000))
    assert 70 < counts[0] < 130 and counts[1] == 0
    assert all(len({*RandomEngine(n * 10 ** 6).sample(6, 4)}) == 4 for n in range(1, 20))


def test_partitioned_tiles():
    sch = schedule(matmul(), seed=10 ** 8)  # j has 22 turns
    loop = sch.get_loops("C")[1]
    found = {tuple(map(sch.get, sch.sample_partitioned_tile(loop, 3, 1, 11))) for _ in range(300)}
    assert found == {t for t in product((1, 2, 11, 22), repeat=3) if prod(t) == 22 and t[1] * t[2] % 11 == 0}
    whole = sch.sample_partitioned_tile(loop, 2, 1, 4)
    assert whole[0] is None and sch.get(whole[1]) == 1  # 4 does not divide 22
    new = Schedule(matmul())
    parts = new.split(new.get_loops("C")[1], new.sample_partitioned_tile(new.get_loops("C")[1], 2, 1, 4))
    assert [new.get(p).extent.value for p in parts] == [22, 1]
    assert_same(matmul(), new.func)
    again = Trace.from_json(json.loads(json.dumps(new.trace.as_json())))
    other = Schedule(matmul())
    again.apply_to_schedule(other)
    assert structural_equal(other.mod, new.mod)
    assert prod(map(sch.get, sch.sample_perfect_tile(loop, 1, -1))) == 22


def test_compute_locations_that_help():
    """None is drawn of one turn, nor a loop over elements inside one that sums up."""
    sch = schedule(packed_conv(o=20, w=8), seed=1)
    loops = [sch.get(loop) for loop in sch.get_loops("relu" if "relu" in names(sch) else names(sch)[-1])]
    drawn = set()
    for _ in range(200):
        sch.sample_compute_location("conv2d")
        drawn.add(sch.trace.decisions[sch.trace.insts[-1]])
    assert {-2, -1} <= drawn and all(i < 0 or loops[i].extent.value > 1 for i in drawn)


def test_maps_to_no_index_are_printed():
    """A copy of one element has none."""
    func = elementwise((1,))
    sch = schedule(func)
    sch.reindex_cache_read("C", 0, "local", lambda i: [])
    assert "index_map=lambda i: ()" in "\n".join(sch.trace.as_python())
    replayed(func, sch)


@pytest.mark.parametrize("call, message", [
    (lambda s: s.sample_categorical([], []), "there are 0 candidates"),
    (lambda s: s.sample_perfect_tile(s.get_loops("C")[0], 2, 0), "'max_innermost_factor': 0 is not positive"),
    (lambda s: s.unroll(s.sample_compute_location("C", -1)), "the handle stands for no loop but the root; only comp"),
    (lambda s: s.split(s.sample_categorical([1], [1]), [2]), "argument 'loop': must be a loop .LoopRV., not ExprRV"),
])
def test_sampling_refuses(call, message):
    with pytest.raises(ScheduleError, match=message):
        call(schedule(matmul()))
