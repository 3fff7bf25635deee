"""The sizes and places of shared memory: what threads use together, and lives that share space."""
from textwrap import indent

import pytest
from gpu_programs import LOOPS, check, lowered, syncs, threads_agree, tiled_product
from interp import run_threads
from tir_cases import arguments, results, scheduled

from ingot.ir import te
from ingot.ir.expr import Var
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.tir.stmt import DeclBuffer
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.classic import CLASSIC
from ingot.ir.transform.context import PassContext
from ingot.ir.transform.pass_table import TIR
from ingot.script import from_source
from ingot.script import tir as T

PASSES = (*LOOPS, "ThreadSync", "FlattenBuffer")


def planned(func, steps, static, rtol=2e-6):
    """The function scheduled, lowered and planned with so many bytes of static memory; its values are checked."""
    done = TIR["MergeSharedMemoryAllocations"](static=static)(
        IRModule({"main": lowered(scheduled(func, steps), *PASSES)}))["main"]
    inputs = arguments(func)
    threads_agree(results(func, inputs), verify(done), inputs, rtol=rtol)
    return done


def chain(n, stages, m=4):
    """Stages that each read all of a row of the one before: y[i, j] = x[i, n - 1 - j] + 1."""
    x = t = te.placeholder((m, n), name="x")
    for s in range(stages):
        t = te.compute((m, n), lambda i, j, t=t: t[i, n - 1 - j] + 1.0, name=f"t{s}")
    return te.create_prim_func([x, t])


def in_shared(stages, threads):
    """A row for each block; all stages but the last are in shared memory."""
    def steps(s):
        names = [f"t{n}" for n in range(stages)]
        row = s.get_loops(names[-1])[0]
        s.bind(row, "blockIdx.x")
        for name in reversed(names[:-1]):
            s.compute_at(name, row)
            s.set_scope(name, 0, "shared")
        for name in names:
            s.bind(s.split(s.get_loops(name)[-1], [None, threads])[1], "threadIdx.x")
    return steps


def pool(func):
    found = [d.buffer for d in collect(func.body, DeclBuffer) if d.buffer.scope == "shared.dyn"]
    return found[0].shape[0].value if found else None


def test_lives_share_space_where_a_barrier_is():
    done = planned(chain(1024, 6, 2), in_shared(6, 128), 48 << 10)
    assert pool(done) == 2 * 4096, "two stages live at once"
    assert syncs(done) == 5


def test_a_missing_barrier_is_added_where_memory_is_short():
    """Each thread reads what it wrote itself: nothing but the shared space asks for barriers."""
    x = t = te.placeholder((4, 128), name="x")
    for n in range(4):
        t = te.compute((4, 128), lambda i, j, t=t: t[i, j] + 1.0, name=f"t{n}")
    func = te.create_prim_func([x, t])
    done = planned(func, in_shared(4, 64), 48 << 10)
    assert pool(done) is None and syncs(done) == 0
    done = planned(func, in_shared(4, 64), 512)
    assert pool(done) == 1024 and syncs(done) == 1


def test_a_loop_around_lives_that_share_space():
    """The rows of a block come one after the other: the next one's first stage lies where the last one's third was."""
    func = chain(64, 4, 6)

    def steps(s):
        row, = s.get_loops("t3")[:1]
        block, row = s.split(row, [2, 3])
        s.bind(block, "blockIdx.x")
        for name in ("t2", "t1", "t0"):
            s.compute_at(name, row)
            s.set_scope(name, 0, "shared")
        for name in ("t0", "t1", "t2", "t3"):
            s.bind(s.get_loops(name)[-1], "threadIdx.x")
    done = planned(func, steps, 256)
    assert pool(done) == 512


def test_small_plain_buffers_stay_arrays():
    func, tiles = tiled_product()
    done = check(func, tiles, passes=(*PASSES, "MergeSharedMemoryAllocations"), rtol=1e-5)
    assert pool(done) is None
    assert [d.buffer.scope for d in collect(done.body, DeclBuffer)].count("shared") == 2


def test_buffers_of_several_dtypes_lie_apart():
    a, b = te.placeholder((4, 64), "int8", "a"), te.placeholder((4, 64), name="b")
    p = te.compute((4, 64), lambda i, j: a[i, 63 - j], name="p")
    q = te.compute((4, 64), lambda i, j: b[i, 63 - j] * 2.0, name="q")
    func = te.create_prim_func([a, b, te.compute((4, 64), lambda i, j: q[i, 63 - j] + p[i, 63 - j].astype("float32"),
                                                  name="y")])

    def steps(s):
        row = s.get_loops("y")[0]
        s.bind(row, "blockIdx.x")
        for name in ("q", "p"):
            s.compute_at(name, row)
            s.set_scope(name, 0, "shared")
        for name in ("p", "q", "y"):
            s.bind(s.get_loops(name)[-1], "threadIdx.x")
    assert pool(planned(func, steps, 64)) == 256 + 64


def test_a_size_that_is_no_constant_is_refused():
    n = Var("n", "int64")
    x = te.placeholder((4, n), name="x")
    t = te.compute((4, n), lambda i, j: x[i, n - 1 - j], name="t")
    func = te.create_prim_func([x, te.compute((4, n), lambda i, j: t[i, n - 1 - j], name="y")])

    def steps(s):
        row = s.get_loops("y")[0]
        s.bind(row, "blockIdx.x")
        s.compute_at("t", row)
        s.set_scope("t", 0, "shared")
        for name in ("t", "y"):
            s.bind(s.split(s.get_loops(name)[-1], [None, 32])[1], "threadIdx.x")
    with pytest.raises(ValueError, match="shared buffer t_shared has the size n"):
        lowered(scheduled(func, steps), *PASSES, "MergeSharedMemoryAllocations")


def merged(func, **config):
    """The function after the pass as scripts call it, which gives what it gave before."""
    with PassContext(config=config):
        done = CLASSIC["MergeSharedMemoryAllocations"]()(IRModule({"main": func}))["main"]
    inputs = arguments(func)
    expected = [x.copy() for x in inputs]
    run_threads(func, *expected)
    threads_agree(expected, verify(done), inputs)
    return done


STAGES = """
from ingot.script import tir as T

@T.prim_func
def main(A: T.Buffer((288,), "float32"), B: T.Buffer((288,), "float32")):
    tx = T.launch_thread("threadIdx.x", 96)
"""


@pytest.mark.parametrize("sizes, total", [
    ((64, 64, 64, 64), 512), ((64, 32, 96, 16), 512), ((16, 16, 48, 1), 260)], ids=str)
@pytest.mark.parametrize("loop", [False, True])
def test_scripts_have_one_buffer_of_bytes(sizes, total, loop):
    """Stages of several sizes, each of which reads the one before, backwards, with barriers between them; in a loop the
    last turn's values may still be read when the next turn begins."""
    lines = [f"b{n} = T.decl_buffer(({size},), 'float32', scope='shared.dyn')" for n, size in enumerate(sizes)]
    lines += [f"if tx < {sizes[0]}:", "    b0[tx] = A[i * 96 + tx]"]
    for n, (before, size) in enumerate(zip(sizes, sizes[1:])):
        lines += ["T.tvm_storage_sync('shared.dyn')", f"if tx < {size}:",
                  f"    b{n + 1}[tx] = b{n}[({before} - 1 - tx) % {before}] + 1.0"]
    lines += ["T.tvm_storage_sync('shared.dyn')", f"B[i * 96 + tx] = b{len(sizes) - 1}[({sizes[-1]} - 1 - tx) % {sizes[-1]}]"]
    body = ("for i in range(3):\n" if loop else "i = T.int32(0)\n") + indent("\n".join(lines), "    " * loop)
    func = from_source(STAGES + indent(body, "    "))
    done = merged(func)
    assert pool(done) == total
    assert [d.buffer.dtype for d in collect(done.body, DeclBuffer)] == ["uint8"]


def test_scripts_name_what_has_no_place():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        b = T.decl_buffer((32,), scope="shared.dyn")
        c = T.decl_buffer((32,), scope="shared.dyn")
        b[tx] = A[tx]
        c[tx] = A[tx]
        T.evaluate(T.call_extern("int32", "f", b.data))

    with pytest.raises(ValueError, match="call_extern takes the pointer b, which moves"):
        CLASSIC["MergeSharedMemoryAllocations"]()(IRModule({"main": func}))
