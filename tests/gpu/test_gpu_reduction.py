"""LowerCrossThreadReduction: threads reduce together, whatever their number, rows and combiner."""
import pytest
from gpu_programs import LOOPS, check, syncs
from tir_cases import CASES, scheduled

from ingot.ir import te, tir
from ingot.ir.expr import const

PASSES = ("LowerCrossThreadReduction", *LOOPS, "ThreadSync")
FIRST = te.comm_reducer(
    lambda a, b: (tir.select(a[0] >= b[0], a[0], b[0]), tir.select(a[0] >= b[0], a[1], b[1])),
    lambda t, u: (tir.min_value(t), const(-1, u)), "argmax")


def rows(reducer, m, n, dtype="float32"):
    x = te.placeholder((m, n), dtype, "x")
    k = te.reduce_axis((0, n), "k")
    if reducer is FIRST:
        value, index = te.compute((m,), lambda i: FIRST((x[i, k.var], k.var), k), name="y")
        return te.create_prim_func([x, value, index])
    return te.create_prim_func([x, te.compute((m,), lambda i: reducer(x[i, k.var], k), name="y")])


def by_threads(threads, per_block=1, order="xy"):
    """threads reduce a row, per_block rows are of one block."""
    def steps(s):
        i, k = s.get_loops("y")
        io, ii = s.split(i, [None, per_block])
        ko, ki = s.split(k, [None, threads])
        s.reorder(io, ii, ki, ko)
        s.bind(io, "blockIdx.x")
        s.bind(ki, f"threadIdx.{order[0]}")
        if per_block > 1:
            s.bind(ii, f"threadIdx.{order[1]}")
    return steps


@pytest.mark.parametrize("threads", [1, 2, 5, 16, 20, 31, 32, 33, 64, 100, 256])
@pytest.mark.parametrize("reducer", [te.sum, te.max, FIRST], ids=["sum", "max", "argmax"])
def test_threads_of_one_row(threads, reducer):
    func = rows(reducer, 3, 70)
    done = check(func, scheduled(func, by_threads(threads)), passes=PASSES, rtol=1e-5)
    assert syncs(done) == (1 if threads > 32 else 0) and not syncs(done, "warp")


@pytest.mark.parametrize("threads", [4, 16, 40])
def test_sums_of_parts_that_the_same_threads_made(threads):
    """Each thread adds up a part in registers, then all join the parts, in one loop of threads."""
    def steps(s):
        i, k = s.get_loops("y")
        part = s.rfactor(s.split(k, [threads, None])[0], 0)
        s.set_scope(part, 0, "local")
        i, ko, _ = s.get_loops(part)
        s.bind(i, "blockIdx.x")
        s.bind(ko, "threadIdx.x")
        s.reverse_compute_at("y", ko)

    func = rows(te.sum, 3, 80)
    check(func, scheduled(func, steps), passes=PASSES, rtol=1e-5)


@pytest.mark.parametrize("threads, per_block", [(8, 4), (32, 2), (64, 3), (12, 5), (40, 3), (16, 3)])
@pytest.mark.parametrize("order", ["xy", "yx"])
def test_rows_side_by_side(threads, per_block, order):
    func = rows(te.sum, 7, 50)
    check(func, scheduled(func, by_threads(threads, per_block, order)), passes=PASSES, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("reducer", [te.sum, te.max], ids=["sum", "max"])
def test_dtypes(dtype, reducer):
    func = rows(reducer, 2, 70, dtype)
    for threads in (8, 64):
        check(func, scheduled(func, by_threads(threads)), passes=PASSES, rtol=2e-2 if "16" in dtype else 1e-5)


def softmax_te(m, n):
    x = te.placeholder((m, n), name="x")
    j, k = te.reduce_axis((0, n), "j"), te.reduce_axis((0, n), "k")
    high = te.compute((m,), lambda i: te.max(x[i, j.var], j), name="high")
    e = te.compute((m, n), lambda i, c: tir.exp(x[i, c] - high[i]), name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, k.var], k), name="total")
    return te.create_prim_func([x, te.compute((m, n), lambda i, c: e[i, c] / total[i], name="y")])


def softmax_steps(threads, scope, inner=False):
    """A row for each block (or for each row of threads); what all of its threads need lies in `scope`."""
    def steps(s):
        row = s.get_loops("y")[0]
        if inner:
            row, ty = s.split(row, [None, 4])
            s.bind(ty, "threadIdx.y")
        s.bind(row, "blockIdx.x")
        at = ty if inner else row
        for name in ("total", "e", "high"):
            s.compute_at(name, at)
            s.set_scope(name, 0, "shared" if name == "e" else scope)
        for name in ("high", "e", "total", "y"):
            s.bind(s.split(s.get_loops(name)[-1], [None, threads])[1], "threadIdx.x")
    return steps


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize("threads, inner", [(32, False), (64, False), (20, False), (16, True), (12, True), (64, True)])
def test_softmax(scope, threads, inner):
    func = softmax_te(8, 75)
    done = check(func, scheduled(func, softmax_steps(threads, scope, inner)), passes=PASSES, rtol=1e-5)
    if threads == 32 and not inner:
        assert syncs(done) == 0 and syncs(done, "warp") == (2 if scope == "shared" else 0)


def test_a_column_for_each_thread():
    """Rows are shared by threadIdx.y, four columns lie in registers of each thread."""
    x = te.placeholder((60, 32), name="x")
    k = te.reduce_axis((0, 60), "k")
    func = te.create_prim_func([x, te.compute((32,), lambda j: te.sum(x[k.var, j], k), name="y")])

    def steps(s):
        j, k = s.get_loops("y")
        jo, tx, jv = s.split(j, [None, 4, 4])
        ko, ty = s.split(k, [None, 8])
        s.reorder(jo, tx, ty, ko, jv)
        for loop, axis in ((jo, "blockIdx.x"), (tx, "threadIdx.x"), (ty, "threadIdx.y")):
            s.bind(loop, axis)
    done = check(func, scheduled(func, steps), passes=PASSES, rtol=1e-5)
    assert "shuffle" not in str(done) and "y_partial_shared" in str(done)


def test_both_axes_reduce():
    x = te.placeholder((3, 9, 16), name="x")
    a, b = te.reduce_axis((0, 9), "a"), te.reduce_axis((0, 16), "b")
    func = te.create_prim_func([x, te.compute((3,), lambda i: te.sum(x[i, a.var, b.var], [a, b]), name="y")])

    def steps(s):
        i, a, b = s.get_loops("y")
        _, ty = s.split(a, [None, 4])
        for loop, axis in ((i, "blockIdx.x"), (ty, "threadIdx.y"), (b, "threadIdx.x")):
            s.bind(loop, axis)
    done = check(func, scheduled(func, steps), passes=PASSES, rtol=1e-5)
    assert "shuffle" in str(done)


@pytest.mark.parametrize("local", [True, False])
def test_rfactor(local):
    func = rows(te.sum, 3, 256)

    def steps(s):
        i, k = s.get_loops("y")
        _, ki = s.split(k, [None, 64])
        rf = s.rfactor(ki, 0)
        s.bind(s.get_loops("y")[0], "blockIdx.x")
        tx = s.get_loops("y")[1]
        s.bind(tx, "threadIdx.x")
        s.compute_at(rf, tx if local else s.get_loops("y")[0])
        s.set_scope(rf, 0, "local" if local else "shared")
        if not local:
            s.bind(s.get_loops(rf)[1], "threadIdx.x")
    check(func, scheduled(func, steps), passes=PASSES, rtol=1e-5)


def test_only_where_a_condition_holds():
    func = CASES["reduction_where"]()
    check(func, scheduled(func, lambda s: (s.bind(s.get_loops("sum")[0], "threadIdx.y"),
                                           s.bind(s.get_loops("sum")[1], "threadIdx.x"))), passes=PASSES, rtol=1e-5)
