"""Parameters of a graph function that become constants."""
from __future__ import annotations

import numpy as np

from ..expr import Var, const, substitute
from ..node import Mutator
from ..relax.expr import Constant, RelaxVar


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
