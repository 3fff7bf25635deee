"""What is known of buffers: what passes make of it, what they must not, and random programs before and after."""
import random

import numpy as np
import pytest
from interp import run

from ingot import te, tir
from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.script.functions import from_source
from ingot.ir.transform.context import PassContext
from ingot.tir import transform as T

HEAD = """@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), F: T.Buffer((4,), "float32"), n: T.int32):
"""
PASSES = {
    "Simplify": {"propagate_knowns_to_prove_conditional": True},
    "RemoveNoOp": {"use_dataflow_analysis": True},
    "ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": True},
}


def program(text):
    return from_source(HEAD + "\n".join("    " + line for line in text.splitlines()))


def after(name, func, **config):
    with PassContext(config={f"tir.{name}": {**PASSES[name], **config}}):
        return getattr(T, name)()(IRModule({"main": func}))["main"]


def check(name, cases, case, **config):
    before, expected = map(program, (cases[case], cases[case]) if isinstance(cases[case], str) else cases[case])
    expected = expected if not isinstance(cases[case], str) else before
    done = after(name, before, **config)
    assert structural_equal(done, expected), done.script()


# One text: nothing may be concluded.
CONDITIONS = {
    "a store": ("A[n] = 3\nif A[n] < 4:\n    B[0] = 1", "A[n] = 3\nB[0] = 1"),
    "a loop of stores": ("for i in range(16):\n    A[i] = i * 2\nfor i in range(4, 9):\n    if A[i + 1] == 2 * i + 2:\n"
                         "        B[i] = 1",
                         "for i in range(16):\n    A[i] = i * 2\nfor i in range(4, 9):\n    B[i] = 1"),
    "a nest of stores": ("for i, j in T.grid(4, 4):\n    A[i * 4 + j] = n\nif A[7] == n:\n    B[0] = 1",
                         "for i, j in T.grid(4, 4):\n    A[i * 4 + j] = n\nB[0] = 1"),
    "a vector": ("A[T.Ramp(4, 2, 3)] = T.Ramp(5, 1, 3)\nif A[6] == 6:\n    B[0] = 1",
                 "A[T.Ramp(4, 2, 3)] = T.Ramp(5, 1, 3)\nB[0] = 1"),
    "both cases of a branch": ("if n < 3:\n    A[0] = 1\nelse:\n    A[0] = 2\nif n < 3:\n    if A[0] == 1:\n"
                               "        B[0] = 1",
                               "if n < 3:\n    A[0] = 1\nelse:\n    A[0] = 2\nif n < 3:\n    B[0] = 1"),
    "an assumption": ("T.evaluate(T.assume(n < 3 or A[n] == 5))\nif n > 2:\n    if A[n] > 4:\n        B[0] = 1",
                      "T.evaluate(T.assume(n < 3 or A[n] == 5))\nif 2 < n:\n    B[0] = 1"),
    "before an iteration stores": (
        "for i in range(16):\n    A[i] = 0\nfor i in range(16):\n    if A[i] == 0:\n        A[i] = B[i]",
        "for i in range(16):\n    A[i] = 0\nfor i in range(16):\n    A[i] = B[i]"),
    "an element in between": "A[0] = 1\nA[n] = 2\nif A[0] == 1:\n    B[0] = 1",
    "between elements of a vector": "A[T.Ramp(4, 2, 3)] = T.Ramp(5, 1, 3)\nif A[5] == 6:\n    B[0] = 1",
    "an iteration before": "A[0] = 1\nfor i in range(n):\n    if A[0] == 1:\n        B[i] = 1\n    A[i] = 2",
    "a loop that may not run": "for i in range(n):\n    A[3] = 1\nif A[3] == 1:\n    B[0] = 1",
    "a loop of another extent": "for i in range(n):\n    A[i] = 1\nif A[3] == 1:\n    B[0] = 1",
    "a later iteration": ("for i in range(15):\n    A[i] = 1\n    A[i + 1] = 2\nif A[3] == 1:\n    B[0] = 1",
                          "for i in range(15):\n    A[i] = 1\n    A[i + 1] = 2\nB[0] = 1"),
    "a call of what nobody knows": 'A[0] = 1\nT.evaluate(T.call_extern("int32", "f"))\nif A[0] == 1:\n    B[0] = 1',
    "a call beside it": 'A[0] = 1\nif T.call_extern("int32", "f") == 2 or A[0] == 1:\n    B[0] = 1',
    "a pointer elsewhere": 'A[0] = 1\nT.evaluate(T.call_extern("int32", "f", A.data))\nA[0] = 2\nif A[0] == 2:\n'
                           "    B[0] = 1",
    "another buffer over the memory": 'C = T.Buffer((16,), "int32", data=A.data)\nA[0] = 1\nC[0] = B[1]\n'
                                      'if A[0] == 1:\n    B[0] = 1',
    "threads": "A[0] = 1\nfor i in T.parallel(16):\n    A[i] = 2\n    if A[0] == 2:\n        B[i] = 1",
    "arithmetic that may wrap": "if A[0] == n:\n    A[0] = A[0] + 1\n    if n < A[0]:\n        B[0] = 1",
    "floats that are equal": "if F[0] == T.float32(0):\n    F[1] = F[0]\n    if F[1] == T.float32(0):\n"
                             "        B[0] = 1",
    "a NaN": "F[0] = F[1]\nif F[0] == F[1]:\n    B[0] = 1",
    "a condition of one case": "if A[1] == 1:\n    T.evaluate(T.assume(n == 0))\nif n == 0:\n    B[0] = 1",
    "a loop that goes on": "A[0] = 0\nwhile A[0] < n:\n    if A[0] == 0:\n        B[0] = 1\n    A[0] = A[0] + 1",
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_conditions_that_buffers_decide(case):
    check("Simplify", CONDITIONS, case)


def test_values_that_are_known_stand_for_loads():
    before, expected = program("A[0] = 5\nA[1] = A[0] + 7\nB[n] = A[n]"), program("A[0] = 5\nA[1] = 12\nB[n] = A[n]")
    assert structural_equal(after("Simplify", before, propagate_knowns_to_simplify_expressions=True), expected)


def test_what_is_undefined_is_known_to_be_nothing():
    before = program('A[0] = T.undef("int32")\nB[n] = A[0]\nB[1] = A[0]')
    assert structural_equal(after("Simplify", before, propagate_knowns_to_simplify_expressions=True), before)


# What variables, constants and the conditions around say, without buffers.
PLAIN = {
    "a variable that is a condition": ("c: T.bool = n < 3\nif n < 3:\n    if c:\n        A[0] = 1",
                                       "c: T.bool = n < 3\nif n < 3:\n    A[0] = 1"),
    "one that holds": ("c: T.bool = n < 3\nif c:\n    if c and n < 4:\n        A[0] = 1",
                       "c: T.bool = n < 3\nif c:\n    A[0] = 1"),
    "one of two": ("c: T.bool = n < 3\nif c or n >= 3:\n    A[0] = n", "c: T.bool = n < 3\nA[0] = n"),
    "a constant": ("m: T.int32 = 10\nfor i in range(m):\n    if i < 12:\n        A[i] = 1",
                   "for i in range(10):\n    A[i] = 1"),
    "the strictest comparison": ("if n <= 4:\n    if 4 <= n:\n        A[0] = 1\n    if n != 4:\n        A[0] = 2",
                                 "if n <= 4:\n    if n == 4:\n        A[0] = 1\n    if n < 4:\n        A[0] = 2"),
    "a comparison of what is computed": ("if n != 7:\n    if (n * 4 + 1) // 4 <= 7 + n - n:\n        A[0] = 1",
                                         "if n != 7:\n    if n < 7:\n        A[0] = 1"),
    "a comparison of what may change": "if A[0] <= n:\n    A[0] = B[0]\n    if n <= A[0]:\n        A[1] = 1",
}


@pytest.mark.parametrize("case", PLAIN)
def test_conditions_that_variables_decide(case):
    check("Simplify", PLAIN, case, propagate_knowns_to_prove_conditional=False)


def test_sizes_are_not_negative_and_threads_are_below_their_extents():
    func = from_source("""@T.prim_func
def main(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n * 32 - 1,), "float32")
    A[T.min(T.int64(1), n)] = T.float32(0)
""")
    assert T.Simplify()(IRModule({"main": func}))["main"].body.indices[0].value == 1
    ib = tir.ir_builder.create()
    p, tx = ib.pointer("float32", name="p"), te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    with ib.if_scope(tx < 9):
        p[tx] = 1.0
    body = T.Simplify()(IRModule({"main": tir.PrimFunc([p], ib.get())}))["main"].body
    assert isinstance(body.body, tir.BufferStore)


STORES = {
    "overwritten": ("for i in range(4, 12):\n    A[i] = 1\nB[0] = 2\nfor i in range(16):\n    A[i] = i",
                    "B[0] = 2\nfor i in range(16):\n    A[i] = i"),
    "there already": ("for i in range(16):\n    A[i] = i\nA[n] = n", "for i in range(16):\n    A[i] = i\nA[n] = n"),
    "there already, within": ("for i in range(16):\n    A[i] = i\nA[4] = 4", "for i in range(16):\n    A[i] = i"),
    "there already, once": ("for i in range(16):\n    A[i] = i\nfor i in range(16):\n    A[i] = i",
                            "for i in range(16):\n    A[i] = i"),
    "what a value does stays": ('A[0] = T.call_extern("int32", "f")\nA[0] = 1',
                                'T.evaluate(T.call_extern("int32", "f"))\nA[0] = 1'),
    "the same element": ("for i in range(16):\n    if i != 0:\n        A[i] = A[i - 1]\n    else:\n        A[i] = A[0]",
                         "for i in range(16):\n    if i != 0:\n        A[i] = A[i - 1]"),
    "read in between": "for i in range(16):\n    A[i] = 1\nB[0] = A[n]\nfor i in range(16):\n    A[i] = i",
    "read by an iteration before": "for i in range(16):\n    A[i] = 1\nfor i in range(15):\n    B[i] = A[i + 1]\n"
                                   "    A[i] = i",
    "overwritten in part": "for i in range(16):\n    A[i] = 1\nfor i in range(16):\n    if i < n:\n        A[i] = 2",
    "overwritten perhaps": "A[0] = 1\nfor i in range(n):\n    A[0] = 2",
    "seen by a call": 'A[0] = 1\nT.evaluate(T.call_extern("int32", "f"))\nA[0] = 2',
    "read by a loop that goes on": "A[0] = 1\nwhile A[0] < n:\n    A[0] = A[0] + 1\nA[0] = 3",
    "left by what fails in a loop": 'A[0] = 1\nfor i in range(4):\n    assert n > i, "n"\n    B[i] = 3\nA[0] = 2',
    "left by what fails": 'A[0] = 1\nassert n > 0, "n"\nA[0] = 2',
}


@pytest.mark.parametrize("case", STORES)
def test_stores_that_nobody_sees(case):
    check("RemoveNoOp", STORES, case)


BRANCHES = {
    "overwritten": ("for i in range(16):\n    if i < 14:\n        A[i] = 1\nA[14] = n\nA[15] = n",) * 2,
    "overwritten by a loop": (
        "for i in range(16):\n    if i < 14:\n        A[i] = 1\nfor i in range(14, 16):\n    A[i] = 2",
        "for i in range(16):\n    A[i] = 1\nfor i in range(14, 16):\n    A[i] = 2"),
    "what is added is 0": (
        "for i in range(16):\n    T.evaluate(T.assume(i < 14 or A[i] == 0))\nfor i in range(16):\n    if i < 14:\n"
        "        B[0] = B[0] + A[i]",
        "for i in range(16):\n    T.evaluate(T.assume(i < 14 or A[i] == 0))\nfor i in range(16):\n"
        "    B[0] = B[0] + A[i]"),
    "cases that do the same": ("if n < 3:\n    A[0] = n\nelse:\n    A[0] = n", "A[0] = n"),
    "outside of the buffer": "for i in range(20):\n    if i < 16:\n        A[i] = 1\nfor i in range(20):\n"
                             "    if i < 16:\n        A[i] = 2",
    "a division": "if n != 0:\n    A[0] = 7 // n\nA[0] = 2",
    "read later": "for i in range(16):\n    if i < 14:\n        A[i] = 1\nfor i in range(14, 16):\n    A[i] = A[i] + 2",
    "threads": "for i in T.parallel(16):\n    if i < 14:\n        A[i] = 1\nfor i in range(16):\n    A[i] = 2",
}


@pytest.mark.parametrize("case", BRANCHES)
def test_branches_around_what_may_always_be_computed(case):
    check("ReduceBranchingThroughOvercompute", BRANCHES, case)


# ---------------------------------------------------------------- random programs

class Programs:
    """Scripts of loops, branches and stores, of which indices meet often."""

    def __init__(self, seed):
        self.choose, self.vars = random.Random(seed), []

    def index(self):
        kind = self.choose.randrange(8)
        if kind < 2 or not self.vars:
            return str(self.choose.choice((0, 1, 2, 3, 7, "n")))
        v = self.choose.choice(self.vars)
        if kind == 7 and len(self.vars) > 1:
            return f"({self.vars[0]} * 2 + {self.vars[1]}) % 16"
        return self.choose.choice((v, v, v, f"{v} + 1", f"7 - {v}", f"{v} * 2", f"{v} // 2"))

    def value(self, depth=1):
        kind = self.choose.randrange(6 if depth else 3)
        if kind < 2:
            return str(self.choose.randrange(3))
        if kind == 2:
            return self.choose.choice([*self.vars, "n"])
        load = f"{self.choose.choice('AB')}[{self.index()}]"
        return load if kind < 5 else f"{load} + {self.value(0)}"

    def condition(self):
        left = self.choose.choice([self.value(), *self.vars, *self.vars])
        found = f"{left} {self.choose.choice(('==', '<', '>=', '!='))} {self.choose.choice((0, 1, 2, 3, 5, 'n'))}"
        both = self.choose.choice(("and", "or"))
        return found if self.choose.random() < 0.8 else f"{found} {both} {self.condition()}"

    def statements(self, depth, count):
        lines = []
        for _ in range(count):
            kind = self.choose.random() if depth else 0
            if kind < 0.45:
                lines.append(f"{self.choose.choice('AB')}[{self.index()}] = {self.value()}")
                continue
            if kind < 0.7:
                head, more, var = f"if {self.condition()}:", self.choose.random() < 0.4, None
            else:
                var, more = f"i{len(self.vars)}", False
                start, end = self.choose.choice(((0, 8), (0, 8), (0, "n"), (2, 6), (0, 2), ("n", 8)))
                head = f"for {var} in range({start}, {end}):"
                self.vars.append(var)
            lines += [head, *("    " + line for line in self.statements(depth - 1, self.choose.randint(1, 3)))]
            if more:
                lines += ["else:", *("    " + line for line in self.statements(depth - 1, self.choose.randint(1, 2)))]
            if var:
                self.vars.pop()
        return lines


def results(func, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 3, 16).astype("int32") for _ in "AB"]
    run(func, *arrays, np.zeros(4, "float32"), int(rng.integers(0, 8)))
    return arrays


# Few random branches may go: these seeds have some.
SEEDS = {"Simplify": range(5), "RemoveNoOp": range(5), "ReduceBranchingThroughOvercompute": (19, 21, 61)}


@pytest.mark.parametrize("name", SEEDS)
def test_random_programs_do_the_same_afterwards(name):
    changed = 0
    for seed in SEEDS[name]:
        text = "\n".join(Programs(seed).statements(2, 4))
        before = program(text)
        done = after(name, before)
        changed += not structural_equal(before, done)
        for data in range(3):
            for x, y in zip(results(before, data), results(done, data)):
                np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}:\n{text}\nbecomes\n{done.script()}")
    assert changed  # or the test would say nothing


def test_a_variable_of_two_lets_that_shapes_buffers():
    v, n, A = tir.Var("v", "int32"), tir.Var("n", "int32"), tir.decl_buffer((8,), "int32", "A")

    def part(value):
        local = tir.decl_buffer((v,), "int32", "S")
        store = tir.BufferStore(A, tir.BufferLoad(local, (v - 1,)), (v,))
        return tir.LetStmt(v, value, tir.DeclBuffer(local, tir.SeqStmt((tir.BufferStore(local, v, (v - 1,)), store))))

    handle = tir.Var("a", "handle")
    before = tir.PrimFunc((handle, n), tir.SeqStmt((part(tir.const(5)), part(n + 1))), buffer_map={handle: A})
    done = T.Simplify()(IRModule({"main": before}))["main"].body.seq[1]
    assert done.body.buffer.shape[0] is done.var


CHANGING = ["for i in range(A[0], 8):\n    A[0] = 7\n    if i >= A[0]:\n        B[i] = 1",
            "for i in range(A[0]):\n    A[0] = 0\n    if i < A[0]:\n        B[i] = 1",
            "for i in range(A[0], A[0] + 1):\n    A[0] = 7\n    B[i] = 1",
            "for i in T.unroll(A[0], A[0] + 2):\n    A[0] = 7\n    B[i] = 1"]


@pytest.mark.parametrize("name", ["Simplify", "UnrollLoop", "LowerOpaqueBlock"])
@pytest.mark.parametrize("text", CHANGING)
def test_ends_of_loops_that_a_store_changes(name, text):
    before = program(text)
    done = getattr(T, name)()(IRModule({"main": before}))["main"]
    arrays = [[np.full(16, k, "int32") for k in (2, 0)] for _ in range(2)]
    for func, (a, b) in zip((before, done), arrays):
        run(func, a, b, np.zeros(4, "float32"), 0)
    np.testing.assert_array_equal(*arrays)


ASSUMED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        with T.block("of_a"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.assume(vi != 3 or vj < 4 or A[vi, vj] == 2)
    for i, j in T.grid(4, 8):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(not (vi != 3 or vj < 4), 6, A[vi, vj] * 3)
"""


@pytest.mark.parametrize(("old", "new", "goes"), [
    ("", "", True),
    ("not (vi != 3 or vj < 4), 6, A[vi, vj] * 3", "vi != 3 or vj < 4, A[vi, vj] * 3, 6", True),
    ("6, A", "5, A", False),
    ("A[vi, vj] * 3", "A[vi, vj] * B[vi, vj]", False),
    ("vj < 4), 6", "vj < 3), 6", False),  # more than is assumed
    ("A[vi, vj] * 3", "A[vi, vj + 1] * 3", False),
    ("vj < 4 or A", "vj < 4 or B[vi, vj] == 1 or A", False),
    ("T.grid(4, 8):\n        with T.block(\"of_a", "T.grid(4, 7):\n        with T.block(\"of_a", False),
    ("C[vi, vj] = T", "A[vi, vj] = T", False),
])
def test_choices_that_an_assumption_decides(old, new, goes):
    func = from_source(ASSUMED.replace(old, new) if old else ASSUMED)
    done = T.UseAssumeToReduceBranches()(IRModule({"main": func}))["main"]
    assert structural_equal(done, func) is not goes and ("if_then_else" in done.script()) is not goes
