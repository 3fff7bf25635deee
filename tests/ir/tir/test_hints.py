"""Hints: values of their types, and the verifier that finds those which nothing consumed."""
import pytest

from ingot import te, tir
from ingot.ir.expr import StringImm, const
from ingot.ir.module import IRModule
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.ir.tir.hints import HINTS, IMPORT_C, PRINTER, READER, UNROLL, Hint
from ingot.ir.transform.context import PassContext
from ingot.ir.transform.pass_table import TIR
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.transform.verify_hints import verify_hints


def copy():
    x = te.placeholder((64,), name="x")
    return te.create_prim_func([x, te.compute((64,), lambda i: x[i], name="y")])


def annotated(key, value):
    sch = Schedule(copy())
    sch.annotate(sch.get_loops(sch.get_block("y"))[0], key, value)
    return sch.func


def test_every_consumer_is_a_pass_or_who_reads_the_program():
    assert {by for hint in HINTS.values() for by in hint.consumed_by} <= {PRINTER, READER, *TIR}
    assert HINTS[UNROLL].name == UNROLL == "pragma_unroll"


@pytest.mark.parametrize("key, value", [("pragma_unroll", "4"), ("pragma_prefetch", "x"), ("pragma_prefetch", ("x", 1)),
                                        ("reduce_lanes", "yes"), ("simd", 1)])
def test_values_of_another_type_are_refused(key, value):
    with pytest.raises(TypeError, match=f"the hint '{key}' is .*, not "):
        tir.for_(tir.Var("i", "int32"), 4, tir.Evaluate(const(0)), annotations={key: value})
    with pytest.raises(ScheduleError, match=f"the hint '{key}' is "):
        annotated(key, value)


@pytest.mark.parametrize("key, value", [
    (UNROLL, const(4)), (IMPORT_C, StringImm("int x;")), ("pragma_prefetch", ("x", "y")),
    ("pragma_of_somebody", object)])
def test_values_of_parsed_programs_and_other_keys_pass(key, value):
    tir.for_(tir.Var("i", "int32"), 4, tir.Evaluate(const(0)), annotations={key: value})


def test_a_hint_that_nothing_consumed_is_an_error(monkeypatch):
    func = annotated("pragma_prefetch", ("x",))
    lower_prim_func(func)
    with pytest.raises(ValueError, match="loop i of main still has the hint 'pragma_prefetch', which InjectPrefetch "
                                         "should have consumed"):
        verify_hints(func)
    forgotten = Hint("pragma_of_a_new_rule", "0 or 1", ("NewPass",))
    monkeypatch.setitem(HINTS, "pragma_of_a_new_rule", forgotten)
    with pytest.raises(ValueError, match="'pragma_of_a_new_rule', which NewPass should have consumed"):
        lower_prim_func(annotated(forgotten.name, 1))


def test_hints_for_passes_that_do_not_run_may_stay():
    mod = IRModule({"main": annotated("pragma_prefetch", ("x",))})
    with PassContext(disabled_pass=["InjectPrefetch"]):
        assert TIR["VerifyHints"]()(mod) is mod
    with pytest.raises(ValueError, match="pragma_prefetch"):
        TIR["VerifyHints"]()(mod)
