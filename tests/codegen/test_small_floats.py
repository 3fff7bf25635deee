"""float16, bfloat16 and float8 in C: conversions against numpy and ml_dtypes, programs, and a network."""
import ctypes
import re
import subprocess

import numpy as np
import pytest
from c_build import COMPILERS, call, compile_text, source
from onnx import TensorProto, helper, numpy_helper
from tir_cases import arguments, matmul_te, results

import ingot
from ingot.codegen.c_expr import EmitError
from ingot.codegen.c_function import print_function
from ingot.codegen.c_types import UnsupportedType
from ingot.ir import te, tir
from ingot.ir.dtype import DataType
from ingot.ir.expr import Cast, const
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.ir.transform.pass_table import TIR
from ingot.tir import transform as T

NAMES = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
ALL_NAMES = {**NAMES, "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0",
             "float4_e2m1fn": "e2m1"}


def bits_dtype(dtype):
    return np.dtype(f"u{DataType(dtype).bytes}")


def mixed_te(dtype):
    """Loads, stores, arithmetic, a choice, a temporary, an explicit rounding and casts from and to integers."""
    x, n = te.placeholder((5, 6), dtype, "x"), te.placeholder((6,), "int32", "n")
    a = te.compute((5, 6), lambda i, j: x[i, j] * const(1.5, dtype) + tir.cast(n[j], dtype), "a")
    b = te.compute((5, 6), lambda i, j: tir.select(a[i, j] > const(0, dtype), tir.sqrt(tir.abs(a[i, j])), x[i, j]), "b")
    rounded = te.compute((5, 6), lambda i, j: tir.cast(tir.cast(Cast(dtype, tir.cast(x[i, j], "float32") * 1.0625),
                                                                "float32") * 4.0, "int32"), "rounded")
    return te.create_prim_func([x, n, b, rounded])


def programs():
    return {f"{make.__name__}_{short}": make(dtype) if make is mixed_te else make(5, 7, 9, dtype)
            for dtype, short in NAMES.items() for make in (matmul_te, mixed_te)}


@pytest.fixture(scope="module", params=[*COMPILERS, "gcc -O3 -march=native"])
def built(request, tmp_path_factory):
    """(the library, {name: (PrimFunc, lowered)}): all programs, and a loop over each conversion."""
    compiler, *flags = request.param.split()
    funcs = {name: (f, lower_prim_func(f)) for name, f in programs().items()}
    text = source([print_function(lowered, name) for name, (_, lowered) in funcs.items()])
    for dtype, short in ALL_NAMES.items():
        small = f"uint{8 * DataType(dtype).bytes}_t"
        for name, a, b in ((f"ingot_{short}_to_f32", small, "float"), (f"ingot_f32_to_{short}", "float", small)):
            head = f"void all_{name}(const {a} *x, {b} *y, int32_t n)"
            text += f"{head};\n{head} {{ for (int32_t i = 0; i < n; ++i) y[i] = {name}(x[i]); }}\n"
    head = "void from_double(const double *x, uint16_t *y, int32_t n)"
    text += f"{head};\n{head} {{ for (int32_t i = 0; i < n; ++i) y[i] = ingot_f32_to_f16(ingot_f64_to_odd(x[i])); }}\n"
    return compile_text(text, tmp_path_factory.mktemp("c"), compiler, flags), funcs


def converted(library, name, x, dtype):
    y = np.empty(x.shape, dtype)
    getattr(library, name)(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), x.size)
    return y


def assert_same_bits(got, expected, bits):
    """Equal bit for bit, but for which NaN it is."""
    nan = np.isnan(expected.astype(np.float32))
    assert np.array_equal(np.isnan(got.astype(np.float32)), nan)
    assert np.array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("dtype", ALL_NAMES)
def test_conversions_are_those_of_numpy(built, dtype):
    library, bits = built[0], bits_dtype(dtype)
    every = np.arange(1 << DataType(dtype).bits, dtype=bits)
    wide = every.view(DataType(dtype).numpy).astype(np.float32)
    assert_same_bits(converted(library, f"all_ingot_{ALL_NAMES[dtype]}_to_f32", every, np.float32), wide, np.uint32)

    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        between = ((wide[:-1].astype(np.float64) + wide[1:]) / 2).astype(np.float32)
        near = [np.nextafter(between, np.float32(toward)) for toward in (-np.inf, np.inf)]
        scale = np.float32(10.0) ** rng.integers(-12, 6, 200000).astype(np.float32)
        x = np.concatenate([
            wide, between, *near, rng.standard_normal(200000).astype(np.float32) * scale,
            rng.integers(0, 1 << 32, 500000, np.uint32).view(np.float32),
            np.array([0, -0.0, 448, 464, 464.1, 57344, 61440, 65504, 65519.9, 65520, np.inf, -np.inf], np.float32)])
        if dtype == "float4_e2m1fn":  # which has no NaN
            x = x[~np.isnan(x)]
        if dtype == "float8_e8m0fnu":  # ml_dtypes does not round denormals to the nearest
            x = x[~((x > 2.0 ** -127) & (x < 2.0 ** -126))]
        expected = x.astype(DataType(dtype).numpy)
    got = converted(library, f"all_ingot_f32_to_{ALL_NAMES[dtype]}", x, bits).view(DataType(dtype).numpy)
    assert_same_bits(got, expected, bits)


def test_doubles_are_rounded_once(built):
    wide = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    wide = wide[np.isfinite(wide)]
    middle = (wide[:-1] + wide[1:]) / 2
    x = np.concatenate([wide, middle, middle * (1 + 1e-12), middle * (1 - 1e-12), [1e30, -1e30, np.inf, 1e-300]])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    assert_same_bits(converted(built[0], "from_double", x, np.uint16).view(np.float16), expected, np.uint16)


@pytest.mark.parametrize("name", programs())
def test_programs_compute_in_float32(built, name):
    """As close to exact as the type allows, and just as the interpreter says the lowered program does."""
    library, funcs = built
    func, lowered = funcs[name]
    inputs = [x if x.dtype.kind == "i" else x * np.asarray(0.5, x.dtype) for x in arguments(func)]
    stored = [x.view(b.dtype.numpy) for x, b in zip(inputs, lowered.buffers)]
    said = results(verify(lowered), stored)
    ran = [x.copy() for x in stored]
    call(library, lowered, name, ran)
    for a, b in zip(ran, said):
        assert np.array_equal(a, b)
    exact = results(func, inputs)
    eps = {"float16": 2 ** -10, "bfloat16": 2 ** -7, "float8_e4m3fn": 2 ** -3, "float8_e5m2": 2 ** -2}[
        str(func.buffers[0].dtype)]
    for a, b, x in zip(ran, exact, inputs):
        if x.dtype.kind != "i":
            b = b.astype(np.float32)
            np.testing.assert_allclose(a.view(x.dtype).astype(np.float32), b, atol=8 * eps * np.abs(b).max())


# ---------------------------------------------------------------- the passes

def test_legalization_leaves_float32_and_bits():
    func = matmul_te(3, 4, 5, "bfloat16")
    for make in (T.LowerInitBlock, T.PlanAndUpdateBufferAllocationLocation, T.ConvertBlocksToOpaque,
                 TIR["LowerOpaqueBlock"], TIR["FlattenBuffer"]):
        func = make()(IRModule({"main": func}))["main"]
    other = T.FP8ComputeLegalize()(IRModule({"main": func}))["main"]
    assert other is func, "passes for other types leave it alone"
    wide = verify(T.BF16ComputeLegalize()(IRModule({"main": func}))["main"])
    temporary, = collect(wide.body, tir.DeclBuffer)
    assert temporary.buffer.dtype == "float32"
    assert all(e.dtype != "bfloat16" for e in collect(wide.body, (tir.Add, tir.Mul, tir.Max)))
    stored = verify(T.BF16StorageLegalize()(IRModule({"main": wide}))["main"])
    assert {str(b.dtype) for b in stored.buffers} == {"uint16"}
    inputs = [x.view(np.uint16) for x in arguments(matmul_te(3, 4, 5, "bfloat16"))]
    for a, b in zip(results(stored, inputs), results(lower_prim_func(matmul_te(3, 4, 5, "bfloat16")), inputs)):
        assert np.array_equal(a, b)


def test_values_that_only_move_are_not_converted():
    x = te.placeholder((4, 6), "float16", "x")
    func = te.create_prim_func([x, te.compute((6, 4), lambda i, j: x[j, i], "transpose")])
    assert "ingot_half.h" not in print_function(lower_prim_func(func), "f").uses


def test_what_c_does_not_compute_or_hold():
    y = tir.decl_buffer((8,), "float16", "y")
    func = tir.prim_func([y], tir.BufferStore(y, y[0] + y[1], (const(0),)))
    with pytest.raises(EmitError, match="C does not compute in float16; run SmallFloatComputeLegalize first"):
        print_function(func.replace(body=func.root.body), "f")
    cast = tir.prim_func([y], tir.BufferStore(y, Cast("float16", const(3)), (const(0),)))
    with pytest.raises(EmitError, match="C does not convert int32 to float16; run SmallFloatComputeLegalize"):
        print_function(cast.replace(body=cast.root.body), "f")
    z = tir.decl_buffer((8,), "int1", "packed")
    func = tir.prim_func([z, y], tir.BufferStore(y, const(0, "float16"), (const(0),)))
    with pytest.raises(UnsupportedType, match="packed: dtype int1 has no C type; it must be one of float32"):
        print_function(lower_prim_func(func), "f")


# ---------------------------------------------------------------- a network

def half_network():
    """Conv + Relu, MaxPool, Gemm and Softmax of float16."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)) * 0.2, "b": rng.standard_normal(8),
               "w2": rng.standard_normal((128, 10)) * 0.1, "b2": rng.standard_normal(10)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w2", "b2"], ["g"]),
             helper.make_node("Softmax", ["g"], ["y"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, s)
              for n, s in (("x", (1, 3, 8, 8)), ("y", (1, 10)))]
    graph = helper.make_graph(nodes, "half", values[:1], values[1:],
                              [numpy_helper.from_array(v.astype(np.float16), n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_float16_network():
    import onnxruntime
    model = half_network()
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float16)
    expected, = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    with ingot.compile(model) as library:
        y = library(x)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.astype(np.float32), expected.astype(np.float32), atol=4e-3)


def test_the_self_test_compares_values_not_bits(tmp_path):
    ingot.compile(half_network()).export(tmp_path / "half")
    done = subprocess.run(["make", "-C", tmp_path / "half", "check", "OPENMP=0"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    largest = float(re.search(r"y: max error \S+ of (\S+): ok", done.stdout)[1])
    assert 0 < largest <= 1  # of probabilities
