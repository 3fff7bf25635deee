"""Intermediate tensors as outputs, so that they can be compared with a reference."""
from __future__ import annotations

from ..expr import IntImm
from ..names import unique_name
from ..node import structural_equal
from ..relax.block_builder import call_op
from ..relax.expr import Constant, DataflowVar, TensorStructInfo, VarBinding, dataflow_function
from ..relax.memory import Memory
from ..relax.infos import same_info
from .blocked_images import in_order, sources


def expose_intermediates(lowered, imported):
    """Let both modules also return every tensor of `imported` that survived the passes on the way to `lowered`.

    Requires `lowered` after lower_ops, `imported` the module that it was made from. Ensures that the outputs of both
    correspond one by one: the surviving tensors in the order of computation, then the declared outputs. A tensor that
    is an output under another name, or a part of a tensor, is not listed twice. Both return a tensor as it survived:
    in blocks of channels, within a border. attrs["parts"] of imported's function, {output: (the border's widths or (),
    Image.spots or ())}, says where in such a one the tensor lies; around it the two may differ. Returns (lowered,
    imported).
    """
    main, source = lowered["main"], imported["main"]
    known = {binding.var.name: binding.var for binding in source.bindings}
    inlays = {id(b.value.args[1]): b for b in main.bindings if getattr(b.value, "op", "") == "memory.inlay"}
    memory, likeness, surviving, parts = Memory(main), _Likeness(main, known), [], {}
    listed = {memory.whole(out) for out in main.outputs} | {None}
    for var in (binding.var for binding in main.bindings):
        origin = known.get(var.name)
        if origin is None or not all(isinstance(v.struct_info, TensorStructInfo) for v in (var, origin)):
            continue
        inlay = inlays.get(id(var))
        shown = inlay.var if inlay else var
        owner = memory.whole(shown)
        if owner in listed or not memory.is_computed(owner) or not _same_origin(var, origin):
            continue
        like = likeness.of(origin, var, inlay)
        if like is not None:
            surviving.append((var.name, shown, like))
            listed.add(owner)
            blocked = var.struct_info.ndim != origin.struct_info.ndim
            parts[var.name] = (tuple(inlay.value.attrs["pad_width"]) if inlay else (),
                               likeness.spots(origin, var) if blocked else ())
    names = tuple(name for name, _, _ in surviving)
    attrs = {**source.attrs, "parts": parts}
    source = dataflow_function(source.params, [*source.bindings, *likeness.bindings], source.outputs, attrs)
    return (lowered.with_function("main", _returning(main, [var for _, var, _ in surviving], names)),
            imported.with_function("main", _returning(source, [like for _, _, like in surviving], names)))


class _Likeness:
    """Makes values of the imported function lie as those of the lowered one. bindings: what that takes."""

    def __init__(self, main, known):
        self.moved = {name: spots for spots, names in main.attrs.get("spots", ()) for name in names}
        self.names, self.bindings = set(known), []

    def spots(self, origin, var):
        """The place of each channel in a blocked image."""
        return tuple(self.moved.get(var.name) or range(origin.struct_info.shape[1].value))

    def of(self, origin, var, inlay):
        """`origin` as `var` lies, and `inlay`, the binding that puts that in a border; None when that is not how."""
        value, start = origin, len(self.bindings)
        if not structural_equal(var.struct_info, origin.struct_info):
            value = self._blocked(origin, var)
        if value is not None and inlay:
            value = self._emit(origin, call_op("nn.pad", value, pad_width=inlay.value.attrs["pad_width"]))
        if value is None:
            del self.bindings[start:]
        return value

    def _blocked(self, origin, var):
        plain, info = origin.struct_info.shape, var.struct_info
        if not plain or len(plain) != 4 or info.ndim != 5 or not all(
                isinstance(d, IntImm) for d in (plain[1], info.shape[1], info.shape[-1])):
            return None
        blocks, lanes = info.shape[1].value, info.shape[-1].value
        layout, spots = f"NCHW{lanes}c", self.spots(origin, var)
        value = self._emit(origin, call_op("layout_transform", origin, src_layout="NCHW", dst_layout=layout))
        if var.name in self.moved:
            indices = Constant(sources(spots, in_order(len(spots)), blocks, lanes))
            value = self._emit(origin, call_op("gather_channels", value, indices, layout=layout))
        return value if same_info(value.struct_info, info) else None

    def _emit(self, origin, call):
        name = unique_name(f"{origin.name}_{call.op.rpartition('.')[2]}", self.names)
        self.bindings.append(VarBinding(DataflowVar(name, call.struct_info, origin.origin), call))
        return self.bindings[-1].var


def _returning(func, first, names):
    """`func` with the values `first` before its own outputs."""
    own = func.attrs.get("output_names") or [getattr(out, "name", f"output{i}") for i, out in enumerate(func.outputs)]
    attrs = {**func.attrs, "output_names": (*names, *own)}
    return dataflow_function(func.params, func.bindings, [*first, *func.outputs], attrs)


def _same_origin(a, b):
    """Two variables of one name, which passes keep: the same value unless a pass made one in another node's place."""
    if a.origin is None or b.origin is None:
        return a.origin is b.origin
    return (a.origin.name, a.origin.output) == (b.origin.name, b.origin.output)
