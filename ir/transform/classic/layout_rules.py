"""What ConvertLayout knows of operators: which layouts of arguments an operator follows, and what its axes are then.

A layout is a string of letters: letter n of "ABCD" stands for axis n as the program has it, its place for where it lies
now, so that an NCHW tensor laid out as NHWC is "ACDB". "ABCD4b" has the inner 4 of axis 1 last: NCHW4c. A rule is f(call,
layouts of the arguments, desired), and gives (layouts that the arguments are to have, that of the result, attributes
that change).
"""
from __future__ import annotations

import re
from functools import wraps

from ...expr import Var, is_const_int
from ...op import OPS
from ...relax.struct_info import TensorStructInfo, TupleStructInfo
from ...tir.index_map import IndexMap

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def initial(ndim):
    return LETTERS[:ndim]


def like(axes, old, new):
    """`axes`, one for each axis of layout `old`, in the order of layout `new`, which may divide some into blocks."""
    found = ((size, axes[old.index(a.upper())], a) for size, a in parts(new))
    return "".join(size + (name if a.isupper() else name.lower()) for size, name, a in found)


def find(layout, axis):
    """Where an axis of the program lies, of a divided one what is outside of blocks."""
    kept = [a for _, a in parts(layout)]
    return kept.index(LETTERS[axis % sum(a.isupper() for a in kept)])


def rule_of(call):
    """The rule of a call, None where its operator takes arguments as the program has them."""
    if call.op in RULES:
        return RULES[call.op]
    kind = OPS[call.op].kind if call.op in OPS else None
    if kind not in ("elementwise", "broadcast"):
        return None
    return {1: _same, 2: _binary}.get(len(call.args))


# ---------------------------------------------------------------- blocks

def parts(layout):
    """[("", "A"), ("4", "b") ...] of a layout "A...4b"."""
    return re.findall(r"(\d*)([A-Za-z])", layout)


def is_blocked(layout):
    return isinstance(layout, str) and any(c.isdigit() for c in layout)


def fits(layout, info):
    """Whether the blocks of a layout are known to divide a tensor."""
    dims = info.dims if isinstance(info, TensorStructInfo) else None
    return not is_blocked(layout) or isinstance(dims, tuple) and all(
        is_const_int(dims[LETTERS.index(a.upper())]) and dims[LETTERS.index(a.upper())].value % int(size) == 0
        for size, a in parts(layout) if size)


def map_between(source, target):
    """The IndexMap from a layout to another."""
    variables = [Var(f"i{n}", "int32") for n in range(len(parts(source)))]
    axes = {}
    for v, (size, a) in zip(variables, parts(source)):
        axes.setdefault(a.upper(), {})[a.isupper()] = v, int(size or 0)
    final = []
    for size, a in parts(target):
        (value, _), (inner, held) = axes[a.upper()][True], axes[a.upper()].get(False, (None, 0))
        value = value if inner is None else value * held + inner
        block = next((int(s) for s, b in parts(target) if s and b == a.lower()), 0)
        final.append(value % int(size) if size else value // block if block else value)
    return IndexMap(tuple(variables), tuple(final))


def _plain(call, layouts):
    """The layouts, those with blocks as the program has the tensors."""
    return [initial(a.struct_info.ndim) if is_blocked(found) else found for a, found in zip(_tensors(call), layouts)]


def _tensors(call):
    """The arguments that have layouts, with the fields of a tuple."""
    return [f for a in call.args for f in getattr(a, "fields", (a,))]


def _without_blocks(rule):
    """A rule for layouts that have none."""
    @wraps(rule)
    def plain(call, layouts, desired):
        return rule(call, _plain(call, layouts), desired)
    return plain


def _in_blocks(rule):
    """A rule that takes blocks where they divide all its tensors."""
    @wraps(rule)
    def checked(call, layouts, desired):
        made = rule(call, layouts, desired)
        out = call.struct_info
        ends = zip(made[1], out.fields) if isinstance(out, TupleStructInfo) else [(made[1], out)]
        given = zip(made[0], (a.struct_info for a in _tensors(call)))
        if all(fits(*pair) for pair in (*given, *ends)):
            return made
        return rule(call, _plain(call, layouts), desired)
    return checked


# ---------------------------------------------------------------- images

def _conv(rank):
    start, space = initial(rank + 2), "DHW"[3 - rank:]

    def rule(call, layouts, desired):
        data = call.attrs.get("data_layout") or "NC" + space
        attrs = [data, call.attrs.get("kernel_layout") or "OI" + space, call.attrs.get("out_layout") or data]
        wanted = desired.get(f"relax.{call.op}")
        if any(map(is_blocked, attrs)):  # as the program asks for
            return [initial(a.struct_info.ndim) for a in call.args[:2]], initial(call.struct_info.ndim), {}
        if wanted is not None:
            wanted = [*wanted, wanted[0]][:3]
            _require_same_axes(call, attrs, wanted)
            own = [like(start, a, w) for a, w in zip(attrs, wanted)]
            if all(fits(found, e.struct_info) for found, e in zip(own, (*call.args[:2], call))):
                return own[:2], own[2], dict(zip(("data_layout", "kernel_layout", "out_layout"), wanted))
        layouts = _plain(call, layouts)
        layouts = [*layouts, layouts[0]]
        wanted = [like(a, start, found) for a, found in zip(attrs, layouts)]
        return layouts[:2], layouts[2], dict(zip(("data_layout", "kernel_layout", "out_layout"), wanted))
    return rule


def _require_same_axes(call, attrs, wanted):
    for old, new in zip(attrs, wanted):
        names = [a for size, a in parts(new) if not size]
        inner = [a for size, a in parts(new) if size]
        if sorted(old) != sorted(names) or len(set(inner)) < len(inner) or not set("".join(inner).upper()) <= set(
                names) or any(a.isupper() or int(size) == 0 for size, a in parts(new) if size):
            raise ValueError(f"ConvertLayout: {call.op} of layout {old} cannot become {new}: axes change places, and "
                             "may be divided into blocks, as in NCHW4c")


@_in_blocks
def _pool(call, layouts, desired):
    start = initial(call.args[0].struct_info.ndim)
    old = call.attrs.get("layout") or "NC" + "DHW"[5 - len(start):]
    if is_blocked(old):
        return [start], initial(call.struct_info.ndim), {}
    out = call.attrs.get("out_layout") or old
    return layouts, layouts[0], {"layout": like(old, start, layouts[0]), "out_layout": like(out, start, layouts[0])}


@_without_blocks
def _resize(call, layouts, desired):
    start, old = initial(4), call.attrs["layout"]
    wanted = desired.get(f"relax.{call.op}")
    if wanted is None:
        return layouts, layouts[0], {"layout": like(old, start, layouts[0])}
    if is_blocked(wanted[0]):
        raise ValueError(f"ConvertLayout: {call.op} of layout {old} cannot become {wanted[0]}: its axes only change "
                         "places")
    _require_same_axes(call, [old], wanted[:1])
    layout = like(start, old, wanted[0])
    return [layout, *layouts[1:]], layout, {"layout": wanted[0]}


# ---------------------------------------------------------------- elements

def _same(call, layouts, desired):
    return layouts, layouts[0], {}


def _binary(call, layouts, desired):
    infos = [a.struct_info for a in call.args]
    if any(map(is_blocked, layouts)):
        if 0 in (infos[0].ndim, infos[1].ndim):  # a number goes with any layout
            return layouts, layouts[0] or layouts[1], {}
        chosen = max(layouts, key=lambda found: len(parts(found)))
        if infos[0].ndim == infos[1].ndim and all(fits(chosen, i) for i in infos):
            return [chosen, chosen], chosen, {}
        layouts = _plain(call, layouts)
    a, b = layouts
    if len(a) == len(b):
        return [a, a], a, {}
    if not a or not b:
        return layouts, a or b, {}
    few, ndim = (a, len(b)) if len(a) < len(b) else (b, len(a))
    more = ndim - len(few)
    out = initial(more) + "".join(LETTERS[LETTERS.index(c) + more] for c in few)
    return [few, out] if few is a else [out, few], out, {}


@_in_blocks
def _fma(call, layouts, desired):
    layout = layouts[1] if layouts[1] == layouts[2] else layouts[0]
    return [layout] * 3, layout, {}


# ---------------------------------------------------------------- axes

def _over_axis(name="axis"):
    """Of operators that keep axes, and name one or some."""
    @_without_blocks
    def rule(call, layouts, desired):
        axes, layout = call.attrs[name], layouts[0]
        given = [axes] if isinstance(axes, int) else axes
        found = tuple(find(layout, a) for a in given)
        others = [initial(len(found_)) for found_ in layouts[1:]]
        return [layout, *others], layout, {name: found[0] if isinstance(axes, int) else found}
    return rule


@_without_blocks
def _batch_norm(call, layouts, desired):
    layouts, layout, changed = _over_axis()(call, layouts, desired)
    several = isinstance(call.struct_info, TupleStructInfo)
    return layouts, (layout, *layouts[3:]) if several else layout, changed


def _norm(call, layouts, desired):
    """Of normalizations over axes: scale and shift have these in the order in which they lie. Axes in blocks are for
    those that are not normalized."""
    ndim = call.args[0].struct_info.ndim
    axes, (layout, *_) = [a % ndim for a in call.attrs["axes"]], layouts
    if any(size and LETTERS.index(a.upper()) in axes for size, a in parts(layout)):
        layout = initial(ndim)
    own = "".join(LETTERS[n] for n in sorted(range(len(axes)), key=lambda n: find(layout, sorted(axes)[n])))
    return [layout, *(own for _ in layouts[1:])], layout, {"axes": tuple(find(layout, a) for a in axes)}


@_without_blocks
def _group_norm(call, layouts, desired):
    """The batch stays the first axis."""
    layouts = layouts if layouts[0][0] == LETTERS[0] else [initial(len(found)) for found in layouts]
    layouts, layout, changed = _over_axis("axes")(call, layouts, desired)
    return layouts, layout, {**changed, "channel_axis": find(layout, call.attrs["channel_axis"])}


@_in_blocks
def _concat(call, layouts, desired):
    layout = layouts[0]
    return [layout] * len(layouts), layout, {"axis": find(layout, call.attrs["axis"])}


@_in_blocks
def _split(call, layouts, desired):
    layout, sections, axis = layouts[0], call.attrs.get("sections"), call.attrs["axis"]
    if is_blocked(layout) and sections is None:
        layout = _plain(call, layouts)[0]
    changed = {"axis": find(layout, axis)}
    block = next((int(size) for size, a in parts(layout) if size and a.upper() == LETTERS[axis % call.args[
        0].struct_info.ndim]), 1)
    if block > 1:
        changed["sections"] = tuple(n // block for n in sections)
    return [layout], (layout,) * len(call.struct_info.fields), changed


def _reduced(call, layouts, desired):
    layout, axes, ndim = layouts[0], call.attrs.get("axis"), call.args[0].struct_info.ndim
    axes = range(ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    gone = {LETTERS[a % ndim] for a in axes}
    kept = call.attrs.get("keepdims", False)
    where = tuple(n for n, (_, c) in enumerate(parts(layout)) if c.upper() in gone)
    return layouts, layout if kept else _without(layout, gone), {"axis": where}


def _without(layout, gone):
    """The layout of what is left when axes are gone."""
    rest = [c for c in sorted(a for _, a in parts(layout) if a.isupper()) if c not in gone]
    left = "".join(size + c for size, c in parts(layout) if c.upper() not in gone)
    return like(initial(len(rest)), "".join(rest), left)


@_without_blocks
def _squeeze(call, layouts, desired):
    layout, axes = layouts[0], call.attrs.get("axis")
    if axes is None:
        shape = call.args[0].struct_info.shape
        axes = [n for n, d in enumerate(shape) if getattr(d, "value", None) == 1]
    gone = {LETTERS[a % len(layout)] for a in ([axes] if isinstance(axes, int) else axes)}
    return layouts, _without(layout, gone), {"axis": tuple(n for n, c in enumerate(layout) if c in gone)}


@_without_blocks
def _expand(call, layouts, desired):
    ndim = len(layouts[0]) + len(call.attrs["axis"])
    new = {a % ndim for a in call.attrs["axis"]}
    names = iter(like([c for n, c in enumerate(initial(ndim)) if n not in new], initial(len(layouts[0])), layouts[0]))
    return layouts, "".join(c if n in new else next(names) for n, c in enumerate(initial(ndim))), {}


@_without_blocks
def _permute(call, layouts, desired):
    layout, order = layouts[0], call.attrs.get("axes")
    order = range(len(layout))[::-1] if order is None else order
    return layouts, initial(len(layout)), {"axes": tuple(find(layout, a) for a in order)}


_PLACED = ("nn.max_pool{}d", "nn.avg_pool{}d", "nn.adaptive_avg_pool{}d")
RULES = {
    **{f"nn.conv{n}d": _conv(n) for n in (1, 2, 3)}, **{p.format(n): _pool for p in _PLACED for n in (1, 2, 3)},
    "image.resize2d": _resize, "ewise_fma": _fma, "nn.group_norm": _group_norm,
    **{name: _over_axis() for name in ("nn.softmax", "nn.log_softmax")}, "nn.batch_norm": _batch_norm,
    **{name: _norm for name in ("nn.layer_norm", "nn.rms_norm")}, "strided_slice": _over_axis("axes"),
    **{name: _reduced for name in ("max", "mean", "min", "prod", "std", "sum", "variance")},
    "concat": _concat, "split": _split, "squeeze": _squeeze, "expand_dims": _expand, "permute_dims": _permute,
}
__all__ = ["RULES", "fits", "initial", "is_blocked", "map_between", "parts", "rule_of"]
