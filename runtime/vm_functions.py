"""The functions vm.builtin.* that hold values to what is declared, and those of caches and debugging;
more: builtins.py."""
from __future__ import annotations

import os

import numpy as np

from . import caches, choices, paged_cache, param_files, rnn_state
from .builtins import ShapeTuple
from .machine import FitError
from .ndarray import NDArray, empty
from .registry import get_global_func, register_func

# What match_shape does with a dimension, and where make_shape takes one from.
ASSERT_EQUAL_TO_IMM, STORE_TO_HEAP, NO_OP, ASSERT_EQUAL_TO_LOAD = range(4)
USE_IMM, LOAD_SHAPE = range(2)
LIBRARY = "vm.builtin."


# ---------------------------------------------------------------- shapes

def _shape(given):
    return given.shape if isinstance(given, NDArray) else tuple(given)


def make_shape(heap, size, *codes):
    """The ShapeTuple of `size` dimensions, each by a (code, value): the value, or that place of the heap."""
    pairs = zip(codes[0:2 * size:2], codes[1:2 * size:2])
    return ShapeTuple(int(value if code == USE_IMM else np.asarray(heap)[value]) for code, value in pairs)


def match_shape(given, heap, size, *codes):
    """Hold a tensor or a shape to `size` dimensions by a (code, value) each, then the words of an error; sizes that
    nothing else says go to the heap."""
    dims, context = _shape(given), codes[-1] if len(codes) % 2 else ""
    if len(dims) != size:
        raise FitError(f"match_shape: {context} expects {size} dimensions, got {list(dims)}")
    memory = None if heap is None else np.asarray(heap)
    for axis, (dim, code, value) in enumerate(zip(dims, codes[0::2], codes[1::2])):
        if code == STORE_TO_HEAP:
            memory[value] = dim
        elif code != NO_OP:
            wanted = value if code == ASSERT_EQUAL_TO_IMM else int(memory[value])
            if dim != wanted:
                raise FitError(f"match_shape: {context} expects dimension {axis} to be {wanted}, got {list(dims)}")


def match_prim_value(given, heap, code, value, context=""):
    """match_shape of a number."""
    match_shape(ShapeTuple([given]), heap, 1, code, value, context)


# ---------------------------------------------------------------- graphs of kernels

def get_cached_alloc(state, function, number):
    """What a function of storages gave when it was first called, in this machine and under this number."""
    kept = state.__dict__.setdefault("storages", {})
    if number not in kept:
        kept[number] = function()
    return kept[number]


def run_or_capture(state, function, args, number, shape=None):
    """What a function of kernels gives: they are run, one by one, on whatever device. number, shape: of the graph that a
    runtime might have captured before."""
    return function(*args)


# ---------------------------------------------------------------- checks

def _holds(name, value, kinds, what, context):
    if not isinstance(value, kinds):
        raise TypeError(f"{name}: {context} expects {what}, got a {type(value).__name__}")


def _equal(name, what, wanted, found, context):
    if wanted != found:
        raise ValueError(f"{name}: {context} expects {what} {wanted}, got {found}")


def check_shape_info(value, ndim, context=""):
    """TypeError for what is no shape, ValueError for one of other than `ndim` (unless -1) dimensions."""
    _holds("check_shape_info", value, ShapeTuple, "a ShapeTuple", context)
    if ndim != -1:
        _equal("check_shape_info", "a shape of ndim", ndim, len(value), context)


def check_tensor_info(value, ndim, *rest):
    """TypeError for what is no tensor, ValueError for another ndim (-1: any) or dtype ("": any).

    rest: the dtype, where there is one, and the words of an error.
    """
    dtype, context = rest if len(rest) == 2 else ("", *rest, "")[:2]
    _holds("check_tensor_info", value, NDArray, "a tensor, an NDArray", context)
    if ndim != -1:
        _equal("check_tensor_info", "a tensor of ndim", ndim, value.ndim, context)
    if str(dtype) not in ("", "void"):
        _equal("check_tensor_info", "a tensor of dtype", str(dtype), value.dtype, context)


def check_tuple_info(value, size, context=""):
    """TypeError for what is no tuple, ValueError for one of other than `size` elements."""
    _holds("check_tuple_info", value, (tuple, list), "a tuple", context)
    _equal("check_tuple_info", "the number of elements", size, len(value), context)


def check_func_info(value, context=""):
    """TypeError for what is no function."""
    if not callable(value):
        raise TypeError(f"check_func_info: {context} expects a function, got a {type(value).__name__}")


def check_prim_value_info(value, dtype, context=""):
    """TypeError for what is no number of the kind of a dtype."""
    kinds = {"f": (float, np.floating), "b": (bool, np.bool_, int)}.get(np.dtype(dtype).kind, (int, np.integer))
    _holds("check_prim_value_info", value, kinds, f"a number of dtype {dtype}", context)


# ---------------------------------------------------------------- values

def _reset(items, index):
    return tuple(None if n == index else v for n, v in enumerate(items))


def _debug(effect, name, place, *args):
    """Call a debug function with the place in the source that calls it, and give the effect on."""
    get_global_func(name)(place, *args)
    return effect


def _debug_print(place, tensor):
    file, _, line = place.rpartition(":")
    print(f"[{os.path.basename(file)}:{line}]: shape = {list(tensor.shape)}, dtype = {tensor.dtype}, data =\n"
          f"{tensor.numpy()}")


def _of_state(name):
    """A function that calls a method of a state of sequences."""
    def call(state, *args):
        if not isinstance(state, (paged_cache.PagedCache, rnn_state.RNNState)):
            raise TypeError(f"kv_state_{name} takes a paged KV cache or an RNN state, not a {type(state).__name__}")
        return getattr(state, name)(*args)
    return call


_ROWS = {
    "to_device": lambda value, *_: value.copyto(value.device), "ensure_zero_offset": lambda value: value,
    "tuple_reset_item": _reset, "make_prim_value": lambda heap, code, value: make_shape(heap, 1, code, value)[0],
    "cuda_graph.get_cached_alloc": get_cached_alloc, "cuda_graph.run_or_capture": run_or_capture,
    "alloc_shape_heap": lambda state, size: empty((size,), "int64"),
    "invoke_debug_func": _debug, "debug_print": _debug_print,
    **{f.__name__: f for f in (make_shape, match_shape, match_prim_value, check_shape_info, check_tensor_info,
                               check_tuple_info, check_func_info, check_prim_value_info)},
    **caches.FUNCTIONS, **choices.FUNCTIONS, **paged_cache.FUNCTIONS, **param_files.FUNCTIONS,
    **rnn_state.FUNCTIONS,
    # what a paged cache and an RNN state have in common
    **{f"kv_state_{name}": _of_state(name) for name in (
        "clear", "add_sequence", "remove_sequence", "fork_sequence", "popn", "begin_forward", "end_forward")},
}
for _name, _function in _ROWS.items():
    register_func(LIBRARY + _name, _function, override=True)
