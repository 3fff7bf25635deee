"""The passes from blocks to loops: each leaves a program that prints, parses, verifies and computes the same."""
import numpy as np
import pytest
from tir_cases import CASES, arguments, assert_same_results, block, loop, results, scheduled

from ingot.ir import te, tir
from ingot.ir.expr import Call, Var, const
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.tir.stmt import AttrStmt, Block, BlockRealize, DeclBuffer, MatchBufferRegion
from ingot.ir.transform.pass_table import TIR
from ingot.script import from_source

STEPS = [TIR[name] for name in (
    "LowerInitBlock", "RemoveNoOp", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
    "CompactBufferAllocation", "LowerMatchBuffer", "LowerOpaqueBlock")]


def after(func, count):
    """`func` after the first `count` steps, each of which keeps its results and prints as what it is."""
    inputs = arguments(func)
    expected = results(func, inputs)
    for make in STEPS[:count]:
        func = make()(IRModule({"main": func}))["main"]
        assert_same_results(expected, func, inputs, make.__name__)
        assert str(from_source(str(func))) == str(func)
    return func


def two_rows():
    """b = a + 1 computed row by row inside the loop over the rows of c."""
    a = te.placeholder((6, 8), name="a")
    b = te.compute((6, 8), lambda i, j: a[i, j] + 1.0, name="b")
    func = te.create_prim_func([a, te.compute((6, 8), lambda i, j: b[i, j] * 2.0, name="c")])
    return scheduled(func, lambda sch: sch.compute_at(sch.get_block("b"), sch.get_loops(sch.get_block("c"))[0]))


def test_inits_become_guarded_statements():
    func = after(CASES["matmul"](), 1)
    product = next(b for b in collect(func.body, Block) if b.name_hint == "matmul")
    assert product.init is None and str(product.body.seq[0].condition) == "v_k == 0"


def test_an_allocation_moves_into_the_loop_by_a_block_of_its_own():
    func = after(two_rows(), 3)
    assert not func.root.alloc_buffers
    home, = [b for b in collect(func.body, Block) if b.alloc_buffers]
    assert func.root.body.body.block is home and not home.iter_vars and home.name_hint == "alloc_b"
    assert [r.buffer.name for r in home.reads] == ["a"] and [r.buffer.name for r in home.writes] == ["c"]


def test_opaque_blocks_have_no_iterators():
    func = after(two_rows(), 4)
    blocks = collect(func.body, Block)
    assert {b.name_hint for b in blocks} == {"root", "alloc_b", "b", "c"} and not any(b.iter_vars for b in blocks)
    inner = next(b for b in blocks if b.name_hint == "b")
    assert str(inner.reads[0]) == "a[i, j]" or str(inner.reads[0].region[0].min) == "i"


def test_predicates_stay_until_the_blocks_go():
    func = after(CASES["matmul_tiled_uneven"](), 6)
    assert any(not isinstance(r.predicate, tir.IntImm) for r in collect(func.body, BlockRealize))
    func = after(CASES["matmul_tiled_uneven"](), 7)
    assert not collect(func.body, (Block, BlockRealize))
    assert any(c.op == "tir.likely" for c in collect(func.body, Call))


def test_allocations_shrink_to_what_is_used():
    func = after(two_rows(), 5)
    buffer, = [b for x in collect(func.body, Block) for b in x.alloc_buffers]
    assert [s.value for s in buffer.shape] == [1, 8]
    outer = next(b for b in collect(func.body, Block) if b.name_hint == "b")
    assert str(outer.writes[0].region[0].min) == "0", "signatures count from the corner too"


def test_matched_buffers_become_regions_of_compact_ones():
    def tensorized():
        x, y = tir.decl_buffer((8, 6), name="x"), tir.decl_buffer((8, 6), name="y")
        t, stride = tir.decl_buffer((8, 6), name="t"), Var("s0")
        m = tir.decl_buffer((2, 6), name="m", strides=(stride, 1), elem_offset=Var("off"))
        vi, wi = Var("v_i"), Var("w_i")

        def rows(target, source):
            return loop("r", 2, lambda r: loop("c", 6, lambda c: tir.BufferStore(target, source(r, c), (r, c))))

        fill = block("fill", [(vi, 4, "spatial", (i := Var("i")))], rows(m, lambda r, c: x[vi * 2 + r, c] + 1.0))
        region = tir.BufferRegion(t, (tir.Range(vi * 2, const(2)), tir.Range(const(0), const(6))))
        fill = fill.replace(block=fill.block.replace(match_buffers=(MatchBufferRegion(m, region),), writes=(region,)))
        use = block("use", [(wi, 4, "spatial", i)], loop("r", 2, lambda r: loop("c", 6, lambda c: tir.BufferStore(
            y, t[wi * 2 + r, c] * 2.0, (wi * 2 + r, c)))))
        return tir.prim_func([x, y], tir.for_(i, 4, tir.seq(fill, use)), alloc_buffers=[t])

    func = after(tensorized(), 5)
    match, = collect(func.body, MatchBufferRegion)
    assert [s.value for s in match.source.buffer.shape] == [2, 6] and str(match.source.region[0].min) == "0"
    assert not collect(after(tensorized(), 6).body, MatchBufferRegion)
    declared, = collect(after(tensorized(), 7).body, DeclBuffer)
    assert [s.value for s in declared.buffer.shape] == [2, 6]


def test_a_buffer_never_leaves_the_block_that_allocates_it():
    """One that a reduction step fills and reads anew stays inside the parallel loop."""
    x, y, t = (tir.decl_buffer((4, 3), name=n) for n in "xyt")
    vi, vk = Var("v_i"), Var("v_k")
    step = tir.seq(tir.BufferStore(t, x[vi, vk] * 2.0, (vi, vk)), tir.BufferStore(y, t[vi, vk], (vi, vk)))
    body = loop("i", 4, lambda i: loop("k", 3, lambda k: block(
        "step", [(vi, 4, "spatial", i), (vk, 3, "reduce", k)], step, allocs=[t])), "parallel")
    found = body.body.body.block
    body = body.replace(body=body.body.replace(body=body.body.body.replace(block=found.replace(
        reads=tuple(r for r in found.reads if r.buffer is not t),
        writes=tuple(w for w in found.writes if w.buffer is not t)))))
    func = after(tir.prim_func([x, y], body), 7)
    assert isinstance(func.body.body.body, DeclBuffer)


def test_annotations_of_blocks_become_attributes():
    func = two_rows()
    sch = Schedule(func)
    sch.annotate("c", "pragma_unroll_explicit", 0)
    sch.annotate("c", "other", 1)
    attr, = collect(after(sch.func, 7).body, AttrStmt)
    assert attr.attr_key == "pragma_unroll_explicit" and attr.value.value == 0


@pytest.mark.parametrize("make, message", [
    (TIR["ConvertBlocksToOpaque"], "block matmul has an init; run LowerInitBlock first"),
    (TIR["LowerOpaqueBlock"],
     "block matmul has iteration variables .*; run ConvertBlocksToOpaque and LowerMatchBuffer"),
])
def test_passes_say_what_they_need(make, message):
    with pytest.raises(ValueError, match=message):
        make()(IRModule({"main": CASES["matmul"]()}))


# ---------------------------------------------------------------- RemoveNoOp

def test_dead_stages_leave_blocks_and_signatures():
    """One block stores to a temporary that nobody reads and to the output."""
    x, y, t = (tir.decl_buffer((4,), name=n) for n in "xyt")
    v = Var("v_i")
    both = tir.seq(tir.BufferStore(t, x[v] * 2.0, (v,)), tir.BufferStore(y, x[v] + 1.0, (v,)))
    func = tir.prim_func([x, y], loop("i", 4, lambda i: block("both", [(v, 4, "spatial", i)], both)), alloc_buffers=[t])
    func = after(func, 2)
    inner, = [b for b in collect(func.body, Block) if b.name_hint == "both"]
    assert [w.buffer.name for w in inner.writes] == ["y"] and not func.root.alloc_buffers


def test_what_has_an_effect_stays():
    x, t = tir.decl_buffer((4,), name="x"), tir.decl_buffer((4,), name="t")
    call = tir.call_extern("float32", "measure", x[0])
    body = tir.DeclBuffer(t, tir.seq(
        tir.BufferStore(t, call, (const(0),)), loop("i", 4, lambda i: tir.Evaluate(const(0))),
        tir.IfThenElse(x[0] < 1.0, tir.Evaluate(const(0))), tir.LetStmt(Var("z"), const(1), tir.Evaluate(const(0))),
        tir.BufferStore(x, const(0.0), (const(1),))))
    func = tir.prim_func([x], body)
    new = TIR["RemoveNoOp"]()(IRModule({"main": func.replace(body=func.root.body)}))["main"].body
    assert isinstance(new, DeclBuffer) and len(new.body.seq) == 2 and new.body.seq[0].value is call


def test_numbers_of_a_scheduled_chain():
    func = two_rows()
    x, y = arguments(func)
    assert np.allclose(results(after(func, 7), [x, y])[1], (x + 1) * 2)
