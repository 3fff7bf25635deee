"""torch's dtypes as ours, its tensors as arrays, and how it promotes operands."""
from __future__ import annotations

from importlib import import_module

import numpy as np

from ...ir.dtype import DataType

_NAMES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
          "short": "int16", "char": "int8", "byte": "uint8"}
DEFAULTS = ("bool", "int64", "float32")  # of Python's numbers, by category


def torch():
    """The package, which is loaded where something of it is called. ModuleNotFoundError names the extra."""
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("PyTorch is not installed: pip install 'ingot[torch]'", name="torch") from error


def is_dtype(value):
    """Whether a value is one of torch's dtypes."""
    return type(value).__module__ == "torch" and type(value).__name__ == "dtype"


def dtype_of(value):
    """Our name of torch.float32, "torch.float32" or "float". ValueError for what has none."""
    name = str(value).lower().rpartition(".")[2]
    name = _NAMES.get(name, name)
    try:
        return str(DataType(name))
    except ValueError as error:
        raise ValueError(f"tensors of dtype {value} are not supported") from error


def array_of(tensor):
    """A torch tensor as a numpy array, which shares its memory where it is dense and on the CPU."""
    tensor = tensor.detach().cpu()
    name = dtype_of(tensor.dtype)
    if name == "bfloat16":  # numpy has no such dtype; the bits are the same
        return tensor.contiguous().view(tensor.new_empty(0).short().dtype).numpy().view(DataType(name).numpy)
    return np.ascontiguousarray(tensor.resolve_conj().resolve_neg().numpy()).reshape(tuple(tensor.shape))


def category(dtype):
    """0 of bool, 1 of integers, 2 of floats."""
    dtype = DataType(str(dtype))
    return 0 if dtype.is_bool else 2 if dtype.is_float else 1


def wider(a, b):
    """The dtype that both convert to: of floats and integers the float's, else the smallest that holds both."""
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if a == b:
        return a
    if category(a) == 2 and {"float16", "bfloat16"} == {a, b}:
        return "float32"
    if "bfloat16" in (a, b):
        return b if a == "bfloat16" else a
    return str(np.result_type(a, b))


def promoted(tensors, scalars, numbers):
    """The dtype of a result, as torch promotes. tensors: dtypes of operands with dimensions; scalars: of those without;
    numbers: categories of Python's. A later group counts only where its category is above that of those before."""
    found = None
    for group in (tensors, scalars):
        best = None
        for dtype in group:
            best = dtype if best is None else wider(best, dtype)
        if best is not None and (found is None or category(best) > category(found)):
            found = best
    most = max(numbers, default=-1)
    return DEFAULTS[most] if found is None or most > category(found) else found


__all__ = ["array_of", "category", "dtype_of", "is_dtype", "promoted", "torch", "wider"]
