"""Helpers of graph passes: rewriting a dataflow function binding by binding, uses, dead code."""
from __future__ import annotations

from functools import wraps

from .. import op as op_table
from ..boundary import internal_errors
from ..expr import free_vars, is_const_int
from ..names import Names, unique_name
from ..node import Mutator, children
from ..relax.control import dims_set_by
from ..relax.expr import (Constant, DataflowVar, MatchCast, RelaxCall, RelaxTuple, RelaxVar, TupleGetItem, VarBinding,
                          dataflow_function)
from .dead_code import has_effects

COMMUTATIVE = ("add", "multiply", "maximum", "minimum")


class MadeOnce:
    """A cache of tensors derived from constants: one for each constant's data and derivation, however often it is used.
    """

    def __init__(self):
        self._made = {}  # (id of the data, how) -> (the constant, which keeps its id its own, what is made of it)

    def __call__(self, constant, how, make):
        """make(constant), or what it gave before for the same data and `how`."""
        key = (id(constant.data), how)
        if key not in self._made:
            self._made[key] = (constant, make(constant))
        return self._made[key][1]


class GraphRewriter:
    """Rebuilds a function's bindings in order. Override `call(binding, call)`: return the value to bind, or an existing
    value (variable, constant, tuple of constants) that replaces the variable. `emit` adds a binding before the current
    one. Variables keep their names and struct info: a rewriting changes how a value is computed, never the value.

    Ensures that arguments of calls are variables, constants, shapes or tuples of those, and that each binding is used.

    definition: {id(variable): the call that defines it}, for looking back through producers.
    """

    def run(self, func):
        self.begin(func)
        self.env, self.bindings, self.definition = {}, [], {}
        self.names = Names([*(p.name for p in func.params), *(b.var.name for b in func.bindings)])
        self.current = DataflowVar("lv", None)
        for b in func.bindings:
            with internal_errors(lambda: node_title(b)):
                self._rewrite(b)
        outputs = [self.named(self.rewritten(o)) for o in func.outputs]
        return remove_unused(dataflow_function(func.params, self.bindings, outputs, func.attrs))

    def _rewrite(self, b):
        """Add what becomes of a binding."""
        self.current = b.var
        value = self.rewritten(b.value)
        if isinstance(b, MatchCast):
            self.bindings.append(b.replace(value=value))
            return
        if isinstance(value, RelaxCall):
            value = self.call(b, value)
        if isinstance(value, RelaxCall):
            value = value.replace(struct_info=b.var.struct_info)
        if isinstance(value, (RelaxCall, TupleGetItem)):
            self._bind(b.var, value)
        else:
            self.env[id(b.var)] = value

    def begin(self, func):
        """Called before the first binding."""

    def call(self, binding, call):
        return call

    def emit(self, value, hint=None, origin=None):
        """Bind `value` to a new variable that carries the current binding's origin, or another one."""
        name = unique_name(hint or self.current.name, self.names)
        var = DataflowVar(name, value.struct_info, origin or self.current.origin)
        self._bind(var, value)
        return var

    def named(self, value):
        """`value`, bound to a variable when it is computed."""
        return self.emit(value) if isinstance(value, (RelaxCall, TupleGetItem)) else value

    def _bind(self, var, value):
        self.bindings.append(VarBinding(var, value))
        self.definition[id(var)] = value

    def producer(self, value, op=None):
        """The call that defines `value` in the new function (of operator `op` when given), else None."""
        found = self.definition.get(id(value))
        if not isinstance(found, RelaxCall) or (op is not None and found.op != op):
            return None
        return found

    def rewritten(self, value):
        """`value` with variables replaced by what stands for them now, and computed arguments of calls bound."""
        return _Rewrite(self.env, self.named).visit(value)


class ReplaceVars(Mutator):
    """Replaces graph variables wherever they stand: env is {id(old): new}."""

    def __init__(self, env=None):
        self.env = {} if env is None else env

    def _variable(self, v):
        return self.env.get(id(v), v)

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_Constant(self, constant):
        return constant


class Substitute(ReplaceVars):
    """Replaces graph variables and constants in values, whose calls have them as arguments, or call what they hold."""

    visit_Constant = ReplaceVars._variable

    def visit_RelaxCall(self, call):
        return with_operands(call, self.visit)


class _Rewrite(Substitute):
    def __init__(self, env, named):
        super().__init__(env)
        self.named = named

    def visit_TupleGetItem(self, item):
        value = self.visit(item.tuple_value)
        if isinstance(value, RelaxTuple):
            return value.fields[item.index]
        return item.replace(tuple_value=self.named(value))

    def visit_RelaxTuple(self, value):
        return value.replace(fields=tuple(self.named(self.visit(f)) for f in value.fields))

    def visit_RelaxCall(self, call):
        return call.replace(args=tuple(self.named(self.visit(a)) for a in call.args))


def with_operands(call, visit):
    """A call with visit(arguments), and with visit(what it calls) where that is a value; itself where nothing changes."""
    op, args = call.op if isinstance(call.op, str) else visit(call.op), visit(call.args)
    return call if op is call.op and args is call.args else call.replace(op=op, args=args)


def uses(func):
    """{id(variable): [bindings that use it]}; the function's result counts as the binding None."""
    found = {}
    for b in func.bindings:
        for var in variables(b.value):
            found.setdefault(id(var), []).append(b)
    for out in func.outputs:
        for var in variables(out):
            found.setdefault(id(var), []).append(None)
    return found


def leaves(value):
    """The graph variables and constants that a value uses directly, in order, as often as it uses them."""
    if isinstance(value, (RelaxVar, DataflowVar, Constant)):
        yield value
    elif isinstance(value, (RelaxCall, RelaxTuple, TupleGetItem)):
        for child in children(value.args if isinstance(value, RelaxCall) else value):
            yield from leaves(child)


def variables(value):
    """The graph variables directly used by a value, each once."""
    return list({id(v): v for v in leaves(value) if not isinstance(v, Constant)}.values())


def remove_unused(func):
    """Ensures every binding is used, directly or not, by the result; calls with side effects and run-time checks
    (MatchCast, dimensions that must be 0) stay."""
    needed, kept = {id(v) for out in func.outputs for v in variables(out)}, []
    decided = any(dims_set_by(b.value) for b in func.bindings)  # dimensions by a run, which are uses of a kind
    if decided and any(getattr(b.value, "op", "") == "call" for b in func.bindings):  # groups use them unseen
        needed.update(id(d) for b in func.bindings for d in dims_set_by(b.value))
    for b in reversed(func.bindings):
        if id(b.var) in needed or isinstance(b, MatchCast) or _has_effects(b.value) or any(
                id(d) in needed or is_const_int(d.most, 0) for d in dims_set_by(b.value)):
            kept.append(b)
            needed.update(id(v) for v in variables(b.value))
            needed.update(map(id, free_vars([b.var.struct_info, b.value]) if decided else ()))
    if len(kept) == len(func.bindings):
        return func
    return dataflow_function(func.params, reversed(kept), func.outputs, func.attrs)


def _has_effects(value):
    return isinstance(value, RelaxCall) and has_effects(value)


def on_main(rewrite):
    """Lift a function over relax Functions to modules: applied to "main"."""
    @wraps(rewrite)
    def run(mod, *args, **kwargs):
        return mod.with_function("main", rewrite(mod["main"], *args, **kwargs))
    return run


def node_name(binding):
    """The name of the model node that a binding came from, else its variable's."""
    return binding.var.origin.name if binding.var.origin is not None else binding.var.name


def node_title(binding):
    """How errors name the model node that a binding came from: 'node "conv1" (Conv)'."""
    origin = binding.var.origin
    return f'node "{node_name(binding)}"' + (f" ({origin.op})" if origin is not None and origin.op else "")


def is_operator(value):
    """Whether a value is a call of an operator, not of a function."""
    return isinstance(value, RelaxCall) and value.op in op_table.OPS


def constant_last(call):
    """A call of a commutative operator with its constant, if one of two, as second argument."""
    if call.op in COMMUTATIVE and isinstance(call.args[0], Constant) and not isinstance(call.args[1], Constant):
        return call.replace(args=(call.args[1], call.args[0]))
    return call


def is_immediate(value, op):
    """A constant of one element that operator `op` holds as a number in its code."""
    return (isinstance(value, Constant) and value.data.size == 1
            and op_table.get(op).kind in ("elementwise", "broadcast"))
