"""Constants as they lie in the output: in as few bits as the model has them, with the values that they have."""
import shutil

import ml_dtypes
import numpy as np
import onnx
import pytest
from c_build import COMPILERS, run_selftest
from onnx import TensorProto, helper

import ingot
from ingot.codegen.toolchain import find_compiler, missing_tools, run_command
from ingot.ir.tir.stored import FEW_BITS, Stored, stored_form

RNG = np.random.default_rng(5)
ROWS, COLUMNS = 6, 37  # an odd number of elements, so that the last word has room
BITS = {"INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "FLOAT4E2M1": 4, "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8,
        "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8, "BFLOAT16": 16, "FLOAT16": 16, "INT8": 8, "UINT8": 8, "INT16": 16}
SANITIZE = {"gcc": ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")}
KNOWN = [name for name in BITS if hasattr(TensorProto, name)]


def rows_of_a_table(kind):
    """(model, feeds, expected): some rows of a constant table of a dtype, as float32, plus x."""
    number = getattr(TensorProto, kind)
    signed = -(1 << BITS[kind] - 1) if kind[0] == "I" else 0
    values = (RNG.standard_normal((ROWS, COLUMNS)) if "FLOAT" in kind
              else RNG.integers(signed, signed + (1 << BITS[kind]), (ROWS, COLUMNS)))
    table = helper.make_tensor("w", number, values.shape, values.reshape(-1).tolist())
    held = onnx.numpy_helper.to_array(table).astype(np.float32)
    nodes = [helper.make_node("Gather", ["w", "places"], ["g"], name="g"),
             helper.make_node("Cast", ["g"], ["f"], to=TensorProto.FLOAT, name="f"),
             helper.make_node("Add", ["f", "x"], ["y"], name="y")]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "table", [info("places", TensorProto.INT64, [3]),
                                               info("x", TensorProto.FLOAT, [3, COLUMNS])],
                              [info("y", TensorProto.FLOAT, [3, COLUMNS])], [table])
    opset = min(onnx.defs.onnx_opset_version(), 25)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)
    places, x = np.int64([ROWS - 1, 0, 2]), RNG.standard_normal((3, COLUMNS)).astype(np.float32)
    return proto, (places, x), held[places] + x


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("kind", KNOWN)
def test_a_table_takes_its_bits(kind, target):
    proto, feeds, expected = rows_of_a_table(kind)
    with ingot.compile(proto, target=target, threads="none", weights="array") as library:
        weight, = library.model.program.weights
        assert weight.data.nbytes == -(-ROWS * COLUMNS * BITS[kind] // 8)
        np.testing.assert_array_equal(library(*feeds), expected)


@pytest.mark.parametrize("weights", ["incbin", "array"])
@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "s390x-linux-gnu"])
@pytest.mark.parametrize("kind", [k for k in KNOWN if BITS[k] < 8 or k == "INT16"])
def test_a_table_on_other_machines(kind, target, weights, tmp_path):
    if reason := missing_tools(target):
        pytest.skip(reason)
    proto, _, _ = rows_of_a_table(kind)
    folder = ingot.compile(proto, target=target, threads="none", weights=weights).export(tmp_path / "c")
    run_selftest(folder, tmp_path / "test", *find_compiler(target).command, "-O1",
                 runner=run_command(target, "")[:-1])


@pytest.mark.parametrize("kind", [k for k in KNOWN if BITS[k] < 8])
def test_the_c_is_strict_and_reads_nothing_beyond(kind, tmp_path):
    proto, feeds, _ = rows_of_a_table(kind)
    with ingot.compile(proto, target="c", threads="none", name="node_test", weights="array") as library:
        folder = library.export(tmp_path / "c")
    for compiler in filter(shutil.which, COMPILERS):
        run_selftest(folder, tmp_path / "test", compiler, "-DINGOT_SIMD_SCALAR", *SANITIZE.get(compiler, ()))


# ---------------------------------------------------------------- forms

@pytest.mark.parametrize("dtype, bits", [("int4", 4), ("uint4", 4), ("int2", 2), ("uint2", 2)])
def test_the_first_element_of_a_word_is_lowest(dtype, bits):
    values = np.arange(-3, 4) % (1 << bits) - (1 << bits - 1) * (dtype[0] == "i")
    words = FEW_BITS[bits].encode(values.astype(getattr(ml_dtypes, dtype)))
    found = words[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    assert np.array_equal(found.reshape(-1)[:7], values & (1 << bits) - 1)
    assert words.size == -(-7 // (8 // bits))


@pytest.mark.parametrize("values, form", [
    ([-128, 127], "int8"), ([0, 255], "uint8"), ([-129, 126], "uint8-129"), ([3, 258], "uint8+3"),
    ([-300, 40], "int16"), ([-40000, 0], ""), ([0.5, 1], ""), ([np.inf, 1], ""), ([np.nan, 1], ""), ([-0.0, 1], "")])
def test_whole_numbers_lie_in_the_narrowest_integers(values, form):
    for dtype in ("float32", "int32") if all(isinstance(v, int) for v in values) else ("float32",):
        array = np.tile(np.array(values, dtype), 200)
        found = stored_form(array)
        assert str(found or "") == form
        if found:
            assert Stored.named(form) == found
            assert np.array_equal(found.encode(array).astype(np.int64) + found.base, array)
    assert stored_form(np.float32([1, 2, 3])) is None  # few numbers stay as they are
