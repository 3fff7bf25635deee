"""type_checked: which calls annotations admit, and what the error says."""
import typing
from typing import Callable, Dict, List, Literal, Optional, Tuple, Union

import pytest

from ingot.tir.schedule._type_checker import type_checked

# annotation, what it admits, what it refuses
ROWS = [
    (float, [1.5, True and 2.0], [1, "1", None]),
    (List[float], [[], [1.0], (1.0, 2.0)], [1.0, [1.0, 2], {1.0}]),
    (List[List[str]], [[["a"], []], [("b",)]], [["a", 1], [[1]]]),
    (Dict[str, List[int]], [{}, {"a": [1]}], [{"a": 1}, {1: [1]}, []]),
    (Tuple[int, str], [(1, "a")], [(1,), [1, "a"], ("a", 1)]),
    (Tuple[int, ...], [(), (1, 2, 3)], [(1, "a"), [1]]),
    (Optional[int], [None, 3], ["3", 3.0]),
    (Union[int, List[int]], [3, [3]], [None, ["3"]]),
    (int | str, [3, "3"], [None]),
    (Callable, [len, int], [3, None]),
    (Callable[[int], int], [len], ["len"]),
    (Literal["S", "R"], ["S"], ["T"]),
    (typing.Any, [None, 3], []),
    (list, [[3]], [(3,)]),
    (None, [None], [0]),
]


@pytest.mark.parametrize("annotation, admitted, refused", ROWS, ids=[str(row[0]) for row in ROWS])
def test_annotations(annotation, admitted, refused):
    @type_checked
    def func(x: annotation, y: int = 1):
        return x

    assert all(func(value) is value and func(x=value, y=2) is value for value in admitted)
    for value in refused:
        with pytest.raises(TypeError, match='"x" has wrong type'):
            func(value)


def test_errors_name_function_and_types():
    @type_checked
    def make(shape: List[int], *names: str, **options: int):
        return shape, names, options

    assert make([1], "a", "b", c=3) == ([1], ("a", "b"), {"c": 3}) and make.__name__ == "make"
    with pytest.raises(TypeError, match=r'make", "shape" has wrong type. Expected "List\[int\]", but gets: "Tuple\[int, str\]"'):
        make((1, "2", "3"))
    for wrong in (lambda: make([1], 2), lambda: make([1], c="3")):
        with pytest.raises(TypeError, match="has wrong type"):
            wrong()
    with pytest.raises(TypeError, match="missing a required argument: 'shape'"):
        make()
