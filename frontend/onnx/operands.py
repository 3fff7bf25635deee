"""Operands that converters take as constants, where only a run knows them.

The shapes that the model declares for a node's results often leave one value of such an operand: the converter is given
that value, and the run checks that the operand is it. Where a few values fit, all of their results are computed, and
the operand selects one. A run whose operand is none of them fails with INGOT_ERR_DIM; nothing else is read from it.
"""
from __future__ import annotations

import copy
from functools import reduce
from itertools import combinations, product as all_of, zip_longest
from math import prod

import numpy as np

from ...ir.relax.control import tensor_to_shape
from ...ir.relax.expr import Constant
from ..shapes import dims_of, same, shape_text
from .errors import OnnxImportError, UnknownOperand
from .run_shapes import is_known

MOST_TRIED = 1024    # values of a node's operands
MOST_COMPUTED = 8    # of those that fit
FREE = None          # an element of a value that may be anything: the result does not depend on it

# Operators whose results hold the elements of their first operand in order: one result serves for all values that fit.
VIEWS = ("Squeeze", "Unsqueeze")


def converted(node, converter):
    """What a converter makes of its node; of one whose operands are decided by a run, as the module says."""
    rows = {k: row for k, row in OPERANDS.get(node.proto.op_type, {}).items() if not is_known(node.input(k))}
    try:
        return converter(node)  # also where some versions of an operator, or modes, take such operands as they are
    except UnknownOperand as refusal:
        found = _by_declared_shapes(node, converter, rows) if rows else None
        if found is None and rows and node.proto.op_type in BY_RUN:
            found = BY_RUN[node.proto.op_type](node)
        if found is None:
            raise OnnxImportError(str(refusal)) from refusal
        return found


# operator -> its converter for operands that nothing tells: they become dimensions that the run decides
BY_RUN = {}


def by_run(op_type):
    """Register the decorated function there."""
    def register(function):
        BY_RUN[op_type] = function
        return function
    return register


def _by_declared_shapes(node, converter, rows):
    """The results for the values that give the declared shapes; None where these do not tell, or there are too many
    values to try."""
    declared = [node.scope.declared_dims(name) for name in node.outputs]
    if not any(d is not None for d in declared):
        return None
    if any(row.sized for row in rows.values()) and any(n is None for dims in declared for n in dims or ()):
        return None  # what is not declared may be what the operand decides
    fits = []
    tried = [list(row.values(node, _length(node, k), declared)) for k, row in rows.items()]
    if not 0 < prod(map(len, tried)) <= MOST_TRIED:
        return None
    for values in all_of(*tried):
        try:
            results = converter(_given(node, dict(zip(rows, values))))
        except OnnxImportError:
            continue
        results = results if isinstance(results, tuple) else (results,)
        if _fit(node, results, declared):
            fits.append((values, results))
    names = " and ".join(f"{row.what} (input {node.proto.input[k]!r})" for k, row in rows.items())
    shown = ", ".join("?" if d is None else shape_text(["?" if n is None else n for n in d]) for d in declared)
    if not fits:
        raise node.error(f"{names}: decided by a run, and no value gives results of the declared shapes {shown}; make "
                         "it an initializer")
    if len(fits) > MOST_COMPUTED or len({str([dims_of(r) for r in results]) for _, results in fits}) > 1:
        raise node.error(f"{names}: decided by a run, and {len(fits)} values give results of the declared shapes "
                         f"{shown}; make it an initializer")
    return _selected(node, rows, fits)


def _length(node, index):
    """How many elements an operand has."""
    dims = dims_of(node.input(index))
    if len(dims) > 1 or not all(isinstance(d, int) for d in dims):
        raise node.error(f"input {node.proto.input[index]!r} must be a list of a length that is known when compiling")
    return dims[0] if dims else 1


def _given(node, values):
    """The node with constants as operands. values: {index: list}."""
    given = copy.copy(node)
    given.inputs = list(node.inputs)
    for k, value in values.items():
        x = node.input(k)
        array = np.array([1 if v is FREE else v for v in value], x.struct_info.dtype.numpy)
        given.inputs[k] = Constant(array.reshape(dims_of(x)))
    return given


def _fit(node, results, declared):
    """Whether results have the declared shapes, as far as there are any. Dimensions of the inputs that are declared to
    be a number do not: then a run with the value is refused."""
    for result, dims, name in zip_longest(results, declared, node.outputs):
        if name and dims is not None and (result is None or len(dims_of(result)) != len(dims) or not all(
                want is None or same(got, want) for got, want in zip(dims_of(result), dims))):
            return False
    return True


def _selected(node, rows, fits):
    """The results of the value that the operands have; the run checks that they have one of these."""
    holds = [_all(node, [row.holds(node, node.input(k), v) for (k, row), v in zip(rows.items(), values)])
             for values, _ in fits]
    check(node, reduce(lambda a, b: node.call("logical_or", a, b), holds))
    for k, value in zip(rows, fits[0][0]):
        node.scope.note_sample(node.proto.input[k], [1 if v is FREE else v for v in value])
    if len(fits) == 1 or node.proto.op_type in VIEWS:
        results = fits[0][1]
    else:
        results = tuple(
            reduce(lambda other, mine: node.call("where", node.reshape(mine[0], []), mine[1], other),
                   zip(holds[1:], column[1:]), column[0]) for column in zip(*(results for _, results in fits)))
    return results if len(results) > 1 else results[0]


def check(node, holds):
    """A run goes on only where a bool tensor [1] holds."""
    fails = node.astype(node.call("logical_not", holds), "int64")
    if not isinstance(fails, Constant):
        name = f"{next(filter(None, node.outputs))}_fits"
        node.emit(tensor_to_shape(node.bind(fails), [node.scope.new_dim(name, 0)]))
    elif fails.data.any():
        raise node.error("its operands contradict each other")


def _all(node, conditions):
    return reduce(lambda a, b: node.call("logical_and", a, b), conditions)


# ---------------------------------------------------------------- kinds of operands

class Listed:
    """A list of numbers (or one) in order. values: function (node, its length, declared shapes) -> lists; sized: these
    are extents of results, and others where not all are declared."""

    def __init__(self, what, values, sized=False):
        self.what, self.values, self.sized = what, values, sized

    def holds(self, node, x, value):
        """Whether x is the list `value`: a bool tensor [1]."""
        places = [k for k, v in enumerate(value) if v is not FREE]
        if not places:
            return node.const([True], "bool")
        x = node.reshape(x, [len(value)])
        if len(places) < len(value):
            x = node.call("take", x, node.const(places, "int64"), axis=0)
        return self.equal(node, x, [value[k] for k in places])

    @staticmethod
    def equal(node, x, value):
        differ = node.call("not_equal", x, node.const(value, x.struct_info.dtype))
        return node.call("equal", node.call("sum", node.astype(differ, "int64"), axis=(0,), keepdims=True),
                         node.const([0], "int64"))


class Axes(Listed):
    """Different axes, in any order, negative ones counted from the end. more: the rank of the result is that of the
    first input, and as many axes more."""

    def __init__(self, more=False):
        super().__init__("axes", self._sets)
        self.more = more

    def _rank(self, node, count):
        return node.input(0).struct_info.ndim + (count if self.more else 0)

    def _sets(self, node, count, declared):
        return combinations(range(self._rank(node, count)), count)

    def holds(self, node, x, value):
        """Each of the axes is one of x; as many as there are, so that x has no others."""
        if not value:
            return node.const([True], "bool")
        rank = self._rank(node, len(value))
        x = node.reshape(x, [len(value)])
        negative = node.call("less", x, node.const(0, x.struct_info.dtype))
        x = node.call("where", negative, node.call("add", x, node.const(rank, x.struct_info.dtype)), x)
        return _all(node, [node.call("equal", node.call("sum", node.astype(node.call(
            "equal", x, node.const(a, x.struct_info.dtype)), "int64"), axis=(0,), keepdims=True),
            node.const([1], "int64")) for a in value])


def _numbers(declared):
    return sorted({n for dims in declared for n in dims or () if isinstance(n, int)})


def _sizes(node, count, declared):
    """A number that is a declared extent."""
    return [[n] for n in _numbers(declared)] if count == 1 else []


def _known(found, count):
    """The one value, where it is known."""
    return [found] if len(found) == count and all(isinstance(n, int) for n in found) else []


def _of_axes(node, count, declared):
    """The first result's extents along attribute axes, by default along all."""
    dims = declared[0] or []
    axes = range(len(dims)) if node.attr("axes") is None else node.axes(node.attr("axes"), len(dims))
    return _known([dims[a] for a in axes], count)


def _parts(node, count, declared):
    """The results' extents along attribute axis."""
    axis = node.axis(node.attr("axis", 0), node.input(0).struct_info.ndim)
    return _known([dims[axis] if dims else None for dims in declared], count)


def _grid(node, count, declared):
    """N, C, and the extents of an image, of which the grid is [N, *extents, rank]; C may be any."""
    dims = declared[0] or []
    known = all(isinstance(n, int) for n in dims)
    return [[dims[0], FREE, *dims[1:-1]]] if len(dims) == count and known else []


def _image(node, count, declared):
    return _known((declared[0] or [])[2:], count)


def _blocks(node, count, declared):
    """Blocks of as many elements as the columns' rows hold of each channel."""
    rows, channels = dims_of(node.input(0))[1], (declared[0] or [None] * 2)[1]
    if not isinstance(rows, int) or not isinstance(channels, int) or channels < 1 or rows % channels:
        return []
    return _factors(rows // channels, count)


def _factors(number, count):
    """The lists of `count` numbers whose product is `number`."""
    if count == 1:
        return [[number]]
    return [[k, *rest] for k in range(1, number + 1) if number % k == 0 for rest in _factors(number // k, count - 1)]


def _transformed(node, count, declared):
    """Lengths of a transform: a declared extent, or twice that less 2 or 1, of which it is half of the spectrum."""
    numbers = _numbers(declared)
    return [[n] for n in sorted({*numbers, *(2 * n - k for n in numbers for k in (1, 2) if n > 1)})]


def _steps(node, count, declared):
    """Distances of frames, of which the declared number fits the signal."""
    length, frames = dims_of(node.input(0))[1], declared[0][1] if declared[0] else None
    if not isinstance(length, int) or not isinstance(frames, int):
        return []
    return [[k] for k in range(1, length + 1) if (frames - 1) * k < length]


def _axis(node, count, declared):
    rank = node.input(0).struct_info.ndim
    return [[k] for k in range(rank)]


class Axis(Listed):
    """One axis, counted from the end where it is negative."""

    def holds(self, node, x, value):
        rank, x = node.input(0).struct_info.ndim, node.reshape(x, [1])
        return node.call("logical_or", self.equal(node, x, value), self.equal(node, x, [value[0] - rank]))


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
# operator -> {input: what it may be}
OPERANDS = {
    **{f"Reduce{name}": {1: Axes()} for name in _REDUCTIONS},
    "Squeeze": {1: Axes()},
    "Unsqueeze": {1: Axes(more=True)},
    "TopK": {1: Listed("k", _sizes, True)},
    "OneHot": {1: Listed("depth", _sizes, True)},
    "Split": {1: Listed("split", _parts)},
    "CenterCropPad": {1: Listed("shape", _of_axes)},
    "Resize": {3: Listed("sizes", _of_axes)},  # with keep_aspect_ratio_policy the converter takes them
    "AffineGrid": {1: Listed("size", _grid)},
    "Col2Im": {1: Listed("image_shape", _image), 2: Listed("block_shape", _blocks)},
    "MaxUnpool": {2: Listed("output_shape", _of_axes)},
    "DFT": {1: Listed("dft_length", _transformed, True), 2: Axis("axis", _axis)},
    "STFT": {1: Listed("frame_step", _steps), 3: Listed("frame_length", _transformed, True)},
    "MelWeightMatrix": {0: Listed("num_mel_bins", _sizes, True), 1: Listed("dft_length", _transformed, True)},
    "Dropout": {2: Listed("training_mode", lambda node, count, declared: [[False], [True]])},
}
# Inputs that are lists without elements where the model declares the extent 0, which for other inputs means "unknown".
LISTS = {(op, k) for op, rows in OPERANDS.items() for k in rows}
