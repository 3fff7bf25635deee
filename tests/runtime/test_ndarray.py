"""Tensors and devices."""
import ml_dtypes
import numpy as np
import pytest

import ingot as tvm
from ingot.runtime import NDArray

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_array_copies():
    source = X.copy()
    a = tvm.nd.array(source)
    source[:] = 0
    assert a.shape == (2, 3) and a.dtype == "float32" and a.device == tvm.cpu(0) and a.ndim == 2 and len(a) == 2
    np.testing.assert_array_equal(a.numpy(), X)
    a.numpy()[:] = 7
    np.testing.assert_array_equal(a.asnumpy(), X)
    assert "shape=(2, 3), cpu(0)" in repr(a)


@pytest.mark.parametrize("values, dtype", [
    ([[1, 2], [3, 4]], "int64"), ([0.5], "float64"), (True, "bool"), (3.0, "float64")])
def test_array_of_python_values(values, dtype):
    a = tvm.nd.array(values)
    assert a.dtype == dtype
    np.testing.assert_array_equal(a.numpy(), values)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint64", "bool"])
def test_every_dtype(dtype):
    a = tvm.nd.empty((3, 5), dtype)
    assert a.dtype == dtype and a.shape == (3, 5) and a.__array__().ctypes.data % 64 == 0
    a[:] = 1
    assert (a.numpy().astype(np.float32) == 1).all()
    assert tvm.nd.array(a.numpy()).dtype == dtype


def test_other_byte_orders_and_layouts_are_made_plain():
    a = tvm.nd.array(X.T.astype(">f4"))
    np.testing.assert_array_equal(a.numpy(), X.T)
    assert a.__array__().flags.c_contiguous and a.__array__().dtype.isnative


def test_empty():
    assert tvm.nd.empty(4).shape == (4,) and tvm.nd.empty((), "int32").numpy().shape == ()
    assert tvm.nd.empty((0, 3)).shape == (0, 3)


def test_copies():
    a, b = tvm.nd.array(X), tvm.nd.empty((2, 3), "float64")
    assert a.copyto(b) is b
    np.testing.assert_array_equal(b.numpy(), X)
    c = a.copyto(tvm.cpu())
    assert not c.same_as(a) and a.same_as(a)
    np.testing.assert_array_equal(c.copyfrom([[1, 2, 3], [4, 5, 6]]).numpy(), X + 1)
    with pytest.raises(ValueError, match=r"the shape \(3, 2\) of what is copied is not the NDArray's shape \(2, 3\)"):
        a.copyfrom(X.T)
    with pytest.raises(TypeError, match="copyto takes an NDArray or a Device, not ndarray"):
        a.copyto(X)


def test_it_is_set_and_read_as_a_whole():
    a = tvm.nd.empty((2, 3))
    a[:] = X
    np.testing.assert_array_equal(a[:].numpy(), X)
    a[...] = 2
    a[:] = tvm.nd.array(a.numpy() + 1)
    assert (a.numpy() == 3).all()
    with pytest.raises(ValueError, match="the shape"):
        a[:] = X[0]
    with pytest.raises(IndexError, match="set as a whole, a.:. = x, not at 0"):
        a[0] = 1
    with pytest.raises(IndexError, match="read as a whole, not at 0; .numpy"):
        a[0]


def test_numpy_reads_it():
    a = tvm.nd.array(X)
    np.testing.assert_allclose(a, X)
    assert np.asarray(a, dtype="int32").dtype == np.int32 and np.array(a) is not a.__array__()
    np.asarray(a)[0, 0] = 9
    assert a.numpy()[0, 0] == 9


def test_dlpack_both_ways():
    a = tvm.nd.array(X)
    view = np.from_dlpack(a)
    view[0, 0] = 5
    assert a.numpy()[0, 0] == 5 and a.__dlpack_device__() == (1, 0)
    source = X.copy()
    for tensor in (source, source.__dlpack__()):
        b = tvm.nd.from_dlpack(tensor)
        assert isinstance(b, NDArray) and b.__array__().ctypes.data == source.ctypes.data
    again = tvm.nd.from_dlpack(a.to_dlpack())
    np.testing.assert_array_equal(again.numpy(), a.numpy())
    half = tvm.nd.array(X.astype(ml_dtypes.bfloat16))  # which numpy does not pass on
    taken = tvm.nd.from_dlpack(half)
    taken[:] = 2
    assert taken.dtype == "bfloat16" and (half.numpy() == 2).all()
    with pytest.raises(BufferError, match="a float8_e4m3fn NDArray cannot be passed by DLPack"):
        tvm.nd.array(X.astype(ml_dtypes.float8_e4m3fn)).__dlpack__()
    shared = tvm.nd.numpyasarray(source)
    shared[:] = 1
    assert (source == 1).all()


def test_read_only_memory_is_not_written():
    source = X.copy()
    source.flags.writeable = False
    with pytest.raises(ValueError, match="shares memory that is read-only"):
        tvm.nd.numpyasarray(source)[:] = 0


def test_what_tensors_cannot_hold():
    with pytest.raises(TypeError, match="numpy's dtype complex64"):
        tvm.nd.array(np.zeros(2, np.complex64))
    with pytest.raises(TypeError, match="numpy's dtype object"):
        tvm.nd.array(np.array([None]))
    with pytest.raises(ValueError, match="unknown dtype 'float33'"):
        tvm.nd.empty((2,), "float33")
    with pytest.raises(ValueError, match=r"no device cuda\(0\) here; tensors live on tvm.cpu\(0\)"):
        tvm.nd.array(X, device=tvm.cuda())
    with pytest.raises(ValueError, match="memory scope 'global.texture' is no scope of the CPU"):
        tvm.nd.empty((2,), mem_scope="global.texture")


# ---------------------------------------------------------------- devices and names

def test_devices():
    cpu = tvm.cpu()
    assert cpu == tvm.device("cpu", 0) == tvm.device("llvm -mcpu=native") == tvm.device(1) and cpu != tvm.cpu(1)
    assert (cpu.device_type, cpu.index, cpu.device_id, str(cpu), cpu.exist) == (1, 0, 0, "cpu(0)", True)
    assert cpu.sync() is None and len({cpu, tvm.device("c")}) == 1
    gpu = tvm.cuda(1)
    assert gpu == tvm.device("cuda:1") and str(gpu) == "cuda(1)" and gpu.device_type == 2 and not gpu.exist
    with pytest.raises(ValueError, match="unknown device 'tpu'; known: cpu"):
        tvm.device("tpu")
    with pytest.raises(ValueError, match=r"unknown device type 99; known: 1 \(cpu\)"):
        tvm.device(99)
    assert tvm.runtime.enabled("llvm") and tvm.runtime.enabled("cuda") and not tvm.runtime.enabled("riscv")


def test_views_lie_inside_the_memory():
    a = tvm.nd.array(X)
    part = a._create_view([2], "int32", relative_byte_offset=8)._create_view([1, 1], "float32", 4)
    assert part.numpy().tolist() == [[3]] and np.shares_memory(np.asarray(part), np.asarray(a))
    for shape, offset in (([7], 0), ([1], -4), ([3, 2], 4), ([-1], 0)):
        with pytest.raises(ValueError, match=f"would occupy bytes {offset} <= i_byte .* only contains 24 bytes"):
            a._create_view(shape, relative_byte_offset=offset)
