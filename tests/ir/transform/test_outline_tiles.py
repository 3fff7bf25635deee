"""OutlineTiles: a tile and its border are one function of where they start and how many iterations they take."""
import numpy as np
import pytest
from tir_cases import arguments, results

from ingot.codegen.c_function import print_function
from ingot.ir.node import collect
from ingot.ir.tir.stmt import AttrStmt, LetStmt
from ingot.ir.transform.outline_tiles import outline_tiles
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.tir.hints import TILE
from ingot.script import tir as T


@T.prim_func
def bordered(x: T.Buffer((4 * 23,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((23,), "float32")):
    for t in range(3):
        if t < 2:
            acc = T.decl_buffer((9,), "float32", scope="local")
            for i in T.unroll(9):
                acc[i] = T.float32(0)
            for k in T.serial(4, annotations={"pragma_unroll": 1}):
                for i in T.unroll(9):
                    acc[i] = acc[i] + x[t * 36 + i * 4 + k] * w[k]
            for i in T.unroll(9):
                y[t * 9 + i] = acc[i]
        else:
            acc_1 = T.decl_buffer((9,), "float32", scope="local")
            for i in T.unroll(9):
                acc_1[i] = T.float32(0)
            for k in T.serial(4, annotations={"pragma_unroll": 1}):
                for i in T.unroll(5):
                    acc_1[i] = acc_1[i] + x[i * 4 + k + 72] * w[k]
            for i in T.unroll(5):
                y[i + 18] = acc_1[i]


@T.prim_func
def last_turn(x: T.Buffer((4 * 19,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((19,), "float32")):
    for t in range(2):
        acc = T.decl_buffer((9,), "float32", scope="local")
        for i in T.unroll(9):
            acc[i] = T.float32(0)
        for k in T.serial(4, annotations={"pragma_unroll": 1}):
            for i in T.unroll(9):
                acc[i] = acc[i] + x[t * 36 + i * 4 + k] * w[k]
        for i in T.unroll(9):
            y[t * 9 + i] = acc[i]
    for once in range(1):
        acc_1 = T.decl_buffer((9,), "float32", scope="local")
        for i in T.unroll(9):
            acc_1[i] = T.float32(0)
        for k in T.serial(4, annotations={"pragma_unroll": 1}):
            acc_1[0] = acc_1[0] + x[k + 72] * w[k]
        y[18] = acc_1[0]


@T.prim_func
def unlike(x: T.Buffer((4 * 18,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((18,), "float32")):
    for t in range(2):
        if t < 1:
            acc = T.decl_buffer((9,), "float32", scope="local")
            for i in T.unroll(9):
                acc[i] = T.float32(0)
            for k in T.serial(4, annotations={"pragma_unroll": 1}):
                for i in T.unroll(9):
                    acc[i] = acc[i] + x[i * 4 + k] * w[k]
            for i in T.unroll(9):
                y[i] = acc[i]
        else:
            acc_1 = T.decl_buffer((9,), "float32", scope="local")
            for i in T.unroll(9):
                acc_1[i] = T.float32(0)
            for k in T.serial(4, annotations={"pragma_unroll": 1}):
                for i in T.unroll(9):
                    acc_1[i] = acc_1[i] + x[i * 4 + k + 36] * w[k]
            for i in T.unroll(9):
                y[i + 9] = acc_1[i] + T.float32(1)


@T.prim_func
def chosen(x: T.Buffer((8,), "float32"), places: T.Buffer((2,), "int32"), y: T.Buffer((8,), "float32")):
    for t in range(2):
        place = T.decl_buffer((1,), "int32", scope="local")
        acc = T.decl_buffer((2,), "float32", scope="local")
        place[0] = places[t]
        for i in T.unroll(2):
            acc[i] = T.float32(0)
        for k in T.serial(2, annotations={"pragma_unroll": 1}):
            for i in T.unroll(2):
                acc[i] = acc[i] + x[place[0] * 4 + k * 2 + i]
        for i in T.unroll(2):
            y[t * 4 + i] = acc[i]


@T.prim_func
def padded(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for t in range(4):
        acc = T.decl_buffer((2,), "float32", scope="local")
        for i in T.unroll(2):
            acc[i] = T.float32(0)
        for k in T.serial(3, annotations={"pragma_unroll": 1}):
            for i in T.unroll(2):
                acc[i] = acc[i] + T.if_then_else(t * 2 + i + k >= 2 and t * 2 + i + k < 10, x[t * 2 + i + k - 2],
                                                 T.float32(0), dtype="float32")
        for i in T.unroll(2):
            y[t * 2 + i] = acc[i]


def tiles(func):
    return [a for a in collect(func.body, AttrStmt) if a.attr_key == TILE]


def c_of(func):
    printed = print_function(lower_prim_func(func), "k")
    return "\n".join(printed.tiles), printed.body


@pytest.mark.parametrize("func, functions", [(bordered, 1), (last_turn, 1), (unlike, 2)])
def test_a_tile_and_its_border_are_one_function(func, functions):
    new = outline_tiles(func)
    assert len(tiles(new)) == 2
    given = arguments(func)
    for old, found in zip(results(func, given), results(new, given)):
        np.testing.assert_array_equal(old, found)
    text, calls = c_of(new)
    assert text.count("INGOT_INLINE void k_tile_acc") == functions
    assert calls.count("k_tile_acc") == 2 and "x[" in text


def test_what_they_differ_in_is_an_argument():
    new = outline_tiles(bordered)
    lets = [{let.var.name: str(let.value) for let in collect(tile, LetStmt)} for tile in tiles(new)]
    assert lets == [{"i_count": "9", "x_start": "t * 36", "w_start": "0", "y_start": "t * 9"},
                    {"i_count": "5", "x_start": "72", "w_start": "0", "y_start": "18"}]
    text, calls = c_of(new)
    assert "k_tile_acc(&x[t * 36], w, &y[t * 9], 9);" in calls
    assert "/* border: 5 of 9 iterations of i */" in calls and "k_tile_acc(&x[72], w, &y[18], 5);" in calls
    assert "for (int32_t i = 0; i < i_count; ++i)" in text and "INGOT_UNROLL(9)" in text


def test_one_turn_of_a_loop_is_a_border_of_one():
    _, calls = c_of(outline_tiles(last_turn))
    assert "/* border: 1 of 9 iterations of i */" in calls


def test_what_a_tile_reads_itself_is_no_start():
    """An index that the tile computes and reads again is not known before it."""
    new = outline_tiles(chosen)
    tile, = tiles(new)
    assert {let.var.name: str(let.value) for let in collect(tile, LetStmt)} == {
        "places_start": "t", "x_start": "0", "y_start": "t * 4"}
    text, calls = c_of(new)
    assert "place = places[0];" in text and "(x, &places[t], &y[t * 4]);" in calls


def test_no_pointer_lies_outside_of_its_buffer():
    """A padded image: x[t * 2 - 2] is before it for t = 0, x[t * 2] is not."""
    text, calls = c_of(outline_tiles(padded))
    assert "(&x[t * 2], &y[t * 2], t);" in calls and " - 2]" in text
    given = arguments(padded)
    for old, found in zip(results(padded, given), results(outline_tiles(padded), given)):
        np.testing.assert_array_equal(old, found)
