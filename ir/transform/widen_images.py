"""Networks of convolutions over small floats: computed and kept in float32 between their inputs and outputs."""
from __future__ import annotations

import numpy as np

from ..op import InferError
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TensorStructInfo
from .graph import GraphRewriter, MadeOnce, is_operator, on_main

SMALL = ("float16", "bfloat16")
CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose")
KEPT = {"astype", "bitcast", "reinterpret", "isinf", "copy"}  # these depend on what their arguments are stored as


@on_main
def widen_images(func, dtypes=SMALL):
    """Requires folded constants. Ensures that a function with convolutions over float16 or bfloat16 computes in
    float32, and keeps float32 between its operators, and as weights; what casts and outputs take is rounded. The
    schedules of convolutions are for float32, and rounding after each operator costs accuracy and time. dtypes: of
    small floats that nothing else computes in.
    """
    if not any(is_operator(b.value) and b.value.op in CONVOLUTIONS and _is_of(b.var.struct_info, dtypes)
               for b in func.bindings):
        return func
    return _WidenImages(dtypes).run(func)


def _is_of(info, dtypes):
    return isinstance(info, TensorStructInfo) and info.dtype in dtypes


class _WidenImages(GraphRewriter):
    """wide: {id of a small variable: (that variable, which keeps its id its own, the same in float32)}."""

    def __init__(self, dtypes):
        self.dtypes = dtypes

    def begin(self, func):
        self.wide, self.once = {}, MadeOnce()

    def small(self, info):
        return _is_of(info, self.dtypes)

    def call(self, binding, call):
        infos = [getattr(a, "struct_info", None) for a in call.args]
        if not (is_operator(call) and isinstance(call.struct_info, TensorStructInfo) and any(map(self.small, infos))):
            return call
        if call.op == "astype" and id(call.args[0]) in self.wide and not self.small(call.struct_info):
            source = self.wide[id(call.args[0])][1]
            return source if call.struct_info.dtype == "float32" else call_op("astype", source, **call.attrs)
        if call.op in KEPT:
            return call
        try:
            new = call_op(call.op, *(self._widened(a) for a in call.args), **call.attrs)
        except InferError:  # it takes small floats alone
            return call
        if not self.small(call.struct_info):
            return new if new.struct_info.dtype == call.struct_info.dtype else call
        if new.struct_info.dtype != "float32":
            return call
        value = self.emit(new, f"{binding.var.name}_float32")
        self.wide[id(binding.var)] = binding.var, value
        return call_op("astype", value, dtype=str(call.struct_info.dtype))

    def _widened(self, value):
        """An argument in float32 where it is small."""
        if not self.small(getattr(value, "struct_info", None)):
            return value
        if isinstance(value, Constant):
            return self.once(value, "float32", lambda c: Constant(np.asarray(c.data, np.float32), c.name))
        if id(value) not in self.wide:
            self.wide[id(value)] = value, self.emit(call_op("astype", value, dtype="float32"), f"{value.name}_float32")
        return self.wide[id(value)][1]
