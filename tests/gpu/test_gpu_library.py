"""Networks for CUDA as functions of Python: built without a device, run over the emulator."""
import sys
from pathlib import Path

import numpy as np
import pytest
from emulated import MISSING, build_cudart, build_network
from networks import attention_net, conv_net, make_model
from onnx import helper

import ingot as tvm
from ingot.codegen.nvcc import find_nvcc
from ingot.runtime import cuda_library, cudart
from ingot.runtime.binding import NetworkError
from ingot.runtime.cudart import CudaError
from ingot.runtime.cuda_library import CudaLibrary
from ingot.runtime.shapes import InputError

sys.path.append(str(Path(__file__).parents[1] / "codegen"))
from test_cuda_program import symbolic, with_weights  # noqa: E402 - programs of launches, made by hand

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
W = np.arange(100, dtype=np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_cudart(tmp_path_factory.mktemp("device"))


@pytest.fixture
def device(library, monkeypatch):
    monkeypatch.setenv("INGOT_CUDART", str(library))
    monkeypatch.setattr(cuda_library, "build_shared", lambda folder, out, *_: build_network(folder, out, library))
    loaded = cudart.cudart()
    loaded.ffi.cdef("void emu_fail_with(int); int emu_blocks(void);", override=True)
    yield loaded._library
    loaded._library.emu_fail_with(0)


@pytest.mark.parametrize("weights", ["incbin", "array", "file"])
def test_a_network_with_weights_runs(device, weights):
    lib = CudaLibrary(with_weights(weights=weights))
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    if weights == "file":  # its second weights are what the arena holds
        lib.build()
        assert lib(x).shape == (100,)
        return
    np.testing.assert_array_equal(lib(x), (x + W) * W)
    np.testing.assert_array_equal(lib.run({"x": x})["y"], (x + W) * W)


def test_sizes_are_arguments_and_the_arena_grows(device):
    lib = CudaLibrary(symbolic())
    for n in (3, 1000, 70):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(lib(x), (x + x) * x)
    with pytest.raises(InputError, match="input 'x': dtype float64, expected float32"):
        lib(np.zeros(3))


def test_arrays_on_the_device_stay_there(device):
    lib, x = CudaLibrary(symbolic()), np.arange(5, dtype=np.float32)
    a = tvm.nd.array(x, tvm.cuda(0))
    y = lib(a)
    assert str(y.device) == "cuda(0)"
    np.testing.assert_array_equal(y.numpy(), 2 * x * x)
    run, (out,) = lib.bind(a)
    a[:] = 3
    run(cudart.Stream())
    np.testing.assert_array_equal(out.numpy(), np.full(5, 18, np.float32))
    with pytest.raises(InputError, match="dtype int32, expected float32"):
        lib(tvm.nd.array(np.zeros(5, np.int32), tvm.cuda(0)))


def test_runs_are_timed_by_events(device):
    timing = CudaLibrary(symbolic()).time(np.zeros(4, np.float32), repeat=3)
    assert timing.times == pytest.approx([2e-3] * 3)


def test_memory_is_given_back(device):
    before = device.emu_blocks()
    with CudaLibrary(symbolic()) as lib:
        lib(np.zeros(4, np.float32))
        assert device.emu_blocks() > before
    assert device.emu_blocks() == before


def test_what_cuda_refuses_is_said_with_its_reason(device):
    lib = CudaLibrary(symbolic())
    x = tvm.nd.array(np.zeros(4, np.float32), tvm.cuda(0))
    with pytest.raises(NotImplementedError, match="make PROFILE=1"):
        lib.profile(x)
    with_copy = CudaLibrary(with_weights())
    with_copy.build()
    binding = with_copy._binding
    binding._reserve([], binding._pointer(0))
    with pytest.raises(NetworkError, match=r"tree_run failed: .*: cudaErrorInvalidValue \(1\)"):
        device.emu_fail_with(1)
        binding._check("run", binding._net[0], *[binding._pointer(x.pointer)] * 2, binding._pointer(0))


# ---------------------------------------------------------------- networks on the emulator

@pytest.mark.parametrize("name", ["conv", "attention", "half"])
def test_networks_run_as_on_the_cpu(device, name):
    model = {"conv": conv_net, "attention": attention_net, "half": half_net}[name]()
    lib, reference = (tvm.compile(model, target=target) for target in ("cuda-sm_80", "host"))
    sizes = {"length": 5}
    x = [np.random.default_rng(n).uniform(-1, 1, [sizes.get(d, d) for d in t.shape]).astype(t.dtype.numpy)
         for n, t in enumerate(lib.inputs)]
    wanted, got = reference(*x), lib(*x)
    tolerance = 1e-2 if name == "half" else 1e-5
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=tolerance, atol=tolerance)
    there = lib(*(tvm.nd.array(a, tvm.cuda(0)) for a in x))
    np.testing.assert_array_equal(there.numpy(), got)
    assert len(lib.time(*x, repeat=2).times) == 2
    assert lib.flops == reference.flops


def half_net():
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    return make_model("half", [node], {"a": (np.float16, (9, 40)), "b": (np.float16, (40, 20))},
                      {"y": (np.float16, (9, 20))}, {})


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_nvcc_builds_it_without_a_device_and_a_call_says_so(library, monkeypatch):
    monkeypatch.setenv("INGOT_CUDART", str(library))
    lib = CudaLibrary(symbolic())
    lib.build()
    loaded = cudart.cudart()
    loaded.ffi.cdef("void emu_fail_with(int);", override=True)
    loaded._library.emu_fail_with(35)
    try:
        with pytest.raises(CudaError, match=r"no CUDA driver here, .*: cudaErrorInsufficientDriver \(35\)"):
            lib(np.zeros(4, np.float32))
    finally:
        loaded._library.emu_fail_with(0)
