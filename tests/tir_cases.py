"""Programs for the tests of TIR passes and of the C printer, and running them on random arrays.

CASES: name -> function that makes a PrimFunc. `arguments(func)` makes its arrays and dimensions.
"""
import numpy as np
from interp import run

from ingot.ir import te, tir
from ingot.ir.arith import Analyzer
from ingot.ir.expr import IterVar, Range, Var, as_expr, const, free_vars, substitute
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.tir.region import access_regions
from ingot.ir.tir.stmt import BufferStore
from ingot.ir.tir.verifier import verify

CASES = {}
SYMBOLIC = 5  # the value that symbolic dimensions take


def case(function):
    CASES[function.__name__] = function
    return function


def arguments(func, seed=0):
    """Arrays and ints in parameter order: outputs NaN (or a large number), symbolic dimensions SYMBOLIC."""
    rng = np.random.default_rng(seed)
    written = {id(s.buffer) for s in collect(func.body, BufferStore)}
    found = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            found.append(SYMBOLIC)
            continue
        shape = tuple(value_of(s) for s in buffer.shape)
        dtype = buffer.dtype.numpy
        if id(buffer) in written:
            found.append(np.full(shape, np.nan if dtype.kind == "f" else 77, dtype))
        elif dtype.kind == "f":
            found.append(rng.standard_normal(shape).astype(dtype))
        else:
            found.append(rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype))
    return found


def value_of(extent):
    """An extent as an int, with SYMBOLIC for symbolic dimensions."""
    values = {v: const(SYMBOLIC, v.dtype) for v in free_vars(extent)}
    return int(Analyzer().simplify(substitute(extent, values)))


def results(func, inputs):
    """The arrays of all parameters after running `func` on copies of `inputs`."""
    tensors = [x.copy() for x in inputs if isinstance(x, np.ndarray)]
    scalars = [x for x in inputs if not isinstance(x, np.ndarray)]
    run(func, *tensors, *scalars)
    return tensors


def assert_same_results(expected, func, inputs, what=""):
    verify(func)
    for n, (a, b) in enumerate(zip(expected, results(func, inputs))):
        np.testing.assert_allclose(b, a, rtol=2e-6, atol=2e-6, err_msg=f"parameter {n} after {what}")


# ---------------------------------------------------------------- straight from TE

def matmul_te(m, n, k, dtype="float32"):
    a, b = te.placeholder((m, k), dtype, "a"), te.placeholder((k, n), dtype, "b")
    axis = te.reduce_axis((0, k), "k")
    product = te.compute((m, n), lambda i, j: te.sum(a[i, axis.var] * b[axis.var, j], axis), name="matmul")
    relu = te.compute((m, n), lambda i, j: tir.max(product[i, j], const(0, dtype)), name="relu")
    return te.create_prim_func([a, b, relu])


@case
def matmul():
    return matmul_te(5, 7, 9)


@case
def matmul_symbolic():
    n = Var("n", "int64")
    func = matmul_te(n, 6, 4)
    return func.replace(params=(*func.params, n))


@case
def scalar_output():
    x = te.placeholder((3, 4), name="x")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 4), "j")
    total = te.compute((), lambda: te.sum(x[i.var, j.var], [i, j]), name="total")
    half = te.compute((), lambda: total[()] * 0.5, name="half")
    return te.create_prim_func([x, half])


@case
def softmax():
    x = te.placeholder((4, 6), name="x")
    j, k = te.reduce_axis((0, 6), "j"), te.reduce_axis((0, 6), "k")
    high = te.compute((4,), lambda i: te.max(x[i, j.var], j), name="softmax_max")
    e = te.compute((4, 6), lambda i, c: tir.exp(x[i, c] - high[i]), name="softmax_exp")
    total = te.compute((4,), lambda i: te.sum(e[i, k.var], k), name="softmax_sum")
    return te.create_prim_func([x, te.compute((4, 6), lambda i, c: e[i, c] / total[i], name="softmax")])


def pool_te(batch, reducer=te.max, outside=-np.inf, name="max_pool"):
    x = te.placeholder((batch, 3, 7, 6), name="x")
    kh, kw = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")

    def element(n, c, y, w):
        row, column = y * 2 - 1 + kh.var, w * 2 - 1 + kw.var
        inside = tir.logical_and(tir.logical_and(row >= 0, row < 7), tir.logical_and(column >= 0, column < 6))
        return reducer(tir.if_then_else(inside, x[n, c, row, column], const(outside, "float32")), [kh, kw])

    return [x, te.compute((batch, 3, 4, 3), element, name=name)]


@case
def max_pool_padded():
    return te.create_prim_func(pool_te(2))


@case
def max_pool_symbolic_batch():
    n = Var("n", "int64")
    return te.create_prim_func([*pool_te(n), n])


@case
def conv2d():
    x, w = te.placeholder((1, 3, 8, 9), name="x"), te.placeholder((4, 3, 3, 3), name="w")
    ic, kh, kw = (te.reduce_axis((0, 3), n) for n in ("ic", "kh", "kw"))
    conv = te.compute((1, 4, 6, 4), lambda n, c, y, z: te.sum(
        x[n, ic.var, y + kh.var, z * 2 + kw.var] * w[c, ic.var, kh.var, kw.var], [ic, kh, kw]), name="conv2d")
    return te.create_prim_func([x, w, conv])


@case
def elementwise_chain():
    x, y = te.placeholder((6, 5), name="x"), te.placeholder((5,), name="y")
    a = te.compute((6, 5), lambda i, j: x[i, j] + y[j], name="add")
    b = te.compute((6, 5), lambda i, j: tir.sigmoid(a[i, j]) * a[i, j], name="silu")
    return te.create_prim_func([x, y, te.compute((5, 6), lambda i, j: tir.abs(b[j, i]), name="transpose")])


@case
def gather_rows():
    """An int64 index, and a bool and an int8 buffer."""
    x, rows = te.placeholder((5, 4), "int8", "x"), te.placeholder((3,), "int64", "rows")
    picked = te.compute((3, 4), lambda i, j: x[rows[i], j], name="take")
    return te.create_prim_func([x, rows, te.compute((3, 4), lambda i, j: picked[i, j] > const(1, "int8"), name="big")])


@case
def two_outputs_at_once():
    """argmax with a value and an index: each sees the other's old value."""
    x = te.placeholder((4, 7), name="x")
    k = te.reduce_axis((0, 7), "k")
    first = te.comm_reducer(
        lambda a, b: (tir.select(a[0] >= b[0], a[0], b[0]), tir.select(a[0] >= b[0], a[1], b[1])),
        lambda t, u: (tir.min_value(t), const(-1, u)), "argmax")
    value, index = te.compute((4,), lambda i: first((x[i, k.var], k.var), k), name="top")
    return te.create_prim_func([x, value, index])


@case
def reduction_where():
    """Only the elements for which a condition holds count."""
    x = te.placeholder((4, 7), name="x")
    k = te.reduce_axis((0, 7), "k")
    return te.create_prim_func([x, te.compute((4,), lambda i: te.sum(x[i, k.var], k, where=k.var < i * 2), name="sum")])


# ---------------------------------------------------------------- recurrences and other hand-made blocks

def block(name, iters, body, init=None, predicate=True, allocs=()):
    """A BlockRealize. iters: [(Var of the block, extent, type, value)]."""
    ivs = tuple(IterVar(Range(const(0), const(extent)), v, kind) for v, extent, kind, _ in iters)
    reads, writes = access_regions(body)
    return tir.BlockRealize(tuple(as_expr(value) for *_, value in iters), as_expr(predicate),
                            tir.Block(ivs, reads, writes, name, tuple(allocs), (), {}, init, body))


def loop(name, extent, body, kind="serial"):
    """A For whose body is made from its variable."""
    var = Var(name)
    return tir.for_(var, extent, body(var), kind)


@case
def running_sum():
    """A scan: `state` is handed from one iteration of t to the next."""
    x, y = tir.decl_buffer((6, 4), name="x"), tir.decl_buffer((6, 4), name="y")
    state, twice = tir.decl_buffer((4,), name="state"), tir.decl_buffer((4,), name="twice")
    j, t, u = Var("v_j"), Var("v_t"), Var("v_u")
    start = loop("j", 4, lambda i: block("start", [(j, 4, "spatial", i)], tir.BufferStore(state, const(0.0), (j,))))
    step = tir.seq(
        loop("u", 4, lambda i: block("double", [(u, 4, "spatial", i)], tir.BufferStore(twice, x[t, u] * 2.0, (u,)))),
        loop("w", 4, lambda i: block("add", [(j, 4, "spatial", i)], tir.seq(
            tir.BufferStore(state, state[j] + twice[j], (j,)), tir.BufferStore(y, state[j], (t, j))))))
    steps = loop("t", 6, lambda i: block("step", [(t, 6, "scan", i)], step))
    return tir.prim_func([x, y], tir.seq(start, steps), alloc_buffers=[state, twice])


@case
def strided_views():
    """A parameter with strides and one with an offset."""
    x = tir.decl_buffer((3, 4), name="x", strides=(4, 1))
    y = tir.decl_buffer((3, 4), name="y")
    i, j = Var("v_i"), Var("v_j")
    body = loop("i", 3, lambda a: loop("j", 4, lambda b: block(
        "copy", [(i, 3, "spatial", a), (j, 4, "spatial", b)], tir.BufferStore(y, x[i, j], (i, j)))))
    return tir.prim_func([x, y], body)


def fill_program(body, size=64, dtype="float32", params=()):
    """A lowered function of one buffer y (and more parameters): body(fill) is its body, fill(index, value) a store."""
    y = tir.decl_buffer((size,), dtype, "y")

    def fill(index, value=1):
        return tir.BufferStore(y, as_expr(value, dtype), (as_expr(index),))

    func = tir.prim_func([y, *params], body(fill))
    return func.replace(body=func.root.body)


# ---------------------------------------------------------------- scheduled

def scheduled(func, steps):
    sch = Schedule(func, debug_mask="all")
    steps(sch)
    return sch.func


@case
def matmul_tiled_uneven():
    """Tiles of 3 x 4 do not divide 5 x 7, nor 2 the 9 steps of the reduction."""
    def steps(sch):
        i, j = sch.get_loops(sch.get_block("relu"))
        io, ii = sch.split(i, [None, 3])
        jo, ji = sch.split(j, [None, 4])
        sch.reorder(io, jo, ii, ji)
        product = sch.get_block("matmul")
        sch.compute_at(product, jo)
        sch.split(sch.get_loops(product)[-1], [None, 2])
        sch.parallel(io)
    return scheduled(matmul_te(5, 7, 9), steps)


@case
def matmul_vector_tile():
    """A register tile with a tail in both directions, vectors of 8."""
    def steps(sch):
        i, j = sch.get_loops(sch.get_block("relu"))
        io, ii = sch.split(i, [None, 3])
        jo, jv, ji = sch.split(j, [None, 2, 8])
        sch.reorder(jo, io, ii, jv, ji)
        product = sch.get_block("matmul")
        sch.compute_at(product, io, preserve_unit_loops=True)
        sch.set_scope(product, 0, "local")
        ti, tj, k = sch.get_loops(product)[-3:]
        tv, tl = sch.split(tj, [None, 8])
        sch.reorder(k, ti, tv, tl)
        sch.unroll(ti)
        sch.vectorize(tl)
        sch.vectorize(ji)
        sch.decompose_reduction(product, k)
        sch.parallel(jo)
    return scheduled(matmul_te(7, 40, 6), steps)


@case
def symbolic_split():
    """The batch is cut in pieces of 4: a guard on a symbolic bound."""
    def steps(sch):
        i, _ = sch.get_loops(sch.get_block("relu"))
        io, ii = sch.split(i, [None, 4])
        sch.compute_at(sch.get_block("matmul"), ii)
        sch.parallel(io)
    return scheduled(matmul_symbolic(), steps)


@case
def fused_parallel_uneven():
    """The guards of a fused parallel loop fail in the middle of its range."""
    def steps(sch):
        y, x = sch.get_loops(sch.get_block("transpose"))
        yo, yi = sch.split(y, [None, 3])
        xo, xi = sch.split(x, [None, 4])
        sch.reorder(yo, xo, yi, xi)
        sch.parallel(sch.fuse(yo, xo))
    return scheduled(elementwise_chain(), steps)


@case
def softmax_by_rows():
    def steps(sch):
        rows = sch.get_loops(sch.get_block("softmax"))[0]
        for name in ("softmax_sum", "softmax_exp", "softmax_max"):
            sch.compute_at(sch.get_block(name), rows)
    return scheduled(softmax(), steps)
