"""Comments of kernels say the algorithm, the tile, the loops, the threads and the error in words; no line is long."""
import re

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot import te, tir
from ingot.codegen.c_layout import WIDTH, folded, folded_arguments, folded_prose, folded_rules
from ingot.codegen.describe import primitives
from ingot.ir.tir.flops import terms_of_sums


def network(window, channels=16, name="conv"):
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.random((32, channels, window, window), np.float32), "weight")
    node = helper.make_node("Conv", ["x", "weight"], ["y"], name=name, pads=[window // 2] * 4)
    x, y = (helper.make_tensor_value_info(n, 1, (1, c, 30, 30)) for n, c in (("x", channels), ("y", 32)))
    graph = helper.make_graph([node], "net", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def comments(model, **options):
    text = ingot.inspect_stage(model, "c", target="x86-64-v4", **options)
    return " ".join(text.replace("\n *", " ").split())


def test_a_direct_convolution_in_words():
    text = comments(network(3), accuracy="strict")
    assert "direct convolution; tile 10 columns x 2 vectors; loops over bands, channels, rows, columns" in text
    assert "accuracy: fma: each sum of 144 terms within 146.6 u |x| |w|" in text


def test_winograd_in_words():
    text = comments(network(3, 64), algorithms={"conv": "winograd4"})
    assert "Winograd F(4x4, 3x3); tile 8 columns x 2 vectors; 2 vectors of channels a turn; " \
        "loops over blocks, channels, planes, tiles; threads share blocks" in text
    assert "accuracy: winograd F(4x4, 3x3): |y - y*| <= " in text


def test_inspect_says_what_the_comment_says():
    """Of the bounds of errors; and without a plan there is nothing but the primitives."""
    for options in ({"accuracy": "strict"}, {"algorithms": {"conv": "winograd4"}}):
        model = network(3, 64)
        bound = re.search("accuracy: (.*?) (schedule:|\\*/)", comments(model, **options))[1]
        assert bound in ingot.inspect_stage(model, "accuracy", target="x86-64-v4", **options)
    text = comments(network(3), opt_level=0)
    assert "direct convolution accuracy: fma: each sum of 144 terms" in text and "; tile" not in text


def product():
    a, b = (te.placeholder((64, 64), name=n) for n in "ab")
    k = te.reduce_axis((0, 64), "k")
    return te.create_prim_func([a, b, te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")])


def test_primitives_name_their_loops():
    func = product()
    sch = tir.Schedule(func)
    block = sch.get_block("c")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, (None, 4))
    j_0, j_1 = sch.split(j, (None, 16))
    sch.reorder(i_0, j_0, k, i_1, j_1)
    sch.unroll(i_1)
    sch.vectorize(j_1)
    sch.parallel(i_0)
    sch.decompose_reduction(block, k)
    assert primitives(sch) == ("split(i, ?x4), split(j, ?x16), reorder(i_0, j_0, k, i_1, j_1), unroll(i_1), "
                               "vectorize(j_1), parallel(i_0), decompose_reduction(c, k)")
    assert primitives(tir.Schedule(func)) == "" and terms_of_sums(func) == 64


LONG = ", ".join(f"argument_{n}" for n in range(20))


@pytest.mark.parametrize("line, expected", [
    ("int x;", ["int x;"]),
    (f"    call({LONG}); /* what it does */", ["    /* what it does */", "    call(argument_0, ", "        argument_"]),
    (f"/* {LONG} */", ["/* argument_0, ", " * argument_"]),
    (f"    /* {LONG} */", ["    /* argument_0, ", "     * argument_"]),
    (f" * {LONG}", [" * argument_0, ", " * argument_"]),
    (f"#define CALL() ({LONG})", ["#define CALL() (argument_0, ", "    argument_"]),
    (f"#error {LONG}", ["#error argument_0, "]),
    (f'puts("{LONG}");', ["puts(", f'    "{LONG}");']),
])
def test_long_lines_are_broken(line, expected):
    lines = folded(f"first\n{line}\nlast\n").split("\n")
    assert lines[0] == "first" and lines[-2:] == ["last", ""]
    inner = [text.rstrip("\\") for text in lines[1:-2]]
    assert all(any(text.startswith(e) for e in expected) for text in inner) and len(inner) >= len(expected)
    if '"' not in line and "#error" not in line:
        assert all(len(text) <= WIDTH for text in lines)
    assert "".join("".join(inner).split()).replace("*", "").replace("/whatitdoes/", "") == \
        "".join(line.split()).replace("*", "").replace("/whatitdoes/", "")


def test_prose_is_broken_but_for_code_and_tables():
    text = f"{LONG}\n| {LONG} |\n```\n{LONG}\n```\n"
    lines = folded_prose(text).split("\n")
    assert [len(x) > WIDTH for x in lines].count(True) == 2 and " ".join(lines).split() == text.split()
    first, second, *_, last, _, _ = folded_prose(f"```sh\nmake  # {LONG}\n```\n").split("\n")
    assert (first, second[:13], last) == ("```sh", "# argument_0,", "make")


def test_arguments_of_cmake_are_broken():
    lines = folded_arguments(f'set(X {LONG.replace(",", "")} "two words")').split("\n")
    assert lines[0].startswith("set(X argument_0") and lines[-1].endswith('"two words")') and len(lines) == 3
    assert all(line.startswith("    argument") for line in lines[1:])
    lines = folded_rules(f"all: {LONG}\n\tcc {LONG}\n").split("\n")
    assert lines[0].startswith("all: argument_0") and lines[0].endswith(" \\") and lines[1].startswith("    argument")
    assert lines[-2] == f"\tcc {LONG}" and not lines[-3].endswith("\\")


@pytest.mark.parametrize("options", [{"target": "x86-64-v4"}, {"target": "c", "threads": "none", "weights": "array"}])
def test_no_line_of_a_folder_is_long(options):
    name = "a_name_as_long_as_exporters_write_them"
    model = network(3, name=name)
    for node in (model.graph.node[0], model.graph.input[0], model.graph.output[0]):
        new = f"{name}_{node.name}"
        for field in (model.graph.node[0].input, model.graph.node[0].output):
            field[:] = [new if x == node.name else x for x in field]
        node.name = new
    files = ingot.compile(model, **options).model.files()
    long = [(n, line) for n, text in files.items() if isinstance(text, str)
            for line in text.splitlines() if len(line) > WIDTH]
    assert not long
