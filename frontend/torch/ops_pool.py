"""Pools and resized images."""
from __future__ import annotations

import math

from .dtypes import category
from .ops_nn import _batched, _numbers, _one
from .table import ATEN, CONVERTERS, FUNCTIONS, converts

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _max_pool(rank):
    def convert(b, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        x, one = _batched(b, x, rank)
        stride = kernel_size if stride in (None, []) else stride
        window = [_numbers(v, rank) for v in (kernel_size, stride, padding, dilation)]
        y = b.op(f"nn.max_pool{rank}d", x, *window, ceil_mode, _LAYOUTS[rank])
        if not return_indices:
            return _one(b, y, one)
        pool, strides, pads, dilations = ([v] * rank if isinstance(v, int) else list(v) for v in window)
        places = b.op("nn.pool_positions", x, y, pool_size=pool, strides=strides, padding=pads * 2,
                      dilation=dilations, ceil_mode=ceil_mode)
        return _one(b, y, one), _one(b, places, one)
    return convert


def _takes(b, k):
    """Whether the graph reads result k of the node."""
    return any(user.op == "output" or user.args[1:] == (k,) and user.users for user in b.node.users)


def _avg_pool(rank):
    def convert(b, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                divisor_override=None):
        if divisor_override is not None and ceil_mode:
            raise ValueError("divisor_override of avg_pool with ceil_mode is not supported")
        if category(b.dtype(x)) != 2:
            raise ValueError("the average of integers is not supported: convert to floats")
        count_include_pad = count_include_pad or divisor_override is not None
        x, one = _batched(b, x, rank)
        stride = kernel_size if stride in (None, []) else stride
        counted = {"count_include_pad": True} if count_include_pad and _padded(padding) else {}
        y = b.op(f"nn.avg_pool{rank}d", x, pool_size=_numbers(kernel_size, rank), strides=_numbers(stride, rank),
                 padding=_numbers(padding, rank), ceil_mode=ceil_mode, layout=_LAYOUTS[rank], **counted)
        if divisor_override is not None:
            kernel = _numbers(kernel_size, rank)
            count = kernel ** rank if isinstance(kernel, int) else math.prod(kernel)
            y = b.op("multiply", y, b.const_like(count / divisor_override, y))
        return _one(b, y, one)
    return convert


def _padded(padding):
    return any(padding) if isinstance(padding, (list, tuple)) else bool(padding)


def _adaptive_avg_pool(rank):
    def convert(b, x, output_size):
        x, one = _batched(b, x, rank)
        if isinstance(output_size, (list, tuple)):
            output_size = [s if o is None else o for o, s in zip(output_size, b.dims(x)[2:])]
        return _one(b, b.op(f"nn.adaptive_avg_pool{rank}d", x, output_size, layout=_LAYOUTS[rank]), one)
    return convert


for _rank in (1, 2, 3):
    CONVERTERS[f"max_pool{_rank}d"] = _max_pool(_rank)
    CONVERTERS[f"boolean_dispatch_max_pool{_rank}d"] = _max_pool(_rank)
    CONVERTERS[f"avg_pool{_rank}d"] = _avg_pool(_rank)
    CONVERTERS[f"adaptive_avg_pool{_rank}d"] = _adaptive_avg_pool(_rank)


def _adaptive_max_pool(rank):
    def values(b, x, output_size):
        x, one = _batched(b, x, rank)
        lead, old = b.dims(x)[:2], b.dims(x)[2:]
        size = [output_size] * rank if isinstance(output_size, int) else output_size
        size = [s if o is None else o for o, s in zip(size, old)]
        if rank == 2:
            y = b.op("nn.adaptive_max_pool2d", x, size)
        elif rank == 1:
            y = b.op("squeeze", b.op("nn.adaptive_max_pool2d", b.op("expand_dims", x, 2), [1, *size]), [2])
        else:  # the last two axes, then the first
            planes = b.op("nn.adaptive_max_pool2d", b.op("reshape", x, [lead[0], -1, *old[1:]]), size[1:])
            lines = b.op("reshape", planes, [*lead, old[0], size[1] * size[2]])
            y = b.op("nn.adaptive_max_pool2d", lines, [size[0], size[1] * size[2]])
            y = b.op("reshape", y, [*lead, *size])
        return _one(b, y, one)

    def function(b, x, output_size, return_indices=False):
        return pair(b, x, output_size) if return_indices else values(b, x, output_size)

    def pair(b, x, output_size):
        """(values, indices) of ATen. Places are those of a pool with windows of one size."""
        if not _takes(b, 1):
            return values(b, x, output_size), None
        old = b.dims(x)[-rank:]
        size = [output_size] * rank if isinstance(output_size, int) else output_size
        if any(not isinstance(s, int) or s % o for s, o in zip(old, size)):
            raise ValueError(f"the indices of an adaptive pool from {old} to {size}, which does not divide it, are not "
                             "supported")
        kernel = [s // o for s, o in zip(old, size)]
        return CONVERTERS[f"max_pool{rank}d"](b, x, kernel, kernel, 0, 1, False, True)

    FUNCTIONS[f"adaptive_max_pool{rank}d"], ATEN[f"adaptive_max_pool{rank}d"] = function, pair


def _pool_with_indices(rank):
    def convert(b, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        found = CONVERTERS[f"max_pool{rank}d"](b, x, kernel_size, stride, padding, dilation, ceil_mode, _takes(b, 1))
        return found if _takes(b, 1) else (found, None)
    return convert


for _rank in (1, 2, 3):
    _adaptive_max_pool(_rank)
    ATEN[f"max_pool{_rank}d_with_indices"] = _pool_with_indices(_rank)


# ---------------------------------------------------------------- resized images

def _resize(b, x, size, method, align_corners=False, scales=None):
    """method: nearest_neighbor, linear or cubic. torch's nearest element is floor(i * input / output). scales: factors
    for the places of elements, which the ratio of sizes need not be; None: that is."""
    size, rank = tuple(size), b.rank(x) - 2
    if scales is not None and (align_corners or all(d * s == n for d, s, n in zip(b.dims(x)[2:], scales, size))):
        scales = None
    if rank == 1:
        x, size, scales = b.op("expand_dims", x, 2), (1, *size), scales and (1.0, *scales)
    elif rank != 2:
        raise ValueError(f"images of {rank} dimensions are not resized; 1 and 2 are supported")
    how = {"method": method, "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
           "rounding_method": "round", "cubic_alpha": -0.75 if method == "cubic" else -0.5}
    if scales is not None:
        how.update(scales=tuple(map(float, scales)))
    if scales is not None and method == "nearest_neighbor":
        how.update(coordinate_transformation_mode="asymmetric", rounding_method="floor")
    elif method == "nearest_neighbor":
        how.update(_nearest(b.dims(x)[2:], size))
    y = b.op("image.resize2d", x, size, layout="NCHW", **how)
    return b.op("squeeze", y, [2]) if rank == 1 else y


def _nearest(old, new):
    """The coordinates and rounding that find floor(i * old / new)."""
    known = all(isinstance(d, int) for d in (*old, *new))
    if known and all(n % o == 0 for o, n in zip(old, new)) and old != list(new):
        return {}  # each element repeats: half_pixel and rounding find it too
    whole = known and all(o % n == 0 for o, n in zip(old, new))
    return {"coordinate_transformation_mode": "asymmetric", "rounding_method": "round" if whole else "floor"}


def _output_size(b, x, size, scale):
    """(the size of a resized image, from it or from scales; the scales or None)"""
    old = b.dims(x)[2:]
    if size is not None:
        return [size] * len(old) if isinstance(size, int) else size, None
    scales = scale if isinstance(scale, (list, tuple)) else [scale] * len(old)
    if all(float(s).is_integer() for s in scales):
        return [d * int(s) for d, s in zip(old, scales)], None
    if not all(isinstance(d, int) for d in old):
        raise ValueError(f"the scales {scales} of symbolic dimensions must be whole numbers")
    return [int(d * s) for d, s in zip(old, scales)], scales


_MODES = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "bicubic": "cubic"}


@converts("interpolate", "upsample", table=FUNCTIONS)
def interpolate(b, x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    if antialias or mode not in _MODES:
        raise ValueError(f"interpolate of mode {mode!r}, antialias={antialias} is not supported; modes: "
                         f"{', '.join(_MODES)}")
    size, scales = _output_size(b, x, size, scale_factor)
    return _resize(b, x, size, _MODES[mode], bool(align_corners), None if recompute_scale_factor else scales)


def _upsample(method, corners):
    """aten.upsample_*: the overload of a size or factors, and that of a size and the scales it comes from."""
    def by_factors(b, x, output_size, align_corners, scale_factors=None):
        size, scales = _output_size(b, x, output_size, scale_factors)
        return _resize(b, x, size, method, bool(align_corners), scales)

    def by_size(b, x, output_size, align_corners, *scales, **named):
        scales = [s for s in (*scales, *named.values()) if s is not None]
        return _resize(b, x, output_size, method, bool(align_corners),
                       scales if len(scales) == len(output_size) else None)
    if corners:
        return by_factors, by_size
    return (lambda b, x, output_size, scale_factors=None: by_factors(b, x, output_size, False, scale_factors),
            lambda b, x, output_size, *scales, **named: by_size(b, x, output_size, False, *scales, **named))


for _name, _method, _corners in (("nearest1d", "nearest_neighbor", False), ("nearest2d", "nearest_neighbor", False),
                                 ("linear1d", "linear", True), ("bilinear2d", "linear", True),
                                 ("bicubic2d", "cubic", True)):
    ATEN[f"upsample_{_name}.vec"], ATEN[f"upsample_{_name}"] = _upsample(_method, _corners)


@converts("grid_sampler", "grid_sampler_2d", table=ATEN)
def grid_sampler(b, x, grid, mode, padding_mode, align_corners):
    return b.op("nn.grid_sample", x, grid, mode=("linear", "nearest", "cubic")[mode],
                padding_mode=("zeros", "border", "reflection")[padding_mode], align_corners=bool(align_corners))
