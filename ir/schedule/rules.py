"""Default schedules: for each PrimFunc the first rule that fits, as a trace of primitives.

A rule looks at blocks, not at operators: a reduction over packed operands gets a register tile, other reductions are
computed where their result is needed, the rest is inlined, fused and spread over threads.
"""
from __future__ import annotations

from ..expr import Call, IntImm, Var, is_const_int
from ..node import collect, structural_equal
from ..tir.stmt import Block, BufferLoad, BufferStore, For
from . import tiles
from .cpu import CpuModel
from .errors import ScheduleError
from .schedule import Schedule

# Stages whose name ends so are reductions over operands packed for one vector per step.
PACKED = "_packed"
# Functions worth computing once rather than inlining into several consumers.
EXPENSIVE = {"tir.exp", "tir.log", "tir.tanh", "tir.erf", "tir.sigmoid", "tir.pow", "tir.sqrt"}
# Threads are worth their start (some microseconds) from about so many multiply-adds, cut into so many parts. A scalar
# or memory-bound iteration counts as several of those that run from registers.
PARALLEL_MIN_WORK = 1 << 19
PARALLEL_MIN_PARTS = 16
COST_OF_LOOP = 8


def schedule_by_rule(func, cpu: CpuModel):
    """A Schedule of `func` for `cpu`; its `.func` is the result and its `.trace` says how.

    A function with attribute "tir.is_scheduled" was written as a loop program: it stays as it is.
    """
    if func.attrs.get("tir.is_scheduled"):
        return Schedule(func)
    for rule in (register_tile, row_reduction, elementwise):
        sch = Schedule(func, error_render_level="fast")
        if rule(sch, cpu):
            return sch
    return Schedule(func)


# ---------------------------------------------------------------- register tiles

def register_tile(sch, cpu):
    """A dense convolution or product: accumulators of a tile live in registers over the whole reduction.

        for tile (parallel):  acc = 0;  for k: for points: for vectors: acc += broadcast(a) * packed;  epilogue(acc)
    """
    if cpu.lanes == 1:
        return False
    anchor = _find(sch, lambda b: b.name_hint.endswith(PACKED) or _plain_product(b, cpu))
    if anchor is None:
        return False
    _inline_all(sch, keep={anchor})
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return False
    epilogue = outputs[0]
    if sch.get(epilogue).name_hint == anchor:
        sch.cache_write(sch.get_block(anchor), 0, "local")
        epilogue = sch.get_output_blocks("root")[0]
    if anchor.startswith("conv2d"):
        _tile_convolution(sch, cpu, anchor, epilogue)
    else:
        _tile_product(sch, cpu, anchor, epilogue)
    return True


def _tile_convolution(sch, cpu, anchor, epilogue):
    n, c, y, x = sch.get_loops(epilogue)
    packed = sch.get(sch.get_block(anchor))
    blocks, lanes = (packed.iter_vars[k].dom.extent.value for k in (1, 4))
    groups = int(packed.annotations.get("groups", 1))
    height = _extent(sch, y)
    tile = tiles.choose(blocks // groups, height, _extent(sch, x), cpu.registers, within_group=groups > 1)
    whole = _extent(sch, c) % (tile.vectors * lanes) == 0
    co, ci, cl = sch.split(c, [None, tile.vectors, lanes])
    yo, yi = sch.split(y, [None, tile.rows])
    xo, xi = sch.split(x, [None, tile.columns])
    conv = sch.get_block(anchor)
    if whole and _vectorizes(sch.get(epilogue)):
        sch.reorder(n, co, yo, xo, yi, xi, ci, cl)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        for loop in (yi, xi, ci):
            sch.unroll(loop)
        sch.vectorize(cl)
    else:  # through a tile in memory: a vector of channels there, rows of one channel in the output
        sch.reorder(n, co, yo, xo, ci, cl, yi, xi)
        sch.compute_at(conv, xo, preserve_unit_loops=True)
        copy = sch.cache_read(epilogue, _read_index(sch, epilogue, anchor), "local")
        sch.compute_at(copy, xo, preserve_unit_loops=True)
        _, oo, ty, tx, oi = sch.get_loops(copy)[-5:]
        for loop in (oo, ty, tx):
            sch.unroll(loop)
        sch.vectorize(oi)
    sch.set_scope(conv, 0, "local")
    nn, oo, ty, tx, oi, ic, kh, kw = sch.get_loops(conv)[-8:]
    sch.reorder(ic, kh, kw, nn, ty, tx, oo, oi)
    for loop in (ty, tx, oo):
        sch.unroll(loop)
    sch.vectorize(oi)
    _keep_rolled(sch, (ic, kh, kw))
    sch.decompose_reduction(conv, ic)
    # A row loop with a border stays serial: loop_partition peels its last iteration.
    _parallel_nest(sch, cpu, [n, co, yo] if height % tile.rows == 0 else [n, co], _steps(packed))


def _tile_product(sch, cpu, anchor, epilogue):
    *batch, m, n = sch.get_loops(epilogue)
    rows, columns = _extent(sch, m), _extent(sch, n)
    packed = anchor.endswith(PACKED)
    tile = tiles.choose(-(-columns // cpu.lanes), rows, 1, cpu.registers)
    whole = columns % (tile.vectors * cpu.lanes) == 0
    no, nv, nl = sch.split(n, [None, tile.vectors, cpu.lanes])
    mo, mi = sch.split(m, [None, tile.rows])
    # Column tiles share their operand, so they are the outer loop; unpacked ones may not be read past the last column:
    # there the border is an iteration of its own, which must be innermost and serial.
    tiles_order = [no, mo] if packed or whole else [mo, no]
    sch.reorder(*batch, *tiles_order, mi, nv, nl)
    product, at = sch.get_block(anchor), tiles_order[-1]
    sch.compute_at(product, at, preserve_unit_loops=True)
    if packed and not (whole and _vectorizes(sch.get(epilogue))):
        copy = sch.cache_read(epilogue, _read_index(sch, epilogue, anchor), "local")
        sch.compute_at(copy, at, preserve_unit_loops=True)
        tm, tv, tl = sch.get_loops(copy)[-3:]
        for loop in (tm, tv):
            sch.unroll(loop)
        sch.vectorize(tl)
    else:
        for loop in (mi, nv):
            sch.unroll(loop)
        sch.vectorize(nl)
    sch.set_scope(product, 0, "local")
    loops = sch.get_loops(product)
    k = loops[-1]
    if packed:
        tm, tv, tl = loops[-4:-1]
    else:
        tm, tn = loops[-3:-1]
        tv, tl = sch.split(tn, [None, cpu.lanes])
    sch.reorder(k, tm, tv, tl)
    for loop in (tm, tv):
        sch.unroll(loop)
    sch.vectorize(tl)
    _keep_rolled(sch, (k,))
    sch.decompose_reduction(product, k)
    border = columns % (tile.vectors * cpu.lanes) if tiles_order[0] is no else rows % tile.rows
    _parallel_nest(sch, cpu, batch + ([tiles_order[0]] if packed or not border else []), _steps(sch.get(product)))


def _steps(block):
    """How often a block runs: the multiply-adds of a product. Symbolic extents count as many."""
    steps = 1
    for iv in block.iter_vars:
        steps *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else PARALLEL_MIN_PARTS
    return steps


def _parallel_nest(sch, cpu, loops, work):
    """Run each loop of a nest in parallel when the work is worth it; the C collapses them into one parallel loop."""
    if cpu.parallel and work >= PARALLEL_MIN_WORK:
        for loop in loops:
            if not is_const_int(sch.get(loop).extent, 1):
                sch.parallel(loop)


def _keep_rolled(sch, loops):
    """Ask the C compiler not to unroll the loop around a register tile: several turns at once would need more registers
    than there are (gcc 12 then runs at 110 instead of 190 GFLOP/s)."""
    inner = [loop for loop in loops if not is_const_int(sch.get(loop).extent, 1)]
    if inner:
        sch.annotate(inner[-1], "unroll", 1)


def _vectorizes(block):
    """Every value of the block has a vector form, so that a loop over it may be vectorized."""
    from ..transform.vectorize import VECTOR_CALLS
    return all(c.op.removeprefix("tir.") in VECTOR_CALLS for c in collect(block.body, Call)) and all(
        load.buffer.dtype == "float32" for load in collect(block.body, (BufferLoad, BufferStore)))


def _plain_product(block, cpu):
    """A product whose second operand is an activation: row-major and wide enough for vectors."""
    if block.name_hint != "matmul" or block.init is None:
        return False
    spatial = [iv for iv in block.iter_vars if iv.iter_type == "spatial"]
    columns = spatial[-1].dom.extent
    return len(spatial) >= 2 and isinstance(columns, IntImm) and columns.value >= cpu.lanes


# ---------------------------------------------------------------- other reductions

def row_reduction(sch, cpu):
    """Reductions are computed inside the loops of the output block that they share; the outer ones run in parallel.

    Window reductions (pooling, depthwise convolution) keep a row of accumulators, so that the loop over the row is the
    innermost and vectorizes; others (softmax, means) finish per element of the shared loops.
    """
    if _find(sch, lambda b: b.init is not None) is None:
        return False
    _inline_all(sch, keep=set())
    outputs = sch.get_output_blocks("root")
    if len(outputs) != 1:
        return _parallel_roots(sch, cpu)
    output = outputs[0]
    if sch.get(output).init is not None:
        sch.cache_write(output, 0, "local")
        output = sch.get_output_blocks("root")[0]
    window = _window(sch, output)
    shared = _shared_loops(sch, output)
    if window and shared:
        shared = shared[:-1]
    if not shared:
        return _parallel_roots(sch, cpu)
    at = shared[-1]
    for name in reversed(_other_blocks(sch, output)):
        block = sch.get_block(name)
        sch.compute_at(block, at, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
        if window and sch.get(block).init is not None:
            _row_innermost(sch, block, len(shared))
    _parallel_outer(sch, cpu, shared[:-1] if window and len(shared) > 1 else shared)
    return True


def _window(sch, output):
    """The function is one reduction over constant windows of its last dimension."""
    reductions = [b for b in map(sch.get_block, _other_blocks(sch, output)) if sch.get(b).init is not None]
    if len(reductions) != 1:
        return False
    block = sch.get(reductions[0])
    extents = [iv.dom.extent for iv in block.iter_vars if iv.iter_type == "reduce"]
    spatial = [iv.dom.extent for iv in block.iter_vars if iv.iter_type == "spatial"]
    return (len(spatial) == len(sch.get_loops(output)) and len(extents) >= 1
            and all(isinstance(e, IntImm) for e in extents[-2:] + spatial[-1:]) and spatial[-1].value > 1
            and not _reads_reduced_last(block))


def _reads_reduced_last(block):
    """The reduction runs along the innermost dimension of what it reads alone (a mean over rows, say)."""
    last_spatial = [iv.var for iv in block.iter_vars if iv.iter_type == "spatial"][-1]
    for load in collect(block.body, BufferLoad):
        if any(load.buffer is w.buffer for w in block.writes):
            continue
        if any(v is last_spatial for v in collect(load.indices[-1], type(last_spatial))):
            return False
    return True


def _row_innermost(sch, block, depth):
    """Loops of a window reduction below the shared ones: window first, row last; the init has its own loop."""
    loops = sch.get_loops(block)[depth:]
    iters = [iv.iter_type for iv in sch.get(block).iter_vars]
    spatial = [loop for loop, kind in zip(loops[-len(iters):], iters) if kind == "spatial"]
    reduce = [loop for loop, kind in zip(loops[-len(iters):], iters) if kind == "reduce"]
    sch.reorder(*reduce, *spatial)
    sch.decompose_reduction(block, reduce[0])


def _shared_loops(sch, output):
    """The output block's leading loops under which every producer can be computed once per iteration without repeating
    work: those whose variables index all the intermediate buffers."""
    block = sch.get(output)
    loops = sch.get_loops(output)
    shared = len(loops)
    written = {id(b.writes[0].buffer) for b in map(sch.get, map(sch.get_block, _other_blocks(sch, output)))}
    variables = [iv.var for iv in block.iter_vars]
    single = {id(iv.var) for iv in block.iter_vars if isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value == 1}
    for load in collect(block.body, BufferLoad):
        if id(load.buffer) in written:
            used = {id(v) for i in load.indices for v in collect(i, type(variables[0]))} | single
            while shared and not all(id(v) in used for v in variables[:shared]):
                shared -= 1
    return loops[:shared]




# ---------------------------------------------------------------- elementwise

def elementwise(sch, cpu):
    """Everything inlined into the output block, whose outer loops are fused and run in parallel."""
    _inline_all(sch, keep=set())
    return _parallel_roots(sch, cpu)


def _parallel_roots(sch, cpu):
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = _outer_spatial(sch, block)
        whole = _flat_loops(sch, block, loops)
        if whole > 1:
            loops = [*loops[:-whole], sch.fuse(*loops[-whole:])]
        several = any(not is_const_int(sch.get(loop).extent, 1) for loop in loops[:-1])
        _parallel_outer(sch, cpu, loops[:-1] if several else loops)
    return True


def _flat_loops(sch, block, loops):
    """How many of the innermost loops run through every buffer they index element after element, so that they may be
    one loop: the trailing indices of each access are their variables, over the buffer's whole extents or not at all."""
    realized = sch.get(block)
    if len(loops) != len(realized.iter_vars):
        return 0
    variables = [iv.var for iv in realized.iter_vars]
    count = len(variables)
    for access in collect(realized.body, (BufferLoad, BufferStore)):
        used = [v for i in access.indices for v in collect(i, Var)]
        same = 0
        while (same < min(count, len(access.indices)) and access.indices[-1 - same] is variables[-1 - same]
               and (same == 0 or structural_equal(access.buffer.shape[-same], realized.iter_vars[-same].dom.extent))):
            same += 1
        while count > same and any(v is w for v in variables[-count:] for w in used):
            count -= 1
    return count


def _parallel_outer(sch, cpu, loops):
    """Run as many leading loops in parallel as it takes to have enough to share, if the work is worth it."""
    chosen, count = [], 1
    for loop in loops:
        if count >= PARALLEL_MIN_PARTS:
            break
        chosen.append(loop)
        extent = sch.get(loop).extent
        count *= extent.value if isinstance(extent, IntImm) else PARALLEL_MIN_PARTS
    if chosen:
        try:
            _parallel_nest(sch, cpu, chosen, COST_OF_LOOP * _work(sch.get(chosen[0])))
        except ScheduleError:
            pass  # a loop that carries a dependence stays serial


def _work(loop):
    """About how many innermost iterations a loop runs; symbolic extents count as many."""
    total = 0
    own = loop.extent.value if isinstance(loop.extent, IntImm) else PARALLEL_MIN_WORK
    inner = [_work(f) for f in _child_loops(loop.body)]
    total = sum(inner) if inner else 1
    return own * total


def _child_loops(stmt):
    found = []

    def walk(s):
        if isinstance(s, For):
            found.append(s)
            return
        from ..node import children
        for c in children(s):
            if not isinstance(c, (BufferStore, BufferLoad)):
                walk(c)

    walk(stmt)
    return found


# ---------------------------------------------------------------- looking at blocks

def _blocks(sch):
    return [b for b in collect(sch.func.body, Block) if b.name_hint != "root"]


def _find(sch, wanted):
    """The name of the first block for which wanted(block), else None."""
    return next((b.name_hint for b in _blocks(sch) if wanted(b)), None)


def _other_blocks(sch, output):
    name = sch.get(output).name_hint
    return [b.name_hint for b in _blocks(sch) if b.name_hint != name]


def _inline_all(sch, keep):
    """Inline every elementwise stage but the outputs, those in `keep` and costly ones with several consumers."""
    outputs = {sch.get(b).name_hint for b in sch.get_output_blocks("root")}
    for block in _blocks(sch):
        name = block.name_hint
        if name in keep or name in outputs or block.init is not None:
            continue
        rv = sch.get_block(name)
        costly = any(c.op in EXPENSIVE for c in collect(block.body, Call))
        if costly and len(sch.get_consumers(rv)) > 1:
            continue
        try:
            sch.compute_inline(rv)
        except ScheduleError:
            continue  # it is not a plain elementwise stage: left as it is


def _outer_spatial(sch, block):
    """The leading loops of a block that only spatial iteration variables use."""
    spatial = []
    realized = sch.get(block)
    for loop, iv in zip(sch.get_loops(block), realized.iter_vars):
        if iv.iter_type != "spatial":
            break
        spatial.append(loop)
    return spatial


def _extent(sch, loop):
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else 1 << 20


def _read_index(sch, block, producer):
    """Which of the block's reads is the producer's result."""
    buffer = sch.get(sch.get_block(producer)).writes[0].buffer
    return next(n for n, r in enumerate(sch.get(block).reads) if r.buffer is buffer)
