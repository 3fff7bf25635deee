"""DataflowUseInplaceCalls: operators write results over arguments that nothing needs afterwards; and what is found for
that of dataflow blocks: how long variables live, and which may be the same memory."""
from __future__ import annotations

from ... import topi
from ...expr import Var, free_vars, substitute
from ...node import Mutator, collect
from ...relax.block_builder import BlockBuilder
from ...relax.expr import (Constant, DataflowVar, Function, MatchCast, PrimValue, RelaxCall, RelaxTuple, RelaxVar,
                           TensorStructInfo, TupleGetItem, TupleStructInfo)
from ...relax.inplace import call_tir_inplace
from ...relax.ops.common import same_dim
from ...te import create_prim_func, placeholder

_VARS = (RelaxVar, DataflowVar)
# Operators whose element of a result follows from those at its place -> the function of topi that computes them.
ELEMENTWISE = {"add": topi.add, "subtract": topi.subtract, "multiply": topi.multiply, "divide": topi.divide,
               "nn.silu": topi.nn.silu, "nn.relu": topi.nn.relu}
_NAMES = (*_VARS, RelaxTuple, TupleGetItem)  # values that are made without a look at elements
# Calls that may give what they are given; results of operators are new.
_UNKNOWN = ("call", "call_pure_packed", "invoke_pure_closure", "builtin.stop_lift_params", "memory.view",
            "memory.ensure_zero_offset")
OUTSIDE = -1  # memory that a block does not know


# ---------------------------------------------------------------- lives and memory

def live_ranges(block):
    """{variable: (binding that defines it, the last that uses it)}: -1 before the block, its length behind it. An item
    of a tuple is no use of the tuple."""
    found, end = {}, len(block.bindings)
    for n in reversed(range(end)):
        b = block.bindings[n]
        for var in () if isinstance(b.value, TupleGetItem) else _free(b.value):
            found.setdefault(var, (-1, n if isinstance(var, DataflowVar) else end))
        last = found[b.var][1] if b.var in found else n if isinstance(b.var, DataflowVar) else end
        found[b.var] = (n, last)
    return found


def _free(value):
    bound = {id(p) for f in collect(value, Function) for p in f.params}
    bound |= {id(b.var) for b in collect(value, MatchCast)} | {
        id(b.var) for f in collect(value, Function) for b in f.bindings}
    return [v for v in collect(value, _VARS) if id(v) not in bound]


class Aliases:
    """The memory that the variables of a block may be: places, numbers from 0, OUTSIDE. sets: {variable: set of
    places}; tuples: {place of a tuple: [set of places of each item]}.
    inputs: variables whose memory is theirs alone."""

    def __init__(self, block, inputs=()):
        self.sets, self.tuples, self.count = {}, {}, 0
        for var in inputs:
            self.sets[var] = {self._fresh(var.struct_info)}
        for b in block.bindings:
            self.sets[b.var] = self._of(b.value, b.var)

    def _fresh(self, info=None):
        place, self.count = self.count, self.count + 1
        if isinstance(info, TupleStructInfo):
            self.tuples[place] = [{self._fresh(field)} for field in info.fields]
        return place

    def _of(self, value, var):
        if isinstance(value, _VARS):
            return set(self.sets.get(value, {OUTSIDE}))
        if isinstance(value, RelaxTuple):
            place = self._fresh()
            self.tuples[place] = [self._of(f, var) for f in value.fields]
            return {place}
        if isinstance(value, TupleGetItem):
            whole = self._of(value.tuple_value, var)
            return {OUTSIDE} if OUTSIDE in whole else set().union(*(
                self.tuples[p][value.index] for p in whole if len(self.tuples.get(p, ())) > value.index))
        if isinstance(value, RelaxCall) and (not isinstance(value.op, str) or value.op in _UNKNOWN):
            return self._unknown(value, var)
        return {self._fresh(var.struct_info if isinstance(value, RelaxCall) else None)}

    def _unknown(self, call, var):
        """What a function of which nothing is known gives: new memory, or any of its arguments'."""
        place, found = self._fresh(var.struct_info), set()
        self._within(place, found)
        for a in call.args:
            for p in self._of(a, var):
                self._within(p, found)
        self._also(place, found)
        return found

    def _within(self, place, found):
        found.add(place)
        for p in set().union(*self.tuples.get(place, ())):
            if p not in found:
                self._within(p, found)

    def _also(self, place, more):
        for items in self.tuples.get(place, ()):
            for p in items:
                self._also(p, more)
            items |= more

    def reached(self, var):
        """All places that a variable, or what is inside it, may be."""
        found = set()
        for p in self.sets.get(var, {OUTSIDE}):
            self._within(p, found)
        return found


def opportunities(block, inputs=()):
    """([(binding, arguments that have room for its result)], [(binding, those of exactly its shape)]) of the calls of a
    block whose result may be written over an argument: one that nobody needs afterwards, by any name."""
    lives, aliases = live_ranges(block), Aliases(block, inputs)
    room, exact = [], []
    for n, b in enumerate(block.bindings):
        call = b.value
        if not isinstance(call, RelaxCall) or call.op not in ELEMENTWISE:
            continue
        fits = {k: _same_shape(b.var.struct_info, a.struct_info) for k, a in enumerate(call.args)}
        free = [k for k, same in fits.items()
                if same is not None and _may_write(call.args[k], n, block.bindings, lives, aliases)]
        if free:
            room.append((n, set(free)))
        if any(fits[k] for k in free):
            exact.append((n, {k for k in free if fits[k]}))
    return room, exact


def _same_shape(result, own):
    """Whether an argument has the result's shape; None where it has no room for it, or that is not known."""
    if not isinstance(own, TensorStructInfo) or own.dtype != result.dtype or not all(
            isinstance(i.shape, tuple) for i in (own, result)):
        return None
    same = len(own.shape) == len(result.shape) and all(map(same_dim, own.shape, result.shape))
    sizes = own.static_shape, result.static_shape
    if same or None in sizes:
        return True if same else None
    count = [1, 1]
    for k in (0, 1):
        for d in sizes[k]:
            count[k] *= d
    return False if count[0] >= count[1] else None


def _may_write(value, n, bindings, lives, aliases):
    """Whether nothing but `value` itself reads the memory of an argument in binding n, and nothing does after it: by
    another name, in a tuple, or as an item of one that was made before."""
    if isinstance(value, (Constant, PrimValue)) or lives[value][1] > n:
        return False
    own = aliases.reached(value)
    read = {v for b in bindings[n:] if not isinstance(b.value, _NAMES) for v in _free(b.value)}
    read |= {v for v, (_, last) in lives.items() if last == len(bindings)}
    return OUTSIDE not in own and all(own.isdisjoint(aliases.reached(v)) for v in read - {value})


# ---------------------------------------------------------------- the pass

def dataflow_use_inplace_calls(mod):
    """A module whose dataflow blocks write the results of elementwise operators over arguments of the same shape that
    nothing needs afterwards: R.call_tir_inplace of new PrimFuncs. Parameters of functions are kept."""
    builder = BlockBuilder(mod)
    for name, func in mod.functions.items():
        if isinstance(func, Function):
            builder.update_func(name, _Blocks(builder).visit(func))
    return builder.get()


class _Blocks(Mutator):
    def __init__(self, builder):
        self.builder = builder

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        found = dict(opportunities(block)[1])
        return block.replace(bindings=tuple(
            b.replace(value=inplace_call(self.builder, b.value, (max(found[n]),))) if n in found else b
            for n, b in enumerate(block.bindings)))


def inplace_call(builder, call, indices):
    """A call of an elementwise operator as R.call_tir_inplace of a PrimFunc, which is added to the builder's module. It
    takes an argument that is there twice once: what is written has one name."""
    args = list({id(a): a for a in call.args}.values())
    places = [next(k for k, other in enumerate(args) if other is a) for a in call.args]
    own = {d: Var(d.name, d.dtype) for d in free_vars([a.struct_info for a in args])}
    infos = [substitute(a.struct_info, own) for a in args]
    given = [placeholder(tuple(i.shape), i.dtype, f"x{k}") for k, i in enumerate(infos)]
    func = create_prim_func([*given, ELEMENTWISE[call.op](*(given[k] for k in places))], attrs={"tir.noalias": True})
    inputs, outputs = func.params[:len(given)], func.params[len(given):]
    same = {func.buffer_map[out]: func.buffer_map[inputs[places[k]]] for k, out in zip(indices, outputs)}
    kept = {p: buffer for p, buffer in func.buffer_map.items() if p not in outputs}
    func = func.replace(params=tuple(inputs), body=_Buffers(same).visit(func.body), buffer_map=kept)
    gv = builder.add_func(func, f"{call.op.rpartition('.')[2]}_inplace")
    return call_tir_inplace(gv, args, [places[k] for k in indices], call.struct_info)


class _Buffers(Mutator):
    def __init__(self, same):
        self.same = same

    def visit_Buffer(self, buffer):
        return self.same.get(buffer, buffer)


__all__ = ["Aliases", "dataflow_use_inplace_calls", "inplace_call", "live_ranges", "opportunities"]
