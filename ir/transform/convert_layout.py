"""Blocked layouts over the whole graph: convolutions read and write NCHW{c}c, and what lies between them follows."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..costs import BASE
from ..expr import is_const_int
from ..names import unique_name
from ..relax.block_builder import call_op
from ..relax.expr import (Constant, DataflowVar, MatchCast, TupleGetItem, VarBinding, dataflow_function)
from ..relax.ops.layout import blocks_of, pack_channels
from .blocked_images import KINDS, Image, channels_of, in_order, sources
from .graph import MadeOnce, Substitute, is_operator, leaves, on_main, remove_unused
from .layout_rows import DEFERRED, ROWS, item_of_split, map_of_images
from .split_phases import split_phases


@on_main
def convert_layout(func, lanes, shuffle=BASE["shuffle"].value, dtypes=KINDS, turned=False):
    """Requires plain layouts. Ensures blocked layouts: 2-D convolutions of some dtypes with constant weights read and
    write activations of layout NCHW{lanes}c, and so do the operators between them that have such a form; the others get
    plain ones. A value is transformed where it is needed in the other layout, once. A convolution of few channels reads
    a plain input as it is. Transposed ones whose phases are better channels are such first (split_phases). Not when
    lanes is 1.
    shuffle: vectors that take as long as moving an element to its place; 0: transposed ones stay.
    turned: whether input channels are innermost in blocks of weights, as products of warpgroups read them.

    Each operator decides by what its inputs are there as: dense convolutions ask for blocked ones, the rest follows.
    Channels need not lie in order (Image.spots): those of a convolution in groups begin with a block for each group,
    a concatenation joins blocks, and a shuffle of channels only says that they lie otherwise. attrs["spots"] tells of
    the variables to which that happened.
    """
    if lanes == 1:
        return func
    return ConvertLayout(split_phases(func, lanes, shuffle) if shuffle else func, lanes, dtypes, turned).run()


class ConvertLayout:
    """plain: {id(variable of the old function): the plain value in the new one}; blocked: likewise, its Image; a
    variable is in one or both, or in deferred: {id: its binding}, a view of channels that nothing needed so far.

    Rows (layout_rows.py) see it as `graph`.
    """

    def __init__(self, func, lanes, dtypes, turned):
        self.dtypes, self.turned = dtypes, turned
        self.func, self.lanes, self.layout = func, lanes, f"NCHW{lanes}c"
        self.plain, self.blocked, self.deferred = {id(p): p for p in func.params}, {}, {}
        self.views = {}      # id -> (Image, array of its channels): the deferred values of layout_rows.py
        self.parts = {}      # id of a split -> the Images of its parts
        self.once = MadeOnce()
        self.tables = {}     # (spots, groups) -> the Constant of their places
        self.names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
        self.bindings, self.current = [], None

    def run(self):
        for binding in self.func.bindings:
            self.current = binding.var
            if isinstance(binding, MatchCast) or not self._convert(binding):
                self._bind_plain(binding)
        outputs = [self._in_plain(o) for o in self.func.outputs]
        attrs = {**self.func.attrs, "spots": spots} if (spots := self._out_of_order()) else self.func.attrs
        return remove_unused(dataflow_function(self.func.params, self.bindings, outputs, attrs))

    def _out_of_order(self):
        """((Image.spots, the names of variables that lie so), ...) of those whose channels do not lie in order."""
        found = {}
        for var in (b.var for b in self.func.bindings):
            image = self.blocked.get(id(var))
            if image and image.value.name == var.name and not image.in_order:
                found.setdefault(image.spots, []).append(var.name)
        return tuple((spots, tuple(names)) for spots, names in found.items())

    def _bind_plain(self, binding):
        self.bindings.append(binding.replace(value=self._in_plain(binding.value)))
        self.plain[id(binding.var)] = binding.var

    def _convert(self, binding):
        """Bind the blocked form of a binding's value, or defer it; False where it has none."""
        value, row = binding.value, None
        if isinstance(value, TupleGetItem):
            row = item_of_split
        elif is_operator(value):
            maps = op_table.get(value.op).kind in ("elementwise", "broadcast")
            row = ROWS.get(value.op) or (map_of_images if maps else None)
        found = row and row(self, value)
        if not found:
            return False
        if found is DEFERRED:
            self.deferred[id(binding.var)] = binding
        elif isinstance(found, Image):
            self.blocked[id(binding.var)] = found.like(self._bound(binding.var, found.value))
        else:
            self.plain[id(binding.var)] = self._bound(binding.var, found)
        return True

    def _bound(self, var, value):
        """A variable that stands for `var`, bound to a value; a variable stands for itself."""
        if isinstance(value, DataflowVar):
            return value
        new = DataflowVar(var.name, value.struct_info, var.origin)
        self.bindings.append(VarBinding(new, value))
        return new

    def emit(self, value, hint):
        """Bind a value to a new variable that carries the current binding's origin."""
        var = DataflowVar(unique_name(hint, self.names), value.struct_info, self.current.origin)
        self.bindings.append(VarBinding(var, value))
        return var

    # ------------------------------------------------------------ values in one form or the other

    def channels_of(self, value):
        """The channels of a value that may be an image; None for others."""
        return channels_of(value, self.dtypes)

    def image(self, value):
        """The Image that a value is there as; None where it is not."""
        return self.blocked.get(id(value))

    def producer(self, value, op):
        """The call of an operator that a variable of the new function is bound to; None for other ones."""
        binding = next((b for b in self.bindings if b.var is value), None)
        return binding.value if binding and is_operator(binding.value) and binding.value.op == op else None

    def made(self, value):
        """How many images were there before this one."""
        return list(self.blocked).index(id(value))

    def image_of(self, var):
        """The Image of an image, transformed where it is not there as one; its channels then lie in order."""
        if id(var) not in self.blocked:
            spots = in_order(self.channels_of(var))
            name = f"{getattr(var, 'name', '') or 'const'}_{self.layout.lower()}"
            if isinstance(var, Constant):
                return Image(self.packed(var, "image", lambda data: pack_channels(data, self.lanes)), spots)
            self.blocked[id(var)] = Image(self.emit(self._transform(self.plain_of(var), var.struct_info), name), spots)
        return self.blocked[id(var)]

    def _transform(self, x, info):
        if self._is_view(info):
            return call_op("reshape", x, [info.shape[0], info.shape[1].value // self.lanes, 1, 1, self.lanes])
        return call_op("layout_transform", x, src_layout="NCHW", dst_layout=self.layout)

    def _in_plain(self, value):
        """A value of the old function, with plain variables of the new one."""
        return Substitute({id(v): self.plain_of(v) for v in leaves(value)}).visit(value)

    def plain_of(self, var):
        if isinstance(var, Constant):
            return var
        if id(var) not in self.plain:
            if id(var) in self.blocked:
                self.plain[id(var)] = self.unblocked(self.blocked[id(var)], var.struct_info, var.name)
            else:
                self._bind_plain(self.deferred[id(var)])
        return self.plain[id(var)]

    def unblocked(self, image, info, name):
        """An Image as the plain tensor of struct info `info`."""
        if not image.in_order:
            channels = len(image.spots)
            image = self.moved(image, in_order(channels), blocks_of(channels, self.lanes), name)
        if self._is_view(info):
            call = call_op("reshape", image.value, list(info.shape))
        else:
            call = call_op("layout_transform", image.value, src_layout=self.layout, dst_layout="NCHW",
                           channels=info.shape[1].value)
        return self.emit(call.replace(struct_info=info), f"{name}_nchw")

    def moved(self, image, spots, blocks, name):
        """The Image with its channels at other spots of so many blocks; zero elsewhere."""
        indices = Constant(sources(spots, image.spots, blocks, self.lanes), f"{name}_spots")
        return Image(self.emit(call_op("gather_channels", image.value, indices, layout=self.layout), f"{name}_moved"),
                     spots)

    def places(self, spots, groups):
        """The Constant [groups, channels of each, 2] of the block and lane that each channel lies in, made once."""
        if (spots, groups) not in self.tables:
            found = np.stack(divmod(np.array(spots, np.int32), self.lanes), axis=-1)
            self.tables[spots, groups] = Constant(found.reshape(groups, -1, 2), f"{self.current.name}_places")
        return self.tables[spots, groups]

    def _is_view(self, info):
        """One point of whole blocks: both layouts are the same bytes."""
        return info.shape[1].value % self.lanes == 0 and all(is_const_int(d, 1) for d in info.shape[2:])

    def packed(self, constant, how, pack):
        """The Constant pack(data), made once for each `how`."""
        return self.once(constant, how, lambda c: Constant(pack(c.data), c.name))
