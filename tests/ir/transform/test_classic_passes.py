"""Passes that scripts call and no pipeline uses: what each makes of a small program."""
import numpy as np
import pytest
from interp import run
from tir_cases import arguments, assert_same_results, results

import ingot as tvm
from ingot.ir.expr import Var, const
from ingot.ir.node import collect, structural_equal
from ingot.ir.tir import Evaluate, For, LetStmt, PrimFunc
from ingot.ir.transform.classic import CLASSIC
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T


def done(name, func, *args, config=None):
    with tvm.transform.PassContext(config=config or {}):
        return getattr(tvm.tir.transform, name)(*args)(tvm.IRModule({"main": func}))["main"]


def assert_becomes(name, before, expected, *args, config=None):
    tvm.ir.assert_structural_equal(done(name, before, *args, config=config).with_attr("global_symbol", "main"),
                                   expected.with_attr("global_symbol", "main"))


def test_functions_are_chosen_and_marked():
    @T.prim_func
    def seen(A: T.Buffer((4,), "int32")):
        A[0] = 1

    @T.prim_func(private=True)
    def own(A: T.Buffer((4,), "int32")):
        A[0] = 1

    mod = tvm.IRModule({"seen": seen, "own": own})
    marked = CLASSIC["AnnotateEntryFunc"]()(mod)
    assert marked["seen"].attrs["tir.is_entry_func"] and "tir.is_entry_func" not in marked["own"].attrs
    assert list(CLASSIC["Filter"](lambda f: "global_symbol" in f.attrs)(mod).functions) == ["seen"]
    bound = CLASSIC["BindTarget"](tvm.target.Target("cuda"))(mod.with_function("own", own.with_attr("target", "c")))
    assert [f.attrs["target"] for f in bound.functions.values()] == [tvm.target.Target("cuda"), "c"]
    of_host = CLASSIC["BindTarget"](tvm.target.Target("cuda", host="c"))(
        tvm.IRModule({"own": own.with_attr("tir.is_host_func", 1)}))["own"]
    assert of_host.attrs == {"target": tvm.target.Target("c", host="c")}
    assert CLASSIC["Apply"](lambda f: f.with_attr("mark", 1))(mod)["own"].attrs["mark"] == 1


def test_assumptions_and_undefined_values_go():
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(A[i] > 0))
        for i in range(16):
            A[i] = T.undef(dtype="int32") + 1
            B[i] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = A[i]

    assert_becomes("RemoveStoreUndef", done("RemoveAssume", before), expected)


def test_conditions_and_lets_leave_loops():
    @T.prim_func
    def before(A: T.Buffer((16, 8), "float32"), n: T.int32):
        for i in range(16):
            for j in range(8):
                twice: T.int32 = n * 2
                if i + twice < 9:
                    A[i, j] = T.float32(0)

    @T.prim_func
    def expected(A: T.Buffer((16, 8), "float32"), n: T.int32):
        twice: T.int32 = n * 2
        for i in range(16):
            if i + twice < 9:
                for j in range(8):
                    A[i, j] = T.float32(0)

    assert_becomes("HoistExpression", before, expected)
    never = {"tir.HoistExpression": {"hoisted_conditionals": 0, "hoisted_let_bindings": 0}}
    assert_becomes("HoistExpression", before, before, config=never)


def test_what_reads_memory_stays():
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            if A[0] < 3:
                A[i] = A[i] + 1

    for name in ("HoistIfThenElse", "HoistExpression"):
        assert_becomes(name, before, before)


def test_variables_of_lets_are_where_conditions_need_them():
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "bool"), n: T.int32):
        c: T.bool = A[0] == n
        A[1] = 1
        for i in range(8):
            B[i] = A[i] < 2 or c
        for i in range(8):
            x: T.int32 = A[0]
            if x < 3:
                A[i] = A[i] + 2

    for n in (0, 1):
        inputs = [np.zeros(8, np.int32), np.zeros(8, bool), n]
        assert_same_results(results(before, inputs), done("HoistExpression", before), inputs)


def test_a_branch_with_an_else_is_around_both_loops():
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            if n < 3:
                A[i] = 1
            else:
                A[i] = 2

    after = done("HoistIfThenElse", before)
    assert isinstance(after.body, tvm.tir.IfThenElse) and len(collect(after.body, For)) == 2
    for n in (1, 5):
        inputs = [np.zeros(8, np.int32), n]
        assert_same_results(results(before, inputs), after, inputs)


def test_definitions_are_the_only_ones():
    v = Var("v", "int32")
    twice = LetStmt(v, const(1), tvm.tir.SeqStmt((Evaluate(v), LetStmt(v, v + 1, Evaluate(v)), Evaluate(v))))
    after = CLASSIC["ConvertSSA"]()(tvm.IRModule({"a": PrimFunc((), {}, twice), "b": PrimFunc((), {}, twice)}))
    lets = collect([f.body for f in after.functions.values()], LetStmt)
    assert len({id(s.var) for s in lets}) == len(lets) == 4
    outer = after["a"].body
    inner = outer.body.seq[1]
    assert inner.value.a is outer.var and inner.body.value is inner.var and outer.body.seq[2].value is outer.var


def test_indices_become_int32():
    @T.prim_func
    def before(A: T.Buffer((T.int64(4),), "float32"), n: T.int64):
        for i in T.serial(T.int64(4)):
            A[i] = T.Cast("float32", i + n)

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            A[i] = T.Cast("float32", i + n)

    assert_becomes("ForceNarrowIndexToInt32", before, expected)

    @T.prim_func
    def held(A: T.Buffer((4,), "int64")):
        A[0] = T.int64(1)
    with pytest.raises(ValueError, match="buffer A holds int64"):
        done("ForceNarrowIndexToInt32", held)


def test_parameters_keep_their_shapes_when_accesses_are_flat():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "bool")):
        for i, j in T.grid(4, 8):
            A[i, j] = A[i, j] + T.float32(1)
            B[j] = B[j]

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "bool")):
        flat = T.Buffer((32,), "float32", data=A.data)
        bytes_ = T.Buffer((8,), "int8", data=B.data)
        for i, j in T.grid(4, 8):
            flat[i * 8 + j] = flat[i * 8 + j] + T.float32(1)
            bytes_[j] = T.Cast("int8", T.Cast("bool", bytes_[j]))

    assert_becomes("FlattenBuffer", before, expected)


def test_axis_separators_keep_a_dimension_each():
    @T.prim_func
    def before(a: T.handle, B: T.Buffer((2, 3), "float32", axis_separators=[2])):
        A = T.match_buffer(a, (2, 3, 4, 5), "float32", axis_separators=[1, 3])
        for i, j, k, l in T.grid(2, 3, 4, 5):
            with T.block("sums"):
                T.reads(A[i, j:j + 1, k, l], B[i, j])
                A[i, j, k, l] = A[i, j, k, l] + B[i, j]

    @T.prim_func
    def expected(a: T.handle, B: T.Buffer((2, 3), "float32", axis_separators=[2])):
        A = T.match_buffer(a, (2, 3, 4, 5), "float32", axis_separators=[1, 3])
        grid = T.Buffer((2, 12, 5), "float32", data=A.data, axis_separators=[1, 2])
        line = T.Buffer((6, 1), "float32", data=B.data, axis_separators=[1])
        for i, j, k, l in T.grid(2, 3, 4, 5):
            with T.block("sums"):
                T.reads(grid[i, j * 4 + k, l], line[i * 3 + j, 0])
                grid[i, j * 4 + k, l] = grid[i, j * 4 + k, l] + line[i * 3 + j, 0]

    assert_becomes("FlattenBuffer", before, expected)
    lowered = lower_prim_func(before)  # whose memory is flat
    assert [len(buffer.shape) for buffer in lowered.buffers] == [1, 1]
    a, b = np.arange(120, dtype="float32"), np.arange(6, dtype="float32")
    run(lowered, a, b)
    assert (a.reshape(2, 3, 20) == np.arange(120).reshape(2, 3, 20) + b.reshape(2, 3, 1)).all()


def test_one_loop_an_axis_of_threads():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32")):
        for i in T.thread_binding(4, "blockIdx.x"):
            for j in T.thread_binding(8, "threadIdx.x"):
                A[i, j] = T.float32(1)
            for j in T.thread_binding(8, "threadIdx.x"):
                A[i, j] = A[i, j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "float32")):
        for i in T.thread_binding(4, "blockIdx.x"):
            for j in T.thread_binding(8, "threadIdx.x"):
                A[i, j] = T.float32(1)
                A[i, j] = A[i, j] + T.float32(1)

    assert_becomes("UnifyThreadBinding", before, expected)
    launched = done("LowerOpaqueBlock", expected)
    assert [s.attr_key for s in collect(launched.body, tvm.tir.AttrStmt)] == ["thread_extent"] * 2

    @T.prim_func
    def uneven(A: T.Buffer((8,), "float32")):
        for i in T.thread_binding(1, "blockIdx.x"):
            for j in T.thread_binding(8, "threadIdx.x"):
                A[j] = T.float32(1)
            for j in T.thread_binding(4, "threadIdx.x"):
                A[j] = T.float32(1)
    with pytest.raises(ValueError, match="bound to threadIdx.x have one extent"):
        done("UnifyThreadBinding", uneven)


def test_small_passes():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32")):
        assert A[0] > T.float32(-100), "a number"
        for i in T.parallel(8):
            A[i] = T.Select(i < 7, A[i], T.float32(0))

    after = before
    inputs = arguments(before)
    for name in ("ConvertForLoopsToSerial", "SkipAssert", "RewriteUnsafeSelect", "DecorateDeviceScope"):
        after = done(name, after)
    assert after.body.attr_key == "device_scope" and after.body.body.kind == "serial"
    assert after.body.body.body.value.op == "tir.if_then_else"
    assert_same_results(results(done("SkipAssert", before), inputs), after, inputs)


def test_weights_come_in_the_layout_of_their_copy():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(W: T.Buffer((4, 8), "float32"), C: T.Buffer((8, 4), "float32")):
            V = T.alloc_buffer((8, 4))
            for i, j in T.grid(4, 8):
                with T.block("rewrite"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    V[vj, vi] = W[vi, vj]
            for i, j in T.grid(8, 4):
                with T.block("copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = V[vi, vj]

    after = CLASSIC["RemoveWeightLayoutRewriteBlock"]()(Module)["main"]
    assert structural_equal(after.buffers[0].shape, (const(8), const(4))) and not after.root.alloc_buffers


def test_what_a_statement_repeats_is_a_variable():
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32, m: T.int32):
        for i in range(4):
            if n > m:
                A[i] = (n + m) * 2 + i * 8
                A[i + 8] = i * 8
            else:
                A[i] = (n + m) * 2
            A[i + 16] = T.if_then_else(m != 0, n // m + n // m, n)

    after = done("CommonSubexprElimTIR", before)
    lets = {s.var.name: (str(s.value), s) for s in collect(after.body, LetStmt)}
    assert {name: text for name, (text, _) in lets.items()} == {"cse_var_1": "(n + m) * 2", "cse_var_2": "i * 8"}
    assert after.body is lets["cse_var_1"][1] and isinstance(lets["cse_var_2"][1].body, tvm.tir.SeqStmt)
    for n, m in ((5, 3), (2, 0), (1, 7)):
        inputs = [np.zeros(64, np.int32), n, m]
        assert_same_results(results(before, inputs), after, inputs)
    assert_becomes("CommonSubexprElimTIR", before, before, config={"tir.disable_cse_tir": True})


def test_zeros_of_two_signs_are_two_values():
    @T.prim_func
    def before(A: T.Buffer((2,), "float32"), x: T.float32):
        A[0] = x * T.float32(0.0)
        A[1] = x * T.float32(-0.0)

    assert not collect(done("CommonSubexprElimTIR", before).body, LetStmt)


def test_equal_values_are_one_variable():
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), x: T.int32, y: T.int32):
        A[0] = x * (y + 2)
        A[1] = x * y + x * 2

    assert not collect(done("CommonSubexprElimTIR", before).body, LetStmt)
    after = done("CommonSubexprElimTIR", before, True, True)
    assert isinstance(after.body, LetStmt) and not collect(after.body.body, tvm.tir.Add)
    inputs = [np.zeros(4, np.int32), 3, 5]
    assert_same_results(results(before, inputs), after, inputs)


def test_simplify_keeps_what_did_nothing_before():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int32):
        A[0] = T.Cast("float32", 3)
        T.evaluate(0)
        for i in range(n):
            T.evaluate(0)
        for i in range(n):
            A[i] = A[i + 0]
        for i in range(n):
            if i < n:
                A[i] = T.Cast("float32", n - n + 2)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), n: T.int32):
        A[0] = T.float32(3)
        T.evaluate(0)
        for i in range(n):
            T.evaluate(0)
        for i in range(n):
            A[i] = T.float32(2)

    assert_becomes("Simplify", before, expected)
    inputs = [np.zeros(8, "float32"), 5]
    assert_same_results(results(before, inputs), done("Simplify", before), inputs)


def test_predicates_are_about_loops():
    @T.prim_func(check_well_formed=False)
    def func(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                T.where(vi < 6)
                A[vi] = 1

    with pytest.raises(ValueError, match="block b: its predicate vi < 6 names its iterator vi"):
        done("ConvertBlocksToOpaque", func)
