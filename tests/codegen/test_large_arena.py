"""Networks whose arena, weights or tensors pass 2 GB: no constant of the C is larger than its type, and a machine of
32 bits says so. They are compiled and not run."""
import shutil
import subprocess
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from ingot.codegen.compile import Options, compile_module
from ingot.ir.expr import const
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O1")
COMPILERS = [pytest.param(cc, marks=pytest.mark.skipif(not shutil.which(cc), reason=f"no {cc}"))
             for cc in ("gcc", "clang")]
ARM = "arm-linux-gnueabihf-gcc"


@lru_cache
def attention(rows, threads):
    """Attention of so many rows whose scores are a tensor of rows x rows. No reference is evaluated beyond 4 GiB."""
    x = RelaxVar("x", TensorStructInfo((rows, 16), "float32"))
    keys, values = (Constant(np.ones(shape, np.float32), "w") for shape in ((16, rows), (rows, 16)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        scores = bb.emit(call_op("nn.softmax", bb.emit(call_op("matmul", x, keys)), axis=-1))
        bb.emit_func_output(bb.emit(call_op("matmul", scores, values)))
    return compile_module(bb.get(), Options.check("c", threads=threads, weights="file", name="large"))


def of_large_input(model):
    """The model as one whose input has more than 2^32 elements."""
    shape = (3, 40000, 40000)
    x = replace(model.program.inputs[0], shape=shape, dims=tuple(const(d, "int64") for d in shape))
    return replace(model, program=replace(model.program, inputs=(x,)))


def build(folder, model, command, source):
    if not (folder / "net").exists():
        model.write(folder / "net")
    return subprocess.run([*command, "-c", source, "-o", "out.o"], cwd=folder / "net", capture_output=True, text=True)


@pytest.mark.parametrize("cc", COMPILERS)
@pytest.mark.parametrize("threads", ("none", "openmp"))
def test_an_arena_beyond_2_gb_compiles_without_a_warning(tmp_path, cc, threads):
    model = attention(40000, threads)
    assert model.program.plan.total.value > 1 << 33 and not model.test_outputs
    team = ["-fopenmp"] if threads == "openmp" and cc == "gcc" else []
    for source in ("large.c", "large_kernels_0.c", "large_example.c", "large_selftest.c"):
        done = build(tmp_path, model, [cc, *STRICT, *team], source)
        assert done.returncode == 0, done.stderr
    text = model.files()["large.c"]
    assert "static const size_t" in text and "enum { /* where" not in text


@pytest.mark.parametrize("cc", COMPILERS)
def test_the_size_of_a_large_tensor_is_no_int(tmp_path, cc):
    model = of_large_input(attention(32, "none"))
    assert "#define LARGE_X_SIZE (INT64_C(3) * 40000 * 40000)" in model.files()["large.h"]
    (tmp_path / "net").mkdir()
    for name, text in model.files().items():
        if name.endswith((".c", ".h")):
            (tmp_path / "net" / name).write_text(text)
    (tmp_path / "net" / "use.c").write_text(
        '#include "large.h"\ntypedef char size_is_right[LARGE_X_SIZE == 4800000000 ? 1 : -1];\n'
        "size_t use(void);\nsize_t use(void) { return LARGE_X_SIZE; }\n")
    for source in ("large.c", "use.c"):
        done = build(tmp_path, model, [cc, *STRICT], source)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which(ARM), reason=f"no {ARM}")
@pytest.mark.parametrize("model, right", [
    (lambda: attention(40000, "none"), False), (lambda: of_large_input(attention(32, "none")), False),
    (lambda: attention(32, "none"), True)], ids=["arena", "input", "small"])
def test_32_bits_are_too_few_and_the_c_says_so(tmp_path, model, right):
    done = build(tmp_path, model(), [ARM, "-std=c99"], "large.c")
    assert (done.returncode == 0) == right and ("needs a machine of 64 bits" in done.stderr) != right


def test_places_of_a_small_arena_stay_an_enumeration():
    text = attention(32, "none").files()["large.c"]
    assert "enum { /* where each tensor is in the memory */" in text and "64 bits" not in text
