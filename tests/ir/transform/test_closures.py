"""LambdaLift and CallTIRRewrite: functions and calls as a machine has them; they compute the same."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.script.functions import from_source
from ingot.relax import transform
from ingot.tvm.relax.testing import vm  # noqa: F401  (registers test.vm.identity)

INNER = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, "n"), "float32"), i: R.Tensor((), "int64")) -> R.Tensor((2, "n"), "float32"):
        n = T.int64()

        @R.function
        def twice(a: R.Tensor((2, n), "float32")) -> R.Tensor((2, n), "float32"):
            b = R.add(a, a)
            return b

        @R.function
        def loop(k: R.Tensor((), "int64"), s: R.Tensor((2, n), "float32")) -> R.Tensor((2, n), "float32"):
            more = R.greater(k, R.const(0, "int64"))
            if more:
                less = R.subtract(k, R.const(1, "int64"))
                t = R.add(s, x)
                r = loop(less, t)
            else:
                r = s
            return r

        y = twice(x)
        z = loop(i, y)
        return z
"""
X = np.arange(6, dtype="float32").reshape(2, 3)


def run(mod, *args):
    return relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](*args).numpy()


def test_inner_functions_become_functions_of_the_module():
    before = from_source(INNER)
    after = transform.LambdaLift()(before)
    assert list(after.functions) == ["main_twice", "main_loop", "main"] and relax.analysis.well_formed(after)
    assert [p.name for p in after["main_loop"].params] == ["k", "s", "x"]
    assert ("R.make_closure(cls.main_loop, (x,))" in after.script()
            and "R.invoke_pure_closure(loop, (i, y)" in after.script())
    assert "cls.main_loop(less, t, x)" in after.script() and "cls.main_twice(x)" in after.script()
    assert "global_symbol" not in after["main_twice"].attrs
    assert transform.LambdaLift()(after) is not None and before.script() == from_source(INNER).script()
    for mod in (before, after):
        assert np.array_equal(run(mod, X, np.array(3)), 5 * X)


def test_calls_in_place():
    mod = from_source("""
@I.ir_module
class M:
    @T.prim_func
    def scale(x: T.handle, y: T.handle, z: T.handle, k: T.int64):
        n = T.int64()
        A = T.match_buffer(x, (n,), "float32")
        B = T.match_buffer(y, (n,), "float32")
        C = T.match_buffer(z, (n,), "float32")
        for i in range(n):
            with T.block("scale"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * T.Cast("float32", k)
                C[vi] = A[vi] + T.float32(1)
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.call_tir(M.scale, (x,), [R.Tensor((n,), "float32"), R.Tensor((n,), "float32")], tir_vars=R.shape([n]))
            z = y[0]
            R.output(z)
        w = R.call_dps_packed("test.vm.identity", (z,), R.Tensor((n,), "float32"))
        return w
""")
    after = transform.CallTIRRewrite()(transform.RemovePurityChecking()(transform.ToNonDataflow()(mod)))
    text = after.script()
    assert text.count("R.builtin.alloc_tensor(R.shape([n])") == 3 and "R.dataflow" not in text
    assert "cls.scale(x, alloc, alloc1, R.shape([n]))" in text and 'R.call_packed("test.vm.identity", z, alloc2' in text
    assert relax.analysis.well_formed(after)
    for m in (mod, after):
        assert np.array_equal(run(m, X[1]), 3 * X[1])


def test_variables_of_a_copy_are_new():
    func = from_source(INNER)["main"]
    copy = relax.utils.copy_with_new_vars(func)
    tvm.ir.assert_structural_equal(copy, func)
    assert not {id(v) for v in relax.analysis.all_vars(copy)} & {id(v) for v in relax.analysis.all_vars(func)}
    assert str(relax.utils.convert_to_expr((1, 2))) == "R.shape([1, 2])" and relax.utils.convert_to_expr(3).value == 3


ALIASES = """
@I.ir_module
class M:
    @R.function(private=True)
    def plus(x: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        @R.function
        def inner(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            z = R.add(q, b)
            return z
        y: R.Tensor((3,), "float32") = inner(x)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        @R.function
        def times(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            z = R.multiply(q, b)
            return z
        other = times
        y = M.plus(x, b)
        z: R.Tensor((3,), "float32") = other(y)
        return z
"""


@pytest.mark.parametrize("names", [
    ("CanonicalizeBindings",), ("InlinePrivateFunctions",), ("KillAfterLastUse",),
    ("LambdaLift", "InlinePrivateFunctions", "CanonicalizeBindings", "DeadCodeElimination")])
def test_functions_with_two_names_and_functions_inside_inlined_ones(names):
    mod = from_source(ALIASES)
    for name in names:
        mod = getattr(transform, name)()(mod)
    if "InlinePrivateFunctions" in names:
        assert "cls.plus(" not in mod.script()
    assert np.array_equal(run(mod, X[0], X[1]), (X[0] + X[1]) * X[1])
