"""Convolutions on GPUs as implicit products: images, groups, strides, borders, and what follows, keep the meaning."""
import pytest
from gpu_cases import GPU, funcs, meaning_kept, scheduled
from onnx import TensorProto, helper

import ingot
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu import product as rule
from ingot.ir.schedule.rules.gpu.product import gpu_product
from ingot.ir.schedule.rules.gpu.products import TILES, SimtTile

SMALL = SimtTile(8, 8, 4, 4, 2, 32)


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    monkeypatch.setattr(rule, "TILES", (*TILES, SMALL))


@pytest.mark.parametrize("name", [
    "conv_3x3", "conv_3x3_odd_channels", "conv_3x3_strided", "conv_3x3_dilated", "conv_1x1", "conv_1x1_odd_channels",
    "conv_grouped", "conv_grouped_odd", "conv_grouped_narrow", "conv_symbolic_batch", "conv_symbolic_size",
    "conv_batch", "conv_residual", "conv_residual_odd", "conv_computed_weight", "conv1d", "conv_transpose",
    "conv_transpose_whole", "conv_transpose_odd", "conv_transpose_uneven", "conv_transpose_symbolic",
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


def test_a_tile_that_a_device_has_no_room_for_gives_way_to_the_next_rule():
    """Columns of a tile that lie across rows of images of 38 reach far: the tile would take megabytes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 16, 50, 40])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 13, 48, 38])
    w = helper.make_tensor("w", TensorProto.FLOAT, [13, 16, 3, 3], [1.0] * (13 * 16 * 9))
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], name="odd")], "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    kernel, = ingot.compile(model, target="cuda-sm_80").model.kernels.values()
    assert "gpu_product" in kernel.comment and "bytes" in kernel.comment  # as what was refused
