"""The input's product of a recurrent layer, for all time steps at once, as an operator of its own."""
from __future__ import annotations

import numpy as np

from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.recurrent import CELLS, STEPS, state_parts
from .graph import GraphRewriter, on_main


@on_main
def project_inputs(func):
    """Ensures layers of constant weights and biases (nn.gru, nn.lstm, nn.rnn) are a product of the input with the
    weights of all gates and directions, its bias, and the recurrence over that (nn.gru_steps ...), whose weights are
    stored as its kernel reads them."""
    return _ProjectInputs().run(func)


class _ProjectInputs(GraphRewriter):
    def call(self, binding, call):
        if call.op not in CELLS or not all(isinstance(c, Constant) for c in call.args[1:4]):
            return call
        x, w, r, b, *initial = call.args
        steps, batch, size = x.struct_info.shape
        columns = w.data.shape[0] * w.data.shape[1]
        weights = Constant(np.ascontiguousarray(w.data.reshape(columns, size).T), w.name)
        bias = Constant(np.ascontiguousarray(b.data[:, :w.data.shape[1]]).reshape(columns), b.name)
        state_r, state_b = (Constant(part, c.name) for part, c in zip(state_parts(r.data, b.data), (r, b)))
        name = binding.var.name
        rows = self.emit(call_op("reshape", x, [steps * batch, size]), name + "_rows")
        product = self.emit(call_op("matmul", rows, weights), name + "_product")
        product = self.emit(call_op("add", product, bias), name + "_biased")
        p = self.emit(call_op("reshape", product, [steps, batch, columns]), name + "_projection")
        return call_op(call.op + STEPS, p, state_r, state_b, *initial, **call.attrs)
