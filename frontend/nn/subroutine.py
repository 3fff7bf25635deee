"""Modules as functions of their own: with define_subroutine = True each call of a module is a call of a function."""
from __future__ import annotations

import functools
import inspect
import re

from ...ir.expr import Var as Dim, free_vars, substitute
from ...ir.relax import BlockBuilder
from ...ir.relax.expr import RelaxCall, RelaxExpr, RelaxVar
from .tensor import Tensor, builder


class SubroutineMixin:
    """define_subroutine: whether calls of forward are calls of a private function, named by the class."""

    define_subroutine = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _dispatching(cls.forward)


def _dispatching(forward):
    """forward, or a call of the function that it makes."""
    @functools.wraps(forward)
    def dispatched(self, *args, **kwargs):
        if not self.define_subroutine:
            return forward(self, *args, **kwargs)
        bb = builder()
        given = dict(inspect.signature(forward).bind(self, *args, **kwargs).arguments)
        given.pop(next(iter(given)))  # self
        wrong = [n for n, a in given.items() if not isinstance(a, (Tensor, RelaxExpr))]
        if wrong:
            raise TypeError(f"{type(self).__name__} is a subroutine; its argument {wrong[0]} must be a tensor, not "
                            f"{type(given[wrong[0]]).__name__}")
        values = [_expr(v) for v in (*given.values(), *self.parameters())]
        func, wraps = _function_of(self, forward, given, bb)
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        out = bb.emit(RelaxCall(bb.add_func(func, name), tuple(values), {}, None), f"{name}_output")
        return Tensor(_expr=out) if wraps else out
    return dispatched


def _expr(value):
    return value._expr if isinstance(value, Tensor) else value


def _function_of(module, forward, given, bb):
    """(the function of arguments `given` and then the parameters, whether it returns a Tensor)"""
    # Under the name of the function that calls it, which no function that it calls can take.
    inner, name = BlockBuilder(bb.get(), separator=""), bb.current_func
    params = list(module.named_parameters())
    outside = [p._expr for _, p in params]
    infos = tuple(v.struct_info for v in (*map(_expr, given.values()), *outside))
    infos = substitute(infos, {d: Dim(d.name, d.dtype) for d in free_vars(infos)})  # functions do not share dimensions
    inputs = [RelaxVar(n, info) for n, info in zip((*given, *(n for n, _ in params)), infos)]
    arguments, weights = inputs[:len(given)], inputs[len(given):]
    try:
        for (_, param), var in zip(params, weights):
            param._expr = var
        with inner.function(name, inputs, private=True):
            with inner.dataflow():
                out = forward(module, *(Tensor(_expr=v) if isinstance(a, Tensor) else v
                                        for v, a in zip(arguments, given.values())))
                result = inner.emit_output(_expr(out))
            made = inner.emit_func_output(result).name  # that of an equal function, where there is one
    finally:
        for (_, param), expr in zip(params, outside):
            param._expr = expr
    for called, func in inner.get().functions.items():
        if called != made:
            bb.add_func(func, called)
    return inner.get()[made], isinstance(out, Tensor)


__all__ = ["SubroutineMixin"]
