"""Questions about TensorIR, under TVM's names."""
from __future__ import annotations

from math import prod
from types import SimpleNamespace

from ...ir.expr import PrimExpr, StringImm, Var
from ...ir.module import IRModule
from ...ir.node import collect, structural_equal
from ...ir.schedule.errors import ScheduleError
from ...ir.target import Target
from ...ir.tir.access_lca import detect_buffer_access_lca
from ...ir.tir.block_access import block_access, block_reads_writes
from ...ir.tir.bounds import check_bounds
from ...ir.tir.definitions import allocated_bytes, require_definitions, verify_ssa
from ...ir.tir.effects import why_impure
from ...ir.tir.flops import estimate_tir_flops
from ...ir.tir.function import PrimFunc
from ...ir.tir.gpu_limits import touched_by_host, why_beyond
from ...ir.tir.memcpy import identify_memcpy
from ...ir.tir.signatures import complete_signatures
from ...ir.tir.stmt import Block, BlockRealize, For, LetStmt
from ...ir.tir.verifier import VerifyError, verify
from ...ir.transform.context import prim_func_pass


def verify_well_formed(obj, assert_mode=True):
    """Whether a PrimFunc, or every one of an IRModule, keeps the rules of tir.verifier, and no variable is defined twice
    among them; ValueError instead of False when assert_mode. Blocks may leave out accesses of their bodies."""
    funcs = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    funcs = [func for func in funcs if isinstance(func, PrimFunc) or not isinstance(obj, IRModule)]
    try:
        require_definitions([func for func in funcs if isinstance(func, PrimFunc)])
        for func in funcs:
            verify(complete_signatures(func)[0], unique_names=False)
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
    """[reads, writes, opaque] of a block's body and init, as lists of BufferRegion. opaque: buffers of which a pointer
    is used. buffer_var_map: {data Var: Buffer}, what is looked at; None: all that the block does not allocate."""
    return list(block_access(block, buffer_var_map))


def get_block_read_write_region(block, buffer_var_map=None):
    """[reads, writes] of a block, as get_block_access_region has them; what is opaque is in both."""
    return list(block_reads_writes(block, buffer_var_map))


def calculate_allocated_bytes(func_or_mod):
    """{function: {scope: bytes}}: the most memory that lowered PrimFuncs hold at once; "main" for a PrimFunc alone."""
    funcs = func_or_mod.functions if isinstance(func_or_mod, IRModule) else {"main": func_or_mod}
    return {str(name): allocated_bytes(f) for name, f in funcs.items() if isinstance(f, PrimFunc)}


def is_pure_function(func):
    """Whether a PrimFunc only gives a value: it stores to its own buffers alone, and calls nothing with an effect."""
    return why_impure(func) is None


def assert_pure_function(func):
    """Return True for a pure PrimFunc; AssertionError, with the reason, for another one."""
    why = why_impure(func)
    if why:
        raise AssertionError(f"PrimFunc {func.attrs.get('global_symbol', 'main')} is not pure: {why}")
    return True


def verify_gpu_code(func, constraints):
    """Whether the kernels of a PrimFunc take no more than {"max_threads_per_block": 1024, ...} of a GPU."""
    return not why_beyond(func, constraints)


def verify_memory(func):
    """Whether a PrimFunc for a device (its attribute "target") touches its parameters' buffers in kernels alone."""
    target = func.attrs.get("target")
    if target is None:
        raise ValueError("verify_memory: the function has no attribute target; tir.transform.BindTarget gives it one")
    return Target.get(target).kind == "c" or not touched_by_host(func)


def find_anchor_block(mod):
    """The reduction block of an IRModule with the most work, as the product among what was fused to it; None where no
    block has an init."""
    realizes = [r for f in mod.functions.values() if isinstance(f, PrimFunc) for r in collect(f.body, BlockRealize)]
    blocks = [r.block for r in realizes if r.block.init is not None]
    return max(blocks, key=_work, default=None)


def _work(block):
    """The operations of all instances of a block; numbers that are symbolic count as one."""
    numbers = [estimate_tir_flops(block.body), *(getattr(iv.dom.extent, "value", 1) for iv in block.iter_vars)]
    return prod(n if isinstance(n, int) else 1 for n in numbers)


def OOBChecker():
    """The pass that gives a module back, or raises ScheduleError where an iteration that surely runs reads or writes
    outside a buffer."""
    def check(func, mod, context):
        try:
            return check_bounds(func)
        except VerifyError as error:
            raise ScheduleError("OOBChecker", "", str(error)) from None
    return prim_func_pass(check, opt_level=0, name="tir.analysis.OOBChecker")


def undefined_vars(node, defs=()):
    """The variables used below `node` that neither it nor `defs` defines, in order of first use."""
    defined = set(map(id, defs)) | {id(n.loop_var) for n in collect(node, For)} | {
        id(n.var) for n in collect(node, LetStmt)} | {id(iv.var) for n in collect(node, Block) for iv in n.iter_vars}
    return [v for v in collect(node, Var) if id(v) not in defined]


def _identify_memcpy(stmt):
    return [StringImm(found) if isinstance(found, str) else found for found in identify_memcpy(stmt)]


_ffi_api = SimpleNamespace(_identify_memcpy=_identify_memcpy)  # as scripts call what TVM has no Python name for

__all__ = ["OOBChecker", "assert_pure_function", "calculate_allocated_bytes", "detect_buffer_access_lca",
           "estimate_tir_flops", "expr_deep_equal", "find_anchor_block", "get_block_access_region", "get_block_read_write_region",
           "is_pure_function", "undefined_vars", "verify_gpu_code", "verify_memory", "verify_ssa",
           "verify_well_formed"]
