"""StaticPlanBlockMemory: tensors of one binding block share storage where no two live at once."""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from ..arith import Analyzer, IntervalSet
from ..expr import IntImm, PrimExpr, Range, Var, const
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import (DataflowVar, Function, If, RelaxCall, RelaxTuple, RelaxVar, SeqExpr, ShapeExpr,
                          TupleGetItem, VarBinding)
from ..relax.op import call as operator
from ..tir.function import PrimFunc

ALLOC = "builtin.alloc_tensor"
IN_PLACE = ("reshape", "memory.view", "memory.ensure_zero_offset")  # results lie where the first argument does
_DYNAMIC_OUTPUTS = "relax.memory_plan_dynamic_func_output"
_NEAR = 16  # a storage serves tensors up to so many times smaller or larger


def static_plan_block_memory(mod):
    """A module in which R.builtin.alloc_tensor of a tensor that only PrimFuncs, R.vm.call_tir_dyn and foreign functions
    of its own binding block use is R.memory.alloc_tensor from an R.memory.alloc_storage, shared by tensors of one dtype
    and scope whose lives do not overlap. Others stay, as LowerAllocTensor has them.

    Dimensions of the signature count as attrs["tir_var_upper_bound"], {name: greatest size}, says. Sizes without a
    bound share storage where they are equal. With attrs["relax.memory_plan_dynamic_func_output"] results of bounded
    size get storage, too. ValueError where a bound is no positive number.
    """
    return mod.with_functions({n: _planned(f, mod) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


def _planned(func, mod):
    bounds = _Bounds(func)
    lives = _Lives(mod, bounds)
    lives.function(func)
    storages = _share(lives.events, bounds.analyzer)
    dynamic = bool(func.attrs.get(_DYNAMIC_OUTPUTS, 0))
    new = _Shared(func, storages, bounds if dynamic else None).visit(func)
    return new.without_attr(_DYNAMIC_OUTPUTS) if dynamic else new


# ---------------------------------------------------------------- sizes

class _Bounds:
    """The greatest sizes of shapes in a function."""

    def __init__(self, func):
        self.analyzer, self.domains = Analyzer(), {}
        most, known = _declared(func), set(func.attrs.get("tir_non_negative_var", ()))
        for var in {id(v): v for v in collect(func.struct_info, Var)}.values():
            if var.name in most:
                span = Range(0, most[var.name] + 1)
                self.analyzer.bind(var, span)
                self.domains[var] = IntervalSet.from_range(span)
            elif var.name in known:
                self.analyzer.mark_nonnegative(var)

    def shape(self, dims):
        """Dimensions with what is known of their greatest values: numbers, where all in them is bounded."""
        return [self._dim(d) for d in dims]

    def _dim(self, dim):
        most = self.analyzer.const_int_bound(dim).max_value
        if isinstance(most, int) and most < _UNBOUNDED:
            return const(most, "int64")
        span = self.analyzer.int_set(dim, self.domains)
        return span.max_value if span.has_upper_bound() else dim


_UNBOUNDED = 2**63 - 1


def _declared(func):
    """attrs["tir_var_upper_bound"] as {name: int}. ValueError where it is none."""
    most = {}
    for name, value in (func.attrs.get("tir_var_upper_bound") or {}).items():
        number = getattr(value, "value", value)
        if not isinstance(name, str) or type(number) is not int or number <= 0:
            raise ValueError(f'attribute "tir_var_upper_bound" gives names of dimensions positive integers, '
                             f"not {name!r}: {value!r}")
        most[name] = number
    return most


def _byte_count(dims, dtype):
    """Bytes of a tensor, its constant dimensions first."""
    known, symbolic = dtype.bytes * dtype.lanes, const(1, "int64")
    for d in dims:
        if isinstance(d, IntImm):
            known *= d.value
        else:
            symbolic = d if isinstance(symbolic, IntImm) else symbolic * d
    return const(known, "int64") if isinstance(symbolic, IntImm) else const(known, "int64") * symbolic


# ---------------------------------------------------------------- lives

@dataclass(eq=False)
class _Tensor:
    """What an alloc_tensor makes. block: where; uses: calls' arguments; planned: False once it is used otherwise."""

    call: RelaxCall
    bytes: PrimExpr
    dtype: str
    scope: str
    block: object
    uses: int = 0
    planned: bool = True


class _Lives:
    """The events of a function in order: ("new", tensor), ("use", [tensors]), ("enter", None), ("leave", None), which
    are the ends of a branch. What a value holds is a _Tensor, a tuple of such, or None."""

    def __init__(self, mod, bounds):
        self.mod, self.bounds, self.events = mod, bounds, []
        self.held, self.block = {}, None

    def function(self, func):
        _discard(self.value(func.body))

    def value(self, e):
        if isinstance(e, (RelaxVar, DataflowVar)):
            return self.held.get(id(e))
        if isinstance(e, RelaxTuple):
            return tuple(map(self.value, e.fields))
        if isinstance(e, TupleGetItem):
            fields = self.value(e.tuple_value)
            return fields[e.index] if isinstance(fields, tuple) else None
        if isinstance(e, RelaxCall):
            return self._call(e)
        if isinstance(e, SeqExpr):
            return self._seq(e)
        if isinstance(e, If):
            return self._if(e)
        if isinstance(e, Function):
            for v in collect(e, (RelaxVar, DataflowVar)):  # what it captures is used later, too
                _discard(self.held.get(id(v)))
        return None

    def _seq(self, seq):
        outer = self.block
        for block in seq.blocks:
            self.block = block
            for b in block.bindings:
                self.held[id(b.var)] = self.value(b.value)
        self.block = outer
        _discard(self.value(seq.body))

    def _if(self, branches):
        _discard(self.value(branches.cond))
        for branch in (branches.true_branch, branches.false_branch):
            self.events.append(("enter", None))
            self.value(branch)
            self.events.append(("leave", None))

    def _call(self, call):
        if call.op == ALLOC:
            return self._allocated(call)
        args = [self.value(a) for a in call.args]
        if call.op in IN_PLACE:
            return args[0]
        if not self._keeps_nothing(call):
            _discard(tuple(args))
            return None
        used = list(_tensors(tuple(args)))
        for t in used:
            t.uses += 1
            t.planned = t.planned and t.block is self.block
        self.events.append(("use", used))
        return None

    def _allocated(self, call):
        info = call.struct_info
        if not isinstance(info.shape, tuple):
            return None
        size = _byte_count(self.bounds.shape(info.shape), info.dtype)
        tensor = _Tensor(call, size, info.dtype, _scope(call), self.block)
        self.events.append(("new", tensor))
        return tensor

    def _keeps_nothing(self, call):
        """Whether a call uses its arguments while it runs, and no longer."""
        if call.op == "call":
            return isinstance(self.mod.functions.get(call.attrs["gv"].name), PrimFunc)
        return call.op in ("call_packed", "vm.call_tir_dyn")


def _tensors(held):
    if isinstance(held, tuple):
        for part in held:
            yield from _tensors(part)
    elif held is not None:
        yield held


def _discard(held):
    for t in _tensors(held):
        t.planned = False


# ---------------------------------------------------------------- sharing

@dataclass(eq=False)
class _Storage:
    bytes: PrimExpr
    dtype: str
    scope: str


def _share(events, analyzer):
    """{id of an alloc_tensor: its _Storage}. A storage that a branch allocates is known in that branch only."""
    chosen, left, pool, outer = {}, {}, _Pool(analyzer), []
    for kind, what in events:
        if kind == "new" and what.planned:
            left[what] = what.uses
            found = pool.take(what) if what.uses else None
            chosen[what] = found or _Storage(what.bytes, what.dtype, what.scope)
            if found is None and outer:
                outer[-1].add(chosen[what])
        elif kind == "use":
            for t in what:
                if t.planned:
                    left[t] -= 1
                    if not left[t]:
                        pool.give(chosen[t])
        elif kind == "enter":
            outer.append(set())
        elif kind == "leave":
            pool.forget(outer.pop())
    return {id(t.call): storage for t, storage in chosen.items()}


class _Pool:
    """Storages that no tensor uses, of each scope and dtype, in order of size; those of symbolic size apart."""

    def __init__(self, analyzer):
        self.analyzer, self.sized, self.symbolic = analyzer, {}, []

    def give(self, storage):
        if not isinstance(storage.bytes, IntImm):
            self.symbolic.append(storage)
            return
        row = self._row(storage)
        row.insert(bisect_right(row, storage.bytes.value, key=_size), storage)

    def _row(self, like):
        return self.sized.setdefault((like.scope, like.dtype), [])

    def take(self, tensor):
        """The smallest storage that holds a tensor, else the largest of those near to it, made larger; None: none."""
        if not isinstance(tensor.bytes, IntImm):
            for n, s in enumerate(self.symbolic):
                if (s.scope, s.dtype) == (tensor.scope, tensor.dtype) and self.analyzer.can_prove_equal(
                        s.bytes, tensor.bytes):
                    return self.symbolic.pop(n)
            return None
        row, size = self._row(tensor), tensor.bytes.value
        fits = bisect_left(row, size, key=_size)
        if fits < bisect_right(row, size * _NEAR, key=_size):
            return row.pop(fits)
        if fits > bisect_left(row, size // _NEAR, key=_size):
            storage = row.pop(fits - 1)
            storage.bytes = tensor.bytes
            return storage
        return None

    def forget(self, storages):
        self.symbolic = [s for s in self.symbolic if s not in storages]
        for key, row in self.sized.items():
            self.sized[key] = [s for s in row if s not in storages]


def _size(storage):
    return storage.bytes.value


# ---------------------------------------------------------------- rewriting

class Allocations(Mutator):
    """Makes another value of each alloc_tensor that is bound: allocation(binding, list of the bindings before it)."""

    def __init__(self, func):
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))

    def visit_Constant(self, constant):
        return constant

    def _block(self, block):
        bindings = []
        for b in block.bindings:
            if getattr(b.value, "op", None) == ALLOC and isinstance(b, VarBinding):
                b = b.replace(value=self.allocation(b, bindings))
            else:
                b = self.visit(b)
            bindings.append(b)
        return block.replace(bindings=tuple(bindings))

    visit_BindingBlock = visit_DataflowBlock = _block

    def bound_storage(self, b, size, dtype, bindings):
        """A variable of the kind of b's that holds a storage of `size` bytes, for the alloc_tensor that `b` binds."""
        value = operator("memory.alloc_storage", ShapeExpr((size,)), b.value.args[2], _scope(b.value), str(dtype))
        var = type(b.var)(unique_name("storage", self.names, ""), value.struct_info)
        bindings.append(VarBinding(var, value))
        return var

    @staticmethod
    def tensor_in(storage, call):
        """The tensor of an alloc_tensor, in a storage."""
        return operator("memory.alloc_tensor", storage, 0, call.args[0], str(call.struct_info.dtype))


class _Shared(Allocations):
    """storages: {id of an alloc_tensor: its _Storage}; bounds: those of other tensors, None where these stay."""

    def __init__(self, func, storages, bounds):
        super().__init__(func)
        self.storages, self.bounds, self.made = storages, bounds, {}

    def allocation(self, b, bindings):
        """What makes the tensor; a storage that it is the first to use is added to `bindings`."""
        storage = self.storages.get(id(b.value)) or self._own(b.value)
        if storage is None:
            return b.value
        if storage not in self.made:
            self.made[storage] = self.bound_storage(b, storage.bytes, storage.dtype, bindings)
        return self.tensor_in(self.made[storage], b.value)

    def _own(self, call):
        """The storage of a tensor that shares none but has a size which `bounds` know, else None."""
        shape = call.struct_info.shape
        if self.bounds is None or not isinstance(shape, tuple) or all(isinstance(d, IntImm) for d in shape):
            return None
        size, dtype = None, call.struct_info.dtype
        for d in self.bounds.shape(shape):
            size = d if size is None else size * d
        return _Storage(size * (dtype.bytes * dtype.lanes), dtype, _scope(call))


def _scope(call):
    """The memory scope that an alloc_tensor asks for."""
    return str(getattr(call.args[3], "value", call.args[3])) if len(call.args) > 3 else "global"


__all__ = ["ALLOC", "Allocations", "static_plan_block_memory"]
