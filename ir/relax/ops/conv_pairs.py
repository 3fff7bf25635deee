"""nn.conv2d_pairs: convolutions of 1x1 by pairs: matmul_pairs whose rows are the points of a blocked image.

Data is blocked, [N, IB, H, W, 16] ("NCHW16c"), and so are results. Columns, scales and offsets are those of
pack_columns, of the kernel as a matrix [input channels, output channels]. A point that is not finite makes NaN.
"""
from __future__ import annotations

from ... import te
from ...op import register
from .common import check_dtypes, need_blocks, need_rank, te_shape
from .matmul_pairs import LANES, check_columns, pack_columns, pair_rows, pair_sums
from .matmul_pairs import evaluate as product
from .pointwise import image_of, infer_points, kernel_matrix, points_of


def pack_kernel(w):
    """(columns, scales, offsets) of a packed kernel [OB, IB, 1, 1, i, 16] of nn.conv2d."""
    return pack_columns(kernel_matrix(w))


def _infer(call):
    x, columns, scales, offsets = (need_rank(call, n, rank) for n, rank in enumerate((5, 4, 1, 1)))
    check_dtypes(call, image=(x, "float32"), columns=(columns, "float32"), scales=(scales, "float32"),
                 offsets=(offsets, "float32"))
    need_blocks(call, x, LANES)
    count = check_columns(call, x.shape[1].value * LANES, columns, scales, offsets)
    return infer_points(call, x, count, scales)


def _lower(args, attrs, out):
    x, columns, scales, offsets = args
    batch, blocks, height, width, lanes = te_shape(out)
    down, right = attrs["strides"]

    def element(row, block, c):
        n, y, x_ = row
        return x[n, block, y * down, x_ * right, c]

    row = pair_rows(element, (batch, height, width), int(x.shape[1]), int(columns.shape[1]))
    sums = pair_sums(row.data, columns, attrs={"image": 1})
    return te.compute((batch, blocks, height, width, lanes), lambda n, ob, y, x, o: row.result(
        sums[n, y, ob, x, o], (n, y, x), scales[ob * lanes + o], offsets[ob * lanes + o]), name="conv2d_pairs")


def _evaluate(args, attrs):
    x, *columns = args
    return image_of(product([points_of(x, attrs["strides"]), *columns], {}), LANES)


register("nn.conv2d_pairs", _infer, _lower, _evaluate, "anchor", (4, 4), strides=(1, 1))
