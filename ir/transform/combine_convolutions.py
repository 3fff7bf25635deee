"""Convolutions of one image by kernels of one shape are one convolution of all output channels."""
from __future__ import annotations

import numpy as np

from .. import op as op_table
from ..expr import is_const_int
from ..origin import Origin
from ..relax.block_builder import call_op
from ..relax.expr import Constant, RelaxCall, TupleGetItem
from ..relax.ops.common import same_shape
from .graph import GraphRewriter, constant_last, node_name, on_main, uses


@on_main
def combine_parallel_conv2d(func, lanes, apart=()):
    """Requires plain layouts and folded constants. Ensures that convolutions of one image by constant kernels of one
    shape, each followed by the same operators (a constant for each channel added or multiplied, an activation), are one
    convolution, these operators once, and a split of their results (CombineParallelConv2D of TVM). The image is then
    read once, packed once, and threads share more channels.

    Only where the split is no copy: of batch 1, and of whole blocks of `lanes` channels. A result that begins a concat,
    into which it is written, is the last of all, and the concat the end of one of all of them; other results of which
    a concat is made stay apart, and so do convolutions of model nodes named in `apart`.
    """
    return _Combine(lanes, frozenset(apart)).run(func)


class _Combine(GraphRewriter):
    def __init__(self, lanes, apart):
        self.lanes, self.apart = lanes, apart

    def begin(self, func):
        self.uses, inner, leading = uses(func), {}, {}
        for binding in func.bindings:
            if _combines(binding.value, self.lanes) and node_name(binding) not in self.apart:
                chain = self._chain(binding)
                if self._free(chain[-1]):
                    inner.setdefault(_kind(chain), []).append(chain)
                elif self._leads(chain[-1]):
                    leading.setdefault(_kind(chain), chain)
        self.group = {}  # id of a chain's last variable -> (all chains of its group, its place among them)
        self.led = {}  # id of a concat's variable -> the chains, the last of which it begins with
        for kind, chains in inner.items():
            if kind in leading:
                chains.append(leading[kind])
                self.led[id(self.uses[id(chains[-1][-1].var)][0].var)] = chains
            for index, chain in enumerate(chains if len(chains) > 1 else ()):
                self.group[id(chain[-1].var)] = chains, index
        self.whole = {}  # id of a group's list -> the variables of what all its chains compute and of the parts

    def _chain(self, binding):
        """The bindings from a convolution on, each of which alone uses the one before."""
        chain = [binding]
        while True:
            users = self.uses.get(id(chain[-1].var), ())
            if len(users) != 1 or users[0] is None or not _follows(users[0].value, chain[-1].var):
                return chain
            chain.append(users[0])

    def _free(self, last):
        """Whether a result may lie beside others: callers do not see it, and no concat is made of it."""
        users = self.uses.get(id(last.var), ())
        return bool(users) and all(b is not None and getattr(b.value, "op", "") != "concat" for b in users)

    def _leads(self, last):
        """Whether only a concat of channels uses a result, which begins with it and may be a part itself."""
        user, *more = self.uses.get(id(last.var), (None,))
        return (user is not None and not more and getattr(user.value, "op", "") == "concat" and self._free(user)
                and user.value.attrs["axis"] % 4 == 1 and user.value.args[0] is last.var)

    def call(self, binding, call):
        if id(binding.var) in self.led:
            return self._behind(self.led[id(binding.var)], call)
        if id(binding.var) not in self.group:
            return call
        chains, index = self.group[id(binding.var)]
        if id(chains) not in self.whole:
            self.whole[id(chains)] = self._combined(chains)
        return TupleGetItem(self.whole[id(chains)][1], index)

    def _combined(self, chains):
        """The variables of what all chains compute and of the parts."""
        value = self.rewritten(chains[0][0].value.args[0])
        for step in zip(*chains):
            origin = _joined([b.var.origin for b in step])
            value = self.emit(_over_all([constant_last(b.value) for b in step], value), step[0].var.name, origin)
        return value, self._parts(value, [conv.value.args[1].data.shape[0] for conv, *_ in chains], origin)

    def _behind(self, chains, call):
        """A concat that begins with the last chain's result, as the end of one of all chains' results and the rest."""
        whole, _ = self.whole[id(chains)]
        value = self.emit(call_op("concat", whole, *call.args[1:], axis=1))
        channels = [v.struct_info.shape[1].value for v in (value, self.current)]
        return TupleGetItem(self._parts(value, [channels[0] - channels[1], channels[1]]), 1)

    def _parts(self, value, channels, origin=None):
        split = call_op("split", value, sections=tuple(map(int, channels)), axis=1)
        return self.emit(split, value.name + "_parts", origin)


# ---------------------------------------------------------------- what combines

def _combines(value, lanes):
    """Whether a value is a convolution whose output channels may lie beside those of others."""
    if not isinstance(value, RelaxCall) or value.op != "nn.conv2d" or not isinstance(value.args[1], Constant):
        return False
    attrs, shape = value.attrs, value.struct_info.shape
    return (attrs["groups"] == 1 and attrs["data_layout"] == "NCHW" and attrs["kernel_layout"] == "OIHW"
            and is_const_int(shape[0], 1) and value.args[1].data.shape[0] % lanes == 0)


def _follows(value, before):
    """Whether a value is an operator on each element of `before`, alone or with a constant for each channel."""
    if not isinstance(value, RelaxCall) or value.op not in op_table.OPS:
        return False
    if op_table.get(value.op).kind not in ("elementwise", "broadcast"):
        return False
    first, *rest = constant_last(value).args
    if first is not before or not same_shape(value.struct_info.shape, before.struct_info.shape):
        return False
    return not rest or len(rest) == 1 and isinstance(rest[0], Constant) and _of_channels(rest[0].data)


def _of_channels(data):
    """Whether a constant has a number for each channel, or one for all."""
    return data.size == 1 or data.ndim > 2 and data.size == data.shape[-3]


def _kind(bindings):
    """What chains have in common that are combined."""
    conv, *rest = (b.value for b in bindings)
    attrs = {k: v for k, v in conv.attrs.items() if k != "out_channels"}
    return (id(conv.args[0]), conv.args[1].data.shape[1:], str(conv.args[1].data.dtype), repr(sorted(attrs.items())),
            tuple((c.op, repr(sorted(c.attrs.items())), len(c.args)) for c in rest))


# ---------------------------------------------------------------- what they become

def _over_all(calls, value):
    """The call on `value`, of all channels, that `calls` are on theirs."""
    first, parts = calls[0], [c.args[1].data for c in calls if len(c.args) > 1]
    if not parts:
        return call_op(first.op, value, **first.attrs)
    axis = 0 if first.op == "nn.conv2d" else 1
    if axis == 1:
        parts = [np.broadcast_to(p, (1, c.struct_info.shape[1].value, 1, 1)) for p, c in zip(parts, calls)]
    return call_op(first.op, value, Constant(np.concatenate(parts, axis), first.args[1].name), **first.attrs)


def _joined(origins):
    """The origin of what several nodes became."""
    known = [o for o in origins if o is not None]
    names = " + ".join(dict.fromkeys(o.name for o in known))
    return Origin(names, known[0].op, known[0].output) if known else None
