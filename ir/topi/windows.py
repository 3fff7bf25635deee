"""topi's windows over images: pools, and convolutions backwards, stage by stage as TVM has them."""
from __future__ import annotations

from .. import te, tir
from ..arith import Analyzer
from ..expr import Select, as_expr, cast, const, is_const_int, logical_and
from ..op import InferError
from ..relax.classic import plain
from ..relax.ops.common import simplify
from ..relax.ops.window import output_size
from .elements import compute, ratio
from .network import pads_of, spread
from .reductions import greatest, lowest


def padded(data, before, after, value, name="PadInput"):
    """data, with `value` around it; before, after: a number for each axis."""
    before, after = list(map(as_expr, before)), list(map(as_expr, after))
    own = [is_const_int(b, 0) and is_const_int(a, 0) for b, a in zip(before, after)]
    shape = [d if same else simplify(d + b + a) for d, b, a, same in zip(data.shape, before, after, own)]

    def element(*i):
        at = tuple(v if same else v - b for v, b, same in zip(i, before, own))
        inside = None
        for v, d, b, same in zip(i, data.shape, before, own):
            for condition in () if same else (v >= b, v < d + b):
                inside = condition if inside is None else logical_and(inside, condition)
        return data[at] if inside is None else tir.if_then_else(inside, data[at], const(value, data.dtype))
    return compute(shape, element, name, "i")


def axes_named(layout, letters):
    """Where a layout, such as NCHW16c, has the axes of the letters, none of which is split."""
    found = [c for c in layout if c.isalpha()]
    if any(c not in found or c.lower() in found for c in letters):
        raise InferError(f"layout={layout!r} must have the axes {', '.join(letters)}, whole")
    return [found.index(c) for c in letters]


# ---------------------------------------------------------------- pools

def _pool(letters, layout_name):
    def pool(ops, data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout=layout_name,
             count_include_pad=True):
        """padding: the axes' beginnings, then their ends."""
        return Windows(data, kernel, stride, dilation, padding, ceil_mode, axes_named(layout, letters)).made(
            pool_type, count_include_pad)
    return pool


class Windows:
    def __init__(self, data, kernel, stride, dilation, padding, ceil_mode, axes):
        count = len(axes)
        self.data, self.axes, self.ceil = data, axes, ceil_mode
        self.kernel, self.stride, self.dilation = (spread(v, count, what) for v, what in (
            (kernel, "kernel"), (stride, "stride"), (dilation, "dilation")))
        head, tail = pads_of(plain(padding), self.kernel)
        more = [s - 1 if ceil_mode else 0 for s in self.stride]  # so that the last, partial window counts
        self.head, self.tail, self.more = head, [t + m for t, m in zip(tail, more)], more
        self.over = [te.reduce_axis((0, k), f"rv{n}") for n, k in enumerate(self.kernel)]
        self.shape = list(data.shape)
        for n, a in enumerate(axes):
            given = self.kernel[n], self.stride[n], self.dilation[n], head[n], tail[n]
            self.shape[a] = simplify(output_size(data.shape[a], *given, ceil_mode))

    def made(self, kind, count_include_pad):
        if kind not in ("max", "avg"):
            raise InferError(f"pool_type={kind!r} is neither 'max' nor 'avg'")
        rule = {"schedule_rule": f"meta_schedule.pool_{kind}"}
        if kind == "max":
            return self._reduced(greatest, lowest(self.data.dtype).value, "pool_max", rule)
        total = self._reduced(te.sum, 0, "pool_sum", {})
        return compute(self.shape, lambda *i: ratio(total[i], self.count(i, count_include_pad)), "pool_avg", "ax",
                       rule)

    def _reduced(self, reducer, outside, name, attrs):
        x = self.padded_by(outside)
        return compute(self.shape, lambda *i: reducer(x[self.at(i)], axis=self.over), name, "ax", attrs)

    def padded_by(self, outside):
        """The data with `outside` around it; with the least number of its dtype where that is None."""
        x, outside = self.data, lowest(self.data.dtype).value if outside is None else outside
        if all(plain(p) == 0 for p in (*self.head, *self.tail)):
            return x
        sides = [[0] * x.ndim, [0] * x.ndim]
        for side, given in zip(sides, (self.head, self.tail)):
            for a, p in zip(self.axes, given):
                side[a] = p
        return padded(x, *sides, outside, "pad_temp")

    def at(self, i):
        """The indices in the padded data of the windows' elements, of the window at `i`."""
        found = list(i)
        for n, a in enumerate(self.axes):
            found[a] = i[a] * self.stride[n] + self.over[n].var * self.dilation[n]
        return tuple(found)

    def count(self, i, count_include_pad):
        """How many elements the window of an element of the result has, of padding, too, or only of data."""
        total = None
        for n, a in enumerate(self.axes):
            start, step = i[a] * self.stride[n] - self.head[n], self.dilation[n]
            end, size = start + (self.kernel[n] - 1) * step, self.data.shape[a]
            if count_include_pad:
                end = tir.min(end, size + self.tail[n] - 1 - self.more[n])
            else:
                outside = tir.max(tir.truncdiv(step - 1 - start, step), const(0, start.dtype))
                start, end = start + step * outside, tir.min(end, size - 1)
            found = tir.truncdiv(end - start, step) + 1
            total = found if total is None else total * found
        return total if count_include_pad else tir.max(total, const(1, total.dtype))


# ---------------------------------------------------------------- adaptive pools

def _adaptive(letters, layout_name):
    def pool(ops, data, output_size, pool_type, layout=layout_name):
        """output_size: of each axis, or of all; None keeps the axes' sizes."""
        axes = axes_named(layout, letters)
        if pool_type not in ("max", "avg"):
            raise InferError(f"pool_type={pool_type!r} is neither 'max' nor 'avg'")
        sizes = [data.shape[a] for a in axes] if output_size is None else [
            as_expr(v) for v in spread(output_size, len(axes), "output_size")]
        return _adaptive_pool(data, sizes, pool_type, axes)
    return pool


def _adaptive_pool(data, sizes, kind, axes):
    shape = list(data.shape)
    for a, size in zip(axes, sizes):
        shape[a] = size.astype(data.shape[a].dtype)

    def windows(i):
        """[(the first, how many)] elements of each axis."""
        for a in axes:
            first, last = (tir.floordiv(v * data.shape[a], shape[a]) for v in (i[a], i[a] + 1))
            whole = tir.floormod((i[a] + 1) * data.shape[a], shape[a]).equal(0)
            yield first, Analyzer().rewrite_simplify(simplify(Select(whole, last, last + 1) - first))

    def reduced(reducer, name, attrs):
        def element(*i):
            at, over, inside = list(i), [], None
            for n, (a, (first, count)) in enumerate(zip(axes, windows(i))):
                most = count if is_const_int(count) else simplify(tir.floordiv(data.shape[a] - 1, shape[a]) + 2)
                over.append(te.reduce_axis((0, most), f"rv{n}"))
                at[a] = first + over[-1].var
                if most is not count:  # windows differ in size
                    held = over[-1].var < count
                    inside = held if inside is None else logical_and(inside, held)
            return reducer(data[tuple(at)], axis=over, where=inside)
        return compute(shape, element, name, "ax", attrs)

    rule = {"schedule_rule": f"meta_schedule.adaptive_pool_{kind}"}
    if kind == "max":
        return reduced(greatest, "adaptive_pool_max", rule)
    total = reduced(te.sum, "adaptive_pool_sum", {})

    def mean(*i):
        count = const(1, data.dtype)
        for _, n in windows(i):
            count = count * cast(n, data.dtype)
        return ratio(total[i], count)
    return compute(shape, mean, "adaptive_pool_avg", "ax", rule)


# ---------------------------------------------------------------- convolutions backwards

def dilate(ops, data, strides, dilation_value=0.0, name="DilatedInput"):
    """strides - 1 elements of dilation_value between neighbours of each axis."""
    strides = spread(strides, data.ndim, "strides")
    shape = tuple(simplify((as_expr(n) - 1) * s + 1) for n, s in zip(data.shape, strides))

    def element(*i):
        gaps = [tir.floormod(at, s).equal(0) for at, s in zip(i, strides) if s != 1]
        value = data[tuple(at // s for at, s in zip(i, strides))]
        return tir.if_then_else(tir.all(*gaps), value, const(dilation_value, data.dtype)) if gaps else value
    return te.compute(shape, element, name=name)


def transposed_convolution(data, kernel, strides, padding, out_dtype, output_padding, groups=1):
    """data [N, C, spatial], kernel [C, O / groups, spatial]: the convolution of data with zeros between its elements by
    the kernel that is turned."""
    space, dtype, groups = data.ndim - 2, out_dtype or data.dtype, plain(groups)
    strides, more = spread(strides, space, "strides"), spread(output_padding, space, "output_padding")
    window = kernel.shape[2:]
    if any(m >= s for m, s in zip(more, strides)):
        raise InferError(f"output_padding {more} must be less than strides {strides}")
    if plain(simplify(tir.floormod(data.shape[1], groups))) != 0:
        raise InferError(f"{data.shape[1]} channels do not divide into {groups} groups")
    before, after = pads_of(plain(padding), window)
    first = [simplify(k - 1 - b) for k, b in zip(window, before)]
    last = [simplify(k - 1 - a + m) for k, a, m in zip(window, after, more)]
    x = padded(dilate(None, data, (1, 1, *strides), name="data_dilate"), (0, 0, *first), (0, 0, *last), 0, "data_pad")
    turned = te.compute((kernel.shape[1], kernel.shape[0], *window), lambda o, i, *at: kernel[
        (i, o, *(k - 1 - v for k, v in zip(window, at)))], name="kernel_transform" if space > 1 else "kernel",
        varargs_names=["dhw"[n] for n in range(3 - space, 3)])
    share, each = simplify(tir.floordiv(data.shape[1], groups)), kernel.shape[1]
    over = [te.reduce_axis((0, d), n) for d, n in zip((share, *window), ("dc", *("dd", "dh", "dw")[3 - space:]))]

    def element(b, c, *at):
        dc, *dk = (v.var for v in over)
        group = 0 if groups == 1 else tir.floordiv(c, each) * share
        channel, own = (dc, c) if groups == 1 else (group + dc, tir.floormod(c, each))
        term = cast(x[(b, channel, *(v + k for v, k in zip(at, dk)))], dtype) * cast(turned[(own, channel, *dk)], dtype)
        return te.sum(term, axis=over)
    sizes = [simplify(d - k + 1) for d, k in zip(x.shape[2:], window)]
    return te.compute((data.shape[0], simplify(each * groups), *sizes), element, name="compute",
                      varargs_names=["dhw"[n] for n in range(3 - space, 3)])


def _transposed(space):
    def function(ops, data, kernel, stride=1, padding=0, out_dtype=None, output_padding=0, groups=1):
        if data.ndim != space + 2 or kernel.ndim != space + 2:
            raise InferError(f"takes tensors of {space + 2} dimensions, got {data.ndim} and {kernel.ndim}")
        return transposed_convolution(data, kernel, stride, padding, out_dtype, output_padding, groups)
    return function


def global_pool(ops, data, pool_type, layout="NCHW"):
    return _adaptive("HW", "NCHW")(ops, data, (1, 1), pool_type, layout)


def pad(ops, data, pad_before, pad_after=None, pad_value=0.0, name="PadInput", attrs=None):
    """pad_before, pad_after: one number per axis; pad_after defaults to pad_before."""
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise InferError(f"pad_before and pad_after need one number for each of the {data.ndim} axes")
    return padded(data, plain(pad_before), plain(after), plain(pad_value), name)


_SPACE = {1: ("W", "NCW"), 2: ("HW", "NCHW"), 3: ("DHW", "NCDHW")}
COMPOSITES = {
    **{f"nn.pool{n}d": _pool(*v) for n, v in _SPACE.items()},
    **{f"nn.adaptive_pool{'' if n == 2 else f'{n}d'}": _adaptive(*v) for n, v in _SPACE.items()},
    "nn.global_pool": global_pool, "nn.pad": pad, "nn.dilate": dilate,
    **{f"nn.{group}conv{n}d_transpose_{layout.lower()}": _transposed(n) for group in ("", "group_")
       for n, (_, layout) in _SPACE.items()},
}
