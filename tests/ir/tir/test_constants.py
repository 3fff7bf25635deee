"""T.allocate_const: scripts, equality, JSON, the interpreter, schedules and C."""
import numpy as np
import pytest

import ingot as tvm
from ingot.ir.node import collect, load_json, save_json, structural_equal, structural_hash
from ingot.ir.tir.interpreter import run
from ingot.ir.tir.verifier import VerifyError, verify
from ingot.script import ir as I, relax as R, tir as T

TABLE = np.array([0.0, 0.1, 0.25, -0.0, 1e-20, np.inf, 3.0, -7.5], "float32")


@T.prim_func
def looked_up(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    p = T.allocate_const([0.0, 0.1, 0.25, -0.0, 1e-20, float("inf"), 3.0, -7.5], "float32", [8])
    B = T.decl_buffer((8,), "float32", data=p)
    q = T.allocate_const([[1, 2], [3, 4]], "int32", [2, 2], annotations={"of": "q"})
    Q = T.Buffer((2, 2), "int32", data=q)
    row = T.Buffer((4,), "int32", data=q)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + B[vi] * T.cast(Q[vi // 4, vi % 2] + row[vi // 2], "float32")


def expected(a):
    n, q = np.arange(8), np.array([1, 2, 3, 4])
    return a + TABLE * (q.reshape(2, 2)[n // 4, n % 2] + q[n // 2]).astype("float32")


def built(mod, a, target="c"):
    c = tvm.nd.empty((8,), "float32")
    tvm.build(mod, target=target)(tvm.nd.array(a), c)
    return c.numpy()


def test_it_prints_parses_saves_and_compares():
    again = tvm.script.from_source(looked_up.script())
    assert structural_equal(looked_up, again) and structural_hash(looked_up) == structural_hash(again)
    assert structural_equal(load_json(save_json(looked_up)), looked_up)
    other = tvm.script.from_source(looked_up.script().replace("0.25", "0.5"))
    assert not structural_equal(looked_up, other)
    assert structural_equal(verify(tvm.tir.stmt_functor.renew_defs(looked_up)), looked_up)


def test_interpreter_and_c_give_the_values():
    a, c = np.linspace(0, 1, 8, dtype="float32"), np.zeros(8, "float32")
    run(looked_up, a, c)
    np.testing.assert_array_equal(c, expected(a))
    np.testing.assert_array_equal(built(looked_up, a), expected(a))
    text = tvm.build(looked_up, target="c").get_source()
    assert "static const INGOT_ALIGNED(64) float B[8] = {0.0f, 0.1f, 0.25f, -0.0f, 1e-20f, INFINITY, 3.0f, -7.5f};" in text
    assert text.count("int32_t Q[4] = {1, 2, 3, 4};") == 1


def test_schedules_leave_it_around():
    sch = tvm.tir.Schedule(looked_up, debug_mask="all")
    copy = sch.cache_read("C", 1, "local")
    out = sch.cache_write("C", 0, "global")
    outer, inner = sch.split(sch.get_loops("C")[0], [2, 4])
    sch.compute_at(copy, outer)
    sch.reverse_compute_at(out, outer)
    sch.vectorize(inner)
    sch.parallel(outer)
    a = np.linspace(0, 1, 8, dtype="float32")
    top = sch.mod["main"].body.block.body
    assert isinstance(top, tvm.tir.AllocateConst) and not isinstance(top.body.body, tvm.tir.AllocateConst)
    np.testing.assert_array_equal(built(sch.mod, a), expected(a))


@pytest.mark.parametrize("target, words", [("cuda", "static __constant__ __align__(16) int32_t Q[4]"),
                                           ("opencl", "__constant __attribute__((aligned(16))) int Q[4]")])
def test_kernels_have_it(target, words):
    sch = tvm.tir.Schedule(looked_up)
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    assert words in tvm.build(sch.mod, target=target).imported_modules[0].get_source()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int64", "bool", "float64"])
def test_dtypes(dtype):
    values = [0, 1, 1, 0] if dtype == "bool" else [0, 1, 100, 3]

    @T.prim_func
    def f(C: T.Buffer((4,), "float64")):
        p = T.allocate_const(values, dtype, [4])
        B = T.Buffer((4,), dtype, data=p)
        for i in range(4):
            C[i] = T.cast(T.cast(B[i], "float32"), "float64")
    assert structural_equal(tvm.script.from_source(f.script()), f)
    c, d = np.zeros(4), tvm.nd.empty((4,), "float64")
    run(f, c)
    tvm.build(f, target="c")(d)
    assert c.tolist() == d.numpy().tolist() == values


def test_it_is_an_allocate_const_of_tvm():
    tir = tvm.tir
    data = tvm.nd.array(np.arange(6, dtype="int8"))
    v = tir.Var("v", "handle")
    stmt = tir.AllocateConst(v, "int8", [2, 3], data, tir.Evaluate(0), annotations={"a": 1})
    assert isinstance(stmt, tir.AllocateConst) and not isinstance(tir.Evaluate(0), tir.AllocateConst)
    assert stmt.buffer_var is v and stmt.dtype == "int8" and [e.value for e in stmt.extents] == [2, 3]
    assert stmt.data.numpy().tolist() == [[0, 1, 2], [3, 4, 5]] and stmt.annotations == {"a": 1}
    assert collect(tir.SeqStmt([stmt, stmt]), tir.AllocateConst) == [stmt]
    let = tir.LetStmt(tir.Var("x", "int32"), tir.const(1), tir.Evaluate(0))
    assert not isinstance(let, tir.AllocateConst)
    with pytest.raises(AttributeError, match="no attribute 'data'"):
        _ = let.data


def test_arrays_in_the_module():
    mod = tvm.tir.transform.ExtractPrimFuncConstants()(tvm.IRModule({"f": looked_up, "g": looked_up}))
    assert len(mod.attrs["constants"]) == 2
    numbers = [s.irmod_storage_idx for s in collect(mod["g"].body, tvm.tir.AllocateConst)]
    assert sorted(numbers) == [0, 1]
    assert structural_equal(tvm.script.from_source(mod["f"].script()), mod["f"])

    @I.ir_module
    class Numbered:
        I.module_attrs({"constants": [T.array([5, 6, 7, 8], "int32")]})

        @T.prim_func
        def main(C: T.Buffer((4,), "int32")):
            p = T.allocate_const(None, "int32", [4], irmod_storage_idx=0)
            B = T.Buffer((4,), "int32", data=p)
            for i in range(4):
                C[i] = B[i]
    c = tvm.nd.empty((4,), "int32")
    tvm.build(Numbered, target="c")(c)
    assert c.numpy().tolist() == [5, 6, 7, 8]
    with pytest.raises(ValueError, match="build the module"):
        run(Numbered["main"], np.zeros(4, "int32"))


def test_with_is_the_scope_and_nobody_stores_there():
    @T.prim_func(check_well_formed=False)
    def f(C: T.Buffer((2,), "int32")):
        with T.allocate_const([1, 2], "int32", [2]) as p:
            B = T.Buffer((2,), "int32", data=p)
            B[0] = C[1]
        C[0] = 1
    with pytest.raises(VerifyError, match="buffer B lies over a constant"):
        verify(f)
    assert structural_equal(tvm.script.from_source(f.script(), check_well_formed=False), f)


@pytest.mark.parametrize("call, reason", [
    ("[1, 2], 'int32', [3]", "has 3 elements, not 2"), ("[300], 'uint8', [1]", "uint8 has not"),
    ("[0.5], 'int32', [1]", "is given floats"), ("[1], 'handle', [1]", "holds numbers, not handle"),
    ("[1], 'int32', [T.int32()]", "extents of a constant array are numbers"), ("None, 'int32', [1]", "has data")])
def test_refusals(call, reason):
    with pytest.raises(ValueError, match=reason):
        tvm.script.from_source("from ingot.script import tir as T\n@T.prim_func\ndef f(C: T.Buffer((1,), 'int32')):\n"
                               f"    p = T.allocate_const({call})\n    C[0] = 1\n")


def test_networks_call_such_kernels():
    @I.ir_module
    class Net:
        @T.prim_func(private=True)
        def add(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
            p = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
            B = T.Buffer((4,), "float32", data=p)
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = A[vi] + B[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                y = R.call_tir(Net.add, (x,), out_sinfo=R.Tensor((4,), "float32"))
                z = R.call_tir(Net.add, (y,), out_sinfo=R.Tensor((4,), "float32"))
                R.output(z)
            return z
    x = np.array([0.5, 1, 2, 4], "float32")
    vm = tvm.relax.VirtualMachine(tvm.relax.build(Net, target="c"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(x)).numpy(), x + [2, 4, 6, 8])


def test_schedules_refuse_what_could_leave_its_scope():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = 1
        p = T.allocate_const([1, 2, 3, 4], "int32", [4])
        B = T.Buffer((4,), "int32", data=p)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi] + B[vi]
    with pytest.raises(ValueError, match="put T.allocate_const at the top"):
        tvm.tir.Schedule(f)
