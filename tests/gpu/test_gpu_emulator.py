"""The emulator itself: small kernels with one fault each, which it reports, and what is right, which it lets pass."""
import json

import numpy as np
import pytest
from emulated import MISSING, POLICIES, build_kernels, run_library

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

# The body of a kernel over x and y -> bodies with a fault, each with words of the report. Right is to reverse x.
REVERSED = {
    "s[t] = x[t]; __syncthreads(); y[t] = s[63 - t];": [
        ("s[t] = x[t]; y[t] = s[63 - t];", ", block (0, 0, 0): race: thread (", "reads s + ", "wrote", "kernels.cu:"),
        ("s[t] = x[t]; __syncwarp(); y[t] = s[63 - t];", "race"),
        ("s[t] = x[t]; if (t < 40) __syncthreads(); y[t] = s[63 - t];", "divergent"),
        ("s[t] = x[t]; if (t < 32) __syncthreads(); else __syncthreads(); y[t] = s[63 - t];", "divergent"),
        ("s[t] = x[t]; __syncthreads(); y[t] = s[64 - t];", "outside: thread (0, 0, 0) reads 4 bytes at s + 256"),
        ("s[t] = x[t]; __syncthreads(); y[t] = s[63 - t - (t == 63)];", "outside", "reads 4 bytes at"),
        ("s[t] = x[t + 1]; __syncthreads(); y[t] = s[63 - t];", "outside: thread (63, 0, 0) reads 4 bytes at x + 256"),
        ("s[t] = x[t]; __syncthreads(); y[t * 2] = s[63 - t];", "outside: thread (63, 0, 0) writes 4 bytes at y + 504"),
        ("if (t) s[t] = x[t]; __syncthreads(); y[t] = s[63 - t];", "uninitialized: thread (63, 0, 0) reads s + 0"),
        ("s[t / 2] = x[t]; __syncthreads(); y[t] = s[31 - t / 2];", "race",
         "writes s + 0, which thread (0, 0, 0) wrote"),
    ],
    "for (int k = 0; k < 2; ++k) { s[t] = x[t]; __syncthreads(); y[t] = s[63 - t]; __syncthreads(); }": [
        ("for (int k = 0; k < 2; ++k) { s[t] = x[t]; __syncthreads(); y[t] = s[63 - t]; }", "race",
         "read, and nothing"),
    ],
    "s[t] = x[t]; __syncwarp(); y[63 - t] = s[t ^ 1 ^ 1]; __syncwarp();": [
        ("s[t] = x[t]; y[63 - t] = s[t ^ 1];", "race"),
        ("s[t] = x[t]; __shfl_sync(~0u, t, 0); y[63 - t] = s[t ^ 1];", "race"),   # shuffles do not order memory
        ("s[t] = x[t]; __syncwarp(); y[63 - t] = s[t ^ 32];", "race"),
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
        ("ingot_cp_async4(s + t, x + t + 1, 4); ingot_cp_async_commit(); ingot_cp_async_wait(0); __syncthreads();"
         "y[t] = s[63 - t];", "outside: thread (63, 0, 0) reads 4 bytes at x + 256"),
    ],
    # Copies that arrive at a barrier.
    "if (t == 0) ingot_mbarrier_init(bar, 64); __syncthreads();"
    "ingot_cp_async4(s + t, x + t, 4); ingot_mbarrier_arrive_cp_async(bar); ingot_mbarrier_wait_parity(bar, 0);"
    "y[t] = s[63 - t];": [
        ("if (t == 0) ingot_mbarrier_init(bar, 64); __syncthreads();"
         "ingot_cp_async4(s + t, x + t, 4); ingot_mbarrier_arrive_cp_async(bar); ingot_mbarrier_wait_parity(bar, 1);"
         "y[t] = s[63 - t];", "race"),
        ("if (t == 0) ingot_mbarrier_init(bar, 64); __syncthreads();"
         "ingot_cp_async4(s + t, x + t, 4); ingot_mbarrier_arrive(bar); ingot_mbarrier_wait_parity(bar, 0);"
         "y[t] = s[63 - t];", "race"),
    ],
    "if (t == 0) ingot_mbarrier_init(bar, 64); __syncthreads();"
    "s[t] = x[t]; ingot_mbarrier_arrive(bar); while (!ingot_mbarrier_try_wait_parity(bar, 0)) {} y[t] = s[63 - t];": [
        ("if (t == 0) ingot_mbarrier_init(bar, 64);"
         "s[t] = x[t]; ingot_mbarrier_arrive(bar); ingot_mbarrier_wait_parity(bar, 0); y[t] = s[63 - t];", "race"),
        ("if (t == 0) ingot_mbarrier_init(bar, 32); __syncthreads();"
         "s[t] = x[t]; ingot_mbarrier_arrive(bar); ingot_mbarrier_wait_parity(bar, 0); y[t] = s[63 - t];", "race"),
        ("if (t == 0) ingot_mbarrier_init(bar, 65); __syncthreads();"
         "s[t] = x[t]; ingot_mbarrier_arrive(bar); ingot_mbarrier_wait_parity(bar, 0); y[t] = s[63 - t];",
         "deadlock: thread (0, 0, 0) and 63 others for mbarrier bar + 0"),
        ("if (t == 0) ingot_mbarrier_init(bar, 65); __syncthreads();"
         "s[t] = x[t]; ingot_mbarrier_arrive(bar); while (!ingot_mbarrier_try_wait_parity(bar, 0)) {}", "deadlock"),
        ("s[t] = x[t]; ingot_mbarrier_arrive(bar); y[t] = s[t];", "mbarrier bar + 0 was not initialized"),
    ],
    "s[t] = x[t]; ingot_barrier_sync(1, 64); y[t] = s[63 - t];": [
        ("s[t] = x[t]; ingot_barrier_sync(1 + t / 32, 32); y[t] = s[63 - t];", "race"),
        ("s[t] = x[t]; ingot_barrier_sync(1, 96); y[t] = s[63 - t];", "deadlock"),
        ("s[t] = x[t]; if (t < 32) ingot_barrier_arrive(1, 64); else ingot_barrier_sync(1, 64); y[t] = s[63 - t];",
         "race"),
    ],
}
KERNEL = """
extern "C" __global__ void __launch_bounds__(64) %s(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t bar[1];
    const int t = (int)threadIdx.x;
    %s
}
"""
# Two blocks of 64 threads, of which each writes y -> y of both, or words of the report.
BLOCKS = {
    "y[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];": np.arange(128),
    "y[t] = x[t]; if (y[t] > 70.0f) y[t] = 2.0f;": np.where(np.arange(128) < 64, np.arange(128), 0),  # the same twice
    "atomicAdd(y, x[t]);": np.where(np.arange(128) == 0, 63 * 64, 0),
    "y[blockIdx.x * 63 + t] = x[blockIdx.x * 64 + t] + 1.0f;": "which a thread of another block wrote",
    "x += blockIdx.x * 64; if (blockIdx.x) y[t] = x[t]; else y[64 + t] = y[t];": "which a thread of another block read",
    "y[t] = 0.0f; y[t] += x[t] + 1.0f;": "which a thread of another block wrote",
    "if (t == 3) y[0] = 1.0f; else atomicAdd(y, x[t]);": "race",
    "if (t == 0 && blockIdx.x == 0) y[0] = 0.0f; if (blockIdx.x == 0) atomicAdd(y, x[t]);":
        "which thread (0, 0, 0) wrote",
    "atomicAdd(y, x[t]); y[t + 64 * blockIdx.x] = 1.0f;": "race",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """(all kernels in one library, {body: name of its kernel})."""
    bodies = [*REVERSED, *(fault[0] for faults in REVERSED.values() for fault in faults), *BLOCKS]
    names = {body: f"k{n}" for n, body in enumerate(bodies)}
    text = '#include "ingot_tma.h"\n' + "".join(KERNEL % (name, body) for body, name in names.items())
    return build_kernels(text, tmp_path_factory.mktemp("emulator") / "k.so", seen=True), names


def outcomes(library, bodies, policy="up", blocks=1, **environment):
    """{body: y, or why the launch failed}."""
    made, names = library
    x = np.arange(64 * blocks, dtype=np.float32)
    calls = [([(names[body], (blocks,), (64,), ["x", "y"], 0)], {"x": x, "y": np.zeros_like(x)}, -1) for body in bodies]
    return {body: found if isinstance(found, str) else found["y"] for body, found in zip(
        bodies, run_library(made, calls, policy, **environment))}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_right_passes(library, policy):
    for body, found in outcomes(library, [*REVERSED], policy).items():
        assert not isinstance(found, str), f"{body}\n{found}"
        np.testing.assert_array_equal(found, np.arange(64)[::-1], err_msg=body)


@pytest.mark.parametrize("policy", ["up", "starving down late"])
def test_faults_are_reported(library, policy):
    faults = {body: words for faults in REVERSED.values() for body, *words in faults}
    for body, found in outcomes(library, [*faults], policy).items():
        words = faults[body] if policy == "up" else faults[body][:1]
        assert isinstance(found, str) and all(word.partition(":")[0] in found if policy != "up" else word in found
                                              for word in words), f"{body}\n{found}"


def test_blocks_are_not_ordered(library):
    for body, found in outcomes(library, [*BLOCKS], blocks=2).items():
        if isinstance(BLOCKS[body], str):
            assert isinstance(found, str) and BLOCKS[body] in found, f"{body}\n{found}"
        else:
            np.testing.assert_array_equal(found, BLOCKS[body], err_msg=body)


def test_costs_are_counted(tmp_path):
    bodies = {"rows": ("s[t * 32] = x[t]; __syncthreads(); y[t] = s[(63 - t) * 32];", 32, 4),
              "padded": ("s[t * 33] = x[t * 8 % 64]; __syncthreads(); y[t] = s[(63 - t) * 33];", 1, 8)}
    text = "".join(KERNEL.replace("s[64]", "s[2112]") % (name, body) for name, (body, *_) in bodies.items())
    made = build_kernels('#include "ingot_tma.h"\n' + text, tmp_path / "k.so", seen=True)
    x = np.zeros(64, np.float32)
    run_library(made, [([(name, (1,), (64,), ["x", "y"], 0)], {"x": x, "y": x}, -1) for name in bodies],
                EMU_REPORT=tmp_path / "report")
    lines = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [line["threads"] for line in lines if "launches" in line] == [64, 64]
    lines = [line for line in lines if "space" in line]
    for name, (_, worst, moved) in bodies.items():
        assert {line["worst"] for line in lines if (line["kernel"], line["space"]) == (name, "shared")} == {worst}
        assert [(line["requests"], line["cost"]) for line in lines if line["kernel"] == name and (
            line["space"], line["access"]) == ("global", "load")] == [(2, 2 * moved)]
