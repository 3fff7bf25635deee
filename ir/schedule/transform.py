"""Transformations made of several primitives; names follow tvm.tir.schedule.transform."""
from __future__ import annotations

from .analysis import get_tensorize_loop_mapping
from .tensor_intrin import TensorIntrin


def tile_with_tensor_intrin(sch, block, intrin_name, allow_padding=False):
    """Split and reorder the loops of a block so that the innermost are those of an intrinsic; returns the outermost of
    them, for tensorize, or None where they do not fit. allow_padding: the block may be padded first (pad_einsum)."""
    desc = TensorIntrin.get(intrin_name).desc
    info = get_tensorize_loop_mapping(sch, block, desc, allow_padding)
    if info is not None and info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
        info = get_tensorize_loop_mapping(sch, block, desc)
    if info is None:
        return None
    tiles = {sref.stmt: want for sref, want in info.loop_map.items()}
    inner = [None] * len(info.desc_loop_indexer)
    for loop, want in [(loop, tiles.get(sch.get(loop))) for loop in sch.get_loops(block)]:
        if want is not None:
            _, inner[info.desc_loop_indexer[want]] = sch.split(loop, [None, int(want.extent)])
    tiled = {sch.get(loop) for loop in inner if loop is not None}
    loops = sch.get_loops(block)
    first = next(n for n, loop in enumerate(loops) if sch.get(loop) in tiled)
    inner = [loop for loop in inner if loop is not None]
    sch.reorder(*(loop for loop in loops[first:] if sch.get(loop) not in tiled), *inner)
    return inner[0]


__all__ = ["tile_with_tensor_intrin"]
