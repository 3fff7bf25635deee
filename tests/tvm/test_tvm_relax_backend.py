"""relax.backend: what pattern tables of libraries cut out, which matches they leave, and operators by device."""
import numpy as np
import pytest

import ingot
from ingot import relax
from ingot.ir.node import collect
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.script.functions import from_source
from ingot.relax.backend import DispatchSampling, DispatchSortScan, get_patterns_with_prefix, register_patterns
from ingot.relax.backend.cuda.cublas import partition_for_cublas
from ingot.relax.backend.cuda.cudnn import partition_for_cudnn
from ingot.relax.backend.cuda.cutlass import partition_for_cutlass
from ingot.relax.backend.metal.coreml import partition_for_coreml
from ingot.relax.backend.rocm.hipblas import partition_for_hipblas
from ingot.relax.dpl import is_op, wildcard

PARTS = {"cublas": partition_for_cublas, "hipblas": partition_for_hipblas, "cudnn": partition_for_cudnn,
         "cutlass": partition_for_cutlass, "coreml": partition_for_coreml}


def module(params, *lines):
    params = ", ".join(f'{name}: R.Tensor({shape}, "{dtype}")' for name, (shape, dtype) in params.items())
    body = "\n".join(f"            {line}" for line in lines)
    return from_source(f"""
@I.ir_module
class M:
    @R.function
    def main({params}):
        with R.dataflow():
{body}
            R.output(out)
        return out
""")


def composites(mod):
    """The composite functions of a module, by their names without the library's."""
    return [f.attrs["Composite"].partition(".")[2] for g in mod.functions.values() for f in collect(g, relax.Function)
            if "Composite" in f.attrs]


def products(dtype, x=(2, 3, 4), w=(4, 8), b=(8,)):
    return {"x": (x, dtype), "w": (w, dtype), "b": (b, dtype)}


@pytest.mark.parametrize(("library", "params", "lines", "found"), [
    ("cublas", products("float32"), ["y = R.matmul(x, w)", "z = R.add(y, b)", "out = R.nn.relu(z)"],
     ["matmul_bias_relu"]),
    ("cublas", products("float32", b=(3, 8)), ["y = R.matmul(x, w)", "out = R.add(y, b)"], ["matmul"]),
    ("cublas", products("float32", b=(1,)), ["y = R.matmul(x, w)", "out = R.add(y, b)"], ["matmul"]),
    ("cublas", products("float32", w=(2, 4, 8)), ["out = R.matmul(x, w)"], ["matmul"]),
    ("cublas", products("float32", w=(5, 4, 8), x=(3, 4)), ["out = R.matmul(x, w)"], []),
    ("cublas", products("float64"), ["out = R.matmul(x, w)"], []),
    ("cublas", products("int8", w=(4, 6)), ["out = R.matmul(x, w)"], []),
    ("cublas", products("float16", w=(8, 4)), ["t = R.permute_dims(w)", "y = R.matmul(x, t)", "out = R.add(y, b)"],
     ["matmul_transposed_bias"]),
    ("cublas", products("float16", x=(4, 3, 4), w=(8, 4, 4)),  # not of rows and columns
     ["t = R.permute_dims(w, (1, 2, 0))", "out = R.matmul(x, t)"], ["matmul"]),
    ("cublas", products("float32"), ["y = R.matmul(x, w)", "z = R.add(y, b)", "out = R.multiply(z, y)"], ["matmul"]),
    ("hipblas", products("float16"), ["y = R.matmul(x, w)", "z = R.add(y, b)", "out = R.nn.gelu(z)"],
     ["matmul_bias_gelu"]),
    ("hipblas", products("float32"), ["out = R.matmul(x, w)"], []),
    ("cutlass", products("float16", b=(2, 3, 8)), ["y = R.matmul(x, w)", "out = R.add(y, b)"], ["matmul_bias"]),
    ("cutlass", {**products("float16"), "r": ((2, 3, 8), "float16")},
     ["y = R.matmul(x, w)", "z = R.add(y, b)", "out = R.multiply(r, z)"], ["matmul_bias_residual_multiply"]),
    ("cutlass", products("float16"), ["y = R.matmul(x, w)", "z = R.add(y, b)", "r = R.exp(y)", "out = R.add(z, r)"],
     ["matmul"]),
    ("cutlass", {"x": ((1, 6, 6, 4), "float16"), "w": ((8, 3, 3, 4), "float16")},
     ['y = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI")', "out = R.nn.relu(y)"], ["conv2d"]),
    ("cutlass", {"x": ((1, 6, 6, 4), "float16"), "w": ((4, 3, 3, 1), "float16")},
     ['out = R.nn.conv2d(x, w, groups=4, data_layout="NHWC", kernel_layout="OHWI")'], []),
    ("cudnn", {"x": ((1, 4, 6, 6), "float32"), "w": ((8, 4, 3, 3), "float32"), "b": ((1, 8, 1, 1), "float32")},
     ["y = R.nn.conv2d(x, w)", "z = R.add(y, b)", "out = R.nn.relu(z)"], ["conv2d.nhwc_ohwi_bias_relu"]),
    ("coreml", products("float32"), ["y = R.matmul(x, w)", "z = R.add(y, b)", "out = R.exp(z)"], ["matmul", "add"]),
])
def test_what_a_library_takes(library, params, lines, found):
    mod = PARTS[library](module(params, *lines))
    assert composites(mod) == found and relax.analysis.well_formed(mod)
    generators = [f for f in mod.functions.values() if f.attrs.get("Codegen")]
    assert all(f.attrs["Codegen"] == library for f in generators) and bool(generators) == bool(found)


def test_stacked_attention_takes_a_workspace():
    params = {"x": ((2, 8, 192), "float16")}
    heads = [f"{h} = R.reshape(s[{n}], (2, 8, 4, 16))" for n, h in enumerate("qkv")]
    mod = module(params, "s = R.split(x, 3, axis=2)", *heads, "out = R.nn.attention(q, k, v)")
    for library, name in (("cudnn", "attention.BS3NH"), ("cutlass", "stacked_attention")):
        new = PARTS[library](mod)
        assert composites(new) == [name]
        (func,) = (f for f in new.functions.values() if f.attrs.get("Codegen"))
        assert func.params[-1].struct_info.shape[0].value == 2 * 8 * 4 * 16 * 2
    other = module({"x": ((2, 24, 192), "float16")}, "s = R.split(x, 3, axis=1)",
                   *[h.replace("4, 16", "12, 16") for h in heads], "out = R.nn.attention(q, k, v)")
    assert composites(partition_for_cudnn(other)) == []


def test_functions_for_generators_have_dimensions_of_their_own():
    mod = module({"x": (("n", 4), "float32"), "w": ((4, 8), "float32")}, "y = R.matmul(x, w)", "out = R.exp(y)")
    assert relax.analysis.well_formed(partition_for_cublas(mod)) and relax.analysis.well_formed(partition_for_coreml(mod))


def test_patterns_of_one_name_stay_together():
    pattern = is_op("relax.add")(wildcard(), wildcard())
    register_patterns([("some.add", pattern), ("some.add", pattern)])
    assert len(get_patterns_with_prefix("some.")) == 2
    register_patterns([("some.add", pattern)])
    assert len(get_patterns_with_prefix("some.")) == 1


SORTS = ["a = R.sort(x, axis=1, descending=True)", 'b = R.argsort(x, axis=1, dtype="int64")',
         "c = R.topk(x, k=2, axis=1)", "d = R.cumsum(x, axis=1, exclusive=True)", "e = R.cumprod(x, axis=1)",
         'f = R.multinomial_from_uniform(x, u, s)', "out = (a, b, c, d, e, f)"]


def test_sorts_and_samples_by_device():
    mod = module({"x": (("m", 5), "float32"), "u": ((6, 1), "float32"), "s": ((6, 1), "int64")}, *SORTS)
    new = DispatchSampling()(DispatchSortScan()(mod))
    assert [n for n in new.functions if n != "main"] == ["sort", "argsort", "topk", "cumsum", "cumprod"]
    rng = np.random.default_rng(1)
    x = rng.random((3, 5), "float32")
    x, u, s = x / x.sum(1, keepdims=True), rng.random((6, 1), "float32"), rng.integers(0, 3, (6, 1))
    a, b, c, d, e, f = evaluate(new, [x, u, s])
    order = np.argsort(-x, 1)
    np.testing.assert_array_equal(a, -np.sort(-x, 1))
    np.testing.assert_array_equal(b, np.argsort(x, 1))
    np.testing.assert_array_equal(c[1], order[:, :2])
    assert c[1].dtype == np.int32 and b.dtype == np.int64
    sums = np.cumsum(x, 1)
    np.testing.assert_allclose(d, sums - x, atol=1e-6)
    np.testing.assert_allclose(e, np.cumprod(x, 1), rtol=1e-5)
    np.testing.assert_array_equal(f[:, 0], (sums[s[:, 0]] <= u).sum(1))
    with ingot.target.Target("cuda"):
        there = DispatchSortScan()(mod)
    assert all(there[n].attrs["tir.is_scheduled"] for n in ("sort", "topk", "cumsum"))
