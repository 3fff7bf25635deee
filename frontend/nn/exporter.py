"""A module's methods as graph functions: arguments, then effects, then parameters."""
from __future__ import annotations

from ...ir.expr import Var as Dim
from ...ir.node import collect
from ...ir.relax import BlockBuilder
from ...ir.relax.expr import RelaxTuple, RelaxVar, TupleGetItem
from ...ir.relax.struct_info import ObjectStructInfo, ShapeStructInfo, TupleStructInfo
from . import spec as specs
from .effects import Effect, IOEffect
from .tensor import Object, Parameter, Tensor


class Exporter:
    """Builds the IRModule of a ModuleSpec. debug: functions take and return an IOEffect."""

    _current = []

    def __init__(self, debug=False):
        self.builder = BlockBuilder(separator="")  # names are as TVM has them: matmul, matmul1
        self.io_effect = IOEffect() if debug else None
        self.extern_mods = []  # ExternModules, which add_extern adds

    @staticmethod
    def current():
        """The exporter at work. RuntimeError where there is none."""
        if not Exporter._current:
            raise RuntimeError("no nn.Module is being exported")
        return Exporter._current[-1]

    def build(self, spec):
        """(IRModule, [(name, Parameter)]) of a ModuleSpec. ValueError where a method uses what its mode leaves out."""
        effects = [("", self.io_effect)] if self.io_effect else []
        effects += spec.module.find(Effect)
        params = list(spec.module.find(Parameter))
        kept = [(p, p._expr) for _, p in params]
        Exporter._current.append(self)
        try:
            if effects:
                self._initialize(effects)
            for name, method in zip(spec.method_names, spec.method_specs):
                self._export(name, method, params, effects)
        finally:
            Exporter._current.pop()
            for param, expr in kept:  # a function's variables are its own
                param._expr = expr
        return self.builder.get(), params

    def _initialize(self, effects):
        """The function that makes the first state of all effects."""
        with self.builder.function("_initialize_effect", []) as bb:
            with bb.dataflow():
                states = [v for name, effect in effects for v in effect.emit_init(name, bb)]
                output = bb.emit_output(bb.emit(RelaxTuple(tuple(states))))
            bb.emit_func_output(output)

    def _export(self, name, method, params, effects):
        given = [_Argument(n, s) for n, s in zip(method.arg_names, _with_dims(method))]
        states = [effect.create(n) for n, effect in effects]
        weights = _weights(params)
        groups = (_Group("effects", method.effect_mode, [v for vs in states for v in vs]),
                  _Group("params", method.param_mode, weights))
        inputs = [a.var for a in given] + [v for g in groups for v in g.inputs]
        num_input = len(given) + len(groups[0].inputs)
        with self.builder.function(name, inputs, attrs={"num_input": num_input}) as bb:
            with bb.dataflow():
                found = iter(groups[0].values(bb))
                for (_, effect), state in zip(effects, states):
                    effect.set_state([next(found) for _ in state])
                for (_, param), value in zip(params, groups[1].values(bb)):
                    param._expr = value
                result = _returned(method.method(*(a.value(bb) for a in given)))
                after = [v for _, effect in effects for v in effect.finalize()]
                if after and method.effect_mode != "none":
                    result = RelaxTuple((result, RelaxTuple(tuple(after))))
                result = bb.emit_output(result)
            bb.emit_func_output(result)
        self._check(name, groups)

    def _check(self, name, groups):
        """ValueError where the function uses what it does not take."""
        used = {id(v) for v in collect(self.builder.get()[name], RelaxVar)}
        for group in groups:
            left = [v.name for v in group.variables if group.mode == "none" and id(v) in used]
            if left:
                raise ValueError(f"{name} uses {left[0]}, which its spec leaves out: {group.what[:-1]}_mode must be "
                                 '"plain" or "packed"')


class _Group:
    """Effects or parameters as a function takes them: `inputs` of their `variables`."""

    def __init__(self, what, mode, variables):
        self.what, self.mode, self.variables = what, mode, variables
        packed = RelaxVar(f"packed_{what}", TupleStructInfo(tuple(v.struct_info for v in variables)))
        self.inputs = {"plain": variables, "packed": [packed], "none": []}[mode]

    def values(self, bb):
        """What stands for each variable inside the function."""
        if self.mode != "packed":
            return self.variables
        return [bb.emit(TupleGetItem(self.inputs[0], i), v.name.replace(".", "_"))
                for i, v in enumerate(self.variables)]


class _Argument:
    """An argument of a method: its variable, and what the method gets for it."""

    def __init__(self, name, spec):
        self.name, self.spec, self.var = name, spec, RelaxVar(name, _info(name, spec))

    def value(self, bb):
        return _unpacked(self.name, self.spec, self.var, bb)


def _info(name, spec):
    """Struct info of an argument."""
    if isinstance(spec, Dim):
        return ShapeStructInfo((spec,))
    if isinstance(spec, specs.Tensor):
        return Tensor.placeholder(spec.shape, spec.dtype)._expr.struct_info
    if isinstance(spec, specs.Tuple):
        return TupleStructInfo(tuple(_info(name, e) for e in spec.elements))
    return ObjectStructInfo()


def _unpacked(name, spec, var, bb):
    """What a method gets: a tensor, an object, a dimension, or a list or tuple of these."""
    if isinstance(spec, Dim):
        return spec
    if isinstance(spec, specs.Tensor):
        return Tensor(_expr=var)
    if isinstance(spec, specs.Tuple):
        items = [bb.emit(TupleGetItem(var, i), f"{name}_{i}") for i in range(len(spec.elements))]
        return type(spec.elements)(_unpacked(f"{name}_{i}", e, v, bb)
                                   for i, (e, v) in enumerate(zip(spec.elements, items)))
    return spec.object_type(_expr=var, _name=name)


def _with_dims(method):
    """The specs of a method's arguments, whose names of dimensions and integers are variables, one for each name."""
    dims = {}

    def replaced(name, spec):
        if isinstance(spec, specs.Int):
            return dims.setdefault(name, Dim(name, "int64"))
        if isinstance(spec, specs.Tensor):
            return specs.Tensor([dims.setdefault(d, Dim(d, "int64")) if isinstance(d, str) else d
                                 for d in spec.shape], spec.dtype)
        if isinstance(spec, specs.Tuple):
            return specs.Tuple(spec.name, type(spec.elements)(replaced(f"{name}_{i}", e)
                                                              for i, e in enumerate(spec.elements)))
        return spec
    return [replaced(n, s) for n, s in zip(method.arg_names, method.arg_specs)]


def _weights(params):
    """New variables for the parameters, in which dimensions of one name are one."""
    dims = {}
    shapes = [[dims.setdefault(d.name, Dim(d.name, "int64")) if isinstance(d, Dim) else d for d in p.shape]
              for _, p in params]
    return [Tensor.placeholder(shape, p.dtype, name)._expr for shape, (name, p) in zip(shapes, params)]


def _returned(value):
    """What a method returns, as a graph expression."""
    if isinstance(value, (Tensor, Object)):
        return value._expr
    if isinstance(value, (tuple, list)):
        return RelaxTuple(tuple(map(_returned, value)))
    raise TypeError(f"Unsupported return type: {type(value).__name__}; a method returns tensors, and lists or tuples "
                    "of them")


__all__ = ["Exporter"]
