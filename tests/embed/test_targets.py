"""A network for every target of another machine: its folder's self-test, built as its Makefile says, under QEMU."""
import re

import numpy as np
import pytest
from onnx import helper

import ingot
from c_folders import STRICT, copy, need, run
from ingot.codegen.target import Target
from ingot.codegen.toolchain import find_compiler, missing_tools, run_command
from ingot.codegen.toolchains import TOOLCHAINS, is_native
from networks import load, make_model

BOARDS = [row.name for row in TOOLCHAINS.values() if row.board]
CROSS = [row.name for row in TOOLCHAINS.values() if row.runner and not row.board and row.arch != "x86_64"]
X86 = [row.name for row in TOOLCHAINS.values() if row.arch == "x86_64"]
ROWS = {name for name in TOOLCHAINS if Target.get(name).kind == "c"}  # before tests add some of their own
SCALAR_FPUS = ["cortex-m4f", "cortex-m7", "cortex-m33", "rv32imafc", "riscv64-linux-gnu",
               "armv7-vfpv3-linux-gnueabihf"]


def need_tools(target):
    if reason := missing_tools(target):
        pytest.skip(reason)
    need("make")


def cflags(target, level="-O3"):
    """What make is told: every warning is an error."""
    flags = [level if flag == "-O3" else flag for flag in TOOLCHAINS[target].cflags]
    return f"CFLAGS={' '.join([*flags, *STRICT])}"


@pytest.mark.parametrize("target, level", [(target, ("-O3", "-Os")[n % 2]) for n, target in enumerate(BOARDS)])
def test_boards(exported, tmp_path, target, level):
    """Without a system: startup code, linker script and the command of QEMU are in the folder."""
    need_tools(target)
    folder = copy(exported("conv_net", target=target).folder, tmp_path)
    assert "prob: max error" in run(["make", "check", cflags(target, level)], folder)


@pytest.mark.parametrize("target", CROSS)
def test_systems(exported, tmp_path, target):
    """Under a system: a cross compiler, and QEMU in user mode."""
    need_tools(target)
    folder = copy(exported("conv_net", target=target).folder, tmp_path)
    assert "prob: max error" in run(["make", "check", f"CC={find_compiler(target)}", cflags(target, "-O1"),
                                     f"RUNNER={' '.join(TOOLCHAINS[target].runner)}"], folder)


@pytest.mark.parametrize("bits", [256, 1024])
def test_registers_longer_than_the_least(built_for_vectors, bits):
    """The same program on RISC-V's vectors of each length."""
    runner = [word.replace("vlen=128", f"vlen={bits}") for word in TOOLCHAINS["riscv64-v"].runner]
    assert f"vlen={bits}" in " ".join(runner) and "prob: max error" in run([*runner, "./selftest"], built_for_vectors)


@pytest.fixture(scope="module")
def built_for_vectors(exported, tmp_path_factory):
    """The folder of a network with its self-test, for riscv64-v."""
    need_tools("riscv64-v")
    folder = copy(exported("conv_net", target="riscv64-v").folder, tmp_path_factory.mktemp("vectors"))
    run(["make", f"CC={find_compiler('riscv64-v')}", cflags("riscv64-v", "-O1"), "selftest"], folder)
    return folder


@pytest.mark.parametrize("target", X86)
def test_x86(exported, tmp_path, target):
    """Compiled for each level, and run where this processor or QEMU knows its instructions."""
    need("make")
    if not is_native(Target.get(target)):
        need("x86_64-linux-gnu-gcc")
    folder = copy(exported("conv_net", target=target).folder, tmp_path)
    run(["make", f"CC={find_compiler(target)}", cflags(target, "-O1")], folder)
    if not missing_tools(target):
        assert "prob: max error" in run(run_command(target, "./selftest"), folder)


def test_every_row_is_built():
    assert ROWS - {*BOARDS, *CROSS, *X86} == {"c", "c-simd"}


@pytest.mark.parametrize("target", ["cortex-m4f", "rv32imafc"])
def test_the_example_counts_on_a_board(exported, tmp_path, target):
    """Under -icount shift=0 an instruction takes a nanosecond: kernels are told in milliseconds of that."""
    need_tools(target)
    folder = copy(exported("conv_net", target=target).folder, tmp_path)
    run(["make", "PROFILE=1", "example"], folder)
    text = run([*TOOLCHAINS[target].runner, "example"], folder)
    total = float(re.search(r"best of 10 runs: ([\d.]+) ms", text)[1])
    kernels = [float(ms) for ms in re.findall(r"^ *([\d.]+) ms  conv_net", text, re.MULTILINE)]
    assert len(kernels) > 3 and total / 2 < sum(kernels) < 2 * total < 10


def test_a_compiler_without_a_system_builds_any_folder(exported, tmp_path):
    """The example does without the clock of POSIX, and the library is made by the archiver beside the compiler."""
    need("make", "arm-none-eabi-gcc")
    folder = copy(exported("conv_net", target="c").folder, tmp_path)
    run(["make", "CC=arm-none-eabi-gcc"], folder)
    assert (folder / "example").exists() and (folder / "selftest").exists()


@pytest.mark.parametrize("flags", ["", "-march=native", "-DINGOT_SIMD_SCALAR"])
def test_c_takes_the_vectors_that_flags_allow(exported, tmp_path, flags):
    need_tools("c-simd")
    folder = copy(exported("conv_net", target="c-simd").folder, tmp_path)
    assert "ok" in run(["make", "-s", "check", f"{cflags('c-simd', '-O1')} {flags}"], folder)
    text = "".join(path.read_text() for path in folder.glob("*_kernels_*.c"))
    assert "f32x8_fma" in text and "f32x16" not in text


@pytest.mark.parametrize("weights", ["incbin", "file", "extern"])
def test_weights_of_webassembly(exported, tmp_path, weights):
    """Embedded by the assembler, read by the program, or linked in by it."""
    need_tools("wasm32")
    folder = copy(exported("conv_net", target="wasm32", weights=weights).folder, tmp_path)
    assert "prob: max error" in run(["make", "check", cflags("wasm32", "-O1")], folder)


def test_windows(exported, tmp_path):
    need("make", "x86_64-w64-mingw32-gcc")
    folder = copy(exported("conv_net", target="c", weights="array").folder, tmp_path)
    run(["make", "CC=x86_64-w64-mingw32-gcc"], folder)


# ---- what a target without a system asks for ------------------------------------------------------------------------

def test_a_library_without_a_system_needs_little():
    library = ingot.compile(load("conv_net"), target="cortex-m4f")
    assert (library.model.threads, library.model.weights) == ("none", "array")
    files = library.model.files()
    assert {"board.c", "board.ld"} <= set(files) and "<time.h>" not in files["conv_net_example.c"]
    programs = ("conv_net_example.c", "conv_net_selftest.c", "board.c", "README.md")
    own = "".join(text for name, text in files.items() if name not in programs)
    assert not re.search(r"#include <(stdio|stdlib|time)\.h>", own)
    with pytest.raises(ValueError, match="no system runs threads on cortex-m4f: leave out threads"):
        ingot.compile(load("conv_net"), target="cortex-m4f", threads="openmp")


def test_memory_in_all(exported):
    folder = exported("conv_net", target="cortex-m4f").folder
    header = (folder / "conv_net.h").read_text()
    arena, stack, ram = (int(re.search(rf"CONV_NET_{what}_BYTES (\d+)u", header)[1])
                         for what in ("ARENA", "STACK", "RAM"))
    outputs = sum(eval(size) for size in re.findall(r"#define CONV_NET_\w+_SIZE \(([\d* ]+)\)", header))
    assert ram == arena + stack + 4 * outputs and stack <= 2048
    assert f"| **RAM in all** | {ram} |" in (folder / "README.md").read_text()
    assert "RAM_BYTES" not in (exported("conv_net", target="c").folder / "conv_net.h").read_text()


def test_weights_of_a_target_with_a_system_stay_a_blob():
    library = ingot.compile(load("conv_net"), target="riscv64-linux-gnu")
    assert (library.model.threads, library.model.weights) == ("openmp", "incbin")


@pytest.mark.parametrize("target", SCALAR_FPUS)
def test_sums_stay_in_registers(target):
    """Of convolutions and of products, where there are 32 registers of a float each."""
    row = Target.get(target)
    assert row.has_tiles and row.lanes == 1 and row.accumulators < row.registers == 32
    plans = {name: record.schedule for name, record in ingot.recorded_plans(load("conv_net"), target=target).items()}
    tiled = [plan for plan in plans.values() if plan.rule in ("columns", "contraction")]
    assert len(tiled) >= 3 and max(plan.tile.accumulators for plan in tiled) > 4
    assert all(plan.tile.accumulators <= row.accumulators for plan in tiled)


@pytest.mark.parametrize("name", ["conv_net", "depthwise", "mobile_net"])
def test_no_vectors_where_lanes_are_one(name):
    """Registers that hold a window's columns have one float each, whatever the stride."""
    files = ingot.compile(windows_net() if name == "depthwise" else load(name), target="cortex-m4f").model.files()
    kernels = "".join(text for file, text in files.items() if "_kernels_" in file)
    assert "_local[" in kernels and not re.search(r"f32x(4|8|16)_", kernels)


def windows_net():
    """Depthwise 3x3 convolutions of stride 1 and 2, whose columns several points of a tile see."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", [x, f"w{s}"], [y], group=8, pads=[1] * 4, strides=[s, s])
             for x, y, s in (("x", "h", 1), ("h", "y", 2))]
    weights = {f"w{s}": rng.standard_normal((8, 1, 3, 3)).astype(np.float32) for s in (1, 2)}
    return make_model("windows", nodes, {"x": (np.float32, [1, 8, 12, 12])}, {"y": (np.float32, [1, 8, 6, 6])}, weights)


@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m3", "rv32imc", "c"])
def test_no_tiles_without_an_fpu(target):
    assert not Target.get(target).has_tiles


# ---- the example's clock --------------------------------------------------------------------------------------------

def test_a_cycle_counter_of_risc_v(exported, tmp_path):
    need("make", "riscv64-linux-gnu-gcc", "qemu-riscv64")
    folder = copy(exported("conv_net", target="c", weights="array").folder, tmp_path)
    run(["make", "PROFILE=1", "CC=riscv64-linux-gnu-gcc", "CPPFLAGS=-DINGOT_CLOCK_HZ=1000000000", "example"], folder)
    text = run(["qemu-riscv64", "-L", "/usr/riscv64-linux-gnu", "./example"], folder)
    total = float(re.search(r"best of 10 runs: ([\d.]+) ms", text)[1])
    kernels = [float(ms) for ms in re.findall(r"^ *([\d.]+) ms  conv_net", text, re.MULTILINE)]
    assert 0 < total < 1e6 and len(kernels) > 3 and all(0 < ms < 1e6 for ms in kernels)


@pytest.mark.parametrize("cpu, counts", [("cortex-m4", True), ("cortex-a7", False)])
def test_a_cycle_counter_of_cortex_m(exported, tmp_path, cpu, counts):
    """Compiled, and not run: QEMU has none."""
    need("arm-none-eabi-gcc")
    folder = exported("conv_net", target="c", weights="array").folder
    run(["arm-none-eabi-gcc", *STRICT, "-O1", f"-mcpu={cpu}", "-DINGOT_CLOCK_HZ=168000000", "-S", "-o",
         tmp_path / "example.s", "conv_net_example.c"], folder)
    text = (tmp_path / "example.s").read_text()
    assert bool(re.search(r"\bbl\s+clock$", text, re.MULTILINE)) != counts
