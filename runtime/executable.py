"""Executable: the graph functions of a module, each a network of C or, where it is none, run by a Machine."""
from __future__ import annotations

import io
import json
import logging
import tarfile
import tempfile
from functools import cached_property, partial
from pathlib import Path

import cffi

from ..codegen.compile import Options, compile_module
from ..codegen.module import make_module
from ..codegen.target import is_supported_here
from ..ir.boundary import InternalError
from ..ir.expr import free_vars
from ..ir.module import GlobalVar, IRModule
from ..ir.node import collect, load_json, save_json
from ..ir.relax.control import body_names
from ..ir.relax.evaluate import solve_dims
from ..ir.relax.expr import Function, ShapeStructInfo, TupleStructInfo
from ..ir.tir.bounds import check_bounds
from ..ir.tir.function import PrimFunc
from ..ir.tir.interpreter import run as interpret
from ..ir.transform.as_network import as_network
from ..ir.transform.classic.legalize_ops import legalize_for_builds
from ..ir.transform.empty_sums import with_empty_sums
from ..ir.transform.fuse_tir import PRIMITIVE
from ..ir.transform.networks import needs_machine
from ..ir.transform.pass_table import TIR
from ..ir.transform.pipeline import TIR_PASSES, lower_module
from ..ir.transform.segments import outline_segments
from .library import CompiledLibrary
from .linking import Linker
from .machine import Machine, as_value
from .module import Module, load_module as load_file
from .ndarray import NDArray, array
from .shapes import InputError
from .values import as_arrays

_MODULE, _FORMAT = "executable.json", 1
_FFI = cffi.FFI()
_FFI.cdef("extern unsigned char ingot_executable[]; extern unsigned long long ingot_executable_bytes;")


class Executable:
    """What relax.build makes. ex["main"] is the function's CompiledLibrary, or what runs it where it is no network;
    infos: {its name: ([struct info of a parameter], of the result)}.

    Executable(mod) of a Module is its ModuleExecutable. Raises TypeError for a module without graph functions, or the
    ValueError of what cannot be compiled.
    """

    of_module = ()  # (Module, what becomes of one)

    def __new__(cls, mod, *args, **kwargs):
        kind, made = cls.of_module
        return object.__new__(made if cls is Executable and isinstance(mod, kind) else cls)

    def __init__(self, mod, options, known=None, lowered=False):
        """options: a codegen.compile.Options; known: {name: CompiledLibrary} of functions that are compiled already.
        lowered: the functions are run binding by binding, and hold their arguments to what they declare themselves."""
        bodies = body_names(mod) if "main" in mod else ()
        mod = mod if lowered else legalize_for_builds(mod)
        graphs = {n: f for n, f in mod.functions.items() if isinstance(f, Function) and n not in bodies
                  and not any(f.attrs.get(key) for key in (*PRIMITIVE, "Codegen"))}
        if not graphs:
            raise TypeError("the module has no graph function (R.function); tvm.build builds PrimFuncs")
        self.source, self.options, self.lowered = mod, options, lowered
        self.infos = {str(n): ([p.struct_info for p in f.params], f.ret_struct_info) for n, f in graphs.items()}
        self.parameters = {str(n): [p.name for p in f.params] for n, f in graphs.items()}
        self.libraries = {
            str(n): (known or {}).get(n) or CompiledLibrary(compile_module(_network(mod, n), options))
            for n in graphs if not lowered and not needs_machine(mod, n)}
        self._kernels = None
        runs_here = options.target.kind == "c" and is_supported_here(options.target)
        self.outlined = outline_segments(mod) if runs_here and not lowered else mod
        self.segments = [str(n) for n, f in self.outlined.functions.items() if n not in mod]
        self.refused = {}  # segment -> why it is run binding by binding
        self._made = {}
        self.machine = Machine(self.outlined, self.function, self.kernel, not lowered)

    def segment(self, name):
        """The CompiledLibrary of one of `segments`, made when it is first asked for; None for one that the compiler
        refuses, which is run binding by binding: `refused` and the log say why."""
        if name not in self._made:
            try:
                compiled = compile_module(_network(self.outlined, name), self.options)
            except (ValueError, NotImplementedError, InternalError) as error:
                self.refused[name] = str(error)
                logging.getLogger(__name__).warning("%s is run binding by binding: %s", name, error)
            self._made[name] = None if name in self.refused else CompiledLibrary(compiled)
        return self._made[name]

    # ------------------------------------------------------------ functions

    def __getitem__(self, name):
        """The CompiledLibrary of a graph function; of one that is none, a function. AttributeError names those there
        are."""
        if name in ("as_text", "as_python", "stats", "default") and name not in self.infos:  # TVM's of an executable
            return getattr(self, name)
        self.require(name)
        return self.libraries.get(name) or self.function(name)

    def require(self, name):
        """Raise AttributeError unless there is a graph function `name`."""
        if name not in self.infos:
            raise AttributeError(f"there is no function {name!r}; there is {', '.join(self.infos)}")

    def function(self, name):
        """What calls graph function (or PrimFunc) `name` with NDArrays, tuples and what else it takes."""
        if name in self.segments and self.segment(name):
            return partial(self._segment, name)
        if name not in self.libraries:
            return self.kernel(name) if isinstance(self.outlined[name], PrimFunc) else partial(self._by_machine, name)
        library, (given, info) = self.libraries[name], self.infos[name]

        def call(*args):
            arrays = list(_flat(given, args))
            try:
                outputs = CompiledLibrary.answers(library, arrays)
            except InputError:
                if not _is_empty(arrays):
                    raise
                return self._by_machine(name, *args)
            return _shaped(info, iter(outputs))
        return call

    def _segment(self, name, *args):
        """The result of a segment. What does not fit the network, as tensors without elements, or others than a packed
        function declares, is for the machine, which computes it or says what is wrong."""
        func, library = self.outlined[name], self.segment(name)
        given = {d.name: int(v) for p, a in zip(func.params, args) if isinstance(p.struct_info, ShapeStructInfo)
                 for d, v in zip(p.struct_info.values, a)}
        tensors = [p.struct_info for p in func.params if not isinstance(p.struct_info, ShapeStructInfo)]
        try:
            outputs = library.answers(list(_flat(tensors, args[:len(tensors)])), given)
        except InputError:
            return self.machine.run(name, args)
        outputs = tuple(map(as_value, outputs))
        return outputs if isinstance(func.ret_struct_info, TupleStructInfo) else outputs[0]

    def _by_machine(self, name, *args):
        return self.machine.run(name, args)

    def kernel(self, name):
        """What calls a PrimFunc of the module."""
        if self._kernels is None:
            functions = {n: check_bounds(f) for n, f in self.source.functions.items() if isinstance(f, PrimFunc)}
            lowered = lower_module(IRModule(functions), [TIR["MakePackedAPI"](), *TIR_PASSES])
            self._kernels = Module(make_module(lowered.functions, self.options.target))
        return Kernel(self._kernels[name], self.source[name])

    def jit(self, *_, **__):
        """Itself: C is compiled when a function is first called."""
        return self

    default = jit  # ex["default"](device), what a graph executor's GraphModule takes

    @property
    def mod(self):
        """What VirtualMachine takes; itself."""
        return self

    def stats(self):
        """A line for each function: a network with its inputs and outputs, or run binding by binding, with the networks
        that its segments are; then one for each segment that is none, and why."""
        lines = [f"{n}({', '.join(self.parameters[n])}): " + (
            f"network of {len(self.libraries[n].inputs)} inputs and {len(self.libraries[n].outputs)} outputs"
            if n in self.libraries else self._parts(n)) for n in self.infos]
        return "\n".join([*lines, *(f"{n}: run binding by binding: {why}" for n, why in self.refused.items())])

    def _parts(self, name):
        called = dict.fromkeys(gv.name for gv in collect(self.outlined[name], GlobalVar) if gv.name in self.segments)
        made = [n for n in called if self.segment(n)]
        return "run binding by binding" + (f", with the networks {', '.join(made)}" if made else "")

    def as_text(self):
        """The module as script."""
        return self.source.script()

    as_python = as_text

    # ------------------------------------------------------------ files

    def export_library(self, file_name, fcompile=None, addons=None, workspace_dir=None, **options):
        """Write a file that load_module reads: .tar, the module and a folder of C for each network, or .so, a shared
        library that holds this; see linking.Linker for the other arguments."""
        path, linker = Path(file_name), Linker(fcompile, addons, workspace_dir, **options)
        if path.suffix not in (".so", ".tar"):
            raise ValueError(f"{path.name}: an Executable is exported as .so or .tar; a network as a folder of C: "
                             f"exe[{next(iter(self.infos))!r}].export(folder)")
        data = self._archive()
        if path.suffix == ".tar":
            path.write_bytes(data)
            return
        files = {"executable.c": _embedded(data)}
        linker.keep(files)
        linker.link(files, path.resolve(), self.options.target)

    def export(self, folder, **options):
        """Write the folder of C of the module's only network, see CompiledLibrary. ValueError where there is no one
        network."""
        others = [n for n in self.infos if n not in self.libraries]
        if others:
            raise ValueError(f"function {others[0]} is no network of C: it, or a function that it calls, has an `if` "
                             "whose branches give different shapes (choose with R.where), a function inside, or values "
                             "that are no tensors of known shape")
        if len(self.libraries) > 1:
            raise ValueError(f"there are the networks {', '.join(self.libraries)}: exe[name].export(folder) writes one")
        return next(iter(self.libraries.values())).export(folder, **options)

    def _archive(self):
        """The bytes of a tar."""
        text = json.dumps({"format": _FORMAT, "target": self.options.target.name, "opt_level": self.options.opt_level,
                           "lowered": self.lowered, "module": save_json(self.source)})
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar, tempfile.TemporaryDirectory(prefix="ingot-") as folder:
            info = tarfile.TarInfo(_MODULE)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
            networks = {**self.libraries, **{n: library for n in self.segments if (library := self.segment(n))}}
            for name, library in networks.items():
                library.export(Path(folder, name))
                tar.add(Path(folder, name), name)
        return data.getvalue()


class Kernel:
    """A PrimFunc of a module, compiled; where a dimension is 0 and there is something to write, as a sum over no rows is,
    interpreted, since loops in C rely on dimensions of at least 1."""

    def __init__(self, compiled, func):
        self._compiled, self._func, self.__name__ = compiled, func, compiled.name

    def __call__(self, *args):
        try:
            self._compiled(*args)
        except InputError:
            arrays = [a.elements if isinstance(a, NDArray) else a for a in args]
            if not _is_empty(arrays) or len(arrays) != len(self._func.params):
                raise
            buffers = dict(zip(self._func.params, arrays))
            dims = {}
            solve_dims([(size, dim) for param, buffer in self._func.buffer_map.items()
                        for size, dim in zip(buffers[param].shape, buffer.shape)], dims)
            interpret(with_empty_sums(self._func, dims), *arrays)

    def __getattr__(self, name):
        return getattr(self._compiled, name)


class ModuleLibrary(CompiledLibrary):
    """The CompiledLibrary of a module's one network, which is an Executable, too."""

    def __init__(self, model, source, options):
        """model: the compiled network of the module `source`."""
        super().__init__(model)
        self.source, self.options = source, options

    @cached_property
    def executable(self):
        """The Executable of all graph functions of the module."""
        graphs = [n for n, f in self.source.functions.items() if isinstance(f, Function)]
        return Executable(self.source, self.options, {"main" if "main" in graphs else graphs[0]: self})

    def __getitem__(self, name):
        return self.executable[name]

    def answers(self, values, given=None):
        """As of a CompiledLibrary, of tensors without elements, too, which are run binding by binding."""
        try:
            return super().answers(values, given)
        except InputError:
            arrays, kind = as_arrays(values)
            if given or not _is_empty(arrays):
                raise
        name = next(n for n, library in self.executable.libraries.items() if library is self)
        arrays = iter(arrays)
        result = self.executable.machine.run(name, [_shaped(p, arrays) for p in self.executable.infos[name][0]])
        results = list(_flat([self.executable.infos[name][1]], [result]))
        return results if kind is None else [kind(a, d.source_name) for a, d in zip(results, self.outputs)]

    def export_library(self, file_name, **kwargs):
        """Write the file that load_module reads; see Executable."""
        self.executable.export_library(file_name, **kwargs)

    def jit(self, *_, **__):
        """Itself: C is compiled at the first call."""
        return self

    @property
    def mod(self):
        """What VirtualMachine takes; itself."""
        return self


def is_one_network(mod):
    """Whether a module's "main", or its only graph function, can be a network of C."""
    graphs = [n for n, f in mod.functions.items() if isinstance(f, Function)]
    name = "main" if "main" in graphs else graphs[0] if len(graphs) == 1 else None
    return name is not None and not needs_machine(mod, name)


def _embedded(data):
    """C of a shared library that holds these bytes."""
    lines = "\n".join(", ".join(map(str, data[k:k + 32])) + "," for k in range(0, len(data), 32))
    return ("extern const unsigned char ingot_executable[];\nextern const unsigned long long ingot_executable_bytes;\n"
            f"const unsigned long long ingot_executable_bytes = {len(data)}ULL;\n"
            f"const unsigned char ingot_executable[] = {{\n{lines}\n}};\n")


def load_executable(path):
    """The Executable in a .tar or .so that export_library wrote; None where the file holds none."""
    path = Path(path).resolve()
    try:
        with tarfile.open(fileobj=io.BytesIO(_bytes_in(path))) as tar:
            saved = json.loads(tar.extractfile(_MODULE).read())
    except (tarfile.TarError, KeyError, OSError):
        return None
    if saved.get("format") != _FORMAT:
        raise ValueError(f"{path} was written by another version of Ingot")
    options = Options.check(target=saved["target"], opt_level=saved["opt_level"])
    return Executable(load_json(saved["module"]), options, lowered=saved.get("lowered", False))


def load_module(path, fmt=""):
    """The Module, or of relax.build the Executable, in a file that export_library wrote: .so, .c or .tar; `fmt` may say
    which. C is built at first use. Raises ValueError for a file that is none, or was written by another version.
    """
    found = load_executable(path) if fmt in ("", "so", "tar") and Path(path).suffix in (".so", ".tar") else None
    return found or load_file(path, fmt)


def _bytes_in(path):
    """The archive in a file; OSError or KeyError where there is none."""
    if path.suffix == ".tar":
        return path.read_bytes()
    library = _FFI.dlopen(str(path))
    try:
        return _FFI.buffer(library.ingot_executable, int(library.ingot_executable_bytes))[:]
    except AttributeError as error:
        raise KeyError(str(error)) from None
    finally:
        _FFI.dlclose(library)


# ---------------------------------------------------------------- networks

def _network(mod, name):
    """Function `name` as the "main" of a network. Dimensions of parameters that are shapes are those of the module, which
    callers pass."""
    main = mod[name].with_attr("global_symbol", "main")
    tensors = tuple(p for p in main.params if not isinstance(p.struct_info, ShapeStructInfo))
    if len(tensors) < len(main.params):
        mod = mod.with_attr("dims", tuple(free_vars([p.struct_info for p in main.params])))
    return as_network(mod.with_function(name, main.replace(params=tensors)), name)


def _flat(infos, args):
    """The arrays of arguments, in order: where `infos` has tuples, those of their fields."""
    if len(infos) != len(args):
        yield from args  # too few or too many, which the network names
        return
    for info, a in zip(infos, args):
        if isinstance(info, TupleStructInfo):
            yield from _flat(info.fields, a)
        else:
            yield a.__array__() if isinstance(a, NDArray) else a  # its memory


def _is_empty(arrays):
    """Whether one of some arrays has no elements."""
    return any(getattr(a, "size", 1) == 0 for a in arrays)


def _shaped(info, arrays):
    """The next arrays as NDArrays, in tuples where `info` has some."""
    if isinstance(info, TupleStructInfo):
        return tuple(_shaped(field, arrays) for field in info.fields)
    return array(next(arrays))


__all__ = ["Executable", "ModuleLibrary", "is_one_network", "load_executable", "load_module"]
