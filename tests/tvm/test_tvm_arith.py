"""Systems of integer constraints against brute force, and what tvm.tir has of layouts and copies."""
import random

import ingot as tvm
from ingot import te, testing, tir
from ingot.arith import solve_linear_equations, solve_linear_inequalities
from ingot.tir.stmt_functor import renew_defs


def test_solutions_map_one_to_one():
    rng, variables = random.Random(1), [te.var(f"x{i}") for i in range(3)]
    ranges = {v: tvm.ir.Range(-4, 5) for v in variables}
    for turn in range(12):
        sums = [sum(v * rng.randint(-2, 2) for v in variables) + rng.randint(-3, 3) for _ in range(2)]
        equations = [tir.EQ(e, tir.const(0)) for e in sums]
        testing.check_int_constraints_trans_consistency(solve_linear_equations(equations, variables, ranges))
        inequalities = [tir.LE(e, tir.const(0)) for e in sums]
        testing.check_int_constraints_trans_consistency(
            solve_linear_inequalities(inequalities, variables[:2], {v: ranges[v] for v in variables[:2]}, True),
            {variables[2]: ranges[variables[2]]})


def test_layouts():
    both = tir.bijective_layout("NCHW", "NCHW4c")
    assert [int(e) for e in both.forward_shape((1, 6, 5, 5))] == [1, 2, 5, 5, 4]
    assert [int(e) for e in both.backward_index(both.forward_index((0, 5, 1, 2)))] == [0, 5, 1, 2]
    assert tir.bijective_layout("NCHW", "NHW") is None


def test_renewed_functions_share_no_variable():
    A = te.placeholder((4, 8), name="A")
    func = te.create_prim_func([A, te.compute((4, 8), lambda i, j: A[i, j] + 1)])
    copy = renew_defs(func)
    tvm.ir.assert_structural_equal(func, copy)
    assert not set(func.params) & set(copy.params)
    assert not set(func.buffer_map.values()) & set(copy.buffer_map.values())
