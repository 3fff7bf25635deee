"""tile_contraction: structure, numbers, images and groups, refusals, replay."""
import pytest

from ingot.ir import te
from ingot.ir.schedule import ScheduleError
from schedule_programs import argmax, assert_same, loop_text, matmul, replayed, schedule, softmax, stencil


def test_a_matrix_product_becomes_one_of_tiles():
    func = matmul(13, 22, 9, relu=True)
    sch = schedule(func)
    copies = sch.tile_contraction("C", [2, 4], [8], [4])
    assert [sch.get(b).name_hint for b in copies] == ["A_tile", "B_tile"]
    assert [f"{b.name} {tuple(map(int, b.shape))}" for b in sch.func.root.alloc_buffers] == [
        "A_tile (2, 3, 4, 2, 4)", "B_tile (3, 3, 4, 8)", "C_tile (2, 2, 4, 3, 8)"]
    assert loop_text(sch, "C") == ["mo:2:serial", "no:3:serial", "m1:2:serial", "m2:4:serial", "n1:8:serial",
                                   "ko:3:serial", "k1:4:serial"]
    script = sch.func.script()
    assert "C_tile[v_i // 8, v_i // 4 % 2, v_i % 4, v_j // 8, v_j % 8]" in script
    assert "(v_mo * 2 + v_m1) * 4 + v_m2 < 13 and v_ko * 4 + v_k1 < 9" in script
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


def test_sizes_that_divide_need_no_guard():
    func = matmul(16, 16, 8, relu=True)
    sch = schedule(func)
    sch.tile_contraction("C", [4, 4], [8], [4])
    assert "if_then_else" not in sch.func.script()
    assert_same(func, sch.func, exact=True)


def test_a_guard_asks_for_several_elements_at_once():
    """So that all lanes of a vector are inside or none."""
    func = matmul(12, 16, 12, relu=True)
    sch = schedule(func)
    sch.tile_contraction("C", [4, 4], [8], [8])
    assert "((v_mo * 4 + v_m1) * 4 + v_m2) // 4 < 3 and (v_ko * 8 + v_k1) // 4 < 3" in sch.func.script()
    assert_same(func, sch.func, exact=True)


def convolution(groups=1):
    x, w = te.placeholder((2, 4, 6, 5), name="x"), te.placeholder((6, 4 // groups, 3, 2), name="w")
    c, y, z = (te.reduce_axis((0, n), name) for n, name in ((4 // groups, "c"), (3, "ky"), (2, "kx")))
    share = 6 // groups
    out = te.compute((2, 6, 4, 4), lambda n, o, i, j: te.sum(
        x[n, o // share * (4 // groups) + c if groups > 1 else c, i + y, j + z] * w[o, c, y, z],
        (c, y, z)), name="conv")
    return te.create_prim_func([x, w, te.compute(out.shape, lambda *i: out[i] * 2.0, name="twice")])


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_a_product_with_the_points_as_columns(groups):
    func = convolution(groups)
    sch = schedule(func)
    sch.tile_contraction("conv", [2, 4], [4, 2], [4])
    loops = loop_text(sch, "conv")
    assert loops[:2] == (["mo:1:serial", "no:4:serial"] if groups == 1 else ["o:2:serial", "mo:1:serial"])
    assert_same(func, sch.func, exact=True)
    replayed(func, sch)


@pytest.mark.parametrize("func, act, message", [
    (matmul, lambda s: s.tile_contraction("C", [4], [4], [4]), "C, which is not allocated around it"),
    (lambda: matmul(5, 6, 7, relu=True), lambda s: s.tile_contraction("C", [], [4], [4]),
     r"\[\] must be positive factors of the size of a tile"),
    (lambda: matmul(5, 6, 7, relu=True), lambda s: s.tile_contraction("C", [4], [0], [4]), "must be positive factors"),
    (lambda: matmul(5, 6, 7, relu=True), lambda s: s.tile_contraction("D", [4], [4], [4]), "it is no reduction"),
    (stencil, lambda s: s.tile_contraction("B", [4], [4], [4]), "is no product of matrices"),
    (argmax, lambda s: s.tile_contraction("best", [4], [4], [4]), "is no product of matrices"),
    (lambda: softmax(5, 7), lambda s: s.tile_contraction("T_max", [4], [4], [4]), "it is no sum"),
])
def test_refusals(func, act, message):
    sch = schedule(func())
    with pytest.raises(ScheduleError, match=message):
        act(sch)
