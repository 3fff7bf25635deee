"""tvm.tir.analysis: what programs access, hold, define and do besides giving values."""
import pytest

import ingot as tvm
from ingot import te, tir
from ingot.ir.compare import assert_structural_equal
from ingot.script import ir as I
from ingot.script import tir as T

ask = tir.analysis


@T.prim_func
def product(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    D = T.alloc_buffer((16, 16), "float32")
    for i, j, k in T.grid(16, 16, 16):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            T.reads(D[vi, 0:16])
            T.writes(C[vi, 0:16])
            T.evaluate(T.call_extern("int32", "copy", C.data, D.data, vi))


def test_regions_and_the_innermost_place_of_accesses():
    (a, b, c), (d,) = product.buffer_map.values(), product.body.block.alloc_buffers
    first, second = product.body.block.body
    block, call = first.body.body.body.block, second.body.block
    reads, writes, opaque = ask.get_block_access_region(block, {x.data: x for x in (a, b, c, d)})
    assert_structural_equal([*reads], [*block.reads])
    assert_structural_equal([*writes], [*block.writes])
    assert not opaque and [r.buffer for r in ask.get_block_access_region(block, {a.data: a})[0]] == [a]
    known = {x.data: x for x in (c, d)}
    assert ask.get_block_access_region(call, known)[:2] == [[], []]
    assert_structural_equal(ask.get_block_access_region(call, known)[2], [c[0:16, 0:16], d[0:16, 0:16]])
    assert_structural_equal(ask.get_block_read_write_region(call, known), [[c[0:16, 0:16], d[0:16, 0:16]]] * 2)

    places = ask.detect_buffer_access_lca(product)
    assert places[a] is block and places[b] is block and places[c] is call
    assert places[d] is product.body.block, "what a reduction writes and another block reads"


def test_a_reduction_keeps_its_buffer_outside_its_loop():
    @T.prim_func
    def rows(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    a, b = rows.buffer_map.values()
    places = ask.detect_buffer_access_lca(rows)
    loop = rows.body.block.body
    assert places[b] is loop and places[a] is loop.body.body.block


@pytest.mark.parametrize("index, fine", [("i", True), ("i + 1", False), ("i - 1", False), ("n", True)])
def test_accesses_outside(index, fine):
    func = tvm.script.from_source(f"""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), n: T.int32):
    for i in range(4):
        B[i] = A[{index}]
""")
    mod = tvm.IRModule.from_expr(func)
    if fine:
        assert_structural_equal(ask.OOBChecker()(mod), mod)
    else:
        with pytest.raises(tir.ScheduleError, match="buffer A"):
            ask.OOBChecker()(mod)


def test_definitions():
    x, y = te.var("x"), te.var("y")
    use = tir.Evaluate(x + y)
    assert ask.verify_ssa(tir.PrimFunc([x, y], use))
    assert not ask.verify_ssa(tir.PrimFunc([x, y], tir.LetStmt(x, 1, use)))
    one, two = tir.Let(x, 1, x + 1), tir.Let(x, 2, x + 2)
    assert ask.verify_ssa(tir.PrimFunc([], tir.Evaluate(one + one)))
    assert not ask.verify_ssa(tir.PrimFunc([], tir.Evaluate(one * two)))

    let = tir.LetStmt(x, 42, tir.Evaluate(x))
    for body, message in (((let, tir.Evaluate(x)), "undefined variable x at .* no longer in-scope"),
                          ((let, tir.LetStmt(x, 17, tir.Evaluate(x))), "due to multiple definitions of variable x"),
                          ((tir.LetStmt(x, 1, let),), "due to multiple nested definitions of variable x")):
        func = tir.PrimFunc([], tir.SeqStmt(body) if len(body) > 1 else body[0])
        with pytest.raises(ValueError, match=message):
            ask.verify_well_formed(func)
        assert not ask.verify_well_formed(func, assert_mode=False)
    both = tvm.IRModule({"f": tir.PrimFunc([], let), "g": tir.PrimFunc([], let)})
    with pytest.raises(ValueError, match="multiple definitions of variable x"):
        ask.verify_well_formed(both)


def test_memory_and_effects():
    @I.ir_module
    class Module:
        @T.prim_func
        def copies(A: T.Buffer((64,), "int8"), B: T.Buffer((64,), "int8")):
            for i in range(4):
                C = T.decl_buffer((32,), "int16", scope="local")
                D = T.decl_buffer((8,), "float32")
                C[0] = T.int16(i)
                D[0] = T.float32(0)
                B[i] = A[i] + T.Cast("int8", C[0])

        @T.prim_func
        def total(A: T.Buffer((4,), "float32")) -> T.float32:
            S = T.decl_buffer((1,), "float32")
            S[0] = T.float32(0)
            for i in range(4):
                S[0] = S[0] + T.exp(A[i])
            T.ret(S[0])

    sizes = ask.calculate_allocated_bytes(Module)
    assert sizes == {"copies": {"local": 64, "global": 32}, "total": {"global": 4}}
    assert ask.calculate_allocated_bytes(Module["total"]) == {"main": {"global": 4}}
    assert ask.is_pure_function(Module["total"]) and ask.assert_pure_function(Module["total"])
    assert not ask.is_pure_function(Module["copies"]) and not ask.is_pure_function(product)
    with pytest.raises(AssertionError, match="stores to B"):
        ask.assert_pure_function(Module["copies"])


@pytest.mark.parametrize("store, found", [
    ("B[i, j] = A[i * 8 + j]", ["A B", "A B"]), ("B[j, i] = A[j * 8 + i]", ["A B", "Mismatch .* src indices touched"]),
    ("B[j, i] = A[i * 8 + j]", ["different source", "Mismatch .* dst indices touched"]),
    ("B[i, j] = A[j]", ["does not form a bijective transform", "A B"]),
    ("B[i, j] = A[i * 8 + j] + T.float32(1)", ["value to be BufferLoad"] * 2)])
def test_copies_of_memory(store, found):
    func = tvm.script.from_source(f"""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        {store}
""")
    results = ask._ffi_api._identify_memcpy(func.body)
    assert len(results) == 2
    for result, expected in zip(results, found):
        if expected == "A B":
            assert [r.buffer.name for r in result] == ["A", "B"]
        else:
            assert isinstance(result, tir.StringImm)
            with pytest.raises(AssertionError, match=expected):
                raise AssertionError(result.value)


def test_what_kernels_take():
    s = tir.Schedule(product)
    i, j, _ = s.get_loops("D")
    block = s.fuse(i, j)
    for loop, axis in zip(s.split(block, [None, 4, 32]), ("blockIdx.x", "threadIdx.y", "threadIdx.x")):
        s.bind(loop, axis)
    s.set_scope("D", 0, "shared")
    func = s.mod["main"]
    fits = {"max_threads_per_block": 128, "max_thread_x": 32, "max_shared_memory_per_block": 1024, "max_kernels": 1}
    steps = [getattr(tir.transform, name)() for name in ("LowerInitBlock", "ConvertBlocksToOpaque", "LowerOpaqueBlock")]
    lowered = tvm.transform.Sequential(steps)(s.mod)["main"]
    for taken in (func, lowered):
        assert ask.verify_gpu_code(taken, fits)
        assert not any(ask.verify_gpu_code(taken, {**fits, name: fits[name] - 1}) for name in fits)
    with pytest.raises(ValueError, match="no limit is called 'max_blocks'; known: max_local"):
        ask.verify_gpu_code(func, {"max_blocks": 1})
    cuda = tvm.target.Target("cuda")
    assert not ask.verify_memory(func.with_attr("target", cuda))  # C is made by the host
    assert ask.verify_memory(func.with_attr("target", tvm.target.Target("llvm")))
    with pytest.raises(ValueError, match="no attribute target"):
        ask.verify_memory(func)


def test_the_anchor_is_the_reduction_with_most_work():
    assert ask.find_anchor_block(tvm.IRModule({"main": product})).name_hint == "D"
    assert ask.find_anchor_block(tvm.IRModule({"main": tir.PrimFunc([], tir.Evaluate(0))})) is None
