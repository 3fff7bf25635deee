"""Scheduled GPU programs for the tests of passes, and running them thread by thread in Python."""
import numpy as np
from interp import run_threads
from tir_cases import arguments, matmul_te, results

from ingot.ir.module import IRModule
from ingot.ir.schedule import Schedule
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.pass_table import TIR

LOOPS = ("LowerInitBlock", "RemoveNoOp", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
         "CompactBufferAllocation", "LowerMatchBuffer", "LowerOpaqueBlock")


def lowered(func, *names):
    """`func` after the passes of some names."""
    return verify(Sequential([TIR[n]() for n in names])(IRModule({"main": func}))["main"])


def threads_agree(expected, func, inputs, what="", rtol=2e-6):
    """Run a lowered function thread by thread, first thread first and last thread first, and compare."""
    for backwards in (False, True):
        tensors = [x.copy() for x in inputs if isinstance(x, np.ndarray)]
        run_threads(func, *tensors, *(x for x in inputs if not isinstance(x, np.ndarray)), backwards=backwards)
        for n, (a, b) in enumerate(zip(expected, tensors)):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol, err_msg=f"parameter {n} after {what}\n{func}")


def check(func, scheduled, *more, rtol=2e-6, passes=(*LOOPS, "ThreadSync")):
    """The scheduled function, lowered by `passes`, gives what `func` gives; returns the lowered one."""
    inputs = arguments(func)
    done = lowered(scheduled, *more, *passes)
    threads_agree(results(func, inputs), done, inputs, "lowering", rtol)
    return done


def syncs(func, scope="shared"):
    """How many barriers of a scope the text of a function has."""
    scopes = (scope, "global") if scope == "shared" else (scope,)
    return sum(str(func).count(f'tvm_storage_sync("{s}")') for s in scopes)


def tiled_product(m=16, n=16, k=8, tile=8, step=4):
    """(a product, the same in tiles of shared memory that the threads of a block fill together)."""
    func = matmul_te(m, n, k)
    s = Schedule(func)
    product, relu = s.get_block("matmul"), s.get_block("relu")
    i, j = s.get_loops(relu)
    io, ii = s.split(i, [None, tile])
    jo, ji = s.split(j, [None, tile])
    s.reorder(io, jo, ii, ji)
    for loop, axis in zip((io, jo, ii, ji), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")):
        s.bind(loop, axis)
    s.compute_at(product, ji)
    s.set_scope(product, 0, "local")
    ko, _ = s.split(s.get_loops(product)[-1], [None, step])
    fill_together(s, product, ko, tile)
    return func, s.func


def fill_together(s, product, loop, threads):
    """Inside of a loop, threads x threads threads copy what a product reads to shared memory."""
    for which in (0, 1):
        copy = s.cache_read(product, which, "shared")
        s.compute_at(copy, loop)
        _, ty, tx = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, threads, threads])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
