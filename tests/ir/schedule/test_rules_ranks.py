"""Schedules by rule of programs whose operands have any rank, none included: a scalar times a matrix, sums of columns
that no term indexes, a result of rank 0."""
import random

import pytest
from compiled_batch import same_results
from test_rules import NARROW, OTHERS, WIDE

from ingot.ir import te
from ingot.ir.schedule.rules import schedule_by_rule

SIZES = (1, 4, 16, 20)


def program(seed):
    """A product of operands, elementwise or summed over some axes, and what follows it: each operand is indexed by some
    of the axes, in any order, or by none."""
    rng = random.Random(seed)
    shape = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 2, 2, 2, 3)))]
    summed = [rng.choice(SIZES[:3]) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    sizes, placeholders = shape + summed, []

    def operand(axes):
        """The load of a new placeholder of some of the axes: a function of their values."""
        used = rng.sample(range(axes), rng.randint(0, axes))
        x = te.placeholder([sizes[a] for a in used], "float32", f"x{len(placeholders)}")
        placeholders.append(x)
        return lambda values: x[tuple(values[a] for a in used)]

    loads = [operand(len(sizes)) for _ in range(rng.choice((1, 2, 2, 3)))]
    terms = [te.reduce_axis((0, n), f"k{j}") for j, n in enumerate(summed)]

    def value(*i):
        product = 1.0
        for load in loads:
            product = load([*i, *(k.var for k in terms)]) * product
        return rng.choice((te.sum, te.max))(product, terms) if terms else product

    y = te.compute(shape, value, name="y")
    if rng.random() < 0.5:
        last = operand(len(shape))
        y = te.compute(shape, lambda *i: y[i] + last(i) if i else y[()] + last(()), name="z")
    return te.create_prim_func([*placeholders, y])


@pytest.mark.parametrize("seed", range(150))
def test_operands_of_any_rank(seed):
    func = program(seed)
    cpu = (WIDE, NARROW, *OTHERS)[seed % 5]
    same_results(func, schedule_by_rule(func, cpu).func)
