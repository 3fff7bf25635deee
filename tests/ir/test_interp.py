"""The test interpreter itself: statement and expression forms that lowered programs have, and what it must catch."""
import numpy as np
import pytest
from interp import run, source

from ingot.ir import te, tir
from ingot.ir.expr import Broadcast, Cast, Div, IterVar, Let, Mod, Ramp, Range, Var, const
from ingot.script import tir as T


def loop(var, extent, body, kind="serial"):
    return tir.for_(var, extent, body, kind)


def test_vector_loads_and_stores():
    x, y = tir.decl_buffer(16, name="x"), tir.decl_buffer(16, name="y")
    i = Var("i")
    at = Ramp(i * 8, const(1), 8)
    value = tir.max(tir.BufferLoad(x, (at,)) * const(2.0, "float32x8"), Broadcast(const(0.0), 8))
    body = loop(i, 2, tir.BufferStore(y, value, (at,)))
    a, b = np.linspace(-1, 1, 16, dtype=np.float32), np.zeros(16, np.float32)
    run(tir.prim_func([x, y], body), a, b)
    np.testing.assert_allclose(b, np.maximum(a * 2, 0))


def test_flat_buffers_declared_inside_and_lets():
    x, y, t = tir.decl_buffer(6, name="x"), tir.decl_buffer(6, name="y"), tir.decl_buffer(6, name="t")
    i, j, v = Var("i"), Var("j"), Var("v", "float32")
    body = tir.seq(loop(i, 6, tir.LetStmt(v, tir.BufferLoad(x, (i,)), tir.BufferStore(t, v * v, (i,)))),
                   loop(j, 6, tir.IfThenElse(j < 3, tir.BufferStore(y, tir.BufferLoad(t, (j,)), (j,)),
                                             tir.BufferStore(y, const(-1.0), (j,)))))
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    run(tir.prim_func([x, y], tir.DeclBuffer(t, body)), a, b)
    np.testing.assert_array_equal(b, [[0, 1, 4], [-1, -1, -1]])


def test_strides_and_offset():
    x = tir.decl_buffer((2, 3), name="x", strides=(1, 2), elem_offset=0)
    y = tir.decl_buffer((2, 3), name="y")
    i, j = Var("i"), Var("j")
    a, b = np.arange(6, dtype=np.float32), np.zeros((2, 3), np.float32)
    run(tir.prim_func([x, y], loop(i, 2, loop(j, 3, tir.BufferStore(y, x[i, j], (i, j))))), a, b)
    np.testing.assert_array_equal(b, a.reshape(3, 2).T)


def test_integer_semantics_and_expression_let():
    y = tir.decl_buffer(4, "int32", "y")
    v = Var("v")
    values = (Div(const(-7), const(2)), Mod(const(-7), const(2)), Let(v, const(5), v + 1), Cast("int32", const(-2.7)))
    body = tir.seq(*(tir.BufferStore(y, e, (const(k),)) for k, e in enumerate(values)))
    out = np.zeros(4, np.int32)
    run(tir.prim_func([y], body), out)
    assert out.tolist() == [-3, -1, 6, -2]


def test_init_runs_once_per_reduction_and_predicates_guard():
    x, y = tir.decl_buffer((2, 5), name="x"), tir.decl_buffer(2, name="y")
    i, ko, ki = Var("i"), Var("ko"), Var("ki")
    vi, vk = (IterVar(Range(const(0), const(n)), Var(name), t) for n, name, t in (
        (2, "vi", "spatial"), (5, "vk", "reduce")))
    block = tir.Block((vi, vk), (), (), "sum", (), (), {}, tir.BufferStore(y, const(0.0), (vi.var,)),
                      tir.BufferStore(y, y[vi.var] + x[vi.var, vk.var], (vi.var,)))
    realize = tir.BlockRealize((i, ko * 2 + ki), ko * 2 + ki < 5, block)
    func = tir.prim_func([x, y], loop(i, 2, loop(ko, 3, loop(ki, 2, realize)), "parallel"))
    a, b = np.arange(10, dtype=np.float32).reshape(2, 5), np.zeros(2, np.float32)
    run(func, a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


def test_match_buffer_is_a_view():
    y, tile = tir.decl_buffer((4, 4), name="y"), tir.decl_buffer((2, 2), name="tile")
    source_region = tir.BufferRegion(y, (Range(const(2), const(2)), Range(const(0), const(2))))
    block = tir.Block((), (), (), "inner", (), (tir.MatchBufferRegion(tile, source_region),), {}, None,
                      tir.BufferStore(tile, const(1.0), (const(1), const(1))))
    out = np.zeros((4, 4), np.float32)
    run(tir.prim_func([y], tir.BlockRealize((), const(True), block)), out)
    assert out[3, 1] == 1 and out.sum() == 1


def test_symbolic_dimensions_come_from_the_arrays():
    n = Var("n", "int64")
    x = te.placeholder((n, 2), name="x")
    y = te.compute((n, 2), lambda i, j: x[i, j] + 1.0, name="y")
    out = np.zeros((3, 2), np.float32)
    run(te.create_prim_func([x, y]), np.ones((3, 2), np.float32), out)
    assert (out == 2).all()


def test_reads_of_unset_memory_show():
    y, t = tir.decl_buffer(1, name="y"), tir.decl_buffer(1, name="t")
    out = np.zeros(1, np.float32)
    run(tir.prim_func([y], tir.BufferStore(y, t[const(0)], (const(0),)), alloc_buffers=[t]), out)
    assert np.isnan(out[0])


def test_mistakes_raise():
    x, y = tir.decl_buffer(3, name="x"), tir.decl_buffer(3, name="y")
    i, stray = Var("i"), Var("stray")
    a, b = np.zeros(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(IndexError, match="negative index -1"):
        run(tir.prim_func([x, y], loop(i, 3, tir.BufferStore(y, x[i - 1], (i,)))), a, b)
    with pytest.raises(IndexError):
        run(tir.prim_func([x, y], loop(i, 3, tir.BufferStore(y, tir.select(i < 2, x[i + 1], 0.0), (i,)))), a, b)
    with pytest.raises(ValueError, match="variable stray is used but not defined"):
        source(tir.prim_func([x, y], tir.BufferStore(y, x[stray], (const(0),))))
    with pytest.raises(ValueError, match=r"buffer x has shape \(3,\), the array \(4,\)"):
        run(tir.prim_func([x, y], tir.Evaluate(const(0))), np.zeros(4, np.float32), b)
    with pytest.raises(TypeError, match="2 parameters, 1 were given"):
        run(tir.prim_func([x, y], tir.Evaluate(const(0))), a)


def test_products_of_fixed_point_numbers():
    @T.prim_func
    def func(x: T.Buffer((4,), "int32"), s: T.Buffer((4,), "int32"), y: T.Buffer((2, 4), "int32")):
        for i in range(4):
            y[0, i] = T.q_multiply_shift(x[i], 1610612736, 31, -1, dtype="int32")
            y[1, i] = T.q_multiply_shift_per_axis(x[i], 1610612736, s[i], s[i], 31, True, True, dtype="int32")

    x, s, y = np.array([4, 5, -5, 2**20 + 1], "int32"), np.arange(4, dtype="int32"), np.zeros((2, 4), "int32")
    run(func, x, s, y)
    exact = x.astype("float64") * 0.75
    assert (y == [np.floor(exact / 2 + 0.5), np.floor(exact + 0.5)]).all()


@pytest.mark.parametrize("given, wanted", [("int8", "int32"), ("uint8", "int16"), ("int32", "uint8"), ("int64", "int8"),
                                           ("int32", "float32"), ("int64", "float32"), ("float16", "float32"),
                                           ("float32", "float64"), ("float64", "float32"), ("float32", "int32"),
                                           ("bfloat16", "float32"), ("bool", "int32"), ("uint32", "float32")])
def test_casts_are_numpys(given, wanted):
    x, y, i = tir.decl_buffer(4, given, "x"), tir.decl_buffer(4, wanted, "y"), Var("i")
    values = np.array([-3, 2 ** (14 if given == "float16" else 24) + 3, 77.5, 0.3])
    values = values.astype("int64" if "int" in given else "float64")
    a, b = values.astype(x.dtype.numpy), np.zeros(4, wanted)
    run(tir.prim_func([x, y], loop(i, 4, tir.BufferStore(y, Cast(wanted, x[i]), (i,)))), a, b)
    np.testing.assert_array_equal(b, a.astype(wanted))
