"""suggest_layout_transforms: what the blocks and inputs of a PrimFunc become when its outputs get other layouts.

A layout here is, for each dimension of a buffer, the one spatial iterator of a block that it is accessed by, or None:
A[s0 * 2 + r0, 0, s1] has (s0, None, s1).
"""
from __future__ import annotations

from ..arith import IterMapLevel, detect_iter_map
from ..expr import IntImm, Var, free_vars
from ..node import collect
from .function import PrimFunc
from .index_map import IndexMap
from .stmt import Block, BufferLoad, BufferStore


class NoIndexMap(TypeError, AssertionError):
    """A layout that is neither an IndexMap nor a function of indices."""


def suggest_layout_transforms(func, write_buffer_transforms):
    """{block: {block or buffer: IndexMap}}: the layouts for which loops still go through buffers in order, in blocks
    that write one buffer by spatial iterators alone. Blocks that are not understood, or whose map is not one to one,
    are left out, as are buffers that a block before wants otherwise.

    write_buffer_transforms: an IndexMap, or a function of indices, for each output: the last parameters. Raises
    ValueError where there are more than parameters, or where one takes another number of indices than its buffer has.
    """
    if not isinstance(func, PrimFunc):
        raise TypeError(f"suggest_layout_transforms takes a PrimFunc, not a {type(func).__name__}")
    known = _of_outputs(func, write_buffer_transforms)
    found = {}
    for block in collect(func.body, Block) if known else ():
        if block.name_hint == "root" or len(block.writes) != 1 or block.writes[0].buffer not in known:
            continue
        maps = _maps_of_block(block, known)
        if maps:
            found[block] = maps
            known.update((b, m) for b, m in maps.items() if b is not block)
    return found


def _of_outputs(func, transforms):
    """{buffer of an output: its IndexMap}"""
    if len(transforms) > len(func.params):
        raise ValueError(f"Incompatible PrimFunc and write_transformations: {len(transforms)} layouts for a function "
                         f"of {len(func.params)} parameters")
    known = {}
    for param, transform in zip(func.params[len(func.params) - len(transforms):], transforms):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            raise ValueError(f"suggest_layout_transforms: parameter {param.name} is no buffer")
        if not isinstance(transform, IndexMap):
            if not callable(transform):
                raise NoIndexMap(f"the layout of {buffer.name} must be an IndexMap or a function of indices, not "
                                 f"{transform!r}")
            transform = IndexMap.from_func(transform, len(buffer.shape), index_dtype=_index_dtype(buffer))
        if len(transform.initial_indices) != len(buffer.shape):
            raise ValueError(f"Mismatch between output buffer shape and index map: {buffer.name} has "
                             f"{len(buffer.shape)} dimensions, {transform} takes {len(transform.initial_indices)}")
        known[buffer] = transform
    return known


def _index_dtype(buffer):
    return str(buffer.shape[0].dtype) if buffer.shape else "int32"


def _maps_of_block(block, known):
    """{block: its map, written buffer: its own, buffer that is read: ...}; None where the block is not understood."""
    written = block.writes[0].buffer
    layouts = _layouts(block, written)
    order = {iv.var: n for n, iv in enumerate(block.iter_vars)}
    source = layouts and layouts.get(written)
    if not source or None in source or not _in_order(source, order):
        return None
    own = _inferred(source, known[written], tuple(order))
    if own is None:
        return None
    ranges = {v: iv.dom for v, iv in zip(own.initial_indices, block.iter_vars)}
    if detect_iter_map(own.final_indices, ranges, True, IterMapLevel.Bijective).errors:
        return None
    maps = {block: own, written: known[written]}
    for region in block.reads:
        layout = layouts.get(region.buffer)
        if region.buffer in known or not layout or not _in_order(layout, order):
            continue
        made = _inferred(source, known[written], layout)
        if made is not None:
            maps[region.buffer] = made
    return maps


def _layouts(block, written):
    """{buffer: its layout, None where accesses differ or one is not affine}; None for a block that holds blocks, writes
    another buffer or has iterators that are neither spatial nor reduce."""
    if collect(block.body, Block) or any(iv.iter_type not in ("spatial", "reduce") for iv in block.iter_vars):
        return None
    if any(s.buffer is not written for s in collect(block.body, BufferStore)):
        return None
    spatial = {iv.var: iv.dom for iv in block.iter_vars if iv.iter_type == "spatial"}
    found = {}
    for access in collect(block.body, (BufferLoad, BufferStore)):
        layout = _layout(access.indices, spatial)
        if found.setdefault(access.buffer, layout) != layout:
            found[access.buffer] = None
    return found


def _layout(indices, spatial):
    """The layout of an access, None where one of its indices is not affine or has several iterators."""
    found = detect_iter_map(indices, spatial, True, IterMapLevel.NoCheck)
    iterators = [_iterators(e) for e in found.indices]
    if found.errors or any(len(several) > 1 for several in iterators) or any(
            isinstance(split.scale, IntImm) and split.scale.value < 0 for e in found.indices for split in e.args):
        return None
    return _Iterators(several[0] if several else None for several in iterators)


class _Iterators(tuple):
    """Iterators that are compared by identity: `==` of two makes an expression."""

    def __eq__(self, other):
        return isinstance(other, _Iterators) and tuple(map(id, self)) == tuple(map(id, other))

    __hash__ = tuple.__hash__


def _iterators(e):
    """The iterators that an IterSumExpr is made of."""
    sources = [split.source.source for split in e.args]
    return [v for s in sources for v in ([s] if isinstance(s, Var) else _iterators(s))]


def _in_order(layout, order):
    """Whether iterators stand in a layout as they do in the block."""
    places = [order[v] for v in layout if v is not None]
    return places == sorted(set(places))


def _inferred(source, transform, target):
    """The map of a buffer or block of layout `target`, where one of layout `source` has `transform`: iterators that the
    target lacks go, others than the source's stay where they are. None where an index mixes the two."""
    there = {id(v) for v in target if v is not None}
    kept = [(v, s) for v, s in zip(transform.initial_indices, source) if id(s) in there]
    mine, initial, final = {id(v) for v, _ in kept}, [v for v, _ in kept], []
    for e in transform.final_indices:
        used = [id(v) in mine for v in free_vars(e)]
        if not used or any(used) and not all(used):
            return None
        if any(used):
            final.append(e)
    known = {id(s) for s in source}
    for n, v in enumerate(target):
        if id(v) not in known:
            new = Var("d", transform.initial_indices[0].dtype)
            initial.insert(n, new)
            final.insert(min(n, len(final)), new)
    return IndexMap(tuple(initial), tuple(final))


__all__ = ["suggest_layout_transforms"]
