"""Dialects of C as data: how each writes types, numbers, functions, memories and loops.

Printers write what the dialects share; what a row cannot say is a method that a subclass of the printer overrides.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.tir.intrinsics import ALL_INTRINSICS, ALL_ROUNDS
from .c_types import C_TYPES, NUMBERS, UnsupportedType, c_type
from .team import TEMPLATES

# dtype -> the functions of the runtime that give its bits, and the number of given ones
FLOAT_BITS = {"float32": ("f32x1_bits", "f32x1_from_bits"), "float64": ("ingot_f64_bits", "ingot_f64_from_bits")}


@dataclass(frozen=True)
class Dialect:
    """How a dialect of C writes what the printers share.

    name        in messages
    types       {dtype of one lane: type}
    vectors     {dtype: type}, with which the names of its functions begin
    index       the type of what is only added up to indices, of as many bits as addresses
    numbers     as c_types.NUMBERS
    math        {dtype: {intrinsic: as the rows of ir/tir/intrinsics.py spell it}}
    bits        {dtype: (the function that gives its bits, that of the number of given bits)}
    runtime     what the names of the runtime's functions begin with
    headers     {what is used: header}: "vectors", "integer vectors", "helpers" (functions of the runtime), "libm",
                "half", "team", "packed" (what packed functions are called with)
    entry       before the declaration of a kernel; inline: of a function that kernels call
    failure     (type of a kernel that can fail, its statement where a message says why, its last); None: none can
    restrict    before a pointer that alone reaches what it points to
    pointers    {scope of a buffer: the qualifier of a pointer to it}; memories: of its declaration
    constant    before an array whose elements stand in a kernel, which have at most so many bytes: most_constant
    aligned     before an array that vectors are loaded from, if it has at least so many bytes: least_aligned
    unroll      before a loop of which {count} turns become copies
    parallel    before a loop, or the first of a nest that {collapse} tells of, whose iterations threads share; None:
    there
                are only bound ones
    collapse    of {count} loops
    prefetch    (function that asks for a cache line, one for what is some bytes ahead)
    threads     {thread_tag: the number of a thread in a group, or of a group}
    barriers    {scope: the call that waits until what threads of a group wrote there is seen}
    atomics     {intrinsic: function}
    reserved    names that kernels and variables may not have, beside those of C and C++
    worker      the type of the first parameter of kernels that a team calls
    templates   {attribute: template} of statements around others (team.py); a team of threads calls kernels if there
                are some
    """

    name: str
    types: dict
    vectors: dict
    numbers: dict
    math: dict
    bits: dict
    index: str
    headers: dict = field(default_factory=dict)
    runtime: str = ""
    entry: str = ""
    inline: str = ""
    failure: tuple[str, str, str] | None = None
    restrict: str = ""
    pointers: dict = field(default_factory=dict)
    memories: dict = field(default_factory=dict)
    constant: str = "static const "
    most_constant: int = 1 << 62
    aligned: str = ""
    least_aligned: int = 16
    unroll: str = ""
    parallel: str | None = None
    collapse: str = ""
    prefetch: tuple[str, str] | None = None
    threads: dict = field(default_factory=dict)
    barriers: dict = field(default_factory=dict)
    atomics: dict = field(default_factory=dict)
    reserved: frozenset = frozenset()
    worker: str = ""
    templates: dict = field(default_factory=dict)

    def type(self, dtype):
        """The type of a dtype. Raises UnsupportedType where there is none."""
        if dtype.lanes > 1:
            return self.vector(dtype)
        return self.types[dtype] if dtype in self.types else c_type(dtype)

    def vector(self, dtype):
        """The type of a vector dtype, which the names of its functions begin with."""
        if dtype not in self.vectors:
            raise UnsupportedType(f"{self.headers.get('vectors', self.name)} has no vector of {dtype}")
        return self.vectors[dtype]


def spelled(kind, dtype):
    """{intrinsic: its spelling} of those that have one in a kind of target, for a dtype."""
    key = f"{kind} {dtype}"
    return {name: row.spellings[key] for name, row in ALL_INTRINSICS.items() if key in row.spellings}


# What targets of kind "c" compile: C99, with the runtime of runtime_c/ and OpenMP's threads.
C = Dialect(
    name="C", types=C_TYPES, numbers=NUMBERS, bits=FLOAT_BITS, index="ingot_index",
    vectors={f"{d}x{n}": f"{short}x{n}" for d, short in (("float32", "f32"), ("int32", "i32")) for n in (4, 8, 16)}
    | {"float16x8": "f16x8"},
    math={dtype: spelled("c", dtype) for dtype in ("float32", "float64", "int32", *ALL_ROUNDS)},
    runtime="ingot_", headers={"vectors": "simd.h", "integer vectors": "simd_integer.h", "helpers": "ingot_math.h",
                               "libm": "math.h", "half": "ingot_half.h", "half vectors": "simd_half.h",
                               "half arithmetic": "simd_f16.h", "team": "ingot_team.h",
                               "packed": "ingot_module.h"},
    inline="INGOT_INLINE ", failure=("const char *", 'return "{message}";', "return NULL;"),
    restrict="INGOT_RESTRICT ", aligned="INGOT_ALIGNED(64) ", unroll="INGOT_UNROLL({count})",
    parallel="INGOT_OMP(parallel for{collapse} schedule(static))", collapse=" collapse({count})",
    prefetch=("INGOT_PREFETCH", "INGOT_PREFETCH_AHEAD"), worker="ingot_worker *", templates=TEMPLATES)
