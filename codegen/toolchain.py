"""The C compiler: finding it, and turning generated sources into a shared library or a program.

Objects are kept in a cache (`object_cache.py`), so that building again what did not change costs a link. The
environment variable INGOT_CFLAGS holds further compiler flags, which follow those of the target: "-O0 -g" for a
debugger.
"""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .c_names import PROGRAMS
from .nvcc import INSTALL, find_nvcc, gencode
from .object_cache import HeaderCache, ObjectCache, content_key
from .render import TEMPLATES
from .target import Target
from .toolchains import Toolchain, is_native, is_supported_here, toolchain

THREADS = ("openmp", "none")
_NATIVE_COMPILERS = ("cc", "gcc", "clang")
_LOG_LINES = 6


class ToolchainError(RuntimeError):
    """No usable compiler, or one that failed. `log` is its whole output, the message holds the first lines."""

    def __init__(self, message, log=""):
        super().__init__(message)
        self.log = log


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the `command` that starts it, its `kind` ("gcc", "clang", or "nvcc" for CUDA C and what is called
    from it), its version line, and flags with which it links."""

    command: tuple[str, ...]
    kind: str
    version: str
    link: tuple[str, ...] = ()

    def __str__(self):
        return " ".join(self.command)


# ---- finding tools ------------------------------------------------------------------------------------------------

def find_compiler(target):
    """The compiler for `target` (a name or a Target): $CC, cc, gcc or clang where this machine is of the target's
    family, else the target's cross compilers; nvcc for CUDA. Raises ToolchainError, which says what to install."""
    target = Target.get(target)
    tools = toolchain(target)
    if tools.device_code:
        return _find_nvcc(target)
    if not is_native(target):
        candidates, hint = tools.cc, f"install a cross compiler (on Debian and Ubuntu: {tools.package})" \
            if tools.cc else f"numbers are {target.byte_order}-endian there: export the folder and build it there"
    elif os.environ.get("CC", "").strip():
        candidates, hint = (os.environ["CC"],), "the environment variable CC names it: correct or unset it"
    else:
        candidates, hint = _NATIVE_COMPILERS, "install one (on Debian and Ubuntu: gcc), or set CC"
    for candidate in candidates:
        command = tuple(shlex.split(candidate))
        path = shutil.which(command[0])
        if path and _is_new(found := _identify((path, *command[1:])), tools):
            return found
    wanted = ", ".join(f"{kind} {version}" for kind, version in tools.least)
    wanted = wanted and f" that is new enough ({wanted})"
    raise ToolchainError(f"no C compiler for {target} on PATH{wanted} (tried {', '.join(candidates)}); {hint}")


def _is_new(compiler, tools):
    """Whether a compiler knows the instructions of a Toolchain. What calls itself by no number is taken to."""
    number = re.search(r"(?:version |\) )(\d+)\.\d+", compiler.version)  # clang's, gcc's
    return number is None or int(number[1]) >= dict(tools.least).get(compiler.kind, 0)


def _find_nvcc(target):
    nvcc = find_nvcc()
    if nvcc is None:
        raise ToolchainError(f"no nvcc for {target} ($CUDACXX, $CUDA_HOME, PATH, pip's packages): {INSTALL}")
    return Compiler((nvcc.path,), "nvcc", nvcc.version, tuple(f"-L{folder}" for folder in nvcc.library_folders))


@lru_cache(maxsize=None)
def _identify(command):
    done = _run([*command, "--version"])
    if done.returncode:
        raise ToolchainError(f"{command[0]} --version failed: {_first_lines(done.stdout, 1)}", done.stdout)
    kind = "clang" if "clang" in done.stdout else "gcc"
    return Compiler(command, kind, done.stdout.splitlines()[0] if done.stdout else "")


def missing_tools(target):
    """Explain in a sentence why programs of `target` cannot be built and run here; "" when they can."""
    target = Target.get(target)
    try:
        compiler = find_compiler(target)
    except ToolchainError as error:
        return str(error)
    if compiler.kind == "clang" and not is_native(target) and not _links(compiler, toolchain(target).cflags):
        return f"{compiler} links no programs for {target}: install {toolchain(target).package}"
    if is_supported_here(target):
        return ""
    if not toolchain(target).runner:
        return f"programs of {target} do not run here: neither this processor nor an emulator knows its instructions"
    if not shutil.which(toolchain(target).runner[0]):
        return (f"programs of {target} do not run here, and {toolchain(target).runner[0]} for them is not on PATH "
                f"(install {'nodejs' if toolchain(target).engine else 'qemu-user'})")
    return ""


@lru_cache(maxsize=None)
def _links(compiler, flags):
    """Whether a compiler has a linker and a C library for programs with these flags."""
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <stdio.h>\nint main(void) { return puts(\"\"); }\n")
        return _run([*compiler.command, *flags, str(source), "-o", str(Path(folder, "probe"))]).returncode == 0


def run_command(target, program):
    """The argument list that runs `program`, built for `target`, on this machine."""
    target = Target.get(target)
    if is_supported_here(target):
        return [str(program)]
    tools = toolchain(target)
    return [*(str(TEMPLATES / word) if word == tools.engine else word for word in tools.runner), str(program)]


@lru_cache(maxsize=None)
def openmp_flag(compiler):
    """The flag with which `compiler` builds and links OpenMP; ToolchainError when its OpenMP is not installed."""
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
        done = _run([*compiler.command, "-fopenmp", str(source), "-o", str(Path(folder, "probe"))])
    if done.returncode:
        package = "libomp-dev" if compiler.kind == "clang" else "the libgomp of this gcc"
        raise ToolchainError(f"{compiler} cannot build OpenMP programs: install {package}, use another "
                             'compiler (CC=gcc), or cast with threads="none"', done.stdout)
    return "-fopenmp"


def can_build_openmp(target):
    """Whether the compiler for `target` builds OpenMP programs."""
    try:
        return not toolchain(Target.get(target)).device_code and bool(openmp_flag(find_compiler(target)))
    except ToolchainError:
        return False


# ---- building -----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Build:
    """One build: who compiles, for what, with which flags, and where objects and parsed headers are kept."""

    compiler: Compiler
    tools: Toolchain
    flags: tuple[str, ...]
    cache: ObjectCache
    headers: HeaderCache

    def look_up(self, source, folder):
        """The _Object of a source (.c or .S), in `folder` where the cache has it; what is compiled is its own."""
        if source.suffix in _COMPILED:
            return _Object(source, source, (), None, True)
        own = self.tools.gcc_cflags if self.compiler.kind == "gcc" else ()
        if self.compiler.kind == "nvcc":
            command = self._of_nvcc(source)
        else:
            language = ("-std=c99", *own, *self.flags) if source.suffix == ".c" else ("-fPIC",)
            command = (*self.compiler.command, *self.tools.cflags, *language)
        key, has_blob = content_key(source, (*command, "-c", source.name, self.compiler.version))
        output = Path(folder, f"{key}.o")
        # A file that embeds weights assembles as fast as it copies: keeping its object would only fill the disk.
        return _Object(source, output, command, None if has_blob else key,
                       not has_blob and self.cache.fetch(key, output))

    def _of_nvcc(self, source):
        """The command for a source: blobs are the host's, whose flags nvcc takes behind a flag of its own."""
        if source.suffix == ".S":
            return (*find_compiler("c").command, "-fPIC")
        flags = [f"-Xcompiler={f}" if f.startswith("-f") else f for f in self.flags]
        language = ["-Xcompiler=-std=c99"] if source.suffix == ".c" else [
            "-std=c++17", *gencode(self.tools.device_code)]
        return (*self.compiler.command, *self.tools.cflags, *language, *flags)

    def compile(self, wanted, first):
        """Compile an _Object; first: further flags."""
        # The folder of the source is the working directory: .incbin and error messages then use plain names.
        source = wanted.source
        _call([*wanted.command, *first, "-c", source.name, "-o", str(wanted.path)], f"compiling {source.name}",
              cwd=source.parent)
        if wanted.key:
            self.cache.store(wanted.key, wanted.path)

    def precompiled(self, objects, folder):
        """(flags, sources) for those of the _Objects that read simd.h, and what it reads of the compiler, as gcc has
        parsed it once: half the time of a file. What is parsed is kept, for further builds with the same flags. None
        where that does not pay, or cannot be done."""
        readers = [o for o in objects if o.source.suffix == ".c" and _reads_first(o.source.read_bytes())]
        headers = {o.source.with_name("simd.h") for o in readers}
        if self.compiler.kind != "gcc" or len(headers) != 1 or not (header := headers.pop()).is_file():
            return (), ()
        command, first = readers[0].command, Path(folder, "first.h")
        key, _ = content_key(header, (*command, self.compiler.version))
        if not self.headers.link(key, f"{first}.gch"):
            if len(readers) < LEAST_READERS and not self.headers.is_second(key):
                return (), ()
            first.write_text('#include "simd.h"\n')
            if _run([*command, "-iquote", str(header.parent), "-x", "c-header", str(first), "-o", f"{first}.gch"]
                    ).returncode:
                return (), ()
            self.headers.store(key, f"{first}.gch")
        first.write_text("")  # where gcc does not take what is parsed, each source reads simd.h by itself
        return ("-include", str(first)), {o.source for o in readers}


def _reads_first(text):
    """Whether a source reads simd.h, and nothing that must come before headers of the system."""
    return b'#include "simd.h"' in text and b'#include "ingot_threads.h"' not in text


@dataclass(frozen=True)
class _Object:
    """The object file of a source: its path, the command without files, the key in the cache (None: it is not kept
    there), and whether it is there already."""

    source: Path
    path: Path
    command: tuple[str, ...]
    key: str | None
    is_there: bool


_COMPILED = (".o", ".a")
LEAST_READERS = 6  # sources of a first build that include simd.h: parsing it takes as long as two of them


def build_shared(sources, out, target="host", threads="openmp", jobs=2, cflags=(), libraries=()):
    """Compile and link a shared library.

    sources  a folder as `ingot compile` writes it (its example and self-test stay out), or a list of .c and .S files,
             and of .o and .a files for the linker
    out      the library's path; replaced in one step
    threads  "openmp" or "none"
    jobs     compilers that run at once
    cflags   further compiler flags
    libraries  what else it is linked with: "openblas"
    Returns `out` as a Path. Raises ToolchainError.
    """
    # -Bsymbolic: a library calls its own functions, also where another loaded network has some of the same name.
    return _build(sources, out, target, threads, jobs, ("-fPIC",), ("-shared", "-Wl,-Bsymbolic"), cflags, libraries)


def build_object(source, out, target="host", cflags=()):
    """Compile one .c file to an object file that shared libraries can hold. Raises ToolchainError."""
    target, out = Target.get(target), Path(out).resolve()
    compiler, tools = find_compiler(target), toolchain(target)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        made = Path(folder, "made.o")
        _call([*compiler.command, *tools.cflags, "-fPIC", *cflags, "-c", str(source), "-o", str(made)],
              f"compiling {Path(source).name}")
        _replace(made, out)
    return out


def build_program(sources, out, target="host", threads="none", jobs=2, cflags=()):
    """Compile and link a program from a list of .c and .S files, as build_shared. Returns `out` as a Path."""
    return _build(sources, out, target, threads, jobs, (), (), cflags)


def _build(sources, out, target, threads, jobs, compile_flags, link_flags, cflags, libraries=()):
    if threads not in THREADS:
        raise ValueError(f"threads must be one of {', '.join(THREADS)}, not {threads!r}")
    target, out = Target.get(target), Path(out).resolve()
    compiler, tools = find_compiler(target), toolchain(target)
    openmp = (openmp_flag(compiler),) if threads == "openmp" and not tools.device_code else ()
    further = shlex.split(os.environ.get("INGOT_CFLAGS", ""))
    build = _Build(compiler, tools, (*compile_flags, *openmp, *further, *cflags), ObjectCache.default(),
                   HeaderCache.default())
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder, ThreadPoolExecutor(max(1, jobs)) as pool:
        objects = [build.look_up(source, folder) for source in source_files(sources)]
        missing = [o for o in objects if not o.is_there]
        flags, readers = build.precompiled(missing, folder)
        pending = [pool.submit(build.compile, o, flags if o.source in readers else ()) for o in missing]
        try:
            for job in pending:
                job.result()
        except BaseException:
            for job in pending:
                job.cancel()
            raise
        linked = Path(folder, "linked")
        flags = [*cflags, *link_flags, *_LINK_FLAGS]
        if compiler.kind == "nvcc":
            flags = [f"-Xlinker={f.removeprefix('-Wl,')}" if f.startswith("-Wl,") else f for f in flags]
        objects.sort(key=lambda o: o.path.suffix == ".a")  # a linker takes of an archive what it misses so far
        _call([*compiler.command, *tools.cflags, *flags, *(str(o.path) for o in objects), *openmp, *compiler.link,
               *(f"-l{library}" for library in libraries), "-lm", "-o", str(linked)], f"linking {out.name}")
        _replace(linked, out)
    build.cache.trim()
    build.headers.trim()
    return out


# Assembler sources carry no note about the stack, so the linker is told that none of them needs it executable.
_LINK_FLAGS = ("-Wl,-z,noexecstack",)


def source_files(sources):
    """`sources` as a list of absolute paths, longest file first, so that the last compiler is not alone for long."""
    if isinstance(sources, (str, Path)):
        folder = Path(sources)
        sources = [path for path in folder.iterdir()
                   if path.suffix in (".c", ".cu", ".S") and not PROGRAMS.fullmatch(path.stem)]
        if not sources:
            raise ToolchainError(f"no C sources in {folder}")
    files = [Path(source).resolve() for source in sources]
    return sorted(files, key=lambda file: (-file.stat().st_size, file.name))


def _replace(source, destination):
    """Move a finished file to `destination` in one step, also across file systems."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    near = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.move(source, near)
    os.replace(near, destination)


# ---- running the compiler -----------------------------------------------------------------------------------------

def _run(command, cwd=None):
    """Run a tool with English messages, stdout and stderr together; ToolchainError when it cannot be started."""
    try:
        return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, errors="replace", env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}: {error.strerror}") from error


def _call(command, doing, cwd=None):
    done = _run(command, cwd)
    if done.returncode:
        raise ToolchainError(f"{Path(command[0]).name} failed {doing} (exit status {done.returncode}):\n"
                             f"{_first_lines(done.stdout, _LOG_LINES)}", done.stdout)


def _first_lines(log, count):
    """The first `count` lines of a compiler's output, from its first error on if it names one."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if "error:" in line or "undefined reference" in line), 0)
    return "\n".join("  " + line for line in lines[start:start + count])
