"""BlockBuilder: build a graph function binding by binding, inferring struct info as it goes (as TVM's)."""
from __future__ import annotations

from contextlib import contextmanager

from .. import op as op_table
from ..expr import as_expr
from ..module import IRModule
from ..op import REQUIRED, InferError
from .expr import (Constant, DataflowVar, RelaxCall, RelaxExpr, RelaxTuple, RelaxVar, ShapeExpr, PrimValue,
                   TupleGetItem, TupleStructInfo, VarBinding, dataflow_function)


def call_op(name, *args, **attrs):
    """A RelaxCall of operator `name` with defaults filled in, attributes checked and struct info inferred.

    Arguments: graph expressions; Python lists/tuples of dims become ShapeExpr. Raises InferError.
    """
    spec = op_table.get(name)
    args = tuple(_as_argument(a) for a in args)
    least, most = spec.arity
    if len(args) < least or (most is not None and len(args) > most):
        raise InferError(f"{name} takes {least} to {most or 'any number of'} arguments, got {len(args)}")
    unknown = set(attrs) - set(spec.attrs)
    if unknown:
        known = ", ".join(spec.attrs) or "none"
        raise InferError(f"{name} has no attribute {', '.join(sorted(unknown))}; it has {known}")
    full = {k: attrs.get(k, default) for k, default in spec.attrs.items()}
    missing = [k for k, v in full.items() if v is REQUIRED]
    if missing:
        raise InferError(f"{name} needs attribute {', '.join(missing)}")
    full = {k: tuple(v) if isinstance(v, list) else v for k, v in full.items()}
    call = RelaxCall(name, args, full, None)
    return call.replace(struct_info=spec.infer(call))


def _as_argument(a):
    if isinstance(a, RelaxExpr):
        return a
    if isinstance(a, (list, tuple)):
        return RelaxTuple(tuple(a)) if a and isinstance(a[0], RelaxExpr) else ShapeExpr(tuple(a))
    return PrimValue(as_expr(a))


class BlockBuilder:
    """Usage:

        bb = BlockBuilder()
        x = RelaxVar("x", TensorStructInfo((1, 4), "float32"))
        with bb.function("main", [x]):
            with bb.dataflow():
                y = bb.emit(call_op("nn.relu", x), "y")
            bb.emit_func_output(y)
        mod = bb.get()
    """

    def __init__(self, mod=None):
        self._mod = mod or IRModule()
        self._names, self._bindings, self._output = set(), None, None

    @contextmanager
    def function(self, name, params, attrs=None):
        self._names, self._bindings, self._output = {p.name for p in params}, [], None
        yield self
        if self._output is None:
            raise ValueError(f"function {name} ended without emit_func_output")
        func = dataflow_function(params, self._bindings, self._output, {"global_symbol": name, **(attrs or {})})
        self._mod = self._mod.with_function(name, func)

    @contextmanager
    def dataflow(self):
        yield self

    def unique_name(self, hint):
        """`hint`, or hint_1, hint_2 ... when taken."""
        name, n = hint, 0
        while name in self._names:
            n += 1
            name = f"{hint}_{n}"
        self._names.add(name)
        return name

    def emit(self, value, name_hint="lv", origin=None):
        """Bind `value` to a new DataflowVar and return it."""
        var = DataflowVar(self.unique_name(name_hint), value.struct_info, origin)
        self._bindings.append(VarBinding(var, value))
        return var

    def emit_output(self, value, name_hint="gv", origin=None):
        """Bind `value` to a new RelaxVar, visible outside the dataflow block."""
        var = RelaxVar(self.unique_name(name_hint), value.struct_info, origin)
        self._bindings.append(VarBinding(var, value))
        return var

    def emit_func_output(self, output):
        """Set the function's result: one value, or a list or tuple of them."""
        self._output = list(output) if isinstance(output, (list, tuple)) else [output]

    def get(self):
        """The module with the functions built so far."""
        return self._mod


__all__ = ["BlockBuilder", "call_op", "Constant", "TupleGetItem", "TupleStructInfo"]
