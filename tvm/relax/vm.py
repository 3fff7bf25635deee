"""relax.build and relax.VirtualMachine, as scripts for TVM have them: a thin layer over compiled networks.

There is no bytecode: each graph function of a module is cast as a network of C of its own.
"""
from __future__ import annotations

from ...codegen.compile import Options, compile_module
from ...codegen.target import Target
from ...ir.module import IRModule
from ...ir.relax.control import body_names
from ...ir.relax.expr import Function, TupleStructInfo
from ...ir.transform.fuse_tir import PRIMITIVE
from ...ir.transform.inline_functions import inline_calls
from ...runtime.device import Device, cpu
from ...runtime.evaluator import time_evaluator
from ...runtime.library import CompiledLibrary
from ...runtime.ndarray import NDArray, array
from .transform import BindParams


class Executable:
    """The result of relax.build. libraries: {name of a graph function: CompiledLibrary}; infos: what each returns."""

    def __init__(self, libraries, infos):
        self.libraries, self.infos = libraries, infos

    def __getitem__(self, name):
        """The CompiledLibrary of a graph function."""
        if name not in self.libraries:
            raise AttributeError(f"there is no function {name!r}; there is {', '.join(self.libraries)}")
        return self.libraries[name]

    def export_library(self, *_, **__):
        """Networks are exported as folders of C."""
        raise ValueError(f"a network is exported as a folder of C: exe[{next(iter(self.libraries))!r}].export(folder), "
                         "which its Makefile builds")


def build(mod, target=None, params=None, **_):
    """The Executable of an IRModule's graph functions. params: {name: array}, bound in function "main".

    target: as for tvm.build; the default is the `with tvm.target.Target(...):` around, or this machine. The other
    arguments of TVM's (pipeline, exec_mode ...) have no effect. C is compiled at the first call. Raises TypeError, or
    the ValueError of what cannot be compiled.
    """
    if not isinstance(mod, IRModule):
        raise TypeError(f"relax.build takes an IRModule, not a {type(mod).__name__}")
    bodies = body_names(mod) if "main" in mod else ()
    graphs = {n: f for n, f in mod.functions.items() if isinstance(f, Function) and n not in bodies
              and not any(f.attrs.get(key) for key in (*PRIMITIVE, "Codegen"))}
    if not graphs:
        raise TypeError("the module has no graph function (R.function); tvm.build builds PrimFuncs")
    if params:
        mod = BindParams("main", params)(mod)
    options = Options.check(target=target or Target.current() or "host")
    others = {n: f for n, f in mod.functions.items() if n not in graphs}
    libraries = {n: CompiledLibrary(compile_module(mod.with_functions({"main": inline_calls(mod, n), **others}),
                                                   options)) for n in graphs}
    return Executable(libraries, {n: f.ret_struct_info for n, f in graphs.items()})


class VirtualMachine:
    """vm["main"](a, b): calls a graph function of an Executable with NDArrays or arrays; an NDArray, or a list."""

    def __init__(self, rt_mod, device=None, memory_cfg=None, profile=False):
        for d in device if isinstance(device, (list, tuple)) else (device or cpu(),):
            if not (isinstance(d, Device) and d.exist):
                raise ValueError(f"there is no device {d} here; networks run on tvm.cpu(0)")
        if not isinstance(rt_mod, Executable):
            raise TypeError(f"VirtualMachine takes what relax.build returns, not a {type(rt_mod).__name__}")
        self.executable = rt_mod

    def __getitem__(self, name):
        """The function `name`. Raises AttributeError, which names those there are."""
        library, info = self.executable[name], self.executable.infos[name]

        def call(*args):
            outputs = library(*(a.numpy() if isinstance(a, NDArray) else a for a in args))
            found = iter(outputs if isinstance(outputs, tuple) else (outputs,))
            return _shaped(info, found)
        return call

    @property
    def module(self):
        """What has the functions, and times them; itself."""
        return self

    def time_evaluator(self, func_name, dev, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0,
                       repeats_to_cooldown=1, f_preproc=""):
        """A function that times calls of `func_name`, conversions included; see runtime/evaluator.py."""
        return time_evaluator(_Prepared(self[func_name]), number, repeat, min_repeat_ms, cooldown_interval_ms,
                              repeats_to_cooldown, f_preproc)


class _Prepared:
    """A function as time_evaluator calls it."""

    def __init__(self, function):
        self.function = function

    def prepare(self, args):
        return lambda: self.function(*args), args


def _shaped(info, arrays):
    """The next arrays as NDArrays, in lists where `info` has tuples."""
    if isinstance(info, TupleStructInfo):
        return [_shaped(field, arrays) for field in info.fields]
    return array(next(arrays))
