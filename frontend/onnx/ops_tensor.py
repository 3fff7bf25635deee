"""Operators that move elements: transpose, concatenate, slice, pad, gather ..."""
from __future__ import annotations

import numpy as np

from ...ir import expr as ex
from ...ir.relax.expr import Constant
from ..shapes import MOST_DIM, Symbolic, dims_of, product, prove, same, settle
from .converter import converts
from .run_places import pad_by_places, slice_by_places
from .run_shapes import is_known, run_dims, slice_by_dims


@converts("Transpose")
def transpose(node):
    rank = node.input(0).struct_info.ndim
    perm = node.attr("perm")
    perm = tuple(reversed(range(rank))) if perm is None else perm
    if sorted(perm) != list(range(rank)):
        raise node.error(f"attribute perm {perm} is no permutation of {rank} axes")
    return node.transpose(node.input(0), perm)


@converts("Concat", 1, 4)
def concat(node):
    axis = node.axis(node.attr("axis", 1), node.input(0).struct_info.ndim)
    if len(node.inputs) == 1:
        return node.input(0)
    return node.call("concat", *node.inputs, axis=axis)


@converts("Split", 1)
def split_v1(node):
    return _split(node, node.attr("split") or node.ints(1, "split"))


@converts("Split", 2)
def split_v2(node):
    return _split(node, node.attr("split"))


@converts("Split", 13)
def split_v13(node):
    return _split(node, node.ints(1, "split"))


@converts("Split", 18)
def split_v18(node):
    """Attribute num_outputs: as equal as can be, the last one smaller."""
    sizes, count = node.ints(1, "split"), node.attr("num_outputs")
    if (sizes is None) == (count is None):
        raise node.error("needs either the input split or the attribute num_outputs")
    if count is not None and count != len(node.outputs):
        raise node.error(f"attribute num_outputs {count} contradicts its {len(node.outputs)} outputs")
    return _split(node, sizes)


def _split(node, sizes):
    x = node.input(0)
    axis = node.axis(node.attr("axis", 0), x.struct_info.ndim)
    extent, count = dims_of(x)[axis], len(node.outputs)
    if not isinstance(extent, int):
        raise node.error(f"cannot split the symbolic dimension {extent}; pin it with dims")
    if sizes is None:
        part = -(-extent // count)
        sizes = [part] * (count - 1) + [extent - part * (count - 1)]
        if sizes[-1] < 1 or (node.opset < 18 and sizes[-1] != part):
            raise node.error(f"cannot split axis {axis} of extent {extent} into {count} equal parts")
    if sum(sizes) != extent or len(sizes) != count or min(sizes) < 0:
        raise node.error(f"parts {list(sizes)} of axis {axis} do not add up to its extent {extent} over {count} "
                         "outputs")
    return (x,) if count == 1 else node.call("split", x, sections=tuple(sizes), axis=axis)


# ---------------------------------------------------------------- slice

@converts("Slice", 1)
def slice_v1(node):
    starts, ends = node.attr("starts"), node.attr("ends")
    return _slice(node, list(starts), list(ends), node.attr("axes"), None)


@converts("Slice", 10)
def slice_v10(node):
    if not (is_known(node.input(3)) and is_known(node.input(4))):
        return slice_by_places(node)
    axes, steps = node.ints(3, "axes"), node.ints(4, "steps")
    if not (is_known(node.input(1)) and is_known(node.input(2))):
        return _slice_by_run(node, axes, steps)
    return _slice(node, node.dims(1, "starts"), node.dims(2, "ends"), axes, steps)


def _slice_by_run(node, axes, steps):
    """A slice whose bounds a run decides; there are as many axes as bounds."""
    counts = {dims_of(node.tensor(node.input(k)))[0] for k in (1, 2)}
    axes = node.axes(range(max(counts)) if axes is None else axes, len(dims_of(node.input(0))))
    steps = [1] * len(axes) if steps is None else steps
    if counts != {len(axes)} or len(steps) != len(axes) or 0 in steps:
        raise node.error(f"starts and ends, axes {list(axes)} and steps {list(steps)} differ in length, or a step is 0")
    return slice_by_dims(node, node.input(1), node.input(2), axes, steps)


def _slice(node, starts, ends, axes, steps):
    x = node.input(0)
    dims = dims_of(x)
    axes = node.axes(range(len(starts)) if axes is None else axes, len(dims))
    steps = [1] * len(axes) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.error(f"starts {starts}, ends {ends}, axes {list(axes)} and steps {steps} differ in length")
    if 0 not in steps:
        taken = _taken(dims, axes, starts, ends, steps)
        whole = isinstance(x, (Constant, Symbolic)) or all(isinstance(d, int) for d in taken)
        if whole and 0 in taken:  # parts of symbolic shapes are refused below
            return node.const(np.zeros([0 if d is None else d for d in taken]), x.struct_info.dtype)
    rows = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step == 0:
            raise node.error(f"the step of axis {axis} is 0")
        if isinstance(dims[axis], int) and isinstance(start, int) and isinstance(end, int):
            rows.append((axis, *_static_bounds(node, axis, dims[axis], slice(start, end, step))))
        elif _is_last(start, end) and step == 1:
            x = node.call("take", x, node.const([-1], "int64"), axis=axis)
        elif (bounds := _symbolic_bounds(dims[axis], start, end, step)) is not None:
            rows.append((axis, *bounds, step))
        else:
            return slice_by_dims(node, *(settle(np.array(v, object), "int64") for v in (starts, ends)), axes, steps)
    rows = [r for r in rows if r[1:] not in ((0, dims[r[0]], 1), (0, None, 1))]
    if not rows:
        return x
    axes, begin, stop, steps = map(tuple, zip(*rows))
    return node.call("strided_slice", x, axes=axes, begin=begin, end=stop, strides=steps)


def _taken(dims, axes, starts, ends, steps):
    """The shape of a slice, with None for sizes that symbolic dimensions have part in."""
    shape = list(dims)
    for axis, *part in zip(axes, starts, ends, steps):
        known = all(isinstance(v, int) for v in (dims[axis], *part))
        shape[axis] = len(range(*slice(*part).indices(dims[axis]))) if known else None
    return shape


def _static_bounds(node, axis, extent, part):
    """(begin, end, step) in bounds; a backward slice through the front ends at -1. One element has the step 1."""
    begin, stop, step = part.indices(extent)
    if (stop - begin) * step <= 0:
        raise node.error(f"the slice of axis {axis}, {part.start} to {part.stop} by {step}, takes nothing of its "
                         f"{extent} elements")
    return (begin, begin + 1, 1) if abs(step) >= abs(stop - begin) else (begin, stop, step)


def _is_last(start, end):
    return isinstance(start, int) and isinstance(end, int) and start == -1 and end > MOST_DIM - 1


def _symbolic_bounds(extent, start, end, step):
    """(begin, end) of a slice that symbolic dimensions have part in; the end None is the axis' end. None unless both
    are known to lie in the axis, or to reach over its end: ONNX clamps them."""
    if not (isinstance(start, int) and start >= 0 and 0 < step <= MOST_DIM):
        return None
    to_end = isinstance(end, int) and end >= MOST_DIM or not isinstance(end, int) and same(end, extent)
    inside = isinstance(end, int) and end >= 0 and prove(ex.binary(ex.LE, end, extent))
    if not (to_end or inside) or start and not prove(ex.binary(ex.LT, start, extent)):
        return None
    return start, None if to_end else end


# ---------------------------------------------------------------- pad

_PAD_MODES = ("constant", "reflect", "edge")


@converts("Pad", 1)
def pad_v1(node):
    return _pad(node, node.attr("paddings"), node.attr("value", 0.0), None)


@converts("Pad", 2)
def pad_v2(node):
    return _pad(node, node.attr("pads"), node.attr("value", 0.0), None)


@converts("Pad", 11, 13)
def pad_v11(node):
    return _pad_at(node) if _is_run_pad(node) else _pad(node, node.ints(1, "pads"), _pad_value(node), None)


@converts("Pad", 18, 19)
def pad_v18(node):
    if _is_run_pad(node):
        return _pad_at(node)
    return _pad(node, node.ints(1, "pads"), _pad_value(node), node.ints(3, "axes"))


def _is_run_pad(node):
    known = is_known(node.input(1)) and is_known(node.input(3)) and isinstance(node.input(2), (Constant, type(None)))
    return not known or node.attr("mode") == "wrap"


def _pad_at(node):
    return pad_by_places(node, node.choice("mode", *_PAD_MODES, "wrap"))


def _pad_value(node):
    value = node.constant(2, "constant_value")
    return 0.0 if value is None else value.reshape(()).item()


def _pad(node, pads, value, axes):
    """pads: beginnings of all axes (or of `axes`), then ends; negative ones crop."""
    x = node.input(0)
    rank = x.struct_info.ndim
    axes = tuple(range(rank)) if axes is None else node.axes(axes, rank)
    if len(pads) != 2 * len(axes):
        raise node.error(f"pads {list(pads)} must have {2 * len(axes)} elements, two for each padded axis")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    return pad_or_crop(node, x, before, after, node.choice("mode", *_PAD_MODES), float(value))


def pad_or_crop(node, x, before, after, mode="constant", value=0.0):
    """x with `before` and `after` elements more on each axis, or less where they are negative."""
    x = _crop(node, x, before, after)
    width = tuple(max(p, 0) for pair in zip(before, after) for p in pair)
    return node.call("nn.pad", x, pad_width=width, pad_mode=mode, pad_value=value) if any(width) else x


def _crop(node, x, before, after):
    """x without what negative pads remove."""
    rows = []
    for axis, (b, a) in enumerate(zip(before, after)):
        if b < 0 or a < 0:
            extent = dims_of(x)[axis]
            if not isinstance(extent, int):
                raise node.error(f"negative pads crop the symbolic dimension {extent}; pin it with dims")
            rows.append((axis, max(-b, 0), extent - max(-a, 0)))
    if not rows:
        return x
    axes, begin, end = map(tuple, zip(*rows))
    return node.call("strided_slice", x, axes=axes, begin=begin, end=end, strides=(1,) * len(axes))


# ---------------------------------------------------------------- gather, tile, and rearrangements made of them

@converts("Gather")
def gather(node):
    axis = _indexed_axis(node)
    return node.call("take", node.input(0), node.input(1), axis=axis)


def _indexed_axis(node):
    """The axis that is indexed; constant indices must lie in it."""
    x, indices = node.input(0), node.input(1)
    axis = node.axis(node.attr("axis", 0), x.struct_info.ndim)
    extent = dims_of(x)[axis]
    if isinstance(indices, Constant) and indices.data.size and isinstance(extent, int):
        low, high = int(indices.data.min()), int(indices.data.max())
        if low < -extent or high >= extent:
            raise node.error(f"index {low if low < -extent else high} is outside axis {axis} of extent {extent}")
    return axis


@converts("GatherElements", 11)
def gather_elements(node):
    axis = _indexed_axis(node)
    return node.call("gather_elements", node.input(0), node.input(1), axis=axis)


@converts("Tile", 1)
def tile_v1(node):
    """Along one axis."""
    count, axis = node.ints(1, "tiles"), node.ints(2, "axis")
    if len(count) != 1 or len(axis) != 1:
        raise node.error("tiles and axis must be one number each")
    rank = node.input(0).struct_info.ndim
    at = node.axis(axis[0], rank)
    return _tile(node, [count[0] if k == at else 1 for k in range(rank)])


@converts("Tile", 6)
def tile(node):
    return _tile(node, run_dims(node, 1, "repeats"))


def _tile(node, repeats):
    dims = dims_of(node.input(0))
    if len(repeats) != len(dims):
        raise node.error(f"repeats {repeats} must have one element per axis")
    if any(isinstance(r, int) and r < 0 for r in repeats):
        raise node.error(f"repeats {repeats} must not be negative")
    if not all(isinstance(r, int) for r in repeats):
        apart = node.reshape(node.input(0), [d for n in dims for d in (1, n)])
        wide = node.broadcast(apart, [d for pair in zip(repeats, dims) for d in pair])
        return node.reshape(wide, [product(pair) for pair in zip(repeats, dims)])
    return node.input(0) if all(r == 1 for r in repeats) else node.call("tile", node.input(0), repeats=tuple(repeats))


@converts("DepthToSpace")
def depth_to_space(node):
    b = _blocksize(node)
    n, c, h, w = _image(node)
    if not isinstance(c, int) or c % (b * b):
        raise node.error(f"blocksize {b} squared does not divide the {c} channels")
    if node.choice("mode", "DCR", "CRD") == "DCR":
        dims, axes = [n, b, b, c // (b * b), h, w], (0, 3, 4, 1, 5, 2)
    else:
        dims, axes = [n, c // (b * b), b, b, h, w], (0, 1, 4, 2, 5, 3)
    parts = node.call("permute_dims", node.reshape(node.input(0), dims), axes=axes)
    return node.reshape(parts, [n, c // (b * b), h * b, w * b])


@converts("SpaceToDepth")
def space_to_depth(node):
    b = _blocksize(node)
    n, c, h, w = _image(node)
    if not all(isinstance(d, int) and d % b == 0 for d in (h, w)):
        raise node.error(f"blocksize {b} must divide height and width, {h} x {w}, which must be static")
    parts = node.reshape(node.input(0), [n, c, h // b, b, w // b, b])
    axes = (0, 3, 5, 1, 2, 4) if node.choice("mode", "DCR", "CRD") == "DCR" else (0, 1, 3, 5, 2, 4)
    return node.reshape(node.call("permute_dims", parts, axes=axes), [n, c * b * b, h // b, w // b])


def _blocksize(node):
    size = node.attr("blocksize")
    if not 1 <= size <= MOST_DIM:
        raise node.error(f"attribute blocksize {size} must be from 1 to {MOST_DIM}")
    return size


def _image(node):
    dims = dims_of(node.input(0))
    if len(dims) != 4:
        raise node.error("takes a tensor of 4 dimensions, N C H W")
    return dims


@converts("Trilu", 14)
def trilu(node):
    """The upper (lower) triangle of the last two axes: a constant mask selects it, or a comparison where k is not
    constant."""
    x, k = node.input(0), node.input(1)
    dims, upper = dims_of(x)[-2:], node.attr("upper", 1)
    if len(dims) != 2:
        raise node.error("takes a tensor of at least 2 dimensions")
    if k is not None and dims_of(k) not in ([], [1]):
        raise node.error("k must be a scalar")
    constant = k is None or isinstance(k, Constant)
    shift = int(k.data.reshape(())) if k is not None and constant else 0
    if not all(isinstance(d, int) for d in dims):
        if not constant:
            raise node.error("k depends on data, and so do the last two dimensions; pin them with dims")
        return node.call("triu" if upper else "tril", x, k=shift)
    node.check_size(dims, 1 if constant else 8)
    rows, columns = np.ogrid[:dims[0], :dims[1]]
    if constant:
        keep = node.const(columns - rows >= shift if upper else columns - rows <= shift, "bool")
    else:
        keep = node.call("greater_equal" if upper else "less_equal", node.const(columns - rows, "int64"),
                         node.reshape(k, []))
    return node.call("where", keep, x, node.const(0, x.struct_info.dtype))
