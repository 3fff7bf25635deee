"""Winograd's algorithm: its matrices, transformed weights, and the stages of its transforms (Winograd; Lavin and Gray
2015).

F(m x m, r x r) makes a tile of m x m results from a * a inputs d, a = m + r - 1, and the kernel g with a * a products
per channel instead of r * r * m * m:  Y = A^T [(G g G^T) * (B^T d B)] A.  The matrices follow from a - 1 points and
infinity (Toom and Cook), so a row of POINTS is all that a tile needs. conv_winograd.py has the convolution.
"""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ... import te
from ...expr import Select, const, is_const_int
from ...tir import intrin
from .common import dim_text, fail, shape_text, simplify, te_shape
from .contraction import result_name
from .conv_layouts import pack_weights
from .window import inside, pad_stage, split_padding

KERNEL = 3  # the usual one
KERNELS = (3, 4, 5)
# Inputs along a side of a tile -> the finite points. Pairs of opposite sign share their sums. Few binary digits keep
# the matrices exact. Those of 5 and 6 inputs are as far from one another and from 0 as from infinity: the terms of a
# result are then few times larger than itself, and errors a third of what integers have, for a product more in the
# transforms.
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
    out_blocks, in_blocks, kernel, _, *block = w.shape
    u = np.empty((out_blocks, len(g) ** 2, in_blocks, *block), w.dtype)
    for weights, planes in zip(w, u):  # a block of output channels stays in caches
        rows = g @ np.moveaxis(weights.astype(np.float64), 0, 2).reshape(kernel, -1)
        planes[:] = (g @ rows.reshape(len(g), kernel, -1)).reshape(planes.shape)
    return u


def whole_blocks(w):
    """Weights [OB, IB, KH, KW, i, o] with blocks of o input channels, the last one filled up with zeros."""
    out_blocks, in_blocks, *kernel, inner, lanes = w.shape
    w = np.moveaxis(w, 4, 2).reshape(out_blocks, in_blocks * inner, *kernel, lanes)
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % lanes), *((0, 0),) * 3))
    return np.moveaxis(w.reshape(out_blocks, -1, lanes, *kernel, lanes), 2, 4)


# ---------------------------------------------------------------- struct info

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


def transformed_product(product, attrs, out):
    """The stages winograd_columns and conv2d_winograd, the results, whose name says an arithmetic of its own."""
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
        name=result_name("conv2d_winograd", attrs["arithmetic"]))


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
