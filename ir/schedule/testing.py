"""Helpers for tests of schedules, under TVM's names."""
from __future__ import annotations

import json

from ..compare import assert_structural_equal
from ..module import IRModule
from ..tir.function import PrimFunc
from .schedule import Schedule
from .trace import Trace


def assert_structural_equal_ignore_global_symbol(func1, func2, *args, **kwargs):
    """assert_structural_equal of two PrimFuncs or IRModules, whatever their global_symbol attributes say."""
    assert_structural_equal(_nameless(func1), _nameless(func2), *args, **kwargs)


def _nameless(value):
    if isinstance(value, IRModule):
        return value.with_functions({name: _nameless(f) for name, f in value.functions.items()})
    return value.without_attr("global_symbol") if isinstance(value, PrimFunc) else value


def verify_trace_roundtrip(sch, mod, *, debug_mask="all", text_format=("python", "json")):
    """The schedule that the trace of `sch`, as Python and as JSON, makes of `mod`: the last one.

    Raises AssertionError when the program or the trace of one of them differs from that of `sch`.
    """
    text_format = (text_format,) if isinstance(text_format, str) else text_format
    if not text_format or set(text_format) - {"python", "json"}:
        raise ValueError(f"text_format is {text_format!r}; known: python, json")
    for form in text_format:
        new = Schedule(mod, debug_mask=debug_mask)
        if form == "json":
            Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), new)
        else:
            exec("\n".join(sch.trace.as_python()), {**_NAMES, "sch": new})
        assert_structural_equal_ignore_global_symbol(new.mod, sch.mod)
        if str(new.trace) != str(sch.trace):
            raise AssertionError(f"the trace read back from {form} is another one:\n{new.trace}\nnot\n{sch.trace}")
    return new


_NAMES = {"inf": float("inf"), "nan": float("nan")}  # as Python prints such numbers
