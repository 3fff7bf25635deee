"""Questions about TensorIR, under TVM's names."""
from __future__ import annotations

from ...ir.expr import PrimExpr, Var
from ...ir.module import IRModule
from ...ir.node import collect, structural_equal
from ...ir.tir.flops import estimate_tir_flops
from ...ir.tir.function import PrimFunc
from ...ir.tir.region import access_regions
from ...ir.tir.stmt import Block, For, LetStmt
from ...ir.tir.verifier import VerifyError, verify


def verify_well_formed(obj, assert_mode=True):
    """Whether a PrimFunc, or every one of an IRModule, keeps the rules of tir.verifier; ValueError instead of False
    when assert_mode."""
    funcs = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    try:
        for func in funcs:
            if isinstance(func, PrimFunc) or not isinstance(obj, IRModule):
                verify(func, unique_names=False)
    except VerifyError:
        if assert_mode:
            raise
        return False
    return True


def expr_deep_equal(lhs, rhs):
    """Whether two expressions are the same tree over the same variables."""
    if not (isinstance(lhs, PrimExpr) and isinstance(rhs, PrimExpr)):
        raise TypeError(f"expr_deep_equal takes expressions, not {type(lhs).__name__} and {type(rhs).__name__}")
    return structural_equal(lhs, rhs)


def get_block_access_region(block, buffer_var_map=None):
    """[reads, writes, opaque] of a block's body and init, as lists of BufferRegion; there is no opaque access here.

    buffer_var_map: of TVM's interface, not needed.
    """
    reads, writes = access_regions((block.init, block.body) if block.init is not None else block.body,
                                   exclude=block.alloc_buffers)
    return [list(reads), list(writes), []]


get_block_read_write_region = get_block_access_region


def undefined_vars(node, defs=()):
    """The variables used below `node` that neither it nor `defs` defines, in order of first use."""
    defined = set(map(id, defs)) | {id(n.loop_var) for n in collect(node, For)} | {
        id(n.var) for n in collect(node, LetStmt)} | {id(iv.var) for n in collect(node, Block) for iv in n.iter_vars}
    return [v for v in collect(node, Var) if id(v) not in defined]


__all__ = ["estimate_tir_flops", "expr_deep_equal", "get_block_access_region", "get_block_read_write_region",
           "undefined_vars", "verify_well_formed"]
