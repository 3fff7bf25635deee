"""Graph operators to TensorIR: each operator or fused group becomes a PrimFunc, and the graph a list of call_tir."""
from __future__ import annotations

from .. import op as op_table
from ..expr import IntImm, const, free_vars
from ..module import GlobalVar
from ..node import structural_equal, structural_hash
from ..relax.expr import (Constant, PrimValue, RelaxCall, RelaxTuple, ShapeExpr, TensorStructInfo, TupleGetItem,
                          TupleStructInfo, VarBinding, call_tir, dataflow_function)
from ..te.create import create_prim_func, unique_name
from ..te.tensor import compute, placeholder
from ..tir.function import PrimFunc
from .identities import VIEWS


def lower_ops(mod):
    """Requires dataflow "main" and primitive functions. Ensures "main" binds only call_tir, views (reshape) and tuple
    items, and the module's other functions are PrimFuncs, no two of them structurally equal. Each has attrs "origin":
    the model nodes of all its calls.
    """
    return _Lower(mod).run()


class _Lower:
    def __init__(self, mod):
        self.mod, self.main = mod, mod["main"]
        self.functions = {}  # name -> PrimFunc
        self.by_hash = {}    # structural hash -> [names]
        self.origins = {}    # name -> origins of all calls
        self.names = {"main"}

    def run(self):
        bindings = []
        for b in self.main.bindings:
            value = b.value
            if isinstance(value, RelaxCall) and value.op not in VIEWS:
                value = self._lower(b)
            bindings.append(VarBinding(b.var, value))
        main = dataflow_function(self.main.params, bindings, self.main.outputs, self.main.attrs)
        functions = {name: f.with_attr("origin", tuple(self.origins[name])) for name, f in self.functions.items()}
        return self.mod.with_functions({"main": main, **functions})

    def _lower(self, binding):
        call = binding.value
        args = list(dict.fromkeys(a for a in self._tensors(call)))
        if call.op == "call":
            group = self.mod[call.attrs["gv"]]
            origin = group.attrs["origin"]
            func = self._fused(group)
            args = list(call.args)
        else:
            origin = (binding.var.origin,) if binding.var.origin else ()
            func = self._single(call, args)
        dims = _symbolic([a.struct_info for a in args] + [call.struct_info])
        func = func.replace(params=func.params + tuple(dims), attrs={**func.attrs, "num_outputs": _count(call.struct_info)})
        name = self._intern(func, origin, call)
        outs = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else call.struct_info
        return call_tir(GlobalVar(name), args, outs, dims)

    def _tensors(self, call):
        """The tensor arguments; scalar constants of elementwise operators stay in the code as numbers."""
        for a in call.args:
            if isinstance(a, RelaxTuple):
                yield from a.fields
            elif not isinstance(a, (ShapeExpr, PrimValue)) and not _immediate(a, call.op):
                yield a

    def _single(self, call, args):
        env = {id(a): _placeholder(a) for a in args}
        result = self._apply(call, env)
        if isinstance(result, PrimFunc):
            return result
        return create_prim_func([*(env[id(a)] for a in args), *result])

    def _fused(self, group):
        env = {id(p): _placeholder(p) for p in group.params}
        for b in group.bindings:
            env[id(b.var)] = self._apply(b.value, env)[0]
        outputs = [env[id(group.bindings[-1].var)]]
        return create_prim_func([*(env[id(p)] for p in group.params), *outputs])

    def _apply(self, call, env):
        spec = op_table.get(call.op)
        if spec.lower is None:
            raise NotImplementedError(f"operator {call.op} has no lowering")
        result = spec.lower([_argument(a, env, call.op) for a in call.args], call.attrs, call.struct_info)
        if isinstance(result, PrimFunc):
            return result
        return result if isinstance(result, (tuple, list)) else (result,)

    def _intern(self, func, origin, call):
        """The name of `func`, or of an equal function made before."""
        key = structural_hash(func)
        for name in self.by_hash.get(key, ()):
            if structural_equal(self.functions[name], func):
                self.origins[name].extend(origin)
                return name
        hint = call.attrs["gv"].name if call.op == "call" else call.op.split(".")[-1]
        name = unique_name(hint, self.names)
        self.functions[name] = func
        self.by_hash.setdefault(key, []).append(name)
        self.origins[name] = list(origin)
        return name


def _immediate(a, op):
    """A constant of one element that an elementwise operator can hold as a number."""
    return isinstance(a, Constant) and a.data.size == 1 and op_table.get(op).kind in ("elementwise", "broadcast")


def _argument(a, env, op):
    if id(a) in env:
        return env[id(a)]
    if isinstance(a, Constant):
        if a.data.size != 1:
            raise ValueError(f"{op}: constant of shape {a.data.shape} inside a fused group")
        value = const(a.data.reshape(-1)[0].item(), a.struct_info.dtype)  # a tensor whose body is the number: inlined
        return compute(a.data.shape, lambda *_: value, "constant")
    if isinstance(a, ShapeExpr):
        return tuple(te_dim(v) for v in a.values)
    if isinstance(a, PrimValue):
        return a.value
    if isinstance(a, RelaxTuple):
        return tuple(_argument(f, env, op) for f in a.fields)
    if isinstance(a, TupleGetItem):
        raise ValueError(f"{op}: tuple items must be bound to variables before lowering")
    raise TypeError(f"{op}: cannot lower argument {type(a).__name__}")


def te_dim(dim):
    """A graph dimension (int64) as TE wants it: int32 when it is a number."""
    return const(dim.value, "int32") if isinstance(dim, IntImm) and dim.value < 1 << 31 else dim


def _placeholder(a):
    info = a.struct_info
    if not isinstance(info, TensorStructInfo):
        raise TypeError(f"{getattr(a, 'name', a)} is not a tensor")
    return placeholder(tuple(te_dim(s) for s in info.shape), info.dtype, getattr(a, "name", "") or "const")


def _symbolic(infos):
    """The symbolic dimensions in these struct infos, each once, in order."""
    found = {}
    for info in infos:
        for tensor in info.fields if isinstance(info, TupleStructInfo) else (info,):
            for s in tensor.shape:
                for v in free_vars(s):
                    found.setdefault(id(v), v)
    return list(found.values())


def _count(info):
    return len(info.fields) if isinstance(info, TupleStructInfo) else 1
