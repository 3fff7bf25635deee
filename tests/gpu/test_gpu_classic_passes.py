"""Passes over threads that scripts call, in TVM's form: what each makes of a program, and what it computes."""
import numpy as np
import pytest
from interp import run_threads

import ingot as tvm
from ingot.ir.expr import Call
from ingot.ir.node import collect
from ingot.ir.tir.device_ops import ALLREDUCE
from ingot.ir.transform.classic import CLASSIC
from ingot.script import tir as T

TO_LOOPS = ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque", "LowerOpaqueBlock",
            "UnifyThreadBinding", "ThreadSync", "FlattenBuffer")


def lowered(func):
    """The program by itself, and as loops in which threads have joined what they reduced."""
    first = CLASSIC["LowerCrossThreadReduction"]()(tvm.IRModule({"main": func}))
    passes = [getattr(tvm.tir.transform, name)() for name in TO_LOOPS]
    made = tvm.transform.Sequential([*passes, tvm.tir.transform.LowerThreadAllreduce(active=False)])(first)
    return first["main"], made["main"]


def rows(scope, within):
    """Sums of rows by threads; the result in a buffer of `scope`. within: a predicate of the block."""
    @T.prim_func
    def func(A: T.Buffer((6, 60), "float32"), B: T.Buffer((6,), "float32")):
        total = T.alloc_buffer((6,), scope=scope)
        for i in T.thread_binding(6, "blockIdx.x"):
            for ko in range(2):
                for ki in T.thread_binding(32, "threadIdx.x"):
                    with T.block("sum"):
                        vi = T.axis.spatial(6, i)
                        vk = T.axis.reduce(60, ko * 32 + ki)
                        T.where(ko * 32 + ki < within)
                        with T.init():
                            total[vi] = T.float32(0)
                        total[vi] = total[vi] + A[vi, vk]
            with T.block("add"):
                vi = T.axis.spatial(6, i)
                B[vi] = total[vi] + T.float32(1)
    return func


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_threads_join_what_they_reduced(scope):
    func = rows(scope, 60)
    first, loops = lowered(func)
    blocks = {b.name_hint: b for b in collect(first.body, tvm.tir.Block)}
    assert {"sum_in_thread_init", "sum_in_thread", "sum_cross_thread", "sum_write_back"} <= set(blocks)
    assert [b.name for b in first.root.alloc_buffers] == ["total", "cross_thread_total", "in_thread_total"]
    (call,) = [c for c in collect(first.body, Call) if c.op == ALLREDUCE]
    assert call.args[0].value == 1 and call.args[-1].name == "ki"
    bound = [x.thread_binding for x in collect(first.body, tvm.tir.For) if x.kind == "thread_binding"]
    assert bound.count("threadIdx.x") == (2 if scope == "local" else 1)  # the first thread alone adds
    if scope == "local":
        a, b = np.random.default_rng(0).standard_normal((6, 60)).astype(np.float32), np.zeros(6, np.float32)
        run_threads(loops, a.reshape(-1), b)
        np.testing.assert_allclose(b, a.sum(1) + 1, rtol=1e-5, atol=1e-5)


def test_a_term_of_each_thread_needs_no_register():
    @T.prim_func
    def func(A: T.Buffer((6, 32), "float32"), B: T.Buffer((6,), "float32")):
        for i in T.thread_binding(6, "blockIdx.x"):
            for k in T.thread_binding(32, "threadIdx.x"):
                with T.block("most"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.min_value("float32")
                    B[vi] = T.max(B[vi], A[vi, vk])

    first, loops = lowered(func)
    assert [b.name for b in first.root.alloc_buffers] == ["cross_thread_B"]
    a, b = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32), np.zeros(6, np.float32)
    run_threads(loops, a.reshape(-1), b)
    np.testing.assert_array_equal(b, a.max(1))


def test_reductions_that_threads_cannot_join():
    def reduced(axis, deeper):
        @T.prim_func
        def func(A: T.Buffer((6, 32), "float32"), B: T.Buffer((6,), "float32")):
            for i in range(1 if deeper else 6):
                for k in T.thread_binding(32, axis):
                    for j in range(6 if deeper else 1):
                        with T.block("sum"):
                            vi = T.axis.spatial(6, i + j)
                            vk = T.axis.reduce(32, k)
                            with T.init():
                                B[vi] = T.float32(0)
                            B[vi] = B[vi] + A[vi, vk]
        return func

    with pytest.raises(ValueError, match="loop k is bound to blockIdx.x; bind it to threadIdx"):
        lowered(reduced("blockIdx.x", False))
    with pytest.raises(ValueError, match="loop j below its reduction does not reduce; reorder it outside"):
        lowered(reduced("threadIdx.x", True))


def test_metal_has_no_masks():
    """The shuffles of a target without masks get none."""
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"target": T.target({"kind": "metal"})})
        tx = T.launch_thread("threadIdx.x", 64)
        total = T.decl_buffer((1,), scope="local")
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), A[tx], T.bool(True), total[0], tx)
        if tx == 0:
            B[0] = total[0]

    for metal, masks in ((func, 0), (func.without_attr("target"), 2)):
        made = tvm.tir.transform.LowerThreadAllreduce()(tvm.IRModule({"main": metal}))["main"]
        assert str(made).count("T.tvm_warp_activemask()") == masks and str(made).count("shuffle_down") == 6
