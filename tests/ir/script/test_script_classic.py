"""Programs as the classic releases print and document them: they read, print back and mean what they say."""
import numpy as np
import pytest
from interp import run

from ingot import Target
from ingot.ir import tir
from ingot.ir.expr import Call
from ingot.ir.module import GlobalVar
from ingot.ir.node import collect, structural_equal
from ingot.ir.script.functions import from_source
from ingot.ir.tir.stmt import Evaluate
from ingot.script import ScriptError
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T

# A matrix product with bias as 0.10 prints it: brackets, positional arguments, comments, annotated roots
OLD_SPELLING = '''
# from tvm.script import tir as T
@T.prim_func
def func(A: T.Buffer[(16, 12), "float32"], B: T.Buffer[(12, 16), "float32"], C: T.Buffer[(16, 16), "float32"]) -> None:
    # function attr dict
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    # body
    # with T.block("root")
    D_local = T.alloc_buffer([16, 16], dtype="float32", scope="local")
    for i0_0 in T.parallel(4, annotations={"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}):
        for i1_0 in T.serial(2):
            for i2_0, i0_1 in T.grid(3, 4):
                for i2_1 in T.serial(0, 4):
                    for i1_1 in T.vectorized(0, 8):
                        with T.block("D"):
                            i = T.axis.spatial(16, i0_0 * 4 + i0_1)
                            j = T.axis.spatial(16, i1_0 * 8 + i1_1)
                            k = T.axis.reduce(12, i2_0 * 4 + i2_1)
                            T.reads(A[i, k], B[k, j])
                            T.writes(D_local[i, j])
                            T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                            with T.init():
                                D_local[i, j] = T.float32(0)
                            D_local[i, j] = D_local[i, j] + A[i, k] * B[k, j]
            for ax0, ax1 in T.grid(4, 8):
                with T.block("C"):
                    v0 = T.axis.spatial(16, i0_0 * 4 + ax0)
                    v1 = T.axis.spatial(16, i1_0 * 8 + ax1)
                    T.reads([D_local[v0, v1]])
                    T.writes([C[v0, v1]])
                    C[v0, v1] = T.max(D_local[v0, v1], T.float32(1))
'''

# The same by the newer printer: T.bool in attributes, calls for types, T.int32 literals
NEW_SPELLING = OLD_SPELLING.replace("T.Buffer[(16, 12), \"float32\"]", 'T.Buffer((16, 12), "float32")').replace(
    "T.Buffer[(12, 16), \"float32\"]", 'T.Buffer((12, 16), "float32")').replace(
    "T.Buffer[(16, 16), \"float32\"]", 'T.Buffer((16, 16), "float32")').replace(
    "T.alloc_buffer([16, 16], dtype=", "T.alloc_buffer((16, 16), ").replace("T.serial(0, 4)", "range(4)").replace(
    "T.serial(2)", "range(2)").replace("T.vectorized(0, 8)", "T.vectorized(8)").replace(
    "T.reads([", "T.reads(").replace("T.writes([", "T.writes(").replace("v1]])", "v1])")


def check(func):
    back = from_source(func.script())
    assert back.script() == func.script() and structural_equal(back, func), func.script()
    return func


def test_both_spellings_are_one_program():
    old, new = check(from_source(OLD_SPELLING)), check(from_source(NEW_SPELLING))
    assert OLD_SPELLING != NEW_SPELLING and structural_equal(old, new)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((16, 12), (12, 16)))
    c = np.zeros((16, 16), "float32")
    run(old, a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 1), rtol=1e-5)


# ---------------------------------------------------------------- threads

THREADS = {
    "names after with": '''
    with T.launch_thread("blockIdx.x", 5) as bx, T.launch_thread("threadIdx.x", 8) as tx:
        B[bx * 8 + tx] = A[bx * 8 + tx] * T.float32(2)''',
    "for the rest of the suite": '''
    bx = T.launch_thread("blockIdx.x", 5)
    tx = T.launch_thread("threadIdx.x", 8)
    B[bx * 8 + tx] = A[bx * 8 + tx] * T.float32(2)''',
    "declared before": '''
    bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    with T.launch_thread(bx, 5):
        T.attr(tx, "thread_extent", 8)
        B[bx * 8 + tx] = A[bx * 8 + tx] * T.float32(2)'''}


@pytest.mark.parametrize("name", THREADS)
def test_threads(name):
    head = '@T.prim_func\ndef main(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):'
    func = check(from_source(head + THREADS[name]))
    assert structural_equal(func, from_source(head + THREADS["names after with"]))
    outer, inner = sorted(collect(func, tir.AttrStmt), key=lambda s: s.value.value)
    assert outer.target.thread_tag == "blockIdx.x" and inner.attr_key == "thread_extent"
    x, y = np.arange(40, dtype="float32"), np.zeros(40, "float32")
    run(func, x, y)
    np.testing.assert_array_equal(y, x * 2)


def test_a_loop_bound_to_a_thread_and_virtual_threads():
    @T.prim_func
    def main(A: T.Buffer((32,), "float32")):
        for i in T.thread_binding(0, 4, thread="blockIdx.x", annotations={"a": 1}):
            vt = T.env_thread("vthread.x")
            T.launch_thread(vt, 2)
            for j in T.thread_binding(4, "threadIdx.y"):
                A[i * 8 + vt * 4 + j] = T.float32(1)
    check(main)
    assert [s.attr_key for s in collect(main, tir.AttrStmt)] == ["virtual_thread"]


# ---------------------------------------------------------------- lowered programs

def test_a_lowered_program():
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
        T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True), "target": T.target("llvm"),
                     "other": T.target({"kind": "c", "keys": ["cpu"]})})
        T.preflattened_buffer(A, [8, 8], dtype="float32", data=A.data)
        A_1 = T.Buffer((8, 8), "float32", data=A.data)
        with T.allocate([8], "float32", "local") as tmp:
            tmp_1 = T.Buffer((8,), data=tmp, scope="local")
            T.attr(tmp, "storage_alignment", 128)
            for i in T.serial(8):
                tmp_1[0:8] = A_1[i, 0:8] * T.broadcast(T.float32(2), 8)
                if T.likely(i < n):
                    B[i * 8:i * 8 + 8] = tmp_1[0:8]
                else:
                    for j in T.unroll(8):
                        B[i * 8 + j] = T.Select(j < 4, T.float32(-1), T.if_then_else(i > 6, T.float32(3), tmp_1[j]))
    check(main)
    assert main.attrs["target"] == Target("llvm") and main.attrs["other"] == Target("c")
    (tmp,) = collect(main, tir.DeclBuffer)
    assert {id(b) for b in collect(main, tir.Buffer) if b.scope == "local"} == {id(tmp.buffer)}, \
        "a buffer over an allocation that says nothing new is the allocation"


def test_handles_and_pointers():
    @T.prim_func
    def main(p: T.handle, q: T.handle("float32"), r: T.Ptr(T.float32), s: T.Ptr[T.int8], n: T.int64):
        P = T.match_buffer(p, (n,), "float32", strides=(2,), elem_offset=4, scope="global", align=32, offset_factor=4)
        Q = T.decl_buffer((n,), data=q)
        R = T.Buffer((n,), "float32", data=r)
        S = T.buffer_decl((n,), "int8", data=s)
        for i in range(n):
            with T.block("opaque"):
                vi = T.axis.opaque(n, i)
                T.reads(Q[vi], R[vi], S[vi])
                T.writes(P[vi])
                P[vi] = Q[vi] + R[vi] + T.Cast("float32", S[vi])
                T.evaluate(T.call_extern("int32", "f", T.address_of(Q[0]), P.data, P.access_ptr("w")))
    check(main)
    block = [b for b in collect(main, tir.Block) if b.name_hint == "opaque"][0]
    assert len(block.reads) == 3 and block.iter_vars[0].iter_type == "opaque"
    assert [p.dtype for p in main.params] == ["handle"] * 4 + ["int64"]
    layout = main.buffers[0]
    assert (layout.data_alignment, layout.offset_factor, layout.elem_offset.value) == (32, 4, 4)


def test_flow_lets_and_assertions():
    @T.prim_func(private=True)
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        with T.Assert(n > 0, "n is a size"):
            half: T.let[T.int32] = T.ceildiv(n, 2)
            k = T.decl_buffer((), "int32")
            k[()] = 0
            while T.all(k[()] < half, A[k[()]] >= 0):
                A[k[()]] = (A[k[()]] << 1 | 1) ^ T.let(v, k[()] * k[()], v & 3) + T.Let(w + 1, where={w: half})
                k[()] = k[()] + 1
            with T.LetStmt(A[0]) as first:
                T.evaluate(T.call_packed("trace", first))
        T.evaluate(0)
    check(main)
    assert main.attrs == {} and isinstance(main.body, tir.SeqStmt) and isinstance(main.body.seq[0], tir.AssertStmt)
    def reference(x, n):
        k = 0
        while k < (n + 1) // 2 and x[k] >= 0:
            x[k] = (x[k] << 1 | 1) ^ ((k * k & 3) + (n + 1) // 2 + 1)
            k += 1
    body = main.body.seq[0].body
    numbers = main.replace(body=body.replace(body=body.body.replace(body=tir.SeqStmt(body.body.body.seq[:2]))))
    x = np.array([3, 5, 8, 1, 0, 2, 9, 4], "int32")
    y = x.copy()
    run(numbers, x, 7)
    reference(y, 7)
    np.testing.assert_array_equal(x, y)


# ---------------------------------------------------------------- Python around scripts

def test_a_module_made_in_a_function():
    rows, dtype, shape = 6, "float16", (6, 4)

    @T.macro
    def clear(buffer, i, j):
        buffer[i, j] = T.Cast(dtype, T.float32(0))

    @I.ir_module
    class Module:
        I.module_attrs({"rows": rows})

        @T.prim_func(private=True)
        def main(A: T.Buffer(shape, dtype), B: T.Buffer(shape, dtype)):
            for i, j in T.grid(*shape):
                with T.block(f"copy_{rows}"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    clear(B, vi, vj)
                    if rows > 4:
                        B[vi, vj] += A[vi, vj]
    assert Module.attrs == {"rows": 6} and structural_equal(from_source(Module.script()), Module)
    x, y = np.arange(24).reshape(shape).astype(dtype), np.ones(shape, dtype)
    run(Module["main"], x, y)
    np.testing.assert_array_equal(y, x)


def test_names_from_outside_and_unchecked_programs():
    text = "@T.prim_func\ndef main(A: T.Buffer((N,), 'int8')):\n    A[0] = T.int8(K)"
    func = from_source(text, extra_vars={"N": 4, "K": 3})
    assert int(func.buffers[0].shape[0]) == 4
    free = tir.Var("free")

    @T.prim_func(check_well_formed=False)
    def main(A: T.Buffer((4,), "int32")):
        A[0] = free
    assert collect(main, tir.BufferStore)[0].value is free


def test_what_nothing_defines_is_declared():
    @T.prim_func(check_well_formed=False)
    def main(A: T.Buffer((4,), "int32")):
        n = T.int32()
        size = T.int64()
        pointer = T.handle()
        out = T.Buffer((2,), "int32", strides=(2,))
        seen = T.Buffer((size,), "int32", data=pointer)
        for i in range(n):
            A[i] = n + out[1] + seen[0]
            x: T.int32 = i
            view = T.Buffer((2, 2), "int32", data=A.data)
            view[x, 0] = 1
    text = main.script()
    assert [line.strip() for line in text.split("\n")[4:9]] == [
        "n = T.int32()", "size = T.int64()", 'view = T.Buffer((2, 2), "int32", data=A.data)',
        'out = T.Buffer((2,), "int32", strides=(2,))', 'seen = T.Buffer((size,), "int32")']
    assert structural_equal(from_source(text, check_well_formed=False), main, map_free_vars=True)


def test_a_block_alone_declares_no_sizes_that_a_match_brings():
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32")):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                s = T.int32()
                row = T.match_buffer(A[vi, 0:8], (8,), "int32", strides=(s,))
                row[0] = 1
    check(main)
    assert 'row = T.match_buffer(A[vi, 0:8], (8,), "int32", strides=("s",))' in main.script()


def test_nodes_between_passes_have_words():
    """T.realize, T.prefetch and what buffer_bind_scope defines."""
    @T.prim_func
    def main(A: T.Buffer((16, 16), "int32"), n: T.int32):
        T.prefetch(A, [T.Range(0, 8), T.Range(n, n + 8)])
        with T.realize(A[0:16, n:n + 2], "local", n < 4):
            A[0, n] = 1
        B = T.Buffer((4,), "int32")
        T.realize(B[0:4], "global")
        T.attr([B, A], "buffer_bind_scope", T.tvm_tuple(0, 1, n, 4))
        B[1] = 2
    text = main.script()
    assert from_source(text).script() == text and structural_equal(from_source(text), main, map_free_vars=True)
    assert "T.prefetch(A, [T.Range(0, 8), T.Range(n, n + 8)])" in text
    assert 'with T.realize(A[0:16, n:n + 2], "local", condition=n < 4):' in text and 'T.realize(B[0:4], "global")' in text


@pytest.mark.parametrize("lines, message", [
    ("vi = T.axis.spatial(8, i)|vi = T.axis.spatial(8, i)", "iterator vi is defined twice"),
    ("vi = T.axis.spatial(0.5, i)", "its domain is float32"),
    ("B = T.alloc_buffer((8,))|B = T.alloc_buffer((8,))", "buffer B is defined twice"),
    ("B = T.alloc_buffer('(8,)')", "not the string '\\(8,\\)'"), ("for k in T.serial('1'):|    pass", "not over strings"),
    ("A[i, i] = A[i:i + 2, i]", "a vector along the last dimension"), ("with T.block('') as x:|    pass", "`as x` could name"),
    ("with T.block('') as (x, y):|    pass", "`as \\(x, y\\)` could name"),
    ("with T.launch_thread('threadIdx.x', 8) as (x, y):|    pass", "one name after `as`"),
])
def test_slips_are_refused(lines, message):
    body = "".join(f"            {line}\n" for line in lines.split("|"))
    with pytest.raises(ScriptError, match=message):
        from_source("@T.prim_func\ndef main(A: T.Buffer((8, 8))):\n    for i in range(8):\n        with T.block('b'):\n" + body)


def test_attributes_speak_of_dimensions_that_buffers_define():
    func = from_source("""@T.prim_func
def main(a: T.handle):
    m, s = T.int32(), T.int32()
    T.func_attr({"x": [m, s + 1]})
    A = T.match_buffer(a, (m, 4), strides=(s, 1))
    A[0, 0] = 1.0""")
    assert structural_equal(from_source(func.script()), func)


def test_a_function_alone_names_others_of_its_module():
    text = "@T.prim_func\ndef main(f: T.int32):\n    f_1(f)"
    func = from_source(text)
    assert func.body.value.op == GlobalVar("f_1") and from_source(func.script()).body.value.op == GlobalVar("f_1")
    free = from_source(text.replace("f_1(f)", "g(f)")).replace(body=Evaluate(Call("void", GlobalVar("f"), ())))
    assert structural_equal(from_source(free.script()), free)  # the parameter is not called f, then


def test_a_thread_of_several_launches():
    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(tx, 4):
            A[tx] = 1
        T.launch_thread(tx, 8)
        A[tx] = A[tx] + 1
    check(main)
    assert main.script().count('tx = T.env_thread("threadIdx.x")') == 1
