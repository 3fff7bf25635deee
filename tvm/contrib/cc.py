"""tvm.contrib.cc: shared libraries and programs of C sources and object files, by this machine's compiler."""
from __future__ import annotations

import subprocess

from ...codegen.toolchain import find_compiler


def get_cc():
    """The path of the C compiler. Raises ToolchainError where there is none."""
    return find_compiler("host").command[0]


def create_shared(output, objects, options=None, cc=None):
    """Link files to a shared library. options: more flags; cc: the compiler, else the one that is found. Raises
    RuntimeError with its words where it refuses."""
    _linked(output, objects, ["-shared", "-fPIC", *(options or ())], cc)


def create_executable(output, objects, options=None, cc=None):
    """Link files to a program."""
    _linked(output, objects, list(options or ()), cc)


def _linked(output, objects, flags, cc):
    objects = [objects] if isinstance(objects, str) else list(objects)
    done = subprocess.run([cc or get_cc(), *flags, "-o", output, *objects, "-lm"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"the compiler refused {', '.join(objects)}:\n{done.stdout}{done.stderr}")
