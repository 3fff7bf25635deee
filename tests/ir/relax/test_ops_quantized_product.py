"""matmul_quantized: plain and in words, against float64, and its messages."""
import ml_dtypes
import numpy as np
import pytest
from ops_nn_check import call_of, check

from ingot.ir.expr import Var
from ingot.ir.op import InferError
from ingot.ir.relax.ops import matmul_quantized as quantized

RNG = np.random.default_rng(2)
INTEGERS = {2: ml_dtypes.int2, 4: ml_dtypes.int4, 8: np.int8}


def operands(bits, rows=3, depth=64, columns=10, groups=4, zeros=True):
    """(x, w, scales, zeros or nothing)."""
    half = 1 << bits - 1
    w = RNG.integers(-half, half, (columns, depth)).astype(INTEGERS[bits])
    blocks = [RNG.uniform(.1, .2, (columns, groups)).astype(np.float32),
              RNG.integers(-half, half, (columns, groups)).astype(np.float32)][:1 + zeros]
    return RNG.standard_normal((rows, depth)).astype(np.float32), w, *blocks


def exact(x, w, scales, zeros=None):
    """The product in float64, and the sum of its terms' magnitudes."""
    columns = quantized.dequantized(w, scales, zeros).astype(np.float64)
    return x @ columns.T, np.abs(x) @ np.abs(columns).T


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", INTEGERS)
def test_plain_columns(bits, zeros):
    arrays = operands(bits, zeros=zeros)
    _, found = check("matmul_quantized", list(arrays))
    expected, size = exact(*arrays)
    assert (np.abs(found - expected) <= 1e-5 * size + 1e-6).all()


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("panel", [4, 8])
@pytest.mark.parametrize("bits", INTEGERS)
def test_words(bits, panel, zeros):
    """10 columns leave a part of a panel."""
    x, w, *blocks = operands(bits, zeros=zeros)
    packed = [quantized.pack(w, bits, panel), *(quantized.pack_blocks(v, panel) for v in blocks)]
    assert packed[0].dtype == np.float32
    assert packed[0].shape == (-(-10 // panel), 64 // quantized.terms_of_word(bits), panel)
    assert np.array_equal(quantized.unpack(packed[0], bits, 10), w.astype(np.float32))
    _, found = check("matmul_quantized", [x, *packed], b_layout="words", n_size=10, bits=bits)
    expected, size = exact(x, w, *blocks)
    assert (np.abs(found - expected) <= 1e-5 * size + 1e-6).all()


def test_the_first_term_of_a_word_is_lowest():
    w = np.array([[1, -8, 7, 0, 2, 3, 4, -1]]).astype(ml_dtypes.int4)
    word, = quantized.pack(w, 4, 1).view(np.uint32).reshape(-1)
    assert word == 0xF4320781


@pytest.mark.parametrize("shapes, attrs, message", [
    ([(3, 64), (10, 64), (10, 5)], {}, "64 terms are no whole number"),
    ([(3, 64), (10, 32), (10, 4)], {}, "do not fit"), ([(3, 64), (10, 64), (9, 4)], {}, "do not fit"),
    ([(64,), (10, 64), (10, 4)], {}, "rows of at least 2 dimensions"),
    ([(3, Var("k", "int64")), (10, 64), (10, 4)], {}, "the last one static"),
    ([(3, 64), (3, 8, 4), (3, 4, 4)], {"b_layout": "KN"}, "must be NK or words"),
    ([(3, 64), (3, 8, 4), (3, 4, 5)], {"b_layout": "words", "n_size": 10, "bits": 4}, "do not fit")])
def test_messages(shapes, attrs, message):
    dtypes = ["float32", "float32" if attrs else "int4", "float32"]
    with pytest.raises(InferError, match=message):
        call_of("matmul_quantized", shapes, attrs, dtypes)
