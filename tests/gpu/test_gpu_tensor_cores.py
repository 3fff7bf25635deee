"""Products of float16 and bfloat16 on tensor cores: every shape and layout is exact under the emulator, and nvcc makes
of them what the rule means."""
import ml_dtypes
import numpy as np
import pytest
from gpu_modules import compiles, emulated, ints, needs_emulator

import ingot as tvm
from ingot import te
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.target import Target

GPU = Target.get("cuda-sm_80")
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def product(m, n, k, dtype="float16", trans=(False, False), batch=(), out=None):
    """max(a b, 0) + c of operands in one layout or the other, float32 sums."""
    a = te.placeholder((*batch, *((k, m) if trans[0] else (m, k))), dtype, "a")
    b = te.placeholder((*batch, *((n, k) if trans[1] else (k, n))), dtype, "b")
    c, r = te.placeholder((n,), dtype, "c"), te.reduce_axis((0, k), "r")

    def term(*at):
        *z, i, j = at
        x, y = a[(*z, *((r, i) if trans[0] else (i, r)))], b[(*z, *((j, r) if trans[1] else (r, j)))]
        return te.sum(x.astype("float32") * y.astype("float32"), axis=r)

    sums = te.compute((*batch, m, n), term, "sums")
    done = te.compute((*batch, m, n), lambda *at: (
        te.max(sums[at], te.const(0, "float32")) + c[at[-1]].astype("float32")).astype(out or dtype), "done")
    return te.create_prim_func([a, b, c, done])


def expected(a, b, c, trans, dtype):
    a, b, c = (x.astype(np.float32) for x in (a, b, c))
    a, b = (np.swapaxes(x, -1, -2) if t else x for x, t in zip((a, b), trans))
    return (np.maximum(a @ b, 0) + c).astype(dtype)


def scheduled(func, tile, parts=1):
    sch = Schedule(func)
    match = RULES["tensor_core_product"](sch, GPU)
    plan = next(p for p in match.kernel.candidates(GPU) if p.algorithm == tile)
    match.apply(plan.replace(parts=parts), GPU)
    return sch


def run(func, tile, trans, policy="up", parts=1):
    """Whole numbers of a few bits: every sum is exact in float32, and in the result's dtype."""
    built = tvm.build(scheduled(func, tile, parts).mod, "cuda")
    *inputs, out = func.buffers
    shapes = [tuple(int(e) for e in x.shape) for x in (*inputs, out)]
    arrays = [ints(s, NUMPY[str(x.dtype)], n, 1) for n, (s, x) in enumerate(zip(shapes, inputs))]
    dtype = NUMPY.get(str(out.dtype), np.float32)
    *_, found = emulated(built, *arrays, np.full(shapes[-1], 7, dtype), policy=policy)
    np.testing.assert_array_equal(found.astype(np.float32), expected(*arrays, trans, dtype).astype(np.float32))


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late", "shuffled"])
@pytest.mark.parametrize("trans", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_operands_in_every_layout(policy, trans):
    run(product(64, 96, 256, trans=trans), "32x32x64", trans, policy)


@needs_emulator
@pytest.mark.parametrize("m, n, k", [(37, 45, 70), (5, 8, 1), (33, 5, 17), (64, 64, 8), (1000, 9, 24)])
@pytest.mark.parametrize("policy", ["up late", "down"])
def test_shapes_that_no_tile_divides(m, n, k, policy):
    if k == 1:
        assert RULES["tensor_core_product"](Schedule(product(m, n, k)), GPU) is None
        return
    run(product(m, n, k), "32x32x64", (False, False), policy)
