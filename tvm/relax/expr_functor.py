"""PyExprVisitor and PyExprMutator: graph functions visited and rewritten by methods named after what they meet."""
from __future__ import annotations

from ...ir.expr import Op
from ...ir.module import GlobalVar
from ...ir.node import children
from ...ir.op import OPS
from ...ir.relax.block_builder import BlockBuilder, call_op
from ...ir.relax.expr import (
    BindingBlock, Constant, DataflowBlock, DataflowVar, DataTypeImm, ExternFunc, Function, If, MatchCast, PrimValue,
    RelaxCall, RelaxString, RelaxTuple, RelaxVar, SeqExpr, ShapeExpr, TupleGetItem)

_METHODS = {Constant: "constant", DataflowVar: "dataflow_var", Function: "function", If: "if", PrimValue: "prim_value",
            RelaxCall: "call", RelaxTuple: "tuple", RelaxVar: "var", SeqExpr: "seq_expr", ShapeExpr: "shape_expr",
            TupleGetItem: "tuple_getitem", GlobalVar: "global_var", ExternFunc: "extern_func",
            RelaxString: "string_imm", DataTypeImm: "data_type_imm"}


def visitor(cls):
    """The class itself: TVM marks visitors so. cls._cls, of which TVM's are derived, is the class, too."""
    cls._cls = cls
    return cls


mutator = visitor


def _method(self, expr):
    """self.visit_call_ of a call, and so on."""
    name = "op" if isinstance(expr, Op) else _METHODS.get(type(expr))
    if name is None:
        raise TypeError(f"{type(self).__name__} visits graph expressions and functions, not a {type(expr).__name__}")
    return getattr(self, f"visit_{name}_")


def _callee(call):
    """What a call calls: an operator, a function of the module, or a value."""
    return call.attrs["gv"] if call.op == "call" else call.op


def _block_method(self, block):
    return self.visit_dataflow_block_ if isinstance(block, DataflowBlock) else self.visit_binding_block_


def _binding_method(self, binding):
    return self.visit_match_cast_ if isinstance(binding, MatchCast) else self.visit_var_binding_


def _def_method(self, var):
    return self.visit_dataflow_var_def_ if isinstance(var, DataflowVar) else self.visit_var_def_


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
            self.visit_var_def(p)
        self.visit_expr(func.body)

    def visit_call_(self, call):
        """The operator, or the function that is called, then the arguments."""
        self.visit_expr(_callee(call))
        for a in call.args:
            self.visit_expr(a)

    def visit_op_(self, op):
        """The operator of a call."""

    visit_global_var_ = visit_extern_func_ = visit_string_imm_ = visit_data_type_imm_ = visit_op_

    def visit_seq_expr_(self, seq):
        for block in seq.blocks:
            self.visit_binding_block(block)
        self.visit_expr(seq.body)

    def visit_binding_block(self, block):
        """visit_dataflow_block_ or visit_binding_block_, by the kind of block."""
        _block_method(self, block)(block)

    def visit_binding_block_(self, block):
        for b in block.bindings:
            self.visit_binding(b)

    def visit_dataflow_block_(self, block):
        PyExprVisitor.visit_binding_block_(self, block)

    def visit_binding(self, binding):
        """visit_match_cast_ or visit_var_binding_, by the kind of binding."""
        _binding_method(self, binding)(binding)

    def visit_var_binding_(self, binding):
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    visit_match_cast_ = visit_var_binding_

    def visit_var_def(self, var):
        """visit_dataflow_var_def_ or visit_var_def_, by the kind of variable."""
        _def_method(self, var)(var)

    def visit_var_def_(self, var):
        """A variable where it is defined: goes on as where it is used."""
        self.visit_expr(var)

    visit_dataflow_var_def_ = visit_var_def_


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
        params = [self.visit_var_def(p) for p in func.params]
        self._vars.update({old: new for old, new in zip(func.params, params) if new is not old})
        with builder.function(name, params, func.attrs, private="global_symbol" not in func.attrs):
            builder.emit_func_output(self.visit_seq_expr_(func.body))
        return builder.get()[name]

    def visit_seq_expr_(self, seq):
        """Emits the bindings; returns what the sequence gives."""
        for block in seq.blocks:
            self._add(self.visit_binding_block(block))
        return self.visit_expr(seq.body)

    def _add(self, block):
        """Add a block that a method of a class of one's own returned, made by builder_'s _begin... and _end_block."""
        if block is not None:
            self.builder_._close(BindingBlock)
            self.builder_._blocks.append(block)

    def visit_binding_block(self, block):
        """visit_dataflow_block_ or visit_binding_block_, by the kind of block."""
        return _block_method(self, block)(block)

    def visit_binding_block_(self, block):
        """Emits the bindings of a block; a method of one's own may return a block instead."""
        for b in block.bindings:
            self.visit_binding(b)

    def visit_dataflow_block_(self, block):
        with self.builder_.dataflow():
            PyExprMutator.visit_binding_block_(self, block)

    def visit_binding(self, binding):
        """visit_match_cast_ or visit_var_binding_, by the kind of binding."""
        _binding_method(self, binding)(binding)

    def visit_match_cast_(self, binding):
        var = binding.var
        self._vars[var] = self.builder_.match_cast(self.visit_expr(binding.value), var.struct_info, var.name)

    def visit_var_binding_(self, binding):
        builder, var = self.builder_, binding.var
        value = self.visit_expr(binding.value)
        if isinstance(value, DataflowVar) and isinstance(var, DataflowVar):
            new = value  # another name for what is bound already
        else:
            emit = builder.emit if isinstance(var, DataflowVar) else builder.emit_output
            new = emit(value, var.name, var.origin)
        self._vars[var] = new

    def visit_var_def(self, var):
        """The parameter that takes the place of one: by visit_dataflow_var_def_ or visit_var_def_."""
        return _def_method(self, var)(var)

    def visit_var_def_(self, var):
        return var

    visit_dataflow_var_def_ = visit_var_def_

    def set_var_remap(self, var, new):
        """Let uses of a variable become those of another."""
        self._vars[var] = new

    def get_var_remap(self, var):
        """What a variable is now."""
        return self._vars.get(var, var)

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
    visit_op_ = visit_global_var_ = visit_extern_func_ = visit_string_imm_ = visit_data_type_imm_ = visit_constant_
