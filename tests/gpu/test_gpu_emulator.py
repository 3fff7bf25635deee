"""The emulator itself: small kernels with one fault each, which it reports, beside what is right, which it lets pass."""
import json

import numpy as np
import pytest
from emulated import MISSING, POLICIES, LaunchError, run_kernels

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def run(body, policy="up", threads=64, shared="__shared__ float s[64];", blocks=1, dynamic=0, **environment):
    """y of a kernel over x and y of 64 elements for each block, a reversed copy unless the body says otherwise."""
    text = f"""
#include "ingot_tma.h"
extern "C" __global__ void __launch_bounds__({threads}) k(const float *x, float *y)
{{
    {shared}
    const int t = (int)threadIdx.x;
    {body}
}}
"""
    x = np.arange(64 * blocks, dtype=np.float32)
    arrays = {"x": x, "y": np.zeros_like(x)}
    return run_kernels(text, [("k", (blocks,), (threads,), ["x", "y"], dynamic)], arrays, policy, seen=True,
                       **environment)["y"]


def refused(body, *words, **options):
    with pytest.raises(LaunchError) as error:
        run(body, **options)
    for word in words:
        assert word in str(error.value), str(error.value)


REVERSED = np.arange(64, dtype=np.float32)[::-1]
# what is right -> (what is not, words of the report)
FAULTS = {
    "s[t] = x[t]; __syncthreads(); y[t] = s[63 - t];": [
        ("s[t] = x[t]; y[t] = s[63 - t];", "k: race: thread (", "reads s + ", "wrote", "kernels.cu:"),
        ("s[t] = x[t]; __syncwarp(); y[t] = s[63 - t];", "race"),
        ("s[t] = x[t]; if (t < 40) __syncthreads(); y[t] = s[63 - t];", "divergent"),
        ("s[t] = x[t]; if (t < 32) __syncthreads(); else __syncthreads(); y[t] = s[63 - t];", "divergent"),
        ("s[t] = x[t]; __syncthreads(); y[t] = s[64 - t];", "outside: thread (0, 0, 0) reads 4 bytes at s + 256"),
        ("s[t] = x[t]; __syncthreads(); y[t] = s[63 - t - (t == 63)];", "outside", "reads 4 bytes at"),
        ("s[t] = x[t + 1]; __syncthreads(); y[t] = s[63 - t];", "outside: thread (63, 0, 0) reads 4 bytes at x + 256"),
        ("s[t] = x[t]; __syncthreads(); y[t * 2] = s[63 - t];", "outside: thread (63, 0, 0) writes 4 bytes at y + 504"),
        ("if (t) s[t] = x[t]; __syncthreads(); y[t] = s[63 - t];", "uninitialized: thread (63, 0, 0) reads s + 0"),
        ("s[t / 2] = x[t]; __syncthreads(); y[t] = s[31 - t / 2];", "race", "writes s + 0, which thread (0, 0, 0) wrote"),
    ],
    "for (int k = 0; k < 2; ++k) { s[t] = x[t]; __syncthreads(); y[t] = s[63 - t]; __syncthreads(); }": [
        ("for (int k = 0; k < 2; ++k) { s[t] = x[t]; __syncthreads(); y[t] = s[63 - t]; }", "race", "read, and nothing"),
    ],
    "s[t] = x[t]; __syncwarp(); y[63 - t] = s[t / 32 * 32 + 31 - t % 32 ^ 31];": [
        ("s[t] = x[t]; y[63 - t] = s[t / 32 * 32 + 31 - t % 32 ^ 31 - (t == 9)];", "race"),
        ("s[t] = x[t]; __shfl_sync(~0u, t, 0); y[63 - t] = s[t / 32 * 32 + (31 - t % 32 ^ 31) / 2];", "race"),
    ],
    "ingot_cp_async4(s + t, x + t, 4); ingot_cp_async_commit(); ingot_cp_async_wait(0); __syncthreads();"
    "y[t] = s[63 - t];": [
        ("ingot_cp_async4(s + t, x + t, 4); ingot_cp_async_commit(); __syncthreads(); y[t] = s[63 - t];", "race",
         "asynchronous work of thread"),
        ("ingot_cp_async4(s + t, x + t, 4); ingot_cp_async_commit(); ingot_cp_async_wait(1); __syncthreads();"
         "y[t] = s[63 - t];", "race", "asynchronous work of thread"),
        ("ingot_cp_async4(s + t, x + t, 4); ingot_cp_async_commit(); __syncthreads(); ingot_cp_async_wait(0);"
         "y[t] = s[63 - t];", "race"),
        ("ingot_cp_async4(s + t, x + t, 4); ingot_cp_async_commit(); s[t] = 1.0f; ingot_cp_async_wait(0);"
         "__syncthreads(); y[t] = s[63 - t];", "race"),
    ],
}
CASES = [(right, *fault) for right, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize("right", FAULTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_right_passes(right, policy):
    np.testing.assert_array_equal(run(right, policy), REVERSED)


@pytest.mark.parametrize("right, wrong, words", [(right, wrong, words) for right, wrong, *words in CASES])
def test_a_fault_is_reported(right, wrong, words):
    refused(wrong, *words)


def test_blocks_are_not_ordered():
    assert run("y[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];", blocks=2)[127] == 127
    refused("y[blockIdx.x * 63 + t] = x[blockIdx.x * 64 + t];", "race", "a thread of another block wrote", blocks=2)
    refused("x += blockIdx.x * 64; if (blockIdx.x) y[t] = x[t]; else y[64 + t] = y[t];", "race",
            "a thread of another block read", blocks=2)


def test_atomic_functions_are_ordered_among_themselves():
    assert run("atomicAdd(y, x[t]);", blocks=2)[0] == 63 * 64
    refused("if (t == 3) y[0] = 1.0f; else atomicAdd(y, x[t]);", "race")


def test_costs_are_counted(tmp_path):
    run("s[t * 32] = x[t]; __syncthreads(); y[t] = s[(63 - t) * 32];", shared="__shared__ float s[2048];",
        EMU_REPORT=tmp_path / "rows")
    run("s[t * 33] = x[t * 8 % 64]; __syncthreads(); y[t] = s[(63 - t) * 33];", shared="__shared__ float s[2112];",
        EMU_REPORT=tmp_path / "padded")
    for name, worst, moved in (("rows", 32, 4), ("padded", 1, 8)):
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert {line["worst"] for line in lines if line["space"] == "shared"} == {worst}
        load = next(line for line in lines if (line["space"], line["access"]) == ("global", "load"))
        assert (load["kernel"], load["requests"], load["cost"]) == ("k", 2, 2 * moved)
