"""Loops carry names that tell what they run over."""
from interp import run
import numpy as np
import pytest

from ingot.ir import te, tir
from ingot.ir.expr import const
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.tir.stmt import For
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.name_loops import name_loops


def matmul(relu=True):
    a, b = te.placeholder((6, 8), "float32", "a"), te.placeholder((8, 12), "float32", "b")
    k = te.reduce_axis((0, 8), "k")
    product = te.compute((6, 12), lambda m, n: te.sum(a[m, k.var] * b[k.var, n], k), name="product")
    out = te.compute((6, 12), lambda m, n: tir.max(product[m, n], const(0, "float32")), name="relu")
    return te.create_prim_func([a, b, out] if relu else [a, b, product])


def names(func):
    """Loop names, outermost first."""
    return [loop.loop_var.name for loop in collect(func.body, For)[::-1]]


def test_made_up_names_give_way_to_iterators():
    sch = Schedule(matmul())
    sch.compute_at("product", sch.get_loops("relu")[0])
    assert "ax0" in names(sch.func)
    assert sorted(names(name_loops(sch.func))) == ["k", "m", "n", "n"]


def test_given_names_stay():
    func = matmul()
    assert names(name_loops(func)) == names(func)


def test_several_loops_of_one_iterator_are_numbered():
    sch = Schedule(matmul())
    sch.compute_at("product", sch.get_loops("relu")[0])
    *_, n, _ = sch.get_loops("product")
    sch.split(n, [None, 4])
    assert {"n_0", "n_1"} <= set(names(name_loops(sch.func)))


@pytest.mark.parametrize("make_copy", [lambda s: s.cache_write("product", 0, "local"),
                                       lambda s: s.cache_read("product", 1, "local")])
def test_copies_are_named_after_the_dimensions(make_copy):
    """Iterators of copying blocks are v0, v1: another block says what the dimensions are."""
    sch = Schedule(matmul(relu=False))
    copy = make_copy(sch)
    found = name_loops(sch.func)
    renamed = Schedule(found)
    loops = [renamed.get(loop).loop_var.name for loop in renamed.get_loops(sch.get(copy).name_hint)]
    assert loops in (["m", "n"], ["k", "n"])


def test_results_are_kept_and_the_program_is_well_formed():
    sch = Schedule(matmul())
    sch.cache_read("relu", 0, "local")
    sch.compute_at("product", sch.get_loops("product_local")[0])
    func = verify(name_loops(sch.func))
    a, b = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((6, 8), (8, 12)))
    out = np.empty((6, 12), np.float32)
    run(func, a, b, out)
    np.testing.assert_allclose(out, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)


def test_names_that_nothing_explains_stay():
    x = te.placeholder((3, 4), "float32", "x")
    func = te.create_prim_func([x, te.compute((3, 4), lambda *i: x[i] + 1.0, "y")])
    assert names(name_loops(func)) == names(func) == ["i0", "i1"]
