"""Arrays, streams and events of CUDA from Python, over a runtime library that has the host's memory as its device."""
import gc

import ml_dtypes
import numpy as np
import pytest
from emulated import MISSING, build_cudart

import ingot as tvm
from ingot.runtime import cuda_array, cudart, dlpack
from ingot.runtime.cudart import CudaError

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return str(build_cudart(tmp_path_factory.mktemp("device")))


@pytest.fixture
def device(library, monkeypatch):
    """The emulated device, as one that can be told to fail."""
    monkeypatch.setenv("INGOT_CUDART", library)
    loaded = cudart.cudart()
    loaded.ffi.cdef("void emu_fail_with(int); int emu_blocks(void);", override=True)
    yield loaded._library
    loaded._library.emu_fail_with(0)


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setenv("INGOT_CUDART", "/nowhere/libcudart.so")


def test_arrays_go_to_the_device_and_come_back(device):
    for x in (np.arange(6, dtype=np.float32).reshape(2, 3), np.array(3, np.int64), np.zeros((0, 4), np.int8),
              np.array([1.5, -2], ml_dtypes.bfloat16), np.array([True, False])):
        a = tvm.nd.array(x, tvm.cuda(0))
        assert (a.shape, a.dtype, str(a.device)) == (x.shape, str(x.dtype), "cuda(0)")
        np.testing.assert_array_equal(a.numpy(), x)
        np.testing.assert_array_equal(a.copyto(tvm.cpu(0)).numpy(), x)
        np.testing.assert_array_equal(tvm.nd.array(a, tvm.cuda(0)).numpy(), x)
        np.testing.assert_array_equal(tvm.nd.array(a).numpy(), x)


def test_what_is_set_converts_and_must_fit(device):
    a = tvm.nd.empty((2, 2), "float32", tvm.cuda(0))
    assert np.isnan(a.numpy()).all()
    a[:] = 3
    np.testing.assert_array_equal(a.numpy(), np.full((2, 2), 3, np.float32))
    a.copyfrom(np.arange(4).reshape(2, 2).T)
    np.testing.assert_array_equal(a.numpy(), [[0, 2], [1, 3]])
    with pytest.raises(ValueError, match=r"the shape \(3,\) of what is copied is not the array's shape \(2, 2\)"):
        a.copyfrom(np.zeros(3))
    with pytest.raises(IndexError, match="set as a whole"):
        a[0] = 1
    b = tvm.nd.empty((2, 2), "float64", tvm.cuda(0)).copyfrom(a)
    np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_memory_is_freed_with_the_last_array_that_has_it(device):
    before = device.emu_blocks()
    a = tvm.nd.array(np.arange(3.0), tvm.cuda(0))
    shared = tvm.nd.from_dlpack(a)
    capsule = a.to_dlpack()
    assert shared.same_as(a) and device.emu_blocks() == before + 1
    del a
    gc.collect()
    np.testing.assert_array_equal(shared.numpy(), [0, 1, 2])
    del shared
    assert device.emu_blocks() == before + 1
    del capsule  # which nobody took
    gc.collect()
    assert device.emu_blocks() == before


def test_dlpack_carries_dtypes_and_refuses_others(device):
    for dtype in ("float16", "bfloat16", "float64", "int8", "uint16", "int64", "bool"):
        a = tvm.nd.empty((2, 0, 3), dtype, tvm.cuda(0))
        b = tvm.nd.from_dlpack(a)
        assert (b.shape, b.dtype, b.device) == (a.shape, a.dtype, a.device)
    with pytest.raises(BufferError, match="float8_e4m3fn array cannot be passed by DLPack"):
        tvm.nd.empty((2,), "float8_e4m3fn", tvm.cuda(0)).to_dlpack()
    capsule = a.to_dlpack()
    dlpack.take(capsule)
    with pytest.raises(ValueError, match="taken before"):
        dlpack.take(capsule)


class Foreign:
    """An array of another library, as __cuda_array_interface__ describes it."""

    def __init__(self, of, **changes):
        self.of, self.__cuda_array_interface__ = of, {**of.__cuda_array_interface__, **changes}


def test_arrays_of_other_libraries_are_taken_by_their_interface(device):
    a = tvm.nd.array(np.arange(6, dtype=np.float32).reshape(2, 3), tvm.cuda(0))
    assert a.__cuda_array_interface__ == {"shape": (2, 3), "typestr": "<f4", "data": (a.pointer, False), "version": 3,
                                          "strides": None, "stream": 1}
    for strides in (None, (12, 4)):
        assert cuda_array.from_other(Foreign(a, strides=strides)).same_as(a)
    np.testing.assert_array_equal(tvm.nd.array(Foreign(a), tvm.cuda(0)).numpy(), a.numpy())
    with pytest.raises(BufferError, match="not dense"):
        cuda_array.from_other(Foreign(a, strides=(4, 8)))
    assert not hasattr(tvm.nd.empty((2,), "bfloat16", tvm.cuda(0)), "__cuda_array_interface__")


def test_a_copy_beyond_a_block_is_refused_by_cuda(device):
    a = tvm.nd.empty((4,), "float32", tvm.cuda(0))
    longer = cuda_array.CudaArray(a.pointer, (5,), "float32", a.device, a)
    with pytest.raises(CudaError, match=r"cudaMemcpy failed: cudaErrorInvalidValue \(1\)") as raised:
        longer.numpy()
    assert raised.value.status == 1
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        tvm.nd.empty((1 << 30,), "float32", tvm.cuda(0))


def test_events_and_streams(device):
    stream, first, last = cudart.Stream(), cudart.Event(), cudart.Event()
    first.record(stream)
    last.record(stream)
    last.synchronize()
    stream.synchronize()
    assert last.seconds_since(first) == pytest.approx(2e-3)
    for thing in (first, last, stream, stream):
        thing.close()
    assert cuda_array.properties()["compute_major"] == 8
    assert tvm.cuda(0).exist and not tvm.cuda(1).exist
    tvm.cuda(0).sync()


def test_errors_say_what_is_missing(device):
    device.emu_fail_with(35)
    assert not tvm.cuda(0).exist
    with pytest.raises(ValueError, match=r"no device cuda\(0\) here.*: no CUDA driver here, or one older than the "
                                         r"runtime library: cudaErrorInsufficientDriver \(35\): CUDA driver"):
        tvm.nd.array([1.0], tvm.cuda(0))
    device.emu_fail_with(100)
    with pytest.raises(CudaError, match=r"no CUDA device here: cudaErrorNoDevice \(100\)"):
        cuda_array.device_count()
    device.emu_fail_with(0)
    with pytest.raises(CudaError, match="no CUDA device 1 here: there is one, from 0 on"):
        cudart.use_device(1)


def test_a_library_that_is_not_there_is_named(no_library):
    with pytest.raises(CudaError, match="cannot load CUDA's runtime library /nowhere/libcudart.so"):
        cudart.cudart()
    assert not tvm.cuda(0).exist


def test_places_of_the_library(monkeypatch, tmp_path):
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/libcudart.so.13").touch()
    monkeypatch.delenv("INGOT_CUDART", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert cudart.candidates()[0] == str(tmp_path / "lib64/libcudart.so.13")
