"""Weights stay where they are: arrays are views of the model's bytes or of mapped files, and what is wrong with a file
of weights is one error."""
import subprocess
import sys

import ingot
import numpy as np
import pytest
from ingot.frontend.onnx import OnnxImportError, from_onnx, weights
from onnx import ModelProto, TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def model_of(*tensors, shape=(2, 300)):
    """y = x + w1 + w2 ..., of initializers."""
    nodes = [helper.make_node("Add", [f"s{n}" if n else "x", t.name], [f"s{n + 1}"]) for n, t in enumerate(tensors)]
    ends = [helper.make_tensor_value_info(n, tensors[0].data_type, shape) for n in ("x", f"s{len(tensors)}")]
    graph = helper.make_graph(nodes, "sums", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def external(dtype, dims, **entries):
    tensor = TensorProto(name="w", data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(proto, folder):
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def constants(module):
    return [b.value.args[1].data for b in module["main"].bindings]


def owner(array):
    """What holds an array's memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj


@pytest.fixture(params=["read", "mapped"])
def files(request, monkeypatch):
    """Files of weights are read, or mapped as large ones are."""
    monkeypatch.setattr(weights, "LARGE_FILE", 1 if request.param == "mapped" else 1 << 30)
    return request.param


# ---------------------------------------------------------------- the model's own bytes

def test_large_weights_are_views_of_the_bytes():
    arrays = [RNG.random((2, 300), np.float32), RNG.random((1, 300), np.float32), RNG.random((2, 1), np.float32)]
    data = model_of(*(numpy_helper.from_array(a, f"w{n}") for n, a in enumerate(arrays))).SerializeToString()
    found = constants(from_onnx(data))
    for array, expected in zip(found, arrays):
        np.testing.assert_array_equal(array, expected)
    assert owner(found[0]) is owner(found[1]) is data


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint16"])
def test_weights_of_a_file(files, tmp_path, dtype):
    expected = (100 * RNG.random((2, 3000))).astype(dtype)
    path = saved(model_of(numpy_helper.from_array(expected, "w"), shape=(2, 3000)), tmp_path)
    found, = constants(from_onnx(path))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype and isinstance(owner(found), weights.FileMap) == (files == "mapped")


def test_what_is_cut_is_weights_alone():
    proto = model_of(numpy_helper.from_array(RNG.random((2, 300), np.float32), "w"))
    proto.doc_string, proto.graph.doc_string = "a model", "a graph"
    proto.metadata_props.add(key="author", value="x" * 5000)
    kept = ModelProto.FromString(weights.without_weights(proto.SerializeToString()))
    tensor = kept.graph.initializer[0]
    assert {e.key for e in tensor.external_data} == {"location", "offset", "length"} and not tensor.HasField("raw_data")
    for part in (kept, proto):
        part.graph.initializer[0].CopyFrom(TensorProto(name="w"))
    assert kept == proto


def test_small_and_typed_weights_stay():
    small = numpy_helper.from_array(RNG.random((2, 3), np.float32), "w")
    typed = helper.make_tensor("w", TensorProto.FLOAT, [2, 300], RNG.random(600))
    for tensor in (small, typed):
        assert weights.without_weights(model_of(tensor).SerializeToString()) is None



def _field(number, kind, value):
    return weights._varint(number << 3 | kind) + value


@pytest.mark.parametrize("tail", [b"\xff" * 12, _field(3, 3, b""), _field(7, 2, weights._varint(9)),
                                  _field(0, 0, b"\1"), b"\x80"],
                         ids=["long varint", "group", "beyond the end", "field 0", "half a varint"])
def test_malformed_bytes_are_left_to_protobuf(tail):
    data = model_of(numpy_helper.from_array(RNG.random((2, 300), np.float32), "w")).SerializeToString() + tail
    assert weights.without_weights(data) is None
    with pytest.raises(OnnxImportError, match="is not an ONNX model, or is truncated"):
        from_onnx(data)


def test_each_prefix_of_a_model_is_an_error_or_a_model():
    data = model_of(numpy_helper.from_array(RNG.random((2, 300), np.float32), "w")).SerializeToString()
    for size in [*range(0, 80), *range(len(data) - 80, len(data))]:
        with pytest.raises(OnnxImportError):
            from_onnx(data[:size])


def test_raw_data_of_another_size():
    tensor = numpy_helper.from_array(RNG.random((2, 300), np.float32), "w")
    tensor.dims[1] = 299
    with pytest.raises(OnnxImportError, match=r"initializer 'w' is damaged: its data of 2400 bytes .* takes 2392"):
        from_onnx(model_of(tensor).SerializeToString())


def test_the_name_of_the_own_bytes_is_no_way_out():
    """A model that names its own bytes reads these, no more; one that has none is refused."""
    data = model_of(external(TensorProto.FLOAT, [2, 300], location=weights.INSIDE, offset=1 << 40)).SerializeToString()
    with pytest.raises(OnnxImportError, match="is damaged: its data of 0 bytes"):
        from_onnx(data)
    with pytest.raises(OnnxImportError, match="has no folder"):
        from_onnx(ModelProto.FromString(data))


# ---------------------------------------------------------------- files beside the model

def test_external_weights(files, tmp_path):
    expected = RNG.random((2, 300), np.float32)
    (tmp_path / "w.bin").write_bytes(bytes(64) + expected.tobytes() + bytes(5))
    found, = constants(from_onnx(saved(model_of(external(TensorProto.FLOAT, [2, 300], location="w.bin", offset=64,
                                                         length=2400)), tmp_path)))
    np.testing.assert_array_equal(found, expected)


def test_a_mapped_file_is_mapped_once(monkeypatch, tmp_path):
    monkeypatch.setattr(weights, "LARGE_FILE", 1)
    (tmp_path / "w.bin").write_bytes(RNG.random(1200, np.float32).tobytes())
    parts = [external(TensorProto.FLOAT, [2, 300], location="w.bin", offset=n) for n in (0, 2400)]
    parts[1].name = "v"
    first, second = constants(from_onnx(saved(model_of(*parts), tmp_path)))
    assert owner(first) is owner(second) and not np.shares_memory(first, second)


@pytest.mark.parametrize("dtype, bits", [(TensorProto.INT4, 4), (TensorProto.UINT4, 4)])
def test_external_weights_of_half_a_byte(files, tmp_path, dtype, bits):
    numbers = np.arange(21) % 7
    packed = helper.make_tensor("w", dtype, [3, 7], numbers).raw_data or bytes(
        int(a) | int(b) << 4 for a, b in zip(numbers[::2], [*numbers[1::2], 0]))
    (tmp_path / "w.bin").write_bytes(packed)
    proto = model_of(numpy_helper.from_array(np.float32(1), "one"), shape=(3, 7))
    proto.graph.initializer.append(external(dtype, [3, 7], location="w.bin"))
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    proto.graph.node[0].input[1] = "d"
    proto.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]))
    proto.opset_import[0].version = 21
    proto.ir_version = 10
    with ingot.compile(saved(proto, tmp_path)) as library:
        result = library.run({"x": np.zeros((3, 7), np.float32)})
    np.testing.assert_array_equal(next(iter(result.values())), 0.5 * numbers.reshape(3, 7))


@pytest.mark.parametrize("entries, words", [
    ({"location": "no.bin"}, ("no.bin", "cannot be read", "put the file beside the model")),
    ({"location": "sub"}, ("sub", "cannot be read", "directory")),
    ({"location": "w.bin", "offset": 2401}, ("needs 2400 bytes", "holds 0 there", "truncated")),
    ({"location": "w.bin", "offset": 8}, ("needs 2400 bytes", "holds 2392 there", "truncated")),
    ({"location": "w.bin", "offset": 10 ** 17}, ("needs 2400 bytes", "holds 0 there", "truncated")),
    ({"location": "w.bin", "length": 2396}, ("needs 2400 bytes", "declared 2396")),
    ({"location": "w.bin", "offset": -4}, ("offset '-4'", "must be a number of bytes")),
    ({"location": "../w.bin"}, ("'../w.bin'", "outside the model's folder")),
    ({"location": "sub/../../w.bin"}, ("outside the model's folder",)),
    ({"location": "/etc/hostname"}, ("outside the model's folder",)),
    ({"location": "link.bin"}, ("outside the model's folder",)),
    ({"location": "\0w.bin"}, ("outside the model's folder",)),
    ({"location": "\0"}, ("outside the model's folder",)),
    ({}, ("no file is named",)),
], ids=str)
def test_files_of_weights_that_are_wrong(files, tmp_path, entries, words):
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    for place in (tmp_path, inside):
        (place / "w.bin").write_bytes(bytes(2400))
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(OnnxImportError) as caught:
        from_onnx(saved(model_of(external(TensorProto.FLOAT, [2, 300], **entries)), inside))
    text = str(caught.value)
    assert "initializer 'w'" in text and "\n" not in text and all(w in text for w in words), text


def test_a_mapped_file_that_changes_before_it_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(weights, "LARGE_FILE", 1)
    path = saved(model_of(numpy_helper.from_array(RNG.random((2, 300), np.float32), "w")), tmp_path)
    library = ingot.compile(path)
    path.write_bytes(bytes(10))
    with pytest.raises(ValueError, match=r"the weights in .*m\.onnx changed after the model was read; compile it "):
        library.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_read_may_change(tmp_path):
    expected = RNG.random((2, 300), np.float32)
    path = saved(model_of(numpy_helper.from_array(expected, "w")), tmp_path)
    with ingot.compile(path) as library:
        path.write_bytes(bytes(10))
        result = library.run({"x": np.zeros((2, 300), np.float32)})
    np.testing.assert_array_equal(next(iter(result.values())), expected)


# ---------------------------------------------------------------- memory

_PEAK = """
import re, sys
import ingot.api
from ingot.frontend.onnx import weights
weights.LARGE_FILE = int(sys.argv[3])
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
idle = peak()
ingot.api.compile(sys.argv[1], weights="file", target="x86-64-v4").export(sys.argv[2])
print(peak() - idle)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("large", [1, 1 << 30], ids=["mapped", "read"])
def test_memory_for_external_weights(tmp_path, large):
    """A product by weights in a sparse file of 64 MB is right, and takes their memory once where none are packed (those
    of x86-64-v3 are, which takes it twice)."""
    rows, columns = 1024, 16384
    size = 4 * rows * columns
    marks = {(0, 0): 1.5, (17, 63): 2.5, (17, 64): -4, (rows - 1, columns - 1): -3}
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(4096 + size)
        for (row, column), value in marks.items():
            file.seek(4096 + 4 * (row * columns + column))
            file.write(np.float32(value).tobytes())
    tensor = external(TensorProto.FLOAT, [rows, columns], location="w.bin", offset=4096, length=size)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s]) for n, s in (("x", rows), ("y", columns))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", ends[:1], ends[1:], [tensor])
    path = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path)
    done = subprocess.run([sys.executable, "-c", _PEAK, path, tmp_path / "out", str(large)], check=True, text=True,
                          stdout=subprocess.PIPE)
    assert int(done.stdout) < 1.5 * size
    if large > 1:
        return  # the C is the same
    x = RNG.random((1, rows), np.float32)
    expected = np.zeros((1, columns), np.float32)
    for (row, column), value in marks.items():
        expected[0, column] += x[0, row] * np.float32(value)
    with ingot.compile(path) as library:
        np.testing.assert_allclose(library.run({"x": x})["y"], expected, rtol=1e-6)
