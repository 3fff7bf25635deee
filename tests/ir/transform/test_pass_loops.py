"""Passes over flat programs: unrolling, hoisting, shared memory, named expressions, narrow indices, pragmas."""
import numpy as np
import pytest
from tir_cases import arguments, fill_program, loop, results

from ingot import te, tir
from ingot.codegen.c_function import print_function
from ingot.ir.expr import Call, Cast, Let, Select, Var, const
from ingot.ir.module import IRModule
from ingot.ir.node import Mutator, collect
from ingot.ir.tir.function import prim_func
from ingot.ir.tir.stmt import AttrStmt, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, seq
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.context import PassContext
from ingot.ir.transform.pass_table import TIR
from ingot.ir.transform.pipeline import TIR_PASSES, lower_prim_func
from ingot.tir import transform as T


def run(make, func, exact=True):
    """`func` after a pass, verified, with the same results from arrays of 7."""
    inputs = arguments(func)
    for x in inputs:
        if isinstance(x, np.ndarray):
            x[:] = 7
    new = verify(make(IRModule({"main": func}))["main"])
    if exact:
        for a, b in zip(results(func, inputs), results(new, inputs)):
            np.testing.assert_array_equal(a, b)
    return new


def flat(params, body):
    func = prim_func(params, body)
    return func.replace(body=func.root.body)


def kinds(func):
    return [f.kind for f in collect(func.body, For)][::-1]


# ---------------------------------------------------------------- UnrollLoop

def test_unrolled_loops_become_copies():
    func = fill_program(lambda fill: loop("i", 3, lambda i: loop("j", 2, lambda j: fill(i * 2 + j), "unrolled")))
    new = run(T.UnrollLoop(), func)
    assert kinds(new) == ["serial"] and len(collect(new.body, BufferStore)) == 2
    assert kinds(run(T.UnrollLoop(explicit_unroll=False), func)) == ["serial", "unrolled"]


def test_extents_that_simplify_single_turns_and_local_memory():
    t = tir.decl_buffer((4,), name="t", scope="local")

    def two_turns(fill):
        return loop("n", 3, lambda n: loop("i", 2, lambda i: fill(i + n * 2)).replace(extent=n + 2 - n))

    def kinds_of(body, **settings):
        with PassContext(config={"tir.UnrollLoop": settings}):
            return kinds(run(T.UnrollLoop(), fill_program(body)))
    assert kinds_of(two_turns, auto_max_step=2) == ["serial"]
    once = lambda fill: loop("i", 1, lambda i: loop("j", 5, lambda j: fill(i + j)))  # noqa: E731
    assert kinds_of(once, auto_max_extent=1, explicit_unroll=False) == ["serial"]
    assert kinds_of(once, explicit_unroll=False) == ["serial", "serial"]

    def local(fill):
        return DeclBuffer(t, tir.seq(loop("i", 4, lambda i: BufferStore(t, const(1.0), (i,))),
                                     loop("j", 4, lambda j: fill(j, t[0]))))
    assert kinds_of(local, unroll_local_access=True) == kinds_of(local)[1:] == ["serial"]


def test_loops_that_ask_for_it_are_copied_before_their_choices_are_simplified():
    def body(fill):
        inner = loop("j", 3, lambda j: fill(j, Select(j == 1, const(2.0), const(3.0))), "unrolled")
        return tir.seq(inner.replace(annotations={"pragma_unroll_explicit": 1}), loop("k", 2, lambda k: fill(k + 8),
                                                                                      "unrolled"))

    new = run(T.UnrollCopies(), fill_program(body))
    assert kinds(new) == ["unrolled"] and len(collect(new.body, BufferStore)) == 4
    assert not collect(run(T.Simplify(), new).body, Select)


def test_copies_have_names_of_their_own():
    t = tir.decl_buffer((1,), name="t", scope="local")

    def body(fill):
        return loop("i", 2, lambda i: DeclBuffer(t, tir.seq(
            BufferStore(t, const(1.0), (const(0),)), LetStmt(v := Var("v"), i * 3, fill(v, t[0])),
            loop("k", 2, lambda k: fill(k + 8)))), "unrolled")

    new = run(T.UnrollLoop(), fill_program(body))
    assert len({id(d.buffer) for d in collect(new.body, DeclBuffer)}) == 2
    assert len({id(f.loop_var) for f in collect(new.body, For)}) == 2


@pytest.mark.parametrize("step, expected", [(5, ["serial", "serial"]), (6, ["serial", "unrolled"]),
                                            (24, ["unrolled", "unrolled"])])
def test_short_loops_are_unrolled_by_their_number_of_statements(step, expected):
    func = fill_program(lambda fill: loop("i", 4, lambda i: loop("j", 3, lambda j: tir.seq(
        fill(i * 3 + j), fill(i * 3 + j + 12)))))
    assert kinds(run(T.UnrollLoop(auto_max_step=step, explicit_unroll=False), func)) == expected
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": step, "explicit_unroll": False}}):
        assert kinds(run(T.UnrollLoop(), func)) == expected


def test_loops_around_others_are_not_unrolled_alone():
    func = fill_program(lambda fill: loop("i", 2, lambda i: loop("j", 30, lambda j: fill(i * 30 + j))))
    assert kinds(run(T.UnrollLoop(auto_max_extent=2), func)) == ["serial", "serial"]


def test_pragmas_of_loops_and_attributes_override_the_settings():
    def body(fill):
        inner = loop("j", 3, lambda j: fill(j + 40))
        first = loop("i", 3, lambda i: fill(i))
        marked = first.replace(annotations={"pragma_auto_unroll_max_step": 8, "pragma_unroll_explicit": 1, "keep": 1})
        return tir.seq(marked, AttrStmt(const(0), "pragma_auto_unroll_max_step", const(8), inner),
                       loop("k", 3, lambda k: fill(k + 20)))

    new = run(T.UnrollLoop(explicit_unroll=False), fill_program(body))
    assert kinds(new) == ["serial", "unrolled"] and not collect(new.body, AttrStmt)
    assert len(new.body.seq) == 5


def test_unroll_errors():
    n = Var("n")
    func = fill_program(lambda fill: loop("i", n, lambda i: fill(i), "unrolled"), params=[n])
    with pytest.raises(ValueError, match="loop i is unrolled, but its extent n is no constant"):
        T.UnrollLoop()(IRModule({"main": func}))
    wrong = fill_program(lambda fill: AttrStmt(const(0), "pragma_unroll_explicit", tir.as_expr("yes"), fill(0)))
    with pytest.raises(ValueError, match="pragma_unroll_explicit is an integer, not 'yes'"):
        T.UnrollLoop()(IRModule({"main": wrong}))


# ---------------------------------------------------------------- HoistIndex

def test_what_a_rolled_loop_does_not_change_of_an_index_stands_before_it():
    x, y, k = tir.decl_buffer((120,), name="x"), tir.decl_buffer((4,), name="y"), Var("k")
    func = flat([x, y], loop("n", 3, lambda n: loop("m", 2, lambda m: For(
        k, const(0), const(5), "serial", loop("i", 4, lambda i: BufferStore(
            y, y[i] + x[n * 40 + m * 20 + i * 5 + k], (i,)), "unrolled"), None, {"pragma_unroll": 1}))))
    new = run(T.HoistIndex(), func)
    let, = collect(new.body, LetStmt)
    assert let.var.name == "x_at" and str(let.value) == "n * 40 + m * 20"
    assert let.body.loop_var is k
    plain = func.replace(body=_Unmarked().visit(func.body))
    assert run(T.HoistIndex(), plain).body is plain.body


def gathering(written=None):
    """y[i] += x[n * 40 + places[k] * 2 + i], where the loop over k may also write a buffer."""
    x, y, k = tir.decl_buffer((120,), name="x"), tir.decl_buffer((4,), name="y"), Var("k")
    places = tir.decl_buffer((5,), "int32", name="places")

    def turn(n):
        body = loop("i", 4, lambda i: BufferStore(y, y[i] + x[n * 40 + places[k] * 2 + i], (i,)), "unrolled")
        return seq(body, *([BufferStore(places, const(0), (k,))] if written else []))

    return flat([x, y, places], loop("n", 3, lambda n: For(
        k, const(0), const(5), "serial", turn(n), None, {"pragma_unroll": 1}))), k


def test_an_index_read_from_memory_is_computed_once_in_a_turn():
    func, k = gathering()
    let, = collect(run(T.HoistIndex(), func).body, LetStmt)
    assert let.var.name == "x_here" and str(let.value) == 'T.Cast("int64", n * 40 + places[k] * 2)'
    outer, = (f for f in collect(run(T.HoistIndex(), func).body, For) if f.loop_var is k)
    assert isinstance(outer.body, LetStmt)


def test_an_index_that_the_loop_writes_is_read_where_it_is_used():
    func, _ = gathering(written=True)
    assert not collect(run(T.HoistIndex(), func).body, LetStmt)


class _Unmarked(Mutator):
    def visit_For(self, f):
        return f.replace(annotations={}, body=self.visit(f.body))


# ---------------------------------------------------------------- InjectPrefetch

def panels(place=lambda p, t, k, v: p * 24 + k * 2 + v * 8, turns=2, names=("b",)):
    """for p, t, k, v: y[t * 4 + k] += b[place], with the annotation on k."""
    b, y = tir.decl_buffer((96,), name="b"), tir.decl_buffer((turns * 4,), name="y")
    p, t, k, v = Var("p"), Var("t"), Var("k"), Var("v")
    add = BufferStore(y, y[t * 4 + k] + b[place(p, t, k, v)], (t * 4 + k,))
    inner = tir.for_(k, 4, tir.for_(v, 3, add)).replace(annotations={"pragma_prefetch": names})
    return flat([b, y], tir.for_(p, 3, tir.for_(t, turns, inner)))


def asked_for(func):
    return [str(c.args[0].args[0].indices[0]) for c in collect(func.body, Call) if c.op == "tir.prefetch"]


def test_the_next_panel_is_asked_for():
    """Each of 3 x 4 places in two turns of t, a cache line, which two of them share, in an iteration of k."""
    new = run(T.InjectPrefetch(), panels(), exact=False)
    assert asked_for(new) == ["T.Select(p < 2, p + 1, 0) * 24 + t * 4 + k // 2 * 2 + k % 2 * 16"]
    assert not any(f.annotations for f in collect(new.body, For))
    assert print_function(lower_prim_func(new), "f").body.count("INGOT_PREFETCH(&b[") == 1
    assert len(asked_for(run(T.InjectPrefetch(), panels(turns=4), exact=False))) == 1
    far = panels(lambda p, t, k, v: p * 400 + k * 2 + v * 100)
    assert len(asked_for(run(T.InjectPrefetch(), far, exact=False))) == 2


def test_a_panel_of_elements_in_a_row_is_stepped_through():
    """The vectors of an iteration of k are the elements up to the next iteration's: one product and one quotient say
    where."""
    new = run(T.InjectPrefetch(), panels(lambda p, t, k, v: p * 24 + k * 6 + v * 2, turns=4), exact=False)
    assert asked_for(new) == ["T.Select(p < 2, p + 1, 0) * 24 + t * 6 + k * 3 // 2"]


@pytest.mark.parametrize("options", [{"names": ("c",)}, {"place": lambda p, t, k, v: k},
                                     {"place": lambda p, t, k, v: p * p + k + v}])
def test_nothing_is_asked_for_where_places_are_not_so(options):
    new = run(T.InjectPrefetch(), panels(**options))
    assert not asked_for(new)
    assert not any(f.annotations for f in collect(new.body, For))


def test_what_comes_next_of_a_buffer_is_asked_for():
    b, y, k = tir.decl_buffer((80,), name="b"), tir.decl_buffer((8,), name="y"), Var("k")
    inner = tir.for_(k, 10, loop("i", 8, lambda i: BufferStore(y, y[i] + b[k * 8 + i] * b[k * 8 + i], (i,))))
    new = run(T.InjectPrefetch(), flat([b, y], inner.replace(annotations={"pragma_prefetch_ahead": ("b",)})))
    call, = [c for c in collect(new.body, Call) if c.op == "tir.prefetch"]
    assert str(call.args[0].args[0]) == "b[k * 8 + i]" and call.args[1].value == 2048
    assert not new.body.annotations and len({id(f.loop_var) for f in collect(new.body, For)}) == 3
    assert "INGOT_PREFETCH_AHEAD(&b[k * 8 + i], 2048);" in print_function(lower_prim_func(new), "f").body


def test_loops_that_go_on_and_several_streams():
    """A sum in blocks, ib and ic, over two streams of b, o, that are far from each other."""
    b, y = tir.decl_buffer((2 * 96,), name="b"), tir.decl_buffer((1,), name="y")
    p, t, ib, ic, o = map(Var, ("p", "t", "ib", "ic", "o"))
    body = tir.for_(o, 2, BufferStore(y, y[const(0)] + b[o * 96 + p * 32 + ib * 8 + ic * 2], (const(0),)), "unrolled")
    inner = tir.for_(ic, 4, body).replace(annotations={"pragma_prefetch": ("b",)})
    program = tir.for_(p, 3, tir.for_(t, 2, tir.for_(ib, 4, inner)))
    calls = [c for c in collect(run(T.InjectPrefetch(), flat([b, y], program)).body, Call) if c.op == "tir.prefetch"]
    first = "T.Select(p < 2, p + 1, 0) * 32 + t * 16 + ib * 4 + ic"
    assert [str(c.args[0].args[0].indices[0]) for c in calls] == [first, first + " + 96"]


# ---------------------------------------------------------------- HoistIfThenElse

def test_conditions_leave_the_loops_they_do_not_depend_on():
    def body(fill, kind="serial"):
        return loop("i", 4, lambda i: loop("j", 3, lambda j: loop("k", 2, lambda k: IfThenElse(
            i < 2, fill(i * 6 + j * 2 + k))), kind))

    new = run(TIR["HoistIfThenElse"](), fill_program(body))
    assert isinstance(new.body.body, IfThenElse) and isinstance(new.body.body.then_case, For)
    new = run(TIR["HoistIfThenElse"](), fill_program(lambda fill: body(fill, "parallel")))
    assert isinstance(new.body.body.body, IfThenElse), "parallel loops keep what is directly inside"


@pytest.mark.parametrize("condition", [lambda y, i: y[0] < 3.0, lambda y, i: tir.call_extern("bool", "ask"),
                                       lambda y, i: i < 2])
def test_conditions_that_may_change_stay(condition):
    y = tir.decl_buffer((8,), name="y")
    i = Var("i")
    body = tir.for_(i, 4, IfThenElse(condition(y, i), BufferStore(y, y[i] + 1.0, (i,))))
    new = run(TIR["HoistIfThenElse"](), flat([y], body), exact=False)
    assert isinstance(new.body, For)


@pytest.mark.parametrize("first, second, expected", [
    (lambda y, i: i < 2, lambda y, i: i < 2, 1), (lambda y, i: i < 2, lambda y, i: i < 3, 2),
    (lambda y, i: y[i] < 3.0, lambda y, i: y[i] < 3.0, 2),  # the first store may change it
])
def test_statements_behind_one_condition_are_guarded_once(first, second, expected):
    y = tir.decl_buffer((8,), name="y")
    i = Var("i")
    body = tir.for_(i, 4, seq(IfThenElse(first(y, i), BufferStore(y, y[i] + 1.0, (i,))),
                              IfThenElse(second(y, i), BufferStore(y, y[i] * 2.0, (i,)))))
    assert len(collect(run(TIR["HoistIfThenElse"](), flat([y], body), exact=False).body, IfThenElse)) == expected


def test_a_branch_with_an_else_stays():
    n = Var("n")
    func = fill_program(lambda fill: loop("i", 4, lambda i: IfThenElse(n < 2, fill(i), fill(i + 4))), params=[n])
    assert isinstance(run(TIR["HoistIfThenElse"](), func).body, For)


def test_conditions_leave_a_loop_one_by_one():
    def body(fill):
        return loop("i", 4, lambda i: loop("j", 3, lambda j: loop("k", 2, lambda k: IfThenElse(
            i < 2, IfThenElse(j < 1, fill(i * 6 + j * 2 + k))))))

    new = run(TIR["HoistIfThenElse"](), fill_program(body)).body.body  # if i < 2: for j: if j < 1: for k
    assert isinstance(new, IfThenElse) and isinstance(new.then_case.body, IfThenElse)
    assert isinstance(new.then_case.body.then_case, For)


# ---------------------------------------------------------------- HoistSumPredicate

def sums(condition, kind="unrolled", zero=0.0, over=None):
    """for i in 4: for j in 3: for k in 2 (of a kind): y[k] += x[...] where condition(i, j, k); over: what is added
    to."""
    x, y = tir.decl_buffer((24,), name="x"), tir.decl_buffer((2,), name="y")
    i, j, k = Var("i"), Var("j"), Var("k")
    term = tir.if_then_else(condition(i, j, k), x[i * 6 + j * 2 + k], tir.const(zero, "float32"))
    store = BufferStore(y, (y[k] if over is None else over(y, k)) + term, (k,))
    return flat([x, y], tir.for_(i, 4, tir.for_(j, 3, tir.for_(k, 2, store, kind))))


def test_terms_that_add_nothing_are_not_computed():
    func = sums(lambda i, j, k: tir.logical_and(i < 3, j < 2))
    new = run(T.HoistSumPredicate(), func).body.body  # for i: if i < 3: for j: if j < 2: for k: y[k] += x[...]
    assert isinstance(new, IfThenElse) and isinstance(new.then_case.body, IfThenElse)
    assert not [c for c in collect(new, Call) if c.op == "tir.if_then_else"]


@pytest.mark.parametrize("changes", [
    dict(condition=lambda i, j, k: i + k < 3), dict(kind="serial"), dict(zero=1.0), dict(over=lambda y, k: y[1 - k]),
])
def test_other_choices_stay(changes):
    func = sums(**{"condition": lambda i, j, k: i < 3, **changes})
    assert run(T.HoistSumPredicate(), func) is func


# ---------------------------------------------------------------- StorageRewrite

def chain(sizes, scope="global", dtypes=None):
    """x -> a -> b -> c -> y, each temporary of a size (and dtype)."""
    x, y = tir.decl_buffer((8,), name="x"), tir.decl_buffer((8,), name="y")
    dtypes = dtypes or ["float32"] * len(sizes)
    temps = [tir.decl_buffer((s,), d, n, scope) for n, s, d in zip("abc", sizes, dtypes)]
    stages = [x, *temps, y]
    body = tir.seq(*(loop("i", 8, lambda i: BufferStore(new, tir.cast(old[i] + old[i], new.dtype), (i,)))
                     for old, new in zip(stages, stages[1:])))
    for t in reversed(temps):
        body = DeclBuffer(t, body)
    return flat([x, y], body)


def test_temporaries_share_memory_when_their_lives_do_not_overlap():
    new = run(TIR["StorageRewrite"](), chain([8, 8, 16]))
    decls = collect(new.body, DeclBuffer)
    assert sorted((d.buffer.name, d.buffer.shape[0].value) for d in decls) == [("a", 16), ("b", 8)]


@pytest.mark.parametrize("func", [chain([8, 8, 8], "local"), chain([8, 8, 8], dtypes=["float32", "float32", "float64"]),
                                  chain([8, 8])])
def test_what_does_not_share(func):
    assert run(TIR["StorageRewrite"](), func) is func


def test_symbolic_sizes_share_when_equal():
    n, m = Var("n"), Var("m")
    for third, count in ((n, 2), (m, 3)):
        temps = [tir.decl_buffer((s,), "float32", c) for c, s in zip("abc", (n, n, third))]
        y = tir.decl_buffer((8,), name="y")
        body = tir.seq(*(BufferStore(b, const(1.0), (const(0),)) if a is None else
                         BufferStore(b, a[0], (const(0),)) for a, b in zip([None, *temps], [*temps, y])))
        for t in reversed(temps):
            body = DeclBuffer(t, body)
        new = TIR["StorageRewrite"]()(IRModule({"main": flat([y, n, m], body)}))["main"]
        assert len(collect(new.body, DeclBuffer)) == count


def test_a_setting_leaves_storage_rewrite_out():
    func = chain([8, 8, 8])
    with PassContext(config={"tir.disable_storage_rewrite": True}):
        assert run(TIR["StorageRewrite"](), func) is func


# ---------------------------------------------------------------- CommonSubexprElimTIR

def named(func, **options):
    new = run(TIR["CommonSubexprElimTIR"](**options), func)
    return new, [str(s.value) for s in collect(new.body, LetStmt)]


def test_repeated_indices_get_a_name():
    x = tir.decl_buffer((64,), name="x")

    def body(fill):
        return loop("i", 3, lambda i: loop("j", 4, lambda j: tir.seq(
            fill(i * 16 + j * 2 + 1, x[i * 16 + j * 2 + 1] + x[i * 16 + j * 2]),
            fill(i * 16 + j * 2 + 8, x[i + j]))))

    new, values = named(fill_program(body, params=[x]))
    assert values == ["i * 16 + j * 2"] and str(new.body.body.body.body.seq[0]).startswith("y[at + 1] = x[at + 1]")
    with PassContext(config={"tir.disable_cse_tir": True}):
        assert named(fill_program(body, params=[x]))[1] == []
    assert named(fill_program(body, params=[x]), enable_cse_tir=False)[1] == []


def test_names_within_names():
    def body(fill):
        return loop("i", 2, lambda i: loop("j", 2, lambda j: tir.seq(
            *(fill(i * 8 + j * 4 + 3 * k) for k in range(2)),
            *(fill(i * 8 + j * 4 + i * 6 + j * 5, 2) for _ in range(2)))))

    assert named(fill_program(body))[1] == ["at + i * 6 + j * 5", "i * 8 + j * 4"]


def test_statements_between_others_are_bodies_of_their_own():
    def body(fill):
        return loop("i", 2, lambda i: tir.seq(fill(i * 4 + i * 3), loop("j", 2, lambda j: fill(i * 4 + i * 3 + j)),
                                              fill(i * 4 + i * 3)))

    assert named(fill_program(body))[1] == []


@pytest.mark.parametrize("index", [lambda i, n: tir.floordiv(i * 2 + 1, n) + i * 3, lambda i, n: i * 2 + 1])
def test_what_gets_no_name(index):
    """Divisions by what may be 0, and what is short."""
    n = Var("n")
    func = fill_program(lambda fill: loop("i", 4, lambda i: tir.seq(fill(index(i, n)), fill(index(i, n)))), params=[n])
    assert named(func)[1] == []


def test_what_is_not_always_evaluated_gets_no_name():
    x = tir.decl_buffer((64,), name="x")

    def body(fill, choose):
        return loop("i", 4, lambda i: fill(i, choose(i < 2, x[i * 8 + i * 4], x[i * 8 + i * 4])))

    for choose in (tir.if_then_else, Select):
        assert named(fill_program(lambda fill: body(fill, choose), params=[x]))[1] == []


def test_equivalent_terms_are_refused():
    with pytest.raises(ValueError, match="leave identify_equiv_terms False; Simplify"):
        named(fill_program(lambda fill: fill(0)), identify_equiv_terms=True)


# ---------------------------------------------------------------- NarrowDataType, LowerIntrin

def test_int64_loops_and_indices_become_int32():
    i = Var("i", "int64")
    n = Var("n", "int64")
    func = fill_program(lambda fill: tir.for_(i, 8, IfThenElse(i < 5, fill(i * 3 + 1))), params=[n])
    new = run(TIR["NarrowDataType"](32), func)
    store, = collect(new.body, BufferStore)
    assert new.body.loop_var.dtype == "int32" and store.indices[0].dtype == "int32"
    assert not collect(new.body, Cast) and str(new.body.body.condition) == "i < 5"
    assert TIR["NarrowDataType"](64)(IRModule({"main": func}))["main"] is func


def test_what_may_be_larger_stays():
    i, n = Var("i", "int64"), Var("n", "int64")
    symbolic = fill_program(lambda fill: tir.for_(i, n, fill(i)), params=[n])
    assert run(TIR["NarrowDataType"](32), symbolic).body.loop_var.dtype == "int64"
    large = fill_program(lambda fill: tir.for_(i, 8, fill(tir.floormod(i * (1 << 30), const(64, "int64")))))
    index = collect(run(TIR["NarrowDataType"](32), large).body, BufferStore)[0].indices[0]
    assert index.dtype == "int64"


def test_no_cast_to_and_fro_is_left():
    i = Var("i", "int64")
    func = fill_program(lambda fill: tir.for_(i, 32, IfThenElse(
        Cast("int32", tir.floormod(i, const(8, "int64"))) < 5, fill(Cast("int64", Cast("int32", i)) * 2))))
    new = run(TIR["NarrowDataType"](32), func)
    assert not collect(new.body, Cast) and str(new.body.body.condition) == "i % 8 < 5"


def test_narrowing_takes_32_or_64_bits():
    with pytest.raises(ValueError, match="target_bits is 32 or 64, not 16"):
        TIR["NarrowDataType"](16)(IRModule({"main": fill_program(lambda fill: fill(0))}))


def test_lets_in_expressions_become_statements():
    x, v, w = tir.decl_buffer((8,), name="x"), Var("v", "float32"), Var("w", "float32")

    def body(fill):
        value = Let(v, x[0] * 2.0, v * v + Let(w, v + 1.0, w * w))
        return tir.seq(fill(0, value), fill(1, tir.if_then_else(x[1] > 100.0, Let(v, x[3], v + v), x[2])))

    new = run(T.LowerIntrin(), fill_program(body, params=[x]))
    assert not collect(new.body, Let) and [s.var.name for s in collect(new.body, LetStmt)] == ["w", "v"]
    assert "x[3] + x[3]" in str(new.body.seq[1])


# ---------------------------------------------------------------- vectors, pragmas

def test_vectorization_can_be_turned_off():
    func = fill_program(lambda fill: loop("i", 8, lambda i: fill(i, 1.0), "vectorized"))
    with PassContext(config={"tir.disable_vectorize": True}):
        new = run(T.VectorizeLoop(), func)
    assert new.body.kind == "serial"
    assert not collect(run(T.VectorizeLoop(), func).body, For)


def test_imported_sources_become_an_attribute():
    a = te.placeholder((4,), name="a")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="b")])
    sch = tir.Schedule(func)
    sch.annotate(sch.get_loops("b")[0], "pragma_import_c", "int one;")
    sch.annotate("b", "pragma_import_c", "int two;")
    again = sch.func.with_root_body(AttrStmt(const(0), "pragma_import_c", tir.as_expr("int one;"), sch.func.root.body))
    new = T.LiftImports()(IRModule({"main": again}))["main"]
    assert new.attrs["import_c"] == ("int one;", "int two;")
    assert not collect(new.body, AttrStmt) and "pragma" not in str(new)
    assert lower_prim_func(again).attrs["import_c"] == ("int one;", "int two;")
    sch.annotate(sch.get_loops("b")[0], "pragma_unroll_explicit", 3)
    wrong = fill_program(lambda fill: AttrStmt(const(0), "pragma_import_c", const(3), fill(0)))
    with pytest.raises(ValueError, match="pragma_import_c takes the text of a C source"):
        T.LiftImports()(IRModule({"main": wrong}))


def test_the_signature_is_kept_by_make_packed_api():
    func = fill_program(lambda fill: fill(0))
    new = TIR["MakePackedAPI"]()(IRModule({"main": func}))["main"]
    assert new.signature == tuple(func.buffers) and TIR["MakePackedAPI"]()(IRModule({"main": new}))["main"] is new


def test_the_last_passes_leave_nothing_for_the_printer_to_decide():
    names = [p.name for p in TIR_PASSES]
    assert names[-5:] == ["LowerIntrin", "Accumulate", "HoistIndex", "CommonSubexprElimTIR",
                          "VerifyHints"]
    assert names.index("FlattenBuffer") < names.index("LoopPartition") < names.index("VectorizeLoop")
