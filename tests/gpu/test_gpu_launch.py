"""Targets that are GPUs, and lowered functions as kernels with launches."""
import numpy as np
import pytest
from gpu_modules import emulated, needs_emulator

import ingot as tvm
from ingot.codegen.target import Target
from ingot.ir.target import Limits, TargetError
from ingot.ir.transform.gpu.launch import LaunchError, device_kernels
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for
from ingot.script import tir as T

LIMITS = Limits()


@pytest.mark.parametrize("name, row", [
    ("cuda", "cuda"), ("cuda -arch=sm_80", "cuda-sm_80"), ("cuda -arch=sm_90", "cuda-sm_90a"),
    ({"kind": "cuda", "arch": "sm_90a"}, "cuda-sm_90a"), ("nvidia/nvidia-a100", "cuda-sm_80"),
    ("nvidia/nvidia-h100", "cuda-sm_90a"), ("nvidia/geforce-rtx-3090", "cuda-sm_80"), ("opencl", "opencl")])
def test_names_of_devices(name, row):
    target = Target.get(name)
    assert target.name == row and target.launch is not None and target.kind in ("cuda", "opencl")


@pytest.mark.parametrize("name, message", [
    ("cuda -arch=sm_70", "no code for -arch 'sm_70'; known: sm_80"), ("nvidia/nvidia-v100", "no code for nvidia-v100"),
    ("cuda -speed=9", "the flag -speed is not known")])
def test_unknown_devices_are_refused_with_the_known_ones(name, message):
    with pytest.raises(TargetError, match=message):
        Target.get(name)


def kernels(func, limits=LIMITS):
    return device_kernels(lower_prim_func(func, pipeline_for("cuda")), limits)


@T.prim_func
def two_nests(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32"), n: T.int64):
    T.func_attr({"tir.noalias": True})
    C = T.alloc_buffer((100,), "float32")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(25, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(100, bx * 25 + tx)
                C[v] = A[v] * 2.0
    for bx in T.thread_binding(100, thread="blockIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(100, bx)
            B[v] = C[99 - v] + 1.0


def test_each_nest_is_a_kernel_of_what_it_uses():
    first, second = kernels(two_nests)
    assert [[e.value for e in k.grid] for k in (first, second)] == [[4, 1, 1], [100, 1, 1]]
    assert (first.threads, second.threads) == (25, 1)
    assert [b.name for b in first.func.buffers] == ["A", "C"] and [b.name for b in second.func.buffers] == ["B", "C"]


@T.prim_func
def under_a_condition(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((1,), "int32")):
    if C[0] > 0:
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            B[bx] = A[bx] * 2.0
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            A[bx] = B[63 - bx] + 1.0


def test_nests_that_a_tensor_decides_together_are_kernels_that_each_ask_it():
    first, second = kernels(under_a_condition)
    assert [b.name for b in first.func.buffers] == ["A", "B", "C"] == [b.name for b in second.func.buffers]
    assert [k.grid[0].value for k in (first, second)] == [64, 64]
    assert str(first.func).count("if C[") == str(second.func).count("if C[") == 1


@T.prim_func
def of_what_they_change(A: T.Buffer((64,), "float32"), C: T.Buffer((1,), "int32"), n: T.int32):
    if C[0] > 0:
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            A[bx] = A[bx] * 2.0
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            C[tx] = C[0] - n
    else:
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            A[tx] = T.float32(7)


def test_what_kernels_change_is_asked_once_before_them():
    asked, *others = kernels(of_what_they_change)
    assert [b.name for b in asked.func.buffers] == ["C", "holds"] and asked.threads == 1
    assert len(others) == 3 and all("holds" in [b.name for b in k.func.buffers] for k in others)


@T.prim_func
def of_an_element(A: T.Buffer((64,), "float32"), I: T.Buffer((2,), "int32")):
    k: T.int32 = I[1]
    if I[0] < k:
        if A[k] > T.float32(0):
            for bx in T.thread_binding(64, thread="blockIdx.x"):
                A[bx] = A[bx] - T.Cast("float32", k)
            for tx in T.thread_binding(2, thread="threadIdx.x"):
                I[tx] = I[tx] + k
    else:
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            A[bx] = T.float32(-1)


@needs_emulator
@pytest.mark.parametrize("c, wanted", [(3, (2 * np.arange(64), 1)), (0, (np.full(64, 7), 0))])
def test_kernels_under_a_condition_run(c, wanted):
    built = tvm.build(of_what_they_change, target="cuda")
    a, left = emulated(built, np.arange(64, dtype=np.float32), np.array([c], np.int32), np.int32(2))
    np.testing.assert_array_equal(a, wanted[0])
    assert left == wanted[1]


@needs_emulator
@pytest.mark.parametrize("i, wanted, left", [([0, 5], np.arange(64) - 5, [5, 10]), ([0, 0], np.full(64, -1), [0, 0]),
                                             ([-1, 0], np.arange(64), [-1, 0])])
def test_conditions_inside_of_conditions_run(i, wanted, left):
    a, numbers = emulated(tvm.build(of_an_element, target="cuda"), np.arange(64, dtype=np.float32), np.int32(i))
    np.testing.assert_array_equal(a, wanted)
    np.testing.assert_array_equal(numbers, left)


@T.prim_func
def in_a_loop(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for t in range(3):
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            B[bx] = A[bx] * 2.0
        for bx in T.thread_binding(64, thread="blockIdx.x"):
            A[bx] = B[bx] + T.Cast("float32", t)


def test_nests_that_a_loop_runs_in_turns_are_refused():
    with pytest.raises(LaunchError, match="loops bx and bx.* are bound to blocks one after the other in a loop"):
        kernels(in_a_loop)


@T.prim_func
def wide(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(1024, thread="threadIdx.x"):
            for i in range(2):
                with T.block("B"):
                    v = T.axis.spatial(4096, ty * 2048 + tx * 2 + i)
                    B[v] = A[v]


def test_more_threads_than_a_block_has_are_refused_by_loop_and_number():
    with pytest.raises(LaunchError, match=r"the number of threads of a block \(loops (ty, tx|tx, ty)\) is 2048, "
                                          r"and .* 1024"):
        kernels(wide)
    with pytest.raises(LaunchError, match=r"threadIdx.x \(loop tx\) is 1024, and the device has 256"):
        kernels(wide, Limits(block=(256, 256, 64)))
