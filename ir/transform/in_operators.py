"""Calls in classic form (relax/graph_calls.py) made of operators of the table."""
from __future__ import annotations

from contextlib import contextmanager

from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..op import OPS, InferError
from ..relax.control import is_control
from ..relax.expr import (DataflowVar, Function, MatchCast, RelaxCall, RelaxTuple, RelaxVar, SeqExpr,
                          TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding)
from ..relax.infos import is_row_call, same_info
from ..upper import upper

VARS = (RelaxVar, DataflowVar)


def is_classic(call):
    """Whether a call is in classic form: of several operators, or of one whose arguments were not known."""
    if not isinstance(call, RelaxCall) or not isinstance(call.op, str) or is_control(call) or call.op not in upper(
            "classic_names")():
        return False
    return not is_row_call(call, OPS.get(call.op))


def in_operators(mod):
    """Requires: nothing. Ensures that variables have names of their own, and calls name operators of the table, with
    all of these' attributes; struct info that becomes known by that is inferred again. What is still not known stays as
    it is."""
    functions = {name: _Rewrite(f).function(f) if isinstance(f, Function) and (_has_equal_names(f) or any(map(
        is_classic, collect(f.body, RelaxCall)))) else f for name, f in mod.functions.items()}
    return mod.with_functions(functions) if any(functions[n] is not f for n, f in mod.functions.items()) else mod


def require_known(mod):
    """The module, in whose graphs every operator's result has a known shape and dtype. InferError names the first that
    has none, calls that no operator computes, and those of functions that the module lacks."""
    for func in mod.functions.values():
        for b in collect(func, VarBinding) if isinstance(func, Function) else ():
            call = b.value
            if not isinstance(call, RelaxCall) or not isinstance(call.op, str):
                continue
            if isinstance(gv := call.attrs.get("gv"), GlobalVar) and gv.name not in mod:
                raise InferError(f"{b.var.name}: the module has no function {gv.name}; it has {', '.join(mod.functions)}")
            if is_classic(call) or call.op in OPS and _mixes_dtypes(call):
                _refuse(b.var, call)
            if call.op in OPS and not is_known(call.struct_info):
                raise InferError(f"{b.var.name}: what {call.op} gives, {call.struct_info}, cannot be compiled: its "
                                 "shape and dtype must be known; give those of the parameters, or use match_cast")
    return mod


def _refuse(var, call):
    """Raise the InferError of a call that operators of the table refuse, whatever classic forms take."""
    try:
        upper("in_operators")(call) if is_classic(call) else OPS[call.op].infer(call)
    except InferError as error:
        raise InferError(f"{var.name}: {error}") from error


def _mixes_dtypes(call):
    return OPS[call.op].kind == "broadcast" and len({getattr(a.struct_info, "dtype", None) for a in call.args}) > 1


def is_known(info):
    """Whether struct info says shape and dtype of its tensors."""
    if isinstance(info, TupleStructInfo):
        return all(map(is_known, info.fields))
    return not isinstance(info, TensorStructInfo) or isinstance(info.shape, tuple) and info.dtype != "void"


def _has_equal_names(func):
    variables = [*func.params, *(b.var for block in func.body.blocks for b in block.bindings)]
    return len({v.name for v in variables}) < len(variables)


class _Rewrite(Mutator):
    def __init__(self, func):
        self.known, self.bindings = {}, []
        self.names = Names(v.name for v in collect(func, VARS))
        self.used = set()  # of variables so far

    def function(self, func):
        params = tuple(self._named(p) for p in func.params)
        body = self.visit(func.body)
        info = func.ret_struct_info
        if info is not None and not same_info(info, body.struct_info):
            info = body.struct_info
        return func.replace(params=params, body=body, ret_struct_info=info)

    def _named(self, var, info=None):
        """A variable for `var`, of a name that none before has."""
        name = var.name if var.name not in self.used else unique_name(var.name, self.names)
        self.used.add(name)
        if name != var.name or info is not None:
            self.known[id(var)] = type(var)(name, info or var.struct_info, var.origin)
        return self.known.get(id(var), var)

    def visit_RelaxVar(self, v):
        return self.known.get(id(v), v)

    visit_DataflowVar = visit_RelaxVar

    def visit_SeqExpr(self, seq):
        blocks = []
        for block in seq.blocks:
            with self._block() as bindings:
                for b in block.bindings:
                    self._binding(b)
            blocks.append(block.replace(bindings=tuple(bindings)))
        return SeqExpr(tuple(blocks), self.visit(seq.body))

    @contextmanager
    def _block(self):
        outer, self.bindings = self.bindings, []
        yield self.bindings
        self.bindings = outer

    def _binding(self, b):
        value = self.visit(b.value)
        if isinstance(b, MatchCast):
            self.bindings.append(b.replace(var=self._named(b.var), value=value))
            return
        if isinstance(value, RelaxCall):
            value = self._call(value, value is not b.value, b.var)
        var, info = b.var, value.struct_info
        same = var.struct_info is not None and same_info(var.struct_info, info)
        var = self._named(var, None if same else info)
        self.bindings.append(VarBinding(var, value))

    def _call(self, call, changed, var):
        if is_classic(call):
            try:
                return self._flat(upper("in_operators")(call), var, True)
            except InferError:
                return call
        if changed and isinstance(call.op, str) and call.op in OPS:
            return call.replace(struct_info=OPS[call.op].infer(call))
        return call

    def _flat(self, value, var, whole=False):
        """A value with the calls inside it bound to variables like `var`."""
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(self._flat(f, var) for f in value.fields))
        if isinstance(value, TupleGetItem):
            value = value.replace(tuple_value=self._flat(value.tuple_value, var))
        elif isinstance(value, RelaxCall):
            value = value.replace(args=tuple(self._flat(a, var) for a in value.args))
        if whole or not isinstance(value, (RelaxCall, TupleGetItem)):
            return value
        made = type(var)(unique_name(var.name, self.names), value.struct_info, var.origin)
        self.bindings.append(VarBinding(made, value))
        return made


__all__ = ["in_operators", "is_classic", "is_known", "require_known"]
