"""VectorizeLoop of scripts: vectors of any statement that has them, serial loops of the others, the same results."""
import numpy as np
import pytest
from tir_cases import assert_same_results, results

import ingot as tvm
from ingot.codegen.c_types import UnsupportedType
from ingot.ir.expr import Broadcast, Ramp
from ingot.ir.node import collect
from ingot.ir.tir import For, IfThenElse
from ingot.ir.transform.classic import CLASSIC
from ingot.script import tir as T


def vectorized(func, predicate=False):
    with tvm.transform.PassContext(config={"tir.enable_buffer_level_predication": predicate}):
        return CLASSIC["VectorizeLoop"]()(tvm.IRModule({"main": func}))["main"]


@T.prim_func
def statements(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((2,), "float32"), n: T.int32):
    for i in T.vectorized(16):
        twice: T.float32 = A[i] * T.float32(2)
        B[i] = T.if_then_else(n > 3, T.exp(twice), T.Cast("float32", 3 * i - n))
        A[15 - i] = T.Select(i < n, A[15 - i], T.float32(-1))
        with T.decl_buffer((2,), "float32") as own:
            own[0] = B[i]
            own[1] = T.max(own[0], T.float32(0))
            for k in range(2):
                B[i] = B[i] + own[k]
    for i in T.vectorized(16):
        C[0] = C[0] + A[i]
        if i < n:
            C[1] = A[i]
    for i, j in T.grid(4, 4):
        for k in T.vectorized(1):
            B[i * 4 + j] = B[i * 4 + j] + T.Cast("float32", k)


def test_results_stay():
    after = vectorized(statements)
    assert not any(loop.kind == "vectorized" for loop in collect(after.body, For))
    assert all(ramp.lanes == 16 for ramp in collect(after.body, Ramp)) and collect(after.body, Ramp)
    rng = np.random.default_rng(0)
    for n in (2, 9):
        inputs = [rng.standard_normal(size).astype(np.float32) for size in (16, 16, 2)] + [n]
        assert_same_results(results(statements, inputs), after, inputs)


def test_conditions_become_masks():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
        for i in range(4):
            for j in T.vectorized(4):
                if i * 4 + j < n:
                    B[i * 4 + j] = A[i * 4 + j] + T.float32(1)

    masked = vectorized(before, predicate=True)
    assert not collect(masked.body, IfThenElse)
    for n in (-1, 6, 16):
        inputs = [np.arange(16, dtype=np.float32), np.zeros(16, np.float32), n]
        for after in (masked, vectorized(before)):
            assert_same_results(results(before, inputs), after, inputs)
    with pytest.raises(ValueError, match="get_active_lane_mask of where it begins"):
        A = before.buffer_map[before.params[0]]
        A.vload([T.Ramp(0, 1, 4)], predicate=T.get_active_lane_mask("uint1x4", 1, 3))


def test_scalable_vectors():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in T.vectorized(T.vscale() * 4):
            A[i] = A[i] + T.float32(1)

    with tvm.target.Target("llvm -mtriple=aarch64-linux-gnu"):
        after = vectorized(before)
    [*_, ones] = collect(after.body, Broadcast)
    assert ones.dtype == "float32xvscalex4" and "T.Broadcast(T.float32(1.0), T.vscale() * 4)" in after.script()
    tvm.ir.assert_structural_equal(tvm.script.from_source(after.script()), after)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(after)), after)
    with pytest.raises(ValueError, match="Failed to vectorize loop with extent"):
        vectorized(before)
    with pytest.raises(UnsupportedType, match="no vector of float32xvscalex4"):
        tvm.compile(after, target="c")


def test_while_loops_are_refused():
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.vectorized(4):
            while A[i] < 3:
                A[i] = A[i] + 1

    with pytest.raises(ValueError, match="A while loop inside a vectorized loop not supported"):
        vectorized(before)


def test_masks_of_scalable_vectors_need_no_setting():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.int32):
        for i in T.vectorized(T.vscale() * 4):
            if i < n:
                A[i] = T.float32(2)

    with tvm.target.Target("llvm -mtriple=aarch64-linux-gnu"):
        after = CLASSIC["VectorizeLoop"]()(tvm.IRModule({"main": before}))["main"]
        serial = vectorized(before, predicate=False)
    assert not collect(after.body, (For, IfThenElse)) and after.body.indices[0].count is not None
    assert collect(serial.body, For)


def test_instructions_of_llvm_take_vectors():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.vectorized(8):
            A[i] = T.call_llvm_pure_intrin("float32", "llvm.pow", T.uint32(2), B[i], T.float32(3))

    call = vectorized(before).body.value
    assert [a.dtype for a in call.args[1:]] == ["uint32", "float32x8", "float32x8"] and call.dtype == "float32x8"
