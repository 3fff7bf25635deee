"""tensorize: let a hardware instruction or a C micro-kernel do a tile."""
from __future__ import annotations

from ...expr import Range, Var, cast, const, is_const_int
from ...names import unique_name
from ...node import Mutator, collect
from ...te.index_dtype import with_index_dtype
from ...tir.buffer import decl_buffer
from ...tir.hints import DIM_ALIGN
from ...tir.stmt import Block, BufferRegion, For, MatchBufferRegion
from ...tir.storage_align import alignments
from ..blocks import name_of
from ..errors import ScheduleError
from ..match import Match, Mismatch
from ..registry import BOOL, PLACE, STR, Result, primitive
from ..signature import domain_analyzer
from ..tensor_intrin import TensorIntrin
from .blockize import divided, nest_to_block


@primitive(None, block_or_loop=PLACE, tensor_intrin=STR, preserve_unit_iters=BOOL)
def tensorize(ctx, block_or_loop, tensor_intrin, preserve_unit_iters=True):
    """Replace the nest under a loop (or the body of a block that blockize made) by the body of an intrinsic.

    The nest must equal the description of TensorIntrin `tensor_intrin` up to where in its buffers it works; the new
    body sees these places as matched buffers. A loop is made a block first, as by blockize.

    Requires an equal nest without conditions, whose tiles lie inside the buffers.
    """
    intrin = TensorIntrin.get(tensor_intrin, allow_missing=True)
    if intrin is None:
        ctx.refuse("'tensor_intrin'", f"no intrinsic {tensor_intrin!r} is registered", "TensorIntrin.register it")
    if isinstance(block_or_loop, For):
        made = nest_to_block(ctx, block_or_loop, preserve_unit_iters, "'block_or_loop'")
        at = ctx.with_func(made.func)
        realize = at.index.blocks[made.outputs[0]]
    else:
        ctx.scope(block_or_loop, "'block_or_loop'")
        at, realize = ctx, block_or_loop
    places = _places(ctx, at, realize, intrin, block_or_loop)
    block = _implemented(at, realize.block, intrin, places)
    return Result(at.index.rewrite({realize: realize.replace(block=block)}))


def _places(ctx, at, realize, intrin, marked):
    """{buffer of the description: (buffer, corner)}; refuses where the block is not what the intrinsic does."""
    block, want = realize.block, _described(ctx, intrin)
    analyzer, around = domain_analyzer(block), at.index.scope(realize)
    while around is not None:  # where a tile is may be said by blocks around
        for iv in around.block.iter_vars:
            analyzer.bind(iv.var, iv.dom)
        around = at.index.scope(around)
    match = Match(analyzer)
    match.known.update({iv.var: iv.dom.min for iv in want.iter_vars})
    try:
        if (want.init is None) != (block.init is None):
            raise Mismatch("it has no init" if block.init is None else "it has an init, which the intrinsic has not; "
                           "decompose_reduction first")
        if want.init is not None:
            if any(iv.iter_type == "reduce" and not is_const_int(iv.dom.extent, 1) for iv in block.iter_vars):
                raise Mismatch("its reduction goes on outside, and the intrinsic would start it anew")
            match.stmt(want.init, block.init)
        match.stmt(want.body, block.body)
        for buffer in intrin.desc.buffers:
            if buffer not in match.places:
                raise Mismatch(f"the description does not use its parameter {buffer.name}")
            _require_inside(analyzer, buffer, *match.places[buffer])
    except Mismatch as difference:
        ctx.refuse("'tensor_intrin'", f"block {name_of(realize)} is not what {intrin.name} does: {difference}",
                   "bring the nest into the form of the description first", [marked])
    return match.places


def _require_inside(analyzer, buffer, target, corner):
    drop = len(corner) - len(buffer.shape)
    for dim, (low, size) in enumerate(zip(corner[drop:], buffer.shape)):
        end = target.shape[drop + dim]
        if not (analyzer.can_prove(low >= 0) and analyzer.can_prove(low + size <= end)):
            raise Mismatch(f"the tile of {target.name} from {low} on, {size} long, may reach outside its {end} "
                           "elements")


def _described(ctx, intrin):
    """The description as a block that blockize would make: (init,) body over plain loops."""
    root = intrin.desc.root
    if not isinstance(root.body, For):
        return root
    try:
        return divided(ctx.with_func(intrin.desc), root.body).outer().block
    except ScheduleError:
        return root


# ---------------------------------------------------------------- the new body

class _Instance(Mutator):
    """A copy of an implementation: loops, iterators, buffers and block names of its own."""

    def __init__(self, ctx, buffers):
        self.buffers, self.vars, self.names = buffers, {}, set(ctx.index.names)

    def visit_Buffer(self, buffer):
        return self.buffers.get(buffer, buffer)

    def visit_Var(self, v):
        return self.vars.get(v, v)

    def visit_For(self, loop):
        self.vars[loop.loop_var] = Var(loop.loop_var.name, loop.loop_var.dtype)
        return self.generic_visit(loop)

    def visit_Block(self, block):
        for iv in block.iter_vars:
            self.vars[iv.var] = Var(iv.var.name, iv.var.dtype)
        for buffer in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)):
            self.own(buffer)
        return self.generic_visit(block).replace(name_hint=unique_name(block.name_hint, self.names))

    def own(self, buffer):
        """A buffer of its own for one that the implementation allocates."""
        self.buffers[buffer] = _fresh(buffer, self.vars, buffer.name)
        return self.buffers[buffer]


def _fresh(buffer, variables, name):
    """A copy of a buffer; the variables of its strides and offset are new ones too, entered in `variables`."""
    layout = (*buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,)))
    for v in collect(layout, Var):
        variables.setdefault(v, Var(v.name, v.dtype))
    strides = tuple(variables.get(s, s) if isinstance(s, Var) else s for s in buffer.strides)
    offset = variables.get(buffer.elem_offset, buffer.elem_offset)
    new = decl_buffer(buffer.shape, buffer.dtype, name, buffer.scope, strides, offset, buffer.data_alignment,
                      buffer.offset_factor, axis_separators=buffer.axis_separators)
    if buffer.data is not None:
        variables[buffer.data] = new.data
    return new


def _implemented(ctx, block, intrin, places):
    """`block` with the implementation as its body, its buffers matched with their places, and its indices of their
    dtype where all are int64."""
    impl, copy = intrin.impl, _Instance(ctx, {})
    if all(low.dtype == "int64" for _, corner in places.values() for low in corner):
        impl = with_index_dtype(impl, "int64")
    matched = []
    for wanted, own in zip(intrin.desc.buffers, impl.buffers):
        target, corner = places[wanted]
        drop = len(corner) - len(wanted.shape)
        region = tuple(Range(low, const(1, low.dtype) if d < drop else cast(wanted.shape[d - drop], low.dtype))
                       for d, low in enumerate(corner))
        copy.buffers[own] = new = _fresh(own.replace(scope=target.scope), copy.vars, own.name)
        matched.append(MatchBufferRegion(new, BufferRegion(target, region)))
    root = impl.root
    allocs = tuple(copy.own(b) for b in root.alloc_buffers)
    return Block(block.iter_vars, block.reads, block.writes, block.name_hint, allocs, tuple(matched),
                 {**root.annotations, **_annotations(block)}, None, copy.visit(root.body))


def _annotations(block):
    """The annotations of a block whose body is to be replaced, with the room between rows that blocks in it ask for."""
    written = [r.buffer for r in block.writes]
    rows = tuple((written.index(buffer), axis, *room) for buffer, axes in alignments(block.body).items()
                 for axis, room in axes.items() if buffer in written)
    own = tuple(block.annotations.get(DIM_ALIGN, ()))
    return {**block.annotations, DIM_ALIGN: (*own, *rows)} if rows else dict(block.annotations)
