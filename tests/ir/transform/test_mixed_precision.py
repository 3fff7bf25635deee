"""ToMixedPrecision: products of float16 or bfloat16 in float32 models."""
import numpy as np
import pytest

import ingot
from ingot.codegen.compile import Options, lower, optimize
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import Constant
from ingot.ir.transform.pass_table import RELAX
from networks import SMALL, feeds_of

DTYPES = ("float16", "bfloat16")


def module(build, *shapes):
    params = [RelaxVar(f"x{n}", TensorStructInfo(shape, "float32")) for n, shape in enumerate(shapes)]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(build(bb, *params))
    return bb.get()


def operators(mod):
    """[(operator, dtypes of its arguments, dtype of its result)]"""
    return [(b.value.op, [str(getattr(a.struct_info, "dtype", "")) for a in b.value.args],
             str(getattr(b.value.struct_info, "dtype", ""))) for b in mod["main"].bindings if hasattr(b.value, "op")]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_and_what_follows_it(dtype):
    """y = max(x w + b, 0), whose exponential is float32 again; constants are rounded, not cast in each run."""
    w, b = Constant(np.ones((4, 3), np.float32), "w"), Constant(np.ones(3, np.float32), "b")

    def build(bb, x):
        y = bb.emit(call_op("nn.relu", bb.emit(call_op("add", bb.emit(call_op("matmul", x, w)), b))))
        return bb.emit(call_op("exp", y))
    mod = RELAX["ToMixedPrecision"](dtype)(module(build, (2, 4)))
    assert operators(mod) == [
        ("astype", ["float32"], dtype), ("matmul", [dtype, dtype], dtype), ("add", [dtype, dtype], dtype),
        ("nn.relu", [dtype], dtype), ("astype", [dtype], "float32"), ("exp", ["float32"], "float32")]
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(evaluate(mod, [x]), np.exp(np.maximum(x @ w.data + 1, 0)), rtol=3e-2)


def test_nothing_changes_without_a_product():
    mod = module(lambda bb, x, y: bb.emit(call_op("add", x, y)), (3,), (3,))
    assert operators(RELAX["ToMixedPrecision"]("float16")(mod)) == operators(mod)


def test_constants_beyond_the_range_are_its_ends_and_infinities_stay():
    """Masks of attention are as small as float32 has them: -inf in all of a row would be no number."""
    mask = Constant(np.array([-3e38, 1e30, -np.inf, 1], np.float32), "mask")

    def build(bb, x, y):
        return bb.emit(call_op("add", bb.emit(call_op("matmul", x, y)), mask))
    mod = RELAX["ToMixedPrecision"]("float16")(module(build, (1, 1), (1, 4)))
    found = next(a for b in mod["main"].bindings for a in b.value.args if isinstance(a, Constant))
    np.testing.assert_array_equal(found.data, np.array([-65504, 65504, -np.inf, 1], np.float16))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["conv_net", "attention_net", "unet"])
def test_networks_are_near_their_float32(name, dtype):
    model = SMALL[name]()
    mod, feeds = ingot.from_onnx(model, name=name), [*feeds_of(model).values()]
    mixed = RELAX["ToMixedPrecision"](dtype)(RELAX["DecomposeOpsForInference"]()(mod))
    assert any(op in ("matmul", "nn.conv2d") and given[0] == dtype for op, given, _ in operators(mixed))
    assert [o.struct_info.dtype for o in mixed["main"].outputs] == ["float32"] * len(mod["main"].outputs)
    expected, found = evaluate(mod, feeds), evaluate(mixed, feeds)
    error = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
    assert 0 < error < (2e-3 if dtype == "float16" else 2e-2)


def test_the_option_is_refused_for_what_it_is_not():
    with pytest.raises(ValueError, match="dtype must be one of float32, float16, bfloat16, not 'int8'"):
        Options.check(dtype="int8")


def test_weights_take_half_the_bytes():
    mod = ingot.from_onnx(SMALL["autoencoder"](), name="net")
    whole, half = (lower(mod, Options.check(target="cuda-sm_80", dtype=d)) for d in ("float32", "float16"))

    def weight_bytes(stages):
        return sum(a.data.nbytes for b in stages.tir["main"].bindings
                   for a in getattr(b.value, "args", ()) if isinstance(a, Constant))
    assert weight_bytes(half) == weight_bytes(whole) // 2
    assert "float16" in optimize(mod, Options.check(target="c", dtype="float16")).script()
