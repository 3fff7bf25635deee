"""The stack of networks, as compilers measure it: whether each target's frames are within what NAME_STACK_BYTES says.

    python benchmarks/stack.py [--zoo FOLDER] [--models squeezenet ...] [--targets x86-64-v3 ...] [--levels -O2 ...]

Each network is cast for each target, with threads and without, its kernels are compiled by the target's compilers with
-fstack-usage, and the deepest chain of frames of a run is compared with the bound, and the bound with the default
limit. A target without a compiler here shows its bound alone. Exit code 1: something is over.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import ZOO, Models

from ingot import from_onnx
from ingot.codegen.c_names import PROGRAMS
from ingot.codegen.compile import THREADS, Options, compile_module
from ingot.codegen.stack import LIBRARY_BYTES, SMALL_LIBRARY_BYTES, SMALL_STACK, TEAM_BYTES, default_limit
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_native, toolchain


def frames(folder, compiler, flags):
    """{function: bytes} of the frames of all C files of a network."""
    found = {}
    for source in sorted(folder.glob("*.c")):
        if PROGRAMS.fullmatch(source.stem):
            continue
        done = subprocess.run([compiler, "-std=gnu99", *flags, "-fstack-usage", "-c", source.name], cwd=folder,
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{compiler} {source.name}: {done.stderr}")
        usage = source.with_suffix(".su")
        for line in usage.read_text().splitlines() if usage.exists() else ():
            place, size, _ = line.split("\t")
            found[place.rsplit(":", 1)[-1]] = int(size)
    return found


def chain(model, found):
    """(bytes, kernel) of the deepest chain of frames: what runs kernels, a kernel, and what it calls."""
    kernel = max(model.kernels, key=lambda name: found.get(name, 0))
    runs = [size for name, size in found.items() if name == f"{model.name}_run" or name.startswith("ingot_run_")]
    helpers = [size for name, size in found.items() if name.startswith("ingot_") and not name.startswith("ingot_run_")]
    return max(runs) + found.get(kernel, 0) + max(helpers, default=0), kernel


def compilers(target):
    """The compilers to measure a target with: the native ones, else a cross compiler."""
    return [c for c in (("gcc", "clang") if is_native(target) else toolchain(target).cc) if shutil.which(c)]


def measured(model, levels):
    """[(bytes, kernel, compiler and level)] of a model's folder."""
    target, results = model.target, []
    with tempfile.TemporaryDirectory(prefix="ingot-stack-") as temporary:
        folder = Path(temporary, "net")
        model.write(folder)
        own = [f for f in toolchain(target).cflags if not f.startswith("-O")]
        for compiler in compilers(target):
            if compiler == "clang" and model.threads == "openmp":
                continue  # its OpenMP is not everywhere; kernels are the same without
            flags = [*own, *(toolchain(target).gcc_cflags if compiler != "clang" else ()),
                     *(["-fopenmp"] if model.threads == "openmp" else [])]
            for level in levels:
                results.append((*chain(model, frames(folder, compiler, [level, *flags])), f"{compiler} {level}"))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--targets", nargs="*", default=[n for n in Target.names() if n != "host"])
    parser.add_argument("--threads", nargs="*", default=THREADS)
    parser.add_argument("--levels", nargs="*", default=["-O2"])
    args = parser.parse_args()
    over = 0
    print("| model | target | threads | limit | bound | deepest frames | kernel | compiler |\n"
          "|---|---|---|---:|---:|---:|---|---|")
    models = Models(args.zoo)
    for name in args.models or models.names():
        mod = from_onnx(models.load(name), name=name)
        for target in args.targets:
            for threads in args.threads:
                model = compile_module(mod, Options.check(target=target, threads=threads, weights="file"))
                limit = default_limit(model.target, threads)
                beside = (LIBRARY_BYTES if limit > SMALL_STACK else SMALL_LIBRARY_BYTES) + \
                    (TEAM_BYTES if threads == "openmp" else 0)  # which no frame of the folder's shows
                size, kernel, how = max(measured(model, args.levels), default=(0, "-", "none here"))
                wrong = model.stack > limit or size > model.stack - beside
                over += wrong
                cells = (name, target, threads, limit, model.stack, f"{size} + {beside}", kernel, how + " OVER" * wrong)
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
