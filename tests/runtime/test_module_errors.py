"""Every argument that does not fit is refused, by name, with what was expected and what came; so is what cannot be
built."""
import numpy as np
import pytest
from module_cases import Two, built, fixed, floats, vector_add

import ingot as tvm
from ingot import relax
from ingot.codegen.entry import EntryError
from ingot.codegen.target import TargetError
from ingot.runtime import InputError
from ingot.script import from_source

F5 = floats(5)


def new(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def aligned(*shape):
    array = tvm.nd.empty(shape).__array__()
    array[:] = 0
    return array


def readonly():
    array = new(5)
    array.flags.writeable = False
    return array


class ElsewhereTensor:
    def __dlpack__(self, **_):
        raise AssertionError("not asked for")

    def __dlpack_device__(self):
        return 2, 0


REFUSED = {
    "count": ("vector_add", (F5, F5), "vector_add takes 3 arguments (A, B, C), got 2"),
    "number for tensor": ("vector_add", (F5, 3, new(5)), "vector_add: argument B is a number, expected float32[n]"),
    "tensor for number": ("scaled", (F5, new(5), new(1), 0), "scaled: argument alpha is a tensor, expected a number "
                                                             "(float32)"),
    "real for integer": ("scaled", (F5, new(5), 1.0, 2.5), "scaled: argument shift is no integer, expected a number "
                                                           "(int8)"),
    "number too large": ("scaled", (F5, new(5), 1.0, 128),
                         "scaled: argument shift has value = 128, expected at most 127"),
    "number too small": ("scaled", (F5, new(5), 1.0, -129),
                         "scaled: argument shift has value = -129, expected at least -128"),
    "more than 64 bits": ("scaled", (F5, new(5), 1.0, 1 << 70),
                          f"scaled: argument shift is {1 << 70}, expected an integer that int64 holds"),
    "dtype": ("vector_add", (F5, F5.astype("float64"), new(5)),
              "vector_add: argument B has dtype float64, expected float32"),
    "dtype bool": ("fixed", (new(2, 3, dtype=bool), new(2, 3)), "fixed: argument A has dtype bool, expected int32"),
    "ndim": ("vector_add", (F5, F5, new(5, 1)), "vector_add: argument C has ndim = 2, expected 1"),
    "constant dimension": ("fixed", (new(2, 4, dtype="int32"), new(2, 3, dtype="int32")),
                           "fixed: argument A has dimension 1 = 4, expected 3"),
    "dimension used twice": ("vector_add", (F5, F5, new(6)),
                             "vector_add: argument C has dimension 0 = 6, expected n = 5"),
    "expression": ("groups", (new(3, 5), new(3)), "groups: argument A has dimension 1 = 5, expected n * 2 = 6"),
    "no elements": ("vector_add", (new(0), new(0), new(1)),
                    "vector_add: argument A has dimension 0 = 0, expected at least 1"),
    "not compact": ("vector_add", (floats(10)[::2], F5, new(5)), "vector_add: argument A has stride 0 = 2, expected 1: "
                    "the tensor must be compact, pass a contiguous copy"),
    "backwards": ("strided", (floats(2, 3)[::-1], new(2, 3)),
                  "strided: argument A has stride 0 = -3, expected at least 1: pass a contiguous copy"),
    "stride": ("strided", (floats(2, 3), aligned(2, 3)), "strided: argument B has stride 0 = 3, expected n + 1 = 4"),
    "constant stride": ("strided", (floats(2, 2), aligned(3, 2).T[:, :2]),
                        "strided: argument B has stride 0 = 1, expected n + 1 = 3"),
    "alignment": ("strided", (floats(1, 3), aligned(2, 3)[1:]),
                  "strided: argument B has data at an address with the remainder = 12, expected a multiple of 32"),
    "bytes": ("vector_add", (np.zeros(21, np.uint8)[1:].view(np.float32), F5, new(5)), None),
    "strides between elements": ("vector_add", (np.zeros(5, [("x", "f4"), ("y", "u1")])["x"], F5, new(5)),
                                 "vector_add: argument A has strides (5,) in bytes, expected multiples of the "
                                 "element's 4: pass a contiguous copy"),
    "overlap": ("through_memory", (F5, F5),
                "through_memory: argument B is written, and shares memory with A: pass a copy of one"),
    "read-only": ("vector_add", (F5, F5, readonly()),
                  "vector_add: argument C is written, and is a read-only array: pass a copy"),
}


@pytest.mark.parametrize("name, args, message", REFUSED.values(), ids=list(REFUSED))
def test_arguments(name, args, message):
    if message is None:
        remainder = args[0].ctypes.data % 4
        message = f"vector_add: argument A has data at an address with the remainder = {remainder}, expected a " \
                  "multiple of 4"
    before = [np.array(a) for a in args]
    with pytest.raises(InputError) as caught:
        built()[name](*args)
    assert str(caught.value) == message
    for old, now in zip(before, args):
        np.testing.assert_array_equal(old, now)


TYPES = {
    "no array": ([1.0] * 5, "vector_add: argument A is a list, expected an NDArray, a numpy array or a number"),
    "nothing": (None, "vector_add: argument A is a NoneType, expected an NDArray, a numpy array or a number"),
    "dtype": (np.zeros(5, complex), "vector_add: argument A: arrays of numpy's dtype complex128 cannot be passed to "
                                    "compiled code"),
    "byte order": (np.zeros(5, ">f4"), "vector_add: argument A: arrays of numpy's dtype >f4 cannot be passed to "
                                       "compiled code"),
}


@pytest.mark.parametrize("value, message", TYPES.values(), ids=list(TYPES))
def test_values_that_are_no_arguments(value, message):
    with pytest.raises(TypeError) as caught:
        built()["vector_add"](value, F5, new(5))
    assert str(caught.value) == message


def test_a_tensor_of_another_device():
    with pytest.raises(ValueError, match="on DLPack's device type 2; copy it to the CPU first"):
        built()["vector_add"](ElsewhereTensor(), F5, new(5))


# ---------------------------------------------------------------- what cannot be built

UNBUILT = {
    "cuda": (lambda: tvm.build(fixed, target="cuda"), ValueError, "fixed: loop j is bound to no threads"),
    "cuda with flags": (lambda: tvm.build(fixed, target="cuda -arch=sm_20"), TargetError,
                        "there is no code for -arch 'sm_20'; known: sm_80"),
    "target": (lambda: tvm.build(fixed, target="riscv"), TargetError, "unknown target 'riscv'; known: host"),
    "flag": (lambda: tvm.build(fixed, target="llvm -foo"), TargetError, "the flag -foo is not known; known: -mcpu"),
    "cpu": (lambda: tvm.build(fixed, target="llvm -mcpu=z80"), TargetError, "-mcpu 'z80' is not known; known: native"),
    "host": (lambda: tvm.build(fixed, target_host="sparc"), TargetError, "unknown target 'sparc'; known: host"),
    "nothing": (lambda: tvm.build(tvm.IRModule()), ValueError, "the module has no function"),
    "what": (lambda: tvm.build(3), TypeError, "expected an IRModule, a PrimFunc or a te.Schedule, not a int"),
    "args": (lambda: tvm.build(fixed, [1]), ValueError, "args and binds go with a te.Schedule; a PrimFunc has its own"),
    "names": (lambda: tvm.build(tvm.IRModule({"a": fixed, "b": fixed})), ValueError,
              "two functions of the module have the global_symbol 'fixed': give one another, func.with_attr"),
}


@pytest.mark.parametrize("build, kind, message", UNBUILT.values(), ids=list(UNBUILT))
def test_not_built(build, kind, message):
    with pytest.raises(kind) as caught:
        build()
    assert message in str(caught.value)


def test_networks_are_for_compile():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(relax.op.nn.relu(x)) if hasattr(relax, "op") else bb.emit_op("nn.relu", x))
        bb.emit_func_output(out)
    mod = bb.get()
    with pytest.raises(TypeError, match=r"the relax function 'main': ingot.compile\(mod\) casts networks"):
        tvm.build(mod)
    with pytest.raises(TypeError, match=r"a relax function is a network: ingot.compile\(mod\) casts it"):
        tvm.build(mod["main"])


def script(text):
    return from_source("@T.prim_func\n" + text)


def test_a_dimension_that_nothing_decides():
    func = script("""
def f(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n * 2,), "float32")
    A[0] = T.float32(0)
""")
    with pytest.raises(EntryError, match=r"f: dimension 0 of A is n \* 2, but nothing decides n: make it a dimension "
                                         "of a buffer, or a scalar parameter"):
        tvm.build(func)


def test_a_dimension_that_a_scalar_decides():
    func = script("""
def f(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 2,), "float32")
    for i in range(n * 2):
        A[i] = T.float32(1)
""")
    module, a = tvm.build(func), new(6)
    module(a, 3)
    assert a.all()
    with pytest.raises(InputError, match=r"A has dimension 0 = 6, expected n \* 2 = 4"):
        module(a, 2)


def test_a_handle_without_buffer():
    func = script("""
def f(p: T.handle, a: T.handle):
    A = T.match_buffer(a, (2,), "float32")
    A[0] = T.float32(0)
""")
    with pytest.raises(EntryError, match="f: parameter p is a handle without a buffer"):
        tvm.build(func)


def test_a_buffer_that_starts_elsewhere():
    def text(offset):
        return f"""
def f(a: T.handle):
    A = T.match_buffer(a, (2,), "float32", elem_offset={offset})
    A[1] = T.float32(3)
"""
    with pytest.raises(EntryError, match="f: buffer A starts at element 4 of its argument; leave elem_offset out"):
        tvm.build(script(text(4)))
    a = new(2)
    tvm.build(script(text('T.int32()').replace("    A =", "    k = T.int32()\n    A =").replace("=T.int32()", "=k")))(a)
    assert a[1] == 3


def test_packed_functions_take_tensors_and_numbers():
    func = script("""
def f(A: T.Buffer((2,), "float32")):
    T.evaluate(T.call_packed("my.function", A.data))
""")
    with pytest.raises(ValueError, match="a packed function gets tensors, numbers and texts: pass a buffer, not its pointer"):
        tvm.build(func)


def test_an_assertion_in_a_parallel_loop():
    func = script("""
def f(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in T.parallel(8):
        T.Assert(i < n, "too far")
        A[i] = T.float32(0)
""")
    with pytest.raises(ValueError, match=r"an assertion \(too far\) cannot leave a parallel loop"):
        tvm.build(func)


def test_functions_stay_apart():
    assert {f for f in tvm.build(Two).function_names} == {"double", "main"}
    assert vector_add.attrs["global_symbol"] == "vector_add"
