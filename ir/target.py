"""Targets: what is known of a machine, once, as rows of data.

Rules, cost models, passes and printers read a Target; nothing else describes a machine. How C is built for it is a row
of codegen/toolchains.py with the same name.
"""
from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property

from .costs import BASE, SCALAR, Table
from .measured import MEASURED
from .target_attributes import Attributes

BYTE_ORDERS = ("little", "big")
VECTOR_LANES = (4, 8, 16)  # float32 lanes of the vectors that runtime_c/simd.h has
MANY_THREADS = 64  # as many as have a chunk of their own (runtime_c/ingot_team.h)

# What rules ask for that an instruction set brings: any of these words of `isa`.
FEATURES = {
    "by_element": {"neon", "asimd"},  # an FMA takes one lane of a register for all lanes of an operand
    "by_number": {"v"},                # an FMA takes a number, in a register of its own, for all lanes of an operand
    "dot_u8s8": {"avx512_vnni", "avx_vnni", "i8mm"},  # adds up four products of bytes without a sign and with one
    "dot_s8s8": {"asimddp"},          # the same of bytes that both have a sign, or both have none
    "dot_pairs": {"dsp"},              # multiplies pairs of 16 bits, and adds both products
    "dot_rows": {"mve"},               # multiplies rows of 16 bytes, and adds up all products
    "byte_columns": {"mve"},           # vectors of four bytes or results, widened, beside single sums
    "products_s8s8": {"asimd", "mve"},  # multiplies bytes that both have a sign, or both have none, without widening
    "dot_s16s16": {"sse4_1", "avx2"},  # adds up two products of 16 bits
    "matrix_dots": {"i8mm"},          # the same of two rows by two columns, eight products each
    "dot_bf16": {"avx512_bf16", "bf16"},  # adds up two products of bfloat16 in float32
    "matrix_dot_bf16": {"bf16"},      # the same of two rows by two columns, four products each
    "half_vectors": {"asimdhp"},      # computes in vectors of float16
    "half_sums": {"fp16"},            # and does so where it may, for it was asked (codegen/compile.py)
    "integer_tiles": {"amx_int8"},    # a unit multiplies tiles of 8-bit integers (runtime_c/ingot_tiles.h)
}

# The targets of the `with` statements around, innermost last.
_ENTERED = ContextVar("targets", default=())


class TargetError(ValueError):
    """An unknown target name, or a flag of one."""


class TargetKind(str):
    """The dialect that a target's programs are written in; what TVM calls a target's kind, with a name: of a target
    that a script calls "llvm", that."""

    def __new__(cls, dialect, name=None):
        kind = super().__new__(cls, dialect)
        kind.name = name or str(dialect)
        return kind


def kind_of(target):
    """The kind that a program's target says: a Target, its text, or a dict of options of a target without a row."""
    kind = target.get("kind") if isinstance(target, dict) else getattr(target, "kind", target)
    return str(kind).split()[0].split("-")[0]


@dataclass(frozen=True)
class Memory:
    """A memory that buffers of a scope lie in: its size in bytes (None: not limited here), the alignment of buffers in
    bytes, and how the dialect qualifies their declarations."""

    scope: str
    bytes: int | None = None
    align: int = 64
    qualifier: str = ""


@dataclass(frozen=True)
class Vector:
    """Vectors of one dtype: lanes of a register, registers, and how many of them the sums of a register tile may take
    (None: all that its operands leave). Fewer where an FMA cannot read memory: compilers then load ahead, into
    registers that they take from the tile."""

    lanes: int
    registers: int
    accumulators: int | None = None


@dataclass(frozen=True)
class Threads:
    """most: threads that may share a loop, 1 for none. stack_bytes: that a run may take of each by default.
    local_bytes: of what a rule puts on the stack of a thread that shares a loop."""

    most: int = MANY_THREADS
    stack_bytes: int = 16 << 10
    local_bytes: int = 1920 << 10


@dataclass(frozen=True)
class Limits:
    """What a launch of a kernel may ask of a GPU.

    warp               threads that run together
    max_threads        of a block
    shared_bytes       of shared memory that a kernel may declare
    shared_dyn_bytes   of a block that asks for them when it is launched
    registers          of 32 bits in a multiprocessor
    max_registers      of a thread
    grid, block        the greatest extents along x, y and z
    sms                multiprocessors
    """

    warp: int = 32
    max_threads: int = 1024
    shared_bytes: int = 48 << 10
    shared_dyn_bytes: int = 163 << 10
    registers: int = 64 << 10
    max_registers: int = 255
    grid: tuple[int, int, int] = ((1 << 31) - 1, 65535, 65535)
    block: tuple[int, int, int] = (1024, 1024, 64)
    sms: int = 108


class _Named(type):
    """Target("llvm -mcpu=znver4") is the row of that name, Target("cuda", host="llvm") one with a host; with fields, a
    new row."""

    def __call__(cls, target=None, host=None, **fields):
        if fields:
            return super().__call__(**fields, host=host) if target is None else super().__call__(
                target, **fields, host=host)
        row = cls.get(target)
        return row if host is None else row.with_host(host)


@dataclass(frozen=True, repr=False)
class Target(Attributes, metaclass=_Named):
    """The description of a machine that the compiler reads.

    name          the row's name, which the generated files carry
    kind          the dialect of its programs: "c", "cuda" or "opencl"
    isa           instruction sets and units, by the words of /proc/cpuinfo
    vectors       {dtype: Vector}; a dtype without one is computed element by element
    memories      where buffers of each scope lie
    threads       how loops are shared
    launch        the Limits of a device that kernels are launched on; None for a CPU
    host          the Target whose programs call this one's; None: not said
    costs         {name: Cost} (costs.py)
    freestanding  whether programs have no C library around them
    byte_order    "little" or "big", of numbers in memory
    options       the flags of the target string that chose the row, which scripts ask for; those that it heeds are in the other fields
    """

    name: str
    kind: str = TargetKind("c")
    isa: frozenset[str] = frozenset()
    vectors: Table = field(default_factory=Table)
    memories: tuple[Memory, ...] = (Memory("global"), Memory("local"))
    threads: Threads = Threads()
    launch: Limits | None = None
    host: Target | None = None
    costs: Table = BASE
    freestanding: bool = False
    byte_order: str = "little"
    options: tuple = field(default=(), compare=False)

    @staticmethod
    def get(target):
        """The row called `target`; a Target is returned as it is. Raises TargetError, which lists the known names.

        "host" is this machine's best row. "llvm -mcpu=NAME -mtriple=NAME", as TVM has it, is the row that fits, by
        default the host's; so is the dict {"kind": "llvm", "mcpu": NAME}.
        """
        return target if isinstance(target, Target) else RESOLVERS[-1](target)

    @staticmethod
    def from_device(device):
        """The target of a device, such as tvm.cpu() or "cuda:0": "host" of the CPU, else the row of its kind, of a GPU
        that is there the one of its compute version."""
        kind, version = re.match(r"\w*", str(device)).group(), getattr(device, "compute_version", None)
        if kind == "cuda" and version:
            return Target.get(f"cuda -arch=sm_{version.replace('.', '')}")
        return Target.get("host" if kind in ("cpu", "llvm", "c") else kind)

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

    @staticmethod
    def names():
        """Every name that `get` accepts, "host" first."""
        return ("host", *ROWS)

    @staticmethod
    def list_kinds():
        """The kinds of targets that code is made for, and "llvm", as scripts call this machine."""
        return ["llvm", *dict.fromkeys(str(row.kind) for row in ROWS.values())]

    def derive(self, name, *, isa=(), costs=None, **fields):
        """A target that has more instruction sets, other costs and other fields than this one."""
        return replace(self, name=name, isa=self.isa | frozenset(isa), costs=Table({**self.costs, **(costs or {})}),
                       **fields)

    def with_host(self, host):
        """The target whose programs those of a host call: a Target, or what `get` knows one by."""
        return replace(self, host=Target.get(host))

    def without_host(self):
        """The target alone, as a kernel has it whose caller is a function of its own."""
        return self if self.host is None else replace(self, host=None)

    def without(self, feature):
        """The target as a rule sees it that makes no use of a feature."""
        return replace(self, isa=self.isa - FEATURES[feature])

    def alone(self):
        """The target as one thread sees it."""
        return replace(self, threads=replace(self.threads, most=1))

    def sparing(self, registers):
        """The target as a rule sees it that keeps so many vector registers for itself."""
        return self.holding(replace(self._float32, registers=self.registers - registers))

    def holding(self, vector):
        """The target as a rule sees it whose sums are held as a Vector says."""
        return replace(self, vectors=Table({**self.vectors, "float32": vector}))

    def summing(self, accumulators):
        """The target as a rule sees it that puts so many sums in registers."""
        own = replace(self._float32, accumulators=accumulators)
        return replace(self, vectors=Table({**self.vectors, "float32": own}))

    def cost(self, name):
        """The value of a cost, in the unit that its row has."""
        return self._values[name]

    @cached_property
    def _values(self):
        return {name: cost.value for name, cost in self.costs.items()}

    @property
    def multiplies_bytes(self):
        """Whether products of bytes and constants of bytes, added up in int32, are computed as they are: by
        instructions of the target or by products of 16 bits. GPUs compute them as floats."""
        return self.kind == "c"

    def dots(self, rows, columns):
        """How well the target multiplies bytes of these dtypes, "int8" or "uint8": 2 where an instruction adds up
        products of four, 1 where one multiplies bytes, 0 where they are widened before."""
        if not FEATURES["dot_s8s8" if rows == columns else "dot_u8s8"].isdisjoint(self.isa):
            return 2
        return int(rows == columns and not FEATURES["products_s8s8"].isdisjoint(self.isa))

    @property
    def multiplies_shorts(self):
        """Whether vectors multiply integers of 16 bits as pairs: where an instruction does, or none adds up products of
        bytes, of which these are two."""
        return self.multiplies_pairs and (
            not FEATURES["dot_s16s16"].isdisjoint(self.isa) or self.dots("int8", "int8") < 2)

    @property
    def multiplies_pairs(self):
        """Whether vectors multiply pairs of integers of 16 bits, be it more slowly than bytes."""
        return self.multiplies_bytes and self.lanes > 1

    def __str__(self):
        return self.name

    def __repr__(self):
        """As scripts spell it."""
        host = "" if self.host is None else f", host={self.host.spelled!r}"
        return f"T.target({self.spelled!r}{host})".replace("'", '"')

    # ------------------------------------------------------------ what rules ask for most

    @cached_property
    def _float32(self):
        return self.vectors.get("float32", Vector(1, 16))

    @cached_property
    def lanes(self):
        """float32 lanes of a vector, 1 without SIMD."""
        return self._float32.lanes

    @cached_property
    def has_tiles(self):
        """Whether registers hold tiles of sums: how many there are is known."""
        return "float32" in self.vectors

    @cached_property
    def registers(self):
        return self._float32.registers

    @cached_property
    def accumulators(self):
        return self._float32.accumulators

    @cached_property
    def register_bytes(self):
        """Bytes of all vector registers."""
        return self.registers * 4 * self.lanes

    @cached_property
    def parallel(self):
        """Whether threads share loops."""
        return self.threads.most > 1

    @cached_property
    def by_element(self):
        return not FEATURES["by_element"].isdisjoint(self.isa)

    @cached_property
    def by_number(self):
        return not FEATURES["by_number"].isdisjoint(self.isa)

    @cached_property
    def dot_pairs(self):
        return not FEATURES["dot_pairs"].isdisjoint(self.isa)

    @cached_property
    def dot_rows(self):
        return not FEATURES["dot_rows"].isdisjoint(self.isa)

    @cached_property
    def columns(self):
        """The target as rules see it that make vectors of what lies in a row, where it has vectors beside tiles of
        single numbers; None elsewhere."""
        return None if FEATURES["byte_columns"].isdisjoint(self.isa) else self.holding(_FOUR)

    @cached_property
    def integers(self):
        """The Vector of single int32 numbers where registers hold tiles of them; None elsewhere."""
        own = self.vectors.get("int32")
        return own if own and self.lanes == 1 else None

    @cached_property
    def dots_by_lane(self):
        """The names of the products of words that take one lane of a register for all of an operand."""
        if not self.by_element:
            return ()
        signs = {"s": "int8", "u": "uint8"}
        bytes_ = (f"dot_{x}8{y}8" for x in signs for y in signs if self.dots(signs[x], signs[y]) == 2)
        shorts = ("dot_s16s16",) if "asimd" in self.isa and self.byte_order == "little" else ()
        return *bytes_, *shorts, *self.half_dots

    @cached_property
    def matrix_dots(self):
        """The names of the products of words that an instruction has of two rows by two columns."""
        bytes_ = () if FEATURES["matrix_dots"].isdisjoint(self.isa) else ("dot_s8s8", "dot_u8u8", "dot_u8s8")
        return bytes_ if FEATURES["matrix_dot_bf16"].isdisjoint(self.isa) else (*bytes_, *self.half_dots)

    @cached_property
    def half_dots(self):
        """The names of the products of words of two halves that an instruction has."""
        big = self.byte_order == "big"  # of whose words the halves lie the other way round
        return () if big or FEATURES["dot_bf16"].isdisjoint(self.isa) else ("dot_bf16",)

    @property
    def half_vectors(self):
        """Whether it computes in vectors of float16."""
        return not FEATURES["half_vectors"].isdisjoint(self.isa)

    @cached_property
    def halves(self):
        """The target as rules see it of functions that are computed in float16 (tir/halves.py); None where none are."""
        if not self.half_vectors or FEATURES["half_sums"].isdisjoint(self.isa):
            return None
        return self.holding(replace(self._float32, lanes=2 * self.lanes))

    @cached_property
    def tile_dots(self):
        """The names of the products of words that a unit for tiles of integers has."""
        return ("dot_s8s8", "dot_s8u8", "dot_u8s8", "dot_u8u8") if self.integer_tiles and self.lanes == 16 else ()

    @cached_property
    def integer_tiles(self):
        return not FEATURES["integer_tiles"].isdisjoint(self.isa)

    @cached_property
    def l1_bytes(self):
        return self.cost("l1_bytes")

    @cached_property
    def l2_bytes(self):
        return self.cost("l2_bytes")

    @cached_property
    def l3_bytes(self):
        return self.cost("l3_bytes")


def _row(name, parent=None, isa=(), vector=None, costs=None, integers=None, **fields):
    """A row that has the costs of BASE, or of its parent, further ones and its own (measured.py). vector: of
    float32; integers: of int32, where tiles of sums of bytes are of single numbers."""
    own = {dtype: v for dtype, v in (("float32", vector), ("int32", integers)) if v}
    if own:
        fields["vectors"] = Table(own)
    costs = {**(costs or {}), **MEASURED.get(name, {})}
    return (parent or Target(name, costs=BASE)).derive(name, isa=isa, costs=costs, **fields)


# x86-64's rows are the levels of its psABI, and processors that are faster with code of their own.
_V2 = _row("x86-64-v2", isa="cx16 popcnt sse4_1 sse4_2 ssse3".split(), vector=Vector(4, 16, accumulators=9))
_V3 = _row("x86-64-v3", isa="avx avx2 bmi1 bmi2 f16c fma movbe xsave".split(), vector=Vector(8, 16))
_V4 = _row("x86-64-v4", isa=_V3.isa.union("avx512f avx512bw avx512cd avx512dq avx512vl".split()), vector=Vector(16, 32))
_V4_VNNI = _row("x86-64-v4-vnni", _V4, isa={"avx512_vnni"})
_V4_VBMI = _row("x86-64-v4-vbmi", _V4_VNNI, isa={"avx512vbmi"})
# Arm: gcc 12 spills from 22 accumulators on, of 32 registers, and from 10 of 16.
_AARCH64 = _row("aarch64-linux-gnu", isa={"asimd"}, vector=Vector(4, 32, accumulators=21))
_ARMV8_2 = "asimddp asimdhp asimdrdm atomics crc32 fphp lrcpc".split()
# FPUs without vectors: gcc 12 keeps 20 sums in 32 registers beside their operands at -O2, -Os and -O3, spills with 24.
_SCALARS = Vector(1, 32, accumulators=20)
# Their integers, as gcc 12 keeps sums beside what it multiplies: 4 where words are taken apart, or where 8 registers
# are those of most instructions.
_LOW, _THUMB, _PAIRS, _RISCV = (Vector(1, n, accumulators=a) for n, a in ((8, 4), (13, 8), (13, 4), (29, 8)))
_FOUR = Vector(4, 8, accumulators=4)  # of Helium
_BOARD = {"costs": SCALAR, "threads": Threads(most=1, stack_bytes=2 << 10), "freestanding": True}
# Engines have as many registers as the processor below, at least 16.
_WASM = {"threads": Threads(most=1), "freestanding": True}
_ROWS = (
    _V2, _V3, _V4,
    # Products of bytes, four at a time: Intel's and AMD's processors for laptops since 2021 and 2022.
    _row("x86-64-v3-vnni", _V3, isa={"avx_vnni"}),
    _V4_VNNI,
    # Ice Lake and Zen 5: bytes are permuted, too.
    _V4_VBMI,
    # Zen 4 and 5, Sapphire Rapids: products of bfloat16, two at a time.
    _row("x86-64-v4-bf16", _V4_VBMI, isa={"avx512_bf16"}),
    # Halves of vectors go through units for 256 bits, of which FMAs and additions have two each.
    _row("x86-64-v4-zen4", _V4_VBMI, isa={"avx512_vbmi2"}),
    # What Intel's server processors have since 2023 (Sapphire Rapids).
    _row("x86-64-v4-amx", _V4_VBMI, isa={"amx_tile", "amx_int8"}),
    _AARCH64,
    _row("aarch64-dotprod", _AARCH64, isa={"asimddp"}),
    _row("aarch64-i8mm", _AARCH64, isa={"asimddp", "i8mm"}),
    _row("aarch64-fp16", _AARCH64, isa={"asimddp", "asimdhp", "fphp"}),
    _row("aarch64-bf16", _AARCH64, isa={"asimddp", "asimdhp", "fphp", "i8mm", "bf16"}),
    _row("aarch64-neoverse-n1", _AARCH64, isa=_ARMV8_2),
    _row("aarch64-cortex-a53", _AARCH64, isa={"crc32"}),
    _row("aarch64-cortex-a72", _AARCH64, isa={"crc32"}),
    _row("aarch64-cortex-a76", _AARCH64, isa=_ARMV8_2),
    _row("armv7-linux-gnueabihf", isa={"neon", "vfpv4"}, vector=Vector(4, 16, accumulators=9)),
    _row("s390x-linux-gnu", byte_order="big"),
    _row("riscv64-linux-gnu", vector=_SCALARS, costs=SCALAR),
    # Vectors of four registers, of which there are eight: of the length of 128 bits that each processor has at least.
    _row("riscv64-v", isa={"v"}, vector=Vector(16, 8, accumulators=6)),
    _row("armv7-vfpv3-linux-gnueabihf", isa={"vfpv3"}, vector=_SCALARS, costs=SCALAR),
    # Microcontrollers, by what computes floats: nothing, an FPU, vectors that only compilers make.
    *(_row(name, integers=own, **_BOARD) for name, own in (
        ("cortex-m0plus", _LOW), ("cortex-m3", _THUMB), ("rv32imc", _RISCV))),
    *(_row(name, isa=isa, vector=_SCALARS, integers=_PAIRS, **_BOARD) for name, isa in (
        ("cortex-m4f", {"dsp"}), ("cortex-m7", {"dsp"}), ("cortex-m33", {"dsp"}), ("cortex-m55", {"dsp", "mve"}),
        ("cortex-m85", {"dsp", "mve"}))),
    _row("rv32imafc", vector=_SCALARS, integers=_RISCV, **_BOARD),
    _row("wasm32", vector=Vector(1, 16, accumulators=9), costs=SCALAR, **_WASM),
    _row("wasm32-simd128", isa={"simd128"}, vector=Vector(4, 16, accumulators=9), **_WASM),
    # Any machine whose compiler has vectors of simd.h by its flags: one register of 8 floats, or two of 4.
    _row("c-simd", vector=Vector(8, 16)),
    _row("c", threads=Threads(stack_bytes=2 << 10)),  # any machine: loops that compilers make vectors of
)

# GPUs. A block of OpenCL's may have fewer threads and less memory than one of CUDA's: what every device has.
_GPU_MEMORIES = (Memory("global", align=256), Memory("shared", 48 << 10, 16, "__shared__"),
                 Memory("shared.dyn", 163 << 10, 16, "extern __shared__"), Memory("local", align=16),
                 Memory("warp", align=16))
_ONE = Threads(most=1)
_SM_80 = _row("cuda-sm_80", isa={"sm_80"}, vector=Vector(4, 64), kind=TargetKind("cuda"), threads=_ONE,
              memories=_GPU_MEMORIES, launch=Limits())
_GPU_ROWS = (
    _SM_80,
    _row("cuda-sm_90a", _SM_80, isa={"sm_90", "sm_90a"}, launch=Limits(shared_dyn_bytes=227 << 10, sms=132),
         memories=tuple(replace(m, bytes=227 << 10) if m.scope == "shared.dyn" else m for m in _GPU_MEMORIES)),
    _row("cuda", _SM_80),  # for both, and for newer ones by PTX
    _row("opencl", vector=Vector(4, 64), kind=TargetKind("opencl"), threads=_ONE,
         memories=(Memory("global", align=128, qualifier="__global"), Memory("shared", 32 << 10, 16, "__local"),
                   Memory("local", align=16)),
         launch=Limits(max_threads=256, shared_bytes=32 << 10, shared_dyn_bytes=32 << 10, block=(256, 256, 64),
                       sms=16)),
)
ROWS = {row.name: row for row in (*_ROWS, *_GPU_ROWS)}


def row_named(name):
    """The row of a name. Raises TargetError for another one."""
    if not isinstance(name, str) or name not in ROWS:
        raise TargetError(f"unknown target {name!r}; known: {', '.join(Target.names())}")
    return ROWS[name]


# How Target.get finds a row, the last one first: what knows this machine adds its own (codegen/target.py).
RESOLVERS = [row_named]
