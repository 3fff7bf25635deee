"""Operators that do nothing go; chains of transposes and reshapes shrink."""
from __future__ import annotations

import numpy as np

from ..node import structural_equal
from ..relax.block_builder import call_op
from ..relax.expr import Constant, TensorStructInfo
from .graph import GraphRewriter, on_main


@on_main
def remove_identities(func):
    """Ensures no operator of the table below that returns its first argument unchanged, no transpose of a transpose, no
    view of a view."""
    return _RemoveIdentities().run(func)


def _neutral(value):
    def check(call):
        c = call.args[1]
        return isinstance(c, Constant) and c.struct_info.dtype == call.struct_info.dtype and bool(np.all(c.data == value))
    return check


# operator -> whether this call returns args[0] unchanged, given that dtype and shape agree
_IDENTITY = {
    "add": _neutral(0), "subtract": _neutral(0), "multiply": _neutral(1), "divide": _neutral(1), "power": _neutral(1),
    "reshape": lambda c: True, "expand_dims": lambda c: True, "squeeze": lambda c: True, "broadcast_to": lambda c: True,
    "astype": lambda c: True,
    "permute_dims": lambda c: tuple(c.attrs["axes"]) == tuple(range(c.struct_info.ndim)),
    "concat": lambda c: len(c.args) == 1,
    "nn.pad": lambda c: not any(c.attrs["pad_width"]),
    "strided_slice": lambda c: all(s > 0 for s in c.attrs["strides"]),  # equal shape and forward: the whole
    "tile": lambda c: True,
    "mean": lambda c: True, "sum": lambda c: True, "max": lambda c: True, "min": lambda c: True,
}
_REDUCTIONS = ("mean", "sum", "max", "min")
VIEWS = ("reshape", "expand_dims", "squeeze")


class _RemoveIdentities(GraphRewriter):
    def call(self, binding, call):
        check = _IDENTITY.get(call.op)
        if check and call.args and isinstance(call.struct_info, TensorStructInfo):
            first = call.args[0].struct_info
            if structural_equal(first, call.struct_info) and check(call) and not self._reduces(call):
                return call.args[0]
        if call.op in VIEWS:
            return self._view(call)
        if call.op == "permute_dims":
            return self._transpose(call)
        return call

    @staticmethod
    def _reduces(call):
        """A reduction that keeps the shape still computes, unless every reduced extent is 1: then it is an identity."""
        return call.op in _REDUCTIONS and any(getattr(s, "value", 0) != 1 for s in (
            call.struct_info.shape if call.attrs["axis"] is None else
            [call.struct_info.shape[a] for a in call.attrs["axis"]]))

    def _view(self, call):
        inner = self.producer(call.args[0])
        if inner is not None and inner.op in VIEWS:
            source = inner.args[0]
            if structural_equal(source.struct_info, call.struct_info):
                return source
            return call_op("reshape", source, list(call.struct_info.shape))
        return call

    def _transpose(self, call):
        inner = self.producer(call.args[0], "permute_dims")
        if inner is None:
            return call
        axes = tuple(inner.attrs["axes"][a] for a in call.attrs["axes"])
        if axes == tuple(range(len(axes))):
            return inner.args[0]
        return call_op("permute_dims", inner.args[0], axes=axes)
