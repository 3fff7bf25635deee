"""The arithmetics that products are made by: ARITHMETICS has a row for each, by name. A new one is a file and a place
here; docs/adding-an-arithmetic.md walks through it.

An operator of the graph that multiplies (matmul, nn.conv2d_pointwise, nn.conv2d_winograd) has an attribute
`arithmetic`, the name of a row. What it multiplies, and where the results go, is the operator's; how is the row's.
"""
from .compressed import COMPRESSED
from .dot_product import DOT_PRODUCTS
from .inner_product import INNER_PRODUCT
from .row import FMA, FP16, LANES, Arithmetic, Operand, Rows, Scales  # noqa: F401
from .split_integer import SPLIT_INTEGER

ARITHMETICS = {row.name: row for row in (FMA, FP16, SPLIT_INTEGER, INNER_PRODUCT, COMPRESSED, *DOT_PRODUCTS)}


def special():
    """The rows for float32 with operands of their own."""
    return tuple(row for row in ARITHMETICS.values() if row.operands and row.rows == "float32")
