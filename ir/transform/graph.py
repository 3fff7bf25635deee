"""What graph passes share: rewriting a dataflow function binding by binding, uses, dead code."""
from __future__ import annotations

from ..node import Mutator, children
from ..relax.expr import (Constant, DataflowVar, Function, RelaxCall, RelaxTuple, RelaxVar, TupleGetItem, VarBinding,
                          dataflow_function)


class GraphRewriter:
    """Rebuilds a function's bindings in order. Override `call(binding, call)`: return the value to bind, or an existing
    value (variable or constant) that replaces the variable. `emit` adds a binding before the current one.

    definition: {id(new variable): its call}, for looking back through producers.
    """

    def run(self, func: Function) -> Function:
        self.begin(func)
        self.env, self.bindings, self.definition = {}, [], {}
        self.names = {p.name for p in func.params}
        self.names.update(b.var.name for b in func.bindings)
        for b in func.bindings:
            value = self.rewritten(b.value)
            if isinstance(value, RelaxCall):
                self.current = b.var
                value = self.call(b, value)
            if isinstance(value, RelaxCall):
                var = b.var
                if value.struct_info is not var.struct_info:
                    var = type(var)(var.name, value.struct_info, var.origin)
                self._bind(var, value)
                value = var
            self.env[id(b.var)] = value
        outputs = [self.rewritten(o) for o in func.outputs]
        result = dataflow_function(func.params, self.bindings, outputs, func.attrs)
        return remove_unused(result)

    def begin(self, func):
        """Called before the first binding."""

    def call(self, binding, call):
        return call

    def emit(self, call, hint=None):
        """Bind `call` to a new variable that carries the current binding's origin."""
        base = hint or self.current.name
        name, n = base, 0
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        var = DataflowVar(name, call.struct_info, self.current.origin)
        self._bind(var, call)
        return var

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
        """`value` with variables replaced by what stands for them now."""
        return _Replace(self.env).visit(value)


class _Replace(Mutator):
    def __init__(self, env):
        self.env = env

    def _var(self, v):
        return self.env.get(id(v), v)

    visit_RelaxVar = visit_DataflowVar = _var

    def visit_TupleGetItem(self, item):
        value = self.visit(item.tuple_value)
        return value.fields[item.index] if isinstance(value, RelaxTuple) else item.replace(tuple_value=value)

    def visit_Constant(self, c):
        return c

    def visit_RelaxCall(self, call):
        args = self.visit(call.args)
        return call if args is call.args else call.replace(args=args)


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


def variables(value):
    """The graph variables directly used by a value, each once."""
    found = {}

    def walk(v):
        if isinstance(v, (RelaxVar, DataflowVar)):
            found.setdefault(id(v), v)
        elif isinstance(v, (RelaxCall, RelaxTuple, TupleGetItem)):
            for c in children(v.args if isinstance(v, RelaxCall) else v):
                walk(c)

    walk(value)
    return list(found.values())


def remove_unused(func):
    """Ensures every binding is used, directly or not, by the result."""
    needed, kept = set(), []
    for out in func.outputs:
        needed.update(id(v) for v in variables(out))
    for b in reversed(func.bindings):
        if id(b.var) in needed:
            kept.append(b)
            needed.update(id(v) for v in variables(b.value))
    if len(kept) == len(func.bindings):
        return func
    return dataflow_function(func.params, reversed(kept), func.outputs, func.attrs)


def on_main(rewrite):
    """Lift a function over relax Functions to modules: applied to "main"."""
    def run(mod, *args, **kwargs):
        return mod.with_function("main", rewrite(mod["main"], *args, **kwargs))
    run.__name__, run.__doc__ = rewrite.__name__, rewrite.__doc__
    return run


def constant(value):
    """The numpy array of a Constant, else None."""
    return value.data if isinstance(value, Constant) else None
