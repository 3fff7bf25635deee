"""Which reductions rfactor may regroup: sums, products, and results that compare and choose; numbers and refusals."""
import numpy as np
import pytest
from interp import run

from ingot import te, tir
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.script import from_source, tir as T
from schedule_programs import argmax, assert_same


def reduction(combine, identity, dtypes=("float32", "float32"), columns=22):
    """A PrimFunc R_v0[i], R_v1[i] = the reduction of (A0, A1)[i, k] over k."""
    inputs = [te.placeholder((5, columns), name=f"A{n}", dtype=dtype) for n, dtype in enumerate(dtypes)]
    k = te.reduce_axis((0, columns), "k")
    reducer = te.comm_reducer(combine, identity, "r")
    outs = te.compute((5,), lambda i: reducer(tuple(a[i, k] for a in inputs), axis=k), name="R")
    return te.create_prim_func([*inputs, *outs])


def best(greater):
    return (lambda x, y: (tir.Select(greater(x[1], y[1]), x[0], y[0]), tir.Select(greater(x[1], y[1]), x[1], y[1])),
            lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)))


def first_of_equal(x, y):
    wins = tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0]))
    return tir.Select(wins, x[0], y[0]), tir.Select(tir.Not(x[1] > y[1]), y[1], x[1])


PROGRAMS = {
    "argmax": reduction(*best(lambda a, b: a >= b)),
    "argmax, written the other way": reduction(*best(lambda a, b: tir.Not(b > a))),
    "argmin": reduction(
        lambda x, y: (tir.Select(x[1] <= y[1], x[0], y[0]), tir.min(x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), tir.max_value(t1))),
    "argmax, value first": argmax(6, 22),
    "extremes": reduction(lambda x, y: (tir.max(x[0], y[0]), tir.min(x[1], y[1])),
                          lambda t0, t1: (tir.const(3, t0), tir.const(0.25, t1))),
    "sum and product": reduction(lambda x, y: (x[0] + y[0], x[1] * y[1]),
                                 lambda t0, t1: (tir.const(0, t0), tir.const(1, t1))),
    "greatest magnitudes": reduction(lambda x, y: (tir.greater(x[0], tir.abs(y[0])), tir.max(x[1], y[1])),
                                     lambda t0, t1: (tir.const(0, t0), tir.min_value(t1))),
    "sum and greatest": reduction(lambda x, y: (y[0] + x[0], tir.max(y[1], x[1])),
                                  lambda t0, t1: (tir.const(0, t0), tir.const(-5.0, t1))),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("part, axis", [(0, 0), (1, -1)])
def test_several_results_are_factored(name, part, axis):
    func = PROGRAMS[name]
    sch = Schedule(func, debug_mask="all")
    block = sch.get_child_blocks("root")[0]
    what = sch.get(block).name_hint
    made = sch.rfactor(sch.split(sch.get_loops(block)[-1], [None, 8])[part], axis)
    assert sch.get(made).name_hint == what + "_rf" and len(sch.get(made).writes) == 2
    assert_same(func, sch.func)
    again = Schedule(func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func) and structural_equal(from_source(sch.func.script()), sch.func)


def test_the_factored_argmax_as_text():
    sch = Schedule(reduction(*best(lambda a, b: a >= b), ("int32", "float32")))
    sch.rfactor(sch.split(sch.get_loops("R")[1], [None, 2])[1], 1)
    text = sch.func.script()
    assert "R_v0_rf = T.alloc_buffer((5, 2), \"int32\")" in text and "R_v1_rf = T.alloc_buffer((5, 2)" in text
    assert text.strip().endswith("""
        with T.block("R"):
            vk_1, v_i = T.axis.remap("RS", [k_1, i])
            T.reads(R_v0_rf[v_i, vk_1], R_v1_rf[v_i, vk_1])
            T.writes(R_v0[v_i], R_v1[v_i])
            with T.init():
                R_v0[v_i] = -1
                R_v1[v_i] = T.float32("-inf")
            v_R_v0: T.int32 = T.Select(R_v1[v_i] >= R_v1_rf[v_i, vk_1], R_v0[v_i], R_v0_rf[v_i, vk_1])
            v_R_v1: T.float32 = T.Select(R_v1[v_i] >= R_v1_rf[v_i, vk_1], R_v1[v_i], R_v1_rf[v_i, vk_1])
            R_v0[v_i] = v_R_v0
            R_v1[v_i] = v_R_v1""")


def test_equal_values_give_the_first_where_the_choice_says_so():
    func = reduction(first_of_equal, lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)), ("int32", "float32"))
    where = np.tile(np.arange(22, dtype="int32"), (5, 1))
    values = np.random.default_rng(1).integers(0, 3, (5, 22)).astype("float32")
    for part in (0, 1):
        sch = Schedule(func)
        sch.rfactor(sch.split(sch.get_loops("R")[1], [None, 4])[part])
        found = np.zeros(5, "int32"), np.zeros(5, "float32")
        run(sch.func, where, values, *found)
        assert (found[0] == values.argmax(1)).all() and (found[1] == values.max(1)).all()


@T.prim_func
def stale(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 8):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
                C[vi] = T.float32(0)
            B[vi] = T.max(B[vi], A[vi, vk])
            C[vi] = T.Select(B[vi] > A[vi, vk], C[vi], A[vi, vk])


@T.prim_func
def elsewhere(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(5, 8):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
                C[vi + 1] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
            C[vi + 1] = C[vi + 1] + A[vi, vk]


def zero(*dtypes):
    return tuple(tir.const(0, t) for t in dtypes)


@pytest.mark.parametrize("func, reason", [
    (reduction(lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), x[1] + y[1]), zero),
     "it does more than compare and choose"),
    (reduction(lambda x, y: (tir.Select(x[0] + 1 > y[0], x[0], y[0]), tir.max(x[1], y[1])), zero),
     "it does more than compare and choose between what it has and the new term"),
    (reduction(lambda x, y: (tir.Select(x[1] > x[1], x[0], y[0]), tir.max(x[1], y[1])), zero),
     "the result of its choice depends on the order of the terms"),
    (reduction(lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), tir.Select(x[0] > y[0], x[1], y[1])), zero),
     "the result of its choice depends on how the terms are grouped"),
    (reduction(lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), tir.Select(x[1] > y[1], x[1], y[1])),
               lambda t0, t1: (tir.const(0, t0), tir.const(1, t1))),
     "its init T.float32\\(0.0\\), T.float32\\(1.0\\) changes the result where it joins in twice"),
    (reduction(lambda x, y: (x[0] - y[0], x[1] + y[1]), zero), "it combines by Sub, which is not one of"),
    (reduction(lambda x, y: (x[0] * y[0], x[1] + y[1]), zero),
     "its init .* is not the neutral element T.float32\\(1.0\\) of its oper"),
    (stale, "its value of C uses what the store before has changed; keep the values in variables first"),
    (elsewhere, "its init does not store where its body does"),
])
def test_others_are_refused(func, reason):
    sch = Schedule(func, error_render_level="fast")
    inner = sch.split(sch.get_loops("R")[1], [None, 4])[1]
    with pytest.raises(ScheduleError, match="rfactor: argument 'loop': the terms of block R cannot be regrouped: "
                                            f"({reason})"):
        sch.rfactor(inner)
