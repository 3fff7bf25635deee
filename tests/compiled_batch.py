"""Lowered functions beside those they were made from, as C: one compiler for all functions of a module's tests.

`same_results` notes what is to be compared; `Batch.check`, which runs when the tests of a module have (conftest.py in
tests/ir/schedule), compiles and compares. The C is stricter than a kernel's, so that mistakes show: tensors end where
pages begin that nobody may touch, local memory is full of a pattern that spoils results, and loops that threads would
share run backwards.
"""
import faulthandler
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from c_build import call, compile_text, source
from guarded_run import held, view
from tir_cases import arguments

from ingot.codegen.c_function import print_function
from ingot.ir.expr import substitute
from ingot.ir.node import Mutator
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.pipeline import lower_prim_func

PATTERN = "-ftrivial-auto-var-init=pattern"  # since gcc 12
FLAGS = ("-O0", "-DINGOT_SIMD_SCALAR", PATTERN)


@lru_cache(maxsize=None)
def has_pattern():
    """Whether gcc fills local memory with a pattern."""
    return shutil.which("gcc") is not None and not subprocess.run(
        ["gcc", PATTERN, "-fsyntax-only", "-x", "c", "-"], input=b"", capture_output=True).returncode


class _Backwards(Mutator):
    """Parallel loops as serial ones from the last iteration to the first."""

    def visit_For(self, loop):
        loop = self.generic_visit(loop)
        if loop.kind != "parallel":
            return loop
        last = loop.min * 2 + (loop.extent - 1) - loop.loop_var
        return loop.replace(kind="serial", annotations={}, body=substitute(loop.body, {loop.loop_var: last}))


@dataclass(frozen=True)
class Pair:
    """Two lowered functions that compute the same from `inputs`, up to the tolerances, in the test `where`."""

    expected: object
    found: object
    inputs: list
    rtol: float
    atol: float
    where: str
    flags: tuple = FLAGS


class Batch:
    """The Pairs of a module's tests."""

    def __init__(self):
        self.pairs = []

    def add(self, pair):
        self.pairs.append(pair)

    def check(self):
        """Compile all functions, those of equal flags at once, each of them once, run and compare. Raises
        AssertionError, which says where pairs differ, or where a function touched what is not its own."""
        wrong = [line for flags in dict.fromkeys(pair.flags for pair in self.pairs)
                 for line in _check([pair for pair in self.pairs if pair.flags == flags], flags)]
        assert not wrong, "\n".join(wrong)


class _Functions:
    """C functions by their text."""

    def __init__(self):
        self.names, self.printed = {}, []

    def name_of(self, func):
        """The C function of a lowered function."""
        printed = print_function(_Backwards().visit(func), "kernel")
        text = printed.signature, printed.body
        if text not in self.names:
            self.names[text] = f"kernel{len(self.names)}"
            signature = printed.signature.replace("kernel(", self.names[text] + "(", 1)
            self.printed.append(replace(printed, name=self.names[text], signature=signature))
        return self.names[text]


def _check(pairs, flags):
    """Run pairs in a process of its own. Returns lines that say what is wrong."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    functions, flags = _Functions(), [f for f in flags if f != PATTERN or has_pattern()]
    named = [(functions.name_of(pair.expected), functions.name_of(pair.found)) for pair in pairs]
    with tempfile.TemporaryDirectory() as folder:
        library, report = compile_text(source(functions.printed), folder, "gcc", flags), os.path.join(folder, "report")
        child = os.fork()
        if not child:
            _compare(library, pairs, named, report)
        _, status = os.waitpid(child, 0)
        with open(report) as file:
            lines = file.read().splitlines()
    wrong = [line for line in lines[:-1] if not line.startswith("runs ")]
    return wrong if lines[-1] == "done" else [*wrong, f"status {status} while it {lines[-1]}"]


def _compare(library, pairs, named, report):
    """The child: a line of `report` before each pair, lines on what is wrong with it, and a last one."""
    faulthandler.disable()  # a signal is what the parent reports
    with open(report, "w", buffering=1) as file:
        for pair, names in zip(pairs, named):
            print("runs", pair.where, file=file)
            try:
                a, b = (_run(library, func, name, pair.inputs)
                        for func, name in zip((pair.expected, pair.found), names))
                for n, (x, y) in enumerate(zip(a, b)):
                    np.testing.assert_allclose(y, x, pair.rtol, pair.atol, err_msg=f"parameter {n}")
            except Exception as error:
                print(pair.where, *str(error).split("\n"), sep="\n  ", file=file)
        print("done", file=file)
    os._exit(0)


def _run(library, func, name, inputs):
    """The arrays of all parameters after the C function ran on copies of `inputs`, each at the end of its pages."""
    copies = [view(held(x, x.itemsize, True), x) if isinstance(x, np.ndarray) and x.size else x for x in inputs]
    call(library, _Backwards().visit(func), name, copies)
    return [x for x in copies if isinstance(x, np.ndarray)]


BATCHES = []  # those of the modules whose tests run


def same_results(func, scheduled, inputs=None, rtol=1e-5, atol=2e-5, flags=FLAGS):
    """Note that a PrimFunc and what was made of it are to give the same; returns the latter, lowered.

    inputs: what `arguments` gives where they are None. flags: of the compiler.
    """
    verify(scheduled)
    lowered = lower_prim_func(scheduled)
    where = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
    BATCHES[-1].add(Pair(lower_prim_func(func), lowered, inputs or arguments(func), rtol, atol, where, flags))
    return lowered
