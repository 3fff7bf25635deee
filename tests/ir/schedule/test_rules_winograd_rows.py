"""The rule for Winograd convolutions along one axis: it keeps results at every size; its tiles and its model."""
import numpy as np
import pytest
from rule_cases import checked, followed, kernels, network

from ingot.ir.expr import Select
from ingot.ir.node import collect
from ingot.ir.relax import Constant
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.winograd_rows import input_size, transform_rows
from ingot.ir.schedule.plan import Tile, choose
from ingot.ir.schedule.rules.winograd_row_tiles import Layer
from ingot.ir.schedule.rules.winograd_rows import winograd_rows
from ingot.ir.tir.stmt import For, IfThenElse
from machines import machine, set_costs

CPUS = {16: machine(16, 32), 8: machine(8, 16), 4: machine(4, 32, parallel=False, accumulators=21, by_element=True)}


def kernel(lanes, tile, size, weights=(3, 1, 3, 3), strides=(1, 1), batch=1, epilogue="relu", pad=(0, 0, 0, 0)):
    """The PrimFunc of a convolution with `size` points of results, and what follows it. pad: zeros that it puts around
    the image (top, bottom, left, right)."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(weights).astype(np.float32)
    u = Constant(transform_rows(pack_weights(w, lanes), tile, strides[0]), "u")
    blocks = -(-weights[0] // lanes)
    rows, columns = input_size(tile, weights[2:], strides, size)
    shapes = [(batch, weights[1], rows - sum(pad[:2]), columns - sum(pad[2:])), (batch, blocks, *size, lanes),
              (1, blocks, 1, 1, lanes)]

    def build(op, x, residual, bias):
        if any(pad):
            x = op("nn.pad", x, pad_width=(0, 0, 0, 0, *pad))
        y = op("nn.conv2d_winograd_rows", x, u, tile=tile, kernel=weights[2:], strides=strides, size=size,
               out_channels=weights[0])
        return followed(op, y, epilogue, residual, bias)

    func, = kernels(lambda: network(build, shapes), CPUS[lanes])
    return func


@pytest.mark.parametrize("lanes, tile, size, options", [
    (4, 4, (9, 5), {"weights": (6, 1, 10, 4), "strides": (2, 2)}), (4, 2, (5, 4), {}),
    (8, 4, (8, 9), {"weights": (16, 3, 3, 3), "epilogue": "residual"}),
    (16, 4, (3, 7), {"weights": (20, 2, 5, 3), "strides": (2, 1), "epilogue": "none"}),
    (4, 2, (7, 3), {"weights": (3, 1, 5, 2), "strides": (1, 3), "batch": 2, "epilogue": "silu"}),
    (8, 2, (2, 4), {"batch": "n"}), (4, 6, (13, 4), {"weights": (5, 2, 3, 4)}),
])
def test_results_are_kept(lanes, tile, size, options, monkeypatch):
    set_costs(monkeypatch, {"threads.least_work": 1})
    checked(winograd_rows, kernel(lanes, tile, size, **options), CPUS[lanes])


@pytest.mark.parametrize("lanes, tile, size, options", [
    (4, 4, (12, 5), {"pad": (1, 1, 1, 1)}), (4, 2, (8, 4), {"pad": (0, 1, 0, 1), "batch": "n"}),
    (8, 4, (9, 9), {"weights": (16, 3, 5, 5), "pad": (2, 3, 2, 2), "epilogue": "residual"}),
    (16, 4, (13, 7), {"weights": (20, 2, 10, 4), "strides": (2, 2), "pad": (5, 9, 1, 1), "epilogue": "none"}),
    (4, 2, (2, 4), {"pad": (1, 1, 2, 0)}),  # each row of tiles sees the whole image
])
def test_an_image_that_is_padded_where_it_is_read(lanes, tile, size, options, monkeypatch):
    """No kernel stores it. Threads copy their own rows, and nothing is asked inside of the sums."""
    set_costs(monkeypatch, {"threads.least_work": 1})
    lowered = checked(winograd_rows, kernel(lanes, tile, size, **options), CPUS[lanes])
    assert not any(collect(loop, IfThenElse) for loop in collect(lowered.body, For)
                   if loop.annotations.get("pragma_unroll") == 1)


# tiny_dscnn's and tiny_resnet8's first layers, and VGG's.
LAYERS = {"dscnn": Layer(4, 8, 8, 4, 7, 5, 2), "resnet8": Layer(4, 6, 9, 1, 8, 32, 9),
          "vgg": Layer(4, 6, 9, 4, 56, 224, 45)}


@pytest.mark.parametrize("name, tile, block", [
    ("dscnn", Tile(4, 1, 5), 5), ("resnet8", Tile(1, 1, 16), 32), ("vgg", Tile(2, 1, 14), 14)])
def test_tiles_and_blocks(name, tile, block):
    """Blocks of columns whose products, of all planes and channels, half of the first cache holds."""
    plan = choose(LAYERS[name], machine(16, 32))
    assert (plan.tile, plan.block) == (tile, block)


def test_blocks_of_columns_keep_results():
    """23 columns in blocks of 10, tiles of 5: the last block has less."""
    func, cpu = kernel(4, 4, (5, 23), weights=(8, 2, 3, 3)), machine(4, 32, l1_bytes=4096, parallel=False)
    assert choose(Layer(4, 6, 6, 2, 2, 23, 14), cpu).block < 23
    checked(winograd_rows, func, cpu)


def test_no_sum_is_chosen_while_it_runs():
    """Each copy of a loop over planes or rows takes one sum."""
    lowered = checked(winograd_rows, kernel(8, 4, (8, 9)), CPUS[8])
    assert not collect(lowered.body, Select)
