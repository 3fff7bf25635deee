"""relax.op's calls: of operators of the table, or in classic form where these are several or not yet known.

A call in classic form has TVM's name, operands and attributes: of what is made of several operators ("nn.group_norm"),
and of operators whose arguments are not known in full. `in_operators` makes it of operators when they are.
"""
from __future__ import annotations

import inspect

from .. import op as op_table
from ..op import InferError
from ..dtype import DataType
from ..tir.index_map import IndexMap
from .call_checks import CHECKS
from .classic import Function, Namespace, dtype_of, plain, shape_of, widened
from .expr import PrimValue, RelaxCall, RelaxTuple, TensorStructInfo, TupleStructInfo, const
from .infos import same_info
from .rules import RULES, WINDOWS
from .runtime_calls import AS_VALUES
from .ops.common import InferTypeError, same_dim, shape_text, size_of
from .partial import infer_partial, is_partial, leaves
from .block_builder import as_argument

_PER_AXIS = ("strides", "padding", "dilation", "output_padding", "pool_size", "output_size")


# One call, whatever the arguments are; attributes that no row has mark it.
AS_CALLED = {"take": {"mode": "fast"}, "strided_slice": {"assume_inbound": False}}


class Ops:
    """What functions of several operators (composites.py) call: ops(name, ...), and what else they need."""

    def __init__(self, namespace):
        self.core = namespace.core
        self.made = namespace.made

    def __call__(self, name, /, *args, **kwargs):
        return self.made(name, *args, **kwargs)

    @staticmethod
    def tuple(*fields):
        return RelaxTuple(fields)

    @staticmethod
    def items(value, count):
        return [value[k] for k in range(count)]

    @staticmethod
    def constant(array):
        return const(array)

    @staticmethod
    def size(dim):
        return size_of("this operator", dim)

    @staticmethod
    def same_dims(what, a, b):
        if len(a) != len(b) or not all(map(same_dim, a, b)):
            raise InferError(f"{what} differ: {shape_text(a)} and {shape_text(b)}")

    def same_shape(self, what, a, b):
        self.same_dims(what, shape_of(a), shape_of(b))

    @staticmethod
    def integers(what, x):
        if not dtype_of(x).is_int:
            raise InferTypeError(f"{what}: takes integers, got {dtype_of(x)}")

    @staticmethod
    def range_of(dtype):
        return DataType(dtype).finite_range()

    @staticmethod
    def value_of(what, x, value):
        """InferError where a number is not of x's kind."""
        value = plain(getattr(value, "value", value))
        if isinstance(value, float) and not dtype_of(x).is_float:
            raise InferError(f"{what}: {value} is no {dtype_of(x)}")

    @staticmethod
    def declared(x, dims):
        """x, whose shape is known to be `dims`."""
        if not isinstance(x, RelaxCall):
            return x
        return x.replace(struct_info=TensorStructInfo(dims, dtype_of(x)))


class GraphNamespace(Namespace):
    """relax.op. runtime: {name: function to struct info} of calls that no operator computes."""

    def __init__(self, signatures, finish, composites, runtime):
        super().__init__(signatures, finish, composites)
        self.ops, self.runtime = Ops(self), runtime

    def names(self):
        return [*super().names(), *self.runtime]

    def member(self, name):
        return Function(self, name) if name in self.runtime else super().member(name)

    def operands_of(self, name):
        if name not in self.runtime:
            return super().operands_of(name)
        f = self.runtime[name]
        known = getattr(f, "operands", None)
        return known.split() if known is not None else [next(iter(inspect.signature(f).parameters))]

    def bound(self, name, args, kwargs):
        if name not in self.runtime:
            operands, attrs = super().bound(name, args, kwargs)
            if callable(attrs.get("index_map")):  # a node, so that programs are saved
                ndim = getattr(operands[0].struct_info, "ndim", -1)
                attrs["index_map"] = IndexMap.from_func(attrs["index_map"], ndim if ndim >= 0 else None,
                                                        index_dtype="int64")
            return operands, attrs
        given = inspect.signature(self.runtime[name]).bind(*args, **kwargs)
        names, operands, attrs = self.operands_of(name), [], {}
        if "storage_scope" in names:
            given.apply_defaults()
        for k in given.signature.parameters:
            v = given.arguments.get(k)
            if k not in given.arguments:
                operands += [None] if k in names else []  # keeps the places of those behind it
            elif k in names and isinstance(v, tuple) and k == "values":
                operands += v
            elif k in names:
                operands.append(AS_VALUES[k](v) if k in AS_VALUES and isinstance(v, str) else v)
            else:
                attrs[k] = v
        return operands, attrs

    def call(self, name, /, *args, **kwargs):
        strict = None
        values = list(leaves((args, kwargs)))
        if name in CHECKS and not any(e.struct_info is None for e in values):
            CHECKS[name](*self.bound(name, args, kwargs))
        if name in self.runtime:
            info = None if any(e.struct_info is None for e in values) else self.runtime[name](*args, **kwargs)
            call = self._classic(name, args, kwargs, info)
            return call if name in ("to_vdevice", "hint_on_device") else _on_device(call, values)
        if any(e.struct_info is None for e in values):
            return self._classic(name, args, kwargs, None)
        if name == "split" and _is_one_part(self.bound(name, args, kwargs)[1]):
            return _on_device(self._classic(name, args, kwargs, RULES[name](*self._values(name, args, kwargs))), values)
        if not any(map(is_partial, values)):
            try:
                made = self.made(name, *args, **kwargs)
                if name == "split" and not isinstance(made, RelaxCall):  # parts of a symbolic axis
                    return _on_device(self._classic(name, args, kwargs, RULES[name](
                        *self._values(name, args, kwargs))), values)
                if self._as_called(name, made, args, kwargs):
                    return _on_device(self._classic(name, args, kwargs, made.struct_info), values)
                whole = isinstance(made, RelaxCall) and (
                    name not in self.composites or made.op == name and _is_of(made, values))
                if whole:
                    return _on_device(self._spelled(name, made, args, kwargs), values)
                if name not in self.composites or getattr(self.composites[name], "inline", False):
                    return _on_device(made, values) if isinstance(made, RelaxCall) else made
                return _on_device(self._classic(name, args, kwargs, made.struct_info), values)
            except InferError as error:
                strict = error
        rule = RULES.get(name)
        if strict is not None and name in self.composites and set(kwargs) - set(
                inspect.signature(self.composites[name]).parameters):
            raise strict
        try:
            info = rule(*self._values(name, args, kwargs)) if rule else None
            info = info or infer_partial(lambda *a, **k: self.made(name, *a, **k), args, kwargs, name == "reshape")
        except InferError as error:
            raise strict or error from None
        return _on_device(self._classic(name, args, kwargs, info), values)

    def _as_called(self, name, made, args, kwargs):
        """Whether a call stays as it is written until it is of operators: one of a row that needs another before it, or
        a normalization without scale or center."""
        if name not in self.signatures:
            return False
        if name in AS_CALLED and isinstance(made, RelaxCall):
            given = {id(v) for v in leaves((args, kwargs))}
            return any(isinstance(a, RelaxCall) and id(a) not in given for a in made.args[1:])
        return any(v is False and k in ("scale", "center") for k, v in self.bound(name, args, kwargs)[1].items())

    def _spelled(self, name, made, args, kwargs):
        """A call of a window over symbolic dimensions, with these as TVM writes them; they are equal."""
        rule, info = RULES.get(name) if name in WINDOWS else None, made.struct_info
        if rule is None or info.static_shape is not None:
            return made
        try:
            spelled = rule(*self._values(name, args, kwargs))
        except InferError:
            return made
        return made.replace(struct_info=spelled) if same_info(spelled, info) else made

    def _values(self, name, args, kwargs):
        """(operands without those left out, attributes with their defaults, as Python's)"""
        operands, attrs = self.bound(name, args, kwargs)
        return [o for o in operands if o is not None], {k: plain(v) for k, v in attrs.items()}

    def _classic(self, name, args, kwargs, info):
        operands, attrs = self.bound(name, args, kwargs)
        names = self.operands_of(name)
        given = [n for n, o in zip(names, operands) if o is not None]
        attrs = {k: None if k == "out_dtype" and v in ("", "void") else plain(v) for k, v in attrs.items()}
        spec = op_table.OPS.get(name) if name in WINDOWS else None
        if spec is not None:  # one number for each axis, however it is written
            attrs = {k: widened(name, spec, k, v) if k in _PER_AXIS else v for k, v in attrs.items()}
        elif name in WINDOWS and name.endswith("d_transpose"):
            attrs = {k: _each_axis(k, v, int(name[-len("1d_transpose")])) if k in _PER_AXIS else v
                     for k, v in attrs.items()}
        if given != names[:len(given)]:
            attrs["operands"] = tuple(given)
        operands = [o for o in operands if o is not None]
        if name in AS_CALLED and (name == "strided_slice" or any(isinstance(o, PrimValue) for o in operands)):
            attrs = {**AS_CALLED[name], **attrs}
        if name in self.signatures:
            operator = self.signatures[name].partition(":")[0]
            if op_table.takes_tuple(operator) and isinstance(operands[0], (list, tuple)):
                operands = list(operands[0])
            name = operator if operator in self.signatures else name
        return RelaxCall(name, tuple(map(as_argument, operands)), attrs, info)

    def again(self, call):
        """A call in classic form made again, of its arguments as they are now."""
        if call.op in self.runtime and _takes_any(self.runtime[call.op]):
            return self.call(call.op, *call.args, **call.attrs)
        return self.call(call.op, **self._arguments(call))

    def in_operators(self, call):
        """A call in classic form as an expression of operators. InferError where its arguments are not known."""
        if call.op in ("to_vdevice", "hint_on_device"):  # what is built runs on one device
            return call.args[0]
        if call.op == "split" and _is_one_part(call.attrs):
            return call.args[0]
        if call.op in self.runtime:
            raise InferError(f"{call.op} is no operator of the table: the program stays as it is")
        return self.made(str(call.op), **self._arguments(call))

    def _arguments(self, call):
        name, attrs = str(call.op), dict(call.attrs)
        names = attrs.pop("operands", None) or self.operands_of(name)
        args = list(call.args)
        if name in self.signatures:
            operator = self.signatures[name].partition(":")[0]
            if op_table.takes_tuple(operator):
                args = [args]
        return {**dict(zip(names, args)), **attrs}


def _each_axis(key, value, rank):
    """A number of a window as one for each axis, of padding for each side."""
    value = (value,) * rank if isinstance(value, int) else value
    return value * 2 if key == "padding" and len(value) == rank else value


def _is_one_part(attrs):
    """Whether a split gives the tensor as it is, and no tuple."""
    parts = attrs.get("indices_or_sections")
    return len(parts) == 0 if isinstance(parts, (list, tuple)) else plain(parts) == 1


def _takes_any(function):
    """Whether a function takes any number of operands."""
    return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())


def _is_of(call, values):
    """Whether a call is of values that were given, and of no calls that were made of these."""
    return not any(isinstance(e, RelaxCall) and not any(e is v for v in values) for e in leaves(call.args))


def _on_device(call, values):
    """The call, on the device of its arguments. InferTypeError where these name several."""
    devices = []
    for e in values:
        fields = getattr(e.struct_info, "fields", (e.struct_info,))
        devices += [f.vdevice for f in fields if isinstance(f, TensorStructInfo) and f.vdevice is not None]
    if not devices or call.struct_info is None:
        return call
    if any((d.target, d.vdevice_id) != (devices[0].target, devices[0].vdevice_id) for d in devices):
        raise InferTypeError(f"{call.op}: its arguments are on several devices; move them with to_vdevice")
    return call.replace(struct_info=_placed(call.struct_info, devices[0]))


def _placed(info, device):
    if isinstance(info, TupleStructInfo):
        return info.replace(fields=tuple(_placed(f, device) for f in info.fields))
    return info.replace(vdevice=device) if isinstance(info, TensorStructInfo) else info


__all__ = ["GraphNamespace"]
