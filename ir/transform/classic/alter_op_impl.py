"""AlterOpImpl: other PrimFuncs for operators, in layouts of their own."""
from __future__ import annotations

from ... import te
from ...expr import Var, is_const_int
from ...module import GlobalVar
from ...relax.control import fields_of
from ...relax.expr import (Constant, Function, RelaxTuple, TensorStructInfo, TupleGetItem, TupleStructInfo, call_tir)
from ...relax.op import call as operator
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ..call_rules import CallRules

KIND = "operator_name"  # the attribute of a PrimFunc that says which operator it is


def alter_op_impl(mod, op_impl_map, op_buffer_transforms, op_buffer_axis_separators=None,
                  op_buffer_input_axis_separators=None):
    """A module whose R.call_tir of PrimFuncs with the attribute operator_name call those of op_impl_map instead,
    {operator name: PrimFunc}. R.layout_transform brings arguments into the layouts that these take, and results back;
    where a layout has more places than elements, a PrimFunc `remove_pad` takes the elements.

    op_buffer_transforms: {operator name: for each parameter of the PrimFunc an IndexMap, a function of indices, or None
    for one that stays}; an empty list: all stay. op_buffer_axis_separators and op_buffer_input_axis_separators:
    {operator name: for each parameter the attribute of its R.layout_transform}. ValueError names an operator whose
    PrimFunc or lists are of another length, a map that does not fit, or a result that cannot be brought back.
    """
    kinds = {kind: _Kind(kind, func, *(given.get(kind) if given else None for given in (
        op_buffer_transforms, op_buffer_axis_separators, op_buffer_input_axis_separators)))
        for kind, func in op_impl_map.items()}
    return _Alter(mod, kinds).module()


class _Kind:
    """What replaces an operator. maps, separators: one for each parameter; maps is empty where all stay."""

    def __init__(self, kind, func, transforms, axis_separators, input_axis_separators):
        if not isinstance(func, PrimFunc):
            raise ValueError(f"AlterOpImpl: the implementation of {kind} must be a PrimFunc, not a "
                             f"{type(func).__name__}")
        self.kind, self.func, count = kind, func, len(func.params)
        self.maps = [_index_map(kind, t) for t in transforms or ()]
        self.separators = [self._lists(given) for given in (axis_separators, input_axis_separators)]
        for what, given in (("layouts", self.maps), ("axis separators", self.separators[0]),
                            ("input axis separators", self.separators[1])):
            if given and len(given) != count:
                raise ValueError(f"AlterOpImpl: {kind} has {len(given)} {what}, its implementation {count} parameters: "
                                 "give one for each, None where a buffer stays, or none at all")

    @staticmethod
    def _lists(given):
        return [[int(s) for s in one or ()] for one in given or ()]

    def attrs(self, n):
        """The axis separators of parameter n's layout_transform, as attributes."""
        names = "axis_separators", "input_axis_separators"
        return {name: given[n] if given else [] for name, given in zip(names, self.separators)}


def _index_map(kind, transform):
    if isinstance(transform, (list, tuple)) and transform and isinstance(transform[0], IndexMap):
        transform = transform[0]  # with its axis separators, as from_func_with_separators gives it
    if transform is None or isinstance(transform, IndexMap):
        return transform
    if not callable(transform):
        raise ValueError(f"AlterOpImpl: a layout of {kind} must be an IndexMap, a function of indices or None, not "
                         f"{transform!r}")
    return IndexMap.from_func_with_separators(transform, index_dtype="int64")[0]


class _Alter:
    def __init__(self, mod, kinds):
        self.mod, self.kinds = mod, kinds
        self.functions = dict(mod.functions)
        self.added = {}  # operator name, or what remove_pad is for -> name of the function

    def module(self):
        for name, func in self.mod.functions.items():
            if isinstance(func, Function) and func.body is not None:
                self.functions[name] = CallRules(func, self._rule).visit(func)
        return self.mod.with_functions(self.functions)

    def _rule(self, context, call):
        if call.op != "call_tir":
            return None
        old = self.mod.functions.get(call.attrs["gv"].name)
        kind = self.kinds.get(old.attrs.get(KIND)) if isinstance(old, PrimFunc) else None
        if kind is None:
            return None
        if len(old.params) != len(kind.func.params):
            raise ValueError(f"AlterOpImpl: {call.attrs['gv'].name} has {len(old.params)} parameters, the "
                             f"implementation of {kind.kind} has {len(kind.func.params)}")
        gv = GlobalVar(self._named(kind.kind, f"{kind.kind}_replacement", lambda: kind.func.with_attr(
            KIND, kind.kind)))
        attrs = {**call.attrs, "gv": gv}
        if not kind.maps:
            return call.replace(attrs=attrs)
        outputs = fields_of(call.struct_info)
        first = len(kind.maps) - len(outputs) - len(call.attrs.get("sym_args", ()))
        args = [self._laid_out(context, kind, a, n) for n, a in enumerate(call.args)]
        infos = [self._info(kind, info, first + n) for n, info in enumerate(outputs)]
        several = isinstance(call.struct_info, TupleStructInfo)
        made = call.replace(args=tuple(args), attrs=attrs,
                            struct_info=TupleStructInfo(tuple(infos)) if several else infos[0])
        if not several:
            return self._back(context, kind, made, outputs[0], first)
        made = context.emit(made)
        return RelaxTuple(tuple(self._bound(context, self._back(context, kind, TupleGetItem(made, n), info, first + n))
                                for n, info in enumerate(outputs)))

    def _named(self, key, hint, make):
        """The name of a function of the new module, made where there is none yet."""
        if key not in self.added:
            base, n = hint.replace(".", "_"), 0
            name = base
            while name in self.functions:
                n += 1
                name = f"{base}_{n}"
            self.functions[name] = make()
            self.added[key] = name
        return self.added[key]

    @staticmethod
    def _bound(context, value):
        return value if isinstance(value, RelaxTuple) else context.emit(value)

    # ------------------------------------------------------------ layouts

    def _laid_out(self, context, kind, value, n):
        """An argument in the layout of parameter n."""
        index_map = kind.maps[n]
        if index_map is None or isinstance(value, Constant) and value.data.ndim == 0:
            return value
        self._info(kind, value.struct_info, n)
        return context.emit(_transformed(value, index_map, kind.attrs(n)))

    @staticmethod
    def _info(kind, info, n):
        """What is known of a tensor in the layout of parameter n."""
        index_map = kind.maps[n]
        if index_map is None:
            return info
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            raise ValueError(f"AlterOpImpl: parameter {n} of {kind.kind} is {info}: only a tensor of known shape can "
                             "change its layout")
        try:
            return TensorStructInfo(index_map.map_shape(info.dims), info.dtype, vdevice=info.vdevice)
        except ValueError as why:
            raise ValueError(f"AlterOpImpl: the layout of parameter {n} of {kind.kind}: {why}") from None

    def _back(self, context, kind, value, info, n):
        """A result of layout n as the program has it."""
        index_map = kind.maps[n]
        if index_map is None:
            return value
        try:
            inverse, outside = index_map.non_surjective_inverse(info.dims)
        except ValueError as why:
            raise ValueError(f"AlterOpImpl: the result {n} of {kind.kind} cannot be brought back: {why}") from None
        plain = _transformed(context.emit(value), inverse, kind.attrs(n))
        if is_const_int(outside, 0):
            return plain
        key = "remove_pad", len(info.dims), str(info.dtype), tuple(str(d.dtype) for d in info.dims)
        gv = GlobalVar(self._named(key, "remove_pad", lambda: _remove_pad(info)))
        return call_tir(gv, [context.emit(plain)], info)


def _transformed(value, index_map, attrs):
    own = tuple(Var(v.name, "int64") for v in index_map.initial_indices)  # each call has a map of its own
    return operator("layout_transform", value, index_map=IndexMap(own, index_map.map_indices(own)), **attrs)


def _remove_pad(info):
    """The PrimFunc that takes the first elements of a tensor, of any shape of so many dimensions."""
    padded, kept = ([Var(f"{letter}{n}", d.dtype) for n, d in enumerate(info.dims)] for letter in "pi")
    source = te.placeholder(padded, str(info.dtype), name="input")
    target = te.compute(kept, lambda *i: source[i], name="output")
    return te.create_prim_func([source, target]).without_attr("global_symbol").with_attr(KIND, "remove_pad")


__all__ = ["alter_op_impl"]
