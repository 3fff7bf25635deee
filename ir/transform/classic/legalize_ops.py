"""LegalizeOps: operators become calls of the PrimFuncs that topi describes, as scripts compare and schedule them.

The pipelines have a pass of the same name (lower_ops.py), whose kernels their schedule rules know.
"""
from __future__ import annotations

import logging
from contextlib import contextmanager

from ...node import Mutator, collect
from ...op import OPS, REQUIRED, Op, register_op_attr
from ...relax.block_builder import BlockBuilder
from ...relax.control import is_control
from ...relax.expr import (DataflowBlock, DataflowVar, ExternFunc, Function, MatchCast, RelaxCall, RelaxVar, SeqExpr,
                           ShapeStructInfo, TensorStructInfo, TupleStructInfo, without_grad)
from ...relax.runtime_calls import RUNTIME
from ...target import Target
from ...tir.function import PrimFunc
from ..call_rules import CallRules
from .legalize_others import LEGALIZE

_ANY_SHAPES = ("dynamic",)  # in names of operators whose results' shapes a run tells


def legalize_ops(mod, customize_legalize_map=None, enable_warning=False):
    """A module whose graph functions call PrimFuncs in place of operators, by R.call_tir. An operator is left alone
    where a shape is not known, or where there is no way for it, which enable_warning logs.

    customize_legalize_map: {"relax.add": f(builder, call)}, which gives an expression of other operators, or
    builder.call_te(...); for others LEGALIZE tells.
    """
    legalize = _Legalize(mod, {**LEGALIZE, **{Op.get(k): f for k, f in (customize_legalize_map or {}).items()}},
                         enable_warning)
    return legalize.functions(mod)


def legalize_for_builds(mod):
    """The module with calls that no row of the operator table computes, but LEGALIZE does, such as gradients, as calls of
    PrimFuncs, and those of PrimFuncs that tell their gradients as any others; those of its ExternFuncs by their symbols;
    itself where there are none."""
    mod = _by_symbol(mod)
    own = {name: LEGALIZE[name] for name in RUNTIME if name in LEGALIZE}
    own["call_tir_with_grad"] = lambda builder, call: without_grad(call)
    called = {str(c.op) for f in mod.functions.values() if isinstance(f, Function) for c in collect(f.body, RelaxCall)
              if isinstance(c.op, str)}
    if not called & set(own):
        return mod
    return legalized(mod, own)


def _by_symbol(mod):
    """The module with calls of its ExternFuncs as those of packed functions, without these."""
    foreign = {n: f for n, f in mod.functions.items() if isinstance(f, ExternFunc)}

    def rule(context, call):
        func = foreign.get(call.attrs["gv"].name) if call.op == "call" else None
        return func and call.replace(op="call_pure_packed" if func.struct_info.purity else "call_packed",
                                     attrs={"func": func.global_symbol})

    return mod.with_functions({n: CallRules(f, rule).visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items() if n not in foreign}) if foreign else mod


def legalized(mod, table):
    """The module with table[operator](builder, call) in the place of calls of these operators, {Op or its name: function}."""
    return _Legalize(mod, table, False).functions(mod)


def register_legalize(op_name, legal_func=None):
    """Let LegalizeOps call legal_func(builder, call) for an operator; without it, a decorator of one."""
    return register_op_attr(op_name, "FLegalize", legal_func)


class _Builder(BlockBuilder):
    """Kernels of tensors on a device have its target, and its kind in their names."""

    device = None

    @contextmanager
    def kernels_for(self, info):
        """Kernels that are added inside are of the device of this struct info."""
        outer, self.device = self.device, next((i.vdevice for i in collect(info, TensorStructInfo) if i.vdevice), None)
        try:
            yield
        finally:
            self.device = outer

    def add_func(self, func, func_name):
        if self.device is not None and isinstance(func, PrimFunc) and "target" not in func.attrs:
            func = func.with_attr("target", Target.get(self.device.target))
            func_name = f"{func_name}_{self.device.kind}"
        return super().add_func(func, func_name)


class _Legalize(Mutator):
    def __init__(self, mod, table, warns):
        self.table, self.warns = table, warns
        self.builder, self.vars = _Builder(mod), {}

    def functions(self, mod):
        for name, func in mod.functions.items():
            if isinstance(func, Function):
                self.function(name, func)
        return self.builder.get()

    def function(self, name, func):
        builder = self.builder
        builder.begin_names((*collect(func.body, (RelaxVar, DataflowVar)), *func.params))
        builder.update_func(name, func.replace(body=self.visit(func.body)))

    # ------------------------------------------------------------ blocks and bindings

    def visit_Constant(self, constant):
        return constant

    def _variable(self, var):
        return self.vars.get(var, var)

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_SeqExpr(self, seq):
        blocks = tuple(map(self._block, seq.blocks))
        return SeqExpr(blocks, self.visit(seq.body))

    def _block(self, block):
        with self.builder.block(isinstance(block, DataflowBlock)) as made:
            for b in block.bindings:
                self._binding(b)
        return made[0]

    def _binding(self, b):
        if isinstance(b, MatchCast):
            self.builder.emit_normalized(b.replace(value=self.visit(b.value)))
            return
        value = self._legal(self.visit(b.value))
        info, var = value.struct_info, b.var
        if info is not None and info != var.struct_info and isinstance(value, RelaxCall):
            self.vars[b.var] = var = type(var)(var.name, info, var.origin)
        self.builder.emit_normalized(b.replace(var=var, value=value))

    # ------------------------------------------------------------ calls

    def _legal(self, value):
        """A value of calls of PrimFuncs; what these need is bound before it."""
        if not isinstance(value, RelaxCall) or not isinstance(value.op, str) or is_control(value):
            return value
        function = self.table.get(str(value.op))
        known = all(map(_is_known, [getattr(a, "struct_info", None) for a in value.args])) and (
            _is_known(value.struct_info) or any(word in value.op for word in _ANY_SHAPES))
        if function is None or not known:
            if self.warns and not value.op.startswith("call"):
                why = "no legalization is registered" if known else "shapes are not known"
                logging.getLogger(__name__).warning("%s stays: %s", value.op.name, why)
            return value
        builder = self.builder
        whole = value if getattr(function, "as_written", False) else _with_defaults(value)
        with builder.block() as before, builder.kernels_for(value.struct_info):
            made = builder.normalize(function(builder, whole))
        for b in before[0].bindings:
            self._binding(b)
        if made is whole:
            return value
        made = self.visit(made)
        return self._legal(made) if isinstance(made, RelaxCall) and made.op != value.op else made


def _with_defaults(call):
    """A call with all attributes: in classic form it has those that were given."""
    spec = OPS.get(call.op)
    missing = {k: v for k, v in spec.attrs.items() if v is not REQUIRED and k not in call.attrs} if spec else {}
    return call.replace(attrs={**missing, **call.attrs}) if missing else call


def _is_known(info):
    """Whether the shapes in a struct info are known; what has none is."""
    if isinstance(info, TupleStructInfo):
        return all(map(_is_known, info.fields))
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, tuple)
    return not isinstance(info, ShapeStructInfo) or info.values is not None


__all__ = ["legalize_for_builds", "legalize_ops", "legalized", "register_legalize"]
