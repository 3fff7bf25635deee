"""Windows on GPUs: threads that make several neighbouring results."""
import numpy as np
import pytest
from gpu_modules import emulated, ints, needs_emulator

import ingot as tvm
from ingot import te
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.target import Target

GPU = Target.get("cuda-sm_80")

def window(kind, batch=2, channels=3, size=16, stride=1, blocked=0, dtype="float32"):
    """A depthwise convolution and what follows it, or a pool, of windows of 3 x 3 over a padded image, whose channels
    may lie in blocks."""
    inner = (blocked,) if blocked else ()
    x = te.placeholder((batch, channels, size, size, *inner), dtype, "x")
    w = te.placeholder((channels, 3, 3, *inner), dtype, "w")
    kh, kw, out = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw"), (size - 1) // stride + 1

    def padded(n, c, i, j, *e):
        inside = te.all(i >= 1, i <= size, j >= 1, j <= size)
        return te.if_then_else(inside, x[(n, c, i - 1, j - 1, *e)].astype("float32"), te.const(0, "float32"))

    image = te.compute((batch, channels, size + 2, size + 2, *inner), padded, "image")

    def term(n, c, i, j, *e):
        value = image[(n, c, i * stride + kh, j * stride + kw, *e)]
        if kind == "pool":
            return te.max(value, axis=[kh, kw])
        return te.sum(value * w[(c, kh, kw, *e)].astype("float32"), axis=[kh, kw])

    sums = te.compute((batch, channels, out, out, *inner), term, "sums")
    if kind == "pool":
        return te.create_prim_func([x, w, sums])
    return te.create_prim_func([x, w, te.compute(sums.shape, lambda *at: te.max(
        sums[at], te.const(0, "float32")).astype(dtype), "done")])


def expected_window(kind, x, w, stride):
    wide = np.pad(x.astype(np.float32), [(0, 0), (0, 0), (1, 1), (1, 1), *[(0, 0)] * (x.ndim - 4)])
    size = x.shape[2]
    parts = [wide[:, :, i:i + size:stride, j:j + size:stride] for i in range(3) for j in range(3)]
    if kind == "pool":
        return np.max(parts, axis=0)
    taps = [w[:, i, j].astype(np.float32)[(None, slice(None), None, None)] for i in range(3) for j in range(3)]
    return np.maximum(sum(p * t for p, t in zip(parts, taps)), 0)


@needs_emulator
@pytest.mark.parametrize("kind, lanes, options", [
    ("depthwise", 4, {}), ("depthwise", 8, {"blocked": 8, "dtype": "float16", "size": 7}), ("pool", 2, {"stride": 2}),
    ("depthwise", 2, {"stride": 2, "channels": 5, "batch": 1, "size": 12})])
def test_neighbours_of_a_thread(kind, lanes, options):
    """A thread makes neighbouring results together, and moves those that lie in a row at once."""
    func = window(kind, **options)
    sch = Schedule(func)
    match = RULES["points"](sch, GPU)
    plan = next(p for p in match.kernel.candidates(GPU) if (p.algorithm, p.turn) == ("neighbours", lanes))
    match.apply(plan, GPU)
    built = tvm.build(sch.mod, "cuda")
    dtype = options.get("dtype", "float32")
    arrays = [ints([int(e) for e in b.shape], np.dtype(dtype), n, 1) for n, b in enumerate(func.buffers[:2])]
    out = func.buffers[2]
    *_, found = emulated(built, *arrays, np.full([int(e) for e in out.shape], 7, out.dtype.numpy), policy="shuffled")
    np.testing.assert_array_equal(found.astype(np.float32), expected_window(kind, *arrays, options.get("stride", 1)))
    assert ("ingot_copy<8>" in built.imported_modules[0].get_source()) == (dtype == "float16")


def test_threads_make_several_results_where_there_are_many():
    """Few results need all threads that they can have; 55 of a row are made one by one."""
    matches = [RULES["points"](Schedule(window("depthwise", 1, 64, size)), GPU) for size in (8, 56, 55)]
    plans = [choose(match.kernel, GPU) for match in matches]
    assert [p.algorithm for p in plans] == ["whole", "neighbours", "whole"]
