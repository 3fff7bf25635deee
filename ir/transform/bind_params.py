"""Parameters and symbolic dimensions of graph functions that become constants."""
from __future__ import annotations

import numpy as np

from ..expr import IntImm, Var, as_expr, const, free_vars
from ..module import IRModule
from ..node import Mutator, collect
from ..relax.expr import Constant, Function, PrimValue, RelaxVar, ShapeExpr, ShapeStructInfo, TensorStructInfo
from ..relax.infos import dims_told, new_dims
from ..relax.lattice import erased, is_base_of
from ..upper import provides
from .call_rules import inferred_again
from .canonicalize_bindings import with_dims


def bind_params(mod, func_name, params):
    """The module with parameters of function `func_name` bound to constants.

    params: {name or the parameter itself: array}; anything numpy reads, of the parameter's dtype and shape. What is
    symbolic in a shape becomes the array's. Raises ValueError naming the parameter that does not fit.
    """
    return mod.with_function(func_name, bind_function(mod[func_name], params, func_name))


@provides("bind_params")
def bind_function(func, params, title="the function"):
    """The function with parameters bound to constants, shapes (ShapeExpr) or numbers (PrimValue); see bind_params."""
    known, values, dims = {p.name: p for p in func.params}, {}, {}
    for key, value in params.items():
        name = key.name if isinstance(key, RelaxVar) else key
        if name not in known or isinstance(key, RelaxVar) and key is not known[name]:
            raise ValueError(f"BindParams: {title} has no parameter {name!r}; it has {', '.join(known) or 'none'}")
        value = value if isinstance(value, (Constant, ShapeExpr, PrimValue)) else Constant(np.array(value), name)
        if isinstance(value, Constant):
            _bind_dims(known[name], value, dims)
        else:
            _bind_numbers(known[name], value, dims)
        values[known[name]] = value
    rest = tuple(p for p in func.params if p not in values)
    bound = with_dims(func.replace(params=rest, body=_Bind(values).visit(func.body)), dims)
    return bound if all(map(_is_known, values)) else inferred_again(bound)


def _is_known(param):
    """Whether all that a value tells is known of a parameter, but for the sizes of its dimensions."""
    info = param.struct_info
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return not isinstance(info, TensorStructInfo) or info.shape is not None and info.dtype != "void"


def _bind_numbers(param, value, dims):
    """As _bind_dims, of a shape or a number."""
    info, own = param.struct_info, value.struct_info
    if not is_base_of(erased(info), own):
        raise ValueError(f"BindParams: parameter {param.name} is {info}, the value {own}: they must agree")
    for want, have in dims_told(info, own):
        if isinstance(want, Var):
            have = dims.setdefault(want, have)
        if isinstance(want, IntImm) and isinstance(have, IntImm) and want.value != have.value:
            raise ValueError(f"BindParams: parameter {param.name} is {info}, the value {own}: they must agree")


def _bind_dims(param, constant, dims):
    """Check a constant against a parameter's struct info; note the symbolic dimensions that it settles."""
    info, shape = param.struct_info, constant.data.shape
    if isinstance(info, TensorStructInfo) and info.shape is None and info.ndim in (-1, len(shape)) and info.dtype in (
            "void", constant.struct_info.dtype):
        return
    expected = getattr(info, "shape", None)
    fits = getattr(info, "dtype", None) in (None, "void", constant.struct_info.dtype) and (
        expected is None or len(expected) == len(shape))
    for have, want in zip(shape, expected or () if fits else ()):
        if isinstance(want, Var):
            want = dims.setdefault(want, const(have, want.dtype))
        fits = fits and getattr(want, "value", have) == have  # what is computed from dimensions is not checked
    if not fits:
        raise ValueError(f"BindParams: parameter {param.name} is {info}, the array {constant.struct_info}: they must "
                         "agree")


class _Bind(Mutator):
    def __init__(self, values):
        self.values = values

    def visit_RelaxVar(self, v):
        return self.values.get(v, v)

    def visit_Constant(self, c):
        return c


def bind_symbolic_vars(mod, binding_map, func_name=None):
    """The module with symbolic dimensions of its graph functions, or of func_name, bound to values.

    binding_map: {name or variable: int or expression}. ValueError where no function has such a dimension, one has two
    of that name, there is no such function, or a new dimension stands alone in no parameter.
    """
    func_name = getattr(func_name, "name", func_name)
    graphs = [n for n, f in mod.functions.items() if isinstance(f, Function)]
    if func_name is not None and func_name not in graphs:
        raise ValueError(f"BindSymbolicVars: there is no graph function {func_name!r}; there are {', '.join(graphs)}")
    names = graphs if func_name is None else [func_name]
    used, made = set(), {}
    for name in names:
        func, dims = mod[name], {}
        for v in collect([p.struct_info for p in func.params] + [func.body], Var):
            key = v if v in binding_map else v.name
            if key not in binding_map:
                continue
            if key is not v and any(d.name == key for d in dims):
                raise ValueError(f"BindSymbolicVars: {name} has two dimensions {key!r}: give the variable instead")
            used.add(key)
            dims[v] = as_expr(binding_map[key]).astype(v.dtype)
        made[name] = with_dims(func, dims) if dims else func
        known = {id(d) for p in made[name].params for d in new_dims(p.struct_info)} | {id(d) for d in collect(func, Var)}
        unknown = [d.name for d in free_vars(list(dims.values())) if id(d) not in known]
        if unknown:
            raise ValueError(f"BindSymbolicVars: nothing tells {', '.join(unknown)} in {name}: no parameter has such a "
                             "dimension")
    missing = [getattr(k, "name", k) for k in binding_map if k not in used]
    if missing:
        where = func_name or "any function"
        raise ValueError(f"BindSymbolicVars: there is no dimension {', '.join(map(repr, missing))} in {where}")
    return mod.with_functions({n: made.get(n, f) for n, f in mod.functions.items()})


@provides("bind_symbolic_vars")
def bind_symbolic_vars_of(func, binding_map):
    """The function with symbolic dimensions bound to values; see bind_symbolic_vars."""
    return bind_symbolic_vars(IRModule({"main": func}), binding_map)["main"]
