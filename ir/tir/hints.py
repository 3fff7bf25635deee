"""Hints: what a rule, a pass or a program tells a later pass through a loop or a block, one row each.

A hint is the key of an annotation, with the type of its values and who consumes it. Loops and blocks refuse values of
another type; VerifyHints, the last pass over loops, refuses hints that nothing consumed. Annotations with other keys
mean nothing here, and stay.
"""
from __future__ import annotations

from dataclasses import dataclass

from ..expr import IntImm, StringImm

PRINTER = "the C printer"
READER = "whoever reads the program"


def _is_text(value):
    return isinstance(value, (str, StringImm))


def _is_number(value):
    return isinstance(value, (int, IntImm))


def _are_texts(value):
    return isinstance(value, (list, tuple)) and all(map(_is_text, value))


def _are_numbers(value):
    return isinstance(value, (list, tuple)) and all(map(_is_number, value))


# What a value is -> whether it is that. Parsed programs have immediates in place of Python's values.
FLAG, COUNT, TEXT, NAMES, NUMBERS, TURNS, ALIGNMENTS = (
    "0 or 1", "an integer", "a text", "a list of buffers' names", "a list of integers", "{a buffer's name: an integer}",
    "a list of (position among the writes, axis, factor, offset)")
_FITS = {FLAG: _is_number, COUNT: _is_number, TEXT: _is_text, NAMES: _are_texts, NUMBERS: _are_numbers,
         TURNS: lambda value: isinstance(value, dict) and _are_numbers([*value.values()]), ALIGNMENTS: lambda value: True}


@dataclass(frozen=True)
class Hint:
    """A row: the key of the annotation, the type of its values, and who consumes it: names of passes, PRINTER or
    READER."""

    name: str
    type: str
    consumed_by: tuple[str, ...]

    def check(self, value):
        """Raises TypeError unless `value` is of the hint's type."""
        if not _FITS[self.type](value):
            raise TypeError(f"the hint {self.name!r} is {self.type}, not {value!r}")


HINTS = {}  # name -> row


def _row(name, type, *consumed_by):
    """Add a row, and return its name."""
    HINTS[name] = Hint(name, type, consumed_by)
    return name


# Register tiles
UNROLL = _row("pragma_unroll", COUNT, PRINTER)  # iterations that the C compiler unrolls; HoistIndex reads it
ACCUMULATE = _row("pragma_accumulate", FLAG, "Accumulate")  # a loop around a tile of sums
DOT_ROW = _row("pragma_dot_row", FLAG, "DotRows")  # a loop over the bytes of two rows that are multiplied
LANES = _row("pragma_lanes", NAMES, "LaneIndexedFMA")  # operands that come in vectors, element after element
PAIRS = _row("pragma_pairs", FLAG, "MatrixDots")  # over the terms of a tile of dot products, which are 0 before
HOLD = _row("pragma_hold", FLAG, "RegisterPromote")  # a loop that copies vectors to registers
TRANSPOSE = _row("pragma_transpose", FLAG, "RegisterTranspose")  # around a vectorized loop that reads across
MOST_ITERATIONS = _row("pragma_most_turns", COUNT, PRINTER)  # of an unrolled loop in a tile whose extent is a variable
# Attributes: around a tile, the lets of what it starts at and takes inside; around its statements, that the indices of
# the buffer, the target, start at a variable, the value.
TILE = _row("pragma_tile", FLAG, PRINTER)
TILE_START = _row("pragma_tile_start", COUNT, PRINTER)
BORDER = _row("pragma_border", TEXT, PRINTER)  # an attribute around a copy of a loop's body: which iterations it does
# Vectors
REDUCE_LANES = _row("reduce_lanes", FLAG, "VectorizeLoop")  # a loop over lanes: any order will do, so that a tree may
FULL_LANES = _row("vector_lanes", COUNT, "VectorizeLoop")  # of a shortened vectorized loop: the lanes that it had
SCALAR = _row("simd", TEXT, READER)  # why a loop that was to be vectorized is serial
# Copies of loops
EXPLICIT = _row("pragma_unroll_explicit", FLAG, "UnrollCopies", "UnrollLoop")
STEPS = _row("pragma_auto_unroll_max_step", COUNT, "UnrollLoop")
WHOLE = _row("pragma_loop_partition_hint", FLAG, "LoopPartition")  # 0: guards stand outside of all that takes time
# Prefetches
PREFETCH = _row("pragma_prefetch", NAMES, "InjectPrefetch")
PREFETCH_AHEAD = _row("pragma_prefetch_ahead", NAMES, "InjectPrefetch")
PREFETCH_FAR = _row("pragma_prefetch_far", NAMES, "InjectPrefetch")
PREFETCH_TURNS = _row("pragma_prefetch_turns", TURNS, "InjectPrefetch")  # how many turns of the loop before it is read
# Threads. Of nested parallel loops THREAD_ROWS marks the innermost: its iterations are divided among threads, each of
# which does its own in all iterations of the loops around. THREAD_OWN: each thread does its own chunk, and steals none.
# EACH_THREAD: a serial loop beside parallel ones that each thread runs for itself, with the buffers that the kernel
# declares for it, inside or around, on its own stack. Nobody waits, and nothing passes between cores.
THREAD_ROWS = _row("pragma_thread_rows", FLAG, PRINTER)
THREAD_OWN = _row("pragma_thread_own", FLAG, PRINTER)
EACH_THREAD = _row("pragma_each_thread", FLAG, PRINTER)
# Software pipelines: of a loop, the stage and the place in a turn of each statement in it, and the stages whose copies
# are asynchronous; of a block, the position among its writes of a buffer that a loop around fills while it is read.
STAGES = _row("software_pipeline_stage", NUMBERS, "InjectSoftwarePipeline")
ORDER = _row("software_pipeline_order", NUMBERS, "InjectSoftwarePipeline")
ASYNC_STAGES = _row("software_pipeline_async_stages", NUMBERS, "InjectSoftwarePipeline")
# LAG: turns for which what statements read of copies has to stay after them, as the hardware reads on.
LAG = _row("software_pipeline_lag", COUNT, "InjectSoftwarePipeline")
# RING: stages of shared memory that a warp of its own fills ahead of the loop, and that mbarriers hand on.
RING = _row("software_pipeline_ring", COUNT, "SpecializeWarps")
DOUBLE_BUFFER = _row("double_buffer_scope", COUNT, "InjectDoubleBuffer")
# C, and memory
IMPORT_C = _row("pragma_import_c", TEXT, "LiftImports")
IMPORT_LLVM = _row("pragma_import_llvm", TEXT, "LiftImports")  # what contrib.clang gives: C, too
DIM_ALIGN = _row("buffer_dim_align", ALIGNMENTS, "LowerOpaqueBlock")  # of a block
SWIZZLE = _row("buffer_swizzle", COUNT, "SwizzleShared")  # of a block: the position among its writes


def check_hints(annotations):
    """Raises TypeError where an annotation is a hint with a value of another type."""
    for key, value in annotations.items():
        hint = HINTS.get(key)
        if hint is not None:
            hint.check(value)
