"""ToMixedPrecision: a float32 network computed in float16 or bfloat16.

Products, which gain most, take such numbers; what follows them goes on in these where its results stay in range and
near. Sums run in float32 whatever operands are, and so does all inside of an operator: softmax and norms round their
results alone. Inputs and outputs of the network stay as they are.
"""
from __future__ import annotations

import numpy as np

from ..dtype import DataType
from ..names import Names, unique_name
from ..relax.block_builder import call_op
from ..relax.expr import (Constant, DataflowVar, RelaxCall, RelaxExpr, RelaxTuple, TensorStructInfo, TupleGetItem,
                          TupleStructInfo, VarBinding, dataflow_function)
from .graph import Substitute, is_operator, on_main, remove_unused
from .precision_rows import ALWAYS, FOLLOW, PIPELINE

WIDE = DataType("float32")


@on_main
def to_mixed_precision(func, dtype="float16"):
    """The function with float32 products, and what follows them, in `dtype`: "float16" or "bfloat16". Requires plain
    layouts. Inputs and outputs stay float32."""
    return _Casts(func, DataType(dtype)).function()


class _Casts:
    """The new bindings. forms: {id(old variable): {dtype: what holds its value in that
    dtype}}; "own" is the variable itself where it stays."""

    def __init__(self, func, dtype):
        self.func, self.dtype = func, dtype
        self.forms, self.constants, self.bindings = {}, {}, []
        self.names = Names([*(p.name for p in func.params), *(b.var.name for b in func.bindings)])

    def function(self):
        for binding in self.func.bindings:
            self._rewrite(binding)
        outputs = [self._wide(o) for o in self.func.outputs]
        return remove_unused(dataflow_function(self.func.params, self.bindings, outputs, self.func.attrs))

    def _rewrite(self, binding):
        value, new = binding.value, None
        if isinstance(value, TupleGetItem):
            held = self.forms.get(id(value.tuple_value), {}).get(self.dtype)
            new = held is not None and TupleGetItem(held, value.index)
        elif is_operator(value) and self._narrows(value):
            new = self._narrowed(value)
        if new:
            var = DataflowVar(unique_name(f"{binding.var.name}_{self.dtype}", self.names), new.struct_info,
                              binding.var.origin)
            self.bindings.append(VarBinding(var, new))
            self.forms[id(binding.var)] = {self.dtype: var}
        else:
            wide = {id(v): self._wide(v) for v in _variables(value)}
            self.bindings.append(binding.replace(value=Substitute(wide).visit(value)))

    def _narrows(self, call):
        """Whether a call is made in the other dtype."""
        floats = [x for x in _leaves(call.args) if _is_wide(x)]
        if not floats or not _all_wide(call.struct_info):
            return False
        if PIPELINE.get(call.op) == ALWAYS:
            return call.attrs.get("out_dtype") in (None, "", "float32") and call.attrs.get("arithmetic") in (
                None, "fma")
        variables = [x for x in floats if not isinstance(x, Constant)]
        return PIPELINE.get(call.op) == FOLLOW and bool(variables) and all(
            self.dtype in self.forms.get(id(x), ()) for x in variables)

    def _narrowed(self, call):
        args = tuple(self._in_dtype(a) for a in call.args)
        attrs = dict(call.attrs)
        if attrs.get("out_dtype"):
            attrs["out_dtype"] = str(self.dtype)
        return call_op(call.op, *args, **attrs)

    def _in_dtype(self, value):
        if isinstance(value, RelaxTuple):
            return RelaxTuple(tuple(map(self._in_dtype, value.fields)))
        if not _is_wide(value):
            return self._wide(value) if id(value) in self.forms else value
        if isinstance(value, Constant):
            if id(value) not in self.constants:
                self.constants[id(value)] = Constant(self._rounded(np.asarray(value.data)), value.name)
            return self.constants[id(value)]
        return self._form(value, self.dtype)

    def _rounded(self, data):
        """An array in the dtype; finite numbers beyond its range become its largest ones: masks of attention are as
        small as float32 has them, and a row of -inf would be no number."""
        held = np.where(np.isfinite(data), np.clip(data, *self.dtype.finite_range()), data)
        return held.astype(self.dtype.numpy)

    def _wide(self, value):
        """A value in its own dtype."""
        made = self.forms.get(id(value))
        if made is None or "own" in made:
            return value
        if isinstance(value.struct_info, TupleStructInfo):
            fields = [TupleGetItem(made[self.dtype], n) for n in range(len(value.struct_info.fields))]
            return RelaxTuple(tuple(self._bind(call_op("astype", self._bind(f, value), dtype="float32"), value)
                                    for f in fields))
        return self._form(value, WIDE)

    def _form(self, value, dtype):
        """A variable's value in a dtype."""
        made = self.forms.setdefault(id(value), {"own": value})
        if dtype not in made:
            source = made.get("own", made.get(self.dtype))
            made[dtype] = self._bind(call_op("astype", source, dtype=str(dtype)), value)
        return made[dtype]

    def _bind(self, value, like):
        var = DataflowVar(unique_name(f"{like.name}_{value.struct_info.dtype}", self.names), value.struct_info,
                          like.origin)
        self.bindings.append(VarBinding(var, value))
        return var


def _leaves(args):
    for a in args:
        if isinstance(a, RelaxTuple):
            yield from _leaves(a.fields)
        elif isinstance(a, RelaxExpr):
            yield a


def _variables(value):
    """The variables that a bound value mentions."""
    if isinstance(value, RelaxCall):
        return [v for a in value.args for v in _variables(a)]
    if isinstance(value, RelaxTuple):
        return [v for f in value.fields for v in _variables(f)]
    if isinstance(value, TupleGetItem):
        return _variables(value.tuple_value)
    return [value] if hasattr(value, "name") and not isinstance(value, Constant) else []


def _is_wide(value):
    info = value.struct_info
    return isinstance(info, TensorStructInfo) and info.dtype == WIDE


def _all_wide(info):
    if isinstance(info, TupleStructInfo):
        return all(map(_all_wide, info.fields))
    return isinstance(info, TensorStructInfo) and info.dtype == WIDE and info.shape is not None
