"""OpenCL: kernels in its dialect, programs of launches as C99 over the ICD loader, run by pocl; oclgrind looks for
races."""
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from ingot.codegen.c_expr import EmitError
from ingot.codegen.c_function import CFunction
from ingot.codegen.kernels import Kernel
from ingot.codegen.opencl import OpenCLPrinter
from ingot.codegen.program import Weight
from ingot.codegen.target import Target
from ingot.codegen.tree import Copy
from ingot.ir import tir
from ingot.ir.expr import Broadcast, Call, Cast, Max, Ramp, StringImm, Var, const
from ingot.ir.target import TargetKind
from ingot.ir.tir.stmt import BufferLoad, BufferStore, DeclBuffer, Evaluate, For

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "codegen"), str(TESTS)]
from c_build import STRICT  # noqa: E402
from hand_made import arena, model, number, operand, program, seq, tensor  # noqa: E402
from test_cuda_program import launch  # noqa: E402
from tir_cases import loop  # noqa: E402

N = Var("n", "int64")
LOADER = "#include <CL/cl.h>\nint main(void) { cl_uint n; return clGetPlatformIDs(0, 0, &n) != 0 || n == 0; }\n"


@lru_cache(maxsize=None)
def missing():
    """What a run by OpenCL lacks here, None for nothing."""
    if shutil.which("cc") is None:
        return "no C compiler"
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe")
        command = ["cc", "-DCL_TARGET_OPENCL_VERSION=200", "-x", "c", "-", "-lOpenCL", "-o", probe]
        if subprocess.run(command, input=LOADER, text=True, capture_output=True).returncode:
            return "no OpenCL headers and ICD loader (ocl-icd-opencl-dev)"
        return "no OpenCL device (pocl-opencl-icd)" if subprocess.run([probe], capture_output=True).returncode else None


@pytest.fixture
def device():
    if missing():
        pytest.skip(missing())


# ---------------------------------------------------------------- the dialect

def printed(func, name="k"):
    return OpenCLPrinter(func, name).function()


X, Y = (tir.decl_buffer((64,), name=n) for n in "xy")


def with_local_memory():
    """y[i] = max(0, exp(x[i])) + the neighbour's, over groups of 16."""
    b, t = Var("b"), Var("t")
    tile = tir.decl_buffer((16,), name="local", scope="shared")
    total = tir.decl_buffer((1,), name="total", scope="local")
    at = b * 16 + t
    body = tir.seq(
        BufferStore(tile, Max(const(0.0), Call("float32", "tir.exp", (X[at],))), (t,)),
        Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("shared"),))),
        BufferStore(total, const(0.0), (const(0),)),
        loop("i", 2, lambda i: BufferStore(total, total[0] + tile[(t + i) % 16], (const(0),)), "unrolled"),
        BufferStore(Y, total[0], (at,)))
    inner = For(t, const(0), const(16), "thread_binding", DeclBuffer(tile, DeclBuffer(total, body)), "threadIdx.x")
    func = tir.prim_func([X, Y], For(b, const(0), const(4), "thread_binding", inner, "blockIdx.x"))
    return func.replace(body=func.root.body)


TEXT = """__kernel void k(__global const float *restrict x, __global float *restrict y)
{
    __local __attribute__((aligned(16))) float local_1[16];
    const int bx = (int)get_group_id(0);
    const int tx = (int)get_local_id(0);
    float total;
    local_1[tx] = ingot_max_f32(0.0f, ingot_expf(x[bx * 16 + tx]));
    barrier(CLK_LOCAL_MEM_FENCE);
    total = 0.0f;
    #pragma unroll 2
    for (int i = 0; i < 2; ++i) {
        total += local_1[ingot_floormod_i32(tx + i, 16)];
    }
    y[bx * 16 + tx] = total;
}
"""


def test_a_kernel_in_opencl_c():
    made = printed(with_local_memory())
    assert made.signature + "\n" + made.body == TEXT
    assert made.uses == {"ingot_math.h"}


def test_vectors_have_operators():
    t = Var("t")
    ramp = Ramp(t * 4, const(1), 4)
    value = (BufferLoad(X, (ramp,)) + Broadcast(const(2.0), 4)) * BufferLoad(X, (ramp,))
    body = For(t, const(0), const(16), "thread_binding", BufferStore(Y, value, (ramp,)), "threadIdx.x")
    func = tir.prim_func([X, Y], body)
    assert "vstore4((vload4(0, &x[tx * 4]) + (float4)(2.0f)) * vload4(0, &x[tx * 4]), 0, &y[tx * 4]);" in printed(
        func.replace(body=func.root.body)).body


@pytest.mark.parametrize("index, text", [(Ramp(const(0), const(2), 4), "strided or partial"),
                                         (Ramp(const(0), const(1), 3), "no vector of float32x3")])
def test_vectors_that_it_lacks_are_refused(index, text):
    value = Broadcast(const(1.0), index.lanes)
    func = tir.prim_func([X, Y], BufferStore(Y, value, (index,)))
    with pytest.raises((EmitError, ValueError), match=text):
        printed(func.replace(body=func.root.body))


def test_names_and_numbers():
    z = tir.decl_buffer((64,), "int64", name="kernel")
    func = tir.prim_func([X, z], BufferStore(z, Cast("int64", X[0]) + const(1 << 40, "int64"), (const(0),)))
    text = printed(func.replace(body=func.root.body))
    assert "__global long *restrict kernel_1" in text.signature
    assert "ingot_add_i64(ingot_f32_to_i64(x[0]), 1099511627776L)" in text.body


# ---------------------------------------------------------------- folders

def kernel(name, op):
    signature = (f"__kernel void {name}(__global const float *restrict a, __global const float *restrict b,\n"
                 "        __global float *restrict out, long n)")
    body = f"{{\n    const long i = get_global_id(0);\n    if (i < n) out[i] = a[i] {op} b[i];\n}}\n"
    return Kernel(CFunction(name, signature, body, frozenset()), f"/* a {op} b */")


def on_device(made, kernels=None, **options):
    compiled = model(4, made, **{name: options.pop(name) for name in ("weights",) if name in options})
    found = kernels or {c: kernel(c, {"add": "+", "multiply": "*"}[n]) for n, c in compiled.kernel_of.items()}
    return replace(compiled, kernels=found, test_dims=(300,) * len(made.dims),
                   target=replace(Target.get("c"), name="opencl", kind=TargetKind("opencl")), **options)


def symbolic():
    """y = (x + x) * x, of n elements."""
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    made = program(seq(launch("add", x, x, arena(0), N), launch("multiply", arena(0), x, y, N)),
                   [tensor("x", "float32", N)], [tensor("y", "float32", N)], [(N * 4, "float32")], dims=(N,))
    values = np.linspace(-2, 2, 300, dtype=np.float32)
    return replace(on_device(made), test_inputs=(values,), test_outputs=((values + values) * values,))


def with_weights(**options):
    """y = (x + w) * w."""
    size, x, y = number(100), operand("input", 0, "x"), operand("output", 0, "y")
    w, data = operand("weight", 0, "w"), np.arange(100, dtype=np.float32)
    made = program(seq(launch("add", x, w, arena(0), size), Copy(arena(0), arena(1), number(400)),
                       launch("multiply", arena(1), w, y, size)),
                   [tensor("x", "float32", 100)], [tensor("y", "float32", 100)], [(400, "float32")] * 2,
                   weights=[Weight("w", data, 0)])
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    return replace(on_device(made, **options), test_inputs=(values,), test_outputs=((values + data) * data,))


def of_local_memory():
    """The kernel of the dialect's test as a network."""
    x, y = operand("input", 0, "x"), operand("output", 0, "y")
    step = replace(launch("add", x, x, y, number(64)), grid=(number(4),), block=(number(16),), operands=(x, y), dims=(),
                   reads=1)
    made = program(seq(step), [tensor("x", "float32", 64)], [tensor("y", "float32", 64)])
    values = np.linspace(-3, 3, 64, dtype=np.float32)
    e = np.exp(values).reshape(4, 16)
    compiled = on_device(made)
    name = compiled.kernel_of["add"]
    kernels = {**compiled.kernels, name: Kernel(printed(with_local_memory(), name), "/* neighbours */")}
    return replace(compiled, kernels=kernels, test_inputs=(values,),
                   test_outputs=((e + np.roll(e, -1, 1)).reshape(64),))


NETWORKS = {"symbolic": symbolic, "incbin": with_weights, "file": lambda: with_weights(weights="file"),
            "array": lambda: with_weights(weights="array"), "local": of_local_memory}


@pytest.mark.parametrize("name", NETWORKS)
def test_pocl_runs_the_folder(device, tmp_path, name):
    folder = tmp_path / "tree"
    NETWORKS[name]().write(folder)
    done = subprocess.run(["make", "-s", "check", "LOG=1", f"CFLAGS=-O1 {' '.join(STRICT[1:])} -Wno-pedantic"],
                          cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr


def test_the_example_runs(device, tmp_path):
    with_weights().write(tmp_path / "tree")
    subprocess.run(["make", "-s", "example"], cwd=tmp_path / "tree", check=True)
    done = subprocess.run(["./example"], cwd=tmp_path / "tree", capture_output=True, text=True)
    assert done.returncode == 0 and "y: 0" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_of_the_host_compiles_strictly(device, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    symbolic().write(tmp_path / "tree")
    for source in (tmp_path / "tree").glob("*.c"):
        done = subprocess.run([compiler, *STRICT, "-DINGOT_OPENCL_LOG", "-c", source.name, "-o", "x.o"],
                              cwd=tmp_path / "tree", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def simulated(folder, function, source, buffers, group, groups):
    """What oclgrind says of a run of a kernel on arrays of floats."""
    lines = [source, function, f"{group * groups} 1 1", f"{group} 1 1"]
    for values in buffers:
        lines += [f"<size={values.nbytes} float>", " ".join(f"{v:g}" for v in values.ravel())]
    (folder / "k.sim").write_text("\n".join(lines) + "\n")
    done = subprocess.run(["oclgrind-kernel", "--data-races", "k.sim"], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("oclgrind-kernel") is None, reason="no oclgrind")
@pytest.mark.parametrize("barrier", [True, False])
def test_oclgrind_sees_a_missing_barrier_alone(tmp_path, barrier):
    of_local_memory().write(tmp_path / "tree")
    text = next((tmp_path / "tree").glob("*_kernels_*.cl")).read_text()
    name = text.split("__kernel void ")[1].split("(")[0]
    if not barrier:
        text = text.replace("    barrier(CLK_LOCAL_MEM_FENCE);\n", "")
    (tmp_path / "k.cl").write_text(text)
    zeros = np.zeros(64, np.float32)
    log = simulated(tmp_path, name, "k.cl", [zeros, zeros], 16, 4)
    assert ("race" in log.lower()) == (not barrier), log
    assert "error" not in log.lower() or not barrier, log
