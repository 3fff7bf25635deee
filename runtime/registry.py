"""Packed functions: functions of Python by name, that scripts look up and that compiled programs call."""
from __future__ import annotations

import threading

import cffi
import numpy as np

from ..codegen.c_types import C_TYPES, c_string, dlpack_type
from ..ir.dtype import DataType
from ..ir.tir.runtime_ops import PACKED_FUNCTIONS as _FUNCTIONS
from .ndarray import NDArray
from .packed import FFI, INT, TENSOR, TEXT


class PackedCallError(RuntimeError):
    """A program calls a packed function that is not registered, or one that gives what does not fit."""


def register_func(func_name, f=None, override=False):
    """Register a function under a name; a decorator without `f`. Compiled programs call it with NDArrays, which share
    their memory, and numbers. Raises ValueError for a name that is taken, unless `override`."""
    if callable(func_name):
        func_name, f = func_name.__name__, func_name
    if not isinstance(func_name, str):
        raise TypeError(f"a packed function is registered by its name, not by a {type(func_name).__name__}")

    def register(function):
        if not callable(function):
            raise TypeError(f"the packed function {func_name} must be a function, not a {type(function).__name__}")
        if func_name in _FUNCTIONS and not override:
            raise ValueError(f"Global PackedFunc {func_name} is already registered; override=True replaces it")
        _FUNCTIONS[func_name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name, allow_missing=False):
    """The function registered under a name; None, or ValueError, where there is none."""
    if name not in _FUNCTIONS and not allow_missing:
        raise ValueError(f"Cannot find global function {name}")
    return _FUNCTIONS.get(name)


def list_global_func_names():
    """The names of all registered functions."""
    return sorted(_FUNCTIONS)


def remove_global_func(name):
    """Forget a function. Raises ValueError where there is none."""
    get_global_func(name)
    del _FUNCTIONS[name]


# ------------------------------------------------------------ calls of compiled programs

HOOKS = "packed_hooks"  # the file of C, beside a program's own, by which its packed functions are Python's


def hooks_source(packed):
    """C in which each of the Packed functions calls Python, through a pointer that Calls sets, and which says what
    there is to call."""
    functions = "".join(f"\n{p.declaration}\n{{\n    ingot_packed_hook({n}, args, n_args);\n}}\n"
                        for n, p in enumerate(packed))
    declared = "".join(f"{p.declaration};\n" for p in packed)
    rows = "".join(f'    {{"{c_string(p.name)}", {p.results}}},\n' for p in packed)
    return ('#include "ingot_module.h"\n\n'
            "extern void (*ingot_packed_hook)(int32_t which, const ingot_arg *args, int32_t n_args);\n"
            "void (*ingot_packed_hook)(int32_t which, const ingot_arg *args, int32_t n_args);\n\n"
            "struct ingot_packed { const char *name; int32_t results; };\n"
            "extern const struct ingot_packed ingot_packed_functions[];\n"
            f"const struct ingot_packed ingot_packed_functions[] = {{\n{rows}    {{NULL, 0}}}};\n\n"
            f"{declared}{functions}")


def calls_of(path):
    """The Calls of a shared library that is loaded already; None of one that calls no packed functions."""
    library = _HOOKS.dlopen(str(path))
    try:
        rows = library.ingot_packed_functions
    except (AttributeError, KeyError):  # cffi: KeyError for a variable that is missing
        return None
    packed = []
    while rows[len(packed)].name != _HOOKS.NULL:
        row = rows[len(packed)]
        packed.append((_HOOKS.string(row.name).decode(), row.results))
    return Calls(packed, library)


class Calls:
    """What a loaded program calls: its hook, and the first exception of a function, which the run cannot raise."""

    def __init__(self, packed, library):
        """packed: (name, number of results that it returns) of each packed function; library: as _HOOKS has it."""
        self._packed, self._failed, self._library = packed, None, library
        self._lock = threading.Lock()
        self._callback = FFI.callback("void(int32_t, const ingot_arg *, int32_t)", self._call)
        self._library.ingot_packed_hook = _HOOKS.cast("void *", int(FFI.cast("uintptr_t", self._callback)))

    def raise_failure(self):
        """Raise what a function raised since the last time."""
        with self._lock:
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _call(self, which, args, count):
        if self._failed is not None:
            return
        try:
            name, results = self._packed[which]
            function = _FUNCTIONS.get(name)
            if function is None:
                raise PackedCallError(f"the program calls the packed function {name!r}, which is not "
                                      f'registered: register it with register_func("{name}", f)')
            values = [_value(args[n]) for n in range(count)]
            if not results:
                function(*values)
                return
            _store(name, function(*values[:count - results]), values[count - results:])
        except BaseException as error:  # C cannot raise it
            with self._lock:
                self._failed = self._failed or error


def _store(name, given, outputs):
    """Copy what a function returned into the tensors that the program has for it."""
    given = given if isinstance(given, (list, tuple)) else (given,)
    if len(given) != len(outputs):
        raise PackedCallError(f"the packed function {name!r} returned {len(given)} values, the program declares "
                              f"{len(outputs)}")
    for value, output in zip(given, outputs):
        array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        if array.shape != output.shape or array.dtype.name != output.dtype:
            raise PackedCallError(f"the packed function {name!r} returned {array.dtype}{list(array.shape)}, the "
                                  f"program declares {output.dtype}{list(output.shape)}")
        output.copyfrom(array)


def _value(arg):
    """What Python gets for an argument."""
    if arg.kind == TEXT:
        return FFI.string(arg.value.text).decode()
    if arg.kind != TENSOR:
        return int(arg.value.integer) if arg.kind == INT else float(arg.value.real)
    t = arg.value.tensor
    shape, dtype = [t.shape[n] for n in range(t.ndim)], _DTYPES[t.type.code, t.type.bits]
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.frombuffer(FFI.buffer(t.data, size), dtype) if size else np.zeros(0, dtype)
    return NDArray(memory.reshape(shape))


_DTYPES = {dlpack_type(DataType(name)): DataType(name).numpy for name in C_TYPES}
_HOOKS = cffi.FFI()
_HOOKS.cdef("extern void *ingot_packed_hook;"
            "struct ingot_packed { const char *name; int32_t results; };"
            "extern struct ingot_packed ingot_packed_functions[];")
