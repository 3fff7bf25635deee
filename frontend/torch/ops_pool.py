"""Pools and resized images."""
from __future__ import annotations

from .ops_nn import _batched, _numbers, _one
from .table import ATEN, CONVERTERS, FUNCTIONS, converts

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _max_pool(rank):
    def convert(b, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise ValueError("return_indices of pools is not supported")
        x, one = _batched(b, x, rank)
        stride = kernel_size if stride in (None, []) else stride
        y = b.op(f"nn.max_pool{rank}d", x, _numbers(kernel_size, rank), _numbers(stride, rank),
                 _numbers(padding, rank), _numbers(dilation, rank), ceil_mode, _LAYOUTS[rank])
        return _one(b, y, one)
    return convert


def _avg_pool(rank):
    def convert(b, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                divisor_override=None):
        if divisor_override is not None:
            raise ValueError("divisor_override of avg_pool is not supported")
        x, one = _batched(b, x, rank)
        stride = kernel_size if stride in (None, []) else stride
        counted = {"count_include_pad": True} if count_include_pad and _padded(padding) else {}
        y = b.op(f"nn.avg_pool{rank}d", x, pool_size=_numbers(kernel_size, rank), strides=_numbers(stride, rank),
                 padding=_numbers(padding, rank), ceil_mode=ceil_mode, layout=_LAYOUTS[rank], **counted)
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


@converts("adaptive_max_pool2d")
def adaptive_max_pool2d(b, x, output_size, return_indices=False):
    if return_indices:
        raise ValueError("return_indices of pools is not supported")
    x, one = _batched(b, x, 2)
    size = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    return _one(b, b.op("nn.adaptive_max_pool2d", x, size), one)


@converts("max_pool2d_with_indices", table=ATEN)
def max_pool2d_with_indices(b, *args, **kwargs):
    return CONVERTERS["max_pool2d"](b, *args, **kwargs), None


# ---------------------------------------------------------------- resized images

def _resize(b, x, size, method, align_corners=False):
    """method: nearest_neighbor, linear or cubic. torch's nearest element is floor(i * input / output)."""
    size, rank = tuple(size), b.rank(x) - 2
    if rank == 1:
        x, size = b.op("expand_dims", x, 2), (1, *size)
    elif rank != 2:
        raise ValueError(f"images of {rank} dimensions are not resized; 1 and 2 are supported")
    how = {"method": method, "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
           "rounding_method": "round", "cubic_alpha": -0.75 if method == "cubic" else -0.5}
    if method == "nearest_neighbor":
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
    """The size of a resized image, from it or from scales."""
    old = b.dims(x)[2:]
    if size is not None:
        return [size] * len(old) if isinstance(size, int) else size
    scales = scale if isinstance(scale, (list, tuple)) else [scale] * len(old)
    if all(float(s).is_integer() for s in scales):
        return [d * int(s) for d, s in zip(old, scales)]
    if not all(isinstance(d, int) for d in old):
        raise ValueError(f"the scales {scales} of symbolic dimensions must be whole numbers")
    return [int(d * s) for d, s in zip(old, scales)]


_MODES = {"nearest": "nearest_neighbor", "linear": "linear", "bilinear": "linear", "bicubic": "cubic"}


@converts("interpolate", "upsample", table=FUNCTIONS)
def interpolate(b, x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    if antialias or mode not in _MODES:
        raise ValueError(f"interpolate of mode {mode!r}, antialias={antialias} is not supported; modes: "
                         f"{', '.join(_MODES)}")
    return _resize(b, x, _output_size(b, x, size, scale_factor), _MODES[mode], bool(align_corners))


def _upsample(method, corners):
    """aten.upsample_*: with align_corners or without, in the overloads by size and by scales."""
    def convert(b, x, output_size=None, *rest):
        align, *scales = rest if corners else (False, *rest)
        factors = scales[0] if len(scales) == 1 and isinstance(scales[0], (list, tuple)) else None
        return _resize(b, x, _output_size(b, x, output_size, factors), method, bool(align))
    return convert


for _name, _method, _corners in (("nearest1d", "nearest_neighbor", False), ("nearest2d", "nearest_neighbor", False),
                                 ("linear1d", "linear", True), ("bilinear2d", "linear", True),
                                 ("bicubic2d", "cubic", True)):
    ATEN[f"upsample_{_name}"] = _upsample(_method, _corners)


@converts("grid_sampler", "grid_sampler_2d", table=ATEN)
def grid_sampler(b, x, grid, mode, padding_mode, align_corners):
    return b.op("nn.grid_sample", x, grid, mode=("linear", "nearest", "cubic")[mode],
                padding_mode=("zeros", "border", "reflection")[padding_mode], align_corners=bool(align_corners))
