"""CanonicalizeBindings: no name for what has one already, no items of known tuples, no casts that change nothing."""
from __future__ import annotations

from ..expr import IntImm, PrimExpr, Var, free_vars, substitute
from ..node import Mutator, collect
from ..op import OPS, InferError
from ..relax.block_builder import BlockBuilder
from ..relax.expr import (Constant, DataflowBlock, DataflowVar, Function, If, MatchCast, RelaxCall, RelaxTuple,
                          RelaxVar, TupleGetItem, VarBinding)
from ..relax.infos import dims_told, same_info
from ..relax.lattice import finer_result, is_base_of
from ..relax.ops.common import simplify
from ..relax.patterns.pattern import AS_ARGUMENTS
from ..upper import upper
from .graph import Substitute
from .in_operators import is_classic


def canonicalize_bindings(func, whole_tuples=True):
    """A function in which

    - a variable bound to another, to a constant or to an item of a tuple whose fields are known is replaced by that, a
      tuple of all items of another one, with `whole_tuples`, by the other (what names a constant stays: see
      dead_code.py);
    - a MatchCast to what is known already is a binding; symbolic dimensions whose value a MatchCast tells are replaced
      (ValueError where two tell different ones);
    - what is known of a call's result follows from its new arguments where these say more;
    - variables of dataflow blocks that nothing outside uses are DataflowVars, and blocks hold bindings.
    """
    told = _with_known_dims(func)
    return _Canonicalize(told is not func, whole_tuples).visit(told)


# ---------------------------------------------------------------- symbolic dimensions

def _with_known_dims(func):
    """The function with the dimensions replaced that MatchCasts outside of branches tell."""
    defined = {id(v) for v in free_vars([p.struct_info for p in func.params])}
    known, told = {}, []
    for block in func.body.blocks:
        for b in block.bindings:
            if isinstance(b, MatchCast):
                told += dims_told(b.var.struct_info, b.value.struct_info)
    for dim, value in told:
        value = substitute(value, known)
        if not isinstance(dim, Var) or id(dim) in defined:
            continue
        if dim in known:
            if isinstance(known[dim], IntImm) and isinstance(value, IntImm) and known[dim].value != value.value:
                raise ValueError(f"MatchCast statements must be consistent: {dim.name} is {known[dim]} by one and "
                                 f"{value} by another")
        elif not any(v is dim for v in free_vars(value)):
            known[dim] = value
    return with_dims(func, known) if known else func


def with_dims(root, dims):
    """`root` with dimensions replaced, dims: {Var: expression}, also in the struct info of its variables."""
    return _Dims(dims).visit(root)


class _Dims(Mutator):
    def __init__(self, dims):
        self.dims, self.made = dims, {}

    def _variable(self, var):
        if id(var) not in self.made:
            info = self.visit(var.struct_info)
            self.made[id(var)] = var if info is var.struct_info else var.replace(struct_info=info)
        return self.made[id(var)]

    visit_RelaxVar = visit_DataflowVar = _variable

    def visit_Constant(self, constant):
        return constant

    def visit_Var(self, var):
        return self.dims.get(var, var)

    def visit_RelaxCall(self, call):
        new = self.generic_visit(call)
        if new is call or call.op not in AS_ARGUMENTS:
            return new
        return new.replace(attrs={k: _plain(v) if k in AS_ARGUMENTS[call.op] else v for k, v in new.attrs.items()})

    def generic_visit(self, n):
        new = super().generic_visit(n)
        return _folded(new) if new is not n else n


def _plain(values):
    """A list of an attribute, its numbers as Python's, as scripts have them."""
    if not isinstance(values, (list, tuple)):
        return values
    return type(values)(v.value if isinstance(v, IntImm) else v for v in values)


def _folded(e):
    """Sums and products of numbers as numbers."""
    return simplify(e) if isinstance(e, PrimExpr) else e


# ---------------------------------------------------------------- bindings

class _Canonicalize(Mutator):
    def __init__(self, again, whole_tuples):
        self.again = again  # whether every call may give more than it was said to
        self.whole_tuples = whole_tuples
        self.env = {}  # id of a variable -> what takes its place
        self.tuples = {}  # id of a variable -> the tuple that it is
        self.items = {}  # id of a variable -> the TupleGetItem that it is
        self.left = set()  # ids of the DataflowVars of blocks before, which nothing may name any more

    def visit_Function(self, func):
        body = self.visit_SeqExpr(func.body)
        ret = func.ret_struct_info
        return func.replace(body=body, ret_struct_info=ret if body is func.body else finer_result(func, body.struct_info))

    def visit_Constant(self, constant):
        return constant

    def visit_SeqExpr(self, seq):
        used = used_outside(seq)
        blocks = [self._block(block, used.get(id(block), ())) for block in seq.blocks]
        blocks = tuple(b for b in blocks if b.bindings)
        body = self._value(seq.body)
        if blocks == seq.blocks and body is seq.body:
            return seq
        return seq.replace(blocks=blocks, body=body)

    def _block(self, block, outside):
        """outside: ids of the block's variables that are used after it."""
        flow, kept = isinstance(block, DataflowBlock), []
        if flow:
            self._name_by_outputs(block, outside)
        for b in block.bindings:
            value, var = self._value(b.value), self.env.get(id(b.var), b.var)
            if isinstance(b, MatchCast) and not same_info(value.struct_info, b.var.struct_info):
                kept.append(b if value is b.value and var is b.var else b.replace(var=var, value=value))
                continue
            if value is var:  # the output, already named where it is computed
                continue
            if self._is_replaced(b, var, value, outside):
                self.env[id(b.var)] = value
                if isinstance(value, (RelaxVar, DataflowVar)) or isinstance(b.value, (RelaxVar, DataflowVar)):
                    continue
                value = Substitute(self.env).visit(b.value)
            elif flow and type(var) is RelaxVar and id(b.var) not in outside and var is b.var:
                self.env[id(b.var)] = var = DataflowVar(var.name, var.struct_info, var.origin)
            if (value is not b.value or self.again) and isinstance(b, VarBinding):
                value, var = self._known_better(b.var, value, var)
            if isinstance(value, RelaxTuple):
                self.tuples[id(var)] = value
            if isinstance(value, TupleGetItem):
                self.items[id(var)] = value
            same = value is b.value and var is b.var and isinstance(b, VarBinding)
            kept.append(b if same else VarBinding(var, value))
        kept = tuple(kept)
        self.left |= {id(b.var) for b in (*block.bindings, *kept) if isinstance(b.var, DataflowVar)}
        return block if kept == block.bindings else block.replace(bindings=kept)

    def _is_replaced(self, b, var, value, outside):
        """Whether `value` stands from now on where the variable of `b` did."""
        if isinstance(value, Constant):
            named = var is not b.var or id(b.var) in outside and isinstance(b.value, (RelaxVar, DataflowVar))
            return not named and same_info(b.var.struct_info, value.struct_info)
        return isinstance(value, (RelaxVar, DataflowVar)) and self._may_replace(b.var, value, outside)

    def _known_better(self, old, value, var):
        """A call with other arguments than before and its variable, with what these tell of the result."""
        value = _in_operators(value)
        info = _inferred(value)
        if info is None or same_info(info, var.struct_info) or not is_base_of(var.struct_info, info):
            return value, var
        new = var.replace(struct_info=info)
        self.env.update({i: new for i, v in self.env.items() if v is var})
        self.env[id(old)] = self.env[id(var)] = new
        return value.replace(struct_info=info), new

    def _name_by_outputs(self, block, outside):
        """Where an output is another name of a variable of the block, that variable is called so where it is bound."""
        here, alias = {id(b.var) for b in block.bindings}, {}
        for b in block.bindings:
            source = b.value
            while id(source) in alias:
                source = alias[id(source)]
            if isinstance(source, (RelaxVar, DataflowVar)) and (
                    isinstance(b, VarBinding) or same_info(source.struct_info, b.var.struct_info)):
                alias[id(b.var)] = source
                hidden = isinstance(source, DataflowVar) or id(source) not in outside
                if id(b.var) in outside and hidden and id(source) in here and id(
                        source) not in self.env and same_info(source.struct_info, b.var.struct_info):
                    self.env[id(source)] = b.var

    def _may_replace(self, var, value, outside):
        """A DataflowVar may not be used outside of its block; what a variable is declared to be stays."""
        return same_info(var.struct_info, value.struct_info) and not (
            isinstance(value, DataflowVar) and id(var) in outside)

    def _value(self, value):
        if isinstance(value, (If, Function)):
            return self.visit(value) if isinstance(value, Function) else value.replace(
                cond=self._value(value.cond), true_branch=self.visit(value.true_branch),
                false_branch=self.visit(value.false_branch))
        value = Substitute(self.env).visit(value)
        if isinstance(value, TupleGetItem):
            known = self._tuple(value.tuple_value)
            field = value if known is None else self._value(known.fields[value.index])
            return field if self._may_name(field) else value
        return self._taken_apart(value) if isinstance(value, RelaxTuple) and self.whole_tuples else value

    def _taken_apart(self, value):
        """The tuple of which `value` has every item in its place; `value` where there is none."""
        items = [self.items.get(id(f), f) for f in value.fields]
        if not items or not all(isinstance(item, TupleGetItem) and item.index == n and item.tuple_value is
                                items[0].tuple_value for n, item in enumerate(items)):
            return value
        whole = items[0].tuple_value
        return whole if same_info(whole.struct_info, value.struct_info) and self._may_name(whole) else value

    def _may_name(self, value):
        """Whether a block may use all that a value is made of."""
        return not any(id(v) in self.left for v in collect(value, DataflowVar))

    def _tuple(self, value):
        value = self._value(value) if isinstance(value, TupleGetItem) else value
        return value if isinstance(value, RelaxTuple) else self.tuples.get(id(value))


def _in_operators(value):
    """A call in classic form whose arguments are known now as the operator's; other values as they are."""
    if not is_classic(value):
        return value
    try:
        made = upper("in_operators")(value)
    except InferError:
        return value
    return made if isinstance(made, RelaxCall) and not collect(made.args, RelaxCall) else value


def _inferred(value):
    """The struct info of a call of an operator, None where it cannot be told."""
    if not isinstance(value, RelaxCall) or value.op not in OPS:
        return None
    try:
        return BlockBuilder().normalize(value.replace(struct_info=None)).struct_info
    except (InferError, TypeError):
        return None


def used_outside(seq):
    """{id(block): ids of its variables that other blocks or the result use}."""
    users = [(id(block), {id(v) for b in block.bindings for v in collect(b.value, (RelaxVar, DataflowVar))})
             for block in seq.blocks]
    users.append((None, {id(v) for v in collect(seq.body, (RelaxVar, DataflowVar))}))
    found = {}
    for block in seq.blocks:
        others = set().union(*(ids for owner, ids in users if owner != id(block)))
        found[id(block)] = {id(b.var) for b in block.bindings} & others
    return found


__all__ = ["canonicalize_bindings", "used_outside", "with_dims"]
