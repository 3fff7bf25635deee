"""ThreadSync: barriers where threads hand elements on, and only there."""
import random
import textwrap

import numpy as np
import pytest
from gpu_programs import LOOPS, check, lowered, syncs, tiled_product
from interp import DivergenceError, RaceError, run_threads
from test_gpu_random_schedules import PROGRAMS, random_schedule
from tir_cases import arguments

from ingot.ir.node import Mutator, collect
from ingot.ir.script.functions import from_source
from ingot.ir.tir.stmt import DeclBuffer, Evaluate, SeqStmt, seq
from ingot.ir.transform.gpu.barriers import BarrierError
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for
from ingot.script import tir as T


class _Drop(Mutator):
    """Leaves out the n-th barrier."""

    def __init__(self, n):
        self.n = n

    def visit_SeqStmt(self, s):
        kept = []
        for child in s.seq:
            if isinstance(child, Evaluate) and "tvm_storage_sync" in str(child):
                self.n -= 1
                if self.n == -1:
                    continue
            kept.append(self.visit(child))
        return seq(*kept)


@pytest.mark.parametrize("shape", [(16, 16, 8, 8, 4), (13, 9, 10, 8, 4), (8, 8, 6, 4, 2)])
def test_tiles_in_shared_memory(shape):
    func, scheduled = tiled_product(*shape)
    done = check(func, scheduled, rtol=1e-5)
    tile, step = shape[3:]
    assert syncs(done, "shared" if tile == 8 else "warp") == 2, "16 threads are one warp"
    sizes = [[s.value for s in d.buffer.shape] for d in collect(done.body, DeclBuffer) if d.buffer.scope == "shared"]
    assert sorted(sizes) == sorted([[tile, step], [step, tile]])
    for n in range(2):  # each of them is needed
        with pytest.raises((RaceError, DivergenceError)):
            run_threads(done.with_body(_Drop(n).visit(done.body)), *arguments(func))


def test_a_barrier_stays_where_it_is():
    _, scheduled = tiled_product()
    once = lowered(scheduled, *LOOPS, "ThreadSync")
    assert str(lowered(once, "ThreadSync")) == str(once)
    assert collect(once.body, SeqStmt)


# ---------------------------------------------------------------- written by hand

def synced(body, *names):
    """The body of a kernel over x and y of 64 elements with a shared s of 128, after ThreadSync."""
    func = from_source(f"""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        s = T.decl_buffer((128,), "float32", scope="shared")
        for t in T.thread_binding(64, thread="threadIdx.x"):
{textwrap.indent(textwrap.dedent(body), " " * 12)}""", {"T": T})
    done = lowered(func, *names, "ThreadSync")
    x = np.arange(64, dtype=np.float32)
    outs = []
    for backwards in (False, True):
        outs.append(np.zeros(64, np.float32))
        run_threads(done, x, outs[-1], backwards=backwards)
    np.testing.assert_array_equal(*outs)
    return done


@pytest.mark.parametrize("body, block, warp", [
    ("s[t] = x[t]\ny[t] = s[t]", 0, 0),                      # its own
    ("s[t] = x[t]\ny[t] = s[63 - t]", 1, 0),
    ("s[t] = x[t]\ny[t] = s[t // 32 * 32 + (t + 1) % 32]", 0, 1),
    ("s[t] = x[t]\ny[t] = s[(t + 32) % 64]", 1, 0),
    ("s[t] = x[t]\ny[t] = s[T.Cast('int32', x[t])]", 1, 0),    # nobody knows which
    ("for k in range(3):\n    s[t] = x[t]\n    y[t] = s[63 - t]", 2, 0),
    ("for k in range(1):\n    s[t] = x[t]\n    y[t] = s[63 - t]", 1, 0),
    ("for k in range(3):\n    s[t] = x[t] + s[t]\ny[t] = s[63 - t]", 1, 0),
    ("for k in range(4):\n    s[k % 2 * 64 + t] = x[t]", 0, 0),
    ("if b == 0:\n    s[t] = x[t]\n    y[t] = s[63 - t]", 1, 0),
    ("s[t] = x[t]\nT.evaluate(T.tvm_storage_sync('shared'))\ny[t] = s[63 - t]", 1, 0),
    ("s[t] = x[t]\nT.evaluate(T.tvm_storage_sync('warp'))\ny[t] = s[63 - t]", 1, 1),
    ("if t < 16:\n    s[t] = x[t]\nif t >= 48:\n    y[t] = s[t - 48]", 1, 0),
    ("if t < 16:\n    s[t] = x[t]\nif t < 16:\n    y[t] = s[15 - t]", 0, 1),
    ("y[t] = x[t]\nif t > 0 and b == 1:\n    y[t] = y[t] + x[t - 1]", 0, 0),
])
def test_where_barriers_stand(body, block, warp):
    done = synced(body)
    assert (syncs(done), syncs(done, "warp")) == (block, warp), done


def test_two_buffers_in_turn_need_one_barrier_for_each_turn():
    done = synced("for k in range(6):\n    s[k % 2 * 64 + t] = x[k]\n    y[t] = s[k % 2 * 64 + 63 - t]")
    assert syncs(done) + syncs(done, "warp") == 1


@pytest.mark.parametrize("body", [
    "if t < 40:\n    s[t] = x[t]\n    y[t] = s[39 - t]",
    "if t < 40:\n    for k in range(2):\n        s[t] = x[t]\n        y[t] = s[39 - t]",
    "if t < 40:\n    s[t] = x[t]\n    y[t] = s[39 - t]\nelse:\n    y[t] = 0.0",
    "if x[t] < 40.0:\n    s[t] = x[t]\n    y[t] = s[39 - t]",
    "if t < 50:\n    if t < 40:\n        s[t] = x[t]\n        y[t] = s[39 - t]",
])
def test_conditions_move_inside_of_barriers(body):
    assert syncs(synced(body)) >= 1


def test_a_loop_that_threads_run_unequally_is_refused():
    with pytest.raises(BarrierError, match="hand s on inside loop k, which they do not run equally often"):
        synced("for k in range(t):\n    s[t] = x[t]\n    y[t] = s[63 - t]")


def test_memory_of_one_thread_cannot_be_handed_on():
    func = from_source("""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        r = T.decl_buffer((64,), "float32", scope="local")
        for t in T.thread_binding(64, thread="threadIdx.x"):
            r[t] = x[t]
        for u in T.thread_binding(64, thread="threadIdx.x"):
            y[u] = r[63 - u]""", {"T": T})
    with pytest.raises(BarrierError, match=r"a thread reads r\[63 - u\], which another thread of its block computed"):
        lowered(func, "ThreadSync")


def test_memory_of_a_block_does_not_live_between_kernels():
    func = from_source("""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    s = T.decl_buffer((64,), "float32", scope="shared")
    for t in T.thread_binding(64, thread="threadIdx.x"):
        s[t] = x[t]
    for u in T.thread_binding(64, thread="threadIdx.x"):
        y[u] = s[63 - u]""", {"T": T})
    with pytest.raises(BarrierError, match='s has the scope "shared", but is used around the loops'):
        lowered(func, "ThreadSync")


def test_what_all_threads_would_store_one_stores():
    text = str(synced("s[0] = x[b]\ny[t] = s[0]", "GuardRedundantStores"))
    assert "if t == 0:" in text and text.count("tvm_storage_sync") == 1


def test_launches_of_scripts_are_loops():
    func = from_source("""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    b = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", 64)
    s = T.decl_buffer((64,), "float32", scope="shared")
    s[t] = x[t]
    y[t] = s[63 - t] + T.Cast("float32", b) * 0.0""", {"T": T})
    done = lowered(func, "UnifyThreadBinding", "ThreadSync")
    assert "thread_binding(64" in str(done) and syncs(done) == 1


def test_no_pass_takes_a_barrier_away():
    done = synced("s[t] = x[t]\ny[t] = s[63 - t]")
    assert syncs(lowered(done, "FlattenBuffer", "Simplify", "RemoveNoOp", "HoistIfThenElse", "UnrollLoop",
                         "CommonSubexprElimTIR")) == 1


@pytest.mark.parametrize("name, seed", [("softmax", 1), ("softmax", 20), ("conv2d", 4), ("matmul", 0),
                                        ("two_outputs_at_once", 14), ("reduction_where", 5)])
def test_each_barrier_of_a_random_schedule_is_needed(name, seed):
    func = PROGRAMS[name]()
    done = lower_prim_func(random_schedule(func, random.Random(seed)).func, pipeline_for("cuda"))
    count = str(done).count("tvm_storage_sync")
    for n in range(count):
        with pytest.raises((RaceError, DivergenceError)):
            for backwards in (False, True):
                run_threads(done.with_body(_Drop(n).visit(done.body)), *map(np.copy, arguments(func)),
                            backwards=backwards)


BLOCKS_IN_TURN = """
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for k in range(3):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                y[b * 16 + t] = x[b * 16 + t] + y[%s]"""


@pytest.mark.parametrize("place, apart", [
    ("t", False), ("b * 16 + t", True), ("b * 8 + t", False), ("b // 2 * 16 + t", False), ("(b * 16 + t) % 64", True),
    ("(b * 16 + t) % 32", False)])
def test_blocks_do_not_add_to_the_same_elements(place, apart):
    func = from_source(f"""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            y[{place}] = 0.0
            for k in range(3):
                y[{place}] = y[{place}] + x[k]""", {"T": T})
    if apart:
        assert syncs(lowered(func, "ThreadSync")) == 0
        return
    with pytest.raises(BarrierError, match="several blocks add to the same elements of y"):
        lowered(func, "ThreadSync")


@pytest.mark.parametrize("step, refused", [(2, True), (16, False)])
def test_blocks_of_any_number_do_not_add_to_the_same_elements(step, refused):
    func = from_source(f"""
@T.prim_func
def main(var_x: T.handle, var_y: T.handle):
    n = T.int32()
    x, y = T.match_buffer(var_x, (n,), "float32"), T.match_buffer(var_y, (n,), "float32")
    for b in T.thread_binding((n + {step - 1}) // {step}, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            if b * {step} + t < n:
                y[b * {step} + t] = y[b * {step} + t] + x[b * {step} + t]""", {"T": T})
    if refused:
        with pytest.raises(BarrierError, match="several blocks add to the same elements of y"):
            lowered(func, "ThreadSync")
    else:
        assert syncs(lowered(func, "ThreadSync")) == 0


def test_blocks_cannot_wait_for_each_other():
    own = from_source(BLOCKS_IN_TURN % "b * 16 + t", {"T": T})
    assert syncs(lowered(own, "ThreadSync")) == 0
    with pytest.raises(BarrierError, match="blocks hand y on inside loop k"):
        lowered(from_source(BLOCKS_IN_TURN % "63 - b * 16 - t", {"T": T}), "ThreadSync")


def test_a_threads_own_number_may_be_declared_around_its_loop():
    """Each thread stores its own, and nobody waits."""
    func = from_source("""
@T.prim_func
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    s = T.decl_buffer((1,), "float32", scope="local")
    for t in T.thread_binding(64, thread="threadIdx.x"):
        s[0] = 0.0
        s[0] = s[0] + x[t]
        y[t] = s[0]""", {"T": T})
    text = str(lowered(func, "GuardRedundantStores", "ThreadSync"))
    assert "if t == 0" not in text and "tvm_storage_sync" not in text
