"""TransposeWeights: constant second operands of products lie along the terms, as products of warpgroups read them."""
from __future__ import annotations

from ..relax.block_builder import call_op
from ..relax.expr import Constant, dataflow_function
from ..relax.ops.contraction import FMA
from .graph import MadeOnce, is_operator, on_main


@on_main
def transpose_weights(func, dtypes=("float16", "bfloat16")):
    """Ensures that matrices of some dtypes that products (matmul) take as constant second operands have the layout
    "NK": each column, which is one sum's terms, lies in a row."""
    once, bindings = MadeOnce(), []
    for binding in func.bindings:
        call = binding.value
        if is_operator(call) and call.op == "matmul" and _is_plain(call, dtypes):
            x, weight = call.args
            turned = once(weight, "transposed", lambda c: Constant(c.data.T.copy(), c.name))
            binding = binding.replace(value=call_op("matmul", x, turned, **{**call.attrs, "b_layout": "NK"}))
        bindings.append(binding)
    return dataflow_function(func.params, bindings, func.outputs, func.attrs)


def _is_plain(call, dtypes):
    weight = call.args[1]
    return call.attrs["arithmetic"] == FMA and call.attrs["b_layout"] == "KN" and isinstance(weight, Constant) and (
        weight.data.ndim == 2 and str(weight.data.dtype) in dtypes)


__all__ = ["transpose_weights"]
