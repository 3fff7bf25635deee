"""Tensor constructors: placeholder, compute, extern, extern_primfunc and scan."""
from __future__ import annotations

import functools
import inspect

from ..dtype import DataType
from ..expr import IntImm, IterVar, PrimExpr, Range, Var, as_expr, const
from ..node import children, structural_equal
from ..tir.buffer import Buffer, decl_buffer
from ..tir.region import access_regions, full_region
from ..tir.renew import renew_defs
from ..tir.size_var import SizeVar
from ..tir.stmt import BlockRealize, Evaluate, Stmt
from .tensor import ComputeOp, ExternOp, PlaceholderOp, Reduce, ScanOp, Tensor

_TAGS = []


class tag_scope:  # noqa: N801 (TVM's name)
    """`with te.tag_scope("injective"):`, or as a decorator: the tag of computes that give none."""

    def __init__(self, tag):
        self.tag = tag

    def __enter__(self):
        if _TAGS:
            raise ValueError(f"tag scope {self.tag} lies inside tag scope {_TAGS[-1]}; scopes do not nest")
        _TAGS.append(self.tag)
        return self

    def __exit__(self, *_):
        _TAGS.pop()

    def __call__(self, function):
        @functools.wraps(function)
        def tagged(*args, **kwargs):
            with tag_scope(self.tag):
                return function(*args, **kwargs)
        return tagged


def var(name="tindex", dtype="int32"):
    """A variable, such as a symbolic dimension."""
    return Var(name, dtype)


def size_var(name="size", dtype="int32"):
    """A variable that is at least 0."""
    return SizeVar(name, dtype)


def thread_axis(dom=None, tag="", name=""):
    """An axis to bind to: thread_axis("threadIdx.x") or thread_axis((0, 16), "threadIdx.x")."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError('thread_axis: no tag is given, such as "threadIdx.x"')
    return IterVar(None if dom is None else _range(dom), Var(name or tag), "thread", tag)


def reduce_axis(dom, name="rv"):
    """An axis to reduce over: dom is (begin, end) or a Range."""
    dom = _range(dom)
    return IterVar(dom, Var(name, dom.extent.dtype), "reduce")


def _range(dom):
    if isinstance(dom, Range):
        return dom
    begin, end = (as_expr(d) for d in dom)
    begin = const(begin.value, end.dtype) if isinstance(begin, IntImm) else begin
    return Range.from_min_extent(begin, end - begin)


def _shape(shape):
    """Dimensions as expressions; N / 32 is one where it is whole."""
    shape = (shape,) if isinstance(shape, (int, float, PrimExpr)) else tuple(shape)
    dims = tuple(as_expr(int(s) if isinstance(s, float) and s.is_integer() else s) for s in shape)
    for d in dims:
        if not d.dtype.is_int:
            raise TypeError(f"a dimension of shape ({', '.join(map(str, dims))}) is {d.dtype} instead of an integer")
    return dims


def placeholder(shape, dtype="float32", name="placeholder"):
    """A tensor given from outside. shape: ints or expressions."""
    return Tensor(PlaceholderOp(name, _shape(shape), DataType(dtype)))


def compute(shape, fcompute, name="compute", tag="", attrs=None, varargs_names=None):
    """The tensor whose element at (i, j, ...) is fcompute(i, j, ...).

    Axes are named after fcompute's parameters; varargs_names names those of a `lambda *i`. fcompute may return one
    expression, or a tuple for several outputs (then a tuple of tensors is returned). A reduction must be the whole
    body.
    """
    shape = _shape(shape)
    if any(isinstance(s, IntImm) and s.value < 0 for s in shape):
        raise ValueError(f"compute {name}: shape ({', '.join(map(str, shape))}) has a negative dimension")
    axis = tuple(IterVar(Range(const(0, s.dtype), s), Var(n, s.dtype), "spatial")
                 for n, s in zip(_axis_names(fcompute, len(shape), varargs_names, name), shape))
    body = fcompute(*(iv.var for iv in axis))
    several = isinstance(body, (tuple, list))
    body = tuple(as_expr(b) for b in (body if several else (body,)))
    reduce_axis = ()
    if any(isinstance(b, Reduce) for b in body):
        if not all(isinstance(b, Reduce) for b in body):
            raise ValueError(f"compute {name}: either all outputs are reductions or none is")
        reduce_axis = body[0].axis
    if any(_contains_reduce(part) for b in body for part in (b.source if isinstance(b, Reduce) else (b,))):
        raise ValueError(f"compute {name}: a reduction must be the whole body; give it a compute of its own")
    op = ComputeOp(name, axis, reduce_axis, body, dict(attrs or {}), tag or (_TAGS[-1] if _TAGS else ""))
    return tuple(Tensor(op, i) for i in range(len(body))) if several else Tensor(op, 0)


def _axis_names(function, rank, varargs_names, name):
    """A name per dimension; ValueError when the function does not take that many."""
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return varargs_names or [f"i{k}" for k in range(rank)]
    named = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    rest = rank - len(named)
    if any(p.kind is p.VAR_POSITIONAL for p in params) and rest >= 0:
        if varargs_names is not None and len(varargs_names) != rest:
            raise ValueError(f"compute {name}: varargs_names has {len(varargs_names)} names for {rest} axes")
        return named + list(varargs_names or (f"i{k}" for k in range(len(named), rank)))
    if rest:
        raise ValueError(f"compute {name}: fcompute takes {len(named)} indices, the shape has {rank} dimensions")
    return named


def _contains_reduce(e):
    """True when `e` itself reduces; the computes of the tensors it reads do not count."""
    if isinstance(e, Reduce):
        return True
    return any(_contains_reduce(c) for c in children(e) if not isinstance(c, Tensor))


def extern(shape, inputs, fcompute, name="extern", dtype=None, in_buffers=None, out_buffers=None, tag="", attrs=None):
    """Tensors that a statement computes: fcompute(ins, outs) over buffers of the inputs and outputs gives it.

    shape: of the output, or a list of shapes for several (then a list of tensors is returned). dtype: one, or a list
    of as many; default that of the inputs, which must agree then. fcompute returns a statement, as an
    ir_builder's, or a call (tir.call_extern, tir.call_packed). in_buffers, out_buffers: what stands for inputs and
    outputs instead of fresh buffers; their strides and offsets may be variables, which become those of the tensors.
    """
    inputs = tuple([inputs] if isinstance(inputs, Tensor) else inputs)
    for i in inputs:
        if not isinstance(i, Tensor):
            raise TypeError(f"extern {name}: an input is a {type(i).__name__} instead of a Tensor")
    several = isinstance(shape, (list, tuple)) and len(shape) > 0 and isinstance(shape[0], (list, tuple))
    shapes = [_shape(s) for s in shape] if several else [_shape(shape)]
    dtypes = _extern_dtypes(name, dtype, inputs, len(shapes))
    ins = _stand_ins(name, "in_buffers", in_buffers, [(t.name, t.shape, t.dtype) for t in inputs])
    outs = _stand_ins(name, "out_buffers", out_buffers, [(name, s, d) for s, d in zip(shapes, dtypes)])
    body = fcompute(list(ins), list(outs))
    body = Evaluate(body) if isinstance(body, PrimExpr) else body
    if not isinstance(body, Stmt):
        raise TypeError(f"extern {name}: fcompute returned a {type(body).__name__} instead of a statement or a call")
    op = ExternOp(name, inputs, ins, outs, body, dict(attrs or {}), tag)
    return [Tensor(op, i) for i in range(len(outs))] if several else Tensor(op, 0)


def extern_primfunc(input_tensors, primfunc, name=None, tag="", attrs=None):
    """Tensors that a PrimFunc computes: those of the buffers that it writes and does not read, a list of several.

    input_tensors: for the buffers that it reads, in the order of its parameters; it may change some in place. Where it
    reads all that it writes, the last such buffer is the output, and begins undefined. Raises ValueError where the
    tensors are not like the buffers, or a parameter is no buffer.
    """
    name = name or str(primfunc.attrs.get("global_symbol", "extern"))
    if not all(p in primfunc.buffer_map for p in primfunc.params):
        raise ValueError(f"extern_primfunc {name}: its parameters must all be buffers")
    buffers, body = [primfunc.buffer_map[p] for p in primfunc.params], renew_defs(primfunc.body)
    root = body.block if type(body) is BlockRealize else None  # whose signature may be empty
    read, written = ({r.buffer for r in regions} for regions in access_regions(root.body if root else body))
    ins, outs = ([b for b in buffers if b in part] for part in (read, written))
    if not ins or not outs:
        raise ValueError(f"extern_primfunc {name}: it {'writes' if ins else 'reads'} none of its buffers")
    outputs = [b for b in outs if b not in ins] or [outs[-1]]
    ins = [b for b in ins if b not in outputs]
    if root:
        body = root.body if not root.alloc_buffers else body.replace(block=_signed(root, name, read, written, buffers))
    shapes = [(b.shape, b.dtype) for b in ins]
    given = [(t.shape, t.dtype) for t in input_tensors]
    if not structural_equal(tuple(shapes), tuple(given)):
        raise ValueError(f"extern_primfunc {name}: it reads {_listed(shapes)}, the tensors are {_listed(given)}")
    made = extern([b.shape for b in outputs], list(input_tensors), lambda *_: body, name, [b.dtype for b in outputs],
                  ins, outputs, tag, attrs)
    return made if len(made) > 1 else made[0]


def _signed(root, name, read, written, buffers):
    """The root block of a function as a block inside another one: with a name and a signature of its own."""
    reads, writes = (tuple(full_region(b) for b in buffers if b in part) for part in (read, written))
    return root.replace(name_hint=f"{name}_body", reads=reads, writes=writes)


def _listed(shapes):
    return ", ".join(f"{dtype} of ({', '.join(map(str, shape))})" for shape, dtype in shapes) or "none"


def _extern_dtypes(name, dtype, inputs, count):
    if isinstance(dtype, (list, tuple)):
        if len(dtype) != count:
            raise ValueError(f"extern {name}: {len(dtype)} dtypes for {count} outputs")
        return [DataType(d) for d in dtype]
    if dtype is None:
        known = {t.dtype for t in inputs}
        if len(known) != 1:
            raise ValueError(f"extern {name}: the inputs are {', '.join(sorted(known)) or 'none'}; give dtype")
        dtype = known.pop()
    return [DataType(dtype)] * count


def _stand_ins(name, argument, given, wanted):
    """A buffer for each (name, shape, dtype): those given, or fresh ones."""
    if given is None:
        return tuple(decl_buffer(s, d, n) for n, s, d in wanted)
    given = (given,) if isinstance(given, Buffer) else tuple(given)
    if len(given) != len(wanted):
        raise ValueError(f"extern {name}: {argument} has {len(given)} buffers for {len(wanted)} tensors")
    for buffer, (_, shape, dtype) in zip(given, wanted):
        if buffer.dtype != dtype or len(buffer.shape) != len(shape):
            raise ValueError(f"extern {name}: {argument} has {buffer.name}, {buffer.dtype} of {len(buffer.shape)} "
                             f"dimensions, for a tensor of {dtype} and {len(shape)} dimensions")
    return given


def scan(init, update, state_placeholder, inputs=None, name="scan", tag="", attrs=None):
    """The recurrence whose first rows are `init` and each later row t what `update` computes at t from earlier rows of
    state_placeholder. Lists for several states at once (then a list of tensors is returned).

    The shape is the placeholder's; init has the same without its later rows, update the same.
    """
    several = isinstance(init, (list, tuple))
    init, update, state, inputs = (tuple(x) if isinstance(x, (list, tuple)) else () if x is None else (x,)
                                   for x in (init, update, state_placeholder, inputs))
    if not len(init) == len(update) == len(state):
        raise ValueError(f"scan {name}: {len(init)} inits, {len(update)} updates and {len(state)} state placeholders")
    for a, b, c in zip(init, update, state):
        if not isinstance(c.op, PlaceholderOp):
            raise ValueError(f"scan {name}: state {c.name} is no placeholder")
        if not isinstance(b.op, ComputeOp):
            raise ValueError(f"scan {name}: update {b.name} is no compute")
        for what, t in (("init", a), ("update", b)):
            if t.dtype != c.dtype or t.ndim != c.ndim or not t.ndim:
                raise ValueError(f"scan {name}: {what} {t.name} is {t.dtype} of {t.ndim} dimensions, "
                                 f"state {c.name} {c.dtype} of {c.ndim}")
    begin, end = init[0].shape[0], update[0].shape[0]
    axis = IterVar(Range.from_min_extent(begin, end - begin), Var(name + ".idx", end.dtype), "scan")
    op = ScanOp(name, axis, init, update, state, inputs, dict(attrs or {}), tag)
    return [Tensor(op, i) for i in range(len(update))] if several else Tensor(op, 0)
