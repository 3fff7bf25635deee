"""The course, first lesson: a vector sum described, scheduled, built, called and printed."""
import numpy as np

import ingot as tvm
from ingot import te
from ingot.script import ir as I, tir as T


@I.ir_module
class VectorAdd:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (100,), "float32")
        B = T.match_buffer(b, (100,), "float32")
        C = T.match_buffer(c, (100,), "float32")
        for i in range(100):
            with T.block("C"):
                vi = T.axis.spatial(100, i)
                C[vi] = A[vi] + B[vi]


def add(built, n, dtype="float32"):
    a = tvm.nd.array(np.arange(n).astype(dtype))
    b = tvm.nd.array(np.full(n, 2, dtype))
    c = tvm.nd.array(np.zeros(n, dtype))
    built(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())


def test_from_script():
    sch = tvm.tir.Schedule(VectorAdd)
    loop, = sch.get_loops(sch.get_block("C"))
    _, inner = sch.split(loop, factors=[None, 8])
    sch.vectorize(inner)
    built = tvm.build(sch.mod, target="c")
    assert built.entry_name == "main"
    add(built, 100)
    add(built["main"], 100)
    assert "T.where(i_0 * 8 + i_1 < 100)" in sch.mod.script()
    assert "f32x8_load(&A[" in built.get_source()


def test_of_a_symbolic_length():
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    lowered = tvm.lower(s, [a, b, c], simple_mode=True)
    assert "T.parallel(" in str(lowered)
    built = tvm.build(s, [a, b, c], target="llvm", name="myadd")
    assert "myadd" in built.get_source()
    for size in (1, 63, 64, 1000):
        add(built["myadd"], size)
