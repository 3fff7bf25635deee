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


@T.prim_func
def softmax(A: T.Buffer((6, 70), "float32"), Y: T.Buffer((6, 70), "float32")):
    top, e, total = T.alloc_buffer((6,)), T.alloc_buffer((6, 70)), T.alloc_buffer((6,))
    for i, k in T.grid(6, 70):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.float32(-1e30)
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(6, 70):
        with T.block("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            e[vi, vk] = T.exp(A[vi, vk] - top[vi])
    for i, k in T.grid(6, 70):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + e[vi, vk]
    for i, k in T.grid(6, 70):
        with T.block("Y"):
            vi, vk = T.axis.remap("SS", [i, k])
            Y[vi, vk] = e[vi, vk] / total[vi]


@T.prim_func
def by_rows(A: T.Buffer((48, 64), "float32"), x: T.Buffer((64,), "float32"), Y: T.Buffer((1, 48), "float32")):
    s = T.alloc_buffer((1, 48))
    for u, i, k in T.grid(1, 48, 64):
        with T.block("s"):
            vu, vi, vk = T.axis.remap("SSR", [u, i, k])
            with T.init():
                s[vu, vi] = T.float32(0)
            s[vu, vi] = s[vu, vi] + A[vi, vk] * x[vk]
    for u, i in T.grid(1, 48):
        with T.block("Y"):
            vu, vi = T.axis.remap("SS", [u, i])
            Y[vu, vi] = s[vu, vi] + T.float32(1)


@T.prim_func
def across_rows(A: T.Buffer((64, 48), "float32"), x: T.Buffer((64,), "float32"), Y: T.Buffer((48,), "float32")):
    for i, k in T.grid(48, 64):
        with T.block("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + A[vk, vi] * x[vk]


@T.prim_func
def turned(A: T.Buffer((20, 33), "float32"), Y: T.Buffer((33, 20), "float32")):
    twice = T.alloc_buffer((20, 33))
    for i, j in T.grid(20, 33):
        with T.block("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            twice[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(33, 20):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = twice[vj, vi]


@T.prim_func
def copied_twice(A: T.Buffer((1, 6, 1, 8), "float32"), Y: T.Buffer((1, 48), "float32")):
    B = T.alloc_buffer((1, 1, 6, 8))
    for i, j, k, l in T.grid(1, 1, 6, 8):
        with T.block("B"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            B[vi, vj, vk, vl] = A[vi, vk, vj, vl]
    for i, j in T.grid(1, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = B[0, 0, vj // 8, vj % 8]


def _softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


RULES = {  # rule: program, inputs, what it computes, what its schedule has
    "GeneralReduction": (softmax, [(6, 70)], _softmax, 'scope="shared"'),
    "Reduction": (by_rows, [(48, 64), (64,)], lambda a, x: (a @ x + 1)[None], "decompose_reduction"),
    "Reduction across": (across_rows, [(64, 48), (64,)], lambda a, x: x @ a, 'thread="threadIdx.y"'),
    "Transpose": (turned, [(20, 33)], lambda a: 2 * a.T, "buffer_dim_align"),
    "Fallback": (copied_twice, [(1, 6, 1, 8)], lambda a: a.reshape(1, 48), "A[0, v // 8, 0, v % 8]"),
}


@pytest.mark.parametrize("case", RULES)
def test_rules_by_name_give_their_steps(case):
    """No step is refused: the schedule is that of the steps, not of a rule behind them."""
    func, _, _, has = RULES[case]
    rule = getattr(dl.gpu, case.split()[0])()
    sch = rule.steps(tvm.tir.Schedule(func), tvm.target.Target("cuda"))
    text = sch.mod.script().replace("vj", "v") + str(sch.trace)
    assert has in text and 'thread="blockIdx.x"' in text
    assert rule.apply(func, tvm.target.Target("c"), False) is None and rule.apply(None, None, False) is None


@needs_emulator
@pytest.mark.parametrize("case", RULES)
def test_rules_by_name_run(case):
    func, shapes, computes, _ = RULES[case]
    with tvm.target.Target("cuda"):
        mod = dl.ApplyDefaultSchedule(getattr(dl.gpu, case.split()[0])())(tvm.IRModule({"main": func}))
        assert mod["main"].attrs["tir.is_scheduled"] == 1
        built = tvm.build(mod, target="cuda")
    arrays = [ints(shape, seed=n) for n, shape in enumerate(shapes)]
    want = computes(*arrays).astype(np.float32)
    np.testing.assert_allclose(emulated(built, *arrays, np.zeros_like(want))[-1], want, rtol=1e-5)
