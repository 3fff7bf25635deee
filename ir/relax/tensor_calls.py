"""Calls of PrimFuncs that tensor expressions describe: what BlockBuilder.call_te makes."""
from __future__ import annotations

from ..expr import PrimExpr, Var as PrimVar, free_vars, substitute
from ..te import Tensor, create_prim_func, placeholder
from .expr import PrimStructInfo, PrimValue, RelaxExpr, RelaxTuple, ShapeExpr, ShapeStructInfo, TensorStructInfo


class TensorCall:
    """func(*args, **kwargs) over te.Tensors: the PrimFunc, its `args` and `dims` as R.call_tir passes them, and `info`,
    the struct info of what it gives.

    A tensor that stands twice among the arguments is two parameters. Symbolic dimensions are variables of the PrimFunc's
    own; only those that no tensor has as a dimension are passed.
    bound(value): a call as a variable.
    """

    def __init__(self, func, args, kwargs, bound, attrs):
        self.bound, self.inputs, self.own, self.given = bound, [], {}, []
        args, kwargs = self._converted(args), self._converted(kwargs)
        made = func(*args, **kwargs)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        if not results or not all(isinstance(r, Tensor) for r in results):
            raise TypeError(f"{getattr(func, '__name__', 'the function')} must return a te.Tensor or several, not "
                            f"{made!r}")
        params = [p for _, p in self.inputs]
        tensors = [t for t in (*params, *results) if isinstance(t, Tensor)]
        told = {id(d) for t in tensors for d in t.shape if isinstance(d, PrimVar)} | {
            id(p) for p in params if isinstance(p, PrimVar)}
        used = free_vars([tuple(t.shape) for t in tensors] + self.given)
        passed = list({id(v): v for v in used if id(v) not in told}.values())
        self.func = create_prim_func([*params, *results, *passed], "int64", {"tir.noalias": True, **(attrs or {})})
        theirs = {mine: dim for dim, mine in self.own.items()}
        self.args, self.dims = [a for a, _ in self.inputs], [theirs.get(v, v) for v in passed]
        device = next((i.vdevice for i in map(_info, self.args) if getattr(i, "vdevice", None)), None)
        infos = [TensorStructInfo(substitute(tuple(r.shape), theirs), r.dtype, vdevice=device) for r in results]
        self.info = infos if len(infos) > 1 else infos[0]

    def _converted(self, a):
        """An argument as `func` takes it."""
        if isinstance(a, (list, tuple)):
            return (list if isinstance(a, list) else tuple)(map(self._converted, a))
        if isinstance(a, dict):
            return {k: self._converted(v) for k, v in a.items()}
        if isinstance(a, PrimExpr):
            self.given.append(self._own(a))
            return self.given[-1]
        if isinstance(a, ShapeExpr):
            return tuple(map(self._converted, a.values))
        if isinstance(a, PrimValue):
            return self._converted(a.value)
        if isinstance(a, RelaxTuple):
            return tuple(map(self._converted, a.fields))
        return self._input(self.bound(a)) if isinstance(a, RelaxExpr) else a

    def _own(self, e):
        """An expression in variables of the PrimFunc."""
        for v in free_vars(e):
            self.own.setdefault(v, PrimVar(v.name, v.dtype))
        return substitute(e, self.own)

    def _input(self, a):
        """The parameters that a value becomes: a tensor's, or a number's, or those of a tuple."""
        info = _info(a)
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return self._converted(info.value)
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return tuple(map(self._converted, info.values))
        name = getattr(a, "name", "") or (chr(ord("A") + len(self.inputs)) if len(self.inputs) < 26
                                          else f"tensor_input_{len(self.inputs)}")
        if isinstance(info, PrimStructInfo):
            found = PrimVar(name, info.dtype)
        elif isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple):
            found = placeholder(tuple(map(self._own, info.dims)), info.dtype, name)
        else:
            raise TypeError(f"{getattr(a, 'name', 'an argument')} is {info}; a tensor expression takes tensors "
                            "of known shape")
        self.inputs.append((a, found))
        return found


def _info(a):
    return a.struct_info


__all__ = ["TensorCall"]
