"""tvm.dlight.analysis: what rules of a script's own ask of a function: its blocks in one form, and what they read."""
from __future__ import annotations

from ...ir.arith.iter_rewrite import normalize_to_iter_sum
from ...ir.expr import Add, IntImm, Var, as_expr, const, free_vars, is_const_int
from ...ir.node import structural_equal
from ...ir.schedule.errors import ScheduleError
from ...ir.tir.index_map import IndexMap
from ...ir.tir.stmt import BlockRealize, BufferLoad, BufferStore

_KINDS = {"spatial": "S", "reduce": "R"}


class UnknownAccess(ValueError):
    """No single index says what a block reads or writes."""


class IterInfo:
    """An iterator of a block: its kind ("S" over elements, "R" of a sum, "O" other), its variable, its extent `dom`, an
    int where it is known, and the loop that runs it."""

    def __init__(self, kind, var, dom, loop_rv):
        self.kind, self.var, self._dom, self.loop_rv = kind, var, dom, loop_rv

    @property
    def dom(self):
        return self._dom.value if isinstance(self._dom, IntImm) else self._dom

    def __repr__(self):
        return f'Iter("{self.kind}", {self.dom})'


class BlockInfo:
    """A block of a normalized function: its name, the IterInfos of its iterators, and its handle."""

    def __init__(self, name, iters, block_rv, reduction_block=False):
        self.name, self.iters, self.block_rv, self._reduction_block = name, iters, block_rv, reduction_block

    def dom(self):
        """The extents of its iterators."""
        return [i.dom for i in self.iters]

    def dom_kind(self):
        """The kinds of its iterators: "SSR"."""
        return "".join(i.kind for i in self.iters)

    def is_injective(self):
        """Whether all iterators are over elements."""
        return set(self.dom_kind()) <= {"S"}

    def is_elementwise(self, sch):
        """Whether it reads one buffer and writes one, both at its iterators in order."""
        block = sch.get(self.block_rv)
        if not self.is_injective() or len(block.reads) != 1 or len(block.writes) != 1:
            return False
        regions = block.reads[0].region, block.writes[0].region
        return len(regions[0]) == len(regions[1]) and all(
            r.min is iv.var and is_const_int(r.extent, 1) for region in regions
            for iv, r in zip(block.iter_vars, region))

    def is_reduction(self):
        """Whether it sums up, or reduces otherwise."""
        return self._reduction_block

    def is_gemv(self):
        raise NotImplementedError("BlockInfo.is_gemv: dlight.analysis.is_gemv(sch, block_info) says it")

    def is_gemm(self):
        raise NotImplementedError("BlockInfo.is_gemm: no analysis says it")

    def __repr__(self):
        return f'BlockInfo("{self.name}", "{self.dom_kind()}", {self.dom()})'


def normalize_prim_func(sch):
    """The BlockInfos of the root's blocks, whose iterators of one value are gone, each with a loop of its own; a block
    without any over elements gets one of one value. None where a block's loops are not its iterators, one by one."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    if not all(_is_plain(sch, block) for block in blocks):
        return None
    try:
        return [_normalized(sch, block) for block in blocks]
    except ScheduleError:
        return None


def _is_plain(sch, block):
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    if not loops:
        return True
    inside = loops[-1].body
    return isinstance(inside, BlockRealize) and len(loops) == len(inside.iter_values) and all(
        value is loop.loop_var and is_const_int(loop.min, 0) for loop, value in zip(loops, inside.iter_values))


def _normalized(sch, block):
    old = sch.get(block).iter_vars
    inside = [Var(iv.var.name, iv.var.dtype) for iv in old]
    kept = [v for v, iv in zip(inside, old) if not is_const_int(iv.dom.extent, 1)]
    if not any(v in kept and iv.iter_type == "spatial" for v, iv in zip(inside, old)):
        kept.insert(0, const(0, "int64"))
    sch.transform_block_layout(block, IndexMap(tuple(inside), tuple(kept)))
    new = sch.get(block)
    iters = [IterInfo(_KINDS.get(iv.iter_type, "O"), iv.var, iv.dom.extent, loop)
             for iv, loop in zip(new.iter_vars, sch.get_loops(block))]
    return BlockInfo(new.name_hint, iters, block, sch.state.get_block_info(new).is_reduction)


def get_root_block(sch, func_name="main"):
    """The handle of a function's root block."""
    body = sch.mod[func_name].body
    if not hasattr(body, "block"):
        raise ValueError(f"the body of {func_name} is no root block but a {type(body).__name__}")
    return sch.get_block(body.block.name_hint, func_name)


def get_max_threads_per_block(target):
    """The most threads of a block on a GPU. Raises ValueError for another target."""
    return _limits(target).max_threads


def get_max_shared_memory_per_block(target):
    """The bytes of shared memory that a kernel may declare on a GPU. Raises ValueError for another target."""
    return _limits(target).shared_bytes


def _limits(target):
    if target.launch is None:
        raise ValueError(f"target {target} is no GPU")
    return target.launch


def collect_vars_used_in_prim_expr(expr):
    """The set of variables in an expression."""
    return set(free_vars(as_expr(expr)))


def collect_block_iter_vars_used_in_access_region(block, region):
    """The set of a block's iterators in a region. Raises UnknownAccess unless that is one element."""
    if not all(is_const_int(r.extent, 1) for r in region):
        raise UnknownAccess(f"block {block.name_hint} has a region of more than one element")
    return {v for r in region for v in free_vars(r.min)} & {iv.var for iv in block.iter_vars}


def detect_dominant_read(block):
    """Where the read of a block with the most iterators, the first of several, is in its buffer's memory: an index.
    Raises UnknownAccess of a block without reads, or with one of several elements."""
    if not block.reads:
        raise UnknownAccess(f"block {block.name_hint} reads nothing")
    read = max(block.reads, key=lambda r: len(collect_block_iter_vars_used_in_access_region(block, r.region)))
    return read.buffer.offset_of([r.min for r in read.region])[0]


def is_broadcast_epilogue(sch, block, epilogue):
    """Whether a block behind another one reads its result at fewer iterators than it has: one element for several."""
    written = {r.buffer for r in sch.get(block).writes}
    after = sch.get(epilogue)
    return any(len(collect_block_iter_vars_used_in_access_region(after, r.region)) < len(after.iter_vars)
               for r in after.reads if r.buffer in written)


# ---------------------------------------------------------------- products of matrices and vectors

def get_reduction_expr(block):
    """Y of a block X[...] = X[...] + Y; None of another one."""
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, Add):
        return None
    own = BufferLoad(store.buffer, store.indices)
    return store.value.b if structural_equal(store.value.a, own) else None


def is_gemv(sch, block_info):
    """The buffers of a sum of products that do not have all iterators, the vectors; None where it is no product of a
    matrix and a vector."""
    block = sch.get(block_info.block_rv)
    if not block_info.is_reduction() or len(block.reads) < 2 or len(block.writes) != 1 or (
            get_reduction_expr(block) is None
            or not all(is_const_int(r.extent, 1) for access in (*block.reads, *block.writes) for r in access.region)
            or not collect_block_iter_vars_used_in_access_region(block, block.writes[0].region)):
        return None
    used = [(r.buffer, len(collect_block_iter_vars_used_in_access_region(block, r.region))) for r in block.reads]
    vectors = [buffer for buffer, count in used if 0 < count < len(block.iter_vars)]
    return vectors if 0 < len(vectors) < len(used) else None


def normalize(sch, block_info):
    """Make of a product's loops four: of what all operands have, over elements, of the sum, and of the parts of it that
    lie together. Returns whether the sum runs along the matrix' rows; None where that does not fit."""
    block = sch.get(block_info.block_rv)
    access = normalize_to_iter_sum(detect_dominant_read(block), {iv.var: iv.dom for iv in block.iter_vars})
    infos = {i.var: i for i in block_info.iters}
    if not access.args or collect_vars_used_in_prim_expr(access.base) & set(infos):
        return None
    shared = set.intersection(*(collect_block_iter_vars_used_in_access_region(block, r.region)
                                for r in (*block.writes, *block.reads)))
    loops = {"batch": [], "elements": [], "sum": [], "parts": []}
    for part in access.args:
        var, info = part.source.source, infos[part.source.source]
        loop, is_sum = info.loop_rv, info.kind == "R"
        if not is_const_int(part.lower_factor, 1):
            if loops["parts"] or not is_sum:
                return None
            loop, inner = sch.split(loop, [None, part.lower_factor])
            loops["parts"].append(inner)
        loops["sum" if is_sum else "batch" if var in shared else "elements"].append(loop)
    if not loops["elements"] or not loops["sum"]:
        return None
    for name in ("parts", "batch"):
        loops[name] = loops[name] or [sch.add_unit_loop(block_info.block_rv)]
    sch.reorder(*loops["batch"], *loops["elements"], *loops["sum"], *loops["parts"])
    for name in ("batch", "elements", "sum"):
        sch.fuse(*loops[name])
    return infos[access.args[-1].source.source].kind == "R"


__path__ = []  # its parts are imported by names of their own, which places.py knows
__all__ = ["BlockInfo", "IterInfo", "UnknownAccess", "collect_block_iter_vars_used_in_access_region",
           "collect_vars_used_in_prim_expr", "detect_dominant_read", "get_max_shared_memory_per_block",
           "get_max_threads_per_block", "get_reduction_expr", "get_root_block", "is_broadcast_epilogue", "is_gemv",
           "normalize", "normalize_prim_func"]
