"""Spellings of scripts that stand for something longer: both are the same program."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.script import ScriptError, tir as T


@T.macro
def _add_to(i, *places, source, factor=1, **more):
    more["out"][i] = more["out"][i] + source[places[0]] * T.cast(factor, "float32")


class _Doubled:
    def __init__(self, buffer):
        self.buffer = buffer

    @T.macro
    def store(self, i, value):
        self.buffer[i] = value * T.float32(2)


def _halves(i):
    return T.meta_var((i // 2, i % 2))


@T.prim_func
def short(A: T.Buffer((16,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((8,), "float32")):
    double = T.meta_var(_Doubled(C))
    for *s, r in T.grid(4, 4):
        j = r
        B[(*s, j)] = A[s[0] * 4 + j]
    C[0:8:2] = A[1:16:4]
    for i in range(4):
        _add_to(i, i * 2, source=A, out=C)
    for i in range(4):
        half, rest = _halves(i)
        double.store(half * 2 + rest + 4, A[i])
    with T.block("last"):
        D = T.match_buffer(B[0:2, 1:3])
        D[0, 1] = T.float32(9)


@T.prim_func
def long(A: T.Buffer((16,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((8,), "float32")):
    for s_0, r in T.grid(4, 4):
        with T.LetStmt(r, dtype="int32") as j:
            B[s_0, j] = A[s_0 * 4 + j]
    C[T.Ramp(0, 2, 4)] = A[T.Ramp(1, 4, 4)]
    for i in range(4):
        C[i] = C[i] + A[i * 2] * T.cast(1, "float32")
    for i in range(4):
        C[i // 2 * 2 + i % 2 + 4] = A[i] * T.float32(2)
    with T.block("last"):
        D = T.match_buffer(B[0:2, 1:3], (2, 2), dtype="float32")
        D[0, 1] = T.float32(9)


def test_same_program():
    tvm.ir.assert_structural_equal(short.with_attr("global_symbol", "long"), long)
    assert short.__name__ == "short"


def test_runs_as_it_reads():
    a, b, c = (tvm.nd.array(np.arange(n, dtype="float32").reshape(s)) for n, s in ((16, (16,)), (16, (4, 4)), (8, (8,))))
    tvm.build(short, target="c")(a, b, c)
    want = np.arange(16, dtype="float32").reshape(4, 4)
    want[0, 2] = 9
    np.testing.assert_array_equal(b.numpy(), want)
    sums = np.arange(8, dtype="float32")
    sums[::2] = [1, 5, 9, 13]
    sums[:4] += [0, 2, 4, 6]
    sums[4:] = [0, 2, 4, 6]
    np.testing.assert_array_equal(c.numpy(), sums)


def test_let_statement():
    @T.prim_func(private=True)
    def explicit(n: T.int32):
        j = T.int32()
        T.LetStmt(n, var=j)
        T.evaluate(j)

    @T.prim_func(private=True)
    def implicit(n: T.int32):
        j = n
        T.evaluate(j)

    tvm.ir.assert_structural_equal(explicit, implicit)


def test_named_strides():
    @T.prim_func
    def func(a: T.handle):
        A = T.match_buffer(a, (8,), strides=("step",))
        A[0] = T.cast(A.strides[0], "float32")

    assert func.buffers[0].strides[0].name == "step"
    tvm.ir.assert_structural_equal(tvm.script.from_source(func.script()), func)


def test_struct_info():
    @T.prim_func
    def pure(A: T.Buffer((16, 2), "float32"), n: T.int64) -> T.float32:
        return A[n, 0]

    told = relax.FuncStructInfo([relax.TensorStructInfo([16, 2], "float32"), relax.PrimStructInfo("int64")],
                                relax.PrimStructInfo("float32"))
    tvm.ir.assert_structural_equal(pure.struct_info, told)
    assert not short.struct_info.purity


@pytest.mark.parametrize("call, words", [("_add_to(i, source=A)", "out"), ("_add_to(i, i)", "source"),
                                         ("double.store(i)", "takes (self, i, value)")])
def test_macros_refuse(call, words):
    text = ("@T.prim_func\ndef f(A: T.Buffer((16,), 'float32')):\n    double = T.meta_var(Doubled(A))\n"
            f"    for i in range(4):\n        {call}\n")
    with pytest.raises(ScriptError, match=words.replace("(", r"\(").replace(")", r"\)")):
        tvm.script.from_source(text, extra_vars={"_add_to": _add_to, "Doubled": _Doubled, "T": T})


def test_match_needs_a_shape():
    with pytest.raises(ScriptError, match="shape"):
        tvm.script.from_source("@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, dtype='int32')\n    T.evaluate(0)")
