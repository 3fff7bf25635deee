"""Tensor expressions: describe what each element is; create_prim_func turns the description into loops and blocks."""
from __future__ import annotations

import inspect

from ..dtype import DataType
from ..expr import (Add, Call, IterVar, Max, Min, Mul, PrimExpr, Range, Var, as_expr, binary, const)
from ..node import Node, children, node, node_field


class Operation(Node):
    """Base of what makes a tensor: placeholder or compute."""

    __slots__ = ()


@node
class PlaceholderOp(Operation):
    name: str
    shape: tuple
    dtype: DataType
    _is_binder_leaf = True


@node
class ComputeOp(Operation):
    """axis: the output's IterVars; reduce_axis: those of a reduction; body: one expression per output."""

    name: str
    axis: tuple = node_field(define=True)
    reduce_axis: tuple = node_field(define=True, default=())
    body: tuple = ()
    attrs: dict = node_field(default_factory=dict)


@node
class Tensor(Node):
    """An n-dimensional value; index it with as many expressions as it has dimensions, or call it."""

    op: Operation
    value_index: int = 0

    @property
    def name(self):
        return self.op.name

    @property
    def shape(self):
        if isinstance(self.op, PlaceholderOp):
            return self.op.shape
        return tuple(iv.dom.extent for iv in self.op.axis)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return self.op.dtype if isinstance(self.op, PlaceholderOp) else self.op.body[self.value_index].dtype

    def __call__(self, *indices):
        return self[indices]

    def __getitem__(self, indices):
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != self.ndim:
            raise IndexError(f"tensor {self.name} has {self.ndim} dimensions, indexed with {len(indices)}")
        return ProducerLoad(self, tuple(as_expr(i) for i in indices))


@node
class ProducerLoad(PrimExpr):
    """tensor[indices] before the tensor has a buffer."""

    producer: Tensor
    indices: tuple

    @property
    def dtype(self):
        return self.producer.dtype


@node
class CommReducer(Node):
    """A commutative reduction: result(lhs, rhs) with identity elements, one per output."""

    lhs: tuple = node_field(define=True)
    rhs: tuple = node_field(define=True)
    result: tuple = ()
    identity: tuple = ()


@node
class Reduce(PrimExpr):
    """The reduction of `source` over `axis`; only as a whole compute body."""

    combiner: CommReducer
    source: tuple
    axis: tuple
    condition: PrimExpr = None
    value_index: int = 0

    @property
    def dtype(self):
        return self.source[self.value_index].dtype


def placeholder(shape, dtype="float32", name="placeholder"):
    """A tensor given from outside. shape: ints or expressions."""
    shape = (shape,) if isinstance(shape, (int, PrimExpr)) else shape
    return Tensor(PlaceholderOp(name, tuple(as_expr(s) for s in shape), DataType(dtype)))


def compute(shape, fcompute, name="compute", attrs=None, varargs_names=None):
    """The tensor whose element at (i, j, ...) is fcompute(i, j, ...).

    Axes are named after fcompute's parameters; varargs_names names those of a `lambda *i`.

    fcompute may return one expression, or a tuple for several outputs (then a tuple of tensors is returned).
    """
    shape = (shape,) if isinstance(shape, (int, PrimExpr)) else tuple(shape)
    names = varargs_names or _axis_names(fcompute, len(shape))
    axis = tuple(IterVar(_dom(s), Var(n, as_expr(s).dtype), "spatial") for n, s in zip(names, shape))
    body = fcompute(*(iv.var for iv in axis))
    several = isinstance(body, tuple)
    body = tuple(as_expr(b) for b in (body if several else (body,)))
    reduce_axis = ()
    if isinstance(body[0], Reduce):
        if several and not all(isinstance(b, Reduce) for b in body):
            raise ValueError(f"compute {name}: either all outputs are reductions or none is")
        reduce_axis = body[0].axis
    elif any(_contains_reduce(b) for b in body):
        raise ValueError(f"compute {name}: a reduction must be the whole body; give it a compute of its own")
    op = ComputeOp(name, axis, reduce_axis, body, dict(attrs or {}))
    return tuple(Tensor(op, i) for i in range(len(body))) if several else Tensor(op, 0)


def _dom(extent):
    extent = as_expr(extent)
    return Range(const(0, extent.dtype), extent)


def _axis_names(function, rank):
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        params = []
    if len(params) == rank and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in params):
        return [p.name for p in params]
    return [f"i{k}" for k in range(rank)]


def _contains_reduce(e):
    """True when `e` itself reduces; the computes of the tensors it reads do not count."""
    if isinstance(e, Reduce):
        return True
    return any(_contains_reduce(c) for c in children(e) if not isinstance(c, Tensor))


def reduce_axis(dom, name="k"):
    """An axis to reduce over: dom is (begin, end) or a Range."""
    if not isinstance(dom, Range):
        begin, end = (as_expr(d) for d in dom)
        dom = Range.from_min_extent(begin, end - begin)
    return IterVar(dom, Var(name, dom.extent.dtype), "reduce")


def comm_reducer(fcombine, fidentity, name="reduce"):
    """A reduction function from fcombine(lhs, rhs) and fidentity(dtype); tuples for several values at once."""
    def reducer(expr, axis, where=None):
        axis = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        source = tuple(as_expr(e) for e in (expr if isinstance(expr, tuple) else (expr,)))
        lhs = tuple(Var(f"x{i}", e.dtype) for i, e in enumerate(source))
        rhs = tuple(Var(f"y{i}", e.dtype) for i, e in enumerate(source))
        if len(source) == 1:
            result, identity = (fcombine(lhs[0], rhs[0]),), (as_expr(fidentity(source[0].dtype)),)
        else:
            result, identity = fcombine(lhs, rhs), fidentity(*(e.dtype for e in source))
        combiner = CommReducer(lhs, rhs, tuple(result), tuple(as_expr(i) for i in identity))
        parts = tuple(Reduce(combiner, source, axis, as_expr(True if where is None else where), i)
                      for i in range(len(source)))
        return parts[0] if len(parts) == 1 else parts
    reducer.__name__ = name
    return reducer


sum = comm_reducer(lambda a, b: binary(Add, a, b), lambda t: const(0, t), "sum")  # noqa: A001
prod = comm_reducer(lambda a, b: binary(Mul, a, b), lambda t: const(1, t), "prod")
max = comm_reducer(lambda a, b: binary(Max, a, b), lambda t: const(t.min_value(), t), "max")  # noqa: A001
min = comm_reducer(lambda a, b: binary(Min, a, b), lambda t: const(t.max_value(), t), "min")  # noqa: A001


def extern(dtype, name, *args):
    """A call of the C function `name` inside an expression."""
    return Call(dtype, "tir.call_extern", (as_expr(name), *(as_expr(a) for a in args)))
