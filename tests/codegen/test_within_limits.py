"""Networks whose first images are computed in bands of rows, to keep --ram-limit:
the same answers in a smaller arena."""
import functools

import numpy as np
import pytest
from guards import run_guarded
from onnx import helper

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.limits import LimitError, ram_use
from ingot.codegen.toolchain import missing_tools
from ingot.runtime.emulated import EmulatedLibrary
from ingot.runtime.library import CompiledLibrary
from networks import feeds_of, make_model

node = helper.make_node
LAYERS = ((8, 3, 2, 1), (8, 3, 1, 8), (12, 1, 1, 1), (12, 3, 2, 12), (16, 1, 1, 1))
TIGHT = 3 / 5  # of the arena


@functools.lru_cache
def mobile(integers):
    """Convolutions of 3x3, depthwise and 1x1 on an image of 32x30, of which the first results are the largest, a
    residual sum between them; in floats, or in bytes."""
    rng, weights, nodes, x, c = np.random.default_rng(5), {}, [], "image", 3
    if integers:
        weights |= {"s": np.float32(0.05), "z": np.int8(3), "ws": np.float32(0.02), "wz": np.int8(0),
                    "ys": np.float32(0.1)}
        nodes.append(node("QuantizeLinear", [x, "s", "z"], ["q"], name="quantize"))
        x = "q"
    for n, (outputs, k, stride, groups) in enumerate(LAYERS):
        shape = (outputs, c // groups, k, k)
        window = dict(strides=[stride] * 2, pads=[k // 2] * 4, group=groups, name=f"conv{n}")
        if integers:
            weights[f"w{n}"] = rng.integers(-90, 90, shape).astype(np.int8)
            nodes.append(node("QLinearConv", [x, "s", "z", f"w{n}", "ws", "wz", "s", "z"], [f"c{n}"], **window))
            x = f"c{n}"
        else:
            weights[f"w{n}"] = rng.standard_normal(shape).astype(np.float32) * np.float32(0.3)
            nodes += [node("Conv", [x, f"w{n}"], [f"c{n}"], **window),
                      node("Relu", [f"c{n}"], [f"r{n}"], name=f"relu{n}")]
            nodes += [node("Add", [f"r{n}", x], [f"a{n}"], name=f"add{n}")] if n == 1 else []
            x = f"a{n}" if n == 1 else f"r{n}"
        c = outputs
    nodes += [node("DequantizeLinear", [x, "s", "z"], ["d"], name="dequantize")] if integers else []
    nodes.append(node("GlobalAveragePool", ["d" if integers else x], ["y"], name="mean"))
    return make_model("mobile", nodes, {"image": (np.float32, [1, 3, 32, 30])},
                      {"y": (np.float32, [1, c, 1, 1])}, weights)


@functools.lru_cache
def compiled(integers, target, limit=None):
    options = Options.check(target=target, threads="none", accuracy="strict", ram_limit=limit or 1 << 30)
    return compile_module(ingot.from_onnx(mobile(integers)), options)


def in_bands(integers, target):
    """The network with RAM that it keeps only with an arena of TIGHT of what it has."""
    whole = compiled(integers, target)
    limit = ram_use(whole).bytes - int(whole.arena_bytes * (1 - TIGHT))
    small = compiled(integers, target, limit)
    assert ram_use(small).bytes <= limit and small.arena_bytes <= TIGHT * whole.arena_bytes
    assert small.program.weights_bytes == whole.program.weights_bytes
    return small


@pytest.mark.parametrize("integers, target", [(False, "c"), (True, "c"), (False, "x86-64-v3")])
def test_answers_are_the_same_bit_by_bit_in_less_ram(integers, target, tmp_path):
    feeds = feeds_of(mobile(integers))
    with CompiledLibrary(compiled(integers, target)) as whole, CompiledLibrary(in_bands(integers, target)) as small:
        np.testing.assert_array_equal(small(*feeds.values()), whole(*feeds.values()))
        run_guarded(small, feeds, tmp_path)


def test_the_error_says_what_bands_reach():
    with pytest.raises(LimitError, match="takes at least .*; what sets it is .*; allow as many: --ram-limit") as error:
        compile_module(ingot.from_onnx(mobile(True)), Options.check(target="cortex-m4f", ram_limit=100))
    least, whole = int(str(error.value).rsplit(" ", 1)[1]), compiled(True, "cortex-m4f")
    assert least < ram_use(whole).bytes - whole.arena_bytes / 2


def test_on_a_board():
    if reason := missing_tools("cortex-m4f"):
        pytest.skip(reason)
    x = feeds_of(mobile(True))["image"]
    with EmulatedLibrary(in_bands(True, "cortex-m4f")) as small, EmulatedLibrary(compiled(True, "cortex-m4f")) as whole:
        np.testing.assert_array_equal(small(x), whole(x))
