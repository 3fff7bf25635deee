"""Products of 8-bit integers by words of four terms: exact for every mix of signs, for terms and columns that fill no
word or panel, and for the least and the greatest numbers; on every target that this machine runs."""
import numpy as np
import pytest
from ops_nn_check import call_of, check

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.op import InferError
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.ir.relax.arithmetic.dot_product import bytes_of, name_of, words_of
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.target import Target
from ingot.ir.tir.intrinsics import DOTS, INTEGER_DOTS

MIXES = pytest.mark.parametrize("left, right", DOTS.values(), ids=DOTS)
TARGETS = ["c", "x86-64-v4-vbmi", "x86-64-v3", "x86-64-v4", "x86-64-v3-vnni", "x86-64-v4-vnni", "x86-64-v4-zen4"]


def in_turn(mixes, rows):
    """Each row with two of the mixes of signs, which take turns: all of them meet some row."""
    mixes = list(mixes)
    return [(*mixes[(n + k) % len(mixes)], *row) for n, row in enumerate(rows) for k in (0, len(mixes) // 2)]


def integers(shape, dtype, seed=0):
    """Any numbers of the dtype, many of them the least and the greatest."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, shape)
    return np.where(rng.random(shape) < 0.3, rng.choice([info.min, info.max], shape), values).astype(dtype)


def product_of(build, *infos):
    """A module whose main is build(op, *inputs)."""
    bb, inputs = BlockBuilder(), [RelaxVar(f"x{n}", TensorStructInfo(*info)) for n, info in enumerate(infos)]
    with bb.function("main", inputs):
        with bb.dataflow():
            made = build(lambda name, *args, **attrs: bb.emit(call_op(name, *args, **attrs)), *inputs)
            result = [bb.emit_output(y) for y in made] if isinstance(made, list) else bb.emit_output(made)
        bb.emit_func_output(result)
    return bb.get()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("depth, columns, panel", [(4, 8, 8), (7, 5, 8), (1, 1, 4), (64, 33, 16)])
def test_words_stand_for_the_columns(dtype, depth, columns, panel):
    w = integers((depth, columns), dtype)
    words = words_of(w, panel)
    assert words.dtype == np.int32 and words.shape == (-(-columns // panel), -(-depth // 4), panel)
    found = bytes_of(words, dtype)
    np.testing.assert_array_equal(found[:depth, :columns], w)
    assert not found[depth:].any() and not found[:, columns:].any()


@pytest.mark.parametrize("depth", [16, 7])
def test_products_of_rows_of_16_bits(depth):
    row = ARITHMETICS["dot_s16s8"]
    x, w = integers((3, depth), "int16"), integers((depth, 13), "int8", 1)
    words, = row.pack(w, 8)
    np.testing.assert_array_equal(row.unpack([words], depth)[:depth, :13], w)
    x = np.pad(x, ((0, 0), (0, -depth % 4)))
    _, result = check("matmul", [x, words], 0, arithmetic=row.name, b_layout="operands", n_size=13)
    np.testing.assert_array_equal(result, x[:, :depth].astype(np.int32) @ w.astype(np.int32))


@pytest.mark.parametrize("depth", [1, 6, 9])
def test_products_of_pairs_of_16_bits(depth):
    """Two terms a word; sums wrap around, of the two least numbers too."""
    row = ARITHMETICS["dot_s16s16"]
    x, w = integers((3, depth), "int16"), integers((depth, 13), "int16", 1)
    x[0], w[:, 0] = -2 ** 15, -2 ** 15
    words, = row.pack(w, 8)
    np.testing.assert_array_equal(row.unpack([words], depth)[:depth, :13], w)
    filled = np.pad(x, ((0, 0), (0, -depth % 2)))
    _, result = check("matmul", [filled, words], 0, arithmetic=row.name, b_layout="operands", n_size=13)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32))


@MIXES
def test_pairs_of_words_stand_for_the_columns(left, right):
    """Side by side, as products of matrices read them."""
    x, w, name = integers((2, 3, 16), left), integers((16, 13), right, 1), name_of(left, right)
    words = words_of(w, 8, pairs=True)
    assert words.shape == (2, 2, 16) and (words[0, 1, 4:6] == words_of(w, 8)[0, 2:4, 2]).all()
    _, result = check("matmul", [x, words], 0, arithmetic=name, b_layout="operands", n_size=13)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32))


@MIXES
@pytest.mark.parametrize("rows, depth, columns", [((3,), 8, 5), ((2, 3), 12, 16), ((1,), 4, 1)])
def test_the_operator_is_exact(left, right, rows, depth, columns):
    x, w = integers((*rows, depth), left), integers((depth, columns), right, 1)
    name = name_of(left, right)
    _, result = check("matmul", [x, words_of(w, 8)], 0, arithmetic=name, b_layout="operands", n_size=columns)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("left, right, depth, columns, panel", [
    ("uint8", "int8", 8, 16, 8), ("int8", "uint8", 12, 13, 4), ("int8", "int8", 4, 12, 8), ("int16", "int16", 6, 13, 4)])
def test_matrices_that_a_run_makes(left, right, depth, columns, panel, across):
    """As words, each of a batch by rows of another one; sums of products of 16 bits wrap around."""
    x, w = integers((2, 1, 3, depth), left), integers((3, depth, columns), right, 1)
    given = np.ascontiguousarray(w.swapaxes(1, 2)) if across else w
    _, words = check("qnn.words", [given], 0, panel=panel, across=across)
    name = name_of(left, right, INTEGER_DOTS)
    _, result = check("matmul", [x, words], 0, arithmetic=name, b_layout="operands", n_size=columns)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32))


def test_rows_of_zeros_meet_what_fills_up_the_last_word():
    x, w = integers((2, 1, 3, 7), "uint8"), integers((2, 7, 5), "int8", 1)
    _, words = check("qnn.words", [w], 0, panel=4)
    _, result = check("matmul", [np.pad(x, ((0, 0),) * 3 + ((0, 1),)), words], 0, arithmetic="dot_u8s8",
                      b_layout="operands", n_size=5)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32))


def test_what_is_refused():
    for shape, attrs, dtype in (((3, 6), {"panel": 0}, "int8"), ((6, 3), {"panel": 4, "across": True}, "int8"),
                                ((6, 3), {"panel": 4, "across": True}, "int16")):
        with pytest.raises(InferError, match="takes panels of at least 1 column"):
            call_of("qnn.words", [shape], attrs, dtype)
    with pytest.raises(InferError, match="must be uint8, not int8"):
        call_of("matmul", [(3, 8), (1, 2, 8)], {"arithmetic": "dot_u8s8", "b_layout": "operands", "n_size": 8},
                ["int8", "int32"])
    most = ARITHMETICS["dot_u8s8"].most // 4 * 4 + 4
    with pytest.raises(InferError, match="may overflow"):
        call_of("matmul", [(3, most), (1, most // 4, 8)], {"arithmetic": "dot_u8s8", "b_layout": "operands",
                                                           "n_size": 8}, ["uint8", "int32"])


SIZES = [(1, 3, 5), (13, 70, 50), (7, 64, 64), (40, 33, 130)]  # rows, terms, columns


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_products(target):
    """One network of all mixes and sizes."""
    cpu = Target.get(target)
    if not is_supported_here(cpu):
        pytest.skip(f"this machine does not run {target}")
    if reason := missing_tools(cpu):
        pytest.skip(reason)
    cases = [(*size, *mix) for size in SIZES for mix in DOTS.values()]
    inputs = [integers((rows, depth), left, n) for n, (rows, depth, _, left, _) in enumerate(cases)]
    weights = [integers((depth, columns), right, -n % 97) for n, (_, depth, columns, _, right) in enumerate(cases)]

    def build(op, *xs):
        return [op("matmul", x, Constant(w, f"w{n}"), out_dtype="int32") for n, (x, w) in enumerate(zip(xs, weights))]

    mod = product_of(build, *((x.shape, x.dtype.name) for x in inputs))
    with ingot.compile(mod, target=target, threads="none") as library:
        for case, result, x, w in zip(cases, library(*inputs), inputs, weights):
            np.testing.assert_array_equal(result, x.astype(np.int32) @ w.astype(np.int32), err_msg=str(case))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_follows_is_made_in_vectors(dtype):
    """Requantized: the kernel has no loop over numbers."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    x, w = integers((20, 36), "uint8"), integers((36, 40), "int8", 1)
    bias = rng.integers(-1000, 1000, 40).astype(np.int32)
    scale = rng.uniform(0.0005, 0.003, 40).astype(np.float32)

    def build(op, x):
        y = op("add", op("matmul", x, Constant(w, "w"), out_dtype="int32"), Constant(bias, "bias"))
        y = op("round", op("multiply", op("astype", y, dtype="float32"), Constant(scale, "scale")))
        y = op("add", y, Constant(np.array(3, np.float32), "zero"))
        return op("astype", op("clip", y, min=float(info.min), max=float(info.max)), dtype=dtype)

    mod = product_of(build, ((20, 36), "uint8"))
    total = x.astype(np.int32) @ w.astype(np.int32) + bias
    expected = np.clip(np.rint(total.astype(np.float32) * scale) + 3, info.min, info.max).astype(dtype)
    with ingot.compile(mod, target="host", threads="none") as library:
        np.testing.assert_array_equal(library(x), expected)
    text = ingot.inspect_stage(mod, "c", target="x86-64-v4", threads="none")
    assert f"i32x16_store_{'u8' if dtype == 'uint8' else 'i8'}(" in text
