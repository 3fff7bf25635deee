"""Printed expressions mean what the nodes mean: random trees compiled and compared, and parsed back."""
import ctypes
import random

import numpy as np
import pytest
from c_build import COMPILERS, compile_text, source
from c_parse import expected, needless_parentheses, parse
from c_trees import DTYPES, ROWS, Drawer, buffers, columns, evaluate, function_of

from ingot.codegen.c_expr import CExpr
from ingot.codegen.c_function import print_function
from ingot.codegen.c_types import identifier, literal
from ingot.ir import expr as E
from ingot.ir.dtype import DataType
from ingot.ir.expr import Var, const
from ingot.ir.tir.buffer import decl_buffer
from ingot.ir.tir.function import prim_func
from ingot.ir.tir.intrin import INTRINSICS
from ingot.ir.tir.stmt import BufferStore, for_

TREES = 220


def draw(seed):
    """[(tree, PrimFunc)] and the inputs that they read."""
    rng, inputs, row = random.Random(seed), buffers(), Var("row")
    drawer = Drawer(rng, inputs, row)
    trees = [drawer.tree(rng.choice(DTYPES), rng.randrange(1, 5)) for _ in range(TREES)]
    return trees, [function_of(t, inputs, row, f"e{n}") for n, t in enumerate(trees)]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("seed", (1, 2))
def test_random_trees_compute_their_value(seed, compiler, tmp_path):
    trees, funcs = draw(seed)
    functions = [print_function(f, f"e{n}") for n, f in enumerate(funcs)]
    # constants on both sides are what random trees are made of
    quiet = ("-Wno-type-limits", "-Wno-logical-op", "-Wno-tautological-compare", "-Wno-duplicated-branches",
             "-Wno-div-by-zero", "-Wno-bool-compare", "-Wno-absolute-value", "-Wno-overflow", "-Wno-bool-operation") + (
        ("-Wno-division-by-zero", "-Wno-integer-overflow", "-Wno-tautological-constant-compare", "-Wno-literal-range",
         "-Wno-unknown-warning-option", "-Wno-constant-logical-operand", "-Wno-constant-conversion",
         "-Wno-implicit-const-int-float-conversion") if compiler == "clang" else ())
    library = compile_text(source(functions), tmp_path, compiler, quiet)
    data = columns(seed)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in data.values()]
    for n, tree in enumerate(trees):
        out = np.zeros(ROWS, tree.dtype.numpy)
        for row in range(ROWS):
            with np.errstate(all="ignore"):
                want = tree.dtype.numpy.type(evaluate(tree, data, row))
            getattr(library, f"e{n}")(*pointers, ctypes.c_void_p(out.ctypes.data), ctypes.c_int32(row))
            same = out[row] == want or (np.isnan(out[row]) and np.isnan(want))
            assert same, f"row {row}: {out[row]!r} instead of {want!r}\n{tree}\n{functions[n].body}"


# ---------------------------------------------------------------- text

class Names:
    """Every buffer and variable under its own name."""

    def __getitem__(self, obj):
        return obj.name


def text_of(e):
    return CExpr(Names(), set()).text(e)


@pytest.mark.parametrize("seed", range(3, 6))
def test_random_trees_parse_back(seed):
    for tree in draw(seed)[0]:
        text = text_of(tree)
        assert parse(text, casts=False) == expected(tree), text
        assert not needless_parentheses(text), text


I, J, N = Var("i"), Var("j"), Var("n", "int64")
X, Y, P = (Var(n, "float32") for n in "xyp")
A, B = Var("a", "bool"), Var("b", "bool")
FLAGS, BYTES, WIDE = (decl_buffer((8,), t, n) for n, t in (("flags", "bool"), ("bytes", "int8"), ("wide", "int64")))
EXACT = [
    (E.Add(E.Add(I, J), I), "i + j + i"), (E.Add(I, E.Add(J, I)), "i + (j + i)"),
    (E.Sub(I, E.Sub(J, I)), "i - (j - i)"),
    (E.Mul(E.Add(I, J), I), "(i + j) * i"), (E.Mul(const(5), E.Mod(I, const(2))), "5 * (i % 2)"),
    (E.Div(E.Mul(I, J), I), "i * j / i"), (E.Mul(I, E.Div(J, I)), "i * (j / i)"),
    (E.Sub(const(0), E.Sub(const(0), I)), "-(-i)"), (E.Sub(I, E.Sub(const(0), J)), "i - (-j)"),
    (E.Sub(const(0), E.Add(I, J)), "-(i + j)"), (E.Mul(E.Sub(const(0), I), J), "-i * j"),
    (E.Add(I, const(-3)), "i - 3"), (E.Sub(I, const(-3)), "i - (-3)"), (E.Mul(I, const(-3)), "i * -3"),
    (E.Or(E.And(A, B), A), "(a && b) || a"), (E.And(E.Or(A, B), A), "(a || b) && a"),
    (E.And(A, E.And(B, A)), "a && (b && a)"),
    (E.Not(E.LT(I, J)), "!(i < j)"), (E.Not(E.Not(A)), "!!a"), (E.EQ(E.LT(I, J), E.LT(J, I)), "(i < j) == (j < i)"),
    (E.And(E.LT(I, J), E.GE(I, const(0))), "i < j && i >= 0"),
    (E.Select(E.LT(I, J), I, E.Select(A, J, I)), "i < j ? i : a ? j : i"),
    (E.Select(A, E.Select(B, I, J), J), "a ? (b ? i : j) : j"), (E.Add(E.Select(A, I, J), I), "(a ? i : j) + i"),
    (E.FloorDiv(I, E.Add(J, I)), "ingot_floordiv_i32(i, j + i)"), (E.Min(X, Y), "ingot_minimum_f32(x, y)"),
    (E.Max(const(0.0, "float32"), X), "ingot_max_f32(0.0f, x)"),
    (E.Min(X, const(6.0, "float32")), "ingot_min_f32(6.0f, x)"),
    (E.Sub(const(0.0, "float32"), X), "0.0f - x"), (E.Mul(const(-2.0, "float32"), X), "-2.0f * x"),
    (E.Cast("float32", E.Add(I, J)), "(float)(i + j)"), (E.Cast("bool", I), "i != 0"),
    (E.Cast("float32", E.LT(I, J)), "(float)(i < j)"),
    # casts that C makes by itself
    (E.Add(N, E.Cast("int64", I)), "n + i"), (E.Add(E.Cast("int64", I), E.Cast("int64", J)), "(int64_t)i + j"),
    (E.Mul(E.Cast("int64", I), const(3, "int64")), "(int64_t)i * 3"), (E.LT(E.Cast("int64", I), N), "i < n"),
    (E.Mul(const(70000, "int64"), E.Select(A, const(70000, "int64"), const(1, "int64"))),
     "(int64_t)70000 * (a ? 70000 : 1)"),
    (E.Mul(E.Cast("int32", BYTES[I]), E.Cast("int32", BYTES[J])), "bytes[i] * bytes[j]"),
    (E.Add(BYTES[I], BYTES[J]), "(int8_t)(bytes[i] + bytes[j])"),
    # numbers of tensors may be any; those of indices lie in the buffer
    (E.Add(WIDE[I], N), "ingot_add_i64(wide[i], n)"),
    (E.Mul(const(-1, "int64"), WIDE[I]), "ingot_mul_i64(-1, wide[i])"),
    (E.Div(WIDE[I], WIDE[J]), "ingot_div_i64(wide[i], wide[j])"),
    (E.Mod(BYTES[I], BYTES[J]), "(int8_t)ingot_mod_i32(bytes[i], bytes[j])"),
    (E.Div(WIDE[I], const(3, "int64")), "wide[i] / 3"), (E.Cast("int32", X), "ingot_f32_to_i32(x)"),
    (E.Cast("uint8", X), "(uint8_t)ingot_f32_to_i32(x)"),
    (BYTES[E.Max(E.Add(WIDE[I], N), const(0, "int64"))], "bytes[ingot_max_i64(ingot_add_i64(wide[i], n), 0)]"),
    (BYTES[E.Add(E.Mul(WIDE[I], const(4, "int64")), E.Cast("int64", J))], "bytes[wide[i] * 4 + j]"),
    (E.Select(FLAGS[I], X, Y), "flags[i] ? x : y"), (E.EQ(FLAGS[I], FLAGS[J]), "flags[i] == flags[j]"),
    (E.Call("bool", "tir.isnan", (X,)), "isnan(x) != 0"),
    (E.Call("float32", "tir.call_extern", (E.StringImm("f"), I, E.Add(X, Y))), "f(i, x + y)"),
]


@pytest.mark.parametrize("e, text", EXACT, ids=[t for _, t in EXACT])
def test_exact_text(e, text):
    assert text_of(e) == text
    assert not needless_parentheses(text)


LITERALS = [
    ("float32", -0.0, "-0.0f"), ("float32", 0.1, "0.1f"), ("float32", 1 / 3, "0.33333334f"),
    ("float32", 1e-45, "1e-45f"),
    ("float32", 1e20, "1e+20f"), ("float32", 3.0, "3.0f"),
    ("float32", float("inf"), "INFINITY"),
    ("float32", float("-inf"), "-INFINITY"), ("float32", float("nan"), "NAN"), ("float32", 16777216.0, "16777216.0f"),
    ("float32", 3.4028234663852886e38, "3.4028235e+38f"), ("float64", 0.1, "0.1"), ("float64", 1.0, "1.0"),
    ("float64", 5e-324, "5e-324"), ("float64", 1e300, "1e+300"), ("int32", -2**31, "INT32_MIN"), ("int32", -7, "-7"),
    ("int32", 2**31 - 1, "2147483647"), ("int64", -2**63, "INT64_MIN"), ("int64", 2**31, "INT64_C(2147483648)"),
    ("int64", -2**31, "INT64_C(-2147483648)"), ("int64", 12, "12"), ("uint8", 255, "255"), ("int8", -128, "-128"),
    ("uint32", 2**32 - 1, "4294967295u"), ("uint64", 2**64 - 1, "UINT64_C(18446744073709551615)"), ("bool", 1, "1"),
]


def test_literals(tmp_path):
    """Their text, and that C reads the very value back."""
    functions = []
    for n, (dtype, value, text) in enumerate(LITERALS):
        assert literal(DataType(dtype), value) == text
        out = decl_buffer((1,), dtype, "out")
        func = prim_func([out], BufferStore(out, E.const(value, dtype), (const(0),)))
        functions.append(print_function(func.replace(body=func.root.body), f"f{n}"))
    for compiler in COMPILERS:
        library = compile_text(source(functions), tmp_path, compiler)
        for n, (dtype, value, _) in enumerate(LITERALS):
            got = np.zeros(1, dtype)
            getattr(library, f"f{n}")(ctypes.c_void_p(got.ctypes.data))
            with np.errstate(over="ignore"):
                want = np.array([value]).astype(dtype)
            assert got.tobytes() == want.tobytes() or np.isnan(value) and np.isnan(got[0]), (compiler, dtype, value)


OF_FLOATS = [row for row in INTRINSICS.values()
             if row.name not in ("ldexp", "nextafter")]  # of an integer, and of neighbours: tests/ir/tir/test_intrinsics.py


@pytest.mark.parametrize("dtype, tolerance", [("float32", 4e-7), ("float64", 1e-14)])
def test_intrinsics(dtype, tolerance, tmp_path):
    functions, lowered, rows = [], {}, 40
    for name, arity in ((row.name, row.arity) for row in OF_FLOATS):
        x, y = (decl_buffer((rows,), dtype, n) for n in "xy")
        call = E.Call("bool" if name in ("isnan", "isinf") else dtype, "tir." + name, (x[I], y[I], y[I])[:arity])
        out = decl_buffer((rows,), call.dtype, "out")
        func = prim_func([x, y, out], for_(I, rows, BufferStore(out, call, (I,))))
        lowered[name] = call.dtype
        functions.append(print_function(func.replace(body=func.root.body), "f_" + name))
    library = compile_text(source(functions), tmp_path)
    x = np.linspace(-2.2, 2.2, rows).astype(dtype)
    x[:4] = np.inf, -np.inf, np.nan, 0
    y = np.linspace(0.3, 4, rows).astype(dtype)
    for name, arity, reference in ((row.name, row.arity, row.numpy) for row in OF_FLOATS):
        out = np.zeros(rows, lowered[name].numpy)
        getattr(library, "f_" + name)(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)))
        with np.errstate(all="ignore"):
            want = reference(*(a.astype("float64") for a in (x, y, y)[:arity]))
            np.testing.assert_allclose(out, want.astype(lowered[name].numpy), rtol=tolerance, atol=tolerance / 10,
                                       err_msg=name)


@pytest.mark.parametrize("e, message", [
    (E.Ramp(Var("wide", "int64"), const(1, "int64"), 4), "no vector of int64x4"),
    (E.Let(I, const(1), J), "C has no Let"),
    (E.FloorMod(X, Y), "no floor remainder of floats"),
    (E.Call("float16", "tir.exp", (Var("h", "float16"),)), "float16"),
    (E.Call("float32x8", "tir.sin", (E.Broadcast(X, 8),)), "simd.h has no tir.sin"),
])
def test_what_c_cannot_say(e, message):
    with pytest.raises(ValueError, match=message):
        text_of(e)


def test_identifiers():
    table = {"conv1/Conv_output:0": "conv1_Conv_output_0", "float": "float_", "class": "class_", "7up": "v7up", "": "v",
             "__x__": "x", "é": "v", "expf": "expf_", "INT32_MIN": "INT32_MIN_", "f32x8_load": "f32x8_load_",
             "ingot_min": "ingot_min_", "gamma": "gamma", "index": "index", "NAN": "NAN_", "uint8_t": "uint8_t_"}
    assert {k: identifier(k) for k in table} == table
