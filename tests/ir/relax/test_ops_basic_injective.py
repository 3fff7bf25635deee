"""Operators that copy elements, and views: interpreted lowering against the numpy reference."""
import numpy as np
import pytest
from ops_basic_check import N, call_of, check, evaluate, floats, ints, interpret

from ingot.ir.expr import IntImm, Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops.view import matching_groups

FIRST = {(0, 0): N}
X = floats(2, 3, 4)


@pytest.mark.parametrize("axes", [None, (0, 1, 2), (2, 0, 1), (-1, 0, -2), (1, 2, 0)])
def test_permute_dims(axes):
    result, = check("permute_dims", X, attrs={"axes": axes}, symbolic=FIRST)
    np.testing.assert_array_equal(result, X.transpose(axes))


@pytest.mark.parametrize("shape, to", [((3, 1), (2, 3, 4)), ((1,), (5,)), ((), (2, 2)), ((2, 3), (2, 3))])
def test_broadcast_to(shape, to):
    check("broadcast_to", floats(*shape), to)


def test_broadcast_to_symbolic_shape():
    check("broadcast_to", floats(3, 1), (2, 3, 4), symbolic={(1, 0): N})


@pytest.mark.parametrize("repeats", [(1, 1, 1), (2, 1, 3), (1, 4, 1)])
def test_tile(repeats):
    check("tile", X, attrs={"repeats": repeats}, symbolic=FIRST)


def test_tiles_of_nothing():
    check("tile", np.zeros((2, 0, 3), "float32"), attrs={"repeats": (1, 2, 2)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis):
    extents = [1, 3, 2]
    parts = [floats(*(e if k == axis % 3 else d for k, d in enumerate((2, 3, 4))), seed=e) for e in extents]
    check("concat", *parts, attrs={"axis": axis})
    check("concat", parts[0], attrs={"axis": axis})
    if axis == 1:
        check("concat", *parts, attrs={"axis": axis}, symbolic={(n, 0): N for n in range(3)})


def test_concat_along_symbolic_dimensions():
    m = Var("m", "int64")
    check("concat", floats(2, 3), floats(4, 3), floats(1, 3), attrs={"axis": 0}, symbolic={(0, 0): N, (1, 0): m})


@pytest.mark.parametrize("sections, axis", [((2, 2), 2), ((1, 3), -1), ((3,), 1), ((1, 0, 1), 0)])
def test_split(sections, axis):
    parts = check("split", X, attrs={"sections": sections, "axis": axis}, symbolic=FIRST if axis else ())
    assert [p.shape[axis] for p in parts] == list(sections)


SLICES = [((0,), (1,), (2,), (1,)), ((1, 2), (0, 1), (3, 4), (2, 2)), ((-1,), (3,), (-1,), (-1,)),
          ((2,), (3,), (0,), (-2,)), ((1,), (1,), (1,), (1,)), ((1, 2), (2, 0), (-1, 4), (-2, 3)),
          ((2,), (1,), (None,), (1,)), ((2,), (2,), (None,), (-1,))]


@pytest.mark.parametrize("axes, begin, end, strides", SLICES)
def test_strided_slice(axes, begin, end, strides):
    attrs = {"axes": axes, "begin": begin, "end": end, "strides": strides}
    check("strided_slice", X, attrs=attrs, symbolic=FIRST)


def test_slices_of_symbolic_axes():
    x = floats(7, 2)
    for begin, end, stride, length in ((0, 1, 1, 1), (2, None, 1, 5), (1, None, 3, 2), (3, -1, -1, 4)):
        attrs = {"axes": (0,), "begin": (begin,), "end": (end,), "strides": (stride,)}
        assert check("strided_slice", x, attrs=attrs, symbolic=FIRST)[0].shape == (length, 2)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_take(axis, dtype):
    low = 0 if dtype == "uint8" else -2
    check("take", X, ints(2, 5, low=low, high=2, dtype=dtype), attrs={"axis": axis},
          symbolic={(0, 0): N, (1, 1): Var("m", "int64")})
    check("take", X, np.array(1, dtype), attrs={"axis": axis})


def test_take_holds_stray_indices_inside():
    call = call_of("take", [X, ints(2, dtype="int64")], {"axis": 2})
    out, = interpret(call, [X, np.array([99, -99])], [np.zeros((2, 3, 2), np.float32)])
    np.testing.assert_array_equal(out, X[:, :, [3, 0]])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis):
    check("gather_elements", X, ints(2, 2, 3, low=-2, high=2, dtype="int64"), attrs={"axis": axis})
    check("gather_elements", X, ints(2, 3, 4, low=-2, high=2), attrs={"axis": axis}, symbolic={(0, 0): N, (1, 0): N})


@pytest.mark.parametrize("mode, width", [
    ("constant", (0, 0, 1, 2, 0, 3)), ("constant", (0, 0, -1, 1, 2, -2)), ("constant", (0,) * 6),
    ("reflect", (1, 0, 2, 2, 0, 3)), ("edge", (2, 1, 0, 0, 5, 1)), ("wrap", (0, 1, 4, 0, 0, 2))])
def test_pad(mode, width):
    attrs = {"pad_width": width, "pad_mode": mode, "pad_value": 1.5}
    check("nn.pad", X, attrs=attrs, symbolic=FIRST)


def test_pad_of_integers():
    check("nn.pad", ints(3, dtype="int64"), attrs={"pad_width": (1, 1), "pad_value": -4.0})


# ---------------------------------------------------------------- views

@pytest.mark.parametrize("shape, to", [
    ((2, 3, 4), (6, 4)), ((2, 3, 4), (4, 6)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4)), ((2, 3, 4), (2, 12)),
    ((6, 4), (3, 2, 2, 2)), ((1, 1), ()), ((), (1, 1)), ((1, 6, 1), (2, 1, 3)), ((0, 3), (3, 0))])
def test_reshape(shape, to):
    check("reshape", floats(*shape), to)


@pytest.mark.parametrize("shape, to, at", [
    ((2, 3, 4), (2, 12), {(0, 0): N, (1, 0): N}), ((2, 3, 4), (2, 1, 3, 2, 2), {(0, 0): N, (1, 0): N}),
    ((3, 2, 4), (12, 2), {(0, 1): N, (1, 1): N})])
def test_reshape_with_symbols(shape, to, at):
    check("reshape", floats(*shape), to, symbolic=at)


@pytest.mark.parametrize("axis", [0, -1, (0, 2), (-1, 1)])
def test_expand_dims(axis):
    check("expand_dims", X, attrs={"axis": axis}, symbolic=FIRST)


@pytest.mark.parametrize("axis", [None, 1, (-1,), (1, 3)])
def test_squeeze(axis):
    check("squeeze", floats(3, 1, 2, 1), attrs={"axis": axis}, symbolic=FIRST)


def test_matching_groups():
    def dims(*values):
        return tuple(v if isinstance(v, Var) else IntImm("int64", v) for v in values)

    assert matching_groups(dims(N, 3, 4, 5), dims(N, 12, 5)) == [([0], [0]), ([1, 2], [1]), ([3], [2])]
    assert matching_groups(dims(2, 3), dims(3, 2)) == [([0, 1], [0, 1])]
    assert matching_groups(dims(4), dims(4, 1)) == [([0], [0]), ([], [1])]


ANY = {"axes": (0,), "begin": (0,), "end": (1,), "strides": (1,)}
I2 = ints(2, 2)


@pytest.mark.parametrize("name, args, attrs, message", [
    ("permute_dims", [X], {"axes": (0, 1, 1)}, r"axes \(0, 1, 1\) are no permutation of the 3 axes of \(2, 3, 4\)"),
    ("permute_dims", [X], {"axes": (0, 1, 5)}, r"permute_dims: axis 5 is outside a tensor of 3 dimensions"),
    ("broadcast_to", [X, (3, 4)], {}, r"broadcast_to: shape \(2, 3, 4\) does not broadcast to \(3, 4\)"),
    ("broadcast_to", [X, X], {}, r"broadcast_to: argument 1 must be a shape, it is a RelaxVar"),
    ("tile", [X], {"repeats": (1, 2)}, r"tile: repeats \(1, 2\) must hold one count per dimension of \(2, 3, 4\)"),
    ("concat", [X, floats(2, 3)], {"axis": 0}, r"concat: operands must have one rank .* \(2, 3, 4\) and \(2, 3\)"),
    ("concat", [X, floats(2, 2, 4)], {"axis": 0}, r"concat: shapes .* differ in axis 1, .* concatenated axis 0"),
    ("split", [X], {"sections": (1, 2), "axis": 2}, r"split: sections \(1, 2\) do not add up to axis 2 of \(2, 3, 4\)"),
    ("strided_slice", [X], {**ANY, "end": (1, 2)}, r"strided_slice: axes .* must have one length"),
    ("strided_slice", [X], {**ANY, "strides": (0,)}, r"strided_slice: the stride of axis 0 is 0"),
    ("strided_slice", [X], {**ANY, "end": (3,)}, r"strided_slice: slice \(0, 3, 1\) leaves axis 0 of \(2, 3, 4\)"),
    ("take", [X, X], {}, r"take: takes an integer tensor, got float32"),
    ("take", [X, I2], {"axis": 3}, r"take: axis 3 is outside a tensor of 3 dimensions"),
    ("gather_elements", [X, I2], {}, r"gather_elements: indices of shape \(2, 2\) do not fit inside \(2, 3, 4\)"),
    ("nn.pad", [X], {"pad_width": (0,) * 6, "pad_mode": "odd"}, r"nn.pad: pad_mode 'odd' is none of constant, reflect"),
    ("nn.pad", [X], {"pad_width": (1, 1)}, r"nn.pad: pad_width \(1, 1\) needs a pair of numbers per dimension"),
    ("nn.pad", [X], {"pad_width": (2, 0, 0, 0, 0, 0), "pad_mode": "reflect"}, r"nn.pad: reflect by \(2, 0\) does not"),
    ("nn.pad", [X], {"pad_width": (-1,) * 6, "pad_mode": "edge"}, r"nn.pad: pad_width .* crops"),
    ("nn.pad", [X], {"pad_width": (-2, -1, 0, 0, 0, 0)}, r"nn.pad: padding \(-2, -1\) leaves less than nothing"),
    ("reshape", [X, (5, 5)], {}, r"reshape: \(2, 3, 4\) and \(5, 5\) differ in their number of elements"),
    ("reshape", [X, (-1, 5)], {}, r"reshape: shape \(-1, 5\) has a negative dimension"),
    ("expand_dims", [X], {"axis": 4}, r"expand_dims: axis 4 is outside a tensor of 4 dimensions"),
    ("squeeze", [X], {"axis": 1}, r"squeeze: axis 1 of \(2, 3, 4\) is not 1"),
    ("squeeze", [floats(1, 2)], {"axis": (0, -2)}, r"squeeze: axes \(0, -2\) name one axis twice"),
])
def test_errors(name, args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, args, attrs)


@pytest.mark.parametrize("name, args, attrs, message", [
    ("split", [X], {"sections": (1, 1), "axis": 0}, r"axis 0 of \(n, 3, 4\) is symbolic; split needs a known extent"),
    ("strided_slice", [X], {**ANY, "begin": (-2,)}, r"symbolic axis 0 of \(n, 3, 4\) counts from its end"),
    ("reshape", [X, (2, 13)], {}, r"\(n, 3, 4\) and \(n, 13\) differ in their number of elements"),
])
def test_errors_with_symbols(name, args, attrs, message):
    with pytest.raises(InferError, match=message):
        call_of(name, args, attrs, symbolic={(0, 0): N, (1, 0): N})


def test_evaluate_copies():
    assert not np.shares_memory(evaluate("strided_slice", [X], ANY)[0], X)
