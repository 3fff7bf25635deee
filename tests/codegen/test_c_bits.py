"""Operators on bits, popcount and clz over every integer dtype, and on the bits of floats: the interpreter and compiled
C against numpy."""
import ctypes

import numpy as np
import pytest
from c_build import COMPILERS, compile_text, source
from interp import run

from ingot.codegen.c_function import print_function
from ingot.ir import tir
from ingot.ir.expr import Var, const
from ingot.ir.tir.intrin import BIT_INTRINSICS, INTEGER_INTRINSICS
from ingot.ir.tir.intrinsics import ALL_ROUNDS, ALL_TAPS, PAIR_DOTS
from ingot.ir.tir.stmt import BufferStore, for_
from ingot.ir.transform.pipeline import lower_prim_func

I, ROWS = Var("i"), 37
FIELD = 3, 4  # the first bit of a field, and how many it has
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def functions():
    # Those of kernels of bytes are not among them.
    of_bytes = {*ALL_TAPS.values(), *ALL_ROUNDS.values(), *PAIR_DOTS, "pair"}
    for name, arity in ((row.name, row.arity) for row in INTEGER_INTRINSICS.values()
                        if not row.vector and row.name not in of_bytes):
        for dtype in DTYPES:
            x, y = (tir.decl_buffer((ROWS,), dtype, n) for n in "xy")
            call = tir.intrinsic(name, *((x[I], y[I])[:arity] if arity < 3 else (x[I], *FIELD)))
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
    if name == "bit_field":
        first, bits = FIELD
        return (x >> x.dtype.type(first)) & x.dtype.type((1 << bits) - 1)
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


# dtypes that may be read as one another
WIDTHS = (("int8", "uint8", "float8_e4m3fn", "float8_e5m2"), ("int16", "uint16", "float16", "bfloat16"),
          ("int32", "uint32", "float32"), ("int64", "uint64", "float64"))
PAIRS = [(a, b) for dtypes in WIDTHS for a in dtypes for b in dtypes if a != b]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_reinterpreted(compiler, tmp_path):
    """Bits as every other dtype of their width; of NaNs, those whose bits a float that is copied keeps."""
    funcs = {}
    for a, b in PAIRS:
        x, out = tir.decl_buffer((ROWS,), a, "x"), tir.decl_buffer((ROWS,), b, "out")
        funcs[a, b] = tir.prim_func([x, out], for_(I, ROWS, BufferStore(out, tir.reinterpret(b, x[I]), (I,))))
    text = source([print_function(lower_prim_func(f), f"{a}_{b}_f") for (a, b), f in funcs.items()])
    library = compile_text(text, tmp_path, compiler)
    for (a, b), func in funcs.items():
        size = tir.decl_buffer((1,), a).dtype.bytes
        bits = np.random.default_rng(size).integers(0, 2 ** (8 * size), ROWS, f"u{size}", endpoint=False)
        bits[:2] = 0, 1 << (8 * size - 1)
        x, wanted = bits.view(func.buffers[0].dtype.numpy), bits.view(func.buffers[1].dtype.numpy)
        for name, call in (("interpreted", lambda *args: run(func, *args)), ("compiled", lambda *args: getattr(
                library, f"{a}_{b}_f")(*(ctypes.c_void_p(v.ctypes.data) for v in args)))):
            out = np.zeros(ROWS, wanted.dtype)
            call(x, out)
            plain = ~(np.isnan(x.astype(np.float64)) | np.isnan(wanted.astype(np.float64)))
            np.testing.assert_array_equal(out.view(bits.dtype)[plain], bits[plain], f"{name}: {a} as {b}")
            assert plain.sum() > ROWS // 2


@pytest.mark.parametrize("rows", [16, 11])  # as vectors, and as single floats
@pytest.mark.parametrize("name, last", [("greater", ()), ("fixed", (0,)), ("fixed", (8,)), ("fixed", (28,))])
def test_bits_of_floats(name, last, rows, tmp_path):
    arity, reference = BIT_INTRINSICS[name].arity, BIT_INTRINSICS[name].numpy
    bits = np.random.default_rng(0).integers(0, 2 ** 32, (arity - len(last), rows), dtype=np.uint32)
    bits[0] = bits[0] & ~np.uint32(0x40000080)  # no result is NaN
    *buffers, out = (tir.decl_buffer((rows,), "float32", n) for n in [*"abc"[:len(bits)], "out"])
    call = tir.intrinsic(name, *(b[I] for b in buffers), *last)
    kind = "vectorized" if rows == 16 else "serial"
    func = tir.prim_func([*buffers, out], for_(I, rows, BufferStore(out, call, (I,)), kind))
    wanted = reference(*bits.view(np.float32), *last).view(np.uint32)
    found = np.zeros(rows, np.float32)
    run(func, *bits.view(np.float32), found)
    np.testing.assert_array_equal(found.view(np.uint32), wanted)
    printed = print_function(lower_prim_func(func), "f")
    assert (f"f32x16_{name}(" in printed.body) == (rows == 16)
    library, found = compile_text(source([printed]), tmp_path), np.zeros(rows, np.float32)
    library.f(*(ctypes.c_void_p(a.ctypes.data) for a in (*bits, found)))
    np.testing.assert_array_equal(found.view(np.uint32), wanted)


def test_what_bits_of_floats_are():
    words = np.array([0x12345fff, 0xfe000000], np.uint32).view(np.float32)
    for n, number in [(0, 0x12345fff), (20, -0x2000), (28, -0x200000), (16, 0x5ffffe00)]:
        assert BIT_INTRINSICS["fixed"].numpy(*words, n) == np.float32(number)
    ordered = np.array([0, 1e-45, 1, 3e38, np.inf, np.nan], np.float32)
    for n in range(1, len(ordered)):
        for pair in (ordered[n - 1:n + 1], ordered[n - 1:n + 1][::-1]):
            np.testing.assert_array_equal(BIT_INTRINSICS["greater"].numpy(*pair), ordered[n])
    with pytest.raises(TypeError, match="greater takes float32, not float64"):
        tir.greater(*[const(1.0, "float64")] * 2)
    with pytest.raises(TypeError, match="fixed takes an integer last, not float32"):
        tir.fixed(*[const(1.0, "float32")] * 3)


def test_a_place_of_bits_that_varies_has_no_vector_form():
    a, out = (tir.decl_buffer((16,), "float32", n) for n in ("a", "out"))
    func = tir.prim_func([a, out], for_(I, 16, BufferStore(out, tir.fixed(a[I], a[I], I % 8 * 4), (I,)), "vectorized"))
    loop = lower_prim_func(func).body
    assert loop.kind == "serial" and loop.annotations["simd"] == "tir.fixed has no vector form"
