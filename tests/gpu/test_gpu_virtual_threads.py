"""InjectVirtualThread: vthread loops become inner loops that share what they do not change."""
import pytest
from gpu_programs import LOOPS, check, fill_together
from tir_cases import matmul_te

from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.tir.stmt import DeclBuffer, For

PASSES = (*LOOPS, "InjectVirtualThread", "ThreadSync")


def striped_product(m, n, k, virtual=2, threads=4, each=2, step=3):
    """(a product, the same in tiles, each thread with several pieces far apart)."""
    func = matmul_te(m, n, k)
    s = Schedule(func)
    product, relu = s.get_block("matmul"), s.get_block("relu")
    i, j = s.get_loops(relu)
    io, vi, ti, ii = s.split(i, [None, virtual, threads, each])
    jo, vj, tj, ji = s.split(j, [None, virtual, threads, each])
    s.reorder(io, jo, vi, vj, ti, tj, ii, ji)
    axes = ("blockIdx.y", "blockIdx.x", "vthread.y", "vthread.x", "threadIdx.y", "threadIdx.x")
    for loop, axis in zip((io, jo, vi, vj, ti, tj), axes):
        s.bind(loop, axis)
    s.compute_at(product, tj)
    s.set_scope(product, 0, "local")
    loops = s.get_loops(product)
    ko, ki = s.split(loops[-1], [None, step])
    s.reorder(ko, ki, *loops[-3:-1])
    fill_together(s, product, ko, threads)
    return func, s.func


@pytest.mark.parametrize("shape", [(16, 16, 9), (19, 18, 7)])
def test_a_product_with_virtual_threads(shape):
    func, scheduled = striped_product(*shape)
    done = check(func, scheduled, rtol=1e-5, passes=PASSES)
    assert not [x for x in collect(done.body, For) if (x.thread_binding or "").startswith("vthread")]
    local, = (d.buffer for d in collect(done.body, DeclBuffer) if d.buffer.scope == "local")
    assert [s.value for s in local.shape] == [2, 2, 2, 2]
