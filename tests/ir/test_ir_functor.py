"""tir.stmt_functor, tir.analysis, and the names of tir that scripts call."""
import pytest

from ingot import tir
from ingot.ir.expr import Var, const
from ingot.ir.node import structural_equal
from ingot.ir.script.functions import from_source

FUNC = from_source("""
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + T.exp(T.float32(1)) * T.Cast("float32", n)
""")
I, X = Var("i"), Var("x", "float32")


# ---------------------------------------------------------------- visiting and rewriting

def test_visits():
    seen = []
    tir.stmt_functor.post_order_visit(FUNC.body, lambda n: seen.append(type(n).__name__))
    assert seen[-1] == "BlockRealize" and seen.index("FloatImm") < seen.index("Call") < seen.index("BufferStore")
    seen.clear()

    def enter(n):
        seen.append(type(n).__name__)
        return not isinstance(n, tir.Block) or n.name_hint == "root"
    tir.stmt_functor.pre_order_visit(FUNC.body, enter)
    assert seen[0] == "BlockRealize" and "For" in seen and "BufferStore" not in seen


def test_ir_transform():
    def twice(call):
        return tir.exp(call) if call.op == "tir.exp" else None
    once = tir.stmt_functor.ir_transform(FUNC.body, None, twice, ["tir.Call"])
    assert "T.exp(T.exp(T.float32(1.0)))" in str(once)
    def unrolled(loop):
        return loop.replace(kind="unrolled") if isinstance(loop, tir.For) else None
    assert "T.unroll(8)" in str(tir.stmt_functor.ir_transform(FUNC.body, unrolled, None))
    assert tir.stmt_functor.ir_transform(FUNC.body, lambda n: None, lambda n: None) is FUNC.body
    n = FUNC.params[1]
    one, listed = tir.Evaluate(n), tir.stmt_functor.stmt_list
    assert listed(tir.SeqStmt([one, one])) == [one, one] and listed(one) == [one]
    assert 'T.Cast("float32", 3)' in str(tir.stmt_functor.substitute(FUNC.body, {n: const(3)}))


# ---------------------------------------------------------------- analysis

def test_verify_well_formed():
    assert tir.analysis.verify_well_formed(FUNC) is True
    bad = FUNC.replace(body=tir.Evaluate(Var("free")))
    assert tir.analysis.verify_well_formed(bad, assert_mode=False) is False
    with pytest.raises(ValueError, match="variable free is used where nothing defines it"):
        tir.analysis.verify_well_formed(bad)


def test_equal_expressions_regions_and_undefined_variables():
    assert tir.analysis.expr_deep_equal(I + 1, I + 1) and not tir.analysis.expr_deep_equal(I + 1, Var("i") + 1)
    with pytest.raises(TypeError, match="expr_deep_equal takes expressions, not int and Var"):
        tir.analysis.expr_deep_equal(1, I)
    block = FUNC.root.body.body.block
    reads, writes, opaque = tir.analysis.get_block_access_region(block)
    assert [str(r.buffer.name) for r in reads + writes] == ["A", "A"] and opaque == []
    assert tir.analysis.undefined_vars(FUNC.root.body)[-1] is FUNC.params[1]
    assert all(v is not FUNC.params[1] for v in tir.analysis.undefined_vars(FUNC.root.body, [FUNC.params[1]]))


# ---------------------------------------------------------------- names

@pytest.mark.parametrize("build, text", [
    (lambda: I << 2, "T.shift_left(i, 2)"),
    (lambda: 1 << I, "T.shift_left(1, i)"),
    (lambda: I >> 1, "T.shift_right(i, 1)"),
    (lambda: 8 >> I, "T.shift_right(8, i)"),
    (lambda: I & 3, "T.bitwise_and(i, 3)"),
    (lambda: 3 & I, "T.bitwise_and(3, i)"),
    (lambda: I | 1, "T.bitwise_or(i, 1)"), (lambda: 1 ^ I, "T.bitwise_xor(1, i)"), (lambda: ~I, "T.bitwise_not(i)"),
    (lambda: X ** 2, "T.pow(x, T.float32(2.0))"), (lambda: 2 ** X, "T.pow(T.float32(2.0), x)"),
    (lambda: tir.ceildiv(I, 4), "(i + 4 - 1) // 4"), (lambda: tir.ceildiv(9, 4), "3"),
    (lambda: tir.all(I > 0, I < 4, I < 9), "i > 0 and i < 4 and i < 9"),
    (lambda: tir.any(I > 0, I < 4), "i > 0 or i < 4"),
    (lambda: tir.indexdiv(I, 2), "i // 2"),
    (lambda: tir.indexmod(I, 2), "i % 2"),
    (lambda: tir.div(I, 2), "T.Div(i, 2)"),
    (lambda: tir.truncmod(I, 2), "T.truncmod(i, 2)"),
    (lambda: tir.fma(X, 2, I), 'T.fma(x, T.float32(2.0), T.Cast("float32", i))'),
    (lambda: tir.clz(I), "T.clz(i)"), (lambda: tir.popcount(const(7, "uint8")), "T.popcount(T.uint8(7))"),
    (lambda: tir.isfinite(X), "not (T.isnan(x) or T.isinf(x))"), (lambda: tir.ret(X), "T.ret(x)"),
    (lambda: tir.call_packed("f", X, 1), 'T.tvm_call_packed("f", x, 1)'),
    (lambda: tir.call_intrin("float32", "tir.exp", X), "T.exp(x)"),
    (lambda: tir.call_pure_extern("int32", "f", "text"), 'T.call_pure_extern("int32", "f", "text")'),
    (lambda: tir.Select(I > 0, X, 0), "T.Select(i > 0, x, T.float32(0.0))"),
    (lambda: tir.Cast("int8", 3), 'T.Cast("int8", 3)'),
    (lambda: tir.infinity("float16"), 'T.float16("inf")'), (lambda: tir.const(1, "uint1"), "T.bool(True)"),
    (lambda: tir.SizeVar("n", "int64") + 1, "n + T.int64(1)")])
def test_names(build, text):
    assert str(build()) == text


@pytest.mark.parametrize("build, message", [
    (lambda: X << 2, "shift_left takes integers, not float32"),
    (lambda: X & X, "bitwise_and takes integers, not float32"),
    (lambda: tir.exp(X, X), "exp takes 1 argument, got 2"), (lambda: tir.fma(X, X), "fma takes 3 arguments, got 2"),
    (lambda: tir.sin("text"), "sin takes numbers, not a handle")])
def test_what_intrinsics_refuse(build, message):
    with pytest.raises(TypeError, match=message):
        build()


def test_iterators_made_as_in_tvm():
    iv = tir.IterVar((0, 8), "k", tir.IterVar.CommReduce)
    assert iv.iter_type == "reduce" and iv.var.name == "k" and iv.dom.extent.value == 8
    same = tir.IterVar(tir.Range(const(0), const(8)), Var("k"), "reduce")
    assert structural_equal(iv, same) and tir.IterVar((2, 4), "t", 1, "threadIdx.x").iter_type == "thread"


def test_buffers_with_an_offset_factor():
    plain = tir.decl_buffer((4,))
    moved = tir.decl_buffer((4,), name="A", strides=None, offset_factor=4, data_alignment=-1)
    assert plain.elem_offset.value == 0 and plain.offset_factor == 1
    assert isinstance(moved.elem_offset, Var) and moved.elem_offset.name == "A_elem_offset"
    assert (moved.offset_factor, moved.data_alignment, moved.strides) == (4, 64, ())
