"""Compiles printed functions as strictly as generated code must compile, and calls them on numpy arrays."""
import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from objects import compile_object, parsed
from tir_cases import value_of

from ingot.codegen.team import team_body

RUNTIME = Path(__file__).resolve().parents[1] / "runtime_c"


STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O2",
          "-ffp-contract=off")
COMPILERS = ("gcc", "clang")


def source(functions):
    """One C file of CFunctions with the headers that they use."""
    headers = sorted(set().union(*(f.uses for f in functions)) - {"math.h"})
    lines = ["#include <math.h>", "#include <stdint.h>", '#include "ingot.h"', *(f'#include "{h}"' for h in headers)]
    lines += [f"{f.signature};\n{f.signature}\n{f.body}" for f in functions]
    return "\n".join(lines)


def compile_text(text, folder, compiler="gcc", flags=()):
    """A loaded shared library of a C text; skips without the compiler, fails with its messages."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    path = Path(folder, f"{compiler}.c")
    path.write_text(text)
    library = path.with_suffix(".so")
    command = [compiler, *STRICT, f"-I{RUNTIME}", *flags, "-fPIC"]
    command += [*parsed(command, path), "-shared", str(path), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return ctypes.CDLL(str(library))


def run_selftest(folder, program, *command, runner=()):
    """Build a folder's self-test without a warning, and run it."""
    objects, command = [], [*command, *STRICT]
    for source in sorted(folder.glob("*.[cS]")):
        if not source.name.endswith("_example.c"):
            objects.append(f"{program}.{source.stem}.o")
            made = compile_object([*command, f"-I{folder}"], source, objects[-1], folder)
            assert made.returncode == 0, made.stderr
    built = subprocess.run([*command, *objects, "-o", program, "-lm"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([*runner, program], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr


def call(library, func, name, arguments):
    """Run the C function of the lowered `func` on arrays and ints; arrays are written in place. Workspace parameters
    get arrays of NaN."""
    tensors = [a for a in arguments if isinstance(a, np.ndarray)]
    scalars = [p for p in func.params if p not in func.buffer_map]
    values = [a for a in arguments if not isinstance(a, np.ndarray)]
    extra = func.buffers[len(tensors):]
    spaces = [np.full(value_of(b.shape[0]), np.nan, b.dtype.numpy) for b in extra]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in [*tensors, *spaces]]
    ints = [ctypes.c_int64(v) if p.dtype == "int64" else ctypes.c_int32(v) for p, v in zip(scalars, values)]
    worker = [ctypes.create_string_buffer(256)] if team_body(func.body) else []  # all zeros: a thread by itself
    getattr(library, name)(*worker, *pointers, *ints)
