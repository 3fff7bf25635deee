"""tvm.testing.tir: the schedule of a product on tensor cores by mma.sync."""
from __future__ import annotations

from ...ir.schedule import Schedule


def mma_schedule(workload, k_inner, in_dtype, b_transposed, i_factors, j_factors, k_factors, index_map_A, index_map_B,
                 index_map_C, ldmatrix_a_intrin, ldmatrix_b_intrin, mma_intrin, mma_fill_intrin, mma_store_intrin,
                 shared_scope="shared"):
    """A Schedule of a product, whose block is "C": tiles of 16 x 16 x k_inner go from shared memory through registers.

    i_factors, j_factors: five each of the tiles of rows and columns: blocks along x and y, tiles of a thread outside of
    the loop over k, warps, and tiles inside of it. k_factors: three. index_map_*: where elements of operands and result
    lie in registers. *_intrin: what tensorizes loads, products, zeros and stores. Raises ScheduleError as primitives do.
    """
    s = Schedule(workload)
    inner = s.get_block("C")
    i, j, k = s.get_loops(inner)
    (i, ii), (j, jj), (k, kk) = (s.split(x, [None, n]) for x, n in ((i, 16), (j, 16), (k, k_inner)))
    s.reorder(i, j, k, ii, jj, kk)
    tile = s.blockize(ii)
    i0, i1, i2, i3, i4 = s.split(i, i_factors)
    j0, j1, j2, j3, j4 = s.split(j, j_factors)
    k0, k1, k2 = s.split(k, k_factors)
    s.reorder(i0, j0, i1, j1, j2, i2, k0, k1, i3, j3, k2, i4, j4)
    s.bind(s.fuse(i0, j0), "blockIdx.x")
    s.bind(s.fuse(i1, j1), "blockIdx.y")
    warp = s.fuse(j2, i2)
    s.bind(warp, "threadIdx.y")
    for operand in (0, 1):
        _to_shared(s, tile, operand, k0, shared_scope, i_factors[2] * j_factors[2], in_dtype)
    held = [s.cache_read(tile, operand, "warp") for operand in (0, 1)]
    for copy in held:
        s.compute_at(copy, k1)
    out = s.cache_write(tile, 0, "warp")
    s.reverse_compute_at(out, warp)
    of_b = (16, k_inner) if b_transposed else (k_inner, 16)
    _tiles(s, out, (16, 16))
    s.decompose_reduction(tile, s.get_loops(tile)[3])
    loads = [_tiles(s, copy, shape) for copy, shape in zip(held, ((16, k_inner), of_b))]
    for block, place, index_map in ((held[0], ("write", 0), index_map_A), (held[1], ("write", 0), index_map_B),
                                    (out, ("read", 0), index_map_C)):
        s.transform_layout(block, place, index_map)
    for loop, intrin in zip((*loads, s.get_loops(inner)[-3], s.get_loops(s.get_block("C_init"))[-2],
                             s.get_loops(out)[-2]),
                            (ldmatrix_a_intrin, ldmatrix_b_intrin, mma_intrin, mma_fill_intrin, mma_store_intrin)):
        s.tensorize(loop, intrin)
    return s


def _to_shared(s, tile, operand, loop, scope, warps, dtype):
    """All threads of a block copy an operand to shared memory, 16 bytes at a time, in rows that lie on other banks."""
    copy = s.cache_read(tile, operand, scope)
    s.compute_at(copy, loop)
    _, y, x, lanes = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, warps, 32, 16 if dtype == "int8" else 8])
    s.bind(y, "threadIdx.y")
    s.bind(x, "threadIdx.x")
    s.vectorize(lanes)
    s.storage_align(copy, 0, axis=-2, factor=32, offset=8 if dtype == "float16" else 16)


def _tiles(s, block, shape):
    """Split the two loops of a copy into tiles; the first loop within a tile."""
    (i, ii), (j, jj) = (s.split(loop, [None, n]) for loop, n in zip(s.get_loops(block)[-2:], shape))
    s.reorder(i, j, ii, jj)
    return ii


__all__ = ["mma_schedule"]
