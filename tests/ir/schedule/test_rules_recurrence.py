"""The rule of recurrent layers: what it tiles, how large, and what stays in registers."""
import pytest
from rule_cases import kernels

from ingot.codegen.kernels import print_kernel
from ingot.ir.node import collect
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.schedule.rules.recurrence import Step
from ingot.ir.tir.stmt import For
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine, set_costs

WIDE = machine(16, 32)


def scheduled(name, cpu=WIDE):
    func, = [f for f in kernels(name, cpu) if any("y_h" == b.name for b in f.buffers)]
    return schedule_by_rule(func, cpu).func


@pytest.mark.parametrize("batch, hidden, gates, expected", [
    (1, 128, 3, (1, 8, 16)), (1, 64, 4, (1, 4, 16)), (1, 1024, 4, (1, 4, 16)), (4, 256, 4, (4, 1, 16)),
    (2, 24, 1, (2, 3, 8)), (1, 12, 4, (1, 3, 4)), (3, 7, 1, (3, 7, 1))])
def test_tiles_divide_and_fit_the_registers(batch, hidden, gates, expected):
    step = Step(batch, hidden, gates)
    tile, lanes = choose(step, WIDE).tile, step.lanes(WIDE)
    rows, vectors = tile.rows, tile.vectors
    assert (rows, vectors, lanes) == expected
    assert batch % rows == 0 and hidden % (vectors * lanes) == 0 and rows * vectors * gates <= 28


def test_values_without_vectors_are_scalars():
    assert Step(1, 64, 1, in_vectors=False).lanes(WIDE) == 1


def test_sums_are_vectors_in_registers():
    func = lower_prim_func(scheduled("gru_reset_later"))
    text = print_kernel(func, "f").body
    assert "f32x16 gates_local[6];" in text and "f32x16 candidate_local[2];" in text
    assert text.count("f32x16_sigmoid") == 2 and "expf" not in text


@pytest.mark.parametrize("parallel, kinds", [(True, ["parallel"]), (False, [])])
def test_directions_run_in_parallel_when_the_work_is_worth_it(parallel, kinds, monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    for name, expected in (("lstm_both_ways", kinds), ("gru", [])):
        func = scheduled(name, machine(16, 32, parallel=parallel))
        assert [loop.kind for loop in collect(func, For) if loop.kind == "parallel"] == expected
