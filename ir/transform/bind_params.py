"""Parameters and symbolic dimensions of graph functions that become constants."""
from __future__ import annotations

import numpy as np

from ..expr import Var, as_expr, const, substitute
from ..node import Mutator, collect
from ..relax.expr import Constant, Function, RelaxVar
from .canonicalize_bindings import with_dims


def bind_params(mod, func_name, params):
    """The module with parameters of function `func_name` bound to constants.

    params: {name or the parameter itself: array}; anything numpy reads, of the parameter's dtype and shape. What is
    symbolic in a shape becomes the array's. Raises ValueError naming the parameter that does not fit.
    """
    func = mod[func_name]
    known, values, dims = {p.name: p for p in func.params}, {}, {}
    for key, value in params.items():
        name = key.name if isinstance(key, RelaxVar) else key
        if name not in known:
            raise ValueError(f"BindParams: {func_name} has no parameter {name!r}; it has {', '.join(known) or 'none'}")
        constant = value if isinstance(value, Constant) else Constant(np.array(value), name)
        _bind_dims(known[name], constant, dims)
        values[known[name]] = constant
    rest = tuple(p for p in func.params if p not in values)
    bound = func.replace(params=rest, body=_Bind(values).visit(func.body))
    return mod.with_function(func_name, substitute(bound, dims))


def _bind_dims(param, constant, dims):
    """Check a constant against a parameter's struct info; note the symbolic dimensions that it settles."""
    info, shape = param.struct_info, constant.data.shape
    expected = getattr(info, "shape", None)
    fits = getattr(info, "dtype", None) in (None, "", constant.struct_info.dtype) and (
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
    of that name, or there is no such function.
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
    missing = [getattr(k, "name", k) for k in binding_map if k not in used]
    if missing:
        where = func_name or "any function"
        raise ValueError(f"BindSymbolicVars: there is no dimension {', '.join(map(repr, missing))} in {where}")
    return mod.with_functions({n: made.get(n, f) for n, f in mod.functions.items()})
