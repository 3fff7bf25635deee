"""Operations of GPU hardware that programs call, by TVM's names, one row each.

A call keeps TVM's arguments. Pointers are data pointers of buffers with an offset in elements after them, or
address_of of an element. Fragments of wmma are counted: of a buffer of scope "wmma.*", each 16 x 16 elements are one.
wgmma_sync(sums, offset, a, b, columns, how many of its kind may be under way after it) is Ingot's own
(ir/schedule/intrin/wgmma.py).
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceOp:
    """dtype: of the call; None: of what it computes with, which scripts say first, as T.ptx_mma("float32", ...).
    rest: the last arguments where scripts leave them out, of `count`."""

    name: str
    dtype: str | None
    count: int = 0
    rest: tuple = ()

    def filled(self, args):
        """Arguments, with those that were left out."""
        return (*args, *self.rest[max(len(args) - self.count, -len(self.rest)):]) if len(args) < self.count else args


_VOID = ("ptx_commit_group", "ptx_wait_group", "create_barriers", "ptx_init_barrier_thread_count",
         "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_wait_barrier", "ptx_cp_async_barrier")
_HANDLE = ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_fill_fragment", "tvm_mma_sync", "tvm_bmma_sync",
           "wgmma_sync")
_TYPED = ("ptx_cp_async", "ptx_cp_async_bulk", "ptx_ldmatrix", "ptx_mma", "ptx_mma_sp", "mma_store", "mma_fill")
ALLREDUCE = "tir.tvm_thread_allreduce"  # what threads reduce together; its elements are written, not read
DEVICE_OPS = {row.name: row for row in (
    DeviceOp("tvm_storage_sync", "int32"), DeviceOp("tvm_warp_activemask", "uint32"),
    DeviceOp("tvm_thread_allreduce", "handle"),
    *(DeviceOp(name, "void") for name in _VOID), *(DeviceOp(name, "handle") for name in _HANDLE),
    *(DeviceOp(name, None) for name in _TYPED),
    DeviceOp("make_filled_simdgroup_matrix", "handle", 5, (8, 8)), DeviceOp("simdgroup_multiply_accumulate", "handle"),
    *(DeviceOp(name, "handle", 7, (8, 8, False)) for name in ("simdgroup_load", "simdgroup_store")))}
# Of the dtype of their second argument: a value of this lane, and what is done with it.
SHUFFLES = tuple(f"tvm_warp_shuffle{how}" for how in ("", "_up", "_down", "_xor"))


def allreduce_parts(call):
    """(values and condition, the elements that they are reduced to) of a call of tvm_thread_allreduce."""
    count = call.args[0].value
    return call.args[1:2 + count], call.args[2 + count:2 + 2 * count]


DTYPE_FIRST = frozenset(f"tir.{name}" for name in _TYPED)

__all__ = ["ALLREDUCE", "DEVICE_OPS", "DTYPE_FIRST", "DeviceOp", "SHUFFLES",
           "allreduce_parts"]
