"""Graph functions of a script: Python's syntax tree to relax Functions.

A call inside a call is bound to a variable of its own first, as in TVM. What a binding is annotated with is its struct
info; it must say the same as inference.
"""
from __future__ import annotations

import ast
from types import ModuleType

from ..expr import PrimExpr, Var, as_expr, const, free_vars
from ..module import GlobalVar, linked
from ..relax import expr as X
from ..relax import op
from ..relax.classic import Function
from ..relax.control import BODIES, tensor_to_shape
from ..relax.inplace import call_tir_inplace
from ..relax.tensor_calls import TensorCall
from ..relax.infos import call_info, derived_info, same_info
from ..relax.lattice import common, erased, finer, is_base_of
from ..names import unique_name
from ..tir.function import PrimFunc
from ..vdevice import VDevice
from . import specs as S
from .evaluator import Evaluator, describe
from .namespaces import is_number
from .relax_names import (FACTS, CastSpec, DataflowSpec, Globals, InfoName, InfoSpec, OutputSpec, PerAxis, R,
                          Special)

PYTHON_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
                    ast.Mod: "mod", ast.FloorDiv: "floor_divide", ast.Lt: "less", ast.LtE: "less_equal",
                    ast.Gt: "greater", ast.GtE: "greater_equal"}
VARS = (X.RelaxVar, X.DataflowVar)


INFOS = ("Tensor", "Shape", "Tuple", "Object", "Prim", "Callable")  # names of struct info


def _outside(info, params, declared):
    """Struct info of a result as callers see it: without variables of shapes that are no parameters and, where a result
    is declared, without dimensions that no parameter tells."""
    dims = free_vars(info if declared is None else [p.struct_info for p in params])
    return erased(info, {v: v for v in dims}, {p: p for p in params})


class RelaxParser(Evaluator):
    """Parses one graph function. Integers in shapes are int64."""

    default_int = "int64"

    def __init__(self, source, env, trusted=False):
        super().__init__(source, env, trusted)
        self.metadata, self.shared = {}, {}
        self.function_of = lambda name: None  # name -> the graph function of the module, or its signature
        self.add_function = None  # (function, name) -> its GlobalVar in the module, which is parsed
        self.attrs, self.blocks, self.bindings = {}, [], []
        self.used = set()  # names of variables so far; `taken` also has those that the script uses
        self.taken = set()
        self.outputs = None  # inside a dataflow block: the names visible outside it

    # ------------------------------------------------------------ functions

    def top(self, node, private=False):
        """The Function of a decorated function that stands alone."""
        return linked(self.function(node), node.name, private)

    def function(self, node):
        """The Function of an ast.FunctionDef."""
        if not isinstance(node, ast.FunctionDef):
            self.fail(node, "expected `def name(parameters):` below @R.function")
        self.taken = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        params, returns = self._header(node)
        result = None
        for k, statement in enumerate(node.body):
            if isinstance(statement, ast.Return):
                if k + 1 < len(node.body):
                    self.fail(node.body[k + 1], "nothing may follow return")
                result = self._result(statement)
            else:
                self.statement(statement)
        if result is None:
            self.fail(node, f"function {node.name} ends without `return value`")
        self._close_block()
        body = X.SeqExpr(tuple(self.blocks), result)
        info = finer(returns, _outside(result.struct_info, params, returns))
        return X.Function(tuple(params), body, info, self.attrs)

    def signature(self, node):
        """A Function of an ast.FunctionDef's parameters and result, without a body."""
        params, returns = self._header(node)
        return X.Function(tuple(params), None, returns)

    def _header(self, node):
        params = [self._parameter(a) for a in node.args.args]
        return params, self.info(self.eval(node.returns), node.returns) if node.returns is not None else None

    def _parameter(self, arg):
        if arg.annotation is None:
            self.fail(arg, f'parameter {arg.arg} has no type: write {arg.arg}: R.Tensor((1, "n"), "float32")')
        annotation = arg.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.copy_location(ast.parse(annotation.value, mode="eval").body, annotation)
            ast.fix_missing_locations(annotation)
        var = X.RelaxVar(arg.arg, self.info(self.eval(annotation), annotation))
        self.define(arg.arg, var)
        self.used.add(arg.arg)
        return var

    def _result(self, node):
        if node.value is None:
            self.fail(node, "return needs a value; R.tuple() is none at all")
        value = self.value(self.eval(node.value), node)
        return self._bind(self._new("gv"), value) if isinstance(value, X.RelaxCall) else value

    # ------------------------------------------------------------ statements

    def statement(self, node):
        method = getattr(self, "stmt_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"Python's {type(node).__name__.lower()} statement has no meaning in a graph function")
        method(node)

    def stmt_Pass(self, node):
        pass

    stmt_Nonlocal = stmt_Global = stmt_Pass  # names of around the function are known in it anyway

    def stmt_Expr(self, node):
        value = self.eval(node.value)
        if isinstance(value, S.AttrsSpec) and value.owner == "function":
            self.attrs.update(value.attrs)
        elif isinstance(value, OutputSpec):
            if self.outputs is None:
                self.fail(node, "R.output outside `with R.dataflow():`")
        elif isinstance(value, X.RelaxExpr):
            self._bind(self._new("_"), value)
        elif not isinstance(node.value, ast.Constant):
            self.fail(node, f"expected a binding, R.func_attr or R.output, not {describe(value)}")

    def stmt_Assign(self, node):
        if len(node.targets) != 1 or not isinstance(node.targets[0], (ast.Name, ast.Tuple)):
            self.fail(node, "expected `name = value`")
        target, value = node.targets[0], self.eval(node.value)
        if isinstance(target, ast.Tuple):
            if isinstance(value, tuple) and all(isinstance(v, S.Fresh) for v in value):  # n, m = T.int64(), T.int64()
                return [self._assign(t.id, v, node) for t, v in zip(target.elts, value)]
            return self._unpack(target, self.value(value, node), node)
        return self._assign(target.id, value, node)

    def stmt_AnnAssign(self, node):
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "expected `name: info = value`")
        info = self.info(self.eval(node.annotation), node.annotation)
        self._assign(node.target.id, self.eval(node.value), node, info)

    def _unpack(self, target, value, node):
        fields = getattr(value.struct_info, "fields", ())
        if len(fields) != len(target.elts):
            self.fail(node, f"{len(target.elts)} names for {len(fields)} values")
        whole = value if isinstance(value, VARS) else self._bind(self._new("gv"), value)
        for k, t in enumerate(target.elts):
            self._assign(t.id, X.TupleGetItem(whole, k), node)

    def _assign(self, name, value, node, info=None):
        if isinstance(value, S.Fresh):
            var = self._dim(name, value.dtype)
            if value.most is not None:  # a variable of this parser's, which a signature may have named before
                object.__setattr__(var, "most", value.most)
            self.define(name, var)
        elif isinstance(value, Var) and value.name == name:  # n = T.Var("n", "int64"), which a signature may have named
            self.define(name, self._dim(name, value.dtype))
        elif isinstance(value, S.Meta):
            self.define(name, value.value)
        elif isinstance(value, CastSpec):
            cast_info = self.info(value.info, node)
            self._bind(name, self.leaf(value.value, node), info or cast_info, X.MatchCast)
        elif isinstance(value, (X.RelaxExpr, tuple, list)) or is_number(value):
            value = self.value(value, node)
            if isinstance(info, X.TensorStructInfo) and info.dtype == "void" and is_base_of(info, value.struct_info):
                info = None  # R.Tensor((2, 3)), whatever the dtype is: the value's says more
            self._bind(name, self._declared(value, info, node), info)
        else:  # a name for something that is no value of the graph: `cls = Module`, a dimension
            self.define(name, value)

    def _declared(self, value, info, node):
        """`value`, a call with the struct info it is annotated with."""
        found = getattr(value, "struct_info", None)
        if info is None:
            if isinstance(value, X.RelaxCall) and found is None:
                self.fail(node, f"what {value.op} gives is not known: annotate the variable, as in "
                                '`y: R.Tensor((1, 8), "float32") = ...`')
            return value
        if found is not None and not is_base_of(info, found):
            self.fail(node, f"the variable is declared as {info}, its value is {found}")
        return value.replace(struct_info=info) if isinstance(value, X.RelaxCall) else value

    def _bind(self, name, value, info=None, kind=X.VarBinding):
        """Bind `value` to a new variable of `name`."""
        inside = self.outputs is not None and name not in self.outputs
        var = (X.DataflowVar if inside else X.RelaxVar)(unique_name(name, self.used), info or value.struct_info)
        self.bindings.append(kind(var, value))
        self.define(name, var)
        return var

    def _new(self, hint):
        """A name for a variable that the script does not name."""
        return unique_name(hint, self.taken | self.used)

    def _close_block(self, kind=X.BindingBlock):
        if self.bindings or kind is X.DataflowBlock:
            self.blocks.append(kind(tuple(self.bindings)))
        self.bindings = []

    def stmt_With(self, node):
        if len(node.items) != 1 or not isinstance(self.eval(node.items[0].context_expr), DataflowSpec):
            self.fail(node, "expected `with R.dataflow():`")
        if self.outputs is not None:
            self.fail(node, "a dataflow block inside another")
        last = node.body[-1]
        names = last.value.args if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else []
        self._close_block()
        outputs = {n.id for n in names if isinstance(n, ast.Name)}
        assigned = [{n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                    for s in node.body]
        for n, s in enumerate(node.body):  # of several values that one name takes only the last is visible outside
            self.outputs = outputs.difference(*assigned[n + 1:])
            self.statement(s)
        if not isinstance(last, ast.Expr) or not isinstance(self.eval(last.value), OutputSpec):
            self.fail(last, "a dataflow block ends with R.output(names), which lists what is visible outside it")
        self.outputs = None
        self._close_block(X.DataflowBlock)

    def stmt_If(self, node):
        """`if cond:` and `else:`, each ending with an assignment to one and the same name."""
        if self.outputs is not None:
            self.fail(node, "a dataflow block has no control flow: end it before `if`")
        cond = self.leaf(self.eval(node.test), node.test)
        branches = [self._branch(node, nodes) for nodes in (node.body, node.orelse)]
        (name, info, true_branch), (other, _, false_branch) = branches
        if name != other:
            self.fail(node, f"the branches end by assigning {name} and {other}: they must assign the same name")
        given = true_branch.struct_info, false_branch.struct_info
        if not same_info(*given):
            if type(given[0]) is not type(given[1]):
                self.fail(node, f"the branches give {given[0]} and {given[1]}")
            info = info or common(*given)
        self._bind(name, X.If(cond, true_branch, false_branch), info)

    def stmt_FunctionDef(self, node):
        """A function inside a function is a value, which its name is bound to."""
        if self.outputs is not None:
            self.fail(node, "a dataflow block binds values of graphs: put the function before it")
        itself = self._itself(node)
        outer = self.attrs, self.blocks, self.bindings, self.taken
        self.attrs, self.blocks, self.bindings = {}, [], []
        self.scopes.append({})
        func = self.function(node)
        self.scopes.pop()
        self.attrs, self.blocks, self.bindings, self.taken = outer
        if itself is None:
            self._bind(node.name, func)
            return
        object.__setattr__(itself, "struct_info", func.struct_info)  # with its own dimensions
        self.bindings.append(X.VarBinding(itself, func))
        self.define(node.name, itself)

    def _itself(self, node):
        """The variable of a function that calls itself, known before its body is read; None for others."""
        if node.returns is None or not any(isinstance(n, ast.Name) and n.id == node.name for s in node.body
                                           for n in ast.walk(s)):
            return None
        used, self.used = set(self.used), self.used
        self.scopes.append({})
        func = self.signature(node)
        self.scopes.pop()
        self.used = used
        var = X.RelaxVar(unique_name(node.name, self.used), func.struct_info)
        self.define(node.name, var)
        return var

    def _branch(self, node, nodes):
        """(name, struct info or None, SeqExpr) of a branch."""
        last = nodes[-1] if nodes else None
        target = getattr(last, "target", None) or (getattr(last, "targets", None) or [None])[0]
        if not isinstance(target, ast.Name):
            self.fail(last or node, "both branches of an `if` end with `name = value`")
        outer, self.blocks, self.bindings = (self.blocks, self.bindings), [], []
        self.scopes.append({})
        for s in nodes[:-1]:
            self.statement(s)
        value = self.leaf(self.eval(last.value), last)
        self._close_block()
        branch = X.SeqExpr(tuple(self.blocks), value)
        self.scopes.pop()
        self.blocks, self.bindings = outer
        annotated = getattr(last, "annotation", None)
        return target.id, self.info(self.eval(annotated), annotated) if annotated is not None else None, branch

    # ------------------------------------------------------------ values

    def value(self, value, node):
        """A graph expression: tuples and numbers are made into one."""
        if isinstance(value, X.RelaxExpr) and not isinstance(value, X.RelaxTuple):
            return value
        if isinstance(value, (tuple, list, X.RelaxTuple)):
            value = getattr(value, "fields", value)
            return X.RelaxTuple(tuple(self.leaf(v, node) for v in value))
        if is_number(value) or isinstance(value, PrimExpr):
            return X.PrimValue(const(int(value), self.default_int) if isinstance(value, int) and not isinstance(
                value, bool) else as_expr(value))
        if isinstance(value, str):
            return X.RelaxString(value)
        if isinstance(value, GlobalVar):
            return value
        return self.fail(node, f"expected a value of the graph, not {describe(value)}")

    def leaf(self, value, node):
        """A value that may be an argument: calls and tuple elements are bound to a variable first."""
        value = self.value(value, node)
        return self._bind(self._new("lv"), value) if isinstance(value, (X.RelaxCall, X.TupleGetItem)) else value

    def subscript(self, node, base, index):
        if isinstance(base, PerAxis):
            return self.operator(node, f"inspect.{base.fact}", (base.tensor, self.leaf(index, node)), {})
        if not isinstance(base, X.RelaxExpr):
            return self._metadata(node, base, index)
        fields = getattr(base.struct_info, "fields", None)
        if fields is None or not isinstance(index, int) or not -len(fields) <= index < len(fields):
            self.fail(node, f"{index!r} is no element of {base.struct_info}")
        return base[index]

    def eval_Name(self, node):
        """In the first scripts for Relax, relax.add is what is now R.add, and Tensor is R.Tensor."""
        if node.id == "metadata":
            return self.metadata
        if node.id == "cls" and "cls" not in self.env:  # a function alone, which calls others of its module
            return Globals()
        if node.id in INFOS and not any(node.id in scope for scope in (*self.scopes, self.env)):
            return getattr(R, node.id)
        value = super().eval_Name(node)
        is_package = isinstance(value, ModuleType) and value.__name__.rpartition(".")[2] == "relax"
        return R if is_package else value

    def _metadata(self, node, base, index):
        try:
            found = base[index]
        except (LookupError, TypeError) as error:
            if base is self.metadata or base in self.metadata.values():
                self.fail(node, f"constant {index!r} is not in the metadata: give from_source(text, metadata=...) what "
                                "script.metadata(mod) returned")
            return self.fail(node, str(error))
        return X.Constant(found) if hasattr(found, "dtype") and hasattr(found, "shape") else found

    def combine(self, node, row, a, b):
        if not (isinstance(a, X.RelaxExpr) or isinstance(b, X.RelaxExpr)):
            return super().combine(node, row, a, b)
        kinds = [type(getattr(node, "op", None)), *(type(o) for o in getattr(node, "ops", ()))]
        name = next((PYTHON_OPERATORS[k] for k in kinds if k in PYTHON_OPERATORS), None)
        if name is None:
            self.fail(node, "this operator has no meaning on tensors")
        return self.operator(node, name, [a, b], {})

    def attribute(self, node, value):
        """x.shape[0], x.dtype.bits: what a run tells of a tensor."""
        if isinstance(value, X.RelaxExpr) and isinstance(value.struct_info, X.TensorStructInfo) and (
                node.attr in FACTS):
            return FACTS[node.attr](value)
        return super().attribute(node, value)

    def eval_UnaryOp(self, node):
        if isinstance(node.op, ast.USub):
            value = self.eval(node.operand)
            if isinstance(value, X.RelaxExpr):
                return self.operator(node, "negative", [value], {})
        return super().eval_UnaryOp(node)

    # ------------------------------------------------------------ calls

    def call(self, node, function, args, kwargs):
        if isinstance(function, Function):
            return self.operator(node, function.name, args, kwargs)
        if isinstance(function, InfoName) or function is CastSpec:
            return function(*args, **kwargs)
        if isinstance(function, Special):
            return getattr(self, "call_" + function.name)(node, *args, **kwargs)
        if isinstance(function, GlobalVar):
            args, func = tuple(self.leaf(a, node) for a in args), self.function_of(function.name)
            if isinstance(func, PrimFunc):  # in place, of arguments that are its outputs too
                return X.RelaxCall("call", args, {"gv": function}, X.TupleStructInfo(()))
            info = None if getattr(func, "ret_struct_info", None) is None else call_info(func, args)
            return X.RelaxCall("call", args, {"gv": function}, info)
        if isinstance(function, VARS) and getattr(function.struct_info, "params", None) is not None:
            args, info = tuple(self.leaf(a, node) for a in args), function.struct_info
            return X.RelaxCall(function, args, None, derived_info(info.params, info.ret, args))
        return super().call(node, function, args, kwargs)

    def operator(self, node, name, args, attrs):
        """A call of an operator in its classic spelling; calls that it is made of are bound first."""
        def leaves(value):
            if isinstance(value, (tuple, list)):
                return tuple(map(leaves, value))
            if isinstance(value, InfoSpec):
                return self.info(value, node)
            return self.leaf(value, node) if isinstance(value, X.RelaxExpr) else value
        try:
            call = op.call(name, *map(leaves, args), **{k: leaves(v) for k, v in attrs.items()})
        except (TypeError, ValueError) as error:  # InferError is a ValueError
            if hasattr(error, "filename"):
                raise
            return self.fail(node, str(error))
        return self._flat(call) if isinstance(call, X.RelaxCall) else call

    def _flat(self, call):
        """`call` with the calls among its arguments bound to variables."""
        def bound(a):
            if isinstance(a, X.RelaxTuple):
                return a.replace(fields=tuple(map(bound, a.fields)))
            a = self._flat(a) if isinstance(a, X.RelaxCall) else a
            return self._bind(self._new("lv"), a) if isinstance(a, (X.RelaxCall, X.TupleGetItem)) else a
        return call.replace(args=tuple(map(bound, call.args)))

    def call_call_tir(self, node, gv, args=(), out_sinfo=None, tir_vars=(), **attrs):
        """R.call_tir(cls.f, (x, y), out_sinfo=R.Tensor(...), tir_vars=R.shape([n]))"""
        if not isinstance(gv, GlobalVar):
            self.fail(node, f"R.call_tir calls a function of the module, as cls.name, not {describe(gv)}")
        if out_sinfo is None:
            self.fail(node, "R.call_tir needs out_sinfo, the struct info of what it makes")
        out = [self.info(i, node) for i in out_sinfo] if isinstance(out_sinfo, (list, tuple)) \
            else self.info(out_sinfo, node)
        args = args.fields if isinstance(args, X.RelaxTuple) else args
        args = args if isinstance(args, (tuple, list)) else (args,)
        dims = tuple(getattr(tir_vars, "values", tir_vars))
        call = X.call_tir(gv, [self.leaf(a, node) for a in args], out, dims)
        return call.replace(attrs={**call.attrs, **attrs}) if attrs else call

    def call_emit_te(self, node, func, *args, primfunc_name_hint=None, **kwargs):
        """R.emit_te(f, x, 2): R.call_tir of the PrimFunc that f describes, which joins the module"""
        if self.add_function is None:
            self.fail(node, "R.emit_te adds a function to the module: write it in a class below @I.ir_module")
        made = TensorCall(func, args, kwargs, lambda a: self.leaf(a, node), None)
        name = primfunc_name_hint or getattr(func, "name", None) or getattr(func, "__name__", "te_func")
        gv = self.add_function(made.func, name.rpartition(".")[2].replace("<lambda>", "te_func"))
        return X.call_tir(gv, made.args, made.info, made.dims)

    def call_call_tir_inplace(self, node, gv, args=(), inplace_indices=(), out_sinfo=None, tir_vars=()):
        """R.call_tir_inplace(cls.f, (x, y), inplace_indices=[0], out_sinfo=[R.Tensor(...)])"""
        call = self.call_call_tir(node, gv, args, out_sinfo, tir_vars)
        info = call.struct_info
        try:
            return call_tir_inplace(gv, call.args, inplace_indices, list(getattr(info, "fields", (info,))),
                                    call.attrs["sym_args"])
        except ValueError as error:
            self.fail(node, str(error))

    def call_call_if(self, node, cond, *args, then, other, dims=()):
        """R.call_if(c, x, then=cls.f, other=cls.g, dims=[(n, 2, 3)]), annotated with what it gives"""
        dims = tuple((var, *(as_expr(v).astype("int64") for v in values)) for var, *values in dims)
        return self._control(node, "call_if", (cond, *args), {"then": then, "other": other, "dims": dims})

    def call_call_loop(self, node, *args, body, index, turns=None, count=None, limit=False, cond=False, carried=0,
                       scanned=0):
        """R.call_loop(limit, cond, *carried, *scanned, *captured, body=cls.f, index=i, ...), annotated"""
        turns = None if turns is None else as_expr(turns).astype("int64")
        attrs = {"body": body, "index": index, "turns": turns, "count": count, "limit": limit, "cond": cond,
                 "carried": carried, "scanned": scanned}
        return self._control(node, "call_loop", args, attrs)

    def _control(self, node, name, args, attrs):
        for key in BODIES[name]:
            if not isinstance(attrs[key], GlobalVar):
                self.fail(node, f"R.{name}: {key} is a function of the module, as cls.name, not {describe(attrs[key])}")
        return X.RelaxCall(name, tuple(self.leaf(a, node) for a in args), attrs, None)

    def call_tensor_to_shape(self, node, tensor, dims=None):
        """R.tensor_to_shape(x, dims=[n, m])"""
        if dims is None:
            return self.operator(node, "tensor_to_shape", (tensor,), {})
        return tensor_to_shape(self.leaf(tensor, node), dims)

    def call_call_packed(self, node, name, *args, sinfo_args=None, kind="call_packed", **attrs):
        """R.call_packed("name", x, sinfo_args=R.Tensor(...))"""
        if isinstance(sinfo_args, (list, tuple)):
            sinfo_args = sinfo_args[0] if len(sinfo_args) == 1 else InfoSpec("Tuple", tuple(sinfo_args))
        info = X.ObjectStructInfo() if sinfo_args is None else self.info(sinfo_args, node)
        return X.RelaxCall(kind, tuple(self.leaf(a, node) for a in args), {"func": name, **attrs}, info)

    def call_call_pure_packed(self, node, name, *args, **attrs):
        return self.call_call_packed(node, name, *args, kind="call_pure_packed", **attrs)

    def call_call_builtin_with_ctx(self, node, name, args=(), sinfo_args=None):
        """R.call_builtin_with_ctx("name", (x, y), sinfo_args=R.Tensor(...))"""
        args = getattr(args, "fields", args)
        return self.call_call_packed(node, name, *args, sinfo_args=sinfo_args, kind="call_builtin_with_ctx")

    def call_call_inplace_packed(self, node, name, *args, inplace_indices, sinfo_args=None):
        """R.call_inplace_packed("name", x, inplace_indices=[0], sinfo_args=R.Tensor(...))"""
        given = self.call_call_packed(node, name, *args, sinfo_args=sinfo_args)
        return X.call_inplace_packed(name, *given.args, inplace_indices=inplace_indices, sinfo_args=given.struct_info)

    def call_call_dps_packed(self, node, name, args=(), out_sinfo=None, **attrs):
        """R.call_dps_packed("name", (x, y), out_sinfo=R.Tensor(...))"""
        call = self.call_call_tir(node, GlobalVar(str(name)), args, out_sinfo)
        return X.RelaxCall("call_dps_packed", call.args, {"func": name, **attrs}, call.struct_info)

    # ------------------------------------------------------------ struct info

    def info(self, spec, node):
        """The struct info of an annotation."""
        if isinstance(spec, X.StructInfo):
            return spec
        if not isinstance(spec, InfoSpec):
            self.fail(node, f"expected struct info such as R.Tensor((1, 8), \"float32\"), not {describe(spec)}")
        try:
            return getattr(self, "info_" + spec.name)(node, *spec.args, **(spec.kwargs or {}))
        except (TypeError, ValueError) as error:
            if hasattr(error, "filename"):
                raise
            return self.fail(node, f"R.{spec.name}: {error}")

    def info_Tensor(self, node, shape=None, dtype="void", vdevice=None, ndim=-1):
        if isinstance(shape, str):
            shape, dtype = None, shape
        if isinstance(vdevice, str):  # "cuda:0:global"
            target, number, scope = (vdevice.split(":") + ["0", "global"][vdevice.count(":"):])[:3]
            vdevice = VDevice(target, int(number), scope)
        shape = shape if shape is None or isinstance(shape, VARS) else self.dims(shape, node)
        return X.TensorStructInfo(shape, dtype, ndim, vdevice)

    def info_Shape(self, node, values=None, ndim=-1):
        values = None if values is None else self.dims(values, node)
        return X.ShapeStructInfo(values, ndim if values is None else len(values))

    def info_Prim(self, node, dtype=None, value=None):
        return X.PrimStructInfo(dtype) if value is None else X.PrimStructInfo(value=self.dims((value,), node)[0])

    def info_Callable(self, node, params=None, ret=None, purity=None, derive_func=None):
        ret = None if ret is None else self.info(ret, node)
        if params is None:
            return X.FuncStructInfo.opaque_func(ret=ret, purity=bool(purity), derive_func=derive_func)
        params = params if isinstance(params, (list, tuple)) else (params,)
        return X.FuncStructInfo(tuple(self.info(p, node) for p in params), ret, purity is not False)

    def info_Tuple(self, node, *fields):
        fields = fields[0] if len(fields) == 1 and isinstance(fields[0], (list, tuple)) else fields
        return X.TupleStructInfo(tuple(self.info(f, node) for f in fields))

    def info_Object(self, node):
        return X.ObjectStructInfo()

    def dims(self, shape, node):
        """Dimensions as int64 expressions; a quoted one may name variables that are new."""
        shape = getattr(shape, "values", shape)
        return tuple(self._quoted(d, node) if isinstance(d, str) else self.as_scalar(d, node) for d in shape)

    def _quoted(self, text, node):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            self.fail(node, f"{text!r} is no expression of dimensions")
        for n in ast.walk(tree):
            ast.copy_location(n, node)
            if isinstance(n, ast.Name) and not self._is_known(n.id):
                self.define(n.id, self._dim(n.id, "int64"))
        return self.scalar(tree)

    def _is_known(self, name):
        return any(name in s for s in self.scopes) or name in self.shared or name in ("T", "R", "I")

    def _dim(self, name, dtype):
        """The variable `name`: the signature's or the module's when there is one."""
        known = self.scopes[0].get(name, self.shared.get(name))
        return known if isinstance(known, Var) and known.dtype == dtype else Var(name, dtype)


__all__ = ["RelaxParser"]
