"""NarrowDataType and LowerIntrin: what becomes C's own division, a fused multiply-add, or narrower arithmetic."""
import pytest

from ingot.ir import tir
from ingot.ir.expr import Call, Cast, Div, FloorDiv, FloorMod, IntImm, Mod, Ramp, Var, const
from ingot.ir.node import collect
from ingot.ir.transform.lower_intrin import lower_intrin
from ingot.ir.transform.narrow_dtype import narrow_data_type

X, Y = tir.decl_buffer((64,), name="x"), tir.decl_buffer((64,), name="y")
I, N, S = Var("i"), Var("n", "int64"), Var("s")
Z = tir.decl_buffer((N,), name="z")


def selected(body, params=(X, Z, Y, N, S)):
    func = tir.prim_func(list(params), body)
    return lower_intrin(narrow_data_type(func.replace(body=func.root.body))).body


def in_loop(index, low=0):
    return selected(tir.for_(I, 8, tir.BufferStore(Y, const(0.0), (index,)), minimum=low))


def kinds(stmt):
    return {type(n) for n in collect(stmt, (Div, Mod, FloorDiv, FloorMod))}


@pytest.mark.parametrize("index, low, expected", [
    (I // 3 * 2 + I % 3, 0, {Div, Mod}), (I // 3 * 2 + I % 3, -4, {FloorDiv, FloorMod}),
    (FloorDiv(I + 4, const(3)), -4, {Div}), (FloorDiv(S, const(3)), 0, {FloorDiv}),
    (Cast("int32", FloorDiv(N, const(3, "int64"))), 0, {Div}),
])
def test_divisions_of_what_cannot_be_negative(index, low, expected):
    """Dimensions cannot; other scalar parameters may be."""
    assert kinds(in_loop(index, low)) == expected


def test_conditions_tell_signs():
    at = I - 3
    value = tir.if_then_else(at >= 0, X[FloorDiv(at, const(2))], X[FloorMod(at, const(2))])
    assert kinds(selected(tir.for_(I, 8, tir.BufferStore(Y, value, (I,))))) == {Div, FloorMod}
    branch = tir.IfThenElse(at >= 0, tir.BufferStore(Y, const(0.0), (FloorDiv(at, const(2)),)),
                            tir.BufferStore(Y, const(1.0), (FloorMod(at, const(2)),)))
    assert kinds(selected(tir.for_(I, 8, branch))) == {Div, FloorMod}


def test_vector_multiply_adds_fuse():
    at = Ramp(const(0), const(1), 8)
    a, b = X[at], Y[at]
    for value in (a * b + b, b + a * b):
        store = selected(tir.BufferStore(Y, value, (at,)))
        assert isinstance(store.value, Call) and store.value.op == "tir.fma"
    assert not isinstance(selected(tir.BufferStore(Y, X[I] * X[I] + X[I], (I,)), (X, Y, I)).value, Call)


def test_small_int64_arithmetic_is_int32():
    wide = Cast("int64", I) * const(12, "int64") + N
    store = in_loop(wide).body
    cast, = collect(store.indices[0], Cast)
    assert cast.value.dtype == "int32" and [v.value for v in collect(cast, IntImm)] == [12]
    large = Cast("int64", I) * const(1 << 30, "int64") + N
    assert collect(in_loop(large).body.indices[0], Cast)[0].value is I
