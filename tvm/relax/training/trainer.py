"""Trainer: parameters, states and an optimizer's state, and the steps that change them."""
from __future__ import annotations

import numpy as np

from ....ir.dtype import DataType
from ....runtime.ndarray import array
from .setup_trainer import ADJOINT, BACKBONE, LOSS, OPTIMIZER


class Trainer:
    """Runs what SetupTrainer made of a model, built as `vm`.

        trainer = Trainer(train_mod, vm, tvm.cpu(), False)
        trainer.xaiver_uniform_init_params()
        loss = trainer.update(inputs, targets)
        y = trainer.predict(x)

    zero_init_param_state: whether parameters and states begin as zeros.
    """

    BACKBONE_FUNC, BACKBONE_LOSS_FUNC, ADJOINT_FUNC, OPTIMIZER_FUNC = BACKBONE, LOSS, ADJOINT, OPTIMIZER

    def __init__(self, train_mod, vm, device, zero_init_param_state=True):
        self.mod, self.vm, self.device = train_mod.without_attr("optim_state"), vm, device
        counts = [int(train_mod.attrs[k]) for k in ("input_num", "param_num", "state_num")]
        self._input_num, self._param_num, self._state_num = counts
        self._optim_state = [self._array(a) for a in train_mod.attrs["optim_state"]]
        variables = train_mod[ADJOINT].params[self._input_num:]
        self._param_vars, self._state_vars = (
            variables[:self._param_num], variables[self._param_num:self._param_num + self._state_num])
        self._params, self._states = [None] * self._param_num, [None] * self._state_num
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def _array(self, value):
        return array(getattr(value, "numpy", lambda: value)(), self.device)

    # ------------------------------------------------------------ parameters and states

    def _made(self, variables, make):
        """Arrays of the variables' shapes and dtypes."""
        return [self._array(np.asarray(make([int(d) for d in v.struct_info.shape])).astype(
            DataType(v.struct_info.dtype).numpy)) for v in variables]

    def xaiver_uniform_init_params(self):
        """Random parameters, evenly within sqrt(6 / the sum of the dimensions) of 0 (Glorot, Bengio). TVM's spelling."""
        self._params = self._made(self._param_vars, lambda shape: np.sqrt(6.0 / max(np.sum(shape), 1)) *
                                  np.random.uniform(-1.0, 1.0, shape))

    def zero_init_params(self):
        """Parameters of zeros."""
        self._params = self._made(self._param_vars, np.zeros)

    def zero_init_states(self):
        """States of zeros."""
        self._states = self._made(self._state_vars, np.zeros)

    def load_params(self, params):
        """Set parameters: all, a list, or some, {name: array}."""
        self._params = self._loaded("parameter", params, self._param_vars, self._params)

    def load_states(self, states):
        """Set states: all, a list, or some, {name: array}."""
        self._states = self._loaded("state", states, self._state_vars, self._states)

    def _loaded(self, what, given, variables, known):
        names = [v.name for v in variables]
        if isinstance(given, dict):
            unknown = [k for k in given if k not in names]
            if unknown:
                raise ValueError(f"the model has no {what} {unknown[0]}; it has {', '.join(names) or 'none'}")
            return [self._fitting(what, v, given[v.name]) if v.name in given else old for v, old in zip(variables, known)]
        if not isinstance(given, (list, tuple)):
            raise ValueError(f"{what}s are a list or a dict, not a {type(given).__name__}")
        if len(given) != len(names):
            raise ValueError(f"the model has {len(names)} {what}s, got {len(given)}")
        return [self._fitting(what, v, a) for v, a in zip(variables, given)]

    def _fitting(self, what, variable, value):
        """An array of the variable's shape and dtype. ValueError."""
        made, info = self._array(value), variable.struct_info
        if tuple(made.shape) != tuple(map(int, info.shape)) or made.dtype != info.dtype:
            raise ValueError(f"{what} {variable.name} is {info}, got {made.dtype}{list(made.shape)}")
        return made

    def export_params(self):
        """{name: parameter}."""
        return {v.name: a for v, a in zip(self._param_vars, self._params)}

    def export_states(self):
        """{name: state}."""
        return {v.name: a for v, a in zip(self._state_vars, self._states)}

    # ------------------------------------------------------------ runs

    def _arguments(self, inputs, targets=()):
        for variable, value in zip((*self._param_vars, *self._state_vars), (*self._params, *self._states)):
            if value is None:
                raise RuntimeError(f"{variable.name} has no value yet: load parameters and states, or begin with zeros")
        inputs, targets = (v if isinstance(v, (list, tuple)) else [v] for v in (inputs, targets))
        if len(inputs) != self._input_num:
            raise ValueError(f"the model takes {self._input_num} inputs, got {len(inputs)}")
        return [*map(self._array, inputs), *self._params, *self._states, *map(self._array, targets)]

    def predict(self, *input_instances):
        """What the model gives for its inputs, without states."""
        given = self._arguments(input_instances)
        result = self.vm[BACKBONE](*given)
        if not self._state_num:
            return result
        result = result[:-self._state_num]
        return result[0] if len(result) == 1 else result

    def update(self, input_instances, targets):
        """One step: the loss before it. Several inputs or targets are lists."""
        all_inputs = self._arguments(input_instances, targets)
        given, gradients = self.vm[ADJOINT](*all_inputs)
        if self._state_num:
            given, *self._states = given
        params, state = self.vm[OPTIMIZER](self._params, gradients, self._optim_state)
        self._params, self._optim_state = list(params), list(state)
        return given

    def profile_adjoint(self, input_instances, targets):
        """The VirtualMachine's report on a run of the function that gives loss and gradients."""
        return self.vm.profile(ADJOINT, *self._arguments(input_instances, targets))


__all__ = ["Trainer"]
