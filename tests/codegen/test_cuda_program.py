"""Programs of launches as C99 that calls the CUDA runtime, in folders that nvcc builds."""
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hand_made import arena, model, number, operand, program, seq, tensor

from ingot.codegen.c_expr import EmitError
from ingot.codegen.c_function import CFunction
from ingot.codegen.kernels import Kernel
from ingot.codegen.nvcc import find_nvcc
from ingot.codegen.program import Weight
from ingot.codegen.target import Target
from ingot.codegen.toolchain import build_shared
from ingot.codegen.tree import Call, Copy, Launch, Let, Read
from ingot.ir.expr import Var
from ingot.ir.target import TargetKind
from c_build import STRICT

N = Var("n", "int64")
BLOCK = 64
BODY = f"""{{
    const int64_t i = (int64_t)blockIdx.x * {BLOCK} + threadIdx.x;
    if (i < n) out[i] = a[i] {{}} b[i];
}}
"""


def kernel(name, op):
    signature = (f'extern "C" __global__ void __launch_bounds__({BLOCK}) {name}(const float *__restrict__ a, '
                 "const float *__restrict__ b,\n        float *__restrict__ out, int64_t n)")
    return Kernel(CFunction(name, signature, BODY.replace("{}", op), frozenset()),
                  f"/* a {op} b */")


def launch(name, a, b, out, extent, **fields):
    return Launch(name, ((extent + (BLOCK - 1)) // BLOCK,), (number(BLOCK),), fields.pop("shared", number(0)),
                  (a, b, out), "global", dims=(extent,), reads=2, comment=name, **fields)


def on_device(made, **options):
    """A CompiledModel of such a program with kernels of a + b and a * b."""
    fields = {name: options.pop(name) for name in ("weights",) if name in options}
    compiled = model(4, made, **fields)
    kernels = {c: kernel(c, {"add": "+", "multiply": "*"}[n]) for n, c in compiled.kernel_of.items()}
    return replace(compiled, kernels=kernels, test_dims=(300,) * len(made.dims),
                   target=replace(Target.get("c"), name="cuda-sm_80", kind=TargetKind("cuda")), **options)


def symbolic():
    """y = (x + x) * x, of n elements."""
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    made = program(seq(launch("add", x, x, arena(0), N), launch("multiply", arena(0), x, y, N)),
                   [tensor("x", "float32", N)], [tensor("y", "float32", N)], [(N * 4, "float32")], dims=(N,))
    return replace(on_device(made), test_inputs=(np.ones(300, np.float32),))


def with_weights(**options):
    """y = (x + w) * w; init copies w once more, whose copy a run adds."""
    size, x, y = number(100), operand("input", 0, "x"), operand("output", 0, "y")
    w = operand("weight", 0, "w")
    made = program(seq(launch("add", x, arena(1), arena(0), size), Copy(arena(0), arena(2), number(400)),
                       launch("multiply", arena(2), w, y, size)),
                   [tensor("x", "float32", 100)], [tensor("y", "float32", 100)], [(400, "float32")] * 3,
                   init=seq(Copy(w, arena(1), number(400))) if options.get("weights") != "file" else
                   seq(Copy(arena(2), arena(1), number(400))),
                   weights=[Weight("w", np.arange(100, dtype=np.float32), 0)])
    return on_device(made, **options)


def strict_c(folder, *flags):
    """Compile the C files of a folder, with the headers of CUDA."""
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc, whose headers the host code includes")
    for compiler in ("gcc", "clang"):
        for source in folder.glob("*.c") if shutil.which(compiler) else ():
            done = subprocess.run([compiler, *STRICT, *flags, "-isystem", nvcc.include, "-c", source.name, "-o", "x.o"],
                                  cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    return nvcc


@pytest.mark.parametrize("made", [symbolic, with_weights, lambda: with_weights(weights="file"),
                                  lambda: with_weights(weights="array")], ids=["symbolic", "incbin", "file", "array"])
def test_c_of_the_host_compiles_strictly_and_nvcc_builds_all(tmp_path, made):
    made().write(tmp_path / "tree")
    nvcc = strict_c(tmp_path / "tree")
    if made is symbolic:
        strict_c(tmp_path / "tree", "-DINGOT_PROFILE")
    subprocess.run(["make", f"NVCC={nvcc.path} -Werror all-warnings"], cwd=tmp_path / "tree", check=True,
                   capture_output=True)
    done = subprocess.run(["./selftest"], cwd=tmp_path / "tree", capture_output=True, text=True)
    if done.returncode:  # there is no device, which the first call says
        assert "no CUDA-capable device" in done.stderr or "driver version is insufficient" in done.stderr


def test_a_run_launches_kernels_and_copies_on_the_stream():
    files = with_weights().files()
    text = files["tree.c"]
    assert ("    INGOT_MARK(net, 0); /* add */\n"
            "    TRY(net, tree_add_launch(ingot_dim3(2, 1, 1), ingot_dim3(64, 1, 1), 0, stream, x, TENSOR(b1), "
            "TENSOR(b0),\n        100));") in text
    assert "TRY(net, cudaMemcpyAsync(TENSOR(b2), TENSOR(b0), 400, cudaMemcpyDeviceToDevice, stream));" in text
    assert "#define TREE_ARENA_BYTES 1856u" in files["tree.h"]  # 512 for weights, three tensors of 448
    text = symbolic().files()["tree.c"]
    assert "ingot_dim3((n + 63) / 64, 1, 1)" in text


def test_what_no_launch_does_is_refused():
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    calls = program(seq(Call("add", (x, x, y), reads=2)), [tensor("x", "float32", 4)], [tensor("y", "float32", 4)])
    with pytest.raises(EmitError, match="kernel add has no launch: its loops are not bound to threads"):
        on_device(calls).files()
    with pytest.raises(ValueError, match="one file holds C alone, and cuda-sm_80 has kernels beside it"):
        symbolic().files(single_file=True)


def test_a_run_waits_for_what_it_reads(tmp_path):
    x, y, n = operand("input", 0, "x"), operand("output", 0, "y"), Var("found", "int64")
    reads = program(seq(Let(n, Read(operand("input", 1, "steps")), number(4)), Copy(x, y, n * 4)),
                    [tensor("x", "float32", 4), tensor("steps", "int32", 1)], [tensor("y", "float32", 4)])
    made = on_device(reads)
    text = made.files()["tree.c"]
    assert "cudaMemcpyAsync(&ingot_fetched, steps, sizeof ingot_fetched, cudaMemcpyDeviceToHost, stream)" in text
    assert text.index("cudaStreamSynchronize(stream)") < text.index("found = (int64_t)ingot_fetched;")
    assert "if (found < 0 || found > 4) return INGOT_ERR_DIM;" in text
    assert "no graph can capture it" in made.files()["tree.h"] and "Graph" not in made.files()["tree_selftest.c"]
    made.write(tmp_path / "tree")
    strict_c(tmp_path / "tree")


def test_much_shared_memory_is_asked_for_when_kernels_are_loaded():
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    made = program(seq(launch("add", x, x, y, number(4), shared=number(65536))), [tensor("x", "float32", 4)],
                   [tensor("y", "float32", 4)])
    text = on_device(made).files()[f"{made.name}_kernels_0.cu"]
    assert text.count("cudaFuncAttributeMaxDynamicSharedMemorySize") == 1 and "65536" in text


ERRORS = """
#include <stdio.h>
#include "tree.h"
int main(void)
{
    INGOT_ALIGNED(256) static unsigned char arena[TREE_ARENA_BYTES + 256], host[TREE_HOST_BYTES + 256];
    static float x[TREE_X_SIZE], y[TREE_Y_SIZE];
    tree *net = NULL;
    const int found[] = {
        tree_init(NULL, host, sizeof host, arena, sizeof arena, NULL),
        tree_init(&net, NULL, sizeof host, arena, sizeof arena, NULL),
        tree_init(&net, host, TREE_HOST_BYTES - 1, arena, sizeof arena, NULL),
        tree_init(&net, host + 8, TREE_HOST_BYTES, arena, sizeof arena, NULL),
        tree_init(&net, host, sizeof host, NULL, sizeof arena, NULL),
        tree_init(&net, host, sizeof host, arena, TREE_ARENA_BYTES - 1, NULL),
        tree_init(&net, host, sizeof host, arena + 64, TREE_ARENA_BYTES, NULL),
        tree_init_(&net, host, sizeof host, arena, sizeof arena, NULL, INGOT_ABI + 1, sizeof(ingot_model_info)),
        net != NULL,
        tree_init(&net, host, sizeof host, arena, sizeof arena, NULL),
        tree_device_error(net), tree_device_error(NULL),
        tree_run(NULL, x, y, NULL), tree_run(net, NULL, y, NULL), tree_run(net, x, y, NULL)};
    for (size_t i = 0; i < sizeof found / sizeof *found; ++i) printf("%d ", found[i]);
    return 0;
}
"""
REFUSED = [-1, -1, -2, -3, -1, -2, -3, -4, 0]  # before CUDA is called


def test_init_refuses_what_does_not_fit_and_keeps_cudas_own_code(tmp_path):
    with_weights().write(tmp_path / "tree")
    (tmp_path / "tree" / "errors.c").write_text(ERRORS)
    nvcc = strict_c(tmp_path / "tree")
    library = build_shared(tmp_path / "tree", tmp_path / "tree.so", on_device(symbolic().program).target)
    done = subprocess.run(["gcc", "errors.c", str(library), "-o", "errors"], cwd=tmp_path / "tree", capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    found = [*map(int, subprocess.run(["./errors"], cwd=tmp_path / "tree", check=True, capture_output=True,
                                      text=True).stdout.split())]
    assert nvcc and found[:9] == REFUSED
    assert found[11:14] == [0, -1, -1]
    if found[9]:  # INGOT_ERR_DEVICE: cudaErrorInsufficientDriver without a driver, or cudaErrorNoDevice; no run then
        assert found[9] == -12 and found[10] in (35, 100) and found[14] == -8


def test_cmake_builds_the_folder(tmp_path):
    if shutil.which("cmake") is None or find_nvcc() is None:
        pytest.skip("cmake or nvcc is missing")
    symbolic().write(tmp_path / "tree")
    for command in (["cmake", "-S", "tree", "-B", "build", f"-DCMAKE_CUDA_COMPILER={find_nvcc().root}/bin/nvcc"],
                    ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "build" / "tree_selftest").exists()
