"""Operators that do nothing go; chains of transposes and views shrink."""
from __future__ import annotations

import numpy as np

from ..expr import is_const_int
from ..node import structural_equal
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxTuple, TensorStructInfo
from ..relax.memory import VIEWS
from ..relax.ops.common import is_one
from .graph import GraphRewriter, constant_last, on_main


@on_main
def remove_identities(func, keep_bytes=False):
    """Ensures no split or concat of one part, empty ones left aside, no operator of the table below that returns its
    first argument unchanged, no choice that a constant always makes alike, no transpose of a transpose, no transpose
    that leaves the elements in order (it becomes a view), no view of a view, and no float32 from integers that were
    such numbers before, unless keep_bytes: what is quantized and dequantized is rounded and clipped in the kernel that
    makes it."""
    return _RemoveIdentities(keep_bytes).run(func)


def _neutral(value):
    def check(call):
        c = call.args[1]
        return isinstance(c, Constant) and bool(np.all(c.data == value))
    return check


def _always(call):
    return True


# operator -> whether this call returns args[0] unchanged, given that dtype and shape agree
_IDENTITY = {
    "add": _neutral(0), "subtract": _neutral(0), "multiply": _neutral(1), "divide": _neutral(1), "power": _neutral(1),
    "astype": _always, "broadcast_to": _always, "tile": _always, **dict.fromkeys(VIEWS, _always),
    # with equal shapes every reduced extent is 1
    "mean": _always, "sum": _always, "prod": _always, "max": _always, "min": _always,
    "permute_dims": lambda c: axes_of(c) == tuple(range(c.struct_info.ndim)),
    "concat": lambda c: len(c.args) == 1,
    "nn.pad": lambda c: not any(c.attrs["pad_width"]),
    "strided_slice": lambda c: all(s > 0 for s in c.attrs["strides"]),  # equal shape and forward: the whole
}


def _only_side(call):
    """The operand that a constant condition selects, where that has the result's shape; else None."""
    condition, *sides = call.args
    if not isinstance(condition, Constant) or not (condition.data.all() or not condition.data.any()):
        return None
    side = sides[0 if condition.data.all() else 1]
    return side if structural_equal(side.struct_info, call.struct_info) else None


def _without_empty_parts(call):
    """A concat without the parts that have no elements; one is left of those that are all empty."""
    axis = call.attrs["axis"]
    parts = [a for a in call.args if not is_const_int(a.struct_info.shape[axis], 0)]
    return call if len(parts) == len(call.args) else call_op("concat", *(parts or call.args[:1]), axis=axis)


WHOLE = ("round", "floor", "ceil", "trunc")


class _RemoveIdentities(GraphRewriter):
    def __init__(self, keep_bytes):
        self.keep_bytes = keep_bytes

    def call(self, binding, call):
        call = constant_last(call)
        if call.op == "split":
            return self._whole_part(call)
        if call.op == "concat":
            call = _without_empty_parts(call)
        check = _IDENTITY.get(call.op)
        if check and isinstance(call.struct_info, TensorStructInfo):
            if structural_equal(call.args[0].struct_info, call.struct_info) and check(call):
                return call.args[0]
        if call.op == "astype" and not self.keep_bytes:
            return self._never_narrow(call) or call
        if call.op == "where":
            return _only_side(call) or call
        if call.op == "permute_dims":
            call = self._transpose(call)
        return self._view(call) if getattr(call, "op", None) in VIEWS else call

    def _whole_part(self, call):
        """What is split, where all parts but one are empty."""
        x, sections, axis = call.args[0], call.attrs["sections"], call.attrs["axis"]
        if sum(n != 0 for n in sections) != 1:
            return call
        empty = None if all(sections) else self.emit(
            call_op("strided_slice", x, axes=(axis,), begin=(0,), end=(0,), strides=(1,)))
        return RelaxTuple(tuple(x if n else empty for n in sections))

    def _never_narrow(self, call):
        """The float32 x of astype(astype(x, integer), float32) where integers hold all that x can be; else None."""
        narrow = self.producer(call.args[0], "astype")
        clip = self.producer(narrow.args[0], "clip") if narrow else None
        if clip is None or not clip.struct_info.dtype == call.struct_info.dtype == "float32":
            return None
        low, high, dtype = float(clip.attrs["min"]), float(clip.attrs["max"]), narrow.struct_info.dtype.numpy
        if dtype.kind not in "iu" or dtype.itemsize > 2 or not (low.is_integer() and high.is_integer()):
            return None
        holds = np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max
        return narrow.args[0] if holds and self._is_whole(clip.args[0]) else None

    def _is_whole(self, value):
        """Whether a value is known to be whole numbers."""
        if isinstance(value, Constant):
            return bool(np.all(value.data == np.rint(value.data)))
        made = self.producer(value)
        if made is not None and made.op in ("add", "subtract"):
            return all(map(self._is_whole, made.args))
        return made is not None and made.op in WHOLE

    def _view(self, call):
        """One view where there were two: the first is already a view of something that is none."""
        inner = self.producer(call.args[0])
        if inner is None or inner.op not in VIEWS:
            return call
        source = inner.args[0]
        if structural_equal(source.struct_info, call.struct_info):
            return source
        return call_op("reshape", source, list(call.struct_info.shape))

    def _transpose(self, call):
        inner = self.producer(call.args[0], "permute_dims")
        source, axes = call.args[0], axes_of(call)
        if inner is not None:
            source, axes = inner.args[0], tuple(axes_of(inner)[a] for a in axes)
            if axes == tuple(range(len(axes))):
                return source
        long = [a for a in axes if not is_one(source.struct_info.shape[a])]
        if long == sorted(long):
            return call_op("reshape", source, list(call.struct_info.shape))
        return call if inner is None else call_op("permute_dims", source, axes=axes)


def axes_of(call):
    """The axes of a permute_dims call, counted from the front."""
    ndim, axes = call.struct_info.ndim, call.attrs["axes"]
    return tuple(reversed(range(ndim))) if axes is None else tuple(a % ndim for a in axes)

