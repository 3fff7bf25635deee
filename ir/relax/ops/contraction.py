"""Contractions by an arithmetic with operands of its own: what the operators that have an attribute `arithmetic` share.

An operator says where the terms of rows are (arithmetic.Rows); the columns are operands that the arithmetic packed.
"""
from __future__ import annotations

import numpy as np

from ...expr import is_const_int
from ..arithmetic import ARITHMETICS
from .common import fail, need_rank, same_dim, shape_text

FMA, POINTWISE = "fma", "nn.conv2d_pointwise"


def arithmetic_of(call):
    """The row of a call's attribute; InferError where it is none with operands of its own."""
    row = ARITHMETICS.get(call.attrs["arithmetic"])
    if row is None or not row.operands:
        known = (a.name for a in ARITHMETICS.values() if a.operands and a.rows == call.args[0].struct_info.dtype)
        fail(call, f"arithmetic {call.attrs['arithmetic']!r} must be one of {', '.join(known)}"
                   f"{'' if call.op == POINTWISE else ', or ' + FMA}")
    if len(call.args) != 1 + len(row.operands):
        fail(call, f"arithmetic {row.name!r} takes {', '.join(o.name for o in row.operands)} after the first operand, "
                   f"got {len(call.args) - 1} operands")
    return row


def result_name(name, arithmetic):
    """The name of the stage of results."""
    return name if arithmetic == FMA else f"{name}_{arithmetic}"


def check_operands(call, row, x, depth, columns, planes=0, batch=0):
    """Refuse operands that do not hold so many columns of so many terms, or those of each of some planes; batch:
    dimensions of the packed columns that are before."""
    if x.dtype != row.rows:
        fail(call, f"{shape_text(x)} must be {row.rows}, not {x.dtype}")
    found = [need_rank(call, 1 + n, o.rank + (planes > 0 and n > 0) + batch) for n, o in enumerate(row.operands)]
    for info, operand in zip(found, row.operands):
        if info.dtype != operand.dtype:
            fail(call, f"{operand.name} {shape_text(info)} must be {operand.dtype}, not {info.dtype}")
        if not all(map(is_const_int, info.shape[batch:])):
            fail(call, f"{operand.name} {shape_text(info)} must be static")
    if row.most and depth > row.most:
        fail(call, f"sums of {depth} terms by {row.name} may overflow: at most {row.most} are added up")
    shapes = row.shapes(depth, columns, [tuple(d.value for d in info.shape[batch:]) for info in found])
    if planes:
        (panels, *rest), *own = shapes
        shapes = (panels * planes, *rest), *((planes, *shape) for shape in own)
    for info, operand, shape in zip(found, row.operands, shapes):
        if not all(map(same_dim, info.shape[batch:], shape)):
            of_planes = f" in each of {planes} planes" if planes else ""
            fail(call, f"{operand.name} {shape_text(info)} must be {shape} for {columns} columns of {depth} terms by "
                       f"{row.name}{of_planes}")


def contract(row, rows, operands, own, scales=None, place=lambda outer, panel: panel, planes=1):
    """result(at, (..., block of 16 columns, lane)) of the product of rows and columns, as an expression.

    own(operand, ..., block, lane): the number of a column in an operand of one for each. scales, place, planes: see
    Arithmetic.
    """
    made = row.prepare(rows, operands, scales)
    sums = row.accumulate(made, rows, operands, place, planes)
    return lambda at, column: row.finish(made, rows, operands, sums, at, column[-2:],
                                         lambda operand: own(operand, *column))


def pack_planes(row, matrices):
    """The operands of planes w [P, K, N]: for each panel of columns those of all planes, and numbers of columns [P, N].
    """
    packed, *own = map(np.stack, zip(*map(row.pack, matrices)))
    packed = np.ascontiguousarray(packed.swapaxes(0, 1))
    return packed.reshape(-1, *packed.shape[2:]), *own


def unpack_planes(row, operands, depth):
    """The matrices [P, K, N], float64, that operands of planes stand for."""
    packed, *own = operands
    planes = len(own[0])
    packed = packed.reshape(-1, planes, *packed.shape[1:])
    return np.stack([row.unpack([packed[:, p], *(o[p] for o in own)], depth) for p in range(planes)])


def product(row, x, operands, columns):
    """The reference: rows x [..., K] times what operands stand for; NaN for rows that are not finite, where they are
    scaled."""
    w = row.unpack(operands, x.shape[-1])
    w = np.pad(w, (*((0, 0),) * (w.ndim - 2), (0, x.shape[-1] - w.shape[-2]), (0, 0)))[..., :columns]
    if row.scaling is None:
        return np.matmul(x, w.astype(row.result)).astype(row.result, copy=False)
    finite = np.isfinite(x).all(axis=-1, keepdims=True)
    result = np.where(finite, x, 0).astype(np.float64) @ w
    return np.where(finite, result, np.nan).astype(row.result)
