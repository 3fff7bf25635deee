"""ConvertLayout of scripts: convolutions in the layouts that are asked for, what lies between them in theirs."""
from __future__ import annotations

from ...names import Names, unique_name
from ...node import collect
from ...op import OPS
from ...relax.classic import widened
from ...relax.expr import (DataflowVar, Function, MatchCast, RelaxCall, RelaxTuple, RelaxVar,
                           TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding)
from ...relax.op import SIGNATURES, call as operator
from ..call_rules import inferred
from ..graph import ReplaceVars
from .layout_rules import initial, is_blocked, map_between, parts, rule_of


def convert_layout_of_blocks(mod, desired_layouts):
    """A module in whose dataflow blocks operators have the layouts of desired_layouts, {"relax.nn.conv2d": ["NHWC",
    "OHWI"]} (data, weights, result: as data where it is left out). Operators behind follow where they can,
    R.permute_dims stands where a value is needed otherwise: in front of operators that cannot, and at the ends of
    blocks. Layouts such as NCHW4c divide axes into blocks, by R.layout_transform; operators have these where blocks are
    known to divide all their tensors. ValueError for a layout of other axes."""
    return mod.with_functions({n: _Convert(f, dict(desired_layouts)).visit(f) if isinstance(f, Function) else f
                               for n, f in mod.functions.items()})


def _layout_of(info):
    """The layout of a value that lies as the program has it: of tuples one for each field; None of what is no tensor of
    known rank."""
    if isinstance(info, TupleStructInfo):
        return tuple(map(_layout_of, info.fields))
    return initial(info.ndim) if isinstance(info, TensorStructInfo) and info.ndim >= 0 else None


class _Convert(ReplaceVars):
    """layouts: {id(variable of the program): its layout}."""

    def __init__(self, func, desired):
        super().__init__()
        self.desired, self.layouts, self.bindings = desired, {}, None
        self.names = Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))

    def visit_DataflowBlock(self, block):
        self.bindings = []
        for b in block.bindings:
            if isinstance(b, MatchCast):
                self._cast(b)
            else:
                self._value(b)
        return block.replace(bindings=tuple(self.bindings))

    # ------------------------------------------------------------ bindings

    def _value(self, b):
        value, inside = b.value, isinstance(b.var, DataflowVar)
        if isinstance(value, RelaxCall):
            self._call(b, inside)
        elif isinstance(value, RelaxTuple):
            layouts = [self._layout(f) if inside else _layout_of(f.struct_info) for f in value.fields]
            self._bind(b, RelaxTuple(tuple(map(self._laid_out, value.fields, layouts))), tuple(layouts))
        elif isinstance(value, TupleGetItem):
            whole = value.tuple_value
            layout = self._layout(whole) if inside else _layout_of(whole.struct_info)
            found = self._laid_out(whole, layout)
            found = self._emit(found) if isinstance(found, RelaxTuple) else found
            self._bind(b, TupleGetItem(found, value.index), layout[value.index])
        else:
            self._bind(b, self._plain(value), _layout_of(b.var.struct_info))

    def _call(self, b, inside):
        call, layouts = b.value, [self._layout(a) for a in b.value.args]
        rule = rule_of(call) if isinstance(call.op, str) else None
        tensors = [isinstance(a.struct_info, TensorStructInfo) for a in call.args]
        known = all(isinstance(found, str) for found, is_tensor in zip(layouts, tensors) if is_tensor)
        if rule is None or not known or not any(tensors):
            self._bind(b, _again(call, tuple(map(self._plain, call.args)), {}), _layout_of(call.struct_info))
            return
        count = sum(tensors)  # they come first; a shape may follow
        wanted, out, changed = rule(call, layouts[:count], self.desired)
        args = (*map(self._laid_out, call.args, wanted), *map(self._plain, call.args[count:]))
        made = self._bound(_again(call, args, changed))
        start = _layout_of(call.struct_info)
        if inside or out == start:
            self._bind(b, made, out)
        else:  # what leaves the block lies as before
            var = self._emit(made)
            self.layouts[id(var)] = out
            self._bind(b, self._laid_out(var, start, bound=False), start)

    def _cast(self, b):
        layout, info = self._layout(b.value), b.var.struct_info
        inside = isinstance(b.var, DataflowVar) and isinstance(info, TensorStructInfo) and isinstance(layout, str)
        if not inside or layout == _layout_of(info) or not isinstance(info.shape, tuple) or is_blocked(layout):
            self.bindings.append(b.replace(value=self._plain(b.value)))
            return
        info = info.replace(shape=tuple(info.shape[initial(len(layout)).index(c)] for c in layout))
        var = self._new(b.var, info)
        self.layouts[id(b.var)] = layout
        self.bindings.append(MatchCast(var, self._variable(b.value)))

    def _bind(self, b, value, layout):
        self.layouts[id(b.var)] = layout
        info = value.struct_info
        same = info is None or info == b.var.struct_info or layout == _layout_of(b.var.struct_info)
        self.bindings.append(VarBinding(b.var if same else self._new(b.var, info), value))

    def _new(self, var, info):
        self.env[id(var)] = new = type(var)(var.name, info, var.origin)
        return new

    def _emit(self, value):
        var = DataflowVar(unique_name("lv", self.names, ""), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    # ------------------------------------------------------------ values

    def _bound(self, call):
        """A call whose arguments are no calls, as those are of an operator that is several in a layout."""
        args = tuple(self._emit(self._bound(a)) if isinstance(a, RelaxCall) else a for a in call.args)
        return call if args == call.args else call.replace(args=args)

    def _layout(self, value):
        if isinstance(value, RelaxTuple):
            return tuple(map(self._layout, value.fields))
        return self.layouts.get(id(value)) or _layout_of(value.struct_info)

    def _plain(self, value):
        """A value as the program has it."""
        return self._laid_out(value, _layout_of(value.struct_info))

    def _laid_out(self, value, layout, bound=True):
        """A value in a layout; bound: to a variable, where it has another one now."""
        found = self._layout(value)
        if found == layout or found is None or layout is None:
            return self.visit(value)
        if isinstance(layout, tuple):
            written = isinstance(value, RelaxTuple)
            return RelaxTuple(tuple(self._laid_out(value.fields[n] if written else self._field(value, n), own)
                                    for n, own in enumerate(layout)))
        before, after = parts(found), parts(layout)
        if sorted(before) == sorted(after):
            made = operator("permute_dims", self.visit(value), axes=[before.index(c) for c in after])
        else:
            made = operator("layout_transform", self.visit(value), index_map=map_between(found, layout))
        return self._emit(made) if bound else made

    def _field(self, value, n):
        var = self._emit(TupleGetItem(self.visit(value), n))
        self.layouts[id(var)] = self._layout(value)[n]
        return var


def _again(call, args, changed):
    """A call of other arguments and attributes, inferred anew."""
    same = all(a is b for a, b in zip(args, call.args))
    if same and all(call.attrs.get(k) in (v, None, "") and (call.attrs.get(k) == v or k == "out_layout")
                    for k, v in changed.items()):
        return call
    if any("layout" in k for k in changed):  # in TVM's spelling: rows have the plain layouts alone
        known = SIGNATURES[str(call.op)].partition(":")[2].replace("?", "").split()
        attrs = {k: v for k, v in call.attrs.items() if k in known}
        attrs = {k: widened(call.op, OPS[call.op], k, v) for k, v in attrs.items()}
        return operator(str(call.op), *args, **{**attrs, **changed})
    return inferred(call.replace(args=args, attrs={**call.attrs, **changed}))


__all__ = ["convert_layout_of_blocks"]
