"""Passes over calls between the PrimFuncs of a module: what each makes of a small one."""
import ml_dtypes
import numpy as np
import pytest
from interp import run
from tir_cases import assert_same_results, results

import ingot as tvm
from ingot.ir.node import collect, load_json, save_json
from ingot.ir.expr import Call, StringImm
from ingot.ir.module import GlobalVar
from ingot.ir.transform.classic import CLASSIC
from ingot.script import from_source
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T


@I.ir_module
class Sums:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            Sums.total(A.data, B.data, i)
            Sums.total(A.data, B.data, 3 - i)

    @T.prim_func(private=True)
    def total(A_data: T.handle("float32"), B_data: T.handle("float32"), row: T.int32):
        A = T.Buffer((4, 8), "float32", data=A_data)
        B = T.Buffer((4,), "float32", data=B_data)
        B[row] = T.float32(0)
        for j in range(8):
            B[row] = B[row] + A[row, j]


def test_calls_of_functions_are_read_printed_and_kept():
    call = Sums["main"].body.body.seq[0].value
    assert call.op == GlobalVar("total") and call.dtype == "void" and collect(Sums["main"], GlobalVar)
    for again in (from_source(Sums.script()), load_json(save_json(Sums))):
        tvm.ir.assert_structural_equal(again, Sums)

    @I.ir_module
    class Later:
        @T.prim_func
        def main(n: T.int32):
            err: T.int32 = Later.code(n)
            T.evaluate(err)

        @T.prim_func(private=True)
        def code(n: T.int32) -> T.int32:
            T.evaluate(T.ret(n))

    assert Later["main"].body.value.dtype == "int32"
    tvm.ir.assert_structural_equal(from_source(Later.script()), Later)


def test_private_functions_are_inlined():
    mod = CLASSIC["InlinePrivateFunctions"]()(Sums)
    assert list(mod.functions) == ["main"] and not collect(mod["main"], GlobalVar)

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.float32(0)
            for j in range(8):
                B[i] = B[i] + A[i, j]

    loops = collect(mod["main"].body, tvm.tir.For)
    assert len({id(s.loop_var) for s in loops}) == len(loops) == 3  # each call has its own
    inputs = [np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros(4, np.float32)]
    assert_same_results(results(expected, inputs), mod["main"], inputs)


def test_what_is_built_is_inlined():
    text = tvm.build(Sums, target="c").get_source()
    assert "total" not in text and text.count("for (") == 3
    with pytest.raises(ValueError, match="function main calls total of its module, which cannot be inlined"):
        tvm.build(Sums.with_function("total", Sums["total"].with_attr("global_symbol", "total")), target="c")


def test_functions_that_are_not_inlined():
    own = Sums["total"]
    for kept in (own.with_attr("global_symbol", "total"), own.with_attr("target", "cuda")):
        mod = Sums.with_function("total", kept)
        tvm.ir.assert_structural_equal(CLASSIC["InlinePrivateFunctions"]()(mod), mod)

    @I.ir_module
    class Recursive:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            Recursive.down(A.data, 3)

        @T.prim_func(private=True)
        def down(A_data: T.handle("float32"), n: T.int32):
            A = T.Buffer((4,), "float32", data=A_data)
            A[n] = T.float32(0)
            if n > 0:
                Recursive.down(A_data, n - 1)

    tvm.ir.assert_structural_equal(CLASSIC["InlinePrivateFunctions"]()(Recursive), Recursive)
    with pytest.raises(ValueError, match="a call of down, another function of the module"):
        results(Recursive["main"], [np.zeros(4, np.float32)])


def test_regions_of_a_device_become_kernels_and_launches():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.int32):
        T.func_attr({"target": T.target("cuda")})
        blocks: T.int32 = (n + 15) // 16
        bx = T.launch_thread("blockIdx.x", blocks)
        tx = T.launch_thread("threadIdx.x", 16)
        if bx * 16 + tx < n:
            A[bx * 16 + tx] = T.float32(1)

    mod = CLASSIC["AnnotateDeviceRegions"]()(tvm.IRModule({"main": before.with_attr("global_symbol", "main")}))
    assert mod["main"].body.body.attr_key == "target"
    mod = CLASSIC["SplitHostDevice"]()(mod)
    kernel = mod["main_kernel"]
    assert [p.name for p in kernel.params] == ["A", "blocks", "n"] and "global_symbol" not in kernel.attrs
    assert kernel.params[2] is not before.params[1]  # functions share no variables
    host = mod["main"].with_attr("target", "host")
    mod = CLASSIC["LowerDeviceKernelLaunch"]()(mod.with_function("main", host))
    call = collect(mod["main"].body, Call)[-1]
    assert call.op == "tir.tvm_call_packed" and call.args[0].value == "main_kernel" == mod["main_kernel"].attrs[
        "global_symbol"]
    assert mod["main_kernel"].attrs["tir.kernel_launch_params"] == ["blockIdx.x", "threadIdx.x"]
    assert [str(a) for a in call.args[2:]] == ["blocks", "n", "blocks", "16"]


def test_regions_of_another_cpu_return_a_code():
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("cuda")})
        T.attr("c", "target", 0)
        A[0] = T.float32(1)

    mod = CLASSIC["SplitHostDevice"]()(tvm.IRModule({"main": before.with_attr("global_symbol", "main")}))
    assert mod["main_kernel"].ret_type == "int32"
    assert isinstance(mod["main"].body.body, tvm.tir.AssertStmt)
    assert isinstance(mod["main"].body.body.message, StringImm)


def test_calls_are_effects_and_threads_one_variable():
    calls = Sums["main"]
    assert collect(CLASSIC["ConvertSSA"]()(tvm.IRModule({"main": calls}))["main"], GlobalVar)
    assert collect(tvm.tir.transform.RemoveNoOp()(tvm.IRModule({"main": calls}))["main"], GlobalVar)

    @I.ir_module
    class Twice:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            tx = T.env_thread("threadIdx.x")
            with T.launch_thread(tx, 8):
                A[tx] = T.float32(1)
            with T.launch_thread(tx, 8):
                A[tx] = A[tx] + T.float32(1)

    assert CLASSIC["ConvertSSA"]()(Twice) is Twice
    two = CLASSIC["ConvertSSA"]()(Twice.with_function("other", Twice["main"]))
    threads = [{id(s.target.var) for s in collect(f.body, tvm.tir.AttrStmt)} for f in two.functions.values()]
    assert list(map(len, threads)) == [1, 1] and threads[0] != threads[1]


def test_bits_of_bits_are_themselves():
    @T.prim_func
    def func(A: T.Buffer((4,), "float8_e4m3fn"), B: T.Buffer((4,), "uint8")):
        for i in range(4):
            B[i] = T.reinterpret("uint8", A[i])

    after = tvm.tir.transform.FP8StorageLegalize()(tvm.IRModule({"main": func}))["main"]
    assert after.buffers[0].dtype == "uint8" and not collect(after.body, Call)


@pytest.mark.parametrize("wide", ["float16", "float32"])
def test_what_floats_of_8_bits_are_computed_in(wide):
    @T.prim_func
    def func(A: T.Buffer((6,), "float8_e4m3fn"), B: T.Buffer((6,), "float8_e4m3fn")):
        for i in range(6):
            B[i] = A[i] * A[i] + T.float8_e4m3fn(0.5)

    mod = tvm.IRModule({"main": func})
    after = tvm.tir.transform.FP8ComputeLegalize(wide)(mod)["main"]
    store, = collect(after.body, tvm.tir.BufferStore)
    assert store.value.value.dtype == wide
    a = np.array([0.5, -1.25, 3, 14, np.nan, 2 ** -9], ml_dtypes.float8_e4m3fn)
    b = np.zeros_like(a)
    run(after, a, b)
    expected = (a.astype(wide) * a.astype(wide) + np.dtype(wide).type(0.5)).astype(a.dtype)
    np.testing.assert_array_equal(b.astype("float32"), expected.astype("float32"))
    with pytest.raises(ValueError, match="FP8ComputeLegalize computes in float32 or float16, not float8_e5m2"):
        tvm.tir.transform.FP8ComputeLegalize("float8_e5m2")(mod)
