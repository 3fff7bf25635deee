"""Outputs whose sizes a run decides, and sequences and optional values, on GPUs: folders and Python, as on the CPU."""
import re

import emulated
import numpy as np
import pytest
from folders import check_host_code, folder_of
from networks import make_model
from onnx import TensorProto, helper
from test_gpu_library import device, library  # noqa: F401 - fixtures
from test_gpu_opencl import missing

import ingot as tvm
from ingot.ir.dtype import DataType

info = helper.make_tensor_value_info
X = np.array([[0, 1, 0, 2], [3, 0, 0, 4], [0, 0, 0, 5]], np.float32)
NOTHING = np.zeros_like(X)


def of_node(op, inputs, outputs, weights=None, **attrs):
    """A network of one node; outputs: {name: (dtype, shape)}, where a run decides the sizes that have names."""
    names = [*inputs, *(weights or {})]
    node = helper.make_node(op, names, list(outputs), name="decides", **attrs)
    return make_model("finds", [node], inputs, outputs, weights or {})


def nonzero():
    return of_node("NonZero", {"x": (np.float32, X.shape)}, {"y": (np.int64, (2, "count"))})


def unique():
    return of_node("Unique", {"x": (np.float32, X.shape)},
                   {"y": (np.float32, ("some",)), "first": (np.int64, ("some",))}, sorted=1)


def compress():
    return of_node("Compress", {"x": (np.float32, X.shape), "keep": (np.bool_, (3,))},
                   {"y": (np.float32, ("rows", 4))}, axis=0)


def boxes():
    limits = {"most": np.array(2, np.int64), "overlap": np.array(0.5, np.float32), "least": np.array(0.1, np.float32)}
    return of_node("NonMaxSuppression", {"boxes": (np.float32, (1, 4, 4)), "scores": (np.float32, (1, 2, 4))},
                   {"y": (np.int64, ("found", 3))}, limits)


BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3], [5, 5, 6, 6]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7, 0.05], [0, 0, 0, 0.5]]], np.float32)
NETWORKS = {
    "nonzero": (nonzero, [(X,), (NOTHING,)]), "unique": (unique, [(X,), (NOTHING,)]),
    "compress": (compress, [(X, np.array([True, False, True])), (X, np.zeros(3, bool))]),
    "boxes": (boxes, [(BOXES, SCORES), (BOXES, np.zeros_like(SCORES))]),
}


def results(network, values):
    found = network(*values)
    return found if isinstance(found, tuple) else (found,)


def compare(network, reference, calls):
    for values in calls:
        for got, wanted in zip(results(network, values), results(reference, values), strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", NETWORKS)
def test_python_gives_the_sizes_that_the_cpu_gives(device, name):  # noqa: F811
    made, calls = NETWORKS[name]
    network = tvm.compile(made(), target="cuda-sm_80")
    compare(network, tvm.compile(made(), threads="none"), calls)
    on_device = results(network, [tvm.nd.array(a, tvm.cuda(0)) for a in calls[0]])
    for got, wanted in zip(on_device, results(network, calls[0]), strict=True):
        assert str(got.device) == "cuda(0)"
        np.testing.assert_array_equal(got.numpy(), wanted)
    with pytest.raises(ValueError, match="each run decides dimensions of its outputs"):
        network.bind(*calls[0])
    assert len(network.time(*calls[0], repeat=2).times) == 2


@pytest.mark.parametrize("name", NETWORKS)
def test_opencl_gives_the_sizes_that_the_cpu_gives(name):
    if missing():
        pytest.skip(missing())
    made, calls = NETWORKS[name]
    compare(tvm.compile(made(), target="opencl"), tvm.compile(made(), threads="none"), calls)


@pytest.mark.skipif(emulated.MISSING is not None, reason=str(emulated.MISSING))
def test_a_folder_reports_them(tmp_path):
    folder = tmp_path / "net"
    folder_of(nonzero(), folder, "finds")
    header = " ".join((folder / "finds.h").read_text().split())
    assert "int64_t *y, int64_t *y_count_found, ingot_stream stream)" in header
    assert "*y_count_found: the dimension y_count, which the run determines, in the host's memory." in header
    assert "waits for it where a tensor decides" in header
    check_host_code(folder)
    for program, text in (("selftest", "y: max error 0 of"), ("example", "y: 0 0 0")):
        done = emulated.run_folder(folder, program=program)
        assert done.returncode == 0 and text in done.stdout, done.stdout + done.stderr


def test_an_example_shows_the_elements_that_there_are():
    """Of an output without elements none; of one whose size a run decides as many as it found."""
    ends = {"starts": np.zeros(1, np.int64), "ends": np.zeros(1, np.int64)}
    empty = of_node("Slice", {"x": (np.float32, X.shape)}, {"y": (np.float32, (0, 4))}, ends)
    for made, shown in ((empty, []), (nonzero(), ["(size_t)(2 * y_count_found)"])):
        for target in ("host", "cuda-sm_80", "opencl"):
            text = tvm.compile(made, target=target, name="finds").model.files()["finds_example.c"]
            assert re.findall(r"i < (.*) && i < 8", text) == shown
            assert f"y, {shown[0]} * sizeof *y))" in text if shown else "y, 0))" in text


# ---------------------------------------------------------------- sequences and optional values

def sequences():
    sequence = helper.make_tensor_sequence_value_info
    nodes = [helper.make_node("ConcatFromSequence", ["s"], ["all"], axis=0), helper.make_node("Relu", ["all"], ["y"]),
             helper.make_node("SplitToSequence", ["y"], ["parts"], axis=0)]
    graph = helper.make_graph(nodes, "lists", [sequence("s", TensorProto.FLOAT, [2, 3])],
                              [info("y", TensorProto.FLOAT, None), sequence("parts", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def optional():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    relu = helper.make_graph([helper.make_node("OptionalGetElement", ["o"], ["a"])], "then", [],
                             [info("a", TensorProto.FLOAT, [2])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "other", [], [info("b", TensorProto.FLOAT, [2])])
    nodes = [helper.make_node("OptionalHasElement", ["o"], ["there"]),
             helper.make_node("If", ["there"], ["y"], then_branch=relu, else_branch=other)]
    graph = helper.make_graph(nodes, "maybe", [helper.make_value_info("o", kind), info("x", TensorProto.FLOAT, [2])],
                              [info("y", TensorProto.FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


S = [np.full((2, 3), n - 1, np.float32) for n in range(3)]
STRUCTURED = {"sequence": (sequences, [(S,), (S[:2],)]),
              "optional": (optional, [(S[0][0, :2], S[2][0, :2]), (None, S[2][0, :2])])}


def same(got, wanted):
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for pair in zip(got, wanted):
            same(*pair)
        return
    np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("name", STRUCTURED)
def test_python_takes_and_gives_structured_values(device, name):  # noqa: F811
    made, calls = STRUCTURED[name]
    network, reference = (tvm.compile(made(), target=target) for target in ("cuda-sm_80", "host"))
    for values in calls:
        same(network(*values), reference(*values))


def test_elements_of_a_sequence_may_lie_on_the_device(device):  # noqa: F811
    y, parts = tvm.compile(sequences(), target="cuda-sm_80")([tvm.nd.array(a, tvm.cuda(0)) for a in S])
    assert str(y.device) == "cuda(0)" and DataType(y.dtype) == DataType("float32")
    same([p.numpy() for p in parts], [np.maximum(row[None], 0) for a in S for row in a])


def test_opencl_takes_and_gives_structured_values():
    if missing():
        pytest.skip(missing())
    network, reference = (tvm.compile(sequences(), target=target) for target in ("opencl", "host"))
    same(network(S), reference(S))
