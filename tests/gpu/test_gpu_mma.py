"""Products in registers of a warp's lanes, scope "warp", by intrinsics under TVM's names."""
import ml_dtypes
import numpy as np
import pytest
from gpu_modules import compiles, emulated, ints, needs_emulator
from gpu_programs import LOOPS, lowered

import ingot as tvm
from ingot import te
from ingot.ir.schedule.tensor_intrin import TensorIntrin
from ingot.ir.script.functions import from_source
from ingot.ir.transform.gpu.fragments import FragmentError
from ingot.ir.transform.gpu.warp_memory import WarpMemoryError
from ingot.script import tir as T
from ingot.tir.tensor_intrin import cuda

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int8": np.int8,
         "int32": np.int32}


def product(m, n, k, dtype, out, trans_a, trans_b):
    a = te.placeholder((k, m) if trans_a else (m, k), dtype, "A")
    b = te.placeholder((n, k) if trans_b else (k, n), dtype, "B")
    r = te.reduce_axis((0, k), "k")

    def term(i, j):
        x, y = a[r, i] if trans_a else a[i, r], b[j, r] if trans_b else b[r, j]
        return te.sum(x * y if dtype == out else x.astype(out) * y.astype(out), axis=r)
    return te.create_prim_func([a, b, te.compute((m, n), term, "C")])


def tiles_of(layout, rows, columns):
    return lambda i, j: (i // rows, j // columns, *layout(i % rows, j % columns))


def in_registers(func, dtype, trans_a, trans_b, group, load="shared", store="global", permuted=False):
    """Two warps make 32 x 32 of the result in each block; permuted: from shared memory of permuted layout."""
    ki = 32 if dtype == "int8" else 16
    s = tvm.tir.Schedule(func)
    inner = s.get_block("C")
    i, j, k = s.get_loops(inner)
    i, it = s.split(i, [None, 16])
    j, jt = s.split(j, [None, 16])
    k, kt = s.split(k, [None, ki])
    k1, several = None, k
    if permuted:
        k, k1 = s.split(k, [None, 2])
        several = k1
    s.reorder(i, j, k, *([k1] if permuted else []), it, jt, kt)
    tile = s.blockize(it)
    ib, iw = s.split(i, [None, 2])
    jb, j1 = s.split(j, [None, 2])
    s.reorder(ib, jb, iw, k, *([k1] if permuted else []), j1)
    s.bind(ib, "blockIdx.y")
    s.bind(jb, "blockIdx.x")
    s.bind(iw, "threadIdx.y")
    for which in (0, 1):
        copy = s.cache_read(tile, which, load)
        s.compute_at(copy, k)
        _, y, x, v = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, 2, 32, 4])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
        s.vectorize(v)
        if permuted:
            s.annotate(copy, "permuted_layout", 1)
        else:
            s.storage_align(copy, 0, axis=-2, factor=32, offset=16 if dtype == "int8" else 8)
    held = []
    for which in (0, 1):
        held.append(s.cache_read(tile, which, "warp"))
        s.compute_at(held[-1], several)
    if store != "global":
        s.reverse_compute_at(s.cache_write(tile, 0, store), iw)
    back = s.cache_write(tile, 0, "warp")
    s.reverse_compute_at(back, iw)
    a_rows, b_rows = (ki, 16) if trans_a else (16, ki), (16, ki) if trans_b else (ki, 16)
    wide = dtype == "int8"
    rows = cuda.shared_16x32_to_ldmatrix_32x16_layout if wide else cuda.shared_16x16_to_ldmatrix_32x8_layout
    of_b = cuda.shared_32x16_to_ldmatrix_32x16_layout if wide and not trans_b else rows
    at = []
    for copy, shape in ((held[0], a_rows), (held[1], b_rows), (back, (16, 16))):
        x, y = s.get_loops(copy)[-2:]
        (xo, xi), (yo, yi) = s.split(x, [None, shape[0]]), s.split(y, [None, shape[1]])
        s.reorder(xo, yo, xi, yi)
        at.append(xi)
    s.transform_layout(held[0], ("write", 0), tiles_of(rows, *a_rows))
    s.transform_layout(held[1], ("write", 0), tiles_of(of_b, *b_rows))
    s.transform_layout(back, ("read", 0), tiles_of(cuda.shared_16x16_to_ldmatrix_32x8_layout, 16, 16))
    start = s.decompose_reduction(tile, k)
    for place, name in ((at[0], "load_a"), (at[1], "load_b"), (at[2], "store"), (s.get_loops(inner)[-3], "compute")):
        s.tensorize(place, group[name])
    for name in ("A", "B") if permuted else ():
        s.annotate(f"{name}_{load}_warp_o", "permuted_layout", 1)
    s.tensorize(s.get_loops(s.get_block("C_init"))[-2], group["init"])
    assert start is not None
    return s


CASES = [("float16", "float32", False, False, "up"), ("float16", "float16", False, True, "down late"),
         ("bfloat16", "float32", True, True, "shuffled"), ("int8", "int32", False, True, "down late"),
         ("int8", "int32", False, False, "up")]


def built(dtype, out, trans_a, trans_b, load="shared", store="global", simple=False):
    func = product(64, 32, 64, dtype, out, trans_a, trans_b)
    group = cuda.get_mma_intrin_group(load, store, dtype, out, trans_a, trans_b, simple)
    s = in_registers(func, dtype, trans_a, trans_b, group, load, store)
    tvm.tir.schedule.testing.verify_trace_roundtrip(s, func)
    return tvm.build(s.mod, "cuda-sm_80")


@needs_emulator
@pytest.mark.parametrize("dtype, out, trans_a, trans_b, policy", CASES)
def test_a_product_in_registers_is_the_product(dtype, out, trans_a, trans_b, policy):
    store, simple = ("shared", True) if (trans_a, trans_b) == (False, True) else ("global", False)
    mod = built(dtype, out, trans_a, trans_b, "shared.dyn" if trans_b else "shared", store, simple)
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (64, 64)).astype(NUMPY[dtype])
    b = rng.integers(-3, 4, (32, 64) if trans_b else (64, 32)).astype(NUMPY[dtype])
    wide = [x.astype(np.float32) for x in (a, b)]
    want = (wide[0].T if trans_a else wide[0]) @ (wide[1].T if trans_b else wide[1])
    *_, c = emulated(mod, a, b, np.zeros((64, 32), NUMPY[out]), policy=policy)
    np.testing.assert_array_equal(c.astype(np.float32), want)


@needs_emulator
def test_a_permuted_layout_of_shared_memory():
    func = product(64, 32, 64, "float16", "float32", False, True)
    group = cuda.get_mma_intrin_group("shared", "global", "float16", "float32", False, True, False)
    s = in_registers(func, "float16", False, True, group, permuted=True)
    mod = tvm.build(s.mod, "cuda-sm_80")
    source = mod.imported_modules[0].get_source()
    assert "A_shared[1024]" in source and "^" in source  # without gaps between its rows
    a, b = ints((64, 64), "float16"), ints((32, 64), "float16", 1)
    *_, c = emulated(mod, a, b, np.zeros((64, 32), np.float32), policy="shuffled")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
    s.unannotate("B_shared_warp_o", "permuted_layout")
    with pytest.raises(ValueError, match="B_shared is used in blocks with and without the annotation"):
        tvm.build(s.mod, "cuda-sm_80")


@T.prim_func
def copied(x: T.Buffer((8, 24), "float16"), y: T.Buffer((8, 24), "float16")):
    for lane in T.thread_binding(24, thread="threadIdx.x"):
        with T.block("all"):
            T.block_attr({"permuted_layout": 1})
            tile = T.alloc_buffer((8, 24), "float16", scope="shared")
            for i in range(8):
                tile[i, lane] = x[i, lane]
            for i in range(8):
                y[i, lane] = tile[i, lane]


def test_rows_without_a_permuted_layout():
    with pytest.raises(ValueError, match=r"rows of a multiple of 64 elements, .*; tile has the shape \(8, 24\)"):
        tvm.build(copied, "cuda")


def test_registers_and_no_spill():
    mod = built("float16", "float32", False, True)
    source = mod.imported_modules[0].get_source()
    assert "C_warp[16]" in source and "A_shared_warp[8]" in source  # of 32 lanes, two tiles and one
    assert "ingot_ldmatrix_x4(" in source and "ingot_mma_m16n8k16_f16_f32(" in source
    assert "0 bytes spill stores" in compiles(mod)


def test_names_of_intrinsics():
    group = cuda.get_mma_intrin_group("shared.dyn", "shared.dyn", "float16", "float32", False, True)
    assert group == {"init": "mma_fill_16x16_f32", "load_a": "mma_ldmatrix_f16_a_dyn",
                     "load_b": "mma_ldmatrix_f16_b_trans_dyn", "compute": "mma_f16f16f32_trans_b",
                     "store": "mma_store_16x16_f32_shared_dyn_simple_"}
    assert cuda.MMA_f16f16f32_TRANS_A_TRANS_B_INTRIN == "mma_f16f16f32_trans_a_trans_b"
    assert cuda.LDMATRIX_f16_B_TRANS_DYN_INTRIN == "mma_ldmatrix_f16_b_trans_dyn"
    assert cuda.MMA_store_16x16_f16_shared_dyn_INTRIN_SIMPLE == "mma_store_16x16_f16_shared_dyn_simple_"
    for name in [*group.values(), *(getattr(cuda, n) for n in cuda.__all__ if "_INTRIN" in n)]:
        assert TensorIntrin.get(name).name == name
    with pytest.raises(ValueError, match="no product of float64 with sums of float32; known: float16 with sums of "):
        cuda.get_mma_intrin_group("shared", "global", "float64", "float32", False, False)
    assert TensorIntrin.get("mma_ldmatrix_i8_a_trans", allow_missing=True) is None


@pytest.mark.parametrize("shape, layout", [
    ((16, 16), cuda.shared_16x16_to_ldmatrix_32x8_layout), ((16, 32), cuda.shared_16x32_to_ldmatrix_32x16_layout),
    ((32, 16), cuda.shared_32x16_to_ldmatrix_32x16_layout)])
def test_layouts_deal_each_element_to_one_place(shape, layout):
    places = {layout(i, j) for i in range(shape[0]) for j in range(shape[1])}
    assert places == {(lane, e) for lane in range(32) for e in range(shape[0] * shape[1] // 32)}
    if shape == (16, 16):
        assert all(cuda.ldmatrix_32x8_to_shared_16x16_layout(*layout(i, j)) == (i, j)
                   for i in range(16) for j in range(16))


# ---------------------------------------------------------------- T.ptx_* of scripts

PTX = """
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "{a}"), B: T.Buffer(({n}, {k}), "{b}"), C: T.Buffer(({m}, {n}), "{c}")):
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            x = T.alloc_buffer(({m} * {k} // 32,), "{a}", scope="local")
            y = T.alloc_buffer(({n} * {k} // 32,), "{b}", scope="local")
            z = T.alloc_buffer(({m} * {n} // 32,), "{c}", scope="local")
            for i in range({m} * {k} // 32):
                x[i] = A[lane // 4 + i // {w} % ({m} // 8) * 8,
                         lane % 4 * {w} + i % {w} + i // {w} // ({m} // 8) * 4 * {w}]
            for i in range({n} * {k} // 32):
                y[i] = B[lane // 4, lane % 4 * {w} + i % {w} + i // {w} * 4 * {w}]
            for i in range({m} * {n} // 32):
                z[i] = T.{c}(0)
            T.evaluate(T.ptx_mma("{c}", "m{m}n{n}k{k}", "row", "col", "{a}", "{b}", "{c}", x.data, 0, y.data, 0,
                                 z.data, 0, False))
            for i in range({m} * {n} // 32):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = z[i]
"""


@needs_emulator
@pytest.mark.parametrize("m, k, a, b, c", [
    (8, 4, "float64", "float64", "float64"), (16, 16, "int8", "int8", "int32"), (16, 32, "uint8", "int8", "int32"),
    (16, 8, "float16", "float16", "float32")])
def test_products_in_ptxs_words(m, k, a, b, c):
    func = from_source(PTX.format(m=m, n=8, k=k, a=a, b=b, c=c, w=max(1, 32 // (8 * np.dtype(a).itemsize))))
    assert str(from_source(func.script())) == func.script()
    mod = tvm.build(func, "cuda")
    compiles(mod)
    x, y = (np.abs(ints(shape, t, seed)) if t == "uint8" else ints(shape, t, seed)
            for seed, (shape, t) in enumerate((((m, k), a), ((8, k), b))))
    x = x.astype(a)
    *_, z = emulated(mod, x, y, np.zeros((m, 8), c))
    np.testing.assert_array_equal(z, x.astype(c) @ y.T.astype(c))


WORDS = ["T.create_barriers(2)", "T.ptx_init_barrier_thread_count(0, 32)", "T.ptx_arrive_barrier(0)",
         "T.ptx_arrive_barrier_expect_tx(0, 64)", "T.ptx_wait_barrier(0)", "T.ptx_cp_async_barrier(0)",
         'T.ptx_cp_async_bulk("float32", s.data, 0, A.data, 0, 16, 0)',
         'T.ptx_mma_sp("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", s.data, 0, s.data, 0, s.data, 0, '
         "s.data, 0, 0, False)"]


@pytest.mark.parametrize("word", WORDS)
def test_words_without_a_function_are_read_printed_and_refused(word):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            T.reads(A[0:32])
            T.writes(A[0:32])
            s = T.alloc_buffer((32,), "float32", scope="shared")
            s[lane] = A[lane]
            T.evaluate({word})
            A[lane] = s[lane]
""")
    assert word.replace("False", "T.bool(False)") in func.script()
    assert str(from_source(func.script())) == func.script()
    with pytest.raises(FragmentError, match=rf"{word.partition('(')[0]} has no function here: there are no "):
        tvm.build(func, "cuda")


# ---------------------------------------------------------------- LowerWarpMemory by itself

@T.prim_func
def reversed_lanes(x: T.Buffer((64,), "float16"), y: T.Buffer((64,), "float16")):
    T.func_attr({"global_symbol": "reversed_lanes"})
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            held = T.alloc_buffer((64,), "float16", scope="warp")
            held[lane] = x[lane]
            held[lane + 32] = x[lane + 32]
            y[lane] = held[31 - lane]
            y[lane + 32] = held[lane + 32] + held[33]


@needs_emulator
def test_what_another_lane_holds_comes_by_shuffles():
    text = str(lowered(reversed_lanes, *LOOPS, "FlattenBuffer", "LowerWarpMemory"))
    assert 'scope="warp"' not in text and 'held = T.decl_buffer((2,), "float16", scope="local")' in text
    assert text.count("T.tvm_warp_shuffle(") == 2
    assert str(from_source(text)) == text
    x = np.arange(64).astype(np.float16)
    mod = tvm.build(reversed_lanes, "cuda")
    *_, y = emulated(mod, x, np.zeros(64, np.float16))
    np.testing.assert_array_equal(y, np.concatenate([x[31::-1], x[32:] + x[33]]))


@T.prim_func
def to_another(x: T.Buffer((32,), "float32")):
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            held = T.alloc_buffer((32,), "float32", scope="warp")
            held[31 - lane] = x[lane]
            x[lane] = held[lane]


@T.prim_func
def some_lanes(x: T.Buffer((32,), "float32")):
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            held = T.alloc_buffer((32,), "float32", scope="warp")
            held[lane] = x[lane]
            if lane < 16:
                x[lane] = held[lane + 16]


@T.prim_func
def uneven(x: T.Buffer((32,), "float32")):
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            held = T.alloc_buffer((48,), "float32", scope="warp")
            held[lane] = x[lane]
            x[lane] = held[lane] + held[47]


@pytest.mark.parametrize("func, message", [
    (to_another, r'held, scope "warp", is stored by each lane at .*another lane'),
    (some_lanes, "is loaded from another lane .* where some lanes do not come"),
    (uneven, "has 48 elements, which are not 1 for each of 32 lanes, or a multiple"),
], ids=lambda x: getattr(x, "__name__", None))
def test_what_registers_cannot_do_is_refused(func, message):
    with pytest.raises(WarpMemoryError, match=message):
        lowered(func, *LOOPS, "FlattenBuffer", "LowerWarpMemory")


@needs_emulator
@pytest.mark.parametrize("pipelined", [False, True])
def test_the_schedule_of_a_product_that_tests_use(pipelined):
    from ingot.meta_schedule.testing import te_workload
    from ingot.testing.tir import mma_schedule

    def places(i, j):
        return i // 16, j // 16, *cuda.shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)

    func = tvm.te.create_prim_func(te_workload.matmul(64, 64, 64, "float16", "float32"))
    s = mma_schedule(func, 16, "float16", False, [1, 1, 2, 1, 2], [1, 2, 1, 1, 2], [2, 2, 1], places, places, places,
                     cuda.LDMATRIX_f16_A_INTRIN, cuda.LDMATRIX_f16_B_INTRIN, cuda.MMA_f16f16f32_INTRIN,
                     cuda.MMA_fill_16x16_f32_INTRIN, cuda.MMA_store_16x16_f32_global_INTRIN)
    if pipelined:
        loop = s.get_loops(s.get_block("C_o_update"))[3]
        s.annotate(loop, "software_pipeline_stage", [0, 0, 1])
        s.annotate(loop, "software_pipeline_order", [0, 1, 2])
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    *_, c = emulated(tvm.build(s.mod, "cuda-sm_80"), a, b, np.zeros((64, 64), np.float32), policy="down late")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
