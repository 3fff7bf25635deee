"""FuseTIR: the calls of PrimFuncs in a primitive function become the call of one PrimFunc."""
from __future__ import annotations

from ..expr import IterVar, Var, free_vars, substitute
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect, structure_key
from ..relax.expr import (DataflowBlock, DataflowVar, Function, PrimStructInfo, RelaxCall, RelaxTuple, RelaxVar,
                          ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding, call_tir)
from ..relax.infos import told_dims
from ..relax.inplace import IN_PLACE, call_tir_inplace
from ..tir.buffer import decl_buffer
from ..tir.function import PrimFunc, prim_func
from ..tir.stmt import BufferLoad, BufferStore, seq
from .canonicalize_bindings import canonicalize_bindings

PRIMITIVE = ("primitive", "Primitive")  # attributes of functions that are to be one kernel


def fuse_tir(mod):
    """Requires functions with attribute "primitive" (FuseOps makes them, or a script) that call PrimFuncs alone.
    Ensures that each is a PrimFunc, which computes what is between its calls in buffers of its own, and that a call of
    it is an R.call_tir; functions that nothing calls any more go. Raises ValueError, naming the function and the
    binding, for other calls in one, and for a tensor that PrimFuncs have with different axis_separators."""
    primitive = {n: f for n, f in mod.functions.items() if isinstance(f, Function) and any(
        f.attrs.get(key) for key in PRIMITIVE)}
    if not primitive:
        return mod
    merged = {name: _Merged(mod, name, func) for name, func in primitive.items()}
    functions = {}
    for name, func in mod.functions.items():
        if name in merged:
            functions[name] = merged[name].func
        else:
            functions[name] = _with_calls(func, merged) if isinstance(func, Function) else func
    return _without_unused(mod, functions)


def _without_unused(mod, functions):
    """The module less the PrimFuncs that only primitive functions called."""
    def called(some):
        return {gv.name for f in some if isinstance(f, Function) for gv in collect(f, GlobalVar)}

    before, now = called(mod.functions.values()), called(functions.values())
    return mod.with_functions({n: f for n, f in functions.items() if n in now or n not in before or not isinstance(
        f, PrimFunc)})


def _with_calls(func, merged):
    """A graph function that calls merged functions by R.call_tir; then variables bound to others are these."""
    if not any(gv.name in merged for gv in collect(func.body, GlobalVar)):
        return func
    return canonicalize_bindings(_Calls(merged).visit(func))


class _Calls(Mutator):
    """Calls of merged functions as R.call_tir, of the items of tuples that they read."""

    def __init__(self, merged):
        self.merged = merged

    def visit_BindingBlock(self, block):
        bindings = []
        for b in block.bindings:
            call = b.value
            made = self.merged.get(getattr(call.attrs.get("gv"), "name", None)) if isinstance(
                call, RelaxCall) and call.op == "call" else None
            bindings += [self.visit(b)] if made is None else self._called(made, b, isinstance(block, DataflowBlock))
        return block.replace(bindings=tuple(bindings))

    visit_DataflowBlock = visit_BindingBlock

    def _called(self, made, binding, in_dataflow):
        """The bindings that make a call's arguments, then its own."""
        call, bound, args = binding.value, [], []
        items = {}  # (argument, path) -> its variable
        for at, path in made.places:
            value = call.args[at]
            for n, index in enumerate(path):
                key = at, path[:n + 1]
                if key not in items:
                    item = TupleGetItem(value, index)
                    items[key] = (DataflowVar if in_dataflow else RelaxVar)(
                        f"{getattr(value, 'name', 'item')}_{index}", item.struct_info)
                    bound.append(VarBinding(items[key], item))
                value = items[key]
            args.append(value)
        infos = _infos(call.struct_info, made.order)
        outs = infos[0] if made.order == 0 else [infos[n] for n in range(len(infos))]
        told = told_dims(made.infos, [a.struct_info for a in call.args])
        dims = [substitute(d, told) for d in made.dims]
        value = call_tir(call.attrs["gv"], args, outs, dims) if max(made.inplace, default=-1) < 0 else call_tir_inplace(
            call.attrs["gv"], args, made.inplace, outs, dims)
        if made.order in (0, list(range(len(infos)))):
            return [*bound, binding.replace(value=value)]
        whole = (DataflowVar if in_dataflow else RelaxVar)(binding.var.name, value.struct_info)
        return [*bound, VarBinding(whole, value), binding.replace(value=_arranged(whole, made.order))]

    def visit_Constant(self, c):
        return c


class _Merged:
    """func: the PrimFunc of a primitive function; places: (parameter, indices of tuples in it) of each tensor that it
    takes; dims: the symbolic dimensions that its calls pass, in variables of infos, the parameters' struct info;
    inplace: for each result the argument that it is written over, -1 for none; order: which results the function gives,
    a number, or a list, of lists where tuples are in tuples."""

    def __init__(self, mod, name, func):
        self.mod, self.name, self.names, self.blocks = mod, name, Names(), Names()
        self.env, self.allocs, self.passed = {}, [], []  # passed: symbolic dimensions that its calls pass
        self.laid = {}  # id of a parameter's buffer -> the same as the PrimFuncs that take it have it in memory
        self.infos, declared = [p.struct_info for p in func.params], []
        for n, p in enumerate(func.params):
            self.env[id(p)] = self._declared(p.struct_info, p.name, (n,), declared)
        self.given = {id(b) for _, b in declared}
        body = seq(*(n for n in map(self._nest, func.bindings) if n is not None))
        given = self._of(func.body.body)
        results = list({id(r): r for r in self._flat([given])}.values())
        self.order = _places(given, {id(r): n for n, r in enumerate(results)})
        used = {id(x.buffer) for x in collect(body, (BufferLoad, BufferStore))} | set(map(id, results))
        declared = [(place, self.laid.get(id(b), b)) for place, b in declared]
        kept = [(place, b) for place, b in declared if len(place) == 1 or id(b) in used]
        self.places, params = [(p[0], p[1:]) for p, _ in kept], [b for _, b in kept]
        at = {id(b): n for n, b in enumerate(params)}
        self.inplace = [at.get(id(r), -1) for r in results]
        made = [r for r in results if id(r) not in at]
        allocs = [b for b in self.allocs if not any(b is r for r in made)]
        attrs = {k: v for k, v in func.attrs.items() if k not in (*PRIMITIVE, "global_symbol")}
        self.dims = tuple(self._scalars([*params, *made]))
        self.func = prim_func([*params, *made, *self.dims], body, {"tir.noalias": True, **attrs}, allocs)

    def _declared(self, info, hint, place, declared):
        """The buffer of a parameter, for a tuple a list of those of its items; None for dimensions. declared: gets
        (place, buffer)."""
        if isinstance(info, TupleStructInfo):
            return [self._declared(f, f"{hint}_{n}", (*place, n), declared) for n, f in enumerate(info.fields)]
        if isinstance(info, ShapeStructInfo) and info.values is not None or isinstance(
                info, PrimStructInfo) and info.value is not None:
            return None
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            raise ValueError(f"{self.name}: {hint} is {info}; the parameters of a primitive function are tensors of "
                             "known shape, tuples of these, and dimensions")
        declared.append((place, decl_buffer(info.shape, info.dtype, unique_name(hint, self.names))))
        return declared[-1][1]

    def _flat(self, found):
        """The buffers in lists of lists."""
        for f in found:
            yield from self._flat(f) if isinstance(f, list) else [f]

    def _scalars(self, buffers):
        """The variables that the calls pass, or that dimensions of buffers are of, but no buffer's shape tells."""
        known = {id(d) for b in buffers for d in b.shape if isinstance(d, Var)}
        inside = [v for b in (*buffers, *self.allocs) for v in free_vars(b.shape)]
        return [v for v in {id(v): v for v in (*self.passed, *inside)}.values() if id(v) not in known]

    def _nest(self, binding):
        """The loops of one call."""
        value = binding.value
        if isinstance(value, TupleGetItem):
            self.env[id(binding.var)] = self._of(value.tuple_value)[value.index]
            return None
        if isinstance(value, RelaxTuple) or not isinstance(value, RelaxCall) and id(value) in self.env:
            self.env[id(binding.var)] = self._of(value)
            return None
        if not isinstance(value, RelaxCall) or value.op not in ("call_tir", "call_tir_inplace"):
            what = getattr(value, "op", type(value).__name__)
            raise ValueError(f"{self.name}: {binding.var.name} is a {what}; a primitive function calls PrimFuncs "
                             "alone: run LegalizeOps before FuseTIR")
        callee = self.mod[value.attrs["gv"]]
        infos = value.struct_info.fields if isinstance(value.struct_info, TupleStructInfo) else (value.struct_info,)
        given = [self._laid_out(a, own) for a, own in zip(value.args, callee.buffers)]
        dims, buffers = {}, {}
        for p, e in zip((p for p in callee.params if p not in callee.buffer_map), value.attrs.get("sym_args") or ()):
            dims[p] = e.astype(p.dtype)
            self.passed += free_vars(e)
        for own, actual in zip(callee.buffers, given):
            self._match(own, actual.shape, dims)
            buffers[own] = actual
        outs, made, rest = [], [], iter(callee.buffers[len(given):])
        for index, info in zip(value.attrs.get(IN_PLACE) or (-1,) * len(infos), infos):
            if index >= 0:
                outs.append(given[index])
                continue
            own = next(rest)
            self._match(own, info.shape, dims)
            hint = unique_name(own.name, self.names)
            outs.append(own.replace(name=hint, data=Var(hint, "handle"), shape=_shape_like(own, info)))
            buffers[own] = outs[-1]
            made.append(outs[-1])
        self.env[id(binding.var)] = outs if isinstance(value.struct_info, TupleStructInfo) else outs[0]
        root = callee.root
        renewed = _Renewed(buffers, dims, self.blocks, self.names)
        self.allocs += [*(renewed.visit(b) for b in root.alloc_buffers), *made]
        return renewed.visit(root.body)

    def _of(self, value):
        """The buffers of a value, lists for tuples."""
        return list(map(self._of, value.fields)) if isinstance(value, RelaxTuple) else self._laid(self._argument(value))

    def _laid(self, found):
        return [self._laid(f) for f in found] if isinstance(found, list) else self.laid.get(id(found), found)

    def _laid_out(self, a, own):
        """The buffer of an argument of a PrimFunc that has it as `own`. The first one that takes a parameter says which
        dimensions begin an axis of physical memory."""
        found = self._argument(a)
        if id(found) in self.given:
            self.laid.setdefault(id(found), found.replace(axis_separators=own.axis_separators))
        found = self._laid(found)
        if found.axis_separators != own.axis_separators:
            raise ValueError(
                f"{self.name}: Inconsistent buffers {_axes(found)} and {_axes(own)} mapped to the same relax var: "
                f"{getattr(a, 'name', a)}; a kernel has a tensor in memory one way: copy it, or make them equal")
        return found

    def _argument(self, a):
        if id(a) not in self.env:
            raise ValueError(f"{self.name}: a constant inside a primitive function; LiftTransformParams, or pass it as "
                             "a parameter")
        return self.env[id(a)]

    @staticmethod
    def _match(own, shape, dims):
        for mine, theirs in zip(own.shape, shape):
            if isinstance(mine, Var) and mine not in dims:
                dims[mine] = theirs.astype(mine.dtype) if hasattr(theirs, "astype") else theirs


def _axes(buffer):
    return f"{buffer.name} (axis_separators {list(buffer.axis_separators)})"


def _places(given, place):
    """Buffers, in lists for tuples, as their places."""
    return [_places(g, place) for g in given] if isinstance(given, list) else place[id(given)]


def _infos(info, order):
    """{result: its struct info}, of what a function gives in an order."""
    if not isinstance(order, list):
        return {order: info}
    return {n: found for field, part in zip(info.fields, order) for n, found in _infos(field, part).items()}


def _arranged(results, order):
    """The items of a tuple in an order."""
    if isinstance(order, list):
        return RelaxTuple(tuple(_arranged(results, part) for part in order))
    return TupleGetItem(results, order)


def _shape_like(own, info):
    """The dimensions of a result in the dtype of those that its PrimFunc has."""
    return tuple(d.astype(o.dtype) for o, d in zip(own.shape, info.shape))


class _Renewed(Mutator):
    """Statements with other buffers and dimensions, and variables, allocations and names of blocks of their own."""

    def __init__(self, buffers, values, blocks, names):
        self.buffers, self.values, self.blocks, self.names = dict(buffers), dict(values), blocks, names

    def visit_Var(self, v):
        return self.values.get(v, v)

    def _new(self, var):
        self.values[var] = Var(var.name, var.dtype)
        return self.values[var]

    def visit_Buffer(self, buffer):
        if buffer not in self.buffers:
            new = buffer.replace(shape=self.visit(buffer.shape), strides=self.visit(buffer.strides),
                                 name=unique_name(buffer.name, self.names), data=Var(buffer.name, "handle"))
            self.buffers[buffer] = new
        return self.buffers[buffer]

    def visit_For(self, loop):
        return self.generic_visit(loop.replace(loop_var=self._new(loop.loop_var)))

    def visit_Block(self, block):
        iters = tuple(IterVar(self.visit(iv.dom), self._new(iv.var), iv.iter_type) for iv in block.iter_vars)
        new = self.generic_visit(block.replace(iter_vars=iters, name_hint=unique_name(block.name_hint, self.blocks)))
        once = {structure_key(region): region for region in new.reads}  # parameters may have become one buffer
        return new if len(once) == len(new.reads) else new.replace(reads=tuple(once.values()))


__all__ = ["PRIMITIVE", "fuse_tir"]
