"""Products of bytes on a unit for tiles of integers (AMX): the same numbers as target c's, by the unit, which is emulated
where the machine has none (runtime_c/emulated_tiles.h), and by the loops that stand for it."""
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ingot
from arithmetic_networks import AMX, image, image_network, kernels_of, product_network
from c_folders import need, run
from ingot.codegen.toolchains import cpu_flags, toolchain
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules.blocks import SYMBOLIC
from ingot.ir.schedule.rules.product_plan import TILES, UNIT, Product

EMULATED = Path(__file__).parents[1] / "runtime_c" / "emulated_tiles.h"
# dtypes of data and weights; rows, terms, columns; batches of a second activation, 0 for constants
PRODUCTS = (("uint8", "int8", (20, 128, 96), 0), ("int8", "int8", (33, 64, 48), 0), ("uint8", "uint8", (4, 192, 32), 0),
            ("uint8", "int8", (17, 64, 32), 2), ("int8", "uint8", (70, 64, 16), 0))
OTHERS = (("uint8", "int8", (3, 64, 32), 0), ("uint8", "int8", (20, 68, 32), 0), ("uint8", "int8", (20, 64, 40), 0))


@pytest.mark.parametrize("options, algorithm", [
    ({}, UNIT), ({"rows": 1000}, UNIT), ({"columns": 16}, UNIT), ({"panel": 32}, UNIT), ({"rows": 3}, TILES),
    ({"rows": SYMBOLIC}, TILES), ({"rows": 1009}, TILES), ({"depth": 17}, TILES), ({"columns": 40}, TILES),
    ({"panel": 64}, TILES), ({"made": True}, TILES), ({"dot": "dot_s16s16"}, TILES)], ids=str)
def test_products_that_the_unit_is_for(options, algorithm):
    """Of whole tiles of terms and columns, and blocks of rows that divide them; else vectors multiply."""
    kernel = Product(**{"rows": 20, "depth": 32, "columns": 96, "dot": "dot_u8s8", **options})
    for target in (AMX, AMX.alone()):
        plan = choose(kernel, target)
        assert plan.algorithm == algorithm
        if algorithm == UNIT:
            assert kernel.rows % plan.tile.rows == 0 == kernel.columns % (16 * plan.tile.vectors)


def integers(shape, dtype, seed):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def network(products):
    """(A network that makes bytes of the sums of each product, its inputs, the exact results)."""
    params, inputs, results, expected = [], [], [], []
    bb = BlockBuilder()

    def add(shape, dtype):
        inputs.append(integers(shape, dtype, len(inputs)))
        params.append(RelaxVar(f"x{len(params)}", TensorStructInfo(shape, dtype)))
        return params[-1], inputs[-1].astype(np.int64)

    operands = []
    for n, (left, right, (rows, depth, columns), batch) in enumerate(products):
        lead = (batch,) if batch else ()
        x, x_ = add((*lead, rows, depth), left)
        if batch:
            w, w_ = add((batch, depth, columns), right)
        else:
            w_ = integers((depth, columns), right, 50 + n)
            w, w_ = Constant(w_, f"w{n}"), w_.astype(np.int64)
        operands.append((x, w))
        total = np.rint((x_ @ w_).astype(np.float32) * np.float32(1e-3))
        expected.append(np.clip(total, -128, 127).astype(np.int8))
    with bb.function("main", params):
        for x, w in operands:
            y = bb.emit(call_op("astype", bb.emit(call_op("matmul", x, w, out_dtype="int32")), dtype="float32"))
            y = bb.emit(call_op("round", bb.emit(call_op("multiply", y, Constant(np.array(1e-3, np.float32))))))
            results.append(bb.emit(call_op("astype", bb.emit(call_op("clip", y, min=-128.0, max=127.0)), dtype="int8")))
        bb.emit_func_output(results)
    return bb.get(), inputs, expected


def test_the_loops_that_stand_for_the_unit():
    mod, inputs, expected = network(PRODUCTS + OTHERS)
    with ingot.compile(mod, target=replace(AMX, name="c"), threads="none") as library:
        calls = kernels_of(library)
        assert "refused" not in calls and calls.count(" ingot_tiles_") >= len(PRODUCTS)
        for found, exact in zip(library(*inputs), expected):
            np.testing.assert_array_equal(found, exact)


def of_the_unit(library, inputs, folder):
    """The outputs of a network for AMX, whose unit is emulated, as arrays of the outputs' dtypes."""
    need("gcc")
    if missing := AMX.isa - {"amx_tile", "amx_int8"} - cpu_flags():
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")
    sources = [f for f in sorted(Path(library.export(folder / "net")).glob("*.c")) if "selftest" not in f.name]
    flags = ["-std=c99", *toolchain(AMX).cflags, "-O1", "-D_POSIX_C_SOURCE=199309L", "-include", EMULATED]
    run(["gcc", *flags, *sources, "-o", folder / "example", "-lm"])
    names = [[folder / f"{t.name}.bin" for t in some] for some in (library.inputs, library.outputs)]
    for name, x in zip(names[0], inputs):
        x.tofile(name)
    run([folder / "example", *names[0], *names[1]])
    return [np.fromfile(name, t.dtype.numpy) for name, t in zip(names[1], library.outputs)]


def test_what_the_unit_makes(tmp_path):
    mod, inputs, expected = network(PRODUCTS)
    library = ingot.compile(mod, name="bytes", target=AMX, threads="none", weights="array")
    for found, exact in zip(of_the_unit(library, inputs, tmp_path), expected):
        np.testing.assert_array_equal(found.reshape(exact.shape), exact)


@pytest.mark.parametrize("algorithm", ["", "split_integer", "winograd4_split_integer"])
def test_floats_by_split_integers(tmp_path, algorithm):
    """A product, and convolutions: the emulated unit's results are as near as those of the loops."""
    if algorithm:
        kernel = 3 if "winograd" in algorithm else 1
        mod, x = image_network(64, 64, (14, 14), kernel=kernel), image(64, (14, 14))
        options = {"algorithms": {"conv": algorithm}}
    else:
        mod, x = product_network((20,))[0], np.random.default_rng(1).standard_normal((20, 512), np.float32)
        options = {}
    library = ingot.compile(mod, name="floats", target=AMX, threads="none", weights="array", accuracy="relaxed", **options)
    assert "ingot_tiles_product" in kernels_of(library)
    exact = evaluate(mod, [x])
    found, = of_the_unit(library, [x], tmp_path)
    assert np.abs(found.reshape(exact.shape) - exact).max() <= 1e-4 * np.abs(exact).max()
