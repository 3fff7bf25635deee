"""Targets as data: one row per machine kind that C can be cast for."""
from __future__ import annotations

import platform
import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

# -std=c99 turns off gcc's contraction of a * b + c, so it is asked for by name. Never -ffast-math: it breaks NaN,
# infinities and the order of additions. The other two only drop errno and floating-point trap bookkeeping.
_COMMON = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


class TargetError(ValueError):
    """An unknown target name, or a flag of one."""


BYTE_ORDERS = ("little", "big")

# The targets of the `with` statements around, innermost last.
_ENTERED = ContextVar("targets", default=())


class _Named(type):
    """Target("llvm -mcpu=znver4") is the row of that name; with fields, a new row."""

    def __call__(cls, target=None, host=None, **fields):
        if fields:
            return super().__call__(**fields) if target is None else super().__call__(target, **fields)
        if host is not None:
            cls.get(host)  # a target on the CPU is its own host; the name must be one
        return cls.get(target)


@dataclass(frozen=True)
class TargetKind:
    """What TVM calls the kind of a target: a name that tvm.device knows."""

    name: str

    def __str__(self):
        return self.name


@dataclass(frozen=True)
class Target(metaclass=_Named):
    """What the scheduler, the printer and the toolchain know about a machine.

    name              the row's name, also what the generated files carry
    arch, os          processor family and system, as `platform` names them in lower case ("x86_64", "linux")
    cflags            compiler flags for kernels: optimization and instruction set, no language standard, no warnings
    gcc_cflags        those that only gcc knows
    cc                cross compilers to try, in order, where this machine is of another family
    runner            the command in front of a program of this target where this machine is of another family
    simd              the widest backend of runtime_c/simd/ that the flags enable
    vector_lanes      float32 lanes of one register; 1: no SIMD
    vector_registers  registers of that width
    vector_accumulators  how many of them a register tile may accumulate in; None: all that its operands leave
    by_element        whether a multiply-add may take one lane of a register for all lanes of an operand
    embeds_broadcast  whether a multiply-add may take an element of memory for all lanes of an operand
    small_tile        sums of a register tile, up to which a turn of the loop around it takes several terms
    l1_bytes, l2_bytes  what a core may count on of its data caches
    l3_bytes          the same of a third one, where that is much faster than memory
    streamed_bytes    a cycle, of weights in memory that come beside multiply-adds; 0: they take time of their own
    memory_bytes      a cycle, that one core reads of memory in order
    clock             cycles a second, of what is predicted
    multiply_adds     vectors that a core multiplies and adds in a cycle
    adders            whether it does as many additions of vectors beside them, on units of their own
    stack_bytes       of a thread, that a run may take by default
    integer_tiles     whether it has a unit for products of tiles of 8-bit integers that runtime_c/ingot_tiles.h uses
    fma               whether a fused multiply-add is one instruction
    byte_order        "little" or "big", of numbers in memory
    """

    name: str
    arch: str
    cflags: tuple[str, ...]
    simd: str
    vector_lanes: int
    vector_registers: int
    fma: bool
    cc: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()
    os: str = "linux"
    # gcc would carry loaded values from one turn of a reduction to the next, in registers that hold the tile: a 3x3
    # convolution at 191 GFLOP/s falls to 128.
    gcc_cflags: tuple[str, ...] = ("-fno-predictive-commoning",)
    # Arm's multiply-adds read registers only, so compilers load ahead; gcc 12 spills from 22 accumulators on, of 32
    # registers, and from 10 of 16.
    vector_accumulators: int | None = None
    by_element: bool = False
    embeds_broadcast: bool = False
    small_tile: int = 0
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 0
    streamed_bytes: float = 0
    memory_bytes: float = 8
    clock: float = 2.7e9
    multiply_adds: int = 2
    adders: bool = False
    stack_bytes: int = 16 << 10
    integer_tiles: bool = False
    byte_order: str = "little"

    @staticmethod
    def get(target):
        """The row called `target` ("host" is this machine's best row); a Target is returned as it is.

        "llvm -mcpu=NAME -mtriple=NAME", as TVM has it, is the row that fits, by default the host's; so is the dict
        {"kind": "llvm", "mcpu": NAME}. Raises TargetError, which lists the known names.
        """
        if isinstance(target, Target):
            return target
        if isinstance(target, dict) and "kind" in target:
            target = " ".join((target["kind"], *(f"-{k}={_flag_value(v)}" for k, v in target.items()
                                                 if k not in ("kind", "tag", "host"))))
        name = _without_flags(target)
        name = _ALIASES.get(name, name)
        if name == "host":
            row = _BY_NAME[host_name()]
            return row if row.byte_order == sys.byteorder else replace(row, byte_order=sys.byteorder)
        if name == "cuda":
            raise TargetError("CUDA C is not generated yet; the targets today are " + ", ".join(Target.names()))
        if name not in _BY_NAME:
            raise TargetError(f"unknown target {target!r}; known: {', '.join(Target.names())}")
        return _BY_NAME[name]

    @staticmethod
    def current(allow_none=True):
        """The target of the innermost `with Target(...):` around; where there is none, None or ValueError."""
        entered = _ENTERED.get()
        if not entered and not allow_none:
            raise ValueError("no target is current: write `with tvm.target.Target(...):` around, or pass a target")
        return entered[-1] if entered else None

    def __enter__(self):
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *_):
        _ENTERED.set(_ENTERED.get()[:-1])

    @property
    def kind(self):
        """All targets are C so far."""
        return TargetKind("c")

    @property
    def host(self):
        """The target of the code that calls: a target on the CPU is its own."""
        return self

    @staticmethod
    def names():
        """Every name that `get` accepts, "host" first."""
        return ("host", *_BY_NAME)

    @property
    def is_native(self):
        """Whether this machine's own compiler builds for the target, and its processor family runs the result."""
        return self.arch in ("any", _machine()) and self.byte_order == sys.byteorder

    @property
    def is_supported_here(self):
        """Whether programs of this target run on this very processor without an emulator."""
        return self.is_native and (self.arch != "x86_64" or _REQUIRED_CPU_FLAGS[self.name] <= _cpu_flags())

    def __str__(self):
        return self.name


# Without prefer-vector-width both compilers keep to 256 bits in the loops that they vectorize by themselves.
_V4 = Target("x86-64-v4", arch="x86_64", cflags=(*_COMMON, "-march=x86-64-v4", "-mprefer-vector-width=512"),
             simd="avx512", vector_lanes=16, vector_registers=32, fma=True, cc=("x86_64-linux-gnu-gcc",),
             embeds_broadcast=True, l2_bytes=1 << 20)  # qemu has no AVX-512
_ROWS = (
    # The last three flags: gcc would put sums of a tile on the stack, beside what it takes out of the loops around it.
    Target("x86-64-v3", arch="x86_64", cflags=(*_COMMON, "-march=x86-64-v3"),
           simd="avx2", vector_lanes=8, vector_registers=16, fma=True, small_tile=14, l3_bytes=2 << 20,
           cc=("x86_64-linux-gnu-gcc",),
           gcc_cflags=("-fno-predictive-commoning", "-fno-move-loop-invariants", "-fno-tree-coalesce-vars",
                       "-fno-gcse"),
           runner=("qemu-x86_64", "-cpu", "max", "-L", "/usr/x86_64-linux-gnu")),
    _V4,
    # AMD's Zen 4: halves of vectors go through units for 256 bits, of which multiply-adds and additions have two each.
    replace(_V4, name="x86-64-v4-zen4", cflags=(*_V4.cflags, "-mavx512vbmi2"), multiply_adds=1, adders=True,
            l3_bytes=16 << 20, streamed_bytes=6, clock=3.7e9),
    # What Intel's server processors have since 2023 (Sapphire Rapids). Compilers: gcc 11, clang 12.
    replace(_V4, name="x86-64-v4-amx", cflags=(*_V4.cflags, "-mamx-tile", "-mamx-int8"), integer_tiles=True),
    Target("aarch64-linux-gnu", arch="aarch64", cflags=(*_COMMON, "-march=armv8-a"),
           simd="neon", vector_lanes=4, vector_registers=32, fma=True, cc=("aarch64-linux-gnu-gcc",),
           runner=("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"), vector_accumulators=21,
           by_element=True, memory_bytes=4),
    Target("armv7-linux-gnueabihf", arch="armv7l",
           cflags=(*_COMMON, "-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
           simd="neon", vector_lanes=4, vector_registers=16, fma=True, cc=("arm-linux-gnueabihf-gcc",),
           runner=("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"), vector_accumulators=9,
           by_element=True, memory_bytes=4),
    Target("s390x-linux-gnu", arch="s390x", cflags=_COMMON, simd="scalar", vector_lanes=1, vector_registers=16,
           fma=True, cc=("s390x-linux-gnu-gcc",), runner=("qemu-s390x", "-L", "/usr/s390x-linux-gnu"),
           byte_order="big"),
    Target("c", arch="any", cflags=(*_COMMON, "-DINGOT_SIMD_SCALAR"),
           simd="scalar", vector_lanes=1, vector_registers=16, fma=False,
           stack_bytes=2 << 10),  # the target of small machines, too
)
_BY_NAME = {row.name: row for row in _ROWS}
# Flags of TVM's that choose a row; the others of TVM's on CPUs say what needs no saying here.
_MCPU = {"native": "host", "generic": "c", "x86-64": "c",
         **dict.fromkeys("x86-64-v3 haswell broadwell core-avx2 skylake znver1 znver2 znver3".split(), "x86-64-v3"),
         **dict.fromkeys(("x86-64-v4 skylake-avx512 cascadelake cooperlake icelake-client icelake-server tigerlake "
                          "znver5").split(), "x86-64-v4"),
         "x86-64-v4-zen4": "x86-64-v4-zen4", "znver4": "x86-64-v4-zen4",
         **dict.fromkeys("x86-64-v4-amx sapphirerapids emeraldrapids graniterapids".split(), "x86-64-v4-amx")}
_MTRIPLE = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "aarch64-linux-gnu", "arm64": "aarch64-linux-gnu",
            "armv7": "armv7-linux-gnueabihf", "armv7l": "armv7-linux-gnueabihf", "arm": "armv7-linux-gnueabihf"}
_WITHOUT_EFFECT = ("-keys", "-num-cores", "-device", "-model", "-libs", "-opt-level", "-link-params", "-mattr",
                   "-runtime", "-system-lib", "-executor")


def _flag_value(value):
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _without_flags(text):
    """The row or kind that a target string means: "llvm -mcpu=znver4" is "x86-64-v4-zen4"."""
    if not isinstance(text, str):
        raise TargetError(f"a target is a name or a Target, not a {type(text).__name__}")
    kind, *words = re.sub(r"(-\S+) +(?=[^-\s])", r"\1=", text).split() or [""]  # "-num-cores 4" too
    if kind == "cuda":
        return kind
    flags = dict(word.partition("=")[::2] for word in words)
    for option in flags:
        if option not in (*_WITHOUT_EFFECT, "-mcpu", "-mtriple"):
            raise TargetError(f"target {text!r}: the flag {option} is not known; known: -mcpu, -mtriple, and without "
                              f"effect {', '.join(_WITHOUT_EFFECT)}")
    triple, cpu = flags.get("-mtriple"), flags.get("-mcpu")
    if kind not in ("llvm", "c", "host") or triple is cpu is None:
        return kind
    family = triple.split("-")[0] if triple is not None else "x86_64"
    for option, value, key, table in (("-mtriple", triple, family, _MTRIPLE), ("-mcpu", cpu, cpu, _MCPU)):
        if value is not None and key not in table and (option == "-mtriple" or _MTRIPLE[family] == "x86-64-v3"):
            raise TargetError(f"target {text!r}: {option} {value!r} is not known; known: {', '.join(table)}; or name "
                              f"one of {', '.join(Target.names())}")
    if cpu in _MCPU:
        return _MCPU[cpu]
    row = _MTRIPLE[family]
    return "host" if _BY_NAME[row].arch == _machine() else row


_ALIASES = {"native": "host", "llvm": "host"}  # "llvm": the host target of scripts written for TVM

# What /proc/cpuinfo calls the features of each level of the x86-64 psABI, beyond the previous one.
_V3_FLAGS = frozenset("avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())
_V4_FLAGS = _V3_FLAGS | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
_REQUIRED_CPU_FLAGS = {
    "x86-64-v3": _V3_FLAGS,
    "x86-64-v4": _V4_FLAGS,
    "x86-64-v4-zen4": _V4_FLAGS | {"avx512_vbmi2"},
    "x86-64-v4-amx": _V4_FLAGS | {"amx_tile", "amx_int8"},
}
# The maker and family, as /proc/cpuinfo has them, of the processors that rows are the best of which others run too.
_MADE_FOR = {"x86-64-v4-zen4": {"AuthenticAMD", "family 25"}}


def host_name(machine=None, cpu_flags=None):
    """The row for a processor of family `machine` with the /proc/cpuinfo `cpu_flags` (see _cpu_flags); the default is
    this one."""
    machine = machine or _machine()
    cpu_flags = _cpu_flags() if cpu_flags is None else cpu_flags
    if machine == "x86_64":
        best_first = ("x86-64-v4-amx", "x86-64-v4-zen4", "x86-64-v4", "x86-64-v3")
        return next((name for name in best_first
                     if _REQUIRED_CPU_FLAGS[name] | _MADE_FOR.get(name, set()) <= cpu_flags), "c")
    if machine in ("aarch64", "s390x"):
        return f"{machine}-linux-gnu"
    if machine == "armv7l" and {"neon", "vfpv4"} <= cpu_flags:
        return "armv7-linux-gnueabihf"
    return "c"


def _machine():
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l"}.get(machine, machine)


@lru_cache(maxsize=None)
def _cpu_flags():
    """What /proc/cpuinfo says of the first processor: its features, its maker, its family as "family 25"; empty where
    there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().split("\n\n")[0]
    except OSError:
        return frozenset()
    parts = (line.partition(":") for line in first.splitlines())
    said = {key.strip().lower(): value.strip() for key, _, value in parts}
    return frozenset([*(said.get("flags") or said.get("features", "")).split(), said.get("vendor_id", ""),
                      f"family {said.get('cpu family', '')}"])
