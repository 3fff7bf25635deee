"""Removing guards: loop_partition, simplify, and the loops that they leave."""
import pytest
from tir_cases import arguments, assert_same_results, loop, results

from ingot.ir import tir
from ingot.ir.expr import Call, IntImm, Ramp, Var, cast, const
from ingot.ir.node import collect
from ingot.ir.tir.hints import BORDER, WHOLE
from ingot.ir.transform.loop_partition import loop_partition
from ingot.ir.transform.simplify import simplify
from ingot.ir.transform.hoist_init_predicate import hoist_init_predicate
from ingot.ir.transform.vectorize import vectorize_loop


def guarded(condition, body):
    return tir.IfThenElse(Call("bool", "tir.likely", (condition,)), body)


def program(body, size=64, dims=()):
    """A lowered function that body(y) fills; y has `size` elements."""
    y = tir.decl_buffer((size,), name="y")
    func = tir.prim_func([y, *dims], body(y))
    return func.replace(body=func.root.body)


def fill(y, index, value=1.0):
    return tir.BufferStore(y, const(value), (index,))


def partitioned(func):
    """After both passes, checked to store the same."""
    inputs = arguments(func)
    new = simplify(loop_partition(func))
    inputs[0][:] = 7
    expected = results(func, inputs)
    assert_same_results(expected, new, inputs)
    return new


def extents(func):
    return sorted(f.extent.value for f in collect(func.body, tir.For) if isinstance(f.extent, IntImm))


def guards(func):
    return len(collect(func.body, tir.IfThenElse))


def test_the_last_turn_is_peeled():
    func = partitioned(program(lambda y: loop("i", 4, lambda i: loop("j", 16, lambda j: guarded(
        i * 16 + j < 50, fill(y, i * 16 + j))))))
    assert (extents(func), guards(func)) == ([2, 3, 16], 0)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_loops_that_are_to_stay_whole_keep_their_guards(kind):
    """Once, outside of the loops inside that they do not depend on; these are cut as others are."""
    def whole(nest, **annotations):
        return nest.replace(annotations={WHOLE: 0, **annotations})

    def body(y):
        return whole(loop("i", 4, lambda i: whole(loop("j", 3, lambda j: loop("k", 4, lambda k: loop(
            "m", 2, lambda m: guarded(tir.logical_and(i * 3 + j < 11, k * 2 + m < 7), fill(y, j * 7 + k * 2 + m)))))),
            kind), kept=1)
    func = partitioned(program(body))
    assert func.body.annotations == {"kept": 1} and extents(func) == [2, 3, 3, 4]
    assert [str(b.condition) for b in collect(func.body, tir.IfThenElse)] == ["T.likely(i * 3 + j < 11)"]


def test_turns_of_an_unrolled_loop_in_which_nothing_happens_go():
    def body(y):
        return loop("v", 4, lambda v: loop("i", 4, lambda i: guarded(v * 4 + i < 9, fill(y, v * 4 + i)), "vectorized"),
                    "unrolled")
    func = partitioned(program(body))
    assert guards(func) == 0
    assert extents(func) == [1, 2, 4], "two vectors, and one lane of the third, which stays a part of a vector"
    ramps = [s.indices[0] for s in collect(vectorize_loop(func).body, tir.BufferStore)]
    assert sorted((r.lanes, str(r.count)) for r in ramps) == [(4, "1"), (4, "None")]


def test_turns_of_the_last_tile_of_a_loop_in_which_nothing_happens_go():
    def body(y):
        return loop("i", 2, lambda i: loop("j", 8, lambda j: loop("k", 4, lambda k: guarded(
            i * 32 + j * 4 + k < 45, fill(y, i * 32 + j * 4 + k)))))
    func = partitioned(program(body))
    assert (extents(func), guards(func)) == ([3, 4, 4, 8], 0), "3 x 4 and 1 of 13 in the last turn of i"


def test_turns_in_which_something_happens_without_a_guard_stay():
    def body(y):
        return loop("j", 8, lambda j: tir.seq(
            loop("k", 4, lambda k: guarded(j * 4 + k < 13, fill(y, j * 4 + k))), fill(y, j + 40)))
    assert 8 in extents(partitioned(program(body)))


def test_what_is_left_of_a_vector_and_has_no_vector_form_is_scalar():
    y = tir.decl_buffer((64,), "int64", name="y")
    body = loop("v", 3, lambda v: loop("i", 4, lambda i: guarded(v * 4 + i < 9, tir.BufferStore(
        y, const(1, "int64"), (v * 4 + i,))), "vectorized"), "unrolled")
    func = tir.prim_func([y], body)
    func = vectorize_loop(simplify(loop_partition(func.replace(body=func.root.body))))
    assert extents(func) == [2, 4] and not collect(func.body, Ramp)


def test_both_directions_of_a_tile():
    def body(y):
        return loop("i", 3, lambda i: loop("j", 3, lambda j: loop("k", 3, lambda k: loop("l", 3, lambda m: guarded(
            tir.logical_and(i * 3 + k < 8, j * 3 + m < 7), fill(y, (i * 3 + k) * 7 + j * 3 + m))))))
    func = partitioned(program(body))
    assert guards(func) == 0


def test_a_guard_that_always_holds_splits_nothing():
    func = partitioned(program(lambda y: loop("i", 4, lambda i: loop("j", 16, lambda j: guarded(
        i * 16 + j < 64, fill(y, i * 16 + j))))))
    assert (extents(func), guards(func)) == ([4, 16], 0)


def test_a_parallel_loop_gets_versions_where_the_guard_is():
    """Only the guarded statement is there twice, and its slow version has a constant count."""
    def body(y):
        return loop("i", 4, lambda i: tir.seq(
            loop("k", 5, lambda k: fill(y, k, 2.0)),
            loop("j", 16, lambda j: guarded(i * 16 + j < 50, fill(y, i * 16 + j)))), "parallel")
    func = simplify(loop_partition(program(body)))
    assert (extents(func), guards(func)) == ([2, 4, 5, 16], 1)
    branch, = collect(func.body, tir.IfThenElse)
    assert str(branch.condition) == "T.likely(i < 3)"


def test_directly_nested_parallel_loops_stay_nested():
    def body(y):
        return loop("i", 2, lambda i: loop("j", 2, lambda j: loop("k", 16, lambda k: guarded(
            i * 32 + j * 16 + k < 50, fill(y, i * 32 + j * 16 + k))), "parallel"), "parallel")
    func = partitioned(program(body))
    assert func.body.kind == func.body.body.kind == "parallel"
    assert isinstance(func.body.body.body, tir.IfThenElse)


def test_the_last_turn_of_a_parallel_loop_is_the_other_branch():
    """Its index is known there, so nothing is left of the guard."""
    func = partitioned(program(lambda y: loop("i", 4, lambda i: loop("j", 16, lambda j: guarded(
        i * 16 + j < 50, fill(y, i * 16 + j))), "parallel")))
    assert func.body.kind == "parallel" and extents(func) == [2, 4, 16]
    branch, = collect(func.body, tir.IfThenElse)
    assert str(branch.condition) == "i < 3" and str(branch.else_case.body.body.indices[0]) == "j + 48"
    assert branch.else_case.attr_key == BORDER and branch.else_case.value.value == "the last iteration of i"


def test_the_last_turn_of_an_outer_parallel_loop_is_the_other_branch_inside_of_the_nest():
    """Rows and columns at the border are four cases, of which none has a guard."""
    func = partitioned(program(lambda y: loop("i", 3, lambda i: loop("j", 4, lambda j: loop("k", 2, lambda k: loop(
        "l", 5, lambda m: guarded(i * 2 + k < 5, guarded(j * 5 + m < 18, fill(y, (i * 2 + k) * 20 + j * 5 + m))))),
        "parallel"), "parallel"), size=100))
    assert func.body.kind == func.body.body.kind == "parallel"
    assert [(f.extent.value, f.kind) for f in collect(func.body, tir.For)].count((2, "serial")) == 2
    assert not collect(func.body, Call) and guards(func) == 3, "which turn of i, and in either case which of j"


def test_guards_leave_the_loops_they_do_not_depend_on():
    func = partitioned(program(lambda y: loop("i", 8, lambda i: loop("j", 4, lambda j: guarded(
        i < 5, fill(y, i * 4 + j))))))
    assert (extents(func), guards(func)) == ([4, 5], 0)


def test_neighbours_share_a_guard():
    n = Var("n", "int64")
    z = tir.decl_buffer((n,), name="z")

    def body(y):
        def inner(i):
            return tir.seq(*(loop(f"j{k}", 4, lambda j: guarded(i.astype("int64") < n, fill(y, i * 4 + j, float(k))))
                             for k in range(2)))
        return loop("i", 8, inner)

    func = program(body).replace()
    func = func.replace(params=(*func.params, Var("z", "handle"), n))
    func = func.replace(buffer_map={**func.buffer_map, func.params[1]: z})
    assert guards(simplify(loop_partition(func))) == 1


def test_symbolic_bounds_get_versions():
    n = Var("n", "int64")
    y = tir.decl_buffer((n,), name="y")
    outer, inner = Var("i", "int64"), Var("j", "int64")
    at = outer * const(4, "int64") + inner
    body = tir.for_(outer, (n + 3) // 4, tir.for_(inner, 4, guarded(at < n, fill(y, at))))
    func = tir.prim_func([y, n], body)
    func = partitioned(func.replace(body=func.root.body))
    branch = collect(func.body, tir.IfThenElse)[-1]
    assert str(branch.condition) == "T.likely(i * T.int64(4) + T.int64(4) <= n)"


@pytest.mark.parametrize("own", [True, False])
def test_tiles_of_the_last_block_of_a_symbolic_dimension(own):
    """Whole ones, one that is cut, and after these no more: they would only start sums of their own."""
    n = Var("n", "int64")
    y, sums = tir.decl_buffer((n,), name="y"), tir.decl_buffer((2,), name="sums")
    block, tile, row = (Var(name, "int64") for name in "bij")
    at = block * const(12, "int64") + tile * const(2, "int64") + row
    start = tir.for_(Var("k", "int64"), const(2, "int64"), fill(sums if own else y, const(0, "int64")))
    body = tir.seq(start, tir.for_(row, const(2, "int64"), guarded(at < n, fill(y, at))))
    body = tir.for_(tile, const(6, "int64"), tir.DeclBuffer(sums, body))
    func = tir.prim_func([y, n], tir.for_(block, (n + 11) // 12, body))
    func = partitioned(func.replace(body=func.root.body))
    conditions = [str(b.condition).replace("T.int64", "").replace("(", "").replace(")", "")
                  for b in collect(func.body, tir.IfThenElse)]
    assert any("b * 12 + i * 2 + 2 <= n" in c for c in conditions)
    assert any("b * 12 + i * 2 + 1 <= n" in c for c in conditions) is own


# ---------------------------------------------------------------- simplify

def test_one_turn_no_turn_and_empty_branches():
    def body(y):
        return tir.seq(
            loop("one", 1, lambda i: fill(y, i)), loop("none", 0, lambda i: fill(y, i + 1)),
            tir.IfThenElse(const(3) < 2, fill(y, const(2)), fill(y, const(3))),
            loop("i", 4, lambda i: tir.IfThenElse(i < 9, fill(y, i + 8))))
    func = simplify(program(body))
    assert (extents(func), guards(func), len(collect(func.body, tir.BufferStore))) == ([4], 0, 3)


def test_what_runs_in_the_first_turn_only_stands_before_the_loop():
    def body(y):
        def both(k, i):
            return tir.seq(tir.IfThenElse(k * 2 + i == 0, fill(y, const(0), 5.0)), fill(y, k * 2 + i + 1))
        return loop("k", 3, lambda k: loop("i", 2, lambda i: both(k, i)))
    func = simplify(program(body))
    assert guards(func) == 0 and isinstance(func.body, tir.SeqStmt) and isinstance(func.body.seq[0], tir.BufferStore)


def test_a_later_turn_stays_in_the_loop():
    func = simplify(program(lambda y: loop("k", 3, lambda k: tir.seq(
        tir.IfThenElse(k == 1, fill(y, const(0), 5.0)), fill(y, k + 1)))))
    assert guards(func) == 1


@pytest.mark.parametrize("else_case", (False, True))
def test_branches_that_do_nothing(else_case):
    nothing = tir.Evaluate(const(0))

    def body(y):
        return loop("i", 4, lambda i: tir.IfThenElse(i < 2, nothing, fill(y, i) if else_case else nothing))
    func = simplify(program(body))
    branches = collect(func.body, tir.IfThenElse)
    assert [str(b.condition) for b in branches] == (["i >= 2"] if else_case else [])
    if not else_case:
        assert not collect(func.body, tir.For)


def test_symbolic_extents_are_positive_only_inside():
    """After a loop over n - 3, n > 3 must not be taken as known."""
    n = Var("n")
    y = tir.decl_buffer((8,), name="y")
    body = tir.seq(tir.for_(Var("i"), n - 3, fill(y, const(0))), tir.IfThenElse(n > 3, fill(y, const(1))))
    func = tir.prim_func([y, n], body)
    assert guards(simplify(func.replace(body=func.root.body))) == 1


# ---------------------------------------------------------------- accumulators

@pytest.mark.parametrize("kind, guards", [("unrolled", 0), ("serial", 1)])
def test_accumulators_of_a_tile_start_without_guards(kind, guards):
    """Accumulators past the end start too; a loop may have other reasons to store only some elements."""
    acc = tir.decl_buffer((8,), name="acc", scope="local")

    def body(y):
        start = loop("m", 8, lambda m: guarded(m < 5, fill(acc, m)), kind)
        return tir.DeclBuffer(acc, tir.seq(start, loop("i", 5, lambda i: tir.BufferStore(y, acc[i], (i,)))))

    func = program(body)
    new = hoist_init_predicate(func)
    assert len(collect(new.body, tir.IfThenElse)) == guards
    assert_same_results(results(func, arguments(func)), new, arguments(func))


@pytest.mark.parametrize("again", [False, True])
def test_what_a_guard_holds_back_stays_as_it_was_stored(again):
    """A constant that goes around elements which the tile has from before, or from another turn."""
    acc = tir.decl_buffer((8,), name="acc", scope="local")

    def body(y):
        numbers = loop("i", 8, lambda i: tir.BufferStore(acc, cast(i, "float32"), (i,)))
        around = loop("m", 8, lambda m: guarded(m >= 3, fill(acc, m)), "unrolled")
        copy = loop("i", 8, lambda i: tir.BufferStore(y, acc[i], (i,)))
        turns = loop("t", 2, lambda t: tir.seq(around, tir.IfThenElse(t > 0, copy), numbers))
        return tir.DeclBuffer(acc, turns if again else tir.seq(numbers, around, copy))

    func = program(body)
    new = hoist_init_predicate(func)
    assert_same_results(results(func, arguments(func)), new, arguments(func))
