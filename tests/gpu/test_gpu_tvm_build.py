"""tvm.build for GPUs: sources, several functions, errors, and a call, with a device and without one."""
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulated import FLAGS, emulator, translate
from emulated import build_cudart
from gpu_modules import compiles, emulated, ints, needs_emulator

import ingot as tvm
from ingot import te
from ingot.ir.transform.gpu.launch import LaunchError
from ingot.runtime import gpu_module
from ingot.runtime.cudart import CudaError
from ingot.runtime.shapes import InputError
from ingot.script import ir as I, tir as T

HERE = tvm.cuda(0).exist


def doubled(n=1024, threads=256):
    @T.prim_func
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * 2.0

    s = tvm.tir.Schedule(main)
    block, thread = s.split(s.get_loops("B")[0], [None, threads])
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


@pytest.mark.parametrize("target", ["cuda", "cuda -arch=sm_90", "nvidia/nvidia-a100", tvm.target.Target("cuda"),
                                    {"kind": "cuda", "arch": "sm_80"}, tvm.target.Target("nvidia/geforce-rtx-3090")],
                         ids=str)
def test_targets_of_tvm(target):
    built = tvm.build(doubled().mod, target=target)
    assert built.type_key == "cuda" and built.entry_name == "main" and built.function_names == ("main",)
    device, = built.imported_modules
    assert device.type_key == "cuda" and "__global__" in device.get_source()
    assert built["main"].name == built.entry_func.name == "main" and built.implements_function("main")


def test_the_target_around_and_the_forms_of_arguments():
    with tvm.target.Target("cuda"):
        assert tvm.build(doubled().mod).type_key == "cuda"
    assert tvm.build(doubled().mod, "cuda").type_key == "cuda"
    assert tvm.build(doubled().mod["main"], target="cuda", target_host="llvm").type_key == "cuda"
    assert tvm.build(doubled().mod, target="opencl").imported_modules[0].get_source().count("__kernel ") == 1


def test_lower_shows_threads():
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    for simple in (False, True):
        text = str(tvm.lower(s, [a, b], simple_mode=simple))
        assert 'thread="blockIdx.x"' in text and 'T.thread_binding(64, thread="threadIdx.x")' in text


@I.ir_module
class Two:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), k: T.float32):
        for i in T.thread_binding(2, thread="blockIdx.x"):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                B[i * 32 + j] = A[i * 32 + j] * k

    @T.prim_func
    def steps(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "steps"})
        C = T.alloc_buffer((64,), "float32")
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = A[vi] + 1.0
        for i in T.thread_binding(64, thread="blockIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = C[63 - vi]


@needs_emulator
def test_several_functions_and_kernels():
    built = tvm.build(Two, target="cuda")
    assert built.function_names == ("main", "steps") and built.entry_name == "main"
    assert built.imported_modules[0].get_source().count("__global__") == 3
    assert "launch steps_kernel_1(" in built.get_source() and "workspace" in built.get_source()
    compiles(built)
    a, zeros = ints(64), np.zeros(64, np.float32)
    np.testing.assert_array_equal(emulated(built, a, zeros, np.float32(1.5))[1], a * 1.5)
    np.testing.assert_array_equal(emulated(built, a, zeros, name="steps")[1], (a + 1)[::-1])
    with pytest.raises(AttributeError, match="no function 'other'; it has main, steps"):
        built["other"]


@needs_emulator
def test_dimensions_that_no_kernel_takes():
    """A grid that depends on a dimension, and a kernel that does not."""
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="b")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    built = tvm.build(s, [a, b], "cuda")
    for size in (1, 7):
        x = ints((size, 4))
        np.testing.assert_array_equal(emulated(built, x, np.zeros_like(x))[1], x + 1)


@pytest.mark.skipif(HERE, reason="there is a device")
def test_without_a_device_the_call_says_so_and_not_the_build():
    built = tvm.build(doubled().mod, target="cuda")
    time = built.time_evaluator("main", tvm.cuda(0), number=2)
    for call in (lambda: built(ints(1024), ints(1024)), lambda: built["main"](ints(1024), ints(1024)),
                 lambda: time(ints(1024), ints(1024))):
        with pytest.raises(CudaError, match="no CUDA (driver|device|runtime library)") as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"there is no device cuda\(0\) here; .*no CUDA"):
        tvm.nd.array(ints(1024), tvm.cuda(0))


@pytest.mark.skipif(not HERE, reason="there is no CUDA device")
def test_on_a_device():
    built, device = tvm.build(doubled().mod, target="cuda"), tvm.cuda(0)
    a, b = tvm.nd.array(ints(1024), device), tvm.nd.array(np.zeros(1024, np.float32), device)
    built(a, b)
    np.testing.assert_array_equal(b.numpy(), ints(1024) * 2)
    assert built.time_evaluator("main", device, number=3, repeat=2)(a, b).mean > 0
    with pytest.raises(InputError, match=r"argument B has shape \(512,\), expected \(1024,\)"):
        built(a, tvm.nd.array(np.zeros(512, np.float32), device))


def test_what_cannot_be_launched_is_refused_at_the_build():
    with pytest.raises(LaunchError, match=r"extent of threadIdx.x \(loop .*\) is 2048, and the device has 1024"):
        tvm.build(doubled(4096, 2048).mod, target="cuda")

    @T.prim_func
    def unbound(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi]

    with pytest.raises(ValueError, match="unbound: loop .* is bound to no threads.*; bind loops"):
        tvm.build(unbound, target="cuda")
    with pytest.raises(ValueError, match="which comes with CUDA"):
        tvm.build(doubled().mod, target="c")


def test_opencl_functions_are_text():
    built = tvm.build(doubled().mod, target="opencl")
    with pytest.raises(RuntimeError, match="functions for opencl are text here; compile a network"):
        built(ints(1024), ints(1024))


def test_the_program_of_the_documentation(capsys):
    text = (Path(__file__).parents[2] / "docs" / "tvm.md").read_text()
    script = re.search(r"<!-- gpu -->\n```python\n(.*?)```\n<!-- /gpu -->", text, re.DOTALL)[1]
    exec(compile(script, "tvm.md", "exec"), {})
    out = capsys.readouterr().out
    assert "ingot_cp_async4(" in out and "launch main__kernel(a, b, c)" in out and "wmma_sync_16x16x16_f16f16f32" in out


@needs_emulator
def test_a_call_passes_pointers_dimensions_and_numbers(tmp_path, monkeypatch):
    """The whole way of a call, with the host's memory as the device's and kernels on the emulator."""
    def by_emulator(sources, out, target, threads):
        source = Path(sources[0])
        text = source.with_suffix(".cpp")
        text.write_text(translate(source.read_text()))
        subprocess.run(["c++", *FLAGS, "-shared", "-I", source.parent, text, *map(str, emulator()), "-lm", "-o", out],
                       check=True)
        return out

    monkeypatch.setenv("INGOT_CUDART", str(build_cudart(tmp_path)))
    monkeypatch.setattr(gpu_module, "build_shared", by_emulator)
    device, n = tvm.cuda(0), te.var("n")
    a = te.placeholder((n, 4), name="a")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="b")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(s[b].fuse(*b.op.axis), factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    built = tvm.build(s, [a, b], "cuda", name="f")
    for size in (0, 3, 5):
        x = tvm.nd.array(ints((size, 4)), device)
        y = tvm.nd.array(np.zeros((size, 4), np.float32), device)
        built(x, y)
        np.testing.assert_array_equal(y.numpy(), ints((size, 4)) + 1)
    for args, message in (((x,), "1 arguments given, 2 expected: a, b"),
                          ((x, tvm.nd.array(np.zeros((2, 4), np.float32), device)), r"b has shape \(2, 4\), expected"),
                          ((x, tvm.nd.array(np.zeros((5, 4), np.int32), device)),
                           "b has dtype int32, expected float32"),
                          ((x, tvm.nd.array(np.zeros(5, np.float32), device)), "b has 1 dimensions, expected 2")):
        with pytest.raises(InputError, match=message):
            built(*args)
    with pytest.raises(TypeError, match=r"argument b is a ndarray that is not on the device; copy it there"):
        built(x, np.zeros((5, 4), np.float32))
    two = tvm.build(Two, target="cuda")
    x, y = (tvm.nd.array(v, device) for v in (ints(64), np.zeros(64, np.float32)))
    two(x, y, 1.5)
    np.testing.assert_array_equal(y.numpy(), ints(64) * 1.5)
    two["steps"](x, y)  # through memory of its own
    np.testing.assert_array_equal(y.numpy(), (ints(64) + 1)[::-1])
