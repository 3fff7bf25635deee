"""RemoveRedundantReshape, OptimizeLayoutTransform: no reshapes and layouts that lead back to what there was."""
from __future__ import annotations

from ...arith import Analyzer
from ...expr import Range, Var
from ...relax.expr import TensorStructInfo
from ...relax.ops.common import same_shape
from ...relax.patterns import TuplePattern, is_op, wildcard
from ...tir.function import PrimFunc
from ..pattern_rewrite import rewrite_call
from .alter_op_impl import KIND


def remove_redundant_reshape(func):
    """A function without reshapes of reshapes, and without those to the shape that there is. Functions with the
    attribute Primitive stay."""
    if func.attrs.get("Primitive"):
        return func
    source = wildcard()
    once = is_op("relax.reshape")(source, wildcard())
    twice = is_op("relax.reshape")(once, wildcard())

    def rewriter(value, found):
        x = found[source]
        if _same_shapes(x, value):
            return x
        return value.replace(args=(x, *value.args[1:])) if twice in found else value
    return rewrite_call(twice | once, rewriter, func)


def optimize_layout_transform(mod):
    """A module without R.layout_transform that leads back to what the one before it was made of, also where
    AlterOpImpl's remove_pad lies between the two: then the places that the tensor has beyond its elements are to hold
    nothing particular (pad_value None). Functions with the attribute Primitive stay."""
    source, callee = wildcard(), wildcard()
    inner = is_op("relax.layout_transform")(source)
    plain = is_op("relax.layout_transform")(inner)
    padded = is_op("relax.layout_transform")(is_op("relax.call_tir")(callee, TuplePattern([inner])))

    def rewriter(value, found):
        x, first = found[source], found[inner]
        if padded in found and not (_removes_pad(mod, found[callee]) and value.attrs.get("pad_value") is None):
            return value
        return x if _same_shapes(x, value) and _leads_back(first, value, x.struct_info.shape) else value

    def rewritten(func):
        return func if func.attrs.get("Primitive") else rewrite_call(plain | padded, rewriter, func)
    return mod.with_functions({n: f if isinstance(f, PrimFunc) or getattr(f, "body", None) is None else rewritten(f)
                               for n, f in mod.functions.items()})


def _same_shapes(a, b):
    shapes = [v.struct_info.shape if isinstance(v.struct_info, TensorStructInfo) else None for v in (a, b)]
    return all(isinstance(s, tuple) for s in shapes) and same_shape(*shapes)


def _removes_pad(mod, gv):
    func = mod.functions.get(getattr(gv, "name", None))
    return isinstance(func, PrimFunc) and func.attrs.get(KIND) == "remove_pad"


def _leads_back(first, second, shape):
    """Whether two layouts, one after the other, put each element of a tensor of this shape where it was."""
    maps = [call.attrs.get("index_map") for call in (first, second)]
    if None in maps:
        return False
    places, analyzer = [Var(f"i{n}", "int64") for n in range(len(shape))], Analyzer()
    for var, extent in zip(places, shape):
        analyzer.bind(var, Range(0, extent))
    there = maps[1].map_indices(maps[0].map_indices(places))
    return len(there) == len(places) and all(
        analyzer.can_prove_equal(a.astype("int64"), b) for a, b in zip(there, places))


__all__ = ["optimize_layout_transform", "remove_redundant_reshape"]
