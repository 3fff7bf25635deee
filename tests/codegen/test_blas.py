"""Products while a network is compiled take one thread, and as many as before afterwards."""
import numpy as np
import pytest

import ingot
from ingot.codegen import blas, compile as compiling


@pytest.fixture
def threads(monkeypatch):
    """A BLAS that says what it was set to; its number of threads is 4 at first."""
    log = [4]
    monkeypatch.setattr(blas, "_functions", lambda: (lambda: log[-1], log.append))
    return log


def test_threads_are_as_many_as_before(threads):
    with blas.one_blas_thread():
        with blas.one_blas_thread():
            assert threads == [4, 1]
        assert threads == [4, 1]
    assert threads == [4, 1, 4]


def test_also_after_an_error(threads):
    with pytest.raises(KeyError), blas.one_blas_thread():
        raise KeyError
    assert threads == [4, 1, 4]


def test_the_reference_is_evaluated_on_one_thread(threads, monkeypatch):
    seen, evaluate = [], compiling.evaluate
    monkeypatch.setattr(compiling, "evaluate", lambda *args: seen.append(threads[-1]) or evaluate(*args))

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
    get, put = blas._functions()
    before = get()
    with blas.one_blas_thread():
        assert get() in (0, 1)
        assert np.ones((64, 64)) @ np.ones(64) == pytest.approx(np.full(64, 64.0))
    assert get() == before >= 0


def test_an_unknown_one(monkeypatch):
    monkeypatch.setattr(blas, "_NAMES", (("no_such_function", "nor_this_one"),))
    get, put = blas._functions.__wrapped__()
    assert get() == 0 and put(1) is None
