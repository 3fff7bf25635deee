"""Copies of tiles by tensor maps and products of warpgroups in the emulator: their numbers, and faults around them."""
import ml_dtypes
import numpy as np
import pytest
from emulated import MISSING, POLICIES, build_kernels, run_library

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

COPY = """
extern "C" __global__ void __launch_bounds__(64) NAME(const __grid_constant__ ingot_tensor_map from,
    const __grid_constant__ ingot_tensor_map to)
{
    __shared__ __align__(1024) float tile[256];
    __shared__ uint64_t bar[1];
    const int t = (int)threadIdx.x;
    if (t == 0) {
        ingot_mbarrier_init(bar, 1);
        ingot_mbarrier_init_fence();
    }
    __syncthreads();
    if (t == 0) {
        ingot_mbarrier_arrive_expect_tx(bar, 1024);
        ingot_tma_load_2d(tile, &from, bar, 4, 2);
    }
    ingot_mbarrier_wait_parity(bar, 0);
    for (int i = t; i < 256; i += 64) tile[i] += 1.0f;
    ingot_fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        ingot_tma_store_2d(&to, tile, 4, 2);
        ingot_tma_store_commit();
        ingot_tma_store_wait_read(0);
    }
    __syncthreads();
    tile[t] = 0.0f;
}
"""
# Two stages that one thread fills and a warpgroup consumes: y (64 x 32) = a (64 x 256) b (32 x 256) transposed.
RING = """
extern "C" __global__ void __launch_bounds__(160) NAME(const __grid_constant__ ingot_tensor_map a,
    const __grid_constant__ ingot_tensor_map b, float *y)
{
    INGOT_DYNAMIC_SHARED(shared);
    __shared__ uint64_t full[2], empty[2];
    const int t = (int)threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; ++s) {
            ingot_mbarrier_init(full + s, 1);
            ingot_mbarrier_init(empty + s, 4);
        }
        ingot_mbarrier_init_fence();
    }
    __syncthreads();
    if (t >= 128) {
        ingot_setmaxnreg_dec(24);
        for (int k = 0; k < 4 && t == 128; ++k) {
            const int s = k % 2;
            ingot_mbarrier_wait_parity(empty + s, (k / 2 + 1) % 2);
            ingot_mbarrier_arrive_expect_tx(full + s, 12288);
            ingot_tma_load_2d(shared + s * 12288, &a, full + s, k * 64, 0);
            ingot_tma_load_2d(shared + s * 12288 + 8192, &b, full + s, k * 64, 0);
        }
    } else {
        float d[16];
        for (int k = 0; k < 4; ++k) {
            const int s = k % 2;
            ingot_mbarrier_wait_parity(full + s, k / 2);
            ingot_wgmma_fence();
            for (int j = 0; j < 4; ++j)
                ingot_wgmma_m64n32k16_f16_f32(d, ingot_wgmma_tile(shared + s * 12288, 128) + 2 * j,
                                              ingot_wgmma_tile(shared + s * 12288 + 8192, 128) + 2 * j, k + j > 0);
            ingot_wgmma_commit();
            ingot_wgmma_wait(0);
            if (t % 32 == 0) ingot_mbarrier_arrive(empty + s);
        }
        for (int i = 0; i < 16; ++i)
            y[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 32 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
    }
}
"""
# A warpgroup's product of tiles that its threads copy by cp.async: y (64 x 16) = a (64 x 16) b (16 x 16) transposed.
COPIED = """
extern "C" __global__ void __launch_bounds__(128) NAME(const unsigned char *a, const unsigned char *b, float *y)
{
    __shared__ __align__(1024) unsigned char x[2048], w[512];
    const int t = (int)threadIdx.x;
    ingot_cp_async16(x + ((t * 16) ^ (t * 16 >> 7 & 1) << 4), a + t * 16, 16);
    if (t < 32) ingot_cp_async16(w + ((t * 16) ^ (t * 16 >> 7 & 1) << 4), b + t * 16, 16);
    ingot_cp_async_commit();
    ingot_cp_async_wait(0);
    ingot_fence_proxy_async();
    __syncthreads();
    float d[8];
    ingot_wgmma_fence();
    ingot_wgmma_m64n16k16_f16_f32(d, ingot_wgmma_tile(x, 32), ingot_wgmma_tile(w, 32), 0);
    ingot_wgmma_commit();
    ingot_wgmma_wait(0);
    for (int i = 0; i < 8; ++i)
        y[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 16 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}
"""
# name -> (the kernel with this, and that in its place, words of the report)
FAULTS = {
    "copy": (COPY, [
        ("ingot_mbarrier_init_fence();", "", "unfenced"),
        ("}\n    __syncthreads();\n    if (t == 0) {\n        ingot_mbarrier_arrive", "}\n    if (t == 0) {\n"
         "        ingot_mbarrier_arrive", "mbarrier bar + 0"),
        ("ingot_mbarrier_wait_parity(bar, 0);", "", "race", "an asynchronous copy"),
        ("ingot_mbarrier_wait_parity(bar, 0);", "ingot_mbarrier_wait_parity(bar, 1);", "race"),
        ("expect_tx(bar, 1024)", "expect_tx(bar, 512)",
         "deadlock: thread (0, 0, 0) and 63 others for mbarrier bar + 0"),
        ("expect_tx(bar, 1024)", "expect_tx(bar, 2048)", "deadlock"),
        ("ingot_mbarrier_init(bar, 1);", "ingot_mbarrier_init(bar, 2);", "deadlock"),
        ("ingot_tma_load_2d(tile,", "ingot_mbarrier_arrive(bar); ingot_tma_load_2d(tile,", "more threads arrive"),
        ("&from, bar, 4, 2)", "&from, bar, 4, 2); tile[3] = 0.0f", "race"),
        ("    ingot_fence_proxy_async();", "", "unfenced", "tile + "),
        ("    ingot_fence_proxy_async();\n    __syncthreads();", "    ingot_fence_proxy_async();", "race"),
        ("ingot_tma_store_wait_read(0);", "", "race", "which asynchronous work of thread (0, 0, 0) read"),
        ("tile, &from", "tile + 32, &from", "not aligned for its swizzle"),
    ]),
    "ring": (RING, [
        ("ingot_wgmma_wait(0);", "ingot_wgmma_wait(1);", "race"),
        ("ingot_wgmma_commit();", "", "race"),
        ("            ingot_wgmma_fence();\n", "", "without ingot_wgmma_fence()"),
        ("ingot_mbarrier_wait_parity(empty + s, (k / 2 + 1) % 2);", "", "race"),
        ("ingot_mbarrier_wait_parity(full + s, k / 2);", "ingot_mbarrier_wait_parity(full, k / 2);", "race"),
        ("ingot_mbarrier_wait_parity(full + s, k / 2);", "ingot_mbarrier_wait_parity(full + s, 1 - k / 2);", ""),
        ("if (t % 32 == 0) ingot_mbarrier_arrive(empty + s);", "", "deadlock: ",
         "thread (128, 0, 0) for mbarrier empty + 0"),
        ("if (t % 32 == 0) ingot_mbarrier_arrive(empty + s);",
         "if (t == 0) for (int i = 0; i < 4; ++i) ingot_mbarrier_arrive(empty + s);", "race"),
        ("12288 + 8192, &b, full", "12288 + 4096, &b, full", "race"),
    ]),
    "copied": (COPIED, [
        ("    ingot_cp_async_wait(0);\n", "", "asynchronous work of thread"),
        ("    __syncthreads();\n", "", "race"),
        ("    ingot_fence_proxy_async();\n", "", "unfenced", "asynchronous work of thread"),
        ("    ingot_cp_async_wait(0);\n    ingot_fence_proxy_async();",
         "    ingot_fence_proxy_async();\n    ingot_cp_async_wait(0);", "unfenced"),
    ]),
}


def faulty():
    for name, (text, faults) in FAULTS.items():
        for n, (what, instead, *words) in enumerate(faults):
            assert text.count(what) == 1, what
            yield f"{name}_{n}", text.replace(what, instead), words


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    texts = {**{name: text for name, (text, _) in FAULTS.items()}, **{name: text for name, text, _ in faulty()}}
    whole = '#include "ingot_wgmma.h"\n' + "".join(text.replace("NAME", name) for name, text in texts.items())
    return build_kernels(whole, tmp_path_factory.mktemp("tiles") / "k.so", seen=True)


def call(name, swizzle=128):
    """(the call of a kernel, its outputs as they must be)."""
    rng = np.random.default_rng(0)
    if name.startswith("copy"):
        x, y = rng.integers(-9, 9, (9, 24)).astype(np.float32), np.zeros((9, 24), np.float32)
        box = (8, 32) if not swizzle else (1024 // swizzle, swizzle // 4)
        want = y.copy()
        rows, columns = slice(2, min(9, 2 + box[0])), slice(4, min(24, 4 + box[1]))
        want[rows, columns] = x[rows, columns] + 1
        maps = [("map", "x", box, swizzle), ("map", "y", box, swizzle)]
        return ([(name, (1,), (64,), maps, 0)], {"x": x, "y": y}, -1), want
    if name.startswith("copied"):
        a, b = (rng.integers(-3, 4, (rows, 16)).astype(np.float16) for rows in (64, 16))
        y = np.zeros((64, 16), np.float32)
        return ([(name, (1,), (128,), ["a", "b", "y"], 0)], {"a": a, "b": b, "y": y}, -1), (
            a.astype(np.float32) @ b.astype(np.float32).T)
    a, b = (rng.integers(-3, 4, (rows, 256)).astype(np.float16) for rows in (64, 32))
    maps = [("map", "a", (64, 64), 128), ("map", "b", (32, 64), 128), "y"]
    return ([(name, (1,), (160,), maps, 24576)], {"a": a, "b": b, "y": np.zeros((64, 32), np.float32)}, -1), (
        a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_right_passes(library, policy):
    calls, wants = zip(*[call("copy", s) for s in (0, 32, 64, 128)], call("ring"), call("copied"))
    for found, want in zip(run_library(library, calls, policy), wants):
        assert not isinstance(found, str), found
        np.testing.assert_array_equal(found["y"], want)


@pytest.mark.parametrize("policy", ["up", "starving late"])
def test_faults_are_reported(library, policy):
    faults = [*faulty()]
    for (name, text, words), found in zip(faults, run_library(library, [call(name)[0] for name, *_ in faults], policy)):
        assert isinstance(found, str), f"{name} passes\n{text}"
        assert policy != "up" or all(word in found for word in words), f"{name}: {words}\n{found}"


OPERANDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8}
PRODUCT = """
extern "C" __global__ void __launch_bounds__(128) %(name)s(const unsigned char *a, const unsigned char *b, %(sums)s *y)
{
    __shared__ __align__(1024) unsigned char x[%(rows)d * 64], w[%(rows)d * 16];
    const int t = (int)threadIdx.x;
    for (int i = t; i < 64 * %(rows)d; i += 128) x[i ^ (i >> 7 & %(bits)d) << 4] = a[i];
    for (int i = t; i < 16 * %(rows)d; i += 128) w[i ^ (i >> 7 & %(bits)d) << 4] = b[i];
    ingot_fence_proxy_async();
    __syncthreads();
    uint32_t words[4];
    for (int i = 0; i < 4; ++i)
        memcpy(words + i, a + (t / 32 * 16 + t %% 32 / 4 + i %% 2 * 8) * %(rows)d + i / 2 * 16 + t %% 4 * 4, 4);
    %(sums)s d[8];
    for (int i = 0; i < 8; ++i) d[i] = 1;
    ingot_wgmma_fence();
    %(product)s(d, %(first)s, ingot_wgmma_tile(w, %(rows)d), 1);
    ingot_wgmma_commit();
    ingot_wgmma_wait(0);
    for (int i = 0; i < 8; ++i)
        y[(t / 32 * 16 + t %% 32 / 4 + i / 2 %% 2 * 8) * 16 + i / 4 * 8 + t %% 4 * 2 + i %% 2] = d[i];
}
"""


def test_products_of_each_operand(tmp_path):
    texts, calls, wants = ['#include "ingot_wgmma.h"\n'], [], []
    for operand, dtype in OPERANDS.items():
        for row in (32, 64, 128):
            for registers in (False, True):
                terms, sums = 32 // np.dtype(dtype).itemsize, "int32_t" if operand == "s8" else "float"
                name = f"{operand}_{row}_{registers}"
                total = "s32" if operand == "s8" else "f32"
                product = f"ingot_wgmma_m64n16k{terms}_{operand}_{total}{'_ra' * registers}"
                texts.append(PRODUCT % {"name": name, "sums": sums, "rows": row, "bits": row // 16 - 1,
                                        "product": product,
                                        "first": "words" if registers else f"ingot_wgmma_tile(x, {row})"})
                a, b = (np.random.default_rng(k).integers(-3, 4, (k, row // np.dtype(dtype).itemsize)).astype(dtype)
                        for k in (64, 16))
                out = np.zeros((64, 16), np.int32 if operand == "s8" else np.float32)
                calls.append(([(name, (1,), (128,), ["a", "b", "y"], 0)], {
                    "a": a.view(np.uint8), "b": b.view(np.uint8), "y": out}, -1))
                wants.append(1 + a[:, :terms].astype(np.int32) @ b[:, :terms].astype(np.int32).T)
    library = build_kernels("".join(texts), tmp_path / "k.so", seen=True)
    for policy in ("up", "down late"):
        for (launches, *_), found, want in zip(calls, run_library(library, calls, policy), wants):
            assert not isinstance(found, str), found
            np.testing.assert_array_equal(found["y"], want, err_msg=launches[0][0])
