"""Modules that tvm.build makes, called from Python."""
from types import SimpleNamespace

import numpy as np
import pytest
from module_cases import Two, built, floats, fixed, groups, vector_add

import ingot as tvm
from ingot import te
from ingot.runtime import BenchmarkResult, ModuleError, evaluator


def test_vector_add_is_built_called_and_printed():
    module = tvm.build(vector_add, target="c")
    for size in (1, 7, 100):
        a, b, c = tvm.nd.array(floats(size)), tvm.nd.array(floats(size, seed=1)), tvm.nd.empty((size,))
        module["vector_add"](a, b, c)
        np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    assert "C[i] = A[i] + B[i];" in module.get_source()
    assert module.entry_name == "vector_add" and module.type_key == "c" and module.imported_modules == []


def test_numpy_arrays_are_arguments_and_outputs_in_place():
    a, c = floats(5), np.zeros(5, np.float32)
    built()["vector_add"](a, a, c)
    np.testing.assert_array_equal(c, a + a)


def test_a_dimension_is_solved_where_it_stands_alone():
    a, b = floats(3, 6), np.empty(3, np.float32)
    built()["groups"](a, b)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


def test_scalars():
    a, b = floats(9), np.empty(9, np.float32)
    for alpha, shift in ((2.5, -3), (2, np.int8(4)), (np.float32(0.5), True)):
        built()["scaled"](a, b, alpha, shift)
        np.testing.assert_allclose(b, a * np.float32(alpha) + np.float32(shift), rtol=1e-6)


def test_strided_arguments_where_strides_are_declared():
    a = floats(6, 20)[::2, ::3]
    rows = tvm.nd.empty((3, 8)).__array__()  # aligned, as the parameter asks
    rows[:] = -1
    built()["strided"](a, rows[:, :7])
    np.testing.assert_array_equal(rows[:, :7], a * 2)
    assert (rows[:, 7] == -1).all()


def test_workspace_follows_the_sizes_of_calls():
    for size in (3, 5000, 4):
        a, b = floats(size), np.empty(size, np.float32)
        built()["through_memory"](a, b)
        np.testing.assert_allclose(b, (a * a)[::-1], rtol=1e-6)


def test_an_assertion_stops_the_call_with_its_message():
    a, b = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    with pytest.raises(ModuleError, match='^checked: n is above the "limit"$'):
        built()["checked"](a, b, 3)
    assert not b.any()
    built()["checked"](a, b, 4)
    np.testing.assert_array_equal(b, a * a)


def test_a_function_called_like_a_c_keyword_or_library_function():
    for name in ("main", "double", "log", "malloc"):
        module = tvm.build(fixed.with_attr("global_symbol", name))
        x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.empty((2, 3), np.int32)
        module[name](x, y)
        np.testing.assert_array_equal(y, x + 1)


def test_a_module_of_two_functions():
    module = tvm.build(Two)
    a, b = floats(4), np.empty(4, np.float32)
    module["double"](a, b)
    np.testing.assert_array_equal(b, a * 2)
    module(a, b)  # the one called main
    np.testing.assert_array_equal(b, a + 1)
    assert module.function_names == ("double", "main") and module.implements_function("double")
    module["__tvm_main__"](a, b)
    with pytest.raises(AttributeError, match="no function 'other'; it has double, main"):
        module["other"]


def test_a_marked_function_is_the_entry_and_without_one_there_is_none():
    names = {"first": vector_add, "second": groups}
    functions = {n: f.with_attr("global_symbol", n) for n, f in names.items()}
    with pytest.raises(AttributeError, match="tir.is_entry_func; call one by name: first, second"):
        tvm.build(tvm.IRModule(functions)).entry_name
    functions["second"] = functions["second"].with_attr("tir.is_entry_func", True)
    assert tvm.build(tvm.IRModule(functions)).entry_name == "second"


def test_lowered_programs_print_and_build_as_the_others():
    lowered = tvm.lower(tvm.IRModule({"vector_add": vector_add, "groups": groups}))
    assert "C[i] = A[i] + B[i]" in str(lowered) and "T.block" not in str(lowered)
    again = tvm.lower(lowered)
    assert tvm.build(again).get_source() == tvm.build(tvm.IRModule({"a": vector_add, "b": groups})).get_source()


def test_simple_mode_leaves_loops_whole():
    def guarded(simple):
        sch = tvm.tir.Schedule(fixed)
        sch.split(sch.get_loops("B")[1], [None, 2])
        return str(tvm.lower(sch.mod, simple_mode=simple))
    assert "if " in guarded(True) and guarded(False) != guarded(True)


def test_a_schedule_of_tensor_expressions():
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=4)
    module = tvm.build(s, [a, b, c], target="llvm", name="myadd")
    x, y = floats(6), np.empty(6, np.float32)
    module["myadd"](x, x, y)
    np.testing.assert_array_equal(y, x + x)
    assert "def myadd" in str(tvm.lower(s, [a, b, c], name="myadd"))
    with pytest.raises(ValueError, match=r"lowered for the list of its arguments: args=\[A, B, ...\]"):
        tvm.build(s)
    with pytest.raises(ValueError, match="binds is {tensor among the arguments: Buffer}, not"):
        tvm.lower(s, [a, b, c], binds={a: None})
    with pytest.raises(ValueError, match="buffer narrow is float32 of"):
        tvm.lower(s, [a, b, c], binds={a: tvm.tir.decl_buffer((5,), name="narrow")})
    with pytest.raises(TypeError, match="binds is {tensor: Buffer}, not a list"):
        tvm.lower(s, [a, b, c], binds=[a])
    with pytest.raises(ValueError, match="buffer both has the memory of another one"):
        both = tvm.tir.decl_buffer((n,), name="both")
        tvm.build(s, [a, b, c], binds={a: both, c: both})


def test_arguments_of_a_schedule_are_buffers_of_ones_own():
    a = te.placeholder((4, 3), name="a")
    b = te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="b")
    wide = tvm.tir.decl_buffer((4, 3), name="wide", strides=[5, 1], offset_factor=1)
    for args in ([a, b], [wide, b]):
        module = tvm.build(te.create_schedule(b.op), args, target="llvm", binds={a: wide})
        x, y = floats(20).reshape(4, 5), np.empty((4, 3), np.float32)
        module(x[:, :3], y)
        np.testing.assert_array_equal(y, x[:, :3] + 1)
    out = tvm.tir.decl_buffer((4, 3), name="out")
    assert len(tvm.lower(te.create_schedule(b.op), [a, out], binds={b: out})["main"].params) == 2


def test_calls_from_threads_have_workspaces_of_their_own():
    from concurrent.futures import ThreadPoolExecutor

    def run(seed):
        a, b = floats(20000, seed=seed), np.empty(20000, np.float32)
        for _ in range(20):
            built()["through_memory"](a, b)
        return np.array_equal(b, (a * a)[::-1])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(8)))


def test_time_evaluator():
    a, c = floats(1000), np.empty(1000, np.float32)
    result = built().time_evaluator("vector_add", tvm.cpu(), number=3, repeat=4)(a, a, c)
    assert isinstance(result, BenchmarkResult) and len(result.results) == 4
    np.testing.assert_array_equal(c, a + a)
    assert result.min <= result.median <= result.max and result.min <= result.mean <= result.max
    np.testing.assert_allclose(result.std, np.std(result.results))
    assert "mean (ms)" in str(result)


def test_time_evaluator_repeats_until_the_least_time(monkeypatch):
    """On a clock of its own, on which a call takes 10 us and the least time is a hundred calls."""
    calls, pauses = [], []

    class Counted:
        def prepare(self, args):
            return lambda: calls.append(args), None

    monkeypatch.setattr(evaluator, "time", SimpleNamespace(perf_counter=lambda: 1e-5 * len(calls), sleep=pauses.append))
    result = evaluator.time_evaluator(Counted(), number=1, repeat=2, min_repeat_ms=1, cooldown_interval_ms=1,
                                      f_preproc="cache_flush_cpu_non_first_arg")(5)
    np.testing.assert_allclose(result.results, [1e-5, 1e-5])
    assert 200 <= len(calls) < 500 and calls[0] == (5,) and pauses == [1e-3, 1e-3]


def test_time_evaluator_refuses():
    with pytest.raises(ValueError, match="at least 1, not 0, 1 and 1"):
        built().time_evaluator("vector_add", tvm.cpu(), number=0)
    with pytest.raises(ValueError, match="f_preproc must be"):
        built().time_evaluator("vector_add", tvm.cpu(), f_preproc="warm")
    with pytest.raises(ValueError, match=r"no device cuda\(0\) here"):
        built().time_evaluator("vector_add", tvm.cuda())
