"""LowerAutoCopy: blocks that copy are copies that threads do together, and give what they gave."""
import numpy as np
import pytest
from gpu_modules import MISSING, emulated, ints
from gpu_programs import LOOPS, threads_agree
from test_gpu_wmma import product
from tir_cases import arguments, results

import ingot as tvm
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.script.errors import ScriptError
from ingot.ir.tir.stmt import Block, For
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.classic import CLASSIC
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.pass_table import TIR
from ingot.script import from_source
from ingot.script import tir as T
from ingot.tir.tensor_intrin import cuda

REST = ("UnifyThreadBinding", *LOOPS, "ThreadSync", "FlattenBuffer", "VectorizeLoop")
IN = " " * 24
PROGRAM = """
from ingot.script import tir as T

@T.prim_func
def main(A: T.Buffer({shape}, "{dtype}"), B: T.Buffer({shape}, "{dtype}")):
    with T.block("root"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding({ty}, thread="threadIdx.y"):
                for tx in T.thread_binding({tx}, thread="threadIdx.x"):
                    with T.block("tile"):
                        S = T.alloc_buffer(({m}, {n}), "{dtype}", scope="shared")
                        with T.block("load"):
                            T.block_attr({attrs})
                            for i, j in T.grid({m}, {n}):
                                S[{to}] = A[{source}]
                        with T.block("store"):
                            T.block_attr({attrs})
                            for i, j in T.grid({m}, {n}):
                                B[{target}] = S[{back}] * T.{dtype}(2)
"""


def lowered(func):
    return CLASSIC["LowerAutoCopy"]()(IRModule({"main": func}))["main"]


def run(func, done):
    """The function after the pass gives what it gives one thread after the other."""
    done = Sequential([TIR[name]() for name in REST])(IRModule({"main": done}))["main"]
    inputs = arguments(func)
    threads_agree(results(func, inputs), verify(done), inputs)


def tile(m, n, attrs, to="i, j", back="i, j", ty=4, tx=8, dtype="float32"):
    return from_source(PROGRAM.format(
        shape=(2 * m, n + 3), m=m, n=n, attrs=attrs, ty=ty, tx=tx, dtype=dtype, to=to, back=back,
        source=f"bx * {m} + i, j + 3", target=f"bx * {m} + i, j"))


@pytest.mark.parametrize("m, n, threads, dtype", [
    (8, 16, (2, 8), "float32"), (6, 10, (4, 8), "float16"), (5, 7, (1, 32), "float32")], ids=str)
@pytest.mark.parametrize("attrs", [{"auto_copy": 1}, {"auto_copy": 1, "vector_bytes": 16},
                                   {"auto_copy": 1, "vector_bytes": 8, "local_stage": True}], ids=str)
def test_tiles_are_copied_by_all_threads(m, n, threads, attrs, dtype):
    func = tile(m, n, attrs, ty=threads[0], tx=threads[1], dtype=dtype)
    done = lowered(func)
    bound = [loop.thread_binding for loop in collect(done.body, For) if loop.kind == "thread_binding"]
    assert bound.count("threadIdx.x") == 3 == bound.count("threadIdx.y"), "around, and of each copy"
    assert ('scope="local"' in str(done)) is ("local_stage" in attrs)
    run(func, done)


@pytest.mark.parametrize("to, back", [("(i + 3) % 8, j", "i, (j + 5) % 12"), ("i, 11 - j", "7 - i, j"),
                                      ("i, j // 3 + j % 3 * 4", "i, j // 4 + j % 4 * 3")])
def test_maps_of_indices(to, back):
    func = tile(8, 12, {"auto_copy": 1, "vector_bytes": 16, "local_stage": True}, to, back)
    run(func, lowered(func))


def test_neighbours_write_neighbours():
    """A transposition reads columns of padded shared memory."""
    func = from_source(PROGRAM.format(shape=(64, 32), m=32, n=32, attrs={"auto_copy": 1}, ty=1, tx=32, dtype="float32",
                                      to="j, i", source="bx * 32 + i, j", target="bx * 32 + j, i", back="i, j"))
    done = lowered(func)
    [shared] = [b for block in collect(done.body, Block) for b in block.alloc_buffers]
    assert [int(s) for s in shared.strides] == [33, 1]
    run(func, done)


@pytest.mark.parametrize("line, other", [
    ("S[{to}] = A[{source}]", "S[{to}] = A[{source}] + T.Cast('float32', tx)"),  # what each thread copies is its own
    (f"{IN}S = T.alloc", f"{IN}B[bx, 0] = T.float32(1)\n{IN}S = T.alloc"),
    ('with T.block("tile"):', f'with T.block("tile"):\n{IN}T.where(tx < 3)'),
], ids=["threads", "target", "some"])
def test_what_threads_do_not_share_stays(line, other):
    source = PROGRAM.replace(line, other)
    assert source != PROGRAM
    func = from_source(source.format(shape=(16, 8), m=8, n=8, attrs={"auto_copy": 1}, ty=1, tx=4, dtype="float32",
                                     to="i, j", source="bx * 8 + i, j", target="bx * 8 + i, j", back="i, j"))
    done = lowered(func)
    left = [block for block in collect(done.body, Block) if block.name_hint in ("load", "store")
            and all(loop.kind == "serial" for loop in collect(block.body, For))]
    assert left


def test_conditions_that_threads_decide_alike():
    source = PROGRAM.replace('with T.block("tile"):', f'with T.block("tile"):\n{IN}T.where(bx < 1)')
    func = from_source(source.format(shape=(16, 8), m=8, n=8, attrs={"auto_copy": 1}, ty=1, tx=4, dtype="float32",
                                     to="i, j", source="bx * 8 + i, j", target="bx * 8 + i, j", back="i, j"))
    done = lowered(func)
    assert str(done).count("T.vectorized") == 2
    run(func, done)


def fragments(scope, width=64, dtype="float16"):
    @T.prim_func
    def func(A: T.Buffer((64, width), dtype)):
        with T.block("root"):
            T.block_attr({"warp_execution": True})
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                with T.block(""):
                    S = T.alloc_buffer((64, width), dtype, scope="shared")
                    F = T.alloc_buffer((64, width), dtype, scope=scope)
                    C = T.alloc_buffer((64, 64), "float32", scope="wmma.accumulator")
                    with T.block("fill"):
                        for i, j in T.grid(64, width):
                            S[i, j] = A[i, j]
                    with T.block("load"):
                        T.block_attr({"auto_copy": 1})
                        for i, j in T.grid(32, width):
                            F[ty * 32 + i, j] = S[ty * 32 + i, j]
                    for k in range(4):
                        with T.block("product"):
                            T.reads(F[ty * 32:ty * 32 + 16, k * 16:k * 16 + 16], C[ty * 32:ty * 32 + 16, 0:16])
                            T.writes(C[ty * 32:ty * 32 + 16, 0:16])
                            T.evaluate(0)
    return func


@pytest.mark.parametrize("scope, width, layout", [
    ("wmma.matrix_a", 64, '"row_major"'), ("wmma.matrix_a", 512, None), ("wmma.matrix_b", 64, None)])
def test_fragments_are_loaded_as_they_are_multiplied(scope, width, layout):
    """What a product's signature tells of the layout; too wide buffers, and layouts that it does not tell, stay."""
    text = str(lowered(fragments(scope, width)))
    assert ("tvm_load_matrix_sync" in text) is (layout is not None)
    assert layout is None or layout in text
    assert ("strides=(72, 1)" in text) is (layout is not None)


def test_accumulators_go_by_way_of_shared_memory():
    @T.prim_func
    def func(D: T.Buffer((64, 32), "float32"), bias: T.Buffer((32,), "float32")):
        with T.block("root"):
            T.block_attr({"warp_execution": True})
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                with T.block(""):
                    C = T.alloc_buffer((16, 32), "float32", scope="wmma.accumulator")
                    with T.block("store"):
                        T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                        for i, j in T.grid(16, 32):
                            D[ty * 16 + i, j] = C[i, j] + bias[j]

    done = lowered(func)
    [cache] = [b for block in collect(done.body, Block) for b in block.alloc_buffers if b.scope == "shared.dyn"]
    assert [int(s) for s in cache.shape] == [4, 2, 16, 16]
    assert "tvm_store_matrix_sync" in str(done)
    stores = [loop for loop in collect(done.body, For) if loop.kind == "vectorized"]
    assert len(stores) == 1 and int(stores[0].extent) == 4
    body = str(stores[0].body)
    assert body.startswith("D[") and "bias[" in body and "ty" not in body.replace("ty_cache", "")


@pytest.mark.parametrize("trans", [False, True])
def test_a_product_whose_copies_are_annotated(trans):
    """All of its copies: global to shared memory, to fragments, and from these by shared memory to global."""
    func = product(64, 32, 64, "float16", "float32", trans)
    s = Schedule(func)
    loops = s.get_loops(s.get_block("c"))
    (i, ii), (j, ji), (k, ki) = (s.split(loop, [None, 16]) for loop in loops)
    s.reorder(i, j, k, ii, ji, ki)
    tile = s.blockize(ii)
    iw, i = s.split(i, [2, 2])
    k0, k1 = s.split(k, [None, 2])
    s.reorder(j, iw, k0, k1, i)
    s.bind(j, "blockIdx.x")
    s.bind(iw, "threadIdx.y")
    group = cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", trans)
    copies = []
    for which, scope in enumerate(("wmma.matrix_a", "wmma.matrix_b")):
        for memory, loop in (("shared", k0), (scope, k1)):
            copies.append(s.cache_read(tile, which, memory))
            s.compute_at(copies[-1], loop)
    back = s.cache_write(tile, 0, "wmma.accumulator")
    s.reverse_compute_at(back, iw)
    for copy in (*copies, back):
        whole = s.blockize(s.get_loops(copy)[-2])
        s.annotate(whole, "auto_copy", 1)
        s.annotate(whole, "vector_bytes", 16)
    s.tensorize(s.decompose_reduction(tile, k0), group["init"])
    s.tensorize(tile, group["compute"])
    s.annotate(s.get_block("root"), "warp_execution", True)
    opaque = Sequential([TIR[name]() for name in LOOPS[:5]])(IRModule({"main": s.func}))
    done = CLASSIC["LowerAutoCopy"]()(opaque)["main"]
    text = str(done)
    assert text.count("tvm_load_matrix_sync") == 2 and text.count("tvm_store_matrix_sync") == 1
    assert text.count("T.vectorized") == 3 and ('"col_major"' in text) is trans
    if trans or MISSING is not None:  # its values, once
        return
    a, b = (ints([int(e) for e in x.shape], np.float16, n) for n, x in enumerate(func.buffers[:2]))
    *_, c = emulated(tvm.build(IRModule({"main": done}), "cuda"), a, b, np.zeros((64, 32), np.float32), policy="shuffled")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ (b.T if trans else b).astype(np.float32))


def test_offsets_of_pointers_count_from_the_data():
    """The offset of a matched buffer is where its first element lies."""
    @T.prim_func
    def func(A: T.Buffer((64, 32), "float32")):
        for i in range(4):
            with T.block("call"):
                T.reads(A[i * 16:i * 16 + 16, 8:24])
                T.writes()
                s1 = T.int32()
                s0 = T.int32()
                a = T.match_buffer(A[i * 16:i * 16 + 16, 8:24], (16, 16), strides=[s1, s0], offset_factor=8)
                T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(
                    T.type_annotation("float32"), a.data, a.elem_offset, s1 * 16, 1)))

    done = Sequential([TIR[name]() for name in ("ConvertBlocksToOpaque", "LowerMatchBuffer", "LowerOpaqueBlock")])(
        IRModule({"main": func}))["main"]
    assert "T.address_of(A[i * 16, 8])" in str(done)
    with pytest.raises(ScriptError, match="buffer A has strides"):
        from_source('''
from ingot.script import tir as T
@T.prim_func
def func(a: T.handle):
    A = T.match_buffer(a, (4, 4), strides=(8, 1))
    T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("float32"), A.data, 5, 1, 1)))
''')
