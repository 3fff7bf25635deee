"""Optimizers: each makes a graph function that gives parameters, and its own state, after a step.

    opt = SGD(0.1).init([w, b])            # variables of a model
    mod["SGD"] = opt.get_function()
    params, opt.state = vm["SGD"](params, gradients, opt.state)
"""
from __future__ import annotations

from decimal import Decimal

import numpy as np

from ....ir.dtype import DataType
from ....ir.expr import IntImm
from ....ir.relax.block_builder import BlockBuilder
from ....ir.relax.expr import (DataflowVar, RelaxTuple, RelaxVar, TensorStructInfo, TupleGetItem, TupleStructInfo,
                               const)
from ....ir.relax.op import call as op
from ....runtime.ndarray import array


def _rest(number):
    """1 - number, as it is written: 1 - 0.9 is 0.1."""
    return float(Decimal(1) - Decimal(str(number)))


class Optimizer:
    """param_list: the variables to optimize; dtype: theirs, and that of the state; state: arrays, the first of which is
    the number of steps. All three are None before init."""

    scalars = 0  # of the state, beside the number of steps
    moments = 0  # arrays of the state for each parameter

    def __init__(self, name):
        self.name, self.param_list, self.state, self.dtype = name, None, None, None

    def init(self, params):
        """Take the parameters, one variable or a list of them, and begin the state; the optimizer itself. All must be
        tensors of floats of one dtype and of known shape, else ValueError."""
        params = list(params) if isinstance(params, (list, tuple)) else [params]
        self._require(params)
        self.param_list, self.dtype = params, str(params[0].struct_info.dtype)
        zeros = [np.zeros([int(d) for d in p.struct_info.shape], DataType(self.dtype).numpy) for p in params]
        one = np.ones((), DataType(self.dtype).numpy)
        self.state = tuple(array(a) for a in (np.zeros((), "int64"), *[one] * self.scalars, *zeros * self.moments))
        return self

    @staticmethod
    def _require(params):
        if not params:
            raise ValueError("optimizers take one parameter or more")
        for n, p in enumerate(params):
            if not isinstance(p, (RelaxVar, DataflowVar)):
                raise ValueError(f"parameter {p} is no variable")
            info = p.struct_info
            if not isinstance(info, TensorStructInfo) or not DataType(info.dtype).is_float:
                raise ValueError(f"optimizers take tensors of floats; parameter {p.name} is {info}")
            if info.dims is None or not all(isinstance(d, IntImm) for d in info.dims):
                raise ValueError(f"parameter {p.name} is {info}: its state takes a known shape")
            if info.dtype != params[0].struct_info.dtype:
                raise ValueError(f"parameters must have one dtype: {p.name} has {info.dtype}, {params[0].name} "
                                 f"{params[0].struct_info.dtype}")
            if any(p is other for other in params[:n]):
                raise ValueError(f"parameter {p.name} appears twice")

    def get_function(self):
        """The graph function f(params, gradients, optim_states) -> (params, optim_states), all of them tuples.
        RuntimeError before init."""
        if self.state is None:
            raise RuntimeError(f"{self.name}: Please call init() for the optimizer before calling get_function()")
        infos = [p.struct_info for p in self.param_list]
        steps, scalar = TensorStructInfo((), "int64"), TensorStructInfo((), self.dtype)
        params, gradients, states = (RelaxVar(name, TupleStructInfo(tuple(fields))) for name, fields in (
            ("params", infos), ("gradients", infos),
            ("optim_states", (steps, *[scalar] * self.scalars, *infos * self.moments))))
        builder = BlockBuilder()
        with builder.function(self.name, [params, gradients, states]):
            with builder.dataflow():
                new = _Step(self, builder, params, gradients, states).all()
                outs = [builder.emit_output(RelaxTuple(fields), name) for name, fields in zip(
                    ("params_new", "optim_states_new"), new)]
            builder.emit_func_output(tuple(outs))
        return builder.get()[self.name]

    def number(self, value):
        """A constant of the parameters' dtype."""
        return const(value, self.dtype)

    def begin(self, step):
        """What a step does before all parameters: the scalars of the state after it."""
        return []

    def update(self, step, name, p, g, *moments):
        """(the parameter, its moments ...) after a step along its gradient g."""
        raise NotImplementedError(f"{type(self).__name__} has no update")


class _Step:
    """The function of an optimizer, while it is built."""

    def __init__(self, optimizer, builder, params, gradients, states):
        self.optimizer, self.emit = optimizer, builder.emit
        self.params, self.gradients, self.states = params, gradients, states

    def all(self):
        """(parameters, state) after the step."""
        own = self.optimizer
        steps = self.emit(op("add", self.emit(TupleGetItem(self.states, 0), "num_steps"), const(1, "int64")),
                          "num_steps_new")
        self.scalars = own.begin(self)
        count, first = len(own.param_list), 1 + own.scalars
        found = []
        for n, variable in enumerate(own.param_list):
            name = variable.name
            p = self.emit(TupleGetItem(self.params, n), name)
            g = self.emit(TupleGetItem(self.gradients, n), f"{name}_grad")
            moments = [self.emit(TupleGetItem(self.states, first + k * count + n), f"{name}_{mark}")
                       for k, mark in enumerate(own.marks)]
            if own.weight_decay:
                g = self.emit(op("add", op("multiply", own.number(own.weight_decay), p), g), f"{name}_grad_new")
            found.append(own.update(self, name, p, g, *moments))
        new, *moments = map(list, zip(*found))
        return new, [steps, *self.scalars, *(m for each in moments for m in each)]


class SGD(Optimizer):
    """param - lr * (gradient + weight_decay * param). State: (steps,)."""

    marks = ()

    def __init__(self, lr, weight_decay=0):
        super().__init__("SGD")
        self.lr, self.weight_decay = float(lr), float(weight_decay)

    def update(self, step, name, p, g):
        return (step.emit(op("subtract", p, op("multiply", self.number(self.lr), g)), f"{name}_new"),)


class MomentumSGD(Optimizer):
    """As SGD, along a velocity, momentum * velocity + (1 - dampening) * gradient; nesterov: along gradient + momentum *
    velocity. State: (steps, velocities ...)."""

    moments, marks = 1, ("v",)

    def __init__(self, lr, momentum, dampening=0, weight_decay=0, nesterov=False):
        super().__init__("MomentumSGD")
        self.lr, self.momentum, self.dampening = float(lr), float(momentum), float(dampening)
        self.weight_decay, self.nesterov = float(weight_decay), nesterov

    def update(self, step, name, p, g, v):
        momentum = self.number(self.momentum)
        damped = op("multiply", self.number(_rest(self.dampening)), g) if self.dampening else g
        v = way = step.emit(op("add", op("multiply", momentum, v), damped), f"{name}_v_new")
        if self.nesterov:
            way = step.emit(op("add", g, op("multiply", momentum, v)), f"{name}_g_nest")
        return step.emit(op("subtract", p, op("multiply", self.number(self.lr), way)), f"{name}_new"), v


class Adam(Optimizer):
    """Adam (Kingma, Ba). State: (steps, betas[0] to the power of steps, betas[1] likewise, first moments ..., second
    moments ...)."""

    scalars, moments, marks = 2, 2, ("m", "v")

    def __init__(self, lr, betas=(0.9, 0.999), eps=1e-08, weight_decay=0):
        super().__init__("Adam")
        self.lr, self.betas = float(lr), tuple(map(float, betas))
        self.eps, self.weight_decay = float(eps), float(weight_decay)

    def begin(self, step):
        return [step.emit(op("multiply", TupleGetItem(step.states, n), self.number(beta)), f"beta{n}_prod")
                for n, beta in enumerate(self.betas, 1)]

    def update(self, step, name, p, g, m, v):
        averages = [step.emit(op("add", op("multiply", self.number(beta), old),
                                 op("multiply", self.number(_rest(beta)), new)), f"{name}_{mark}_new")
                    for beta, old, new, mark in zip(self.betas, (m, v), (g, op("multiply", g, g)), self.marks)]
        m_hat, v_hat = (step.emit(op("divide", average, op("subtract", self.number(1), power)), f"{name}_{mark}_hat")
                        for average, power, mark in zip(averages, step.scalars, self.marks))
        way = op("divide", m_hat, op("add", op("sqrt", v_hat), self.number(self.eps)))
        return (step.emit(op("subtract", p, op("multiply", self.number(self.lr), way)), f"{name}_new"), *averages)


__all__ = ["Adam", "MomentumSGD", "Optimizer", "SGD"]
