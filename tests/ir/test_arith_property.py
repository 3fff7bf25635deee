"""Random expressions against brute force: whatever the analyzer says must hold under every assignment."""
import os

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from arith_brute import (VARS, WIDE, Undefined, assignments, bind_all, conditions, domain_sets, evaluate, expressions,
                         well_typed, wide_expressions)

from ingot.ir.arith import Analyzer, eval_range
from ingot.ir.expr import EQ, GE, LE, LT, Add, Div, FloorDiv, FloorMod, IntImm, Mod, Range, Sub, Var, is_const_int
from ingot.ir.node import collect, structural_equal

# A fixed small sample by default; ARITH_EXAMPLES=5000 searches at random.
CHECK = settings(max_examples=int(os.environ.get("ARITH_EXAMPLES", "100")), deadline=None, database=None,
                 derandomize="ARITH_EXAMPLES" not in os.environ, suppress_health_check=list(HealthCheck))


def defined(e, domains, *more):
    """(env, value) over the assignments where `e` (and `more`) has a value."""
    for env in assignments(domains):
        try:
            for other in more:
                evaluate(other, env)
            yield env, evaluate(e, env)
        except Undefined:
            continue


def analyzer_of(domains):
    an = Analyzer()
    bind_all(an, domains)
    return an


@CHECK
@given(expressions(), domain_sets())
def test_simplify_keeps_the_value(e, domains):
    an = analyzer_of(domains)
    done = an.simplify(e)
    assert done.dtype == e.dtype and well_typed(done)
    for env, value in defined(e, domains):
        assert evaluate(done, env) == value, env
    again = an.simplify(done)
    fresh = analyzer_of(domains).simplify(done)
    assert structural_equal(again, done)
    assert structural_equal(fresh, done)


@CHECK
@given(conditions(), domain_sets())
def test_simplify_keeps_conditions(e, domains):
    an = analyzer_of(domains)
    done = an.simplify(e)
    assert done.dtype == "bool" and well_typed(done)
    proved = an.can_prove(e)
    for env, value in defined(e, domains):
        assert bool(evaluate(done, env)) == bool(value), env
        assert value or not proved
    assert structural_equal(analyzer_of(domains).simplify(done), done)


@CHECK
@given(st.one_of(expressions(), conditions()), domain_sets(), st.booleans())
def test_rewriting_keeps_the_value(e, domains, bound):
    assume(not any(is_const_int(n.b, 0) for n in collect(e, (FloorDiv, FloorMod, Div, Mod))))  # refused
    for simplify in (Analyzer.rewrite_simplify, Analyzer.canonical_simplify):
        done = simplify(analyzer_of(domains) if bound else Analyzer(), e)
        assert done.dtype == e.dtype and well_typed(done)
        for env, value in defined(e, domains):
            assert evaluate(done, env) == value, env


@CHECK
@given(wide_expressions(), domain_sets())
def test_simplify_across_widths(e, domains):
    domains = {**domains, WIDE: range(-2, 3)}
    an = analyzer_of(domains)
    done, canonical = an.simplify(e), Analyzer().canonical_simplify(e)
    lo, hi = an.interval(e)
    assert done.dtype == "int64" == canonical.dtype and well_typed(done) and well_typed(canonical)
    for env, value in defined(e, domains):
        assert evaluate(done, env) == value == evaluate(canonical, env), env
        assert (lo is None or lo <= value) and (hi is None or value <= hi), env
    assert structural_equal(analyzer_of(domains).simplify(done), done)


@CHECK
@given(expressions())
def test_simplify_without_bounds(e):
    done = Analyzer().simplify(e)
    for env, value in defined(e, {v: range(-5, 6) for v in VARS}):
        assert evaluate(done, env) == value, env


@CHECK
@given(expressions(), domain_sets())
def test_const_int_bound_and_modular_set(e, domains):
    an = analyzer_of(domains)
    lo, hi = an.interval(e)
    coeff, base = an.modular_set(e)
    for env, value in defined(e, domains):
        assert lo is None or lo <= value, env
        assert hi is None or value <= hi, env
        assert (value - base) % coeff == 0 if coeff else value == base, env


@CHECK
@given(conditions(), expressions(6), conditions(), domain_sets())
def test_constraint_scope(known, e, asked, domains):
    an = analyzer_of(domains)
    an.simplify(e)
    with an.constraint_scope(known):
        done, proved = an.simplify(e), an.can_prove(asked)
        lo, hi = an.interval(e)
        settled = an.simplify(asked)
    for env, holds in defined(known, domains, e, asked):
        if holds:
            value = evaluate(e, env)
            assert evaluate(done, env) == value, env
            assert (lo is None or lo <= value) and (hi is None or value <= hi)
            assert evaluate(asked, env) or not proved
            assert bool(evaluate(settled, env)) == bool(evaluate(asked, env))
    after = an.simplify(e)
    for env, value in defined(e, domains):
        assert evaluate(after, env) == value, env


@CHECK
@given(expressions(), domain_sets(), st.integers(0, 3))
def test_eval_range_encloses(e, domains, relaxed):
    names = list(domains)[:relaxed]
    ranges = {v: Range(IntImm("int32", domains[v].start), IntImm("int32", len(domains[v]))) for v in names}
    an = Analyzer()
    for v in list(domains)[relaxed:]:
        an.bind(v, Range(IntImm("int32", domains[v].start), IntImm("int32", len(domains[v]))))
    found = eval_range(e, ranges, an)
    if found is None:
        return
    for env, value in defined(e, domains):
        try:
            assert evaluate(found[0], env) <= value <= evaluate(found[1], env), env
        except Undefined:
            pass


N, M = Var("n"), Var("m")


@st.composite
def symbolic_loops(draw):
    """{loop var: (min, extent) expressions} whose extents mention n and m."""
    extents = [N, M, N + 1, (N + 3) // 4, N * 2, N * M, IntImm("int32", 4), IntImm("int32", 3)]
    return {v: (IntImm("int32", draw(st.sampled_from([0, 0, 1]))), draw(st.sampled_from(extents))) for v in VARS}


def symbolic_points(loops):
    """Assignments of n, m in 0..4 with each loop variable in its range."""
    for sizes in assignments({N: range(5), M: range(4)}):
        domains = {v: range(evaluate(lo, sizes), evaluate(lo, sizes) + evaluate(ext, sizes))
                   for v, (lo, ext) in loops.items()}
        for env in assignments(domains):
            yield {**sizes, **env}


def symbolic_sums():
    terms = [VARS[0] * N + VARS[1], VARS[0] * 4 + VARS[1], VARS[0] * N * M + VARS[1] * M + VARS[2], N * M, N, M,
             VARS[0] * M, VARS[0], VARS[1], VARS[2], VARS[0] * 4, (N + 3) // 4 * 4, VARS[0] * (N + 1) + VARS[1]]
    leaf = st.one_of(st.sampled_from(terms), st.sampled_from([N, M, N * M, N + 1, IntImm("int32", 4)]))
    kinds = st.sampled_from([Add, Sub, FloorDiv, FloorMod])
    return st.recursive(leaf, lambda s: st.builds(lambda k, a, b: k(a, b), kinds, s, s), max_leaves=4)


@CHECK
@given(symbolic_loops(), symbolic_sums(), symbolic_sums(), st.sampled_from([LT, LE, EQ, GE]))
def test_symbolic_extents(loops, a, b, kind):
    an = Analyzer()
    for v, (lo, ext) in loops.items():
        an.bind(v, Range(lo, ext))
    done, proved = an.simplify(a), an.can_prove(kind(a, b))
    lo, hi = an.interval(Sub(a, b))
    span = eval_range(a, {v: Range(*loops[v]) for v in VARS[:2]}, an)
    for env in symbolic_points(loops):
        try:
            value, other = evaluate(a, env), evaluate(b, env)
        except Undefined:
            continue
        assert evaluate(done, env) == value, env
        assert not proved or evaluate(kind(a, b), env), env
        assert (lo is None or lo <= value - other) and (hi is None or value - other <= hi), env
        if span is not None:
            assert evaluate(span[0], env) <= value <= evaluate(span[1], env), env
