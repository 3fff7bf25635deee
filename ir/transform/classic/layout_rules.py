"""What ConvertLayout knows of operators: which layouts of arguments an operator follows, and what its axes are then.

A layout is a string of letters: letter n of "ABCD" stands for axis n as the program has it, its place for where it lies
now, so that an NCHW tensor laid out as NHWC is "ACDB". A rule is f(call, layouts of the arguments, desired), and gives
(layouts that the arguments are to have, that of the result, attributes that change).
"""
from __future__ import annotations

from ...op import OPS
from ...relax.struct_info import TupleStructInfo

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def initial(ndim):
    return LETTERS[:ndim]


def like(axes, old, new):
    """`axes`, one for each axis of layout `old`, in the order of layout `new`."""
    return "".join(axes[old.index(a)] for a in new)


def find(layout, axis):
    """Where an axis of the program lies."""
    return layout.index(LETTERS[axis % len(layout)])


def rule_of(call):
    """The rule of a call, None where its operator takes arguments as the program has them."""
    if call.op in RULES:
        return RULES[call.op]
    kind = OPS[call.op].kind if call.op in OPS else None
    if kind not in ("elementwise", "broadcast"):
        return None
    return {1: _same, 2: _binary}.get(len(call.args))


# ---------------------------------------------------------------- images

def _conv(rank):
    start, space = initial(rank + 2), "DHW"[3 - rank:]

    def rule(call, layouts, desired):
        data = call.attrs.get("data_layout") or "NC" + space
        attrs = [data, call.attrs.get("kernel_layout") or "OI" + space, call.attrs.get("out_layout") or data]
        wanted = desired.get(f"relax.{call.op}")
        if wanted is None:
            layouts = [*layouts, layouts[0]]
            wanted = [like(a, start, found) for a, found in zip(attrs, layouts)]
        else:
            wanted = [*wanted, wanted[0]][:3]
            _require_same_axes(call, attrs, wanted)
            layouts = [like(start, a, w) for a, w in zip(attrs, wanted)]
        return layouts[:2], layouts[2], dict(zip(("data_layout", "kernel_layout", "out_layout"), wanted))
    return rule


def _require_same_axes(call, attrs, wanted):
    for old, new in zip(attrs, wanted):
        if sorted(old) != sorted(new):
            raise ValueError(f"ConvertLayout: {call.op} of layout {old} cannot become {new}: axes change places, and "
                             "are not divided into blocks")


def _pool(call, layouts, desired):
    start = initial(len(layouts[0]))
    old = call.attrs.get("layout") or "NC" + "DHW"[5 - len(start):]
    out = call.attrs.get("out_layout") or old
    return layouts, layouts[0], {"layout": like(old, start, layouts[0]), "out_layout": like(out, start, layouts[0])}


def _resize(call, layouts, desired):
    start, old = initial(4), call.attrs["layout"]
    wanted = desired.get(f"relax.{call.op}")
    if wanted is None:
        return layouts, layouts[0], {"layout": like(old, start, layouts[0])}
    _require_same_axes(call, [old], wanted[:1])
    layout = like(start, old, wanted[0])
    return [layout, *layouts[1:]], layout, {"layout": wanted[0]}


# ---------------------------------------------------------------- elements

def _same(call, layouts, desired):
    return layouts, layouts[0], {}


def _binary(call, layouts, desired):
    a, b = layouts
    if len(a) == len(b):
        return [a, a], a, {}
    if not a or not b:
        return layouts, a or b, {}
    few, ndim = (a, len(b)) if len(a) < len(b) else (b, len(a))
    more = ndim - len(few)
    out = initial(more) + "".join(LETTERS[LETTERS.index(c) + more] for c in few)
    return [few, out] if few is a else [out, few], out, {}


def _fma(call, layouts, desired):
    layout = layouts[1] if layouts[1] == layouts[2] else layouts[0]
    return [layout] * 3, layout, {}


# ---------------------------------------------------------------- axes

def _over_axis(name="axis"):
    """Of operators that keep axes, and name one or some."""
    def rule(call, layouts, desired):
        axes, layout = call.attrs[name], layouts[0]
        given = [axes] if isinstance(axes, int) else axes
        found = tuple(find(layout, a) for a in given)
        others = [initial(len(found_)) for found_ in layouts[1:]]
        return [layout, *others], layout, {name: found[0] if isinstance(axes, int) else found}
    return rule


def _batch_norm(call, layouts, desired):
    layouts, layout, changed = _over_axis()(call, layouts, desired)
    several = isinstance(call.struct_info, TupleStructInfo)
    return layouts, (layout, *layouts[3:]) if several else layout, changed


def _norm(call, layouts, desired):
    """Of normalizations over axes: scale and shift have these in the order in which they lie."""
    layout, axes = layouts[0], sorted(a % len(layouts[0]) for a in call.attrs["axes"])
    _, _, changed = _over_axis("axes")(call, layouts, desired)
    own = "".join(LETTERS[n] for n in sorted(range(len(axes)), key=lambda n: find(layout, axes[n])))
    return [layout, *(own for _ in layouts[1:])], layout, changed


def _group_norm(call, layouts, desired):
    """The batch stays the first axis."""
    layouts = layouts if layouts[0][0] == LETTERS[0] else [initial(len(found)) for found in layouts]
    layouts, layout, changed = _over_axis("axes")(call, layouts, desired)
    return layouts, layout, {**changed, "channel_axis": find(layout, call.attrs["channel_axis"])}


def _concat(call, layouts, desired):
    layout = layouts[0]
    return [layout] * len(layouts), layout, {"axis": find(layout, call.attrs["axis"])}


def _split(call, layouts, desired):
    layout = layouts[0]
    return layouts, (layout,) * len(call.struct_info.fields), {"axis": find(layout, call.attrs["axis"])}


def _reduced(call, layouts, desired):
    layout, axes = layouts[0], call.attrs.get("axis")
    axes = range(len(layout)) if axes is None else [axes] if isinstance(axes, int) else axes
    gone = {LETTERS[a % len(layout)] for a in axes}
    kept = call.attrs.get("keepdims", False)
    where = tuple(n for n, c in enumerate(layout) if c in gone)
    return layouts, layout if kept else _without(layout, gone), {"axis": where}


def _without(layout, gone):
    """The layout of what is left when axes are gone."""
    rest = [c for c in initial(len(layout)) if c not in gone]
    return "".join(LETTERS[rest.index(c)] for c in layout if c not in gone)


def _squeeze(call, layouts, desired):
    layout, axes = layouts[0], call.attrs.get("axis")
    if axes is None:
        shape = call.args[0].struct_info.shape
        axes = [n for n, d in enumerate(shape) if getattr(d, "value", None) == 1]
    gone = {LETTERS[a % len(layout)] for a in ([axes] if isinstance(axes, int) else axes)}
    return layouts, _without(layout, gone), {"axis": tuple(n for n, c in enumerate(layout) if c in gone)}


def _expand(call, layouts, desired):
    ndim = len(layouts[0]) + len(call.attrs["axis"])
    new = {a % ndim for a in call.attrs["axis"]}
    names = iter(like([c for n, c in enumerate(initial(ndim)) if n not in new], initial(len(layouts[0])), layouts[0]))
    return layouts, "".join(c if n in new else next(names) for n, c in enumerate(initial(ndim))), {}


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
__all__ = ["RULES", "initial", "rule_of"]
