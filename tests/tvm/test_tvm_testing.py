"""tvm.testing as tests for pytest use it: programs before and after a pass, parameters, what a test needs."""
from types import SimpleNamespace

import numpy as np
import pytest

import ingot as tvm
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T
from ingot.tvm import testing
from ingot.tvm.comparing import _cached


class Doubles(testing.CompareBeforeAfter):
    def transform(self):
        return tvm.tir.transform.Simplify()


class TestUndecoratedFunctions(Doubles):
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] * 2 + (i - i)

    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] * 2


class TestDecoratedFunctions(Doubles):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = 1 + 2

    @T.prim_func(private=True)
    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = 3


class TestMethodsModulesAndFixtures(testing.CompareBeforeAfter):
    @testing.fixture
    def transform(self):
        return tvm.transform.Sequential([tvm.tir.transform.Simplify()])

    class Before:
        def first(A: T.Buffer((1,), "int32")):
            A[0] = 2 + 2

    def expected(self):
        @I.ir_module
        class Module:
            @T.prim_func
            def first(A: T.Buffer((1,), "int32")):
                T.func_attr({"global_symbol": "first"})
                A[0] = 4
        return Module


class TestExceptions(testing.CompareBeforeAfter):
    transform = tvm.tir.transform.RemoveStoreUndef()

    def before(A: T.Buffer((4,), "int32")):
        A[T.undef(dtype="int32")] = 1

    expected = ValueError


class TestParameters:
    size = testing.parameter(1, 4)
    name = testing.parameter(by_dict={"a": "first", "b": "second"})

    def test_values(self, size, name):
        assert size in (1, 4) and name in ("first", "second")


class TestParametersThatChangeTogether:
    shape, axis = testing.parameters([(4, 3), 1], [(2,), 0], ids=["matrix", "vector"])
    size = testing.parameter(1, 2)

    def test_each_set(self, shape, axis, size):
        assert len(shape) == axis + 1 and size in (1, 2)

    def test_what_pytest_is_told(self):
        told, owner = [], type(self)
        owner.pytest_generate_tests(SimpleNamespace(
            cls=owner, fixturenames=["axis", "size", "shape"], parametrize=lambda *a, **k: told.append((a, k))))
        assert told == [((["axis", "shape"], [[1, (4, 3)], [0, (2,)]]), {"ids": ["matrix", "vector"]})]


def test_what_a_fixture_keeps_is_told_apart_by_contents():
    """The texts of large arrays are equal where these are not."""
    kept = _cached(lambda x, given: x[1500] + given["n"])
    for n in (1.0, 2.0):
        x = np.zeros(3000)
        x[1500] = n
        assert kept(x, {"n": 1}) == n + 1 and kept(x, {"n": [2][0]}) == n + 2
    assert kept(x, {"n": 1}) == 3


def test_parameters_are_sets_of_as_many():
    with pytest.raises(ValueError, match="parameters takes sets of values, each of as many"):
        testing.parameters([1, 2], [3])


@testing.requires_llvm
@testing.parametrize_targets("llvm")
def test_targets(target, dev):
    assert target == "llvm" and dev.exist


@testing.requires_vulkan()
def test_what_there_is_no_backend_for_is_skipped():
    raise AssertionError


def test_both_names_are_refused():
    with pytest.raises(TypeError, match="both before and Before"):
        type("Both", (testing.CompareBeforeAfter,), {"before": 1, "Before": 2})
    assert testing.strtobool("on") and not testing.strtobool("No")
