"""ThreadSync: barriers where threads hand elements on, and only there."""
import pytest
from gpu_programs import LOOPS, check, lowered, syncs, tiled_product
from interp import DivergenceError, RaceError, run_threads
from tir_cases import arguments

from ingot.ir.node import Mutator, collect
from ingot.ir.tir.stmt import DeclBuffer, Evaluate, SeqStmt, seq


class _Drop(Mutator):
    """Leaves out the n-th barrier."""

    def __init__(self, n):
        self.n = n

    def visit_SeqStmt(self, s):
        kept = []
        for child in s.seq:
            if isinstance(child, Evaluate) and "tvm_storage_sync" in str(child):
                self.n -= 1
                if self.n == -1:
                    continue
            kept.append(self.visit(child))
        return seq(*kept)


@pytest.mark.parametrize("shape", [(16, 16, 8, 8, 4), (13, 9, 10, 8, 4), (8, 8, 6, 4, 2)])
def test_tiles_in_shared_memory(shape):
    func, scheduled = tiled_product(*shape)
    done = check(func, scheduled, rtol=1e-5)
    tile, step = shape[3:]
    assert syncs(done, "shared" if tile == 8 else "warp") == 2, "16 threads are one warp"
    sizes = [[s.value for s in d.buffer.shape] for d in collect(done.body, DeclBuffer) if d.buffer.scope == "shared"]
    assert sorted(sizes) == sorted([[tile, step], [step, tile]])
    for n in range(2):  # each of them is needed
        with pytest.raises((RaceError, DivergenceError)):
            run_threads(done.with_body(_Drop(n).visit(done.body)), *arguments(func))


def test_a_barrier_stays_where_it_is():
    _, scheduled = tiled_product()
    once = lowered(scheduled, *LOOPS, "ThreadSync")
    assert str(lowered(once, "ThreadSync")) == str(once)
    assert collect(once.body, SeqStmt)
