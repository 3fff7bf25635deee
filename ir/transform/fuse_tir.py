"""FuseTIR: the calls of PrimFuncs in a primitive function become the call of one PrimFunc."""
from __future__ import annotations

from ..expr import IterVar, Var, free_vars
from ..module import GlobalVar
from ..names import Names, unique_name
from ..node import Mutator, collect
from ..relax.expr import Function, RelaxCall, RelaxTuple, TensorStructInfo, TupleGetItem, TupleStructInfo, call_tir
from ..relax.ops.common import te_dim
from ..tir.buffer import decl_buffer
from ..tir.function import PrimFunc, prim_func
from ..tir.stmt import seq

PRIMITIVE = ("primitive", "Primitive")  # attributes of functions that are to be one kernel


def fuse_tir(mod):
    """Requires functions with attribute "primitive" (FuseOps makes them, or a script) that call PrimFuncs alone.
    Ensures that each is a PrimFunc, which computes what is between its calls in buffers of its own, and that a call of
    it is an R.call_tir; functions that nothing calls any more go. Raises ValueError, naming the function and the
    binding, for other calls in one."""
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
            functions[name] = _Calls(merged).visit(func) if isinstance(func, Function) else func
    return _without_unused(mod, functions)


def _without_unused(mod, functions):
    """The module less the PrimFuncs that only primitive functions called."""
    def called(some):
        return {gv.name for f in some if isinstance(f, Function) for gv in collect(f, GlobalVar)}

    before, now = called(mod.functions.values()), called(functions.values())
    return mod.with_functions({n: f for n, f in functions.items() if n in now or n not in before or not isinstance(
        f, PrimFunc)})


class _Calls(Mutator):
    """Calls of merged functions as R.call_tir."""

    def __init__(self, merged):
        self.merged = merged

    def visit_RelaxCall(self, call):
        made = self.merged.get(getattr(call.attrs.get("gv"), "name", None)) if call.op == "call" else None
        if made is None:
            return self.generic_visit(call)
        info = call.struct_info
        outs = list(info.fields) if isinstance(info, TupleStructInfo) else info
        return call_tir(call.attrs["gv"], call.args, outs, made.dims)

    def visit_Constant(self, c):
        return c


class _Merged:
    """func: the PrimFunc of a primitive function; dims: the symbolic dimensions that its calls pass."""

    def __init__(self, mod, name, func):
        self.mod, self.name, self.names, self.blocks = mod, name, Names(), Names()
        self.env, self.allocs, self.passed = {}, [], []  # passed: symbolic dimensions that its calls pass
        params = [self._declared(p, p.name) for p in func.params]
        nests = [self._nest(b) for b in func.bindings]
        results = [self.env[id(v)] for v in func.outputs]
        results = [r for found in results for r in (found if isinstance(found, list) else [found])]
        allocs = [b for b in self.allocs if not any(b is r for r in results)]
        attrs = {k: v for k, v in func.attrs.items() if k not in (*PRIMITIVE, "global_symbol")}
        scalars = self._scalars([*params, *results])
        self.func = prim_func([*params, *results, *scalars], seq(*(n for n in nests if n is not None)),
                              {"tir.noalias": True, **attrs}, allocs)
        self.dims = tuple(scalars)

    def _declared(self, value, hint):
        info = value.struct_info
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            raise ValueError(f"{self.name}: {hint} is {info}; the parameters of a primitive function are tensors of "
                             "known shape")
        self.env[id(value)] = decl_buffer(tuple(map(te_dim, info.shape)), info.dtype, unique_name(hint, self.names))
        return self.env[id(value)]

    def _scalars(self, buffers):
        """The variables that the calls pass but no buffer's shape tells."""
        known = {id(d) for b in buffers for d in b.shape if isinstance(d, Var)}
        return [v for v in {id(v): v for v in self.passed}.values() if id(v) not in known]

    def _nest(self, binding):
        """The loops of one call."""
        value = binding.value
        if isinstance(value, TupleGetItem):
            self.env[id(binding.var)] = self.env[id(value.tuple_value)][value.index]
            return None
        if isinstance(value, RelaxTuple) or not isinstance(value, RelaxCall) and id(value) in self.env:
            fields = getattr(value, "fields", None)
            self.env[id(binding.var)] = [self.env[id(f)] for f in fields] if fields else self.env[id(value)]
            return None
        if not isinstance(value, RelaxCall) or value.op != "call_tir":
            what = getattr(value, "op", type(value).__name__)
            raise ValueError(f"{self.name}: {binding.var.name} is a {what}; a primitive function calls PrimFuncs "
                             "alone: run LegalizeOps before FuseTIR")
        callee = self.mod[value.attrs["gv"]]
        infos = value.struct_info.fields if isinstance(value.struct_info, TupleStructInfo) else (value.struct_info,)
        given = [self._argument(a) for a in value.args]
        dims, buffers = {}, {}
        for p, e in zip((p for p in callee.params if p not in callee.buffer_map), value.attrs.get("sym_args") or ()):
            dims[p] = e.astype(p.dtype)
            self.passed += free_vars(e)
        for own, actual in zip(callee.buffers, given):
            self._match(own, actual.shape, dims)
            buffers[own] = actual
        outs = []
        for own, info in zip(callee.buffers[len(given):], infos):
            self._match(own, tuple(map(te_dim, info.shape)), dims)
            hint = unique_name(own.name, self.names)
            outs.append(own.replace(name=hint, data=Var(hint, "handle"), shape=_shape_like(own, info)))
            buffers[own] = outs[-1]
        self.allocs += outs
        self.env[id(binding.var)] = outs if isinstance(value.struct_info, TupleStructInfo) else outs[0]
        root = callee.root
        renewed = _Renewed(buffers, dims, self.blocks, self.names)
        self.allocs += [renewed.visit(b) for b in root.alloc_buffers]
        return renewed.visit(root.body)

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
        return self.generic_visit(block.replace(iter_vars=iters, name_hint=unique_name(block.name_hint, self.blocks)))


__all__ = ["PRIMITIVE", "fuse_tir"]
