"""Outputs that are inputs with more rows: caches that a run extends where they lie."""
from __future__ import annotations

from fnmatch import fnmatchcase

from ..expr import const, free_vars
from ..names import unique_name
from ..relax.block_builder import call_op
from ..relax.control import dims_set_by
from ..relax.expr import DataflowVar, RelaxVar, TensorStructInfo, VarBinding, dataflow_function
from ..relax.ops.common import as_dim
from ..tir.buffer import row_major_strides
from .graph import Substitute, on_main, remove_unused
from .in_place import InPlaceRewriter


class AliasError(ValueError):
    """An output that cannot lie in an input; the message says why, and what would do."""


def alias_outputs(mod, aliases):
    """Ensures that outputs of "main" lie in inputs. aliases: {output: input}, names of the model, with one * each for
    what both share ("present.*": "past_key_values.*").

    Such an output is concat(input, more) along one axis, or update_slice(input, more). The input gets, as its extent of
    that axis, the upper bound of its dimension (mod.attrs["most"]): the caller's buffer has room for so many rows, the
    first of them are the past. The run writes the others behind them, and the output is no output any more. Raises
    AliasError.
    """
    func = mod["main"]
    most = dict(mod.attrs.get("most", ()))
    pairs = list(_pairs(func, aliases))
    made = _Aliased(func, pairs, most)
    return mod.with_function("main", made.function())


def _pairs(func, aliases):
    """(number of the output, number of the input) of each alias."""
    outputs, inputs = list(func.attrs["output_names"]), list(func.attrs["input_names"])
    for pattern, target in aliases.items():
        found = [name for name in outputs if fnmatchcase(name, pattern)]
        if not found or pattern.count("*") != target.count("*") or pattern.count("*") > 1:
            raise AliasError(f"alias {pattern}={target}: " + (
                "both names have a *, or none has" if found else f"no output has that name; the outputs are "
                f"{', '.join(outputs)}"))
        before, _, after = pattern.partition("*")
        for name in found:
            of = target.replace("*", name[len(before):len(name) - len(after)])
            if of not in inputs:
                raise AliasError(f"alias {name}={of}: no input has that name; the inputs are {', '.join(inputs)}")
            yield outputs.index(name), inputs.index(of)


class _Aliased:
    def __init__(self, func, pairs, most):
        self.func, self.most = func, most
        self.names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
        self.params, self.env, self.bindings, self.begins = list(func.params), {}, [], {}
        self.definition = {id(b.var): b.value for b in func.bindings}
        self.gone = {out for out, _ in pairs}
        self.targets = {}  # id of an output's variable -> (its name, the parameter that it extends)
        for out, given in pairs:
            name = func.attrs["output_names"][out]
            if id(func.params[given]) in [id(p) for _, p in self.targets.values()]:
                raise AliasError(f"alias {name}: its input is another output's, too")
            self.targets[id(func.outputs[out])] = name, func.params[given]

    def function(self):
        for var, (name, param) in self.targets.items():
            self._extend(self.definition.get(var), name, param)
        for b in self.func.bindings:
            value = Substitute(self.env).visit(b.value)
            self.bindings.append(b.replace(value=value) if id(b.var) not in self.targets else self._updated(b, value))
        outputs = [o for k, o in enumerate(self.func.outputs) if k not in self.gone]
        if not outputs:
            raise AliasError("all outputs are aliases of inputs: a run needs an output of its own")
        names = tuple(n for k, n in enumerate(self.func.attrs["output_names"]) if k not in self.gone)
        return remove_unused(dataflow_function(self.params, self.bindings, outputs,
                                               {**self.func.attrs, "output_names": names}))

    def _extend(self, call, name, param):
        """Give a parameter its capacity."""
        op = getattr(call, "op", None)
        if op not in ("concat", "update_slice") or call.args[0] is not param:
            raise AliasError(f"alias {name}: it is no Concat that starts with the input {param.name}, nor that input "
                             "with rows replaced, so it cannot lie there")
        if op == "update_slice":
            return
        axis = call.attrs["axis"] % call.struct_info.ndim
        dim = param.struct_info.shape[axis]
        if dim not in self.most:
            raise AliasError(f"alias {name}: say for how many rows the buffer of {param.name} has room, as a bound of "
                             f"its dimension: --bound {getattr(dim, 'name', 'past')}=1024")
        shape = list(param.struct_info.shape)
        shape[axis] = const(self.most[dim], "int64")
        cache = RelaxVar(param.name, TensorStructInfo(tuple(shape), param.struct_info.dtype), param.origin)
        self.params[self.params.index(param)] = cache
        self.begins[name] = cache, axis, dim
        past = self._bind(_rows(cache, axis, dim), f"{param.name}_past", param.origin)
        self.env[id(param)] = past

    def _updated(self, binding, value):
        """The binding of an output, made of its parameter and what is new."""
        name, _ = self.targets[id(binding.var)]
        origin = binding.var.origin
        if value.op == "update_slice":
            return binding.replace(value=value.replace(attrs={**value.attrs, "in_place": True}))
        cache, axis, dim = self.begins[name]
        new = value.args[1] if len(value.args) == 2 else self._bind(
            call_op("concat", *value.args[1:], axis=axis), f"{binding.var.name}_new", origin)
        update = call_op("update_slice", cache, new, axis=axis, begin=dim, in_place=True)
        update = self._bind(update, f"{binding.var.name}_cache", origin)
        return binding.replace(value=_rows(update, axis, binding.var.struct_info.shape[axis]))

    def _bind(self, value, hint, origin):
        var = DataflowVar(unique_name(hint, self.names), value.struct_info, origin)
        self.bindings.append(VarBinding(var, value))
        return var


def _rows(x, axis, count):
    """The first rows of a tensor, where they are."""
    return call_op("memory.part", x, axis=axis, begin=0, extent=count)


# ---------------------------------------------------------------- where updates lie

@on_main
def update_in_place(func):
    """Ensures that each update_slice in place is a memory.update, whose update lies inside the input: a kernel writes
    it there, or it is copied there. Parts of such inputs that something reads whose rows must not lie apart are copied,
    too."""
    if not any(getattr(b.value, "op", "") == "update_slice" for b in func.bindings):
        return func
    return _UpdateInPlace().run(func)


class _UpdateInPlace(InPlaceRewriter):
    def call(self, binding, call):
        if call.op == "update_slice" and call.attrs["in_place"]:
            return self._update(binding, call)
        return self._part(binding, call) if call.op == "memory.part" else call

    def _update(self, binding, call):
        cache, update = call.args
        attrs = {"axis": call.attrs["axis"], "begin": call.attrs["begin"]}
        if self._owner(update) in self.taken or self._is_early(update, call.attrs["begin"]) or not (
                self._may_lie_apart(update, row_major_strides(cache.struct_info.shape))):
            update = self.emit(call_op("copy", update), f"{binding.var.name}_rows")
        self.taken.add(self._owner(update))
        return call_op("memory.update", cache, update, **attrs)

    def _is_early(self, update, begin):
        """Whether a value is computed before the run knows where it belongs."""
        decided = {v for v in free_vars(as_dim(begin)) if v.most is not None}
        owner = self._owner(update)
        for b in self.bindings:
            if owner is not None and id(b.var) == owner[0]:
                break
            decided -= set(dims_set_by(b.value))
        return bool(decided)

    def _part(self, binding, call):
        strides = row_major_strides(call.args[0].struct_info.shape)
        if self._may_be_read_apart(binding.var, strides):
            return call
        return call_op("copy", self.emit(call, f"{binding.var.name}_part"))
