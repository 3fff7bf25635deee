"""Batch norm and other per-channel scales and shifts fold into the weights of the convolution or product before them."""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxCall
from .graph import GraphRewriter, on_main, uses


@on_main
def decompose_batch_norm(func):
    """Ensures no nn.batch_norm with constant statistics: x * scale + shift, computed in float64."""
    return _DecomposeBatchNorm().run(func)


class _DecomposeBatchNorm(GraphRewriter):
    def call(self, binding, call):
        if call.op != "nn.batch_norm" or not all(isinstance(a, Constant) for a in call.args[1:]):
            return call
        x = call.args[0]
        gamma, beta, mean, var = (a.data.astype(np.float64) for a in call.args[1:])
        scale = gamma / np.sqrt(var + call.attrs["epsilon"])
        shift = beta - mean * scale
        shape = [1] * x.struct_info.ndim
        shape[call.attrs["axis"]] = -1
        dtype = x.struct_info.dtype.numpy
        name = call.args[1].name or binding.var.name
        scale = Constant(scale.reshape(shape).astype(dtype), name + "_scale")
        shift = Constant(shift.reshape(shape).astype(dtype), name + "_shift")
        return call_op("add", self.emit(call_op("multiply", x, scale)), shift)


@on_main
def fold_scale_axis(func):
    """Ensures that a constant factor of a convolution's (or constant product's) output channels is part of its weights,
    and that constants added or multiplied one after the other are one: (x * a + b) * c + d is x * ac + (bc + d)."""
    return _FoldScale().run(func)


class _FoldScale(GraphRewriter):
    def begin(self, func):
        """Rewriting keeps variable names, so uses are counted by name."""
        found = uses(func)
        self.use_count = {b.var.name: len(found.get(id(b.var), ())) for b in func.bindings}

    def _single_use(self, var):
        return self.use_count.get(var.name, 1) == 1

    def call(self, binding, call):
        if call.op not in ("multiply", "add"):
            return call
        x, c = call.args
        if isinstance(x, Constant) and not isinstance(c, Constant):
            x, c = c, x
        if not isinstance(c, Constant) or not call.struct_info.dtype.is_float:
            return call
        inner = self.producer(x)
        if inner is None or not self._single_use(x):
            return call
        if inner.struct_info.ndim != call.struct_info.ndim or c.data.ndim > call.struct_info.ndim:
            return call
        return self._add(call, inner, c) if call.op == "add" else self._multiply(call, inner, c)

    def _add(self, call, inner, c):
        if inner.op != "add" or not isinstance(inner.args[1], Constant):
            return call
        merged = _combine(np.add, inner.args[1], c)
        return call_op("add", inner.args[0], merged)

    def _multiply(self, call, inner, c):
        if inner.op == "multiply" and isinstance(inner.args[1], Constant):
            return call_op("multiply", inner.args[0], _combine(np.multiply, inner.args[1], c))
        if inner.op == "add" and isinstance(inner.args[1], Constant):
            core = self.producer(inner.args[0])
            if core is None or not self._single_use(inner.args[0]):
                return call
            scaled = self._scale_core(core, c) or (
                core.op == "multiply" and isinstance(core.args[1], Constant)
                and call_op("multiply", core.args[0], _combine(np.multiply, core.args[1], c)))
            if not scaled:
                return call
            shift = _combine(np.multiply, inner.args[1], c)
            return call_op("add", self.emit(scaled), shift)
        return self._scale_core(inner, c) or call

    def _scale_core(self, core: RelaxCall, c: Constant):
        """The convolution or product `core` with its output channels scaled by c; None when that is not possible."""
        if core.op not in ("nn.conv2d", "nn.conv1d", "matmul") or not isinstance(core.args[1], Constant):
            return None
        weight = core.args[1]
        ndim = core.struct_info.ndim
        axis = ndim - 1 if core.op == "matmul" else 1
        factor = c.data.reshape((1,) * (ndim - c.data.ndim) + c.data.shape)
        channels = core.struct_info.shape[axis]
        if any(s != 1 for n, s in enumerate(factor.shape) if n != axis) or factor.shape[axis] not in (
                1, getattr(channels, "value", -1)):
            return None
        if core.op == "matmul" and weight.data.ndim < 2:
            return None
        flat = factor.reshape(-1)
        shape = (1,) * (weight.data.ndim - 1) + (-1,) if core.op == "matmul" else (-1,) + (1,) * (weight.data.ndim - 1)
        scaled = (weight.data.astype(np.float64) * flat.reshape(shape)).astype(weight.data.dtype)
        return core.replace(args=(core.args[0], Constant(scaled, weight.name), *core.args[2:]))


def _combine(function, a, b):
    wide = function(a.data.astype(np.float64), b.data.astype(np.float64))
    return Constant(wide.astype(a.data.dtype), a.name)
