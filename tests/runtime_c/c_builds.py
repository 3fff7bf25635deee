"""Builds and runs small C programs against runtime_c/ with the compilers of this machine.

A `Build` says how to compile and how to run; `Build.missing` tells why this machine cannot.
"""
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingot.codegen.target import Target
from ingot.codegen.render import render
from ingot.codegen.toolchains import toolchain

RUNTIME = Path(__file__).resolve().parents[2] / "runtime_c"
NODE = f"node --no-warnings --experimental-wasi-unstable-preview1 {RUNTIME.parent / 'templates' / 'wasi.js'}"
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]


@dataclass(frozen=True)
class Build:
    """One way to build the runtime: a compiler, its flags, and what its answers may look like."""

    name: str
    compiler: str
    flags: tuple = ()
    cpu: frozenset = frozenset()  # flags that /proc/cpuinfo must list to run the program here
    emulator: str = ""  # what runs programs: a command
    tools: tuple = ()  # further programs that the compiler calls
    simd: str = "scalar"  # the INGOT_SIMD_NAME that must be chosen
    fused: bool = False  # fma rounds once
    flushes: bool = False  # vectors have no denormals
    board: str = ""  # the target whose board programs are linked for

    @property
    def quick(self):
        """Flags for half the time of -O2, with what that makes of pointers; none where the build has a level."""
        return () if any(flag.startswith("-O") for flag in self.flags) else ("-O1", "-fstrict-aliasing")

    def missing(self):
        """Why this machine cannot build and run this, or None."""
        for program in (self.compiler, *self.emulator.split()[:1], *self.tools):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        absent = sorted(self.cpu - cpu_flags())
        return f"this CPU has no {absent[0]}" if absent else None

    def compile(self, sources, output, *extra):
        """Compiles and links `sources` to `output`; fails with the compiler's messages."""
        command = [self.compiler, *STRICT, "-O2", *self.flags, f"-I{RUNTIME}", *extra, *map(str, sources)]
        check([*command, *(_on_board(self.board, output.parent) if self.board else ()), "-o", str(output), "-lm"])

    def run(self, program, *arguments):
        """Runs `program`; returns its standard output, fails unless its exit status is 0."""
        if self.board:
            words = ",".join(f"arg={word}" for word in (program, *arguments))
            options = f"-nographic -monitor none -serial none -semihosting-config enable=on,target=native,{words}"
            return check([*self.emulator.split(), *options.split(), "-kernel", str(program)])
        return check([*self.emulator.split(), str(program), *map(str, arguments)])


def _on_board(target, folder):
    """What links a program for a target's board: startup code and memory, as files in a folder."""
    tools = toolchain(Target.get(target))
    board = tools.board
    for end in ("c", "ld"):
        text = render(f"board/{board.family}.{end}", board=board, runner=tools.runner, stamp="", name="program")
        (folder / f"board.{end}").write_text(text)
    return ["-nostartfiles", "--specs=rdimon.specs", f"-T{folder / 'board.ld'}", "-Wl,--defsym=_fini=0",
            str(folder / "board.c")]


def check(command):
    """Runs a command; returns its standard output as text, fails with all of its output unless it exits with 0."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def cpu_flags():
    """The CPU's features under Linux' names; empty where they cannot be known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), ()))


AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}
# what generated code is compiled with
GENERATED = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
SANITIZE = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

BUILDS = [
    Build("scalar", "gcc", ("-DINGOT_SIMD_SCALAR", *GENERATED)),
    Build("sse2", "gcc", ("-march=x86-64",), frozenset({"sse2"}), simd="sse"),
    Build("sse4", "gcc", ("-march=x86-64-v2",), frozenset({"sse4_1"}), simd="sse"),
    Build("avx2", "gcc", ("-march=x86-64-v3",), AVX2, simd="avx2", fused=True),
    Build("avx512", "gcc", ("-march=x86-64-v4", *GENERATED), AVX512, simd="avx512", fused=True),
    Build("avx512-vbmi2", "gcc", ("-march=x86-64-v4", "-mavx512vbmi2", *GENERATED), AVX512 | {"avx512_vbmi2"},
          simd="avx512", fused=True),
    Build("avx512-sanitized", "gcc", ("-march=x86-64-v4", *SANITIZE), AVX512, simd="avx512", fused=True),
    Build("scalar-sanitized", "gcc", ("-DINGOT_SIMD_SCALAR", *SANITIZE)),
    Build("clang-scalar", "clang", ("-DINGOT_SIMD_SCALAR",)),
    Build("clang-avx2", "clang", ("-march=x86-64-v3",), AVX2, simd="avx2", fused=True),
    Build("clang-avx512", "clang", ("-march=x86-64-v4",), AVX512, simd="avx512", fused=True),
    Build("aarch64", "aarch64-linux-gnu-gcc", ("-static",), emulator="qemu-aarch64", simd="neon", fused=True),
    Build("armv7-vfpv4", "arm-linux-gnueabihf-gcc", ("-static", "-mfpu=neon-vfpv4"), emulator="qemu-arm", simd="neon",
          fused=True, flushes=True),
    Build("armv7-vfpv3", "arm-linux-gnueabihf-gcc", ("-static", "-mfpu=neon"), emulator="qemu-arm", simd="neon",
          flushes=True),
    Build("cortex-m55", "arm-none-eabi-gcc", ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
          emulator="qemu-system-arm -M mps3-an547", simd="mve", fused=True, flushes=True, board="cortex-m55"),
    Build("wasm32", "clang", ("--target=wasm32-wasi",), emulator=NODE, tools=("wasm-ld",)),
    Build("wasm32-simd128", "clang", ("--target=wasm32-wasi", "-msimd128"), emulator=NODE, tools=("wasm-ld",),
          simd="wasm"),
    Build("generic", "gcc", ("-march=x86-64-v3", "-DINGOT_SIMD_GENERIC", "-Wno-psabi", *GENERATED), AVX2,
          simd="generic", fused=True),
    # Registers are longer than the code expects.
    Build("riscv64-v", "clang-19", ("--target=riscv64-linux-gnu", "-march=rv64gcv", "-mabi=lp64d", "-static"),
          emulator="qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0,vlen=256", simd="generic", fused=True),
    Build("armv7-scalar", "arm-linux-gnueabihf-gcc", ("-static",), emulator="qemu-arm"),
]


def operands():
    """Three float32 arrays (a, b, c), equally long, the length a multiple of 16: every exponent with either sign, the
    ranges where functions change, and in `a` and `b` all pairs of special values."""
    rng = np.random.default_rng(7)
    exponent = np.repeat(np.arange(255, dtype=np.uint32), 40)
    mantissa = rng.integers(0, 1 << 23, len(exponent), dtype=np.uint32)
    sign = rng.integers(0, 2, len(exponent), dtype=np.uint32)
    everywhere = (sign << 31 | exponent << 23 | mantissa).view(np.float32)
    dense = np.concatenate([rng.uniform(-r, r, 4000) for r in (1.0, 6.0, 20.0, 105.0)]).astype(np.float32)
    near_one = rng.uniform(0.5, 2.0, 4000).astype(np.float32)
    halves = np.arange(-8, 8.5, 0.5)
    edges = [0.0, 1.0, np.inf, np.nan, 1e-45, 1.1754944e-38, 3.4028235e38, 8388607.5, 8388609.0, 16777216.0, 0.92, 0.55,
             3.95, 88.72, 88.73, 104.0, 9.02]
    special = np.array([*edges, *np.negative(edges), *halves], np.float32)
    a = np.concatenate([everywhere, dense, near_one, np.repeat(special, len(special))])
    b = np.concatenate([rng.permutation(everywhere), dense[::-1], rng.permutation(near_one),
                        np.tile(special, len(special))])
    n = len(a) // 16 * 16
    return a[:n], b[:n], np.concatenate([rng.permutation(a[:n - n // 2]), b[n - n // 2:n]])


def read_records(data):
    """The records that ops.c describes, as a dict."""
    records, at = {}, 0
    while at < len(data):
        name = data[at:at + 32].rstrip(b"\0").decode()
        count = int.from_bytes(data[at + 32:at + 40], "little")
        records[name] = np.frombuffer(data, np.float32, count, at + 40)
        at += 40 + 4 * count
    return records
