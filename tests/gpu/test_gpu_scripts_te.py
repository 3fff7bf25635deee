"""Programs of the kinds that TVM's documents have, by stages of tensor expressions, for GPUs: built, printed, and run
on the emulator; the call without a device says that there is none."""
import numpy as np
import pytest
from gpu_modules import emulated, ints, needs_emulator

import ingot as tvm
from ingot import te, topi
from ingot.contrib import nvcc

BX, TX, TY = (te.thread_axis(axis) for axis in ("blockIdx.x", "threadIdx.x", "threadIdx.y"))


def refuses_without_device(mod, *arrays):
    if not tvm.cuda(0).exist:
        with pytest.raises(Exception, match="no CUDA driver|no device"):
            mod(*(tvm.nd.array(x, tvm.cuda(0)) for x in arrays))


@needs_emulator
def test_a_reduction_by_factors_and_threads():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    part = s.rfactor(b, ki)
    xo, xi = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(xo, te.thread_axis("blockIdx.x"))
    s[b].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    mod = tvm.build(s, [a, b], "cuda")
    assert "__shfl_down" in mod.imported_modules[0].get_source() or "ingot_shfl_down" in (
        mod.imported_modules[0].get_source())
    x = ints((40, 50))
    *_, got = emulated(mod, x, np.zeros(40, np.float32))
    np.testing.assert_array_equal(got, x.sum(1))
    refuses_without_device(mod, x, np.zeros(40, np.float32))


@needs_emulator
def test_a_convolution_in_shared_memory_with_virtual_threads():
    size, channels, filters, batch = 6, 4, 8, 8
    a = te.placeholder((size, size, channels, batch), name="A")
    w = te.placeholder((3, 3, channels, filters), name="W")
    padded = te.compute((size + 2, size + 2, channels, batch), lambda y, x, c, n: tvm.tir.if_then_else(
        tvm.tir.all(y >= 1, y - 1 < size, x >= 1, x - 1 < size), a[y - 1, x - 1, c, n], tvm.tir.const(0.0, "float32")),
        name="Apad")
    rc, ry, rx = (te.reduce_axis((0, e), n) for e, n in ((channels, "rc"), (3, "ry"), (3, "rx")))
    b = te.compute((size, size, filters, batch), lambda y, x, f, n: te.sum(
        padded[y + ry, x + rx, rc, n] * w[ry, rx, rc, f], axis=[ry, rx, rc]), name="B")
    s = te.create_schedule(b.op)
    s[padded].compute_inline()
    a_shared, w_shared = s.cache_read(padded, "shared", [b]), s.cache_read(w, "shared", [b])
    a_local, w_local = s.cache_read(a_shared, "local", [b]), s.cache_read(w_shared, "local", [b])
    b_local = s.cache_write(b, "local")
    tx, ty = te.thread_axis((0, 2), "threadIdx.x"), te.thread_axis((0, 2), "threadIdx.y")
    vx, vy = te.thread_axis((0, 2), "vthread", name="vx"), te.thread_axis((0, 2), "vthread", name="vy")
    hi, wi, fi, ni = s[b].op.axis
    bz = s[b].fuse(hi, wi)
    by, fi = s[b].split(fi, factor=8)
    bx, ni = s[b].split(ni, factor=8)
    tyz, fi = s[b].split(fi, nparts=2)
    txz, ni = s[b].split(ni, nparts=2)
    ty_, fi = s[b].split(fi, nparts=2)
    tx_, ni = s[b].split(ni, nparts=2)
    s[b].reorder(bz, by, bx, tyz, txz, ty_, tx_, fi, ni)
    for loop, axis in ((bz, te.thread_axis("blockIdx.z")), (by, te.thread_axis("blockIdx.y")),
                       (bx, te.thread_axis("blockIdx.x")), (tyz, vy), (txz, vx), (ty_, ty), (tx_, tx)):
        s[b].bind(loop, axis)
    s[b_local].compute_at(s[b], tx_)
    yi, xi, fi, ni = s[b_local].op.axis
    ry, rx, rc = s[b_local].op.reduce_axis
    rco, rci = s[b_local].split(rc, factor=2)
    s[b_local].reorder(rco, ry, rx, rci, fi, ni)
    for stage in (a_shared, w_shared):
        s[stage].compute_at(s[b_local], rx)
    for stage in (a_local, w_local):
        s[stage].compute_at(s[b_local], rci)
    for stage in (a_shared, w_shared):
        _, _, ci, fi = s[stage].op.axis
        ty_, ci = s[stage].split(ci, nparts=2)
        tx_, fi = s[stage].split(fi, nparts=2)
        _, fi = s[stage].split(fi, factor=4)
        s[stage].reorder(ty_, tx_, ci, fi)
        s[stage].bind(ty_, ty)
        s[stage].bind(tx_, tx)
        s[stage].vectorize(fi)
    mod = tvm.build(s, [a, w, b], "cuda", name="conv")
    x, kernel = ints((size, size, channels, batch)), ints((3, 3, channels, filters), seed=1)
    *_, got = emulated(mod, x, kernel, np.zeros((size, size, filters, batch), np.float32))
    image = np.pad(x, ((1, 1), (1, 1), (0, 0), (0, 0)))
    want = sum(np.einsum("yxcn,cf->yxfn", image[i:i + size, j:j + size], kernel[i, j])
               for i in range(3) for j in range(3))
    np.testing.assert_array_equal(got, want)


@needs_emulator
def test_schedules_of_topi():
    x, y = 20, 6
    a, b = te.placeholder((x, y, y), name="a"), te.placeholder((y, y), name="b")
    total = topi.sum(topi.elemwise_sum([topi.add(a, b), topi.multiply(a, b)]) / 2.0)
    with tvm.target.cuda():
        s = topi.cuda.schedule_reduce(total)
    assert "threadIdx.x" in str(tvm.lower(s, [a, b, total], simple_mode=True))
    mod = tvm.build(s, [a, b, total], "cuda")
    p, q = ints((x, y, y)), ints((y, y), seed=1)
    *_, got = emulated(mod, p, q, np.zeros((), np.float32))
    np.testing.assert_array_equal(got, ((p + q + p * q) / 2).sum())
    rows = te.placeholder((5, 70), name="rows")
    with tvm.target.Target("cuda"):
        out = topi.nn.softmax(rows)
        mod = tvm.build(topi.cuda.schedule_softmax(out), [rows, out], "cuda")
    p = np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32)
    *_, got = emulated(mod, p, np.zeros_like(p))
    e = np.exp(p - p.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)
    out = topi.nn.relu(a)
    mod = tvm.build(topi.cuda.schedule_injective([out]), [a, out], "cuda")
    p = ints((x, y, y))
    np.testing.assert_array_equal(emulated(mod, p, np.zeros_like(p))[1], np.maximum(p, 0))
    image, kernel = te.placeholder((1, 2, 6, 6), name="image"), te.placeholder((3, 2, 3, 3), name="kernel")
    out = topi.nn.relu(topi.cuda.conv2d_nchw(image, kernel, 1, 1, 1))
    s = topi.cuda.schedule_conv2d_nchw([out])
    assert "T.max(conv2d_nchw[0]" in str(tvm.lower(s, [image, kernel], simple_mode=True)), "the output follows"
    p, q = ints((1, 2, 6, 6)), ints((3, 2, 3, 3), seed=1)
    *_, got = emulated(tvm.build(s, [image, kernel, out], "cuda"), p, q, np.zeros((1, 3, 6, 6), np.float32))
    around = np.pad(p, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(np.einsum("ncyx,oc->noyx", around[..., i:i + 6, j:j + 6], q[:, :, i, j])
               for i in range(3) for j in range(3))
    np.testing.assert_array_equal(got, np.maximum(want, 0))


def test_what_is_known_of_devices():
    assert nvcc.get_target_compute_version("cuda -arch=sm_90a") == "9.0"
    assert nvcc.parse_compute_version("8.6") == (8, 6)
    assert nvcc.have_tensorcore("7.0") and not nvcc.have_bf16("7.5") and nvcc.have_fp16(target="cuda -arch=sm_80")
    assert str(tvm.target.cuda(arch="sm_80").name) == "cuda-sm_80"
    try:
        nvcc.find_cuda_path()
    except RuntimeError as error:
        pytest.skip(str(error))
    code = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1.0f; }'
    assert b".entry f" in bytes(nvcc.compile_cuda(code, "ptx", "sm_80"))
    with pytest.raises(RuntimeError, match="nvcc refused"):
        nvcc.compile_cuda("no code", "cubin", "sm_80")
    with pytest.raises(ValueError, match="target_format is 'elf'; known: ptx, cubin, fatbin"):
        nvcc.compile_cuda(code, "elf")
