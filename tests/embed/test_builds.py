"""The folder's own Makefile and CMakeLists.txt, for every way to keep weights; and every target, emulated or not."""
import os

import pytest

from c_folders import copy, build, need, need_compiler, run, selftest_sources
from ingot.codegen.target import Target
from ingot.codegen.toolchain import find_compiler, missing_tools, run_command
from ingot.codegen.toolchains import toolchain
from networks import needs_zoo, tiny_names

WEIGHTS = ["incbin", "array", "file", "extern"]
TARGETS = ["aarch64-linux-gnu", "armv7-linux-gnueabihf", "c", "x86-64-v3", "x86-64-v4"]


@pytest.fixture
def environment():
    """The environment without what would reach the folder's Makefile from the one that runs the tests."""
    ours = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS")
    return {key: value for key, value in os.environ.items() if key not in ours}


@pytest.mark.parametrize("weights", WEIGHTS)
def test_make_check(exported, tmp_path, environment, weights):
    need("make", "cc")
    folder = copy(exported("conv_net", weights=weights).folder, tmp_path)
    assert "prob: max error" in run(["make", "-j2", "check"], folder, environment)
    run(["make", "-j2"], folder, environment)
    assert "best of 10 runs" in run(["./example"], folder)
    before = {path.name for path in exported("conv_net", weights=weights).folder.iterdir()}
    run(["make", "clean"], folder, environment)
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_make_with_openmp_on_request(exported, tmp_path, environment, compiler):
    need_compiler(compiler, "-fopenmp")
    folder = copy(exported("conv_net", threads="openmp").folder, tmp_path)
    text = run(["make", "-j2", "check", f"CC={compiler}"], folder, environment)
    assert text.count("-fopenmp") > 3
    run(["make", "clean"], folder, environment)
    assert "-fopenmp" not in run(["make", "-j2", "check", f"CC={compiler}", "OPENMP=0"], folder, environment)


def test_make_with_profiling_on_request(exported, tmp_path, environment):
    need("make", "cc")
    folder = copy(exported("conv_net").folder, tmp_path)
    run(["make", "-j2", "PROFILE=1"], folder, environment)
    lines = run(["./example"], folder).splitlines()
    assert any(line.split()[1:] == ["ms", "conv_net_conv2"] for line in lines)
    run(["make", "clean"], folder, environment)
    run(["make", "-j2"], folder, environment)
    assert "conv_net_conv2" not in run(["./example"], folder)
    assert "set_profile" not in run(["nm", "libconv_net.a"], folder)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_cmake(exported, tmp_path, environment, weights):
    need("cmake", "make", "cc")
    folder = exported("conv_net", weights=weights).folder
    run(["cmake", "-S", folder, "-B", tmp_path], None, environment)
    run(["cmake", "--build", tmp_path, "--parallel", "2"], None, environment)
    assert "prob: max error" in run(["ctest", "--output-on-failure", "--verbose"], tmp_path, environment)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["conv_net", "embedding_net", "dense_blocks",
                                  *(pytest.param(name, marks=needs_zoo) for name in tiny_names or ["tiny_resnet8"])])
def test_selftest_passes_for_every_target(exported, tmp_path, name, target):
    if reason := missing_tools(target):
        pytest.skip(reason)
    folder = exported(name, target=target).folder
    compiler, flags = find_compiler(target), [f if f != "-O3" else "-O1" for f in toolchain(Target.get(target)).cflags]
    program = build(folder, selftest_sources(folder), tmp_path / "selftest", *compiler.command, *flags)
    assert "ok" in run(run_command(target, program))


def test_cross_make(exported, tmp_path, environment):
    """The Makefile with another compiler and a runner for the self-test."""
    need("make", "aarch64-linux-gnu-gcc", "qemu-aarch64")
    folder = copy(exported("conv_net", target="aarch64-linux-gnu").folder, tmp_path)
    text = run(["make", "-j2", "check", "CC=aarch64-linux-gnu-gcc", "AR=aarch64-linux-gnu-ar",
                "RUNNER=qemu-aarch64 -L /usr/aarch64-linux-gnu"], folder, environment)
    assert "prob: max error" in text
