"""Random schedules: whatever the primitives accept must compute what the unscheduled program computes.

Each example draws a program and a sequence of primitives with random arguments. Refusals are expected and skipped;
any other exception, an ill-formed function or a different number is a failure.
"""
import random

import pytest

from ingot.ir.node import Mutator, structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from schedule_programs import (argmax, assert_same, chain, diamond, elementwise, guarded, halves, matmul, packed_conv,
                               padded, repeated_sum, resampled, reshaped, running_sum, softmax, stencil, symbolic)

PROGRAMS = {
    "elementwise": lambda: elementwise((3, 10)), "matmul": lambda: matmul(5, 7, 4),
    "matmul_relu": lambda: matmul(4, 9, 3, relu=True), "stencil": lambda: stencil(11), "padded": lambda: padded(7),
    "softmax": lambda: softmax(3, 7), "symbolic": lambda: symbolic(5),
    "diamond": lambda: diamond(8), "resampled": lambda: resampled(5), "reshaped": reshaped, "argmax": argmax,
    "halves": halves, "chain": chain, "guarded": guarded, "repeated_sum": repeated_sum, "running_sum": running_sum,
    "packed_conv": lambda: packed_conv(n=2, c=2, h=4, w=5, o=18, k=2),
}


CHOICES = ["split", "split", "fuse", "reorder", "reorder", "parallel", "vectorize", "unroll", "compute_at",
           "compute_at", "reverse_compute_at", "compute_inline", "reverse_compute_inline", "cache_read", "cache_write",
           "decompose_reduction", "set_scope"]


class Walk:
    """Draws primitives and applies them to a schedule."""

    def __init__(self, sch, rng):
        self.sch, self.rng = sch, rng
        self.accepted = []

    def block(self):
        return self.sch.get_block(self.rng.choice(self.names()))

    def names(self):
        return [self.sch.get(b).name_hint for b in self.sch.get_child_blocks("root")]

    def loop(self):
        loops = self.sch.get_loops(self.block())
        return self.rng.choice(loops) if loops else None

    def step(self):
        rng, sch = self.rng, self.sch
        name = rng.choice(CHOICES)
        try:
            if hasattr(self, "do_" + name):
                getattr(self, "do_" + name)()
            else:
                getattr(sch, name)(self.loop())
            self.accepted.append(name)
        except ScheduleError as refusal:
            assert str(refusal)

    def do_split(self):
        factors = [self.rng.choice([1, 2, 3, 4, 5]) for _ in range(self.rng.choice([1, 1, 2]))]
        factors.insert(self.rng.randrange(len(factors) + 1), None)
        self.sch.split(self.loop(), factors)

    def do_fuse(self):
        loops = self.sch.get_loops(self.block())
        start = self.rng.randrange(max(len(loops) - 1, 1))
        self.sch.fuse(*loops[start:start + self.rng.choice([2, 3])])

    def do_reorder(self):
        loops = self.sch.get_loops(self.block())
        self.sch.reorder(*self.rng.sample(loops, min(len(loops), self.rng.choice([2, 2, 3, 4]))))

    def do_compute_at(self):
        block = self.block()
        self.move(self.sch.compute_at, block, self.sch.get_consumers(block))

    def do_reverse_compute_at(self):
        block = self.block()
        self.move(self.sch.reverse_compute_at, block, self.sch.get_producers(block))

    def move(self, primitive, block, others):
        """Move a block under a loop, most often one of a neighbour's."""
        loops = self.sch.get_loops(self.rng.choice(others)) if others and self.rng.random() < 0.9 else []
        loop = self.rng.choice(loops) if loops else self.loop()
        primitive(block, loop, self.rng.random() < 0.3, self.rng.choice([-1, -1, -2, 0, 1]))

    def do_compute_inline(self):
        if self.rng.random() < 0.3:
            self.sch.compute_inline(self.block())

    def do_reverse_compute_inline(self):
        if self.rng.random() < 0.3:
            self.sch.reverse_compute_inline(self.block())

    def do_cache_read(self):
        if len(self.names()) < 8:
            self.sch.cache_read(self.block(), self.rng.choice([0, 0, 1]), "local")

    def do_cache_write(self):
        if len(self.names()) < 8:
            self.sch.cache_write(self.block(), 0, "local")

    def do_decompose_reduction(self):
        block = self.block()
        loops = self.sch.get_loops(block)
        self.sch.decompose_reduction(block, self.rng.choice(loops) if loops else None)

    def do_set_scope(self):
        self.sch.set_scope(self.block(), 0, "local")


def walk(program, seed, steps):
    """(function, schedule) after `steps` random primitives."""
    func = PROGRAMS[program]()
    sch = Schedule(func, debug_mask="all")
    walker = Walk(sch, random.Random(f"{program} {seed}"))
    for _ in range(steps):
        walker.step()
    return func, sch, walker


def backwards(func):
    """The function with vectorized loops called parallel: the interpreter runs those backwards, so that an order
    between turns shows."""
    class Relabel(Mutator):
        def visit_For(self, loop):
            loop = self.generic_visit(loop)
            return loop.replace(kind="parallel") if loop.kind == "vectorized" else loop

    return func.replace(body=Relabel().visit(func.body))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", range(6))
def test_random_schedules_keep_the_meaning(program, seed):
    func, sch, _ = walk(program, seed, 24)
    assert_same(func, backwards(sch.func), {"n": 3})
    again = Schedule(func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)
