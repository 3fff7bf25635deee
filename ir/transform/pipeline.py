"""The pass lists: what happens to a module between the importer and the printer, in order."""
from __future__ import annotations

from ..schedule.cpu import CpuModel
from .flatten import flatten_buffer
from .fold_constants import fold_constants
from .fold_scale import decompose_batch_norm, fold_scale_axis
from .fuse import fuse_ops
from .identities import remove_identities
from .loop_partition import loop_partition
from .lower_blocks import lower_blocks, lower_init_block
from .lower_ops import lower_ops
from .name_loops import name_loops
from .pack import pack_weights, split_padding
from .simplify import simplify
from .unguard_init import unguard_init
from .vectorize import rewrite_vector_types, vectorize_loop
from .workspace import lift_workspace


def graph_passes(opt_level, cpu: CpuModel):
    """[(name, IRModule -> IRModule)].

    opt_level 0: only what lowering needs; 1: folding, padding as an operator, fusion; 2: packed weights too.
    """
    passes = [("fold_constants", fold_constants), ("decompose_batch_norm", decompose_batch_norm)]
    if opt_level >= 1:
        passes += [("fold_scale_axis", fold_scale_axis), ("remove_identities", remove_identities),
                   ("split_padding", split_padding)]
    if opt_level >= 2:
        passes += [("pack_weights", lambda m: pack_weights(m, cpu.lanes))]
    if opt_level >= 1:
        passes += [("fuse_ops", fuse_ops)]
    return passes


# Each PrimFunc -> PrimFunc, after scheduling. Order: init needs blocks; partitioning needs the guards that lower_blocks
# writes and the loops still scalar; vectors need flat buffers; vector types need to see every access.
TIR_PASSES = [
    ("name_loops", name_loops),
    ("lower_init_block", lower_init_block),
    ("lower_blocks", lower_blocks),
    ("flatten_buffer", flatten_buffer),
    ("unguard_init", unguard_init),
    ("loop_partition", loop_partition),
    ("simplify", simplify),
    ("vectorize_loop", vectorize_loop),
    ("rewrite_vector_types", rewrite_vector_types),
    ("lift_workspace", lift_workspace),
]


def lower_prim_func(func, passes=TIR_PASSES, observe=None):
    """Run the TIR passes on a scheduled PrimFunc. observe(name, func) sees the result of each."""
    for name, run in passes:
        func = run(func)
        if observe:
            observe(name, func)
    return func


__all__ = ["graph_passes", "TIR_PASSES", "lower_prim_func", "lower_ops"]
