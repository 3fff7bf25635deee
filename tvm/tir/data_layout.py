"""tvm.tir.data_layout: names of data layouts, such as NCHW16c, and the maps between them."""
from __future__ import annotations

import re

from ...ir.arith import Analyzer
from ...ir.expr import IterVar, Range, Var, as_expr, const

_AXIS = re.compile(r"([1-9][0-9]*)?([A-Za-z])")


class Layout:
    """The axes of a layout, one letter each: large for a dimension, small, with its size before it, for the inner part
    of the dimension of the same letter. `axes` are IterVars; the extent of a large axis is a variable."""

    def __init__(self, name, dtype="int32"):
        if dtype not in ("int32", "int64"):
            raise TypeError(f"the indices of a layout are int32 or int64, not {dtype}")
        self.name, axes = name, []
        if name not in ("", "__undef__"):
            parts = _AXIS.findall(name)
            letters = [letter for _, letter in parts]
            if "".join(size + letter for size, letter in parts) != name or len(set(letters)) != len(letters):
                raise ValueError(f"{name!r} is no layout: letters, each once, small ones behind their sizes")
            for size, letter in parts:
                if letter.islower() != bool(size) or letter.islower() and letter.upper() not in letters:
                    raise ValueError(f"layout {name!r}: axis {letter} is a part without a size or without its "
                                     "dimension")
                extent = const(int(size), dtype) if size else Var(letter, dtype)
                axes.append(IterVar(Range(const(0, dtype), extent), Var(letter, dtype), "spatial"))
        self.axes = tuple(axes)

    def __str__(self):
        return self.name

    def __len__(self):
        return len(self.axes)

    def __contains__(self, axis):
        return self.index_of(axis) >= 0

    def __getitem__(self, index):
        return self.axes[index].var.name

    def index_of(self, axis):
        """The position of an axis, -1 where the layout has none."""
        return next((n for n, iv in enumerate(self.axes) if iv.var.name == axis), -1)

    def factor_of(self, axis):
        """The size of the inner part of a dimension, given as either letter; -1 where it is not split."""
        at = self.index_of(axis.lower())
        return self.axes[at].dom.extent.value if at >= 0 else -1


class BijectiveLayout:
    """The map between two layouts of the same dimensions."""

    def __init__(self, src_layout, dst_layout):
        self.src_layout, self.dst_layout = src_layout, dst_layout

    def forward_index(self, index):
        """An element's index in the destination layout."""
        return _index(index, self.src_layout, self.dst_layout)

    def backward_index(self, index):
        """An element's index in the source layout."""
        return _index(index, self.dst_layout, self.src_layout)

    def forward_shape(self, shape):
        """A shape in the destination layout; a dimension that a part does not divide is rounded up."""
        return _shape(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape):
        """A shape in the source layout."""
        return _shape(shape, self.dst_layout, self.src_layout)


def layout(layout_str, dtype="int32"):
    """The Layout of a name such as "NCHW16c". TypeError for a dtype that indices have not, ValueError for a name that
    is none."""
    return Layout(layout_str, dtype)


def bijective_layout(src_layout, dst_layout):
    """The BijectiveLayout of two Layouts or names; None where they have not the same dimensions."""
    src, dst = (Layout(x) if isinstance(x, str) else x for x in (src_layout, dst_layout))
    dims = [{iv.var.name.upper() for iv in x.axes} for x in (src, dst)]
    return BijectiveLayout(src, dst) if dims[0] and dims[0] == dims[1] else None


def _whole(values, of, combine):
    """{letter: combine(outer, inner, size of inner)} of the dimensions of a layout."""
    if len(values) != len(of):
        raise ValueError(f"layout {of} has {len(of)} axes, {len(values)} values are given")
    found = {iv.var.name: as_expr(v) for iv, v in zip(of.axes, values)}
    return {a: combine(v, found.get(a.lower()), of.factor_of(a)) for a, v in found.items() if a.isupper()}


def _index(index, src, dst):
    whole = _whole(index, src, lambda outer, inner, size: outer if inner is None else outer * size + inner)
    return _apart(whole, dst, lambda v, size: v // size, lambda v, size: v % size)


def _shape(shape, src, dst):
    whole = _whole(shape, src, lambda outer, inner, size: outer if inner is None else outer * inner)
    return _apart(whole, dst, lambda v, size: (v + size - 1) // size, lambda v, size: const(size, v.dtype))


def _apart(whole, dst, outer, inner):
    """The value of each axis of a layout, simplified."""
    an, out = Analyzer(), []
    for iv in dst.axes:
        name = iv.var.name
        size, value = dst.factor_of(name), whole[name.upper()]
        out.append(an.simplify(value if size < 0 else inner(value, size) if name.islower() else outer(value, size)))
    return out
