"""Host and device, as scripts part them: regions of a function that a device runs, kernels of their own, and their
launches. Pipelines part them in ../gpu/launch.py."""
from __future__ import annotations

from ...dtype import DataType
from ...expr import EQ, Call, IterVar, Let, StringImm, Var, const, substitute
from ...module import SYMBOL, GlobalVar
from ...names import unique_name
from ...node import Mutator, collect
from ...target import Target
from ...tir.function import PrimFunc
from ...tir.intrin import ret
from ...tir.stmt import AssertStmt, AttrStmt, DeclBuffer, Evaluate, For, LetStmt, SeqStmt
from ..walk import StmtMutator, all_statements
from .ssa import convert_ssa

TARGET = "target"
REGIONS = ("thread_extent", "pipeline_exec_scope", "device_scope")  # what a device runs
LAUNCHED = 2  # TVM's number of the calling convention of kernels


def annotate_device_regions(func):
    """Ensures an attribute "target", of the function's target, around what a device runs: where threads are launched,
    or an attribute device_scope says so."""
    target = func.attrs.get(TARGET)
    if target is None or Target.get(target).launch is None:
        return func
    return func.replace(body=_Annotate(Target.get(target).without_host()).visit(func.body))


class _Annotate(StmtMutator):
    def __init__(self, target):
        self.target = target

    def visit_AttrStmt(self, attr):
        if attr.attr_key == TARGET:
            return attr
        return AttrStmt(self.target, TARGET, const(0), attr) if attr.attr_key in REGIONS else (
            super().visit_AttrStmt(attr))


def split_host_device(mod):
    """Ensures no attribute "target" in a function: what it is around is a private function NAME_kernel for that target,
    called with the variables that it uses, pointers first. A kernel of a CPU returns 0, which the caller asserts."""
    split = _Split(mod)
    functions = {n: split.function(n, f) if isinstance(f, PrimFunc) else f for n, f in mod.functions.items()}
    return convert_ssa(mod.with_functions({**functions, **split.kernels})) if split.kernels else mod


class _Split(StmtMutator):
    def __init__(self, mod):
        self.taken, self.kernels = set(mod.functions), {}

    def function(self, name, func):
        self.name, self.func = func.attrs.get(SYMBOL, name), func
        return func.replace(body=self.visit(func.body))

    def visit_AttrStmt(self, attr):
        if attr.attr_key != TARGET:
            return super().visit_AttrStmt(attr)
        name = unique_name(f"{self.name}_kernel", self.taken)
        params = tuple(sorted(_needed(attr.body), key=lambda v: (v.dtype != "handle", v.name)))
        on_host = Target.get(attr.target).launch is None
        body = SeqStmt((attr.body, Evaluate(ret(const(0))))) if on_host else attr.body
        self.kernels[name] = PrimFunc(params, {}, body, {
            TARGET: attr.target, "tir.noalias": True, "tir.is_global_func": True})
        call = Call("int32" if on_host else "void", GlobalVar(name), params)
        if not on_host:
            return Evaluate(call)
        error = Var("kernel_error_code", "int32")
        return LetStmt(error, call, AssertStmt(EQ(error, const(0)), StringImm("Error executing compute kernel"),
                                               Evaluate(const(0))))


def _needed(body):
    """Variables that a statement uses and does not define, those of the layouts of its buffers among them."""
    defined = {n.loop_var for n in collect(body, For)} | {n.var for n in collect(body, (IterVar, LetStmt, Let))} | {
        n.buffer.data for n in collect(body, DeclBuffer)}
    return [v for v in collect(body, Var) if v not in defined]


# ---------------------------------------------------------------- launches

def lower_device_kernel_launch(mod):
    """Requires device functions, as SplitHostDevice makes them. Ensures that what runs on another target than its
    caller has a global_symbol, by which it is called: a kernel of a GPU as a packed function, which gets the extents of
    its threads, and the bytes of dynamic shared memory, behind its arguments; another one as a C function.

    attrs["tir.kernel_launch_params"] of a kernel says what these are.
    """
    functions = {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
    crossing = {}  # name of a function that another target calls: whether a device launches it
    for f in functions.values():
        for gv in {c.op for c in collect(f, Call) if isinstance(c.op, GlobalVar)}:
            ours, theirs = f.attrs.get(TARGET), functions[gv.name].attrs.get(TARGET)
            if theirs is not None and ours is not None and (
                    Target.get(ours).without_host() != Target.get(theirs).without_host()):
                crossing[gv.name] = Target.get(theirs).launch is not None
    launches = {n: _launch(functions[n]) for n, is_kernel in crossing.items() if is_kernel}
    symbols = {n: functions[n].attrs.get(SYMBOL, n) for n in crossing}
    made = {n: _Launch(f, functions, symbols, launches).function() for n, f in functions.items()}
    for n, is_kernel in crossing.items():
        made[n] = made[n].with_attr({SYMBOL: symbols[n], "tir.is_global_func": True})
        if is_kernel:
            made[n] = made[n].with_attr({
                "calling_conv": LAUNCHED, "tir.kernel_launch_params": [tag for tag, _ in launches[n]]})
    return mod.with_functions({**mod.functions, **made})


def _launch(func):
    """[(axis of threads, its extent in terms of the kernel's parameters)] of a kernel, in order of appearance, then the
    bytes of its dynamic shared memory."""
    found, lets, dynamic = {}, {}, []
    for s in all_statements(func.body):
        if isinstance(s, LetStmt):
            lets[s.var] = substitute(s.value, lets)
        if isinstance(s, AttrStmt) and s.attr_key == "thread_extent":
            found.setdefault(s.target.thread_tag, substitute(s.value, lets))
        if isinstance(s, DeclBuffer) and s.buffer.scope == "shared.dyn":
            dynamic.append(s.buffer)
    if len(dynamic) > 1:
        raise ValueError(f"{func.title} has several buffers of scope \"shared.dyn\"; run MergeSharedMemoryAllocations "
                         "first")
    for b in dynamic:
        size = const(DataType(b.dtype).bits // 8)
        for extent in b.shape:
            size = size * extent
        found["tir.use_dyn_shared_memory"] = size
    return list(found.items())


class _Launch(Mutator):
    def __init__(self, func, functions, symbols, launches):
        self.func, self.functions, self.symbols, self.launches = func, functions, symbols, launches

    def function(self):
        return self.func.replace(body=self.visit(self.func.body))

    def visit_Call(self, call):
        call = self.generic_visit(call)
        name = call.op.name if isinstance(call.op, GlobalVar) else None
        if name not in self.symbols or self.functions[name].attrs[TARGET] == self.func.attrs.get(TARGET):
            return call
        symbol = StringImm(self.symbols[name])
        if name not in self.launches:
            return Call(call.dtype, "tir.call_extern", (symbol, *call.args))
        values = dict(zip(self.functions[name].params, call.args))
        extents = (substitute(extent, values) for _, extent in self.launches[name])
        return Call("int32", "tir.tvm_call_packed", (symbol, *call.args, *extents))
