"""nn.conv2d_winograd: convolutions of stride 1 with fewer multiplications, by Winograd's algorithm (winograd.py).

The kernel arrives transformed: U = G g G^T. Data is blocked, [N, IB, H, W, c] ("NCHW{c}c"); U is [OB, a * a, IB, c of
the input, c of the output]. It may have fewer channels of the input than a block: those that come first. Groups are of
whole blocks; U has the IB of one.

Of stride s, the phases of the input are blocks of their own: block (ib * s + i) * s + k has the points (y * s + i,
x * s + k) of block ib, zero where they are beyond the input. U has as many; size and padding are those of the phases.

By an `arithmetic` other than "fma" the planes of U are its operands, and the tiles of a plane are rows of a product.
Those of a row of tiles, of all planes (u, .), share a scale: that of the image's rows once transformed, B^T d. What the
second transform makes of them, V, is within the `bounds` of its columns, which U is packed for. What is not finite
makes NaN of the row of tiles. Blocks are of 16 channels.
"""
from __future__ import annotations

import numpy as np

from ... import te
from ...expr import is_const_int
from ...op import REQUIRED, register
from ..arithmetic import ARITHMETICS, LANES, Rows, Scales
from ..expr import TensorStructInfo
from .common import fail, need_blocks, need_dtype, need_rank, need_same_dtype, same_dim, shape_text, simplify
from .contraction import FMA, arithmetic_of, check_operands, contract, pack_planes, unpack_planes
from .conv_layouts import check_groups, input_channel
from .precision import widen_array
from .window import pad_array
from .winograd import KERNEL, chosen, infer_tiles, matrices, transformed_input, transformed_product


def bounds(tile, kernel=KERNEL):
    """How large d B may be, for each of its columns, where |d| is at most 1."""
    return tuple(float(sum(map(abs, row))) for row in matrices(tile, kernel)[2])


def limits(tile, kernel):
    """The bounds as numbers of the planes (u, v), [planes, 1]."""
    columns = bounds(tile, kernel)
    return np.tile(columns, len(columns))[:, None]


def pack_transformed(row, u, tile, kernel=KERNEL):
    """The operands of a transformed kernel U [OB, planes, IB, i, o]."""
    out_blocks, planes, in_blocks, inner, lanes = u.shape
    w = u.transpose(1, 2, 3, 0, 4).reshape(planes, in_blocks * inner, out_blocks * lanes)
    packed, *own = pack_planes(row, w)
    return packed, *(part * limits(tile, kernel).astype(np.float32) for part in own)


def _unpack(x, operands, attrs):
    """The U, float64, that operands stand for, for an image."""
    blocks = x.shape[1] * attrs["stride"] ** 2
    w = unpack_planes(ARITHMETICS[attrs["arithmetic"]], operands, blocks * LANES)
    u = w.reshape(len(w), blocks, LANES, -1, LANES).transpose(3, 0, 1, 2, 4)
    return u / limits(attrs["tile"], attrs["kernel"])[:, :, None, None]


# ---------------------------------------------------------------- struct info

def _infer(call):
    if call.attrs["arithmetic"] != FMA or len(call.args) != 2:
        return _infer_by(call, arithmetic_of(call))
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


def _infer_by(call, row):
    x = need_rank(call, 0, 5)
    if row.scaling is None or call.attrs["groups"] != 1:
        fail(call, f"by {row.name} there are no groups, and rows must have scales")
    need_blocks(call, x, LANES)
    out_blocks, planes, in_blocks, *sizes = infer_tiles(call, x)
    check_operands(call, row, x, in_blocks.value * LANES, out_blocks * LANES, planes)
    return TensorStructInfo((x.shape[0], out_blocks, *sizes, LANES), row.result)


# ---------------------------------------------------------------- lowering

def _lower(args, attrs, out):
    """Stages, each a transform along one axis, or the products of all planes:

        winograd_rows     [n, ib, ty, u, x, c]         B^T d, for whole rows of the image: tiles share its columns
        winograd_input    [n, u, v, ib, ty, tx, c]     (B^T d) B
        winograd_product  [n, u, v, ob, ty, tx, o]     the sum over input channels
        winograd_columns  [n, ob, ty, tx, y, v, o]     A^T m
        conv2d_winograd   [n, ob, y, x, o]             (A^T m) A
    """
    if attrs["arithmetic"] != FMA:
        return transformed_product(_products(args, attrs, out), attrs, out)
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
    return transformed_product(product, attrs, out)


def _products(args, attrs, out):
    """The stage winograd_product, of those of the arithmetic; scales are [n, ty, u], their inverses [n, ty, u, v]."""
    x, *operands = args
    row = ARITHMETICS[attrs["arithmetic"]]
    image, data = transformed_input(x, attrs, out)
    batch, (size, _, in_blocks, down, along, lanes) = data.shape[0], map(int, data.shape[1:])

    def element(at, k):
        (n, u, v, ty, tx), (block, c) = at, k
        return data[n, u, v, block, ty, tx, c]

    rows = Rows((batch, size, size), down, (along,), (in_blocks, lanes), element)
    result = contract(row, rows, operands, lambda operand, plane, block, lane: operand[plane, block * lanes + lane],
                      _scales(row, image, attrs), lambda outer, panel: panel * size ** 2 + outer[1] * size + outer[2],
                      size ** 2)
    return te.compute((batch, size, size, int(out.shape[1]), down, along, lanes), lambda n, u, v, ob, ty, tx, o: result(
        (n, u, v, ty, tx), (u * size + v, ob, o)), name="winograd_product")


def _scales(row, image, attrs):
    """The scales of rows of tiles."""
    batch, in_blocks, down, size, width, lanes = image.shape
    axes = ib, point, c = [te.reduce_axis((0, extent), "k") for extent in (in_blocks, int(width), lanes)]
    scale = row.scaling.scale(row.scaling.largest(
        (batch, down, size), lambda n, ty, u: image[n, ib.var, ty, u, point.var, c.var], axes))
    inverse = te.compute((*scale.shape, size), lambda n, ty, u, v: chosen(v, [
        row.scaling.inverse(scale[n, ty, u], bound) for bound in bounds(attrs["tile"], attrs["kernel"])]),
        name=f"{row.name}_inverse")
    return Scales(lambda at: scale[at[0], at[3], at[1]], lambda at: inverse[at[0], at[3], at[1], at[2]])


# ---------------------------------------------------------------- reference

def _evaluate(args, attrs):
    """The reference: the definition, over all tiles at once."""
    if attrs["arithmetic"] != FMA:
        args = args[0], _unpack(args[0], args[1:], attrs)
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


register("nn.conv2d_winograd", _infer, _lower, _evaluate, "anchor", (2, 4), tile=REQUIRED, kernel=KERNEL,
         stride=1, padding=(0, 0, 0, 0), groups=1, out_channels=REQUIRED, data_layout=REQUIRED, arithmetic=FMA)
