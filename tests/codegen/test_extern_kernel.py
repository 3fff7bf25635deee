"""A C micro-kernel brought in by tensorize: the printed function calls it with pointers and strides, and computes the
same."""
import numpy as np
import pytest
from c_build import COMPILERS, call, compile_text, source
from interp import run

from ingot.codegen.c_function import print_function
from ingot.ir import te, tir
from ingot.ir.schedule import Schedule, TensorIntrin
from ingot.ir.transform.pipeline import lower_prim_func

KERNEL = """
static void tile_4x8x4(const float *a, int32_t lda, const float *b, int32_t ldb, float *c, int32_t ldc)
{
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 4; ++k)
            for (int j = 0; j < 8; ++j)
                c[i * ldc + j] += a[i * lda + k] * b[k * ldb + j];
}
"""


def matmul(m, n, k):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], r), name="C")])


def update():
    """The computation of the kernel: a product added to C."""
    func = matmul(4, 8, 4)
    sch = Schedule(func)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    return func.with_root_body(sch.func.root.body.seq[1])


def kernel_call():
    """The call, with the row strides of the tiles."""
    buffers, arguments = [], []
    for name, shape in (("A", (4, 4)), ("B", (4, 8)), ("C", (4, 8))):
        stride = tir.Var("s_" + name)
        buffers.append(tir.decl_buffer(shape, name=name, strides=(stride, 1)))
        arguments += [tir.address_of(buffers[-1][0, 0]), stride]
    return tir.prim_func(buffers, tir.Evaluate(tir.call_extern("int32", "tile_4x8x4", *arguments)))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("local", [False, True])
def test_a_kernel_in_c(compiler, local, tmp_path):
    """local: the result is made in a temporary, which must keep its shape because its address is taken."""
    TensorIntrin.register("extern.tile_4x8x4", update(), kernel_call(), override=True)
    func = matmul(12, 24, 8)
    sch = Schedule(func)
    if local:
        sch.cache_write("C", 0, "global")
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(sch.get_loops("C"), (4, 8, 4))]
    outer, inner = zip(*pairs)
    sch.reorder(*outer, *inner)
    sch.decompose_reduction("C", outer[2])
    sch.tensorize(inner[0], "extern.tile_4x8x4")
    lowered = lower_prim_func(sch.func)
    printed = print_function(lowered, "product")
    assert "tile_4x8x4(&A[" in printed.body
    text = source([printed]).replace("#include \"ingot.h\"", "#include \"ingot.h\"" + KERNEL, 1)
    library = compile_text(text, tmp_path, compiler)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((12, 8), (8, 24), (12, 24))]
    expected = [a.copy() for a in arrays]
    run(func, *expected)
    call(library, lowered, "product", arrays)
    np.testing.assert_allclose(arrays[2], expected[2], rtol=1e-5, atol=1e-5)
