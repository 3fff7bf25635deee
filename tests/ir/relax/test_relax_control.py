"""If, MatchCast, call_packed, call_dps_packed and call_tir: verified, evaluated, compiled or refused."""
import numpy as np
import pytest

import ingot
from ingot.ir.module import IRModule
from ingot.ir.node import collect, structural_equal
from ingot.ir.relax import (BlockBuilder, If, MatchCast, RelaxCall, RelaxVar, SeqExpr, TensorStructInfo,
                            VarBinding, const, op)
from ingot.ir.relax.evaluate import EvaluationError, evaluate
from ingot.ir.relax.expr import BindingBlock, DataflowBlock, Function
from ingot.ir.relax.verifier import VerifyError, verify
from ingot.ir.script.functions import from_source
from ingot.ir.transform.lift_branches import lift_branches
from ingot.ir.transform.resolve_casts import resolve_match_cast

A = np.arange(12, dtype=np.float32).reshape(3, 4)


def module(*lines, params='x: R.Tensor((3, 4), "float32"), c: R.Tensor((), "bool")', more=""):
    body = "".join(f"        {line}\n" for line in lines)
    return from_source(f"@I.ir_module\nclass Module:\n{more}    @R.function\n    def main({params}):\n{body}")


BRANCHES = module("if c:", "    a = R.exp(x)", "    y = R.add(a, x)", "else:", "    y = R.negative(x)",
                  "z = R.multiply(y, x)", "return z")


# ---------------------------------------------------------------- if

def test_if_verifies_evaluates_and_reads_back():
    verify(BRANCHES)
    assert structural_equal(from_source(BRANCHES.script()), BRANCHES)
    np.testing.assert_allclose(evaluate(BRANCHES, [A, np.array(True)]), (np.exp(A) + A) * A, rtol=1e-6)
    np.testing.assert_allclose(evaluate(BRANCHES, [A, np.array(False)]), -A * A)


def test_if_becomes_c():
    """Nested branches that use a tuple and give one; each of its fields is a parameter of the branch."""
    mod = module("s = R.split(x, 2, axis=1)", "n = R.logical_not(c)", "if c:", "    if n:", "        t = R.exp(x)",
                 "    else:", "        t = R.concat((s[0], s[1]), axis=1)", "    y = (R.add(t, x), s[0])", "else:",
                 "    y = (x, s[1])", "return y")
    lifted = verify(lift_branches(mod))
    assert [b.value.op for b in lifted["main"].bindings if isinstance(b.value, RelaxCall)][-1] == "call_if"
    assert not collect(lifted, If) and len(lifted.functions) == 5
    with ingot.compile(mod) as library:
        for c in (True, False):
            for want, *others in zip(evaluate(mod, [A, np.array(c)]), evaluate(lifted, [A, np.array(c)]),
                                     library(A, np.array(c))):
                for other in others:
                    np.testing.assert_array_equal(other, want)


def test_what_c_cannot_hold_of_an_if_is_run_binding_by_binding():
    mod = module("if c:", "    y = R.exp(x)", "else:", "    y = R.sum(x)", "return y")
    executable = ingot.compile(mod)
    np.testing.assert_allclose(executable["main"](A, np.array(False)).numpy(), A.sum())
    with pytest.raises(ValueError, match="main is no network of C: .* has an `if` whose branches give different"):
        executable.export("nowhere")
    with pytest.raises(ValueError, match="y: the branches of an `if` that is C give tensors of the same known shapes"):
        resolve_match_cast(mod)


def test_an_if_of_a_number_is_run_binding_by_binding():
    """What is no bool is no condition in C."""
    mod = module("if c:", "    y = R.exp(x)", "else:", "    y = x", "return y",
                 params='x: R.Tensor((3, 4), "float32"), c: R.Tensor((1,), "float32")')
    main = ingot.compile(mod)["main"]
    for c, want in ((0, A), (0.5, np.exp(A))):
        np.testing.assert_allclose(main(A, np.array([c], "float32")).numpy(), want, rtol=1e-6)


def test_branches_may_be_nested():
    mod = module("if c:", "    if c:", "        t = R.exp(x)", "    else:", "        t = R.abs(x)",
                 "    y = R.add(t, x)", "else:", "    y = R.abs(x)", "return y")
    verify(mod)
    np.testing.assert_allclose(evaluate(mod, [A, np.array(True)]), np.exp(A) + A, rtol=1e-6)


X, C = RelaxVar("x", TensorStructInfo((3, 4), "float32")), RelaxVar("c", TensorStructInfo((), "bool"))


def branch(value, name):
    var = RelaxVar(name, value.struct_info)
    return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)


def if_module(value, block=BindingBlock, later=None):
    y = RelaxVar("y", value.struct_info)
    bindings = (VarBinding(y, value), *([VarBinding(RelaxVar("z", later.struct_info), later)] if later else ()))
    return IRModule({"main": Function((X, C), SeqExpr((block(bindings),), y), y.struct_info, {})})


def test_broken_ifs():
    good, other = branch(op.exp(X), "a"), branch(op.sum(X), "b")
    inside = good.blocks[0].bindings[0].var
    for mod, message in (
            (if_module(If(X, good, branch(op.abs(X), "b"))), "condition of the `if` is R.Tensor.*must be a bool"),
            (if_module(If(C, good, other)), "the branches of the `if` give"),
            (if_module(If(C, good, branch(op.abs(X), "b")), DataflowBlock), "a dataflow block has no control flow"),
            (if_module(If(C, good, branch(op.abs(X), "b")), later=op.abs(inside)), "binding of z: variable a is"),
            (if_module(If(C, good, branch(op.abs(inside), "b"))), "binding of b: variable a is"),
            (if_module(If(C, good, branch(op.abs(X), "x"))), "two variables are named x")):
        with pytest.raises(VerifyError, match=message):
            verify(mod)
    verify(if_module(If(C, good, branch(op.abs(X), "a"))))  # each branch has names of its own


# ---------------------------------------------------------------- match_cast

CAST = module("m = T.int64()", 'y = R.match_cast(x, R.Tensor((m, 4), "float32"))',
              'z: R.Tensor((m * 4,), "float32") = R.reshape(y, (m * 4,))', "w = R.concat((z, z))", "return w")


def test_casts_bind_dimensions():
    verify(CAST)
    np.testing.assert_array_equal(evaluate(CAST, [A, np.array(True)]), np.tile(A.ravel(), 2))
    resolved = verify(resolve_match_cast(CAST))
    assert not any(isinstance(b, MatchCast) for b in resolved["main"].bindings)
    assert [b.var.struct_info.static_shape for b in resolved["main"].bindings] == [(12,), (24,)]
    with ingot.compile(CAST) as library:
        np.testing.assert_array_equal(library(A, np.array(True)), np.tile(A.ravel(), 2))


def test_a_cast_between_dimensions_of_the_input():
    params = 'x: R.Tensor(("n", "n * 2"), "float32")'
    mod = module("n, m, k = T.int64(), T.int64(), T.int64()", 'y = R.match_cast(x, R.Tensor((m, k), "float32"))',
                 'z = R.match_cast(y, R.Tensor((n, m * 2), "float32"))', "return R.abs(z)", params=params)
    verify(mod)
    resolved = verify(resolve_match_cast(mod))
    assert [b.value.op for b in resolved["main"].bindings] == ["abs"]
    assert str(resolved["main"].bindings[0].var.struct_info) == 'R.Tensor((n, n * 2), dtype="float32")'
    array = np.ones((3, 6), np.float32)
    assert evaluate(mod, [array]).shape == (3, 6)


def test_run_time_checks_of_the_evaluator():
    params = 'x: R.Tensor("float32")'
    func = module('y = R.match_cast(x, R.Tensor((3, "k"), "float32"))', "return y", params=params)["main"]
    assert evaluate(func, [A]).shape == (3, 4)
    for array, message in ((A.T, r"y has shape \(4, 3\), and must have \(3, 3\)"),
                           (A[0], r"y has shape \(4,\), and must have 2 dimensions")):
        with pytest.raises(EvaluationError, match=message):
            evaluate(func, [array])
    ranked = module("y = R.match_cast(x, R.Tensor(ndim=3))", "return y", params=params)["main"]
    with pytest.raises(EvaluationError, match=r"y has shape \(3, 4\), and must have 3 dimensions"):
        evaluate(ranked, [A])
    bb = BlockBuilder()
    with bb.function("main", [RelaxVar("x", TensorStructInfo(None, "float32"))]):
        known = bb.match_cast(bb._params[0], TensorStructInfo((3, 4), "float32"), "known")
        bb.emit_func_output(known + 1)
    np.testing.assert_array_equal(evaluate(verify(bb.get()), [A]), A + 1)
    shapes = module("a, b = T.int64(), T.int64()", "t = R.match_cast(R.shape([3, 4]), R.Shape([a, b]))",
                    'y = R.match_cast(x, R.Tensor((a, b), "float32"))', "return R.abs(y)", params=params)
    assert evaluate(verify(shapes), [A]).shape == (3, 4)
    with pytest.raises(EvaluationError, match=r"y has shape \(4, 3\), and must have \(3, 4\)"):
        evaluate(shapes, [A.T])


@pytest.mark.parametrize("info, message", [
    ('R.Tensor((3, 5), "float32")', "can never be .*: dimension 1 is 4, not 5"),
    ('R.Tensor((3, 4), "int32")', "can never be .*: float32 is not int32"),
    ('R.Tensor((3,), "float32")', "can never be .*: 2 dimensions are not 1"),
    ("R.Shape([3, 4])", "can never be .*: they are of different kinds"),
    ('R.Tuple(R.Tensor((3, 4), "float32"))', "they are of different kinds"),
])
def test_impossible_casts(info, message):
    mod = module(f"y = R.match_cast(x, {info})", "return y")
    with pytest.raises(VerifyError, match=message):
        verify(mod)
    with pytest.raises(ValueError, match="y: R.match_cast of .* can never hold"):
        resolve_match_cast(mod)


def test_casts_that_only_a_run_could_check():
    params = 'x: R.Tensor(("n", 4), "float32"), w: R.Tensor(("m", 4), "float32")'
    mod = module("m = T.int64()", 'y = R.match_cast(x, R.Tensor((m, 4), "float32"))', "return R.add(y, w)",
                 params=params)
    verify(mod)
    with pytest.raises(ValueError, match="y: R.match_cast says that n is m, which only a run could check"):
        ingot.compile(mod)
    with pytest.raises(EvaluationError, match=r"y has shape \(2, 4\), and must have \(3, 4\)"):
        evaluate(mod, [A[:2], A])
    unknown = module('y = R.match_cast(x, R.Tensor((3, 4), "float32"))', "return R.abs(y)",
                     params='x: R.Tensor("float32")')
    with pytest.raises(ValueError, match="the value's shape is not known when compiling"):
        resolve_match_cast(unknown)


def test_a_cast_needs_its_dimensions_defined():
    mod = module("m = T.int64()", 'y = R.match_cast(x, R.Tensor((m + 1, 4), "float32"))', "return y")
    with pytest.raises(VerifyError, match="nothing defines the symbolic dimension m of y"):
        verify(mod)


# ---------------------------------------------------------------- foreign functions

FOREIGN = {
    "call_packed": 'y = R.call_packed("f", x, sinfo_args=R.Tensor((3, 4), "float32"))',
    "call_pure_packed": 'y = R.call_pure_packed("f", x, sinfo_args=R.Tensor((3, 4), "float32"))',
    "call_dps_packed": 'y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((3, 4), "float32"))',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_functions(name):
    mod = module(FOREIGN[name], "return R.exp(y)")
    verify(mod)
    assert structural_equal(from_source(mod.script()), mod)
    with pytest.raises(EvaluationError, match=f"y: {name} of 'f' cannot be evaluated: foreign functions"):
        evaluate(mod, [A, np.array(True)])
    inside = module("with R.dataflow():", f"    {FOREIGN[name]}", "    R.output(y)", "return y")
    if name == "call_packed":
        with pytest.raises(VerifyError, match="call_packed may have side effects, which a dataflow block has none of"):
            verify(inside)
    else:
        verify(inside)


def test_broken_foreign_calls():
    for call, message in (
            (RelaxCall("call_packed", (X,), {}, X.struct_info), "it needs func, the name of the foreign function"),
            (RelaxCall("call_dps_packed", (X,), {"func": "f"}, TensorStructInfo(None, "float32")),
             "gives tensors of known shape; this is R.Tensor")):
        y = RelaxVar("y", call.struct_info)
        func = Function((X,), SeqExpr((BindingBlock((VarBinding(y, call),)),), y), y.struct_info, {})
        with pytest.raises(VerifyError, match=message):
            verify(IRModule({"main": func}))


# ---------------------------------------------------------------- call_tir

KERNEL = """
    @T.prim_func
    def double(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n, 4), "float32")
        Y = T.match_buffer(y, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)

"""


def test_kernels_of_one_size_and_of_any():
    """Dimensions that only a PrimFunc's shapes name: numbers where the call knows them, else parameters."""
    static = module('y = R.call_tir(cls.double, (x,), R.Tensor((3, 4), "float32"))', "return y",
                    params='x: R.Tensor((3, 4), "float32")', more=KERNEL)
    params = 'x: R.Tensor(("n", 4), "float32"), w: R.Tensor((2, 4), "float32")'
    dynamic = module("n = T.int64()", 'y = R.call_tir(cls.double, (x,), R.Tensor((n, 4), "float32"))',
                     'z = R.call_tir(cls.double, (y,), R.Tensor((n, 4), "float32"))',
                     'v = R.call_tir(cls.double, (w,), R.Tensor((2, 4), "float32"))', "return (z, v)",
                     params=params, more=KERNEL)
    dynamic = dynamic.with_attr("dims", tuple(dynamic["main"].params[0].struct_info.shape[:1]))
    for mod in (static, dynamic):
        verify(mod)
    np.testing.assert_array_equal(evaluate(static, [A]), A * 2)
    np.testing.assert_array_equal(evaluate(dynamic, [A, A[:2]])[0], A * 4)
    with ingot.compile(static) as library:
        np.testing.assert_array_equal(library(A), A * 2)
    with ingot.compile(dynamic) as library:
        z, v = library(A, A[:2])
        np.testing.assert_array_equal(z, A * 4)
        np.testing.assert_array_equal(v, A[:2] * 2)


def test_a_kernel_that_calls_c_is_not_evaluated():
    more = KERNEL.replace("X[vi, vj] * T.float32(2)", 'T.call_extern("float32", "f", X[vi, vj])')
    mod = module('y = R.call_tir(cls.double, (x,), R.Tensor((3, 4), "float32"))', "return y",
                 params='x: R.Tensor((3, 4), "float32")', more=more)
    with pytest.raises(EvaluationError, match="y: double cannot be evaluated: call of the C function f"):
        evaluate(mod, [A])
    lonely = mod.with_functions({"main": mod["main"]})
    with pytest.raises(EvaluationError, match="y: call_tir of double, which is no function of the module"):
        evaluate(lonely, [A])
    assert const(1).struct_info.ndim == 0
