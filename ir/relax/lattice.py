"""How struct infos stand to one another: which says no more than another, what two have in common, what is left where
variables are not known."""
from __future__ import annotations

from enum import IntEnum

from ..expr import IntImm, as_expr, free_vars, substitute
from ..op import InferError
from ..upper import provides
from .expr import (FuncStructInfo, ObjectStructInfo, PrimStructInfo, RelaxExpr, ShapeStructInfo, TensorStructInfo,
                   TupleStructInfo)
from .infos import new_dims, told_dims
from .ops.common import same_dim, simplify


class BaseCheckResult(IntEnum):
    """Whether a value of one struct info is one of another: never (FAIL_L0), perhaps by its kind (FAIL_L1), perhaps by
    its dimensions (FAIL_L2), always (PASS)."""

    FAIL_L0, FAIL_L1, FAIL_L2, PASS = range(4)


_R = BaseCheckResult


# ---------------------------------------------------------------- base

def base_check(base, derived):
    """Whether every value of `derived` is one of `base`, as a BaseCheckResult."""
    if isinstance(base, ObjectStructInfo):
        return _R.PASS
    if type(base) is not type(derived):
        return _R.FAIL_L1 if isinstance(derived, ObjectStructInfo) else _R.FAIL_L0
    return _CHECKS[type(base)](base, derived)


@provides("is_base_of")
def is_base_of(base, derived):
    return base_check(base, derived) == _R.PASS


def _check_ranks(base, derived):
    if base.ndim < 0 or base.ndim == derived.ndim:
        return _R.PASS
    return _R.FAIL_L1 if derived.ndim < 0 else _R.FAIL_L0


def _check_dims(base, derived):
    """Of dimensions, None where they are not known."""
    if base is None:
        return _R.PASS
    if derived is None:
        return _R.FAIL_L2
    if not isinstance(base, tuple) or not isinstance(derived, tuple):
        return _R.PASS if base is derived else _R.FAIL_L2
    result = _R.PASS
    for a, b in zip(base, derived):
        difference = simplify(a - b)
        if isinstance(difference, IntImm) and difference.value:
            return _R.FAIL_L0
        if not same_dim(a, b):
            result = _R.FAIL_L2
    return result


def _check_tensor(base, derived):
    if base.dtype != derived.dtype and base.dtype != "void":
        return _R.FAIL_L1 if derived.dtype == "void" else _R.FAIL_L0
    if base.vdevice is not None and derived.vdevice is not None and base.vdevice.target:
        if not _same_device(base.vdevice, derived.vdevice):
            return _R.FAIL_L0
    return min(_check_ranks(base, derived), _check_dims(base.shape, derived.shape)) if _check_ranks(
        base, derived) == _R.PASS else _check_ranks(base, derived)


def _same_device(a, b):
    return (a.target, a.vdevice_id, a.memory_scope) == (b.target, b.vdevice_id, b.memory_scope)


def _check_shape(base, derived):
    ranks = _check_ranks(base, derived)
    return ranks if ranks != _R.PASS else _check_dims(base.values, derived.values)


def _check_prim(base, derived):
    if base.dtype != derived.dtype:
        return _R.FAIL_L0
    if base.value is None:
        return _R.PASS
    if derived.value is None:
        return _R.FAIL_L2
    return _check_dims((base.value,), (derived.value,))


def _check_tuple(base, derived):
    if len(base.fields) != len(derived.fields):
        return _R.FAIL_L0
    return min(map(base_check, base.fields, derived.fields), default=_R.PASS)


def _check_func(base, derived):
    if base.purity and not derived.purity:
        return _R.FAIL_L0
    if base.params is None:
        return _R.PASS if base.derive_func is None else _R.FAIL_L2
    if derived.params is None:
        return _R.FAIL_L1
    if len(base.params) != len(derived.params):
        return _R.FAIL_L0
    if base == derived:
        return _R.PASS
    names = told_dims(derived.params, base.params)  # parameters are named after the base's
    derived = substitute(derived, names)
    # As TVM has it, not contravariant: what a function does not take, it refuses when it is called.
    params = min(map(base_check, base.params, derived.params), default=_R.PASS)
    params = _R.FAIL_L2 if params == _R.FAIL_L1 else params
    return min(params, base_check(base.ret, derived.ret)) if params != _R.FAIL_L0 else params


_CHECKS = {TensorStructInfo: _check_tensor, ShapeStructInfo: _check_shape, PrimStructInfo: _check_prim,
           TupleStructInfo: _check_tuple, FuncStructInfo: _check_func}


def finer(declared, actual):
    """What a value is: `actual`, unless what is declared says more, or else. declared: None where nothing is."""
    finest = declared is None or actual is not None and is_base_of(declared, actual)
    return _with_devices(actual, declared) if finest else declared


def _with_devices(info, declared):
    """`info` with the devices that are declared where it names none."""
    if isinstance(info, TupleStructInfo) and isinstance(declared, TupleStructInfo):
        return info.replace(fields=tuple(map(_with_devices, info.fields, declared.fields)))
    device = getattr(declared, "vdevice", None) if isinstance(info, TensorStructInfo) else None
    return info.replace(vdevice=device) if device is not None and info.vdevice is None else info


def finer_result(func, info):
    """The struct info of a function's result that is found to be `info`: it speaks of dimensions that its parameters tell,
    or that it spoke of before."""
    declared = func.ret_struct_info
    dims = [*(d for p in func.params for d in new_dims(p.struct_info)), *free_vars(declared)]
    if info is not None:
        info = erased(info, {v: v for v in dims}, {p: p for p in func.params})
    found = finer(declared, info)
    return declared if found == declared else found


# ---------------------------------------------------------------- what two have in common

def common(a, b):
    """The struct info that says most of what holds for values of both."""
    if type(a) is not type(b):
        return ObjectStructInfo()
    if isinstance(a, PrimStructInfo):
        if a.dtype != b.dtype:
            return ObjectStructInfo()
        known = a.value is not None and b.value is not None and _equal(a.value, b.value)
        return a if known or a.value is None else PrimStructInfo(a.dtype)
    if isinstance(a, ShapeStructInfo):
        if _check_dims(a.values, b.values) == _check_dims(b.values, a.values) == _R.PASS and a.ndim == b.ndim:
            return a
        return ShapeStructInfo(None, a.ndim if a.ndim == b.ndim else -1)
    if isinstance(a, TensorStructInfo):
        dtype = a.dtype if a.dtype == b.dtype else "void"
        known = a.vdevice is not None and b.vdevice is not None and _same_device(a.vdevice, b.vdevice)
        device = a.vdevice if known else None
        same = a.ndim == b.ndim and _check_dims(a.shape, b.shape) == _check_dims(b.shape, a.shape) == _R.PASS
        if same and a.shape is not None:
            return TensorStructInfo(a.shape, dtype, a.ndim, device)
        return TensorStructInfo(None, dtype, a.ndim if a.ndim == b.ndim else -1, device)
    if isinstance(a, TupleStructInfo):
        if len(a.fields) != len(b.fields):
            return ObjectStructInfo()
        return TupleStructInfo(tuple(map(common, a.fields, b.fields)))
    return _common_func(a, b) if isinstance(a, FuncStructInfo) else ObjectStructInfo()


def _equal(a, b):
    return a is b or isinstance(a, type(b)) and (
        a.value == b.value if hasattr(a, "value") and not isinstance(a.value, RelaxExpr) else a.dtype.is_int and
        same_dim(a, b))


def _common_func(a, b):
    purity = a.purity and b.purity
    if a.params is None or b.params is None:
        return FuncStructInfo.opaque_func(ret=common(a.ret, b.ret), purity=purity)
    if len(a.params) != len(b.params):
        return FuncStructInfo.opaque_func(ret=common(a.ret, b.ret), purity=purity)
    if a == b:
        return a
    return FuncStructInfo(tuple(map(common, a.params, b.params)), common(a.ret, b.ret), purity)


# ---------------------------------------------------------------- what is left where variables are not known

def erased(info, shape_vars=None, variables=None):
    """Struct info in which variables of shapes and dimensions are those of these dicts, {variable: what it is}; what
    speaks of others is left out."""
    dims, known = dict(shape_vars or {}), dict(variables or {})
    if isinstance(info, PrimStructInfo):
        value = None if info.value is None else _erase_dims((info.value,), dims)
        return PrimStructInfo(info.dtype) if value is None else PrimStructInfo(value=value[0])
    if isinstance(info, ShapeStructInfo):
        values = None if info.values is None else _erase_dims(info.values, dims)
        return ShapeStructInfo(None, info.ndim) if values is None else ShapeStructInfo(values)
    if isinstance(info, TensorStructInfo):
        shape = info.shape
        if isinstance(shape, tuple):
            shape = _erase_dims(shape, dims)
        elif shape is not None:
            shape = next((v for k, v in known.items() if k is info.shape), None)
        rest = (info.ndim,) if shape is None else (-1,)
        return TensorStructInfo(shape, info.dtype, *rest, info.vdevice)
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(erased(f, shape_vars, variables) for f in info.fields))
    return info


def _erase_dims(values, dims):
    """The dimensions with variables replaced; None where one is not in `dims`."""
    keys = {id(k) for k in dims}
    if any(id(v) not in keys for v in free_vars(values)):
        return None
    return tuple(simplify(as_expr(substitute(d, {k: as_expr(v).astype(k.dtype) for k, v in dims.items()})))
                 for d in values)


def derive_call(func_info, call, context=None):
    """The struct info of a call of a function of this struct info. InferError where the arguments do not fit."""
    infos = [a.struct_info for a in call.args]
    if func_info.derive_func is not None and callable(func_info.derive_func):
        return func_info.derive_func(call, context)
    if func_info.params is None:
        return func_info.ret
    if len(infos) != len(func_info.params):
        raise InferError(f"the function takes {len(func_info.params)} arguments, got {len(infos)}")
    dims = told_dims(func_info.params, infos)
    for n, (param, info) in enumerate(zip(func_info.params, infos)):
        if base_check(substitute(param, dims), info) <= _R.FAIL_L1 and not _opaque(info):
            raise InferError(f"argument {n} is {info}, the parameter is {param}")
    own = {v: v for v in free_vars([dims[d] for d in dims])}
    return erased(func_info.ret, {**own, **dims})


def _opaque(info):
    return isinstance(info, FuncStructInfo) and info.params is None


__all__ = ["BaseCheckResult", "base_check", "common", "derive_call", "erased", "finer", "finer_result",
           "is_base_of"]
