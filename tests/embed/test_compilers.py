"""Folders on other machines and under other compilers: big-endian ones, 32 bits, musl, tcc, other dialects of C."""
import shutil
import subprocess

import numpy as np
import pytest
from onnx import helper

import ingot
from c_folders import STRICT, build, compile_all, need, need_compiler, run, selftest_sources
from ingot.codegen.target import Target
from ingot.codegen.toolchain import ToolchainError, find_compiler, missing_tools, run_command
from networks import load, make_model

WEIGHTS = ["incbin", "array", "file", "extern"]
SCALAR = ("-O1", "-DINGOT_SIMD_SCALAR")
BIG = "s390x-linux-gnu"


def selftest(folder, place, compiler, *flags, runner=()):
    """The output of a folder's self-test, built by `compiler`; it reads weights from its folder."""
    program = build(folder, selftest_sources(folder), place / "selftest", compiler, *flags)
    return run([*runner, program], cwd=folder)


def small_floats():
    """A product in float16 and a sum in int64, with a weight of each, and functions that look into floats' bits."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    nodes = [node("Cast", ["x"], ["h"], to=10), node("Mul", ["h", "half"], ["y"]), node("Add", ["n", "long"], ["m"]),
             node("Exp", ["x"], ["e"]), node("Sigmoid", ["e"], ["s"])]
    weights = {"half": rng.random((3, 5)).astype(np.float16), "long": np.arange(7, dtype=np.int64) << 33}
    f32 = (np.float32, [3, 5])
    return make_model("small_floats", nodes, {"x": f32, "n": (np.int64, [7])},
                      {"y": (np.float16, [3, 5]), "m": (np.int64, [7]), "s": f32}, weights)


# ---- byte order -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("weights", WEIGHTS)
def test_big_endian(exported, tmp_path, weights):
    if reason := missing_tools(BIG):
        pytest.skip(reason)
    folder = exported("conv_net", target=BIG, weights=weights).folder
    compiler = find_compiler(BIG)
    assert "prob: max error" in selftest(folder, tmp_path, *compiler.command, "-O1", runner=run_command(BIG, "")[:-1])


@pytest.mark.parametrize("name", ["embedding_net", "dense_blocks", "small_floats"])
def test_big_endian_networks(exported, tmp_path, name):
    if reason := missing_tools(BIG):
        pytest.skip(reason)
    if name == "small_floats":
        folder = ingot.compile(small_floats(), target=BIG, threads="none").export(tmp_path / "net")
    else:
        folder = exported(name, target=BIG).folder
    compiler = find_compiler(BIG)
    found = selftest(folder, tmp_path, *compiler.command, "-O1", runner=run_command(BIG, "")[:-1])
    assert "ok" in found and "WRONG" not in found


@pytest.mark.parametrize("compiler, runner, order", [
    ("powerpc64-linux-gnu-gcc", ("qemu-ppc64", "-L", "/usr/powerpc64-linux-gnu"), "big"), ("gcc", (), None)])
@pytest.mark.parametrize("weights", ["incbin", "array"])
def test_any_target_in_either_byte_order(exported, tmp_path, compiler, runner, order, weights):
    need(compiler, *runner[:1])
    folder = exported("conv_net", target="c", weights=weights, byte_order=order if weights == "incbin" else None).folder
    assert "prob: max error" in selftest(folder, tmp_path, compiler, *SCALAR, runner=runner)


@pytest.mark.parametrize("weights", ["incbin", "file", "extern"])
def test_the_other_byte_order_is_refused(exported, tmp_path, weights):
    """When the C is compiled, or by a compiler that does not tell its byte order when an instance is made."""
    need("gcc")
    case = exported("conv_net", target="c", weights=weights, byte_order="big")
    done = subprocess.run(["gcc", "-c", "conv_net.c", "-o", tmp_path / "net.o"], cwd=case.folder, capture_output=True,
                          text=True)
    assert done.returncode != 0 and "--byte-order little, or --weights array" in done.stderr
    folder = shutil.copytree(case.folder, tmp_path / "folder")
    text = (folder / "ingot.h").read_text()
    (folder / "ingot.h").write_text(text.replace("#define INGOT_BIG_ENDIAN 0", "#define INGOT_BIG_ENDIAN 1"))
    done = subprocess.run([build(folder, selftest_sources(folder), tmp_path / "selftest", "gcc", *SCALAR)], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "the weights are missing or belong to another model" in done.stderr
    with pytest.raises(ToolchainError, match="export the folder"):
        case.library.build()


def test_the_byte_order_has_two_values():
    with pytest.raises(ValueError, match="byte_order must be one of None, little, big, not 'middle'"):
        ingot.compile(load("conv_net"), byte_order="middle")
    assert Target.get(BIG).byte_order == "big"


# ---- compilers ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("weights", ["incbin", "array"])
def test_tcc(exported, tmp_path, weights):
    """A compiler that is neither gcc nor clang; it has no .incbin, so gcc assembles the blobs."""
    need("tcc", "gcc")
    folder = exported("conv_net", target="c", weights=weights).folder
    objects = []
    for source in selftest_sources(folder):
        objects.append(tmp_path / f"{source.stem}.o")
        compiler = ("tcc", *SCALAR[1:]) if source.suffix == ".c" else ("gcc",)
        run([*compiler, "-c", source, "-o", objects[-1]], cwd=folder)
    run(["tcc", *objects, "-lm", "-o", tmp_path / "selftest"])
    assert "prob: max error" in run([tmp_path / "selftest"])


@pytest.mark.parametrize("flags", [("-std=c11",), ("-std=gnu99",), ("-std=c2x",), ("-funsigned-char",),
                                   ("-fsigned-char",), ("-fshort-enums",), ("-O0",), ("-Os", "-flto")],
                         ids=" ".join)
def test_dialects(exported, tmp_path, flags):
    need_compiler("gcc", *flags)
    assert "prob: max error" in selftest(exported("conv_net", target="c").folder, tmp_path, "gcc", *SCALAR, *flags)


def test_alignment_without_the_words_of_gcc(exported, tmp_path):
    """C11's and C++11's, as of a compiler that is none of those with words of their own."""
    need("gcc", "g++")
    folder = shutil.copytree(exported("conv_net", target="c").folder, tmp_path / "folder")
    text = (folder / "ingot.h").read_text()
    (folder / "ingot.h").write_text(text.replace("#if defined(__GNUC__)\n#define INGOT_ALIGNED",
                                                       "#if 0\n#define INGOT_ALIGNED"))
    assert "prob: max error" in selftest(folder, tmp_path, "gcc", "-std=c11", *SCALAR)
    (tmp_path / "a.cpp").write_text('#include <cstdint>\n#include "conv_net.h"\nINGOT_ALIGNED(64) static char a[9];\n'
                                    "int main() { return (int)((std::uintptr_t)a % 64); }\n")
    run(["g++", "-std=c++11", "-Werror", f"-I{folder}", tmp_path / "a.cpp", "-o", tmp_path / "a"])
    run([tmp_path / "a"])


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["shared", "static"])
def test_musl(exported, tmp_path, flags):
    need("musl-gcc")
    assert "prob: max error" in selftest(exported("conv_net", target="c").folder, tmp_path, "musl-gcc", *SCALAR, *flags)


@pytest.mark.parametrize("compiler, runner, flags", [
    ("i686-linux-gnu-gcc", ("qemu-i386", "-L", "/usr/i686-linux-gnu"), ("-msse2", "-mfpmath=sse")),
    ("arm-linux-gnueabihf-gcc", ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"), ("-fsigned-char",))])
@pytest.mark.parametrize("name", ["conv_net", "embedding_net"])
def test_machines_of_32_bits(exported, tmp_path, name, compiler, runner, flags):
    need(compiler, runner[0])
    folder = exported(name, target="c").folder
    compile_all(folder, compiler, *STRICT, *flags)
    assert "ok" in selftest(folder, tmp_path, compiler, *SCALAR, *flags, runner=runner)
