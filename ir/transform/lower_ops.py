"""Graph operators to TensorIR: each operator or fused group becomes a PrimFunc, and the graph a list of call_tir."""
from __future__ import annotations

import re

from .. import op as op_table
from ..boundary import internal_errors
from ..expr import IntImm, PrimExpr, const, free_vars
from ..module import GlobalVar
from ..names import Names, ending, unique_name
from ..node import structural_equal, structural_hash
from ..relax.accuracy import arithmetics_of
from ..relax.algorithms import algorithm_of, is_sum_of_products
from ..relax.control import CONTROL, graph_functions
from ..relax.expr import (DataflowVar, MatchCast, PrimValue, RelaxCall, RelaxTuple, RelaxVar, ShapeExpr,
                          TensorStructInfo, TupleStructInfo, VarBinding, call_tir, dataflow_function)
from ..relax.memory import ALIASES, Memory
from ..relax.ops.common import Number
from ..schedule.plan import ATTRIBUTE
from ..te.create import Lowering
from ..te.operation import placeholder
from ..tir.flops import terms_of_sums
from ..tir.strides import with_strides
from ..tir.function import PrimFunc
from .graph import Substitute, is_immediate, node_title
from .resolve_casts import bind_dims


MOST_NAME = 32  # letters of a tensor's name in a kernel


def lower_ops(mod):
    """Requires a dataflow "main" (arguments are variables or constants), primitive functions and no MatchCast.
    Ensures "main" and its bodies bind only call_tir, views, tuple items and control calls, and the module's other
    functions are PrimFuncs, no two of them structurally equal. Each has attrs "origin", the model nodes of all its
    calls, "num_outputs" and, where it is made by other arithmetics than FMAs, "bounds", the text of their
    error bounds; "algorithm", how it is computed, and "sums", of how many terms, where by sums of products alone;
    "plan", what passes decided of its schedule. Its parameters are the inputs, the outputs, then the symbolic
    dimensions that the call passes.
    """
    return _Lower(mod).run()


class _Lower:
    def __init__(self, mod):
        self.mod, self.memory = mod, None
        self.functions = {}  # name -> PrimFunc
        self.by_hash = {}    # structural hash -> [names]
        self.lowered = {}    # structural hash of operators -> [(their form, name of the function that they became)]
        self.origins = {}    # name -> origins of all calls
        self.bounds = {}     # name -> the bounds of what it is made by, but for FMAs
        self.algorithms = {}  # name -> how it is computed, in words
        self.sums = {}       # name -> whether its costly part is sums of products alone
        self.graphs = graph_functions(mod)
        self.names = Names(self.graphs)

    def run(self):
        graphs = {name: self._graph(func) for name, func in self.graphs.items()}
        functions = {name: f.with_attr({"origin": tuple(self.origins[name]), **self._bounds(name, f)})
                     for name, f in self.functions.items()}
        return self.mod.with_functions({**graphs, **functions})

    def _graph(self, func):
        """"main" or a body with its operators lowered."""
        self.memory, bindings = Memory(func), []
        for b in func.bindings:
            with internal_errors(lambda: node_title(b)):
                bindings.append(VarBinding(b.var, self._value(b)))
        return dataflow_function(func.params, bindings, func.outputs, func.attrs)

    def _value(self, binding):
        """The value of a binding after lowering."""
        if isinstance(binding, MatchCast):
            raise NotImplementedError(f"{binding.var.name}: shapes checked at run time (MatchCast) are not lowered; "
                                      "run ResolveMatchCast first")
        call = binding.value
        if not isinstance(call, RelaxCall) or call.op in (*ALIASES, *CONTROL):
            return call
        origin = (binding.var.origin,) if binding.var.origin else ()
        if call.op == "call_tir":
            func, call = bind_dims(self.mod[call.attrs["gv"]], call)
            func = with_strides(func.with_attr("num_outputs", len(_infos(call))), self._strides(binding, call.args))
            return call.replace(attrs={**call.attrs, "gv": self._intern(func, call.attrs["gv"].name, origin)})
        if call.op == "call":
            group, hint, args = self.mod[call.attrs["gv"]], call.attrs["gv"].name, call.args
            origin = group.attrs.get("origin", origin)
            calls = [b.value for b in group.bindings if isinstance(b.value, RelaxCall)]
        else:
            hint, args, group = call.op.rpartition(".")[2], tuple(_tensors(call)), None
            calls = [call]
        strides = self._strides(binding, args)
        plan = next((c.attrs[ATTRIBUTE] for c in calls if c.attrs.get(ATTRIBUTE)), None)
        gv = self._lower_once(call, args, group, strides, hint, origin, calls, plan)
        info = call.struct_info
        outs = info.fields if isinstance(info, TupleStructInfo) else info
        self.bounds[gv.name] = tuple(dict.fromkeys(str(a) for c in calls for a in arithmetics_of(c)))
        self.algorithms[gv.name] = tuple(dict.fromkeys(filter(None, map(algorithm_of, calls))))
        self.sums[gv.name] = len(self.algorithms[gv.name]) == sum(map(is_sum_of_products, calls)) == 1
        return call_tir(gv, args, outs, _dims_of(call, args, strides, calls))

    def _lower_once(self, call, args, group, strides, hint, origin, calls, plan):
        """The GlobalVar of what an operator, or a group, becomes: equal ones, whatever their names, origins and weights
        are, are lowered once."""
        dims = _dims_of(call, args, strides, calls)
        empty = tuple(d.may_be_zero for d in dims)  # such kernels are none of those of 1 or more
        computed = _form(call, args) if group is None else group.replace(attrs={})
        form = computed, tuple(strides), len(_infos(call)), empty
        known = self.lowered.setdefault(structural_hash(form), [])
        name = next((name for other, name in known if structural_equal(other, form)), None)
        if name is not None:
            self.origins[name].extend(origin)
            return GlobalVar(name)
        func = with_strides(_single(call, args) if group is None else self._fused(group), strides)
        func = func.replace(params=(*func.params, *dims), attrs={
            **func.attrs, "num_outputs": len(_infos(call)), **({ATTRIBUTE: plan} if plan else {}),
            **({"may_be_empty": empty} if any(empty) else {})})
        gv = self._intern(func, hint, origin)
        known.append((form, gv.name))
        return gv

    def _bounds(self, name, func):
        found = {"bounds": self.bounds.get(name), "algorithm": self.algorithms.get(name),
                 "sums": self.sums.get(name) and terms_of_sums(func)}
        return {key: value for key, value in found.items() if value}

    def _strides(self, binding, args):
        """The strides of each argument and result, () where they are row-major."""
        return [place.strides for place in (*map(self.memory.place, args), *self.memory.results(binding))]

    def _fused(self, group):
        """The function of a group of operators."""
        env = {id(p): _placeholder(p) for p in group.params}
        inputs = list(env.values())
        for b in group.bindings:
            env[id(b.var)], = _apply(b.value, env, shared=True)
        return Lowering().function([*inputs, *(env[id(o)] for o in group.outputs)], {})

    def _intern(self, func, hint, origin):
        """The GlobalVar of `func`, or of an equal function made before."""
        key = structural_hash(func)
        name = next((n for n in self.by_hash.get(key, ()) if structural_equal(self.functions[n], func)), None)
        if name is None:
            name = unique_name(hint, self.names)
            self.functions[name], self.origins[name] = func, []
            self.by_hash.setdefault(key, []).append(name)
        self.origins[name].extend(origin)
        return GlobalVar(name)


def function_of_call(call):
    """(PrimFunc, the tensors that call_tir passes it, the symbolic dimensions that it takes behind the results) of one
    operator's call, as its row lowers it."""
    args = tuple(_tensors(call))
    dims = _dims_of(call, args, (), [call])
    func = _single(call, args)
    return func.replace(params=(*func.params, *dims)), args, dims


def _single(call, args):
    env = {id(a): _placeholder(a) for a in args}
    result = _apply(call, env)
    return result if isinstance(result, PrimFunc) else Lowering().function([*env.values(), *result], {})


def _tensors(call):
    """The tensors that a call reads, each once. Numbers of elementwise operators are none: they stay in the code."""
    flat = [f for a in call.args for f in (a.fields if isinstance(a, RelaxTuple) else (a,))]
    read = [a for a in flat if not isinstance(a, (ShapeExpr, PrimValue)) and not is_immediate(a, call.op)]
    return {id(a): a for a in read}.values()


def _form(call, args):
    """A call as a function of the tensors that it reads: equal for calls that are lowered alike."""
    params = [RelaxVar("", a.struct_info) for a in args]
    var = DataflowVar("", call.struct_info)
    value = Substitute({id(a): p for a, p in zip(args, params)}).visit(call)
    return dataflow_function(params, [VarBinding(var, value)], [var], {})


def _dims_of(call, args, strides, calls):
    """The symbolic dimensions that the function of a call takes after its tensors. calls: of the operators in it."""
    given = [a for c in calls for a in c.args if isinstance(a, (ShapeExpr, PrimValue))]
    return _symbolic([*(a.struct_info.shape for a in args), *(i.shape for i in _infos(call)), *strides,
                      *(a.values if isinstance(a, ShapeExpr) else [a.value] for a in given),
                      *(_numbers(v) for c in calls for v in c.attrs.values())])


def _numbers(value):
    """The expressions in an attribute."""
    if isinstance(value, tuple):
        return [e for v in value for e in _numbers(v)]
    return [value] if isinstance(value, PrimExpr) else []


def _apply(call, env, shared=False):
    """Apply an operator's lowering to te tensors (env: {id(value): tensor}); returns a PrimFunc or a tuple of tensors.
    shared: with others in one function, which takes tensors."""
    spec = op_table.get(call.op)
    lower = shared and spec.te or spec.lower
    if lower is None:
        raise NotImplementedError(f"operator {call.op} has no lowering")
    result = lower([_argument(a, env, call.op) for a in call.args], call.attrs, call.struct_info)
    return result if isinstance(result, (PrimFunc, tuple)) else (result,)


def _argument(a, env, op):
    """An argument as the lowering of `op` takes it."""
    if id(a) in env:
        return env[id(a)]
    if is_immediate(a, op):
        return Number(const(a.data.reshape(-1)[0].item(), a.struct_info.dtype), (const(1, "int32"),) * a.data.ndim)
    if isinstance(a, ShapeExpr):
        return tuple(te_dim(v) for v in a.values)
    if isinstance(a, PrimValue):
        return a.value
    if isinstance(a, RelaxTuple):
        return tuple(_argument(f, env, op) for f in a.fields)
    raise TypeError(f"{op}: cannot lower the argument {getattr(a, 'name', '')} ({type(a).__name__}); run "
                    "fold_constants first, which binds computed arguments to variables")


def te_dim(dim):
    """A graph dimension (int64) as TE wants it: int32 when it is a number."""
    return const(dim.value, "int32") if isinstance(dim, IntImm) and dim.value < 1 << 31 else dim


def _placeholder(a):
    info = a.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise TypeError(f"{getattr(a, 'name', a)} is no tensor of known shape")
    return placeholder(tuple(te_dim(s) for s in info.shape), info.dtype, _short(getattr(a, "name", "") or "const"))


def _short(name):
    """A tensor's name as a kernel says it: of a long one the last words, without what exporters put behind all."""
    if len(name) <= MOST_NAME:
        return name
    return ending(re.sub(r"[^0-9A-Za-z]+", "_", name.removesuffix("_output_0")), MOST_NAME)


def _infos(call):
    """The struct info of each result."""
    info = call.struct_info
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def _symbolic(shapes):
    """The symbolic dimensions in shapes and strides, each once, in order."""
    return tuple({id(v): v for shape in shapes for s in shape for v in free_vars(s)}.values())
