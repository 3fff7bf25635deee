"""Attention on tensor cores (sm_80): what ir/relax/ops/attention_cores.py writes, on threads.

    for batch, heads, 16 queries of each warp (blocks):
        queries -> shared memory -> fragments
        for keys, a block at a time:
            keys, values -> shared memory                           (all threads, 16 bytes each)
            scores = queries * keys                                 (mma.sync)
            greatest score, weights and their sum, of each row      (the four lanes that have the row)
            sums = sums * shrinking + weights * values              (mma.sync)
        result = sums / sum of weights

A warp is threads of axes x and y, 4 x 8, so that loops say which lane holds what of a fragment.
"""
from __future__ import annotations

from functools import partial

from ....node import collect
from ....tir.hints import ASYNC_STAGES, ORDER, STAGES, UNROLL
from ....tir.stmt import Block
from ...intrin.cuda import get_wmma_intrin_group
from ...plan import Fixed, Match
from ..blocks import find_block
from .nests import nests, shared_loops
from .stepwise import bind_blocks
from .tensor_core_product import CHUNK

AXES = {"w": "threadIdx.z", "g": "threadIdx.y", "t": "threadIdx.x"}
ROWS, LANES = 8, 4  # of a warp, along y and x
# Of what stages write; all else is in registers of a thread.
SCOPES = {**dict.fromkeys(("query", "keys", "values", "strip"), "shared"),
          **dict.fromkeys(("left", "weights"), "wmma.matrix_a"),
          **dict.fromkeys(("right_scores", "right_values"), "wmma.matrix_b"),
          **dict.fromkeys(("start_scores", "start_sums"), "wmma.accumulator")}
COPIES = ("query", "keys", "values", "result")
TILES = {"left": "load_a", "right_scores": "load_turned", "right_values": "load_b", "start_scores": "init",
         "start_sums": "init", "multiply_scores": "compute", "multiply_values": "compute"}  # what does these stages


def attention_cores(sch, target):
    """nn.attention with the arithmetic "mma"."""
    name = find_block(sch, lambda block: block.name_hint == "cores_rows") if "sm_80" in target.isa else None
    return name and Match(Fixed("attention_cores"), partial(_apply, sch))


def _apply(sch, plan, target):
    (nest,) = nests(sch)
    bind_blocks(sch, shared_loops(sch, nest))
    rows = sch.get(nest[0])
    stages = {b.name_hint.removeprefix("cores_"): b for b in collect(rows.body, Block)}
    held = stages["left"].writes[0].buffer
    names = get_wmma_intrin_group("shared", "shared", str(held.dtype), "float32", False)
    names["load_turned"] = names["load_b"].replace("_shared", "_by_column_shared")
    _place(sch, stages, rows)
    for stage in stages:
        block = sch.get_block("cores_" + stage)
        if SCOPES.get(stage) == "shared":
            sch.storage_align(block, 0, -2, 2 * CHUNK, CHUNK)
        if stage in COPIES:
            _copy(sch, block, held.shape[0].value)
        elif stage != "step":
            _share(sch, block, names.get(TILES.get(stage)))
    _run_ahead(sch, sch.get_block("cores_step"))


def _place(sch, stages, rows):
    """Where what stages hand on is, by the first that writes it."""
    own = [b for block in (rows, *stages.values()) for b in block.alloc_buffers]
    for stage, block in stages.items():
        buffer = block.writes[0].buffer
        if buffer in own and not block.alloc_buffers:
            own.remove(buffer)
            sch.set_scope(sch.get_block("cores_" + stage), 0, SCOPES.get(stage, "local"))


def _run_ahead(sch, step):
    """Fetch the keys and values of the next block while one is worked on."""
    (scan,), stages = sch.get_loops(step)[-1:], sch.get(step).body.seq
    ahead = [any(b.name_hint in ("cores_keys", "cores_values") for b in collect(s, Block)) for s in stages]
    sch.annotate(scan, STAGES, [0 if a else 1 for a in ahead])
    sch.annotate(scan, ORDER, [*range(len(stages))])
    sch.annotate(scan, ASYNC_STAGES, [0])
    sch.annotate(scan, UNROLL, 1)


def _copy(sch, block, warps):
    """Copy rows to shared memory, by all threads, or from there, by each warp its own, 16 bytes at a time."""
    *warp, rows, chunks, chunk = sch.get_loops(block)[-len(sch.get(block).iter_vars):]
    if not warp:
        turns, *threads = sch.split(sch.fuse(rows, chunks), [None, warps, ROWS, LANES])
    else:
        turns, *threads = sch.split(sch.fuse(rows, chunks), [None, ROWS, LANES])
        threads = [*warp, *threads]
    for loop, axis in zip(threads, AXES.values()):
        sch.bind(loop, axis)
    sch.unroll(turns)
    sch.vectorize(chunk)


def _share(sch, block, intrinsic):
    """Let threads share a stage, each what it has of it. intrinsic: that does it to a tile; None for elements."""
    loops = {sch.get(loop).loop_var.name: loop for loop in sch.get_loops(block)[-len(sch.get(block).iter_vars):]}
    if intrinsic is not None:
        sch.tensorize(loops["i"], intrinsic)
    for label, loop in loops.items():
        if label in AXES:
            sch.bind(loop, AXES[label])
        elif label == "e" and sch.get(block).name_hint == "cores_strip":
            sch.vectorize(loop)
        elif intrinsic is None or label == "o":
            sch.unroll(loop)
