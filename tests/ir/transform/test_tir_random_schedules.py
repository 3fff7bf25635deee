"""Programs under random schedules: all TIR passes together keep what they compute."""
import random

import pytest
from tir_cases import CASES, arguments, assert_same_results, results

from ingot.ir.schedule import Schedule, ScheduleError
from ingot.ir.node import collect
from ingot.ir.tir.stmt import Block
from ingot.ir.transform.pipeline import lower_prim_func

PROGRAMS = ("matmul", "matmul_symbolic", "softmax", "max_pool_padded", "conv2d", "elementwise_chain", "gather_rows",
            "reduction_where")


def random_schedule(func, rng, steps=8):
    """`func` after some random legal primitives."""
    sch = Schedule(func, error_render_level="none")
    for _ in range(steps):
        names = [b.name_hint for b in collect(sch.func.body, Block) if b.name_hint != "root"]
        block = sch.get_block(rng.choice(names))
        loops = sch.get_loops(block)
        kind = rng.choice(("split", "split", "reorder", "fuse", "compute_at", "compute_at", "inline", "parallel",
                           "vectorize", "unroll", "cache", "decompose", "scope"))
        try:
            if not loops:
                continue
            loop = rng.choice(loops)
            if kind == "split":
                factors = [None, rng.randint(2, 5)] + ([rng.choice((2, 4))] if rng.random() < 0.4 else [])
                sch.split(loop, factors)
            elif kind == "reorder":
                sch.reorder(*rng.sample(loops, min(len(loops), 3)))
            elif kind == "fuse":
                n = rng.randrange(len(loops))
                sch.fuse(*loops[n:n + 2])
            elif kind == "compute_at":
                other = sch.get_block(rng.choice(names))
                sch.compute_at(block, rng.choice(sch.get_loops(other)), preserve_unit_loops=rng.random() < 0.5)
            elif kind == "inline":
                sch.compute_inline(block)
            elif kind == "parallel":
                sch.parallel(loop)
            elif kind == "vectorize":
                sch.vectorize(loops[-1])
            elif kind == "unroll":
                sch.unroll(loop)
            elif kind == "cache":
                if rng.random() < 0.5:
                    sch.cache_read(block, 0, "local")
                else:
                    sch.cache_write(block, 0, "local")
            elif kind == "decompose":
                sch.decompose_reduction(block, loop)
            elif kind == "scope":
                sch.set_scope(block, 0, "local")
        except (ScheduleError, IndexError):
            continue
    return sch


def check(name, seed):
    func = CASES[name]()
    inputs = arguments(func)
    expected = results(func, inputs)
    sch = random_schedule(func, random.Random(seed))
    assert_same_results(expected, sch.func, inputs, f"\n{sch.trace}")
    assert_same_results(expected, lower_prim_func(sch.func), inputs, f"lowering of\n{sch.trace}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules(name):
    for seed in range(6):
        check(name, seed)
