"""Calls of operators in TVM's classic spelling: argument names and order, defaults, numbers where pairs are meant.

A Namespace has a table {name: "operator: parameter parameter ..."}: first the tensor arguments, as many as the operator
takes (one list where it takes any number), then attributes in classic order, "classic=own" where names differ.
"tensor?" arguments, anywhere, may be left out; otherwise they follow the first ones. relax.op
and topi are two tables over the same operators. What TVM accepts and Ingot does not do (another layout, say) is refused
by name.
"""
from __future__ import annotations

import difflib
import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from .. import op as op_table, tir
from ..expr import FloatImm, IntImm, PrimExpr, as_expr
from ..op import InferError
from .expr import PrimValue, RelaxExpr, RelaxString, RelaxTuple, ShapeExpr
from .ops.common import has_wild, product, simplify

_LAYOUT = {"1": "NCW", "2": "NCHW", "3": "NCDHW"}
# Accepted without effect: they change nothing in inference, or only how TVM searches.
_IGNORED = ("training", "roi", "cubic_alpha", "cubic_exclude", "extrapolation_value", "assume_inbound")


class Namespace:
    """The operators under classic names.

    finish(operator, args, attrs): what makes the call. prefix: how error messages name a function ("topi.").
    composites: {name: f(ops, ...)}, functions made of several operators; ops(name, ...): the `call` of the namespace
    with relax.op's names, this one by default.
    """

    def __init__(self, signatures, finish, composites, prefix="", ops=None):
        self.signatures, self.finish, self.composites, self.prefix = signatures, finish, composites, prefix
        self.ops = ops or self.made

    def names(self):
        return [*self.signatures, *self.composites]

    def member(self, name):
        """The function `name`, or the group of those that begin with it ("nn"). AttributeError names the nearest."""
        if name in self.signatures or name in self.composites:
            return Function(self, name)
        if any(known.startswith(name + ".") for known in self.names()):
            return Group(self, name + ".")
        near = difflib.get_close_matches(name, self.names(), 1)
        raise AttributeError(f"no operator {self.prefix}{name}" + (f"; did you mean {near[0]}?" if near else ""))

    def call(self, name, /, *args, **kwargs):
        """The call of `name`. Raises InferError or TypeError, naming it."""
        return self.made(name, *args, **kwargs)

    def bound(self, name, args, kwargs):
        """(the operands, {attribute: value}) of a call of `name`, under its classic parameters. Operands that are left
        out among others are None."""
        if name not in self.composites:
            operator, parameters = self.signatures[name].split(":")
            operands, attrs, _ = self._bound(name, operator, parameters.split(), args, kwargs)
            return operands, attrs
        given = self._fit(name, args, kwargs)
        given.apply_defaults()
        kinds = given.signature.parameters
        values = list(given.arguments.items())[1:]
        names = self.operands_of(name)
        flat = [(k, v) for key, value in values for k, v in (
            value.items() if kinds[key].kind is inspect.Parameter.VAR_KEYWORD else ((key, value),))]
        return [v for k, v in flat if k in names], {k: v for k, v in flat if k not in names}

    def operands_of(self, name):
        """The classic parameters that are operands."""
        if name in self.composites:
            return getattr(self.composites[name], "operands", "").split() or [
                list(inspect.signature(self.composites[name]).parameters)[1]]
        operator, parameters = self.signatures[name].split(":")
        parameters = parameters.split()
        optional = [p[:-1] for p in parameters if p.endswith("?")]
        plain_ones = [p.partition("=")[0] for p in parameters if not p.endswith("?")]
        return plain_ones[:(op_table.get(operator).arity[1] or 1) - len(optional)] + optional

    def made(self, name, /, *args, **kwargs):
        """The call of `name` in operators of the table."""
        if name not in self.composites:
            return self.core(name, *args, **kwargs)
        with self._named(name):
            self._fit(name, args, kwargs)
            return self.composites[name](self.ops, *args, **kwargs)

    def _fit(self, name, args, kwargs):
        """The arguments of a function of several operators, bound. TypeError or InferError where they do not fit."""
        signature = inspect.signature(self.composites[name])
        try:
            return signature.bind(self.ops, *args, **kwargs)
        except TypeError as error:
            named = f"{self.prefix}{name}"
            names = [n for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
            twice = [n for n in names[:len(args)] if n in kwargs]
            unknown = [k for k in kwargs if k not in names]
            if twice:
                raise TypeError(f"{named} got two values for argument {twice[0]}") from error
            if unknown:
                raise InferError(f"{named} has no attribute {unknown[0]}; it has {', '.join(names)}") from error
            if len(args) > len(names):
                raise TypeError(f"{named} takes at most {len(names)} arguments ({', '.join(names)}), got "
                                f"{len(args)}") from error
            missing = [n for n in names[len(args):] if n not in kwargs and
                       signature.parameters[n].default is inspect.Parameter.empty]
            raise TypeError(f"{named} needs argument {', '.join(missing)}") from error

    def core(self, name, /, *args, **kwargs):
        """The call of an operator of the table, whatever function of several has its name."""
        with self._named(name):
            operator, parameters = self.signatures[name].split(":")
            return self._call(name, operator, parameters.split(), args, kwargs)

    @contextmanager
    def _named(self, name):
        """Errors begin with the function's name in this namespace."""
        try:
            yield
        except InferError as error:
            text = str(error)
            if not self.prefix or text.startswith(self.prefix):
                raise
            raise InferError(f"{self.prefix}{name}: " + re.sub(r"^[\w.]+: ", "", text)) from error

    def _bound(self, name, operator, parameters, args, kwargs):
        """(operands, attributes under their classic names, {classic name: own})"""
        spec = op_table.get(operator)
        renamed = dict(p.split("=") for p in parameters if "=" in p)
        optional = [p[:-1] for p in parameters if p.endswith("?")]
        parameters = [p.partition("=")[0] for p in parameters if not p.endswith("?")]
        least = (spec.arity[1] or 1) - len(optional)
        more = next((n for n, a in enumerate(args[least:]) if not isinstance(a, RelaxExpr)), len(args[least:]))
        if optional and more:
            kwargs = {**dict(zip(optional, args[least:least + more])), **kwargs}
            args = args[:least] + args[least + more:]
        if len(args) > len(parameters):
            raise TypeError(f"{self.prefix}{name} takes at most {len(parameters)} arguments "
                            f"({', '.join(parameters)}), got {len(args)}")
        bound = dict(zip(parameters, args))
        for key, value in kwargs.items():
            if key in bound:
                raise TypeError(f"{self.prefix}{name} got two values for argument {key}")
            if key not in (*parameters, *optional, *spec.attrs, *_IGNORED):
                raise InferError(f"{operator} has no attribute {key}; it has {', '.join(parameters)}")
            bound[key] = value
        if operator == "arange":  # one number is the end
            first, end = bound.pop(parameters[0], None), bound.pop(parameters[1], None)
            ends = (0, first) if end is None else (first, end)
            bound = {**dict(zip(parameters, ends)), "step": 1, **bound}
        tensors = parameters[:least]
        missing = [t for t in tensors if bound.get(t) is None]
        if missing:
            raise TypeError(f"{self.prefix}{name} needs argument {', '.join(missing)}")
        return [bound.pop(t) for t in (*tensors, *(t for t in optional if t in bound))], bound, renamed

    def _call(self, name, operator, parameters, args, kwargs):
        spec = op_table.get(operator)
        operands, bound, renamed = self._bound(name, operator, parameters, args, kwargs)
        attrs = {renamed.get(k, k): plain(v) for k, v in bound.items()}
        if op_table.takes_tuple(operator):
            operands = list(getattr(operands[0], "fields", operands[0]))  # a tuple variable gives its items
        made = _SEVERAL[operator](self.ops, operands, attrs) if operator in _SEVERAL else None
        if made is not None:
            return made
        if operator in _ADAPT:
            operands, attrs = _ADAPT[operator](self.ops, operands, attrs)
        attrs = {k: v for k, v in attrs.items() if not _implied(operator, spec, k, v, operands)}
        return self.finish(operator, operands, {k: widened(operator, spec, k, v) for k, v in attrs.items()})


@dataclass(frozen=True)
class Function:
    """One operator of a namespace, to be called."""

    namespace: Namespace
    name: str

    def __call__(self, *args, **kwargs):
        return self.namespace.call(self.name, *args, **kwargs)

    def __repr__(self):
        return f"<operator {self.namespace.prefix}{self.name}({self.parameters})>"

    @property
    def parameters(self):
        """The classic parameters, in order."""
        if self.name in self.namespace.composites:
            return ", ".join(list(inspect.signature(self.namespace.composites[self.name]).parameters)[1:])
        parameters = self.namespace.signatures[self.name].partition(":")[2].split()
        return ", ".join(p.partition("=")[0].rstrip("?") for p in parameters)


@dataclass(frozen=True)
class Group:
    """Operators whose names share a prefix: relax.op.nn."""

    namespace: Namespace
    start: str

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.namespace.member(self.start + name)

    def __dir__(self):
        return sorted(n[len(self.start):] for n in self.namespace.names() if n.startswith(self.start))


# ---------------------------------------------------------------- attributes

def shape_of(x):
    """The dimensions of a graph expression or te tensor."""
    shape = x.shape if hasattr(x, "shape") else getattr(x.struct_info, "shape", None)
    if shape is None:
        raise InferError(f"the shape of {getattr(x, 'name', 'an argument')} is not known; give it in its struct info")
    return shape


def dtype_of(x):
    return x.dtype if hasattr(x, "dtype") else x.struct_info.dtype


def plain(value):
    """An attribute as Python's: immediates and PrimValues are numbers, lists and shapes tuples."""
    if isinstance(value, PrimValue):
        return plain(value.value)
    if isinstance(value, (IntImm, FloatImm, RelaxString)):
        return value.value
    if isinstance(value, (list, tuple, ShapeExpr, RelaxTuple)):
        return tuple(plain(v) for v in getattr(value, "values", getattr(value, "fields", value)))
    return value.item() if isinstance(value, np.generic) else value


def _implied(operator, spec, key, value, operands):
    """Whether an attribute says what holds anyway (True: it is left out). InferError when it says something else."""
    if key in spec.attrs:
        return False
    if key in _IGNORED:
        return True
    spatial = re.search(r"([123])d(_|$)", operator)
    layout = _LAYOUT[spatial[1]] if spatial else None
    allowed = {"layout": (layout,), "data_layout": (layout,), "out_layout": (layout, None, ""),
               "channel_axis": (1,), "out_dtype": (None, "", "void", dtype_of(operands[0])),
               "axes": (tuple(range(2, len(shape_of(operands[0])))),)}.get(key)
    if allowed is None:
        raise InferError(f"{operator} has no attribute {key}; it has {', '.join(spec.attrs) or 'none'}")
    if value not in allowed:
        raise InferError(f"{operator}: {key}={value!r} is not supported, it must be "
                         f"{' or '.join(repr(a) for a in allowed if a)}")
    return True


def widened(operator, spec, key, value):
    """A number where one per axis is meant, and padding of each axis that stands for both its sides."""
    default = spec.attrs.get(key)
    if key in ("pool_size", "output_size") or operator == "image.resize2d" and key == "size":
        strides = spec.attrs.get("strides")
        count = len(strides) if isinstance(strides, tuple) else 2
    elif key in ("strides", "padding", "dilation", "output_padding") and isinstance(default, tuple):
        count = len(default)
    else:
        if key == "out_layout":
            return value or ""
        return None if key == "out_dtype" and value in ("", "void") else value
    if isinstance(value, (int, PrimExpr)):
        return (value,) * count
    return value * 2 if key == "padding" and len(value) * 2 == count else value


# ---------------------------------------------------------------- operators whose classic arguments need a thought

def _reshape(ops, args, attrs):
    """-1 is what remains."""
    x, shape = args
    dims = [shape] if isinstance(shape, (int, PrimExpr)) else list(getattr(shape, "values", shape))
    if any(isinstance(plain(d), float) for d in dims):
        raise InferError(f"reshape: dimensions must be integers, they are {tuple(map(plain, dims))}")
    if not _is_empty(x):  # 0 keeps a dimension, as TVM has it
        dims = [shape_of(x)[k] if plain(d) == 0 and isinstance(plain(d), int) and k < len(shape_of(x)) else d
                for k, d in enumerate(dims)]
    open_axes = [k for k, d in enumerate(dims) if isinstance(plain(d), int) and plain(d) == -1]
    if len(open_axes) > 1:
        raise InferError(f"reshape: only one dimension of {tuple(map(plain, dims))} can be -1")
    for k in open_axes:
        if any(map(has_wild, shape_of(x))):
            raise InferError("reshape: what -1 stands for cannot be told, since the tensor's shape is not known")
        whole, rest = (product(reversed(list(v))) for v in (shape_of(x), [d for d in dims if d is not dims[k]]))
        if isinstance(plain(whole), int) and isinstance(plain(rest), int) and (
                not plain(rest) or plain(whole) % plain(rest)):
            raise InferError(f"reshape: {plain(whole)} elements do not divide into {tuple(map(plain, dims))}")
        dims[k] = simplify(as_expr(whole) // rest)
    return [x, tuple(dims)], attrs


def _is_empty(x):
    """Whether a tensor is known to have no elements."""
    return any(isinstance(plain(as_expr(d)), int) and plain(as_expr(d)) == 0 for d in shape_of(x))


def _split(ops, args, attrs):
    """indices_or_sections: a number of equal parts, or where the parts end."""
    x, = args
    parts, axis = attrs.pop("indices_or_sections", None), attrs.setdefault("axis", 0)
    if parts is None:
        return args, attrs
    extent = plain(as_expr(shape_of(x)[axis])) if -len(shape_of(x)) <= axis < len(shape_of(x)) else 0
    if not isinstance(extent, int):
        raise InferError(f"split: axis {axis} is symbolic; split needs a known extent: pin it")
    if isinstance(parts, int):
        size = -(-extent // parts) if parts > 0 else 0  # the last is what remains
        if parts < 1 or size * (parts - 1) >= max(extent, 1):
            raise InferError(f"split: axis {axis} of extent {extent} does not divide into {parts} parts")
        attrs["sections"] = (size,) * (parts - 1) + (extent - size * (parts - 1),)
    else:
        ends = (0, *(min(max(p, 0), extent) for p in parts), extent)
        attrs["sections"] = tuple(max(b - a, 0) for a, b in zip(ends, ends[1:]))
    return args, attrs


def _slice(ops, args, attrs):
    """As numpy slices: negative positions count from the end, those beyond are held inside."""
    x, = args
    rank, begin, end = len(shape_of(x)), attrs["begin"], attrs["end"]
    axes = tuple(range(len(begin))) if attrs.get("axes") is None else tuple(attrs["axes"])
    strides = (1,) * len(begin) if attrs.get("strides") is None else tuple(attrs["strides"])
    strides = strides * len(begin) if len(strides) == 1 else strides
    if not len(axes) == len(begin) == len(end) == len(strides):
        raise InferError(f"strided_slice: axes {axes}, begin {begin}, end {end} and strides {strides} must have one "
                         "length")
    if len({a % rank if rank else a for a in axes}) < len(axes):
        raise InferError(f"strided_slice: axes {axes} name one axis twice")
    if not all(v is None or isinstance(v, int) for v in (*begin, *end, *strides)):
        raise InferError("strided_slice: begin, end and strides must be numbers; symbolic ones are not supported")
    begins, ends = list(begin), list(end)
    for k, axis in enumerate(axes):
        extent = plain(as_expr(shape_of(x)[axis])) if -rank <= axis < rank else None
        if isinstance(extent, int) and strides[k]:
            down = strides[k] < 0
            if down and isinstance(end[k], int) and end[k] == -1 and begin[k] is not None and begin[k] >= 0:
                continue  # the table's own form of "down to the first element"
            begins[k], ends[k], _ = slice(begin[k], end[k], strides[k]).indices(extent)
    return args, {"axes": axes, "begin": tuple(begins), "end": tuple(ends), "strides": tuple(strides)}


def _flat(ops, args, attrs):
    """axis=None: of the tensor as if it were flat."""
    if attrs.get("axis") is None:
        args = args if len(shape_of(args[0])) == 1 else [ops("reshape", args[0], (-1,)), *args[1:]]
        attrs["axis"] = 0
    return args, attrs


def _concat(ops, args, attrs):
    if attrs.get("axis", 0) is None and any(len(shape_of(a)) != 1 for a in args):
        raise InferError("concat: without an axis tensors must have one dimension")
    attrs["axis"] = attrs.get("axis") or 0
    return args, attrs


def _axes(ops, args, attrs):
    """An axis is a list of one."""
    axis = attrs.get("axis")
    return args, {**attrs, "axis": (axis,)} if isinstance(axis, int) else attrs


def _scatter(ops, args, attrs):
    """TVM writes "update" where nothing is added."""
    if attrs.get("reduction") in ("update", "updates"):
        attrs["reduction"] = "none"
    return args, attrs


def _arange(ops, args, attrs):
    """dtype: that of the numbers, int64 or float32."""
    if attrs.get("dtype") is None:
        attrs["dtype"] = "float32" if any(isinstance(plain(a), float) for a in args) else "int64"
    return args, attrs


def _tile(ops, args, attrs):
    """Fewer repeats than dimensions are those of the last ones."""
    x, = args
    repeats = attrs["repeats"] if isinstance(attrs["repeats"], tuple) else (attrs["repeats"],)
    _need_counts("tile", repeats)
    rank = len(shape_of(x))
    return [x], {"repeats": (1,) * (rank - len(repeats)) + repeats}


def _need_counts(name, repeats):
    if not all(type(n) is int for n in repeats):
        raise InferError(f"{name}: repeats must be integers, they are {', '.join(map(str, repeats))}")


def _repeat(ops, args, attrs):
    _need_counts("repeat", (attrs.get("repeats"),))
    return args, {"axis": None, **attrs}


def _one_hot(ops, args, attrs):
    """Integers make a tensor of int64, as TVM's PrimValues do, where no dtype is given."""
    on, off = attrs.get("on_value", 1.0), attrs.get("off_value", 0.0)
    if isinstance(on, float) != isinstance(off, float):
        raise InferError(f"one_hot: on_value {on} and off_value {off} must be of one dtype")
    attrs.setdefault("dtype", "int64" if type(on) is int else "float32")
    return args, attrs


def _pad(ops, args, attrs):
    """pad_width: numbers in a row or pairs."""
    width = attrs.get("pad_width", ())
    attrs["pad_width"] = tuple(n for w in width for n in (w if isinstance(w, tuple) else (w,)))
    return args, attrs


def _norm(ops, args, attrs):
    """scale=False: gamma is 1. center=False: beta is 0."""
    x, gamma, beta, *rest = args
    gamma = gamma if attrs.pop("scale", True) else ops("ones_like", gamma)
    beta = beta if attrs.pop("center", True) else ops("zeros_like", beta)
    return [x, gamma, beta, *rest], attrs


def _adaptive(ops, args, attrs):
    """No output_size is the image's."""
    if attrs.get("output_size") is None:
        attrs["output_size"] = tuple(plain(as_expr(d)) for d in shape_of(args[0])[2:4])
        if not all(isinstance(n, int) for n in attrs["output_size"]):
            raise InferError("nn.adaptive_max_pool2d: an image of symbolic size needs an output_size")
    return args, attrs


def _take(ops, args, attrs):
    """An index that is a number is a tensor without dimensions."""
    mode, index = attrs.pop("mode", None), args[1].value if isinstance(args[1], PrimValue) else None
    if isinstance(index, IntImm):
        args = [args[0], ops("full", (), index.value, "int64")]
    elif index is not None:
        args = [args[0], _number(ops, index)]
    (x, indices), attrs = _flat(ops, args, attrs)
    return [x, _places(ops, mode, indices, shape_of(x)[attrs["axis"]])], attrs


def _places(ops, mode, indices, extent):
    """Indices as numbers below an extent: "clip" takes the nearest ones, "wrap" begins again; "fast" lets them be."""
    if mode in (None, "fast"):
        return indices
    if mode not in ("clip", "wrap"):
        raise InferError(f"take: mode={mode!r} is not supported, it must be 'fast', 'clip', 'wrap' or 'nan'")
    if dtype_of(indices) != "int64":
        indices = ops("astype", indices, dtype="int64")
    if mode == "wrap":
        return ops("floor_mod", indices, _number(ops, extent))
    return ops("maximum", ops("minimum", indices, _number(ops, extent - 1)), ops("full", (), 0, "int64"))


def _take_or_nan(ops, args, attrs):
    """mode="nan": NaN where an index is no place, below 0 as well. None for other modes."""
    if attrs.get("mode") != "nan":
        return None
    attrs = {k: v for k, v in attrs.items() if k != "mode"}
    if not dtype_of(args[0]).is_float:
        raise InferError(f"take: mode='nan' gives NaN for indices outside, which {dtype_of(args[0])} has not")
    if isinstance(args[1], PrimValue):
        args = [args[0], _number(ops, args[1].value)]
    (x, indices), attrs = _flat(ops, args, attrs)
    axis, own = attrs["axis"] % len(shape_of(x)), shape_of(indices)
    places = indices if dtype_of(indices) == "int64" else ops("astype", indices, dtype="int64")
    zero, count = ops("full", (), 0, "int64"), _number(ops, shape_of(x)[axis])
    inside = ops("logical_and", ops("greater_equal", places, zero), ops("less", places, count))
    last = ops("subtract", count, ops("full", (), 1, "int64"))
    values = ops("take", x, ops("maximum", ops("minimum", places, last), zero), axis=axis)
    inside = ops("reshape", inside, (*own, *(1,) * (len(shape_of(x)) - axis - 1)))
    return ops("where", inside, values, ops("full", (), float("nan"), str(dtype_of(x))))


def _split_symbolic(ops, args, attrs):
    """Of an axis whose extent a run tells: slices, which are held inside. None where the extent is known."""
    x, = args
    parts, axis, rank = attrs.get("indices_or_sections"), attrs.get("axis", 0), len(shape_of(x))
    if parts is None or not -rank <= axis < rank or not hasattr(ops, "tuple"):
        return None
    extent = as_expr(shape_of(x)[axis])
    if isinstance(extent, IntImm) or parts == 1 or parts == ():
        return None
    if isinstance(parts, int):
        if parts < 1:
            raise InferError(f"split: axis {axis} of extent {extent} does not divide into {parts} parts")
        size = simplify((extent + (parts - 1)) // parts)
        ends = [as_expr(0, "int64"), *(simplify(size * k) for k in range(1, parts)), extent]
    else:
        ends = [*(as_expr(max(p, 0), "int64") for p in (0, *parts)), extent]
    begins = [simplify(tir.min(a, extent)) if k else a for k, a in enumerate(ends)]
    sizes = [simplify(tir.max(b - a, 0)) for a, b in zip(begins, begins[1:])]
    parts = (ops("slice_at", x, (a,), (n,), axes=(axis % rank,), strides=(1,)) for a, n in zip(begins, sizes))
    return ops.tuple(*parts)


def _number(ops, value):
    """An expression of dimensions as a tensor without any."""
    return ops("reshape", ops("shape_to_tensor", (value,)), ())


def _resize(ops, args, attrs):
    """A size of numbers is an attribute, in whatever form it is given. The default of cubic_alpha is TVM's, not ONNX's,
    which the operator's row has."""
    attrs.setdefault("cubic_alpha", -0.5)
    size = args[1] if len(args) > 1 else None
    numbers = plain(size) if isinstance(size, ShapeExpr) else ()
    if not numbers or not all(isinstance(n, int) for n in numbers):
        return args, attrs
    return args[:1], {**attrs, "size": numbers}


def _resize_of_layout(ops, args, attrs):
    """Of images whose axes stand in another order, such as NHWC: of NCHW, put back. None where they stand so."""
    layout = attrs.get("layout") or "NCHW"
    if layout == "NCHW" or sorted(layout) != sorted("NCHW"):
        return None
    turned = ops("permute_dims", args[0], tuple(map(layout.index, "NCHW")))
    result = ops("image.resize2d", turned, *args[1:], **{**attrs, "layout": "NCHW"})
    return ops("permute_dims", result, tuple(map("NCHW".index, layout)))


# which give what is of several operators, or None
_SEVERAL = {"take": _take_or_nan, "split": _split_symbolic, "image.resize2d": _resize_of_layout}
_ADAPT = {"image.resize2d": _resize, **dict.fromkeys(("nn.batch_norm", "nn.layer_norm", "nn.instance_norm"), _norm),
          "expand_dims": _axes, "squeeze": _axes,
          "scatter_elements": _scatter, "scatter_nd": _scatter, "reshape": _reshape, "split": _split,
          "strided_slice": _slice, "concat": _concat, "tile": _tile,
          "one_hot": _one_hot, "nn.pad": _pad, "arange": _arange,
          "take": _take, "nn.adaptive_max_pool2d": _adaptive,
          "repeat": _repeat, **dict.fromkeys(("cumsum", "cumprod"), _flat)}
__all__ = ["Namespace", "dtype_of", "plain", "shape_of", "widened"]
