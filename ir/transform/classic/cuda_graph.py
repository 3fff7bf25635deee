"""RewriteCUDAGraph: memory of known size is kept between calls, and kernels in such memory become functions that a
runtime can capture as one graph. Runs after StaticPlanBlockMemory."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...expr import IntImm, free_vars
from ...module import GlobalVar
from ...names import Names, unique_name
from ...node import Mutator, collect
from ...relax.expr import (BindingBlock, Constant, DataTypeImm, DataflowVar, ExternFunc, Function, MatchCast,
                           ObjectStructInfo, PrimStructInfo, PrimValue, RelaxCall, RelaxString, RelaxTuple, RelaxVar,
                           SeqExpr, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo,
                           VarBinding, call_builtin_with_ctx)
from ...tir.function import PrimFunc
from ..canonicalize_bindings import with_dims
from ..graph import Substitute

_LIBRARY = "vm.builtin.cuda_graph."
_VARS = (RelaxVar, DataflowVar)
_STORAGE = "memory.alloc_storage"
_IN_REGIONS = ("memory.alloc_tensor", "memory.view", "memory.ensure_zero_offset", "memory.kill_tensor",
               "memory.kill_storage", "null_value", "reshape")  # what is no kernel, and may be between kernels
_ATTRS = {"relax.force_pure": True}
_CAPTURED_DIMS = "relax.rewrite_cuda_graph.capture_symbolic_vars"  # attribute: names of dimensions


def rewrite_cuda_graph(mod, enabled=False):
    """A module whose graph functions take storages of known size from vm.builtin.cuda_graph.get_cached_alloc, which
    calls the function cuda_graph_alloc once, and run kernels that touch nothing but these, and parameters after the
    attribute num_input, by vm.builtin.cuda_graph.run_or_capture of a function each. Storages of what a function returns
    stay its own. Symbolic dimensions are those of such parameters, and of names in the attribute
    relax.rewrite_cuda_graph.capture_symbolic_vars. Functions that call one another share no storages, and those that
    call themselves stay as they are. enabled: the setting relax.backend.use_cuda_graph."""
    if not enabled:
        return mod
    reached = _reached(mod)
    plans = {n: _Plan(mod, f) for n, f in mod.functions.items()
             if isinstance(f, Function) and f.body is not None and n not in reached[n]}
    names, made = Names(mod.functions), {}
    _share({n: p for n, p in plans.items() if p.storages}, reached, names, made)
    count = 0
    for name, plan in plans.items():
        for region in plan.regions:
            region.name, region.number = unique_name(f"{name}_cuda_graph_capture", names, ""), count
            made[region.name] = region.function()
            count += 1
    new = {n: _Rewrite(plans[n]).function(f) if n in plans else f for n, f in mod.functions.items()}
    return mod.with_functions({**new, **made})


def _reached(mod):
    """{name: names of the functions that a graph function calls, itself or through others}."""
    calls = {n: {gv.name for gv in collect(f, GlobalVar)} if isinstance(f, Function) else set()
             for n, f in mod.functions.items()}
    found = {}
    for name in calls:
        seen, waiting = set(), list(calls[name])
        while waiting:
            callee = waiting.pop()
            if callee not in seen:
                seen.add(callee)
                waiting += calls.get(callee, ())
        found[name] = seen
    return found


# ---------------------------------------------------------------- storages

def _share(plans, reached, names, made):
    """Give each plan `alloc`, (name of the function that makes its storages, number, how many these are), and each of
    its storages a place among them. Functions that may run at once have functions of their own."""
    apart = any(other in reached[n] for n in plans for other in plans)
    for number, group in enumerate([[p] for p in plans.values()] if apart else [list(plans.values())]):
        if not group:
            continue
        rows = _rows(group)
        name = unique_name("cuda_graph_alloc", names, "")
        made[name] = _function((), [b for b, _ in rows], [b.var for b, _ in rows], ())
        for place, (_, served) in enumerate(rows):
            for plan, var in served:
                plan.places[id(var)] = place
        for plan in group:
            plan.alloc = name, number, len(rows)


def _rows(plans):
    """[(binding of a storage, [(plan, variable that it serves)])]: the largest of one function with the largest of
    others, and so on."""
    if len(plans) == 1:
        return [(b, [(plans[0], b.var)]) for b in plans[0].storages]
    kinds = {}
    for plan in plans:
        for b in plan.storages:
            key = tuple(str(a) for a in b.value.args[1:])
            kinds.setdefault(key, {}).setdefault(id(plan), (plan, []))[1].append(b)
    rows = []
    for own in kinds.values():
        ranked = [(plan, sorted(some, key=lambda b: -_size(b))) for plan, some in own.values()]
        for k in range(max(len(some) for _, some in ranked)):
            served = [(plan, some[k]) for plan, some in ranked if k < len(some)]
            rows.append((max((b for _, b in served), key=_size), [(plan, b.var) for plan, b in served]))
    return rows


def _size(binding):
    size = 1
    for d in binding.value.args[0].values:
        size *= d.value
    return size


# ---------------------------------------------------------------- regions

@dataclass
class _Region:
    """Bindings of a block that become a function. inputs and outputs: {id: variable}; dims: {id: dimension}."""

    bindings: list = field(default_factory=list)
    inputs: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)
    name: str = ""
    number: int = 0

    def function(self):
        return _function(self.inputs.values(), self.bindings, self.outputs.values(), tuple(self.dims.values()))

    def call(self):
        """Its call, in terms of the function around."""
        dims = [ShapeExpr(tuple(self.dims.values()))] if self.dims else []
        info = TupleStructInfo(tuple(v.struct_info for v in self.outputs.values()))
        return call_builtin_with_ctx(f"{_LIBRARY}run_or_capture", [
            GlobalVar(self.name), RelaxTuple((*self.inputs.values(), *dims)), PrimValue(self.number), *dims],
            sinfo_args=info)


def _function(inputs, bindings, outputs, dims):
    """A private function of some bindings, with variables and dimensions of its own; dims: its last parameter."""
    env = {id(v): RelaxVar(v.name, v.struct_info) for v in inputs}
    params = [*env.values(), *([RelaxVar("shape_expr", ShapeStructInfo(dims))] if dims else [])]
    inside, body = Substitute(env), []
    for b in bindings:
        value = inside.visit(b.value)
        env[id(b.var)] = var = RelaxVar(b.var.name, b.var.struct_info, b.var.origin)
        body.append(VarBinding(var, value))
    result = RelaxTuple(tuple(env[id(v)] for v in outputs))
    gv = RelaxVar("gv", result.struct_info)
    body.append(VarBinding(gv, result))
    given = gv if result.fields else result  # nothing is written where it is used
    func = Function(tuple(params), SeqExpr((BindingBlock(tuple(body)),), given), result.struct_info, dict(_ATTRS))
    fresh = {d: d.renewed(d.name) for d in free_vars([func, *(v.struct_info for v in collect(func, _VARS))])}
    return with_dims(func, fresh) if fresh else func


class _Plan:
    """What of a function is lifted. storages: their bindings; regions: _Regions; places, alloc: what _share says."""

    def __init__(self, mod, func):
        self.mod, self.storages, self.regions, self.places, self.alloc = mod, [], [], {}, None
        self.region, self.home = None, {}  # home: id of a variable -> the region that binds it
        self.static, self.dims = set(), set()  # ids of variables at known places, of dimensions that may vary
        self._parameters(func)
        kept = _returned(func)
        for block in func.body.blocks:
            for b in block.bindings:
                self._binding(b, kept)
            self._end()
        self._used(func.body.body)

    def _parameters(self, func):
        count = func.attrs.get("num_input")
        count = len(func.params) if count is None else int(count)
        hints = {str(n) for n in func.attrs.get(_CAPTURED_DIMS) or ()}
        for n, p in enumerate(func.params):
            dims = free_vars([p.struct_info])
            self.dims |= {id(d) for d in dims if n >= count or d.name in hints}
            self.static |= {id(p)} if n >= count else set()

    def _end(self):
        if self.region is not None and self.region.bindings:
            self.regions.append(self.region)
        self.region = None

    def _binding(self, b, kept):
        value = b.value
        op = value.op if isinstance(value, RelaxCall) else ""
        if op == _STORAGE and id(b.var) not in kept and all(isinstance(d, IntImm) for d in value.args[0].values):
            self.storages.append(b)
            self.static.add(id(b.var))
            return
        if op in (_STORAGE, "builtin.alloc_tensor"):
            return
        kernel = self._is_kernel(value)
        if not isinstance(b, MatchCast) and self._is_static(b) and (
                kernel or op in _IN_REGIONS or not isinstance(value, RelaxCall)):
            if kernel and self.region is None:
                self.region = _Region()
            self.static.add(id(b.var))
            if self.region is not None:
                self._add(b)
        else:
            self._end()
        self._used(b.value)

    def _add(self, b):
        region = self.region
        for v in _variables(b.value):
            if self.home.get(id(v)) is not region:
                region.inputs.setdefault(id(v), v)
        for d in free_vars([b.value, b.var.struct_info, *(v.struct_info for v in _variables(b.value))]):
            region.dims.setdefault(id(d), d)
        region.bindings.append(b)
        self.home[id(b.var)] = region

    def _used(self, value):
        """Variables of other regions that a value uses are results of these."""
        for v in _variables(value):
            home = self.home.get(id(v))
            if home is not None and home is not self.region:
                home.outputs.setdefault(id(v), v)

    def _is_kernel(self, value):
        """Whether a value calls a PrimFunc, or a function outside of the module that is none of the runtime's."""
        if not isinstance(value, RelaxCall):
            return False
        if value.op == "call":
            return isinstance(self.mod.functions.get(value.attrs["gv"].name), PrimFunc)
        return value.op == "call_packed" and isinstance(value.attrs["func"], str) and not value.attrs[
            "func"].startswith("vm.builtin")

    def _is_static(self, b):
        """Whether all that a binding touches is always at the same places, of sizes that are captured."""
        given = b.value.args if isinstance(b.value, RelaxCall) else (b.value,)
        return all(map(self._stays, given)) and all(id(d) in self.dims for d in free_vars([b.value, b.var.struct_info]))

    def _stays(self, value):
        if isinstance(value, _VARS):
            return id(value) in self.static and self._told(value.struct_info)
        if isinstance(value, RelaxTuple):
            return all(map(self._stays, value.fields))
        if isinstance(value, TupleGetItem):
            return self._stays(value.tuple_value)
        return isinstance(value, (Constant, DataTypeImm, RelaxString, PrimValue, ShapeExpr, ExternFunc))

    def _told(self, info):
        if isinstance(info, TupleStructInfo):
            return all(map(self._told, info.fields))
        dims = () if isinstance(info, (ObjectStructInfo, PrimStructInfo)) else info.dims if isinstance(
            info, TensorStructInfo) else getattr(info, "values", None)
        return dims is not None and all(id(d) in self.dims for d in free_vars(list(dims)))


def _variables(value):
    return list({id(v): v for v in collect(value, _VARS)}.values())


def _returned(func):
    """ids of the variables whose memory a function's result may be in."""
    values = {id(b.var): b.value for block in func.body.blocks for b in block.bindings}
    found, waiting = set(), list(_variables(func.body.body))
    while waiting:
        var = waiting.pop()
        if id(var) in found:
            continue
        found.add(id(var))
        waiting += _variables(values.get(id(var), ()))
    return found


# ---------------------------------------------------------------- what is left of a function

class _Rewrite(Mutator):
    def __init__(self, plan):
        self.plan, self.made, self.bindings = plan, None, []
        self.lifted = {id(b): region for region in plan.regions for b in region.bindings}
        self.results = {}  # id of a region -> the variable of its results
        self.taken = set()  # ids of storages that are there

    def function(self, func):
        if not self.plan.storages and not self.plan.regions:
            return func
        self.names = Names(v.name for v in collect(func, _VARS))
        blocks = [self._block(block) for block in func.body.blocks]
        return func.replace(body=func.body.replace(blocks=tuple(blocks)))

    def _block(self, block):
        self.bindings = []
        for b in block.bindings:
            region = self.lifted.get(id(b))
            if id(b.var) in self.plan.places:
                self._storage(b.var)
            elif region is None:
                self.bindings.append(b)
            else:
                self._captured(b, region)
        return block.replace(bindings=tuple(self.bindings))

    def _bind(self, value):
        var = RelaxVar(unique_name("gv", self.names, ""), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    def _storage(self, var):
        """The binding of a storage, unless it is there already."""
        if id(var) in self.taken or id(var) not in self.plan.places:
            return
        self.taken.add(id(var))
        if self.made is None:
            name, number, count = self.plan.alloc
            self.made = self._bind(call_builtin_with_ctx(
                f"{_LIBRARY}get_cached_alloc", [GlobalVar(name), PrimValue(number)],
                sinfo_args=TupleStructInfo((ObjectStructInfo(),) * count)))
        self.bindings.append(VarBinding(var, TupleGetItem(self.made, self.plan.places[id(var)])))

    def _captured(self, b, region):
        """The call of a region in the place of its first binding; its results where they were bound."""
        if b is region.bindings[0]:
            for v in region.inputs.values():
                self._storage(v)
            self.results[id(region)] = self._bind(region.call())
        if id(b.var) in region.outputs:
            index = list(region.outputs).index(id(b.var))
            self.bindings.append(VarBinding(b.var, TupleGetItem(self.results[id(region)], index)))


__all__ = ["rewrite_cuda_graph"]
