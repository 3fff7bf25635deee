"""Sums of integers are scaled in fixed point, where the user asks for it: as microcontrollers' libraries do."""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.qnn import BYTES
from ..relax.ops.requantize import SUMS, multiplier_of
from .graph import GraphRewriter, constant_last, on_main

SMALL = (*BYTES, "int16")


@on_main
def fixed_requantize(func):
    """Requires folded constants. Ensures that what is made of sums in int32 by a constant scale, rounded, with a zero
    point added, and saturated in 8 or 16 bits, is qnn.requantize of them, with integers around it. Scales of 1 and more
    stay floats."""
    return _FixedRequantize().run(func)


class _FixedRequantize(GraphRewriter):
    def call(self, binding, call):
        if call.op != "astype" or str(call.struct_info.dtype) not in SMALL:
            return call
        clip = self.producer(call.args[0], "clip")
        rounded = clip and clip.args[0]
        shifted, zero = self.producer(rounded, "add") if clip else None, None
        if shifted is not None:
            shifted = constant_last(shifted)
            rounded, zero = shifted.args
        whole = self.producer(rounded, "round") if clip else None
        scaled = whole and self.producer(whole.args[0], "multiply")
        scaled = scaled and constant_last(scaled)
        total = scaled and self.producer(scaled.args[0], "astype")
        if total is None or total.args[0].struct_info.dtype != SUMS or not isinstance(scaled.args[1], Constant) or not (
                zero is None or isinstance(zero, Constant)):
            return call
        made = multiplier_of(scaled.args[1].data)
        if made is None:
            return call
        name = scaled.args[1].name
        value = self.emit(call_op("qnn.requantize", total.args[0], *(
            Constant(a, f"{name}_{what}") for a, what in zip(made, ("multiplier", "shift")))))
        if zero is not None and zero.data.any():
            value = self.emit(call_op("add", value, Constant(zero.data.astype(np.int32), zero.name)))
        limits = {key: int(clip.attrs[key]) for key in ("min", "max")}
        return call_op("astype", self.emit(call_op("clip", value, **limits)), dtype=str(call.struct_info.dtype))
