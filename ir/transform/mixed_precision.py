"""ToMixedPrecision: a float32 model whose products are of float16 or bfloat16, with sums of float32."""
from __future__ import annotations

import numpy as np

from ..dtype import DataType
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxTuple
from .graph import GraphRewriter, MadeOnce, on_main

WIDE = "float32"
# Products: their operands are rounded, whatever gives them.
ALWAYS = ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose")
# What stays float32: it leaves the range of float16, adds up many rounded terms, or is a cast itself. Any other operator
# follows its operands: it is computed in the dtype that a product gave one of them.
NEVER = ("exp", "log", "power", "rsqrt", "reciprocal", "sum", "mean", "prod", "cumsum", "cumprod", "variance", "std",
         "logsumexp", "nn.log_softmax", "nn.lstm", "nn.gru", "nn.rnn", "astype", "bitcast", "call_tir", "call_if",
         "call_loop")


@on_main
def to_mixed_precision(func, dtype="float16"):
    """Compute products in a dtype of 16 bits, and what follows them; inputs and outputs stay float32, and so do sums,
    as everywhere (relax/ops/precision.py)."""
    return _ToMixedPrecision(DataType(dtype)).run(func)


class _ToMixedPrecision(GraphRewriter):
    """Each value of float32 that is computed in the dtype is bound once as it is, and once cast to float32 for those
    that need that: dead code where there is none."""

    def __init__(self, dtype):
        self.dtype, self.made = dtype, MadeOnce()

    def call(self, binding, call):
        info = call.struct_info
        if call.op in NEVER or getattr(info, "dtype", None) != WIDE or call.attrs.get("out_dtype"):
            return call
        values = [v for a in call.args for v in (a.fields if isinstance(a, RelaxTuple) else (a,))]
        if call.op not in ALWAYS and all(self._narrow_source(v) is None for v in values):
            return call
        try:
            made = call_op(call.op, *map(self._narrowed, call.args), **call.attrs)
        except ValueError:  # an operator that wants float32
            return call
        if getattr(made.struct_info, "dtype", None) != self.dtype:
            return call
        self.current = binding.var
        return call_op("astype", self.emit(made, f"{binding.var.name}_{self.dtype}"), dtype=WIDE)

    def _narrow_source(self, value):
        """The value of the dtype that a float32 value is a cast of, else None."""
        cast = self.producer(value, "astype")
        return cast.args[0] if cast is not None and cast.args[0].struct_info.dtype == self.dtype else None

    def _narrowed(self, value):
        """An argument in the dtype, where it is one of float32."""
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(map(self._narrowed, value.fields)))
        if getattr(getattr(value, "struct_info", None), "dtype", None) != WIDE:
            return value
        if isinstance(value, Constant):
            return self.made(value, str(self.dtype), self._rounded)
        source = self._narrow_source(value)
        if source is not None:
            return source
        self.current = value
        return self.emit(call_op("astype", value, dtype=str(self.dtype)), f"{value.name}_{self.dtype}")

    def _rounded(self, constant):
        """A constant in the dtype; finite numbers beyond its range become its largest ones."""
        least, most = self.dtype.finite_range()
        data = np.asarray(constant.data)
        held = np.where(np.isfinite(data), np.clip(data, least, most), data)
        return Constant(held.astype(self.dtype.numpy), f"{constant.name}_{self.dtype}" if constant.name else "")


__all__ = ["to_mixed_precision"]
