"""LowerTVMBuiltin: calls of packed functions with arguments on the stack, memory of devices, and T.Call."""
import pytest
from test_classic_passes import done

import ingot as tvm
from ingot.ir.node import collect, structural_equal
from ingot.ir.tir import AttrStmt, BufferStore, Call, DeclBuffer, For, IfThenElse, LetStmt
from ingot.script import from_source
from ingot.script import tir as T


def calls(stmt, name):
    return [c for c in collect(stmt, Call) if c.op == f"tir.{name}"]


def stacks(stmt):
    """{name of an array: its size} of the arrays around a statement."""
    found = {}
    while isinstance(stmt, LetStmt):
        kind, size = stmt.value.args
        found[kind.value] = int(size)
        stmt = stmt.body
    return found


def of_host(func):
    return done("LowerTVMBuiltin", func.with_attr("tir.is_host_func", True))


def test_arguments_lie_on_the_stack():
    @T.prim_func
    def func(x: T.int32, p: T.handle, A: T.Buffer((4,), "float32")):
        A[0] = T.tvm_call_packed("mine", "text", x, T.float32(2), p)

    after = of_host(func)
    assert stacks(after.body) == {"arg_tcode": 5, "arg_value": 5}
    call, = calls(after.body, "tvm_call_packed_lowered")
    assert call.args[0].value == "mine" and [int(a) for a in call.args[3:]] == [0, 4]
    set_ = calls(after.body, "tvm_struct_set")
    assert [int(c.args[1]) for c in set_] == [0, 1, 2, 3] and [str(c.args[3].dtype) for c in set_[1:]] == [
        "int64", "float64", "handle"]
    codes = [int(s.value) for s in collect(after.body, BufferStore) if s.buffer.name == "stack_tcode"]
    assert codes == [11, 0, 2, 4, 3]  # a string, an int, a float, and a pointer that is null or not
    tvm.ir.assert_structural_equal(from_source(after.script()), after)


def test_calls_of_one_statement_keep_their_arguments():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        A[0] = T.call_packed("f", 1) + T.call_packed("g", T.call_packed("h", 2), 3)
        A[1] = T.call_packed("f", 4)

    after = of_host(func)
    places = {c.args[0].value: (int(c.args[3]), int(c.args[4])) for c in calls(
        after.body.body.body.seq[:-1], "tvm_call_packed_lowered")}
    taken = [n for begin, end in places.values() for n in range(begin, end + 1)]
    assert len(taken) == len(set(taken)) == 7 and stacks(after.body) == {"arg_tcode": 7, "arg_value": 7}
    last, = calls(after.body.body.body.seq[-1], "tvm_call_packed_lowered")
    assert [int(a) for a in last.args[3:]] == [0, 1]  # the next statement begins anew


def test_parallel_loops_have_stacks_of_their_own():
    @T.prim_func
    def func(A: T.Buffer((4, 2), "float32")):
        T.attr("default", "device_id", 0)
        T.attr("default", "device_type", 1)
        for i in T.parallel(4):
            T.evaluate(T.call_packed("mine", A, i))

    after = of_host(func)
    loop = after.body
    assert isinstance(loop, For)
    assert stacks(loop.body) == {"arg_tcode": 3, "arg_value": 3, "array": 1, "shape": 2}
    stores = [s for s in collect(loop, BufferStore) if s.buffer.name == "stack_shape"]
    assert [int(s.value) for s in stores] == [4, 2]
    fields = {int(c.args[2]): c.args[3] for c in calls(loop, "tvm_struct_set") if c.args[0].name == "stack_array"}
    assert sorted(fields) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] and int(fields[4]) == 2 and int(fields[10]) == 1


def allocating(size, device=None, number=None):
    @T.prim_func
    def func(A: T.Buffer((1,), "float32")):
        B = T.decl_buffer((size,), "float32")
        B[0] = T.float32(1)
        A[0] = B[0]

    for key, value in (("device_type", device), ("device_id", number)):
        if value is not None:
            func = func.replace(body=AttrStmt("default", key, tvm.tir.const(value), func.body))
    return func


def test_what_the_stack_has_no_room_for():
    small = of_host(allocating(255, 1, 0))
    assert collect(small.body, DeclBuffer) and not collect(small.body, LetStmt)
    for func, device in ((allocating(256, 1, 0), 1), (allocating(4, 2, 3), 2)):
        after = of_host(func)
        memory, = calls(after.body, "TVMBackendAllocWorkspace")
        assert int(memory.args[0]) == device and not collect(after.body, DeclBuffer)
        free, = calls(after.body, "TVMBackendFreeWorkspace")
        assert structural_equal(free.args[:2], memory.args[:2]) and len(collect(after.body, IfThenElse)) == 2
        assert int(memory.args[2]) == (1024 if device == 1 else 16)
    of_target = done("LowerTVMBuiltin", allocating(4).with_attr("target", tvm.target.Target("c")))
    assert collect(of_target.body, DeclBuffer)
    with pytest.raises(ValueError, match="buffer B asks for the device, of which neither"):
        of_host(allocating(256, None, 0))
    with pytest.raises(ValueError, match="buffer B asks for the device's number"):
        of_host(allocating(256, 2))
    kernel = allocating(256, 2, 0)
    assert done("LowerTVMBuiltin", kernel) is kernel or structural_equal(done("LowerTVMBuiltin", kernel), kernel)


def test_conditions_of_loops_have_no_place_before_them():
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        while T.call_packed("more", 1) > 0:
            A[0] = A[0] + 1

    with pytest.raises(ValueError, match="condition of a while loop"):
        of_host(func)


def test_calls_by_name():
    @T.prim_func
    def func(A: T.Buffer((1,), "float32")):
        A[0] = T.Call("float32", "tir.exp", [A[0]])

    @T.prim_func
    def expected(A: T.Buffer((1,), "float32")):
        A[0] = T.exp(A[0])

    tvm.ir.assert_structural_equal(func.with_attr("global_symbol", "main"), expected.with_attr("global_symbol", "main"))
