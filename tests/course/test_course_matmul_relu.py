"""The course's second lesson: a product and its activation, moved, cached and split in its reduction."""
import numpy as np
import pytest

import ingot as tvm
from ingot.script import ir as I, tir as T

SIZE = 128


@I.ir_module
class MatmulRelu:
    @T.prim_func
    def mm_relu(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"),
                C: T.Buffer((128, 128), "float32")):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": T.bool(True)})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def run(mod):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, SIZE, SIZE)).astype(np.float32)
    c = tvm.nd.array(np.full((SIZE, SIZE), np.nan, np.float32))
    tvm.build(mod, target="llvm")["mm_relu"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def moved(jfactor):
    """The course's transform: Y and C share the loop over blocks of columns."""
    sch = tvm.tir.Schedule(MatmulRelu)
    block_y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_y)
    j0, j1 = sch.split(j, factors=[None, jfactor])
    sch.reorder(j0, k, j1)
    sch.reverse_compute_at(sch.get_block("C", "mm_relu"), j0)
    return sch, block_y, k


def test_unscheduled():
    run(MatmulRelu)


@pytest.mark.parametrize("jfactor", [4, 8, 24])  # 24 does not divide 128
def test_moved(jfactor):
    sch, block_y, k = moved(jfactor)
    names = [sch.get(loop).loop_var.name for loop in sch.get_loops("C")]
    assert names[:2] == ["i", "j_0"] and len(names) == 3
    run(sch.mod)
    sch.decompose_reduction(block_y, k)
    assert {"Y_init", "Y_update"} <= {sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))}
    run(sch.mod)


def test_the_moved_program_reads_as_the_course_prints_it():
    sch, block_y, k = moved(4)
    sch.decompose_reduction(block_y, k)

    @I.ir_module
    class Expected:
        @T.prim_func
        def mm_relu(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"),
                    C: T.Buffer((128, 128), "float32")):
            T.func_attr({"global_symbol": "mm_relu", "tir.noalias": T.bool(True)})
            Y = T.alloc_buffer((128, 128))
            for i, j_0 in T.grid(128, 32):
                for j_1_init in range(4):
                    with T.block("Y_init"):
                        vi = T.axis.spatial(128, i)
                        vj = T.axis.spatial(128, j_0 * 4 + j_1_init)
                        T.reads()
                        T.writes(Y[vi, vj])
                        Y[vi, vj] = T.float32(0)
                for k, j_1 in T.grid(128, 4):
                    with T.block("Y_update"):
                        vi = T.axis.spatial(128, i)
                        vj = T.axis.spatial(128, j_0 * 4 + j_1)
                        vk = T.axis.reduce(128, k)
                        T.reads(Y[vi, vj], A[vi, vk], B[vk, vj])
                        T.writes(Y[vi, vj])
                        Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
                for ax0 in range(4):
                    with T.block("C"):
                        vi = T.axis.spatial(128, i)
                        vj = T.axis.spatial(128, j_0 * 4 + ax0)
                        T.reads(Y[vi, vj])
                        T.writes(C[vi, vj])
                        C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    tvm.ir.assert_structural_equal(sch.mod, Expected)


def test_compute_at():
    """The other direction: Y moves to where C needs it."""
    sch = tvm.tir.Schedule(MatmulRelu)
    i, j = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 20])
    sch.compute_at("Y", j0)
    sch.vectorize(j1)
    assert [sch.get(loop).extent.value for loop in sch.get_loops("Y")][:2] == [128, 7]
    run(sch.mod)


@pytest.mark.parametrize("factor_axis", [0, 1, 2, -1])
def test_rfactor(factor_axis):
    sch = tvm.tir.Schedule(MatmulRelu)
    *_, k = sch.get_loops("Y")
    ko, ki = sch.split(k, factors=[None, 16])
    rf = sch.rfactor(ki, factor_axis)
    assert sch.get(rf).name_hint == "Y_rf"
    assert sch.get(rf).writes[0].buffer.shape[factor_axis].value == 16
    sch.parallel(sch.get_loops(rf)[0])
    run(sch.mod)
