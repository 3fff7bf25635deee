"""Weights that lie in fewer words than they are: strict C on every instruction set, results within the contract, and
`exact` without them."""
import numpy as np
import pytest

import ingot
from c_folders import build_strictly, run
from ingot.codegen.target import Target
from ingot.codegen.toolchain import missing_tools, run_command
from ingot.codegen.toolchains import is_supported_here
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, TupleGetItem, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate

CONTRACT = 1e-5  # of the largest result


def layers(rows=1, depth=3072, columns=1000, hidden=128, cell="nn.gru", gates=3):
    """A product that waits for memory, and a recurrence of its columns that waits for L2, or longer."""
    rng = np.random.default_rng(0)

    def const(*shape):
        return Constant((rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) == 2 else shape[-1])
                         ).astype(np.float32), "w")

    x = RelaxVar("x", TensorStructInfo((rows, depth), "float32"))
    states = [const(1, 1, hidden)] * (2 if cell == "nn.lstm" else 1)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.relu", bb.emit(call_op("matmul", x, const(depth, columns)), "product")))
        y = bb.emit(call_op("reshape", y, [rows * 8, 1, columns // 8]))
        y = bb.emit(call_op(cell, y, const(1, gates * hidden, columns // 8), const(1, gates * hidden, hidden),
                            const(1, 2 * gates * hidden), *states, hidden_size=hidden))
        bb.emit_func_output(bb.emit(TupleGetItem(y, 0)))
    return bb.get()


def given(mod):
    shape = mod["main"].params[0].struct_info.static_shape
    return np.maximum(np.random.default_rng(1).standard_normal(shape), 0).astype(np.float32)


def kernels_of(library):
    return "".join(text for name, text in library.model.files().items() if "_kernels_" in name)


CASES = pytest.mark.parametrize("options", [
    {}, {"rows": 2, "columns": 1024}, {"cell": "nn.lstm", "gates": 4, "hidden": 256}], ids=["gru", "rows", "lstm"])


@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "x86-64-v4-zen4"])
@CASES
def test_results(target, threads, options):
    if not is_supported_here(Target.get(target)):
        pytest.skip(f"{target} does not run here")
    mod = layers(**options)
    x = given(mod)
    wanted = evaluate(mod, [x])
    for accuracy, contract in (("relaxed", CONTRACT), ("strict" if threads == "none" else "float32", CONTRACT / 3)):
        with ingot.compile(mod, target=target, threads=threads, accuracy=accuracy) as library:
            assert ("_fixed(" in kernels_of(library)) == (accuracy == "relaxed")
            (found,) = library.run({"x": x}).values()
        assert np.abs(found - wanted).max() <= contract * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "x86-64-v4-zen4"])
@pytest.mark.parametrize("magnitude", [1e-28, 1e30])
def test_products_of_large_and_small_rows(target, magnitude):
    if not is_supported_here(Target.get(target)):
        pytest.skip(f"{target} does not run here")
    rng = np.random.default_rng(0)
    x, w = RelaxVar("x", TensorStructInfo((1, 4096), "float32")), rng.standard_normal((4096, 512)).astype(np.float32)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(call_op("matmul", x, Constant(w, "w"))))
    rows = (magnitude * rng.standard_normal((1, 4096))).astype(np.float32)
    with ingot.compile(bb.get(), target=target, threads="none", accuracy="relaxed") as library:
        assert "_fixed(" in kernels_of(library)
        (found,) = library.run({"x": rows}).values()
    wanted = rows.astype(np.float64) @ w
    assert np.abs(found - wanted).max() <= CONTRACT * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "x86-64-v4-zen4", "aarch64-linux-gnu",
                                    "armv7-linux-gnueabihf"])
def test_strict_c_and_its_own_test(target, tmp_path):
    """With the target's compiler, run where the machine, or an emulator, can."""
    if reason := missing_tools(target):
        pytest.skip(reason)
    with ingot.compile(layers(depth=3072), target=target, threads="none", name="waits", accuracy="relaxed") as library:
        assert "_fixed(" in kernels_of(library)
        folder = library.export(tmp_path / "net")
    assert "ok" in run(run_command(target, build_strictly(folder, tmp_path / "selftest", target)))
