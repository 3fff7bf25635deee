"""Statements and calls beyond loops and stores: what they print as, what that computes, and what C cannot say."""
import numpy as np
import pytest
from c_build import COMPILERS, call, compile_text, source
from tir_cases import fill_program, loop, results

from ingot.codegen.c_expr import EmitError
from ingot.codegen.c_function import print_function
from ingot.ir import tir
from ingot.ir.expr import IterVar, Let, Range, Select, Var, const
from ingot.ir.tir.stmt import AssertStmt, AttrStmt, BufferStore, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, While
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import from_source

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


X = tir.decl_buffer((8,), name="x")
N = tir.decl_buffer((8,), "int32", "n")


@program
def collatz(fill):
    """How many steps from n[i] to 1: a loop that runs while a condition holds."""
    now, count = (tir.decl_buffer((1,), "int32", name, "local") for name in ("now", "count"))
    half = BufferStore(now, tir.floordiv(now[0], 2), (const(0),))
    step = tir.seq(IfThenElse(tir.floormod(now[0], 2) == 0, half,
                              BufferStore(now, now[0] * 3 + 1, (const(0),))),
                   BufferStore(count, count[0] + 1, (const(0),)))
    return loop("i", 8, lambda i: DeclBuffer(now, DeclBuffer(count, tir.seq(
        BufferStore(now, N[i] + 1, (const(0),)), BufferStore(count, const(0), (const(0),)),
        While(now[0] > 1, step), fill(i, tir.cast(count[0], "float32"))))))


@program
def lets(fill):
    v, w, i2 = Var("v", "float32"), Var("w", "float32"), Var("i2")
    return loop("i", 4, lambda i: LetStmt(i2, i * 2, tir.seq(
        LetStmt(v, X[i2] + 1.0, fill(i2, v * v)),
        fill(i2 + 1, Let(v, X[i2 + 1] * 3.0, v + Let(w, v - 1.0, w * w + v))))))


@program
def choices(fill):
    return loop("i", 8, lambda i: fill(i, Select(tir.likely(X[i] > 0.0), X[i], X[i] * X[i]) + tir.if_then_else(
        tir.logical_and(i > 2, X[i - 3 + Select(i > 2, 0, 3)] < 1.0), const(1.0), const(2.0))))


@program
def attributes_and_asserts(fill):
    body = loop("i", 8, lambda i: fill(i, X[i] * 2.0))
    hinted = AttrStmt(const(0), "pragma_anything", const(1), body)
    return AssertStmt(X[0] < 1e9, tir.as_expr('"x" is too large\n'), hinted)


@pytest.fixture(scope="module")
def printed():
    found = {}
    for name, make in PROGRAMS.items():
        lowered = lower_prim_func(fill_program(make, size=8, params=[X, N]))
        found[name] = lowered, print_function(lowered, name)
    return found


@pytest.fixture(scope="module", params=COMPILERS)
def library(request, printed, tmp_path_factory):
    return compile_text(source([f for _, f in printed.values()]), tmp_path_factory.mktemp("c"), request.param)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers_as_the_interpreter(name, printed, library):
    lowered, _ = printed[name]
    rng = np.random.default_rng(0)
    inputs = [np.zeros(8, np.float32), rng.standard_normal(8).astype(np.float32), np.arange(8, dtype=np.int32)]
    expected = results(fill_program(PROGRAMS[name], size=8, params=[X, N]), inputs)
    call(library, lowered, name, inputs)
    np.testing.assert_allclose(inputs[0], expected[0], rtol=1e-6)


def test_text(printed):
    assert "while (now > 1) {" in printed["collatz"][1].body
    text = printed["lets"][1].body
    assert text.count("const float v = ") == 2 and "const float w = v - 1.0f;" in text
    text = printed["attributes_and_asserts"][1]
    assert text.can_fail and 'return "\\042x\\042 is too large\\012";' in text.body


def statement(stmt, params=()):
    func = tir.prim_func([X, *params], stmt)
    return print_function(func.replace(body=func.root.body), "f").body


def test_extern_calls_are_statements_and_expressions():
    body = tir.seq(Evaluate(tir.call_extern("int32", "prepare", tir.address_of(X[2]), 3)),
                   BufferStore(X, tir.call_extern("float32", "measure", X[1]), (const(0),)),
                   BufferStore(X, tir.call_pure_extern("float32", "cbrtf", X[0]), (const(1),)))
    text = statement(body)
    assert "prepare(&x[2], 3);" in text and "x[0] = measure(x[1]);" in text and "x[1] = cbrtf(x[0]);" in text


T = Var("t")


@pytest.mark.parametrize("stmt, message", [
    (For(T, const(0), const(8), "thread_binding", BufferStore(X, const(0.0), (T,)), "threadIdx.x"),
     "C has no threads: loop t is bound to threadIdx.x, which comes with CUDA; use parallel"),
    (AttrStmt(IterVar(Range(const(0), const(8)), T, "opaque", "blockIdx.x"), "thread_extent", const(8),
              BufferStore(X, const(0.0), (const(0),))),
     "C has no threads: the attribute thread_extent of blockIdx.x comes with CUDA"),
    (AttrStmt(const(0), "realize_scope", const(8), BufferStore(X, const(0.0), (const(0),))),
     "C cannot say the attribute 'realize_scope'; it knows pragmas"),
    (Evaluate(tir.Call("int32", "tir.ret", (const(0),))), "a kernel returns nothing .T.ret.: store the result"),
    (loop("i", 4, lambda i: AssertStmt(X[i] < 1.0, tir.as_expr("no"), BufferStore(X, const(0.0), (i,))), "parallel"),
     "an assertion .no. cannot leave a parallel loop"),
    (Evaluate(tir.Call("int32", "tir.tvm_call_packed", (tir.as_expr("f"), Var("p", "handle")))),
     "a packed function gets tensors, numbers and texts: pass a buffer, not its pointer"),
    (BufferStore(X, tir.call_packed("env.f", 1).astype("float32"), (const(0),)),
     "the packed function 'env.f' is called for a value, and in C it returns none"),
    (BufferStore(X, tir.Call("float32", "tir.nonsense", (X[0],)), (const(0),)), "no C function for nonsense of"),
    (BufferStore(X, Let(Var("v"), const(1), X[0]), (const(0),)), "C has no Let"),
])
def test_what_c_cannot_say(stmt, message):
    with pytest.raises(EmitError, match=message):
        statement(stmt)


def test_a_loop_runs_as_often_as_its_extent_says_at_first():
    def body(i):
        return tir.seq(BufferStore(N, N[0] - 1, (const(0),)), BufferStore(N, N[i + 1] + 1, (i + 1,)))
    counted = tir.prim_func([N], loop("i", N[0], body))
    text = print_function(lower_prim_func(counted), "f").body
    assert "= N[0];" in text.replace("n[0]", "N[0]") and "i < i_extent;" in text
    calls = tir.prim_func([N], loop("i", tir.call_extern("int32", "count"), lambda i: BufferStore(N, i, (i,))))
    assert "i_extent = count();" in print_function(lower_prim_func(calls), "f").body
    apart = tir.prim_func([N, X], loop("i", N[0], lambda i: BufferStore(X, const(1.0), (i,))))
    assert "i < n[0];" in print_function(lower_prim_func(apart), "f").body


def test_pointers_of_buffers_are_addresses():
    row = tir.decl_buffer((2, 8), name="row")
    call = tir.call_extern("int32", "f", X.data, row.data, tir.tvm_access_ptr("float32", row.data, 11, 1, 1))
    assert "f(&x[0], &row[0], &row[11]);" in print_function(
        lower_prim_func(tir.prim_func([X, row], Evaluate(call))), "f").body
    wide, bytes_ = (tir.call_extern("int32", "f", tir.tvm_access_ptr(kind, row.data, 3, 1, 1)) for kind in (
        "float32x4", "int8"))
    assert "f(&row[12]);" in print_function(lower_prim_func(tir.prim_func([row], Evaluate(wide))), "f").body
    with pytest.raises(ValueError, match="elements of float32, between which 3 of int8 may end"):
        lower_prim_func(tir.prim_func([row], Evaluate(bytes_)))
    strided = tir.decl_buffer((2, 8), strides=(16, 1), name="strided")
    with pytest.raises(ValueError, match="buffer strided has strides: which element is 3 after its first"):
        strided.access_ptr("r", offset=3)


def test_the_data_of_a_matched_buffer_is_that_of_its_source():
    func = from_source('''
from ingot.script import tir as T
@T.prim_func
def func(A: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("row"):
            V = T.match_buffer(A[i, 0:8], (8,), offset_factor=1)
            T.evaluate(T.call_extern("int32", "f", V.data, V.elem_offset, V.access_ptr("r", offset=2)))
''')
    assert "f(&A[0], i * 8, &A[i * 8 + 2]);" in print_function(lower_prim_func(func), "f").body
