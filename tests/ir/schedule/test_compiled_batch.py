"""The check of compiled functions fails for each of the faults that it is there for."""
import re

import pytest
from compiled_batch import Batch, Pair, has_pattern
from tir_cases import arguments, fill_program, loop

from ingot.ir import tir
from ingot.ir.tir.stmt import BufferLoad, BufferStore, DeclBuffer


def checked(expected, *found):
    """Check functions of one buffer y against another one in one batch."""
    batch = Batch()
    for n, func in enumerate(found):
        batch.add(Pair(expected, func, arguments(expected), 1e-6, 1e-6, f"test_{n}"))
    batch.check()


def program(value=1.0, extent=64):
    return fill_program(lambda fill: loop("i", extent, lambda i: fill(i, value)))


def running_sum(kind):
    """Each element is one more than the one before: not what threads may share."""
    def body(fill):
        y = fill(0).buffer
        return tir.seq(fill(0), loop("i", 63, lambda i: BufferStore(y, BufferLoad(y, (i,)) + 1.0, (i + 1,)), kind))
    return fill_program(body)


def sum_of_local_memory(initialized):
    def body(fill):
        own = tir.decl_buffer((64,), name="own", scope="local")
        first = [loop("i", 64, lambda i: BufferStore(own, tir.const(1.0), (i,)))] if initialized else []
        return DeclBuffer(own, tir.seq(*first, loop("j", 64, lambda j: fill(j, BufferLoad(own, (j,))))))
    return fill_program(body)


def test_equal_functions():
    checked(program(), program(), sum_of_local_memory(True))
    checked(running_sum("serial"), running_sum("serial"))


@pytest.mark.parametrize("expected, found, message", [
    (program(), program(2.0), "parameter 0"), (program(), program(extent=63), "nan"),
    (program(), program(extent=65), "status .* while it runs test_1"),
    (running_sum("serial"), running_sum("parallel"), "parameter 0"),
    pytest.param(program(), sum_of_local_memory(False), "parameter 0", marks=pytest.mark.skipif(
        not has_pattern(), reason="gcc fills no memory with a pattern"))],
    ids=["values", "missing", "outside", "threads", "uninitialized"])
def test_faults(expected, found, message):
    with pytest.raises(AssertionError, match=message) as raised:
        checked(expected, expected, found)
    assert re.search("test_1", str(raised.value)) and not re.search("^test_0", str(raised.value), re.M)
