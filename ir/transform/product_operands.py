"""Which operators a matrix product reads its operands through: permutations of axes, and what packing computes."""
from __future__ import annotations

from .. import op as op_table
from ..expr import IntImm
from ..relax.ops.contraction import FMA
from ..schedule.rules.operands import makes_dots, packs_columns

MAPS = ("elementwise", "broadcast")


def reads_through(target, product, chains):
    """Whether the rule for products, given one kernel of a product and of the operators in `chains`, a list for each
    operand in order, computes no element of an operand several times, and reads memory along its rows or copies it."""
    if target.lanes == 1 or product.op != "matmul" or product.attrs["arithmetic"] != FMA or (
            product.struct_info.dtype != "float32") or any(
            a.struct_info.ndim < 2 or a.struct_info.dtype != "float32" for a in product.args[:2]):
        return False
    return all(_reads(target, product, operand, chain) for operand, chain in enumerate(chains) if chain)


def _reads(target, product, operand, chain):
    orders = [_order(call) for call in chain if call.op == "permute_dims"]
    mapped = [call for call in chain if call.op != "permute_dims"]
    if len(orders) > 1 or any(op_table.get(call.op).kind not in MAPS for call in mapped):
        return False
    across = bool(orders) and not orders[0][-1]
    if across and not orders[0][-2]:
        return False
    return (_reads_columns if operand else _reads_rows)(target, product, across, bool(mapped))


def _order(call):
    """For each dimension of a permutation whether it is the innermost one of what is permuted."""
    rank = call.struct_info.ndim
    axes = call.attrs["axes"] or tuple(reversed(range(rank)))
    return [axis % rank == rank - 1 for axis in axes]


def _reads_columns(target, product, across, mapped):
    """The second operand: copied to panels, or in dot products, or as it lies."""
    if product.attrs["b_layout"] != "KN":
        return False
    rows, depth, columns = _sizes(product)
    packed = packs_columns(target, rows, depth, columns, across)
    if mapped or not across:
        return packed or not mapped
    return packed or all((rows, depth, columns)) and makes_dots(target, rows, depth)


def _reads_rows(target, product, across, mapped):
    """The first operand: each tile of columns reads it, as it lies or from a copy to panels. Where FMAs take
    its elements out of vectors, its terms lie in a row."""
    rows, depth, _ = _sizes(product)
    return not mapped and (not across or not target.by_element and bool(depth) and rows >= target.cost("copy.rows"))


def _sizes(product):
    """(rows, depth, columns) of a product; 0 for symbolic ones."""
    (*_, rows, depth), columns = product.args[0].struct_info.shape, product.struct_info.shape[-1]
    return [d.value if isinstance(d, IntImm) else 0 for d in (rows, depth, columns)]
