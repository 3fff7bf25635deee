"""The kinds of GPU programs that courses on TVM teach: built for CUDA, run on the emulator, compared with numpy."""
import numpy as np
import pytest
from gpu_modules import compiles, emulated, ints, needs_emulator
from test_gpu_wmma import by_tensor_cores, product

import ingot as tvm
from ingot import te
from ingot.script import tir as T
from ingot.tir.tensor_intrin.cuda import get_wmma_intrin_group

POLICIES = ["up", "down late", "shuffled"]


def by_policies(want, built, *arrays, policies=POLICIES):
    """Whatever the order of threads, the last parameter becomes `want`."""
    for policy in policies:
        *_, found = emulated(built, *arrays, np.zeros(want.shape, np.float32), policy=policy)
        np.testing.assert_array_equal(found, want, err_msg=policy)


@T.prim_func
def scaled_sum(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    for i in range(1000):
        with T.block("C"):
            vi = T.axis.spatial(1000, i)
            C[vi] = A[vi] * 2.0 + B[vi]


def test_each_thread_an_element():
    s = tvm.tir.Schedule(scaled_sum)
    block, thread = s.split(s.get_loops("C")[0], [None, 128])  # 128 does not divide 1000
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    built = tvm.build(s.mod, target="cuda")
    source = built.imported_modules[0].get_source()
    assert "__launch_bounds__(128)" in source and "(int)blockIdx.x" in source and "if (" in source
    assert "launch scaled_sum_kernel(A, B, C) on blocks (8, 1, 1) of threads (128, 1, 1)" in built.get_source()
    compiles(built)


@needs_emulator
def test_windows_share_what_threads_fetch_together():
    @T.prim_func
    def average(A: T.Buffer((260,), "float32"), B: T.Buffer((256,), "float32")):
        for i in range(256):
            with T.block("B"):
                vi = T.axis.spatial(256, i)
                B[vi] = (A[vi] + A[vi + 1] + A[vi + 2] + A[vi + 3] + A[vi + 4]) * 0.25

    s = tvm.tir.Schedule(average)
    block, thread = s.split(s.get_loops("B")[0], [None, 64])
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    tile = s.cache_read("B", 0, "shared")
    s.compute_at(tile, thread)
    _, fetch = s.split(s.get_loops(tile)[-1], [None, 64])
    s.bind(fetch, "threadIdx.x")
    built = tvm.build(s.mod, target="cuda")
    assert "__shared__ __align__(16) float A_shared[68];" in built.imported_modules[0].get_source()
    a = ints(260)
    by_policies(sum(a[n:n + 256] for n in range(5)) / 4, built, a)


def blocked_product(shared, stages=None, scope="shared"):
    """64 x 64 x 32: each block of 16 threads a tile of 16 x 16 or, with shared memory, what it needs fetched by all."""
    s = tvm.tir.Schedule(product(64, 64, 32, "float32", "float32", False))
    block = s.get_block("c")
    out = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    ib, it, ii = s.split(i, [None, 4, 4])
    jb, jt, ji = s.split(j, [None, 4, 4])
    k0, k1 = s.split(k, [None, 8])
    s.unroll(k1)
    s.reorder(ib, jb, it, jt, k0, k1, ii, ji)
    s.reverse_compute_at(out, jt)
    s.bind(ib, "blockIdx.y")
    s.bind(jb, "blockIdx.x")
    thread = s.fuse(it, jt)
    s.bind(thread, "threadIdx.x")
    for which in (0, 1) if shared else ():
        copy = s.cache_read(block, which, scope)
        s.compute_at(copy, k0)
        _, fetch, lanes = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, 16, 4])
        s.vectorize(lanes)
        s.bind(fetch, "threadIdx.x")
    s.decompose_reduction(block, k0)
    for key, values in (stages or {}).items():
        s.annotate(k0, f"software_pipeline_{key}", values)
    return s


@needs_emulator
@pytest.mark.parametrize("shared", [False, True])
def test_a_product_in_registers_and_shared_memory(shared):
    built = tvm.build(blocked_product(shared).mod, target="cuda")
    source = built.imported_modules[0].get_source()
    assert source.count("__syncthreads()") + source.count("__syncwarp()") == 2 * shared  # 16 threads are one warp
    a, b = ints((64, 32)), ints((32, 64), seed=1)
    by_policies(a @ b, built, a, b)


@needs_emulator
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.parametrize("ahead", [1, 3])
def test_a_product_that_fetches_ahead(ahead, scope):
    stages = {"stage": [0, 0, ahead], "order": [0, 1, 2], "async_stages": [0]}
    built = tvm.build(blocked_product(True, stages, scope).mod, target="cuda")
    source = built.imported_modules[0].get_source()
    assert "ingot_cp_async16(" in source and f"ingot_cp_async_wait({ahead - 1});" in source
    a, b = ints((64, 32)), ints((32, 64), seed=1)
    by_policies(a @ b, built, a, b, policies=["up", "up late", "down late"])


@needs_emulator
@pytest.mark.parametrize("trans", [False, True])
def test_a_product_by_tensor_cores(trans):
    func = product(64, 32, 64, "float16", "float32", trans)
    group = get_wmma_intrin_group("shared", "global", "float16", "float32", trans)
    built = tvm.build(by_tensor_cores(func, group).mod, target="cuda")
    a, b = ints((64, 64), np.float16), ints((32, 64) if trans else (64, 32), np.float16, 1)
    by_policies(a.astype(np.float32) @ (b.T if trans else b).astype(np.float32), built, a, b)


def convolution(size=6, channels=8, batch=16, filters=16):
    """3 x 3, padded, images last: as te schedules of GPUs have it, with virtual threads."""
    x = te.placeholder((size, size, channels, batch), name="x")
    w = te.placeholder((3, 3, channels, filters), name="w")
    padded = te.compute((size + 2, size + 2, channels, batch), lambda y, z, c, n: tvm.tir.if_then_else(
        tvm.tir.all(y >= 1, y - 1 < size, z >= 1, z - 1 < size), x[y - 1, z - 1, c, n], tvm.tir.const(0.0, "float32")),
        name="padded")
    c, u, v = (te.reduce_axis((0, n), name) for n, name in ((channels, "c"), (3, "u"), (3, "v")))
    y = te.compute((size, size, filters, batch), lambda i, j, f, n: te.sum(
        padded[i + u, j + v, c, n] * w[u, v, c, f], axis=[u, v, c]), name="y")
    s = te.create_schedule(y.op)
    s[padded].compute_inline()
    copies = s.cache_read(padded, "shared", [y]), s.cache_read(w, "shared", [y])
    registers = [s.cache_read(copy, "local", [y]) for copy in copies]
    sums = s.cache_write(y, "local")
    threads = [te.thread_axis((0, 2), f"threadIdx.{a}") for a in "xy"]
    virtual = [te.thread_axis((0, 2), "vthread", name=f"v{a}") for a in "xy"]
    i, j, f, n = s[y].op.axis
    outer = s[y].fuse(i, j)
    s[y].bind(outer, te.thread_axis("blockIdx.z"))
    inner = []
    for axis, letter, thread, v in ((f, "y", threads[1], virtual[1]), (n, "x", threads[0], virtual[0])):
        block, axis = s[y].split(axis, factor=8)
        s[y].bind(block, te.thread_axis(f"blockIdx.{letter}"))
        pv, axis = s[y].split(axis, nparts=2)
        pt, axis = s[y].split(axis, nparts=2)
        inner.append((block, pv, pt, axis, v, thread))
    s[y].reorder(outer, *(part[n] for n in range(4) for part in inner))
    for _, pv, pt, _, v, thread in inner:
        s[y].bind(pv, v)
        s[y].bind(pt, thread)
    s[sums].compute_at(s[y], inner[1][2])
    _, _, f, n = s[sums].op.axis
    u, v, c = s[sums].op.reduce_axis
    co, ci = s[sums].split(c, factor=4)
    s[sums].reorder(co, u, v, ci, f, n)
    for copy, register in zip(copies, registers):
        s[copy].compute_at(s[sums], v)
        s[register].compute_at(s[sums], ci)
        first, second, third, last = s[copy].op.axis
        ty, third = s[copy].split(third, nparts=2)
        tx, last = s[copy].split(last, nparts=2)
        s[copy].reorder(ty, tx, first, second, third, last)
        s[copy].bind(ty, threads[1])
        s[copy].bind(tx, threads[0])
        s[copy].vectorize(last)
    return s, [x, w, y]


@needs_emulator
def test_a_convolution_with_virtual_threads():
    s, args = convolution()
    built = tvm.build(s, args, "cuda", name="conv")
    x, w = ints((6, 6, 8, 16)), ints((3, 3, 8, 16), seed=1)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0), (0, 0)))
    want = sum(np.einsum("ijcn,cf->ijfn", padded[u:u + 6, v:v + 6], w[u, v]) for u in range(3) for v in range(3))
    by_policies(want, built, x, w)


def row_sums(rfactored):
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(k, factor=8)
    if not rfactored:
        block, thread = s[b].split(b.op.axis[0], factor=16)
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [a, b]
    parts = s.rfactor(b, ki)
    block, row = s[b].split(s[b].op.axis[0], factor=4)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[parts].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0))
    return s, [a, b]


@needs_emulator
@pytest.mark.parametrize("rfactored", [False, True])
def test_sums_of_rows_of_any_length(rfactored):
    s, args = row_sums(rfactored)
    built = tvm.build(s, args, "cuda", name="row_sums")
    assert ("ingot_shfl_down" in built.imported_modules[0].get_source()) is rfactored
    for shape in ((5, 19), (9, 3)):
        a = ints(shape)
        by_policies(a.sum(1), built, a)


@pytest.mark.parametrize("made", [
    lambda: tvm.build(blocked_product(True, {"stage": [0, 0, 2], "order": [0, 1, 2], "async_stages": [0]}).mod, "cuda"),
    lambda: tvm.build(by_tensor_cores(product(64, 32, 64, "float16", "float32", True), get_wmma_intrin_group(
        "shared", "global", "float16", "float32", True)).mod, "cuda"),
    lambda: tvm.build(*convolution(), "cuda"), lambda: tvm.build(*row_sums(True), "cuda")],
    ids=["pipeline", "tensor cores", "convolution", "row sums"])
def test_nvcc_compiles_them_without_a_warning_or_a_spill(made):
    assert "0 bytes spill stores" in compiles(made())
