"""Modules that emit into the BlockBuilder around: what relax.frontend.nn has as layers, in their first form."""
from __future__ import annotations

import numpy as np

from ....ir.names import unique_name
from ....ir.relax import BlockBuilder, RelaxVar, TensorStructInfo, op
from ....ir.relax.expr import DataflowVar, RelaxExpr
from ....runtime.ndarray import array

_VARS = (RelaxVar, DataflowVar)


def emit(expr, name_hint=""):
    """Bind an expression in the function being built."""
    return BlockBuilder.current().emit(expr, name_hint)


def emit_te(func, *args, **kwargs):
    """Bind a call of what a tensor expression describes."""
    return BlockBuilder.current().emit_te(func, *args, **kwargs)


def checkpoint(func, *args, **kwargs):
    """func(*args, **kwargs), which gradients compute again rather than keep what it computes on the way."""
    return _ended(func(*map(_begun, args), **{k: _begun(v) for k, v in kwargs.items()}))


def emit_checkpoint(func, *args, **kwargs):
    """As checkpoint; the marks are bound to variables named after what they mark, _scp and _ecp."""
    bind = BlockBuilder.current().emit

    def begin(value):
        return bind(op.grad.start_checkpoint(value), f"{value.name_hint}_scp") if isinstance(value, _VARS) else value

    def end(value):
        value = value if isinstance(value, _VARS) else bind(value)
        return bind(op.grad.end_checkpoint(value), f"{value.name_hint}_ecp")
    return _ended(func(*map(begin, args), **{k: begin(v) for k, v in kwargs.items()}), end)


def emit_checkpoint_sequential(functions, segments, input, checkpoint_last=False):  # noqa: A002
    """functions one after another on input, in segments that gradients compute again.

    segments: where each begins, or a number: they begin at every len(functions) // segments of them. checkpoint_last:
    whether the last segment is one, too.
    """
    count = len(functions)
    if isinstance(segments, int) and not 1 <= segments <= count:
        raise ValueError(f"segments is {segments}, there are {count} functions")
    starts = range(0, count, count // segments) if isinstance(segments, int) else segments
    ends = [*starts, count] if starts[-1] != count else list(starts)
    for begin, end in zip(ends, ends[1:]):
        part = _Chain(functions[begin:end])
        last = end == count and not checkpoint_last
        input = part(input) if last else emit_checkpoint(part, input)  # noqa: A001
    return input


class _Chain:
    """Functions one after another, each result bound."""

    def __init__(self, functions):
        self.functions = functions

    def __call__(self, value):
        for f in self.functions:
            value = emit(f(value))
        return value


def _begun(value):
    return op.grad.start_checkpoint(value) if isinstance(value, RelaxExpr) else value


def _ended(result, end=op.grad.end_checkpoint):
    if isinstance(result, (list, tuple)):
        return [end(v) if isinstance(v, RelaxExpr) else v for v in result]
    return end(result)


def Placeholder(shape, dtype="float32", name="data"):  # noqa: N802
    """A variable for an input, under a name that is free in the function being built."""
    builder = BlockBuilder.current()
    name = name if builder is None else unique_name(name, builder.placeholders, "")
    return RelaxVar(name, TensorStructInfo(shape, dtype))


def Parameter(shape, dtype="float32", name="param"):  # noqa: N802
    """A variable for a weight, which Module.parameters finds."""
    return Placeholder(shape, dtype, name)


class Module:
    """Layers and weights as attributes; `forward` emits. __call__ emits what forward gives."""

    def parameters(self):
        """All weights, those of layers inside too."""
        return _weights(self.__dict__)

    def forward(self, input):  # noqa: A002
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


def _weights(value):
    if isinstance(value, RelaxVar):
        return [value]
    if isinstance(value, Module):
        return value.parameters()
    if isinstance(value, dict):
        value = list(value.values())
    return [w for v in value for w in _weights(v)] if isinstance(value, (list, tuple)) else []


def init_params(mod):
    """Random arrays for all parameters of "main"."""
    rng = np.random.default_rng(0)
    infos = [p.struct_info for p in mod["main"].params]
    return [array(rng.random([d.value for d in i.shape]).astype(str(i.dtype))) for i in infos]


class Sequential(Module):
    """Layers one after another."""

    def __init__(self, *modules):
        self.modules = modules

    def forward(self, input):  # noqa: A002
        for module in self.modules:
            input = module(input)  # noqa: A001
        return input


class ReLU(Module):
    def forward(self, input):  # noqa: A002
        return emit(op.nn.relu(input))


class LogSoftmax(Module):
    def forward(self, input):  # noqa: A002
        return emit(op.nn.log_softmax(input))


class Linear(Module):
    """input @ weight + bias; weight: (in features, out features)."""

    def __init__(self, in_features, out_features, bias=True):
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input):  # noqa: A002
        product = emit(op.matmul(input, self.weight))
        return product if self.bias is None else emit(op.add(product, self.bias))
