"""FoldConstant of scripts: in any graph function, by operators' reference evaluation and the interpreter of loops."""
from __future__ import annotations

import numpy as np

from ...expr import IntImm
from ...op import InferError
from ...relax.budget import excess
from ...relax.evaluate import EvaluationError, evaluate_expr
from ...relax.expr import (Constant, DataflowVar, Function, RelaxTuple, ShapeExpr, TensorStructInfo)
from ...relax.lattice import is_base_of
from ...tir.function import PrimFunc
from ...upper import upper
from ..call_rules import CallRules, inferred
from ..dead_code import remove_all_unused
from ..graph import ReplaceVars, Substitute, variables
from ..walk import turns

MOST_TURNS = 1_000_000  # statements of a PrimFunc that are interpreted: some seconds


def fold_constant(mod):
    """A module whose graph functions have constants in the place of tensors that follow from constants alone: results
    of R.call_tir, and in dataflow blocks of operators. A shape that a constant tells is written where it is used. What
    takes more than `MOST_TURNS` statements, or more memory than constants may, stays a call."""
    fold = _Fold(mod)
    return mod.with_functions({n: fold.function(f) if isinstance(f, Function) else f for n, f in mod.functions.items()})


class _Fold:
    def __init__(self, mod):
        self.mod = mod

    def function(self, func):
        rules = CallRules(func, self._rule)
        new = rules.visit(func)
        constants = {i: v for i, v in rules.definition.items() if isinstance(v, Constant)}
        if new is func and not constants:
            return func
        new = _Constants(constants).visit(new)
        return remove_all_unused(new.replace(ret_struct_info=_told(new.ret_struct_info, new.body.struct_info)))

    def _rule(self, context, call):
        """What a call is when constants and shapes are written for the variables that they are bound to."""
        kinds = Constant if call.op == "call_tir" else (Constant, ShapeExpr)
        env = {id(v): context.definition.get(id(v)) for v in variables(call)}
        known = Substitute({i: v for i, v in env.items() if isinstance(v, kinds)}).visit(call)
        if not isinstance(known.op, str):
            return None
        folded = self._folded(known, context.kind is DataflowVar)
        return folded or (None if known is call else _more(known))

    def _folded(self, call, dataflow):
        """The Constant or ShapeExpr that a call gives, None where it is not known."""
        if call.op == "call_tir":
            func = self.mod[call.attrs["gv"]]
            may = (isinstance(func, PrimFunc) and not call.attrs["sym_args"] and turns(func.body) <= MOST_TURNS
                   and all(isinstance(a, Constant) for a in call.args))
        else:
            may = dataflow and call.args and all(map(_is_constant, call.args))
        if not may:
            return None
        if call.op == "tensor_to_shape":
            return ShapeExpr(tuple(call.args[0].data.tolist()))
        info = call.struct_info
        if not isinstance(info, TensorStructInfo) or call.op != "call_tir" and call.op not in upper("classic_names")():
            return None
        try:
            info = inferred(call).struct_info if call.op != "call_tir" else info
            if info.static_shape is None or excess(info.shape, info.dtype.bytes):
                return None
            with np.errstate(all="ignore"):
                result = evaluate_expr(call, {}, {}, self.mod)
        except (EvaluationError, InferError):
            return None
        return Constant(np.asarray(result, info.dtype.numpy).reshape(info.static_shape))


class _Constants(ReplaceVars):
    """Constants in the place of variables."""

    def _binding(self, b):
        value = self.visit(b.value)
        return b if value is b.value else b.replace(value=value)

    visit_VarBinding = visit_MatchCast = _binding

    def visit_Function(self, func):
        body = self.visit(func.body)
        return func if body is func.body else func.replace(body=body)


def _more(call):
    """A call with other arguments than before, and what these tell beside what was known."""
    try:
        return call.replace(struct_info=_told(call.struct_info, inferred(call).struct_info))
    except InferError:
        return call


def _told(declared, actual):
    """`actual`, unless what was declared says more."""
    return declared if is_base_of(actual, declared) else actual


def _is_constant(value):
    if isinstance(value, ShapeExpr):
        return all(isinstance(v, IntImm) for v in value.values)
    return all(map(_is_constant, value.fields)) if isinstance(value, RelaxTuple) else isinstance(value, Constant)


__all__ = ["fold_constant"]
