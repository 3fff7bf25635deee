"""The C of operators that are loop programs of their own, or of types of few bits: built as strictly as all generated C
must be, and run."""
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from c_build import COMPILERS, STRICT
from onnx_models import one_node

import ingot
from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate

RNG = np.random.default_rng(0)
NEWEST = onnx.defs.onnx_opset_version()


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# (operator, inputs, opset, those that are constant, outputs, attributes)
CASES = [
    ("TopK", [floats(3, 9), np.int64([4])], 11, (1,), 2, {}),
    ("ScatterElements", [floats(4, 5), np.int64([[1, 2, 0, 3, 1]]), floats(1, 5)], 18, (), 1, {"reduction": "max"}),
    ("ScatterND", [floats(4, 5), np.int64([[1], [2]]), floats(2, 5)], 18, (), 1, {"reduction": "add"}),
    ("GatherND", [floats(4, 5), np.int64([[1, 2], [2, -1]])], 13, (), 1, {}),
    ("Det", [floats(2, 4, 4)], 11, (), 1, {}),
    ("GridSample", [floats(1, 2, 4, 4), floats(1, 3, 3, 2)], 16, (), 1, {"mode": "bicubic",
                                                                       "padding_mode": "reflection"}),
    ("RoiAlign", [floats(1, 2, 6, 6), floats(2, 4), np.int64([0, 0])], 16, (), 1, {"output_height": 2}),
    ("DeformConv", [floats(1, 2, 5, 5), floats(2, 2, 2, 2), floats(1, 8, 4, 4)], 19, (), 1, {}),
    ("Col2Im", [floats(1, 8, 12), np.int64([4, 5]), np.int64([2, 2])], 18, (1, 2), 1, {}),
    ("MaxPool", [floats(1, 2, 6, 6)], 12, (), 2, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}),
    ("RandomNormal", [], 14, (), 1, {"shape": [3, 4], "seed": 1.0}),
    ("BitShift", [np.uint8([1, 2, 3]), np.uint8([1, 9, 3])], 11, (), 1, {"direction": "LEFT"}),
    ("Cast", [np.float32([-3, 7.6, 2])], 21, (), 1, {"to": 22}),
    ("Cast", [floats(5)], 21, (), 1, {"to": 18}),
    ("LSTM", [floats(3, 2, 2), floats(1, 12, 2), floats(1, 12, 3), floats(1, 24), np.int32([2, 3]), floats(1, 2, 3),
              floats(1, 2, 3), floats(1, 9)], 14, (1, 2, 3, 7), 3, {"hidden_size": 3, "clip": 1.0}),
]


@pytest.mark.parametrize("op, arrays, opset, constants, outputs, attrs", CASES, ids=[c[0] for c in CASES])
def test_the_c_is_strict_and_right(op, arrays, opset, constants, outputs, attrs, tmp_path):
    if opset > NEWEST:
        pytest.skip(f"onnx knows opsets up to {NEWEST}")
    proto = one_node(op, arrays, opset, constants, outputs, **attrs)
    feeds = [a for k, a in enumerate(arrays) if k not in constants]
    with ingot.compile(proto, target="host", threads="none", name="node_test") as library:
        found, expected = library(*feeds), evaluate(from_onnx(proto), feeds)
        folder = library.export(tmp_path / "c")
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-5)
    for compiler in filter(shutil.which, COMPILERS):
        for source in (folder / "node_test.c", *folder.glob("node_test_kernels*.c")):
            done = subprocess.run([compiler, *STRICT, "-march=native", f"-I{folder}", "-c", source, "-o",
                                   tmp_path / "one.o"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
