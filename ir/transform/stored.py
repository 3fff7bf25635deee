"""Constants as they lie in memory: which form each has, and how kernels read it."""
from __future__ import annotations

from ..expr import Call, Ramp
from ..module import GlobalVar
from ..names import unique_name
from ..node import Mutator, collect
from ..relax.arithmetic import SPLIT_INTEGER
from ..relax.control import graph_functions
from ..relax.expr import Constant, VarBinding, dataflow_function
from ..schedule.plan import ATTRIBUTE as PLAN
from ..tir.buffer import decl_buffer
from ..tir.stored import ATTRIBUTE, Stored, stored_form
from .graph import leaves

WITH_UNITS = (SPLIT_INTEGER.name,)  # arithmetics whose kernels hand their operands to micro-kernels


def store_constants(mod):
    """Requires a lowered graph. Ensures that kernels which read constants of few bits, or of whole numbers, have the
    attribute "stored", the forms of their arguments: a kernel that reads several forms becomes one for each. Constants
    that anything but kernels reads stay as they are."""
    graphs = graph_functions(mod)
    forms = _forms(mod, graphs.values())
    names, functions = {}, dict(mod.functions)  # (kernel, forms): name of the kernel that reads these
    for name, form in forms:
        taken = any(other == name for other, _ in names)
        names[name, form] = unique_name(name, set(functions)) if taken else name
        functions[names[name, form]] = mod[name].with_attr(ATTRIBUTE, form) if any(form) else mod[name]
    calls = {id(call): names[key] for key, same in forms.items() for call in same}
    functions.update({name: _renamed(func, calls) for name, func in graphs.items()})
    return mod.with_functions(functions)


def _renamed(func, calls):
    """A graph whose calls are of other kernels: {id of a call: its kernel}."""
    bindings = [VarBinding(b.var, b.value.replace(attrs={**b.value.attrs, "gv": GlobalVar(calls[id(b.value)])}))
                if id(b.value) in calls else b for b in func.bindings]
    return dataflow_function(func.params, bindings, func.outputs, func.attrs)


def _forms(mod, graphs):
    """{(name of a kernel, forms of its arguments): its calls}, in order."""
    bound = [b.value for func in graphs for b in func.bindings]
    calls = [v for v in bound if _is_kernel(v)]
    others = [v for v in bound if not _is_kernel(v)] + [out for func in graphs for out in func.outputs]
    plain = {id(v.data) for value in others for v in leaves(value) if isinstance(v, Constant)}
    known, whole, found = {}, {}, {}

    def form(arg):
        if not isinstance(arg, Constant) or id(arg.data) in plain:
            return ""
        if id(arg.data) not in known:
            known[id(arg.data)] = str(stored_form(arg.data) or "")
        return known[id(arg.data)]

    for call in calls:
        name = call.attrs["gv"].name
        if name not in whole:
            whole[name] = _hands_on(mod[name])
        forms = tuple("" if whole[name] else form(a) for a in call.args)
        found.setdefault((name, forms), []).append(call)
    return found


def _is_kernel(value):
    return getattr(value, "op", "") == "call_tir"


def _hands_on(func):
    """Whether a kernel gives C functions, or a unit's instructions, pointers to what it reads."""
    plan = func.attrs.get(PLAN)
    return getattr(plan, "arithmetic", "") in WITH_UNITS or any(
        call.op == "tir.address_of" for call in collect(func.body, Call))


# ---------------------------------------------------------------- in kernels

def load_stored(func):
    """Requires flat buffers. Ensures that parameters whose elements are stored in another form (attribute "stored") are
    buffers of its words, and loads the expressions that give the elements."""
    words, buffer_map = {}, dict(func.buffer_map)
    handles = [p for p in func.params if p in func.buffer_map]
    for handle, name in zip(handles, func.attrs.get(ATTRIBUTE, ())):
        if name:
            form, old = Stored.named(name), func.buffer_map[handle]
            buffer_map[handle] = decl_buffer((form.words(old.shape[0]),), form.dtype, old.name, old.scope,
                                             data_alignment=old.data_alignment, data=old.data)
            words[id(old)] = buffer_map[handle], form
    return func.replace(buffer_map=buffer_map, body=_Load(words).visit(func.body)) if words else func


class _Load(Mutator):
    """words: {id of a buffer: (that of its words, Stored)}."""

    def __init__(self, words):
        self.words = words

    def visit_BufferLoad(self, load):
        load = load.replace(indices=self.visit(load.indices))
        if id(load.buffer) not in self.words:
            return load
        words, form = self.words[id(load.buffer)]
        return form.load(words, load.indices[0], load.dtype)

    def visit_Call(self, call):
        if call.op != "tir.address_of" or id(call.args[0].buffer) not in self.words:
            return self.generic_visit(call)
        load = call.args[0]
        words, form = self.words[id(load.buffer)]
        index = self.visit(load.indices[0])
        index = index.base if isinstance(index, Ramp) else index
        return call.replace(args=(load.replace(buffer=words, indices=(index // form.per_word,)),))
