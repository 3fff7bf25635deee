"""Struct info of calls where partial.py's stand-ins tell less than TVM does: {name: f(operands, attrs)}.

A rule serves arguments that are not known in full, or that the operator's row refuses; it checks what is known.
"""
from __future__ import annotations

from ..expr import IntImm, PrimExpr, is_const_int
from .. import tir
from ..tir.index_map import IndexMap
from .classic import plain
from .composites_tensor import einsum_terms, held_part, summed_axes
from .expr import PrimStructInfo, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .ops.common import (InferTypeError, as_dim, fail, normalize_axes, normalize_axis, product, same_dim, shape_text,
                         simplify)
from .rule_infos import differ, dims_in, info_of, result_of
from .window_rules import WINDOW_RULES

# ---------------------------------------------------------------- parts and orders

def split(operands, attrs):
    x, axis = info_of("split", operands[0]), attrs.get("axis", 0)
    parts = attrs["indices_or_sections"]
    if x.ndim >= 0:
        axis = normalize_axis("split", axis, x.ndim)
    dims = dims_in(x)
    count = parts if isinstance(parts, int) else len(parts) + 1
    if count < 1:
        fail("split", f"indices_or_sections {parts} must be at least 1")
    if count == 1:
        return x
    if dims is None:
        return TupleStructInfo((result_of(x, None),) * count)
    extent = dims[axis]
    if isinstance(parts, int):
        size = simplify((extent + (count - 1)) // count)
        if isinstance(extent, IntImm) and size.value * (count - 1) >= max(extent.value, 1):
            fail("split", f"axis {axis} of extent {extent.value} does not divide into {count} parts")
        sizes = [size] * (count - 1) + [simplify(extent - size * (count - 1))]
    else:
        ends = [as_dim(0), *(tir.min(as_dim(p), extent) if p > 0 else as_dim(0) for p in parts), extent]
        sizes = [simplify(tir.max(b - a, 0)) for a, b in zip(ends, ends[1:])]
    return TupleStructInfo(tuple(result_of(x, (*dims[:axis], as_dim(s), *dims[axis + 1:])) for s in sizes))


def strided_slice(operands, attrs):
    x, axes = info_of("strided_slice", operands[0]), attrs.get("axes")
    begin, end = attrs["begin"], attrs["end"]
    strides = (1,) * len(begin) if attrs.get("strides") is None else attrs["strides"]
    axes = tuple(range(len(begin))) if axes is None else tuple(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        fail("strided_slice", "axes, begin, end and strides must have one length")
    if not axes:
        return x.replace(vdevice=None) if x.dims is None else result_of(x, x.dims)
    if x.ndim >= 0:
        axes = [normalize_axis("strided_slice", a, x.ndim) for a in axes]
        if len(set(axes)) < len(axes):
            fail("strided_slice", f"axes {axes} name one axis twice")
    if x.dims is None:
        return result_of(x, None)
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
            return result_of(x, None)
    return result_of(x, dims)


def concat(operands, attrs):
    """None where rows tell: of tensors of known shapes, whose other dimensions need not be known to be equal."""
    given, axis = operands[0], attrs.get("axis", 0)
    tensors = getattr(given, "fields", None) or (given if isinstance(given, (list, tuple)) else None)
    infos = [getattr(t, "struct_info", None) for t in tensors or (None,)]
    if axis is None or not all(isinstance(i, TensorStructInfo) and dims_in(i) is not None for i in infos):
        return None
    dims, dtypes = [dims_in(i) for i in infos], {str(i.dtype) for i in infos} - {"void"}
    if len({len(d) for d in dims}) > 1 or len(dtypes) > 1:
        return None
    rank = len(dims[0])
    axis = normalize_axis("concat", axis, rank)
    others = [k for k in range(rank) if k != axis]
    wrong = [k for k in others for d in dims[1:] if differ(dims[0][k], d[k])]
    if wrong:
        fail("concat", f"axis {wrong[0]} differs: {', '.join(map(shape_text, dims))}")
    dtype = infos[0].dtype if all(i.dtype == infos[0].dtype for i in infos) else "void"
    if not all(same_dim(dims[0][k], d[k]) for k in others for d in dims[1:]):
        return TensorStructInfo(None, dtype, rank)
    whole = dims[0][axis]
    for d in dims[1:]:
        whole = whole + d[axis]
    return TensorStructInfo((*dims[0][:axis], simplify(whole), *dims[0][axis + 1:]), dtype)


def squeeze(operands, attrs):
    x, axis = info_of("squeeze", operands[0]), attrs.get("axis")
    dims = dims_in(x)
    if axis is None:
        known = x.dims
        if dims is None and known is not None and all(isinstance(d, IntImm) and d.value != 1 for d in known):
            return x.replace(vdevice=None)
        if dims is None or not all(isinstance(d, IntImm) for d in dims):
            return result_of(x, None, -1)
        return result_of(x, [d for d in dims if d.value != 1])
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if not axes:
        return x.replace(vdevice=None)
    if x.ndim < 0:
        return result_of(x, None, -1)
    axes = normalize_axes("squeeze", axes, x.ndim)
    known = x.dims
    for a in axes if known is not None else ():
        if isinstance(known[a], IntImm) and known[a].value != 1:
            fail("squeeze", f"axis {a} of {shape_text(known)} is not 1")
    return result_of(x, None if dims is None else [d for k, d in enumerate(dims) if k not in axes], x.ndim - len(axes))


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
    dims = dims_in(x)
    if dims is not None:
        axis = normalize_axis("topk", axis, x.ndim)
        all_of = k < 1 or isinstance(dims[axis], IntImm) and k > dims[axis].value
        dims = dims if all_of else (*dims[:axis], as_dim(k), *dims[axis + 1:])
    values, indices = result_of(x, dims), result_of(x, dims, None, attrs.get("dtype") or "int32")
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
    if any(dims_in(i) is None for i in infos):
        return result_of(infos[0], None, -1)

    def same(what, a, b):
        if any(map(differ, a, b)):
            fail("einsum", f"{what}: {shape_text(a)} and {shape_text(b)} differ")
    _, right, extents = einsum_terms(same, attrs["subscripts"], tensors)
    return result_of(infos[0], [extents[c] for c in right])


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
        return result_of(x, dims_in(index) if x.ndim == 1 and dims_in(x) is not None else None, index.ndim)
    axis = normalize_axis("take", axis, x.ndim) if x.ndim >= 0 else axis
    dims, own = dims_in(x), dims_in(index)
    if dims is not None and is_const_int(dims[axis], 0) and not any(is_const_int(d, 0) for d in own or (0,)):
        fail("take", f"axis {axis} of {shape_text(x)} has no elements that an index could mean")
    rank = x.ndim - 1 + index.ndim if x.ndim >= 0 and index.ndim >= 0 else -1
    return result_of(x, None if dims is None or own is None else (*dims[:axis], *own, *dims[axis + 1:]), rank)


def gather_elements(operands, attrs):
    x, indices = (info_of("gather_elements", v) for v in operands)
    if x.ndim >= 0:
        normalize_axis("gather_elements", attrs.get("axis", 0), x.ndim)
    if x.ndim >= 0 and indices.ndim >= 0 and x.ndim != indices.ndim:
        fail("gather_elements", f"data has {x.ndim} dimensions, indices {indices.ndim}")
    _need_integers("gather_elements", indices)
    return result_of(x, None if x.ndim < 0 else dims_in(indices), x.ndim)


def gather_nd(operands, attrs):
    x, indices = (info_of("gather_nd", v) for v in operands)
    batch, dims, own = attrs.get("batch_dims", 0), dims_in(x), dims_in(indices)
    _need_integers("gather_nd", indices)
    if own is None or not isinstance(own[-1], IntImm) or x.ndim < 0:
        return result_of(x, None, -1)
    depth = own[-1].value
    if depth + batch > x.ndim:
        fail("gather_nd", f"indices of {depth} axes do not fit data of {x.ndim} dimensions")
    rank = indices.ndim - 1 + x.ndim - depth - batch
    return result_of(x, None if dims is None else (*own[:-1], *dims[depth + batch:]), rank)


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
            mine, theirs = dims_in(indices), dims_in(updates)
            if mine and theirs and any(map(differ, mine, theirs)):
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
    dims = dims_in(indices)
    if dims is None:
        return TensorStructInfo(None, dtype, indices.ndim + 1 if indices.ndim >= 0 else -1)
    axis = normalize_axis("one_hot", axis, indices.ndim + 1)
    return TensorStructInfo((*dims[:axis], as_dim(depth), *dims[axis:]), dtype)


def shape_of(operands, attrs):
    x = info_of("shape_of", operands[0])
    return ShapeStructInfo(None, x.ndim) if x.dims is None else ShapeStructInfo(x.dims)


def reshape(operands, attrs):
    """None, as rows tell; InferError where -1 or 0 stand for what the tensor's dimensions, not known, would say."""
    x, shape = info_of("reshape", operands[0]), operands[1]
    dims = getattr(shape, "values", shape)
    if x.dims is not None or not isinstance(dims, (list, tuple)):
        return None
    told = next((d for d in map(plain, dims) if isinstance(d, int) and d in (-1, 0)), None)
    if told is not None:
        fail("reshape", f"what {told} stands for cannot be told, since the tensor's shape is not known: {x}")
    return None


def flatten(operands, attrs):
    x = info_of("flatten", operands[0])
    dims = dims_in(x)
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
    dims = [dims_in(i) for i in infos]
    if None not in dims:
        for own in dims[1:]:
            if any(map(differ, dims[0], own)):
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
        return result_of(x, None, len(index_map.final_indices))
    return result_of(x, index_map.map_shape(dims))


def repeat(operands, attrs):
    x, axis = info_of("repeat", operands[0]), attrs.get("axis")
    if type(attrs["repeats"]) is not int:
        fail("repeat", f"repeats must be an integer, it is {attrs['repeats']}", InferTypeError)
    dims = dims_in(x)
    if axis is None:
        return TensorStructInfo(None, x.dtype, 1)
    if x.ndim >= 0:
        axis = normalize_axis("repeat", axis, x.ndim)
    return result_of(x, None if dims is None else (
        *dims[:axis], simplify(dims[axis] * attrs["repeats"]), *dims[axis + 1:]))


RULES = {
    "ewise_fma": ewise_fma, "layout_transform": layout_transform, "shape_of": shape_of, "reshape": reshape,
    "flatten": flatten,
    "repeat": repeat, **WINDOW_RULES, "split": split, "concat": concat,
    "strided_slice": strided_slice, "squeeze": squeeze, "sort": sort, "argsort": argsort, "topk": topk,
    "take": take, "einsum": einsum,
    "collapse_sum_like": collapse_sum_like, "collapse_sum_to": collapse_sum_to, "gather_elements": gather_elements,
    "gather_nd": gather_nd, "scatter_elements": scatter("scatter_elements"), "scatter_nd": scatter("scatter_nd"),
    "one_hot": one_hot,
}
WINDOWS = tuple(name for name in RULES if name.startswith("nn."))
__all__ = ["RULES", "WINDOWS"]
