"""Tensors and devices."""
import ctypes

import ml_dtypes
import numpy as np
import pytest

import ingot as tvm
from ingot import nd, relax
from ingot.runtime import NDArray
from ingot.script import ir as I
from ingot.script import relax as R
from ingot.script import tir as T

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
    there = tvm.nd.array(X, tvm.cpu(1))  # any number is this CPU
    assert there.device == tvm.cpu(1) and there.device.exist and np.array_equal(np.from_dlpack(there), X)
    assert gpu.max_threads_per_block is cpu.warp_size is cpu.compute_version is None
    assert str(tvm.vulkan()) == "vulkan(0)" and tvm.device("opencl") == tvm.opencl() and not tvm.metal().exist
    with pytest.raises(ValueError, match=r"there is no device rocm\(0\) here"):
        tvm.rocm().sync()
    with pytest.raises(AttributeError, match="a Device has no speed"):
        cpu.speed
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


# ---------------------------------------------------------------- vectors as elements, handles

def test_elements_that_are_vectors():
    x = nd.empty((3, 2), "float32x4")
    assert (x.shape, x.dtype, x.ndim) == ((3, 2), "float32x4", 2)
    values = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    assert x.copyfrom(values).numpy().shape == (3, 2, 4)
    y = x.copyto(tvm.cpu())
    assert y.dtype == "float32x4" and (y.numpy() == values).all()
    y[:] = 7
    assert (y.numpy() == 7).all()
    with pytest.raises(ValueError, match="shape"):
        x.copyfrom(np.zeros((3, 2), np.float32))


def test_functions_take_vectors():
    @T.prim_func
    def scaled(A: T.Buffer((3,), "float32x4"), B: T.Buffer((3,), "float32x4")):
        for i in range(3):
            B[i] = A[i] * T.broadcast(T.float32(3), 4)

    x, y = nd.empty((3,), "float32x4"), nd.empty((3,), "float32x4")
    x.copyfrom(np.arange(12, dtype=np.float32).reshape(3, 4))
    built = tvm.build(scaled, "c")
    built(x, y)
    assert (y.numpy() == x.numpy() * 3).all()
    with pytest.raises(ValueError, match="dtype float32, expected float32x4"):
        built(nd.empty((3,), "float32"), y)


def test_a_handle_changes_the_view_of_the_memory():
    x = nd.array(np.arange(24, dtype=np.int32).reshape(4, 6))
    t = x.handle[0]
    assert (t.ndim, t.byte_offset, t.dtype.type_code, t.dtype.bits, t.device.device_type) == (2, 0, 0, 32, 1)
    shape, strides = (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(12, 2)
    t.shape, t.strides, t.byte_offset = shape, strides, 4
    x.handle[0] = t
    assert x.byte_offset == 4 and x.shape == (2, 3)
    assert (x.numpy() == [[1, 3, 5], [13, 15, 17]]).all()
    assert list(x.handle.contents.strides[:2]) == [12, 2]
    for offset, wrong in ((4 * 24, "would occupy bytes"), (60, "would occupy bytes")):
        t.byte_offset = offset
        with pytest.raises(ValueError, match=wrong):
            x.handle[0] = t
    with pytest.raises(ValueError, match="its own memory"):
        x.handle[0] = nd.empty((2, 3), "int32").handle[0]


def test_views_know_where_they_begin():
    x = nd.array(np.arange(8, dtype=np.float32))
    y = x._create_view((4,), relative_byte_offset=8)
    z = y._create_view((2,), relative_byte_offset=4)
    assert (x.byte_offset, y.byte_offset, z.byte_offset) == (0, 8, 12)
    assert (z.numpy() == [3, 4]).all()


def test_programs_inspect_tensors():
    @I.ir_module
    class Inspected:
        @R.function
        def main(x: R.Tensor):
            return x.dtype.type_code, x.dtype.bits, x.dtype.lanes, x.ndim, x.byte_offset, x.elem_offset, x.strides[0]

    vm = relax.VirtualMachine(relax.build(Inspected, "c"), tvm.cpu())
    assert list(vm["main"](nd.empty((5, 3), "float32x4"))) == [2, 32, 4, 2, 0, 0, 3]
    assert list(vm["main"](nd.empty((5,), "bfloat16"))) == [4, 16, 1, 1, 0, 0, 1]
    assert list(vm["main"](nd.empty((5,), "float8_e4m3fn"))) == [6, 8, 1, 1, 0, 0, 1]
    view = nd.empty((6,), "int64")._create_view((2, 2), relative_byte_offset=16)
    assert list(vm["main"](view)) == [0, 64, 1, 2, 16, 2, 2]


def test_codes_and_views():
    for dtype, code in (("int8", "INT"), ("bool", "UINT"), ("float16", "FLOAT"), ("handle", "HANDLE"),
                        ("bfloat16", "BFLOAT"), ("float8_e5m2", "Float8E5M2")):
        assert tvm.DataType(dtype).type_code == getattr(tvm.DataTypeCode, code)
    array = nd.array(np.zeros(4, "float32"))
    assert not array.is_view and not array._create_view((2, 2)).is_view
