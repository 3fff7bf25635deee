"""tvm.testing.utils: gradients held against differences, and what tutorials call first."""
from __future__ import annotations

import numpy as np


def check_numerical_grads(function, input_values, grad_values, function_value=None, delta=1e-3, atol=1e-2, rtol=0.1):
    """Raise AssertionError unless gradients agree with differences of a function; ValueError where one is not finite.

    function: of arrays, in order or by name as input_values are, a list or a dict; it gives a number. grad_values: the
    gradients that are checked, in the same form. function_value: what it gives there. delta: the steps' size. Of each
    gradient, of n elements, the distance may be atol * sqrt(n) + rtol * its norm.
    """
    named = isinstance(input_values, dict)
    values = dict(input_values) if named else dict(enumerate(input_values))
    gradients = dict(grad_values) if named else dict(enumerate(grad_values))

    def at(changed):
        given = {**values, **changed}
        return function(**given) if named else function(*given.values())
    begin = at({}) if function_value is None else function_value

    def close(difference, gradient):
        return abs(difference - gradient) < atol + rtol * abs(difference)

    for name, gradient in gradients.items():
        gradient, value = np.asarray(gradient), np.asarray(values[name])
        if gradient.shape != value.shape:
            raise AssertionError(f"the gradient of {name} has shape {gradient.shape}, {name} has {value.shape}")
        found = np.zeros(gradient.shape)
        for place in np.ndindex(gradient.shape):
            def slope(step):
                moved = value.copy()
                moved[place] += step
                return (at({name: moved}) - begin) / step
            found[place] = _refined(slope, delta, lambda d: close(d, gradient[place]))
        _require_close(name, gradient, found, atol, rtol)


def _refined(slope, delta, good):
    """A derivative by as few differences as are good: one ahead, two, or four, with an error of the fourth order."""
    first = slope(delta)
    if good(first):
        return first
    second = (slope(-delta) + first) / 2
    if good(second):
        return second
    half = (slope(delta / 2) + slope(-delta / 2)) / 2
    return (4 * half - second) / 3


def _require_close(name, gradient, found, atol, rtol):
    distance, norm = np.linalg.norm((found - gradient).ravel()), np.linalg.norm(found.ravel())
    if not np.isfinite(distance) or not np.isfinite(norm):
        raise ValueError(f"the gradient of {name} is not finite: {gradient}, by differences {found}")
    if distance > atol * np.sqrt(gradient.size) + rtol * norm:
        worst = np.unravel_index(np.argmax(abs(found - gradient)), gradient.shape)
        raise AssertionError(f"the gradient of {name} differs from differences by {distance}, most at {worst}: "
                             f"{gradient[worst]}, by differences {found[worst]}")


def install_request_hook(depth):
    """TVM's build of its documentation has downloads go to a mirror; here they go to the addresses that scripts name."""


__all__ = ["check_numerical_grads", "install_request_hook"]
