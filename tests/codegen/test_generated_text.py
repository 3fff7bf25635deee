"""The generated C is readable: weights and borders have names, names are short, lines have at most 120 columns."""
import re
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen.c_layout import WIDTH
from ingot.codegen.c_program import ProgramPrinter
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.kernels import kernel_names
from ingot.codegen.tiles import MOST_LETTERS, tile_name, without_tile
from ingot.ir.names import ending
from ingot.ir.relax.expr import Origin
from networks import SMALL, make_model

F32 = np.float32
TARGETS = ("x86-64-v4", "c", "armv7-linux-gnueabihf", "aarch64-linux-gnu")


def compiled(model, name="model", **options):
    mod = ingot.from_onnx(model, name=name)
    return compile_module(mod, Options.check(**{"target": "x86-64-v4", "name": name, **options}))


# ---------------------------------------------------------------- weights

def product(weight="w.weight"):
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", weight], ["m"], name="product"),
             helper.make_node("Add", ["m", "bias"], ["y"], name="add")]
    return make_model("net", nodes, {"x": (F32, [3, 8])}, {"y": (F32, [3, 5])},
                      {weight: rng.random((8, 5), F32), "bias": rng.random(5, F32)})


def places(text):
    """{name: offset} and {name: what it is} of the table of weights."""
    rows = re.findall(r"^    (\w+) = (\d+),? +/\* (.*) \*/$", text, re.MULTILINE)
    return {name: int(offset) for name, offset, _ in rows}, {name: what for name, _, what in rows}


def test_weights_are_a_table_with_types_and_shapes():
    model = compiled(product(), target="c", threads="none")
    text = model.files()["model.c"]
    offsets, what = places(text)
    assert list(offsets.values()) == [w.offset for w in model.program.weights]
    assert list(offsets) == ["w_weight_at", "bias_at"]
    assert what["w_weight_at"].startswith("float32[") and what["bias_at"].startswith("float32[")
    assert "WEIGHT(w_weight_at), WEIGHT(bias_at)" in text and not re.search(r"\bw \+ \d", text)


@pytest.mark.parametrize("name, expected", [
    ("bias_at", "bias_at_at"), ("net", "net_at"), ("a" * 90, None),
    ("layer/0/" + "b" * 40 + "/weight", "b" * 40 + "_weight_at")])
def test_names_of_weights_are_their_own(name, expected):
    text = compiled(product(name), target="c", threads="none").files()["model.c"]
    offsets, _ = places(text)
    assert len(offsets) == 2 and all(len(known) <= 63 for known in offsets)
    assert expected is None or expected in offsets


def test_weights_of_more_bytes_than_an_int_has_are_no_enumeration():
    model = compiled(product(), target="c", threads="none")
    far = tuple(replace(w, offset=w.offset + (1 << 31)) for w in model.program.weights)
    large = replace(model, program=replace(model.program, weights=far))
    printer = ProgramPrinter(large, {}, str, set())
    lines = printer.context([], [])["weight_places"]
    assert lines[0].startswith("static const size_t w_weight_at = 2147483648u; /* float32[")


# ---------------------------------------------------------------- names

@pytest.mark.parametrize("text, most, expected", [
    ("conv1", 8, "conv1"), ("/m/layer.0/expand/Conv", 20, "layer.0/expand/Conv"),
    ("/m/layer.0/expand/Conv", 12, "expand/Conv"), ("one_two_three", 9, "two_three"), ("one_2_three", 7, "three"),
    ("a" * 9, 4, "a" * 9), ("one_" + "b" * 9, 4, None)])
def test_the_ending_of_a_name(text, most, expected):
    assert ending(text, most) == (text if expected is None else expected)


def test_long_nodes_name_their_kernels_by_the_end_of_their_path():
    func = ingot.te.create_prim_func([ingot.te.placeholder((4,), name="a")])
    path = "/model/" + "/".join(f"block.{n}" for n in range(12)) + "/conv/Conv"
    names = kernel_names({"conv2d": func.with_attr("origin", (Origin(path, "Conv"),))}, "net")
    assert re.fullmatch(r"net_block_\d_.*_block_11_conv_Conv", names["conv2d"]) and len(names["conv2d"]) <= 56


def test_functions_of_tiles_have_names_that_no_kernel_has():
    func = ingot.te.create_prim_func([ingot.te.placeholder((4,), name="a")])
    names = kernel_names({"conv2d": func.with_attr("origin", (Origin("conv_tile_conv2d", "Conv"),))}, "net")
    assert tile_name("net_conv", "conv2d") == "net_conv_tile_conv2d" and names["conv2d"] == "net_conv_Tile_conv2d"
    assert without_tile("net_tile") == "net_Tile" and without_tile("net_tiles_1") == "net_tiles_1"
    assert tile_name("n" * 56, "conv2d") == "n" * 56 + "_tile" and tile_name("net_conv", "") == "net_conv_tile"
    assert MOST_LETTERS + len("_99") <= 63


# ---------------------------------------------------------------- borders and lines

def convolution(columns):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    return make_model("net", nodes, {"x": (F32, [1, 16, 6, columns])}, {"y": (F32, [1, 32, 4, columns - 2])},
                      {"w": np.random.default_rng(0).random((32, 16, 3, 3), F32)})


def test_a_border_says_which_iterations_it_is():
    text = ingot.inspect_stage(convolution(33), "c", target="x86-64-v4", threads="none", accuracy="strict")
    found = re.search(r"/\* border: the last iteration of (\w+), (\d+) of (\d+) iterations of x\w* \*/", text)
    assert found and int(found[2]) < int(found[3])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_no_line_has_more_than_120_columns(name, target):
    files = compiled(SMALL[name](), name, target=target).files()
    texts = {file: text for file, text in files.items() if isinstance(text, str)}
    long = [f"{file}: {line}" for file, text in texts.items() for line in text.splitlines() if len(line) > WIDTH]
    assert not long
    assert {f"{name}.c", f"{name}.h", "Makefile", "README.md", "CMakeLists.txt", f"{name}_example.c"} <= texts.keys()


def test_long_names_fit_their_lines():
    """Names of 100 letters, of nodes, tensors and weights."""
    nodes = [helper.make_node("Conv", ["x" * 100, "w" * 100], ["m" * 100], name="n" * 100, pads=[1] * 4),
             helper.make_node("Conv", ["m" * 100, "v" * 100], ["y" * 100], name="k" * 100)]
    rng = np.random.default_rng(0)
    model = make_model("net", nodes, {"x" * 100: (F32, [1, 16, 33, 33])}, {"y" * 100: (F32, [1, 32, 31, 31])},
                       {"w" * 100: rng.random((16, 16, 3, 3), F32), "v" * 100: rng.random((32, 16, 3, 3), F32)})
    for single in (False, True):
        files = compiled(model, "l" * 40).files(single_file=single)
        for file, text in files.items():
            for line in text.splitlines() if isinstance(text, str) and file.endswith((".c", ".h")) else ():
                assert len(line) <= WIDTH, f"{file}: {line}"
