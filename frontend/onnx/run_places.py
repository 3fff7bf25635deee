"""Slices, pads and resizes whose operands only a run knows: each axis is read at places that the run computes.

Extents that the model declares for the result are those of the result, and the run checks that its operands give them;
others are dimensions that the run decides.
"""
from __future__ import annotations

import numpy as np

from ...ir.relax.expr import Constant, ShapeExpr
from ..shapes import MOST_DIM, dims_of, settle
from .names import identifier
from .operands import by_run, check
from .run_shapes import as_dims

END = np.iinfo(np.int64).max


class Numbers:
    """Arithmetic of a node's integer or float tensors, by Python's operators; other operands are constants."""

    __array_ufunc__ = None  # arrays leave operators to this class

    def __init__(self, node, value):
        self.node, self.value = node, value

    @property
    def dtype(self):
        return self.value.struct_info.dtype

    def call(self, op, *others, **attrs):
        others = [o.value if isinstance(o, Numbers) else self.node.const(o, self.dtype) for o in others]
        return Numbers(self.node, self.node.bind(self.node.call(op, self.value, *others, **attrs)))

    def _swapped(self, op, other):
        return Numbers(self.node, self.node.const(other, self.dtype)).call(op, self)

    def astype(self, dtype):
        return Numbers(self.node, self.node.bind(self.node.astype(self.value, str(np.dtype(dtype)))))

    def reshape(self, *dims):
        return Numbers(self.node, self.node.bind(self.node.reshape(self.value, list(dims))))

    def at(self, k):
        """Element k of a list, without dimensions."""
        return Numbers(self.node, self.node.bind(self.node.call("take", self.value, self.node.const([k], "int64"),
                                                                axis=0))).reshape()

    def where(self, yes, no):
        """yes where this bool tensor holds, else no; one of them at least is Numbers."""
        dtype = next(v.dtype for v in (yes, no) if isinstance(v, Numbers))
        yes, no = (v.value if isinstance(v, Numbers) else self.node.const(v, dtype) for v in (yes, no))
        return Numbers(self.node, self.node.bind(self.node.call("where", self.value, yes, no)))

    def clip(self, low, high):
        return self.call("minimum", high).call("maximum", low)

    def sum(self, axis, keepdims=False):
        return self.call("sum", axis=(axis,), keepdims=keepdims)

    def all(self):
        """Whether a bool list holds everywhere: [1]."""
        fails = self.call("logical_not").astype("int64")
        return fails.sum(0, True) == [0]

    def __abs__(self): return self.call("abs")
    def __add__(self, other): return self.call("add", other)
    def __radd__(self, other): return self.call("add", other)
    def __sub__(self, other): return self.call("subtract", other)
    def __rsub__(self, other): return self._swapped("subtract", other)
    def __mul__(self, other): return self.call("multiply", other)
    def __rmul__(self, other): return self.call("multiply", other)
    def __truediv__(self, other): return self.call("divide", other)
    def __rtruediv__(self, other): return self._swapped("divide", other)
    def __floordiv__(self, other): return self.call("divide", other).call("floor")
    def __mod__(self, other): return self.call("floor_mod", other)
    def __lt__(self, other): return self.call("less", other)
    def __gt__(self, other): return self.call("greater", other)
    def __ge__(self, other): return self.call("greater_equal", other)
    def __le__(self, other): return self.call("less_equal", other)
    def __eq__(self, other): return self.call("equal", other)
    def __and__(self, other): return self.call("logical_and", other)
    def __or__(self, other): return self.call("logical_or", other)
    __hash__ = None


def numbers(node, value, dtype="int64"):
    """A list that an operand holds, as Numbers [n]."""
    value = node.astype(node.tensor(value), dtype)
    dims = dims_of(value)
    if len(dims) > 1 or not all(isinstance(d, int) for d in dims):
        raise node.error("its operands must be lists of lengths that are known when compiling")
    return Numbers(node, node.bind(node.reshape(value, [dims[0] if dims else 1])))


def extents(node, x):
    """The shape of x as Numbers."""
    dims = dims_of(x)
    return Numbers(node, node.tensor(settle(np.array([*dims, None], object)[:len(dims)], "int64")))


def result_dims(node, sizes, what):
    """Numbers of sizes as the dimensions of the node's first result."""
    if isinstance(sizes.value, Constant):
        found = [int(v) for v in sizes.value.data]
        if min(found, default=0) < 0:
            raise node.error(f"{what} is negative: {found}")
        return found
    count = dims_of(sizes.value)[0]
    declared = node.scope.declared_dims(node.outputs[0]) or [None] * count
    fixed = [k for k, d in enumerate(declared) if isinstance(d, int)]
    if len(declared) != count:
        raise node.error(f"the model declares {len(declared)} dimensions for its result, which has {count}")
    if fixed:
        given = sizes if len(fixed) == count else Numbers(node, node.call(
            "take", sizes.value, node.const(fixed, "int64"), axis=0))
        check(node, (given == [declared[k] for k in fixed]).all().value)
    free = [k for k in range(count) if k not in fixed]
    dims = dict(zip(fixed, (declared[k] for k in fixed)))
    if free:
        stem = identifier(node.outputs[0], "t")
        given = node.call("take", sizes.value, node.const(free, "int64"), axis=0)
        dims.update(zip(free, as_dims(node, given, [f"{stem}_d{k}" for k in free], [None] * len(free), what)))
    return [dims[k] for k in range(count)]


def counted(node, size):
    """0, 1 ... below a dimension."""
    if isinstance(size, int):
        return Numbers(node, node.const(np.arange(size), "int64"))
    return Numbers(node, node.positions(size))


def spread(node, values, axes, rank, usual):
    """Values for some axes as values [rank] for all: `usual` for others. axes: Numbers, different axes, which the run
    checks, or None: there is a value for each axis."""
    count, = dims_of(values[0].value)
    if axes is None:
        if count != rank:
            raise node.error(f"has operands of {count} elements for {rank} axes")
        return values
    if any(dims_of(v.value) != [count] for v in (axes, *values)):
        raise node.error("has operands of different lengths")
    hits = (axes < 0).where(axes + rank, axes).reshape(1, count) == np.arange(rank)[:, None]
    times = hits.astype("int64").sum(1)
    check(node, ((times < 2).all() & (times.sum(0, True) == [count])).value)
    return [(times == 0).where(other, hits.where(v.reshape(1, count), 0).sum(1)) for v, other in zip(values, usual)]


# ---------------------------------------------------------------- slices and pads

def slice_by_places(node):
    """A slice whose axes or steps, too, are decided by a run."""
    x = node.input(0)
    rank, sizes = len(dims_of(x)), extents(node, x)
    starts, ends, axes, steps = (None if v is None else numbers(node, v) for v in (*node.inputs[1:], None, None)[:4])
    count, = dims_of(starts.value)
    if axes is None:
        axes = Numbers(node, node.const(np.arange(count), "int64"))
    steps = Numbers(node, node.const([1] * count, "int64")) if steps is None else steps
    _note_samples(node, ([0] * count, _declared(node, count, dims_of(x)), range(count), [1] * count))
    starts, ends, steps = spread(node, [starts, ends, steps], axes, rank, (0, END, 1))
    steps = steps.clip(-MOST_DIM, MOST_DIM)
    check(node, (steps == 0).call("logical_not").all().value)
    backward = (steps < 0).astype("int64")
    top = sizes - backward
    starts, ends = ((v < 0).where(v + sizes, v).call("minimum", top) for v in (starts, ends))
    starts, ends = starts.call("maximum", 0), ends.call("maximum", 0 - backward)
    stride = abs(steps)
    reach = ((ends - starts) * (1 - backward * 2)).call("maximum", 0)
    reach = (reach + stride - 1) / stride
    outs = result_dims(node, reach.call("minimum", sizes), "the extent of its slice")
    for axis, out in enumerate(outs):
        x = _read(node, x, axis, starts.at(axis) + counted(node, out) * steps.at(axis))
    return x


def _read(node, x, axis, places):
    """The elements of x at places along an axis, which are held inside of it."""
    size = dims_of(x)[axis]
    if size == 0:
        raise node.error(f"axis {axis} has no elements")
    last = node.tensor(size - 1) if isinstance(size, int) else node.tensor(settle(np.array(size - 1, object), "int64"))
    return node.call("take", x, places.clip(0, Numbers(node, last)).value, axis=axis)


def pad_by_places(node, mode):
    """Pads, axes or the value decided by a run; or wrapped."""
    x = node.input(0)
    rank = len(dims_of(x))
    pads, value, axes = numbers(node, node.input(1)), node.input(2), node.input(3)
    count = dims_of(pads.value)[0]
    if count % 2:
        raise node.error(f"pads has {count} elements, and must have two for each axis")
    more = [d - n for d, n in zip(_declared(node, count // 2, dims_of(x)), dims_of(x))]
    _note_samples(node, ([0] * (count // 2) + more, [0], range(count // 2)))
    before, after = (Numbers(node, node.bind(node.call("take", pads.value, node.const(part, "int64"), axis=0)))
                     .clip(-MOST_DIM, MOST_DIM) for part in np.arange(count).reshape(2, -1))
    before, after = spread(node, [before, after], None if axes is None else numbers(node, axes), rank, (0, 0))
    value = node.const(0, x.struct_info.dtype) if value is None else node.reshape(value, [])
    return padded(node, x, before, after, mode, value)


def padded(node, x, before, after, mode, value):
    """x with as many elements more before and after it, Numbers [rank]; less where these are negative."""
    rank, sizes = len(dims_of(x)), extents(node, x)
    first = (0 - before).call("maximum", 0)
    held = sizes - first - (0 - after).call("maximum", 0)  # what negative pads leave
    check(node, (held >= (0 if mode == "constant" else 1)).all().value)
    outs = result_dims(node, sizes + before + after, "the extent of its result")
    for axis, out in enumerate(outs):
        place, most = counted(node, out) - before.at(axis).call("maximum", 0), held.at(axis)
        inside = (place >= 0) & (place < most)
        x = _read(node, x, axis, first.at(axis) + _folded(place, most, mode))
        if mode == "constant":
            shape = [out if k == axis else 1 for k in range(rank)]
            x = node.call("where", node.reshape(inside.value, shape), x, value)
    return x


def _note_samples(node, samples):
    """What the operands after the first may hold."""
    for name, sample in zip(node.proto.input[1:], samples):
        if name and all(isinstance(v, int) for v in sample):
            node.scope.note_sample(name, sample)


def _declared(node, count, usual):
    """The first `count` extents of the result, those of `usual` where the model declares none."""
    declared = node.scope.declared_dims(node.outputs[0]) or usual
    return [d if isinstance(d, int) else n for d, n in zip(declared, usual)][:count]


@by_run("CenterCropPad")
def center_crop_pad_by_run(node):
    x = node.input(0)
    rank, sizes, shape = len(dims_of(x)), extents(node, x), numbers(node, node.input(1))
    axes = node.axes(node.attr("axes", range(rank)), rank)
    check(node, ((shape > 0) & (shape <= MOST_DIM)).all().value)
    wanted, = spread(node, [shape], Numbers(node, node.const(axes, "int64")), rank, (sizes,))
    more = wanted - sizes
    before = more / 2  # towards 0
    return padded(node, x, before, more - before, "constant", node.const(0, x.struct_info.dtype))


# ---------------------------------------------------------------- sizes

@by_run("TopK")
def top_k_by_run(node):
    """All elements sorted, of which the first k are taken."""
    x = node.input(0)
    dims = dims_of(x)
    axis = node.axis(node.attr("axis", -1), len(dims))
    if not isinstance(dims[axis], int):
        return None
    k, = as_dims(node, node.bind(numbers(node, node.input(1)).value), [f"{identifier(node.outputs[0], 't')}_d{axis}"],
                 [dims[axis]], "k")
    found = node.call("topk", x, k=dims[axis], axis=axis, largest=bool(node.attr("largest", 1)))
    return tuple(_part(node, v, axis, 0, k) for v in found)


@by_run("Split")
def split_by_run(node):
    dims = dims_of(node.input(0))
    axis = node.axis(node.attr("axis", 0), len(dims))
    if not isinstance(dims[axis], int) or dims_of(node.input(1)) != [len(node.outputs)]:
        return None
    return parts_by_run(node, [identifier(name, "t") for name in node.outputs])


def parts_by_run(node, stems):
    """The parts of input 0 along attribute axis, of a static extent, whose lengths are input 1: as many as there are
    stems, after which these dimensions are called."""
    x, sizes = node.input(0), numbers(node, node.input(1))
    dims = dims_of(x)
    axis = node.axis(node.attr("axis", 0), len(dims))
    check(node, (sizes.clip(0, MOST_DIM).sum(0, True) == [dims[axis]]).value)
    names = [f"{stem}_d{axis}" for stem in stems]
    sizes = as_dims(node, sizes.value, names, [dims[axis]] * len(stems), "split")
    return tuple(_part(node, x, axis, sum(sizes[:k], 0), size) for k, size in enumerate(sizes))


def _part(node, x, axis, begin, size):
    return node.call("slice_at", x, ShapeExpr((begin,)), ShapeExpr((size,)), axes=(axis,), strides=(1,))


@by_run("OneHot")
def one_hot_by_run(node):
    """values[1] where an index, counted from the end where it is below 0, is the place, else values[0]."""
    indices, depth, values = node.input(0), node.input(1), node.input(2)
    dims = dims_of(indices)
    axis = node.axis(node.attr("axis", -1), len(dims) + 1)
    depth = node.reshape(depth, [1])
    number = Numbers(node, node.bind(node.astype(depth, "float64")))
    check(node, ((number >= [1]) & (number <= [MOST_DIM])).value)
    size, = as_dims(node, node.astype(depth, "int64"), [f"{identifier(node.outputs[0], 't')}_d{axis}"], [None], "depth")
    given = Numbers(node, node.reshape(node.astype(indices, "int64"), [*dims[:axis], 1, *dims[axis:]]))
    places = node.reshape(counted(node, size).value, [size if k == axis else 1 for k in range(len(dims) + 1)])
    given = (given < 0).where(given + Numbers(node, node.tensor(size)), given)
    off, on = (node.reshape(node.call("take", values, node.const([k], "int64"), axis=0), []) for k in (0, 1))
    return node.call("where", node.call("equal", given.value, node.bind(places)), on, off)


def _folded(place, size, mode):
    """Places outside of `size` elements, inside: nearest, mirrored, or repeated."""
    if mode == "wrap":
        return place % size
    if mode == "reflect":
        period = ((size - 1) * 2).call("maximum", 1)
        place = place % period
        return (place < size).where(place, period - place)
    return place.call("minimum", size - 1).call("maximum", 0)
