"""Values that are read in part only are computed only there: slices move towards the inputs."""
from __future__ import annotations

from dataclasses import dataclass, replace

from .. import op as op_table
from ..expr import IntImm
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxCall, RelaxTuple, TensorStructInfo, TupleGetItem
from ..relax.memory import VIEWS
from ..relax.ops.common import is_one, same_dim, same_shape
from ..relax.ops.recurrent import CELLS, DIRECTIONS
from ..relax.ops.view import matching_groups
from .graph import GraphRewriter, is_operator, leaves, on_main


@on_main
def slice_early(func):
    """Ensures that of a value of which only one part along one axis is read, because slices take it, that part alone is
    computed, where that saves work: rows of a product, the last (or first) time steps of a recurrent layer, and the
    maps, normalizations, transposes and views between these and the slice.

    One direction of a layer may need fewer time steps than the other: they become layers of their own.
    """
    return _SliceEarly().run(func)


@dataclass(frozen=True)
class Part:
    """Elements begin to end of an axis."""

    axis: int
    begin: int
    end: int


WHOLE = None  # what is read of a value, in place of a Part


# ---------------------------------------------------------------- which part an operator takes, reads

def _taken(call):
    """The Part of its first argument that a slice is; WHOLE for any other call."""
    axes, shape = _sliced_axes(call), getattr(call.args[0].struct_info, "shape", None) if call.args else None
    if not axes or shape is None or not isinstance(shape[axes[0]], IntImm):
        return WHOLE
    axis, extent = axes[0], shape[axes[0]].value
    if call.op == "take":
        index = int(call.args[1].data.reshape(-1)[0])
        begin = index + extent if index < 0 else index
        end = begin + 1
    else:
        begin, end = call.attrs["begin"][0], call.attrs["end"][0]
        end = extent if end is None else end
    return Part(axis, begin, end) if 0 <= begin < end <= extent and end - begin < extent else WHOLE


def _sliced_axes(call):
    """The one axis of a slice or of a constant index, in a tuple; () for any other call."""
    if call.op == "take":
        constant = isinstance(call.args[1], Constant) and call.args[1].data.size == 1
        return (call.attrs["axis"] % call.args[0].struct_info.ndim,) if constant else ()
    if call.op != "strided_slice" or call.attrs["strides"] != (1,):
        return ()
    return (call.attrs["axes"][0] % call.args[0].struct_info.ndim,)


# The parts that an operator needs of its arguments for `part` of its result, one for each argument; None where it has
# no such parts.

def _of_map(call, part):
    """With broadcasting."""
    ndim, extent, parts = call.struct_info.ndim, call.struct_info.shape[part.axis], []
    for x in call.args:
        axis = part.axis - ndim + x.struct_info.ndim
        varies = axis >= 0 and same_dim(x.struct_info.shape[axis], extent)
        parts.append(replace(part, axis=axis) if varies else WHOLE)
    return parts


def _of_permute(call, part):
    axes = call.attrs["axes"] or tuple(reversed(range(call.struct_info.ndim)))
    return [replace(part, axis=axes[part.axis] % len(axes))]


def _of_view(call, part):
    """Slice a view along an axis that both shapes have."""
    mine, theirs = call.args[0].struct_info.shape, call.struct_info.shape
    for own, group in matching_groups(mine, theirs):
        if part.axis in group:
            own = [k for k in own if not is_one(mine[k])]
            alone = all(k == part.axis or is_one(theirs[k]) for k in group)
            return [replace(part, axis=own[0]), *[WHOLE] * (len(call.args) - 1)] if alone and len(own) == 1 else None
    return None


def _of_rows(call, part):
    """A product: of its rows."""
    a = call.args[0].struct_info
    return [replace(part, axis=a.ndim - 2),
            *[WHOLE] * (len(call.args) - 1)] if a.ndim > 1 and part.axis == call.struct_info.ndim - 2 and (
        call.args[1].struct_info.ndim > 1) else None


def _of_norm(call, part):
    """Slice a normalization along an axis that it does not reduce."""
    axes = call.attrs["axes"] if "axes" in call.attrs else (call.attrs["axis"],)
    ndim = call.struct_info.ndim
    return [part, *[WHOLE] * (len(call.args) - 1)] if part.axis not in [a % ndim for a in axes] else None


def _of_steps(call, part):
    """A recurrent layer of constant weights: of its input's time steps. No fewer for one that runs both ways."""
    steps, *_ = call.args[0].struct_info.shape
    if part.axis != 0 or not isinstance(steps, IntImm) or not all(isinstance(c, Constant) for c in call.args[1:]):
        return None
    needed = [_needed(backward, part, steps.value) for backward in DIRECTIONS[call.attrs["direction"]]]
    if all(n is WHOLE for n in needed):
        return None
    return [needed[0] if len(needed) == 1 else WHOLE, *[WHOLE] * (len(call.args) - 1)]


def _needed(backward, part, steps):
    """The time steps that a direction runs for the states of `part`."""
    own = replace(part, end=steps) if backward else replace(part, begin=0)
    return WHOLE if own == Part(0, 0, steps) else own


# Operators that cost more than a slice of what they read: less of them is worth a slice. COPIES and maps follow those.
SAVING = {"matmul": _of_rows, "nn.layer_norm": _of_norm, "nn.softmax": _of_norm, **dict.fromkeys(CELLS, _of_steps)}
COPIES = {"permute_dims": _of_permute, **dict.fromkeys(VIEWS, _of_view)}


def _parts_read(call, part):
    rows = SAVING.get(call.op) or COPIES.get(call.op)
    if rows is None and op_table.get(call.op).kind in ("elementwise", "broadcast"):
        rows = _of_map
    return rows and rows(call, part)


# ---------------------------------------------------------------- the pass

class _SliceEarly(GraphRewriter):
    """read: {id of a variable, or (that, index) of an item of one: the Part of it that is read, WHOLE for more than
    one}. parts: {id of a variable of the new function: the Part that it is of a variable of the old one}."""

    def begin(self, func):
        self.read, self.parts, self.sliced = {}, {}, {}
        for out in func.outputs:
            self._all_read(out)
        for b in reversed(func.bindings):
            self._binding_read(b)

    # ------------------------------------------------------------ what is read

    def _binding_read(self, b):
        if isinstance(b.value, TupleGetItem) and not isinstance(b.value.tuple_value, RelaxCall):
            self._note((id(b.value.tuple_value), b.value.index), self.read.get(id(b.var)))
            return
        parts = is_operator(b.value) and self._arguments_read(b)
        for x, part in zip(b.value.args, parts) if parts else ():
            if part is WHOLE or next(leaves(x), None) is not x:
                self._all_read(x)
            else:
                self._note(id(x), part)
        if not parts:
            self._all_read(b.value)

    def _arguments_read(self, b):
        """The Parts that a binding's operator reads of its arguments; None for all of all."""
        taken, part = _taken(b.value), self._part_read(b)
        if taken is not WHOLE:
            return [taken, *[WHOLE] * (len(b.value.args) - 1)]
        return None if part is WHOLE else _parts_read(b.value, part)

    def _part_read(self, b):
        """The Part that is read of a binding's value: of the first item of a tuple, where the others are not read."""
        if isinstance(b.var.struct_info, TensorStructInfo):
            return self.read.get(id(b.var))
        others = [n for n in range(1, len(b.var.struct_info.fields)) if (id(b.var), n) in self.read]
        return WHOLE if others or id(b.var) in self.read else self.read.get((id(b.var), 0))

    def _all_read(self, value):
        for leaf in leaves(value):
            self._note(id(leaf), WHOLE)

    def _note(self, key, part):
        self.read[key] = part if self.read.get(key, part) == part else WHOLE

    # ------------------------------------------------------------ parts instead

    def call(self, binding, call):
        if not is_operator(call):
            return call
        parts = self._arguments_read(binding)
        if parts is None or not (call.op in SAVING or any(id(a) in self.parts for a in call.args)):
            return call
        taken = _taken(binding.value)
        if taken is not WHOLE:
            x, shape = call.args[0], call.struct_info.shape
            if self.parts.get(id(x)) != taken:
                return call  # the part that it is was taken before, along another axis
            return x if same_shape(x.struct_info.shape, shape) else call_op("reshape", x, list(shape))
        part = self._part_read(binding)
        if call.op in CELLS:
            return RelaxTuple((self._kept(self._layers(call, part), part),))
        args = [self._part(a, p) for a, p in zip(call.args, parts)]
        if call.op in VIEWS:
            shape = list(binding.value.struct_info.shape)
            shape[part.axis] = part.end - part.begin
            return self._kept(call_op("reshape", args[0], shape), part)
        return self._kept(call_op(call.op, *args, **call.attrs), part)

    def _kept(self, value, part):
        var = self.emit(value)
        self.parts[id(var)] = part
        return var

    def _part(self, value, part):
        """A part of a value of the new function, which may be one already."""
        if part is WHOLE or self.parts.get(id(value)) == part or _is_all(value, part):
            return value
        key = (id(value), part)
        if key not in self.sliced:
            name = f"{getattr(value, 'name', '') or 'const'}_part"
            if isinstance(value, Constant):
                data = value.data.take(range(part.begin, part.end), part.axis)
                self.sliced[key] = (value, Constant(data, value.name))
            else:
                self.sliced[key] = (value, self.emit(_slice(value, part), name))
        return self.sliced[key][1]

    def _layers(self, call, part):
        """The states of a recurrent layer at some time steps: a layer for each direction, of the steps it needs."""
        x, *weights = call.args
        steps = call.struct_info.fields[0].shape[0].value
        directions = DIRECTIONS[call.attrs["direction"]]
        names, states = call.attrs["activations"], []
        for d, backward in enumerate(directions):
            needed = _needed(backward, part, steps)
            own = [self._part(w, Part(0, d, d + 1)) for w in weights] if len(directions) > 1 else weights
            count = len(names) // len(directions) if names else 0
            attrs = {**call.attrs, "direction": "reverse" if backward else "forward",
                     "activations": names and names[d * count:(d + 1) * count]}
            layer = self.emit(call_op(call.op, self._part(x, needed), *own, **attrs))
            begin = part.begin - (needed.begin if needed else 0)
            found = Part(0, begin, begin + part.end - part.begin)
            states.append(self._part(self.emit(TupleGetItem(layer, 0)), found))
        return call_op("concat", *states, axis=1)


def _is_all(value, part):
    extent = value.struct_info.shape[part.axis]
    return part.begin == 0 and isinstance(extent, IntImm) and extent.value == part.end


def _slice(value, part):
    return call_op("strided_slice", value, axes=(part.axis,), begin=(part.begin,), end=(part.end,), strides=(1,))
