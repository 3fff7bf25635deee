"""Operands of products: what reads them transposed, in which copies, and which products are sums in lanes."""
import pytest
from compiled_batch import same_results
from machines import machine, with_costs
from rule_cases import const, kernels, network

from ingot.ir.node import collect
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.tir.stmt import BufferStore, DeclBuffer

WIDE = machine(16, 32)
TURN = (1, 0)


def product(a, b, a_axes=None, b_axes=None, wrap=lambda op, x: x):
    """The network of a product of two inputs, permuted."""
    def build(op, *operands):
        a, b = (x if axes is None else op("permute_dims", x, axes=axes) for x, axes in zip(operands, (a_axes, b_axes)))
        return op("matmul", a, wrap(op, b))
    return lambda: network(build, [a, b])


def copies(func, cpu):
    """The buffers between inputs and sums of the one kernel of a product, scheduled."""
    sch = schedule_by_rule(func, cpu)
    outputs = {b.name for b in func.buffer_map.values()}
    found = {s.buffer.name: [str(d) for d in s.buffer.shape] for s in collect(sch.func.body, BufferStore)}
    return {name: shape for name, shape in found.items() if name not in outputs and not name.startswith("matmul")}


@pytest.mark.parametrize("case, panels", [
    (product((64, 96), (128, 96), None, TURN), {"permute_dims": ["2", "96", "64"]}),
    (product(("n", 96), (128, 96), None, TURN), {"permute_dims": ["2", "96", "64"]}),  # rows that a run knows
    (product((96, 64), (96, 128), TURN), {"permute_dims": ["11", "96", "6"], "x1_global": ["2", "96", "64"]}),
    (product((2, 64, 4, 96), (2, 128, 4, 96), (0, 2, 1, 3), (0, 2, 3, 1)),
     {"permute_dims_1": ["2", "4", "2", "96", "64"]}),
    (product((64, 96), (96, 128), None, None, lambda op, x: op("tanh", x)), {"tanh": ["2", "96", "64"]})])
def test_copies_to_panels_compute_what_comes_before(case, panels):
    """Operands that lie across are copied to panels from where they are, and in their rows they are read so."""
    func, = kernels(case, WIDE)
    assert copies(func, WIDE) == panels
    same_results(func, schedule_by_rule(func, WIDE).func)


@pytest.mark.parametrize("case", [
    product((96, 4), (128, 96), TURN, TURN),                                 # few rows, which lie across
    product((4, 20), (128, 20), None, TURN),                                 # few rows, few terms
    product((64, 96), (35, 96), None, TURN),                                 # odd columns, many rows
    product((64, 96, 2), (2, 96, 128), (2, 0, 1)),                           # no rows in memory at all
    product((4, 96), (96, 128), None, None, lambda op, x: op("tanh", x)),    # few rows: no copy that could compute it
    product((96, "n"), (96, 128), TURN)])                                    # rows that are not known
def test_what_a_product_does_not_read_well_is_a_kernel_of_its_own(case):
    assert len(kernels(case, WIDE)) > 1


def test_a_vector_by_element_has_its_terms_in_a_row():
    cpu = machine(4, 32, accumulators=21, by_element=True)
    assert len(kernels(product((96, 64), (96, 128), TURN), cpu)) == 2
    assert len(kernels(product((64, 96), (128, 96), None, TURN), cpu)) == 1


def test_constant_columns_and_transposed_rows():
    func, = kernels(lambda: network(lambda op, x: op("matmul", op("permute_dims", x, axes=TURN), const(96, 80)),
                                    [(96, 64)]), WIDE)
    assert list(copies(func, WIDE)) == ["permute_dims"]
    assert not copies(func, with_costs(WIDE, l1_bytes=1 << 20))  # small: read across


@pytest.mark.parametrize("rows, columns", [(1, 40), (2, 17), (7, 19), (16, 22)])
def test_sums_of_few_rows_are_made_in_lanes(rows, columns):
    """All of a tile at once, in registers."""
    for cpu in (WIDE, machine(8, 16), machine(4, 16, parallel=False)):
        func, = kernels(product((rows, 70), (columns, 70), None, TURN), cpu)
        sch = schedule_by_rule(func, cpu)
        lowered = same_results(func, sch.func)
        assert "reduce_lanes" in str(sch.trace) and not copies(func, cpu)
        sums = [d.buffer for d in collect(lowered.body, DeclBuffer) if d.buffer.dtype.lanes == cpu.lanes]
        assert sums and all(b.shape[0].value < cpu.registers for b in sums)
