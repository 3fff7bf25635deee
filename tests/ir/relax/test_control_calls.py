"""call_if, call_loop and tensor_to_shape: verified, evaluated, compiled."""
import numpy as np
import pytest

import ingot
from ingot.ir.expr import Var, const
from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.relax import DataflowVar, RelaxVar, TensorStructInfo, TupleGetItem, VarBinding, op
from ingot.ir.relax.control import body_names, call_if, call_loop, tensor_to_shape
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import dataflow_function
from ingot.ir.relax.verifier import VerifyError, verify

X, W = np.random.default_rng(0).random((3, 4), np.float32), np.arange(4, dtype=np.float32)


def param(name, *shape, dtype="float32"):
    return RelaxVar(name, TensorStructInfo(shape, dtype))


def function(params, make):
    """make: function (bind, *params) -> outputs, where bind(value) is a variable of it."""
    bindings = []

    def bind(value):
        bindings.append(VarBinding(DataflowVar(f"lv{len(bindings)}", value.struct_info), value))
        return bindings[-1].var
    outputs = make(bind, *params)
    return dataflow_function(params, bindings, outputs, {})


def loop_module(**changes):
    """The states s = (s + row) * w over the rows of x, and exp(s) of each."""
    def turn(bind, s, row, w):
        new = bind(op.multiply(bind(op.add(s, row)), w))
        return [new, bind(op.exp(new))]
    body = function([param("s", 4), param("row", 4), param("w", 4)], turn)
    given = {"out": [TensorStructInfo((4,), "float32"), TensorStructInfo((3, 4), "float32")],
             "turns": const(3, "int64")}

    def main(bind, x, w):
        found = bind(call_loop(GlobalVar("body"), Var("i", "int64", const(3, "int64")), carried=[w], scanned=[x],
                               captured=[w], **{**given, **changes}))
        return [bind(TupleGetItem(found, 0)), bind(TupleGetItem(found, 1))]
    return IRModule({"main": function([param("x", 3, 4), param("w", 4)], main), "body": body})


def test_a_loop():
    mod, state, rows = verify(loop_module()), W, []
    for row in X:
        state = (state + row) * W
        rows.append(np.exp(state))
    assert body_names(mod) == ("body",) and "R.call_loop(w, x, w, body=cls.body" in mod.script()
    with ingot.compile(mod, threads="none") as library:
        for found in (evaluate(mod, [X, W]), library(X, W)):
            np.testing.assert_allclose(found[0], state, rtol=1e-5)
            np.testing.assert_allclose(found[1], rows, rtol=1e-5)


@pytest.mark.parametrize("changes, message", [
    ({"turns": None}, "its turns are an expression, or what limit and condition say"),
    ({"out": [TensorStructInfo((4,), "float32")]}, "its body returns 2 values, which are not those of the call")])
def test_broken_loops(changes, message):
    mod = loop_module()
    call = mod["main"].bindings[0].value
    info = changes.get("out", [None])[0] or call.struct_info
    broken = call.replace(attrs={**call.attrs, **{k: v for k, v in changes.items() if k != "out"}}, struct_info=info)
    var = DataflowVar("y", broken.struct_info)
    main = dataflow_function(mod["main"].params, [VarBinding(var, broken)], [var], {})
    with pytest.raises(VerifyError, match=message):
        verify(mod.with_function("main", main))


def branches(cond_dtype="bool"):
    then = function([param("p", 3, 4)], lambda bind, p: [bind(op.exp(p))])
    other = function([param("q", 3, 4)], lambda bind, q: [bind(op.negative(q))])

    def main(bind, x, c):
        y = bind(call_if(c, GlobalVar("then"), GlobalVar("other"), [x], TensorStructInfo((3, 4), "float32")))
        return [bind(op.multiply(y, x))]
    return IRModule({"main": function([param("x", 3, 4), param("c", dtype=cond_dtype)], main), "then": then,
                     "other": other})


def test_branches():
    mod = verify(branches())
    with ingot.compile(mod, threads="none") as library:
        for c in (True, False):
            expected = (np.exp(X) if c else -X) * X
            np.testing.assert_allclose(evaluate(mod, [X, np.array(c)]), expected, rtol=1e-5)
            np.testing.assert_allclose(library(X, np.array(c)), expected, rtol=1e-5)
    with pytest.raises(VerifyError, match="the condition is .*, it must be a bool tensor without dimensions"):
        verify(branches("int32"))


def test_dimensions_that_a_tensor_holds():
    def main(bind, x, n, most=const(3, "int64")):
        rows = Var("rows", "int64", most)
        bind(tensor_to_shape(n, [rows]))
        return [bind(op.call("slice_at", x, [0], [rows], axes=(0,), strides=(1,)))]
    mod = verify(IRModule({"main": function([param("x", 3, 4), param("n", 1, dtype="int64")], main)}))
    with ingot.compile(mod, threads="none") as library:
        for n in range(4):
            np.testing.assert_array_equal(library(X, np.array([n])), X[:n])
        with pytest.raises(RuntimeError, match="status -5"):
            library(X, np.array([4]))
    unbounded = function([param("x", 3, 4), param("n", 1, dtype="int64")], lambda b, x, n: main(b, x, n, None))
    with pytest.raises(VerifyError, match="must be a variable with an upper bound"):
        verify(IRModule({"main": unbounded}))
