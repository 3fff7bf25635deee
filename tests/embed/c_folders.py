"""Building and running exported folders with the compilers of this machine, and skipping where one is missing."""
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import pytest

from objects import compile_object
from ingot.codegen.c_names import PROGRAMS
from ingot.codegen.target import Target
from ingot.codegen.toolchain import find_compiler
from ingot.codegen.toolchains import toolchain

HERE = Path(__file__).parent
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
TIMEOUT = 600


def need(*programs):
    """Skip the test unless all programs are on PATH."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def run(command, cwd=None, env=None):
    """Standard output of a command; fails with all of its output unless it exits with 0."""
    command = [str(word) for word in command]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@lru_cache(maxsize=None)
def builds(compiler, *flags):
    """Whether `compiler` is there and links a program with `flags`: -fopenmp and the sanitizers have runtimes."""
    if shutil.which(compiler) is None:
        return False
    with tempfile.TemporaryDirectory() as place:  # never a device: a compiler that fails removes its output
        done = subprocess.run([compiler, *flags, "-x", "c", "-", "-o", f"{place}/program"],
                              input="int main(void) { return 0; }", capture_output=True, text=True)
    return done.returncode == 0


def need_compiler(compiler, *flags):
    """Skip the test unless `compiler` links programs with `flags`."""
    if not builds(compiler, *flags):
        pytest.skip(f"{compiler} {' '.join(flags)} does not build programs here")


def copy(folder, tmp_path):
    """A copy of a folder, to build in."""
    return shutil.copytree(folder, tmp_path / folder.name)


def c_sources(folder):
    return sorted(path.name for path in folder.glob("*.c"))


def compile_all(folder, compiler, *flags):
    """Compile every .c of a folder, and throw the objects away."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(2) as pool:
        def compile_one(source):
            compile_one_source(folder, source, f"{place}/{source}.o", compiler, *flags)
        list(pool.map(compile_one, c_sources(folder)))


def compile_one_source(folder, source, output, compiler, *flags):
    """Compile a source in its folder; fails with all that the compiler says unless it exits with 0."""
    done = compile_object([compiler, *flags], source, output, folder)
    assert done.returncode == 0, f"{compiler} {' '.join(map(str, flags))} {source}\n{done.stdout}{done.stderr}"


def library_sources(folder):
    """The sources of a folder without its programs, .S and .c."""
    return sorted(path for path in folder.iterdir()
                  if path.suffix in (".c", ".S") and not PROGRAMS.fullmatch(path.stem))


def selftest_sources(folder):
    return [*library_sources(folder), *folder.glob("*_selftest.c"), *folder.glob("*_selftest_data.[cS]")]


def build(folder, sources, program, compiler, *flags):
    """Compile and link `sources` with the headers and blobs of an exported folder. Returns `program`."""
    compiled = objects_of(folder, sources, Path(f"{program}.objects"), compiler, *flags)
    run([compiler, *flags, *compiled, "-o", program, "-lm", "-lpthread", "-Wl,-z,noexecstack"])
    return program


def build_strictly(folder, program, target):
    """The self-test of a folder for `target`, by its compiler, without warnings. Returns `program`. At -O1, where
    compilers look at the flow of values."""
    flags = [flag for flag in toolchain(Target.get(target)).cflags if not flag.startswith("-O")]
    return build(folder, selftest_sources(folder), program, *find_compiler(target).command, *flags, "-O1", *STRICT[1:])


def objects_of(folder, sources, objects, compiler, *flags):
    """The objects of `sources`, in the new folder `objects`, with the headers and blobs of an exported folder."""
    objects.mkdir()

    def compile_one(source):
        output = objects / f"{source.stem}.o"
        language = ("-std=c99",) if source.suffix == ".c" else ()
        compile_one_source(folder, source, output, compiler, *language, *flags, "-I.")
        return output
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_one, map(Path, sources)))


def definitions(library):
    """-D flags by which a C program of this folder names the network with one input and one output under test."""
    name, upper = library.name, library.name.upper()
    (x,), (y,) = library.inputs, library.outputs
    return (f'-DHEADER="{name}.h"', f"-DNET={name}", f"-DARENA_BYTES={upper}_ARENA_BYTES",
            f"-DARENA_ALIGN={upper}_ARENA_ALIGN", f"-DWEIGHTS_BYTES={upper}_WEIGHTS_BYTES",
            f"-DINPUT_SIZE={upper}_{x.name.upper()}_SIZE", f"-DOUTPUT_SIZE={upper}_{y.name.upper()}_SIZE",
            *([f'-DWEIGHTS_ARE_A_FILE="{name}_weights.bin"'] if library.model.weights == "file" else []))
