"""Packed functions called test.vm.*, and a call of a function both ways."""
from __future__ import annotations

import numpy as np

from ....runtime.ndarray import array
from ....runtime.registry import register_func


def _of(function):
    """A packed function that gives what a function of arrays gives."""
    return lambda *tensors: array(np.asarray(function(*(t.numpy() for t in tensors))))


def _into(function):
    """One that fills its last argument with it."""
    return lambda *tensors: tensors[-1].copyfrom(function(*(t.numpy() for t in tensors[:-1])))


_FUNCTIONS = {
    "move": lambda value: value, "add": _of(np.add), "mul": _of(np.multiply), "add_scalar": lambda a, b: a + b,
    "equal_zero": _of(lambda a: (a == 0).all()), "subtract_one": _of(lambda a: a - a.dtype.type(1)),
    "identity": _into(lambda a: a), "tile": _into(lambda a: np.tile(a, (1, 2))),
    "get_device_id": lambda device: device.device_id, "check_if_defined": lambda value: value is not None,
}
for _name, _function in _FUNCTIONS.items():
    register_func(f"test.vm.{_name}", _function, override=True)


def check_saved_func(vm, func_name, *inputs):
    """What a function gives, called and saved; AssertionError where the two differ."""
    vm.save_function(func_name, f"{func_name}_saved", *inputs)
    result, saved = vm[func_name](*inputs), vm[f"{func_name}_saved"]()
    np.testing.assert_allclose(result.numpy(), saved.numpy(), rtol=1e-7, atol=1e-7)
    return result
