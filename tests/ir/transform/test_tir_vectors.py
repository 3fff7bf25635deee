"""Vectorization, vector types, flattening, workspace: what each leaves behind, and when it declines."""
import pytest
from tir_cases import arguments, assert_same_results, loop, results

from ingot.ir import tir
from ingot.ir.expr import Broadcast, Call, Ramp, Select, Var, const
from ingot.ir.node import collect
from ingot.ir.tir.stmt import BufferLoad, BufferStore, For
from ingot.ir.tir.hints import ACCUMULATE, EACH_THREAD
from ingot.ir.transform.accumulate import accumulate
from ingot.ir.transform.flatten import flatten_buffer
from ingot.ir.transform.register_promote import register_promote
from ingot.ir.transform.lane_indexed_fma import lane_indexed_fma
from ingot.ir.transform.lower_intrin import lower_intrin
from ingot.ir.transform.register_transpose import register_transpose
from ingot.ir.transform.vectorize import rewrite_vector_types, vectorize_loop
from ingot.ir.transform.workspace import STACK_BYTES, THREAD_STACK_BYTES, lift_workspace

X, Y, W = (tir.decl_buffer((64,), name=n) for n in "xyw")
ROWS = tir.decl_buffer((64,), "int32", "rows")


def lowered(body, params=(X, W, ROWS, Y)):
    func = tir.prim_func(list(params), body)
    return func.replace(body=func.root.body)


def vectorized(make, lanes=8):
    """for l in vectorized(lanes): y[l] = make(l), through the pass, checked to store the same."""
    func = lowered(loop("l", lanes, lambda i: BufferStore(Y, make(i), (i,)), "vectorized"))
    new = vectorize_loop(func)
    inputs = arguments(func)
    inputs[3][:] = 7
    assert_same_results(results(func, inputs), new, inputs)
    return new


@pytest.mark.parametrize("make, count", [
    (lambda i: X[i] + W[i] * 2.0, "2 ramps"), (lambda i: X[const(3)], "1 broadcast"),
    (lambda i: X[i * 3 + 1], "strided"),
    (lambda i: tir.max(X[i], 0.0), "max"), (lambda i: tir.exp(X[i]), "call"),
    (lambda i: tir.exp(X[const(0)]), "scalar call"),
    (lambda i: Select(X[i] > 0.0, X[i], X[i] * 0.1), "lane by lane"), (lambda i: X[63 - i], "backwards"),
    (lambda i: tir.if_then_else(const(3) < ROWS[const(0)], X[i], const(0.0)), "one condition"),
    (lambda i: X[(i + 8) // 8 * 8 + i % 8], "linear where it matters"),
    (lambda i: X[const(1)] + ROWS[const(2)].astype("float32"), "invariant conversion"),
    (lambda i: ROWS[i].astype("float32"), "conversion"),
    (lambda i: (ROWS[i] * 3 - 1).astype("float32") * 0.5, "arithmetic of integers"),
])
def test_what_becomes_vectors(make, count):
    func = vectorized(make)
    assert not collect(func.body, For)
    store, = collect(func.body, BufferStore)
    assert isinstance(store.indices[0], Ramp) and store.value.dtype == "float32x8"


@pytest.mark.parametrize("make, lanes, why", [
    (lambda i: X[i * 2], 6, "6 of 8 lanes are not contiguous"), (lambda i: X[ROWS[i]], 8, "not linear"),
    (lambda i: X[i * i], 8, "not linear"),
    (lambda i: tir.sin(X[i]), 8, "tir.sin has no vector form"),
    (lambda i: i.astype("float32"), 8, "Var has no vector form"),
    (lambda i: Select(i < 3, X[i], W[i]), 8, "condition"),
    (lambda i: tir.if_then_else(i < 3, X[i], W[i]), 8, "condition"),
])
def test_what_stays_a_loop_and_why(make, lanes, why):
    func = vectorized(make, lanes)
    kept, = collect(func.body, For)
    assert kept.kind == "serial" and why in kept.annotations["simd"]


@pytest.mark.parametrize("extent, lanes, partial", [(3, 4, 3), (5, 8, 5), (13, 16, 13), (37, 16, 5), (20, 4, None)])
def test_what_is_no_multiple_ends_in_a_part_of_a_vector(extent, lanes, partial):
    func = vectorized(lambda i: tir.max(X[i], W[const(2)]), extent)
    counts = [None if r.count is None else r.count.value for r in collect(func.body, Ramp)]
    assert {r.lanes for r in collect(func.body, Ramp)} == {lanes} and set(counts) - {None} == {partial} - {None}


def test_a_shortened_loop_keeps_its_lanes():
    loop_ = loop("l", 5, lambda i: BufferStore(Y, X[i], (i,)), "vectorized")
    func = lowered(loop_.replace(annotations={"vector_lanes": 16}))
    assert [(r.lanes, r.count.value) for r in collect(vectorize_loop(func).body, Ramp)] == [(16, 5)] * 2


@pytest.mark.parametrize("make, name", [(lambda a, b: a + b, "add"), (tir.max, "max"), (tir.min, "min")])
@pytest.mark.parametrize("extent", [4, 8, 16, 32, 48, 64])
def test_lanes_are_reduced_by_one_call(make, name, extent):
    body = loop("l", extent, lambda i: BufferStore(Y, make(Y[const(0)], X[i] * 2.0), (const(0),)))
    func = lowered(body.replace(annotations={"reduce_lanes": 1}))
    inputs = arguments(func)
    inputs[3][:] = 7
    new = vectorize_loop(func)
    assert_same_results(results(func, inputs), new, inputs)
    assert [c.op for c in collect(new.body, Call)] == [f"tir.reduce_{name}"] and not collect(new.body, For)


@pytest.mark.parametrize("store, extent", [
    (lambda i: BufferStore(Y, Y[const(0)] + X[i], (const(0),)), 6),
    (lambda i: BufferStore(Y, Y[const(0)] + X[ROWS[i]], (const(0),)), 8),
    (lambda i: BufferStore(Y, Y[const(1)] + X[i], (const(0),)), 8),
    (lambda i: BufferStore(Y, Y[const(0)] * X[i], (const(0),)), 8),
    (lambda i: BufferStore(Y, Y[i] + X[i], (i,)), 8),
    (lambda i: BufferStore(Y, Y[const(0)] + X[const(1)], (const(0),)), 8)])
def test_other_reductions_stay_loops(store, extent):
    func = lowered(loop("l", extent, store).replace(annotations={"reduce_lanes": 1}))
    assert collect(vectorize_loop(func).body, For)


def test_every_lane_on_one_element_stays_a_loop():
    func = lowered(loop("l", 8, lambda i: BufferStore(Y, X[i], (const(0),)), "vectorized"))
    assert "same element" in collect(vectorize_loop(func).body, For)[0].annotations["simd"]


def test_scalars_join_vectors_by_broadcasts():
    store, = collect(vectorized(lambda i: X[i] * W[const(0)] + W[const(1)]).body, BufferStore)
    assert [type(b.value) for b in collect(store.value, Broadcast)] == [BufferLoad, BufferLoad]


# ---------------------------------------------------------------- vector types

def test_a_part_of_a_register_is_written_by_a_choice():
    acc = tir.decl_buffer((8,), name="acc", scope="local")
    fill = loop("l", 8, lambda i: BufferStore(acc, X[i], (i,)), "vectorized")
    part = loop("k", 5, lambda i: BufferStore(acc, acc[i] + W[i], (i,)), "vectorized")
    copy = loop("n", 8, lambda i: BufferStore(Y, acc[i], (i,)), "vectorized")
    func = lowered(tir.DeclBuffer(acc, tir.seq(fill, part, copy)))
    inputs = arguments(func)
    new = rewrite_vector_types(vectorize_loop(func))
    assert_same_results(results(func, inputs), new, inputs)
    assert [c.op for c in collect(new.body, Call)] == ["tir.first_n"]


@pytest.mark.parametrize("read, choices", [(5, 0), (3, 0), (6, 1)])
def test_a_part_of_a_register_is_all_of_it_where_nothing_reads_more(read, choices):
    acc = tir.decl_buffer((8,), name="acc", scope="local")
    fill = loop("l", 5, lambda i: BufferStore(acc, X[i], (i,)), "vectorized").replace(annotations={"vector_lanes": 8})
    copy = loop("n", read, lambda i: BufferStore(Y, acc[i], (i,)),
                "vectorized").replace(annotations={"vector_lanes": 8})
    func = lowered(tir.DeclBuffer(acc, tir.seq(fill, copy)))
    inputs = arguments(func)
    new = rewrite_vector_types(vectorize_loop(func))
    assert [c.op for c in collect(new.body, Call)] == ["tir.first_n"] * choices
    if not choices:
        assert_same_results(results(func, inputs), new, inputs)


def test_a_buffer_of_a_part_of_a_register_is_one():
    """Few rows in the lanes of vectors: sums of five of eight."""
    acc = tir.decl_buffer((5,), name="acc", scope="local")
    parts = [loop(n, 5, store, "vectorized").replace(annotations={"vector_lanes": 8}) for n, store in (
        ("l", lambda i: BufferStore(acc, X[i], (i,))), ("m", lambda i: BufferStore(acc, acc[i] + W[i], (i,))),
        ("n", lambda i: BufferStore(Y, acc[i], (i,))))]
    func = lowered(tir.DeclBuffer(acc, tir.seq(*parts)))
    inputs = arguments(func)
    new = rewrite_vector_types(vectorize_loop(func))
    assert (new.body.buffer.dtype, new.body.buffer.shape[0].value) == ("float32x8", 1)
    assert not collect(new.body, Call)
    assert_same_results(results(func, inputs), new, inputs)


def tile_program(index, extent=32, scope="local"):
    acc = tir.decl_buffer((extent,), name="acc", scope=scope)
    fill = loop("m", 2, lambda m: loop("l", 8, lambda i: BufferStore(acc, X[i], (index(m, i),)), "vectorized"))
    copy = loop("n", 2, lambda m: loop("k", 8, lambda i: BufferStore(Y, acc[index(m, i)], (m * 8 + i,)), "vectorized"))
    return lowered(tir.DeclBuffer(acc, tir.seq(fill, copy)))


@pytest.mark.parametrize("index, extent, scope, vectors", [
    (lambda m, i: m * 8 + i, 32, "local", True), (lambda m, i: m * 8 + i + 8, 32, "local", True),
    (lambda m, i: m * 8 + i + 4, 32, "local", False), (lambda m, i: m * 8 + i, 30, "local", True),
    (lambda m, i: m * 8 + i, 32, "global", False), (lambda m, i: m + i * 4, 32, "local", False),
])
def test_aligned_vectors_become_a_vector_buffer(index, extent, scope, vectors):
    func = tile_program(index, extent, scope)
    inputs = arguments(func)
    inputs[3][:] = 7
    new = rewrite_vector_types(vectorize_loop(func))
    assert_same_results(results(func, inputs), new, inputs)
    buffer = new.body.buffer
    assert (buffer.dtype, buffer.shape[0].value) == (("float32x8", -(-extent // 8)) if vectors else ("float32", extent))


# ---------------------------------------------------------------- operands by lane

def by_lane(at, turns=4, points=3, kind="unrolled", lanes=4, target=Y):
    """for l, i: target[i] = target[i] + broadcast(x[at(l, i)]) * w[l], in vectors, where l asks for the lanes of x."""
    def term(n, i):
        load = BufferLoad(X, (at(n, i),))
        place = Ramp(i * lanes, const(1), lanes)
        product = Broadcast(load, lanes) * BufferLoad(W, (Ramp(n * lanes, const(1), lanes),))
        return BufferStore(target, BufferLoad(target, (place,)) + product, (place,))
    outer = loop("l", turns, lambda n: loop("i", points, lambda i: term(n, i), kind), "unrolled")
    return lowered(outer.replace(annotations={"pragma_lanes": ("x",)}))


@pytest.mark.parametrize("case, vectors", [
    (dict(at=lambda n, i: i * 8 + n), 3), (dict(at=lambda n, i: n + 5), 1), (dict(at=lambda n, i: n - i * 8 + 16), 3),
    (dict(at=lambda n, i: i * 8 + n, turns=8, lanes=8), 3),
    (dict(at=lambda n, i: i * 8 + n * 2), 0), (dict(at=lambda n, i: i * 8), 0),  # not in a row
    (dict(at=lambda n, i: i * 8 + n, turns=3), 0), (dict(at=lambda n, i: i * 8 + n, turns=8), 0),  # no whole vector
    (dict(at=lambda n, i: i * 8 + n, kind="serial"), 0),  # the vectors would be no registers
    (dict(at=lambda n, i: ROWS[i] + n), 0),
])
def test_operands_that_lie_in_a_row_come_in_vectors(case, vectors):
    func = by_lane(**case)
    inputs = arguments(func)
    inputs[2][:] = 3
    inputs[3][:] = 7
    expected = results(func, inputs)
    new = lane_indexed_fma(func)
    assert not any("pragma_lanes" in f.annotations for f in collect(new.body, For))
    declared = collect(new.body, tir.DeclBuffer)
    assert [d.buffer.shape[0].value for d in declared] == [vectors] * (vectors > 0)
    assert len(collect(new.body, Broadcast)) == (vectors == 0)
    assert_same_results(expected, new, inputs)
    selected = lower_intrin(new)
    assert [c.op for c in collect(selected.body, Call)] == ["tir.fma_lane" if vectors else "tir.fma"]
    assert_same_results(expected, selected, inputs)


# ---------------------------------------------------------------- vectors that registers hold

def test_copies_of_vectors_are_held_where_a_loop_asks_for_it():
    """Values that are computed are in registers anyway, and single elements are no vectors."""
    def copies(i):
        whole, other = Ramp(i * 4, const(1), 4), Ramp(i * 4 + 32, const(1), 4)
        return tir.seq(BufferStore(Y, BufferLoad(X, (whole,)), (whole,)), BufferStore(Y, X[i], (i + 60,)),
                       BufferStore(Y, BufferLoad(X, (whole,)) * BufferLoad(W, (whole,)), (other,)))
    for annotations, held in (({"pragma_hold": 1}, 1), ({}, 0)):
        func = lowered(loop("i", 4, copies, "unrolled").replace(annotations=annotations))
        inputs = arguments(func)
        new = register_promote(func)
        assert [c.op for c in collect(new.body, Call)] == ["tir.held"] * held
        assert not any(f.annotations for f in collect(new.body, For))
        assert_same_results(results(func, inputs), new, inputs)


def test_operands_that_are_written_between_stay():
    func = by_lane(lambda n, i: i * 8 + n, target=X)
    assert len(collect(lane_indexed_fma(func).body, Broadcast)) == 1


def test_operands_under_a_condition_stay():
    func = by_lane(lambda n, i: i * 8 + n)
    guarded = func.body.replace(body=tir.IfThenElse(ROWS[const(0)] < 1, func.body.body))
    assert len(collect(lane_indexed_fma(func.replace(body=guarded)).body, Broadcast)) == 1


# ---------------------------------------------------------------- sums in registers


def tile(vectors, value=lambda load: load):
    """for k: for i, j, v: y[i, j, v] += broadcast(x[i * 8 + j * 2 + k]) * w[v], in vectors."""
    def term(k, i, j, v):
        place = Ramp((i * 2 + j) * 8 + v * 4, const(1), 4)
        element = value(BufferLoad(X, (i * 8 + j * 2 + k,)))
        product = Broadcast(element, 4) * BufferLoad(W, (Ramp(v * 4, const(1), 4),))
        return BufferStore(Y, BufferLoad(Y, (place,)) + product, (place,))
    return lower_intrin(lowered(loop("k", 2, lambda k: loop("i", 2, lambda i: loop("j", 2, lambda j: loop(
        "v", vectors, lambda v: term(k, i, j, v), "unrolled"), "unrolled"), "unrolled"))))


def row(vectors=3):
    """for k: for v: y[v] += broadcast(x[k]) * w[k, v]: each vector is an operand of one sum."""
    def term(k, v):
        place, weights = (Ramp(at + v * 4, const(1), 4) for at in (const(0), k * 12))
        product = Broadcast(BufferLoad(X, (k,)), 4) * BufferLoad(W, (weights,))
        return BufferStore(Y, BufferLoad(Y, (place,)) + product, (place,))
    return lower_intrin(lowered(loop("k", 2, lambda k: loop("v", vectors, lambda v: term(k, v), "unrolled"))))


@pytest.mark.parametrize("func, several", [
    (tile(vectors=2), True), (tile(vectors=1), True), (tile(vectors=2, value=lambda load: load + 1.0), True),
    (row(), False),
])
def test_sums_stay_in_their_registers_where_operands_serve_several(func, several):
    func = func.replace(body=func.body.replace(annotations={ACCUMULATE: 1}))
    inputs = arguments(func)
    new = accumulate(func)
    assert not any(ACCUMULATE in f.annotations for f in collect(new.body, For))
    call, = (c for c in collect(new.body, Call) if c.op in ("tir.fma", "tir.accumulate"))
    assert call.op == ("tir.accumulate" if several else "tir.fma")
    assert_same_results(results(func, inputs), new, inputs)


# ---------------------------------------------------------------- squares

def across(base, stride=8, lanes=4, turns=None, target=Y, more=lambda value, u: value):
    """for u: target[u * 8:] = x[base(u) + l * stride] for each lane l, where u asks for squares."""
    def store(u):
        load = BufferLoad(X, (Ramp(base(u), const(stride), lanes),))
        return BufferStore(target, more(load, u), (Ramp(u * 8, const(1), lanes),))
    outer = loop("u", turns or lanes, store, "unrolled")
    return lowered(outer.replace(annotations={"pragma_transpose": 1}))


@pytest.mark.parametrize("case, squares", [
    (dict(base=lambda u: u), 1), (dict(base=lambda u: u + 5, stride=4), 1), (dict(base=lambda u: u, lanes=8), 1),
    (dict(base=lambda u: u, more=lambda x, u: x + BufferLoad(X, (Ramp(u + 32, const(9), 4),)) * x), 2),
    (dict(base=lambda u: u * 2), 0), (dict(base=lambda u: u, turns=3), 0), (dict(base=lambda u: u, target=X), 0),
    (dict(base=lambda u: u, stride=1), 0)])
def test_squares_are_turned_in_registers(case, squares):
    func = across(**case)
    inputs = arguments(func)
    expected = results(func, inputs)
    new = register_transpose(func)
    assert not any("pragma_transpose" in f.annotations for f in collect(new.body, For))
    assert len(collect(new.body, tir.DeclBuffer)) == 2 * squares
    strides = [r.stride.value for r in collect(new.body, Ramp)]
    assert (set(strides) == {1}) == (squares > 0 or case.get("stride") == 1)
    assert_same_results(expected, new, inputs)


@pytest.mark.parametrize("count", [1, 3])
def test_squares_of_a_few_rows(count):
    """Where lanes of a part of a vector lie apart, only elements transposed in registers become a vector."""
    inner = loop("l", count, lambda i: BufferStore(Y, X[i * 8], (i,)), "vectorized").replace(
        annotations={"vector_lanes": 4})
    assert not collect(vectorize_loop(lowered(inner)).body, Ramp)

    outer = loop("u", 4, lambda u: loop("l", count, lambda i: BufferStore(Y, X[i * 8 + u], (u * 8 + i,)), "vectorized")
                 .replace(annotations={"vector_lanes": 4}), "unrolled")
    func = lowered(outer.replace(annotations={"pragma_transpose": 1}))
    inputs = arguments(func)
    new = register_transpose(vectorize_loop(func))
    rows = [load for load in collect(new.body, BufferLoad) if load.buffer is X]
    assert len(rows) == 1 and {r.stride.value for r in collect(new.body, Ramp)} == {1}
    assert_same_results(results(func, inputs), new, inputs)


def test_squares_under_a_condition_stay():
    func = across(lambda u: u)
    guarded = func.body.replace(body=tir.IfThenElse(ROWS[func.body.loop_var] < 1, func.body.body))
    assert not collect(register_transpose(func.replace(body=guarded)).body, tir.DeclBuffer)


# ---------------------------------------------------------------- flatten, workspace

def test_flatten_widens_the_indices_of_huge_buffers():
    a = tir.decl_buffer((70000, 70000), name="a")
    i, j = Var("i"), Var("j")
    body = tir.for_(i, 70000, tir.for_(j, 70000, BufferStore(a, const(0.0), (i, j))))
    store, = collect(flatten_buffer(lowered(body, [a])).body, BufferStore)
    assert store.indices[0].dtype == "int64" and store.buffer.shape[0].value == 70000 * 70000


def test_flatten_uses_strides_and_offsets():
    a = tir.decl_buffer((3, 4), name="a", strides=(8, 2), elem_offset=5)
    i, j = Var("i"), Var("j")
    body = tir.for_(i, 3, tir.for_(j, 4, BufferStore(a, const(0.0), (i, j))))
    store, = collect(flatten_buffer(lowered(body, [a])).body, BufferStore)
    assert str(store.indices[0]) == "i * 8 + j * 2 + 5" and store.buffer.shape[0].value == 5 + 2 * 8 + 3 * 2 + 1


@pytest.mark.parametrize("kind, extent, lifted", [
    ("serial", STACK_BYTES // 4, False), ("serial", STACK_BYTES // 4 + 1, True),
    ("parallel", THREAD_STACK_BYTES // 4, False), ("parallel", THREAD_STACK_BYTES // 4 + 1, True),
    ("parallel", Var("n"), True)])
def test_large_and_symbolic_temporaries_become_parameters(kind, extent, lifted):
    t = tir.decl_buffer((extent,), name="t")
    n = [extent] if isinstance(extent, Var) else []
    body = loop("p", 4, lambda i: tir.DeclBuffer(t, tir.seq(
        BufferStore(t, X[i], (const(0),)), BufferStore(Y, t[const(0)], (i,)))), kind)
    func = lift_workspace(lowered(body, [X, Y, *n]))
    assert func.attrs.get("num_workspace", 0) == lifted
    assert [p.name for p in func.params] == ["x", "y"] + ["t"] * lifted + ["n"] * len(n)
    assert func.body.kind == ("serial" if lifted else kind), "threads must not share a temporary"


def test_one_element_around_a_parallel_loop_is_no_variable():
    """It is an array that all threads see."""
    t = tir.decl_buffer((1,), name="t", scope="local")
    body = tir.DeclBuffer(t, tir.seq(BufferStore(t, X[const(0)], (const(0),)),
                                     loop("p", 4, lambda i: BufferStore(Y, t[const(0)], (i,)), "parallel")))
    func = lift_workspace(lowered(body, [X, Y]))
    shared = func.buffers[-1]
    assert (shared.name, shared.scope) == ("t", "global")
    assert {a.buffer for a in collect(func.body, (tir.BufferLoad, BufferStore))} == {X, Y, shared}


def test_temporaries_of_parallel_loops_share_the_threads_stack():
    """Each would fit, but not both: the loop of the second becomes serial."""
    half, more = (tir.decl_buffer((THREAD_STACK_BYTES // 8 + n,), name=f"t{n}") for n in (0, 1))
    func = lift_workspace(lowered(tir.seq(*(loop("p", 4, lambda i, t=t: tir.DeclBuffer(t, tir.seq(
        BufferStore(t, X[i], (const(0),)), BufferStore(Y, t[const(0)], (i,)))), "parallel") for t in (half, more))),
        [X, Y]))
    assert [s.kind for s in func.body.seq] == ["parallel", "serial"] and func.buffers[-1] is more


def test_branches_share_the_stack():
    """One of them runs: each fits."""
    half, more = (tir.decl_buffer((THREAD_STACK_BYTES // 8 + n,), name=f"t{n}") for n in (0, 1))
    func = lift_workspace(lowered(loop("p", 4, lambda i: tir.IfThenElse(i < 3, *(tir.DeclBuffer(t, tir.seq(
        BufferStore(t, X[i], (const(0),)), BufferStore(Y, t[const(0)], (i,)))) for t in (half, more))), "parallel"),
        [X, Y]))
    assert func.body.kind == "parallel" and "num_workspace" not in func.attrs


def test_what_does_not_fit_a_thread_takes_no_room_of_others():
    large, small = (tir.decl_buffer((n,), name=name) for name, n in (("large", THREAD_STACK_BYTES), ("small", 4)))
    func = lift_workspace(lowered(loop("p", 4, lambda i: tir.DeclBuffer(large, tir.DeclBuffer(small, tir.seq(
        BufferStore(small, X[i], (const(0),)), BufferStore(large, small[const(0)], (const(0),)),
        BufferStore(Y, large[const(0)], (i,))))), "parallel"), [X, Y]))
    assert func.buffers[-1] is large and func.attrs["num_workspace"] == 1


@pytest.mark.parametrize("size, inner, kept", [
    (4, 4, True), (THREAD_STACK_BYTES // 4 - 4, 4, True), (THREAD_STACK_BYTES // 4 - 4, 5, False),
    (THREAD_STACK_BYTES, 4, False)])
def test_what_each_thread_makes_for_itself_is_on_its_stack_or_the_loop_is_like_others(size, inner, kept):
    t, u = (tir.decl_buffer((n,), name=name) for n, name in ((size, "t"), (inner, "u")))
    making = loop("i", 4, lambda i: tir.DeclBuffer(u, tir.seq(
        BufferStore(u, X[i], (const(0),)), BufferStore(t, u[const(0)], (i,))))).replace(annotations={EACH_THREAD: 1})
    func = lift_workspace(lowered(tir.DeclBuffer(t, tir.seq(
        making, loop("p", 4, lambda i: BufferStore(Y, t[i], (i,)), "parallel"))), [X, Y]))
    assert func.attrs.get("num_workspace", 0) == (not kept)
    assert [EACH_THREAD in f.annotations for f in collect(func.body, tir.For)] == [kept, False]


def test_a_temporary_around_a_parallel_loop_is_the_threads_in_common():
    t = tir.decl_buffer((4,), name="t")
    func = lift_workspace(lowered(tir.DeclBuffer(t, loop("p", 4, lambda i: BufferStore(t, X[i], (i,)), "parallel")),
                                  [X, Y]))
    assert func.attrs["num_workspace"] == 1 and func.body.kind == "parallel"


@pytest.mark.parametrize("op, parts, whole", [("word", 4, "int8"), ("pair", 2, "int16")])
def test_words_are_loaded_where_numbers_have_their_bits(op, parts, whole):
    """Of wider numbers a word has the lowest bits, which do not follow one another."""
    for dtype in ("int8", "int16", "int32"):
        x, y = tir.decl_buffer((8,), dtype, "x"), tir.decl_buffer((1,), "int32", "y")
        value = Call("int32", f"tir.{op}", tuple(BufferLoad(x, (const(n),)) for n in range(parts)))
        func = tir.prim_func([x, y], BufferStore(y, value, (const(0),)))
        call, = collect(lower_intrin(func.replace(body=func.root.body)).body, Call)
        assert call.op == (f"tir.load_{op}" if dtype == whole else f"tir.{op}")
