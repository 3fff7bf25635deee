"""NarrowDataType as scripts know it: loops, iterators and the arithmetic of them in as many bits as their values need."""
from __future__ import annotations

from ...arith import Analyzer
from ...dtype import DataType
from ...expr import (BinaryExpr, Call, Cast, CompareExpr, IntImm, PrimExpr, Range, Select, Var, binary, cast, const,
                     free_vars)
from ...node import Mutator, Visitor, collect
from ...tir.buffer import Buffer

WIDTHS = (8, 16, 32, 64)
_EXTENTS = ("thread_extent", "virtual_thread")


def narrow_data_type(func, target_bits):
    """Ensures that loops, iterators of blocks and threads have integers of target_bits (8, 16, 32 or 64) where these
    hold the values of all expressions around them, and that these are computed in as many. Numbers of parameters, and
    what is stored in buffers, keep their types."""
    if target_bits not in WIDTHS:
        raise ValueError(f"NarrowDataType: target_bits is 8, 16, 32 or 64, not {target_bits!r}")
    widths = _Widths(target_bits, func)
    return func.replace(body=_Narrow(widths).visit(func.body))


class _Widths(Visitor):
    """bits: {id of a variable, an immediate or a cast: the width that holds each integer of which it is a part}."""

    def __init__(self, target, func):
        self.target, self.analyzer, self.bits, self.keep = target, Analyzer(), {}, []
        self.around = target  # the width that the expressions around need
        self.own = {}         # id of a loop's or block's variable -> its width
        self.fixed = {id(v) for b in collect(func.body, Buffer) for v in free_vars((b.shape, b.strides, b.elem_offset))}
        self.visit(func.body)

    def visit(self, n):
        if not (isinstance(n, PrimExpr) and n.dtype.is_int):
            return super().visit(n)
        outer = self.around
        self.around = max(outer, self._width(n))
        if isinstance(n, (IntImm, Cast)) or isinstance(n, Var) and id(n) in self.own:
            self._need(n, self.own.get(id(n), n.dtype.bits))
        super().visit(n)
        self.around = outer

    def _width(self, e):
        if e.dtype.bits <= self.target:  # a thread's variable may have less bits than its extent
            least, greatest = self.analyzer.interval(e) if e.dtype.lanes == 1 else (0, 0)
            inside = None in (least, greatest) or e.dtype.min_value() <= least and greatest <= e.dtype.max_value()
            return self.target if inside else max(WIDTHS)
        if not isinstance(e.dtype.lanes, int):
            return e.dtype.bits
        bound, dtype = self.analyzer.const_int_bound(e), DataType(f"int{self.target}")
        fits = dtype.min_value() <= bound.min_value and bound.max_value <= dtype.max_value()
        return self.target if fits else e.dtype.bits

    def _need(self, n, most):
        self.keep.append(n)
        self.bits[id(n)] = max(self.bits.get(id(n), 0), min(most, self.around))

    def visit_BufferLoad(self, load):
        outer, self.around = self.around, self.target
        self.generic_visit(load)
        self.around = outer

    def _bound(self, var, low, extent, dtype):
        self.analyzer.bind(var, Range(low, extent), allow_override=True)
        if id(var) in self.fixed:
            return
        self.own[id(var)] = dtype.bits
        ends = self._width(low + extent), self._width(extent)  # with which it is compared, and which it has the type of
        outer, self.around = self.around, max(self.around, *ends)
        self.visit(var)
        self.around = outer

    def visit_For(self, loop):
        self._bound(loop.loop_var, loop.min, loop.extent, loop.extent.dtype)
        self.generic_visit(loop)

    def visit_BlockRealize(self, realize):
        for iv in realize.block.iter_vars:
            self._bound(iv.var, iv.dom.min, iv.dom.extent, iv.dom.extent.dtype)
        self.generic_visit(realize)

    def visit_AttrStmt(self, attr):
        if attr.attr_key in _EXTENTS:
            self._bound(attr.target.var, const(0, attr.value.dtype), attr.value, attr.value.dtype)
        self.generic_visit(attr)


class _Narrow(Mutator):
    """Variables in their new types, and what is computed of them. Immediates and casts follow where they are an index
    or a bound (inside), or the other operand of what has changed."""

    def __init__(self, widths):
        self.widths, self.variables, self.inside = widths, {}, False

    def _dtype(self, n):
        """The type of a node: that of a thread's variable may be wider than it was, as its extent is."""
        bits = self.widths.bits.get(id(n), n.dtype.bits)
        if not n.dtype.is_int or bits == n.dtype.bits or bits > n.dtype.bits and not isinstance(n, Var):
            return n.dtype
        return DataType(f"int{bits}").with_lanes(n.dtype.lanes)

    def _index(self, e):
        outer, self.inside = self.inside, True
        e = self.visit(e)
        self.inside = outer
        return e

    # ------------------------------------------------------------ expressions

    def visit_Var(self, v):
        if id(v) not in self.widths.own:
            return v
        if id(v) not in self.variables:
            dtype = self._dtype(v)
            self.variables[id(v)] = v if dtype == v.dtype else Var(v.name, dtype)
        return self.variables[id(v)]

    def visit_IntImm(self, e):
        return const(e.value, self._dtype(e)) if self.inside and e.dtype.is_int else e

    def visit_Cast(self, e):
        value = self.visit(e.value)
        dtype = self._dtype(e) if self.inside else e.dtype
        return value if value.dtype == dtype else e.replace(value=value) if dtype == e.dtype else Cast(dtype, value)

    def generic_visit(self, n):
        if isinstance(n, (BinaryExpr, CompareExpr)):
            return self._operands(n)
        return super().generic_visit(n)

    def _operands(self, e):
        a, b = self.visit(e.a), self.visit(e.b)
        if a.dtype.element != b.dtype.element:
            a, b = self._index(e.a), self._index(e.b)
        return e if a is e.a and b is e.b else binary(type(e), *_widest(a, b))

    def visit_Select(self, e):
        return Select(self.visit(e.condition), *_widest(*self._values(e.true_value, e.false_value)))

    def _values(self, *values):
        new = [self.visit(v) for v in values]
        if len({v.dtype for v in new}) > 1:
            new = [self._index(v) for v in values]
        return new

    def visit_Ramp(self, e):
        base, stride = _widest(*self._values(e.base, e.stride))
        return e if base is e.base and stride is e.stride else e.replace(base=base, stride=stride)

    def visit_Call(self, call):
        if call.op == "tir.if_then_else":
            condition, (yes, no) = self.visit(call.args[0]), _widest(*self._values(*call.args[1:]))
            return Call(yes.dtype, call.op, (condition, yes, no))
        outer, self.inside = self.inside, False
        args = tuple(cast(new, old.dtype) if isinstance(old, PrimExpr) and old.dtype.is_int else new
                     for old, new in zip(call.args, self.visit(call.args)))
        self.inside = outer
        return call if all(a is b for a, b in zip(args, call.args)) else call.replace(args=args)

    def visit_Let(self, let):
        return let.replace(value=cast(self.visit(let.value), let.var.dtype), body=self.visit(let.body))

    def visit_BufferLoad(self, load):
        return load.replace(indices=self._index(load.indices))

    # ------------------------------------------------------------ statements

    def visit_BufferStore(self, store):
        value = self.visit(store.value)
        if value.dtype != store.value.dtype:
            value = cast(value, store.value.dtype)
        return store.replace(value=value, indices=self._index(store.indices))

    def visit_LetStmt(self, let):
        return let.replace(value=cast(self.visit(let.value), let.var.dtype), body=self.visit(let.body))

    def visit_IfThenElse(self, branch):
        return branch.replace(condition=self._index(branch.condition), then_case=self.visit(branch.then_case),
                              else_case=self.visit(branch.else_case))

    def visit_For(self, loop):
        var = self.visit(loop.loop_var)
        low, extent = (cast(self._index(e), var.dtype) for e in (loop.min, loop.extent))
        return loop.replace(loop_var=var, min=low, extent=extent, body=self.visit(loop.body))

    def visit_AttrStmt(self, attr):
        if attr.attr_key not in _EXTENTS:
            return self.generic_visit(attr)
        target = attr.target.replace(var=self.visit(attr.target.var), dom=self.visit(attr.target.dom))
        return attr.replace(target=target, value=cast(self._index(attr.value), target.var.dtype),
                            body=self.visit(attr.body))

    def visit_Range(self, r):
        low, extent = _widest(*self._index((r.min, r.extent)))
        return r if low is r.min and extent is r.extent else Range(low, extent)

    def visit_IterVar(self, iv):
        var = self.visit(iv.var)
        dom = self.visit(iv.dom)
        if dom is not None and dom.extent.dtype != var.dtype:
            dom = Range(cast(dom.min, var.dtype), cast(dom.extent, var.dtype))
        return iv if var is iv.var and dom is iv.dom else iv.replace(var=var, dom=dom)

    def visit_BlockRealize(self, realize):
        block = self.visit(realize.block)
        values = tuple(cast(self._index(v), iv.var.dtype) for v, iv in zip(realize.iter_values, block.iter_vars))
        same = block is realize.block and all(a is b for a, b in zip(values, realize.iter_values))
        return realize if same else realize.replace(
            block=block, predicate=self._index(realize.predicate), iter_values=values)


def _widest(a, b):
    """Two integers in the type of the wider one; others as they are."""
    if a.dtype.element == b.dtype.element or not (a.dtype.is_int and b.dtype.is_int):
        return a, b
    element = max(a.dtype, b.dtype, key=lambda t: t.bits).element
    return tuple(cast(x, DataType(str(element)).with_lanes(x.dtype.lanes)) for x in (a, b))


__all__ = ["narrow_data_type"]
