"""The arithmetic that docs/adding-an-arithmetic.md adds: a row is enough for an operator, its reference, its C."""
import re
from pathlib import Path

import numpy as np
import pytest
from ops_nn_check import array, call_of, check

import ingot
from ingot.ir.op import InferError
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.accuracy import arithmetics_of
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.ops.layout import pack_channels

GUIDE = Path(__file__).parents[3] / "docs" / "adding-an-arithmetic.md"


@pytest.fixture
def row(monkeypatch):
    code, = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    names = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    monkeypatch.setitem(ARITHMETICS, "int8", names["INT8"])
    return names["INT8"]


def within(row, found, x, w):
    x, w = x.astype(np.float64), w.astype(np.float64)
    return (np.abs(found - x @ w) <= row.limit(x, w)).all()


def test_its_reference_and_its_program(row):
    x, w = array((5, 96)), array((96, 40), 1)
    operands = row.pack(w)
    assert within(row, row.unpack(operands, 96)[:, :40], np.eye(96), w)
    call = call_of("matmul", [x.shape, *(o.shape for o in operands)],
                   {"arithmetic": "int8", "b_layout": "operands", "n_size": 40}, ["float32", "int8", "float32"])
    assert [str(a) for a in arithmetics_of(call)] == ["int8: |y - y*| <= K max|x| max|w| / 126"]
    refused = r"columns \(3, 95, 16\) must be \(3, 96, 16\) for 40 columns of 96 terms by int8"
    with pytest.raises(InferError, match=refused):
        call_of("matmul", [x.shape, (3, 95, 16), (40,)], call.attrs, ["float32", "int8", "float32"])


def test_a_pointwise_convolution_has_it_too(row):
    x, w = array((1, 32, 3, 4)), array((32, 16), 1)
    func, _ = check("nn.conv2d_pointwise", [pack_channels(x, 16), *row.pack(w)], 0.2, arithmetic="int8",
                    out_channels=16)
    assert "int8_packed" in str(func)


@pytest.mark.parametrize("target", ["c", "host"])
def test_its_c(row, target):
    """In vectors rows are made numbers of 8 bits once, and sums are in a tile of registers, by no rule of its own."""
    x, w = array((20, 96)), array((96, 40), 1)
    var, bb = RelaxVar("x", TensorStructInfo(x.shape, "float32")), BlockBuilder()
    with bb.function("main", [var]):
        y = bb.emit(call_op("matmul", var, *(Constant(part, "w") for part in row.pack(w)), arithmetic="int8",
                            b_layout="operands", n_size=40))
        bb.emit_func_output(bb.emit(call_op("nn.relu", y)))
    with ingot.compile(bb.get(), target=target, threads="none") as library:
        kernels = "".join(text for name, text in library.model.files().items() if "_kernels_" in name)
        (found,) = library.run({"x": x}).values()
    assert "accuracy: int8: |y - y*| <= K max|x| max|w| / 126" in kernels
    assert target == "c" or re.search(r"int8_rows\[.*\]\s+= \(int8_t\)ingot_f32_to_i32", kernels)
    assert (found >= 0).all()
    exact = np.maximum(x.astype(np.float64) @ w, 0)
    assert (np.abs(found - exact) <= row.limit(x.astype(np.float64), w.astype(np.float64))).all()
