"""What tests made for pytest use of tvm.testing: parameters, fixtures, and the comparison of programs before and after
a pass. pytest is loaded when one of these is used."""
from __future__ import annotations

import copy
import inspect
import sys
import textwrap
from functools import wraps

import numpy as np

from ..ir.compare import assert_structural_equal
from ..ir.module import BaseFunc, IRModule
from ..ir.script.functions import from_source
from ..ir.tir.function import PrimFunc
from ..ir.transform.context import Pass


def parameter(*values, ids=None, by_dict=None):
    """A fixture with one value after the other: `size = parameter(1, 1024)` at the top of a file of tests, or in a
    class of them. by_dict: {id: value} in their place."""
    import pytest
    if by_dict is not None:
        if values or ids:
            raise ValueError("parameter takes values with ids, or by_dict")
        ids, values = zip(*by_dict.items())

    def value(*of_class, request):
        return request.param
    return pytest.fixture(params=list(values), ids=ids and list(ids))(value)


class _Values:
    """Stands in a class or at the top of a file for one of several values that change together: number `n` of each set
    of a group."""

    def __init__(self, group, n):
        self.group, self.n = group, n


def parameters(*value_sets, ids=None):
    """Values that change together, not each with each: `shape, axis = parameters([(4, 3), 1], [(2,), 0])` at the top of
    a file of tests, or in a class of them, runs a test that takes both twice. ids: one for each set."""
    if len({len(values) for values in value_sets}) != 1:
        raise ValueError("parameters takes sets of values, each of as many")
    place = sys._getframe(1).f_locals  # of the class or file, which pytest asks for what its tests run over
    if not isinstance(place.get("pytest_generate_tests", _Joined()), _Joined):
        raise ValueError("parameters stands where no pytest_generate_tests is")
    place["pytest_generate_tests"] = _Joined()
    group = value_sets, ids
    return tuple(_Values(group, n) for n in range(len(value_sets[0])))


class _Joined:
    """Called by pytest for a test that is defined beside `parameters`."""

    def __call__(self, metafunc):
        owner, groups = metafunc.cls or metafunc.module, {}
        for name in metafunc.fixturenames:
            values = getattr(owner, name, None)
            if isinstance(values, _Values):
                groups.setdefault(id(values.group), []).append((name, values))
        for members in groups.values():
            value_sets, ids = members[0][1].group
            metafunc.parametrize([name for name, _ in members], [[s[v.n] for _, v in members] for s in value_sets],
                                 ids=ids)


def fixture(func=None, *, cache_return_value=False):
    """A fixture of pytest. cache_return_value: it is made once for its arguments, and each test has a copy."""
    import pytest

    def made(f):
        return pytest.fixture(_cached(f) if cache_return_value else f)
    return made if func is None else made(func)


def _cached(func):
    found = {}

    @wraps(func)
    def value(*args, **kwargs):
        key = _key((args, kwargs))
        if key not in found:
            found[key] = func(*args, **kwargs), (args, kwargs)  # kept, so that no other object gets their ids
        return copy.deepcopy(found[key][0])
    return value


def _key(value):
    """What tells arguments apart: the contents of arrays and containers, other values as they are, by their ids where
    they have no hash."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.ndarray, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return dict, frozenset((_key(k), _key(v)) for k, v in value.items())
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


def _is_fixture(value):
    return hasattr(value, "_pytestfixturefunction") or type(value).__name__ == "FixtureFunctionDefinition"


def _has_self(value):
    return callable(value) and not inspect.isclass(value) and "self" in inspect.signature(value).parameters


class CompareBeforeAfter:
    """Base of test classes that compare what a pass makes of a program with what it should.

    before, expected (or Before, Expected): a PrimFunc or an IRModule; a function in script syntax, decorated or not; a
    class of such functions; a method or a fixture that returns one of these. expected may also be a class of
    exceptions, which the pass must raise. transform: a Pass, or a method or fixture that returns one.
    check_well_formed: whether scripts are held to the verifier's rules.
    """

    check_well_formed = True

    def __init_subclass__(cls):
        import pytest
        for name in ("before", "expected"):
            given = [cls.__dict__[n] for n in (name, name.capitalize()) if n in cls.__dict__]
            if len(given) > 1:
                raise TypeError(f"{cls.__name__} has both {name} and {name.capitalize()}")
            if given:
                setattr(cls, name, cls._normalize_before(given[0]))
        transform = cls.__dict__.get("transform")
        if transform is None:
            return
        if _is_fixture(transform):
            cls._transform_given = transform
            cls.transform = pytest.fixture(lambda self, _transform_given: _over_both(_transform_given))
        elif isinstance(transform, Pass):
            cls.transform = pytest.fixture(lambda self: _over_both(transform))
        elif _has_self(transform):
            cls.transform = pytest.fixture(lambda self: _over_both(transform(self)))
        else:
            raise TypeError(f"transform is a Pass, or a method or fixture that returns one, not {transform!r:.60}")

    @staticmethod
    def _normalize_before(given):
        """The fixture of a program that is given as `before` may be; classes of tests of other kinds use it, too."""
        import pytest
        return given if _is_fixture(given) else pytest.fixture(_program(given))

    def test_compare(self, before, expected, transform):
        """The program after the pass is the expected one, or the pass raises the expected exception."""
        import pytest
        if inspect.isclass(expected) and issubclass(expected, Exception):
            with pytest.raises(expected):
                after = transform(before)
                pytest.fail(f"expected {expected.__name__}; the pass gave\n{after.script()}")
            return
        if not isinstance(expected, (PrimFunc, IRModule)):
            raise TypeError(f"expected is a program or a class of exceptions, not a {type(expected).__name__}")
        after = transform(before)
        if isinstance(after, PrimFunc):
            after, expected = (f.with_attr("global_symbol", "main") for f in (after, expected))
        try:
            assert_structural_equal(after, expected)
        except ValueError as error:
            raise ValueError("the program after the pass is not the expected one; before, after, expected:\n" +
                             "\n".join(p.script() for p in (before, after, expected))) from error


def _program(given):
    """A method that returns the program, or the class of exceptions, that was given."""
    def program(self):
        if isinstance(given, (PrimFunc, IRModule)) or inspect.isclass(given) and issubclass(given, Exception):
            return given
        if _has_self(given):
            return given(self)
        if not inspect.isclass(given):
            return _read(given, self.check_well_formed)
        functions = {n: f if isinstance(f, BaseFunc) else _read(f, self.check_well_formed)
                     for n, f in vars(given).items() if not n.startswith("_")}
        return IRModule({n: f.with_attr("global_symbol", n) for n, f in functions.items()})
    return program


def _read(function, check_well_formed):
    """The PrimFunc of an undecorated function in script syntax."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    return from_source("@T.prim_func\n" + textwrap.dedent(inspect.getsource(function)), env=names,
                       check_well_formed=check_well_formed)


def _over_both(made):
    """A pass as a function over modules and over PrimFuncs."""
    def run(program):
        return made(IRModule({"main": program}))["main"] if isinstance(program, PrimFunc) else made(program)
    return run
