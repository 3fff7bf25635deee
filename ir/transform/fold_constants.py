"""Constant folding: what depends on constants alone is computed now, by the operators' reference evaluation."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..expr import IntImm
from ..relax.budget import excess
from ..relax.expr import Constant, RelaxTuple, ShapeExpr, TensorStructInfo, TupleStructInfo
from ..relax.ops.common import shape_text
from .graph import GraphRewriter, is_operator, node_title, on_main

LEAST_SHARED = 1 << 14  # bytes of constants that are compared


@on_main
def fold_constants(func):
    """Requires nothing. Ensures folded constants: no operator has only constant arguments; large constants that are
    equal are one, such as the transposed weights of a cell that the model repeats for each time step. Raises
    ValueError, before the memory is taken, for a result that is larger than the budget of constants."""
    return _Fold().run(func)


class _Fold(GraphRewriter):
    def begin(self, func):
        self.shared = {}  # what is seen first of constants -> those that differ

    def call(self, binding, call):
        if not is_operator(call):
            return call
        args = [_known(a) for a in call.args]
        if any(a is None for a in args):
            return call.replace(args=tuple(self._one(a) if isinstance(a, Constant) else a for a in call.args))
        info = call.struct_info
        for field in info.fields if isinstance(info, TupleStructInfo) else (info,):
            problem = excess(field.shape, field.dtype.bytes)
            if problem:
                raise ValueError(f"{node_title(binding)}: {call.op} of constants: its result of shape "
                                 f"{shape_text(field)} {problem}")
        with np.errstate(all="ignore"):
            result = op_table.get(call.op).evaluate(args, call.attrs)
        name = binding.var.name
        if isinstance(call.struct_info, TensorStructInfo):
            return _constant(result, call.struct_info, name)
        return RelaxTuple(tuple(_constant(r, info, f"{name}_{i}")
                                for i, (r, info) in enumerate(zip(result, call.struct_info.fields))))


    def _one(self, constant):
        """The constant that stands for all that are equal to this one."""
        data = constant.data
        if data.nbytes < LEAST_SHARED:
            return constant
        few = data[tuple(slice(None, None, max(1, n // 4)) for n in data.shape)].tobytes()
        alike = self.shared.setdefault((data.dtype, data.shape, few), [])
        for other in alike:
            if other.data is data or np.array_equal(_bits(other.data), _bits(data)):
                return other
        alike.append(constant)
        return constant


def _bits(array):
    """What is equal where all bits are: NaN too, not zeros of two signs."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _constant(array, info, name):
    """A Constant of exactly the dtype and shape of `info`. It may be a view of another (a transpose, say)."""
    return Constant(np.asarray(array, info.dtype.numpy).reshape(info.static_shape), name)


def _known(arg):
    """The argument as `evaluate` takes it; None when it is not known."""
    if isinstance(arg, Constant):
        return arg.data
    if isinstance(arg, ShapeExpr) and all(isinstance(v, IntImm) for v in arg.values):
        return tuple(v.value for v in arg.values)
    if isinstance(arg, RelaxTuple):
        fields = [_known(f) for f in arg.fields]
        return None if any(f is None for f in fields) else fields
    return None
