"""Plans: chosen in one place, printed and parsed with a function, and followed by the rules."""
import re
from dataclasses import dataclass

import pytest
from compiled_batch import same_results
from rule_cases import CASES, const, kernels, network

from ingot.codegen.kernels import print_kernel
from ingot.ir.node import load_json, save_json, structural_equal
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import ONE_THREAD, Fixed, Kernel, Plan, PlanError, Stages, Tile, candidates, choose, cost
from ingot.ir.schedule.rules import RULES, Decision, apply, schedule_by_rule
from ingot.ir.schedule.rules.conv_tiles import Shape
from ingot.ir.schedule.rules.product_plan import Product
from ingot.ir.schedule.rules.threads import parallel_loops
from ingot.ir.schedule.rules.winograd_blocks import Layer
from ingot.ir.schedule.words import WORDS
from ingot.script import from_source
from machines import machine, set_costs

CPU = machine(16, 32)


def packed_product(rows=40, depth=96, columns=96):
    """The kernel of a product with constant weights and a Relu."""
    func, = kernels(lambda: network(lambda op, x: op("nn.relu", op("matmul", x, const(depth, columns))),
                                    [(rows, depth)]), CPU)
    return func


# ---------------------------------------------------------------- choosing

@dataclass(frozen=True)
class Steps(Kernel):
    """Plans of 1 to 8 rows, of which even ones cost as much as 4."""

    rule: str = "elementwise"

    def candidates(self, target):
        return (Plan(self.rule, tile=Tile(1, rows)) for rows in range(1, 9))

    def cost(self, plan, target):
        return abs(4 - plan.tile.rows) if plan.tile.rows % 2 else 0

    def complete(self, plan, target):
        return plan.replace(block=plan.block or 2 * plan.tile.rows)


def test_the_cheapest_candidate_is_taken_the_first_of_equals():
    assert choose(Steps(), CPU) == Plan("elementwise", tile=Tile(1, 2), block=4)
    assert len(list(candidates(Steps(), CPU))) == 8 and cost(Plan("elementwise", tile=Tile(1, 7)), Steps(), CPU) == 3


def test_what_is_given_stays():
    assert choose(Steps(), CPU, Plan("elementwise", tile=Tile(1, 5))).block == 10
    assert choose(Steps(), CPU, Plan("elementwise", block=3)) == Plan("elementwise", tile=Tile(1, 2), block=3)
    whole = Plan("elementwise", tile=Tile(3, 5), block=1)  # no candidate, but it decides all that one does
    assert choose(Steps(), CPU, whole) == whole


def test_a_part_that_no_candidate_has_is_refused():
    with pytest.raises(PlanError, match="no candidate for Product.*7 rows"):
        choose(Product(4, 64, 64), CPU, Plan("contraction", tile=Tile(1, 7)))


def test_stages_have_plans_of_their_own():
    plan = choose(Stages("attention", (Steps(), Fixed("gather"))), CPU, Plan("attention", stages=(
        Plan("elementwise", tile=Tile(1, 3)),)))
    assert [s.rule for s in plan.stages] == ["elementwise", "gather"] and plan.stages[0].block == 6
    for given, message in ((plan.replace(stages=plan.stages * 2), "has 2 stages here, not 4"),
                           (plan.replace(block=2), "does not decide block here")):
        with pytest.raises(PlanError, match=message):
            choose(Stages("attention", (Steps(), Fixed("gather"))), CPU, given)


@pytest.mark.parametrize("kernel", [
    Product(64, 256, 512), Shape(4, 14, 14, 576, 1 << 18, 1 << 18), Layer(4, 4, 4, 14, 14, 16)], ids=str)
def test_no_candidate_is_cheaper(kernel):
    least = cost(choose(kernel, CPU), kernel, CPU)
    assert all(cost(plan, kernel, CPU) >= least for plan in candidates(kernel, CPU))


# ---------------------------------------------------------------- text

def test_a_plan_is_part_of_a_functions_script_and_structure():
    plan = Plan("pointwise_depthwise", tile=Tile(2, 3), parts=0, order=("rows", "columns"), threads="rows",
                stages=(Plan("windows", "held"),))
    func = packed_product().with_attr("plan", plan)
    parsed = from_source(func.script())
    assert parsed.attrs["plan"] == plan and structural_equal(parsed, func)
    assert not structural_equal(func, func.with_attr("plan", plan.replace(threads="")))
    assert load_json(save_json(plan)) == plan and hash(load_json(save_json(plan))) == hash(plan)


def test_words():
    plan = Plan("contraction", "tiles", tile=Tile(4, 12), block=3, parts=1, order=("blocks", "columns"), threads="rows")
    text = "tile 12 rows x 4 vectors; blocks of 3 tiles of rows"
    assert str(plan) == f"{text}; loops over blocks, columns; threads share rows"
    assert str(plan.replace(threads=ONE_THREAD, order=())) == text
    assert str(Plan("tiny", "some", tile=Tile(1, 2), turn=2)) == "some; tile 2 rows x 1 vector; turn 2"
    stages = Plan("attention_blocks", stages=(Plan("scores", tile=Tile(2, 1)), Plan("values", tile=Tile(1, 3))))
    assert str(stages) == ("scores: tile 2 vectors; loops over columns, rows; "
                           "values: tile 3 rows x 1 vector; loops over columns, rows")


def test_every_rule_has_words():
    assert set(RULES) <= set(WORDS)


# ---------------------------------------------------------------- rules

def test_the_pass_that_packs_weights_decides_for_the_rule():
    """The panel is as wide as the tile of the plan, which leaves open what follows from the rest of the kernel."""
    func = packed_product()
    given, sch = func.attrs["plan"], schedule_by_rule(func, CPU)
    panels = next(b for b in func.buffers if len(b.shape) == 3)
    assert panels.shape[-1].value == 16 * given.tile.vectors and given.block is None
    assert (given.rule, given.arithmetic) == ("contraction", "fma")
    assert sch.plan.agrees(given) and sch.plan.block is not None and not sch.refused


def test_an_edited_script_gives_its_tile():
    func = packed_product()
    tile = func.attrs["plan"].tile
    assert tile.rows != 5
    text = func.script().replace(f"rows={tile.rows}, columns=1", "rows=5, columns=1")
    edited = from_source(text)
    sch = schedule_by_rule(edited, CPU)
    assert sch.plan.tile == tile.replace(rows=5) and not sch.refused
    lowered = same_results(func, sch.func)
    printed = print_kernel(lowered, "kernel").function
    sums = re.search(r"f32x16 \w+\[(\d+)\]", "".join(printed.tiles) + printed.body)
    assert int(sums[1]) == 5 * tile.vectors


@pytest.mark.parametrize("name", CASES)
def test_plans_replay(name):
    """A function that comes with the whole plan of its schedule gets the same schedule."""
    for func in kernels(name, CPU):
        sch = schedule_by_rule(func, CPU)
        assert sch.plan.rule in RULES
        parsed = from_source(func.with_attr("plan", sch.plan).script())
        again = schedule_by_rule(parsed, CPU)
        assert again.plan == sch.plan and str(again.trace) == str(sch.trace), name
        assert not any(r.startswith("the given plan") for r in again.refused), name


FEW = machine(16, 32, costs={"threads.least_work": 3000})
# A single tile, or head, is nothing to share; the rule of the last one refuses, and another schedules it.
ROUGH = ("conv_3x3_dilated", "conv_transpose", "conv_transpose_uneven", "conv_transpose_few", "attention_odd",
         "attention_rows", "attention_any_length", "attention_any_keys")


@pytest.mark.parametrize("name", CASES)
def test_decisions_tell_what_threads_would_wait_for(name):
    """And are applied for all of them or for one, as if they had been made for that."""
    for func in kernels(name, FEW):
        several, alone = Decision(func, FEW), Decision(func, FEW)
        sch, loops = several.schedule(FEW), parallel_loops(several.schedule(FEW).func.body)
        assert Decision(func, FEW).waits == loops or name in ROUGH
        assert (sch.plan.threads == ONE_THREAD) == (loops == 0)
        expected, found = schedule_by_rule(func, FEW.alone()), alone.schedule(FEW.alone())
        assert found.plan == expected.plan and found.plan.threads == ONE_THREAD
        assert structural_equal(found.func, expected.func) and not parallel_loops(found.func.body)


def test_one_thread(monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    func = packed_product()
    assert parallel_loops(schedule_by_rule(func, CPU).func.body)
    plan = schedule_by_rule(func, CPU).plan.replace(threads=ONE_THREAD)
    assert not parallel_loops(schedule_by_rule(func.with_attr("plan", plan), CPU).func.body)


def test_plans_that_do_not_fit():
    """A schedule then has the plan of a rule that does, and says so."""
    func = packed_product()
    for plan, message in ((Plan("winograd"), "does not fit"), (Plan("tiled"), "one of attention,")):
        with pytest.raises(PlanError, match=message):
            apply(plan, Schedule(func), CPU)
        sch = schedule_by_rule(func.with_attr("plan", plan), CPU)
        assert sch.plan.rule == "contraction" and "the given plan: " in sch.refused[0]
