"""Simplify's settings for conditions of several parts: what becomes of them, and that they hold where they did."""
import random

import numpy as np
import pytest
from tir_cases import assert_same_results, results

import ingot as tvm
from ingot.ir.arith import Analyzer
from ingot.ir.expr import EQ, GE, LT, NE, And, FloorDiv, Not, Or, Var, const
from ingot.ir.tir.values import values_of
from ingot.ir.transform.booleans import Booleans
from ingot.script import tir as T

I, J, K = (Var(name, "int32") for name in "ijk")
SETTINGS = ("convert_boolean_to_and_of_ors", "apply_constraints_to_boolean_branches")


def simplified(func, *settings):
    with tvm.transform.PassContext(config={"tir.Simplify": {name: name in settings for name in SETTINGS}}):
        return tvm.tir.transform.Simplify()(tvm.IRModule({"main": func}))["main"]


def random_condition(rng, depth):
    if depth == 0:
        return rng.choice([EQ, NE, LT, GE])(rng.choice([I, J, K]), const(rng.randrange(3)))
    a, b = (random_condition(rng, depth - 1) for _ in range(2))
    return rng.choice([And, Or, lambda x, y: Not(And(x, y)), lambda x, y: Or(Not(x), y)])(a, b)


@pytest.mark.parametrize("settings", [(True, False), (False, True), (True, True)])
def test_conditions_hold_where_they_did(settings):
    rng, axes = random.Random(0), np.meshgrid(*[np.arange(-1, 4)] * 3, indexing="ij")
    values = dict(zip((I, J, K), axes))
    shorter = 0
    for _ in range(25):
        e = random_condition(rng, 2)
        made = Booleans(Analyzer(), *settings).visit(e)
        shorter += len(str(made)) < len(str(e))
        before, after = (np.broadcast_to(values_of(x, values), axes[0].shape) for x in (e, made))
        np.testing.assert_array_equal(after, before, f"{e} -> {made}")
    assert shorter >= 5


def test_what_is_evaluated_first_is_not_simplified_by_what_follows():
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "bool")):
        for i in range(8):
            B[i] = A[i % 4] != 0 or i <= 5
        for i in range(8):
            B[i] = (i >= 6 and A[i - 6] == 0) or i <= 5

    inputs = [np.array([1, 0, 0, 1], np.int32), np.zeros(8, bool)]
    assert_same_results(results(before, inputs), simplified(before, SETTINGS[1]), inputs)


def test_each_setting_does_its_part():
    @T.prim_func
    def before(A: T.Buffer((3,), "bool"), i: T.int32, j: T.int32):
        A[0] = A[1] or (A[2] and A[0])
        A[1] = (i == 0 or j == 10) and (j == 9 or i == 0)
        A[2] = i < 10 and j < 3 and i < 5

    plain, ors, branches = (simplified(before, *names) for names in ((), SETTINGS[:1], SETTINGS[1:]))
    texts = [[str(s.value) for s in f.body.seq] for f in (plain, ors, branches)]
    assert texts[0][0] == texts[2][0] == "A[1] or A[2] and A[0]"
    assert texts[1][:2] == ["(A[1] or A[2]) and (A[1] or A[0])", "i == 0"]
    assert texts[2][2] == "j < 3 and i < 5"
    for i, j in ((0, 10), (3, 2), (7, 9)):
        inputs = [np.array([False, True, True]), i, j]
        for after in (ors, branches):
            assert_same_results(results(before, inputs), after, inputs)


def test_what_may_fail_stays_behind_its_guard():
    guarded = And(NE(J, const(0)), EQ(FloorDiv(I, J), const(2)))
    e = And(Or(guarded, EQ(K, const(1))), NE(K, const(1)))
    text = str(Booleans(Analyzer(), True, True).visit(e))
    assert text.index("j != 0") < text.index("i // j")
