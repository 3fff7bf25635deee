"""Sums of loops in registers, and loops of rows that threads join in shared memory without conflicts."""
import numpy as np
from gpu_modules import emulated, ints, needs_emulator

import ingot as tvm
from ingot.script import tir as T


def source(mod):
    return mod.imported_modules[0].get_source()


@needs_emulator
def test_what_a_loop_adds_to_one_element_is_added_up_in_a_register():
    @T.prim_func
    def sums(x: T.Buffer((8, 5, 6), "float32"), y: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32")):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            y[t] = T.float32(1)
            for i in range(5):
                for j in range(6):
                    y[t] = y[t] + x[t, i, j]
            for k in range(5):
                z[t] = T.max(z[t], x[t, k, 0] + y[t])
    mod = tvm.build(sums, target="cuda")
    text = source(mod)
    assert text.count("y_own += ") == 1 and "y_own = 1.0f;" in text and text.count("y[tx] = ") == 1
    assert text.count("z_own = ") == 2 and text.count("z[tx] = z_own") == 1
    x, z = ints((8, 5, 6)), ints(8, seed=2)
    _, y, made = emulated(mod, x, np.zeros(8, "float32"), z)
    np.testing.assert_array_equal(y, 1 + x.sum((1, 2)))
    np.testing.assert_array_equal(made, np.maximum(z, (x[:, :, 0] + y[:, None]).max(1)))


@needs_emulator
def test_what_a_loop_reads_elsewhere_or_never_runs_stays_in_memory():
    @T.prim_func
    def scans(x: T.Buffer((8, 4), "float32"), y: T.Buffer((9,), "float32"), n: T.int32):
        for t in T.thread_binding(1, thread="threadIdx.x"):
            for i in range(8):
                y[i + 1] = y[i] + x[i, 0]
            for j in range(4):
                y[8] = y[8] + y[j]
            for k in range(n):
                y[7] = y[7] + x[k, 1]
    mod = tvm.build(scans, target="cuda")
    assert "_own" not in source(mod)
    x = ints((8, 4))
    _, y = emulated(mod, x, np.zeros(9, "float32"), 0)
    expected = np.concatenate([[0], x[:, 0].cumsum()]).astype("float32")
    expected[8] += expected[:4].sum()
    np.testing.assert_array_equal(y, expected)


@needs_emulator
def test_rows_of_threads_join_side_by_side():
    @T.prim_func
    def columns(x: T.Buffer((64, 32), "float32"), y: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for k in T.thread_binding(16, thread="threadIdx.y"):
                for j in range(4):
                    with T.block("sum"):
                        v = T.axis.spatial(32, tx)
                        r = T.axis.reduce(64, k * 4 + j)
                        with T.init():
                            y[v] = T.float32(0)
                        y[v] = y[v] + x[r, v]
    mod = tvm.build(columns, target="cuda")
    assert "y_partial_shared[ty * 32 + tx] = " in source(mod)
    x = ints((64, 32))
    _, y = emulated(mod, x, np.zeros(32, "float32"))
    np.testing.assert_array_equal(y, x.sum(0))
