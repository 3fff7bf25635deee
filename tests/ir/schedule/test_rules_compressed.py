"""Products with compressed weights: results of the schedules, and what they read."""
import numpy as np
import pytest
from rule_cases import checked, const, kernels, network

from tir_cases import arguments

from ingot.ir.expr import Call, IntImm
from ingot.ir.node import collect
from ingot.ir.relax.arithmetic.compressed import pack_columns
from ingot.ir.schedule.rules import compressed_weights
from ingot.ir.schedule.rules.contraction import contraction
from ingot.ir.tir.stmt import For, IfThenElse
from machines import machine

# On these machines the smallest weights are profitable: L1 holds nothing, and L2 is slow.
CPUS = pytest.mark.parametrize("cpu", [
    machine(16, 32, l1_bytes=0, l2_bytes=0, memory_read=1),
    machine(8, 16, l1_bytes=0, l2_bytes=0, memory_read=1, costs={"tile.small": 14}),
    machine(4, 32, l1_bytes=0, l2_bytes=0, memory_read=1, accumulators=21, by_element=True)],
    ids=["avx512", "avx2", "neon"])


def given(func):
    """Arguments, with words that are made of weights."""
    def words(shape):
        lanes = shape[-1]
        weights = np.random.default_rng(0).standard_normal((8 * np.prod(shape[:-2]), lanes)).astype(np.float32)
        return pack_columns(weights, lanes, lanes)[0].reshape(shape)

    return [words(a.shape) if a.ndim >= 5 else a for a in arguments(func)]


def innermost(func):
    """The loops over groups of terms."""
    return [loop for loop in collect(func.body, For) if "pragma_unroll" in loop.annotations]


def count(stmt, op):
    """How often statements of unrolled loops call it."""
    if isinstance(stmt, For):
        inside = count(stmt.body, op)
        return inside * stmt.extent.value if stmt.kind == "unrolled" and isinstance(stmt.extent, IntImm) else inside
    if hasattr(stmt, "stmts"):
        return sum(count(s, op) for s in stmt.stmts)
    return sum(call.op == op for call in collect(stmt, Call))


@CPUS
@pytest.mark.parametrize("rows, depth, columns", [((1,), 16, 200), ((3,), 72, 64), ((2, 1), 16, 70), ((6,), 24, 33)])
def test_products(cpu, rows, depth, columns):
    bias = const(columns)
    func, = kernels(lambda: network(lambda op, x: op("nn.relu", op("add", op("matmul", x, const(depth, columns)),
                                                                   bias)),
                                     [(*rows, depth)]), cpu, "relaxed")
    lowered = checked(contraction, func, cpu, given(func))
    for loop in innermost(lowered):
        assert not collect(loop, IfThenElse)
        rows = count(loop.body, "tir.fma") / 9 / (count(loop.body, "tir.held") / 5)
        assert rows >= 1 and count(loop.body, "tir.held") == 5 * count(loop.body, "tir.fixed") / 8 / rows
    assert innermost(lowered)


@pytest.mark.parametrize("cpu, rows, depth, columns, expected", [
    (machine(), 1, 4096, 4096, True), (machine(), 4, 4096, 4096, True),
    (machine(), 64, 4096, 4096, False), (machine(), 1, 64, 64, False),
    (machine(4), 1, 128, 128, False),
    (machine(4, memory_read=4), 1, 4096, 4096, True)])
def test_they_are_profitable_where_weights_come_slower_than_they_are_multiplied(cpu, rows, depth, columns, expected):
    assert compressed_weights.is_profitable(cpu, rows, depth, columns) == expected
