"""Toolchains as data: how C is built and run for each target of ir/target.py."""
from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace
from functools import lru_cache

from ..ir.target import TargetError

# -std=c99 turns off gcc's contraction of a * b + c, so it is asked for by name. Never -ffast-math: it breaks NaN,
# infinities and the order of additions. The other two only drop errno and floating-point trap bookkeeping.
_COMMON = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Toolchain:
    """How C is built and run for the target of the same name.

    arch        processor family, as `platform` names it in lower case ("x86_64"); "any"
    cflags      compiler flags for kernels: optimization and instruction set, no language standard, no warnings
    gcc_cflags  those that only gcc knows
    cc          cross compilers to try, in order, where this machine is of another family
    package     what Debian and Ubuntu call the package of the first of them
    runner      the command in front of a program where this machine is of another family
    cpus        what -mcpu=... of gcc and clang calls processors that the target is for
    made_for    what /proc/cpuinfo says of the only processors for which the target is the best one, beside its ISA
    device_code what nvcc makes code for: devices ("sm_80"), and PTX for whichever follow ("compute_80"); (): a CPU
    """

    name: str
    arch: str
    cflags: tuple[str, ...]
    # gcc would carry loaded values from one iteration of a reduction to the next, in registers that hold the tile: a
    # 3x3 convolution at 191 GFLOP/s falls to 128.
    gcc_cflags: tuple[str, ...] = ("-fno-predictive-commoning",)
    cc: tuple[str, ...] = ()
    package: str = ""
    runner: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    made_for: frozenset[str] = frozenset()
    device_code: tuple[str, ...] = ()


def _linux(name, arch, cpu_flags, triple, emulator=(), **fields):
    """A row for Linux whose cross compiler and libraries are those of a Debian package for `triple`."""
    runner = (emulator[0], *emulator[1:], "-L", f"/usr/{triple}") if emulator else ()
    return Toolchain(name, arch, (*_COMMON, *cpu_flags), cc=(f"{triple}-gcc",), runner=runner,
                     package=f"gcc-{triple.replace('_', '-')}", **fields)


# gcc would put sums of a tile on the stack, beside what it takes out of the loops around it.
_V3 = _linux("x86-64-v3", "x86_64", ("-march=x86-64-v3",), "x86_64-linux-gnu", ("qemu-x86_64", "-cpu", "max"),
             gcc_cflags=("-fno-predictive-commoning", "-fno-move-loop-invariants", "-fno-tree-coalesce-vars",
                         "-fno-gcse"),
             cpus=tuple("x86-64-v3 haswell broadwell core-avx2 skylake znver1 znver2 znver3".split()))
# Without prefer-vector-width both compilers keep to 256 bits in the loops that they vectorize by themselves. qemu has
# no AVX-512.
_V4 = _linux("x86-64-v4", "x86_64", ("-march=x86-64-v4", "-mprefer-vector-width=512"), "x86_64-linux-gnu",
             cpus=tuple("x86-64-v4 skylake-avx512".split()))
_V4_VNNI = replace(_V4, name="x86-64-v4-vnni", cflags=(*_V4.cflags, "-mavx512vnni"), cpus=tuple(
    "x86-64-v4-vnni cascadelake cooperlake".split()))
_V4_VBMI = replace(_V4_VNNI, name="x86-64-v4-vbmi", cflags=(*_V4_VNNI.cflags, "-mavx512vbmi"), cpus=tuple(
    "x86-64-v4-vbmi icelake-client icelake-server tigerlake znver5".split()))
TOOLCHAINS = {row.name: row for row in (
    _V3, _V4, _V4_VNNI, _V4_VBMI,
    # Compilers: gcc 11, clang 12.
    replace(_V3, name="x86-64-v3-vnni", cflags=(*_V3.cflags, "-mavxvnni"),
            cpus=("x86-64-v3-vnni", "alderlake", "arrowlake", "meteorlake")),
    replace(_V4_VBMI, name="x86-64-v4-zen4", cflags=(*_V4_VBMI.cflags, "-mavx512vbmi2"), cpus=("x86-64-v4-zen4", "znver4"),
            made_for=frozenset({"AuthenticAMD", "family 25"})),
    # Compilers: gcc 11, clang 12.
    replace(_V4_VBMI, name="x86-64-v4-amx", cflags=(*_V4_VBMI.cflags, "-mamx-tile", "-mamx-int8"),
            cpus=tuple("x86-64-v4-amx sapphirerapids emeraldrapids graniterapids".split())),
    _linux("aarch64-linux-gnu", "aarch64", ("-march=armv8-a",), "aarch64-linux-gnu", ("qemu-aarch64",)),
    _linux("aarch64-dotprod", "aarch64", ("-march=armv8.2-a+dotprod",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max"), cpus=("cortex-a55", "cortex-a75", "cortex-a76", "cortex-a78")),
    _linux("aarch64-i8mm", "aarch64", ("-march=armv8.2-a+dotprod+i8mm",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max"), cpus=("cortex-a510", "cortex-a710", "neoverse-n2", "neoverse-v1")),
    _linux("aarch64-neoverse-n1", "aarch64", ("-mcpu=neoverse-n1",), "aarch64-linux-gnu", ("qemu-aarch64",),
           cpus=("neoverse-n1",), made_for=frozenset({"part 0xd0c"})),
    _linux("armv7-linux-gnueabihf", "armv7l", ("-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
           "arm-linux-gnueabihf", ("qemu-arm",)),
    _linux("s390x-linux-gnu", "s390x", (), "s390x-linux-gnu", ("qemu-s390x",)),
    Toolchain("c", "any", (*_COMMON, "-DINGOT_SIMD_SCALAR"), cpus=("generic", "x86-64")),
    # Code of sm_90a is for that device alone, so PTX for later ones is that of sm_80.
    Toolchain("cuda-sm_80", "any", ("-O3",), (), device_code=("sm_80", "compute_80")),
    Toolchain("cuda-sm_90a", "any", ("-O3",), (), device_code=("sm_90a",)),
    Toolchain("opencl", "any", ("-O2",)),
    Toolchain("cuda", "any", ("-O3",), (), device_code=("sm_80", "sm_90a", "compute_80")),
)}


def toolchain(target):
    """The row for a Target. Raises TargetError where there is none."""
    if target.name not in TOOLCHAINS:
        raise TargetError(f"no toolchain builds C for {target}: export the folder and build it by hand")
    return TOOLCHAINS[target.name]


# ---------------------------------------------------------------- this machine

def is_native(target):
    """Whether this machine's own compiler builds for the target, and its processor family runs the result."""
    return toolchain(target).arch in ("any", machine()) and target.byte_order == sys.byteorder


def is_supported_here(target):
    """Whether programs of this target run on this very processor without an emulator."""
    return is_native(target) and (toolchain(target).arch != "x86_64" or target.isa <= cpu_flags())


def machine():
    """The processor family of this machine."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l"}.get(name, name)


@lru_cache(maxsize=None)
def cpu_flags():
    """Read the first processor of /proc/cpuinfo: its features, its vendor, its family as "family 25", on Arm its
    part as "part 0xd0c"; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().split("\n\n")[0]
    except OSError:
        return frozenset()
    parts = (line.partition(":") for line in first.splitlines())
    said = {key.strip().lower(): value.strip() for key, _, value in parts}
    return frozenset([*(said.get("flags") or said.get("features", "")).split(), said.get("vendor_id", ""),
                      f"family {said.get('cpu family', '')}", f"part {said.get('cpu part', '')}"])
