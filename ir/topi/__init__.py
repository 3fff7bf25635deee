"""The operator library over te tensors, with TVM's names: topi.add(A, B), topi.nn.conv2d(data, kernel, 1, 0, 1).

Every function is a row (or a few) of the operator table, inferred and lowered as the graph operator of the same meaning
is: te.Tensors in, a te.Tensor out, numbers broadcast, dimensions may be symbolic. The tables say under which name, and
with which arguments in which order. Schedules of stages (topi.cuda, topi.generic) are tvm.topi's.
"""
from __future__ import annotations

import math as _math
import sys as _sys

from .. import op as _op_table
from ..relax import op as _op
from ..relax.classic import Group as _Group, Namespace as _Namespace
from ..relax.composites import SHARED as _SHARED, layout_transform as _layout_transform
from ..upper import provides as _provides
from . import (convolutions as _convolutions, elements as _elements, gradients as _gradients, images as _images,
               network as _network, reductions as _reductions, shapes as _shapes, tensors as _tensors, windows as _windows)
from . import utils  # noqa: F401
from .apply import apply as _apply
from .stages import named as _named

_OPS = _op_table.OPS
_SIGNATURES = {
    **{name: f"{name}: x " + " ".join(spec.attrs) for name, spec in _OPS.items() if spec.kind == "elementwise"},
    **{name: f"{name}: lhs rhs" for name, spec in _OPS.items() if spec.kind == "broadcast" and spec.arity == (2, 2)},
    "identity": "copy: x", "fast_exp": "exp: x", "fast_tanh": "tanh: x", "fast_erf": "erf: x",
    "broadcast_to": "broadcast_to: data shape", "transpose": "permute_dims: a axes",
    "strided_slice": "strided_slice: a begin end strides axes",
    "one_hot": "one_hot: indices on_value off_value depth axis dtype",
    **{name: f"{name}: data axis dtype exclusive" for name in ("cumsum", "cumprod")},
    "nn.fast_softmax": "nn.softmax: x axis",
    "nn.instance_norm": "nn.instance_norm: data gamma beta channel_axis axes epsilon",
}


def _logarithm(base):
    return lambda ops, x: ops("multiply", ops("log", x), 1 / _math.log(base))


def _elemwise_sum(ops, xs):
    result = xs[0]
    for x in xs[1:]:
        result = ops("add", result, x)
    return result


_COMPOSITES = {
    **{name: f for name, f in _SHARED.items() if name not in ("flatten", "zeros", "ones")}, **_network.COMPOSITES,
    **_convolutions.COMPOSITES, **_images.COMPOSITES, **_tensors.COMPOSITES, **_elements.COMPOSITES,
    **_reductions.COMPOSITES, **_shapes.COMPOSITES, **_windows.COMPOSITES, **_gradients.COMPOSITES,
    "elemwise_sum": _elemwise_sum,
    "layout_transform": _layout_transform,
    "gather": lambda ops, data, axis, indices: ops("gather_elements", data, indices, axis),
    "flip": lambda ops, a, axis=0: ops("flip", a, axis),
    "log2": _logarithm(2), "log10": _logarithm(10),
}


class _Topi(_Namespace):
    def call(self, name, /, *args, **kwargs):
        return _named(name, super().call(name, *args, **kwargs))


_operators = _Namespace(_op.SIGNATURES, _apply, _SHARED)
_namespace = _Topi(_SIGNATURES, _apply, _COMPOSITES, "topi.", _operators.call)
math = broadcast = reduction = transform = tensor = _Group(_namespace, "")  # TVM's modules, whose names are all flat


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return _namespace.member(name)


def __dir__():
    return sorted({n.partition(".")[0] for n in _namespace.names()})


_provides("topi")(_sys.modules[__name__])
