"""Blocked layouts over the whole graph: convolutions read and write NCHW{c}c, and what lies between them follows."""
from __future__ import annotations

from math import gcd

import numpy as np

from .. import op as op_table
from ..expr import IntImm, is_const_int
from ..names import unique_name
from ..relax.block_builder import call_op
from ..relax.expr import (Constant, DataflowVar, MatchCast, TensorStructInfo, TupleGetItem, VarBinding,
                          dataflow_function)
from ..relax.ops.conv_layouts import pack_weights
from ..relax.ops.layout import blocks_of, pack_channels
from .graph import Substitute, is_operator, leaves, on_main, remove_unused, uses

# Channels beyond the true ones hold any finite value: what weights of zero are multiplied with must not be infinite.
# These map finite values to finite ones; others run blocked only where blocks are whole.
FINITE = {"nn.relu", "nn.leaky_relu", "nn.elu", "nn.gelu", "nn.silu", "nn.hard_sigmoid", "nn.hard_swish", "nn.softplus",
          "nn.softsign", "nn.mish", "nn.selu", "sigmoid", "tanh", "erf", "abs", "negative", "sign", "clip", "floor",
          "ceil", "round", "add", "subtract", "multiply", "maximum", "minimum", "divide", "copy"}
# Operators that divide by their second argument: its padded channels are 1, which only constants can promise.
DIVIDES = {"divide", "floor_divide", "floor_mod", "mod"}
FEW = 4  # channels of a first layer, at least
SMALL_BLOCK = 4  # input channels in a block of weights, at least


@on_main
def convert_layout(func, lanes):
    """Ensures that 2-D float32 convolutions with constant weights, dense, depthwise or in groups of whole blocks, read
    and write activations of layout NCHW{lanes}c, and so do the operators between them that have such a form; the others
    get plain ones. A value is transformed where it is needed in the other layout, once. A convolution of few channels
    reads a plain input as it is. Not when lanes is 1.

    Each operator decides by what its inputs are there as: convolutions ask for blocked ones, the rest follows.
    """
    return func if lanes == 1 else _ConvertLayout(func, lanes).run()


class _ConvertLayout:
    """plain, blocked: {id(variable of the old function): the value in the new one}; a variable is in one or both."""

    def __init__(self, func, lanes):
        self.func, self.lanes, self.layout = func, lanes, f"NCHW{lanes}c"
        self.plain, self.blocked = {id(p): p for p in func.params}, {}
        self.constants = {}  # (id of the data, how it is packed) -> (the old Constant, the packed one)
        self.names = {p.name for p in func.params} | {b.var.name for b in func.bindings}
        self.uses = uses(func)
        self.bindings, self.current = [], None

    def run(self):
        for binding in self.func.bindings:
            self.current = binding.var
            if isinstance(binding, MatchCast) or not self._convert(binding):
                self.bindings.append(binding.replace(value=self._in_plain(binding.value)))
                self.plain[id(binding.var)] = binding.var
        outputs = [self._in_plain(o) for o in self.func.outputs]
        return remove_unused(dataflow_function(self.func.params, self.bindings, outputs, self.func.attrs))

    def _convert(self, binding):
        """Bind the blocked form of a binding's value; False where it has none."""
        value, row = binding.value, None
        if isinstance(value, TupleGetItem):
            row = _item
        elif is_operator(value):
            row = _ROWS.get(value.op) or (_map if op_table.get(value.op).kind in ("elementwise", "broadcast") else None)
        converted = row and row(self, value)
        if not converted:
            return False
        var = DataflowVar(binding.var.name, converted.struct_info, binding.var.origin)
        self.bindings.append(VarBinding(var, converted))
        is_plain = getattr(converted.struct_info, "ndim", 5) < 5
        (self.plain if is_plain else self.blocked)[id(binding.var)] = var
        return True

    def emit(self, value, hint):
        """Bind a value to a new variable that carries the current binding's origin."""
        var = DataflowVar(unique_name(hint, self.names), value.struct_info, self.current.origin)
        self.bindings.append(VarBinding(var, value))
        return var

    # ------------------------------------------------------------ values in one form or the other

    def is_blocked(self, value):
        return id(value) in self.blocked

    def _in_plain(self, value):
        """A value of the old function, with plain variables of the new one."""
        return Substitute({id(v): self.plain_of(v) for v in leaves(value)}).visit(value)

    def plain_of(self, var):
        if isinstance(var, Constant):
            return var
        if id(var) not in self.plain:
            self.plain[id(var)] = self.unblocked(self.blocked[id(var)], var.struct_info, var.name)
        return self.plain[id(var)]

    def unblocked(self, x, info, name):
        """The blocked tensor x as the plain one of struct info `info`."""
        if self._is_view(info):
            call = call_op("reshape", x, list(info.shape))
        else:
            call = call_op("layout_transform", x, src_layout=self.layout, dst_layout="NCHW",
                           channels=info.shape[1].value)
        return self.emit(call.replace(struct_info=info), f"{name}_nchw")

    def blocked_of(self, var):
        if isinstance(var, Constant):
            return self.packed(var, "image", lambda data: pack_channels(data, self.lanes))
        if id(var) not in self.blocked:
            x, info = self.plain_of(var), var.struct_info
            if self._is_view(info):
                blocks = info.shape[1].value // self.lanes
                call = call_op("reshape", x, [info.shape[0], blocks, 1, 1, self.lanes])
            else:
                call = call_op("layout_transform", x, src_layout="NCHW", dst_layout=self.layout)
            self.blocked[id(var)] = self.emit(call, f"{var.name}_{self.layout.lower()}")
        return self.blocked[id(var)]

    def _is_view(self, info):
        """One point of whole blocks: both layouts are the same bytes."""
        return info.shape[1].value % self.lanes == 0 and all(is_const_int(d, 1) for d in info.shape[2:])

    def packed(self, constant, how, pack):
        """The Constant pack(data), made once for each `how`."""
        key = (id(constant.data), how)
        if key not in self.constants:
            self.constants[key] = (constant, Constant(pack(constant.data), constant.name))
        return self.constants[key][1]


def channels_of(value):
    """The channels of an image: a float32 tensor of four dimensions with a static second one; None for others."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or info.ndim != 4 or info.shape is None or info.dtype != "float32":
        return None
    return info.shape[1].value if isinstance(info.shape[1], IntImm) else None


# ---------------------------------------------------------------- convolutions

def _conv2d(self, call):
    x, weight = call.args
    channels, attrs, lanes = channels_of(x), call.attrs, self.lanes
    if channels is None or not isinstance(weight, Constant) or attrs["kernel_layout"] != "OIHW":
        return None
    outputs, groups = weight.data.shape[0], attrs["groups"]
    if groups == channels == outputs:
        if not self.is_blocked(x):
            return None
        layouts, inner = {"data_layout": self.layout, "kernel_layout": f"OIHW{lanes}o"}, None
    elif not self.is_blocked(x) and _is_row(x):
        return None
    elif not self.is_blocked(x) and groups == 1 and channels <= min(lanes - 1, max(lanes // 2, FEW)):
        layouts, inner = {"out_layout": self.layout, "kernel_layout": f"OIHW{lanes}o"}, None
    elif groups == 1 or channels // groups % lanes == 0 and outputs // groups % lanes == 0:
        inner = gcd(channels, lanes)
        inner = inner if inner >= SMALL_BLOCK else lanes
        layouts = {"data_layout": self.layout, "kernel_layout": f"OIHW{inner}i{lanes}o"}
    else:
        return None
    source = self.plain_of(x) if "out_layout" in layouts else self.blocked_of(x)
    packing = 1 if groups == outputs else groups
    packed = self.packed(weight, (packing, inner), lambda w: pack_weights(w, lanes, packing, inner))
    return call_op("nn.conv2d", source, packed, **{**attrs, **layouts, "out_channels": outputs})


def _is_row(x):
    """A sequence that was given an axis of extent 1: what is around the convolution has one axis less."""
    height, width = x.struct_info.shape[2:]
    return is_const_int(height, 1) and not is_const_int(width, 1)


# ---------------------------------------------------------------- maps

def _map(self, call):
    """An elementwise operator, with broadcasting."""
    channels = channels_of(call)
    if channels is None or not any(map(self.is_blocked, call.args)):
        return None
    if channels % self.lanes and call.op not in FINITE:
        return None
    if channels % self.lanes and call.op in DIVIDES and not isinstance(call.args[1], Constant):
        return None
    fills = [1 if n == 1 and call.op in DIVIDES else 0 for n in range(len(call.args))]
    if not all(_broadcasts(a, channels) for a in call.args):
        return None
    return call_op(call.op, *(_operand(self, a, channels, f) for a, f in zip(call.args, fills)), **call.attrs)


def _broadcasts(value, channels):
    """Whether an operand of a blocked map of so many channels has a blocked form."""
    if isinstance(value, Constant):
        return value.data.ndim <= 4 and value.data.dtype == np.float32
    return channels_of(value) in (1, channels)


def _operand(self, value, channels, fill):
    if not isinstance(value, Constant):
        if channels_of(value) == channels:
            return self.blocked_of(value)
        batch, _, *spatial = value.struct_info.shape
        return self.emit(call_op("reshape", self.plain_of(value), [batch, 1, *spatial, 1]), f"{value.name}_lane")
    if value.data.size == 1:
        return value

    def pack(data):
        data = data.reshape((1,) * (4 - data.ndim) + data.shape)
        return data[..., None] if data.shape[1] == 1 else pack_channels(data, self.lanes, fill)

    return self.packed(value, ("map", fill), pack)


# ---------------------------------------------------------------- windows and reductions

def _windows(self, call):
    """Pools and resizing: the same over blocks."""
    x = call.args[0]
    return call_op(call.op, self.blocked[id(x)], **{**call.attrs, "layout": self.layout}) if _follows(self, x) else None


def _follows(self, x):
    return channels_of(x) is not None and self.is_blocked(x)


def _pad(self, call):
    x, width = call.args[0], call.attrs["pad_width"]
    if not _follows(self, x) or any(width[:4]) or not np.isfinite(call.attrs["pad_value"]):
        return None
    return call_op("nn.pad", self.blocked[id(x)], **{**call.attrs, "pad_width": (*width, 0, 0)})


def _reduce(self, call):
    """Means and the like over H and W. Without kept dimensions the result is plain."""
    x, axis = call.args[0], call.attrs["axis"]
    axes = {a % 4 for a in ((axis,) if isinstance(axis, int) else axis or range(4))} if _follows(self, x) else {1}
    if not axes <= {2, 3}:
        return None
    kept = call_op(call.op, self.blocked[id(x)], axis=tuple(sorted(axes)), keepdims=True)
    if call.attrs["keepdims"]:
        return kept
    name = self.current.name
    batch, _, *spatial, _ = kept.struct_info.shape
    info = TensorStructInfo((batch, x.struct_info.shape[1], *spatial), call.struct_info.dtype)
    plain = self.unblocked(self.emit(kept, f"{name}_kept"), info, f"{name}_kept")
    return call_op("squeeze", plain, axis=tuple(sorted(axes)))


# ---------------------------------------------------------------- concat and split

def _concat(self, call):
    channels, axis = [channels_of(a) for a in call.args], call.attrs["axis"] % call.struct_info.ndim
    if None in channels or 2 * sum(c for c, a in zip(channels, call.args) if self.is_blocked(a)) < sum(channels):
        return None
    if axis == 1 and any(c % self.lanes for c in channels[:-1]):
        return None
    return call_op("concat", *map(self.blocked_of, call.args), axis=axis)


def _split(self, call):
    """Whole blocks, or along another axis; of what is only taken apart."""
    x, sections, axis = call.args[0], call.attrs["sections"], call.attrs["axis"] % call.args[0].struct_info.ndim
    if not _follows(self, x) or not all(b and isinstance(b.value, TupleGetItem) for b in
                                        self.uses.get(id(self.current), ())):
        return None
    if axis == 1:
        if any(s % self.lanes for s in sections[:-1]):
            return None
        sections = tuple(blocks_of(s, self.lanes) for s in sections)
    return call_op("split", self.blocked[id(x)], sections=sections, axis=axis)


def _item(self, item):
    """A part of a split."""
    parts = self.blocked.get(id(item.tuple_value))
    return None if parts is None else TupleGetItem(parts, item.index)


_ROWS = {
    "nn.conv2d": _conv2d, "nn.pad": _pad, "concat": _concat, "split": _split,
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "nn.adaptive_max_pool2d",
                     "image.resize2d"), _windows),
    **dict.fromkeys(("mean", "sum", "max", "min"), _reduce),
}
