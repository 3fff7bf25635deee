"""Where the temporaries of kernels lie: one for a thread, a block or the grid, and how large each is."""
import numpy as np
import pytest
from gpu_programs import LOOPS, lowered, threads_agree
from tir_cases import arguments, results, scheduled

from ingot.ir import te
from ingot.ir.expr import Var
from ingot.ir.node import collect
from ingot.ir.tir.stmt import DeclBuffer
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for


def twice(m, n):
    """y[i, j] = (x[i, n - 1 - j] + 1) * 2, by way of a temporary t."""
    x = te.placeholder((m, n), name="x")
    t = te.compute((m, n), lambda i, j: x[i, n - 1 - j] + 1.0, name="t")
    return te.create_prim_func([x, te.compute((m, n), lambda i, j: t[i, n - 1 - j] * 2.0, name="y")])


def checked(func, steps):
    """The scheduled function after all passes, whose values are checked."""
    made, inputs = scheduled(func, steps), arguments(func)
    done = lower_prim_func(made, pipeline_for("cuda"))
    threads_agree(results(func, inputs), done, inputs)
    return done


def declared(func):
    return {d.buffer.name: (d.buffer.scope, str(d.buffer.shape[0])) for d in collect(func.body, DeclBuffer)}


def a_row_for_each_thread(threads):
    def steps(s):
        row = s.get_loops("y")[0]
        outer, inner = s.split(row, [None, threads])
        s.bind(outer, "blockIdx.x")
        s.bind(inner, "threadIdx.x")
        s.compute_at("t", inner)
    return steps


def test_what_kernels_hand_on_is_a_parameter():
    def steps(s):
        for name in ("t", "y"):
            i, j = s.get_loops(name)
            s.bind(i, "blockIdx.x")
            s.bind(j, "threadIdx.x")
    done = checked(twice(3, 5), steps)
    assert done.attrs["num_workspace"] == 1 and not declared(done)


def test_a_small_array_of_a_thread_is_its_own():
    done = checked(twice(8, 16), a_row_for_each_thread(4))
    assert declared(done) == {"t": ("global", "16")} and "num_workspace" not in done.attrs


def test_large_arrays_of_threads_lie_side_by_side():
    done = checked(twice(8, 1500), a_row_for_each_thread(4))
    assert not declared(done) and [str(s) for s in done.buffers[-1].shape] == [str(8 * 1500)]


def test_arrays_of_threads_of_symbolic_size():
    n = Var("n", "int64")
    func = twice(8, n)
    done = checked(func.replace(params=(*func.params, n)), a_row_for_each_thread(4))
    assert not declared(done) and done.attrs["num_workspace"] == 1


@pytest.mark.parametrize("scope, size", [("shared", "8"), ("local", "1")])
def test_threads_have_what_they_use_alone_or_share_it(scope, size):
    """One element for each of 8 threads, far outside and far inside of their loop."""
    x = te.placeholder((4, 8), name="x")
    t = te.compute((4, 8), lambda i, j: x[i, j] + 1.0, name="t")
    func = te.create_prim_func([x, te.compute((4, 8), lambda i, j: t[i, j] * 2.0, name="y")])
    for inside in (False, True):
        def steps(s):
            i, j = s.get_loops("y")
            s.bind(i, "blockIdx.x")
            s.bind(j, "threadIdx.x")
            s.compute_at("t", j if inside else i)
            s.set_scope("t", 0, scope)
            if not inside:
                s.bind(s.get_loops("t")[-1], "threadIdx.x")
        assert declared(checked(func, steps)) == {f"t_{scope}": (scope, size)}


def test_one_number_for_a_block_stays_shared():
    x = te.placeholder((4, 64), name="x")
    k = te.reduce_axis((0, 64), "k")
    total = te.compute((4,), lambda i: te.sum(x[i, k.var], k), name="total")
    func = te.create_prim_func([x, te.compute((4, 64), lambda i, j: x[i, j] - total[i], name="y")])

    def steps(s):
        i, j = s.get_loops("y")
        s.bind(i, "blockIdx.x")
        s.bind(j, "threadIdx.x")
        s.compute_at("total", i)
        s.set_scope("total", 0, "shared")
        s.bind(s.get_loops("total")[-1], "threadIdx.x")
    assert declared(checked(func, steps))["total_shared"] == ("shared", "1")


def test_storage_rewrite_leaves_shared_memory_to_its_plan():
    x = t = te.placeholder((2, 32), name="x")
    for n in range(3):
        t = te.compute((2, 32), lambda i, j, t=t: t[i, 31 - j] + 1.0, name=f"t{n}")
    func = te.create_prim_func([x, te.compute((2, 32), lambda i, j: t[i, 31 - j], name="y")])

    def steps(s):
        row = s.get_loops("y")[0]
        s.bind(row, "blockIdx.x")
        for name in ("t2", "t1", "t0"):
            s.compute_at(name, row)
            s.set_scope(name, 0, "shared")
        for name in ("t0", "t1", "t2", "y"):
            s.bind(s.get_loops(name)[-1], "threadIdx.x")
    done = lowered(scheduled(func, steps), *LOOPS, "ThreadSync", "FlattenBuffer", "StorageRewrite")
    assert len(declared(done)) == 3
    inputs = arguments(func)
    threads_agree(results(func, inputs), done, inputs)
    assert np.isfinite(results(func, inputs)[1]).all()
