"""External generators: a partition by patterns, C that somebody else writes, and a folder that carries it."""
import subprocess

import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.codegen.external import GENERATORS, External, pointers, register_generator
from ingot.relax import transform as rt
from ingot.relax.backend import cblas, pattern_registry
from ingot.relax.dpl import is_op, wildcard
from ingot.runtime import registry
from ingot.script import ir as I
from ingot.script import relax as R


@pytest.fixture(autouse=True)
def generators(monkeypatch):
    """Each test has registries of its own."""
    monkeypatch.setattr(registry, "_FUNCTIONS", {})
    for name in set(GENERATORS) - {"cblas"}:
        monkeypatch.delitem(GENERATORS, name)
    monkeypatch.setattr(pattern_registry, "_PATTERNS", dict(pattern_registry._PATTERNS))


@pytest.fixture
def blas(tmp_path):
    """Skips without cblas.h and OpenBLAS."""
    source = tmp_path / "has_blas.c"
    source.write_text("#include <cblas.h>\nint main(void)\n{\n    return cblas_isamax == 0;\n}\n")
    if subprocess.run(["cc", source, "-lopenblas", "-o", tmp_path / "has_blas"], capture_output=True).returncode:
        pytest.skip("OpenBLAS is not there: apt-get install libopenblas-dev")


@I.ir_module
class Layers:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 5), "float32"), b: R.Tensor((5,), "float32"),
             v: R.Tensor((6, 5), "float32")):
        with R.dataflow():
            hidden = R.nn.relu(R.add(R.matmul(x, w), b))
            turned = R.permute_dims(v)
            out = R.matmul(hidden, turned)
            R.output(out)
        return out


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def evaluated(mod, *args):
    return relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())["main"](*args).numpy()


def doubled(func, symbol, options):
    """A generator of relu(x) + x, in a loop."""
    size = int(np.prod([int(d) for d in func.ret_struct_info.shape]))
    lines = [*pointers(func), "(void)n_args;", f"for (int32_t i = 0; i < {size}; ++i) {{",
             f"    out0[i] = (p0[i] > 0.0f ? p0[i] : 0.0f) * {options.get('factor', 2)}.0f;", "}"]
    body = "".join(f"    {line}\n" for line in lines)
    return External(symbol, f"void {symbol}(const ingot_arg *args, int32_t n_args)\n{{\n{body}}}")


def test_a_generator_of_ones_own(tmp_path):
    register_generator("mine", doubled)
    mod = rt.FuseOpsByPattern([("mine.relu", is_op("relax.nn.relu")(wildcard()))], annotate_codegen=True)(Layers)
    mod = rt.RunCodegen({"mine": {"factor": 3}})(mod)
    external, = mod.attrs["external_mods"]
    assert external["symbol"] == "fused_relax_nn_relu_mine" and list(mod.functions) == ["main"]
    x, w, b, v = arrays((3, 4), (4, 5), (5,), (6, 5))
    np.testing.assert_allclose(evaluated(mod, x, w, b, v), 3 * np.maximum(x @ w + b, 0) @ v.T, rtol=1e-4, atol=1e-5)

    tvm.compile(mod, target="c", threads="none", name="dense").export(tmp_path / "net")
    text = (tmp_path / "net" / "dense_external_0.c").read_text()
    assert "* 3.0f" in text and "PACKED" not in (tmp_path / "net" / "Makefile").read_text()
    flags = "-std=c99 -O2 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror"
    made = subprocess.run(["make", "-C", tmp_path / "net", f"CFLAGS={flags}", "example"], capture_output=True,
                          text=True)
    assert made.returncode == 0, made.stderr
    assert subprocess.run([tmp_path / "net" / "example"], capture_output=True).returncode == 0


def test_a_library_of_ones_own(tmp_path, monkeypatch):
    """As CMSIS-NN would be called: functions of a header and of a library that the compiler finds."""
    (tmp_path / "my_kernels.h").write_text("void my_relu(const float *x, float *y, int n);\n")
    (tmp_path / "my_kernels.c").write_text("""#include "my_kernels.h"
void my_relu(const float *x, float *y, int n)
{
    for (int i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
""")
    for command in ("cc -O2 -fPIC -c my_kernels.c", "ar rcs libmykernels.a my_kernels.o"):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    monkeypatch.setenv("CPATH", str(tmp_path))
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))

    @register_generator("mine")
    def generate(func, symbol, options):
        return External(symbol, f"""void {symbol}(const ingot_arg *args, int32_t n_args)
{{
    const ingot_tensor *x = args[0].value.tensor;
    const int n = (int)(x->shape[0] * x->shape[1]);
    my_relu((const float *)x->data, (float *)args[n_args - 1].value.tensor->data, n);
}}""", headers=("my_kernels.h",), libraries=("mykernels",))

    mod = rt.FuseOpsByPattern([("mine.relu", is_op("relax.nn.relu")(wildcard()))], annotate_codegen=True)(Layers)
    x, w, b, v = arrays((3, 4), (4, 5), (5,), (6, 5))
    got = evaluated(rt.RunCodegen()(mod), x, w, b, v)
    np.testing.assert_allclose(got, np.maximum(x @ w + b, 0) @ v.T, rtol=1e-4, atol=1e-5)


def test_a_generator_by_tvms_name():
    @tvm.register_func("relax.ext.mine")
    def generate(functions, options, names):
        return [doubled(f, f.attrs["global_symbol"], options).source for f in functions]

    mod = rt.FuseOpsByPattern([("mine.relu", is_op("relax.nn.relu")(wildcard()))])(Layers)
    mod = rt.RunCodegen()(rt.MergeCompositeFunctions()(mod))
    x, w, b, v = arrays((3, 4), (4, 5), (5,), (6, 5))
    np.testing.assert_allclose(evaluated(mod, x, w, b, v), 2 * np.maximum(x @ w + b, 0) @ v.T, rtol=1e-4, atol=1e-5)


def test_a_network_that_does_not_use_what_was_generated():
    @I.ir_module
    class Unused:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                unused = R.nn.relu(x)
                y = R.negative(x)
                R.output(y, unused)
            return y
    register_generator("mine", doubled)
    pattern = ("mine.relu", is_op("relax.nn.relu")(wildcard()))
    mod = rt.RunCodegen()(rt.FuseOpsByPattern([pattern], annotate_codegen=True)(Unused))
    x, = arrays((2, 3))
    assert np.array_equal(evaluated(mod, x), -x)


def test_a_generator_that_is_not_there():
    mod = rt.FuseOpsByPattern([("other.relu", is_op("relax.nn.relu")(wildcard()))], annotate_codegen=True)(Layers)
    with pytest.raises(ValueError, match="no external generator 'other'"):
        rt.RunCodegen()(mod)


def test_a_function_that_waits_for_its_generator():
    mod = cblas.partition_for_cblas(Layers)
    for build in (lambda: relax.build(mod, "c"), lambda: tvm.compile(mod, target="c")):
        with pytest.raises(ValueError, match="RunCodegen"):
            build()


def test_products_for_a_blas(tmp_path):
    mod = rt.RunCodegen()(cblas.partition_for_cblas(Layers))
    second, first = (e["source"] for e in mod.attrs["external_mods"])
    assert "cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, 5, 4, 1.0f, p0, 4, p1, 5," in first
    assert "1.0f, out0, 5);" in first and "out0[(int64_t)i * 5 + j] = p2[j];" in first
    assert "cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, 6, 5, 1.0f, p1, 5, p0, 5," in second
    compiled = tvm.compile(mod, target="c", threads="none", name="dense")
    compiled.export(tmp_path / "net")
    assert "-lopenblas -lm" in (tmp_path / "net" / "Makefile").read_text()
    assert "target_link_libraries(dense PUBLIC openblas)" in (tmp_path / "net" / "CMakeLists.txt").read_text()
    assert "linked with what these call: `-lopenblas`" in (tmp_path / "net" / "README.md").read_text()
    with pytest.raises(ValueError, match="leave out single_file"):
        compiled.export(tmp_path / "one", single_file=True)


def test_a_blas_computes_them(blas):
    given = arrays((3, 4), (4, 5), (5,), (6, 5))
    x, w, b, v = given
    mod = rt.RunCodegen()(cblas.partition_for_cblas(Layers))
    np.testing.assert_allclose(evaluated(mod, *given), np.maximum(x @ w + b, 0) @ v.T, rtol=1e-4, atol=1e-5)


def test_a_blas_computes_products_of_symbolic_rows(blas):
    @I.ir_module
    class Rows:
        @R.function
        def main(x: R.Tensor((2, "n", 4), "float32"), w: R.Tensor((4, 5), "float32")):
            with R.dataflow():
                out = R.matmul(x, w)
                R.output(out)
            return out

    x, w = arrays((2, 7, 4), (4, 5))
    mod = rt.RunCodegen()(cblas.partition_for_cblas(Rows))
    np.testing.assert_allclose(evaluated(mod, x, w), x @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [[1, 0], [-1, 0], None, [0, 1]])
def test_weights_are_transposed_where_their_axes_are_swapped(axes):
    x, w = (relax.Var(name, relax.TensorStructInfo((4, 4), "float32")) for name in "xw")
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.matmul(x, bb.emit(relax.op.permute_dims(w, axes))))
        bb.emit_func_output(out)
    mod = cblas.partition_for_cblas(bb.get())
    source = rt.RunCodegen()(mod).attrs["external_mods"][0]["source"]
    assert ("CblasNoTrans, CblasTrans" in source) == (axes != [0, 1])


def test_products_that_a_blas_has_not_stay():
    @I.ir_module
    class Others:
        @R.function
        def main(x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor((2, 4, 5), "float32")):
            with R.dataflow():
                out = R.matmul(x, y)
                R.output(out)
            return out

    assert list(cblas.partition_for_cblas(Others).functions) == ["main"]


def test_a_product_that_is_used_beside_its_sum_stays_outside():
    @I.ir_module
    class Twice:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                product = R.matmul(x, w)
                out = R.multiply(R.add(product, b), product)
                R.output(out)
            return out

    assert sorted(cblas.partition_for_cblas(Twice).functions) == ["fused_relax_matmul_cblas", "main"]
    pattern = cblas.get_patterns_with_prefix("cblas.matmul_bias")[0].pattern
    mod = rt.FuseOpsByPattern([("cblas.matmul_bias", pattern)], False, True)(Twice)
    with pytest.raises(ValueError, match="cblas gives one tensor"):
        rt.RunCodegen()(mod)


def test_patterns_by_name():
    pattern = is_op("relax.exp")(wildcard())
    pattern_registry.register_patterns([("mine.exp", pattern), ("mine.exp_of", pattern)])
    assert [p.name for p in pattern_registry.get_patterns_with_prefix("mine.")] == ["mine.exp_of", "mine.exp"]
    assert pattern_registry.get_pattern("mine.exp").pattern is pattern
    assert pattern_registry.get_pattern("mine.log") is None
    with pytest.raises(TypeError, match="Cannot register"):
        pattern_registry.register_patterns(["mine.exp"])
