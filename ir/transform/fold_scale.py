"""Batch norm and other per-channel scales fold into the weights of the convolution or product before them."""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..tir.stored import stored_form
from .graph import GraphRewriter, constant_last, on_main, uses

# operators that multiply by constant weights -> (their plain layout's attribute and value, output channels' axis of the
# weights, of the result)
_PRODUCTS = {
    "nn.conv1d": ("kernel_layout", "OIW", 0, 1), "nn.conv2d": ("kernel_layout", "OIHW", 0, 1),
    "nn.conv3d": ("kernel_layout", "OIDHW", 0, 1), "nn.conv2d_transpose": ("kernel_layout", "IOHW", 1, 1),
    "matmul": ("b_layout", "KN", -1, -1),
}


@on_main
def decompose_batch_norm(func):
    """Ensures no nn.batch_norm with constant statistics: x * scale + shift, computed in float64; and no nn.dense, which
    is a matmul by a transposed weight."""
    return _DecomposeBatchNorm().run(func)


class _DecomposeBatchNorm(GraphRewriter):
    def call(self, binding, call):
        if call.op == "nn.dense":
            return call_op("matmul", call.args[0], self.emit(call_op("permute_dims", call.args[1])), **call.attrs)
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
        return call_op("add", self.emit(call_op("multiply", x, scale), binding.var.name + "_scaled"), shift)


@on_main
def fold_scale_axis(func):
    """Requires no nn.batch_norm. Ensures that a constant factor of a convolution's (or constant product's) output
    channels is part of its weights, and that constants added or multiplied one after the other are one: (x * a + b) * c
    + d is x * ac + (bc + d).

    Only values that nothing else uses are changed, and only when the combined constants are finite and no larger than
    the larger of the two. Constants of additions and multiplications become second arguments.
    """
    return _FoldScale().run(func)


class _FoldScale(GraphRewriter):
    def begin(self, func):
        found = uses(func)
        self.use_count = {id(b.var): len(found.get(id(b.var), ())) for b in func.bindings}
        self.outputs = {id(out) for out in func.outputs}

    def call(self, binding, call):
        call = constant_last(call)
        if call.op not in ("multiply", "add") or not isinstance(call.args[1], Constant):
            return call
        if not call.struct_info.dtype.is_float:
            return call
        folded = self._plus if call.op == "add" else self._times
        return folded(*call.args) or call

    def _inner(self, x, op=None):
        """The call that computes x when it is used once; of `op` with a constant as second argument when given."""
        found = self.producer(x, op)
        if found is None or self.use_count.get(id(x), 1) != 1:
            return None
        return found if op is None or isinstance(found.args[1], Constant) else None

    def _plus(self, x, c):
        """x + c as one operation on what x is computed from; None when that is not possible."""
        inner = self._inner(x, "add")
        total = inner and _combine(np.add, inner.args[1], c)
        return call_op("add", inner.args[0], total) if total else None

    def _times(self, x, c):
        """x * c likewise, or a variable for the product that x was, with weights times c."""
        inner = self._inner(x, "multiply")
        if inner:
            factor = _combine(np.multiply, inner.args[1], c)
            return call_op("multiply", inner.args[0], factor) if factor else None
        inner = self._inner(x, "add")
        if inner:
            shift, scaled = _combine(np.multiply, inner.args[1], c), self._times(inner.args[0], c)
            return call_op("add", self.named(scaled), shift) if shift and scaled else None
        product = self._inner(x)
        scaled = _scaled_product(product, c) if product else None
        if scaled is None or id(self.current) in self.outputs:  # an output keeps its name
            return scaled
        var = self.emit(scaled, f"{x.name}_scaled", x.origin)  # it is still the product's node
        self.use_count[id(var)] = self.use_count[id(self.current)]
        return var


def _scaled_product(call, c):
    """The convolution or product `call` with its output channels multiplied by c; None when that is not possible."""
    layout, plain, weight_axis, axis = _PRODUCTS.get(call.op, (None,) * 4)
    if layout is None or call.attrs[layout] != plain or not isinstance(call.args[1], Constant):
        return None
    weight, ndim = call.args[1], call.struct_info.ndim
    if stored_form(weight.data) is not None:
        return None  # integers take less memory than what the factor would make of them
    if weight.data.ndim < 2 or weight.struct_info.dtype != call.struct_info.dtype or c.data.ndim > ndim:
        return None
    factor = c.data.reshape((1,) * (ndim - c.data.ndim) + c.data.shape)
    channels = getattr(call.struct_info.shape[axis], "value", None)
    if factor.size != factor.shape[axis] or factor.size not in (1, channels):
        return None  # it varies along another axis than the channels, or repeats the result along one
    if factor.size not in (1, weight.data.shape[weight_axis]):
        return None  # transposed weights have the channels of a group
    shape = [1] * weight.data.ndim
    shape[weight_axis] = -1
    data = _narrowed(weight.data.astype(np.float64) * factor.reshape(shape), weight.data.dtype)
    return None if data is None else call.replace(args=(call.args[0], Constant(data, weight.name), *call.args[2:]))


def _combine(function, a, b):
    """The Constant function(a, b); None when it is larger than both, or not finite."""
    wide = function(a.data.astype(np.float64), b.data.astype(np.float64))
    data = _narrowed(wide, a.data.dtype)
    return None if data is None or data.size > max(a.data.size, b.data.size) else Constant(data, a.name or b.name)


def _narrowed(wide, dtype):
    with np.errstate(over="ignore"):
        data = wide.astype(dtype)
    return data if np.isfinite(data).all() else None
