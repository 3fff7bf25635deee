"""Layout decisions of costly operators: padding becomes an operator of its own, constant weights are packed."""
from __future__ import annotations

import numpy as np

from ..expr import IntImm, is_const_int
from ..relax.accuracy import FLOAT32, is_whole
from ..relax.arithmetic import ARITHMETICS, dot_product, special
from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.conv_layouts import pack_weights as pack
from ..relax.ops import matmul_quantized as quantized
from ..relax.ops import conv_planar
from ..relax.ops.matmul import OPERANDS
from ..relax.ops.phases import border
from ..relax.ops.recurrent import CELLS, STEPS
from ..relax.ops.recurrent_weights import pack as pack_steps
from ..schedule.plan import Plan, choose
from ..schedule.rules.arithmetics import schedule_of
from ..schedule.rules.blocks import static
from ..schedule.rules.product_plan import Product
from ..schedule.rules.quantized_product import vectors_of_panel
from ..schedule.rules.registers import words_by_lane
from ..schedule.rules.recurrence import Step
from .graph import GraphRewriter, MadeOnce, on_main

CONVOLUTIONS, PLAIN_KERNELS = ("nn.conv1d", "nn.conv2d", "nn.conv3d"), ("OIW", "OIHW", "OIDHW")
BYTES = ("int8", "uint8")
EXACT = 1 << 24  # float32 holds all integers up to this one
PLANAR = 2  # output channels side by side where sums are single numbers
MIN_LANES = 4  # narrower vectors have no type in simd.h


def by_columns(call, lanes):
    """Whether a plain convolution stays plain, with columns in the lanes of vectors (rule `columns`): its output
    channels would fill no more than half of them, its rows are whole vectors, and strides part the padded ones evenly.
    """
    (x, weight), attrs, (_, _, *size) = call.args, call.attrs, call.struct_info.shape
    if not isinstance(weight, Constant) or attrs["kernel_layout"] != "OIHW" or weight.data.dtype != np.float32 or (
            2 * weight.data.shape[0] > lanes or not all(map(is_const_int, (*size, *x.struct_info.shape[1:])))):
        return False
    padded = x.struct_info.shape[3].value + attrs["padding"][1] + attrs["padding"][3]
    return size[1].value % lanes == 0 == padded % attrs["strides"][1]


@on_main
def split_padding(func, lanes=1):
    """Ensures no padding in 2-D convolutions and max pools: nn.pad comes before them, and inner loops have no
    condition. Pools with ceil_mode keep theirs: their windows may reach past any padding. So do convolutions
    `by_columns` whose strides part columns: they copy their input anyway.

    As a tensor of its own the padded input is part of the memory plan, and the unpadded one can die before it.
    """
    return _SplitPadding(lanes).run(func)


def _own_padding(call):
    """((top, left, bottom, right) of what a window sees around the input, the padding once that is there)."""
    return call.attrs["padding"], (0, 0, 0, 0)


def _border_of_phases(call):
    """Zeros around the input of a transposed convolution move its output by the strides, which more padding undoes."""
    (top, left), (bottom, right) = border(call.attrs, tuple(map(int, call.args[1].struct_info.shape[1:3])))
    zeros = top, left, bottom, right
    return zeros, tuple(p + s * z for p, s, z in zip(call.attrs["padding"], call.attrs["strides"] * 2, zeros))


# operator -> (the value that padding stands for, what is around its input)
_PADDED = {"nn.conv2d": (0.0, _own_padding), "nn.conv2d_gathered": (0.0, _own_padding),
           "nn.conv2d_phases": (0.0, _border_of_phases), "nn.max_pool2d": (float("-inf"), _own_padding)}


class _SplitPadding(GraphRewriter):
    def __init__(self, lanes):
        self.lanes = lanes

    def begin(self, func):
        self.padded = {}  # (id of a tensor, its padding, the value) -> the padded tensor, which several may read

    def call(self, binding, call):
        if call.op not in _PADDED or call.attrs.get("ceil_mode"):
            return call
        if call.op == "nn.conv2d" and call.attrs["strides"][1] > 1 and by_columns(call, self.lanes):
            return call
        x, (value, around) = call.args[0], _PADDED[call.op]
        (top, left, bottom, right), rest = around(call)
        if not any((top, left, bottom, right)) or value and not x.struct_info.dtype.is_float:
            return call
        key = (id(x), top, left, bottom, right, value)
        if key not in self.padded:
            lanes = (0, 0) * (x.struct_info.ndim - 4)
            pad = call_op("nn.pad", x, pad_width=(0, 0, 0, 0, top, bottom, left, right, *lanes), pad_value=value)
            self.padded[key] = self.emit(pad, (x.name or "x") + "_pad")
        return call_op(call.op, self.padded[key], *call.args[1:], **{**call.attrs, "padding": rest})


@on_main
def pack_weights(func, target, accuracy=FLOAT32):
    """Ensures constant weights of dense (and many grouped) convolutions and of products are stored
    [outer][reduction...][lanes]: the inner loop then reads them one vector after the other; not when lanes is 1. Those
    of products are stored in panels of several vectors, as wide as a tile of registers. Products that
    are clearly faster by another arithmetic, which the accuracy admits, have its operands. Recurrences have panels too.

    accuracy: what results keep, one of relax.accuracy.ACCURACIES.
    """
    return _PackWeights(target, accuracy).run(func)


_STEPS = {name + STEPS for name in CELLS}


class _PackWeights(GraphRewriter):
    def __init__(self, target, accuracy):
        self.target, self.lanes, self.accuracy = target, target.lanes, accuracy
        self.once, self.wider = MadeOnce(), {}

    def call(self, binding, call):
        if self.lanes > 1 and call.op in CONVOLUTIONS and (made := self._in_floats(binding, call)):
            return made
        if self.lanes > 1 and call.op == "nn.conv2d" and not by_columns(call, self.lanes):
            return self._conv2d(call)
        if self.target.integers and call.op == "nn.conv2d" and (made := self._planar(call)):
            return made
        if self.target.has_tiles and call.op == "matmul":
            return self._matmul(binding, call)
        if self.lanes > 1 and call.op == "matmul_quantized":
            return self._quantized(call)
        if self.target.has_tiles and call.op in _STEPS:
            return self._steps(call)
        return call

    def _in_floats(self, binding, call):
        """A convolution of bytes that has no blocked layout as one of floats, which hold its sums; None for another."""
        x, weight = call.args
        if (x.struct_info.dtype not in BYTES or not isinstance(weight, Constant) or call.attrs["out_dtype"] != "int32"
                or call.attrs["kernel_layout"] not in PLAIN_KERNELS):
            return None
        least, most = map(int, x.struct_info.dtype.finite_range())
        sums = np.abs(weight.data.astype(np.int64)).sum(axis=tuple(range(1, weight.data.ndim)))
        if max(-least, most) * int(sums.max(initial=0)) >= EXACT:
            return None
        floats = self.once(weight, "floats", lambda w: Constant(w.data.astype(np.float32), w.name))
        total = call_op(call.op, self.emit(call_op("astype", x, dtype="float32"), f"{x.name}_floats"), floats,
                        **{**call.attrs, "out_dtype": None})
        if call.op == "nn.conv2d":
            total = self._conv2d(total)
        return call_op("astype", self.emit(total, f"{binding.var.name}_floats"), dtype="int32")

    def _planar(self, call):
        """A convolution of bytes by tiles of single sums: a dense one of several channels, a depthwise one by words;
        None for another."""
        x, weight = call.args
        dot = dot_product.name_of(x.struct_info.dtype, weight.struct_info.dtype)
        attrs = call.attrs
        if (not isinstance(weight, Constant) or not dot or attrs["kernel_layout"] != "OIHW"
                or attrs["out_dtype"] != "int32" or weight.data[0].size > ARITHMETICS[dot].most
                or tuple(attrs["dilation"]) != (1, 1) or any(attrs["padding"])
                or not all(map(is_const_int, x.struct_info.shape[1:]))):
            return None
        if attrs["groups"] > 1:
            return self._depthwise_words(call, dot) if self.target.dot_pairs else None
        lanes, row = PLANAR, weight.data.shape[1] * weight.data.shape[3]  # of the kernel
        terms = (conv_planar.ROW if self.target.dot_rows and row > 2 * dot_product.WORD else
                 dot_product.WORD if self.target.dot_pairs else 1)
        packed = self.once(weight, ("rows", lanes, terms), lambda w: Constant(
            conv_planar.pack(w.data, lanes, terms), w.name))
        return call_op(call.op, x, packed, **{
            **attrs, "kernel_layout": f"OH{weight.data.shape[3]}w{lanes}o{f'{terms}k' * (terms > 1)}",
            "out_channels": weight.data.shape[0],
            "arithmetic": dot if terms == dot_product.WORD else attrs["arithmetic"]})

    def _depthwise_words(self, call, dot):
        """A depthwise convolution whose kernel's rows are words; None for another, and for an input that nothing pads,
        which would be copied."""
        (x, weight), attrs = call.args, call.attrs
        if not attrs["groups"] == x.struct_info.shape[1].value == weight.data.shape[0] or (
                weight.data.shape[3] != conv_planar.COLUMNS):
            return None
        more, pad = conv_planar.columns_more(x.struct_info.shape[3].value, attrs["strides"][1]), None
        if more:
            pad = self.producer(x, "nn.pad")
            if pad is None:
                return None
            width = list(pad.attrs["pad_width"])
            width[7] += more
            key = (id(x), more)
            if key not in self.wider:
                self.wider[key] = self.emit(call_op("nn.pad", pad.args[0], **{**pad.attrs, "pad_width": tuple(width)}),
                                            x.name)
            x = self.wider[key]
        packed = self.once(weight, ("taps",), lambda w: Constant(conv_planar.pack_depthwise(w.data), w.name))
        return call_op(call.op, x, packed, **{**attrs, "kernel_layout": f"CH{conv_planar.COLUMNS}w4k+{more}",
                                              "out_channels": attrs["groups"], "arithmetic": dot})

    def _conv2d(self, call):
        weight = call.args[1]
        if not isinstance(weight, Constant) or call.attrs["kernel_layout"] != "OIHW" or weight.data.dtype != np.float32:
            return call
        out_channels, groups = weight.data.shape[0], call.attrs["groups"]
        lanes = self._lanes_of(out_channels // groups, groups)
        if lanes == 1:
            return call
        packed = self.once(weight, (lanes, groups), lambda w: Constant(pack(w.data, lanes, groups), w.name))
        return call_op("nn.conv2d", call.args[0], packed, *call.args[2:],
                       **{**call.attrs, "kernel_layout": f"OIHW{lanes}o", "out_channels": out_channels})

    def _lanes_of(self, channels, groups):
        """The vector width for a group of so many channels: the machine's, or for groups the widest that divides."""
        lanes = self.lanes
        while groups > 1 and lanes > 1 and channels % lanes:
            lanes //= 2
        return lanes if lanes >= MIN_LANES else 1

    def _matmul(self, binding, call):
        weight = call.args[1]
        if call.attrs["b_layout"] != "KN" or weight.struct_info.ndim != 2:
            return call
        if not isinstance(weight, Constant) or call.args[0].struct_info.ndim < 2:
            return call
        by_words = self.lanes > 1 or self.target.dot_pairs
        if by_words and dot_product.name_of(call.args[0].struct_info.dtype, weight.struct_info.dtype):
            return self._dots(binding, call)
        if weight.data.dtype != np.float32:
            return call
        n_size, sizes = weight.data.shape[1], (static(call.args[0].struct_info.shape[-2]), *weight.data.shape)
        for row in () if is_whole(weight.data) else special():
            schedule = schedule_of(row)
            if (row.admitted(self.target, self.accuracy) and schedule.is_profitable(self.target, *sizes)
                    and row.packs(weight.data)):
                plan, layout = Plan(Product.rule, arithmetic=row.name), {}
                if schedule.layout:
                    plan = choose(Product(*sizes, compressed=True), self.target)
                    layout = schedule.layout(self.target, plan.tile)
                parts = self.once(weight, (row.name, *layout.values()), lambda w: [
                    Constant(data, w.name + o.suffix) for data, o in zip(row.pack(w.data, **layout), row.operands)])
                return call_op("matmul", self._filled(binding, call.args[0], row.block), *parts, arithmetic=row.name,
                               b_layout=OPERANDS, n_size=n_size, plan=plan)
        plan = choose(Product(*sizes, by_element=weight.data.shape[0] % self.lanes == 0), self.target)
        panel = plan.tile.vectors * self.lanes
        packed = self.once(weight, ("product", panel), lambda w: Constant(pack(w.data.T, panel, 1), w.name))
        return call_op("matmul", call.args[0], packed, **{
            **call.attrs, "b_layout": f"KN{panel}n", "n_size": n_size, "plan": plan})

    def _dots(self, binding, call):
        """A product of bytes, whose sums are int32: words of four terms in panels as wide as a tile of sums."""
        x, weight = call.args
        name = dot_product.name_of(x.struct_info.dtype, weight.struct_info.dtype)
        depth, columns = weight.data.shape
        row, words = ARITHMETICS[name], -(-depth // dot_product.WORD)
        if call.attrs["out_dtype"] != "int32" or depth > row.most:
            return call
        plan = choose(Product(static(x.struct_info.shape[-2]), words, columns,
                              by_element=words_by_lane(self.target, name, words), dot=name), self.target)
        panel = plan.tile.vectors * self.lanes
        packed = self.once(weight, ("words", panel), lambda w: Constant(row.pack(w.data, panel)[0], w.name))
        return call_op("matmul", self._filled(binding, x, row.block), packed, arithmetic=name, b_layout=OPERANDS,
                       n_size=columns, plan=plan)

    def _quantized(self, call):
        """Columns of a few bits in words, in panels as wide as a tile of sums."""
        x, w, scales, *_ = call.args
        bits = w.struct_info.dtype.bits
        if call.attrs["b_layout"] != quantized.PLAIN or not all(isinstance(a, Constant) for a in call.args[1:]) or (
                not quantized.fits_words(w.data.shape[1], scales.data.shape[1], bits)):
            return call
        panel = self.lanes * vectors_of_panel(static(x.struct_info.shape[-2]), w.data.shape[0], self.lanes)
        words = self.once(w, ("words", panel), lambda w: Constant(quantized.pack(w.data, bits, panel), w.name))
        blocks = [self.once(v, ("blocks", panel), lambda v: Constant(quantized.pack_blocks(v.data, panel), v.name))
                  for v in call.args[2:]]
        return call_op("matmul_quantized", x, words, *blocks, b_layout=quantized.WORDS, n_size=w.data.shape[0],
                       bits=bits)

    def _filled(self, binding, x, block):
        """Rows x with zeros up to whole blocks of terms."""
        rest = -x.struct_info.shape[-1].value % block
        if not rest:
            return x
        pad = call_op("nn.pad", x, pad_width=(*(0, 0) * (x.struct_info.ndim - 1), 0, rest),
                      pad_value=0.0 if x.struct_info.dtype.is_float else 0)
        return self.emit(pad, binding.var.name + "_filled")

    def _steps(self, call):
        """A recurrence with weights in the order in which a tile of sums takes them in every step."""
        weight, (_, _, rows, hidden) = call.args[1], call.struct_info.fields[0].shape
        if not isinstance(weight, Constant) or weight.struct_info.ndim != 3 or weight.data.dtype != np.float32:
            return call
        gates = weight.data.shape[2] // hidden.value
        step = Step(rows.value if isinstance(rows, IntImm) else 1, hidden.value, gates)
        vectors, lanes = choose(step, self.target).tile.vectors, step.lanes(self.target)
        packed = self.once(weight, ("steps", vectors), lambda w: Constant(
            pack_steps(w.data, gates, vectors * lanes), w.name))
        return call_op(call.op, call.args[0], packed, *call.args[2:], **call.attrs)
