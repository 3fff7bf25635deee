"""Graph functions of a script: Python's syntax tree to relax Functions.

A call inside a call is bound to a variable of its own first, as in TVM. What a binding is annotated with is its struct
info; it must say the same as inference.
"""
from __future__ import annotations

import ast
from types import ModuleType

from ..expr import PrimExpr, Var, as_expr, const, free_vars
from ..module import GlobalVar
from ..relax import expr as X
from ..relax import op
from ..relax.classic import Function
from ..relax.infos import call_info, derived_info, new_dims, same_info
from ..relax.lattice import BaseCheckResult, base_check, common, erased, finer
from ..names import unique_name
from ..tir.function import PrimFunc
from . import specs as S
from .evaluator import describe
from .macros import Macro
from .namespaces import is_number
from .relax_calls import CallParser
from .relax_infos import VARS
from .relax_names import (FACTS, CastSpec, DataflowSpec, Globals, InfoName, InfoSpec, OutputSpec, PerAxis, R,
                          Special)

PYTHON_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
                    ast.Mod: "mod", ast.FloorDiv: "floor_divide", ast.Lt: "less", ast.LtE: "less_equal",
                    ast.Gt: "greater", ast.GtE: "greater_equal"}
LEAVES = (*VARS, X.Constant, X.ShapeExpr, X.PrimValue, X.RelaxString, X.DataTypeImm, X.RelaxTuple, X.ExternFunc, GlobalVar)
INFOS = ("Tensor", "Shape", "Tuple", "Object", "Prim", "Callable")  # names of struct info


def is_void(value):
    """Whether there is nothing in a value: what R.print gives."""
    info = value.struct_info
    return isinstance(info, X.TupleStructInfo) and not info.fields


def last_bound(blocks):
    """The last binding of a branch's blocks; None where there is none that is visible outside."""
    last = blocks[-1].bindings[-1] if blocks and blocks[-1].bindings else None
    return None if last is None or isinstance(last.var, X.DataflowVar) else last


def branch_value(blocks, name, used):
    """The SeqExpr of a branch's blocks: what the last binding binds is its value, where it is computed as variable
    `name`. used: names that are taken, of which that of the last variable becomes free."""
    *blocks, block = blocks
    *kept, bound = block.bindings
    used.discard(bound.var.name)
    body = bound.value
    if isinstance(bound, X.MatchCast) or not isinstance(body, LEAVES):
        body = X.RelaxVar(unique_name(name, used), bound.var.struct_info)
        kept.append(type(bound)(body, bound.value))
    return X.SeqExpr((*blocks, block.replace(bindings=tuple(kept))) if kept else tuple(blocks), body)


class RelaxParser(CallParser):
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
        self.check_well_formed = True  # hold what calls are annotated with to what they give
        self.returned = None  # the result, once the script has said it
        self.returning = False  # in what `return` says, which may be of the last dataflow block
        self.around = ()  # dimensions of what a function stands in

    # ------------------------------------------------------------ functions

    def top(self, node, private=False, pure=True):
        """The Function of a decorated function that stands alone."""
        return self.linked(node, self.function(node, pure), private)

    def function(self, node, pure=True):
        """The Function of an ast.FunctionDef."""
        if not isinstance(node, ast.FunctionDef):
            self.fail(node, "expected `def name(parameters):` below @R.function")
        self.taken = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        params, returns = self._header(node)
        self.returned = None
        for k, statement in enumerate(node.body):
            if self.returned is not None:
                self.fail(node.body[k], "nothing may follow return")
            if isinstance(statement, ast.Return):
                self.returned = self._result(statement)
            else:
                self.statement(statement)
        if self.returned is None:
            self.fail(node, f"function {node.name} ends without `return value`")
        self._close_block()
        body = X.SeqExpr(tuple(self.blocks), self.returned)
        dims = self._known_dims(node, params)
        info = finer(returns, erased(body.struct_info, {v: v for v in dims}, {p: p for p in params}))
        return X.Function(tuple(params), body, info, self.attrs, pure)

    def _known_dims(self, node, params):
        """The dimensions that a function's result may speak of. A parameter must have those of its own as they are."""
        told = [d for p in params for d in new_dims(p.struct_info)]
        known = [*told, *self.shared.values(), *self.around, *free_vars(self.attrs.get("dims", ()))]
        for p in params:
            lost = [v.name for v in free_vars(p.struct_info) if not any(v is d for d in known)]
            if lost:
                self.fail(node, f"the symbolic dimension {lost[0]} of parameter {p.name} is not defined: a parameter "
                                f"must have {lost[0]} itself as a dimension")
        return known

    def signature(self, node, pure=True):
        """A Function of an ast.FunctionDef's parameters and result, without a body."""
        params, returns = self._header(node)
        return X.Function(tuple(params), None, returns, {}, pure)

    def _header(self, node):
        params = [self._parameter(a) for a in node.args.args]
        if isinstance(node.returns, ast.Constant) and node.returns.value is None:  # `-> None`: nothing
            return params, X.TupleStructInfo(())
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
        self.returning = True
        value = self.value(self.eval(node.value), node)
        self.returning = False
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
        if isinstance(value, X.RelaxExpr) and not is_void(value):
            self.fail(node, "Non-void expressions must be bound to a variable, this is one of type "
                            f"{value.struct_info}: write `name = ...`")
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
            self._bind(name, self._declared(self.value(value, node), info, node))
        else:  # a name for something that is no value of the graph: `cls = Module`, a dimension
            self.define(name, value)

    def _declared(self, value, info, node):
        """`value`, a call with the struct info it is annotated with. Of other values it is known."""
        if info is not None and isinstance(value, X.ExternFunc):
            return value.replace(struct_info=info)
        found = getattr(value, "struct_info", None)
        if info is None:
            if isinstance(value, X.RelaxCall) and found is None:
                self.fail(node, f"what {value.op} gives is not known: annotate the variable, as in "
                                '`y: R.Tensor((1, 8), "float32") = ...`')
            return value
        held = self.check_well_formed or not isinstance(value, X.RelaxCall)
        if held and found is not None and base_check(info, found) == BaseCheckResult.FAIL_L0:
            self.fail(node, f"Invalid annotation: the variable is declared as {info}, its value is {found}")
        if isinstance(info, X.TensorStructInfo) and info.shape is not None and info.dtype == "void":
            info = finer(info, found)  # R.Tensor((n, 4)) leaves the dtype to what is computed; R.Tensor(ndim=2) hides it
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
        names = ast.walk(last) if isinstance(last, ast.Return) else names
        self._close_block()
        outputs = {n.id for n in names if isinstance(n, ast.Name)}
        assigned = [{n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                    for s in node.body]
        for n, s in enumerate(node.body):  # of several values that one name takes only the last is visible outside
            self.outputs = outputs.difference(*assigned[n + 1:])
            if s is last and isinstance(last, ast.Return):  # what it names is visible outside
                self.outputs = outputs | {"gv"}
                self.returned = self._result(last)
            else:
                self.statement(s)
        if self.returned is None and (not isinstance(last, ast.Expr) or not isinstance(self.eval(last.value), OutputSpec)):
            self.fail(last, "a dataflow block ends with R.output(names), which lists what is visible outside it")
        self._check_outputs(last, outputs)
        self.outputs = None
        self._close_block(X.DataflowBlock)

    def _check_outputs(self, node, names):
        """A dataflow block's R.output lists what it defines."""
        own = [b.var for b in self.bindings]
        for name in sorted(names) if self.returned is None else ():
            if not any(self.scopes[-1].get(name) is v for v in own):
                self.fail(node, f"R.output lists {name}, which the dataflow block does not define")

    def stmt_If(self, node):
        """`if cond:` and `else:`, each ending with an assignment to one and the same name."""
        if self.outputs is not None:
            self.fail(node, "a dataflow block has no control flow: end it before `if`")
        cond = self.leaf(self.eval(node.test), node.test)
        outer, branches, used = set(self.used), [], set()
        for nodes, suffix in ((node.body, "_then"), (node.orelse, "_else")):
            self.used = set(outer)  # the branches may use one name each for itself
            branches.append(self._branch(node, nodes, suffix))
            used |= self.used
        self.used = used
        (name, true_branch), (other, false_branch) = branches
        if name != other:
            self.fail(node, f"the branches end by assigning {name} and {other}: they must assign the same name")
        given = true_branch.struct_info, false_branch.struct_info
        if not same_info(*given) and type(given[0]) is not type(given[1]):
            self.fail(node, f"the branches give {given[0]} and {given[1]}")
        self._bind(name, X.If(cond, true_branch, false_branch), None if same_info(*given) else common(*given))

    def stmt_FunctionDef(self, node):
        """A function inside a function is a value, which its name is bound to."""
        if self.outputs is not None:
            self.fail(node, "a dataflow block binds values of graphs: put the function before it")
        itself = self._itself(node)
        outer = self.attrs, self.blocks, self.bindings, self.taken, self.used, self.around
        self.around = [*self.around, *(v for scope in self.scopes for v in scope.values() if isinstance(v, Var))]
        self.attrs, self.blocks, self.bindings, self.used = {}, [], [], set(self.used)
        self.scopes.append({})
        keywords = {k.arg: self.eval(k.value) for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords}
        func = self.function(node, keywords.get("pure", True))
        self.returned = None
        self.scopes.pop()
        self.attrs, self.blocks, self.bindings, self.taken, self.used, self.around = outer
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

    def _branch(self, node, nodes, suffix):
        """(name, SeqExpr) of a branch: what its last statement binds is its value, under that name and `suffix`."""
        last = nodes[-1] if nodes else node
        target = getattr(last, "target", None) or (getattr(last, "targets", None) or [None])[0]
        outer, self.blocks, self.bindings = (self.blocks, self.bindings), [], []
        self.scopes.append({})
        for s in nodes:
            self.statement(s)
        self._close_block()
        self.scopes.pop()
        blocks, self.blocks, self.bindings = self.blocks, *outer
        bound = last_bound(blocks)
        if bound is None or not isinstance(last, (ast.Assign, ast.AnnAssign, ast.Expr, ast.If, ast.With)):
            self.fail(last, "both branches of an `if` end with `name = value`")
        name = target.id if isinstance(target, ast.Name) else "_" if isinstance(last, ast.Expr) else bound.var.name
        return name, branch_value(blocks, name + suffix, self.used)

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
        return (self.leaf(base, node) if isinstance(base, X.TupleGetItem) else base)[index]

    def eval_Name(self, node):
        """In the first scripts for Relax, relax.add is what is now R.add, and Tensor is R.Tensor."""
        if node.id == "metadata":
            return self.metadata
        if node.id == "cls" and "cls" not in self.env:  # a function alone, which calls others of its module
            return Globals()
        if node.id in INFOS and not any(node.id in scope for scope in (*self.scopes, self.env)):
            return getattr(R, node.id)
        value = super().eval_Name(node)
        if isinstance(value, X.DataflowVar) and self.outputs is None and not self.returning:
            self.fail(node, f"{node.id!r} is not defined here: it is a variable of a dataflow block, which R.output of the "
                            "block does not list")
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
        if isinstance(function, Macro):
            return self.macro(node, function, args, kwargs)
        if isinstance(function, Special):
            return getattr(self, "call_" + function.name)(node, *args, **kwargs)
        if isinstance(function, GlobalVar):
            args, func = tuple(self.leaf(a, node) for a in args), self.function_of(function.name)
            if isinstance(func, PrimFunc) or getattr(func, "ret_struct_info", None) is not None:
                known = GlobalVar(function.name, func.struct_info)
                return X.RelaxCall("call", args, {"gv": known}, call_info(func, args))
            known = function.struct_info  # of another module's function
            info = None if known is None else derived_info(known.params, known.ret, args)
            return X.RelaxCall("call", args, {"gv": function}, info)
        if isinstance(function, VARS) and isinstance(function.struct_info, X.FuncStructInfo):
            args, info = tuple(self.leaf(a, node) for a in args), function.struct_info
            ret = info.ret if info.params is None else derived_info(info.params, info.ret, args)
            return X.RelaxCall(function, args, None, ret)
        return super().call(node, function, args, kwargs)

    def macro(self, node, macro, args, kwargs):
        """The result of R.macro: its statements are put here, its parameters bound to the arguments."""
        names = [a.arg for a in macro.tree.args.args]
        bound = dict(zip(names, args), **kwargs)
        if len(args) > len(names) or set(bound) != set(names):
            self.fail(node, f"macro {macro.tree.name} takes ({', '.join(names)})")
        *statements, last = macro.tree.body
        kept = self.scopes, self.env, self.source
        self.source = macro.source
        self.scopes, self.env = ([bound], macro.env) if macro.hygienic else ([*self.scopes, bound], self.env)
        try:
            for s in statements:
                self.statement(s)
            if isinstance(last, ast.Return) and last.value is not None:
                return self.eval(last.value)
            return self.statement(last)
        finally:
            self.scopes, self.env, self.source = kept

    def operator(self, node, name, args, attrs):
        """A call of an operator in its classic spelling; calls that it is made of are bound first."""
        if name == "to_vdevice" and len(args) == 2 and isinstance(args[1], str):
            args = (args[0], self.device(args[1], node))
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


__all__ = ["RelaxParser", "branch_value", "last_bound"]
