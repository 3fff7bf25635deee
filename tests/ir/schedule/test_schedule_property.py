"""Random schedules: whatever the primitives accept must compute what the unscheduled program computes.

Each example draws a program and a sequence of primitives with random arguments. Refusals are expected and skipped;
any other exception, an ill-formed function or a different number is a failure. The trace, its JSON and its printed
Python replay to structurally equal programs, and the lowered program computes the same as well.
"""
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingot.ir import tir
from ingot.ir.node import Mutator, collect
from ingot.ir.schedule.blocks import uses
from ingot.ir.schedule import Schedule, ScheduleError, TensorIntrin
from ingot.ir.schedule.registry import PRIMITIVES
from ingot.ir.tir.signatures import complete_signatures
from ingot.ir.transform.pipeline import lower_prim_func
from random_programs import random_program
from schedule_programs import (argmax, assert_same, chain, diamond, elementwise, guarded, halves, matmul, packed_conv,
                               padded, repeated_sum, replayed, resampled, reshaped, running_sum, softmax, stencil,
                               symbolic)

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
           "decompose_padding", "decompose_border", "cache_inplace", "pad_einsum", "rolling_buffer", "roll", "roll",
           "storage_align", "transform_block_layout", "tensorize", "annotate", "unannotate", "sample_categorical",
           "copy", "read_at", "write_at", "tile_contraction", "loop_partition", "merge", "reindex_cache_read",
           "reindex_cache_write"]


FACTORS = (0.5, 2.0, -1.0)  # of the scaling stages of random_program


def scale_intrinsic(factor, length, kind):
    a, b = (tir.decl_buffer((length,), name=name) for name in "AB")
    i, v = tir.Var("i"), tir.Var("v")
    iv = tir.IterVar(tir.Range(tir.const(0), tir.const(length)), v, "spatial")
    block = tir.Block((iv,), (a[v:v + 1],), (b[v:v + 1],), "row", (), (), {}, None,
                      tir.BufferStore(b, a[v] * factor + 1.0, (v,)))
    return tir.prim_func([a, b], tir.for_(i, length, tir.BlockRealize((i,), tir.const(True), block), kind))


for _factor in FACTORS:
    for _length in (1, 2, 3):
        TensorIntrin.register(f"random_scale {_factor} {_length}", scale_intrinsic(_factor, _length, "serial"),
                              scale_intrinsic(_factor, _length, "unrolled"), override=True)


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

    def step(self, name=None):
        rng, sch = self.rng, self.sch
        name = name or rng.choice(CHOICES)
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

    def do_loop_partition(self):
        if len(self.names()) < 8:
            self.sch.loop_partition(self.loop(), self.rng.choice([[1], [2, None], [None, 1], [1, 2]]))

    def do_merge(self):
        top = self.names()
        start = self.rng.randrange(len(top))
        nests = [self.sch.get_loops(name) for name in top[start:start + 2]]
        depth = self.rng.choice([0, 0, 1])
        self.sch.merge(*(loops[min(depth, len(loops) - 1)] for loops in nests if loops))

    def do_reindex_cache_read(self):
        self.reindexed(self.sch.reindex_cache_read, "reads")

    def do_reindex_cache_write(self):
        self.reindexed(self.sch.reindex_cache_write, "writes")

    def reindexed(self, primitive, side):
        """Through a copy laid out by the iterators that an index uses, in another order."""
        block = self.block()
        stated = self.sch.get(block)
        if len(self.names()) < 8 and getattr(stated, side):
            region = getattr(stated, side)[0].region
            used = [n for n, iv in enumerate(stated.iter_vars) if uses(tuple(r.min for r in region), {iv.var})]
            self.rng.shuffle(used)
            primitive(block, 0, "local", lambda *iters: [iters[n] for n in used])

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

    def do_read_at(self):
        if len(self.names()) < 8:
            block = self.block()
            loops = self.sch.get_loops(block)
            self.sch.read_at(self.rng.choice(loops) if loops else None, block, 0, self.rng.choice(["local", "shared"]))

    def do_write_at(self):
        if len(self.names()) < 8:
            block = self.block()
            loops = self.sch.get_loops(block)
            self.sch.write_at(self.rng.choice(loops) if loops else None, block, 0, "local")

    def do_decompose_reduction(self):
        block = self.block()
        loops = self.sch.get_loops(block)
        self.sch.decompose_reduction(block, self.rng.choice(loops) if loops else None)

    def do_bind(self):
        self.sch.bind(self.loop(), self.rng.choice(["blockIdx.x", "threadIdx.x", "vthread"]))

    def do_rfactor(self):
        if len(self.names()) < 8:
            loops = self.sch.get_loops(self.block_with(lambda b: b.init is not None))
            self.sch.rfactor(self.rng.choice(loops[-2:]) if loops else None, self.rng.choice([0, -1]))

    def do_blockize(self):
        names = self.names()
        start = self.rng.randrange(len(names))
        target = names[start:start + 2] if self.rng.random() < 0.3 else self.loop()
        self.sch.blockize(target, self.rng.random() < 0.5)

    def do_transform_layout(self):
        index_map = self.rng.choice([lambda i, j: (j, i), lambda i: (i // 3, i % 3), lambda i, j: (i, j // 2, j % 2),
                                     lambda i, j: (i * 64 + j,)])
        block = self.block()
        if self.sch.get(block).writes[0].buffer not in self.sch.func.buffers:  # else the caller's arrays would change
            self.sch.transform_layout(block, ("write", 0), index_map, self.rng.choice([None, 3.0]))

    def do_reindex(self):
        if len(self.names()) < 8:
            self.sch.reindex(self.block(), (self.rng.choice(["read", "write"]), 0))

    def do_reorder_block_iter_var(self):
        block = self.block()
        count = len(self.sch.get(block).iter_vars)
        self.sch.reorder_block_iter_var(block, self.rng.sample(range(count), count))

    def do_decompose_padding(self):
        self.sch.decompose_padding(*self.padded())

    def do_decompose_border(self):
        self.sch.decompose_border(*self.padded())

    def padded(self):
        block = self.block_with(lambda b: getattr(getattr(b.body, "value", None), "op", "") == "tir.if_then_else")
        loops = self.sch.get_loops(block)
        return block, self.rng.choice(loops) if loops else None

    def do_cache_inplace(self):
        if len(self.names()) < 8:
            self.sch.cache_inplace(self.block(), self.rng.choice([0, 1]), "local")

    def do_sample_perfect_tile(self):
        loop = self.loop()
        self.sch.split(loop, self.sch.sample_perfect_tile(loop, 2))

    def do_sample_compute_location(self):
        block = self.block()
        self.sch.compute_at(block, self.sch.sample_compute_location(block))

    def do_pad_einsum(self):
        block = self.block()
        count = len(self.sch.get(block).iter_vars)
        self.sch.pad_einsum(block, [self.rng.choice([0, 1, 2, 4]) for _ in range(count)])

    def do_tile_contraction(self):
        sizes = [[self.rng.choice([1, 2, 3, 4]) for _ in range(n)] for n in (2, 1, 1)]
        self.sch.tile_contraction(self.block(), *sizes)

    def do_rolling_buffer(self):
        self.sch.rolling_buffer(self.block(), 0)

    def do_roll(self):
        """compute_at and rolling_buffer at once, where both are legal: alone the second seldom finds its place."""
        for name in self.names():
            for consumer in self.sch.get_consumers(name)[-1:]:
                for loop in self.sch.get_loops(consumer):
                    sch = self.sch.copy()
                    try:
                        sch.compute_at(name, loop)
                        sch.rolling_buffer(name, 0)
                    except ScheduleError:
                        continue
                    self.sch = sch
                    return
        self.sch.rolling_buffer(self.block(), 0)

    def do_storage_align(self):
        self.sch.storage_align(self.block(), 0, self.rng.choice([0, -1, 1]), self.rng.choice([4, 8]),
                               self.rng.choice([0, 1, 3]))

    def do_transform_block_layout(self):
        block = self.block()
        extents = [iv.dom.extent for iv in self.sch.get(block).iter_vars]
        maps = {1: [lambda i: (i // 3, i % 3), lambda i: (i // 2, i % 2), lambda i: (0, i)],
                2: [lambda i, j: (j, i), lambda i, j: (i, j // 2, j % 2), lambda i, j: (i * extents[1] + j,)]}
        self.sch.transform_block_layout(block, self.rng.choice(maps.get(len(extents), [lambda i, j, k: (k, i, j)])))

    def do_tensorize(self):
        """A row of a scaling stage of random_program, split to the length of the intrinsic."""
        block = self.block_with(lambda b: b.init is None and len(b.reads) == 1)
        factor, length = self.rng.choice(FACTORS), self.rng.choice([1, 2, 3])
        outer, inner = self.sch.split((self.sch.get_loops(block) or [None])[-1], [None, length])
        self.sch.tensorize(inner, f"random_scale {factor} {length}")

    def block_with(self, wanted):
        """A block of which `wanted` holds, else any."""
        blocks = [self.sch.get_block(name) for name in self.inner_names()]
        return self.rng.choice([b for b in blocks if wanted(self.sch.get(b))] or blocks)

    def do_annotate(self):
        place = self.rng.choice([self.loop(), self.loop(), self.block()])
        self.sch.annotate(place, "note", self.rng.choice([1, "x", [1, 2.5], None, True]))

    def do_unannotate(self):
        for loop in self.sch.get_loops(self.block()):
            self.sch.unannotate(loop, "note")

    def do_sample_categorical(self):
        loop = self.loop()
        factor = self.sch.sample_categorical([1, 2, 3], [0.25, 0.25, 0.5])
        self.sch.split(loop, [None, self.rng.choice([factor, factor + 1, factor * 2])])

    def do_copy(self):
        self.sch = self.sch.copy()

    def do_set_scope(self):
        self.sch.set_scope(self.block(), 0, "local")


def backwards(func):
    """The function with vectorized and bound loops called parallel: the interpreter runs those backwards, so that an
    order between iterations shows."""
    class Relabel(Mutator):
        def visit_For(self, loop):
            loop = self.generic_visit(loop)
            at_once = loop.kind in ("vectorized", "thread_binding")
            return loop.replace(kind="parallel", thread_binding=None) if at_once else loop

    return func.replace(body=Relabel().visit(func.body))


def check(func, sch, sizes):
    assert not complete_signatures(sch.func)[1]  # blocks list all that they touch
    assert_same(func, backwards(sch.func), sizes)
    replayed(func, sch)


def walk(func, rng, steps):
    walker = Walk(Schedule(func, seed=1, debug_mask="all"), rng)
    for _ in range(steps):
        walker.step()
    return walker


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_random_schedules_keep_the_meaning(program, seed):
    func = PROGRAMS[program]()
    check(func, walk(func, random.Random(f"{program} {seed}"), 24).sch, {"n": 3})


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.integers(1, 20))
def test_random_programs_keep_their_meaning(seed, steps):
    rng = random.Random(seed)
    func = random_program(rng)
    sch = walk(func, rng, steps).sch
    check(func, sch, None)
    if not any(loop.thread_binding for loop in bound(sch)):
        assert_same(func, lower_prim_func(sch.func))


def bound(sch):
    return [loop for loop in collect(sch.func.body, tir.For) if loop.thread_binding]


def test_every_primitive_is_drawn():
    asks = {name for name, row in PRIMITIVES.items() if row.is_pure}
    apart = {"enter_postproc", "unsafe_set_dtype", "annotate_buffer_access", "unsafe_hide_buffer_access",
             "cache_index", "set_axis_separator",  # in rows of test_primitive_cache.py and test_primitive_layout.py
             "separate_statements", "lift_loops"}  # the last two in tests/gpu/test_gpu_rules.py
    assert set(PRIMITIVES) - asks - apart <= set(CHOICES)


BEFORE = {"unannotate": "annotate", "cache_inplace": "decompose_reduction"}


@pytest.mark.parametrize("name", sorted(set(CHOICES) - {"rolling_buffer"}))  # "roll" draws that one where it is legal
def test_every_primitive_is_accepted_somewhere(name):
    """Else the properties above say nothing about it."""
    for seed in range(400):
        rng = random.Random(seed)
        walker = Walk(Schedule(random_program(rng)), rng)
        for step in (BEFORE.get(name), name):
            walker.step(step) if step else None
        if name in walker.accepted:
            return
    pytest.fail(f"no random program accepts {name}")
