"""Every row of ARITHMETICS with operands of its own: what these stand for, products, 1x1 convolutions and Winograd's
within its bound, the reference and the lowered program, which is interpreted; and the messages of the operators."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_nn_check import array, call_of, check, evaluate, lower

from interp import run

from ingot.ir.expr import Var
from ingot.ir.node import structural_equal
from ingot.ir.op import InferError
from ingot.ir.relax.arithmetic import ARITHMETICS, special
from ingot.ir.relax.expr import DataflowVar, VarBinding, dataflow_function
from ingot.ir.relax.ops.contraction import POINTWISE
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.conv_winograd import bounds, limits, pack_transformed
from ingot.ir.relax.ops.layout import pack_channels
from ingot.ir.relax.ops.pointwise import kernel_matrix
from ingot.ir.relax.ops.winograd import KERNELS, matrices, tiles_of, transform_weights
from ingot.ir.script.functions import from_source

SPECIAL = special()
LAYOUTS = {"compressed": {"panel": 8, "lanes": 4}}
ALL = pytest.mark.parametrize("row", SPECIAL, ids=lambda row: row.name)
SCALED = pytest.mark.parametrize("row", [row for row in SPECIAL if row.scaling], ids=lambda row: row.name)


def packed(row, w):
    return row.pack(w, **LAYOUTS.get(row.name, {}))


def by(row, columns):
    return {"arithmetic": row.name, "b_layout": "operands", "n_size": columns}


def filled(row, a):
    """Rows with zeros up to whole blocks of terms."""
    return np.pad(a, (*((0, 0),) * (a.ndim - 1), (0, -a.shape[-1] % row.block)))


def within(row, result, a, w):
    """Whether a product is within the row's bound."""
    a, w = a.astype(np.float64).reshape(-1, len(w)), w.astype(np.float64)
    return (np.abs(result.reshape(len(a), -1) - a @ w) <= row.limit(a, w)).all()


# ---------------------------------------------------------------- operands

@ALL
@given(st.integers(0, 2 ** 32 - 1), st.sampled_from([(64, 32), (128, 40), (64, 1), (200, 17)]),
       st.lists(st.sampled_from([1e-9, 1e-3, 1.0, 7e4, 1e30]), min_size=1, max_size=4))
def test_operands_stand_for_the_columns(row, seed, shape, magnitudes):
    rng = np.random.default_rng(seed)
    w = (rng.uniform(-1, 1, shape) * rng.choice(magnitudes, shape[1])).astype(np.float32)
    operands = packed(row, w)
    assert [(o.ndim, o.dtype.name) for o in operands] == [(o.rank, o.dtype) for o in row.operands]
    depth = -(-shape[0] // row.block) * row.block
    assert [o.shape for o in operands] == [tuple(s) for s in row.shapes(depth, shape[1], [o.shape for o in operands])]
    found = row.unpack(operands, depth)[:shape[0], :shape[1]]
    assert (np.abs(found - w) <= row.limit(np.eye(shape[0]), w.astype(np.float64))).all()


@ALL
@pytest.mark.parametrize("fill", [0.0, 3.5, -1.0])
def test_columns_of_equal_numbers(row, fill):
    w = np.zeros((64, 33), np.float32)
    w[:, 1] = fill
    found = row.unpack(packed(row, w), 64)[:, :33]
    np.testing.assert_allclose(found, w, rtol=2e-6)
    assert not found[:, 0].any()


# ---------------------------------------------------------------- products

@ALL
@pytest.mark.parametrize("rows, depth, columns", [((5,), 64, 32), ((2, 3), 128, 40), ((1,), 64, 100), ((4,), 192, 7)])
def test_products(row, rows, depth, columns):
    a, w = array((*rows, depth)), array((depth, columns), 1)
    _, result = check("matmul", [a, *packed(row, w)], 1e-5, **by(row, columns))
    assert within(row, result, a, w)


@ALL
@pytest.mark.parametrize("depth", [40, 104])
def test_rows_of_other_numbers_of_terms(row, depth):
    """Filled up to blocks of terms; no more of them are read than there are weights."""
    a, w = array((3, depth)), array((depth, 20), 1)
    _, result = check("matmul", [filled(row, a), *packed(row, w)], 1e-5, **by(row, 20))
    assert within(row, result, a, w)


@ALL
@pytest.mark.parametrize("kind", ["normal", "mean", "signs", "outliers", "rows"])
def test_numbers_that_are_hard(row, kind):
    """Numbers of both signs and of one, of very different sizes, in one row and in several."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((8, 256)), rng.standard_normal((256, 32))
    if kind == "mean":
        a += 1000
    if kind == "signs":
        a, w = np.sign(a), np.abs(w)
    if kind == "outliers":
        a[:, rng.integers(0, 256, 4)] *= 1000
        w *= 10.0 ** rng.integers(-3, 3, 32)
    if kind == "rows":
        a *= 10.0 ** np.arange(-3, 5)[:, None]
    a, w = a.astype(np.float32), w.astype(np.float32)
    operands = packed(row, w)
    call = call_of("matmul", [x.shape for x in (a, *operands)], by(row, 32),
                   [x.dtype.name for x in (a, *operands)])
    result = np.empty((8, 32), np.float32)
    run(lower(call), a, *operands, result)
    assert within(row, result, a, w)


@SCALED
def test_rows_that_are_not_finite_zero_tiny_and_huge(row):
    a, w = array((7, 64)), array((64, 32), 1)
    a[0, 3], a[1, 60], a[2, 0], a[3] = np.nan, np.inf, -np.inf, 0
    a[4] *= np.float32(1e-30)
    a[5] *= np.float32(1e36)
    _, result = check("matmul", [a, *packed(row, w)], 5e-3, **by(row, 32))
    assert np.isnan(result[:3]).all() and not result[3].any() and within(row, result[4:], a[4:], w)


# ---------------------------------------------------------------- convolutions

@SCALED
@pytest.mark.parametrize("channels, outputs, inner", [(64, 32, 16), (20, 9, 16), (24, 40, 8)])
def test_kernels_are_columns(row, channels, outputs, inner):
    """Filled up to blocks of channels."""
    w = array((outputs, channels, 1, 1))
    matrix = kernel_matrix(pack_weights(w, 16, 1, inner))
    assert matrix.shape == (-(-channels // 16) * 16, -(-outputs // 16) * 16)
    np.testing.assert_array_equal(matrix[:channels, :outputs], w[:, :, 0, 0].T)
    assert not matrix[channels:].any() and not matrix[:, outputs:].any()


def plain(result, outputs):
    """[N, O, H, W] of a blocked image, whose other lanes are zero."""
    result = result.transpose(0, 1, 4, 2, 3).reshape(len(result), -1, *result.shape[2:4])
    assert not result[:, outputs:].any()
    return result[:, :outputs]


@SCALED
@pytest.mark.parametrize("shape, outputs, strides", [
    ((2, 64, 3, 5), 32, (1, 1)), ((1, 20, 5, 4), 9, (2, 2)), ((1, 70, 1, 3), 40, (1, 2))])
def test_pointwise_convolutions(row, shape, outputs, strides):
    x, w = array(shape), array((outputs, shape[1], 1, 1), 1)
    operands = row.pack(kernel_matrix(pack_weights(w, 16, 1, 16)))
    _, result = check(POINTWISE, [pack_channels(x, 16), *operands], 1e-5, arithmetic=row.name, out_channels=outputs,
                      strides=strides)
    found, seen = plain(result, outputs), x[:, :, ::strides[0], ::strides[1]]
    assert within(row, found.transpose(0, 2, 3, 1), seen.transpose(0, 2, 3, 1), w[:, :, 0, 0].T)


@pytest.mark.parametrize("tile, kernel", [(tile, kernel) for kernel in KERNELS for tile in tiles_of(kernel)])
def test_bounds_of_transforms_are_reached_and_not_passed(tile, kernel):
    b_t = np.array(matrices(tile, kernel)[2], np.float64)
    found = np.array(bounds(tile, kernel))
    np.testing.assert_array_equal((b_t @ np.sign(b_t).T).diagonal(), found)
    assert (np.abs(b_t @ array((len(b_t), 50), 0, "float64").clip(-1, 1)) <= found[:, None]).all()


@SCALED
@pytest.mark.parametrize("channels, outputs, tile, kernel", [(64, 32, 2, 3), (20, 40, 4, 3), (33, 16, 2, 5)])
def test_transformed_kernels_are_planes_of_columns(row, channels, outputs, tile, kernel):
    """Over the bounds of their planes' columns: numbers of columns have these as factors."""
    u = transform_weights(array((outputs, channels, kernel, kernel)), tile, 16)
    first, *own = pack_transformed(row, u, tile, kernel)
    planes = u.shape[1]
    assert len(first) % planes == 0 and all(o.shape == (planes, len(u) * 16) and o.dtype == np.float32 for o in own)
    each = first.reshape(-1, planes, *first.shape[1:])
    for plane, limit in enumerate(limits(tile, kernel).ravel()):
        w = u[:, plane].transpose(1, 2, 0, 3).reshape(u.shape[2] * 16, -1)
        found = row.unpack([each[:, plane], *(o[plane] for o in own)], len(w)) / limit
        np.testing.assert_allclose(found, w, atol=2.0 ** -22 * np.abs(u).max())


@SCALED
@pytest.mark.parametrize("shape, outputs, attrs", [
    ((2, 20, 4, 3), 24, {"tile": 2, "padding": (1, 1, 1, 1)}),
    ((1, 16, 3, 5), 16, {"tile": 4, "padding": (0, 1, 2, 0)}),
    ((1, 16, 4, 4), 40, {"tile": 2, "kernel": 5, "padding": (2, 2, 2, 2)})])
def test_winograd(row, shape, outputs, attrs):
    kernel = attrs.get("kernel", 3)
    x, w = array(shape), array((outputs, shape[1], kernel, kernel), 1) / 16
    operands = pack_transformed(row, transform_weights(w, attrs["tile"], 16), attrs["tile"], kernel)
    _, result = check("nn.conv2d_winograd", [pack_channels(x, 16), *operands], 1e-4, **attrs, arithmetic=row.name,
                      out_channels=outputs, data_layout="NCHW16c")
    exact = evaluate("nn.conv2d", [x.astype(np.float64), w.astype(np.float64)], padding=attrs["padding"])
    assert np.abs(plain(result, outputs) - exact).max() <= 2e-6 * np.abs(exact).max()


@SCALED
def test_winograd_of_strides(row):
    """Over the phases of the input, which are blocks of their own."""
    x, w = array((1, 16, 5, 6)), array((16, 64, 3, 3), 1) / 16
    phases = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0))).reshape(1, 16, 3, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4)
    operands = pack_transformed(row, transform_weights(w, 2, 16), 2)
    _, result = check("nn.conv2d_winograd", [pack_channels(x, 16), *operands], 1e-4, tile=2, stride=2,
                      arithmetic=row.name, padding=(1, 1, 1, 1), out_channels=16, data_layout="NCHW16c")
    exact = evaluate("nn.conv2d", [phases.reshape(1, 64, 3, 3).astype(np.float64), w.astype(np.float64)],
                     padding=(1, 1, 1, 1))
    assert np.abs(plain(result, 16) - exact).max() <= 2e-6 * np.abs(exact).max()


# ---------------------------------------------------------------- messages

COMPUTATIONS = {  # (first operand, terms, columns, planes, attributes)
    "matmul": ((4, 128), 128, 64, 0, {"n_size": 64, "b_layout": "operands"}),
    POINTWISE: ((1, 8, 6, 5, 16), 128, 64, 0, {"out_channels": 60}),
    "nn.conv2d_winograd": ((1, 8, 6, 5, 16), 128, 64, 16, {"tile": 2, "out_channels": 50, "data_layout": "NCHW16c"})}
PAIRS = [(op, row) for op in COMPUTATIONS for row in SPECIAL if op == "matmul" or row.scaling]


def operands_of(op, row):
    """(shapes, dtypes) of a call's operands that fit."""
    x, depth, columns, planes, _ = COMPUTATIONS[op]
    given = [o.shape for o in packed(row, np.zeros((depth, columns), np.float32))]
    (panels, *rest), *own = given
    given = [(panels * max(planes, 1), *rest), *(((planes, *o) if planes else o) for o in own)]
    return [x, *given], ["float32", *(o.dtype for o in row.operands)]


@pytest.mark.parametrize("op, row", PAIRS, ids=str)
def test_operands_that_do_not_fit_are_refused(op, row):
    attrs = {**COMPUTATIONS[op][4], "arithmetic": row.name}
    shapes, dtypes = operands_of(op, row)
    assert call_of(op, shapes, attrs, dtypes).struct_info.dtype == "float32"
    for n, shape in enumerate(shapes):
        name = row.operands[n - 1].name if n else ""
        with pytest.raises(InferError, match=f"{op}: .*{name}.* must be {dtypes[n]}, not int32"):
            call_of(op, shapes, attrs, [*dtypes[:n], "int32", *dtypes[n + 1:]])
        if not n:
            continue
        holds = rf"{name} .* must be \(.*\) for 64 columns of 128 terms by {row.name}"
        for wrong, message in (((shape[0] + 1, *shape[1:]), holds),
                               ((Var("n", "int64"), *shape[1:]), f"{name} .* must be static"),
                               (shape[1:], f"argument {n} must have {len(shape)} dimensions")):
            with pytest.raises(InferError, match=f"{op}: .*{message}"):
                call_of(op, [*shapes[:n], wrong, *shapes[n + 1:]], attrs, dtypes)
    with pytest.raises(InferError, match=f"arithmetic '{row.name}' takes {row.operands[0].name}, .* after the first"):
        call_of(op, shapes[:-1] if len(shapes) > 2 else shapes * 2, attrs, dtypes)


@pytest.mark.parametrize("op, x, attrs, message", [
    ("matmul", (128,), {}, r"takes rows of at least 2 dimensions, the last one static, not \(128,\)"),
    ("matmul", (4, Var("k", "int64")), {}, "takes rows of at least 2 dimensions, the last one static"),
    ("matmul", None, {"n_size": None}, "and n_size, by inner_product"),
    ("matmul", None, {"b_layout": "KN"}, "b_layout 'KN' must be 'operands' by inner_product"),
    ("matmul", (4, 120), {},
     r"rows \(4, 120\) must be of whole blocks of 16 terms, filled up with zeros, by inner_product"),
    ("matmul", None, {"arithmetic": "fast"},
     "arithmetic 'fast' must be one of split_integer, inner_product, compressed, or fma"),
    (POINTWISE, None, {"arithmetic": "fma"},
     "arithmetic 'fma' must be one of split_integer, inner_product, compressed$"),
    (POINTWISE, (1, 8, 6, 5, 8), {}, r"image \(1, 8, 6, 5, 8\) must be static but for its batch, in blocks of 16"),
    (POINTWISE, (1, 8, Var("h", "int64"), 5, 16), {}, "must be static but for its batch"),
    (POINTWISE, None, {"strides": (2, 0)}, r"strides \(2, 0\) must be 2 integers of at least 1"),
    (POINTWISE, None, {"strides": (2,)}, r"strides \(2,\) must be 2 integers"),
    (POINTWISE, None, {"out_channels": 0}, "out_channels=0 must be at least 1"),
    ("nn.conv2d_winograd", (1, 8, 6, 5, 8), {}, r"image \(1, 8, 6, 5, 8\) must be static but for its batch"),
    ("nn.conv2d_winograd", None, {"tile": 7}, "tile=7 must be one of 2, 3, 4, 5, 6"),
    ("nn.conv2d_winograd", None, {"kernel": 7}, "kernel=7 must be one of 3, 4, 5"),
    ("nn.conv2d_winograd", None, {"stride": 2},
     "columns .* for 64 columns of 512 terms by inner_product in each of 16 planes"),
    ("nn.conv2d_winograd", None, {"padding": (3, 0, 0, 0)}, "padding .* must be 4 integers .* of 0 to 2"),
    ("nn.conv2d_winograd", None, {"groups": 2}, "by inner_product there are no groups"),
    ("nn.conv2d_winograd", None, {"data_layout": "NCHW8c"}, "data_layout 'NCHW8c' does not fit input")])
def test_other_mistakes_are_refused(op, x, attrs, message):
    row = ARITHMETICS["inner_product"]
    shapes, dtypes = operands_of(op, row)
    with pytest.raises(InferError, match=f"{op}: .*{message}"):
        call_of(op, [x or shapes[0], *shapes[1:]], {**COMPUTATIONS[op][4], "arithmetic": row.name, **attrs}, dtypes)


def test_sums_that_may_overflow_are_refused():
    with pytest.raises(InferError,
                       match="sums of 32832 terms by split_integer may overflow: at most 32768 are added up"):
        call_of("matmul", [(4, 64 * 513), (2, 513, 3, 2, 16, 16, 4), (64,)], by(ARITHMETICS["split_integer"], 64),
                ["float32", "int8", "float32"])


@pytest.mark.parametrize("op, row", PAIRS, ids=str)
def test_calls_print_and_parse(op, row):
    """All operands by place, whatever attributes are in their places in TVM."""
    shapes, dtypes = operands_of(op, row)
    call = call_of(op, shapes, {**COMPUTATIONS[op][4], "arithmetic": row.name}, dtypes)
    y = DataflowVar("y", call.struct_info)
    func = dataflow_function(list(call.args), [VarBinding(y, call)], [y], {"global_symbol": "main"})
    assert structural_equal(from_source(str(func)), func), str(func)
