"""Buffers of one element, which C declares as plain variables, in loops that a schedule made vectors, unrolled or
parallel, compared with numpy."""
import numpy as np
import pytest

import ingot as tvm
from ingot import te

KINDS = ("vectorize", "unroll", "parallel")
MOVES = {
    "compute_at outer": lambda s, o, k: s.compute_at(s.get_block("C"), o),
    "compute_at inner": lambda s, o, k: s.compute_at(s.get_block("C"), k),
    "in place": lambda s, o, k: None,
    "cache_write": lambda s, o, k: s.reverse_compute_at(s.cache_write(s.get_block("D"), 0, "local"), o),
    "cache_read": lambda s, o, k: s.compute_at(s.cache_read(s.get_block("D"), 0, "local"), o),
}


def scheduled(size, factor, move, kind):
    A = te.placeholder((size,), "float32", name="A")
    C = te.compute((size,), lambda i: A[i] + 1, name="C")
    D = te.compute((size,), lambda i: C[i] * C[i], name="D")
    sch = tvm.tir.Schedule(tvm.IRModule({"main": te.create_prim_func([A, D])}))
    outer, inner = sch.split(sch.get_loops("D")[0], [None, factor])
    MOVES[move](sch, outer, inner)
    for block in ("C", "D"):
        getattr(sch, kind)(sch.get_loops(block)[-1])
    return sch.mod


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", MOVES)
def test_loops_of_extent_one(move, kind):
    """All sizes and factors of a move and a kind in one module."""
    cases = {f"f{size}_{factor}": (size, scheduled(size, factor, move, kind))
             for size, factor in ((1, 1), (1, 4), (1, 32), (5, 1), (9, 8), (17, 16))}
    functions = {name: mod["main"].with_attr("global_symbol", name) for name, (_, mod) in cases.items()}
    built = tvm.build(tvm.IRModule(functions), target="c")
    for name, (size, _) in cases.items():
        a, d = np.arange(size, dtype=np.float32), tvm.nd.array(np.zeros(size, np.float32))
        built[name](tvm.nd.array(a), d)
        np.testing.assert_array_equal(d.numpy(), (a + 1) ** 2, name)
