"""Programs under random GPU schedules: all passes over threads together keep what they compute, without a race."""
import random

import pytest
from gpu_programs import threads_agree
from test_gpu_reduction import softmax_te
from tir_cases import CASES, arguments, results

from ingot.ir.node import collect
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.ir.tir.stmt import Block, For
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.gpu.barriers import BarrierError
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for

PROGRAMS = {**{n: CASES[n] for n in ("matmul", "matmul_symbolic", "max_pool_padded", "conv2d", "elementwise_chain",
                                     "gather_rows", "reduction_where", "two_outputs_at_once", "scalar_output")},
            "softmax": lambda: softmax_te(5, 37)}


def names_of(sch):
    return [b.name_hint for b in collect(sch.func.body, Block) if b.name_hint != "root"]


def attempt(sch, step):
    """Apply a step, or leave the schedule as it is."""
    before = sch.copy()
    try:
        step(sch)
        return sch
    except (ScheduleError, IndexError):
        return before


def bind_block(rng, block, axes):
    """Bind some loops of a block, split before: those further out to blocks, those further in to threads."""
    def step(s):
        loops = s.get_loops(block)
        for loop in rng.sample(loops, min(len(loops), 2)):
            if s.get(loop).thread_binding or not axes:
                continue
            axis = axes.pop(0) if rng.random() < 0.8 else "vthread"
            if rng.random() < 0.7:
                loop = s.split(loop, [None, rng.choice((2, 3, 4, 8, 16, 40))])[1]
            s.bind(loop, axis)
    return step


def random_schedule(func, rng):
    sch = Schedule(func, error_render_level="none")
    out = names_of(sch)[-1]
    sch = attempt(sch, lambda s: s.bind(s.split(s.get_loops(out)[0], [None, rng.randint(1, 4)])[0], "blockIdx.x"))
    sch = attempt(sch, bind_block(rng, out, ["threadIdx.x", "threadIdx.y"] if rng.random() < 0.5 else ["threadIdx.x"]))
    for name in reversed(names_of(sch)[:-1]):
        if rng.random() < 0.8:
            def move(s):
                s.compute_at(name, rng.choice(s.get_loops(out)))
            sch = attempt(sch, move)
        if rng.random() < 0.6:
            sch = attempt(sch, lambda s: s.set_scope(name, 0, rng.choice(("shared", "shared", "local"))))
    for name in names_of(sch):
        if rng.random() < 0.3:
            def cached(s):
                copy = s.cache_read(name, rng.randint(0, 1), "shared")
                s.compute_at(copy, rng.choice(s.get_loops(name)))
                s.bind(s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, rng.choice((4, 8, 32))])[1], "threadIdx.x")
            sch = attempt(sch, cached)
    for name in names_of(sch):
        if rng.random() < 0.7:
            sch = attempt(sch, bind_block(rng, name, [rng.choice(("threadIdx.x", "threadIdx.x", "threadIdx.y"))]))
    return sch


def check(name, seed):
    func = PROGRAMS[name]()
    sch = random_schedule(func, random.Random(seed))
    if not [x for x in collect(sch.func.body, For) if x.kind == "thread_binding"]:
        return
    inputs = arguments(func)
    try:
        try:
            done = verify(lower_prim_func(sch.func, pipeline_for("cuda")))
        except BarrierError as error:
            assert "scope \"" in str(error), error
            return
        threads_agree(results(func, inputs), done, inputs, rtol=1e-5)
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}\n{sch.func.script()}") from error


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules(name):
    for seed in range(4):
        check(name, seed)
