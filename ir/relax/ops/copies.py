"""concat and constant padding as loop programs: each input is copied straight to its place, without a condition.

As one expression per output element they would be chains of conditions, which no compiler vectorizes.
"""
from __future__ import annotations

from ...expr import IterVar, Range, Var, as_expr, const, substitute
from ...node import collect
from ...tir import Block, BlockRealize, BufferLoad, BufferRegion, BufferStore, For, decl_buffer, prim_func, seq
from .common import te_shape


def lower_concat(args, attrs, out):
    """A PrimFunc over the distinct inputs and the output: one copying block per input."""
    target = decl_buffer(te_shape(out), out.dtype, "concat")
    buffers = {id(x): decl_buffer(x.shape, x.dtype, x.name) for x in args}
    axis, begin, copies = attrs["axis"] % len(target.shape), 0, []
    for n, x in enumerate(args):
        source = buffers[id(x)]
        offset = [begin if k == axis else 0 for k in range(len(target.shape))]
        copies.append(spatial_block(f"concat_{n}", source.shape, lambda i, s=source, o=offset: BufferStore(
            target, s[i], tuple(k + d for k, d in zip(i, o)))))
        begin = begin + x.shape[axis]
    return prim_func([*buffers.values(), target], seq(*copies))


def pads_planes(pads):
    """Whether lower_pad applies: nothing is cropped, and only axes of its planes grow."""
    inner = plane_axes(pads)
    return len(pads) > inner and all(min(p) >= 0 for p in pads) and not any(any(p) for p in pads[:-inner])


def plane_axes(pads):
    """How many trailing axes are a plane: two, or three where the third last grows (blocked images have lanes last)."""
    return 3 if len(pads) > 3 and any(pads[-3]) else 2


def lower_pad(x, pads, value, out):
    """A PrimFunc that, plane by plane, fills the sides with `value` and copies the inside.

    pads: (before, after) of each axis of x, as pads_planes requires. out: struct info of the padded tensor.
    """
    target, source = decl_buffer(te_shape(out), out.dtype, "pad"), decl_buffer(x.shape, x.dtype, x.name)
    inner = plane_axes(pads)
    outer, fills = _fills("pad_fill", target, inner, pads, const(value, out.dtype))
    copy = spatial_block("pad_copy", source.shape[-inner:], lambda i: BufferStore(
        target, source[(*outer, *i)], (*outer, *_shifted(i, (before for before, _ in pads[-inner:])))), outer,
        target.shape)
    return prim_func([source, target], _nest(outer, target.shape, [*fills, copy]))


def lower_border(args, attrs, out):
    """A PrimFunc that fills the border of its output, `pad_width` wide, and touches nothing inside: plane by plane
    where only these have one."""
    target, widths = decl_buffer(te_shape(out), out.dtype, "padded"), attrs["pad_width"]
    pads = list(zip(widths[::2], widths[1::2]))
    value = const(attrs["pad_value"] if out.dtype.is_float else int(attrs["pad_value"]), out.dtype)
    outer, fills = _fills("border", target, plane_axes(pads) if pads_planes(pads) else len(pads), pads, value)
    return prim_func([target], _nest(outer, target.shape, fills))


def _fills(name, target, inner, pads, value):
    """(variables of the loops over all but `inner` axes, the blocks inside them that fill the sides of those)."""
    outer = [Var(f"i{k}", d.dtype) for k, d in enumerate(target.shape[:len(target.shape) - inner])]
    return outer, [spatial_block(f"{name}_{n}", extents, lambda i, b=begins: BufferStore(
        target, value, (*outer, *_shifted(i, b))), outer, target.shape)
        for n, (begins, extents) in enumerate(_sides(target.shape[-inner:], pads[-inner:]))]


def _nest(outer, extents, blocks):
    """The blocks in the loops `outer`."""
    body = seq(*blocks)
    for var, extent in reversed(list(zip(outer, extents))):
        body = For(var, const(0, var.dtype), extent, "serial", body)
    return body


def _sides(shape, pads):
    """[(begins, extents)] of the boxes that a border of `pads`, (before, after) of each axis, consists of: one for each
    side of each axis, along which the axes before it run inside and those after it through."""
    inside = [(before, d - (before + after)) for d, (before, after) in zip(shape, pads)]
    for axis, (before, extent) in enumerate(inside):
        for begin, size in ((0, before), (before + extent, pads[axis][1])):
            if size:
                yield ([*(b for b, _ in inside[:axis]), begin, *[0] * (len(shape) - axis - 1)],
                       [*(e for _, e in inside[:axis]), as_expr(size), *shape[axis + 1:]])


def _shifted(indices, begins):
    return tuple(k + begin for k, begin in zip(indices, begins))


def spatial_block(name, extents, store, outer=(), outer_extents=()):
    """Loops over `extents` around a block that runs store(indices). The loops `outer`, which the caller makes and
    `store` may use, are bound to iteration variables too."""
    loops = [Var(f"i{len(outer) + k}", e.dtype) for k, e in enumerate(extents)]
    values, domains = [*outer, *loops], [*outer_extents[:len(outer)], *extents]
    iters = tuple(IterVar(Range(const(0, v.dtype), as_expr(e)), Var("v_" + v.name, v.dtype), "spatial")
                  for v, e in zip(values, domains))
    inside = substitute(store(tuple(loops)), {v: iv.var for v, iv in zip(values, iters)})
    reads = tuple(_point(load) for load in collect(inside.value, BufferLoad))
    block = Block(iters, reads, (_point(inside),), name, (), (), {}, None, inside)
    body = BlockRealize(tuple(values), const(True), block)
    for var, extent in reversed(list(zip(loops, extents))):
        body = For(var, const(0, var.dtype), extent, "serial", body)
    return body


def _point(access):
    return BufferRegion(access.buffer, tuple(Range(i, const(1, i.dtype)) for i in access.indices))
