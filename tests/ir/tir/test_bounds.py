"""tir.bounds: what provably leaves a buffer does not build; what may be right does."""
import pytest

import ingot
from ingot import te, tir
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_tir
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.tir.bounds import check_bounds
from ingot.script import tir as T


def computed(f, n=16, shape=(16,)):
    A = te.placeholder(shape, "float32", name="A")
    return te.create_prim_func([A, te.compute((n,), f(A), name="B")])


def window(length):
    A = te.placeholder((16,), "float32", name="A")
    k = te.reduce_axis((0, length), name="k")
    return te.create_prim_func([A, te.compute((14,), lambda i: te.sum(A[i + k], axis=[k]), name="B")])


def scan_beyond():
    X, state = te.placeholder((8, 4), name="X"), te.placeholder((8, 4), name="S")
    start = te.compute((1, 4), lambda _, i: X[0, i], name="start")
    step = te.compute((8, 4), lambda t, i: state[t - 1, i] + X[t + 1, i], name="step")
    return te.create_prim_func([X, te.scan(start, step, state, [X], name="scan")])


def emitted(f):
    bb = BlockBuilder()
    x = RelaxVar("A", TensorStructInfo((16,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(f, x))


@T.prim_func
def writes_beyond(B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i * 2] = 1.0


@T.prim_func
def in_a_triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 2):
            A[i, j] = 1.0


@T.prim_func
def behind_a_guard(A: T.Buffer((8,), "float32")):
    for i in range(16):
        if i >= 8:
            A[i] = 1.0


@T.prim_func
def in_a_split_of_many(A: T.Buffer((1000000,), "float32")):
    for i, j in T.grid(62500, 16):
        with T.block("B"):
            v = T.axis.spatial(1000000, i * 16 + j)
            A[v + 1] = 1.0


COMPUTED = {
    "next": (lambda: computed(lambda A: lambda i: A[i + 1]), "block B reads A[v_i + 1]", "from 1 to 16"),
    "negative": (lambda: computed(lambda A: lambda i: A[i - 1]), "block B reads A[v_i - 1]", "from -1 to 14"),
    "wrong guard": (lambda: computed(lambda A: lambda i: tir.if_then_else(i < 15, A[i + 2], 0.0)), "reads A",
                    "from 2 to 16"),
    "quotient": (lambda: computed(lambda A: lambda i: A[i // 2 + i % 2], 32), "reads A", "from 0 to 16"),
    "window": (lambda: window(4), "block B reads A", "from 0 to 16"),
    "scan": (scan_beyond, "reads X", "from 2 to 8"),
    "in a network": (lambda: emitted(lambda A: te.compute((16,), lambda i: A[i + 1], name="B")),
                     "block B reads A[v_i + 1]", "from 1 to 16"),
}
WRITTEN = {
    "write": (writes_beyond, "writes B[i * 2]", "from 0 to 14"),
    "triangle": (in_a_triangle, "writes A[i, j]", "from 0 to 8"),
    "else": (behind_a_guard, "writes A[i]", "from 8 to 15"),
    "split": (in_a_split_of_many, "block B writes A", "to 1000000"),
}


def refusal(make):
    """The message of the error that says that a program leaves a buffer."""
    with pytest.raises(ValueError, match="guard the access") as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("case", COMPUTED)
def test_a_computation_that_leaves_a_buffer_makes_no_function(case):
    make, access, values = COMPUTED[case]
    message = refusal(make)
    assert access in message and values in message


@pytest.mark.parametrize("case", WRITTEN)
def test_a_script_that_leaves_a_buffer_is_not_built(case):
    """It may be printed and scheduled: steps may take the place away."""
    func, access, values = WRITTEN[case]
    for make in (ingot.build, ingot.lower):
        message = refusal(lambda make=make: make(func))
        assert access in message and values in message


def test_a_schedule_of_what_leaves_a_buffer_is_not_lowered():
    A = te.placeholder((16,), "float32", name="A")
    B = te.compute((16,), lambda i: A[i + 1], name="B")
    schedule = te.create_schedule(B.op)
    schedule[B].split(B.op.axis[0], factor=4)
    for make in (ingot.build, ingot.lower):
        assert "reads A" in refusal(lambda make=make: make(schedule, [A, B]))


def test_a_network_that_calls_what_leaves_a_buffer_is_not_compiled():
    bb = BlockBuilder()
    x = RelaxVar("x", TensorStructInfo((4,), "float32"))
    gv = bb.add_func(writes_beyond, "beyond")
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(call_tir(gv, [], TensorStructInfo((8,), "float32"))))
    for make in (lambda: ingot.compile(bb.get()), lambda: ingot.inspect_stage(bb.get(), "tir")):
        assert "writes B[i * 2]" in refusal(make)


@T.prim_func
def where(A: T.Buffer((10,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            T.where(i * 4 + j < 10)
            v = T.axis.spatial(10, i * 4 + j)
            A[v] = 1.0


@T.prim_func
def guarded_store(A: T.Buffer((8,), "float32")):
    for i in range(16):
        if 4 <= i and i < 12:
            A[i - 4] = 1.0


@T.prim_func
def by_data(A: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int32")):
    for i in range(16):
        if i < N[0]:
            A[i] = 1.0
    for k in range(N[0]):
        A[k + 8] = 1.0
    A[N[0]] = 2.0


@T.prim_func
def no_iteration(A: T.Buffer((8,), "float32")):
    for _i in range(0):
        A[9] = 1.0


@T.prim_func
def short_circuit(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        if i < 8 and A[i] > T.float32(0):
            B[i] = 1.0
        if i >= 8 or A[i] > T.float32(0):
            B[i] = 2.0


n = te.var("n")
PASSES = {
    "same": computed(lambda A: lambda i: A[i]),
    "padded": computed(lambda A: lambda i: tir.if_then_else(tir.all(i >= 1, i < 17), A[i - 1], 0.0), 18),
    "select": computed(lambda A: lambda i: tir.Select(i < 15, A[i + 1], tir.const(0, "float32"))),
    "never": computed(lambda A: lambda i: tir.if_then_else(i < 0, A[i - 100], 0.0)),
    "clamped": computed(lambda A: lambda i: A[tir.max(tir.min(i - 2, 15), 0)], 40),
    "floor": computed(lambda A: lambda i: A[i // 2 + i % 2], 31),
    "modulus": computed(lambda A: lambda i: A[(i * 7 - 3) % 16], 1000),
    "symbolic": computed(lambda A: lambda i: A[i + 1], n, (n,)),
    "no element": computed(lambda A: lambda i: A[i + 1], 0, (0,)),
    "window": window(3),
    "where": where, "store": guarded_store, "data": by_data, "loop of 0": no_iteration, "and, or": short_circuit,
}


@pytest.mark.parametrize("case", PASSES)
def test_what_may_be_right_passes(case):
    assert check_bounds(PASSES[case]) is PASSES[case]


def test_a_return_ends_what_is_known():
    @T.prim_func
    def early(N: T.Buffer((1,), "int32"), A: T.Buffer((8,), "float32")):
        if N[0] > 0:
            T.evaluate(T.ret(0))
        A[8] = 1.0
    assert check_bounds(early) is early
