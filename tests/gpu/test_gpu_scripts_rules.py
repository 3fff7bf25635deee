"""Whole modules scheduled for GPUs by one call: DefaultGPUSchedule, and the rules of dlight."""
import numpy as np
import pytest
from gpu_modules import emulated, ints, needs_emulator

import ingot as tvm
from ingot import dlight as dl
from ingot.script import ir as I, tir as T
from ingot.tir.transform import DefaultGPUSchedule


@I.ir_module
class Programs:
    @T.prim_func
    def matmul(A: T.Buffer((40, 24), "float32"), B: T.Buffer((24, 48), "float32"), C: T.Buffer((40, 48), "float32")):
        for i, j, k in T.grid(40, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func
    def total(A: T.Buffer((2, 3), "float32"), B: T.Buffer((), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("RR", [i, j])
                with T.init():
                    B[()] = T.float32(0)
                B[()] = B[()] + A[vi, vj]

    @T.prim_func
    def copied(a: T.handle, b: T.handle):
        m, n = T.int64(), T.int64()
        A, B = T.match_buffer(a, (m, n)), T.match_buffer(b, (m, n))
        for i, j in T.grid(m, n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func
    def on_the_cpu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm")})
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]


def only(mod, name):
    return tvm.IRModule({name: mod[name]})


def test_every_element_has_a_thread():
    with tvm.target.Target("cuda"):
        done = DefaultGPUSchedule()(Programs)
    assert all(f.attrs["tir.is_scheduled"] for f in done.functions.values())
    text = done["matmul"].script()
    assert 'T.thread_binding(2, thread="blockIdx.x")' in text and 'T.thread_binding(1024, thread="threadIdx.x")' in text
    assert 'T.thread_binding(T.int64(256), thread="blockIdx.x")' in done["copied"].script()
    assert done["on_the_cpu"].without_attr("tir.is_scheduled") == Programs["on_the_cpu"] or (
        "thread" not in done["on_the_cpu"].script())
    assert DefaultGPUSchedule()(done)["matmul"] is not None  # what is scheduled stays as it is, without a target
    with pytest.raises(ValueError, match="the function matmul has no target: write `with tvm.target.Target"):
        DefaultGPUSchedule()(only(Programs, "matmul"))


@needs_emulator
@pytest.mark.parametrize("schedule", [DefaultGPUSchedule(), dl.ApplyDefaultSchedule(
    dl.gpu.Matmul(), dl.gpu.Reduction(), dl.gpu.Fallback())], ids=["default", "dlight"])
def test_scheduled_modules_run(schedule):
    with tvm.target.Target("cuda"):
        mods = {name: tvm.build(schedule(only(Programs, name)), target="cuda")
                for name in ("matmul", "total", "copied")}
    a, b = ints((40, 24)), ints((24, 48), seed=1)
    *_, c = emulated(mods["matmul"], a, b, np.zeros((40, 48), np.float32))
    np.testing.assert_array_equal(c, a @ b)
    x = ints((2, 3))
    np.testing.assert_array_equal(emulated(mods["total"], x, np.zeros((), np.float32))[1], x.sum())
    np.testing.assert_array_equal(emulated(mods["copied"], x, np.zeros_like(x))[1], x + 1)


def test_rules_of_a_script_and_what_none_fits():
    class Serial(dl.ScheduleRule):
        def apply(self, func, target, tunable):
            sch = tvm.tir.Schedule(func)
            blocks = [b for b in ("C", "B") if f'T.block("{b}")' in func.script()]
            sch.annotate(blocks[0], "mine", 1)
            return sch if blocks == ["C"] else None

    with tvm.target.Target("cuda"):
        done = dl.ApplyDefaultSchedule(Serial())(Programs)
    assert '"mine"' in done["matmul"].script() and done["matmul"].attrs["tir.is_scheduled"]
    assert done["total"] is Programs["total"]
    with pytest.raises(ValueError, match="no target is current"):
        dl.ApplyDefaultSchedule(dl.gpu.Fallback())(Programs)
    assert {"Matmul", "GEMV", "Reduction", "GeneralReduction", "RMSNorm", "Transpose", "Fallback",
            "LowBatchGEMV"} <= set(dl.gpu.__all__)
