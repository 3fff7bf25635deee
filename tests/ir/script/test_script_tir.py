"""Classic TensorIR scripts, as people write them: what they mean by structure and by running them."""
import numpy as np
import pytest
from interp import run

from ingot.ir import te, tir
from ingot.ir.expr import Var, const
from ingot.ir.module import IRModule
from ingot.ir.node import collect, structural_equal
from ingot.ir.script import script
from ingot.ir.script.functions import from_source
from ingot.ir.tir.verifier import verify
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T

M = 16


def check_equal(a, b):
    assert structural_equal(a, b), f"\n{a}\n----\n{b}"


# ---------------------------------------------------------------- matrix products

@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    T.func_attr({"global_symbol": "matmul", "tir.noalias": True})
    A = T.match_buffer(a, (M, M), "float32")
    B = T.match_buffer(b, (M, M), "float32")
    C = T.match_buffer(c, [M, M], dtype="float32")
    for i, j, k in T.grid(M, M, M):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_match_buffer_grid_remap_and_init():
    verify(matmul)
    block = collect(matmul, tir.Block)[0]
    assert [iv.iter_type for iv in block.iter_vars] == ["spatial", "spatial", "reduce"]
    assert matmul.attrs == {"global_symbol": "matmul", "tir.noalias": True}
    a, b = (np.random.default_rng(n).standard_normal((M, M)).astype(np.float32) for n in (1, 2))
    c = np.zeros((M, M), np.float32)
    run(matmul, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_signatures_are_found_from_the_accesses():
    """As TVM completes them: a reduction does not list what it updates among its reads."""
    block = collect(matmul, tir.Block)[0]
    assert [script(r) for r in block.reads] == ["A[vi, vk]", "B[vk, vj]"]
    assert [script(r) for r in block.writes] == ["C[vi, vj]"]


def test_it_is_what_te_makes():
    a, b = te.placeholder((M, M), name="A"), te.placeholder((M, M), name="B")
    k = te.reduce_axis((0, M), "k")
    c = te.compute((M, M), lambda i, j: te.sum(a[i, k.var] * b[k.var, j], k), name="C")
    made = te.create_prim_func([a, b, c], attrs=dict(matmul.attrs))
    check_equal(matmul, made)


def test_buffers_in_the_signature_in_both_spellings():
    @T.prim_func
    def new(A: T.Buffer((8, 4), "float32"), B: T.Buffer(8, "int8"), n: T.int32):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.cast(A[vi, 0], "int8")

    @T.prim_func
    def old(A: T.Buffer[(8, 4), "float32"], B: T.Buffer[8, "int8"], n: T.int32):
        for i in T.serial(0, 8):
            with T.block("b"):
                vi = T.axis.S(8, i)
                B[vi] = A[vi, 0].astype("int8")
    check_equal(new.replace(attrs={}), old.replace(attrs={}))
    assert new.attrs == {"global_symbol": "new"}


def test_symbolic_shapes():
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int64()
        m = T.var("int32")
        A = T.match_buffer(a, (n, m), "float32", strides=[m, 1])
        B = T.match_buffer(b, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
    verify(main)
    loops = collect(main, tir.For)
    assert {loop.loop_var.dtype for loop in loops} == {"int64", "int32"}
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    run(main, x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_a_decomposed_reduction():
    @T.prim_func
    def main(A: T.Buffer((8, 5), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B_init"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.float32(0)
            for k_0, k_1 in T.grid(3, 2):
                with T.block("B_update"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(5, k_0 * 2 + k_1)
                    T.where(k_0 * 2 + k_1 < 5)
                    B[vi] = B[vi] + A[vi, vk]
    verify(main)
    x, y = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32), np.zeros(8, np.float32)
    run(main, x, y)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-5)
    update = next(b for b in collect(main, tir.Block) if b.name_hint == "B_update")
    assert [r.buffer.name for r in update.reads] == ["B", "A"]


def test_block_attributes_kinds_of_loops_and_scopes():
    @T.prim_func
    def main(A: T.Buffer((128,), "float32")):
        tmp = T.alloc_buffer((128,), scope="local", align=16)
        for i0 in T.parallel(4):
            for i1 in T.serial(2, annotations={"pragma_x": 1}):
                for i2 in T.unroll(2):
                    for i3 in T.vectorized(8):
                        with T.block("x"):
                            vi = T.axis.spatial(128, i0 * 32 + i1 * 16 + i2 * 8 + i3)
                            T.block_attr({"a": 1, "b": "two"})
                            tmp[vi] = A[vi]
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("y"):
                vi = T.axis.opaque(128, tx)
                A[vi] = tmp[vi] * 2.0
    assert [(x.kind, x.thread_binding, x.annotations) for x in collect(main, tir.For)] == [
        ("vectorized", None, {}), ("unrolled", None, {}), ("serial", None, {"pragma_x": 1}), ("parallel", None, {}),
        ("thread_binding", "threadIdx.x", {})]
    (tmp,) = main.root.alloc_buffers
    assert (tmp.scope, tmp.data_alignment) == ("local", 16)
    assert collect(main, tir.Block)[0].annotations == {"a": 1, "b": "two"}


def test_opaque_blocks_and_matched_regions():
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32")):
        for i in range(4):
            with T.block(""):
                T.reads([])
                T.writes(A[i * 4:i * 4 + 4, 0:16])
                tile = T.match_buffer(A[i * 4:i * 4 + 4, 0:16], (4, 16), "float32", strides=[T.int32(16), 1],
                                      offset_factor=1)
                for j in range(16):
                    tile[0, j] = 1.0
    (block,) = [b for b in collect(main, tir.Block) if b.match_buffers]
    (match,) = block.match_buffers
    assert isinstance(match.buffer.elem_offset, Var), "an offset factor asks for an offset that is matched"
    assert match.source.region[0].extent.value == 4 and block.iter_vars == ()


# ---------------------------------------------------------------- lowered programs

def test_lets_asserts_attributes_and_flow():
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), n: T.int32):
        assert n > 0, "n must be positive"
        half: T.int32 = n // 2
        T.attr(A.data, "pragma_x", 1)
        work = T.decl_buffer((16,), "float32", scope="local")
        i = T.decl_buffer((1,), "int32")
        i[0] = 0
        while i[0] < half:
            if i[0] % 2 == 0 and not i[0] == 4:
                work[i[0]] = T.exp(A[i[0]])
            elif i[0] > 7:
                T.evaluate(T.call_extern("int32", "trace", i[0], "odd"))
            else:
                work[i[0]] = T.if_then_else(n > 3, A[i[0]], 0.0)
            i[0] += 1
    body = main.body
    assert isinstance(body, tir.AssertStmt) and body.message.value == "n must be positive"
    assert isinstance(body.body, tir.LetStmt) and isinstance(body.body.body, tir.AttrStmt)
    assert len(collect(main, tir.DeclBuffer)) == 2 and len(collect(main, tir.While)) == 1
    verify(main)


def test_with_forms_end_where_their_suite_ends():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        with T.LetStmt(A[0] + 1.0) as x:
            A[1] = x
        with T.Assert(A[1] > 0.0, "positive"):
            with T.decl_buffer((4,), "float32") as B, T.attr(B, "key", 2):
                B[0] = A[1]
        with T.While(A[0] < 3.0):
            A[0] = A[0] + 1.0
        A[2] = T.float32(2)
    assert [type(s).__name__ for s in main.body.seq] == ["LetStmt", "AssertStmt", "While", "BufferStore"]


def test_vectors():
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(2):
            B[T.ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)] * T.broadcast(T.float32(2), 8)
            B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + 1.0
    first, second = collect(main, tir.BufferStore)
    assert structural_equal(first.indices, second.indices), "a slice is a vector"
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run(main, x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_allocate_is_a_declared_buffer():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        data = T.allocate([8], "float32", "local")
        view = T.Buffer((2, 4), "float32", data=data)
        data[0] = A[0]
        view[1, 2] = data[0]
        A[1] = view[1, 2]
    (decl,) = collect(main, tir.DeclBuffer)
    view = collect(main, tir.BufferStore)[1].buffer
    assert decl.buffer.scope == "local" and view.data is decl.buffer.data


# ---------------------------------------------------------------- Python around the script

def make_scaled(rows, factor, dtype="float32"):
    half = rows // 2

    @T.prim_func(private=True)
    def scaled(A: T.Buffer((rows, half), dtype), B: T.Buffer((rows, half), dtype)):
        for i, j in T.grid(rows, half):
            with T.block("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                width = T.meta_var(half * 2 - half)
                B[vi, vj] = A[vi, vj % width] * factor
    return scaled


def test_constants_are_captured():
    func = make_scaled(6, 3.0)
    assert func.attrs == {}
    assert [b.extent.value for b in collect(func, tir.For)] == [3, 6]
    x, y = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32), np.zeros((6, 3), np.float32)
    run(func, x, y)
    np.testing.assert_allclose(y, x * 3)


def test_conditions_of_python_choose_when_the_script_is_read():
    def make(relu):
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                if relu:
                    A[i] = T.max(A[i], 0.0)
                else:
                    A[i] = A[i] + 1.0
        return main
    assert "T.max" in str(make(True)) and "T.max" not in str(make(False))


def test_helpers_of_python_make_expressions():
    def clamp(x, low, high):
        return tir.max(tir.min(x, high), low)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = clamp(A[i], 0.0, sum([2.0 for _ in range(3)]))
    assert "T.max(T.min(A[i], T.float32(6.0)), T.float32(0.0))" in str(main)


def test_macros():
    @T.macro
    def add_to(buffer, index, value):
        buffer[index] = buffer[index] + value

    @T.macro(hygienic=False)
    def twice(index):
        A[index] = A[index] * 2.0
        A[index] = A[index] * 2.0

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            add_to(A, i, 1.0)
            twice(index=3 - i)
    assert len(collect(main, tir.BufferStore)) == 3
    x = np.zeros(4, np.float32)
    run(main, x)
    check_equal(main, from_source("""
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] + T.float32(1)
                A[3 - i] = A[3 - i] * 2.0
                A[3 - i] = A[3 - i] * 2.0
    """))


def _added(buffer, index):
    buffer[index] = buffer[index] + T.float32(M)


def test_a_macro_sees_its_own_globals_whoever_decorates_it():
    elsewhere = {}
    exec("def decorated(decorator, f): return decorator(f)", elsewhere)
    added = elsewhere["decorated"](T.macro, _added)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        added(A, 2)
    x = np.zeros(4, np.float32)
    run(main, x)
    assert x.tolist() == [0, 0, M, 0]


# ---------------------------------------------------------------- modules

@I.ir_module
class Two:
    I.module_attrs({"name": "two"})

    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)

    @T.prim_func
    def noop(n: T.int64):
        T.evaluate(0)


def test_modules():
    assert isinstance(Two, IRModule) and list(Two.functions) == ["double", "noop"] and Two.attrs == {"name": "two"}
    assert Two["double"].attrs == {"global_symbol": "double"} and isinstance(Two["noop"].body, tir.Evaluate)
    check_equal(from_source(Two.script()), Two)


def test_text_may_hold_constants_and_several_functions():
    mod = from_source('''
        """Two functions."""
        from tvm.script import tir as TT
        import numpy

        N = 8 * 2
        @TT.macro
        def clear(A, i):
            A[i] = 0.0

        @TT.prim_func
        def first(A: TT.Buffer((N,), "float32")):
            for i in range(N):
                clear(A, i)

        @TT.prim_func(private=True)
        def second(A: "TT.Buffer((N,), 'float32')"):
            A[N - 1] = 1.0
    ''')
    assert list(mod.functions) == ["first", "second"] and mod["second"].attrs == {}
    assert collect(mod["first"], tir.For)[0].extent.value == 16
    assert collect(mod["second"], tir.BufferStore)[0].indices[0].value == 15


def test_literals_take_the_dtype_of_what_they_meet():
    @T.prim_func
    def main(A: T.Buffer((4,), "float16"), n: T.int64):
        A[n + 1] = 2 * A[0] + 0.5
        A[3] = 7
    stores = collect(main, tir.BufferStore)
    assert {e.dtype for e in collect(stores[0].value, tir.FloatImm)} == {"float16"}
    assert stores[0].indices[0].b.dtype == "int64" and structural_equal(stores[1].value, const(7, "float16"))


def test_nothing_is_folded():
    """A printed program reads back as it was; Python's numbers are computed with as Python does."""
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), i: T.int32):
        A[i * 1 + 0 + T.int32(2) * 3 + 8 // 4] = A[0] / 4.0
    assert "A[T.Add(T.Mul(i, 1), 0) + T.Mul(2, 3) + 2] = A[0] / T.float32(4.0)" in str(main)


@pytest.mark.parametrize("text", ["0 <= i < 4", "0 <= i and i < 4"])
def test_chained_comparisons(text):
    func = from_source(f"@T.prim_func\ndef main(i: T.int32):\n    assert {text}, 'range'\n    T.evaluate(0)")
    assert str(func.body.condition) == "0 <= i and i < 4"


def test_names_of_several_loops_and_iterators():
    """`for s in T.grid(...)` and `vi, *vs = T.axis.remap(...)`: each variable has a name of its own."""
    shape = (2, 3, 4)

    @T.prim_func
    def f(A: T.Buffer((5, *shape), "float32"), B: T.Buffer(shape, "float32")):
        for i in range(5):
            for s in T.grid(*shape):
                with T.block("A"):
                    vi, *vs = T.axis.remap("SSSS", [i, *s])
                    A[vi, *vs] = B[vs]
        for s in T.grid(*shape):
            with T.block("B"):
                v = T.axis.remap("SSS", s)
                B[v] = T.float32(0)

    @T.prim_func
    def spelled(A: T.Buffer((5, 2, 3, 4), "float32"), B: T.Buffer((2, 3, 4), "float32")):
        for i, s_0, s_1, s_2 in T.grid(5, 2, 3, 4):
            with T.block("A"):
                vi, vs_0, vs_1, vs_2 = T.axis.remap("SSSS", [i, s_0, s_1, s_2])
                A[vi, vs_0, vs_1, vs_2] = B[vs_0, vs_1, vs_2]
        for s_0, s_1, s_2 in T.grid(2, 3, 4):
            with T.block("B"):
                v_0, v_1, v_2 = T.axis.remap("SSS", [s_0, s_1, s_2])
                B[v_0, v_1, v_2] = T.float32(0)
    assert f.script().replace("def f(", "def spelled(") == spelled.script()


def test_let_of_a_variable_that_is_there():
    @T.prim_func
    def f(C: T.Buffer((2,), "int32")):
        x = T.int32()
        with T.LetStmt(3, var=x):
            C[0] = x
        with T.LetStmt(4, var=T.int32()) as y:
            C[1] = y
    lets = [s for s in f.body.seq]
    assert [s.var.name for s in lets] == ["x", "y"] and [s.value.value for s in lets] == [3, 4]
    assert structural_equal(from_source(f.script()), f)
