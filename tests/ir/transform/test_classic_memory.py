"""Passes of scripts over memory and threads: halves that take turns, strides, where temporaries are allocated."""
import numpy as np
import pytest
from interp import run
from tir_cases import arguments, assert_same_results, results
from test_classic_passes import assert_becomes, done

import ingot as tvm
from ingot.ir.node import collect
from ingot.ir.tir import DeclBuffer, For, IfThenElse
from ingot.script import tir as T


@T.prim_func
def sums_of_rows(A: T.Buffer((7, 8), "float32"), B: T.Buffer((7,), "float32")):
    for i in range(7):
        row = T.decl_buffer((8,), "float32")
        with T.attr(row.data, "double_buffer_scope", 1):
            for j in range(8):
                row[j] = A[i, j]
        B[i] = T.float32(0)
        for j in range(8):
            B[i] = B[i] + row[j]


@T.prim_func
def sums_in_memory_of_all(A: T.Buffer((7, 8), "float32"), B: T.Buffer((7,), "float32")):
    row = T.decl_buffer((8,), "float32")
    for i in range(7):
        with T.attr(row.data, "double_buffer_scope", 1):
            for j in range(8):
                row[j] = A[i, j]
        B[i] = row[0] + row[7]


@pytest.mark.parametrize("before", [sums_of_rows, sums_in_memory_of_all], ids=["loop", "function"])
@pytest.mark.parametrize("split", [0, 1, 2, 4])
def test_halves_take_turns(split, before):
    after = done("InjectDoubleBuffer", before, config={"tir.InjectDoubleBuffer": {"split_loop": split}})
    inputs = arguments(before)
    assert_same_results(results(before, inputs), after, inputs)
    assert [int(d.buffer.shape[0]) for d in collect(after.body, DeclBuffer)] == [16]
    assert after.script().count("double_buffer_write") == max(split, 1) and "double_buffer_scope" not in after.script()


@pytest.mark.parametrize("split", [0, 1, 2])
def test_halves_of_a_loop_that_may_not_run(split):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(n):
            row = T.decl_buffer((1,), "int32")
            with T.attr(row.data, "double_buffer_scope", 1):
                row[0] = A[i] + 1
            B[i] = row[0]

    after = done("InjectDoubleBuffer", before, config={"tir.InjectDoubleBuffer": {"split_loop": split}})
    for n in (0, 1, 4):
        inputs = [np.arange(4, dtype="int32"), np.zeros(4, "int32"), n]
        assert_same_results(results(before, inputs), after, inputs)


def test_what_has_no_halves():
    @T.prim_func
    def outside(A: T.Buffer((8,), "float32")):
        row = T.decl_buffer((8,), "float32")
        with T.attr(row.data, "double_buffer_scope", 1):
            for j in range(8):
                row[j] = A[j]

    @T.prim_func
    def written_elsewhere(A: T.Buffer((8,), "float32")):
        for i in range(8):
            row = T.decl_buffer((1,), "float32")
            with T.attr(row.data, "double_buffer_scope", 1):
                row[0] = A[i]
            row[0] = T.float32(1)

    @T.prim_func
    def read_afterwards(A: T.Buffer((8,), "float32")):
        row = T.decl_buffer((1,), "float32")
        for i in range(7):
            with T.attr(row.data, "double_buffer_scope", 1):
                row[0] = A[i]
        A[7] = row[0]

    @T.prim_func
    def begins_later(A: T.Buffer((8,), "float32")):
        for i in range(1, 8):
            row = T.decl_buffer((1,), "float32")
            with T.attr(row.data, "double_buffer_scope", 1):
                row[0] = A[i]
            A[0] = row[0]

    with pytest.raises(ValueError, match="buffer row is read outside of the loop that fills it"):
        done("InjectDoubleBuffer", read_afterwards)
    with pytest.raises(ValueError, match="loop i begins at 1; it must begin at 0"):
        done("InjectDoubleBuffer", begins_later, config={"tir.InjectDoubleBuffer": {"split_loop": 0}})
    with pytest.raises(ValueError, match="no loop is around the double_buffer_scope of buffer row"):
        done("InjectDoubleBuffer", outside)
    with pytest.raises(ValueError, match="buffer row is written outside of its double_buffer_scope"):
        done("InjectDoubleBuffer", written_elsewhere)
    with pytest.raises(ValueError, match="split_loop is 1 or even, not 3"):
        done("InjectDoubleBuffer", sums_of_rows, config={"tir.InjectDoubleBuffer": {"split_loop": 3}})


def test_memory_of_strides_has_none():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32")):
        with T.block("root"):
            B = T.alloc_buffer((4, 8), "float32", strides=[12, 1])
            for i, j in T.grid(4, 8):
                with T.block(""):
                    T.block_attr({"pragma_said": "so"})
                    B[i, j] = A[i, j]

    after = done("LowerOpaqueBlock", before)
    assert [tuple(map(int, d.buffer.shape)) for d in collect(after.body, DeclBuffer)] == [(4, 12)]
    attr = after.body.body.body.body
    assert attr.value == "so" and not attr.value == "else" and attr.value != "else"


def test_allocations_say_which_regions_are_accessed():
    @T.prim_func
    def before(A: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
        B = T.alloc_buffer((4, 16), "float32")
        for i0 in range(4):
            for j0 in range(16):
                with T.block("b"):
                    i, j = T.axis.remap("SS", [i0, j0])
                    B[i, j] = A[i, j]
            for j0 in range(8):
                with T.block("c"):
                    i, j = T.axis.remap("SS", [i0, j0])
                    C[i, j] = B[i, j + 2]

    @T.prim_func
    def expected(A: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
        for i0 in range(4):
            with T.block(""):
                T.reads(A[i0, 0:16])
                T.writes(C[i0, 0:8])
                B = T.alloc_buffer((4, 16), "float32")
                for j0 in range(16):
                    with T.block("b"):
                        i, j = T.axis.remap("SS", [i0, j0])
                        B[i, j] = A[i, j]
                for j0 in range(8):
                    with T.block("c"):
                        i, j = T.axis.remap("SS", [i0, j0])
                        C[i, j] = B[i, j + 2]

    assert_becomes("PlanAndUpdateBufferAllocationLocation", before, expected)


def test_what_an_opaque_iterator_reads_outlives_its_loop():
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i0 in range(8):
            with T.block("b"):
                i = T.axis.spatial(8, i0)
                B[i] = A[i]
            with T.block("c"):
                i = T.axis.opaque(8, i0)
                C[i] = B[i] + T.if_then_else(0 < i, B[i - 1], 0)

    after = done("PlanAndUpdateBufferAllocationLocation", before)
    assert after.body.block.alloc_buffers and after.script().count("alloc_buffer") == 1


def test_targets_that_compute_in_bfloat16_keep_it():
    @T.prim_func(private=True)
    def program(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((4,), "bfloat16")):
        for i in range(4):
            B[i] = A[i] + A[i]

    gpu, cpu = (program.with_attr("target", name) for name in ("cuda", "c"))
    for name in ("BF16ComputeLegalize", "BF16StorageLegalize"):
        assert done(name, gpu) is gpu and done(name, cpu) is not cpu


def test_vthreads_of_one_axis_are_one():
    @T.prim_func
    def program(A: T.Buffer((4, 4), "float32")):
        for i in T.thread_binding(4, thread="vthread.x"):
            for j in T.thread_binding(4, thread="vthread.x"):
                A[i, j] = T.float32(1)

    assert done("UnifyThreadBinding", program).script().count("thread_binding") == 1
    assert tvm.tir.transform.UnifyThreadBinding.info.name == "UnifyThreadBinding" and not collect(
        program.body, IfThenElse)


def test_threads_are_lifted_around_all_that_they_run():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x", annotations={"said": 1}):
                A[b, t] = T.float32(0)
                A[b, t] = T.float32(1)
            for k in range(2):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    A[b, t] = A[b, t] + T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "float32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x", annotations={"said": 1}):
                A[b, t] = T.float32(0)
                A[b, t] = T.float32(1)
                for k in range(2):
                    A[b, t] = A[b, t] + T.float32(2)

    @T.prim_func
    def uneven(A: T.Buffer((8,), "float32")):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for u in T.thread_binding(4, thread="threadIdx.x"):
                A[t] = T.float32(u)

    assert_becomes("LiftThreadBinding", before, expected)
    assert_becomes("LiftThreadBinding", expected, expected)
    with pytest.raises(ValueError, match="bound to threadIdx.x have one range: from 0, 4 turns, is not"):
        done("LiftThreadBinding", uneven)


@pytest.mark.parametrize("count", [3, 20])
def test_virtual_threads_share_flat_memory(count):
    @T.prim_func
    def before(A: T.Buffer((80,), "float32")):
        for v in T.thread_binding(count, thread="vthread"):
            B = T.decl_buffer((4,), "float32")
            for i in range(4):
                B[i] = T.float32(v)
            A[v * 4:v * 4 + 4] = B[0:4]

    after = done("InjectVirtualThread", before)
    assert [int(d.buffer.shape[0]) for d in collect(after.body, DeclBuffer)] == [4 * count]
    assert ("for v in" in after.script()) == (count > 16)
    inputs = arguments(before)
    assert_same_results(results(before, inputs), after, inputs)


# ---------------------------------------------------------------- StorageRewrite

@T.prim_func
def three_in_turn(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((24,), "float32")
    E = T.decl_buffer((16,), "float32")
    unused = T.decl_buffer((16,), "float32")
    for i in range(16):
        B[i] = A[i] + T.float32(1)
    for i in range(24):
        C[i] = B[i % 16] * T.float32(2)
    for i in range(16):
        E[i] = C[i] - C[i + 8]
    for i in range(16):
        D[i] = E[15 - i]


@T.prim_func
def one_in_place(A: T.Buffer((4, 4), "float32"), D: T.Buffer((4, 4), "float32")):
    B = T.decl_buffer((4, 4), "float32")
    C = T.decl_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        B[i, j] = A[i, j]
    for i, j in T.grid(4, 4):
        C[i, j] = B[i, j] * T.float32(2) + A[j, i]
    for i, j in T.grid(4, 4):
        D[i, j] = C[j, i]


@T.prim_func
def one_in_each_turn(A: T.Buffer((8, 16), "float32"), D: T.Buffer((8, 16), "float32")):
    for i in T.parallel(8):
        B = T.decl_buffer((16,), "float32")
        for j in range(16):
            B[j] = A[i, 15 - j]
        for j in range(16):
            if j > 3:
                C = T.decl_buffer((16,), "float32")
                C[j] = B[j]
                D[i, j] = C[j]


@pytest.mark.parametrize("func, sizes", [(three_in_turn, [24, 16]), (one_in_place, [16]), (one_in_each_turn, [16, 16])])
def test_temporaries_share_memory(func, sizes):
    after = done("StorageRewrite", func)
    inputs = arguments(func)
    assert_same_results(results(func, inputs), after, inputs)
    assert [np.prod([int(n) for n in d.buffer.shape]) for d in collect(after.body, DeclBuffer)] == sizes
    assert_same_results(results(func, inputs), done("ResolveViews", after), inputs)


def written_twice(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((16,), "float32")
    for i in range(16):
        B[i] = A[i]
    for k, i in T.grid(2, 16):
        C[i] = B[i] + T.float32(1)
    for i in range(16):
        D[i] = C[i]


def two_to_one(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((16,), "float32")
    for i in range(16):
        B[i] = A[i]
    for i in range(32):
        C[i // 2] = B[i // 2] + T.float32(1)
    for i in range(16):
        D[i] = C[i]


def read_elsewhere(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((16,), "float32")
    for i in range(16):
        B[i] = A[i]
    for i in range(16):
        C[i] = B[i] + B[15 - i]
    for i in range(16):
        D[i] = C[i]


def read_through_a_view(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((16,), "float32")
    later = T.Buffer((12,), "float32", data=C.data, elem_offset=4)
    for i in range(16):
        B[i] = A[i]
    for i in range(12):
        later[i] = B[i] + T.float32(1)
    for i in range(16):
        D[i] = later[i % 12]


def stored_at_a_let(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32")
    C = T.decl_buffer((16,), "float32")
    for i in range(16):
        B[i] = A[i]
    for i in range(16):
        k: T.int32 = i
        C[i - k] = B[i - k] + T.float32(1)
    for i in range(16):
        D[i] = C[0]


def behind_strides(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    B = T.decl_buffer((16,), "float32", strides=(2,))
    for i in range(16):
        B[i] = A[i]
    for i in range(16):
        D[i] = B[15 - i]
    C = T.decl_buffer((16,), "float32")
    for i in range(16):
        C[i] = A[i] + D[i]
    for i in range(16):
        D[i] = C[15 - i]


def sized_by_what_is_stored(A: T.Buffer((1,), "int32"), D: T.Buffer((16,), "int32")):
    B = T.decl_buffer((1,), "int32")
    B[0] = A[0] + 1
    C = T.decl_buffer((B[0],), "int32")
    for i in range(16):
        C[i % B[0]] = i
        D[i] = C[i % B[0]]


@pytest.mark.parametrize("source", [
    written_twice, two_to_one, read_elsewhere, read_through_a_view, stored_at_a_let, behind_strides,
    sized_by_what_is_stored], ids=lambda f: f.__name__)
def test_what_shares_no_memory(source):
    func = T.prim_func(source)
    after = done("StorageRewrite", func)
    inputs = arguments(func)
    assert_same_results(results(func, inputs), after, inputs)
    assert len(collect(after.body, DeclBuffer)) == 2


def test_turns_of_parallel_loops_have_their_own():
    @T.prim_func
    def func(D: T.Buffer((4, 4), "float32")):
        for i in T.parallel(4):
            for j in T.parallel(4):
                for k in range(2):
                    B = T.decl_buffer((16,), "float32")
                    B[k] = T.float32(i + j)
                    D[i, j] = B[k]

    inner, = (loop for loop in collect(done("StorageRewrite", func).body, For) if loop.loop_var.name == "j")
    assert isinstance(inner.body, DeclBuffer)


@pytest.mark.parametrize("dtype, size", [("int16", 12), ("float64", 24)])
def test_memory_behind_a_tag_is_one(dtype, size):
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        for i in range(8):
            B = T.decl_buffer((8,), "float32", scope="local.L0A")
            C = T.decl_buffer((8,), dtype, scope="local.L0A")
            B[i] = A[i]
            C[i] = T.Cast(dtype, i)
            D[i] = B[i] + T.Cast("float32", C[i])

    after = done("StorageRewrite", func)
    inputs = arguments(func)
    assert_same_results(results(func, inputs), after, inputs)
    assert [int(d.buffer.shape[0]) for d in collect(after.body, DeclBuffer)] == [size]


@T.prim_func
def padded(A: T.Buffer((6,), "int32"), C: T.Buffer((10,), "int32")):
    with T.block(""):
        T.reads(A[0:6])
        T.writes(C[0:10])
        B = T.alloc_buffer((10,), "int32")
        for i in range(6):
            B[i] = A[i] * 2
        for i in range(10):
            C[i] = T.if_then_else(2 <= i and i < 8, B[i - 2], -1)


@T.prim_func
def too_small(A: T.Buffer((6,), "int32"), C: T.Buffer((10,), "int32")):
    with T.block(""):
        T.reads(A[0:6])
        T.writes(C[0:10])
        B = T.alloc_buffer((9,), "int32")
        for i in range(10):
            B[i] = T.if_then_else(2 <= i and i < 8, A[i - 2] * 2, -1)
        for i in range(10):
            C[i] = B[i]


@pytest.mark.parametrize("func, is_strict, size", [(padded, True, 6), (too_small, False, 10)])
def test_compaction_knows_conditions_and_lets_buffers_grow(func, is_strict, size):
    after = tvm.tir.transform.CompactBufferAllocation(is_strict=is_strict)(tvm.IRModule({"main": func}))["main"]
    assert [b.shape[0].value for b in collect(after.body, tvm.tir.Block)[0].alloc_buffers] == [size]
    a, c = np.arange(6, dtype="int32"), np.zeros(10, "int32")
    run(after, a, c)
    assert c.tolist() == [-1, -1, 0, 2, 4, 6, 8, 10, -1, -1]


def test_compaction_shares_among_virtual_threads_in_either_order():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for v in T.thread_binding(2, thread="vthread"):
                for t in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block(""):
                        T.reads(A[b * 8 + v * 4 + t])
                        T.writes(C[b * 8 + v * 4 + t])
                        B = T.alloc_buffer((16,), "float32", scope="shared")
                        B[b * 8 + v * 4 + t] = A[b * 8 + v * 4 + t] + 1.0
                        C[b * 8 + v * 4 + t] = B[b * 8 + v * 4 + t] * 2.0
    tr, mod, a = tvm.tir.transform, tvm.IRModule({"main": func}), np.arange(16, dtype="float32")
    for passes in ([tr.CompactBufferAllocation()], [tr.LowerOpaqueBlock(), tr.CompactBufferAllocation()]):
        after, c = tvm.transform.Sequential(passes)(mod)["main"], np.zeros(16, "float32")
        made = [b for n in collect(after.body, (tvm.tir.Block, tvm.tir.Allocate))
                for b in (n.alloc_buffers if isinstance(n, tvm.tir.Block) else [n.buffer])]
        assert [b.shape[0].value for b in made] == [8]
        run(after, a, c)
        np.testing.assert_array_equal(c, (a + 1) * 2)


def test_virtual_threads_that_share_nothing():
    def func(tag):
        tx = tvm.te.thread_axis(tag)
        ib = tvm.tir.ir_builder.create()
        A, B = tvm.tir.decl_buffer((8,), "float32", "A"), tvm.tir.decl_buffer((8,), "float32", "B")
        a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
        ib.scope_attr(tx, "virtual_thread", 2)
        own = ib.allocate("float32", 4, name="own", scope="local")
        with ib.for_range(0, 4) as i:
            own[i] = a[i]
        with ib.for_range(0, 4) as i:
            b[tx * 4 + i] = own[i]
        return tvm.tir.PrimFunc([A, B], ib.get())

    extents, outputs = [], []
    for tag in ("vthread", "cthread"):
        before = func(tag)
        after = done("InjectVirtualThread", before)
        extents += [int(d.buffer.shape[0]) for d in collect(after.body, DeclBuffer)]
        outputs.append(results(after, arguments(before))[1])
        np.testing.assert_array_equal(outputs[-1], np.tile(arguments(before)[0][:4], 2))
    assert extents == [4, 8]


def test_what_holds_for_a_scope_of_a_builder():
    ib = tvm.tir.ir_builder.create()
    A = tvm.tir.decl_buffer((2,), "int32", "A")
    a = ib.buffer_ptr(A)
    with ib.new_scope():
        ib.scope_attr(A.data, "marked", 1)
        a[0] = 1
    a[1] = 2
    first, second = ib.get().seq
    assert first.attr_key == "marked" and first.body.value.value == 1 and second.value.value == 2


def test_a_block_that_is_all_of_its_loop_allocates():
    @T.prim_func
    def before(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        C = T.alloc_buffer((8, 16), "float32")
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                row = T.match_buffer(A[vi, 0:16], dtype="float32", offset_factor=1)
                for j in range(16):
                    with T.block("c"):
                        vj = T.axis.spatial(16, j)
                        C[vi, vj] = row[0, vj] + T.float32(1)
                for j in range(16):
                    with T.block("b"):
                        vj = T.axis.spatial(16, j)
                        B[vi, vj] = C[vi, 15 - vj]

    after = done("PlanAndUpdateBufferAllocationLocation", before)
    row, = (b for b in collect(after.body, tvm.tir.Block) if b.name_hint == "row")
    assert [b.name for b in row.alloc_buffers] == ["C"] and [r.buffer.name for r in row.writes] == ["B"]
    assert [r.buffer.name for r in row.reads] == ["A"]
    inputs = arguments(before)
    assert_same_results(results(before, inputs), after, inputs)


def test_a_block_matches_what_it_allocates():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32")):
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                C = T.alloc_buffer((2, 8), "float32")
                first = T.match_buffer(C[0, 0:8], (8,))
                for j in range(8):
                    with T.block("c"):
                        vj = T.axis.spatial(8, j)
                        first[vj] = T.Cast("float32", vi * vj)
                for j in range(8):
                    with T.block("a"):
                        vj = T.axis.spatial(8, j)
                        A[vi, vj] = C[0, vj]

    row, = (b for b in collect(before.body, tvm.tir.Block) if b.name_hint == "row")
    assert not row.reads and [r.buffer.name for r in row.writes] == ["A"]
    a = np.zeros((4, 8), "float32")
    run(before, a)
    np.testing.assert_array_equal(a, np.outer(np.arange(4), np.arange(8)))


def test_views_of_views_keep_their_memory():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32")):
        C = T.alloc_buffer((4, 8), "float32")
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                row = T.match_buffer(C[vi, 0:8], (8,))
                for j in range(8):
                    with T.block("element"):
                        vj = T.axis.spatial(8, j)
                        one = T.match_buffer(row[vj], ())
                        one[()] = T.float32(2)
                        A[vi, vj] = one[()]

    after = done("PlanAndUpdateBufferAllocationLocation", before)
    row, = (b for b in collect(after.body, tvm.tir.Block) if b.name_hint == "row")
    assert [b.name for b in row.alloc_buffers] == ["C"]
    assert_same_results(results(before, arguments(before)), after, arguments(before))
