"""PyExprVisitor and PyExprMutator: graph functions visited and rewritten by methods named after what they meet."""
from __future__ import annotations

from contextlib import nullcontext

from ...ir.node import children
from ...ir.op import OPS
from ...ir.relax.block_builder import BlockBuilder, call_op
from ...ir.relax.expr import (
    BindingBlock, Constant, DataflowBlock, DataflowVar, Function, If, MatchCast, PrimValue, RelaxCall, RelaxTuple,
    RelaxVar, SeqExpr, ShapeExpr, TupleGetItem)

_METHODS = {Constant: "constant", DataflowVar: "dataflow_var", Function: "function", If: "if", PrimValue: "prim_value",
            RelaxCall: "call", RelaxTuple: "tuple", RelaxVar: "var", SeqExpr: "seq_expr", ShapeExpr: "shape_expr",
            TupleGetItem: "tuple_getitem"}


def visitor(cls):
    """The class itself: TVM marks visitors so."""
    return cls


mutator = visitor


def _method(self, expr):
    """self.visit_call_ of a call, and so on."""
    name = _METHODS.get(type(expr))
    if name is None:
        raise TypeError(f"{type(self).__name__} visits graph expressions and functions, not a {type(expr).__name__}")
    return getattr(self, f"visit_{name}_")


class PyExprVisitor:
    """Overwrite visit_call_(call), visit_var_(v) ...; the methods here go on below. visit_expr(func) starts."""

    def visit_expr(self, expr):
        _method(self, expr)(expr)

    def _below(self, expr):
        for child in children(expr):
            if type(child) in _METHODS:
                self.visit_expr(child)

    def visit_function_(self, func):
        for p in func.params:
            self.visit_expr(p)
        self.visit_expr(func.body)

    def visit_seq_expr_(self, seq):
        for block in seq.blocks:
            for b in block.bindings:
                self.visit_binding(b)
        self.visit_expr(seq.body)

    def visit_binding(self, binding):
        self.visit_expr(binding.value)
        self.visit_expr(binding.var)


for _name in _METHODS.values():
    if not hasattr(PyExprVisitor, f"visit_{_name}_"):
        setattr(PyExprVisitor, f"visit_{_name}_", PyExprVisitor._below)


class PyExprMutator:
    """Overwrite visit_call_(call) and so on, each of which returns what takes the expression's place.

    visit_expr(func) gives the new function. Inside, builder_ (a BlockBuilder of the module) binds what is emitted
    before the binding that is being rewritten; struct info of calls whose arguments changed is inferred anew.
    """

    def __init__(self, mod=None):
        self.builder_ = BlockBuilder(mod)
        self._vars = {}  # variable -> what it is now

    def visit_expr(self, expr):
        return _method(self, expr)(expr)

    def visit_expr_post_order(self, expr):
        """`expr` with what is below it visited, by the methods of this class."""
        return getattr(PyExprMutator, _method(self, expr).__name__)(self, expr)

    def lookup_binding(self, var):
        """The value that a new variable is bound to; None for a parameter."""
        return self.builder_.lookup_binding(var)

    # ------------------------------------------------------------ functions and bindings

    def visit_function_(self, func):
        builder = self.builder_
        known = (n for n, f in builder.get().functions.items() if f is func)
        name = next(known, func.attrs.get("global_symbol", "main"))
        with builder.function(name, func.params, func.attrs, private="global_symbol" not in func.attrs):
            builder.emit_func_output(self.visit_seq_expr_(func.body))
        return builder.get()[name]

    def visit_seq_expr_(self, seq):
        """Emits the bindings; returns what the sequence gives."""
        for block in seq.blocks:
            with self.builder_.dataflow() if isinstance(block, DataflowBlock) else nullcontext():
                for b in block.bindings:
                    self.visit_binding(b)
        return self.visit_expr(seq.body)

    def visit_binding(self, binding):
        builder, var = self.builder_, binding.var
        value = self.visit_expr(binding.value)
        if isinstance(binding, MatchCast):
            new = builder.match_cast(value, var.struct_info, var.name)
        elif isinstance(value, DataflowVar) and isinstance(var, DataflowVar):
            new = value  # another name for what is bound already
        else:
            emit = builder.emit if isinstance(var, DataflowVar) else builder.emit_output
            new = emit(value, var.name, var.origin)
        self._vars[var] = new

    def visit_if_(self, branch):
        return branch.replace(cond=self.visit_expr(branch.cond), true_branch=self._branch(branch.true_branch),
                              false_branch=self._branch(branch.false_branch))

    def _branch(self, seq):
        builder = self.builder_
        outer, builder._blocks, builder._bindings = (builder._blocks, builder._bindings), [], []
        result = builder._leaf(self.visit_seq_expr_(seq))
        builder._close(BindingBlock)
        branch = SeqExpr(tuple(builder._blocks), result)
        builder._blocks, builder._bindings = outer
        return branch

    # ------------------------------------------------------------ values

    def visit_var_(self, var):
        return self._vars.get(var, var)

    visit_dataflow_var_ = visit_var_

    def visit_call_(self, call):
        args = tuple(map(self.visit_expr, call.args))
        if all(a is b for a, b in zip(args, call.args)):
            return call
        return call_op(call.op, *args, **call.attrs) if call.op in OPS else call.replace(args=args)

    def visit_tuple_(self, value):
        return value.replace(fields=tuple(map(self.visit_expr, value.fields)))

    def visit_tuple_getitem_(self, item):
        return self.visit_expr(item.tuple_value)[item.index]

    def visit_constant_(self, value):
        return value

    visit_shape_expr_ = visit_prim_value_ = visit_constant_
