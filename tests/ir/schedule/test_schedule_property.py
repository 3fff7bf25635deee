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
           "decompose_reduction", "set_scope", "bind", "add_unit_loop", "rfactor", "blockize", "blockize",
           "transform_layout", "reindex", "reorder_block_iter_var", "sample_perfect_tile", "sample_compute_location",
           "decompose_padding", "cache_inplace"]


class Walk:
    """Draws primitives and applies them to a schedule."""

    def __init__(self, sch, rng):
        self.sch, self.rng = sch, rng
        self.accepted = []

    def block(self):
        return self.sch.get_block(self.rng.choice(self.inner_names()))

    def names(self):
        return [self.sch.get(b).name_hint for b in self.sch.get_child_blocks("root")]

    def inner_names(self):
        """The names of all blocks, those inside blocks too."""
        top = self.names()
        return top + [self.sch.get(b).name_hint for n in top for b in self.sch.get_child_blocks(n)]

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

    def do_bind(self):
        self.sch.bind(self.loop(), self.rng.choice(["blockIdx.x", "threadIdx.x", "vthread"]))

    def do_rfactor(self):
        if len(self.names()) < 8:
            self.sch.rfactor(self.loop(), self.rng.choice([0, -1]))

    def do_blockize(self):
        names = self.names()
        start = self.rng.randrange(len(names))
        target = names[start:start + 2] if self.rng.random() < 0.3 else self.loop()
        self.sch.blockize(target, self.rng.random() < 0.5)

    def do_transform_layout(self):
        index_map = self.rng.choice([lambda i, j: (j, i), lambda i: (i // 3, i % 3), lambda i, j: (i, j // 2, j % 2),
                                     lambda i, j: (i * 64 + j,)])
        self.sch.transform_layout(self.block(), ("write", 0), index_map, self.rng.choice([None, 3]))

    def do_reindex(self):
        if len(self.names()) < 8:
            self.sch.reindex(self.block(), (self.rng.choice(["read", "write"]), 0))

    def do_reorder_block_iter_var(self):
        block = self.block()
        count = len(self.sch.get(block).iter_vars)
        self.sch.reorder_block_iter_var(block, self.rng.sample(range(count), count))

    def do_decompose_padding(self):
        block = self.block()
        loops = self.sch.get_loops(block)
        self.sch.decompose_padding(block, self.rng.choice(loops) if loops else None)

    def do_cache_inplace(self):
        if len(self.names()) < 8:
            self.sch.cache_inplace(self.block(), self.rng.choice([0, 1]), "local")

    def do_sample_perfect_tile(self):
        loop = self.loop()
        self.sch.split(loop, self.sch.sample_perfect_tile(loop, 2))

    def do_sample_compute_location(self):
        block = self.block()
        self.sch.compute_at(block, self.sch.sample_compute_location(block))

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
    """The function with vectorized and bound loops called parallel: the interpreter runs those backwards, so that an order
    between turns shows."""
    class Relabel(Mutator):
        def visit_For(self, loop):
            loop = self.generic_visit(loop)
            return loop.replace(kind="parallel", thread_binding=None) if loop.kind in ("vectorized", "thread_binding") else loop

    return func.replace(body=Relabel().visit(func.body))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", range(6))
def test_random_schedules_keep_the_meaning(program, seed):
    func, sch, _ = walk(program, seed, 24)
    assert_same(func, backwards(sch.func), {"n": 3})
    again = Schedule(func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)
