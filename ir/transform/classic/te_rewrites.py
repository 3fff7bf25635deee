"""FastMathTransform, FuseTransposeMatmul: operators that become other loops than LegalizeOps makes of them."""
from __future__ import annotations

from ... import topi
from ...node import collect
from ...op import Op
from ...relax.expr import DataflowVar, Function, RelaxCall
from ...topi.apply import transposed
from ..dead_code import remove_all_unused
from .legalize_ops import legalized


def fast_math(mod):
    """A module whose exp, erf, tanh and softmax are calls of topi's fast_exp, fast_erf, fast_tanh and nn.fast_softmax."""
    def elementwise(function):
        return lambda builder, call: builder.call_te(function, call.args[0])
    table = {"relax.exp": elementwise(topi.fast_exp), "relax.erf": elementwise(topi.fast_erf),
             "relax.tanh": elementwise(topi.fast_tanh),
             "relax.nn.softmax": lambda builder, call: builder.call_te(
                 topi.nn.fast_softmax, call.args[0], axis=int(call.attrs["axis"]))}
    return legalized(mod, {Op.get(name): function for name, function in table.items()})


def fuse_transpose_matmul(mod):
    """A module whose matmuls in dataflow blocks, of a second operand that R.permute_dims transposes in its last two axes,
    are one PrimFunc NT_matmul each, which reads that operand as it was."""
    new = legalized(mod, {Op.get("relax.matmul"): _not_transposed})
    changed = {n: remove_all_unused(f) for n, f in new.functions.items()
               if isinstance(f, Function) and f is not mod.functions.get(n) and _calls(f)}
    return new.with_functions({**new.functions, **changed}) if changed else mod


def _calls(func):
    return any(c.op == "call_tir" for c in collect(func, RelaxCall))


def _not_transposed(builder, call):
    """The product, whose second operand is what a transposition in the same block is of; else the call itself."""
    before = builder.lookup_binding(call.args[1])
    if not (isinstance(call.args[1], DataflowVar) and isinstance(before, RelaxCall) and _swaps_last(before)):
        return call
    dtype = call.struct_info.dtype

    def product(a, b):
        return topi.graph_matmul(a, transposed(b), str(dtype), "NT_matmul")
    return builder.call_te(product, call.args[0], before.args[0], primfunc_name_hint="NT_matmul")


def _swaps_last(call):
    ndim = call.struct_info.ndim
    if call.op != "permute_dims" or ndim < 2:
        return False
    axes = call.attrs.get("axes")
    axes = tuple(range(ndim))[::-1] if axes is None else tuple(int(a) % ndim for a in axes)
    return axes == (*range(ndim - 2), ndim - 1, ndim - 2)


__all__ = ["fast_math", "fuse_transpose_matmul"]
