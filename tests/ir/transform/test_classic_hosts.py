"""Passes of scripts over what hosts prepare for devices: contexts, memories with addresses, calls around loops."""
import numpy as np
import pytest

import ingot as tvm
from ingot.ir.node import collect
from ingot.ir.tir import Call, LetStmt
from ingot.ir.transform.classic import CLASSIC
from ingot.ir.tir.interpreter import build
from ingot.script import ir as I, tir as T
from test_classic_passes import done


def _context(number):
    return tvm.tir.Call("handle", "tir.tvm_thread_context", [tvm.tir.call_extern("handle", "device_context", number)])


def test_contexts_of_hosts_are_computed_once_where_their_variables_are_known():
    @T.prim_func(private=True)
    def before(n: T.int32):
        for i in T.parallel(n):
            T.call_extern("int32", "f", _context(n), _context(n))
            T.call_extern("int32", "f", _context(i))
        T.call_extern("int32", "f", _context(n))

    assert done("CombineContextCall", before) is before  # it is not said to be a host's
    after = done("CombineContextCall", before.with_attr("target", "c"))
    lets = collect(after.body, LetStmt)
    assert len(lets) == 2 and not [c for c in collect(after.body, Call) if c.op == "tir.tvm_thread_context"]
    assert [str(c.args[1]) for c in collect(after.body, Call) if c.args[0].value == "f"] == [
        "ctx_cache_", 'T.call_extern("handle", "device_context", i)', "ctx_cache_"]


def test_memories_with_an_address_are_variables():
    @T.prim_func(private=True)
    def program():
        A = T.decl_buffer((16,), "float32", scope="global.tcm_of_test")
        T.evaluate(A.data)

    with pytest.raises(ValueError, match="no memory has the scope 'global.tcm_of_test'"):
        done("LowerDeviceStorageAccessInfo", program)
    head = tvm.tir.call_extern("handle", "begin_of_tcm")
    for address, expected in ((head, "T.handle = T.call_extern"), (None, "def main")):
        tvm.register_func("tvm.info.mem.global.tcm_of_test", lambda: tvm.ir.make_node(
            "MemoryInfo", unit_bits=8, head_address=address), override=True)
        text = done("LowerDeviceStorageAccessInfo", program).script()
        assert expected in text and "decl_buffer" not in text
    with pytest.raises(ValueError, match="no class of nodes 'Nothing'"):
        tvm.ir.make_node("Nothing")


def test_loops_are_measured_by_their_place():
    @T.prim_func
    def program(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        for i in range(8):
            for j, k in T.grid(2, 4):
                A[i, j * 4 + k] = 1
            for j in T.parallel(2):
                for k, _ in T.grid(4, 1):
                    B[i, j * 4 + k] = 2

    def numbers(**config):
        config = {f"tir.{key}": value for key, value in {"reset_start_id": True, **config}.items()}
        after = done("InstrumentProfileIntrinsics", program, config=config)
        return [int(c.args[0]) for c in collect(after.body, Call) if c.op == "tir.start_profile_intrinsic"]

    assert sorted(numbers()) == [0, 2, 4]
    assert sorted(numbers(lwp_disable_func_prof=True)) == [2, 4]
    assert sorted(numbers(instr_siblings=False)) == [0, 1]
    assert sorted(numbers(instr_siblings=False, lwp_max_depth=1, lwp_min_height=2)) == [0, 1, 4]
    assert min(numbers(reset_start_id=False)) > 0
    with pytest.raises(ValueError, match="it is a number, not 'two'"):
        numbers(lwp_max_depth="two")


def test_what_a_match_declares_is_proved():
    @T.prim_func
    def fits(A: T.Buffer((8, 8), "int32")):
        for i in range(8):
            with T.block(""):
                T.writes(A[i, 0:8])
                row = T.match_buffer(A[i, 0:8], (8,), "int32", strides=[1], offset_factor=1)
                row[0] = 1

    @T.prim_func
    def moved(A: T.Buffer((8, 8), "int32")):
        for i in range(8):
            with T.block(""):
                T.writes(A[i, 0:8])
                row = T.match_buffer(A[i, 0:8], (8,), "int32", elem_offset=0)
                row[0] = 1

    assert "match_buffer" not in done("LowerMatchBuffer", fits).script()
    with pytest.raises(ValueError, match="matched buffer row declares 0 where its place has i . 8"):
        done("LowerMatchBuffer", moved)


def test_calls_of_runtimes_are_written_as_printers_write_them():
    @T.prim_func(private=True)
    def program(args: T.handle, A: T.Buffer((4,), "uint8")):
        T.evaluate(T.start_profile_intrinsic(3, dtype="handle"))
        p: T.handle = T.tvm_struct_get(args, 0, 12, "handle")
        T.evaluate(T.isnullptr(p))
        T.evaluate(T.reinterpret("int32", A[0:4]))
        T.evaluate(T.call_llvm_pure_intrin("float32", "llvm.fabs", T.float32(1.0)))

    text = program.script()
    assert 'T.tvm_struct_get(args, 0, 12, "handle")' in text and "T.start_profile_intrinsic(3)" in text
    tvm.ir.assert_structural_equal(tvm.script.from_source(text), program)


def test_attributes_of_operators():
    tvm.ir.register_op_attr("tir.of_a_test", "key")(1)
    tvm.ir.register_op_attr("tir.of_a_test", "key", 2, level=5)
    op = tvm.ir.Op.get("tir.of_a_test")
    assert op.get_attr("key") == 1 and op.get_attr("other") is None and "CombineContextCall" in CLASSIC


# ---------------------------------------------------------------- MakePackedAPI, MakeUnpackedAPI

def _for_host(func, host="c"):
    return func.with_attr("target", tvm.target.Target("c", host=host))


@T.prim_func
def scaled(a: T.handle, b: T.handle, k: T.int32, x: T.float32, on: T.bool):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        B[i, j] = T.if_then_else(on, A[i, j] * x + T.Cast("float32", k), T.float32(0))


def _called(func, values, codes):
    arguments = values, np.array(codes, "int32"), len(values), np.zeros(1, "int64"), np.zeros(1, "int32"), None
    return build(func)(*arguments), arguments[3:5]


def _arguments(shape=(3, 4)):
    return [np.arange(np.prod(shape), dtype="float32").reshape(shape), np.zeros(shape, "float32"), 5, 2.0, 1]


CODES = [13, 7, 0, 2, 15]


def test_packed_functions_unpack_what_they_check():
    after = done("MakePackedAPI", _for_host(scaled))
    assert [p.name for p in after.params] == ["args", "arg_type_ids", "num_args", "out_ret_value", "out_ret_tcode",
                                              "resource_handle"]
    assert after.attrs["calling_conv"] == 1 and after.attrs["target"] == tvm.target.Target("c")
    values = _arguments()
    assert _called(after, values, CODES)[0] == 0
    np.testing.assert_array_equal(values[1], values[0] * 2 + 5)
    assert done("MakePackedAPI", after) is after


@pytest.mark.parametrize("change, message", [
    (lambda v, c: (v[:4], c), "scaled: num_args should be 5"),
    (lambda v, c: (v, [0, *c[1:]]), r"scaled: Expect arg\[0\] to be pointer"),
    (lambda v, c: (v, [*c[:3], 0, 15]), r"scaled: Expect arg\[3\] to be float"),
    (lambda v, c: ([None, *v[1:]], [4, *c[1:]]), "scaled.a is expected to have non-NULL DLTensor. pointer"),
    (lambda v, c: ([v[0][0], *v[1:]], c), "scaled.a.ndim is expected to equal 2"),
    (lambda v, c: ([v[0].astype("float64"), *v[1:]], c), "scaled.a.dtype is expected to be float32"),
    (lambda v, c: ([v[0], np.zeros((4, 4), "float32"), *v[2:]], c),
     r"Argument scaled.b.shape\[0\] has an unsatisfied constraint"),
    (lambda v, c: ([np.zeros((3, 5), "float32"), *v[1:]], c), r"Argument scaled.a.shape\[1\] has an unsatisfied constraint"),
])
def test_packed_functions_refuse_other_arguments(change, message):
    after = done("MakePackedAPI", _for_host(scaled))
    values, codes = change(_arguments(), CODES)
    with pytest.raises(AssertionError, match=message):
        _called(after, values, codes)


def test_what_a_packed_function_returns():
    @T.prim_func
    def tripled(n: T.int32) -> T.int32:
        if n > 0:
            return n * 3
        else:
            return 7

    func = _for_host(tripled)
    after = done("MakePackedAPI", func)
    for given, wanted in ((4, 12), (-1, 7)):
        code, (value, kind) = _called(after, [given], [0])
        assert (code, value[0], kind[0]) == (0, wanted, 0)
    with pytest.raises(ValueError, match="MakePackedAPI required the function to be annotated with .*, and main is not: "):
        done("MakePackedAPI", func.without_attr("target"))


@pytest.mark.parametrize("name", ["MakePackedAPI", "MakeUnpackedAPI"])
def test_statements_before_what_is_returned_print_as_they_are(name):
    @T.prim_func
    def counted(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), n: T.int32):
        A[0] = n
        if n > 3:
            B[0] = n
            return n
        B[1] = n
        return 2

    after = done(name, _for_host(counted))
    tvm.ir.assert_structural_equal(tvm.script.from_source(after.script()), after)


def test_functions_call_others_by_their_symbols():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            Module.other(A.data)
            Module.own(A.data)

        @T.prim_func
        def other(A_data: T.handle):
            T.evaluate(0)

        @T.prim_func(private=True)
        def own(A_data: T.handle):
            T.evaluate(0)

    mod = tvm.tir.transform.Apply(_for_host)(Module)
    for name, op, params in ("MakePackedAPI", "tir.tvm_call_cpacked", 6), ("MakeUnpackedAPI", "tir.call_extern", 1):
        after = getattr(tvm.tir.transform, name)()(mod)
        calls = {c.op: c.args for c in collect(after["main"].body, Call)}
        assert calls[op][0].value == "other" and tvm.ir.GlobalVar("own") in calls
        assert after["own"] is mod["own"] and len(after["other"].params) == len(after["main"].params) == params
    unpacked = done("MakeUnpackedAPI", _for_host(scaled))
    values = _arguments()
    assert [p.name for p in unpacked.params[2:]] == ["k", "x", "on"] and str(unpacked.body).count("return 0") == 1


def test_c_returns_a_number():
    @T.prim_func
    def seven(A: T.Buffer((1,), "int32")):
        A[0] = 3
        return 7

    values = np.zeros(1, "int32")
    assert tvm.build(seven, target="c")(values) == 7 and values[0] == 3
