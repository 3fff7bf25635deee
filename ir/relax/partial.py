"""Struct info of calls whose arguments are not known in full: their rank, their dimensions or their dtype.

The operators' rows infer from known shapes. Here stand-ins take the place of what is not known: dimensions that are
equal to any other (`wild`), every rank and dtype that a row accepts. What all results agree on is known; of a dimension
that depends on a wild one, only that it is there.
"""
from __future__ import annotations

import itertools

from ..node import structural_equal
from ..op import InferError
from .expr import (DataflowVar, FuncStructInfo, ObjectStructInfo, PrimStructInfo, PrimValue, RelaxExpr, RelaxTuple,
                   RelaxVar, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleStructInfo)
from .ops.common import InferTypeError, has_wild, lenient, wild

RANKS = (4, 3, 5, 2, 1, 0, 6)  # tried where the number of dimensions is not known, likely ones first
DTYPES = ("float32", "int64", "int32", "bool", "float16", "int8")


def _known(info):
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, tuple) and info.dtype != "void"
    if isinstance(info, TupleStructInfo):
        return all(map(_known, info.fields))
    return isinstance(info, ObjectStructInfo)


def is_partial(value):
    """Whether an argument, or one in a list or tuple of them, is not known in full."""
    if isinstance(value, (list, tuple, RelaxTuple)):
        return any(map(is_partial, getattr(value, "fields", value)))
    if not isinstance(value, RelaxExpr) or isinstance(value, (ShapeExpr, PrimValue)):
        return False
    return value.struct_info is not None and not _known(value.struct_info)


def leaves(value):
    """The graph expressions in an argument."""
    if isinstance(value, (list, tuple, RelaxTuple)):
        for v in getattr(value, "fields", value):
            yield from leaves(v)
    elif isinstance(value, dict):
        yield from leaves(tuple(value.values()))
    elif isinstance(value, RelaxExpr):
        yield value


class _Unknowns:
    """What the arguments leave open: {key: choices}, a key for each rank and each dtype. through: dimensions that the
    variable of a shape is known to have are read."""

    def __init__(self, through):
        self.ranks, self.dtypes, self.wilds, self.through = {}, {}, {}, through

    def known(self, info):
        """The dimensions of a tensor that are read, None where they are not known."""
        return info.dims if self.through or isinstance(info.shape, tuple) else None

    def add(self, info, key):
        if isinstance(info, TupleStructInfo):
            for n, f in enumerate(info.fields):
                self.add(f, (key, n))
        elif isinstance(info, TensorStructInfo):
            if info.dtype == "void":
                self.dtypes[key] = DTYPES
            if self.known(info) is None and info.ndim < 0:
                self.ranks[_shape_key(info, key)] = RANKS
        elif isinstance(info, ShapeStructInfo) and info.values is None and info.ndim < 0:
            self.ranks[key] = RANKS

    def dims(self, key, rank):
        """Wild dimensions, the same each time."""
        if (key, rank) not in self.wilds:
            self.wilds[key, rank] = tuple(wild() for _ in range(rank))
        return self.wilds[key, rank]


def _shape_key(info, key):
    return id(info.shape) if info.shape is not None else key


def _stand_in(info, key, name, unknowns, choice, ranks):
    """A variable in the place of one of struct info `info`, or a shape."""
    if isinstance(info, TupleStructInfo):
        return RelaxTuple(tuple(_stand_in(f, (key, n), name, unknowns, choice, ranks)
                                for n, f in enumerate(info.fields)))
    if isinstance(info, TensorStructInfo):
        place = _shape_key(info, key)
        dims = unknowns.known(info)
        if dims is None:
            dims = unknowns.dims(place, info.ndim if info.ndim >= 0 else ranks[place])
        return RelaxVar(name, TensorStructInfo(dims, choice.get(key, info.dtype)))
    if isinstance(info, ShapeStructInfo):
        known = info.values
        return ShapeExpr(known if known is not None else unknowns.dims(
            key, info.ndim if info.ndim >= 0 else ranks[key]))
    if isinstance(info, PrimStructInfo):
        return RelaxVar(name, TensorStructInfo((), info.dtype))
    kind = "a function" if isinstance(info, FuncStructInfo) else "no tensor"
    raise InferTypeError(f"{name} is {kind}: {info}")


def infer_partial(make, args, kwargs, as_dims=False):
    """The struct info of make(*args, **kwargs), which makes a call, where arguments are not known in full.

    as_dims: a shape argument of known dimensions gives these, not its variable. Raises the InferError (or TypeError) of
    the first try when no rank and dtype is accepted.
    """
    found = list({id(e): e for e in leaves((tuple(args), kwargs)) if is_partial(e)}.values())
    info = _infer(make, args, kwargs, found, as_dims, True)  # raises what known dimensions contradict
    infos = [i for e in found for i in getattr(e.struct_info, "fields", (e.struct_info,))]
    if as_dims or not any(isinstance(i, TensorStructInfo) and i.shape is not i.dims for i in infos):
        return info
    try:
        return _infer(make, args, kwargs, found, as_dims, False)
    except (InferError, TypeError):
        return _without_shape(info)


def _without_shape(info):
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(map(_without_shape, info.fields)))
    return TensorStructInfo(None, info.dtype, info.ndim) if isinstance(info, TensorStructInfo) else info


def _infer(make, args, kwargs, found, as_dims, through):
    unknowns = _Unknowns(through)
    for e in found:
        unknowns.add(e.struct_info, _key(e))
    error, results = None, []
    dtype_choices = [dict(zip(unknowns.dtypes, d)) for d in itertools.product(*unknowns.dtypes.values())]
    rank_choices = [dict(zip(unknowns.ranks, r)) for r in _ranks(list(unknowns.ranks))]
    accepted = None  # the first choice of ranks that any dtypes are accepted with
    with lenient() as state:
        for ranks, choice in itertools.product(rank_choices, dtype_choices):
            if accepted is not None and ranks is not accepted and results and choice is not results[0][1]:
                continue  # dtypes are told apart at one choice of ranks, ranks at one of dtypes
            known = {id(e): _stand_in(e.struct_info, _key(e), getattr(e, "name", "x"), unknowns, choice, ranks)
                     for e in found}
            state.loose = False
            try:
                made = make(*_swap(tuple(args), known), **_swap(kwargs, known))
            except (InferError, TypeError, ValueError, IndexError) as problem:
                if error is None or isinstance(error, TypeError) and not isinstance(problem, TypeError):
                    error = problem
                continue
            accepted = ranks if accepted is None else accepted
            results.append((ranks, choice, made.struct_info, state.loose))
    if not results:
        raise error
    info = _join(results, found, unknowns, as_dims)
    prims = all(isinstance(e.struct_info, PrimStructInfo) for e in leaves((tuple(args), kwargs)))
    return PrimStructInfo(info.dtype) if found and prims and getattr(info, "shape", None) == () else info


def _key(e):
    return id(e)


def _ranks(keys):
    if len(keys) <= 2:
        return list(itertools.product(RANKS, repeat=len(keys)))
    return [(r,) * len(keys) for r in RANKS] + [(a, *(b,) * (len(keys) - 1)) for a in RANKS for b in RANKS if a != b]


def _swap(value, known):
    if isinstance(value, dict):
        return {k: _swap(v, known) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_swap(v, known) for v in value]) if type(value) in (list, tuple) else value
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, RelaxTuple):
        return RelaxTuple(_swap(value.fields, known))
    return value


def _join(results, found, unknowns, as_dims):
    infos = [info for _, _, info, _ in results]
    if all(isinstance(i, TupleStructInfo) for i in infos):
        if len({len(i.fields) for i in infos}) > 1:
            return ObjectStructInfo()
        return TupleStructInfo(tuple(_join([(r, c, i.fields[n], w) for r, c, i, w in results], found, unknowns, as_dims)
                                     for n in range(len(infos[0].fields))))
    if not all(isinstance(i, TensorStructInfo) for i in infos):
        return infos[0]
    at = results[0][0]
    dtypes = {i.dtype for r, _, i, _ in results if r is at}
    open_dtype = len(dtypes) > 1 or unknowns.dtypes and all(
        i.dtype in c.values() for r, c, i, _ in results if r is at)
    dtype = "void" if open_dtype else infos[0].dtype
    choice = results[0][1]
    same = [(r, i, w) for r, c, i, w in results if c is choice]
    ranks = {i.ndim for _, i, _ in same}
    shape = _shape(same, found, unknowns, as_dims)
    return TensorStructInfo(shape, dtype, -1 if shape is not None or len(ranks) > 1 else ranks.pop())


def _shape(results, found, unknowns, as_dims):
    """The shape that all results have: the variable of an argument's shape, dimensions, or None."""
    for e in found:
        info = e.struct_info
        var = info.shape if isinstance(info, TensorStructInfo) else e if isinstance(info, ShapeStructInfo) else None
        if not isinstance(var, (RelaxVar, DataflowVar)):
            continue
        known = e.struct_info.values if var is e else None
        if known is not None:
            if not as_dims and all(structural_equal(i.shape, known) for _, i, _ in results):
                return var
        elif all(_is(i.shape, unknowns.wilds.get((id(var), _rank(var, r)))) for r, i, _ in results):
            return var
    first = results[0][1].shape
    if not any(loose or any(map(has_wild, i.shape)) for _, i, loose in results) and all(
            structural_equal(i.shape, first) for _, i, _ in results):
        return first
    return None


def _rank(var, ranks):
    """How many dimensions a variable of a shape had in a try."""
    return ranks.get(id(var), var.struct_info.ndim)


def _is(shape, dims):
    return dims is not None and len(shape) == len(dims) and all(a is b for a, b in zip(shape, dims))


__all__ = ["infer_partial", "is_partial", "leaves"]
