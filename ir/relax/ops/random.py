"""random_uniform and random_normal: numbers that a seed and the element's place decide, the same in every run.

The bits of an element are a mix of its row-major place and the seed: multiplications and shifts of 32 bits, as hash
functions use them (Steele, Lea and Flood 2014 give the method). Nothing carries from element to element.
"""
from __future__ import annotations

import math

import numpy as np

from ... import te, tir
from ...dtype import DataType
from ...expr import cast, const
from ...op import REQUIRED, register
from ..expr import TensorStructInfo
from .common import fail, flat_index, shape_argument, te_shape

STEP = 0x9E3779B9  # of a place; odd, so that places have different products
MIXES = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
LAST = 16


def _infer(call):
    """random_uniform(shape) in [low, high), random_normal(shape) of mean and scale."""
    dtype = DataType(call.attrs["dtype"])
    if not dtype.is_float:
        fail(call, f"dtype {dtype} is no floating-point one")
    if not 0 <= call.attrs["seed"] < 1 << 32:
        fail(call, f"seed {call.attrs['seed']} must be an integer of 32 bits")
    return TensorStructInfo(shape_argument(call, 0), dtype)


def _mixed(place, seed, lane):
    """32 mixed bits, of uint32 expressions or arrays alike: `place` is one."""
    x = place * _number(STEP, place) + _number((seed + 0x632BE5AB * lane) & 0xFFFFFFFF, place)
    for shift, factor in MIXES:
        x = _xor(x, _right(x, shift)) * _number(factor, x)
    return _xor(x, _right(x, LAST))


def _number(value, like):
    return np.uint32(value) if isinstance(like, np.ndarray) else const(value, "uint32")


def _xor(a, b):
    return a ^ b if isinstance(a, np.ndarray) else tir.bitwise_xor(a, b)


def _right(a, bits):
    return a >> np.uint32(bits) if isinstance(a, np.ndarray) else tir.shift_right(a, const(bits, "uint32"))


def _unit(bits):
    """A float32 in [0, 1) of the upper 24 bits."""
    upper = _right(bits, 8)
    if isinstance(bits, np.ndarray):
        return upper.astype(np.float32) * np.float32(2.0 ** -24)
    return cast(upper, "float32") * const(2.0 ** -24, "float32")


def _uniform(place, attrs, functions):
    return _unit(_mixed(place, attrs["seed"], 0)) * functions.number(attrs["high"] - attrs["low"]) + functions.number(
        attrs["low"])


def _normal(place, attrs, functions):
    """Box and Muller's transform (1958) of two numbers, the first in (0, 1]."""
    first = functions.number(1.0) - _unit(_mixed(place, attrs["seed"], 0))
    angle = _unit(_mixed(place, attrs["seed"], 1)) * functions.number(2 * math.pi)
    radius = functions.sqrt(functions.log(first) * functions.number(-2.0))
    return radius * functions.cos(angle) * functions.number(attrs["scale"]) + functions.number(attrs["mean"])


class Arrays:
    """Functions of numpy arrays; Expressions are the same of expressions."""

    number, sqrt, log, cos = np.float32, np.sqrt, np.log, np.cos


class Expressions:
    """See Arrays."""

    sqrt, log, cos = map(staticmethod, (tir.sqrt, tir.log, tir.cos))

    @staticmethod
    def number(value):
        return const(float(np.float32(value)), "float32")


def _rows(name, element, **attrs):
    def lower(args, attrs, out):
        shape = te_shape(out)
        return te.compute(shape, lambda *i: cast(element(cast(flat_index(i, shape), "uint32"), attrs, Expressions),
                                                 out.dtype), name=name)

    def evaluate(args, attrs):
        size = int(np.prod(args[0], dtype=np.int64))
        places = np.arange(size, dtype=np.uint64).astype(np.uint32)
        with np.errstate(over="ignore"):
            result = element(places, attrs, Arrays)
        return result.reshape(args[0]).astype(DataType(attrs["dtype"]).numpy)

    register(name, _infer, lower, evaluate, "injective", seed=REQUIRED, dtype="float32", **attrs)


_rows("random_uniform", _uniform, low=0.0, high=1.0)
_rows("random_normal", _normal, mean=0.0, scale=1.0)
