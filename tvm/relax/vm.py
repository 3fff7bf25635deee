"""relax.build and relax.VirtualMachine, as scripts for TVM have them: a thin layer over runtime/executable.py.

Nothing is compiled to bytecode (exec_builder.py is for what scripts write themselves): each graph function of a
module is cast as a network of C of its own, or run by runtime/machine.py where it is none.
"""
from __future__ import annotations

import time
from enum import IntEnum
from functools import partial

from ...codegen.compile import Options
from ...codegen.target import Target
from ...ir.module import IRModule
from ...ir.tir.function import PrimFunc
from ...ir.transform.classic.legalize_ops import legalize_ops
from ...runtime.device import Device, cpu
from ...runtime.evaluator import time_evaluator
from ...runtime.executable import Executable, ModuleLibrary
from ...runtime.machine import SKIP_RUN, FitError, Machine, ShapeTuple
from ...runtime.ndarray import NDArray
from .exec_builder import Bytecode
from .pipeline import applied
from .report import Report, Row
from .transform import BindParams


def build(mod, target=None, params=None, relax_pipeline="default", tir_pipeline="default", exec_mode="bytecode", *,
          pipeline=None, system_lib=None):
    """The Executable of an IRModule's graph functions. params: {name: array}, bound in function "main".

    target: as for tvm.build; the default is the `with tvm.target.Target(...):` around, or this machine.
    relax_pipeline (before TVM 0.20 pipeline): a pipeline of one's own, a Pass, a function or the name that
    relax.register_pipeline gave it, which runs first. TVM's own need not run, and exec_mode and system_lib have no
    effect. C is compiled at the first call. Raises TypeError, NotImplementedError for a tir_pipeline, or the ValueError
    of what cannot be compiled.
    """
    if not isinstance(mod, IRModule):
        raise TypeError(f"relax.build takes an IRModule, not a {type(mod).__name__}")
    if params:
        mod = BindParams("main", params)(mod)
    target = target or Target.current() or "host"
    return Executable(applied(mod, target, pipeline or relax_pipeline, tir_pipeline), Options.check(target=target))


def _vmcodegen(builder, mod, exec_mode="bytecode"):
    """The first half of TVM's build for modules that are lowered already: an ExecBuilder keeps what _vmlink builds. Both
    modes of TVM's are one here. The module, which holds the PrimFuncs too."""
    if exec_mode not in ("bytecode", "compiled"):
        raise ValueError(f"Unknown exec_mode {exec_mode}: it is bytecode or compiled")
    builder.graphs = mod
    return mod


def _vmlink(builder, target, tir_mod=None, tir_pipeline=None, ext_libs=None, params=None, **_):
    """The Executable of what _vmcodegen was given, with the PrimFuncs of tir_mod."""
    if builder.graphs is None:
        raise ValueError("_vmlink builds what _vmcodegen was given by the same ExecBuilder; ExecBuilder.get gives what was "
                         "emitted by hand")
    kernels = {n: f for n, f in (tir_mod.functions if tir_mod is not None else {}).items() if isinstance(f, PrimFunc)}
    mod = builder.graphs.with_functions({**builder.graphs.functions, **kernels})
    mod = BindParams("main", params)(mod) if params else mod
    return Executable(mod, Options.check(target=target or Target.current() or "host"), lowered=True)


class VMInstrumentReturnKind(IntEnum):
    """What an instrument says before a call: that it runs, or is left out."""

    NO_OP = 0
    SKIP_RUN = SKIP_RUN


class VirtualMachine:
    """vm["main"](a, b): calls a graph function of an Executable with NDArrays or arrays (tuples of them where it
    takes tuples), ShapeTuples, numbers and strings; what it gives is one such value, or a list."""

    def __init__(self, rt_mod, device=None, memory_cfg=None, profile=False):
        for d in device if isinstance(device, (list, tuple)) else (device or cpu(),):
            if not (isinstance(d, Device) and d.exist):
                raise ValueError(f"there is no device {d} here; networks run on tvm.cpu(0)")
        if isinstance(rt_mod, ModuleLibrary):
            rt_mod = rt_mod.executable
        if not isinstance(rt_mod, (Executable, Bytecode)):
            raise TypeError("VirtualMachine takes what relax.build or tvm.compile returns for a module, not a "
                            f"{type(rt_mod).__name__}")
        self.executable = rt_mod
        self._inputs, self._outputs, self._saved, self._watched = {}, {}, {}, None

    # ------------------------------------------------------------ calls

    def __getitem__(self, name):
        """The function `name`. Raises AttributeError, which names those there are."""
        if name in self._saved:
            return self._saved[name]
        self.executable.require(name)

        def call(*args):
            if not args and self._inputs.get(name):
                raise FitError(f"inputs of {name} were set: run it by vm.invoke_stateful({name!r})")
            return self._call(name, args)
        return call

    get_function = __getitem__

    def _call(self, name, args):
        return _given(self._function(name)(*args))

    def _function(self, name):
        """What calls a graph function, with the instrument around its calls where one is set."""
        return self.executable.function(name) if self._watched is None else partial(_by_hand, self._watched, name)

    def invoke_closure(self, closure, *args):
        """Call a function that a function gave."""
        return _given(closure(*args))

    def save_function(self, func_name, saved_name, *args, include_return=True, **kwargs):
        """Keep a call of a function with these arguments as vm[saved_name](). include_return=False: it gives None."""
        args = self._ordered(func_name, args, kwargs)

        def call():
            result = self._call(func_name, args)
            return result if include_return else None
        self._saved[saved_name] = call

    def set_input(self, func_name, *args, **kwargs):
        """Set the arguments that invoke_stateful takes, in order or by the names of parameters."""
        self._inputs[func_name] = self._ordered(func_name, args, kwargs)

    def invoke_stateful(self, func_name):
        """Run a function on the inputs that were set. Raises ValueError where none were."""
        self.executable.require(func_name)
        if func_name not in self._inputs and self.executable.parameters[func_name]:
            raise FitError(f"no inputs of {func_name} were set: vm.set_input({func_name!r}, ...) first")
        self._outputs[func_name] = self._call(func_name, self._inputs.get(func_name, ()))

    def get_outputs(self, func_name):
        """What invoke_stateful gave. Raises ValueError before that."""
        if func_name not in self._outputs:
            raise FitError(f"{func_name} has no outputs yet: vm.invoke_stateful({func_name!r}) first")
        return self._outputs[func_name]

    def _ordered(self, name, args, kwargs):
        """Arguments in the order of parameters. TypeError names those that are missing or unknown."""
        self.executable.require(name)
        names = self.executable.parameters[name]
        rest = names[len(args):]
        wrong = [k for k in kwargs if k not in rest] or [n for n in rest if n not in kwargs]
        if wrong or len(args) > len(names):
            raise TypeError(f"{name} takes {', '.join(names) or 'no arguments'}; got {len(args)} in order"
                            + (f" and {', '.join(kwargs)}" if kwargs else ""))
        return (*args, *(kwargs[n] for n in rest))

    # ------------------------------------------------------------ looking on

    @property
    def module(self):
        """What has the functions, and times them; itself."""
        return self

    @property
    def imported_modules(self):
        """[what has the kernels that an instrument sees]"""
        return [_Kernels(_of_kernels(self.executable))]

    def set_instrument(self, instrument):
        """Call instrument(function, name, before_run, result, *args) before and after each kernel and packed function,
        which then run one by one, operators as the kernels that LegalizeOps makes of them; where it returns
        VMInstrumentReturnKind.SKIP_RUN before one, that is left out. args: of a kernel its inputs, then its outputs."""
        self._watched = _one_by_one(_of_kernels(self.executable))
        self._watched.instrument = instrument

    def profile(self, func_name, *args):
        """A Report of one run: how long each kernel, operator and packed function takes, one by one."""
        executable, rows, begun = self.executable, [], []

        def watch(function, name, before, result, *values):
            if before:
                begun.append(time.perf_counter())
                return
            rows.append(Row(name, time.perf_counter() - begun.pop(), tuple(
                (v.dtype, v.shape) for v in values if isinstance(v, NDArray))))

        machine = _one_by_one(executable)
        executable.require(func_name)
        machine.run(func_name, args)  # once before that counts: kernels are compiled
        machine.instrument = watch
        start = time.perf_counter()
        machine.run(func_name, args)
        return Report(tuple(rows), time.perf_counter() - start)

    def time_evaluator(self, func_name, dev, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0,
                       repeats_to_cooldown=1, f_preproc=""):
        """A function that times calls of `func_name`, conversions included; see runtime/evaluator.py. The name may be
        "invoke_stateful", whose argument is a function's name, or one that save_function kept."""
        function = self.invoke_stateful if func_name == "invoke_stateful" else self[func_name]
        return time_evaluator(_Prepared(function), number, repeat, min_repeat_ms, cooldown_interval_ms,
                              repeats_to_cooldown, f_preproc)


def _one_by_one(executable):
    """A Machine that runs all graph functions itself, call by call."""
    machine = Machine(executable.source, lambda name: partial(_by_hand, machine, name), executable.kernel)
    return machine


def _of_kernels(executable):
    """The Executable whose operators are calls of kernels."""
    if not isinstance(executable, Executable) or executable.lowered:
        return executable
    return Executable(legalize_ops(executable.source), executable.options, executable.libraries)


class _Kernels:
    """The kernels of an Executable by name."""

    def __init__(self, executable):
        self._executable = executable

    def get_function(self, name, query_imports=False):
        """A kernel. AttributeError where there is none of the name."""
        if not isinstance(self._executable.source.functions.get(name), PrimFunc):
            raise AttributeError(f"there is no kernel {name!r}")
        return self._executable.kernel(name)


def _by_hand(machine, name, *args):
    return machine.run(name, args)


def _given(value):
    """A result as callers get it: tuples as lists."""
    if isinstance(value, tuple) and not isinstance(value, ShapeTuple):
        return [_given(v) for v in value]
    return value


class _Prepared:
    """A function as time_evaluator calls it."""

    def __init__(self, function):
        self.function = function

    def prepare(self, args):
        return lambda: self.function(*args), args
