"""ManifestSharedMemoryLocalStage: loads to registers, then stores to shared memory."""
import numpy as np
import pytest
from interp import run_threads
from test_classic_passes import done
from tir_cases import arguments

import ingot as tvm
from ingot.ir.node import collect
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.pass_table import TIR
from ingot.script import tir as T

NAME = "ManifestSharedMemoryLocalStage"


@T.prim_func
def copies(A: T.Buffer((4, 24), "float32"), B: T.Buffer((4, 24), "float32"), C: T.Buffer((4, 24), "float32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        for k in range(3):
            with T.block("step"):
                T.reads(A[0:4, k * 8:k * 8 + 8], B[0:4, k * 8:k * 8 + 8])
                T.writes(C[0:4, k * 8:k * 8 + 8])
                A_shared = T.alloc_buffer((4, 8), "float32", scope="shared")
                B_shared = T.alloc_buffer((4, 8), "float32", scope="shared")
                for i in range(1, 3):
                    for v in T.vectorized(4):
                        with T.block("A_shared"):
                            T.where(i * 4 + v - 4 < 7)
                            T.reads(A[tx, k * 8 + i * 4 + v - 4])
                            T.writes(A_shared[tx, i * 4 + v - 4])
                            T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                            A_shared[tx, i * 4 + v - 4] = A[tx, k * 8 + i * 4 + v - 4]
                for i in range(8):
                    with T.block("B_shared"):
                        T.reads(B[tx, k * 8 + i])
                        T.writes(B_shared[tx, i])
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                        B_shared[tx, i] = B[tx, k * 8 + i] * T.float32(2)
                for i in range(7):
                    with T.block("C"):
                        T.reads(A_shared[3 - tx, i], B_shared[tx, 7 - i])
                        T.writes(C[tx, k * 8 + i])
                        C[tx, k * 8 + i] = A_shared[3 - tx, i] + B_shared[tx, 7 - i]


def test_copies_go_through_registers():
    after = done(NAME, copies)
    locals_ = {b.name: [int(n) for n in b.shape] for block in collect(after.body, tvm.tir.Block)
               for b in block.alloc_buffers if b.scope == "local"}
    assert locals_ == {"A_shared_local": [2, 4], "B_shared_local": [8]} and "manifest" not in str(after)
    step, = (b for b in collect(after.body, tvm.tir.Block) if b.name_hint == "step")
    stores = [collect(s, tvm.tir.BufferStore)[0].buffer.name for s in step.body.seq]
    assert stores == ["A_shared_local", "A_shared", "B_shared_local", "B_shared", "C"]
    lowered = Sequential([TIR[n]() for n in ("LowerMatchBuffer", "LowerOpaqueBlock", "ThreadSync")])
    inputs = arguments(copies)
    expected = [x.copy() for x in inputs]
    for name, func in (("before", copies), ("after", after)):
        got = [x.copy() for x in inputs]
        run_threads(lowered(tvm.IRModule({"main": func}))["main"], *got)
        expected = got if name == "before" else expected
        np.testing.assert_array_equal(got[2], expected[2])


def test_what_cannot_go_through_registers():
    @T.prim_func
    def elsewhere(A: T.Buffer((4,), "float32")):
        with T.block("outer"):
            T.reads(A[0:4])
            T.writes()
            S = T.alloc_buffer((4,), "float32", scope="shared")
            for i in T.unroll(4):
                with T.block("S"):
                    T.reads(A[i])
                    T.writes(S[i])
                    T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                    S[i] = A[i]

    @T.prim_func
    def to_global(A: T.Buffer((4,), "float32"), S: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("S"):
                T.reads(A[i])
                T.writes(S[i])
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                S[i] = A[i]

    with pytest.raises(ValueError, match="block S: loop i is unrolled"):
        done(NAME, elsewhere)
    with pytest.raises(ValueError, match="block S: a marked block is a single store to a shared buffer"):
        done(NAME, to_global)
