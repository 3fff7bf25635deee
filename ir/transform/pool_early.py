"""Averages of a 1x1 convolution's results are the convolution of averages, which has fewer points."""
from __future__ import annotations

from math import prod

from ..expr import IntImm, is_const_int
from ..relax.block_builder import call_op
from ..relax.ops.conv_layouts import form_of
from .graph import GraphRewriter, on_main, uses

POOLS = ("nn.avg_pool2d", "nn.adaptive_avg_pool2d")


@on_main
def pool_early(func):
    """Requires plain layouts. Ensures that an average pool which alone reads a 1x1 convolution of stride 1, without a
    bias, comes before it where that is less work. Both are linear: the order changes only how results are rounded."""
    return _PoolEarly().run(func)


class _PoolEarly(GraphRewriter):
    def begin(self, func):
        found = uses(func)
        self.once = {id(b.var) for b in func.bindings if len(found.get(id(b.var), ())) == 1}
        self.origins = {id(b.var): b.var.origin for b in func.bindings}
        self.outputs = {id(out) for out in func.outputs}

    def call(self, binding, call):
        conv = self.producer(call.args[0], "nn.conv2d") if call.op in POOLS else None
        if conv is None or id(call.args[0]) not in self.once or not _saves(call, conv):
            return call
        image, weights = conv.args
        pooled = self.emit(call_op(call.op, image, **call.attrs), f"{binding.var.name}_pooled")
        moved = call_op(conv.op, pooled, weights, **conv.attrs)
        if id(binding.var) in self.outputs:  # an output keeps its name
            return moved
        return self.emit(moved, call.args[0].name, self.origins[id(call.args[0])])


def _saves(pool, conv):
    """Whether fewer FMAs outweigh sums over more channels, in a pool of a 1x1 convolution of known size."""
    attrs, weights = conv.attrs, conv.args[1].struct_info.shape
    if form_of(attrs) is not None or set(attrs["strides"]) != {1} or any(attrs["padding"]) or not all(
            is_const_int(k, 1) for k in weights[2:4]):
        return False
    (_, outputs, *before), (_, _, *after) = conv.struct_info.shape, pool.struct_info.shape
    inputs = conv.args[0].struct_info.shape[1]
    if not all(isinstance(d, IntImm) for d in (inputs, outputs, *before, *after)):
        return False
    points, fewer = (prod(d.value for d in size) for size in (before, after))
    window = prod(pool.attrs["pool_size"]) if "pool_size" in pool.attrs else -(-points // fewer)
    saved = (points - fewer) * outputs.value * inputs.value // attrs["groups"]
    return saved > fewer * window * max(inputs.value - outputs.value, 0)
