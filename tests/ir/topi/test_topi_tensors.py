"""topi's functions of tensors against numpy."""
import numpy as np
import pytest
from topi_check import A, B, C, D, check, floats, interpret, tensors

from ingot.ir import topi
from ingot.ir.op import InferError

RNG = np.random.default_rng(0)
X, Y = floats(3, 5), floats(2, 3, 4, seed=1)
I32 = np.int32


def ints(low, high, *shape, dtype=I32):
    return RNG.integers(low, high, shape).astype(dtype)


def one(function, *arrays):
    """The result of a function of arrays, for each row of the first axis."""
    return np.stack([function(*row) for row in zip(*arrays)])


def updated(x, places, values, how):
    out = x.copy()
    for at, v in zip(places, values):
        out[tuple(at)] = {"update": v, "add": out[tuple(at)] + v, "max": max(out[tuple(at)], v)}[how]
    return out


ROWS = np.sort(floats(3, 6, seed=2), axis=1)
LENGTHS = np.array([0, 2, 5], I32)
ND = ints(-3, 3, 2, 7)  # (depth, places) in X's first two axes
SPARSE = np.array([[0, 1], [2, 4], [2, 4]], I32)
DENSE = np.full((3, 5), 9, np.float32)
DENSE[0, 1], DENSE[2, 4] = 1, 3
SET = X.copy()
SET[0:3:2, 4:1:-2] = floats(2, 2, seed=6)
KEYS = [("sort", [X], [A], np.sort(X)), ("sort", [X], [A, 0, 0], -np.sort(-X, 0)),
        ("argsort", [X], [A, None, 1, 1, "int32"], np.argsort(X).astype(I32)),
        ("topk", [X], [A, 2, 1], [-np.sort(-X)[:, :2], np.argsort(-X)[:, :2]]),
        ("topk", [X], [A, 2, 0, "indices", True, "int32"], np.argsort(X, 0)[:2].astype(I32)),
        ("searchsorted", [ROWS[0], X], [A, B], np.searchsorted(ROWS[0], X)),
        ("searchsorted", [ROWS, ROWS], [A, B, True, "int32"],
         one(lambda r: np.searchsorted(r, r, "right"), ROWS).astype(I32)),
        ("gather_nd", [X, ND % 3], [A, B], X[ND[0] % 3, ND[1] % 3]),
        ("scatter_nd", [X, ND % 3, floats(7, seed=3)], [A, B, C, "update"],
         updated(X, (ND % 3).T, floats(7, seed=3), "update")),
        ("scatter_nd", [X, ND % 3, floats(7, seed=3)], [A, B, C, "add"],
         updated(X, (ND % 3).T, floats(7, seed=3), "add")),
        ("scatter_elements", [X, ints(2, 3, 1, 5), floats(1, 5, seed=3)], [A, B, C, 0, "max"],
         np.concatenate([X[:2], np.maximum(X[2:], floats(1, 5, seed=3))])),
        ("sparse_to_dense", [SPARSE, np.array([1, 2, 3], np.float32)], [A, (3, 5), B, 9], DENSE),
        ("sparse_to_dense", [np.array(2, I32), np.array(7, I32)], [A, (4,), B], np.array([0, 0, 7, 0], I32)),
        ("unravel_index", [ints(0, 60, 4), np.array([3, 4, 5], I32)], [A, B], None),
        ("unravel_index", [np.zeros(0, I32), np.array([3, 0, 5], I32)], [A, B], np.zeros((3, 0), I32)),
        ("unravel_index", [np.array([7], I32), np.array([0, 0], I32)], [A, B], np.array([[7], [0]], I32)),
        ("strided_set", [X, floats(2, 2, seed=6)], [A, B, (0, 4), (3, 1), (2, -2)], SET),
        ("strided_set", [X, floats(1, 5, seed=6)], [A, B, (-1,), (9,)], np.concatenate([X[:2], floats(1, 5, seed=6)])),
        ("dynamic_strided_slice", [X, np.array([2, 1], I32), np.array([-9, 9], I32), np.array([-1, 2], I32)],
         [A, B, C, D, (3, 2)], X[2::-1, 1:9:2]),
        ("dynamic_strided_slice", [X, np.array([2**40]), np.array([-9]), np.array([-1])], [A, B, C, D, (3, 5)],
         X[::-1]),
        ("strided_set", [X, -X, np.array([0]), np.array([2**40 - 1])], [A, B, C, D], -X),
        ("sparse_to_dense", [np.array([2**32 + 1, 2]), floats(2)], [A, (3,), B],
         np.array([0, 0, floats(2)[1]], np.float32))]


@pytest.mark.parametrize("name, arrays, args, expected", KEYS, ids=lambda v: v if isinstance(v, str) else "")
def test_elements_at_places(name, arrays, args, expected):
    if expected is None:
        expected = np.array(np.unravel_index(arrays[0], arrays[1])).astype(I32)
    check(name, arrays, args, expected, symbolic=False)


def test_numpys_indexing():
    rows, columns = ints(-3, 3, 4, 1), ints(0, 5, 1, 2)
    check("adv_index", [Y, rows % 2, columns % 3], [A, [B, C]], Y[rows % 2, columns % 3], symbolic=False)
    x, r, c = tensors([Y, rows, columns])
    interpret(topi.adv_index(x, [r, c]), [x, r, c], [Y, rows * 100, columns * 100], [(4, 2, 4)])  # held inside


MASKED = Y.copy()
for n, length in enumerate((1, 3)):
    MASKED[n, length:] = 7
TURNED = Y.copy()
for n, length in enumerate((3, 2)):
    TURNED[n, :length] = Y[n, :length][::-1]


@pytest.mark.parametrize("name, arrays, args, expected", [
    ("sequence_mask", [Y, np.array([1, 3], I32)], [A, B, 7, 1], MASKED),
    ("sequence_mask", [Y.swapaxes(0, 1).copy(), np.array([1, 3], I32)], [A, B, 7], MASKED.swapaxes(0, 1)),
    ("reverse_sequence", [Y, np.array([3, 2], I32)], [A, B], TURNED),
    ("expand_like", [X, floats(3, 2, 5)], [A, B, 1], np.repeat(X[:, None], 2, 1)),
    ("shape", [Y], [A], np.array(Y.shape, I32)), ("ndarray_size", [Y], [A, "int64"], np.array(24)),
    ("sliding_window", [Y], [A, 1, (2, 3), (1, 1)],
     np.lib.stride_tricks.sliding_window_view(Y, (2, 3), (1, 2))),
    ("sliding_window", [Y], [A, -1, (2,), (2,)], np.lib.stride_tricks.sliding_window_view(Y, 2, 2)[:, :, ::2]),
    ("tensordot", [X, floats(5, 4)], [A, B, 1], X @ floats(5, 4)),
    ("tensordot", [Y, floats(4, 6, 2)], [A, B, ((0, 2), (2, 0))], np.tensordot(Y, floats(4, 6, 2), ((0, 2), (2, 0)))),
    ("einsum", [X, floats(5, 4)], ["ij,jk->ki", A, B], (X @ floats(5, 4)).T),
    ("collapse_sum", [Y], [A, (3, 1)], Y.sum(0).sum(1, keepdims=True)),
    ("reinterpret", [X], [A, "int32"], X.view(I32)), 
    ("dft", [X, floats(3, 5, seed=4)], [A, B, False], [np.fft.fft(X + 1j * floats(3, 5, seed=4))]),
    ("dft", [X, floats(3, 5, seed=4)], [A, B, True], [np.fft.ifft(X + 1j * floats(3, 5, seed=4))]),
], ids=lambda v: v if isinstance(v, str) else "")
def test_tensors(name, arrays, args, expected):
    if name == "dft":
        expected = [expected[0].real.astype(np.float32), expected[0].imag.astype(np.float32)]
    check(name, arrays, args, expected, 1e-4, symbolic=False)


def test_frames_of_a_signal():
    x, window = floats(2, 20), floats(6, seed=5)
    frames = np.stack([x[:, t:t + 8] for t in (0, 4, 8, 12)], 1)
    full = np.fft.rfft(frames * np.pad(window, 1), axis=-1).transpose(0, 2, 1) / np.sqrt(8)
    check("stft", [x, window], [A, 8, 4, 6, B, True, True, (2, 5, 4, 2)],
          np.stack([full.real, full.imag], -1).astype(np.float32), 1e-4, symbolic=False)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids(indexing):
    arrays = [floats(n, seed=n) for n in (2, 3, 4)]
    check("meshgrid", arrays, [[A, B, C], indexing], list(np.meshgrid(*arrays, indexing=indexing)), symbolic=False)


@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("shape, low, high", [((4, 4), 0, 0), ((3, 5), -1, 2), ((5, 3), -2, 0), ((3, 5), 3, 3)])
def test_diagonals(align, shape, low, high):
    """The diagonals, found element by element in the order in which numpy's diagonal gives them."""
    x, count = floats(2, *shape), max(len(np.diagonal(np.zeros(shape), d)) for d in range(low, high + 1))
    given, expected = floats(2, high - low + 1, count, seed=8), x.copy()
    for which, d in enumerate(range(high, low - 1, -1)):
        rows = [(r, r + d) for r in range(shape[0]) if 0 <= r + d < shape[1]]
        shift = count - len(rows) if align.split("_")[0 if d > 0 else 1] == "RIGHT" else 0
        for n, (r, c) in enumerate(rows):
            expected[:, r, c] = given[:, which, shift + n]
    if low == high:
        given = given[:, 0].copy()
    check("matrix_set_diag", [x, given], [A, B, low if low == high else (low, high), align], expected, symbolic=False)


@pytest.mark.parametrize("call, error", [
    (lambda x: topi.scatter_nd(x, x, x, "sub"), "mode 'sub' is none of update, add"),
    (lambda x: topi.sequence_mask(x, x, 0, 2), "axis must be 0 or 1"),
    (lambda x: topi.meshgrid([x], "ab"), "'ij' or 'xy'"),
    (lambda x: topi.tensordot(x, x, ((0,), (1,))), "the summed dimensions differ"),
    (lambda x: topi.sliding_window(x, 0, (1,), (1,)), "need a window and a stride each"),
    (lambda x: topi.sparse_to_dense(x, (3, 3, 3), x), r"sparse_indices must have shape \(3\), it has \(5\)"),
    (lambda x: topi.sequence_mask(x, tensors([LENGTHS[:2]])[0]), r"valid_length must have shape \(5\)"),
    (lambda x: topi.reverse_sequence(x, tensors([LENGTHS[:2]])[0]), r"seq_lengths must have shape \(3\)"),
    (lambda x: topi.expand_like(tensors([LENGTHS])[0], x, 0), r"must have shape \(5\), it has \(3\)"),
    (lambda x: topi.matrix_set_diag(x, tensors([LENGTHS[:2]])[0]), r"each diagonal must have shape \(3\)"),
    (lambda x: topi.strided_set(x, tensors([LENGTHS])[0], (0,), (1,)), "v must have 2 dimensions"),
    (lambda x: topi.tensordot(x, x, 3), "axes is 3"), (lambda x: topi.dft(x, tensors([Y])[0], False), "im_data"),
    (lambda x: topi.stft(x, 4, 2, 4, tensors([floats(4)])[0], False, True, (3, 3, 2, 2)), "1 more are needed"),
    (lambda x: topi.stft(x, 4, 2, 6, x, False, True, (3, 3, 1, 2)), "win_length 6 is more"),
    (lambda x: topi.adv_index(x, []), "takes 1 to 2 tensors"),
    (lambda x: topi.matrix_set_diag(x, x, 0, "UP"), "align 'UP'"),
])
def test_errors_say_what_is_wrong(call, error):
    with pytest.raises(InferError, match=error):
        call(tensors([X])[0])
