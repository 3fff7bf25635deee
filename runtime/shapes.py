"""What callers pass, checked: counts, names, dtypes and shapes of arrays; the values of symbolic dimensions."""
from __future__ import annotations

import numpy as np

from ..ir.dtype import DataType
from ..ir.expr import Var, free_vars
from ..ir.relax.evaluate import dim_value


class InputError(ValueError):
    """An array that does not fit the network's declaration; the message names the input."""


def shape_text(shape):
    """A shape as messages and tables show it: (batch, 3, 224, 224)."""
    return f"({', '.join(str(dim) for dim in shape)}{',' if len(shape) == 1 else ''})"


def inputs_by_name(descs, feeds):
    """The arrays of `feeds` ({ONNX or C name: array}) in the order of `descs`; InputError names what does not fit."""
    position = {name: i for i, desc in enumerate(descs) for name in (desc.name, desc.source_name)}
    arrays = [None] * len(descs)
    for name, array in feeds.items():
        if name not in position:
            raise InputError(f"no input is called {name!r}; the inputs are {_names(descs)}")
        if arrays[position[name]] is not None:
            raise InputError(f"input {name!r} is given twice")
        arrays[position[name]] = array
    missing = [desc.source_name for desc, array in zip(descs, arrays) if array is None]
    if missing:
        raise InputError(f"missing input {', '.join(map(repr, missing))}")
    return arrays


def check_inputs(descs, dims, arrays):
    """Check `arrays` against the declared inputs.

    descs: the inputs (source_name, dtype, shape for messages, dims as expressions); dims: the names of the symbolic
    dimensions. Returns (C-contiguous arrays, {dimension name: value}). A dtype is never changed: InputError.
    """
    if len(arrays) != len(descs):
        raise InputError(f"{len(arrays)} inputs given, {len(descs)} expected: {_names(descs)}")
    arrays = [_check_dtype_and_rank(desc, array) for desc, array in zip(descs, arrays)]
    values, origin = {}, {}
    for desc, array in zip(descs, arrays):
        for dim, extent in zip(desc.dims, array.shape):
            if not isinstance(dim, Var):
                continue
            if values.setdefault(dim.name, extent) != extent:
                raise InputError(f"input {desc.source_name!r}: dimension {dim.name} is {extent}, "
                                 f"but {values[dim.name]} in input {origin[dim.name]!r}")
            origin.setdefault(dim.name, desc.source_name)
    unknown = [dim for dim in dims if dim not in values]
    if unknown:
        raise InputError(f"no input has the dimension {', '.join(unknown)} as a whole axis, so it cannot be inferred")
    for desc, array in zip(descs, arrays):
        if array.shape != shape_of(desc, values):
            raise InputError(_wrong_shape(desc, array))
    return [np.ascontiguousarray(array).reshape(array.shape) for array in arrays], values


def shape_of(desc, values):
    """The shape of a declared input or output as ints, under {dimension name: value}."""
    return tuple(dim_value(dim, {var: values[var.name] for var in free_vars(dim)}) for dim in desc.dims)


def _check_dtype_and_rank(desc, array):
    array = np.asarray(array)
    expected = DataType(desc.dtype).numpy
    if array.dtype != expected:
        raise InputError(f"input {desc.source_name!r}: dtype {array.dtype}, expected {expected}; "
                         f"convert it with .astype({expected.name!r})")
    if array.ndim != len(desc.shape):
        raise InputError(_wrong_shape(desc, array))
    return array


def _wrong_shape(desc, array):
    return f"input {desc.source_name!r}: shape {shape_text(array.shape)}, expected {shape_text(desc.shape)}"


def _names(descs):
    return ", ".join(repr(desc.source_name) for desc in descs) or "none"
