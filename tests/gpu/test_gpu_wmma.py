"""Products by tensor cores: intrinsics under TVM's names, and what becomes of their fragments."""
import ml_dtypes
import numpy as np
import pytest
from gpu_modules import compiles, emulated, ints, needs_emulator
from gpu_programs import LOOPS, lowered
from interp import run

import ingot as tvm
from ingot import te
from ingot.ir.schedule.tensor_intrin import TensorIntrin
from ingot.ir.script.functions import from_source
from ingot.ir.transform.gpu.fragments import FragmentError
from ingot.script import tir as T
from ingot.tir.tensor_intrin import cuda

PASSES = (*LOOPS, "ThreadSync", "FlattenBuffer", "Simplify", "VectorizeLoop")
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def product(m, n, k, dtype, out, trans):
    a, b = te.placeholder((m, k), dtype, "a"), te.placeholder((n, k) if trans else (k, n), dtype, "b")
    r = te.reduce_axis((0, k), "r")

    def term(i, j):
        x, y = a[i, r], b[j, r] if trans else b[r, j]
        return te.sum(x * y if dtype == out else x.astype(out) * y.astype(out), axis=r)
    return te.create_prim_func([a, b, te.compute((m, n), term, "c")])


def by_tensor_cores(func, group, load="shared", store="global"):
    """One warp makes 32 x 16 of the result, in blocks of two."""
    s = tvm.tir.Schedule(func)
    block = s.get_block("c")
    i, j, k = s.get_loops(block)
    i, ii = s.split(i, [None, 16])
    j, ji = s.split(j, [None, 16])
    k, ki = s.split(k, [None, 16])
    s.reorder(i, j, k, ii, ji, ki)
    tile = s.blockize(ii)
    ib, iw, i = s.split(i, [None, 2, 2])
    k0, k1 = s.split(k, [None, 2])
    s.reorder(ib, j, iw, k0, k1, i)
    s.bind(ib, "blockIdx.y")
    s.bind(j, "blockIdx.x")
    s.bind(iw, "threadIdx.y")
    fragments = []
    for which, scope in enumerate(("wmma.matrix_a", "wmma.matrix_b")):
        copy = s.cache_read(tile, which, load)
        s.compute_at(copy, k0)
        _, y, x, v = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, 2, 32, 8])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
        s.vectorize(v)
        fragments.append(s.cache_read(tile, which, scope))
        s.compute_at(fragments[-1], k1)
    if store != "global":
        out = s.cache_write(tile, 0, store)
        s.reverse_compute_at(out, iw)
    back = s.cache_write(tile, 0, "wmma.accumulator")
    s.reverse_compute_at(back, iw)
    for copy, name in ((fragments[0], "load_a"), (fragments[1], "load_b"), (back, "store")):
        x, y = s.get_loops(copy)[-2:]
        xo, xi = s.split(x, [None, 16])
        yo, yi = s.split(y, [None, 16])
        s.reorder(xo, yo, xi, yi)
        s.tensorize(xi, group[name])
    s.tensorize(s.decompose_reduction(tile, k0), group["init"])
    s.tensorize(tile, group["compute"])
    return s


@pytest.mark.parametrize("dtype, out", [("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("load, store", [("shared", "global"), ("shared.dyn", "shared")])
def test_a_product_of_fragments_is_the_product(dtype, out, trans, load, store):
    func = product(64, 32, 64, dtype, out, trans)
    s = by_tensor_cores(func, cuda.get_wmma_intrin_group(load, store, dtype, out, trans), load, store)
    tvm.tir.schedule.testing.verify_trace_roundtrip(s, func)
    done = lowered(s.func, *PASSES)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(e) for e in x.shape]).astype(NUMPY[dtype]) for x in func.buffers[:2])
    c = np.zeros((64, 32), NUMPY[out])
    run(done, a, b, c)
    wide = [x.astype(np.float32) for x in (a, b)]
    np.testing.assert_array_equal(c.astype(np.float32), wide[0] @ (wide[1].T if trans else wide[1]))
    assert str(from_source(str(done))) == str(done)


def test_fragments_become_what_a_lane_has_of_them():
    func = product(64, 32, 64, "float16", "float32", True)
    s = by_tensor_cores(func, cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", True))
    text = str(lowered(s.func, *PASSES, "InferFragment"))
    assert "wmma" not in text.replace("_wmma_", "") and "matrix_sync" not in text
    assert 'c_wmma_accumulator = T.decl_buffer((16,), scope="local")' in text  # 2 tiles, 8 elements each
    for name in ("fill", "fetch_a", "fetch_b", "mma_f16_f32", "store"):  # fetched by ldmatrix
        assert f'"ingot_fragment_{name}"' in text
    assert text.count('T.tvm_storage_sync("shared")') == 2  # before and after shared memory is filled


def test_names_of_intrinsics():
    group = cuda.get_wmma_intrin_group("shared.dyn", "shared.dyn", "float16", "float16", False)
    assert group == {"init": "wmma_fill_16x16x16_f16", "load_a": "wmma_load_16x16x16_f16_a_shared_dyn",
                     "load_b": "wmma_load_16x16x16_f16_b_shared_dyn", "compute": "wmma_sync_16x16x16_f16f16f16",
                     "store": "wmma_store_16x16x16_f16_shared_dyn"}
    assert cuda.WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN == "wmma_load_16x16x16_f16_b_trans_shared_dyn"
    for name in [*group.values(), *(getattr(cuda, n) for n in cuda.__all__ if n.endswith("_INTRIN"))]:
        assert TensorIntrin.get(name).name == name
    with pytest.raises(ValueError, match="in_dtype is 'float64'; known: float16, bfloat16"):
        cuda.get_wmma_intrin_group("shared", "global", "float64", "float32", False)


def test_intrinsics_by_numbers():
    for name, made in (("load_a", cuda.get_wmma_load_intrin(16, 16, 16, "float16", "shared.dyn", False, False)),
                       ("load_b", cuda.get_wmma_load_intrin(16, 16, 16, "float16", "shared.dyn", True, True)),
                       ("init", cuda.get_wmma_fill_intrin(16, 16, 16, "float32")),
                       ("store", cuda.get_wmma_store_intrin(16, 16, 16, "float32", "shared")),
                       ("compute", cuda.get_wmma_sync_intrin(16, 16, 16, "float16", "float32", True))):
        group = cuda.get_wmma_intrin_group("shared.dyn", "shared", "float16", "float32", True)
        known = TensorIntrin.get(group[name])
        assert [str(f) for f in made] == [str(known.desc), str(known.impl)]
    with pytest.raises(ValueError, match="get_wmma_fill_intrin: tiles are 16 x 16 x 16, not 32 x 8 x 16"):
        cuda.get_wmma_fill_intrin(32, 8, 16, "float32")
    with pytest.raises(ValueError, match="get_wmma_fill_intrin: no fragments of float64; known: float16, bfloat16, "):
        cuda.get_wmma_fill_intrin(16, 16, 16, "float64")


@T.prim_func
def reads_an_element(x: T.Buffer((16, 16), "float16")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("tile"):
            tile = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
            T.evaluate(T.tvm_load_matrix_sync(tile.data, 16, 16, 16, 0, T.address_of(x[0, 0]), 16, "row_major"))
            x[0, i % 16] = tile[0, i % 16]


@T.prim_func
def other_tile(x: T.Buffer((32, 16), "float16")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("tile"):
            tile = T.alloc_buffer((32, 16), "float16", scope="wmma.matrix_a")
            T.evaluate(T.tvm_load_matrix_sync(tile.data, 32, 8, 16, 0, T.address_of(x[0, 0]), 16, "row_major"))


@T.prim_func
def no_fragments(x: T.Buffer((16, 8), "float16")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("tile"):
            tile = T.alloc_buffer((16, 8), "float16", scope="wmma.matrix_a")
            T.evaluate(T.tvm_fill_fragment(tile.data, 16, 16, 16, 0, T.float32(0)))


@pytest.mark.parametrize("func, message", [
    (reads_an_element, "an element of tile, scope wmma.matrix_a, is used by itself"),
    (other_tile, "tiles of 32 x 8 x 16 have no functions; use 16 x 16 x 16"),
    (no_fragments, r"tile \(wmma.matrix_a\) has 128 elements, which are no fragments of 16 x 16"),
], ids=lambda x: getattr(x, "__name__", None))
def test_what_is_no_fragment_is_refused(func, message):
    with pytest.raises(FragmentError, match=message):
        lowered(func, *LOOPS, "FlattenBuffer", "InferFragment")


@T.prim_func
def by_hand(a: T.Buffer((16, 16), "float16"), b: T.Buffer((8, 16), "float16"), c: T.Buffer((16, 8), "float32")):
    """c = a b, with b by columns, as programs in PTX's words have it."""
    T.func_attr({"global_symbol": "by_hand"})
    for lane in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("all"):
            a_shared = T.alloc_buffer((16, 16), "float16", scope="shared")
            x = T.alloc_buffer((8,), "float16", scope="local")
            y = T.alloc_buffer((4,), "float16", scope="local")
            z = T.alloc_buffer((4,), "float32", scope="local")
            for i in range(4):
                z[i] = T.float32(0)
            for i in range(8):
                y[i % 4] = b[lane // 4, lane % 4 * 2 + i % 2 + i % 4 // 2 * 8]
            T.ptx_cp_async("float16", a_shared.data, lane * 8, a.data, lane * 8, 16)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.tvm_storage_sync("shared")
            T.ptx_ldmatrix(False, 4, ".b16", x.data, 0, a_shared.data, lane % 16 * 16 + lane // 16 * 8,
                           dtype="float16")
            T.ptx_mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", x.data, 0, y.data, 0, z.data, 0, False,
                      dtype="float32")
            for i in range(4):
                c[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = z[i]


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late", "shuffled"])
def test_operations_in_ptxs_words(policy):
    built = tvm.build(by_hand, "cuda")
    source = built.imported_modules[0].get_source()
    for name in ("ingot_cp_async16", "ingot_ldmatrix_x4", "ingot_mma_m16n8k16_f16_f32"):
        assert f"{name}(" in source
    compiles(built)
    a, b = ints((16, 16), np.float16), ints((8, 16), np.float16, 1)
    *_, c = emulated(built, a, b, np.zeros((16, 8), np.float32), policy=policy)
    np.testing.assert_array_equal(c, (a @ b.T).astype(np.float32))


def test_products_that_there_are_not():
    text = by_hand.script().replace('"m16n8k16"', '"m8n8k4"')
    with pytest.raises(FragmentError, match="there is no ptx_mma m8n8k4 row col of fp16 and fp16 with sums of fp32; "
                                            "known, of row and col: m16n8k16 bf16 f32, "):
        tvm.build(from_source(text), "cuda")
