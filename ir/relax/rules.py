"""Struct info of calls where partial.py's stand-ins tell less than TVM does: {name: f(operands, attrs)}.

A rule serves arguments that are not known in full, or that the operator's row refuses; it checks what is known.
"""
from __future__ import annotations

import re

from ..expr import Add, IntImm, PrimExpr, Sub, is_const_int
from ..node import Mutator
from ..op import InferError
from ..tir.index_map import IndexMap
from .classic import plain
from .composites_nn import each, pads
from .composites_tensor import einsum_terms, held_part, summed_axes
from .expr import PrimStructInfo, RelaxExpr, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .ops.common import (InferTypeError, as_dim, dim_text, fail, normalize_axes, normalize_axis,
                         product, same_dim, shape_text, simplify)

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def info_of(name, value):
    info = getattr(value, "struct_info", None)
    if not isinstance(info, TensorStructInfo):
        fail(name, f"takes tensors, got {info if info is not None else value!r}", InferTypeError)
    return info


def _dims(info):
    """The dimensions that stand in the struct info itself."""
    return info.shape if isinstance(info.shape, tuple) else None


def _result(info, dims, ndim=None, dtype=None):
    dtype = info.dtype if dtype is None else dtype
    if dims is not None:
        return TensorStructInfo(tuple(dims), dtype)
    return TensorStructInfo(None, dtype, info.ndim if ndim is None else ndim)


# ---------------------------------------------------------------- layouts

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
            return _result(x, None, len(axes_of(out_layout)), dtype)
        data, kernel, groups = _whole(x, data_layout), _whole(w, kernel_layout), attrs["groups"]
        channels = _channels(name, data, kernel, groups, transposed)
        whole = {"N": data["N"], "C": channels}
        for k, letter in enumerate(space):
            reach = (kernel[letter] - 1) * dilation[k]
            edges = padding[k] + padding[k + rank]
            whole[letter] = (
                spelled(simplify((data[letter] - 1) * strides[k] - edges + reach + more[k] + 1)) if transposed else
                _windows(data[letter] + edges, kernel[letter], strides[k], dilation[k]))
        return _result(x, _laid_out(whole, out_layout), None, dtype)
    return rule


def _differ(a, b):
    """Whether two dimensions are known to differ."""
    difference = simplify(as_dim(a) - b)
    return isinstance(difference, IntImm) and difference.value != 0


def _channels(name, data, kernel, groups, transposed):
    """The channels of the result, checked against the data's."""
    if groups < 1:
        fail(name, f"groups={groups} must be at least 1")
    takes = kernel["I"] if transposed else kernel["I"] * groups
    if _differ(data["C"], takes):
        fail(name, f"data has {dim_text(data['C'])} channels, the weight takes {dim_text(simplify(takes))}")
    divided = kernel["I" if transposed else "O"]
    if _differ(divided % groups, 0):
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
        if _dims(x) is None:
            return _result(x, None, len(axes_of(out_layout)))
        whole = _whole(x, layout)
        for k, letter in enumerate(space):
            value = whole[letter] + padding[k] + padding[k + rank] - dilation[k] * (window[k] - 1) - 1
            whole[letter] = _quotient(value + (strides[k] - 1 if attrs["ceil_mode"] else 0), strides[k])
        return _result(x, _laid_out(whole, out_layout))
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
        if _dims(x) is None:
            keeps = size is None and layout == out_layout
            return TensorStructInfo(x.shape, x.dtype) if keeps and x.shape is not None else _result(
                x, None, len(axes_of(out_layout)))
        whole = _whole(x, layout)
        if size is not None:
            whole.update(zip(space, map(as_dim, each(size, rank, "output_size"))))
        return _result(x, _laid_out(whole, out_layout))
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
        return _result(x, None, len(axes_of(layout)), dtype)
    whole = {**_whole(x, layout), "H": size[0], "W": size[1]}
    return _result(x, _laid_out(whole, layout), None, dtype)


# ---------------------------------------------------------------- parts and orders

def split(operands, attrs):
    x, axis = info_of("split", operands[0]), attrs.get("axis", 0)
    parts = attrs["indices_or_sections"]
    if x.ndim >= 0:
        axis = normalize_axis("split", axis, x.ndim)
    dims = _dims(x)
    count = parts if isinstance(parts, int) else len(parts) + 1
    if count < 1:
        fail("split", f"indices_or_sections {parts} must be at least 1")
    if count == 1:
        return x if not isinstance(parts, int) else TupleStructInfo((x,))
    if dims is None:
        return TupleStructInfo((_result(x, None),) * count)
    extent = dims[axis]
    if isinstance(parts, int):
        size = simplify((extent + (count - 1)) // count)
        if isinstance(extent, IntImm) and size.value * (count - 1) >= max(extent.value, 1):
            fail("split", f"axis {axis} of extent {extent.value} does not divide into {count} parts")
        sizes = [size] * (count - 1) + [simplify(extent - size * (count - 1))]
    elif isinstance(extent, IntImm) and all(isinstance(p, int) for p in parts):
        ends = [0, *(min(p + extent.value if p < 0 else p, extent.value) for p in parts), extent.value]
        sizes = [max(b - a, 0) for a, b in zip(ends, ends[1:])]
    else:
        return TupleStructInfo((_result(x, None),) * count)
    return TupleStructInfo(tuple(_result(x, (*dims[:axis], as_dim(s), *dims[axis + 1:])) for s in sizes))


def strided_slice(operands, attrs):
    x, axes = info_of("strided_slice", operands[0]), attrs.get("axes")
    begin, end = attrs["begin"], attrs["end"]
    strides = (1,) * len(begin) if attrs.get("strides") is None else attrs["strides"]
    axes = tuple(range(len(begin))) if axes is None else tuple(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        fail("strided_slice", "axes, begin, end and strides must have one length")
    if not axes:
        return x.replace(vdevice=None) if x.dims is None else _result(x, x.dims)
    if x.ndim >= 0:
        axes = [normalize_axis("strided_slice", a, x.ndim) for a in axes]
        if len(set(axes)) < len(axes):
            fail("strided_slice", f"axes {axes} name one axis twice")
    if x.dims is None:
        return _result(x, None)
    dims = list(x.dims)
    for axis, first, last, step in zip(axes, begin, end, strides):
        if all(isinstance(v, int) for v in (first, last, step)) and isinstance(dims[axis], IntImm):
            dims[axis] = as_dim(len(range(*slice(first, last, step).indices(dims[axis].value))))
        elif attrs.get("assume_inbound") and isinstance(step, int) and step > 0:
            dims[axis] = simplify((last - first + (step - 1)) // step) if step > 1 else simplify(as_dim(last - first))
        elif attrs.get("assume_inbound") and isinstance(step, PrimExpr):  # above 0, TVM assumes
            dims[axis] = simplify(as_dim(last) - first + step - 1) // step
        elif isinstance(step, int) and step and not attrs.get("assume_inbound"):
            dims[axis] = held_part(dims[axis], first, last, step)[1]
        else:
            return _result(x, None)
    return _result(x, dims)


def squeeze(operands, attrs):
    x, axis = info_of("squeeze", operands[0]), attrs.get("axis")
    dims = _dims(x)
    if axis is None:
        known = x.dims
        if dims is None and known is not None and all(isinstance(d, IntImm) and d.value != 1 for d in known):
            return x.replace(vdevice=None)
        if dims is None or not all(isinstance(d, IntImm) for d in dims):
            return _result(x, None, -1)
        return _result(x, [d for d in dims if d.value != 1])
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if not axes:
        return x.replace(vdevice=None)
    if x.ndim < 0:
        return _result(x, None, -1)
    axes = normalize_axes("squeeze", axes, x.ndim)
    known = x.dims
    for a in axes if known is not None else ():
        if isinstance(known[a], IntImm) and known[a].value != 1:
            fail("squeeze", f"axis {a} of {shape_text(known)} is not 1")
    return _result(x, None if dims is None else [d for k, d in enumerate(dims) if k not in axes], x.ndim - len(axes))


def sort(operands, attrs):
    x = info_of("sort", operands[0])
    if x.ndim >= 0:
        normalize_axis("sort", attrs.get("axis", -1), x.ndim)
    return x


def argsort(operands, attrs):
    x = sort(operands, attrs)
    return TensorStructInfo(x.shape, attrs.get("dtype") or "int32", *((x.ndim,) if x.shape is None else ()))


def topk(operands, attrs):
    x, k, axis = info_of("topk", operands[0]), plain(attrs.get("k", 1)), attrs.get("axis", -1)
    dims = _dims(x)
    if dims is not None:
        axis = normalize_axis("topk", axis, x.ndim)
        dims = dims if k < 1 else (*dims[:axis], as_dim(k), *dims[axis + 1:])
    values, indices = _result(x, dims), _result(x, dims, None, attrs.get("dtype") or "int32")
    asked = attrs.get("ret_type", "both")
    return TupleStructInfo((values, indices)) if asked == "both" else values if asked == "values" else indices


# ---------------------------------------------------------------- the shape of another

def _collapse(name, x, target):
    """`target`: a shape, or the struct info of one."""
    mine = x.dims
    theirs = target.values if isinstance(target, (ShapeExpr, ShapeStructInfo)) else target
    if mine is not None and theirs is not None:
        summed_axes(name, mine, theirs)


def collapse_sum_like(operands, attrs):
    x, like = (info_of("collapse_sum_like", v) for v in operands)
    _collapse("collapse_sum_like", x, like.dims)
    return TensorStructInfo(like.shape, x.dtype, *((like.ndim,) if like.shape is None else ()))


def collapse_sum_to(operands, attrs):
    x, shape = info_of("collapse_sum_to", operands[0]), operands[1]
    if isinstance(shape, (list, tuple)):
        shape = ShapeExpr(tuple(shape))
    if not isinstance(getattr(shape, "struct_info", None), ShapeStructInfo):
        fail("collapse_sum_to", f"the target must be a shape, it is {getattr(shape, 'struct_info', shape)}",
             InferTypeError)
    _collapse("collapse_sum_to", x, shape.struct_info.values)
    return TensorStructInfo(shape, x.dtype)


def einsum(operands, attrs):
    given = operands[0]
    tensors = list(getattr(given, "fields", given if isinstance(given, (list, tuple)) else [given]))
    infos = [info_of("einsum", t) for t in tensors]
    if len({i.dtype for i in infos} - {"void"}) > 1:
        fail("einsum", f"operands differ in dtype: {', '.join(map(str, infos))}", InferTypeError)
    if any(_dims(i) is None for i in infos):
        return _result(infos[0], None, -1)

    def same(what, a, b):
        if any(map(_differ, a, b)):
            fail("einsum", f"{what}: {shape_text(a)} and {shape_text(b)} differ")
    _, right, extents = einsum_terms(same, attrs["subscripts"], tensors)
    return _result(infos[0], [extents[c] for c in right])


def take(operands, attrs):
    """An index that is a number leaves its axis out."""
    x, index, axis = info_of("take", operands[0]), operands[1].struct_info, attrs.get("axis")
    if isinstance(index, PrimStructInfo):
        if not index.dtype.is_int:
            fail("take", f"the index must be an integer, it is {index}", InferTypeError)
        index = TensorStructInfo((), index.dtype)
    elif not isinstance(index, TensorStructInfo):
        fail("take", f"takes indices that are a tensor or a number, got {index}", InferTypeError)
    _need_integers("take", index)
    if axis is None:
        return _result(x, _dims(index) if x.ndim == 1 and _dims(x) is not None else None, index.ndim)
    axis = normalize_axis("take", axis, x.ndim) if x.ndim >= 0 else axis
    dims, own = _dims(x), _dims(index)
    if dims is not None and is_const_int(dims[axis], 0) and not any(is_const_int(d, 0) for d in own or (0,)):
        fail("take", f"axis {axis} of {shape_text(x)} has no elements that an index could mean")
    rank = x.ndim - 1 + index.ndim if x.ndim >= 0 and index.ndim >= 0 else -1
    return _result(x, None if dims is None or own is None else (*dims[:axis], *own, *dims[axis + 1:]), rank)


def gather_elements(operands, attrs):
    x, indices = (info_of("gather_elements", v) for v in operands)
    if x.ndim >= 0:
        normalize_axis("gather_elements", attrs.get("axis", 0), x.ndim)
    if x.ndim >= 0 and indices.ndim >= 0 and x.ndim != indices.ndim:
        fail("gather_elements", f"data has {x.ndim} dimensions, indices {indices.ndim}")
    _need_integers("gather_elements", indices)
    return _result(x, None if x.ndim < 0 else _dims(indices), x.ndim)


def gather_nd(operands, attrs):
    x, indices = (info_of("gather_nd", v) for v in operands)
    batch, dims, own = attrs.get("batch_dims", 0), _dims(x), _dims(indices)
    _need_integers("gather_nd", indices)
    if own is None or not isinstance(own[-1], IntImm) or x.ndim < 0:
        return _result(x, None, -1)
    depth = own[-1].value
    if depth + batch > x.ndim:
        fail("gather_nd", f"indices of {depth} axes do not fit data of {x.ndim} dimensions")
    rank = indices.ndim - 1 + x.ndim - depth - batch
    return _result(x, None if dims is None else (*own[:-1], *dims[depth + batch:]), rank)


def _need_integers(name, info):
    if info.dtype != "void" and not info.dtype.is_int:
        fail(name, f"indices must be integers, they are {info.dtype}", InferTypeError)


def scatter(name):
    def rule(operands, attrs):
        infos = [info_of(name, v) for v in operands]
        x, indices, updates = infos
        _need_integers(name, indices)
        if "void" not in (x.dtype, updates.dtype) and x.dtype != updates.dtype:
            fail(name, f"data is {x.dtype}, updates are {updates.dtype}", InferTypeError)
        if name == "scatter_elements":
            ranks = {i.ndim for i in infos} - {-1}
            if len(ranks) > 1:
                fail(name, f"data, indices and updates must have one rank, they have {sorted(ranks)}")
            mine, theirs = _dims(indices), _dims(updates)
            if mine and theirs and not all(same_dim(a, b) for a, b in zip(mine, theirs) if isinstance(
                    a, IntImm) and isinstance(b, IntImm)):
                fail(name, f"indices {shape_text(mine)} and updates {shape_text(theirs)} differ")
        return x
    return rule


def one_hot(operands, attrs):
    indices, depth, axis = info_of("one_hot", operands[0]), attrs["depth"], attrs.get("axis", -1)
    _need_integers("one_hot", indices)
    if not isinstance(depth, int) or depth < 1:
        fail("one_hot", f"depth={depth} must be at least 1")
    on, off = attrs.get("on_value", 1.0), attrs.get("off_value", 0.0)
    if type(on) is not type(off):
        fail("one_hot", f"on_value {on} and off_value {off} must be of one dtype", InferTypeError)
    dtype = attrs.get("dtype") or ("int64" if isinstance(on, int) else "float32")
    dims = _dims(indices)
    if dims is None:
        return TensorStructInfo(None, dtype, indices.ndim + 1 if indices.ndim >= 0 else -1)
    axis = normalize_axis("one_hot", axis, indices.ndim + 1)
    return TensorStructInfo((*dims[:axis], as_dim(depth), *dims[axis:]), dtype)


def shape_of(operands, attrs):
    x = info_of("shape_of", operands[0])
    return ShapeStructInfo(None, x.ndim) if x.dims is None else ShapeStructInfo(x.dims)


def flatten(operands, attrs):
    x = info_of("flatten", operands[0])
    dims = _dims(x)
    if x.ndim == 1:
        return x.replace(vdevice=None)
    if dims is None and x.ndim:
        return TensorStructInfo(None, x.dtype, 1)
    return TensorStructInfo((simplify(as_dim(product(reversed(dims)))) if dims else 1,), x.dtype)


def ewise_fma(operands, attrs):
    infos = [info_of("ewise_fma", v) for v in operands]
    ranks, dtypes = {i.ndim for i in infos} - {-1}, {i.dtype for i in infos} - {"void"}
    if len(ranks) > 1 or len(dtypes) > 1:
        fail("ewise_fma", f"operands differ: {', '.join(map(str, infos))}", InferTypeError)
    dtype = "void" if any(i.dtype == "void" for i in infos) else infos[0].dtype
    shapes = [i.shape for i in infos]
    if all(s is not None and s is shapes[0] for s in shapes):
        return TensorStructInfo(shapes[0], dtype)
    dims = [_dims(i) for i in infos]
    if None not in dims:
        for own in dims[1:]:
            if any(map(_differ, dims[0], own)):
                fail("ewise_fma", f"shapes differ: {', '.join(map(shape_text, dims))}")
        if all(all(map(same_dim, dims[0], own)) for own in dims[1:]):
            return TensorStructInfo(dims[0], dtype)
    return TensorStructInfo(None, dtype, ranks.pop() if ranks else -1)


def layout_transform(operands, attrs):
    x, index_map = info_of("layout_transform", operands[0]), attrs.get("index_map")
    if index_map is None:
        fail("layout_transform", "needs an index_map")
    if not isinstance(index_map, IndexMap):
        index_map = IndexMap.from_func(index_map, None if x.ndim < 0 else x.ndim, index_dtype="int64")
    takes = len(index_map.initial_indices)
    if x.ndim not in (-1, takes):
        fail("layout_transform", f"the index map takes {takes} indices, the tensor has {x.ndim} dimensions")
    pad, dims = plain(attrs.get("pad_value")), x.dims
    if isinstance(pad, float) and x.dtype != "void" and not x.dtype.is_float:
        fail("layout_transform", f"pad_value {pad} is no {x.dtype}")
    if dims is None:
        return _result(x, None, len(index_map.final_indices))
    return _result(x, index_map.map_shape(dims))


def repeat(operands, attrs):
    x, axis = info_of("repeat", operands[0]), attrs.get("axis")
    if type(attrs["repeats"]) is not int:
        fail("repeat", f"repeats must be an integer, it is {attrs['repeats']}", InferTypeError)
    dims = _dims(x)
    if axis is None:
        return TensorStructInfo(None, x.dtype, 1)
    if x.ndim >= 0:
        axis = normalize_axis("repeat", axis, x.ndim)
    return _result(x, None if dims is None else (
        *dims[:axis], simplify(dims[axis] * attrs["repeats"]), *dims[axis + 1:]))


RULES = {
    "ewise_fma": ewise_fma, "layout_transform": layout_transform, "shape_of": shape_of, "flatten": flatten,
    "repeat": repeat,
    **{f"nn.conv{n}d": conv(n) for n in (1, 2, 3)}, **{f"nn.conv{n}d_transpose": conv(n, True) for n in (1, 2)},
    **{f"nn.{kind}_pool{n}d": pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": adaptive(n) for n in (1, 2, 3)},
    "image.resize2d": resize2d, "split": split,
    "strided_slice": strided_slice, "squeeze": squeeze, "sort": sort, "argsort": argsort, "topk": topk,
    "take": take, "einsum": einsum,
    "collapse_sum_like": collapse_sum_like, "collapse_sum_to": collapse_sum_to, "gather_elements": gather_elements,
    "gather_nd": gather_nd, "scatter_elements": scatter("scatter_elements"), "scatter_nd": scatter("scatter_nd"),
    "one_hot": one_hot,
}
WINDOWS = tuple(name for name in RULES if name.startswith("nn."))
__all__ = ["RULES", "WINDOWS", "spelled"]
