"""The course's lesson on hardware: a block of the product becomes a call of a micro-kernel written in C."""
import numpy as np

import ingot as tvm
from ingot import te, tir
from ingot.script import tir as T

MICRO_KERNEL = """
/* c[4][16] += a[4][K] b[K][16], with the distance between rows of each. */
static void micro_4x16(float *c, const float *a, const float *b, int32_t lda, int32_t ldb, int32_t ldc, int32_t depth)
{
    for (int32_t k = 0; k < depth; ++k)
        for (int32_t i = 0; i < 4; ++i)
            for (int32_t j = 0; j < 16; ++j)
                c[i * ldc + j] += a[i * lda + k] * b[k * ldb + j];
}
"""
DEPTH = 32


@T.prim_func
def product_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 32), offset_factor=1)
    B = T.match_buffer(b, (32, 16), offset_factor=1)
    C = T.match_buffer(c, (4, 16), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:16], A[0:4, 0:32], B[0:32, 0:16])
        T.writes(C[0:4, 0:16])
        for i, j, k in T.grid(4, 16, 32):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def product_impl(a: T.handle, b: T.handle, c: T.handle):
    sa, sb, sc = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (4, 32), offset_factor=1, strides=[sa, 1])
    B = T.match_buffer(b, (32, 16), offset_factor=1, strides=[sb, 1])
    C = T.match_buffer(c, (4, 16), offset_factor=1, strides=[sc, 1])
    with T.block("root"):
        T.reads(C[0:4, 0:16], A[0:4, 0:32], B[0:32, 0:16])
        T.writes(C[0:4, 0:16])
        T.evaluate(T.call_extern("void", "micro_4x16", C.access_ptr("rw"), A.access_ptr("r"), B.access_ptr("r"),
                                 sa, sb, sc, 32))


tir.TensorIntrin.register("course.product_4x16x32", product_desc, product_impl)


def product(m, n, k):
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")])


def check(mod, m, n, k):
    rng = np.random.default_rng(2)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = tvm.nd.empty((m, n))
    built = tvm.build(mod, target="c")
    built(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
    return built


def test_blockize_and_tensorize():
    sch = tir.Schedule(product(64, 48, 96))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i, ii), (j, ji), (k, ki) = (sch.split(loop, factors=[None, f]) for loop, f in ((i, 4), (j, 16), (k, DEPTH)))
    sch.reorder(i, j, k, ii, ji, ki)
    outer = sch.blockize(ii)
    assert sch.get(outer).name_hint == "C_o"
    sch.decompose_reduction(outer, k)
    sch.tensorize(sch.get_block("C_o_update"), "course.product_4x16x32")
    sch.annotate(i, "pragma_import_c", MICRO_KERNEL)
    built = check(sch.mod, 64, 48, 96)
    source = built.get_source()
    assert source.count("static void micro_4x16(") == 1 and "micro_4x16(&C[" in source


def test_sizes_that_do_not_divide_are_padded():
    m, n, k = 30, 45, 70
    sch = tir.Schedule(product(m, n, k))
    block = sch.get_block("C")
    sch.pad_einsum(block, [4, 16, DEPTH])
    i, j, r = sch.get_loops(block)
    (i, ii), (j, ji), (r, ri) = (sch.split(loop, factors=[None, f]) for loop, f in ((i, 4), (j, 16), (r, DEPTH)))
    sch.reorder(i, j, r, ii, ji, ri)
    sch.decompose_reduction(block, r)
    sch.tensorize(ii, "course.product_4x16x32")
    sch.annotate(i, "pragma_import_c", MICRO_KERNEL)
    assert "micro_4x16(" in check(sch.mod, m, n, k).get_source()
