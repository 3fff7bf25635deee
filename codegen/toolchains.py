"""Toolchains as data: how C is built and run for each target of ir/target.py."""
from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace
from functools import lru_cache

from ..ir.target import TargetError

# -std=c99 turns off gcc's contraction of a * b + c, so it is asked for by name. Never -ffast-math: it breaks NaN,
# infinities and the order of additions. The other two only drop errno and floating-point trap bookkeeping.
COMMON = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Board:
    """A board without a system that QEMU emulates: its command, and where programs lie, as (address, bytes) each.

    code       of instructions and vectors
    constants  of weights and other constant data; the same as code where flash has room for both
    ram        of variables, the heap and the stack
    hz         ticks of its timer in a second; under -icount shift=0 an instruction takes a nanosecond
    family     of the templates of its startup code and linker script; "": the C library has both
    link       flags that link a program for it
    uart       the address of its first serial port, of a family whose templates drive one
    named      whether its startup code takes the first word of the command line for the program's name
    """

    emulator: tuple[str, ...]
    code: tuple[int, int] = (0, 0)
    constants: tuple[int, int] = (0, 0)
    ram: tuple[int, int] = (0, 0)
    hz: int = 0
    family: str = ""
    link: tuple[str, ...] = ()
    uart: int = 0
    named: bool = True


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
    least       (kind, version) of the first compilers that know the instructions; (): all of today's
    made_for    what /proc/cpuinfo says of the only processors for which the target is the best one, beside its ISA
    board       the Board that a target without a system runs on
    engine      the file by which the runner executes programs, which folders have: their times are this machine's
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
    least: tuple[tuple[str, int], ...] = ()
    made_for: frozenset[str] = frozenset()
    board: Board | None = None
    engine: str = ""
    device_code: tuple[str, ...] = ()


def _linux(name, arch, cpu_flags, triple, emulator=(), other_cc=(), **fields):
    """A row for Linux whose cross compiler and libraries are those of a Debian package for `triple`. other_cc: further
    compilers that know where these are."""
    runner = (emulator[0], *emulator[1:], "-L", f"/usr/{triple}") if emulator else ()
    return Toolchain(name, arch, (*COMMON, *cpu_flags), cc=(f"{triple}-gcc", *other_cc), runner=runner,
                     package=f"gcc-{triple.replace('_', '-')}", **fields)


_V2 = _linux("x86-64-v2", "x86_64", ("-march=x86-64-v2",), "x86_64-linux-gnu", ("qemu-x86_64",),
             cpus=tuple("x86-64-v2 nehalem westmere sandybridge ivybridge silvermont goldmont".split()))
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


# ---------------------------------------------------------------- boards

_SEMIHOSTED = ("-nographic", "-monitor", "none", "-serial", "none", "-icount", "shift=0")
_SEMIHOSTING = ("-semihosting-config", "enable=on,target=native")
_MB = 1 << 20


# Loads that gcc would move up before it assigns registers take those of a tile's sums. Where there are few sums, in
# products of one row, it would make one load of two.
_TILED = ("-fno-predictive-commoning", "-fno-schedule-insns")


def _cortex(name, flags, machine, code, constants, ram, hz, uart, vectors=False, **fields):
    """A row for a Cortex-M under newlib, on a machine of QEMU's that has it, or a core that runs its instructions."""
    emulator = ("qemu-system-arm", "-M", machine, *_SEMIHOSTED, *_SEMIHOSTING, "-kernel")
    link = ("-nostartfiles", "--specs=rdimon.specs", "-T", "board.ld", "-Wl,--gc-sections")
    single = () if vectors else ("-DINGOT_SIMD_SCALAR",)
    return Toolchain(name, "cortex-m", (*COMMON, "-mthumb", *flags, *single), cc=("arm-none-eabi-gcc",),
                     package="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm", runner=emulator, cpus=(name,),
                     board=Board(emulator, code, constants, ram, hz, "cortex-m", link, uart), **fields)


def _rv32(name, abi):
    """A row for a 32-bit RISC-V under picolibc, which has startup code and linker script."""
    # Its C library writes to the console of semihosting, which is stderr unless a device has it.
    emulator = ("qemu-system-riscv32", "-M", "virt", "-cpu", "rv32", "-bios", "none", *_SEMIHOSTED, "-chardev",
                "stdio,id=console", "-semihosting-config", "enable=on,target=native,chardev=console", "-kernel")
    cpu = (f"-march={name}", f"-mabi={abi}")
    link = ("--oslib=semihost", "--crt0=semihost", "-Wl,--defsym=__flash=0x80000000",
            "-Wl,--defsym=__flash_size=0x01000000", "-Wl,--defsym=__ram=0x81000000",
            "-Wl,--defsym=__ram_size=0x02000000", "-Wl,--defsym=__stack_size=0x4000")
    return Toolchain(name, "riscv32", (*COMMON, *cpu, "--specs=picolibc.specs", "-DINGOT_SIMD_SCALAR"),
                     cc=("riscv64-unknown-elf-gcc",), runner=emulator,
                     package="gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc",
                     board=Board(emulator, hz=10**9, link=link, named=False))


# ---------------------------------------------------------------- WebAssembly

WASI = "wasi.js"


def _wasm(name, *flags):
    """A row for WebAssembly under WASI: clang, LLVM's linker, wasi-libc and Node.js."""
    return Toolchain(name, "wasm32", (*COMMON, "--target=wasm32-wasi", *flags), cc=("clang",), engine=WASI,
                     package="clang lld wasi-libc libclang-rt-14-dev-wasm32 nodejs",
                     runner=("node", "--no-warnings", "--experimental-wasi-unstable-preview1", WASI))


# Of each machine: code, constants, RAM, ticks of the timer in a second, the first serial port.
_MPS2 = (0x0, 4 * _MB), (0x0, 4 * _MB), (0x20000000, 4 * _MB), 25_000_000, 0x40004000
_AN505 = (0x10000000, 4 * _MB), (0x10000000, 4 * _MB), (0x80000000, 16 * _MB), 20_000_000, 0x50200000
_AN547 = (0x0, _MB // 2), (0x60000000, 32 * _MB), (0x62000000, 32 * _MB), 32_000_000, 0x59303000
_SP, _HARD = "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"
_BOARDS = (
    _cortex("cortex-m0plus", ("-mcpu=cortex-m0plus", "-mfloat-abi=soft"), "mps2-an385", *_MPS2),
    _cortex("cortex-m3", ("-mcpu=cortex-m3", "-mfloat-abi=soft"), "mps2-an385", *_MPS2),
    _cortex("cortex-m4f", ("-mcpu=cortex-m4", _HARD, _SP), "mps2-an386", *_MPS2, gcc_cflags=_TILED),
    _cortex("cortex-m7", ("-mcpu=cortex-m7", _HARD, "-mfpu=fpv5-d16"), "mps2-an500", *_MPS2,
            gcc_cflags=_TILED),
    _cortex("cortex-m33", ("-mcpu=cortex-m33", _HARD, "-mfpu=fpv5-sp-d16"), "mps2-an505", *_AN505,
            gcc_cflags=_TILED),
    _cortex("cortex-m55", ("-mcpu=cortex-m55", _HARD), "mps3-an547", *_AN547, vectors=True),
    # Compilers know the name from gcc 13 on; QEMU has no such board.
    _cortex("cortex-m85", ("-march=armv8.1-m.main+mve.fp+fp.dp", "-mtune=cortex-m55", _HARD), "mps3-an547", *_AN547,
            vectors=True),
    _rv32("rv32imc", "ilp32"),
    _rv32("rv32imafc", "ilp32f"),
)
TOOLCHAINS = {row.name: row for row in (
    _V2, _V3, _V4, _V4_VNNI, _V4_VBMI,
    # Compilers: gcc 11, clang 12.
    replace(_V3, name="x86-64-v3-vnni", cflags=(*_V3.cflags, "-mavxvnni"),
            cpus=("x86-64-v3-vnni", "alderlake", "arrowlake", "meteorlake")),
    replace(_V4_VBMI, name="x86-64-v4-zen4", cflags=(*_V4_VBMI.cflags, "-mavx512vbmi2"),
            cpus=("x86-64-v4-zen4", "znver4"),
            made_for=frozenset({"AuthenticAMD", "family 25"})),
    replace(_V4_VBMI, name="x86-64-v4-bf16", cflags=(*_V4_VBMI.cflags, "-mavx512bf16"), cpus=("x86-64-v4-bf16",)),
    # Compilers: gcc 11, clang 12.
    replace(_V4_VBMI, name="x86-64-v4-amx", cflags=(*_V4_VBMI.cflags, "-mamx-tile", "-mamx-int8"),
            cpus=tuple("x86-64-v4-amx sapphirerapids emeraldrapids graniterapids".split())),
    _linux("aarch64-linux-gnu", "aarch64", ("-march=armv8-a",), "aarch64-linux-gnu", ("qemu-aarch64",)),
    _linux("aarch64-dotprod", "aarch64", ("-march=armv8.2-a+dotprod",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max"), cpus=("cortex-a55", "cortex-a75", "cortex-a78")),
    _linux("aarch64-i8mm", "aarch64", ("-march=armv8.2-a+dotprod+i8mm",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max")),
    _linux("aarch64-fp16", "aarch64", ("-march=armv8.2-a+dotprod+fp16",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max")),
    _linux("aarch64-bf16", "aarch64", ("-march=armv8.2-a+dotprod+fp16+i8mm+bf16",), "aarch64-linux-gnu",
           ("qemu-aarch64", "-cpu", "max"), cpus=("cortex-a510", "cortex-a710", "neoverse-n2", "neoverse-v1")),
    _linux("aarch64-neoverse-n1", "aarch64", ("-mcpu=neoverse-n1",), "aarch64-linux-gnu", ("qemu-aarch64",),
           cpus=("neoverse-n1",), made_for=frozenset({"part 0xd0c"})),
    _linux("armv7-linux-gnueabihf", "armv7l", ("-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
           "arm-linux-gnueabihf", ("qemu-arm",)),
    *(_linux(f"aarch64-{cpu}", "aarch64", (f"-mcpu={cpu}",), "aarch64-linux-gnu", ("qemu-aarch64",), cpus=(cpu,),
             made_for=frozenset({f"part {part}"}))
      for cpu, part in (("cortex-a53", "0xd03"), ("cortex-a72", "0xd08"), ("cortex-a76", "0xd0b"))),
    _linux("armv7-vfpv3-linux-gnueabihf", "armv7l",
           ("-march=armv7-a", "-mfpu=vfpv3-d16", "-mfloat-abi=hard", "-DINGOT_SIMD_SCALAR"), "arm-linux-gnueabihf",
           ("qemu-arm",)),
    _linux("riscv64-linux-gnu", "riscv64", ("-march=rv64gc", "-mabi=lp64d", "-DINGOT_SIMD_SCALAR"),
           "riscv64-linux-gnu", ("qemu-riscv64",)),
    _linux("riscv64-v", "riscv64", ("-march=rv64gcv", "-mabi=lp64d"), "riscv64-linux-gnu",
           ("qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128"), least=(("gcc", 14), ("clang", 17)),
           other_cc=tuple(f"clang{end} --target=riscv64-linux-gnu" for end in ("", "-19", "-20", "-18", "-17"))),
    _linux("s390x-linux-gnu", "s390x", (), "s390x-linux-gnu", ("qemu-s390x",)),
    *_BOARDS,
    _wasm("wasm32", "-DINGOT_SIMD_SCALAR"),
    _wasm("wasm32-simd128", "-msimd128"),
    Toolchain("c-simd", "any", COMMON, gcc_cflags=_V3.gcc_cflags),
    Toolchain("c", "any", (*COMMON, "-DINGOT_SIMD_SCALAR"), cpus=("generic", "x86-64")),
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
