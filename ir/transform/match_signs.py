"""Activations get the sign that the target's dot products of bytes take.

    sum (x - a) w = sum (x' - a') w,  x' = x + 128, a' = a + 128 of x with a sign, x - 128, a - 128 of one without

Both hold the same numbers: their bytes differ in the highest bit. So do numbers of 16 bits, which get a sign, as their
dot products have it. The zero point's part of the sum is a constant that joins a bias (QnnCanonicalize), so that no
kernel turns bits while it multiplies.
"""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxTuple
from ..relax.ops.qnn import BYTES, MORE, OTHER, PLAIN
from .graph import GraphRewriter, constant_last, on_main
from .qnn_canonicalize import as_integers, without_zero_point

# Operators that move elements of their first operand, or take the largest of them.
MOVES = ("reshape", "permute_dims", "squeeze", "expand_dims", "strided_slice", "nn.max_pool2d", "nn.pad", "concat")


@on_main
def match_signs(func, target):
    """Requires folded constants. Ensures that data of qnn.* products is of the dtype of bytes that the target
    multiplies by their constant weights in the fewest instructions. What makes such data makes it of that dtype; what
    else reads it takes 128 off, or adds it."""
    wanted = _wanted(func, target)
    return _MatchSigns(target, wanted).run(func) if wanted else func


def _turns(call, target):
    """Whether a product is computed in fewer instructions of data of the other dtype."""
    if call.op not in PLAIN:
        return False
    shifted, x = without_zero_point(call), str(call.args[0].struct_info.dtype)
    if x not in BYTES:
        return x == "uint16" and shifted is not None
    weight = None if shifted is None else as_integers(shifted, "")
    if weight is None:
        return False
    w = weight.data.dtype.name
    return target.dots(x, w) < target.dots(OTHER[x], w)


def _wanted(func, target):
    """The ids of values that are wanted with the other sign: data of products, and what it is moved from."""
    wanted = {id(b.value.args[0]) for b in func.bindings if _op(b.value) in PLAIN and _turns(b.value, target)}
    for b in reversed(func.bindings):
        if id(b.var) in wanted and _op(b.value) in MOVES:
            wanted.update(id(v) for v in _moved(b.value))
    return wanted


def _op(value):
    return getattr(value, "op", None)


def _moved(call):
    """What an operator of MOVES moves."""
    return call.args if call.op == "concat" else call.args[:1]


class _MatchSigns(GraphRewriter):
    def __init__(self, target, wanted):
        self.target, self.wanted = target, wanted

    def begin(self, func):
        self.instead = {}  # id of a value -> (the value, what is made instead of it, with the other sign)
        self.beside = {}  # id of a value that is made as it is -> (the value, the same with the other sign)
        self.floats = {}  # id of what such bytes are as floats -> (value, these as they are, what they are less)

    def call(self, binding, call):
        if _turns(call, self.target):
            x, w, zero, w_zero = call.args
            return call.replace(args=(self._turned(x), w, self._turned(zero), w_zero))
        made = (self._moves(call) or self._quantizes(call)) if id(binding.var) in self.wanted else None
        if made is None:
            return self._read(call)
        made = self.emit(made, f"{binding.var.name}_turned")
        self.instead[id(binding.var)] = binding.var, made
        return self._less(made)

    def _turned(self, value):
        """A value with the other sign."""
        if isinstance(value, Constant):
            dtype = value.data.dtype.name
            return Constant(np.asarray(value.data.astype(np.int32) + MORE[dtype]).astype(OTHER[dtype]), value.name)
        if id(value) in self.instead:
            return self.instead[id(value)][1]
        if id(value) not in self.beside:
            self.beside[id(value)] = value, self.emit(self._less(value), f"{value.name}_turned")
        return self.beside[id(value)][1]

    def _less(self, value):
        """The same numbers as bytes with the other sign, and those as these."""
        dtype = str(value.struct_info.dtype)
        wide = self.emit(call_op("astype", value, dtype="int32"))
        wide = self.emit(call_op("add", wide, Constant(np.asarray(MORE[dtype], np.int32))))
        return call_op("astype", wide, dtype=OTHER[dtype])

    # ------------------------------------------------------------ what else reads such values

    def _read(self, call):
        if call.op == "astype" and call.attrs["dtype"] == "float32" and id(call.args[0]) in self.instead:
            made = self.instead[id(call.args[0])][1]
            floats = self.emit(call_op("astype", made, dtype="float32"))
            less = np.asarray(-MORE[str(call.args[0].struct_info.dtype)], np.float32)
            result = self.emit(call_op("add", floats, Constant(less)))
            self.floats[id(result)] = result, floats, less
            return result
        if call.op == "subtract" and id(call.args[0]) in self.floats and isinstance(call.args[1], Constant) and (
                _is_zero_point(call.args[1].data)):
            _, floats, less = self.floats[id(call.args[0])]
            return call_op("add", floats, Constant(np.asarray(less - call.args[1].data)))
        return call.replace(args=tuple(map(self._plain, call.args)))

    def _plain(self, value):
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(map(self._plain, value.fields)))
        if id(value) not in self.instead:
            return value
        return self.emit(self._less(self.instead[id(value)][1]), value.name)

    # ------------------------------------------------------------ what makes them

    def _moves(self, call):
        """The same of bytes with the other sign; None for what makes new ones."""
        if call.op not in MOVES:
            return None
        moved, attrs = _moved(call), dict(call.attrs)
        if call.op == "nn.pad":
            attrs["pad_value"] += MORE[str(call.struct_info.dtype)]
        return call_op(call.op, *map(self._turned, moved), *call.args[len(moved):], **attrs)

    def _quantizes(self, call):
        """What rounds and saturates numbers in bytes, in those of the other sign; None for another call."""
        clip = self.producer(call.args[0], "clip") if call.op == "astype" else None
        dtype = str(call.struct_info.dtype)
        if clip is None or not (np.iinfo(dtype).min <= clip.attrs["min"] <= clip.attrs["max"] <= np.iinfo(dtype).max):
            return None
        inner, more = clip.args[0], MORE[dtype]
        if not self._is_whole(inner):
            return None
        kind = clip.struct_info.dtype.numpy
        add = self.producer(inner, "add")
        add = add and constant_last(add)
        if add and isinstance(add.args[1], Constant):
            whole, zero = add.args[0], np.asarray(add.args[1].data + kind.type(more))
        else:
            whole, zero = inner, np.asarray(more, kind)
        value = whole if not np.any(zero) else self.emit(call_op("add", whole, Constant(zero)))
        limits = {key: clip.attrs[key] + more for key in ("min", "max")}
        return call_op("astype", self.emit(call_op("clip", value, **limits)), dtype=OTHER[dtype])

    def _is_whole(self, value):
        """Whether numbers are integers for certain."""
        if value.struct_info.dtype.is_int:
            return True
        if isinstance(value, Constant):
            return bool((value.data == np.rint(value.data)).all())
        made = self.producer(value)
        if made is None:
            return False
        if made.op == "astype":
            return made.args[0].struct_info.dtype.is_int
        return made.op == "round" or made.op == "add" and all(map(self._is_whole, made.args))


def _is_zero_point(data):
    """Whether numbers are zero points."""
    return bool((data == np.rint(data)).all() and np.abs(data).max(initial=0) < 1 << 16)


__all__ = ["match_signs"]
