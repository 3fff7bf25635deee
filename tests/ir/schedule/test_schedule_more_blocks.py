"""blockize, tensorize and the lowering of the blocks they nest: structure, numbers, refusals and replay."""
import numpy as np
import pytest

from interp import run
from ingot.ir import tir
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule, TensorIntrin
from ingot.ir.transform.pipeline import lower_prim_func
from primitive_table import tile
from schedule_programs import (arrays_for, assert_same, elementwise, loop_text, matmul, realize, replayed,
                               schedule)


def check(func, sch):
    """Same numbers as scheduled blocks and as plain loops; the trace replays."""
    assert_same(func, sch.func)
    expected = arrays_for(func)
    found = [a.copy() for a in expected]
    run(func, *expected)
    run(lower_prim_func(sch.func), *found)
    for want, have in zip(expected, found):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    replayed(func, sch)


def tiled(func, factors, block="C"):
    """(schedule, outer loops, inner loops) of a block tiled in each loop."""
    sch = schedule(func)
    return sch, *tile(sch, block, factors)


# ---------------------------------------------------------------- blockize of a loop


@pytest.mark.parametrize("m, n, k", [(16, 32, 8), (13, 22, 9), (4, 4, 4), (3, 2, 1)])
@pytest.mark.parametrize("preserve", [True, False])
def test_blockize_a_reduction(m, n, k, preserve):
    func = matmul(m, n, k, relu=True)
    sch, (io, jo, ko), inner = tiled(func, (4, 4, 4))
    block = sch.blockize(inner[0], preserve)
    assert sch.get(block).init is not None and 'T.block("C_init")' in sch.func.script()
    assert realize(sch, "C").block.init is None
    check(func, sch)
    sch.reorder(ko, io)
    sch.parallel(jo)
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    check(func, sch)


def test_consumers_follow_a_tile():
    func = matmul(16, 32, 8, relu=True)
    sch, (io, jo, ko), inner = tiled(func, (4, 8, 4))
    sch.blockize(inner[0])
    sch.reverse_compute_at("D", jo)
    assert loop_text(sch, "D") == ["i_0:4:serial", "j_0:4:serial", "ax0:4:serial", "ax1:8:serial"]
    check(func, sch)
    func = matmul(13, 22, 9, relu=True)  # a tile at the border writes what D reads under the same condition
    sch, (io, jo, ko), inner = tiled(func, (4, 8, 4))
    sch.blockize(inner[0])
    sch.reverse_compute_at("D", jo)
    check(func, sch)


def test_primitives_work_around_and_inside_nested_blocks():
    func = matmul(16, 32, 8, relu=True)
    sch, (io, jo, ko), (ii, ji, ki) = tiled(func, (4, 8, 4))
    block = sch.blockize(ii)
    sch.cache_read(block, "A", "local")
    sch.unroll(sch.get_loops("C")[2])
    sch.vectorize(sch.split(sch.get_loops("C")[1], [None, 4])[1])
    sch.parallel(sch.fuse(io, jo))
    check(func, sch)


# ---------------------------------------------------------------- tensorize

def update_only(func):
    """The function without the init of C."""
    sch = Schedule(func)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    return func.with_root_body(sch.func.root.body.seq[1])


def other_order(func):
    """The product with its reduction outermost."""
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", i)
    sch.reorder(k, i, j)
    return sch.func


def doubled(shape, scratch=False):
    """C = A * 2 + 1, for an implementation with a buffer of its own."""
    func = elementwise(shape)
    if scratch:
        return func
    sch = Schedule(func)
    sch.compute_inline("B")
    return sch.func


TensorIntrin.register("test.matmul", matmul(4, 8, 4), other_order(matmul(4, 8, 4)))
TensorIntrin.register("test.row", matmul(1, 8, 9), other_order(matmul(1, 8, 9)))
TensorIntrin.register("test.update", update_only(matmul(4, 8, 4)), update_only(matmul(4, 8, 4)))
TensorIntrin.register("test.elementwise", doubled((8,)), doubled((8,), scratch=True))


def test_tensorize_a_block_that_blockize_made():
    func = matmul(16, 32, 8, relu=True)
    sch, (io, jo, ko), inner = tiled(func, (4, 8, 4))
    sch.decompose_reduction("C", ko)
    sch.tensorize(sch.blockize(inner[0]), "test.update")
    check(func, sch)


def test_tensorize_with_init_where_a_size_does_not_divide():
    """13 rows of 9 terms; only the 32 columns are tiled."""
    func = matmul(13, 32, 9, relu=True)
    sch = schedule(func)
    _, ji = sch.split(sch.get_loops("C")[1], [None, 8])
    sch.tensorize(ji, "test.row")
    check(func, sch)


def test_tensorize_twice_and_with_a_buffer_of_its_own():
    func = doubled((5, 32))
    sch = schedule(func)
    _, inner = sch.split(sch.get_loops("C")[1], [None, 8])
    sch.tensorize(inner, "test.elementwise")
    assert 'T.alloc_buffer((8,))' in sch.func.script()
    check(func, sch)


def test_tensorize_inside_a_matched_buffer():
    """The implementation's own nest is tensorized again: a view of a view."""
    TensorIntrin.register("test.twice", doubled((4, 16)), doubled((4, 16)), override=True)
    func = doubled((8, 32))
    sch, outer, inner = tiled(func, (4, 16))
    sch.tensorize(inner[0], "test.twice")
    _, last = sch.split(sch.get_loops("C_1")[1], [None, 8])
    sch.tensorize(last, "test.elementwise")
    check(func, sch)


def test_registration_is_checked():
    a, b = matmul(4, 8, 4), matmul(4, 8, 5)
    for args, error, message in (
            (("test.matmul", a, a), ValueError, "registered already; pass override=True"),
            (("test.new", a, b), ValueError, r"parameter A of desc is float32\[4, 4\], A of impl float32\[4, 5\]"),
            (("test.new", a, elementwise()), ValueError, "desc has 3 parameters, impl 2"),
            (("test.new", "a", a), TypeError, "desc must be a PrimFunc whose parameters are all buffers")):
        with pytest.raises(error, match=message):
            TensorIntrin.register(*args)
    assert TensorIntrin.get("test.none", allow_missing=True) is None and TensorIntrin.get("test.matmul").desc
    with pytest.raises(ValueError, match="TensorIntrin test.none is not registered; known: .*test.matmul"):
        TensorIntrin.get("test.none")


# ---------------------------------------------------------------- calling C

def c_kernel(strided):
    """Implement the update as a call: pointers and leading dimensions."""
    buffers, args = [], []
    for name, shape in (("A", (4, 4)), ("B", (4, 8)), ("C", (4, 8))):
        stride = tir.Var("s_" + name)
        buffer = tir.decl_buffer(shape, name=name, strides=(stride, tir.const(1)) if strided else ())
        buffers.append(buffer)
        args += [tir.address_of(buffer[0, 0])] + [stride] * strided
    body = tir.Evaluate(tir.call_extern("int32", "kernel", *args))
    return tir.prim_func(buffers, body)


def test_an_extern_kernel_gets_pointers_and_strides():
    TensorIntrin.register("test.extern", update_only(matmul(4, 8, 4)), c_kernel(True), override=True)
    func = matmul(16, 32, 8, relu=True)
    sch, (io, jo, ko), inner = tiled(func, (4, 8, 4))
    sch.decompose_reduction("C", ko)
    sch.tensorize(inner[0], "test.extern")
    call, = [c for c in collect(lower_prim_func(sch.func).body, tir.Call) if c.op == "tir.call_extern"]
    assert [str(a) for a in call.args[2::2]] == ["8", "32", "32"]
    assert [f"{a.args[0].buffer.name}[{a.args[0].indices[0]}]" for a in call.args[1::2]] == [
        "A[i_0 * 32 + k_0 * 4]", "B[k_0 * 128 + j_0 * 8]", "C[i_0 * 128 + j_0 * 8]"]


def test_a_compact_kernel_is_refused_where_memory_is_not():
    TensorIntrin.register("test.compact", update_only(matmul(4, 8, 4)), c_kernel(False), override=True)
    sch, (io, jo, ko), inner = tiled(matmul(16, 32, 8), (4, 8, 4))
    sch.decompose_reduction("C", ko)
    sch.tensorize(inner[0], "test.compact")
    with pytest.raises(ValueError, match="matched buffer A has stride 4, but its place in A has 8; declare its stri"):
        lower_prim_func(sch.func)


def test_a_copy_back_writes_only_what_its_turn_made():
    """Two of the three iterations are cut off; their copies must not reach the only element."""
    func = elementwise((1,))
    sch = schedule(func)
    sch.split(sch.get_loops("C")[0], [1, 3])
    sch.blockize(["C"])
    sch.cache_write("C", 0, "local")
    check(func, sch)
