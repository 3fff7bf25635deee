"""Views behind what follows them: elementwise operators and products in the shape of what computes their operands."""
import numpy as np
import pytest
from graph_check import Graph, check, const, data, ops, param

from ingot.ir.expr import Var
from ingot.ir.relax import Constant
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.identities import remove_identities
from ingot.ir.transform.sink_views import sink_views

SINK = [sink_views, remove_identities]
FUSE = [*SINK, fuse_ops]


def number(value, *shape):
    return Constant(np.full(shape, value, np.float32), "number")


def gelu(g, x):
    """As GPT-2 exports it: 0.5 x (1 + tanh(0.8 (x + 0.04 x^3)))."""
    cube = g.op("multiply", g.op("multiply", g.op("square", x), x), number(0.04, 1))
    inner = g.op("multiply", g.op("add", x, cube), number(0.8))
    return g.op("multiply", g.op("multiply", x, number(0.5)), g.op("add", g.op("tanh", inner), number(1.0)))


def test_a_block_of_a_transformer_is_three_kernels():
    """Products of [S, W] and everything else of [1, S, W]: views between them hold nothing apart."""
    x = param("x", 1, 5, 8)
    g = Graph(x)
    start = g.op("tanh", x)
    rows = g.op("reshape", start, [5, 8])
    hidden = g.op("reshape", g.op("add", g.op("matmul", rows, const(8, 12)), const(12)), [1, 5, 12])
    rows = g.op("reshape", gelu(g, hidden), [5, 12])
    out = g.op("reshape", g.op("add", g.op("matmul", rows, const(12, 8)), const(8)), [1, 5, 8])
    mod = g.module(g.op("add", out, start))
    new = check(mod, data(1, 5, 8), passes=[remove_identities, *FUSE])
    assert [kernel if isinstance(kernel, str) else kernel[0] for kernel in ops(new)] == ["tanh", "matmul", "matmul"]


def test_operands_are_seen_in_the_other_shape():
    """Broadcast operands keep the dimensions that they have in full, numbers have none."""
    x, y = param("x", 6, 4), param("y", 2, 3, 2, 2)
    g = Graph(x, y)
    v = g.op("reshape", g.op("exp", x), [2, 3, 2, 2])
    for other in (const(1, 1, 2, 2), const(2, 3, 1, 1), const(2, 2), number(2.0, 1, 1, 1, 1), y):
        v = g.op("add", v, other)
    new = check(g.module(v), data(6, 4), data(2, 3, 2, 2, seed=1), passes=SINK)
    assert ops(new) == ["exp", "add", "add", "add", "add", "reshape", "add", "reshape"]


def _repeated(g, x):
    """Half of a dimension that the view splits."""
    return g.op("add", g.op("reshape", g.op("exp", x), [2, 3, 4]), const(1, 3, 4))


def _of_an_input(g, x):
    return g.op("exp", g.op("reshape", x, [2, 3, 4]))


def _of_a_copy(g, x):
    """A transpose is fused with what follows it only where that has its shape."""
    return g.op("exp", g.op("reshape", g.op("permute_dims", x), [2, 3, 4]))


def _fused_with_another(g, x):
    """The sum is fused with the product in its own shape."""
    own = g.op("matmul", g.op("reshape", x, [2, 3, 4]), const(2, 4, 4))
    return g.op("add", own, g.op("reshape", g.op("exp", x), [2, 3, 4]))


def _rows_of_several_dimensions(g, x):
    return g.op("matmul", g.op("reshape", g.op("reshape", g.op("exp", x), [2, 3, 4]), [6, 4]), const(4, 5))


def _other_terms(g, x):
    return g.op("matmul", g.op("reshape", g.op("exp", x), [3, 8]), const(8, 5))


def _rows_from_a_batch(g, x):
    """A product of one row for each of a batch would read the matrix as often."""
    return g.op("matmul", g.op("reshape", g.op("exp", g.op("reshape", x, [6, 1, 4])), [6, 4]), const(4, 5))


def _a_computed_matrix(g, x):
    return g.op("matmul", g.op("reshape", g.op("exp", x), [1, 6, 4]), g.op("reshape", x, [4, 6]))


@pytest.mark.parametrize("build", [_repeated, _of_an_input, _of_a_copy, _fused_with_another, _other_terms,
                                   _rows_from_a_batch, _a_computed_matrix])
def test_what_stays(build):
    x = param("x", 6, 4)
    g = Graph(x)
    mod = remove_identities(g.module(build(g, x)))
    assert ops(check(mod, data(6, 4), passes=[sink_views])) == ops(mod)


def test_products_skip_views_that_cancel():
    x = param("x", 6, 4)
    g = Graph(x)
    new = check(g.module(_rows_of_several_dimensions(g, x)), data(6, 4), passes=SINK)
    assert ops(new) == ["exp", "matmul"]


def test_symbolic_rows():
    n = Var("n", "int64")
    x = param("x", n, 4)
    g = Graph(x)
    rows = g.op("reshape", g.op("matmul", x, const(4, 6)), [n, 2, 3])
    mod = g.module(g.op("multiply", g.op("add", rows, const(2, 3)), rows))
    new = check(mod, data(5, 4), passes=FUSE)
    assert ops(new) == [("matmul", "add", "multiply"), "reshape"]
