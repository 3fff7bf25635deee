"""Operators on bits, popcount and clz: the interpreter and compiled C against numpy, over every integer dtype."""
import ctypes

import numpy as np
import pytest
from c_build import COMPILERS, compile_text, source
from interp import run

from ingot.codegen.c_function import print_function
from ingot.ir import tir
from ingot.ir.expr import Var
from ingot.ir.tir.intrin import INTEGER_INTRINSICS
from ingot.ir.tir.stmt import BufferStore, for_

I, ROWS = Var("i"), 37
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def functions():
    for name, (arity, _) in INTEGER_INTRINSICS.items():
        for dtype in DTYPES:
            x, y = (tir.decl_buffer((ROWS,), dtype, n) for n in "xy")
            call = tir.intrinsic(name, *(x[I], y[I])[:arity])
            out = tir.decl_buffer((ROWS,), call.dtype, "out")
            yield name, dtype, tir.prim_func([x, y, out], for_(I, ROWS, BufferStore(out, call, (I,))))


def inputs(name, dtype):
    """Random numbers with the extreme ones among them; amounts to shift by are less than the bits."""
    rng, info = np.random.default_rng(len(name)), np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, ROWS, dtype, endpoint=True) for _ in "xy")
    x[:4] = info.min, info.max, 0, 1
    return x, (rng.integers(0, info.bits, ROWS).astype(dtype) if name.startswith("shift") else y)


def expected(name, x, y):
    if name in ("popcount", "clz"):
        bits = [np.binary_repr(int(v), x.dtype.itemsize * 8) for v in x]
        return [b.count("1") if name == "popcount" else len(b) - len(b.lstrip("0")) for b in bits]
    return {"bitwise_and": lambda: x & y, "bitwise_or": lambda: x | y, "bitwise_xor": lambda: x ^ y,
            "bitwise_not": lambda: ~x, "shift_left": lambda: x << y, "shift_right": lambda: x >> y}[name]()


def test_interpreted():
    for name, dtype, func in functions():
        x, y = inputs(name, dtype)
        out = np.zeros(ROWS, func.buffers[-1].dtype.numpy)
        run(func, x, y, out)
        np.testing.assert_array_equal(out, expected(name, x, y), f"{name} of {dtype}")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiled(compiler, tmp_path):
    made = list(functions())
    text = source([print_function(f.replace(body=f.root.body), f"{name}_{dtype}_f") for name, dtype, f in made])
    library = compile_text(text, tmp_path, compiler)
    for name, dtype, func in made:
        x, y = inputs(name, dtype)
        out = np.zeros(ROWS, func.buffers[-1].dtype.numpy)
        getattr(library, f"{name}_{dtype}_f")(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)))
        np.testing.assert_array_equal(out, expected(name, x, y), f"{name} of {dtype}")
