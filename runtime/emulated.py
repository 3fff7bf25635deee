"""EmulatedLibrary: a network of another machine, run by QEMU, or of WebAssembly, run by Node.js. Its folder is built
as its Makefile says, and each call runs the example program on files."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..codegen.target import Target, is_supported_here
from ..codegen.toolchain import ToolchainError, find_compiler, missing_tools
from ..codegen.toolchains import toolchain
from .binding import NetworkError
from .library import CompiledLibrary

MOST_SECONDS = 600  # that a run may take


@dataclass(frozen=True)
class Count:
    """What one run takes: of each kernel call, as (kernel, amount), and in all. unit: "instructions" on a board,
    "ns" where programs run as fast as this machine does, else "ticks" of a board's clock, hz of them a second."""

    calls: tuple[tuple[str, int], ...]
    total: int
    unit: str
    hz: int = 0


def is_emulated(target):
    """Whether programs of a target run here only under an emulator that its toolchain names."""
    target = Target.get(target)
    return str(target.kind) == "c" and not is_supported_here(target) and bool(toolchain(target).runner)


class EmulatedLibrary(CompiledLibrary):
    """A CompiledLibrary whose runs are those of a program under QEMU, for static shapes."""

    def build(self):
        """Write the folder and build its example, unless that was done. Raises ToolchainError."""
        with self._lock:
            self._check_open()
            if self._cleanup is not None:
                return
            target = Target.get(self.model.target)
            if reason := missing_tools(target) or ("" if shutil.which("make") else "make is not on PATH"):
                raise ToolchainError(reason)
            if self._dims:
                raise ToolchainError(f"under QEMU programs have constant shapes: give {', '.join(self._dims)} by --dim")
            self._folder = Path(tempfile.mkdtemp(prefix=f"ingot-{self.name}-"))
            self._cleanup = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self.model.write(self._folder / self.name)
            self._make()

    def _run(self, dims, arrays, outputs):
        self._check_undecided(ToolchainError, "a program under QEMU")
        with self._lock:
            self.build()
            order = Target.get(self.model.target).byte_order
            given = [f"i{n}" for n in range(len(arrays))]
            made = [f"o{n}" for n in range(len(outputs))]
            for name, array in zip(given, arrays):
                self._file(name).write_bytes(array.astype(array.dtype.newbyteorder(order)).tobytes())
            self._program(*given, *made)
            for name, output in zip(made, outputs):
                found = np.frombuffer(self._file(name).read_bytes(), output.dtype.newbyteorder(order))
                output[...] = found[:output.size].reshape(output.shape)
        return outputs

    def count(self):
        """The Count of a run on inputs that the example makes up. Raises ToolchainError for a system that QEMU only
        emulates."""
        with self._lock:
            self.build()
            target = Target.get(self.model.target)
            tools = toolchain(target)
            if not (tools.board or tools.engine):
                raise ToolchainError(f"QEMU counts no instructions of single kernels for {target}: only those of "
                                     "boards")
            self._make("PROFILE=1")
            text = self._program()
            self._make()
        total = re.search(r"best of \d+ runs: ([\d.]+) ms", text)
        calls = re.findall(r"^ *([\d.]+) ms  (\w+)$", text, re.MULTILINE)
        return Count(tuple((name, _nanoseconds(ms)) for ms, name in calls), _nanoseconds(total[1]),
                     "instructions" if tools.board else "ns")

    def _file(self, name):
        return self._folder / self.name / name

    def _make(self, *settings):
        target, folder = Target.get(self.model.target), self._folder / self.name
        for made in (*folder.glob("*.o"), folder / "example"):
            made.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS")}
        done = subprocess.run(["make", f"-j{self._jobs}", "example", f"CC={find_compiler(target)}", *settings],
                              cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise ToolchainError(f"make failed for {target}:\n{done.stderr.strip()[-1000:]}", done.stdout + done.stderr)

    def _program(self, *arguments):
        """Run the example on files of its folder. Returns what it prints."""
        tools = toolchain(Target.get(self.model.target))
        passed = arguments
        if tools.board and arguments:
            words = ("example", *arguments) if tools.board.named else arguments
            passed = ("-semihosting-config", ",".join(f"arg={word}" for word in words))
        try:
            done = subprocess.run([*tools.runner, "example", *passed], cwd=self._folder / self.name, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolchainError(f"{tools.runner[0]} ran for more than {MOST_SECONDS} s") from None
        if done.returncode:
            raise NetworkError(f"{tools.runner[0]}: the example exited with {done.returncode}: "
                               f"{(done.stderr or done.stdout).strip()[-300:]}", done.returncode)
        return done.stdout


def _nanoseconds(milliseconds):
    """As an integer; under -icount shift=0 an instruction takes one."""
    return round(float(milliseconds) * 1e6)
