"""tvm.compile of programs that are no networks."""
import numpy as np
import pytest

import ingot as tvm
from ingot import te
from ingot.script import tir as T


@T.prim_func
def more(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@pytest.mark.parametrize("program", [more, tvm.IRModule({"main": more})], ids=["function", "module"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_program_of_ones_own_is_built(program, target):
    out = tvm.nd.array(np.zeros(8, np.float32))
    tvm.compile(program, target=target)(tvm.nd.array(np.arange(8, dtype=np.float32)), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(8) + 1)


def test_for_a_gpu_the_call_needs_a_device():
    sch = tvm.tir.Schedule(more)
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    built = tvm.compile(sch.mod, target="cuda")
    assert "__global__" in built.imported_modules[0].get_source()


def test_what_an_attribute_is_about():
    ib = tvm.tir.ir_builder.create()
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 4)
    ib.emit(tvm.tir.Evaluate(thread.var))
    assert ib.get().node is thread
