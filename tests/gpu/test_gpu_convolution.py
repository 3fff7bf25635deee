"""Convolutions on GPUs as implicit products: images, groups, strides, borders, and what follows, keep the meaning."""
from dataclasses import replace

import pytest
from gpu_cases import GPU, funcs, meaning_kept, scheduled
from onnx import TensorProto, helper

import ingot
from ingot.codegen.compile import Options, lower
from ingot.codegen.target import Target
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu import product as rule
from ingot.ir.schedule.rules.gpu.product import gpu_product
from ingot.ir.schedule.rules.gpu.products import TILES, SimtTile

SMALL = SimtTile(8, 8, 4, 4, 2, 32)


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    monkeypatch.setattr(rule, "TILES", (*TILES, SMALL))


@pytest.mark.parametrize("name", [
    "conv_3x3_odd_channels", "conv_3x3_strided", "conv_3x3_dilated", "conv_1x1", "conv_grouped_odd",
    "conv_grouped_narrow", "conv_symbolic_batch", "conv_symbolic_size", "conv_batch", "conv_residual_odd",
    "conv_computed_weight", "conv1d", "conv_transpose_odd", "conv_transpose_uneven", "conv_transpose_symbolic",
    "conv_transpose_dilated", "conv_transpose_grouped", "conv_int32"])
def test_convolutions_keep_the_meaning(name):
    found = [f for f in funcs(name) if gpu_product(Schedule(f), GPU) is not None]
    assert found
    for func in found:
        meaning_kept(func, scheduled(func, SMALL.name), atol=1e-4)


def test_sums_over_channels_and_weights_in_parts():
    func = funcs("conv_residual")[-1]
    meaning_kept(func, scheduled(func, SMALL.name, 3), atol=1e-4)


def test_one_filter_is_left_to_other_rules():
    """A channel of its own, or few of them, share no operand in a tile."""
    for name in ("conv_depthwise", "conv_depthwise_strided", "conv_transpose_few", "conv_1x1_one_pixel"):
        assert all(gpu_product(Schedule(func), GPU) is None for func in funcs(name)), name


def convolution(batch, channels, filters, height, width, kernel):
    """A network of one convolution, called odd."""
    shape = [batch, filters, height - kernel + 1, width - kernel + 1]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, height, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    count = filters * channels * kernel ** 2
    w = helper.make_tensor("w", TensorProto.FLOAT, [filters, channels, kernel, kernel], [1.0] * count)
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], name="odd")], "g", [x], [y], [w])
    return ingot.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def chosen(mod, **limits):
    """(rule, why others were refused) of the kernel of a network, on a device of such limits."""
    target = Target.get("cuda-sm_80")
    target = target.derive(target.name, launch=replace(target.launch, **limits))
    kernel, = lower(mod, Options.check(target=target)).kernels.values()
    return kernel.attrs["plan"].rule, kernel.attrs.get("refused", "")


@pytest.mark.parametrize("sizes", [
    (20, 16, 13, 50, 40, 3), (20, 16, 64, 50, 42, 3), (1, 3, 64, 226, 226, 3), (3, 16, 24, 71, 38, 5)])
def test_tiles_cross_rows_and_images(sizes):
    """Columns of a tile are a row of points, whatever they cross: 38 of a row, 1824 of an image of several."""
    assert chosen(convolution(*sizes)) == ("gpu_product", "")


def test_a_tile_that_a_device_has_no_room_for_gives_way_to_the_next_rule():
    rule, refused = chosen(convolution(1, 16, 64, 34, 34, 3), max_registers=8)
    assert rule != "gpu_product" and "a thread would hold" in refused
