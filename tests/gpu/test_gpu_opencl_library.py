"""Networks in OpenCL as functions of Python, on the first device (pocl)."""
import numpy as np
import pytest
from networks import attention_net, conv_net, embedding_net
from test_gpu_opencl import missing

import ingot
from ingot.runtime import opencl
from ingot.runtime.opencl import OpenCLError
from ingot.runtime.shapes import InputError


@pytest.fixture
def device():
    if missing():
        pytest.skip(missing())


def inputs_of(lib, **sizes):
    return [(np.random.default_rng(n).uniform(0, 3, [sizes.get(d, d) for d in t.shape])).astype(t.dtype.numpy)
            for n, t in enumerate(lib.inputs)]


def results(lib, arrays):
    found = lib(*arrays)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("weights", ["incbin", "file"])
@pytest.mark.parametrize("made", [conv_net, attention_net, embedding_net])
def test_a_network_runs_as_on_the_cpu(device, made, weights, monkeypatch):
    if made is attention_net:  # pocl 3.1 makes NaN of it with loops over the threads between barriers, its other way
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "repl")
        monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    lib = ingot.compile(made(), target="opencl", weights=weights)
    reference = ingot.compile(made(), target="host")
    for length in (7, 12):
        x = inputs_of(lib, length=length)
        for got, wanted in zip(results(lib, x), results(reference, x)):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
    run, outputs = lib.bind(*x)
    run()
    for bound, called in zip(outputs, results(lib, x)):
        np.testing.assert_array_equal(bound, called)
    assert len(lib.time(*x, repeat=2).times) == 2
    with pytest.raises(InputError):
        lib(*(a.astype(np.complex64) for a in x))
    lib.close()


def test_a_platform_that_is_not_there_is_named(device, monkeypatch):
    monkeypatch.setenv("INGOT_OPENCL_PLATFORM", "15")
    lib = ingot.compile(conv_net(), target="opencl")
    with pytest.raises(OpenCLError, match="no OpenCL platform 15 here: there"):
        lib(*inputs_of(lib))


def test_a_loader_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(opencl, "LIBRARIES", ("libnone.so",))
    with pytest.raises(OpenCLError, match="no OpenCL here: no ICD loader"):
        opencl.Queue()


def test_memory_is_aligned(device):
    queue = opencl.Queue()
    for align in (128, 4096):
        memory = queue.memory(100, align)
        assert int(queue.ffi.cast("uintptr_t", memory.pointer)) % align == 0
        values, back = np.arange(25, dtype=np.float32), np.zeros(25, np.float32)
        queue.copy(memory.pointer, values, 100)
        queue.copy(back, memory.pointer, 100)
        np.testing.assert_array_equal(back, values)
