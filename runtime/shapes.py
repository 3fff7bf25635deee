"""Check the arguments of callers: counts, names, dtypes and shapes of arrays; the values of symbolic dimensions."""
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..ir.dtype import DataType
from ..ir.expr import Var, free_vars, substitute
from ..ir.relax.evaluate import dim_value, solve_dims


class InputError(ValueError, RuntimeError):
    """An array that does not fit the network's declaration; the message names the input."""


def shape_text(shape):
    """A shape as messages and tables show it: (batch, 3, 224, 224)."""
    return f"({', '.join(str(dim) for dim in shape)}{',' if len(shape) == 1 else ''})"


def no_such_input(name, names):
    """The InputError for a name that is none of an input."""
    return InputError(f"no input is called {name!r}; the inputs are {', '.join(map(repr, names))}")


def wrong_count(values, names):
    """The InputError for too few or too many values of the inputs."""
    return InputError(f"{len(values)} inputs given, {len(names)} expected: {', '.join(map(repr, names)) or 'none'}")


def inputs_by_name(descs, feeds):
    """The arrays of `feeds` ({ONNX or C name: array}) in the order of `descs`; InputError names what does not fit."""
    position = {name: i for i, desc in enumerate(descs) for name in (desc.name, desc.source_name)}
    arrays = [None] * len(descs)
    for name, array in feeds.items():
        if name not in position:
            raise no_such_input(name, [desc.source_name for desc in descs])
        if arrays[position[name]] is not None:
            raise InputError(f"input {name!r} is given twice")
        arrays[position[name]] = array
    missing = [desc.source_name for desc, array in zip(descs, arrays) if array is None]
    if missing:
        raise InputError(f"missing input {', '.join(map(repr, missing))}")
    return arrays


class TensorSpec:
    """A declared input or output, looked through once so that calls are quick.

    name: the model's; dtype: numpy's; shape: ints, or texts of symbolic dimensions, for messages; decided:
    whether each run decides it.
    """

    def __init__(self, desc):
        self.name, self.shape, self.updated = desc.source_name, tuple(desc.shape), getattr(desc, "updated", False)
        self.dtype = DataType(desc.dtype).numpy
        self.axes = [(axis, dim) for axis, dim in enumerate(desc.dims) if isinstance(dim, Var)]
        self.dims = desc.dims
        self._dims = [(dim, free_vars(dim)) for dim in desc.dims]
        symbolic = any(variables for _, variables in self._dims)
        self._static = None if symbolic else tuple(dim_value(dim, {}) for dim in desc.dims)
        most = {v: v.most for _, variables in self._dims for v in variables if v.most is not None}
        self.decided = bool(most)
        if most:
            self._room = TensorSpec(replace(desc, dims=tuple(substitute(dim, most) for dim in desc.dims)))

    def fits(self, array):
        """Whether a call can take an array as it is: a quick answer, False where it takes a closer look."""
        return (not self.updated and type(array) is np.ndarray and array.shape == self._static
                and array.dtype == self.dtype and array.flags.c_contiguous)

    def concrete(self, values):
        """The shape as ints, under {dimension name: value}."""
        if self._static is not None:
            return self._static
        return tuple(dim_value(dim, {var: values[var.name] for var in variables}) for dim, variables in self._dims)

    def room(self, values):
        """A new array for an output; where runs decide its shape, one in a row of the largest size."""
        return np.empty(self.room_shape(values), self.dtype)

    def room_shape(self, values):
        """The shape of that array."""
        return (math.prod(self._room.concrete(values)),) if self.decided else self.concrete(values)

    def filled(self, array, values):
        """The result that a run wrote into the array `room`, or into a CudaArray of that shape, in its own shape."""
        if not self.decided:
            return array
        shape = self.concrete(values)
        return array.head(shape) if hasattr(array, "head") else array[:math.prod(shape)].reshape(shape)

    def wrong_shape(self, array):
        return InputError(f"input {self.name!r}: shape {shape_text(array.shape)}, expected {shape_text(self.shape)}")


def check_inputs(specs, dims, arrays, given=None):
    """Check `arrays` against the TensorSpecs of the inputs; dims: the names of the symbolic dimensions; given: {name:
    value} of those that the caller says.

    Returns (sequence of C-contiguous arrays, {dimension name: value}). A dtype is never changed: InputError.
    """
    if not dims and len(arrays) == len(specs) and all(map(TensorSpec.fits, specs, arrays)):
        return arrays, {}
    if len(arrays) != len(specs):
        raise wrong_count(arrays, [spec.name for spec in specs])
    arrays = [_check_dtype_and_rank(spec, array) for spec, array in zip(specs, arrays)]
    values = _infer_dims(specs, dims, arrays, given or {}) if dims else {}
    for spec, array in zip(specs, arrays):
        if array.shape != spec.concrete(values):
            raise spec.wrong_shape(array)
    return [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays], values


def _check_dtype_and_rank(spec, array):
    array = np.asarray(array)
    if array.dtype != spec.dtype:
        raise InputError(f"input {spec.name!r}: dtype {array.dtype}, expected {spec.dtype}; "
                         f"convert it with .astype({spec.dtype.name!r})")
    if array.shape == (1,) and not spec.shape:  # what np.ascontiguousarray makes of a number
        array = array.reshape(())
    if array.ndim != len(spec.shape):
        raise spec.wrong_shape(array)
    if spec.updated and not (array.flags.c_contiguous and array.flags.writeable):
        raise InputError(f"input {spec.name!r}: a run writes to it, so it must be writeable and contiguous: copy it")
    return array


def _checked(spec, dim, extent):
    """The extent of a symbolic dimension, if it may have it."""
    if extent < (least := 0 if dim.may_be_zero else 1):
        raise InputError(f"input {spec.name!r}: dimension {dim.name} is {extent}, it must be at least {least}")
    return extent


def _infer_dims(specs, dims, arrays, given):
    """{dimension name: value} from the axes that are one symbolic dimension as a whole, or a sum of others and one."""
    values, origin = dict(given), dict.fromkeys(given, "the call")
    for spec, array in zip(specs, arrays):
        for axis, dim in spec.axes:
            extent = array.shape[axis]
            if values.setdefault(dim.name, _checked(spec, dim, extent)) != extent:
                raise InputError(f"input {spec.name!r}: dimension {dim.name} is {extent}, "
                                 f"but {values[dim.name]} in input {origin[dim.name]!r}")
            origin.setdefault(dim.name, spec.name)
    for spec, array in zip(specs, arrays):
        for pair in zip(array.shape, spec.dims):
            found = {v: values[v.name] for v in free_vars(pair[1]) if v.name in values}
            solve_dims([pair], found)  # a sum, of which no other axis tells one term
            values.update((v.name, _checked(spec, v, value)) for v, value in found.items())
    unknown = [dim for dim in dims if dim not in values]
    if unknown:
        raise InputError(f"no input has the dimension {', '.join(unknown)} as a whole axis, so it cannot be inferred: "
                         "give it to run() by its name")
    return values
