"""Functions of Python that compiled programs call by name, and what supplies them in C."""
import subprocess

import numpy as np
import pytest

import ingot
from ingot import relax
from ingot.ir.transform.packed_calls import lower_packed_calls
from ingot.runtime import registry
from ingot.script import ir as I
from ingot.script import relax as R
from ingot.script import tir as T

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
W = np.ones((4, 4), np.float32)


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    """Each test has a registry of its own."""
    monkeypatch.setattr(registry, "_FUNCTIONS", {})


@I.ir_module
class Network:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.call_dps_packed("env.product", (x, w), out_sinfo=R.Tensor((2, 4), "float32"))
            z = R.call_pure_packed("env.scaled", y, R.prim_value(3), sinfo_args=R.Tensor((2, 4), "float32"))
            out = R.add(z, z)
            R.output(out)
        return out


def supply():
    @ingot.register_func("env.product")
    def product(x, w, out):
        np.matmul(np.asarray(x), np.asarray(w), out=np.asarray(out))

    ingot.register_func("env.scaled", lambda y, factor: ingot.nd.array(y.numpy() * factor))


def test_a_network_calls_registered_functions():
    supply()
    vm = relax.VirtualMachine(relax.build(Network, "c"), ingot.cpu())
    np.testing.assert_allclose(vm["main"](X, W).numpy(), 6 * (X @ W))


def test_a_network_may_be_cast_twice(tmp_path, monkeypatch):
    """The second time its kernels come from a cache."""
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("INGOT_KERNEL_CACHE", raising=False)
    for _ in range(2):
        assert not ingot.compile(Network, target="c").model.test_outputs


def test_the_folder_says_what_to_supply(tmp_path):
    ingot.compile(Network, target="c", threads="none").export(tmp_path / "net")
    header = (tmp_path / "net" / "model.h").read_text()
    assert "void env_product(const ingot_arg *args, int32_t n_args); /* env.product */" in header
    (tmp_path / "mine.c").write_text("""
#include "model.h"

void env_product(const ingot_arg *args, int32_t n_args)
{
    const float *x = args[0].value.tensor->data, *w = args[1].value.tensor->data;
    float *out = args[2].value.tensor->data;
    const int64_t rows = args[2].value.tensor->shape[0], columns = args[2].value.tensor->shape[1];
    (void)n_args;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            out[i * columns + j] = 0;
            for (int64_t k = 0; k < args[0].value.tensor->shape[1]; ++k)
                out[i * columns + j] += x[i * args[0].value.tensor->shape[1] + k] * w[k * columns + j];
        }
}

void env_scaled(const ingot_arg *args, int32_t n_args)
{
    const float *y = args[0].value.tensor->data;
    float *out = args[n_args - 1].value.tensor->data;
    for (int64_t i = 0; i < 8; ++i) out[i] = y[i] * (float)args[1].value.integer;
}
""")
    strict = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror"
    subprocess.run(["gcc", *strict.split(), "-I", "net", "-c", "mine.c"], cwd=tmp_path, check=True)
    made = subprocess.run(["make", "-C", "net", "check", "PACKED=../mine.o", f"CFLAGS={strict}"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    alone = subprocess.run(["make", "-C", "net", "clean", "all"], cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 0 and not (tmp_path / "net" / "example").exists()


def test_a_single_file_declares_what_it_calls(tmp_path):
    ingot.compile(Network, target="c", threads="none").export(tmp_path / "one", single_file=True)
    subprocess.run(["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c", "model.c"],
                   cwd=tmp_path / "one", check=True)


def test_exceptions_of_functions_are_raised_by_the_call():
    supply()

    def broken(x, w, out):
        raise KeyError("no product today")

    ingot.register_func("env.product", broken, override=True)
    network = ingot.compile(Network)
    with pytest.raises(KeyError, match="no product today"):
        network(X, W)
    registry.remove_global_func("env.product")
    with pytest.raises(registry.PackedCallError, match="calls the packed function 'env.product', which is not regist"):
        network(X, W)


def test_returned_arrays_must_fit_what_is_declared():
    supply()
    ingot.register_func("env.scaled", lambda y, factor: np.zeros((4, 2), np.float32), override=True)
    with pytest.raises(registry.PackedCallError, match=r"'env.scaled' returned float32\[4, 2\], the program declares "
                                                       r"float32\[2, 4\]"):
        ingot.compile(Network)(X, W)


def test_sizes_of_a_run_reach_the_function():
    ingot.register_func("env.twice", lambda x, out: out.copyfrom(2 * x.numpy()))

    @I.ir_module
    class Symbolic:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32")):
            n = T.int64()
            with R.dataflow():
                y = R.call_dps_packed("env.twice", x, out_sinfo=R.Tensor((n, 3), "float32"))
                R.output(y)
            return y

    network = ingot.compile(Symbolic)
    for n in (1, 5):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        np.testing.assert_array_equal(network(x), 2 * x)


def test_functions_of_a_module_call_python():
    seen = []
    ingot.register_func("my.see", lambda a, n, x: seen.append((a.numpy().copy(), n, x)))

    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            A[i] = n + i
        T.evaluate(T.call_packed("my.see", A, n, T.float32(0.5)))

    again = ingot.script.from_source(f.script())
    for func in (f, again):
        a = ingot.nd.array(np.zeros(4, np.int32))
        ingot.build(func, target="c")["f"](a, 7)
    assert len(seen) == 2
    for array, n, x in seen:
        assert array.tolist() == [7, 8, 9, 10] and (n, x) == (7, 0.5)


def test_texts_reach_the_function():
    given = []
    ingot.register_func("my.named", lambda x, text, out: (given.append(text), out.copyfrom(x))[0])

    @I.ir_module
    class Named:
        @T.prim_func
        def f(A: T.Buffer((2,), "float32")):
            T.evaluate(T.call_packed("my.named", A, 'say "äh?\n"', A))

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.call_dps_packed("my.named", (x, R.str("b")), out_sinfo=R.Tensor((2,), "float32"))
            return y

    ingot.build(Named["f"], target="c")["f"](np.zeros(2, np.float32))
    network = ingot.compile(Named)["main"]
    assert isinstance(network, ingot.runtime.CompiledLibrary) and network(np.ones(2, np.float32)).tolist() == [1, 1]
    assert given == ['say "äh?\n"', "b"]
    with pytest.raises(ValueError, match=r"texts as C has them, without NUL, and not 'a\\x00b'"):
        ingot.compile(ingot.script.from_source(Named.script().replace('R.str("b")', 'R.str("a\\0b")'))).export("nowhere")


def test_a_function_that_is_given_is_a_packed_function():
    ingot.register_func("my.apply", lambda f, x: isinstance(f, ingot.runtime.PackedFunc) and f(x))
    assert ingot.get_global_func("my.apply")(lambda x: 2 * x, 4) == 8
    assert not isinstance(3, ingot.runtime.PackedFunc)


def test_an_exported_library_calls_python_again(tmp_path):
    @T.prim_func
    def f(A: T.Buffer((2,), "float32")):
        T.evaluate(T.call_packed("my.fill", A))

    ingot.build(f, target="c").export_library(tmp_path / "f.so")
    a = ingot.nd.array(np.zeros(2, np.float32))
    loaded = ingot.runtime.load_module(tmp_path / "f.so")
    with pytest.raises(registry.PackedCallError, match="'my.fill', which is not registered"):
        loaded["f"](a)
    ingot.register_func("my.fill", lambda a: a.copyfrom(np.array([3, 4], np.float32)))
    loaded["f"](a)
    assert a.numpy().tolist() == [3, 4]


def test_the_registry():
    with pytest.raises(ValueError, match="Cannot find global function my.f"):
        ingot.get_global_func("my.f")
    assert ingot.get_global_func("my.f", allow_missing=True) is None

    @ingot.register_func("my.f")
    def f(x):
        return x + 1

    assert ingot.get_global_func("my.f")(2) == 3
    with pytest.raises(ValueError, match="my.f is already registered"):
        ingot.register_func("my.f", f)
    assert registry.list_global_func_names() == ["my.f"]


@pytest.mark.parametrize("call, message", (
    ('R.call_pure_packed("f", x, sinfo_args=R.Object())', "declare a tensor of known shape"),
    ('R.call_pure_packed("f", R.shape([2]), sinfo_args=R.Tensor((2,), "float32"))', "it takes tensors, numbers and texts"),
))
def test_what_no_packed_function_gets_is_refused(call, message):
    source = f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        y = {call}
        return y
"""
    mod = ingot.script.from_source(source)
    with pytest.raises(ValueError, match=message):
        lower_packed_calls(mod)
    with pytest.raises(ValueError, match="main is no network of C"):
        ingot.compile(mod).export("nowhere")


@I.ir_module
class Logged:
    """Calls whose results nobody uses, on their own, in another function and in branches."""

    @R.function(pure=False)
    def twice(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_packed("env.log", x, R.prim_value(1), sinfo_args=R.Tensor((2,), "float32"))
        z = R.call_packed("env.log", x, R.prim_value(1), sinfo_args=R.Tensor((2,), "float32"))
        return x

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
        cls = Logged
        a = cls.twice(x)
        b = R.add(x, x)
        if c:
            t = R.call_packed("env.log", b, R.prim_value(2), sinfo_args=R.Tensor((2,), "float32"))
            y = R.add(x, x)
        else:
            t = cls.twice(b)
            y = R.add(x, x)
        d = R.call_packed("env.log", a, R.prim_value(3), sinfo_args=R.Tensor((2,), "float32"))
        e = R.call_pure_packed("env.log", a, R.prim_value(4), sinfo_args=R.Tensor((2,), "float32"))
        return R.multiply(b, b)


def test_networks_make_all_impure_calls_in_order():
    log = []
    ingot.register_func("env.log", lambda x, n: log.append((n, float(np.asarray(x)[0]))) or x)
    network = ingot.compile(Logged, "c")
    for c, inside in ((True, [(2, 2.0)]), (False, [(1, 2.0), (1, 2.0)])):
        log.clear()
        np.testing.assert_array_equal(network(np.ones(2, np.float32), np.array(c)), [4, 4])
        assert log == [(1, 1.0), (1, 1.0), *inside, (3, 1.0)]
