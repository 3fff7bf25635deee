"""Random GPU schedules as CUDA C, under the emulator: barriers and shuffles do in C what they do in Python."""
import random
import re
from math import prod

import emulated
import numpy as np
import pytest
from gpu_programs import tiled_product
from test_gpu_random_schedules import PROGRAMS, random_schedule
from test_gpu_reduction import FIRST, by_threads, rows, softmax_steps, softmax_te
from test_gpu_shared import chain, in_shared
from test_gpu_virtual_threads import striped_product
from tir_cases import SYMBOLIC, arguments, results, scheduled, value_of

from ingot.codegen.cuda import print_cuda
from ingot.ir import te
from ingot.ir.node import collect
from ingot.ir.tir.stmt import For
from ingot.ir.transform.gpu.barriers import BarrierError
from ingot.ir.transform.gpu.launch import LaunchError, device_kernels
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for

pytestmark = pytest.mark.skipif(emulated.MISSING is not None, reason=str(emulated.MISSING))


def by_hand():
    """(name, function, the same scheduled)"""
    for threads in (16, 20, 33, 64, 100, 256):
        for name, reducer in (("sum", te.sum), ("first", FIRST)):
            func = rows(reducer, 3, 70)
            yield f"{name}_{threads}", func, scheduled(func, by_threads(threads))
    for threads, per_block in ((8, 4), (64, 3), (12, 5)):
        func = rows(te.sum, 7, 50, "float64")
        yield f"rows_{threads}", func, scheduled(func, by_threads(threads, per_block))
    for scope in ("shared", "local"):
        for threads in (32, 64, 20):
            func = softmax_te(8, 75)
            yield f"softmax_{scope}_{threads}", func, scheduled(func, softmax_steps(threads, scope))
    yield "pool", chain(5000, 5, 2), scheduled(chain(5000, 5, 2), in_shared(5, 128))
    yield "tiles", *tiled_product(13, 9, 10, 8, 4)
    yield "stripes", *striped_product(19, 18, 7)


def at_random(seeds=3):
    for name, make in PROGRAMS.items():
        for seed in range(seeds):
            func = make()
            made = random_schedule(func, random.Random(seed)).func
            if any(x.kind == "thread_binding" for x in collect(made.body, For)):
                yield f"{name}_{seed}", func, made


class _Batch:
    """Kernels of many functions in one text, with what they are launched on and what they must give."""

    def __init__(self, cases):
        self.text, self.launches, self.arrays, self.expected = ['#include "ingot_math.h"', '#include "ingot_cuda.h"'], \
            [], {}, {}
        for name, func, made in cases:
            try:
                self._add(name, func, lower_prim_func(made, pipeline_for("cuda")))
            except (BarrierError, LaunchError) as error:
                assert re.search("scope [\"']", str(error))

    def _add(self, name, func, done):
        inputs, kernels = arguments(func), device_kernels(done)
        if any(prod(map(value_of, kernel.block)) > 1024 for kernel in kernels):
            return  # more threads than a block may have
        names = {}
        tensors, expected = iter([x for x in inputs if isinstance(x, np.ndarray)]), iter(results(func, inputs))
        for p in done.params:
            if p not in done.buffer_map:
                names[p] = np.dtype(p.dtype.numpy).type(SYMBOLIC)
                continue
            key = names[p] = f"{name}.{p.name}"
            array = next(tensors, None)
            b = done.buffer_map[p]
            self.arrays[key] = np.zeros(value_of(b.shape[0]), b.dtype.numpy) if array is None else array
            if array is not None:
                self.expected[key] = next(expected)
        for n, kernel in enumerate(kernels):
            printed = print_cuda(kernel.func, f"{name}_{n}")
            self.text.append(f"{printed.signature}\n{printed.body}")
            self.launches.append((f"{name}_{n}", *([value_of(e) for e in dims] for dims in (kernel.grid, kernel.block)),
                                  [names[p] for p in kernel.func.params], value_of(kernel.shared)))

    def check(self, policy, seen=True):
        found = emulated.run_kernels("\n".join(self.text), self.launches, self.arrays, policy, seen)
        for key, value in self.expected.items():
            np.testing.assert_allclose(found[key].reshape(value.shape), value, rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.fixture(scope="module")
def batch():
    return _Batch([*by_hand(), *at_random()])


@pytest.mark.parametrize("policy", ["up", "down", "shuffled"])
def test_kernels_as_cuda_c(batch, policy):
    batch.check(policy)


def test_without_barriers_they_go_wrong(batch):
    whole, batch.text = batch.text, [t.replace("__syncthreads();", "") for t in batch.text]
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        batch.check("down", seen=False)
    batch.text = whole
