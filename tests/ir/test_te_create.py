"""create_prim_func: names, order, reductions of several values, and what it refuses."""
import numpy as np
import pytest
from interp import run
from tir_cases import CASES

from ingot.ir import te, tir
from ingot.ir.expr import Var, const
from ingot.ir.node import collect
from ingot.ir.tir.stmt import Block
from ingot.ir.tir.verifier import verify


def block_names(func):
    return [b.name_hint for b in collect(func.body, Block)]


def test_two_values_at_once_see_each_others_old_value():
    x = np.array([[3, 9, 9, 1, 0, 2, 5], [-1, -2, -3, -4, -5, -6, -7], [0] * 7, range(7)], "float32")
    value, index = np.zeros(4, "float32"), np.zeros(4, "int32")
    func = CASES["two_outputs_at_once"]()
    verify(func)
    run(func, x, value, index)
    assert (index == x.argmax(1)).all() and (value == x.max(1)).all()


def test_values_may_be_returned_in_any_order():
    x = te.placeholder((4, 7), name="x")
    k = te.reduce_axis((0, 7), "k")
    both = te.comm_reducer(lambda a, b: (a[0] + b[0], tir.max(a[1], b[1])),
                           lambda t, u: (const(0, t), tir.min_value(u)), "sum_and_max")
    high, total = te.compute((4,), lambda i: both((x[i, k.var], x[i, k.var]), k)[::-1], name="both")
    func = te.create_prim_func([x, high, total])
    data = np.random.default_rng(0).standard_normal((4, 7)).astype("float32")
    first, second = np.zeros(4, "float32"), np.zeros(4, "float32")
    run(func, data, first, second)
    np.testing.assert_allclose(first, data.max(1))
    np.testing.assert_allclose(second, data.sum(1), rtol=1e-6)


def test_a_sum_of_no_terms_is_what_it_starts_with():
    x = te.placeholder((3, 0), name="x")
    k = te.reduce_axis((0, 0), "k")
    most = te.compute((3,), lambda i: te.max(x[i, k.var], axis=k), name="most")
    given = te.compute((3,), lambda i: te.sum(x[i, k.var], axis=k, init=most[i]), name="given")
    both = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] * b[1]), lambda t, u: (const(0, t), const(1, u)), "both")
    total, product = te.compute((3,), lambda i: both((x[i, k.var], x[i, k.var]), k), name="two")
    outputs = [np.full(3, 7, "float32") for _ in range(4)]
    run(te.create_prim_func([x, most, given, total, product]), np.zeros((3, 0), "float32"), *outputs)
    assert [set(o) for o in outputs] == [{-np.inf}, {-np.inf}, {0}, {1}]


def test_a_missing_value_is_refused():
    x = te.placeholder((4, 7), name="x")
    k = te.reduce_axis((0, 7), "k")
    both = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] * b[1]), lambda t, u: (const(0, t), const(1, u)))
    only = te.compute((4,), lambda i: both((x[i, k.var], x[i, k.var]), k)[0], name="only")
    with pytest.raises(ValueError, match="compute only: its reduction has 2 values, all must be outputs"):
        te.create_prim_func([x, only])


def test_where_leaves_elements_out_without_loading_them():
    """x[i, k + 3] would be outside for the k that the condition excludes."""
    x = te.placeholder((4, 7), name="x")
    k = te.reduce_axis((0, 7), "k")
    out = te.compute((4,), lambda i: te.max(x[i, k.var + 3], k, where=k.var < 4), name="out")
    data, got = np.random.default_rng(0).standard_normal((4, 7)).astype("float32"), np.zeros(4, "float32")
    run(te.create_prim_func([x, out]), data, got)
    assert (got == data[:, 3:].max(1)).all()


def test_names_are_unique_and_leave_root_alone():
    x = te.placeholder((4,), name="x")
    a = te.compute((4,), lambda i: x[i] + 1.0, name="root")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: b[i] + x[i], name="root")])
    assert block_names(func) == ["root_1", "x", "root_2", "root"]
    names = [buffer.name for buffer in collect(func, tir.Buffer)]
    assert len(names) == len(set(names))


def test_an_unlisted_placeholder_is_refused():
    x = te.placeholder((4,), name="x")
    with pytest.raises(ValueError, match="placeholder x is used but is not among the arguments"):
        te.create_prim_func([te.compute((4,), lambda i: x[i], name="y")])


def test_regions_that_depend_on_data_are_places():
    """The block reads the row that another tensor names."""
    func = CASES["gather_rows"]()
    take = next(b for b in collect(func.body, Block) if b.name_hint == "take")
    read = next(r for r in take.reads if r.buffer.name == "x")
    assert (str(read.region[0].min), str(read.region[0].extent), str(read.region[1].extent)) == (
        "rows[v_i]", "T.int64(1)", "1")


def test_regions_look_through_lets():
    x, y, v, i = tir.decl_buffer((8,), name="x"), tir.decl_buffer((8,), name="y"), Var("v"), Var("i")
    body = tir.LetStmt(v, i * 2, tir.BufferStore(y, x[v + 1], (v,)))
    reads, writes = tir.region.access_regions(body)
    assert str(reads[0].region[0].min) == "i * 2 + 1" and str(writes[0].region[0].min) == "i * 2"


def test_quotients_stay_where_the_inverse_is_too_large():
    """1 / 1e-5 is no float16; 1 / 4 is."""
    x = te.placeholder((2,), "float16", "x")
    for number, value in ((1e-5, 2), (4, 0.5)):
        func = te.create_prim_func([x, te.compute((2,), lambda i, n=number: x[i] / const(n, "float16"), name="y")])
        result = np.zeros(2, "float16")
        run(func, np.full(2, value * number, "float16"), result)
        np.testing.assert_allclose(result, value, rtol=1e-2)
