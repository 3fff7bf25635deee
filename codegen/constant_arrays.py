"""Arrays whose elements the text of a kernel holds, T.allocate_const, in a dialect of C."""
from __future__ import annotations

import numpy as np

from ..ir.expr import IntImm
from ..ir.node import collect
from ..ir.tir.buffer import Buffer
from .c_expr import EmitError, is_scalar


def constant_array(printer, let):
    """Print a LetStmt over a ConstantArray: the array, if a buffer lies over it, then the body. Raises EmitError where
    the elements are not what that buffer has."""
    views = [b for b in dict.fromkeys(collect(let.body, Buffer)) if b.data is let.var]
    if len(views) > 1:
        raise EmitError(f"{len(views)} buffers lie over the constant {let.var.name}: run ResolveViews first")
    for b in views:
        printer.declare_constant(_declaration(printer, b, let.constant, printer.names.define(b, b.name)))
    printer.visit(let.body)
    for b in views:
        printer.names.release(b)


def _declaration(printer, b, constant, name):
    dialect, data = printer.dialect, constant.known()
    extent = b.shape[0]
    bits = b.dtype == f"uint{8 * data.dtype.itemsize}" and constant.elements.bits < 32  # of a small float
    if not isinstance(extent, IntImm) or extent.value > data.size or not (b.dtype == constant.elements or bits):
        raise EmitError(f"buffer {b.name} has {extent} elements of {b.dtype}, and lies over a constant of {data.size} of "
                        f"{constant.elements}: give it the constant's dtype and size")
    if data.nbytes > dialect.most_constant:
        raise EmitError(f"the constants of kernels in {dialect.name} have at most {dialect.most_constant} bytes, and "
                        f"{b.name} has {data.nbytes}: pass it as a parameter")
    texts = [printer.expr.literal(constant.elements, x.item()) for x in data.reshape(-1)]
    if constant.elements.is_float and constant.elements.bits >= 32 and not np.isfinite(data).all():
        printer.expr.use("libm")
    kind = f"{dialect.constant}{dialect.aligned if data.nbytes >= dialect.least_aligned else ''}{printer.type_of(b)}"
    if is_scalar(b):
        return f"{kind} {name} = {texts[0]};"
    return f"{kind} {name}[{data.size}] = {{{', '.join(texts)}}};"
