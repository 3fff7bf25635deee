"""Transposed convolutions whose phases are channels of a convolution, which a shuffle then puts in their places."""
from __future__ import annotations

from math import prod

import numpy as np

from ..costs import BASE
from ..expr import IntImm
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TupleGetItem
from .graph import GraphRewriter

MOST_GROUPS = 8  # that become convolutions of their own


def split_phases(func, lanes, shuffle=BASE["shuffle"].value):
    """Requires plain layouts. Ensures that transposed convolutions with constant weights have one group, and

    - those in depthwise form are a depthwise convolution for each phase (conv2d_phases tells what phases are);
    - those in other groups are one for each group, where these are few and whole vectors;
    - those of few output channels, and those in other groups, are a convolution that makes all phases of a channel,
      with the taps of any of them: vectors are full of phases then.

    shuffle: vectors that take as long as moving an element to its place.
    """
    return _SplitPhases(lanes, shuffle).run(func)


class _SplitPhases(GraphRewriter):
    def __init__(self, lanes, shuffle):
        self.lanes, self.shuffle = lanes, shuffle

    def call(self, binding, call):
        if call.op != "nn.conv2d_transpose" or not isinstance(call.args[1], Constant) or not all(
                isinstance(d, IntImm) for d in (*call.args[0].struct_info.shape[1:], *call.struct_info.shape[2:])):
            return call
        x, weight = call.args
        groups, (inputs, outputs) = call.attrs["groups"], weight.data.shape[:2]
        if groups == 1:
            return self._in_channels(call) if _saves(call, self.lanes, self.shuffle) else call
        if groups == inputs and outputs == 1 and max(call.attrs["strides"]) > 1:
            return self._depthwise(call)
        if groups <= MOST_GROUPS and inputs // groups % self.lanes == outputs % self.lanes == 0:
            return self._by_groups(call, x, np.split(weight.data, groups))
        return self._in_channels(call)

    def _by_groups(self, call, x, weights):
        parts = self.emit(call_op("split", x, sections=(weights[0].shape[0],) * len(weights), axis=1))
        parts = [self.emit(TupleGetItem(parts, n)) for n in range(len(weights))]
        own = {**call.attrs, "groups": 1}
        return call_op("concat", *(self.emit(call_op(call.op, part, Constant(w, "weights"), **own))
                                   for part, w in zip(parts, weights)), axis=1)

    def _in_channels(self, call):
        """One convolution, whose channels (o, ry, rx) are the phases of channel o."""
        x, weight = call.args
        rows, columns = (_Window(call, axis) for axis in (0, 1))
        groups, (inputs, outputs) = call.attrs["groups"], weight.data.shape[:2]
        data = columns.taken(rows.taken(weight.data, 2), 4)  # [I, O, ry, ty, rx, tx]
        data = data.reshape(groups, inputs // groups, outputs, *data.shape[2:]).transpose(0, 2, 3, 5, 1, 4, 6)
        data = data.reshape(-1, inputs // groups, rows.taps, columns.taps)
        made = call_op("nn.conv2d", x, Constant(np.ascontiguousarray(data), "weights"), groups=groups,
                       padding=_padding(rows, columns))
        if max(call.attrs["strides"]) == 1:
            return made
        shape = groups * outputs, rows.stride, columns.stride
        return self._shuffled(call, self.emit(made), shape, (0, 1, 4, 2, 5, 3))

    def _depthwise(self, call):
        """Convolutions one after the other, channels (ry, rx, c)."""
        x, weight = call.args
        (groups, _, *_), made = weight.data.shape, []
        for ry in range(call.attrs["strides"][0]):
            for rx in range(call.attrs["strides"][1]):
                rows, columns = (_Window(call, axis, (r,)) for axis, r in enumerate((ry, rx)))
                data = columns.taken(rows.taken(weight.data, 2), 4).reshape(groups, 1, rows.taps, columns.taps)
                made.append(self.emit(call_op("nn.conv2d", x, Constant(data, "weights"), groups=groups,
                                              padding=_padding(rows, columns))))
        joined = self.emit(call_op("concat", *made, axis=1))
        return self._shuffled(call, joined, (*call.attrs["strides"], groups), (0, 3, 4, 1, 5, 2))

    def _shuffled(self, call, made, channels, axes):
        """The result of phases that are channels of `made`."""
        batch, _, height, width = made.struct_info.shape
        value = self.emit(call_op("reshape", made, [batch, *channels, height, width]))
        value = self.emit(call_op("permute_dims", value, axes=axes))
        n, c, h, ry, w, rx = value.struct_info.shape
        value = call_op("reshape", value, [n, c, h * ry, w * rx])
        wanted = call.struct_info.shape
        if [d.value for d in value.struct_info.shape[2:]] == [d.value for d in wanted[2:]]:
            return value
        return call_op("strided_slice", self.emit(value), axes=(2, 3), begin=(0, 0), strides=(1, 1), end=tuple(
            d.value for d in wanted[2:]))


class _Window:
    """Along one axis (0: rows): which taps of a convolution make some phases, all of them or those given. Output
    stride * q + r is the sum over taps t of input q + t + first times kernel[r + padding - stride * (t + first)].
    """

    def __init__(self, call, axis, phases=None):
        size, wanted = (x.struct_info.shape[2 + axis].value for x in (call.args[0], call))
        self.stride, self.dilation = call.attrs["strides"][axis], call.attrs["dilation"][axis]
        self.shift = call.attrs["padding"][axis]
        self.phases = tuple(range(self.stride)) if phases is None else phases
        kernel = call.args[1].data.shape[2 + axis]
        found = [(r + self.shift - k * self.dilation) // self.stride for r in self.phases for k in range(kernel)
                 if (r + self.shift - k * self.dilation) % self.stride == 0]
        points = -(-wanted // self.stride)
        self.first = min([0, *found])
        self.taps = max([0, *found, size - points]) - self.first + 1
        self.before, self.after = -self.first, points - 1 + self.taps - 1 + self.first - (size - 1)

    def taken(self, weights, axis):
        """Weights with an axis of the kernel as two: phases, taps."""
        kernel = weights.shape[axis]
        at = np.array([[r + self.shift - self.stride * (t + self.first) for t in range(self.taps)]
                       for r in self.phases])
        inside = (at >= 0) & (at < kernel * self.dilation) & (at % self.dilation == 0)
        found = np.take(weights, np.where(inside, at // self.dilation, 0), axis)
        return found * inside.reshape(inside.shape + (1,) * (weights.ndim - 1 - axis)).astype(weights.dtype)


def _padding(rows, columns):
    return rows.before, columns.before, rows.after, columns.after


def _saves(call, lanes, shuffle):
    """Whether full vectors of phases outweigh taps that only some phases have, and the shuffle."""
    rows, columns = (_Window(call, axis) for axis in (0, 1))
    inputs, outputs, *kernel = call.args[1].data.shape
    made = outputs * rows.stride * columns.stride
    apart, together = -(-outputs // lanes) * prod(kernel), -(-made // lanes) * rows.taps * columns.taps
    return (apart - together) * inputs > shuffle * made
