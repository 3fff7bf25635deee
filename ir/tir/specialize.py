"""specialize: a PrimFunc for some values of its parameters."""
from __future__ import annotations

from ..expr import BinaryExpr, CompareExpr, IntImm, Var, as_expr, binary, cast
from ..node import Mutator, structural_equal
from .buffer import Buffer
from .stmt import LetStmt


def specialize(func, param_map):
    """`func` with parameters fixed: {scalar parameter: value} drops it and puts the value in its place; {handle
    parameter: Buffer} gives its buffer that shape and layout, and so the symbolic dimensions in it their values.

    A Buffer that is another parameter's says that both are the same memory; a pointer may be given for a pointer.
    Values are ints or expressions. Raises ValueError where a Buffer contradicts the parameter's own.
    """
    values, views = {}, {}
    for param, value in param_map.items():
        if not any(param is p for p in func.params):
            raise ValueError(f"specialize: {getattr(param, 'name', param)} is no parameter of the function; it has "
                             f"{', '.join(p.name for p in func.params)}")
        if isinstance(value, Buffer):
            own = func.buffer_map.get(param)
            _match_buffer(own, value, param, values)
            if any(value is b for b in func.buffer_map.values()) and value is not own:
                views[own.data] = value.data  # both are one parameter's memory
        elif param in func.buffer_map:
            raise ValueError(f"specialize: parameter {param.name} is a buffer: give a Buffer of the shape wanted")
        else:
            _match(param, _value_of(param, value), f"parameter {param.name}", values)
    if not param_map:
        return func
    params = tuple(p for p in func.params if p not in values)
    bound = {p: v for p, v in values.items() if p.dtype == "handle" and not isinstance(v, Var)}
    rewrite = _Specialize({**{p: v for p, v in values.items() if p not in bound}, **views})
    buffer_map = {p: rewrite.visit(b) for p, b in func.buffer_map.items()}
    body = rewrite.visit(func.body)
    for pointer, value in bound.items():  # buffers are over variables
        body = LetStmt(pointer, value, body)
    return func.replace(params=params, buffer_map=buffer_map, body=body)


def _value_of(param, value):
    value = as_expr(value)
    if (value.dtype == "handle") != (param.dtype == "handle"):
        raise ValueError(f"specialize: parameter {param.name} is of {param.dtype}, {value} of {value.dtype}")
    return value if value.dtype == param.dtype else cast(value, param.dtype)


def _match_buffer(own, given, param, values):
    """Record what a Buffer says about the symbolic dimensions of the parameter's own."""
    if own is None:
        raise ValueError(f"specialize: parameter {param.name} is a scalar, not a buffer")
    for what in ("dtype", "scope", "data_alignment", "offset_factor", "axis_separators"):
        if getattr(own, what) != getattr(given, what):
            raise ValueError(f"specialize: the {what} of buffer {own.name} is {getattr(own, what)}, "
                             f"that of {given.name} {getattr(given, what)}")
    for what in ("shape", "strides"):
        a, b = getattr(own, what), getattr(given, what)
        if len(a) != len(b):
            raise ValueError(f"specialize: buffer {own.name} has {what} {_text(a)}, {given.name} {_text(b)}")
        for x, y in zip(a, b):
            _match(x, y, f"the {what} of buffer {own.name}", values)
    if own.elem_offset is not None and given.elem_offset is not None:
        _match(own.elem_offset, given.elem_offset, f"the elem_offset of buffer {own.name}", values)


def _match(own, given, what, values):
    """Record that the variable `own` is `given`; what is no variable must agree."""
    known = values.get(own, own) if isinstance(own, Var) else own
    if isinstance(known, Var) and known is own:
        values[own] = cast(given, own.dtype)
    elif not structural_equal(known, cast(given, known.dtype)):
        raise ValueError(f"specialize: {what} says {known} where {given} is given")


def _text(exprs):
    return f"({', '.join(map(str, exprs))})"


class _Everywhere(Mutator):
    """Puts values in the place of variables, in buffers too."""

    def __init__(self, values):
        self.values, self.buffers = values, {}

    def visit_Var(self, v):
        return self.values.get(v, v)

    def visit_Buffer(self, b):
        if id(b) not in self.buffers:
            new = b.replace(**{f: self.visit(getattr(b, f)) for f in ("shape", "strides", "elem_offset", "data")})
            same = all(getattr(new, f) is getattr(b, f) for f in b._fields)
            self.buffers[id(b)] = b if same else new
        return self.buffers[id(b)]


class _Specialize(_Everywhere):
    """The same; arithmetic on constants is folded."""

    def generic_visit(self, n):
        new = super().generic_visit(n)
        if new is not n and isinstance(n, (BinaryExpr, CompareExpr)) and len(n._fields) == 2 and all(
                isinstance(x, IntImm) for x in (new.a, new.b)):
            return binary(type(n), new.a, new.b)
        return new


def substitute_everywhere(root, mapping):
    """`root` with each Var of `mapping` (Var -> PrimExpr) replaced, in its buffers too, which are others then."""
    return _Everywhere(mapping).visit(root) if mapping else root


__all__ = ["specialize", "substitute_everywhere"]
