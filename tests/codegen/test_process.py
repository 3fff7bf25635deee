"""A compilation restores the settings of its process: threads of products, the garbage collector."""
import gc

import numpy as np
import pytest

import ingot
from ingot.codegen import compile as compiling
from ingot.codegen import process


@pytest.fixture
def threads(monkeypatch):
    """A BLAS that says what it was set to; its number of threads is 4 at first."""
    log = [4]
    monkeypatch.setattr(process, "_functions", lambda: (lambda: log[-1], log.append))
    return log


def test_threads_are_as_many_as_before(threads):
    with process.for_compiling():
        with process.for_compiling():
            assert threads == [4, 1, 1]
        assert threads == [4, 1, 1]
    assert threads == [4, 1, 1, 4]


def test_also_after_an_error(threads):
    with pytest.raises(KeyError), process.for_compiling():
        raise KeyError
    assert threads == [4, 1, 4]


def test_the_reference_is_evaluated_on_one_thread(threads, monkeypatch):
    seen, evaluate = [], compiling.evaluate
    monkeypatch.setattr(
        compiling, "evaluate", lambda *args, **known: seen.append(threads[-1]) or evaluate(*args, **known))

    @ingot.script.ir_module
    class Doubled:
        @ingot.script.relax.function
        def main(x: ingot.script.relax.Tensor((2, 3), "float32")):
            y = ingot.script.relax.add(x, x)
            return y
    ingot.compile(Doubled, target="c")
    assert seen == [1] and threads == [4, 1, 4, 1, 4]


def test_the_real_one():
    """Whatever numpy is linked to: a number of threads that a process can have, or nothing known."""
    get, put = process._functions()
    before = get()
    with process.for_compiling():
        assert get() in (0, 1)
        assert np.ones((64, 64)) @ np.ones(64) == pytest.approx(np.full(64, 64.0))
    assert get() == before >= 0


def test_an_unknown_one(monkeypatch):
    monkeypatch.setattr(process, "_NAMES", (("no_such_function", "nor_this_one"),))
    get, put = process._functions.__wrapped__()
    assert get() == 0 and put(1) is None


@pytest.mark.parametrize("given, inside", [((700, 10, 10), (10_000, 10, 10)), ((0, 10, 10), (0, 10, 10)),
                                           ((50_000, 5, 100), (50_000, 5, 100))])
def test_the_garbage_collector_looks_rarely(given, inside):
    """One that is off stays off, and a rarer one as it is."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(*given)
        with process.for_compiling(), process.for_compiling():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == given
    finally:
        gc.set_threshold(*before)
