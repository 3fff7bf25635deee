"""tvm.topi.nn: operators of networks (ir/topi). TVM's modules below it, such as topi.nn.pooling, are this one."""
from ....ir import topi as _topi
from ....ir.topi.convolutions import FUNCTIONS as _FUNCTIONS


def __getattr__(name):
    return _FUNCTIONS[name] if name in _FUNCTIONS else getattr(_topi.nn, name)


def __dir__():
    return sorted({*dir(_topi.nn), *_FUNCTIONS})
