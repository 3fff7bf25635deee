"""NameStrides calls the strides of buffers after what runs over their dimensions."""
import pytest

from ingot import te, tir
from ingot.ir.expr import Var, const
from ingot.ir.module import IRModule
from ingot.ir.transform.context import Sequential
from ingot.ir.transform.name_strides import name_strides
from ingot.ir.transform.pipeline import pipeline_for


def before_flat(func):
    """A scheduled function as NameStrides sees it."""
    names = [p.info.name for p in pipeline_for("c")]
    passes = pipeline_for("c")[:names.index("FlattenBuffer")]
    return Sequential(passes, name="ToFlat")(IRModule({"main": func}))["main"]


def strides(func):
    return name_strides(before_flat(func)).attrs.get("strides", {})


def convolution(image=(1, 3, 20, 24), window=(8, 3, 5, 5)):
    x, w = te.placeholder(image, name="x"), te.placeholder(window, name="w")
    ic, kh, kw = (te.reduce_axis((0, n), name) for n, name in zip(window[1:], ("ic", "kh", "kw")))
    out = (1, window[0], image[2] - 4, image[3] - 4)
    return te.create_prim_func([x, w, te.compute(out, lambda n, oc, y, x_: te.sum(
        x[n, ic, y + kh, x_ + kw] * w[oc, ic, kh, kw], (ic, kh, kw)), "y")])


def test_images_have_planes_and_rows_and_weights_the_names_of_their_loops():
    found = strides(convolution())
    assert found == {"x": (("plane", 480), ("row", 24)), "w": (("oc", 75), ("ic", 25), ("kh", 5)),
                     "y": (("plane", 320), ("row", 20))}


def test_parts_of_a_split_loop_are_no_names():
    sch = tir.Schedule(convolution())
    _, oc, *_ = sch.get_loops(sch.get_block("y"))
    sch.split(oc, (None, 4))
    assert strides(sch.func)["w"] == (("oc", 75), ("ic", 25), ("kh", 5))


@pytest.mark.parametrize("shape, expected", [
    ((6, 40), (("row", 40),)), ((5,), None), ((4, 1, 1, 16), None), ((1, 4, 1, 1, 20), (("row", 20),)),
    ((2, 3, 4, 5), (("image", 60), ("plane", 20), ("row", 5))), ((2, 3, 4, 5, 8), (
        ("image", 480), ("plane", 160), ("row", 40), ("column", 8))),
    ((2, 2, 2, 2, 2, 2), (("axis0", 32), ("axis1", 16), ("image", 8), ("plane", 4), ("row", 2)))])
def test_what_loops_do_not_name_is_called_by_its_place(shape, expected):
    a = te.placeholder(shape, name="a")
    func = te.create_prim_func([a, te.compute(shape, lambda *i: a[i] + 1.0, "b")])
    assert strides(func).get("a") == expected


def test_dimensions_of_symbolic_size_have_no_constant_strides():
    n = Var("n")
    a = te.placeholder((4, n, 60), name="a")
    func = te.create_prim_func([a, te.compute((4, n, 60), lambda *i: a[i] + 1.0, "b")])
    assert strides(func)["a"] == (("row", 60),)


def test_of_buffers_of_one_name_the_largest_has_the_names():
    x, y = (tir.decl_buffer((4, 80), name=name) for name in "xy")
    part = tir.decl_buffer((2, 20), name="x")
    i = Var("i")
    body = tir.SeqStmt((tir.BufferStore(part, x[i, 1], (const(1), const(0))),
                        tir.BufferStore(y, part[1, 0], (i, const(0)))))
    loop = tir.For(i, const(0), const(4), "serial", tir.DeclBuffer(part, body))
    params = Var("x", "handle"), Var("y", "handle")
    func = tir.PrimFunc(params=params, body=loop, buffer_map=dict(zip(params, (x, y))), attrs={})
    assert name_strides(func).attrs["strides"]["x"] == (("row", 80),)
