"""IRBuilder: what calls of Python's build is what a script of the same words says."""
import numpy as np
import pytest
from interp import run

import ingot as tvm
from ingot import relax, tir
from ingot.ir.relax.evaluate import evaluate
from ingot.script import ir as SI, relax as SR, tir as ST
from ingot.script.ir_builder import IRBuilder, IRBuilderFrame, ir as I, relax as R, tir as T


@ST.prim_func
def row_sums(A: ST.Buffer((6, 4), "float32"), B: ST.Buffer((6,), "float32"), n: ST.int32):
    ST.func_attr({"tir.noalias": True})
    scaled = ST.alloc_buffer((6, 4), "float32")
    for i, k in ST.grid(6, 4):
        with ST.block("scaled"):
            vi, vk = ST.axis.remap("SS", [i, k])
            scaled[vi, vk] = A[vi, vk] * ST.float32(2)
    for i, k in ST.grid(6, 4):
        with ST.block("sums"):
            vi, vk = ST.axis.spatial(6, i), ST.axis.reduce(4, k)
            ST.where(i < n)
            ST.block_attr({"mine": 1})
            with ST.init():
                B[vi] = ST.float32(0)
            B[vi] = B[vi] + scaled[vi, vk]


def built_row_sums():
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_name("row_sums")
            A = T.arg("A", T.Buffer((6, 4), "float32"))
            B = T.arg("B", T.Buffer((6,), "float32"))
            n = T.arg("n", T.int32())
            T.func_attr({"tir.noalias": True})
            scaled = IRBuilder.name("scaled", T.alloc_buffer((6, 4), "float32"))
            with T.grid(6, 4) as (i, k):
                with T.block("scaled"):
                    vi, vk = IRBuilder.name_many(["vi", "vk"], T.axis.remap("SS", [i, k]))
                    T.buffer_store(scaled, A[vi, vk] * T.float32(2), [vi, vk])
            with T.grid(6, 4) as (i, k):
                with T.block("sums"):
                    vi, vk = T.axis.spatial(6, i), T.axis.reduce(4, k)
                    T.where(i < n)
                    T.block_attr({"mine": 1})
                    with T.init():
                        T.buffer_store(B, 0, [vi])
                    T.buffer_store(B, B[vi] + scaled[vi, vk], [vi])
    return ib.get()


def test_a_prim_func_is_that_of_its_script():
    func = built_row_sums()
    tvm.ir.assert_structural_equal(func, row_sums)
    assert "vi, vk = T.axis.remap" in func.script() and "scaled = T.alloc_buffer" in func.script()
    assert func.attrs["global_symbol"] == "row_sums" and [p.name for p in func.params] == ["A_handle", "B_handle", "n"]
    a, b = np.arange(24, dtype="float32").reshape(6, 4), np.zeros(6, "float32")
    run(func, a, b, 5)
    np.testing.assert_allclose(b[:5], 2 * a.sum(1)[:5])


@ST.prim_func(check_well_formed=False)
def statements(p: ST.handle, n: ST.int32):
    A = ST.match_buffer(p, (64,), "int32")
    tx = ST.env_thread("threadIdx.x")
    with ST.launch_thread(tx, 8):
        with ST.attr("here", "mine", 3):
            with ST.Assert(n > 0, "n is positive"):
                with ST.LetStmt(n * 2) as twice:
                    with ST.allocate([4], "int32", "local") as local:
                        local[0] = twice
                        while A[0] < n:
                            A[0] = A[0] + 1
                        if n < 12:
                            A[1] = local[0]
                        else:
                            A[2] = ST.min(n, twice)
                        for j in ST.thread_binding(4, thread="threadIdx.y"):
                            A[j] = 7
                        for j in ST.vectorized(4, annotations={"k": 1}):
                            A[j + 8] = 7
                        A[16:20] = ST.Broadcast(ST.int32(5), 4)
                        ST.evaluate(ST.call_extern("int32", "f", n))


def test_every_statement_has_its_frame():
    with IRBuilder() as ib:
        with T.prim_func(is_private=True):
            p, n = T.arg("p", T.handle()), T.arg("n", T.int32())
            A, tx = T.match_buffer(p, (64,), "int32"), T.env_thread("threadIdx.x")
            with T.launch_thread(tx, 8), T.attr("here", "mine", 3), T.Assert(n > 0, "n is positive"):
                with T.LetStmt(n * 2) as twice, T.allocate([4], "int32", "local") as local:
                    T.buffer_store(local, twice, [0])
                    with T.While(A[0] < n):
                        T.buffer_store(A, A[0] + 1, [0])
                    with T.If(n < 12):
                        with T.Then():
                            T.buffer_store(A, local[0], [1])
                        with T.Else():
                            T.buffer_store(A, T.min(n, twice), 2)
                    with T.thread_binding(4, thread="threadIdx.y") as j:
                        T.buffer_store(A, 7, [j])
                    with T.vectorized(4, annotations={"k": 1}) as j:
                        T.buffer_store(A, 7, [j + 8])
                    T.buffer_store(A, T.Broadcast(T.int32(5), 4), [slice(16, 20)])
                    T.evaluate(T.call_extern("int32", "f", n))
    tvm.ir.assert_structural_equal(ib.get(), statements.without_attr("global_symbol"))


def test_pieces_and_values():
    with IRBuilder() as ib:
        with T.serial(4) as i:
            with T.let(T.int32(), i + 1) as v:
                T.evaluate(v)
    assert isinstance(ib.get(), tir.For) and isinstance(ib.get().body, tir.LetStmt)
    x, (a, b) = T.int32(), T.meta_var([3, 4])
    assert (a.value, b.value) == (3, 4) and isinstance(T.float32(2), tir.FloatImm)
    assert isinstance(T.Let(x + 1, {x: 2}), tir.Let) and T.Buffer((2, x)).shape[1] is x
    with IRBuilder() as ib:
        T.evaluate(T.comm_reducer(lambda p, q: p + q, [T.float32(0)]).identity[0])
    assert isinstance(ib.get(), tir.Evaluate)


def test_frames_may_be_entered_without_a_with():
    """A frame that another ends with: add_callback calls the last one first."""
    with IRBuilder() as ib:
        with T.serial(4) as i:
            outer = ib.frames[-1]
            inner = T.LetStmt(i * 2)
            v = inner.__enter__()
            outer.add_callback(lambda: inner.__exit__(None, None, None))
            T.evaluate(v)
    assert isinstance(ib.get().body, tir.LetStmt) and isinstance(outer, IRBuilderFrame)


def test_modules():
    with IRBuilder() as ib:
        with I.ir_module():
            I.module_attrs({"mine": 1})
            I.module_set_attr("other", 2)
            assert I.module_get_attrs() == {"mine": 1, "other": 2} and I.module_get_attr("mine") == 1
            I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})
            assert I.lookup_vdevice("cuda", 0).kind == "cuda"
            gv = I.decl_function("row_sums", row_sums)
            with R.function():
                R.func_name("main")
                x = R.arg("x", R.Tensor((6, 4), "float32"))
                gv = R.emit(R.call_tir(gv, (x,), R.Tensor((6,), "float32"), tir_vars=R.shape([6])))
                R.func_ret_value(gv)
            I.def_function("row_sums", row_sums)
    mod = ib.get()
    assert set(mod.functions) == {"row_sums", "main"} and mod.attrs == {"mine": 1, "other": 2}
    assert "R.call_tir(cls.row_sums" in mod.script()


@SI.ir_module
class Expected:
    @SR.function
    def main(x: SR.Tensor(("n", 4), "float32"), c: SR.Tensor((), "bool")) -> SR.Tensor(("n", 4), "float32"):
        SR.func_attr({"mine": 1})
        n = ST.int64()
        with SR.dataflow():
            lv = SR.add(x, x)
            y = SR.nn.relu(lv)
            SR.output(y)
        if c:
            z_then = SR.multiply(y, y)
            z = z_then
        else:
            z = y
        w = SR.match_cast(z, SR.Tensor((n, 4), "float32"))
        return w


def test_graph_functions_are_those_of_their_script():
    n = tir.Var("n", "int64")
    with IRBuilder() as ib:
        with I.ir_module():
            with R.function():
                R.func_name("main")
                R.func_attr({"mine": 1})
                x, c = R.arg("x", R.Tensor((n, 4), "float32")), R.arg("c", R.Tensor((), "bool"))
                R.func_ret_struct_info(R.Tensor((n, 4), "float32"))
                with R.dataflow() as block:
                    lv = R.emit(R.add(x, x))
                    y = IRBuilder.name("y", R.emit(R.nn.relu(lv)))
                    R.output(y)
                (y,) = block.output_vars
                with R.If(c) as branches:
                    with R.Then():
                        IRBuilder.name("z", R.emit(R.multiply(y, y)))
                    with R.Else():
                        IRBuilder.name("z", R.emit(y))
                w = R.emit_match_cast(branches.var, R.Tensor((n, 4), "float32"))
                R.func_ret_value(w)
    tvm.ir.assert_structural_equal(ib.get(), Expected)
    value = np.float32([[-1, 2, 3, -4]])
    for given in (True, False):
        got = evaluate(ib.get(), [value, np.array(given)])
        np.testing.assert_allclose(got, evaluate(Expected, [value, np.array(given)]))


def test_emit_te_adds_to_the_module():
    with IRBuilder() as ib:
        with I.ir_module():
            with R.function():
                R.func_name("main")
                x = R.arg("x", R.Tensor((3,), "float32"))
                R.func_ret_value(R.emit(R.emit_te(tvm.topi.add, x, x)))
    np.testing.assert_allclose(evaluate(ib.get(), [np.float32([1, 2, 3])]), [2, 4, 6])


@pytest.mark.parametrize("body, message", [
    (lambda: T.axis.spatial(8, 0), "stands in a function or block"),
    (lambda: T.alloc_buffer((8,)), "stands in a function or block"),
    (lambda: T.arg("a", T.int32()), "write `with T.prim_func"),
    (lambda: T.Then().__enter__(), "T.Then stands directly in a T.If"),
    (lambda: I.module_attrs({}), "write `with I.ir_module"),
    (lambda: R.emit(R.const(1)), "write `with R.function"),
    (lambda: [T.evaluate(0), T.evaluate(1)], "builds one thing"),
    (lambda: R.Then().__enter__(), "stand directly in an R.If"),
    (lambda: _inside(T.prim_func(), lambda: T.where(True)), "T.where outside a block"),
    (lambda: _inside(T.If(T.int32() < 1), lambda: T.evaluate(0)), "outside of T.Then and T.Else"),
    (lambda: _inside(T.If(T.int32() < 1), lambda: None), "has no T.Then"),
    (lambda: _inside(T.block("b"), lambda: T.axis.spatial(8)), "every iterator needs a value"),
    (lambda: _inside(I.ir_module(), lambda: _inside(T.prim_func(), lambda: T.evaluate(0))), "has a name"),
    (lambda: _inside(I.ir_module(), lambda: I.decl_function("f", row_sums)), "declared and not defined"),
    (lambda: _inside(R.function(), lambda: R.arg("x", R.Tensor((1,), "float32"))), "gives a value"),
])
def test_what_has_no_meaning_is_refused(body, message):
    with pytest.raises(ValueError, match=message):
        with IRBuilder():
            body()
    assert not IRBuilder.is_in_scope() and relax.BlockBuilder.current() is None
    with pytest.raises(ValueError, match="no IRBuilder is in its `with`"):
        T.evaluate(0)


def _inside(frame, body):
    with frame:
        body()


def test_nothing_built():
    with IRBuilder() as ib:
        assert IRBuilder.current() is ib
    with pytest.raises(ValueError, match="built nothing"):
        ib.get()
