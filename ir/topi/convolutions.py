"""topi.nn's convolutions in any layout, as one tensor expression: data, a stage of padding, a sum. Those that operators
of a graph are stand in network.py."""
from __future__ import annotations

from .. import te, tir
from ..expr import as_expr, cast
from ..op import InferError
from ..relax.classic import plain
from ..relax.ops.common import simplify
from ..relax.window_rules import spelled
from .apply import View, fits
from .network import pads_of, spread
from .windows import pad


def _order(layout, first, second):
    """The places of the axes `first` and `second` in a layout, then of the others."""
    return [layout.index(first), layout.index(second), *(n for n, c in enumerate(layout) if c not in first + second)]


def placed(values, order):
    """Values in canonical order, where the layout has them."""
    found = [None] * len(order)
    for value, place in zip(values, order):
        found[place] = value
    return tuple(found)


def kernel_layout_of(data_layout):
    """OIHW where channels come first, HWIO where they come last."""
    spatial = "".join(c for c in data_layout if c not in "NC")
    return f"OI{spatial}" if data_layout.index("C") < data_layout.index(spatial[0]) else f"{spatial}IO"


def convolution(ops, data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout="", out_dtype=None):
    """The sum over the group's channels and the window; layouts name the axes: N, C and spatial ones,
    O, I and those."""
    kernel_layout = kernel_layout or kernel_layout_of(data_layout)
    if data.ndim != len(data_layout) or kernel.ndim != len(kernel_layout) or len(data_layout) != len(kernel_layout):
        raise InferError(f"the data has {data.ndim} dimensions and the kernel {kernel.ndim}: layouts {data_layout} and "
                         f"{kernel_layout} do not fit")
    count, dtype = data.ndim - 2, out_dtype or data.dtype
    strides, dilation = spread(strides, count, "strides"), spread(dilation, count, "dilation")
    data_order, kernel_order = _order(data_layout, "N", "C"), _order(kernel_layout, "O", "I")
    batch, channels, *sizes = (as_expr(data.shape[n]) for n in data_order)
    filters, per_group, *window = (as_expr(kernel.shape[n]) for n in kernel_order)
    if plain(simplify(channels - per_group * groups)) != 0 or plain(simplify(tir.floormod(filters, groups))) != 0:
        raise InferError(f"{channels} channels and {filters} filters of {per_group} do not make {groups} groups")
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation)]
    before, after = pads_of(padding, [simplify(r) for r in reach])
    padded = pad(ops, data, *(placed([0, 0, *p], data_order) for p in (before, after)), name="pad_temp")
    outs = [spelled(simplify((n + b + a - r) // s + 1)) for n, b, a, r, s in zip(sizes, before, after, reach, strides)]
    rc = te.reduce_axis((0, per_group), "rc")
    rs = [te.reduce_axis((0, k), f"r{name}") for name, k in zip("yxz", window)]
    axes = [axis for axis, _ in sorted(zip([rc, *rs], data_order[1:]), key=lambda pair: pair[1])]

    def element(*i):
        n, o, *at = (i[k] for k in data_order)
        channel = rc.var if groups == 1 else o // (filters // groups) * per_group + rc.var
        places = [y * s + r.var * d for y, s, r, d in zip(at, strides, rs, dilation)]
        value = padded[placed([n, channel, *places], data_order)]
        weight = kernel[placed([o, rc.var, *(r.var for r in rs)], kernel_order)]
        return te.sum(cast(value, dtype) * cast(weight, dtype), axis=axes)
    name = f"{'group_' if groups > 1 else ''}conv{count}d_{data_layout.lower()}"
    return te.compute(placed([batch, filters, *outs], data_order), element, name=name)


def _in(data_layout, kernel_layout, grouped=False, optional=False):
    """The function of one pair of layouts; optional: whether strides, padding and dilation may be left out."""
    def conv(ops, data, kernel, strides, padding, dilation, out_dtype=None):
        return convolution(ops, data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)

    def conv_optional(ops, data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None):
        return conv(ops, data, kernel, strides, padding, dilation, out_dtype)

    def group_conv(ops, data, kernel, strides=1, padding="VALID", dilation=1, groups=1, out_dtype=None):
        return convolution(ops, data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)
    return group_conv if grouped else conv_optional if optional else conv


def conv2d_nhwc(ops, Input, Filter, stride, padding, dilation, out_dtype="float32",  # noqa: N803
                auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None):
    return convolution(ops, Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


def conv3d_ndhwc(ops, Input, Filter, stride, padding, dilation, groups, out_dtype="float32",  # noqa: N803
                 auto_scheduler_rewritten_layout="", meta_schedule_origin_shape=None):
    return convolution(ops, Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)


def conv(ops, inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout="", out_dtype=None,
         auto_scheduler_rewritten_layout=None, meta_schedule_original_shape=None,
         auto_scheduler_should_rewrite_layout=False):
    return convolution(ops, inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def depthwise_conv2d_nhwc(ops, Input, Filter, stride, padding, dilation, kernel_layout="HWOI",  # noqa: N803
                          out_dtype=None):
    """Filter: (height, width, channels, multiplier), or with HWIO (height, width, multiplier, channels)."""
    channels, multiplier = (Filter.shape[k] for k in ((2, 3) if kernel_layout == "HWOI" else (3, 2)))
    weight = te.compute((*Filter.shape[:2], 1, channels * multiplier), lambda y, x, _, o: Filter[
        (y, x, o // multiplier, o % multiplier) if kernel_layout == "HWOI" else (
            y, x, o % multiplier, o // multiplier)], name="filter")
    return convolution(ops, Input, weight, stride, padding, dilation, plain(as_expr(channels)), "NHWC", "HWIO",
                       out_dtype)


def conv2d_NCHWc(ops, data, kernel, stride, padding, dilation, layout, out_layout, out_dtype="float32"):  # noqa: N802
    """Channels in blocks: data (N, C / c, H, W, c), kernel (O / o, C / c, height, width, c, o)."""
    *_, c, o = (plain(as_expr(n)) for n in kernel.shape)
    channels = View((data.shape[0], data.shape[1] * c, *data.shape[2:4]), data.dtype,
                    lambda n, k, y, x: data[n, k // c, y, x, k % c])
    weight = View((kernel.shape[0] * o, kernel.shape[1] * c, *kernel.shape[2:4]), kernel.dtype,
                  lambda f, k, y, x: kernel[f // o, k // c, y, x, k % c, f % o])
    out = convolution(ops, channels, weight, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)
    n, filters, h, w = out.shape
    return te.compute((n, simplify(as_expr(filters) // o), h, w, o), lambda n, k, y, x, f: out[n, k * o + f, y, x],
                      name="conv2d_NCHWc")


def unpack_NCHWc_to_nchw(ops, packed_out, out_dtype):  # noqa: N802
    """Blocks of channels as channels."""
    n, blocks, h, w, c = packed_out.shape
    return te.compute((n, blocks * c, h, w), lambda n, k, y, x: cast(packed_out[n, k // c, y, x, k % c], out_dtype),
                      name="output_unpack")


# ---------------------------------------------------------------- transposed

# ---------------------------------------------------------------- like convolutions

def correlation_nchw(ops, data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply):
    """How patches of data1 agree with those of data2 around them (FlowNet): a channel for each displacement."""
    if kernel_size < 1 or not kernel_size % 2:
        raise InferError(f"kernel_size must be odd, it is {kernel_size}")
    fits("data2", data2.shape, data1.shape)
    before, after = pads_of(padding, (1, 1))
    a, b = (pad(ops, x, (0, 0, *before), (0, 0, *after)) for x in (data1, data2))
    border, radius = max_displacement + (kernel_size - 1) // 2, max_displacement // stride2
    places = 2 * radius + 1
    outs = [simplify((as_expr(n) - 2 * border + stride1 - 1) // stride1) for n in a.shape[2:]]
    rc, ry, rx = (te.reduce_axis((0, n), name) for n, name in (
        (data1.shape[1], "rc"), (kernel_size, "ry"), (kernel_size, "rx")))

    def element(n, q, i, j):
        y, x = (at * stride1 + max_displacement for at in (i, j))
        down, right = ((k - radius) * stride2 for k in (q // places, q % places))
        one, other = a[n, rc.var, y + ry.var, x + rx.var], b[n, rc.var, y + down + ry.var, x + right + rx.var]
        return te.sum(one * other if is_multiply else tir.abs(one - other), axis=[rc, ry, rx])
    sums = te.compute((data1.shape[0], places * places, *outs), element, name="correlation_nchw")
    return ops("divide", sums, kernel_size * kernel_size * plain(as_expr(data1.shape[1])))


def _dilation(layout, filter_layout):
    def dilation2d(ops, input, filter, stride, padding, dilations, out_dtype=None):
        """Morphological: the greatest sum of an element and the filter's over the window, a channel by itself."""
        dtype = out_dtype or input.dtype
        stride, dilations = spread(stride, 2, "stride"), spread(dilations, 2, "dilations")
        order, places = _order(layout, "N", "C"), [filter_layout.index(c) for c in "IHW"]
        batch, channels, *sizes = (as_expr(input.shape[n]) for n in order)
        fits("the filter's channels", filter.shape[places[0]:places[0] + 1], (channels,))
        _, *window = (as_expr(filter.shape[n]) for n in places)
        reach = [simplify((k - 1) * d + 1) for k, d in zip(window, dilations)]
        before, after = pads_of(padding, reach)
        padded = pad(ops, input, *(placed([0, 0, *p], order) for p in (before, after)), name="pad_temp")
        outs = [simplify((n + b + a - r) // s + 1) for n, b, a, r, s in zip(sizes, before, after, reach, stride)]
        rs = [te.reduce_axis((0, k), name) for k, name in zip(window, ("ry", "rx"))]

        def element(*i):
            n, c, *at = (i[k] for k in order)
            spots = [y * s + r.var * d for y, s, r, d in zip(at, stride, rs, dilations)]
            value = padded[placed([n, c, *spots], order)]
            return te.max(cast(value, dtype) + cast(filter[placed(
                [c, *(r.var for r in rs)], places)], dtype), axis=rs)
        return te.compute(placed([batch, channels, *outs], order), element, name=f"dilation2d_{layout.lower()}")
    return dilation2d


def _pad_tuple(count):
    def get_pad_tuple(padding, kernel):
        """(befores, then afters) of the axes; pads_of says what padding may be."""
        before, after = pads_of(padding, kernel[-count:])
        return (*before, *after)
    return get_pad_tuple


# Helpers of topi.nn that schedules and scripts call.
FUNCTIONS = {**{f"get_pad_tuple{n}": _pad_tuple(count) for n, count in (("1d", 1), ("", 2), ("3d", 3))},
             "get_pad_tuple_generic": pads_of}
COMPOSITES = {
    "nn.conv1d_nwc": _in("NWC", "WIO", optional=True), "nn.group_conv1d_nwc": _in("NWC", "WIO", grouped=True),
    "nn.group_conv1d_ncw": _in("NCW", "OIW", grouped=True), "nn.conv2d_hwcn": _in("HWCN", "HWIO"),
    "nn.conv2d_nhwc": conv2d_nhwc, "nn.conv3d_ndhwc": conv3d_ndhwc, "nn.conv": conv,
    "nn.group_conv2d_nhwc": _in("NHWC", "HWIO", grouped=True), "nn.depthwise_conv2d_nhwc": depthwise_conv2d_nhwc,
    "nn.conv2d_NCHWc": conv2d_NCHWc, "nn.unpack_NCHWc_to_nchw": unpack_NCHWc_to_nchw,
    "nn.correlation_nchw": correlation_nchw,
    "image.dilation2d_nchw": _dilation("NCHW", "IHW"), "image.dilation2d_nhwc": _dilation("NHWC", "HWI"),
}
