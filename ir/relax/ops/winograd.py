"""nn.conv2d_winograd: convolutions of stride 1 with fewer multiplications (Winograd; Lavin and Gray 2015).

F(m x m, r x r) makes a tile of m x m results from a * a inputs d, a = m + r - 1, and the kernel g with a * a products
per channel instead of r * r * m * m:  Y = A^T [(G g G^T) * (B^T d B)] A.  The matrices follow from a - 1 points and
infinity (Toom and Cook), so a row of POINTS is all that a tile needs. The kernel arrives transformed: U = G g G^T.

Data is blocked, [N, IB, H, W, c] ("NCHW{c}c"); U is [OB, a * a, IB, c of the input, c of the output]. It may have fewer
channels of the input than a block: those that come first. Groups are of whole blocks; U has the IB of one.

Of stride s, the phases of the input are blocks of their own: block (ib * s + i) * s + k has the points (y * s + i,
x * s + k) of block ib, zero where they are beyond the input. U has as many; size and padding are those of the phases.
"""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ... import te
from ...expr import Select, const, is_const_int
from ...op import REQUIRED, register
from ...tir import intrin
from ..expr import TensorStructInfo
from .common import dim_text, fail, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, simplify, te_shape
from .conv_layouts import check_groups, input_channel, pack_weights
from .precision import widen_array
from .window import inside, pad_array, pad_stage, split_padding

KERNEL = 3  # the usual one
KERNELS = (3, 4, 5)
# Inputs along a side of a tile -> the finite points. Pairs of opposite sign share their sums. Few binary digits keep the
# matrices exact. Those of 5 and 6 inputs are as far from one another and from 0 as from infinity: the terms of a result
# are then few times larger than itself, and errors a third of what integers have, for a product more in the transforms.
_HALF, _QUARTER = Fraction(1, 2), Fraction(1, 4)
POINTS = {4: (0, 1, -1), 5: (0, 3 * _QUARTER, -3 * _QUARTER, 7 * _QUARTER),
          6: (0, 3 * _QUARTER, -3 * _QUARTER, 3 * _HALF, -3 * _HALF), 7: (0, 1, -1, 2, -2, _HALF),
          8: (0, 1, -1, 2, -2, _HALF, -_HALF)}


def tiles_of(kernel):
    """The tile sizes m that there are for a kernel."""
    return tuple(side - kernel + 1 for side in POINTS if side > kernel)


TILES = tiles_of(KERNEL)


# ---------------------------------------------------------------- the matrices

@lru_cache(maxsize=None)
def matrices(tile, kernel=KERNEL):
    """(A^T [m, a], G [a, r], B^T [a, a]) of F(m, r) as tuples of rows of Fractions."""
    points = [Fraction(p) for p in POINTS[tile + kernel - 1]]
    others = [[q for q in points if q != p] for p in points]
    infinity = [Fraction(0)] * (kernel - 1) + [Fraction(1)]
    weights = [[p ** k / _product(p - q for q in rest) for k in range(kernel)] for p, rest in zip(points, others)]
    data = [[*_polynomial(rest), Fraction(0)] for rest in others]
    output = [[p ** k for p in points] + [Fraction(k == tile - 1)] for k in range(tile)]
    return _rows(output), _rows([*weights, infinity]), _rows([*data, _polynomial(points)])


def _rows(matrix):
    return tuple(map(tuple, matrix))


def _product(values):
    result = Fraction(1)
    for v in values:
        result *= v
    return result


def _polynomial(roots):
    """The coefficients, lowest first, of the product of (x - root)."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(root * c for c in coefficients), Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, scaled)]
    return coefficients


def transform_weights(w, tile, lanes):
    """Weights [O, I, r, r] -> U [OB, a * a, IB, lanes, lanes]; channels that fill the last blocks are zero."""
    return transform_blocks(pack_weights(w, lanes, inner=lanes), tile)


def transform_blocks(w, tile):
    """Weights [OB, IB, r, r, i, o] of nn.conv2d -> U [OB, a * a, IB, o, o] in their dtype, computed in float64. Blocks
    of fewer than o input channels are joined; a single one stays as it is."""
    _, g, _ = (np.array(m, np.float64) for m in matrices(tile, w.shape[2]))
    w = w if w.shape[1] == 1 else whole_blocks(w)
    u = np.einsum("uk,abklio,vl->auvbio", g, w.astype(np.float64), g, optimize=True).astype(w.dtype)
    return u.reshape(len(w), -1, *u.shape[3:])


def whole_blocks(w):
    """Weights [OB, IB, KH, KW, i, o] with blocks of o input channels, the last one filled up with zeros."""
    out_blocks, in_blocks, *kernel, inner, lanes = w.shape
    w = np.moveaxis(w, 4, 2).reshape(out_blocks, in_blocks * inner, *kernel, lanes)
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % lanes), *((0, 0),) * 3))
    return np.moveaxis(w.reshape(out_blocks, -1, lanes, *kernel, lanes), 2, 4)


# ---------------------------------------------------------------- struct info

def _infer(call):
    x, u = need_rank(call, 0, 5), need_rank(call, 1, 5)
    dtype, tile, channels = need_same_dtype(call, (x, u)), call.attrs["tile"], call.attrs["out_channels"]
    groups, lanes = check_groups(call), x.shape[4]
    need_dtype(call, x, "float")
    out_blocks, planes, in_blocks, *sizes = infer_tiles(call, x)
    if groups > 1 and (channels % (groups * lanes.value) or not is_const_int(x.shape[1]) or x.shape[1].value % groups):
        fail(call, f"groups={groups} must be of whole blocks of {lanes.value} channels, of input {shape_text(x)} and "
                   f"of out_channels={channels}")
    inner = u.shape[3] if is_const_int(u.shape[3]) and 1 <= u.shape[3].value <= lanes.value else lanes
    expected = (out_blocks, planes, simplify(in_blocks // groups), inner, lanes)
    if not all(same_dim(a, b) for a, b in zip(u.shape, expected)):
        fail(call, f"weight {shape_text(u)} must be {shape_text(expected)} for tile={tile}, out_channels={channels} "
                   f"and input {shape_text(x)}: blocks of output channels, planes, blocks of input channels, and both "
                   "blocks' channels")
    return TensorStructInfo((x.shape[0], out_blocks, *sizes, lanes), dtype)


def infer_tiles(call, x):
    """(blocks of output channels, planes, blocks of input channels in all phases, height, width) of a convolution of
    the image x, whose attributes are checked."""
    tile, kernel, channels, stride = (call.attrs[k] for k in ("tile", "kernel", "out_channels", "stride"))
    lanes, layout, padding = x.shape[4], call.attrs["data_layout"], call.attrs["padding"]
    if kernel not in KERNELS:
        fail(call, f"kernel={kernel} must be one of {', '.join(map(str, KERNELS))}")
    if tile not in tiles_of(kernel):
        fail(call, f"tile={tile} must be one of {', '.join(map(str, tiles_of(kernel)))}")
    if not is_const_int(lanes) or layout != f"NCHW{lanes.value}c":
        fail(call, f"data_layout {layout!r} does not fit input {shape_text(x)}, whose blocks hold {dim_text(lanes)} "
                   "channels (dim 4)")
    if len(padding) != 4 or any(not 0 <= p < kernel for p in padding):
        fail(call, f"padding {tuple(padding)} must be 4 integers (top, left, bottom, right) of 0 to {kernel - 1}")
    if channels < 1:
        fail(call, f"out_channels={channels} must be at least 1")
    if stride < 1:
        fail(call, f"stride={stride} must be at least 1")
    sizes = tuple(simplify((s + (stride - 1)) // stride + (padding[k] + padding[k + 2] - kernel + 1))
                  for k, s in enumerate(x.shape[2:4]))
    for size, given in zip(sizes, x.shape[2:4]):
        if not is_const_int(size):
            fail(call, f"input {shape_text(x)} must have static height and width (dims 2 and 3): pin {dim_text(given)} "
                       "(compile with dims={name: size}, or --dim name=size), or keep nn.conv2d")
        if size.value < 1:
            fail(call, f"the {kernel}x{kernel} window does not fit input {shape_text(x)} with padding {tuple(padding)}")
    return -(-channels // lanes.value), (tile + kernel - 1) ** 2, x.shape[1] * stride ** 2, *sizes


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    """Stages, each a transform along one axis, or the products of all planes:

        winograd_rows     [n, ib, ty, u, x, c]         B^T d, for whole rows of the image: tiles share its columns
        winograd_input    [n, u, v, ib, ty, tx, c]     (B^T d) B
        winograd_product  [n, u, v, ob, ty, tx, o]     the sum over input channels
        winograd_columns  [n, ob, ty, tx, y, v, o]     A^T m
        conv2d_winograd   [n, ob, y, x, o]             (A^T m) A
    """
    x, w = args
    _, data = transformed_input(x, attrs, out)
    batch, size, _, _, *tiles, _ = data.shape
    out_blocks, lanes = out.shape[1], out.shape[4]
    ib, ic = te.reduce_axis((0, w.shape[2]), "ib"), te.reduce_axis((0, w.shape[3]), "ic")
    block = input_channel(attrs["groups"], int(out_blocks), w.shape[2])
    product = te.compute(
        (batch, size, size, out_blocks, *tiles, lanes),
        lambda n, u, v, ob, ty, tx, o: te.sum(
            data[n, u, v, block(ob, ib.var), ty, tx, ic.var] * w[ob, u * size + v, ib.var, ic.var, o], [ib, ic]),
        name="winograd_product")
    return transformed_product(product, attrs, out, "conv2d_winograd")


def transformed_input(x, attrs, out):
    """The stages winograd_rows and winograd_input of the image x."""
    m, r = attrs["tile"], attrs["kernel"]
    size, (_, _, b_t) = m + r - 1, matrices(m, r)
    batch, _, height, width, lanes = te_shape(out)
    tiles = [-(-s // m) for s in (height, width)]
    before, _ = split_padding(attrs["padding"])
    if attrs["stride"] > 1:
        padded = _phases(x, attrs["stride"], before, [t * m + r - 1 for t in tiles])
    else:
        padded = pad_stage(x, before, [t * m + r - 1 - b - int(s) for t, b, s in zip(tiles, before, x.shape[2:4])])
    rows = te.compute(
        (batch, padded.shape[1], tiles[0], size, tiles[1] * m + r - 1, lanes),
        lambda n, ib, ty, u, x, c: chosen(u, sums(b_t, [padded[n, ib, ty * m + k, x, c] for k in range(size)])),
        name="winograd_rows")
    return rows, te.compute(
        (batch, size, size, padded.shape[1], *tiles, lanes),
        lambda n, u, v, ib, ty, tx, c: chosen(v, sums(b_t, [rows[n, ib, ty, u, tx * m + k, c] for k in range(size)])),
        name="winograd_input")


def transformed_product(product, attrs, out, name):
    """The stages winograd_columns and `name`, the results."""
    m, size, (a_t, _, _) = attrs["tile"], int(product.shape[1]), matrices(attrs["tile"], attrs["kernel"])
    batch, out_blocks, height, width, lanes = te_shape(out)
    columns = te.compute(
        (batch, out_blocks, *product.shape[4:6], m, size, lanes),
        lambda n, ob, ty, tx, y, v, o: chosen(y, paired_sums(
            a_t, [product[n, k, v, ob, ty, tx, o] for k in range(size)])),
        name="winograd_columns")
    return te.compute(
        (batch, out_blocks, height, width, lanes),
        lambda n, ob, y, x, o: chosen(x % m, paired_sums(
            a_t, [columns[n, ob, y // m, x // m, y % m, k, o] for k in range(size)])),
        name=name)


def _phases(x, stride, before, sizes):
    """The stage pad_temp of stride s: the phases of x with zeros around them, of `sizes` rows and columns."""
    def element(n, block, y, x_, c):
        points = [(k - b) * stride + phase for k, b, phase in zip(
            (y, x_), before, (block % stride ** 2 // stride, block % stride))]
        condition = inside(points, x.shape[2:4], [b > 0 for b in before], [
            (size - b) * stride > int(s) for size, b, s in zip(sizes, before, x.shape[2:4])])
        return intrin.if_then_else(condition, x[n, block // stride ** 2, points[0], points[1], c], const(0, x.dtype))

    return te.compute((x.shape[0], x.shape[1] * stride ** 2, *sizes, x.shape[4]), element, name="pad_temp")


def chosen(index, values):
    """values[index]. Where a schedule unrolls the loop behind `index`, a constant remains and with it one value."""
    *others, result = values
    for k, value in reversed(list(enumerate(others))):
        result = Select(index == k, value, result)
    return result


def sums(matrix, values):
    """matrix @ values. Two rows whose entries differ in sign alone are sum and difference of the same two parts."""
    results = []
    for n, row in enumerate(matrix):
        twin = next((other for k, other in enumerate(matrix) if k != n and all(abs(a) == abs(b) for a, b
                                                                               in zip(row, other))), None)
        if twin is None:
            results.append(_combination(row, values))
            continue
        first = row if matrix.index(row) < matrix.index(twin) else twin
        same, opposite = ([c if (c == t) == equal else 0 for c, t in zip(first, twin if first is row else row)]
                          for equal in (True, False))
        a, b = _combination(same, values), _combination(opposite, values)
        results.append(a + b if first is row else a - b)
    return results


def paired_sums(matrix, values):
    """matrix @ values for A^T, where columns 1 and 2, 3 and 4 and so on are powers of opposite points: every row takes
    the sum of two values or their difference. The last finite point may have no opposite one."""
    results, paired = [], range(1, len(values) - 2, 2)
    alone = 1 + 2 * len(paired)
    for row in matrix:
        weights, terms = [row[0]], [values[0]]
        for k in paired:
            weights.append(row[k])
            terms.append(values[k] + values[k + 1] if row[k] == row[k + 1] else values[k] - values[k + 1])
        results.append(_combination([*weights, *row[alone:]], [*terms, *values[alone:]]))
    return results


def _combination(weights, values):
    """The sum of weights[k] * values[k], without products by 0 and 1. Terms to add come first."""
    terms = sorted(((c, v) for c, v in zip(weights, values) if c), key=lambda term: term[0] < 0)
    result = None
    for c, v in terms:
        scaled = v if abs(c) == 1 else v * const(float(abs(c)), v.dtype)
        if result is None:
            result = scaled if c > 0 else -scaled
        else:
            result = result + scaled if c > 0 else result - scaled
    return result


# ---------------------------------------------------------------- reference

def evaluate(args, attrs):
    """The reference: the definition, over all tiles at once."""
    x, u = map(widen_array, args)
    m, r, groups = attrs["tile"], attrs["kernel"], attrs["groups"]
    size = m + r - 1
    a_t, _, b_t = (np.array(rows, x.dtype) for rows in matrices(m, r))
    top, left, bottom, right = attrs["padding"]
    x = _phases_array(x, attrs["stride"])
    height, width = x.shape[2] + top + bottom - r + 1, x.shape[3] + left + right - r + 1
    rows, columns = -(-height // m), -(-width // m)
    after = (rows * m + r - 1 - top - x.shape[2], columns * m + r - 1 - left - x.shape[3])
    x = pad_array(x[..., :u.shape[3]], (top, left, 0), (*after, 0))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::m, ::m]  # n i y x c k l
    windows = windows.reshape(x.shape[0], groups, -1, *windows.shape[2:])
    v = np.einsum("uk,ngiyxckl,vl->guvnyxic", b_t, windows, b_t, optimize=True)
    v = v.reshape(groups, size * size, -1, u.shape[2] * u.shape[3])
    u = u.reshape(groups, -1, *u.shape[1:]).transpose(0, 2, 3, 4, 1, 5)
    product = v @ u.reshape(groups, size * size, v.shape[3], -1)
    product = product.reshape(groups, size, size, x.shape[0], rows, columns, *u.shape[-2:])
    y = np.einsum("ku,guvnyxoc,lv->ngoykxlc", a_t, product, a_t, optimize=True)
    y = y.reshape(x.shape[0], -1, rows * m, columns * m, u.shape[-1])[:, :, :height, :width]
    return np.ascontiguousarray(y).astype(args[0].dtype, copy=False)


def _phases_array(x, s):
    """[N, IB, H, W, c] -> [N, IB * s * s, ceil(H / s), ceil(W / s), c]"""
    x = np.pad(x, ((0, 0), (0, 0), *((0, -size % s) for size in x.shape[2:4]), (0, 0)))
    n, blocks, height, width, c = x.shape
    x = x.reshape(n, blocks, height // s, s, width // s, s, c).transpose(0, 1, 3, 5, 2, 4, 6)
    return x.reshape(n, -1, height // s, width // s, c)


register("nn.conv2d_winograd", _infer, _lower, evaluate, "anchor", (2, 2), tile=REQUIRED, kernel=KERNEL,
         stride=1, padding=(0, 0, 0, 0), groups=1, out_channels=REQUIRED, data_layout=REQUIRED)
