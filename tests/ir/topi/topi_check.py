"""Run a topi function through the interpreter, statically shaped and with a symbolic first dimension."""
import numpy as np
from interp import run

from ingot.ir import te, topi
from ingot.ir.expr import Var


def function(name):
    """topi.nn.relu of "nn.relu"."""
    found = topi
    for part in name.split("."):
        found = getattr(found, part)
    return found


def tensors(arrays, dims={}):
    """A placeholder per array. dims: {(argument, axis): Var}."""
    return [te.placeholder(tuple(dims.get((n, k), d) for k, d in enumerate(a.shape)), a.dtype.name, f"a{n}")
            for n, a in enumerate(arrays)]


def interpret(result, inputs, arrays, shapes):
    """The values of a te.Tensor or several, made of the placeholders `inputs`."""
    results = result if isinstance(result, list) else [result]
    given = {id(x): a for x, a in zip(inputs, arrays)}  # what a function hands through
    outputs = [given.get(id(r), np.full(shape, 77, r.dtype.numpy)) for r, shape in zip(results, shapes)]
    func = te.create_prim_func([*inputs, *(r for r in results if id(r) not in given)])
    run(func, *arrays, *(o for o, r in zip(outputs, results) if id(r) not in given))
    return outputs, func


def check(name, arrays, args, expected, tolerance=1e-5, symbolic=True, kwargs=None):
    """name(*args) is `expected`; in args, a0, a1 ... (ints 0, 1 wrapped in Arg) stand for the arrays."""
    expected = expected if isinstance(expected, list) else [expected]
    like = [k for k, a in enumerate(arrays) if a.ndim == arrays[0].ndim and a.shape[:1] == arrays[0].shape[:1]]
    axes = [{}] + [dict.fromkeys(((k, 0) for k in like), Var("n", dtype)) for dtype in ("int32", "int64") if symbolic]
    for dims in axes:
        inputs = tensors(arrays, dims)
        result = function(name)(*(_given(a, inputs) for a in args), **(kwargs or {}))
        outputs, func = interpret(result, inputs, arrays, [e.shape for e in expected])
        if not dims:
            results = result if isinstance(result, list) else [result]
            assert [tuple(map(int, r.shape)) for r in results] == [e.shape for e in expected]
        for mine, want in zip(outputs, expected):
            assert mine.dtype == want.dtype, f"{mine.dtype} instead of {want.dtype}"
            np.testing.assert_allclose(mine, want, rtol=tolerance, atol=tolerance)
    return func


def _given(arg, inputs):
    if isinstance(arg, list):
        return [_given(a, inputs) for a in arg]
    return inputs[arg.n] if isinstance(arg, Arg) else arg


class Arg:
    """Stands for array n among a function's arguments."""

    def __init__(self, n):
        self.n = n


A, B, C, D, E = map(Arg, range(5))


def floats(*shape, seed=0, low=-3.0, high=3.0):
    rng = np.random.default_rng(seed)
    return (low + (high - low) * rng.random(shape)).astype(np.float32)
