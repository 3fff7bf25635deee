"""Which algorithm computes a convolution: the predictions, the pass, its override, and what is refused."""
import numpy as np
import pytest

from ingot.codegen.compile import Options
from ingot.ir.expr import Var
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.schedule.cpu import CpuModel
from ingot.ir.transform.choose_convolution import (ALGORITHMS, ConvLayer, check_algorithms, choose_convolution, fastest,
                                                   predict)
from ingot.ir.transform.pass_table import RELAX

LANES = 4
CPU = CpuModel(LANES, 32)


def network(*layers, inner=LANES, batch=1, size=(8, 8)):
    """A chain of blocked convolutions of 8 channels; a layer: (kernel, attributes). They are named conv0, conv1 ..."""
    rng = np.random.default_rng(0)
    x = RelaxVar("x", TensorStructInfo((batch, 2, *size, LANES), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = x
        for n, (kernel, attrs) in enumerate(layers):
            w = rng.standard_normal((8, 8, kernel, kernel)).astype(np.float32)
            pad = kernel // 2
            y = bb.emit(call_op("nn.conv2d", y, Constant(pack_weights(w, LANES, inner=inner), "w"), **{
                "data_layout": f"NCHW{LANES}c", "kernel_layout": f"OIHW{inner}i{LANES}o", "out_channels": 8,
                "padding": (pad,) * 4, **attrs}), f"conv{n}")
        bb.emit_func_output(y)
    return bb.get()


def operators(mod):
    return [b.value.op for b in mod["main"].bindings]


def algorithms(mod):
    return ["direct" if b.value.op == "nn.conv2d" else f"winograd{b.value.attrs['tile']}"
            for b in mod["main"].bindings]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("inner", [LANES, 2])
def test_every_algorithm_computes_the_same(algorithm, inner):
    """Also from weights in smaller blocks of input channels."""
    mod = network((3, {}), inner=inner)
    new = RELAX["ChooseConvolution"](CPU, False, {"conv0": algorithm})(mod)
    assert algorithms(new) == [algorithm]
    x = np.random.default_rng(1).standard_normal((1, 2, 8, 8, LANES)).astype(np.float32)
    np.testing.assert_allclose(evaluate(new, [x]), evaluate(mod, [x]), rtol=1e-4, atol=2e-4)


def test_the_fastest_is_chosen_unless_exact():
    mod = network((3, {}), (1, {}), (3, {"strides": (2, 2)}), (3, {"dilation": (2, 2)}),
                  size=(16, 16))
    chosen = algorithms(choose_convolution(mod, CPU))
    assert chosen[0] == fastest(ConvLayer(8, 8, 16, 16), CPU) != "direct"
    assert chosen[1:] == ["direct"] * 3
    assert algorithms(choose_convolution(mod, CPU, exact=True)) == ["direct"] * 4
    assert algorithms(choose_convolution(mod, CPU, False, {"conv0": "direct"})) == ["direct"] * 4


def test_a_batch_may_be_symbolic_and_an_image_not():
    batch = network((3, {}), batch=Var("n", "int64"), size=(16, 16))
    assert algorithms(choose_convolution(batch, CPU)) != ["direct"]
    image = network((3, {}), size=(8, Var("w", "int64")))
    assert algorithms(choose_convolution(image, CPU)) == ["direct"]


@pytest.mark.parametrize("chosen, exact, message", [
    ({"conv7": "direct"}, False, "names 'conv7', which is no convolution of this network; it has conv0, conv1"),
    ({"conv0": "fft"}, False, r"algorithms\['conv0'\] must be one of direct, winograd2, winograd4, winograd6, not 'fft'"),
    ({"conv1": "winograd4"}, False, r"algorithms\['conv1'\] is 'winograd4', but this convolution .* can only be direct"),
    ({"conv0": "winograd4"}, True, r"algorithms\['conv0'\] is 'winograd4', which exact excludes"),
])
def test_what_does_not_fit_is_refused(chosen, exact, message):
    with pytest.raises(ValueError, match=message):
        choose_convolution(network((3, {}), (3, {"strides": (2, 2)})), CPU, exact, chosen)


def test_options():
    options = Options.check(exact=True, algorithms={"conv0": "direct"})
    assert options.exact and options.algorithms == (("conv0", "direct"),)
    with pytest.raises(ValueError, match="algorithms is a mapping of model nodes to direct, winograd2"):
        check_algorithms(["conv0"])
    with pytest.raises(ValueError, match="algorithms are chosen at opt_level 2 only, not 1"):
        Options.check(opt_level=1, algorithms={"conv0": "direct"})


# ---------------------------------------------------------------- predictions

AVX512 = CpuModel(16, 32, parallel=False)
# Measured on one core of a server (AVX-512, 2.7 GHz, cache of 2 MB), milliseconds: fastest of many runs.
MEASURED = [((64, 64, 56), {"direct": 1.45, "winograd2": 0.80, "winograd4": 0.50, "winograd6": 0.59}),
            ((128, 128, 28), {"direct": 1.45, "winograd2": 0.78, "winograd4": 0.47, "winograd6": 0.55}),
            ((256, 256, 14), {"direct": 1.40, "winograd2": 0.73, "winograd4": 0.81, "winograd6": 0.92}),
            ((512, 512, 7), {"direct": 1.4, "winograd2": 1.6}), ((512, 512, 28), {"direct": 25, "winograd4": 9.0}),
            ((512, 512, 14), {"direct": 5.7, "winograd2": 3.3, "winograd4": 3.8}),
            ((192, 192, 7), {"direct": 0.20, "winograd2": 0.20}),
            ((32, 32, 35), {"direct": 0.16, "winograd2": 0.10, "winograd4": 0.066, "winograd6": 0.063}),
            ((128, 32, 28), {"direct": 0.42, "winograd2": 0.21, "winograd4": 0.135, "winograd6": 0.19}),
            ((128, 32, 7), {"direct": 0.034, "winograd2": 0.026})]


@pytest.mark.parametrize("layer, measured", MEASURED, ids=str)
def test_predictions_are_near_measurements(layer, measured):
    channels, outputs, size = layer
    predicted = predict(ConvLayer(channels, outputs, size, size), AVX512)
    assert list(predicted) == list(ALGORITHMS)
    for name, milliseconds in measured.items():
        assert 0.6 < predicted[name] * 1e3 / milliseconds < 1.7, (name, predicted[name])
    chosen = fastest(ConvLayer(channels, outputs, size, size), AVX512)
    assert measured[chosen] <= 1.2 * min(measured.values())


def test_other_convolutions_are_direct():
    for layer in (ConvLayer(64, 64, 28, 28, strides=(2, 2)), ConvLayer(64, 64, 28, 28, kernel=(1, 1)),
                  ConvLayer(64, 64, 28, 28, groups=2)):
        assert list(predict(layer, AVX512)) == ["direct"]
    assert fastest(ConvLayer(512, 512, 3, 3), AVX512) == "direct", "more weights than there is work for"
