"""Joining in place: which concats, splits and slices need no copy, and that what they become is right in memory."""
from unittest import mock

import numpy as np
import pytest
from graph_check import PASSES, Graph, check, const, data, execute, ops, param
from value_target import value_target

import ingot
from ingot.codegen.program import build_program
from ingot.ir.expr import Var
from ingot.ir.node import structural_equal
from ingot.ir.relax import Constant, ShapeExpr, TupleGetItem, call_op
from ingot.ir.relax.memory import PlaceError, check_places
from ingot.ir.relax.verifier import VerifyError, verify
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.in_place import in_place
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.outputs import materialize_outputs
from ingot.runtime.binding import aligned_empty
from ingot.script import from_source

N = Var("n", "int64")
JOIN, PART, BORDER, INLAY = "memory.join", "memory.part", "memory.border", "memory.inlay"


def poisoned(library, *inputs):
    """The outputs of two runs in an arena whose every tensor begins as NaN; the second finds what the first left."""
    def not_numbers(*where):
        arena = aligned_empty(*where)
        arena[:] = 255
        return arena

    with mock.patch("ingot.runtime.binding.aligned_empty", not_numbers):
        found = [library(*inputs) for _ in range(2)]
    return [outputs if isinstance(outputs, tuple) else (outputs,) for outputs in found]


def compiled(mod, *inputs, **options):
    """Check compiled results in a poisoned arena against the reference; returns the calls' kernels."""
    expected = execute(mod, *inputs)
    with ingot.compile(mod, **{"target": value_target(), **options}) as library:
        for outputs in poisoned(library, *inputs):
            for found, value in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(found, value, rtol=0, atol=1e-5 * max(np.abs(value).max(initial=0), 1))
        return [c.kernel for c in library.model.program.calls]


def joined(mod, *inputs):
    """The operators after fusing and joining, each of which keeps the results; lowering them does too."""
    return ops(check(mod, *inputs, passes=[fuse_ops, in_place]))


def program(mod):
    return build_program(lower_ops(materialize_outputs(in_place(mod))), "net")


def places(mod):
    """[(kind, number, offset)] of the results of each call."""
    return [(o.kind, o.index, int(o.offset)) for o in (c.operands[-1] for c in program(mod).calls)]


def branches(g, count=3, channels=3, batch=1):
    """Results of `count` kernels, each [batch, channels + k, 4, 5]."""
    return [g.op("nn.conv2d", g.params[0], const(channels + k, 2, 1, 1, seed=k)) for k in range(count)]


def test_branches_write_into_their_slices():
    g = Graph(param("x", 1, 2, 4, 5))
    mod = g.module(g.op("exp", g.op("concat", *branches(g), axis=1)))
    assert joined(mod, data(1, 2, 4, 5)) == ["nn.conv2d"] * 3 + [JOIN, "exp"]
    assert places(mod) == [("arena", 0, 0), ("arena", 0, 60), ("arena", 0, 140), ("output", 0, 0)]
    assert [(b.first, b.last) for b in program(mod).plan.buffers] == [(0, 3)]
    assert compiled(mod, data(1, 2, 4, 5), opt_level=1) == ["conv2d", "conv2d_1", "conv2d_2", "exp"]
    compiled(mod, data(1, 2, 4, 5))


@pytest.mark.parametrize("flat", [False, True])
def test_a_dense_block_lives_in_one_buffer(flat):
    """Each layer reads all before it: chained, or as one long concat per layer."""
    g = Graph(param("x", 1, 3, 4, 5))
    features = [g.op("nn.relu", g.params[0])]
    whole = features[0]
    for k in range(4):
        channels = whole.struct_info.shape[1].value
        features.append(g.op("nn.conv2d", g.op("sigmoid", whole), const(2, channels, 1, 1, seed=k)))
        whole = g.op("concat", *features, axis=1) if flat else g.op("concat", whole, features[-1], axis=1)
    mod = g.module(g.op("exp", whole))
    assert "concat" not in joined(mod, data(1, 3, 4, 5)) and "copy" not in joined(mod, data(1, 3, 4, 5))
    offsets = [(index, offset) for kind, index, offset in places(mod) if kind == "arena"]
    assert [offset for index, offset in offsets if index == 0] == [0, 60, 100, 140, 180]
    compiled(mod, data(1, 3, 4, 5))


def test_a_tensor_lies_in_one_place():
    """Twice in one concat, or in two: the second time it is copied."""
    g = Graph(param("x", 1, 2, 4, 5))
    a, b = branches(g, 2)
    mod = g.module(g.op("exp", g.op("concat", a, b, a, axis=1)), g.op("tanh", g.op("concat", b, a, axis=1)))
    assert joined(mod, data(1, 2, 4, 5)) == ["nn.conv2d"] * 2 + ["copy", JOIN, "exp", "concat", "tanh"]
    compiled(mod, data(1, 2, 4, 5))


def test_parameters_constants_and_outputs_are_copied_into_their_slice():
    g = Graph(param("x", 1, 2, 4, 5))
    a, b = branches(g, 2)
    both = g.op("concat", g.params[0], a, const(1, 2, 4, 5), b, axis=1)
    mod = g.module(both, a, g.op("exp", both))
    assert joined(mod, data(1, 2, 4, 5)) == ["nn.conv2d"] * 2 + ["copy"] * 3 + [JOIN, "exp"]
    assert ("output", 0, 140) in places(mod) and ("output", 1, 0) in places(mod)
    compiled(mod, data(1, 2, 4, 5))


def test_a_concat_of_nothing_computed_stays():
    g = Graph(param("x", 1, 2, 4, 5))
    mod = g.module(g.op("concat", g.params[0], const(1, 2, 4, 5), axis=1))
    assert joined(mod, data(1, 2, 4, 5)) == ["concat"]


@pytest.mark.parametrize("shape, axis", [((2, 3, 4), 1), ((1, 3, 4), 2), ((2, 3), -1)])
def test_a_concat_whose_slices_are_not_in_order_stays(shape, axis):
    g = Graph(param("x", *shape))
    mod = g.module(g.op("concat", g.op("exp", g.params[0]), g.op("tanh", g.params[0]), axis=axis))
    assert joined(mod, data(*shape))[-1] == "concat"
    compiled(mod, data(*shape))


def test_inputs_may_be_used_elsewhere_and_be_views():
    g = Graph(param("x", 1, 2, 4, 5))
    a, b = branches(g, 2)
    whole = g.op("concat", g.op("reshape", a, [3, 20]), g.op("reshape", g.op("nn.relu", b), [4, 20]), axis=0)
    mod = g.module(g.op("exp", g.op("reshape", whole, [7, 4, 5])), g.op("tanh", a), g.op("reshape", whole, [140]))
    assert JOIN in joined(mod, data(1, 2, 4, 5))
    compiled(mod, data(1, 2, 4, 5))


def test_symbolic_extents_become_offsets():
    g = Graph(param("x", N, 3), param("y", 2, 3))
    mod = g.module(g.op("exp", g.op("concat", g.op("tanh", g.params[0]), g.op("sigmoid", g.params[1]), axis=0)))
    assert joined(mod, data(4, 3), data(2, 3)) == ["tanh", "sigmoid", JOIN, "exp"]
    for n in (1, 4):
        compiled(mod, data(n, 3), data(2, 3))


def test_a_symbolic_batch_is_not_in_order():
    g = Graph(param("x", N, 3))
    mod = g.module(g.op("concat", g.op("tanh", g.params[0]), g.op("exp", g.params[0]), axis=1))
    assert joined(mod, data(4, 3)) == ["tanh", "exp", "concat"]


def test_results_of_one_call_may_lie_in_two_tensors():
    g = Graph(param("x", 2, 6))
    parts = g.op("split", g.op("exp", g.params[0]), sections=(2, 4), axis=1)
    a, b = (g.bind(TupleGetItem(parts, k)) for k in (0, 1))
    one = g.op("concat", a, g.op("nn.relu", a), axis=0)
    two = g.op("concat", g.op("nn.relu", b), b, axis=0)
    mod = g.module(g.op("exp", one), g.op("exp", two))
    assert joined(mod, data(2, 6)).count(JOIN) == 2
    compiled(mod, data(2, 6))


# ---------------------------------------------------------------- parts

def test_splits_of_the_outermost_axis_are_read_where_they_are():
    g = Graph(param("x", 1, 6, 4), param("y", 6, 4))
    parts = g.op("split", g.op("tanh", g.params[0]), sections=(2, 4), axis=1)
    a, b = (g.bind(TupleGetItem(parts, k)) for k in (0, 1))
    slice_ = g.op("strided_slice", g.params[1], axes=(0,), begin=(1,), end=(4,), strides=(1,))
    mod = g.module(g.op("nn.softmax", a), g.op("nn.softmax", b), g.op("nn.softmax", slice_))
    assert joined(mod, data(1, 6, 4), data(6, 4)).count(PART) == 3
    assert [int(c.operands[0].offset) for c in program(mod).calls] == [0, 0, 8, 4]
    assert compiled(mod, data(1, 6, 4), data(6, 4)).count("split") == 0


def test_parts_that_are_outputs_are_copied():
    g = Graph(param("x", 6, 4))
    parts = g.op("split", g.op("tanh", g.params[0]), sections=(2, 4), axis=0)
    a, b = (g.bind(TupleGetItem(parts, k)) for k in (0, 1))
    mod = g.module(a, b, g.op("concat", b, g.op("exp", a), axis=0))
    assert joined(mod, data(6, 4)).count(PART) == 2
    compiled(mod, data(6, 4))


@pytest.mark.parametrize("attrs", [
    {"axes": (1,), "begin": (1,), "end": (3,), "strides": (1,)},
    {"axes": (0,), "begin": (5,), "end": (-1,), "strides": (-1,)},
    {"axes": (0, 1), "begin": (1, 1), "end": (3, 3), "strides": (1, 1)}])
def test_slices_that_are_not_in_order_are_copied(attrs):
    g = Graph(param("x", 6, 4))
    mod = g.module(g.op("nn.softmax", g.op("strided_slice", g.params[0], **attrs)))
    assert PART not in joined(mod, data(6, 4))


# ---------------------------------------------------------------- borders

def pad(g, x, *width, value=0.0):
    return g.op("nn.pad", x, pad_width=(*(0,) * (2 * x.struct_info.ndim - len(width)), *width), pad_value=value)


def test_what_is_padded_is_written_inside_its_border():
    """Other readers skip the border, which is filled before the first run where no other tensor lies there."""
    g = Graph(param("x", 2, 3, 6, 7))
    a = g.op("nn.conv2d", g.params[0], const(5, 3, 1, 1))
    b = g.op("nn.conv2d", pad(g, a, 1, 2, 0, 1), const(4, 5, 3, 2, seed=1))
    c = g.op("nn.max_pool2d", pad(g, b, 1, 1, 1, 1, value=float("-inf")), pool_size=(3, 3))
    mod = g.module(g.op("exp", c), g.op("nn.conv2d", a, const(2, 5, 1, 1)))
    assert joined(mod, data(2, 3, 6, 7)) == ["nn.conv2d", BORDER, INLAY, "nn.conv2d", BORDER, INLAY,
                                             ("nn.max_pool2d", "exp"), "nn.conv2d"]
    assert places(mod)[0] == ("arena", 0, 8)  # after the border
    assert [[c.border for c in calls] for calls in (program(mod).once, program(mod).calls)] == [[True] * 2, [False] * 5]
    for level in (1, 2):
        for target in ("host", "c"):
            assert "pad" not in compiled(mod, data(2, 3, 6, 7), opt_level=level, target=target)


@pytest.mark.parametrize("kernel, groups, strides", [(1, 1, 1), (3, 1, 1), (3, 1, 2), (3, 32, 1), (5, 32, 2)])
def test_borders_in_blocked_layout(kernel, groups, strides):
    """Convolutions in blocked layout, the second of which reads what the first writes inside a border."""
    c = ingot.Target.get("host").lanes
    g, blocks = Graph(param("x", 1, 32 // c, 9, 10, c)), (32 // c, 32 // c, 1, 1, c, c)
    layout = {"data_layout": f"NCHW{c}c", "out_channels": 32}
    a = g.op("nn.relu", g.op("nn.conv2d", g.params[0], const(*blocks), kernel_layout=f"OIHW{c}i{c}o", **layout))
    second = (32 // c, 1, kernel, kernel, c) if groups > 1 else (32 // c, 32 // c, kernel, kernel, c, c)
    b = g.op("nn.conv2d", pad(g, a, 2, 2, 2, 2, 0, 0), const(*second, seed=1), strides=(strides, strides),
             groups=groups, kernel_layout=f"OIHW{c}o" if groups > 1 else f"OIHW{c}i{c}o", **layout)
    d = g.op("nn.conv2d", a, const(*blocks, seed=2), kernel_layout=f"OIHW{c}i{c}o", **layout)
    mod = g.module(g.op("nn.relu", b), g.op("nn.relu", d))
    assert "pad" not in compiled(mod, data(1, 32 // c, 9, 10, c), target="host")


@pytest.mark.parametrize("width", [(1, 0), (0, 2, 1, 1), (1, 1, 0, 0, 2, 0), (1, 2, 1, 1, 0, 3)])
def test_borders_of_any_axes(width):
    g = Graph(param("x", 3, 4, 5))
    mod = g.module(g.op("tanh", pad(g, g.op("nn.softmax", g.params[0]), *width, value=0.5)))
    assert joined(mod, data(3, 4, 5))[1:3] == [BORDER, INLAY]
    compiled(mod, data(3, 4, 5))


def test_borders_of_symbolic_tensors():
    g = Graph(param("x", N, 4, 5))
    mod = g.module(g.op("tanh", pad(g, g.op("nn.softmax", g.params[0]), 0, 0, 1, 1, 1, 2)))
    for n in (1, 3):
        compiled(mod, data(n, 4, 5))


@pytest.mark.parametrize("used", [
    lambda g, x: g.op("reshape", x, [20]), lambda g, x: x, lambda g, x: g.op("concat", x, x, axis=0),
    lambda g, x: g.op("exp", g.op("reshape", x, [20]))])
def test_rows_stay_together_where_something_needs_them_so(used):
    """A view of another shape, a caller, a concat."""
    g = Graph(param("x", 4, 5))
    a = g.op("nn.softmax", g.params[0])
    mod = g.module(g.op("tanh", pad(g, a, 1, 1)), used(g, a))
    assert BORDER not in joined(mod, data(4, 5))
    compiled(mod, data(4, 5))


def test_views_may_lie_apart_where_strides_give_their_elements():
    """A channel shuffle: channels split and joined, rows and columns left as they are."""
    g = Graph(param("x", 1, 6, 4, 5))
    turned = g.op("permute_dims", g.op("reshape", g.params[0], [1, 2, 3, 4, 5]), axes=(0, 2, 1, 3, 4))
    shuffled = g.op("reshape", turned, [1, 6, 4, 5])
    other = g.op("exp", g.op("reshape", turned, [3, 2, 4, 5, 1]))
    mod = g.module(g.op("tanh", pad(g, shuffled, 1, 1, 1, 1)), other)
    assert joined(mod, data(1, 6, 4, 5)).count(BORDER) == 1
    assert "pad" not in compiled(mod, data(1, 6, 4, 5))


def test_parts_get_no_border():
    g = Graph(param("x", 6, 4))
    parts = g.op("split", g.op("tanh", g.params[0]), sections=(2, 4), axis=0)
    mod = g.module(g.op("exp", pad(g, g.bind(TupleGetItem(parts, 1)), 1, 1)))
    assert joined(mod, data(6, 4))[-2:] == ["nn.pad", "exp"]


def test_a_tensor_has_one_border():
    g = Graph(param("x", 4, 5))
    a = g.op("nn.softmax", g.params[0])
    padded = [pad(g, a, 1, 1), pad(g, a, 2, 2), pad(g, g.params[0], 1, 1)]
    mod = g.module(*(g.op("tanh", x) for x in padded))
    found = joined(mod, data(4, 5))
    assert found.count(BORDER) == 1 and found.count("nn.pad") == 2
    compiled(mod, data(4, 5))


# ---------------------------------------------------------------- what is well formed

def test_printed_text_is_parsed_back():
    g = Graph(param("x", 1, 2, 4, 5))
    whole = g.op(JOIN, g.op("exp", g.params[0]), g.op("tanh", g.params[0]), axis=1)
    mod = g.module(g.op("exp", g.op(PART, whole, axis=1, begin=1, extent=2)))
    text = mod.script()
    assert "R.memory.join((" in text and "R.memory.part(" in text
    assert structural_equal(from_source(text), mod)


@pytest.mark.parametrize("made, message", [
    (lambda g, a: g.op(JOIN, g.params[0], a, axis=0), "x is not computed by the function, so it cannot lie in"),
    (lambda g, a: g.op(JOIN, a, const(2, 4), axis=0), "w is not computed by the function"),
    (lambda g, a: g.op(JOIN, a, a, axis=0), "exp would lie in two places: use concat, or copy it first"),
    (lambda g, a: g.op(JOIN, g.op(PART, a, axis=0, begin=0, extent=1), g.op("tanh", a), axis=0),
     "part is a part of another tensor"),
    (lambda g, a: g.op(JOIN, g.op("reshape", a, [4, 2]), g.op("tanh", g.op("reshape", g.params[0], [4, 2])), axis=1),
     "reshape is a view, whose rows cannot lie apart"),
    (lambda g, a: g.op("exp", g.op("reshape", g.op(PART, a, axis=1, begin=1, extent=2), [4])),
     "reshape shows part under another shape, but its rows lie apart"),
    (lambda g, a: g.op(INLAY, g.op("tanh", a), a, pad_width=(0, 0, 0, 0)), "tanh is no memory.border, whose kernel"),
])
def test_what_cannot_lie_there_is_refused(made, message):
    g = Graph(param("x", 2, 4))
    mod = g.module(made(g, g.op("exp", g.params[0])))
    with pytest.raises(VerifyError, match=message):
        verify(mod)
    with pytest.raises(PlaceError, match=message):
        check_places(mod["main"])


def test_parts_stay_inside():
    with pytest.raises(ingot.ir.op.InferError, match=r"3 elements from 4 on leave axis 0 of \(6, 4\)"):
        call_op(PART, param("x", 6, 4), axis=0, begin=4, extent=3)


def test_borders_fit():
    x, shape = param("x", 6, 4), ShapeExpr((7, 6))
    with pytest.raises(ingot.ir.op.InferError, match=r"\(6, 4\) with \(1, 1, 1, 1\) around it is not \(7, 6\)"):
        call_op(INLAY, call_op(BORDER, shape, pad_width=(1, 0, 1, 1)), x, pad_width=(1, 1, 1, 1))
    for width in ((1, 1), (1, 1, 1, -1)):
        with pytest.raises(ingot.ir.op.InferError, match="must be a pair of numbers, none below 0, for each dimension"):
            call_op(BORDER, shape, pad_width=width)


@pytest.mark.parametrize("shape, axis", [((2, 3, 4), 1), ((1, 3, 4), 2), ((3, 5), -1), ((2, 2, 3, 16), 2)])
def test_rows_that_lie_apart_are_written_and_read_with_strides(shape, axis):
    """By hand: the pass leaves such concats alone."""
    g = Graph(param("x", *shape))
    a, b = g.op("exp", g.params[0]), g.op("tanh", g.params[0])
    c = g.op("nn.softmax", a)
    whole = g.op(JOIN, a, c, b, axis=axis)
    part = g.op(PART, whole, axis=axis, begin=1, extent=shape[axis])
    mod = g.module(g.op("nn.softmax", part), g.op("nn.relu", whole), g.op("sqrt", a), part)
    for level in (0, 1, 2):
        compiled(mod, data(*shape), opt_level=level)
    compiled(mod, data(*shape), target="c")


def test_strides_of_symbolic_extents():
    g = Graph(param("x", 2, N, 3))
    a = g.op("exp", g.params[0])
    whole = g.op(JOIN, a, g.op("tanh", a), axis=1)
    mod = g.module(g.op("nn.softmax", whole), g.op("nn.softmax", g.op("sqrt", a)))
    compiled(mod, data(2, 5, 3))


def test_verify_compares_what_lies_inside_others():
    g = Graph(param("x", 1, 2, 4, 5))
    mod = g.module(g.op("exp", g.op("concat", *branches(g), axis=1)))
    report = ingot.verify(mod)
    assert report.ok and [row.node for row in report.rows] == [
        "conv2d", "conv2d_1", "conv2d_2", "concat", "exp"]


@pytest.mark.parametrize("passes", [[*PASSES[:-1], in_place, PASSES[-1]]])
def test_after_all_other_passes(passes):
    g = Graph(param("x", 1, 2, 6, 6))
    a = g.op("nn.relu", g.op("nn.conv2d", g.params[0], const(3, 2, 3, 3), padding=(1, 1, 1, 1)))
    b = g.op("nn.max_pool2d", g.params[0], pool_size=(3, 3), padding=(1, 1, 1, 1))
    mod = check(g.module(g.op("nn.relu", g.op("concat", a, b, Constant(np.ones((1, 1, 6, 6), np.float32)), axis=1))),
                data(1, 2, 6, 6), passes=passes)
    assert JOIN in ops(mod)


# ---------------------------------------------------------------- rows that lie apart

def _turned(rows, width):
    """Halves of each row, turned by angles and joined."""
    x, c, s = param("x", rows, width), param("c", rows, width // 2), param("s", rows, width // 2)
    g = Graph(x, c, s)
    parts = g.op("split", x, sections=(width // 2,) * 2, axis=1)
    a, b = (g.bind(TupleGetItem(parts, n)) for n in range(2))
    first = g.op("subtract", g.op("multiply", a, c), g.op("multiply", b, s))
    second = g.op("add", g.op("multiply", a, s), g.op("multiply", b, c))
    inputs = [data(rows, w, seed=seed) for seed, w in enumerate((width, width // 2, width // 2))]
    return g.module(g.op("concat", first, second, axis=1)), inputs


def test_maps_read_and_write_rows_that_lie_apart():
    """Two kernels, each of which reads and writes half of each row; no copy."""
    mod, inputs = _turned(5, 64)
    found = joined(mod, *inputs)
    assert JOIN in found and found.count(PART) == 2 and not {"concat", "split"} & set(found)
    assert len(compiled(mod, *inputs, target="host", threads="none")) == 2


def test_short_rows_are_copied():
    mod, inputs = _turned(5, 16)
    assert {"concat", "split"} <= set(joined(mod, *inputs))
    compiled(mod, *inputs, threads="none")


def test_parts_that_something_else_reads_are_copied():
    """A product reads a part; a reduction reads what is joined; one part is joined twice."""
    x = param("x", 4, 64)
    g = Graph(x)
    a = g.op("strided_slice", x, axes=(1,), begin=(32,), end=(64,), strides=(1,))
    y = g.op("matmul", a, const(32, 32))
    b = g.op("nn.relu", x)
    mod = g.module(g.op("concat", b, b, axis=1), g.op("sum", b, axis=(1,)), y)
    found = joined(mod, data(4, 64))
    assert JOIN not in found and "concat" in found and PART not in found
    compiled(mod, data(4, 64), threads="none")
