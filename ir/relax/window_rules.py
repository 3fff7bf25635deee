"""Rules as in rules.py of convolutions, pools and resizing, in any layout, also of blocks."""
from __future__ import annotations

import re

from ..expr import Add, IntImm, Sub
from ..node import Mutator
from .composites_nn import each, pads
from .expr import RelaxExpr, ShapeExpr, ShapeStructInfo, TensorStructInfo
from .ops.common import InferTypeError, as_dim, dim_text, fail, shape_text, simplify
from .rule_infos import differ, dims_in, info_of, result_of

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def axes_of(layout):
    """[(letter, size of the block or 0)] of "NCHW16c"."""
    return [(letter, int(n or 0)) for n, letter in re.findall(r"(\d*)([A-Za-z])", layout)]


def _whole(info, layout):
    """{letter: dimension} of a tensor, blocks joined."""
    found = {}
    for (letter, size), d in zip(axes_of(layout), info.dims):
        key = letter.upper()
        d = as_dim(size) if size else d
        found[key] = found[key] * d if key in found else d
    return {k: simplify(d) for k, d in found.items()}


def _laid_out(whole, layout):
    """The shape of {letter: dimension} in a layout."""
    axes = axes_of(layout)
    blocks = {letter.upper(): n for letter, n in axes if n}
    return tuple(as_dim(n) if n else simplify(as_dim(whole[letter]) // blocks[letter]) if letter in blocks
                 else as_dim(whole[letter]) for letter, n in axes)


def _check_rank(name, info, layout, what):
    rank = len(axes_of(layout))
    if info.ndim not in (-1, rank):
        fail(name, f"{what} must have {rank} dimensions, as {layout}, its shape is {shape_text(info.dims)}")


def _quotient(value, divisor):
    """floor(value / divisor) + 1, as TVM writes it."""
    value = spelled(simplify(as_dim(value)))
    whole = isinstance(value, (Add, Sub)) and isinstance(value.b, IntImm) and value.b.value % divisor == 0
    if isinstance(value, IntImm) or divisor == 1 or whole:
        return spelled(simplify(value // divisor + 1))
    return value // divisor + 1


def _windows(extent, kernel, stride, dilation):
    """How many windows there are; a symbolic kernel stands behind the quotient where its steps are strides."""
    if isinstance(simplify(kernel), IntImm) or stride == 1 or dilation % stride:
        return _quotient(extent - (kernel - 1) * dilation - 1, stride)
    return _quotient(extent + dilation - 1, stride) - simplify(kernel * (dilation // stride))


class _Differences(Mutator):
    """a + -2 as a - 2, a - b + 2 as a + 2 - b."""

    def visit_Add(self, e):
        e = self.generic_visit(e)
        if not isinstance(e, Add) or not isinstance(e.b, IntImm):
            return e
        if e.b.value < 0:
            return e.a - -e.b.value
        return Sub(Add(e.a.a, e.b), e.a.b) if isinstance(e.a, Sub) else e


spelled = _Differences().visit


def _check_layout(name, layout, letters):
    if sorted({x.upper() for x, _ in axes_of(layout)}) != sorted(letters):
        fail(name, f"layout {layout!r} must have the axes of {letters}")


def conv(rank, transposed=False):
    name = f"nn.conv{rank}d" + ("_transpose" if transposed else "")
    space = _SPATIAL[rank]

    def rule(operands, attrs):
        x, w = (info_of(name, v) for v in operands)
        data_layout, kernel_layout = attrs["data_layout"], attrs["kernel_layout"]
        out_layout = attrs["out_layout"] or data_layout
        for layout, letters in ((data_layout, "NC" + space), (kernel_layout, "OI" + space), (out_layout, "NC" + space)):
            _check_layout(name, layout, letters)
        _check_rank(name, x, data_layout, "data")
        _check_rank(name, w, kernel_layout, "weight")
        dtype = attrs["out_dtype"] or None
        if dtype in (None, "void"):
            if "void" not in (x.dtype, w.dtype) and x.dtype != w.dtype:
                fail(name, f"operands differ in dtype: {x.dtype}, {w.dtype}; give out_dtype", InferTypeError)
            dtype = "void" if "void" in (x.dtype, w.dtype) else x.dtype
        strides, padding, dilation = each(attrs["strides"], rank, "strides"), pads(attrs["padding"], rank), each(
            attrs["dilation"], rank, "dilation")
        more = each(attrs.get("output_padding", 0), rank, "output_padding")
        if any(m >= s for m, s in zip(more, strides)):
            fail(name, f"output_padding {more} must be below strides {strides}")
        if x.dims is None or w.dims is None:
            return result_of(x, None, len(axes_of(out_layout)), dtype)
        data, kernel, groups = _whole(x, data_layout), _whole(w, kernel_layout), attrs["groups"]
        channels = _channels(name, data, kernel, groups, transposed)
        whole = {"N": data["N"], "C": channels}
        for k, letter in enumerate(space):
            reach = (kernel[letter] - 1) * dilation[k]
            edges = padding[k] + padding[k + rank]
            whole[letter] = (
                spelled(simplify((data[letter] - 1) * strides[k] - edges + reach + more[k] + 1)) if transposed else
                _windows(data[letter] + edges, kernel[letter], strides[k], dilation[k]))
        return result_of(x, _laid_out(whole, out_layout), None, dtype)
    return rule


def _channels(name, data, kernel, groups, transposed):
    """The channels of the result, checked against the data's."""
    if groups < 1:
        fail(name, f"groups={groups} must be at least 1")
    takes = kernel["I"] if transposed else kernel["I"] * groups
    if differ(data["C"], takes):
        fail(name, f"data has {dim_text(data['C'])} channels, the weight takes {dim_text(simplify(takes))}")
    divided = kernel["I" if transposed else "O"]
    if differ(divided % groups, 0):
        fail(name, f"groups={groups} does not divide {dim_text(divided)} channels of the weight")
    return simplify(kernel["O"] * groups) if transposed else kernel["O"]


def pool(rank, kind):
    name, space = f"nn.{kind}_pool{rank}d", _SPATIAL[rank]

    def rule(operands, attrs):
        x, = (info_of(name, v) for v in operands)
        layout = attrs["layout"]
        out_layout = attrs["out_layout"] or layout
        for text in (layout, out_layout):
            _check_layout(name, text, "NC" + space)
        _check_rank(name, x, layout, "data")
        window = each(attrs["pool_size"], rank, "pool_size")
        strides = window if attrs["strides"] is None else each(attrs["strides"], rank, "strides")
        padding, dilation = pads(attrs["padding"], rank), each(attrs["dilation"], rank, "dilation")
        if dims_in(x) is None:
            return result_of(x, None, len(axes_of(out_layout)))
        whole = _whole(x, layout)
        for k, letter in enumerate(space):
            value = whole[letter] + padding[k] + padding[k + rank] - dilation[k] * (window[k] - 1) - 1
            whole[letter] = _quotient(value + (strides[k] - 1 if attrs["ceil_mode"] else 0), strides[k])
        return result_of(x, _laid_out(whole, out_layout))
    return rule


def adaptive(rank):
    name, space = f"nn.adaptive_avg_pool{rank}d", _SPATIAL[rank]

    def rule(operands, attrs):
        x, = (info_of(name, v) for v in operands)
        layout, out_layout = attrs["layout"], attrs["out_layout"] or attrs["layout"]
        for text in (layout, out_layout):
            _check_layout(name, text, "NC" + space)
        _check_rank(name, x, layout, "data")
        size = attrs["output_size"]
        if dims_in(x) is None:
            keeps = size is None and layout == out_layout
            return TensorStructInfo(x.shape, x.dtype) if keeps and x.shape is not None else result_of(
                x, None, len(axes_of(out_layout)))
        whole = _whole(x, layout)
        if size is not None:
            whole.update(zip(space, map(as_dim, each(size, rank, "output_size"))))
        return result_of(x, _laid_out(whole, out_layout))
    return rule


def resize2d(operands, attrs):
    name, x = "image.resize2d", info_of("image.resize2d", operands[0])
    size = operands[1] if len(operands) > 1 else attrs.get("size")
    layout = attrs.get("layout") or "NCHW"
    _check_layout(name, layout, "NCHW")
    _check_rank(name, x, layout, "data")
    dtype = x.dtype if attrs.get("out_dtype") in (None, "", "void") else attrs["out_dtype"]
    if isinstance(size, RelaxExpr):
        known = size.struct_info
        if not isinstance(known, ShapeStructInfo):
            fail(name, f"the size must be a shape, it is {known}", InferTypeError)
        if known.ndim not in (2, -1):
            fail(name, f"the size must be two dimensions, it is {known.ndim}")
        size = known.values if isinstance(size, ShapeExpr) else None
    elif size is not None:
        size = tuple(size) if isinstance(size, (list, tuple)) else (size,) * 2
        if len(size) != 2:
            fail(name, f"the size must be two dimensions, it is {len(size)}")
    if size is None or x.dims is None:
        return result_of(x, None, len(axes_of(layout)), dtype)
    whole = {**_whole(x, layout), "H": size[0], "W": size[1]}
    return result_of(x, _laid_out(whole, layout), None, dtype)


WINDOW_RULES = {
    **{f"nn.conv{n}d": conv(n) for n in (1, 2, 3)}, **{f"nn.conv{n}d_transpose": conv(n, True) for n in (1, 2)},
    **{f"nn.{kind}_pool{n}d": pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": adaptive(n) for n in (1, 2, 3)},
    "image.resize2d": resize2d,
}
__all__ = ["WINDOW_RULES", "axes_of", "spelled"]
