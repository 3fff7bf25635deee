"""Softmax of small floats stays float32 until the product that reads it."""
from __future__ import annotations

from ..relax.block_builder import call_op
from .graph import GraphRewriter, on_main, uses

SMALL = ("float16", "bfloat16")


@on_main
def keep_shares(func):
    """Ensures that softmax over float16 or bfloat16 is computed and kept in float32 where one product alone reads it:
    the product is float32 as well, and its result is rounded once. Shares that are rounded in between cost attention
    more of its accuracy than all its other steps do.
    """
    return _KeepShares().run(func)


class _KeepShares(GraphRewriter):
    def begin(self, func):
        self.counts = {key: len(users) for key, users in uses(func).items()}

    def call(self, binding, call):
        dtype = getattr(call.struct_info, "dtype", None)
        if call.op != "matmul" or dtype not in SMALL or call.attrs["out_dtype"] or call.attrs["b_layout"] != "KN":
            return call
        softmax = self.producer(call.args[0], "nn.softmax")
        if softmax is None or self.counts.get(id(call.args[0])) != 1:
            return call
        scores, values = (self._wide(v) for v in (softmax.args[0], call.args[1]))
        self.current = call.args[0]
        shares = self.emit(call_op("nn.softmax", scores, **softmax.attrs))
        self.current = binding.var
        product = self.emit(call_op("matmul", shares, values), f"{binding.var.name}_float32")
        return call_op("astype", product, dtype=str(dtype))

    def _wide(self, value):
        """`value` in float32."""
        self.current = value
        return self.emit(call_op("astype", value, dtype="float32"), f"{value.name}_float32")
