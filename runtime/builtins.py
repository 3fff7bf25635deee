"""What calls of the runtime in graph functions do,
and the packed functions "vm.builtin.*" that programs call by name."""
from __future__ import annotations

import numpy as np

from ..ir.dtype import DataType
from .binding import aligned_empty
from .convert import String  # noqa: F401 - scripts find it here
from .ndarray import NDArray, empty
from .registry import register_func


class ShapeTuple(tuple):
    """A shape as a value; equal to any sequence of the same numbers."""

    __slots__ = ()

    def __eq__(self, other):
        return tuple(self) == tuple(other) if isinstance(other, (list, tuple)) else NotImplemented

    __hash__ = tuple.__hash__


class Closure:
    """A function with its last arguments."""

    def __init__(self, function, bound):
        self.function, self.bound = function, tuple(bound)

    def __call__(self, *args):
        return self.function(*args, *self.bound)


def flat_sizes(args):
    """Arguments of a kernel, shapes as their numbers."""
    for a in args:
        yield from (a if isinstance(a, ShapeTuple) else (a,))


def plain(value):
    """A value as the reference evaluation has it."""
    if isinstance(value, NDArray):
        return value.__array__()
    return tuple(map(plain, value)) if isinstance(value, tuple) and not isinstance(value, ShapeTuple) else value


# ---------------------------------------------------------------- calls

def _storage(size):
    return aligned_empty(max(int(size), 1), 64)


def _tensor_in(storage, offset, shape, dtype):
    return _view(NDArray(storage.__array__()), shape, dtype, offset)


def _view(data, shape=None, dtype=None, relative_byte_offset=None):
    return data._create_view(data.shape if shape is None else tuple(map(int, shape)), dtype,
                             int(relative_byte_offset or 0))


def _shown(value):
    """A value as text: arrays as numpy's, tuples of them in parentheses."""
    if isinstance(value, (tuple, list)) and not isinstance(value, ShapeTuple):
        return f"({', '.join(map(_shown, value))})"
    return str(value.numpy() if isinstance(value, NDArray) else value)


def print_values(values, text):
    """R.print: values in a format, or side by side."""
    shown = list(map(_shown, values))
    print(text.format(*shown) if text else " ".join(shown))
    return ()


def assert_holds(condition, *values, text=""):
    """R.assert_op. Raises AssertionError, with the values in a format, or one behind the other."""
    if not bool(np.asarray(plain(condition))):
        several = len(values) == 1 and isinstance(values[0], tuple) and not isinstance(values[0], ShapeTuple)
        shown = list(map(_shown, values[0] if several else values))
        raise AssertionError(text.format(*shown) if text else ", ".join(shown) or "Assertion Failed")
    return ()


def _axis(a, n):
    """An axis of a tensor, counted from 0. IndexError where it has none of this number."""
    if not 0 <= n < a.ndim:
        raise IndexError(f"a tensor of {a.ndim} dimensions has no axis {n}")
    return int(n)


_FACTS = {  # "tensor_" + name -> what it says of an NDArray
    "ndim": lambda a: a.ndim, "byte_offset": lambda a: a.byte_offset,
    "elem_offset": lambda a: a.byte_offset // a.elements.itemsize,
    "shape_i": lambda a, n: a.shape[_axis(a, n)],
    "stride_i": lambda a, n: a.elements.strides[_axis(a, n)] // a.elements.itemsize,
    "dtype_bits": lambda a: DataType(a.dtype).bits, "dtype_lanes": lambda a: DataType(a.dtype).lanes,
    "dtype_code": lambda a: DataType(a.dtype).type_code,
}


def _inspected(name):
    found = _FACTS[name.removeprefix("tensor_")]
    return lambda data, *rest: int(found(data, *rest))


PLAIN_CALLS = {  # name -> function of the arguments' values
    "builtin.alloc_tensor": lambda shape, dtype, *_: empty(shape, dtype),
    "memory.alloc_storage": lambda size, *_: _storage(np.prod(size, dtype=np.int64)),
    "vm.alloc_storage": lambda size, device, dtype="uint8", *_: _storage(
        np.prod(size, dtype=np.int64) * DataType(dtype).numpy.itemsize),
    **dict.fromkeys(("memory.alloc_tensor", "vm.alloc_tensor"), _tensor_in),
    **dict.fromkeys(("memory.kill_storage", "memory.kill_tensor", "vm.kill_object"), lambda value: ()),
    **dict.fromkeys(("memory.ensure_zero_offset", "builtin.stop_lift_params"), lambda value: value),
    "vm.call_tir_dyn": lambda function, *args: (function(*flat_sizes(args)), ())[1],
    "memory.view": _view, "null_value": lambda: None,
    "tensor_to_shape": lambda x: ShapeTuple(x.numpy().tolist()), "shape_of": lambda x: ShapeTuple(x.shape),
    "make_closure": lambda function, args: Closure(function, tuple(args)),
    **dict.fromkeys(("invoke_closure", "invoke_pure_closure"), lambda closure, args, *_: closure(*args)),
    **{f"inspect.{n}": _inspected(n) for n in (
        "tensor_ndim", "tensor_dtype_bits", "tensor_dtype_lanes", "tensor_byte_offset", "tensor_elem_offset",
        "tensor_shape_i", "tensor_stride_i", "tensor_dtype_code")},
}

# "vm.builtin.NAME" -> function; those with `state` take the machine first, which has nothing to say here
_BY_NAME = {
    **{name: PLAIN_CALLS[name] for name in ("shape_of", "tensor_to_shape", "null_value")},
    "call_tir_dyn": PLAIN_CALLS["vm.call_tir_dyn"],
    "alloc_storage": lambda state, *args: PLAIN_CALLS["vm.alloc_storage"](*args),
    "alloc_tensor": lambda storage, offset, shape, dtype, *_: _tensor_in(storage, offset, shape, dtype),
    "make_closure": lambda function, *bound: Closure(function, bound),
    "invoke_closure": lambda state, closure, *args: closure(*args),
    "copy": lambda value: value, "reshape": lambda data, shape: _view(data, shape),
    "read_if_cond": lambda condition: bool(np.asarray(plain(condition))),
    "make_tuple": lambda *values: values, "tuple_getitem": lambda values, index: values[index],
    "make_shape_tuple": lambda *sizes: ShapeTuple(map(int, sizes)),
}
for _name, _function in _BY_NAME.items():
    register_func(f"vm.builtin.{_name}", _function, override=True)

register_func("runtime.TVMArrayCreateView", _view, override=True)

__all__ = ["Closure", "PLAIN_CALLS", "ShapeTuple", "assert_holds", "flat_sizes", "plain", "print_values"]
