"""PyExprVisitor and PyExprMutator: graph functions visited and rewritten by methods named after what they meet."""
from __future__ import annotations

from operator import is_

from ...ir.expr import Op, free_vars
from ...ir.module import GlobalVar
from ...ir.node import children, collect
from ...ir.op import OPS
from ...ir.relax.block_builder import BlockBuilder, call_op, called_info
from ...ir.relax.expr import (
    Constant, DataflowBlock, DataflowVar, DataTypeImm, ExternFunc, Function, If, MatchCast, PrimValue, RelaxCall,
    RelaxExpr, RelaxString, RelaxTuple, RelaxVar, SeqExpr, ShapeExpr, TensorStructInfo, TupleGetItem, TupleStructInfo,
    VarBinding)
from ...ir.relax.infos import call_info, told_dims
from ...ir.relax.lattice import erased, is_base_of
from ...ir.transform.call_rules import inferred

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
        """A variable where it is defined."""

    visit_dataflow_var_def_ = visit_var_def_

    def visit_span(self, span):
        """Where an expression is from."""


for _name in _METHODS.values():
    if not hasattr(PyExprVisitor, f"visit_{_name}_"):
        setattr(PyExprVisitor, f"visit_{_name}_", PyExprVisitor._below)


class PyExprMutator:
    """Overwrite visit_call_(call) and so on, each of which returns what takes the expression's place.

    visit_expr(func) gives the new function, func itself where nothing changed. Inside, builder_ (a BlockBuilder of the
    module) binds what is emitted before the binding that is being rewritten; struct info of calls whose arguments changed
    is inferred anew, and calls inside of calls that a method returns get bindings of their own.
    """

    def __init__(self, mod=None):
        self.builder_ = BlockBuilder(mod)
        self._vars = {}  # variable -> what it is now
        self._depth = 0  # of functions inside functions

    def visit_expr(self, expr):
        new = _method(self, expr)(expr)
        changed = new is not expr or getattr(new, "struct_info", self) is None
        return self.builder_.normalize(new) if changed and isinstance(new, RelaxExpr) else new

    def visit_expr_post_order(self, expr):
        """`expr` with what is below it visited, by the methods of this class."""
        return getattr(PyExprMutator, _method(self, expr).__name__)(self, expr)

    def visit_with_new_scope(self, expr):
        """visit_expr of what has variables and dimensions of its own, as a function's body and a branch have."""
        return self.visit_expr(expr)

    def lookup_binding(self, var):
        """The value that a new variable is bound to; None for a parameter."""
        return self.builder_.lookup_binding(var)

    # ------------------------------------------------------------ functions and bindings

    def visit_function_(self, func):
        """The function with its parameters and its body visited. It gives what it gave where the new body tells less."""
        if not self._depth:
            self.builder_.begin_names((*func.params, *(b.var for b in collect(func, (VarBinding, MatchCast)))))
        self._depth += 1
        params = tuple(map(self.visit_var_def, func.params))
        self._vars.update({old: new for old, new in zip(func.params, params) if new is not old})
        body = self.visit_with_new_scope(func.body)
        self._depth -= 1
        if body is func.body and all(map(is_, params, func.params)):
            return func
        told, declared = body.struct_info, func.ret_struct_info
        if declared is None or not is_base_of(told, declared):
            infos = [p.struct_info for p in params]
            declared = erased(told, {d: d for d in (*told_dims(infos, infos), *free_vars(func.ret_struct_info))})
        return func.replace(params=params, body=body, ret_struct_info=declared)

    def visit_seq_expr_(self, seq):
        builder, blocks = self.builder_, []
        for block in seq.blocks:
            new = self.visit_binding_block(block)
            if new.bindings:
                blocks.append(new)
        builder._begin_binding_block()
        body = self.visit_expr(seq.body)
        body = body if body is seq.body else builder._leaf(body)
        last = builder._end_block()
        blocks = tuple(blocks) + ((last,) if last.bindings else ())
        same = body is seq.body and len(blocks) == len(seq.blocks) and all(map(is_, blocks, seq.blocks))
        return seq if same else SeqExpr(blocks, body)

    def visit_binding_block(self, block):
        """visit_dataflow_block_ or visit_binding_block_, by the kind of block."""
        return _block_method(self, block)(block)

    def visit_binding_block_(self, block):
        """The block of what its bindings, visited in order, and methods on the way emit."""
        self.builder_._begin_binding_block()
        return self._emitted(block)

    def visit_dataflow_block_(self, block):
        self.builder_._begin_dataflow_block()
        return self._emitted(block)

    def _emitted(self, block):
        for b in block.bindings:
            self.visit_binding(b)
        new = self.builder_._end_block()
        same = len(new.bindings) == len(block.bindings) and all(map(is_, new.bindings, block.bindings))
        return block if same else new

    def visit_binding(self, binding):
        """visit_match_cast_ or visit_var_binding_, by the kind of binding."""
        _binding_method(self, binding)(binding)

    def visit_match_cast_(self, binding):
        value, var = self.visit_expr(binding.value), self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        if var is not binding.var:
            self._vars[binding.var] = var
        self.builder_.emit_normalized(MatchCast(var, self.builder_._leaf(value)))

    def visit_var_binding_(self, binding):
        value, var = self.visit_expr(binding.value), self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        if isinstance(value, SeqExpr):
            value = self.builder_._flattened(value)
        var = self.with_struct_info(var, value.struct_info)
        if var is not binding.var:
            self._vars[binding.var] = var
        self.builder_.emit_normalized(VarBinding(var, value))

    def visit_var_def(self, var):
        """The variable that takes the place of one where it is defined: by visit_dataflow_var_def_ or visit_var_def_."""
        return _def_method(self, var)(var)

    def visit_var_def_(self, var):
        return self.with_struct_info(var, self._info(var.struct_info))

    visit_dataflow_var_def_ = visit_var_def_

    def with_struct_info(self, var, struct_info):
        """The variable, or one of its name that has this struct info."""
        same = struct_info is None or struct_info is var.struct_info or struct_info == var.struct_info
        return var if same else var.replace(struct_info=struct_info)

    def set_var_remap(self, var, new):
        """Let uses of a variable become those of another."""
        self._vars[var] = new

    def get_var_remap(self, var):
        """What a variable is now."""
        return self._vars.get(var, var)

    def visit_if_(self, branch):
        cond = self.visit_expr(branch.cond)
        branches = [self.visit_with_new_scope(seq) for seq in (branch.true_branch, branch.false_branch)]
        return branch if cond is branch.cond and branches[0] is branch.true_branch and (
            branches[1] is branch.false_branch) else branch.replace(cond=cond, true_branch=branches[0],
                                                                    false_branch=branches[1])

    # ------------------------------------------------------------ values

    def visit_var_(self, var):
        return self._vars.get(var, var)

    visit_dataflow_var_ = visit_var_

    def visit_call_(self, call):
        """The callee, the arguments and the shapes that it says to give are visited, in this order."""
        callee, args = self.visit_expr(_callee(call)), tuple(map(self.visit_expr, call.args))
        info = self._info(call.struct_info)
        if callee is _callee(call) and all(map(is_, args, call.args)):
            return call if info is call.struct_info else call.replace(struct_info=info)
        if callee is not _callee(call):
            attrs = {k: v for k, v in call.attrs.items() if k != "gv" or call.op != "call"}
            return RelaxCall(callee, args, attrs)
        if call.op == "call":
            known = self.builder_.get().functions.get(callee.name)
            return call.replace(args=args, struct_info=call_info(known, args) if isinstance(known, Function) else info)
        return self._inferred(call.replace(args=args, struct_info=info))

    @staticmethod
    def _inferred(call):
        """A call of an operator, or of a variable that is a function, with what its arguments tell."""
        if isinstance(call.op, str):
            return call_op(call.op, *call.args, **call.attrs) if call.op in OPS else inferred(call)
        info = called_info(call)
        return call if info is None else call.replace(struct_info=info)

    def visit_tuple_(self, value):
        fields = tuple(map(self.visit_expr, value.fields))
        return value if all(map(is_, fields, value.fields)) else RelaxTuple(fields)

    def visit_tuple_getitem_(self, item):
        value = self.visit_expr(item.tuple_value)
        return item if value is item.tuple_value else value[item.index]

    def visit_constant_(self, value):
        return value

    visit_shape_expr_ = visit_prim_value_ = visit_constant_
    visit_op_ = visit_global_var_ = visit_extern_func_ = visit_string_imm_ = visit_data_type_imm_ = visit_constant_

    def visit_span(self, span):
        """Where an expression is from."""
        return span

    # ------------------------------------------------------------ struct info

    def _info(self, info):
        """Struct info whose shapes visit_expr has seen."""
        if isinstance(info, TupleStructInfo):
            fields = tuple(map(self._info, info.fields))
            return info if all(map(is_, fields, info.fields)) else TupleStructInfo(fields)
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, tuple):
            return info
        shape = ShapeExpr(info.shape)
        new = self.visit_expr(shape)
        return info if new is shape else info.replace(shape=tuple(new.values))
