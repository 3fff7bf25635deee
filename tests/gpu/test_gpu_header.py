"""The device functions of runtime_c/cuda: nvcc compiles each for the architectures that have it, and elsewhere."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ingot
from ingot.codegen.wgmma import wgmma_calls, wgmma_header

RUNTIME = Path(ingot.__file__).parent / "runtime_c"
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
WGMMA = ("ingot_wgmma_m64n8k16_f16_f32", "ingot_wgmma_m64n128k16_bf16_f32", "ingot_wgmma_m64n256k16_f16_f32_ra",
         "ingot_wgmma_m64n64k8_tf32_f32", "ingot_wgmma_m64n96k32_s8_s32")
COPIES = """
    ingot_cp_async4(shared, in, 4);
    ingot_cp_async8(shared + 8, in, 0);
    ingot_cp_async16(shared + 16, in, 16);
    ingot_cp_async_commit();
    ingot_cp_async_wait(1);
    ingot_barrier_arrive(2, 64);
    ingot_barrier_sync(1, 64);
    o[0] = ingot_shfl_xor(~0u, o[1], 1, 32) + ingot_shfl_down(~0u, (int8_t)o[2], 1, 32);
    o[1] = (float)ingot_shfl(~0u, (int64_t)o[3], 3, 32) + (float)ingot_shfl_up(~0u, (double)o[4], 1, 16);
"""
TILES = """
    if (threadIdx.x == 0) {
        ingot_mbarrier_init(bars, 1);
        ingot_mbarrier_init_fence();
        ingot_mbarrier_arrive_expect_tx(bars, 64);
        ingot_tma_prefetch_map(&map);
        ingot_tma_load_2d(shared, &map, bars, 0, 0);
        ingot_mbarrier_arrive(bars + 1);
        ingot_mbarrier_arrive_cp_async(bars + 1);
    }
    ingot_mbarrier_wait_parity(bars, 0);
    ingot_fence_proxy_async();
    ingot_tma_store_2d(&map, shared, 0, 0);
    ingot_tma_store_commit();
    ingot_tma_store_wait_read(0);
"""


def functions(header):
    """[(name, parameters)] of the functions that a header declares for other compilers."""
    text = (RUNTIME / "cuda" / header).read_text().split("#else\n\n")[-1]
    return re.findall(r"^\w+ (ingot_\w+)\((.*)\);", text, re.M)


def tensor_cores():
    calls = ["alignas(8) uint32_t a[4], b[4];"]
    for n, (name, parameters) in enumerate(functions("ingot_mma.h")):
        if "ldmatrix" in name:
            calls.append(f"{name}({'ab'[n % 2]}, shared + threadIdx.x * 16);")
        elif "mma" in name:
            kind = re.search(r"(\w+) \*d", parameters)[1].replace("void", "uint32_t")
            a, b = ("(const double *)a", "(const double *)b") if kind == "double" else "ab"
            calls += ["{", f"    {kind} d[4] = {{0}};", f"    {name}(d, {a}, {b}, d);",
                      "    for (int i = 0; i < 4; ++i) o[i] += (float)d[i];", "}"]
    return "\n    ".join([*calls, "o[5] = ingot_to_tf32(o[6]);"])


def products(names):
    """A kernel for each product, which also says what it does in the passes of nvcc for other devices."""
    kernels = []
    for name in names:
        count, kind = int(re.search(r"n(\d+)k", name)[1]) // 2, "int32_t" if "s32" in name else "float"
        a = "words" if name.endswith("_ra") else "ingot_wgmma_tile(shared, 128)"
        kernels.append(f"""
extern "C" __global__ void __launch_bounds__(128) k_{name}({kind} *o, const uint32_t *in)
{{
#if INGOT_HAS_SM_90A
    INGOT_DYNAMIC_SHARED(shared);
    uint32_t words[4];
    {kind} d[{count}];
    for (int i = 0; i < 4; ++i) words[i] = in[i];
    o[128] = words[0];
    for (int i = 0; i < {count}; ++i) d[i] = 0;
    ingot_wgmma_fence();
    {name}(d, {a}, ingot_wgmma_tile(shared + 8192, 128), 0);
    {name}(d, {a}, ingot_wgmma_tile(shared + 8192, 128) + 2, 1);
    ingot_wgmma_commit();
    ingot_wgmma_wait(0);
    for (int i = 0; i < {count}; ++i) o[i * 128 + threadIdx.x] = d[i];
#endif
}}
""")
    return "".join(kernels)


def kernel(body):
    return f"""
extern "C" __global__ void k(float *o, const float *in, const __grid_constant__ ingot_tensor_map map)
{{
    INGOT_DYNAMIC_SHARED(shared);
    __shared__ uint64_t bars[2];
    (void)map, (void)in, (void)shared;
    o[threadIdx.x] = (float)bars[1];
    {body.strip()}
}}
"""


HEAD = '#include "ingot_mma.h"\n#include "ingot_tma.h"\n'
SOURCES = {"copies": HEAD + kernel(COPIES), "mma": HEAD + kernel(tensor_cores()), "tma": HEAD + kernel(TILES),
           "wgmma": '#include "ingot_wgmma.h"\n' + products(WGMMA)}


def compiled(folder, source, arch):
    """What nvcc says of a file; the cubin is beside it."""
    (folder / "ingot_wgmma.h").write_text(wgmma_header(WGMMA))
    (folder / "k.cu").write_text(source)
    done = subprocess.run(
        [NVCC, f"-arch={arch}", "-cubin", "-Xptxas", "-v,-warn-spills,-warn-lmem-usage", "-Werror", "all-warnings",
         "-I", RUNTIME / "cuda", "-I", RUNTIME, "-o", folder / "k.cubin", folder / "k.cu"],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_nvcc
@pytest.mark.parametrize("name, arch", [("copies", "sm_80"), ("mma", "sm_80"), ("mma", "sm_75"), ("tma", "sm_90a"),
                                        ("tma", "sm_80"), ("wgmma", "sm_90a"), ("wgmma", "sm_80")])
def test_nvcc_compiles_the_functions(tmp_path, name, arch):
    log = compiled(tmp_path, SOURCES[name], arch)
    assert "C75" not in log  # products that wait for one another
    stores = [int(n) for n in re.findall(r"(\d+) bytes spill stores", log)]
    assert stores and not any(stores)


def test_every_function_has_a_body_and_a_declaration():
    for header in ("ingot_cuda.h", "ingot_mma.h", "ingot_tma.h"):
        text = (RUNTIME / "cuda" / header).read_text()
        for name, _ in functions(header):
            assert len(re.findall(rf"\b{name}\(", text)) >= 2, name
        assert functions(header)


@pytest.mark.parametrize("name", ["ingot_wgmma_m64n12k16_f16_f32", "ingot_wgmma_m64n264k16_f16_f32",
                                  "ingot_wgmma_m64n64k8_f16_f32", "ingot_wgmma_m64n40k32_s8_s32", "ingot_wgmma_x"])
def test_products_that_no_device_has_are_refused(name):
    with pytest.raises(ValueError, match="there is no product " + name):
        wgmma_header([name])


def test_the_products_of_a_text_are_found():
    text = "ingot_wgmma_m64n64k8_tf32_f32(d, a, b, 1); ingot_wgmma_m64n8k16_f16_f32_ra(d, w, b, 0); ingot_wgmma_wait(0)"
    assert wgmma_calls(text) == ["ingot_wgmma_m64n8k16_f16_f32_ra", "ingot_wgmma_m64n64k8_tf32_f32"]
