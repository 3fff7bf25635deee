"""relax.VirtualMachine, Executables and their files, graph executors and parameters, as scripts for TVM use them."""
import numpy as np
import pytest
from value_target import small_target

import ingot as tvm
from ingot import relax
from ingot.script import ir as I, tir as T, relax as R  # noqa: E741
from ingot.tvm.contrib import graph_executor
from ingot.tvm.relax.testing.lib_comparator import LibCompareVMInstrument


@I.ir_module
class Mixed:
    @T.prim_func
    def copy(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    @R.function
    def add(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        z = R.add(x, y)
        return (z, (x,))

    @R.function
    def countdown(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        done = R.less_equal(n, R.const(0, "int64"))
        if done:
            r = R.const(0, "int64")
        else:
            less = R.subtract(n, R.const(1, "int64"))
            below = Mixed.countdown(less)
            r = R.add(below, R.const(2, "int64"))
        return r

    @R.function
    def shapes(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["m"]), k: R.Prim(value="p")):
        n, m, p = T.int64(), T.int64(), T.int64()
        return R.shape([n + m, p * 2])

    @R.function
    def objects(x: R.Tensor((2, 3), "float32")):
        storage = R.memory.alloc_storage(R.shape([24]), 0, "global", "float32")
        y = R.memory.alloc_tensor(storage, 0, R.shape([2, 3]), "float32")
        _ = Mixed.copy(x, y)

        @R.function
        def plus(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            b = R.add(a, y)
            return b
        z = plus(x)
        t = Mixed.add(z, y)
        word = R.call_pure_packed("test.mixed", x, R.str("abc"), R.prim_value(3), sinfo_args=R.Object)
        return (t, word)


X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture(scope="module")
def executable():
    tvm.register_func("test.mixed", lambda x, word, number: word * number, override=True)
    return relax.build(Mixed)


def test_values_that_are_no_tensors(executable):
    assert "add(x, y): network" in executable.stats() and "objects(x): run" in executable.stats()
    vm = relax.VirtualMachine(executable, tvm.cpu())
    (z, (x,)), word = vm["objects"](X)
    assert np.array_equal(z.numpy(), 3 * X) and np.array_equal(x.numpy(), 2 * X) and word == "abcabcabc"
    assert vm["countdown"](np.array(3)).numpy() == 6
    shapes = vm["shapes"]
    assert shapes(X, tvm.runtime.ShapeTuple([4]), 5) == [6, 10]
    with pytest.raises(TypeError, match="k of shapes .* must be a number"):
        shapes(X, [4], X)
    with pytest.raises(ValueError, match="ndim is 1, and must be 2"):
        shapes(X[0], [4], 1)
    with pytest.raises(RuntimeError, match="axis 1 is 2, and must be 3"):
        shapes(X[:, :2], [4], 1)


def test_inputs_that_are_set(executable):
    vm = relax.VirtualMachine(executable, tvm.cpu())
    with pytest.raises(ValueError, match="no inputs of add were set"):
        vm.invoke_stateful("add")
    vm.set_input("add", X, y=X)
    with pytest.raises(ValueError, match="no outputs yet"):
        vm.get_outputs("add")
    with pytest.raises(RuntimeError, match="invoke_stateful"):
        vm["add"]()
    vm.invoke_stateful("add")
    z, (x,) = vm.get_outputs("add")
    assert np.array_equal(z.numpy(), 2 * X)
    vm.save_function("add", "twice", X, X)
    assert np.array_equal(vm["twice"]()[0].numpy(), 2 * X)
    assert vm.time_evaluator("twice", tvm.cpu(), number=1)().results
    assert vm.time_evaluator("invoke_stateful", tvm.cpu(), number=1)("add").results
    with pytest.raises(TypeError, match="add takes x, y; got 1 in order and z"):
        vm.set_input("add", X, z=X)


def test_looking_on(executable):
    vm, seen = relax.VirtualMachine(executable, tvm.cpu()), []
    vm.set_instrument(lambda f, name, before, result, *args: seen.append((name, before)))
    vm["objects"](X)
    assert seen[:2] == [("copy", True), ("copy", False)] and [n for n, b in seen if b] == ["copy", "add1", "add1",
                                                                                          "test.mixed"]
    report = relax.VirtualMachine(executable, tvm.cpu()).profile("add", X, X)
    assert "float32[2, 3]" in str(report) and "Total" in str(report) and report.csv().count("\n") == 2
    assert "add" in report.json()


def test_kernels_are_values_for_who_looks_on():
    """A packed function that is given a kernel of the module calls it."""
    @I.ir_module
    class Apply:
        @T.prim_func
        def twice(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
            for i, j in T.grid(2, 3):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)

        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            cls = Apply
            return R.call_packed("test.vm.apply", cls.twice, x, sinfo_args=R.Tensor((2, 3), "float32"))

    @tvm.register_func("test.vm.apply", override=True)
    def apply(kernel, x):
        result = tvm.nd.empty(x.shape)
        kernel(x, result)
        return result
    vm = relax.VirtualMachine(relax.build(Apply, small_target()), tvm.cpu())
    assert np.array_equal(vm["main"](X).numpy(), 2 * X)
    vm.set_instrument(lambda f, name, before, result, *args: None)
    assert np.array_equal(vm["main"](X).numpy(), 2 * X)
    assert "test.vm.apply" in str(vm.profile("main", X))


def test_files(executable, tmp_path):
    for name in ("mixed.so", "mixed.tar"):
        executable.export_library(str(tmp_path / name))
        vm = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / name)), tvm.cpu())
        assert np.array_equal(vm["add"](X, X)[0].numpy(), 2 * X) and vm["countdown"](np.array(1)).numpy() == 2
    with pytest.raises(ValueError, match="exported as .so or .tar"):
        executable.export_library(str(tmp_path / "mixed.o"))


def test_graph_executor_and_parameters():
    @I.ir_module
    class Net:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32")):
            y = R.multiply(x, w)
            return y
    w = np.array([1, 2, 3], "float32")
    saved = tvm.runtime.save_param_dict({"w": tvm.nd.array(w), "flag": np.array(True)})
    loaded = tvm.runtime.load_param_dict(saved)
    assert list(loaded) == ["w", "flag"] and loaded["flag"].shape == () and loaded["flag"].dtype == "bool"
    with pytest.raises(ValueError, match="not the bytes of parameters: it ends early|unpack"):
        tvm.runtime.load_param_dict(saved[:-1])
    graph = graph_executor.create("{}", relax.build(Net), tvm.cpu())
    with pytest.raises(ValueError, match="no value was set for x, w"):
        graph.run()
    graph.load_params(saved)
    graph.run(x=X)
    assert graph.get_num_outputs() == 1 and np.array_equal(graph.get_output(0).numpy(), X * w)
    out = tvm.nd.empty((2, 3))
    graph.get_output(0, out)
    assert np.array_equal(out.numpy(), X * w) and graph.benchmark(tvm.cpu(), repeat=1, number=1).results
    library = tvm.compile(Net)
    assert np.array_equal(relax.VirtualMachine(library, tvm.cpu())["main"](X, w).numpy(), X * w)
    assert graph_executor.GraphModule(library["default"](tvm.cpu())).get_input_info() == (
        {"x": (2, 3), "w": (3,)}, {"x": "float32", "w": "float32"})
    with pytest.raises(KeyError, match="no input 'z'"):
        graph.set_input("z", X)


def test_what_only_a_run_can_tell_is_run():
    n = tvm.tir.Var("n", "int64")
    bb, x, y = relax.BlockBuilder(), *(relax.Var(k, R.Tensor((d, 4), "float32")) for k, d in (("x", 2 * n), ("y", n)))
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(relax.op.maximum(x, y)))
    vm = relax.VirtualMachine(relax.build(bb.get(), "c"), tvm.cpu())
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 4), np.float32), rng.random((1, 4), np.float32)
    np.testing.assert_array_equal(vm["main"](x, y).numpy(), np.maximum(x, y))
    with pytest.raises(ValueError, match="maximum"):
        vm["main"](np.ones((4, 4), np.float32), np.ones((2, 4), np.float32))


def test_instruments_see_kernels_and_compare_libraries():
    x, w = (relax.Var(n, R.Tensor((3, 3), "float32")) for n in "xw")
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(relax.op.nn.relu(bb.emit(relax.op.matmul(x, w)))))
    vm = relax.VirtualMachine(relax.build(bb.get(), small_target()), tvm.cpu())
    library, rng = vm.module.imported_modules[0], np.random.default_rng(0)
    a, b = rng.random((3, 3), np.float32), rng.random((3, 3), np.float32)
    seen = []
    vm.set_instrument(lambda f, name, before, result, *args: seen.append((name, before, len(args))))
    np.testing.assert_allclose(vm["main"](a, b).numpy(), np.maximum(a @ b, 0), rtol=1e-5)
    assert seen == [("matmul", True, 3), ("matmul", False, 3), ("relu", True, 2), ("relu", False, 2)]
    compared = LibCompareVMInstrument(library, tvm.cpu(), verbose=False)
    vm.set_instrument(compared)
    vm["main"](a, b)
    assert compared.counter == 2
    library.get_function = lambda name, query_imports=False: lambda *args: None  # leaves zeros
    with pytest.raises(AssertionError, match="argument 2 of matmul"):
        vm["main"](a, b)


def test_how_decoders_choose():
    def chosen(name, *args):
        return tvm.get_global_func("vm.builtin." + name)(*args)
    prob = tvm.nd.array(np.array([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]], "float32"))
    samples = tvm.nd.array(np.array([[0.05], [1.0]], "float32"))
    assert chosen("multinomial_from_uniform", prob, samples).numpy().tolist() == [[0], [2]]
    row = tvm.nd.array(np.array([[0.1, 0.6, 0.3]], "float32"))
    assert [chosen("sample_top_p_from_prob", row, 0.8, u) for u in (0.0, 0.6, 0.7, 0.99)] == [1, 1, 2, 2]
    assert [chosen("sample_top_p_from_prob", row, 1.0, u) for u in (0.85, 0.95)] == [2, 0]
    logits = tvm.nd.array(np.log(row.numpy()))
    assert chosen("sample_top_p_from_logits", logits, 0.0, 1.0, 0.9) == 1
    assert chosen("sample_top_p_from_logits", logits, 1.0, 0.8, 0.7) == 2
    chosen("apply_softmax_with_temperature", logits, 1.0)
    np.testing.assert_allclose(logits.numpy(), row.numpy(), rtol=1e-6)
    scores = tvm.nd.array(np.array([[2, -2, 1]], "float32"))
    tokens, times = (tvm.nd.array(np.array(v, "int32")) for v in ([0, 1], [1, 3]))
    chosen("apply_repetition_penalty", scores, tokens, 2.0)
    chosen("apply_presence_and_frequency_penalty", scores, tokens, times, 0.5, 1.0)
    assert scores.numpy().tolist() == [[-0.5, -7.5, 1]]
    with pytest.raises(ValueError, match="NaN among the 3 numbers"):
        chosen("sample_top_p_from_prob", tvm.nd.array(np.array([0.5, np.nan, 0.5], "float32")), 0.5, 0.5)


def test_samples_above_the_sum_are_of_the_last_class_that_adds_to_it():
    prob, sample = np.array([[.25, .25, .3, 0]], "float32"), np.array([[.999]], "float32")
    for rows, classes in ((1, 4), (tvm.tir.Var("n", "int64"), tvm.tir.Var("v", "int64"))):
        p, u = (relax.Var(n, R.Tensor(s, "float32")) for n, s in (("p", (rows, classes)), ("u", (rows, 1))))
        bb = relax.BlockBuilder()
        with bb.function("main", [p, u]):
            bb.emit_func_output(bb.emit(relax.op.multinomial_from_uniform(p, u)))
        vm = relax.VirtualMachine(relax.build(bb.get(), small_target()), tvm.cpu())
        assert vm["main"](prob, sample).numpy().tolist() == [[2]]
