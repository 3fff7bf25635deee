"""Numbers in indices are printed by the names of strides, and mean the same."""
import re

import numpy as np
import pytest
from c_build import call, compile_text, source
from tir_cases import loop

import ingot
from ingot.codegen.c_function import print_function
from ingot.ir import tir
from ingot.ir.expr import Cast, Ramp, Var, const
from ingot.ir.tir.stmt import BufferStore, LetStmt
from networks import SMALL

STRIDES = {"x": (("plane", 240), ("row", 20))}


def made(body, buffers, strides=STRIDES):
    params = tuple(Var(b.name, "handle") for b in buffers)
    return tir.PrimFunc(params=params, body=body, buffer_map=dict(zip(params, buffers)), attrs={"strides": strides})


def printed(body, *buffers, strides=STRIDES):
    """The C of a function of some buffers."""
    return print_function(made(body, buffers, strides), "f")


def buffers(*names, dtype="float32"):
    return [tir.decl_buffer((4096,), dtype, name) for name in names]


def indices(body, *buffers):
    return re.findall(r"\bx\w*\[(.*?)\]", printed(body, *buffers).body)


I, J = Var("i"), Var("j")


@pytest.mark.parametrize("index, expected", [
    (I * 240, "i * X_PLANE"), (I * 20 + J, "i * X_ROW + j"), (I * 40, "i * (2 * X_ROW)"),
    (I * 480 + J * 20, "i * (2 * X_PLANE) + j * X_ROW"), (I * 7, "i * 7"), (I + 7, "i + 7"),
    (I + 20, "i + X_ROW"), (I + 60, "i + 3 * X_ROW"), (I + 261, "i + (X_PLANE + X_ROW + 1)"),
    (I + 521, "i + (2 * X_PLANE + 2 * X_ROW + 1)"), (I * 20 - 21, "i * X_ROW - (X_ROW + 1)"),
    (I % 20 * 20, "ingot_floormod_i32(i, 20) * X_ROW"), (const(240), "X_PLANE"), (const(250), "X_PLANE + 10"),
    ((I + J) * 20, "(i + j) * X_ROW"), (I * -20, "i * -20"), (-20 - I, "-20 - i")], ids=str)
def test_multiples_of_strides(index, expected):
    x, = buffers("x")
    inner = tir.For(J, const(0), const(8), "serial", BufferStore(x, const(0.0), (index,)))
    assert indices(tir.For(I, const(0), const(8), "serial", inner), x) == [expected]


def test_only_what_is_used_is_declared_once_for_each_buffer():
    x, y = buffers("x", "y")
    body = loop("i", 8, lambda i: BufferStore(x, y[i * 100 + 3], (i * 20,)))
    text = printed(body, x, y, strides={**STRIDES, "y": (("plane", 100), ("row", 10))}).body
    assert text.startswith("{\n    enum { X_ROW = 20 };\n    enum { Y_PLANE = 100 };\n    for")
    assert "enum" not in printed(loop("i", 8, lambda i: BufferStore(x, y[i], (i,))), x, y).body


def test_a_let_that_is_part_of_an_index():
    x, y = buffers("x", "y")
    at = Var("at")
    body = loop("i", 8, lambda i: LetStmt(at, i * 20 + 240, BufferStore(x, const(0.0), (at + 3,))))
    assert "const int32_t at = i * X_ROW + X_PLANE;" in printed(body, x).body
    both = loop("i", 8, lambda i: LetStmt(at, i * 20 + 240, BufferStore(x, y[at], (at + 3,))))
    assert "const int32_t at = i * 20 + 240;" in printed(both, x, y).body  # it serves two layouts
    alike = printed(both, x, y, strides={**STRIDES, "y": STRIDES["x"]}).body
    assert re.search(r"const int32_t at = i \* [XY]_ROW \+ [XY]_PLANE;", alike)


def test_names_hide_nothing():
    x, other = buffers("x", "X_ROW")
    text = printed(loop("X_PLANE", 8, lambda i: BufferStore(x, other[i], (i * 240 + 20,))), x, other)
    assert "enum { X_PLANE = 240, X_ROW = 20 };" in text.body and "float *INGOT_RESTRICT X_ROW_1" in text.signature
    assert "x[X_PLANE_1 * X_PLANE + X_ROW] = X_ROW_1[X_PLANE_1];" in text.body


def test_wide_indices_are_computed_as_wide():
    x, = buffers("x")
    body = loop("i", 8, lambda i: BufferStore(x, const(0.0), (Cast("int64", i) * const(240, "int64")
                                                              + const(261, "int64"),)))
    assert indices(body, x) == ["(int64_t)i * X_PLANE + (X_PLANE + X_ROW + 1)"]
    huge = {"x": (("plane", 1 << 40), ("row", 20))}
    text = printed(loop("i", 8, lambda i: BufferStore(x, const(0.0), (Cast("int64", i) * const(1 << 40, "int64"),))),
                   x, strides=huge).body
    assert "INT64_C(1099511627776)" in text and "enum" not in text


def test_vectors_and_their_steps():
    x, y = buffers("x", "y")
    body = loop("i", 8, lambda i: BufferStore(x, y[Ramp(i, const(1), 8)], (Ramp(i * 20, const(1), 8),)))
    assert "f32x8_store(&x[i * X_ROW], f32x8_load(&y[i]));" in printed(body, x, y).body
    apart = loop("i", 8, lambda i: BufferStore(y, x[Ramp(i, const(20), 8)], (Ramp(i, const(1), 8),)))
    assert "f32x8_load_strided(&x[i], X_ROW)" in printed(apart, y, x).body


def test_what_is_computed_is_the_same(tmp_path):
    x, y = buffers("x", "y")
    body = loop("i", 4, lambda i: loop("j", 12, lambda j: BufferStore(
        x, y[i * 240 + j * 20 + 261], (i * 480 + j * 40 + 20,))))
    func = made(body, (x, y), {**STRIDES, "y": STRIDES["x"]})
    text = print_function(func, "f")
    assert "(X_PLANE + X_ROW + 1)" not in text.body and "(Y_PLANE + Y_ROW + 1)" in text.body
    given = [np.zeros(4096, np.float32), np.arange(4096, dtype=np.float32)]
    call(compile_text(source([text]), tmp_path), func, "f", given)
    i, j = np.indices((4, 12))
    np.testing.assert_array_equal(given[0][i * 480 + j * 40 + 20], i * 240 + j * 20 + 261)


def test_kernels_of_networks_say_strides_and_the_same_names_each_time():
    first, again = (ingot.inspect_stage(SMALL["residual_net"](), "c", target="x86-64-v4", threads="none") for _ in "ab")
    assert first == again
    assert "_PLANE" in first and "_ROW" in first and "_KH" in first
    body = ingot.inspect_stage(SMALL["residual_net"](), "c", target="c", threads="none")
    assert not re.search(r"\* \d{3,}[\] +]", body), "numbers of strides without a name"
