"""Module: compiled functions that Python calls, fresh from tvm.build or loaded from a file."""
from __future__ import annotations

import io
import tarfile
import tempfile
import threading
from enum import IntFlag
from pathlib import Path

from ..codegen.module import StoredSource, is_parallel
from ..codegen.target import Target, TargetError, is_supported_here
from ..codegen.toolchain import ToolchainError, build_object, can_build_openmp
from . import openmp
from .device import Device
from .evaluator import BenchmarkResult, time_evaluator  # noqa: F401 - scripts find the first here
from .linking import Linker
from .packed import ABI, FFI, PackedFunc
from .registry import HOOKS, calls_of, hooks_source

_SHARED = "INGOT_SHARED"  # the macro of a library that a process loads
_TVM_ENTRY = "__tvm_main__"


class ModulePropertyMask(IntFlag):
    """What can be done with a module, by TVM's numbers."""

    BINARY_SERIALIZABLE = 1
    RUNNABLE = 2
    DSO_EXPORTABLE = 4


class Module:
    """Functions in C.

        mod["name"](a, b)         calls a function
        mod(a, b)                 calls the module's entry: its only function, or main
        mod.get_source()          the C
        mod.export_library(path)  .so; .c: one file; .tar: the C, its header and the runtime's
    """

    def __init__(self, source, type_key="c"):
        """source: a codegen.module.CModule or StoredSource, or the Path of a shared library, which is loaded."""
        self._source, self.type_key = source, type_key
        self._lock, self._library, self._functions = threading.Lock(), None, None
        if isinstance(source, Path):
            self._load(source)

    # ------------------------------------------------------------ functions

    def get_function(self, name, query_imports=False):
        """The PackedFunc called `name`. Raises AttributeError, as TVM does, where there is none."""
        self._build()
        name = self.entry_name if name == _TVM_ENTRY else name
        if name not in self._functions:
            raise AttributeError(f"the module has no function {name!r}; it has {', '.join(self._functions)}")
        return self._functions[name]

    __getitem__ = get_function

    def implements_function(self, name, query_imports=False):
        """Whether there is a function called `name`."""
        self._build()
        return name in self._functions

    @property
    def function_names(self):
        """Names of the functions, in order."""
        self._build()
        return tuple(self._functions)

    @property
    def entry_name(self):
        """The name of the function that mod(...) calls; AttributeError where several could be meant."""
        self._build()
        name = FFI.string(self._library.ingot_module_info.entry).decode()
        if not name:
            raise AttributeError("the module has several functions and none is called main or marked with "
                                 f"tir.is_entry_func; call one by name: {', '.join(self._functions)}")
        return name

    @property
    def entry_func(self):
        return self.get_function(self.entry_name)

    def __call__(self, *args):
        return self.entry_func(*args)

    @property
    def imported_modules(self):
        """Modules of other devices: none."""
        return []

    is_runnable, is_dso_exportable, is_binary_serializable, is_device_module = True, True, False, False

    @property
    def format(self):
        """What get_source gives."""
        return self.type_key

    def get_property_mask(self):
        """The ModulePropertyMask of what can be done with the module."""
        return ModulePropertyMask.RUNNABLE | ModulePropertyMask.DSO_EXPORTABLE

    def compile(self):
        """Compile and load the C now, not at the first call. Raises ToolchainError."""
        self._build()

    def jit(self, *_, **__):
        """Itself, compiled: tvm.compile gives a Module where TVM's gives an executable of one."""
        self._build()
        return self

    @property
    def mod(self):
        """What jit compiles; itself."""
        return self

    def again(self):
        """A module of the same C, which is not compiled yet; itself where it was loaded without C."""
        return self if isinstance(self._source, Path) else Module(self._source, self.type_key)

    def time_evaluator(self, func_name, dev, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0,
                       repeats_to_cooldown=1, f_preproc=""):
        """A function that times calls of `func_name`; see runtime/evaluator.py."""
        if not (isinstance(dev, Device) and dev.exist):
            raise ValueError(f"there is no device {dev} here; functions run on tvm.cpu(0)")
        return time_evaluator(self.get_function(func_name), number, repeat, min_repeat_ms, cooldown_interval_ms,
                              repeats_to_cooldown, f_preproc)

    # ------------------------------------------------------------ C

    def get_source(self, fmt=""):
        """The C of the functions, which includes the runtime's headers; fmt "standalone": with these in it."""
        if fmt not in ("", "c", "standalone"):
            raise ValueError(f'the source is C: fmt must be "", "c" or "standalone", not {fmt!r}')
        self._require_source()
        return self._source.standalone() if fmt == "standalone" else self._source.source()

    def export_library(self, file_name, fcompile=None, addons=None, workspace_dir=None, **options):
        """Write the module to a file that load_module reads: .so (built with the system's compiler), .c (one file that
        is complete), or .tar (the C, its header, and the runtime's). workspace_dir: a folder that the C is written to,
        too. fcompile, addons and options are for libraries: see linking.Linker."""
        path, linker = Path(file_name), Linker(fcompile, addons, workspace_dir, **options)
        writers = {".so": lambda path: self._compile(path, linker), ".tar": self._export_tar,
                   ".c": lambda path: path.write_text(self._source.standalone())}
        if path.suffix not in writers and not fcompile:
            raise ValueError(f"{path.name}: a module is exported as one of {', '.join(writers)}")
        self._require_source()
        if workspace_dir:
            linker.keep(self._source.files(path.stem))
        writers.get(path.suffix, writers[".so"])(path)

    def save(self, file_name, fmt=""):
        """Write the module as export_library does, or, .o, as an object file for a linker, its loops serial."""
        path = Path(file_name)
        if (fmt or path.suffix.lstrip(".")) not in ("o", "obj"):
            return self.export_library(file_name)
        self._require_source()
        with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
            source = Path(folder, "module.c")
            source.write_text(self._source.standalone())
            return build_object(source, path, self._source.target, (f"-D{_SHARED}",))

    def _export_tar(self, path):
        with tarfile.open(path, "w") as tar:
            for name, text in self._source.files(path.stem).items():
                info, data = tarfile.TarInfo(name), text.encode()
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))

    def _require_source(self):
        if isinstance(self._source, Path):
            raise ValueError(f"the module was loaded from {self._source}, which holds no source: copy that file, or "
                             "export the module as .c or .tar where it is built")

    # ------------------------------------------------------------ building

    def _build(self):
        """Compile and load, unless that was done. Raises ToolchainError."""
        with self._lock:
            if self._functions is not None:
                return
            target = self._source.target
            if not is_supported_here(target):
                raise ToolchainError(f"this machine cannot run code for {target}: export the module and load it there")
            with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
                self._load(self._compile(Path(folder, "module.so")))  # once loaded, the file is not needed

    def _compile(self, path, linker=Linker()):
        """The shared library of the C at `path`; a program that calls C of its own calls this Python's functions."""
        files, packed, target = self._source.files("module"), self._source.packed, self._source.target
        if packed:
            files[f"{HOOKS}.c"] = hooks_source(packed)
        files.pop("ingot.c", None)
        parallel = is_parallel(files["module.c"]) and can_build_openmp(target)  # else parallel loops are serial
        return linker.link(files, path, target, "openmp" if parallel else "none", (_SHARED,))

    def _load(self, path):
        """Read the description in a shared library. Raises ValueError where there is none of this version."""
        try:
            self._library = openmp.load(FFI, path)
            info = self._library.ingot_module_info
        except (OSError, AttributeError, KeyError) as error:  # cffi: KeyError for a variable that is missing
            raise ValueError(f"{path} is no module of Ingot's: {error.args[0]}") from None
        if info.abi != ABI or info.struct_bytes != FFI.sizeof("ingot_module"):
            raise ValueError(f"{path} was built by another version of Ingot (ABI {info.abi}, this one has {ABI})")
        calls = calls_of(path)
        after = calls and calls.raise_failure
        found = [PackedFunc(info.functions[n], self._library, after) for n in range(info.n_functions)]
        self._functions = {f.name: f for f in found}

    def __repr__(self):
        return f"<ingot Module of type {self.type_key}>"


def enabled(target):
    """Whether modules for `target` can be built."""
    try:
        Target.get(target)
    except TargetError:
        return False
    return True


def load_module(path, fmt=""):
    """The Module in a file that export_library wrote: .so, .c or .tar; `fmt` may say which. C is built at first use.

    Raises ValueError for a file that is none, or was written by another version.
    """
    path = Path(path).resolve()
    kind = fmt or path.suffix.lstrip(".")
    if kind not in ("so", "c", "tar"):
        raise ValueError(f"{path.name}: modules are loaded from .so, .c or .tar")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if kind == "so":
        return Module(path, "library")
    if kind == "c":
        return Module(StoredSource(path.read_text()))
    try:
        with tarfile.open(path) as tar:
            files = {Path(m.name).name: tar.extractfile(m).read().decode() for m in tar if m.isfile()}
    except (tarfile.TarError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no archive of a module: {error}") from None
    sources = [name for name in files if name.endswith(".c") and name != "ingot.c"]
    if len(sources) != 1:
        raise ValueError(f"{path} is no archive of a module: it has {len(sources)} C files, expected one")
    return Module(StoredSource(files.pop(sources[0]), files))
