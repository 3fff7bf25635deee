"""Layout decisions of costly operators: padding becomes an operator of its own, constant weights are packed."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..expr import IntImm, is_const_int
from ..relax.accuracy import FLOAT32, is_whole
from ..relax.arithmetic import ARITHMETICS, dot_product, special
from ..relax.block_builder import call_op
from ..relax.expr import Constant
from ..relax.ops.conv_layouts import pack_weights as pack
from ..relax.ops import matmul_quantized as quantized
from ..relax.ops import conv_layouts, conv_planar
from ..relax.ops.matmul import OPERANDS
from ..relax.ops.phases import border
from ..relax.ops.recurrent import CELLS, STEPS
from ..relax.ops.recurrent_weights import pack as pack_steps
from ..schedule.plan import Plan, choose
from ..schedule.rules.arithmetics import schedule_of
from ..schedule.rules.blocks import FLOATS, static
from ..schedule.rules.product_plan import Product
from ..schedule.rules.quantized_product import vectors_of_panel
from ..schedule.rules.registers import words_by_lane
from ..schedule.rules.recurrence import Step
from ..tir.intrinsics import ALL_DOTS, HALF_DOTS, INTEGER_DOTS, PAIR_DOTS
from .graph import GraphRewriter, MadeOnce, on_main
from .identities import axes_of

CONVOLUTIONS, PLAIN_KERNELS = ("nn.conv1d", "nn.conv2d", "nn.conv3d"), ("OIW", "OIHW", "OIDHW")
BYTES = ("int8", "uint8")
LOW_BYTE = 255  # the bits of one, and the most that it is
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
            return self._in_pairs(call) or self._conv2d(call)
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
        """A convolution of integers that has no blocked layout as one of floats, which hold its sums, or as two, of
        the high bytes of int16 and of the low ones; None for another."""
        x, weight = call.args
        if (x.struct_info.dtype not in (*BYTES, "int16") or not isinstance(weight, Constant)
                or call.attrs["out_dtype"] != "int32" or call.attrs["kernel_layout"] not in PLAIN_KERNELS):
            return None
        most = int(np.abs(weight.data.astype(np.int64)).sum(axis=tuple(range(1, weight.data.ndim))).max(initial=0))
        if max(map(abs, map(int, x.struct_info.dtype.finite_range()))) * most < EXACT:
            parts = [(1, x)]
        elif x.struct_info.dtype == "int16" and LOW_BYTE * most < EXACT:
            wide = self.emit(call_op("astype", x, dtype="int32"), f"{x.name}_wide")
            parts = [(factor, self.emit(call_op(op, wide, Constant(np.array(n, np.int32))), f"{x.name}_{name}"))
                     for factor, op, n, name in ((LOW_BYTE + 1, "right_shift", 8, "high"),
                                                 (1, "bitwise_and", LOW_BYTE, "low"))]
        else:
            return None
        total = None
        for factor, part in parts:
            one = self._of_floats(binding, call, part)
            one = one if factor == 1 else call_op("multiply", self.emit(one), Constant(np.array(factor, np.int32)))
            total = one if total is None else call_op("add", total, self.emit(one))
            total = total if factor == 1 else self.emit(total)
        return total

    def _of_floats(self, binding, call, x):
        """A convolution of integers x, of which float32 holds the sums."""
        floats = self.once(call.args[1], "floats", lambda w: Constant(w.data.astype(np.float32), w.name))
        total = call_op(call.op, self.emit(call_op("astype", x, dtype="float32"), f"{x.name}_floats"), floats,
                        **{**call.attrs, "out_dtype": None})
        if call.op == "nn.conv2d":
            total = self._conv2d(total)
        return call_op("astype", self.emit(total, f"{binding.var.name}_floats"), dtype="int32")

    def _in_pairs(self, call):
        """A convolution by words of channels, of which instructions multiply those of two blocks by two points; None
        for another."""
        (x, weight), attrs, form = call.args, call.attrs, conv_layouts.form_of(call.attrs)
        if (form is None or form.dot is None or form.name != "dense" or not form.inner == form.data == dot_product.WORD
                or form.pairs or form.dot.name not in set(self.target.matrix_dots) & set(self.target.dots_by_lane)
                or attrs["strides"][1] != 1 or is_const_int(call.struct_info.shape[3], 1)
                or not isinstance(weight, Constant) or weight.data.shape[1] % 2):
            return None
        pairs = self.once(weight, "pairs", lambda w: Constant(conv_layouts.pair_words(w.data), w.name))
        return call_op(call.op, x, pairs, **{**attrs, "kernel_layout": attrs["kernel_layout"] + "2i"})

    def _planar(self, call):
        """A convolution of bytes by tiles of single sums: a dense one of several channels, a depthwise one by words;
        None for another."""
        x, weight = call.args
        dot = dot_product.name_of(x.struct_info.dtype, weight.struct_info.dtype, ALL_DOTS)
        attrs, by_pairs = call.attrs, dot in PAIR_DOTS
        if (not isinstance(weight, Constant) or not dot or attrs["kernel_layout"] != "OIHW"
                or attrs["out_dtype"] != "int32" or weight.data[0].size > ARITHMETICS[dot].most
                or tuple(attrs["dilation"]) != (1, 1) or any(attrs["padding"])
                or not all(map(is_const_int, x.struct_info.shape[1:]))):
            return None
        if attrs["groups"] > 1:
            vectors = self.target.columns and call.struct_info.shape[3].value >= self.target.columns.lanes
            by_vectors = vectors and not by_pairs  # which are of bytes
            return self._depthwise_words(call, dot) if self.target.dot_pairs and not by_vectors else None
        lanes, row = PLANAR, weight.data.shape[1] * weight.data.shape[3]  # of the kernel
        terms = (conv_planar.ROW if self.target.dot_rows and row > 2 * dot_product.WORD and not by_pairs else
                 dot_product.WORD if self.target.dot_pairs else 1)
        widened = dot_product.name_of("int16", weight.struct_info.dtype, PAIR_DOTS)
        if terms == dot_product.WORD and widened:  # rows are widened once, where they are copied
            dot, by_pairs = widened, True
        packed = self.once(weight, ("rows", lanes, terms, by_pairs), lambda w: Constant(
            conv_planar.pack(w.data, lanes, terms, by_pairs), w.name))
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
        return call_op(call.op, x, packed, **{**attrs, "kernel_layout": f"CH{conv_planar.COLUMNS}w2p+{more}",
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
        if call.attrs["b_layout"] != "KN" or weight.struct_info.ndim != 2 and isinstance(weight, Constant):
            return call
        if not isinstance(weight, Constant) or call.args[0].struct_info.ndim < 2:
            return self._of_matrices(binding, call) or call
        if not weight.data.size or is_const_int(call.args[0].struct_info.shape[-2], 0):
            return call  # nothing is multiplied
        if name := self._dot_of(call):
            return self._dots(binding, call, name)
        if str(weight.data.dtype) not in FLOATS:
            return call
        n_size, sizes = weight.data.shape[1], (static(call.args[0].struct_info.shape[-2]), *weight.data.shape)
        narrow, target = weight.data.dtype != np.float32, self.target
        if weight.data.dtype == np.float16:
            target = self.target.halves or target
        for row in () if narrow or is_whole(weight.data) else special():
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
        plan = choose(Product(*sizes, by_element=weight.data.shape[0] % target.lanes == 0), target)
        panel = plan.tile.vectors * target.lanes
        packed = self.once(weight, ("product", panel), lambda w: Constant(pack(w.data.T, panel, 1), w.name))
        return call_op("matmul", call.args[0], packed, **{
            **call.attrs, "b_layout": f"KN{panel}n", "n_size": n_size, "plan": plan})

    def _dot_of(self, call):
        """The arithmetic of words of bytes or, where the target and the accuracy have it, of halves that a product of a
        constant may have; None without one."""
        dtypes = tuple(a.struct_info.dtype for a in call.args[:2])
        if name := dot_product.name_of(*dtypes, INTEGER_DOTS if self.lanes > 1 else ALL_DOTS):
            return name if self.lanes > 1 or self.target.dot_pairs else None
        name = dot_product.name_of(*dtypes, HALF_DOTS)
        return name if name and ARITHMETICS[name].admitted(self.target, self.accuracy) else None

    def _dots(self, binding, call, name):
        """A product of bytes, whose sums are int32, or of halves, whose sums are float32: words of terms in panels as
        wide as a tile of sums."""
        x, weight = call.args
        depth, columns = weight.data.shape
        row, dtype = ARITHMETICS[name], call.struct_info.dtype
        words = -(-depth // row.block)
        if row.result == "int32" and dtype != "int32" or row.most and depth > row.most:
            return call
        kernel = Product(static(x.struct_info.shape[-2]), words, columns,
                         by_element=words_by_lane(self.target, name, words), dot=name)
        pairs = kernel.of_matrices(self.target)
        plan = choose(replace(kernel, pairs=pairs), self.target)
        panel = plan.tile.vectors * self.lanes
        packed = self.once(weight, ("words", panel, pairs), lambda w: Constant(
            row.pack(w.data, panel, pairs)[0], w.name))
        made = call_op("matmul", self._filled(binding, x, row.block), packed, arithmetic=name, b_layout=OPERANDS,
                       n_size=columns, plan=plan)
        return made if dtype == row.result else call_op("astype", self.emit(made, f"{binding.var.name}_sums"),
                                                        dtype=str(dtype))

    def _of_matrices(self, binding, call):
        """The product of bytes, or of int16, whose columns a run knows: it makes words of them. None for others."""
        x, w = call.args
        name = dot_product.name_of(x.struct_info.dtype, w.struct_info.dtype, INTEGER_DOTS)
        sizes = w.struct_info.shape[-2:]
        if (self.lanes == 1 or not name or call.attrs["out_dtype"] != "int32"
                or min(x.struct_info.ndim, w.struct_info.ndim) < 2 or not all(map(is_const_int, sizes))):
            return None
        depth, columns = (d.value for d in sizes)
        row = ARITHMETICS[name]
        words = -(-depth // row.block)
        if depth > row.most or not depth or not columns:
            return None
        plan = choose(Product(static(x.struct_info.shape[-2]), words, columns,
                              by_element=words_by_lane(self.target, name, words), dot=name), self.target)
        turned, across = self.producer(w, "permute_dims"), False
        if turned and depth % row.block == 0 and axes_of(turned)[-2] == w.struct_info.ndim - 1:
            *axes, last, before = axes_of(turned)
            w, across = self.emit(call_op("permute_dims", turned.args[0], axes=(*axes, before, last)), w.name), True
        packed = self.emit(call_op("qnn.words", w, panel=plan.tile.vectors * self.lanes, across=across), w.name)
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
