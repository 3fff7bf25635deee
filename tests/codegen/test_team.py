"""Kernels that a team of threads runs together: who does what, and the same numbers for any number of threads."""
import ctypes
import os

import numpy as np
import pytest
from c_build import compile_text, source
from tir_cases import loop, results

from ingot.codegen.c_function import CFunction, print_function
from ingot.codegen.regions import form_regions
from ingot.codegen.team import ONCE, PREPARED, SHARED, TEMPLATES, passed_between_threads, shared_by_team, team_body
from ingot.codegen.toolchain import can_build_openmp
from ingot.codegen.tree import Call, Operand, Seq
from ingot.ir import tir
from ingot.ir.expr import Select, Var, const
from ingot.ir.node import collect
from ingot.ir.tir.hints import EACH_THREAD, THREAD_OWN, THREAD_ROWS
from ingot.ir.tir.stmt import AssertStmt, AttrStmt, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, While

SIZE = 40
V = Var("v", "int32")
X, Y, Z = (tir.decl_buffer((SIZE,), name=n) for n in "xyz")


def store(buffer, value):
    return lambda i: BufferStore(buffer, value(i), (i,))


def parallel(make):
    return loop("p", SIZE, make, "parallel")


def serial(make):
    return loop("i", SIZE, make)


def backwards(buffer):
    return lambda i: buffer[const(SIZE - 1) - i] + 1.0


def rows_of(buffer, value, p, *more):
    """Ten rows, of which each thread does the same for every p."""
    q = Var("q")
    return For(q, const(0), const(10), "parallel", store(buffer, value)(p * 10 + q),
               annotations=dict.fromkeys((THREAD_ROWS, *more), 1))


def by_each(source):
    """Each thread makes t of a buffer for itself, then they make y of t together."""
    t = tir.decl_buffer((SIZE,), name="t")
    making = serial(store(t, lambda i: source[i] * 2.0)).replace(annotations={EACH_THREAD: 1})
    return tir.DeclBuffer(t, tir.seq(making, parallel(store(Y, backwards(t)))))


# Each reads what other threads wrote before.
BODIES = {
    "parallel": parallel(store(Y, lambda i: X[i] * 2.0)),
    "two_parallel": tir.seq(parallel(store(Y, lambda i: X[i] * 2.0)), parallel(store(Z, backwards(Y)))),
    "serial_between": tir.seq(parallel(store(Y, lambda i: X[i] * 2.0)), serial(store(Z, backwards(Y))),
                              BufferStore(Z, const(1.0), (const(3),)), parallel(store(Y, backwards(Z)))),
    "loop_around": loop("t", 5, lambda t: tir.seq(
        parallel(store(Z, lambda i: Y[const(SIZE - 1) - i] + X[t])), serial(store(Y, lambda i: Z[i] * 0.5)))),
    "branch_and_let": loop("t", 5, lambda t: LetStmt(V, t * 2, IfThenElse(
        V < 6, parallel(store(Y, lambda i: Y[i] + X[t])), BufferStore(Y, const(0.5), (t,))))),
    "rows": tir.seq(loop("p", 4, lambda p: rows_of(Y, lambda i: X[i] * 3.0, p), "parallel"),
                    loop("p", 4, lambda p: rows_of(Z, backwards(Y), p), "parallel")),
    "own_rows": tir.seq(loop("p", 4, lambda p: rows_of(Y, lambda i: X[i] * 3.0, p, THREAD_OWN), "parallel"),
                        loop("p", 4, lambda p: rows_of(Z, backwards(Y), p, THREAD_OWN), "parallel")),
    "own": parallel(store(Y, lambda i: X[i] + 1.0)).replace(annotations={THREAD_OWN: 1}),
    "of_three": loop("p", 2, lambda p: loop("q", 5, lambda q: loop("r", 4, lambda r: store(
        Y, lambda i: X[i] + 1.0)(p * 20 + q * 4 + r), "parallel"), "parallel"), "parallel"),
    "each": tir.seq(parallel(store(Z, lambda i: X[i] + 1.0)), by_each(X)),
    "not_from_zero": For(V, const(3), const(30), "parallel", store(Y, lambda i: X[i] + 1.0)(V)),
    "nested": loop("p", 4, lambda p: loop("q", 10, lambda q: store(Y, lambda i: X[i])(p * 10 + q), "parallel"),
                   "parallel"),
}
TEMPORARY = tir.decl_buffer((4,), name="t")
ALONE = {
    "no_parallel_loop": serial(store(Y, lambda i: X[i])),
    "can_fail": AssertStmt(X[0] < 9.0, tir.as_expr("no"), BODIES["parallel"]),
    "temporary_around": DeclBuffer(TEMPORARY, loop("p", 4, store(TEMPORARY, lambda i: X[i]), "parallel")),
    "depends_on_memory": IfThenElse(X[0] < 9.0, BODIES["parallel"], None),
    "extent_from_memory": tir.for_(Var("t"), tir.cast(X[0], "int32"), BODIES["parallel"]),
    "while": While(X[0] < 9.0, BODIES["parallel"]),
    "each_reads_what_all_write": by_each(Y),
}


def prim_func(body):
    return tir.prim_func([X, Y, Z], body)


def lowered(body):
    func = prim_func(body)
    return func.replace(body=func.root.body)


def samples():
    return [np.linspace(0, n + 1, SIZE, dtype=np.float32) for n in range(3)]


@pytest.fixture(scope="module")
def printed():
    return {name: print_function(lowered(body), name) for name, body in BODIES.items()}


@pytest.fixture(scope="module", params=["gcc", "clang", "gcc -DINGOT_TEAM_OPENMP"])
def library(request, printed, tmp_path_factory):
    """The kernels, each called by as many threads as its first argument says: the library's own, or OpenMP's."""
    compiler, *flags = request.param.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", compiler)
        if not can_build_openmp("host"):
            pytest.skip(f"{compiler} builds no OpenMP programs here")
    text = '#include "ingot_threads.h"\n' + source(printed.values()) + """
struct call { const float *x; float *y, *z; };
"""
    for name in printed:
        head = f"void team_{name}(int threads, const float *x, float *y, float *z)"
        text += f"""{head};
static void call_{name}(ingot_worker *worker, const void *from)
{{
    const struct call call = *(const struct call *)from;
    ingot_joined(worker);
    {name}(worker, call.x, call.y, call.z);
}}
{head}
{{
    const struct call call = {{x, y, z}};
    omp_set_num_threads(threads);
    ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, call_{name}, &call);
}}
"""
    return compile_text(text, tmp_path_factory.mktemp("c"), compiler, ["-fopenmp", *flags])


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("name", BODIES)
def test_same_numbers_for_any_number_of_threads(name, threads, library):
    expected = results(prim_func(BODIES[name]), samples())
    for _ in range(200):
        arrays = samples()
        getattr(library, f"team_{name}")(threads, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
        for got, want in zip(arrays, expected):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("name", ALONE)
def test_kernels_that_threads_could_not_follow_open_their_own_region(name):
    assert team_body(ALONE[name]) is None
    if name in ("can_fail", "depends_on_memory"):
        function = print_function(lowered(ALONE[name]), "f")
        assert "INGOT_OMP(parallel for schedule(static))" in function.body and not function.team


@pytest.mark.parametrize("name, shares", [
    ("parallel", "1, 40"), ("nested", "1, 40"), ("of_three", "1, 40"), ("not_from_zero", "1, 30")])
def test_nested_loops_are_shared_as_one(name, shares, printed):
    body = printed[name].body
    assert f"ingot_shared(worker, {shares});" in body and body.count("ingot_wait(worker);") == 1


def test_threads_keep_rows_and_wait_after_the_nest(printed):
    lines = [line.strip() for line in printed["rows"].body.splitlines()]
    assert lines[1:5] == ["for (ingot_share share = ingot_shared(worker, 4, 10); ingot_take(&share);) {",
                          "const int32_t p = (int32_t)share.repeat;",
                          "for (int32_t q = (int32_t)share.begin; q < (int32_t)share.end; ++q) {",
                          "y[p * 10 + q] = x[p * 10 + q] * 3.0f;"]
    assert lines.count("ingot_wait(worker);") == 2 and lines.index("ingot_wait(worker);") == 7


@pytest.mark.parametrize("name, shares", [("own_rows", "4, 10"), ("own", "1, 40")])
def test_nobody_takes_over_turns_of_short_loops(name, shares, printed):
    assert f"ingot_own(worker, {shares});" in printed[name].body and "ingot_shared" not in printed[name].body


@pytest.mark.parametrize("value, ctype", [
    (lambda at: X[at * 2 - 3], "ingot_index"), (lambda at: X[at // 2], "int32_t"), (lambda at: X[0] * at, "int32_t"),
    (lambda at: Select(at < 3, X[at], X[0]), "int32_t")])
def test_what_is_only_added_up_to_indices_may_have_more_bits(value, ctype):
    at = Var("at", "int32")
    body = loop("i", SIZE, lambda i: LetStmt(at, i * 1, BufferStore(Y, value(at), (at,))), "parallel")
    assert f"const {ctype} at = " in print_function(lowered(body), "f").body


def openmp_library(text, folder, compiler, monkeypatch, *flags):
    """A C text that uses ingot_threads.h, built with OpenMP; skips where the compiler builds no such programs."""
    monkeypatch.setenv("CC", compiler)
    if not can_build_openmp("host"):
        pytest.skip(f"{compiler} builds no OpenMP programs here")
    return compile_text('#include "ingot_threads.h"\n' + text, folder, compiler, ["-fopenmp", *flags])


HELD = """
struct call { int repeats, turns; int *done; };
static void hold(ingot_worker *worker, const void *from)
{
    const struct call c = *(const struct call *)from;
    ingot_joined(worker);
    for (int loops = 0; loops < 100; ++loops) {
        for (ingot_share s = ingot_shared(worker, c.repeats, c.turns); ingot_take(&s);)
            for (int64_t i = s.begin; i < s.end; ++i) {
                /* the first turn waits for those that its thread does not hold up */
                const int others = c.repeats * c.turns * (loops + 1) - (int)((s.last + 1) * s.end);
                while (s.repeat + i == 0 && __atomic_load_n(c.done, __ATOMIC_RELAXED) < others) continue;
                __atomic_fetch_add(c.done, 1, __ATOMIC_RELAXED);
            }
        ingot_wait(worker);
    }
}
int held(int repeats, int turns);
int held(int repeats, int turns)
{
    int done = 0;
    const struct call call = {repeats, turns, &done};
    omp_set_num_threads(2);
    ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, hold, &call);
    return done;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_turns_of_a_thread_that_is_held_up_are_taken_over(compiler, tmp_path, monkeypatch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a thread would wait for one that cannot run")
    library = openmp_library(HELD, tmp_path, compiler, monkeypatch)
    for repeats, turns in ((1, 40), (3, 7), (40, 2), (1, 1000)):
        assert library.held(repeats, turns) == repeats * turns * 100


LATE = """
struct call { int threads, loops, late, longest, *turns, *wrong; };
static void come(ingot_worker *worker, const void *from)
{
    const struct call c = *(const struct call *)from;
    const int own = (int)worker->number;
    ingot_joined(worker);
    for (int n = 1; n <= c.loops; ++n) {
        if ((n * 7 + own * 5) % c.late == 0) { /* others claim its part, or sleep; it comes just then, or long before */
            const double until = omp_get_wtime() + 1e-6 * (n * 13 % c.longest);
            while (omp_get_wtime() < until) continue;
        }
        if (ingot_first(worker)) ++c.turns[c.threads];
        for (ingot_share s = n % 2 ? ingot_own(worker, 1, c.threads) : ingot_shared(worker, 1, c.threads);
             ingot_take(&s);)
            for (int64_t i = s.begin; i < s.end; ++i) ++c.turns[i];
        ingot_wait(worker);
        for (ingot_share s = ingot_once(worker); ingot_take(&s);)
            for (int i = 0; i <= c.threads; ++i) *c.wrong += c.turns[i] != n;
        ingot_wait(worker);
    }
}
int early(int threads, int loops, int late, int longest, int *turns);
int early(int threads, int loops, int late, int longest, int *turns)
{
    int wrong = 0;
    const struct call call = {threads, loops, late, longest, turns, &wrong};
    omp_set_num_threads(threads);
    ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, come, &call);
    return wrong;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_nobody_goes_on_before_all_have_come(compiler, tmp_path, monkeypatch):
    """Threads that look for one another, and those that sleep as one is late, some of them just when it comes."""
    for looks in (1, 200):
        folder = tmp_path / str(looks)
        folder.mkdir()
        library = openmp_library(LATE, folder, compiler, monkeypatch, f"-DINGOT_TEAM_LOOKS={looks}")
        for threads, waits, late, longest in ((1, 100, 3, 5), (2, 2000, 3, 60), (2, 20000, 10**6, 1), (3, 200, 4, 200),
                                              (7, 100, 5, 100)):
            assert library.early(threads, waits, late, longest, (ctypes.c_int * 16)()) == 0


ABSENT = """
struct call { int *sum, *over; };
static void count(ingot_worker *worker, const void *from)
{
    const struct call c = *(const struct call *)from;
    const int helps = worker->number > 0;
    ingot_joined(worker);
    while (helps && !__atomic_load_n(c.over, __ATOMIC_ACQUIRE)) continue; /* it comes when all is done */
    for (int n = 0; n < 100; ++n) {
        if (ingot_first(worker)) ++*c.sum;
        for (ingot_share s = ingot_own(worker, 3, 5); ingot_take(&s);) *c.sum += (int)(s.end - s.begin);
        ingot_wait(worker);
        for (ingot_share s = ingot_shared(worker, 3, 50); ingot_take(&s);) *c.sum += (int)(s.end - s.begin);
        ingot_wait(worker);
        for (ingot_share s = ingot_once(worker); ingot_take(&s);) ++*c.sum;
        ingot_wait(worker);
    }
    if (!helps) __atomic_store_n(c.over, 1, __ATOMIC_RELEASE);
}
static int run(void)
{
    static int over;
    int sum = 0;
    const struct call call = {&sum, &over};
    over = 0;
    omp_set_num_threads(3);
    ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, count, &call);
    return sum;
}
int absent(void);
int absent(void) { return run(); }
int forked(void);
int forked(void)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(run() == 16700 && run() == 16700 ? 7 : 1);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_an_absent_thread_left_is_taken(compiler, tmp_path, monkeypatch):
    """Helpers that come when all is done do nothing, and nobody waits for them; a child of a fork has its own."""
    text = "#include <sys/wait.h>\n#include <unistd.h>\n" + ABSENT
    library = openmp_library(text, tmp_path, compiler, monkeypatch)
    assert [library.absent() for _ in range(20)] == [16700] * 20
    assert library.forked() == 7
    assert library.absent() == 16700


def test_what_each_thread_does_for_itself_is_on_its_stack(printed):
    text = printed["each"].body
    assert "OMP" not in text and text.count("ingot_wait(worker);") == 2 and "float t[40];" in text
    assert "for (int32_t i = 0; i < 40; ++i) {" in text


def test_one_thread_does_what_lies_between():
    text = print_function(lowered(BODIES["serial_between"]), "f").body.replace("    ", "  ")
    assert [line.strip() for line in text.splitlines() if "once" in line] == [
        "for (ingot_share once = ingot_once(worker); ingot_take(&once);) {"]
    body = team_body(BODIES["serial_between"])
    single, = [s for s in body.seq if isinstance(s, AttrStmt)]
    assert single.attr_key == ONCE and len(single.body.seq) == 2


@pytest.mark.parametrize("name, keys", [("parallel", [SHARED]), ("serial_between", [SHARED, ONCE, SHARED]),
                                        ("each", [SHARED, PREPARED]), ("nested", [SHARED])])
def test_the_protocol_is_attributes_around_plain_statements(name, keys):
    """Nothing is left for a printer to share out: templates name the share, and loops are of one thread."""
    team = shared_by_team(BODIES[name])
    attributes = [a for a in collect(team.body, AttrStmt) if a.attr_key in TEMPLATES]
    assert [a.attr_key for a in attributes] == keys and team.waits
    assert all(x.kind == "serial" for x in collect(team.body, For))


def test_offsets_in_what_threads_share_may_be_wide():
    at = Var("at", "int32")
    body = loop("i", SIZE, lambda i: LetStmt(at, i * 1, BufferStore(Y, X[at], (at,))), "parallel")
    team = shared_by_team(body)
    assert team.wide == {id(at)} and team.exchanged == set()
    assert shared_by_team(ALONE["can_fail"]) is None


@pytest.mark.parametrize("name, shared", [("parallel", ""), ("two_parallel", "y"), ("serial_between", "yz"),
                                          ("loop_around", "yz"), ("branch_and_let", "y"), ("nested", ""),
                                          ("rows", "y"), ("own_rows", "y"), ("own", ""), ("of_three", ""), ("each", ""),
                                          ("not_from_zero", "")])
def test_what_threads_pass_to_one_another_is_not_restricted(name, shared, printed):
    body = team_body(BODIES[name])
    assert passed_between_threads(body) == {id(b) for b in (X, Y, Z) if b.name in shared}
    text = " ".join(printed[name].signature.split())
    assert [f"float *{b}" in text for b in "yz"] == [b in shared for b in "yz"]


def parts(calls):
    """form_regions of serial calls (s), those that may fail (f) or write a border (b), and of those of teams: T, R that
    reads what is within the border, U that does not wait at its end. A region is [(who, calls)]."""
    functions = {c: CFunction(c, "", "", frozenset(), can_fail=c == "f", team=c in "TRU",
                              waits=c != "U") for c in calls}
    tree = form_regions(Seq(tuple(Call(c, (Operand("arena", 0 if c in "Rb" else 1),), border=c == "b",
                                       reads=int(c != "b"))
                                  for c in calls)), functions)
    return [[(group.threads, "".join(c.kernel for c in group.items)) for group in n.items] if isinstance(n, Seq)
            else n.kernel for n in tree.items]


@pytest.mark.parametrize("between, who", [("bT", "first"), ("bbT", "first"), ("bR", "single"), ("bU", "single"),
                                          ("bsT", "single")])
def test_a_border_is_written_while_others_compute_what_it_surrounds(between, who):
    groups, = parts("T" + between)
    assert [w for w, _ in groups] == ["team", who, "team"]


def test_a_region_reaches_from_the_first_shared_call_to_the_last():
    assert parts("ss") == ["s", "s"]
    assert parts("sTssTs") == ["s", [("team", "T"), ("single", "ss"), ("team", "T")], "s"]
    assert parts("TfT") == [[("team", "T")], "f", [("team", "T")]]
    assert parts("") == []

