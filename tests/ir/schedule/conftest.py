"""Compile the kernels that tests of rules note to be compared at once, when a module's tests have run."""
import pytest

from compiled_batch import BATCHES, Batch


@pytest.fixture(autouse=True, scope="module")
def batch():
    BATCHES.append(Batch())
    yield
    BATCHES.pop().check()
