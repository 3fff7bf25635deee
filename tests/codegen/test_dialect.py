"""Shared printers use no word of one dialect: a hand-made kernel is printed in a dialect that nobody speaks."""
import re

import pytest
from tir_cases import loop

from ingot.codegen.c_expr import CExpr, EmitError
from ingot.codegen.c_function import CPrinter, print_function
from ingot.codegen.c_types import UnsupportedType
from ingot.codegen.dialect import Dialect
from ingot.ir import tir
from ingot.ir.expr import Broadcast, Call, Cast, IterVar, Max, Ramp, Range, Select, StringImm, Var, const
from ingot.ir.tir.stmt import (AssertStmt, AttrStmt, BufferLoad, BufferStore, DeclBuffer, Evaluate, For, IfThenElse,
                               LetStmt)

TOY = Dialect(
    name="Toy", types={"float32": "real", "float64": "long real", "int32": "whole", "int64": "long whole",
                       "uint32": "natural", "uint8": "byte", "bool": "truth"},
    vectors={"float32x4": "quad"}, index="place",
    numbers={"uint32": "{}n", "int64": "{}w", "uint64": "{}N", "least": "lowest{bits}", "nan": "odd",
             "infinity": "endless", "float32": "{}r", "float64": "{}"},
    math={"float32": {"exp": "toy_exp", "sin": "sine"}}, bits={"float32": ("bits_of", "real_of")},
    runtime="toy_", headers={"helpers": "toy"}, entry="outer ", inline="inner ", restrict="single ",
    pointers={"global": "far "}, memories={"shared": "near "}, aligned="even ", unroll="copy {count}:",
    threads={"blockIdx.x": "group(0)", "threadIdx.x": "member(0)"}, barriers={"shared": "meet()"},
    atomics={"atomic_add": "add_at"}, reserved=frozenset({"even", "single"}))
C_ONLY = re.compile(r"INGOT|ingot|\w+_t\b|float|double|f32x|restrict|OMP|INFINITY|NAN|#")


class Operators(CExpr):
    """A dialect that adds vectors by an operator, which no row says."""

    def _vector(self, e, kind):
        if kind == "Add":
            return f"{self.text(e.a)} + {self.text(e.b)}", 10
        return super()._vector(e, kind)


class ToyPrinter(CPrinter):
    Expressions = Operators


X, Y = (tir.decl_buffer((64,), name=n) for n in "xy")
N = Var("single", "int32")


def printed(body, params=(X, Y), printer=ToyPrinter):
    func = tir.prim_func(list(params), body)
    return printer(func.replace(body=func.root.body), "k", TOY).function()


def kernel():
    b, t = Var("b"), Var("t")
    near = tir.decl_buffer((16,), name="even", scope="shared")
    total = tir.decl_buffer((1,), name="total", scope="local")
    at = Var("at")
    value = Max(const(0.0), Call("float32", "tir.exp", (X[at],)))
    adds = loop("i", 4, lambda i: BufferStore(total, total[0] + near[i * 4 + t % 4], (const(0),)), "unrolled")
    ramp = Ramp(t * 4, const(1), 4)
    vectors = BufferStore(Y, BufferLoad(X, (ramp,)) + Broadcast(const(float("inf")), 4), (ramp,))
    end = IfThenElse(t < N, vectors, BufferStore(Y, Select(t > 3, X[t], Cast("float32", t)), (t,)))
    body = tir.seq(
        LetStmt(at, b * 16 + t, BufferStore(near, value, (t,))),
        Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("shared"),))),
        BufferStore(total, const(0.0), (const(0),)), adds,
        Evaluate(Call("float32", "tir.atomic_add", (Call("handle", "tir.address_of", (Y[b],)), total[0]))), end)
    inner = For(t, const(0), const(16), "thread_binding", DeclBuffer(near, DeclBuffer(total, body)), "threadIdx.x")
    return For(b, const(0), const(4), "thread_binding", inner, "blockIdx.x")


TEXT = """outer void k(far const real *single x, far real *single y, whole single_1)
{
    const whole b = group(0);
    const whole t = member(0);
    near even real even_1[16];
    real total;
    {
        const whole at = b * 16 + t;
        even_1[t] = toy_max_f32(0.0r, toy_exp(x[at]));
    }
    meet();
    total = 0.0r;
    copy 4:
    for (whole i = 0; i < 4; ++i) {
        total += even_1[i * 4 + toy_floormod_i32(t, 4)];
    }
    add_at(&y[b], total);
    if (t < single_1) {
        quad_store(&y[t * 4], quad_load(&x[t * 4]) + quad_set1(endless));
    } else {
        y[t] = t > 3 ? x[t] : (real)t;
    }
}
"""


def test_a_kernel_in_a_made_up_dialect():
    function = printed(kernel(), [X, Y, N])
    assert f"{function.signature}\n{function.body}" == TEXT
    assert not C_ONLY.search(TEXT) and function.uses == {"toy"} and not function.team


def test_what_a_dialect_has_no_row_for():
    def message(body, printer=CPrinter):
        with pytest.raises((EmitError, UnsupportedType)) as error:
            printed(body, printer=printer)
        return str(error.value)

    copy = lambda i: BufferStore(Y, X[i], (i,))  # noqa: E731
    assert message(loop("p", 4, copy, "parallel")) == "Toy has no parallel loop: bind p to threads"
    assert "Toy has no threads: loop z is bound to threadIdx.z" in message(
        For(Var("z"), const(0), const(4), "thread_binding", copy(const(1)), "threadIdx.z"))
    sync = Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("global"),)))
    assert message(sync) == "Toy has no barrier for 'global' memory"
    assert message(AssertStmt(X[0] < 9.0, StringImm("no"), copy(const(1)))) == "a kernel in Toy cannot fail: no"
    assert message(BufferStore(Y, Call("float32", "tir.cos", (X[0],)), (const(0),))) == \
        "no Toy function for cos of float32"
    eight = BufferStore(Y, BufferLoad(X, (Ramp(const(0), const(1), 8),)), (Ramp(const(0), const(1), 8),))
    assert message(eight) == "Toy has no vector of float32x8"
    prefetch = Evaluate(Call("int32", "tir.prefetch", (X[0],)))
    assert message(prefetch) == "Toy has no prefetch"


def test_threads_that_an_attribute_binds():
    axis = IterVar(Range(0, 16), Var("tx"), 1, "threadIdx.x")
    body = AttrStmt(axis, "thread_extent", const(16), BufferStore(Y, X[axis.var], (axis.var,)))
    assert "    const whole tx = member(0);\n    y[tx] = x[tx];" in printed(body).body
    c = tir.prim_func([X, Y], body)
    with pytest.raises(EmitError, match="C has no threads: the attribute thread_extent of threadIdx.x"):
        print_function(c.replace(body=c.root.body), "k")
