"""Printed script of both IRs: golden texts, names, and that nothing is too broken to print."""
import ast
import inspect

import numpy as np
import pytest

from ingot.ir import relax, tir  # noqa: F401  (importing relax registers its nodes)
from ingot.ir.expr import IterVar, Let, Range, Var, const
from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.node import REGISTRY
from ingot.ir.relax.expr import (Constant, DataflowVar, PrimValue, RelaxCall, RelaxVar, ShapeExpr, TensorStructInfo,
                                 TupleGetItem, VarBinding, call_tir, dataflow_function)
from ingot.ir.script import script
from ingot.ir.script.names import NameTable, identifier

TIR_HEADER = "# from tvm.script import tir as T\n\n"


def golden(text):
    return inspect.cleandoc(text)


def region(buffer, *ranges):
    """A region of ranges given as (min, extent), or as an index for one element."""
    return tir.BufferRegion(buffer, tuple(
        Range.from_min_extent(*r) if isinstance(r, tuple) else Range.from_min_extent(r, 1) for r in ranges))


def matmul():
    a, b, c = (tir.decl_buffer((8, 8), name=n) for n in "ABC")
    loops, iters = [Var(n) for n in "ijk"], [Var("v" + n) for n in "ijk"]
    vi, vj, vk = iters
    dom = Range.from_min_extent(0, 8)
    block = tir.Block(
        tuple(IterVar(dom, v, kind) for v, kind in zip(iters, ("spatial", "spatial", "reduce"))),
        (region(a, vi, vk), region(b, vk, vj)), (region(c, vi, vj),), "C",
        init=tir.BufferStore(c, const(0.0), (vi, vj)),
        body=tir.BufferStore(c, c[vi, vj] + a[vi, vk] * b[vk, vj], (vi, vj)))
    body = tir.BlockRealize(tuple(loops), const(True), block)
    for v in reversed(loops):
        body = tir.for_(v, 8, body)
    return tir.prim_func([a, b, c], body, {"global_symbol": "matmul"})


def test_a_function_with_a_reduction():
    assert str(matmul()) == TIR_HEADER + golden("""
        @T.prim_func
        def matmul(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
            # with T.block("root"):
            for i, j, k in T.grid(8, 8, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """)


def test_a_scheduled_symbolic_function():
    n = Var("n", "int64")
    x = tir.decl_buffer((n, 8), name="X")
    y = tir.decl_buffer((n, 8), name="Y", strides=(const(16, "int64"), const(1, "int64")), scope="local")
    tmp = tir.decl_buffer((8,), "int8", "tmp", scope="local")
    i, j, vi, vj = Var("i", "int64"), Var("j"), Var("vi", "int64"), Var("vj")
    zero = const(0, "int64")
    block = tir.Block((IterVar(Range(zero, n), vi), IterVar(Range.from_min_extent(1, 7), vj)),
                      (region(x, vi, (0, 8)),), (region(y, vi, (vj, 4)),), "Y", (tmp,), (),
                      {"unroll": 4, "imm": const(2)}, body=tir.BufferStore(y, tir.exp(x[vi, vj]), (vi, vj)))
    realize = tir.BlockRealize((i, j * 2 + 1), j * 2 + 1 < 8, block)
    inner = tir.for_(j, 4, realize, "vectorized", annotations={"pragma": "x"})
    func = tir.prim_func([x, y], tir.for_(i, n, inner, "parallel"))
    assert str(func) == TIR_HEADER + golden("""
        @T.prim_func(private=True)
        def main(var_X: T.handle, var_Y: T.handle):
            n = T.int64()
            X = T.match_buffer(var_X, (n, 8))
            Y = T.match_buffer(var_Y, (n, 8), strides=(T.int64(16), T.int64(1)), scope="local")
            # with T.block("root"):
            for i in T.parallel(n):
                for j in T.vectorized(4, annotations={"pragma": "x"}):
                    with T.block("Y"):
                        vi = T.axis.spatial(n, i)
                        vj = T.axis.spatial((1, 8), j * 2 + 1)
                        T.where(j * 2 + 1 < 8)
                        T.reads(X[vi, 0:8])
                        T.writes(Y[vi, vj:vj + 4])
                        T.block_attr({"imm": T.int32(2), "unroll": 4})
                        tmp = T.alloc_buffer((8,), "int8", scope="local")
                        Y[vi, vj] = T.exp(X[vi, vj])
        """)


def test_lowered_statements():
    a, t = tir.decl_buffer((64,), name="A"), tir.decl_buffer((16,), name="t", scope="local")
    i, k, x = Var("i"), Var("k"), Var("x")
    ramp = tir.Ramp(x * 16, const(1), 16)
    let = tir.LetStmt(x, i // 2, tir.BufferStore(a, a[ramp] * 2.0, (ramp,)))
    decl = tir.DeclBuffer(t, tir.SeqStmt((
        tir.BufferStore(t, a[i], (const(0),)), tir.Evaluate(tir.call_extern("int32", "f", t.data)))))
    body = tir.SeqStmt((
        let, tir.IfThenElse(i < 3, decl, tir.IfThenElse(tir.Not(i == 5), tir.Evaluate(const(0)), let)),
        tir.While(a[0] < 1.0, tir.BufferStore(a, const(1.0), (const(0),))),
        tir.for_(k, 4, tir.AttrStmt(a, "pragma_x", const(1), tir.AssertStmt(k < 4, tir.StringImm('say "k"'), decl)),
                 "unrolled", 1)))
    assert str(body) == golden("""
        with T.LetStmt(i // 2) as x:
            A[x * 16:x * 16 + 16] = A[x * 16:x * 16 + 16] * T.Broadcast(T.float32(2.0), 16)
        if i < 3:
            t = T.decl_buffer((16,), scope="local")
            t[0] = A[i]
            T.call_extern("int32", "f", t.data)
        elif not i == 5:
            T.evaluate(0)
        else:
            x: T.int32 = i // 2
            A[x * 16:x * 16 + 16] = A[x * 16:x * 16 + 16] * T.Broadcast(T.float32(2.0), 16)
        while A[0] < T.float32(1.0):
            A[0] = T.float32(1.0)
        for k in T.unroll(1, 5):
            T.attr(A, "pragma_x", 1)
            assert k < 4, "say \\"k\\""
            t = T.decl_buffer((16,), scope="local")
            t[0] = A[i]
            T.call_extern("int32", "f", t.data)
        """)


def graph_function():
    batch = Var("batch", "int64")
    x = RelaxVar("x", TensorStructInfo((batch, 3), "float32"))
    w = Constant(np.zeros((3, 4), "float32"), "fc.weight")
    out = TensorStructInfo((batch, 4), "float32")
    lv, lv1 = DataflowVar("lv", out), DataflowVar("lv", out)
    pair = call_tir(GlobalVar("fused"), (lv1, w), [out, TensorStructInfo((batch * 2,), "int64")], (batch,))
    gv, first = RelaxVar("gv", pair.struct_info), RelaxVar("first", out)
    return dataflow_function(
        [x], [VarBinding(lv, RelaxCall("matmul", (x, w), {"out_dtype": None, "axes": (0, 1)}, out)),
              VarBinding(lv1, RelaxCall("add", (lv, Constant(np.array(1.5, "float32"))), {}, out)),
              VarBinding(gv, pair), VarBinding(first, TupleGetItem(gv, 0))], [first, gv], {"num_input": 1})


def test_a_module_with_a_graph_function():
    mod = IRModule({"main": graph_function(), "fused": matmul()}, {"name": "net"})
    lines = str(mod).split("\n")
    fused = ["    " + text for text in str(matmul()).split("\n")[2:]]
    fused[1:2] = [fused[1].replace("matmul", "fused"), '        T.func_attr({"global_symbol": "matmul"})']
    start = lines.index("    @T.prim_func")
    assert lines[start:start + len(fused)] == fused
    assert "\n".join(lines[:start] + lines[start + len(fused):]) == golden("""
        # from tvm.script import ir as I
        # from tvm.script import tir as T
        # from tvm.script import relax as R

        @I.ir_module
        class Module:
            I.module_attrs({"name": "net"})

            @R.function(private=True)
            def main(x: R.Tensor(("batch", 3), dtype="float32")) -> R.Tuple(R.Tensor(("batch", 4), dtype="float32"), \
R.Tuple(R.Tensor(("batch", 4), dtype="float32"), R.Tensor(("batch * 2",), dtype="int64"))):
                batch = T.int64()
                R.func_attr({"num_input": 1})
                cls = Module
                with R.dataflow():
                    lv: R.Tensor((batch, 4), dtype="float32") = R.matmul(x, metadata["relax.expr.Constant"][0], \
out_dtype=None, axes=[0, 1])
                    lv_1: R.Tensor((batch, 4), dtype="float32") = R.add(lv, R.const(1.5, "float32"))
                    gv = R.call_tir(cls.fused, (lv_1, metadata["relax.expr.Constant"][0]), \
out_sinfo=[R.Tensor((batch, 4), dtype="float32"), R.Tensor((batch * 2,), dtype="int64")], \
tir_vars=R.shape([batch]))
                    first: R.Tensor((batch, 4), dtype="float32") = gv[0]
                    R.output(gv, first)
                return (first, gv)
        # Metadata omitted. Use show_meta=True in script() method to show it.
        """)
    ast.parse(str(mod))


@pytest.mark.parametrize("e, text", [
    (ShapeExpr((1, Var("n", "int64") * 2)), "R.shape([1, n * 2])"), (PrimValue(const(3)), "R.prim_value(T.int32(3))"),
    (TensorStructInfo(None, "float32", 3), 'R.Tensor(dtype="float32", ndim=3)'),
    (TensorStructInfo(None, "void"), "R.Tensor"), (relax.Tuple((RelaxVar("x", None),)), "(x,)"),
    (relax.Tuple(()), "R.tuple()"), (Constant(np.array(True)), 'R.const(True, "bool")'),
    (Constant(np.array(np.inf, "float32")), 'R.const(float("inf"), "float32")'),
    (relax.ShapeStructInfo(None, 2), "R.Shape(ndim=2)")])
def test_graph_pieces(e, text):
    assert script(e) == text


# ---------------------------------------------------------------- conventions a parser relies on

def test_root_block_is_shown_when_it_says_something():
    a, t = tir.decl_buffer((4,), name="A"), tir.decl_buffer((4,), name="t")
    i = Var("i")
    plain = tir.prim_func([a], tir.for_(i, 4, tir.BufferStore(a, const(0.0), (i,))))
    assert 'T.block("root")' in str(plain)  # nothing else would tell that there is a root block
    allocating = tir.prim_func([a], tir.for_(i, 4, tir.BufferStore(t, const(0.0), (i,))), alloc_buffers=[t])
    assert '    # with T.block("root")' in str(allocating) and "    t = T.alloc_buffer((4,)" in str(allocating)
    reading = matmul()
    root = reading.root.replace(annotations={"x": 1})
    assert 'T.block("root")' in str(reading.replace(body=reading.body.replace(block=root)))


def test_grid_takes_only_plain_independent_loops():
    i, j, k = Var("i"), Var("j"), Var("k")
    leaf = tir.Evaluate(const(0))
    triangle = tir.for_(i, 4, tir.for_(j, 8, tir.For(k, const(0), i + 1, "serial", leaf)))
    assert str(triangle) == "for i, j in T.grid(4, 8):\n    for k in range(i + 1):\n        T.evaluate(0)"
    shifted = tir.for_(i, 4, tir.for_(j, 8, leaf, minimum=2))
    assert str(shifted) == "for i in range(4):\n    for j in range(2, 10):\n        T.evaluate(0)"
    noted = tir.for_(i, 4, tir.for_(j, 8, leaf, annotations={"a": 1}))
    assert str(noted).split("\n")[1] == '    for j in T.serial(8, annotations={"a": 1}):'
    bound = tir.For(i, const(0), const(32), "thread_binding", leaf, "threadIdx.x")
    assert str(bound).startswith('for i in T.thread_binding(32, thread="threadIdx.x"):')


def test_scoped_statements_last_to_the_end_of_their_suite_only():
    x, i = Var("x"), Var("i")
    let = tir.LetStmt(x, i + 1, tir.Evaluate(x))
    assert str(tir.SeqStmt((tir.Evaluate(i), let))) == "T.evaluate(i)\nx: T.int32 = i + 1\nT.evaluate(x)"
    assert str(tir.SeqStmt((let, tir.Evaluate(i)))) == (
        'with T.LetStmt(i + 1) as x:\n    T.evaluate(x)\nT.evaluate(i)')
    check = tir.AssertStmt(i < 1, tir.StringImm("no"), tir.Evaluate(i))
    assert str(tir.SeqStmt((check, check))).startswith('with T.Assert(i < 1, "no"):\n    T.evaluate(i)\nassert i < 1')


def test_buffer_layout_is_kept():
    s, off = Var("s"), Var("off")
    a = tir.decl_buffer((4, 4), name="A", strides=(s, const(1)), elem_offset=off, data_alignment=16, offset_factor=4)
    text = str(tir.prim_func([a], tir.BufferStore(a, const(0.0), (const(0), const(0)))))
    assert '    A = T.match_buffer(var_A, (4, 4), strides=("s", 1), align=16, offset_factor=4)\n' in text
    twice = tir.decl_buffer((4, 4), "int8", name="A", strides=(s, const(1)), elem_offset=s)
    text = str(tir.prim_func([twice], tir.BufferStore(twice, const(0, "int8"), (const(0), const(0)))))
    assert '    s = T.int32()\n    A = T.match_buffer(var_A, (4, 4), "int8", strides=(s, 1), elem_offset=s)\n' in text


def test_match_buffer_of_a_region():
    a, sub = tir.decl_buffer((8, 8), name="A"), tir.decl_buffer((4, 4), name="sub", elem_offset=Var("o"))
    vi = Var("vi")
    source = region(a, (vi * 4, 4), (0, 4))
    block = tir.Block((IterVar(Range.from_min_extent(0, 2), vi),), (), (source,), "m", (),
                      (tir.MatchBufferRegion(sub, source),),
                      body=tir.BufferStore(sub, const(0.0), (const(0), const(0))))
    assert str(block) == golden("""
        with T.block("m", no_realize=True):
            vi = T.axis.spatial(2)
            T.reads()
            T.writes(A[vi * 4:vi * 4 + 4, 0:4])
            sub = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:4], (4, 4), offset_factor=1)
            sub[0, 0] = T.float32(0.0)
        """)


def test_region_of_one_element_keeps_its_dtype():
    a, i = tir.decl_buffer((8,), name="A"), Var("i")
    assert script(tir.BufferRegion(a, (Range(i, const(1)),))) == "A[i]"
    assert script(tir.BufferRegion(a, (Range(i, const(1, "int64")),))) == "A[i:i + T.int64(1)]"
    assert script(tir.BufferRegion(a, (Range(const(2), const(3)),))) == "A[2:5]"
    scalar = tir.decl_buffer((), name="S")
    assert str(scalar[()]) == "S[()]"


# ---------------------------------------------------------------- names

def test_same_names_get_numbers_in_order_of_definition():
    i, inner = Var("i"), Var("i")
    nest = tir.For(i, const(0), const(4), "parallel", tir.for_(inner, 4, tir.Evaluate(i * 4 + inner)))
    assert str(nest) == "for i in T.parallel(4):\n    for i_1 in range(4):\n        T.evaluate(i * 4 + i_1)"


def test_names_free_up_when_their_scope_ends():
    def loop():
        return tir.for_(Var("i"), 4, tir.Evaluate(const(0)))
    assert str(tir.SeqStmt((loop(), loop()))).count("for i in range(4)") == 2


def test_a_free_variable_keeps_apart_from_defined_ones():
    free, bound = Var("x"), Var("x")
    assert str(Let(bound, free + 1, bound * free)) == "T.Let(x_1 * x, where={x_1: x + 1})"


@pytest.mark.parametrize("hint, name", [("in", "in_"), ("conv1/relu:0", "conv1_relu_0"), ("0x", "v_0x"), ("", "v"),
                                        ("T", "T"), ("lambda", "lambda_"), ("café", "café"), ("_a", "_a")])
def test_identifiers(hint, name):
    assert identifier(hint) == name and identifier(hint).isidentifier()


def test_generated_names_avoid_taken_ones():
    table = NameTable()
    objects = [object() for _ in range(3)]
    assert [table.define(o, n) for o, n in zip(objects, ("i", "i_1", "i"))] == ["i", "i_1", "i_2"]


# ---------------------------------------------------------------- robustness

@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_partial_trees_print(name):
    """A node whose fields are all missing, or empty, still prints."""
    cls = REGISTRY[name]
    printed = 0
    for filler in (None, (), "x", const(1), Var("v"), {}):
        try:
            n = cls(*(filler for _ in cls._fields))
        except Exception:
            continue  # the constructor itself refuses
        assert isinstance(script(n), str)
        printed += 1
    if not hasattr(cls, "__post_init__"):
        assert printed
