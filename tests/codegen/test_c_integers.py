"""Integers that C leaves undefined, of every dtype: compiled C that stops where its behaviour is undefined, and the
interpreter, against Python's integers."""
import ctypes
import os
import sys

import numpy as np
import pytest
from c_build import COMPILERS, compile_text, source
from interp import run

from ingot.codegen.c_function import print_function
from ingot.ir import tir
from ingot.ir.expr import Div, FloorDiv, FloorMod, Max, Min, Mod, Var, const
from ingot.ir.tir.stmt import BufferStore, for_
from ingot.ir.transform.pipeline import lower_prim_func

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TRAPS = ("-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
I = Var("i")


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def left(a, b, bits):
    return a << b if 0 <= b < bits else 0


def right(a, b, bits):
    return a >> (b if 0 <= b < bits else bits)


def operations(bits):
    """name -> (what builds it, what it is of Python's integers)."""
    return {
        "add": (lambda a, b: a + b, lambda a, b: a + b), "subtract": (lambda a, b: a - b, lambda a, b: a - b),
        "multiply": (lambda a, b: a * b, lambda a, b: a * b), "minimum": (Min, min), "maximum": (Max, max),
        "divide": (Div, truncated), "remainder": (Mod, lambda a, b: a - truncated(a, b) * b if b else 0),
        "floor_divide": (FloorDiv, lambda a, b: a // b if b else 0),
        "floor_mod": (FloorMod, lambda a, b: a % b if b else 0),
        "negate": (lambda a, b: const(0, a.dtype) - a, lambda a, b: -a),
        "abs": (lambda a, b: tir.abs(a), lambda a, b: abs(a)),
        "left": (tir.shift_left, lambda a, b: left(a, b, bits)),
        "right": (tir.shift_right, lambda a, b: right(a, b, bits)),
        "both": (lambda a, b: tir.shift_left(a, b) + tir.shift_right(a, b) * a,
                 lambda a, b: left(a, b, bits) + right(a, b, bits) * a),
        **{f"left_{n}": (lambda a, b, n=n: tir.shift_left(a, const(n, a.dtype)), lambda a, b, n=n: left(a, n, bits))
           for n in (1, bits - 1, bits)},
        **{f"right_{n}": (lambda a, b, n=n: tir.shift_right(a, const(n, a.dtype)), lambda a, b, n=n: right(a, n, bits))
           for n in (1, bits - 1, bits)},
    }


def operands(dtype):
    """All pairs of extreme and small numbers, and of numbers near those of bits, as two arrays."""
    info = np.iinfo(dtype)
    some = sorted({info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100, info.bits - 1, info.bits,
                   info.bits + 1, min(32, info.max), min(64, info.max), *([-1, -2, -3, -31, -32] if info.min else [])})
    a, b = np.meshgrid(np.array(some, dtype), np.array(some, dtype))
    return a.reshape(-1), b.reshape(-1)


def functions(dtype, kind):
    a, b = operands(dtype)
    for name, (build, reference) in operations(np.iinfo(dtype).bits).items():
        x, y, out = (tir.decl_buffer((len(a),), dtype, n) for n in ("x", "y", "out"))
        func = tir.prim_func([x, y, out], for_(I, len(a), BufferStore(out, build(x[I], y[I]), (I,)), kind))
        lowest = (1 << np.iinfo(dtype).bits) - 1
        wanted = [reference(int(u), int(v)) & lowest for u, v in zip(a, b)]
        yield name, func, np.array(wanted, np.uint64).astype(dtype)


def in_a_child(work):
    """The exit status of a child process that runs `work`: a trap kills it alone."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(error, file=sys.stderr)
        os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_interpreted(dtype):
    a, b = operands(dtype)
    for name, func, wanted in functions(dtype, "serial"):
        out = np.zeros(len(a), dtype)
        with np.errstate(all="ignore"):
            run(func, a, b, out)
        np.testing.assert_array_equal(out, wanted, f"{name} of {dtype}")


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_nothing_is_undefined(compiler, kind, tmp_path):
    made = [(dtype, name, func, wanted) for dtype in DTYPES for name, func, wanted in functions(dtype, kind)]
    text = source([print_function(lower_prim_func(func), f"{name}_{dtype}_f") for dtype, name, func, _ in made])
    library = compile_text(text, tmp_path, compiler, TRAPS)
    for dtype, name, _, wanted in made:
        a, b = operands(dtype)

        def work():
            out = np.zeros(len(a), dtype)
            getattr(library, f"{name}_{dtype}_f")(*(ctypes.c_void_p(v.ctypes.data) for v in (a, b, out)))
            np.testing.assert_array_equal(out, wanted)

        assert in_a_child(work) == 0, f"{name} of {dtype} with {compiler}"
