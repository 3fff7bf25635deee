"""Products for libraries of a GPU's maker: the rows of cublas and hipblas, and what both libraries ask of a product."""
from __future__ import annotations

from .patterns import make_matmul_pattern
from .utils import (dims_of, has_leaking_intermediate_variables, is_product_of_rows, known, product, same,
                    swaps_rows_and_columns)

ENDS = {"": {}, "_bias": {"with_bias": True}, "_bias_relu": {"with_bias": True, "activation": "relax.nn.relu"},
        "_bias_gelu": {"with_bias": True, "activation": "relax.nn.gelu"}}


def product_rows(library, check):
    """The rows of products: as they are, with a bias, with an activation; of a matrix or of one that is transposed."""
    return [(f"{library}.matmul{turned}{end}", *make_matmul_pattern(transposed_rhs=bool(turned), **settings), check)
            for turned in ("", "_transposed") for end, settings in ENDS.items()]


def is_library_product(context):
    """Whether a match is a product of tensors of known rank with a depth that is a number, whose batches are alike or
    in the first one alone, and whose bias, if any, is a vector of its columns; a transpose is of rows and columns."""
    found = context.annotated_expr
    lhs, rhs, root = (dims_of(found[name]) for name in ("lhs", "rhs", "root"))
    if has_leaking_intermediate_variables(context) or not (lhs and rhs and root) or min(len(lhs), len(rhs)) < 2:
        return False
    if not is_product_of_rows(found["root"]) or not known(lhs[-1]):
        return False
    if "transposed" in found and not swaps_rows_and_columns(found["transposed"], len(rhs)):
        return False
    if "bias" in found:
        bias = dims_of(found["bias"])
        if not bias or not all(known(d) and int(d) == 1 for d in bias[:-1]) or len(bias) > len(root) or not same(
                bias[-1], root[-1]):
            return False
    batches = product(rhs[:-2])
    return same(product(lhs[:-2]), batches) and all(map(same, lhs[-3::-1], rhs[-3::-1])) or same(batches, 1)


__all__ = ["is_library_product", "product_rows"]
