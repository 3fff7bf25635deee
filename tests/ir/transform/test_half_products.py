"""Products of bfloat16 by words of two terms: within their bound, by the instructions of a target or by their model in
plain C; and products of halves elsewhere, in vectors of float32."""
import dataclasses
import subprocess

import numpy as np
import pytest
from graph_check import Graph, param

import ingot
from ingot.codegen.target import Target
from ingot.codegen.toolchain import ToolchainError, find_compiler, missing_tools
from ingot.codegen.toolchains import toolchain
from ingot.ir.dtype import DataType
from ingot.ir.relax import Constant
from ingot.ir.relax.arithmetic import ARITHMETICS, FMA
from ingot.runtime.emulated import EmulatedLibrary
from ingot.runtime.library import CompiledLibrary

SHAPES = (13, 64, 20), (5, 37, 33), (3, 1030, 17), (1, 48, 16)  # rows, terms, columns
BF16, F16 = "bfloat16", "float16"


def operands(dtype, scale=1e4):
    """[(x, w)] of halves: numbers of normal size, with outliers among the terms of rows."""
    rng, made = np.random.default_rng(0), []
    for rows, depth, columns in SHAPES:
        x, w = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
        x[:, rng.integers(0, depth, 3)] *= scale
        made.append((x.astype(DataType(dtype).numpy), w.astype(DataType(dtype).numpy)))
    return made


def compiled(dtype, target, **options):
    """The library of a product of each shape, whose results are float32."""
    pairs = operands(dtype)
    g = Graph(*(param(f"x{n}", *x.shape, dtype=dtype) for n, (x, _) in enumerate(pairs)))
    products = [g.op("matmul", p, Constant(w, f"w{n}"), out_dtype="float32")
                for n, (p, (_, w)) in enumerate(zip(g.params, pairs))]
    return ingot.compile(g.module(*products), target=target, threads="none", name="halves", **options)


def assert_within(library, row, dtype):
    pairs = operands(dtype)
    results = library(*(x for x, _ in pairs))
    for (x, w), y in zip(pairs, results):
        x, w = x.astype(np.float64), w.astype(np.float64)
        assert y.dtype == np.float32
        assert (np.abs(y - x @ w) <= row.limit(x, w)).all()


def test_by_the_instructions_of_arm(tmp_path):
    target = Target.get("aarch64-bf16")
    if reason := missing_tools(target):
        pytest.skip(reason)
    library = compiled(BF16, target)
    assert_within(EmulatedLibrary(library.model), ARITHMETICS["dot_bf16"], BF16)
    used = assembly(library, target, tmp_path)
    assert used("bfmmla") and used("bfdot")  # pairs of rows, and a last row


def test_by_the_instruction_of_avx512_bf16(tmp_path):
    """It runs neither here nor under QEMU: what runs is its model in plain C."""
    target = Target.get("x86-64-v4-bf16")
    library = compiled(BF16, target)
    model = CompiledLibrary(dataclasses.replace(library.model, target=Target.get("c")))
    assert_within(model, ARITHMETICS["dot_bf16"], BF16)
    try:
        assert assembly(library, target, tmp_path)("vdpbf16ps")
    except ToolchainError as reason:
        pytest.skip(str(reason))


def assembly(library, target, folder):
    """How often the assembly of a library's kernels, built without warnings, has an instruction."""
    library.export(folder / "net")
    command = [*find_compiler(target).command, *toolchain(target).cflags, "-std=c99", "-pedantic", "-Wall", "-Wextra",
               "-Wconversion", "-Wshadow", "-Werror", "-S", "-o", "-"]
    texts = [subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout
             for path in sorted((folder / "net").glob("*_kernels_*.c"))]
    return lambda name: sum(line.split()[:1] == [name] for text in texts for line in text.splitlines())


@pytest.mark.parametrize("target, accuracy", [("aarch64-i8mm", None), ("x86-64-v3", None), ("aarch64-bf16", "strict")])
def test_others_have_vectors_of_float32(target, accuracy):
    library = compiled(BF16, target, accuracy=accuracy)
    text = str(library.model.kernels)
    assert "dot_bf16" not in text and "_load_bf16(&w" in text


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_sums_of_float32_here(dtype):
    """float16 holds outliers up to 65504."""
    with compiled(dtype, "host") as library:
        assert_within(library, FMA, dtype)


def test_float16_is_widened_by_vectors_on_arm():
    target = Target.get("aarch64-linux-gnu")
    if reason := missing_tools(target):
        pytest.skip(reason)
    assert_within(EmulatedLibrary(compiled(F16, target).model), FMA, F16)
