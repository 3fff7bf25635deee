"""The choice of register tiles, and that compilers keep the chosen ones in registers."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rule_cases import const, kernels, network

from ingot.codegen.compile import Options
from ingot.codegen.kernels import print_kernel
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_native, toolchain
from ingot.ir.schedule.plan import Tile, choose
from ingot.ir.schedule.rules import schedule_by_rule
from ingot.ir.schedule.rules.product_plan import Product
from ingot.ir.schedule.rules.tiles import VECTORS, Sums, busy, candidates
from ingot.ir.transform.pipeline import lower_prim_func
from machines import machine

RUNTIME = Path(__file__).resolve().parents[3] / "runtime_c"
MACHINES = [machine(registers=r, accumulators=a) for r, a in ((8, None), (16, None), (16, 9), (32, None), (32, 21))]


@pytest.mark.parametrize("cpu", MACHINES, ids=str)
def test_tiles_fit_the_registers(cpu):
    tiles = list(candidates(cpu))
    assert len(tiles) == len(set(tiles))
    for tile in tiles:
        assert tile.vectors * tile.rows * tile.columns + tile.vectors + 1 <= cpu.registers
        assert tile.accumulators <= (cpu.accumulators or cpu.registers)


@pytest.mark.parametrize("count, block, most", [(8, 1, 4), (7, 1, 4), (1, 1, 1), (125, 80, 80), (125, 60, 65),
                                                (9, 4, 5), (10, 16, 10)])
def test_what_the_busier_of_two_threads_does(count, block, most):
    """The first thread has one of three blocks, and the last block may be small."""
    assert busy(count, block) == 2 * most / count


@pytest.mark.parametrize("columns, vectors", [(16, 4), (12, 6), (63, 6), (2, 2)])
def test_panels_of_one_row_are_whole(columns, vectors):
    """Six vectors fit the registers, but three panels of them would be read for 16."""
    assert choose(Product(1, 64, 8 * columns), machine(8, 16)).tile.vectors == vectors


@pytest.mark.parametrize("cpu", MACHINES, ids=str)
@pytest.mark.parametrize("dividing", [False, True])
def test_choice(cpu, dividing):
    """One of the candidates, dividing where it must; none that is plainly better."""
    fitting = list(candidates(cpu))
    for outer in (1, 2, 3, 5, 8, 64):
        for rows, columns in ((1, 1), (1, 13), (56, 56), (7, 7), (1 << 20, 1), (197, 1)):
            tile = choose(Sums("register_tile", outer, rows, columns, dividing), cpu).tile
            assert tile in fitting
            if dividing:
                assert outer % tile.vectors == 0
            idle = [t for t in fitting if t.vectors == tile.vectors and t.points > tile.points
                    and rows % t.rows == 0 and columns % t.columns == 0 and tile.accumulators < 8]
            assert not idle, f"{tile} leaves FMA units idle, {idle[0]} would not"


@pytest.mark.parametrize("arguments, expected", [
    ((machine(16, 32), 8, 56, 56), Tile(2, 1, 14)),
    ((machine(16, 32), 48, 128, 1), Tile(6, 4)),
    ((machine(8, 16), 8, 56, 56), Tile(2, 1, 4)),
])
def test_standard_tiles(arguments, expected):
    cpu, *sizes = arguments
    assert choose(Sums("register_tile", *sizes), cpu).tile == expected


def test_every_count_of_vectors_is_tried():
    assert {t.vectors for t in candidates(machine(16, 32))} == set(VECTORS)


# ---------------------------------------------------------------- spills

def _conv(channels, size, kernel):
    weight, bias = const(channels, 16, kernel, kernel), const(1, channels, 1, 1)
    return (lambda op, x: op("nn.relu", op("add", op("nn.conv2d", x, weight), bias)),
            [(1, 16, size + kernel - 1, size + kernel - 1)])


def _dense(rows, columns, depth=64):
    return lambda op, x: op("nn.relu", op("matmul", x, const(depth, columns))), [(rows, depth)]


KERNELS = {"conv_3x3_56": _conv(64, 56, 3), "conv_3x3_14": _conv(256, 14, 3), "conv_3x3_7": _conv(512, 7, 3),
           "conv_1x1_56": _conv(256, 56, 1), "conv_1x1_55": _conv(64, 55, 1), "conv_1x1_7": _conv(512, 7, 1),
           "dense": _dense(128, 768), "dense_in_parts": _dense(64, 768, 3072), "dense_one_row": _dense(1, 1000),
           "matmul": (lambda op, a, b: op("matmul", a, b), [(128, 64), (64, 128)])}

# processor family: an access to the stack, a vector register, a vector FMA, and a jump to a label
ASSEMBLY = {"x86_64": (r"\(%rsp\)", r"%[xyz]mm\d+", r"\tv?fn?m\w+[pP]s\b", r"\tj\w+\s+(\.L\w+)$"),
            "aarch64": (r"\[sp\b", r"\b[qv]\d+", r"\tfml[as]\b", r"\t(?:b\.?\w*|cbn?z|tbn?z)\s.*?(\.L\w+)$")}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target, compiler", [("x86-64-v4", "gcc"), ("x86-64-v3", "gcc"),
                                              ("aarch64-linux-gnu", "aarch64-linux-gnu-gcc")])
def test_no_vector_is_spilled_in_the_reduction(name, target, compiler):
    if shutil.which(compiler) is None or compiler == "gcc" and not is_native(Target.get(target)):
        pytest.skip(f"no {compiler} for {target}")
    loops = list(innermost_loops(assembly(KERNELS[name], Target.get(target), compiler),
                                 toolchain(Target.get(target)).arch))
    assert loops, "no loop with FMAs was found"
    for body, spills in loops:
        assert not spills, f"{len(spills)} spills in {len(body)} instructions:\n" + "\n".join(spills)


def assembly(kernel, target, compiler):
    """The compiler's output for the last kernel of a network, scheduled as `target` wants it."""
    return assembly_of(kernels(lambda: network(*kernel), cpu_of(target))[-1], target,
                       [compiler] if isinstance(compiler, str) else compiler)


def cpu_of(target):
    return Options.check(target.name, threads="openmp").machine


def assembly_of(func, target, compiler):
    """The output of a compiler (a command) for a function, scheduled as `target` wants it."""
    printed = print_kernel(lower_prim_func(schedule_by_rule(func, cpu_of(target)).func), "kernel").function
    headers = [f'#include "{name}"' for name in ("ingot.h", "simd.h", *sorted(printed.uses - {"math.h", "simd.h"}))]
    text = "\n".join([*headers, f"{printed.signature};", printed.signature, printed.body])
    flags = toolchain(target).gcc_cflags if compiler[0].endswith("gcc") else ()
    command = [*compiler, *toolchain(target).cflags, *flags, "-fomit-frame-pointer", "-fno-verbose-asm", "-std=c99",
               f"-I{RUNTIME}", "-S", "-xc", "-", "-o", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.lstrip().startswith("#")]  # what is about assembly


def innermost_loops(lines, arch):
    """(instructions, those that move a vector to or from the stack) of each loop of at least four FMAs in a
    row without a label, which is what a register tile's innermost reduction loop is. It may be entered after moves
    from one register to another."""
    stack, vector, multiply_add, jump = (re.compile(p) for p in ASSEMBLY[arch])
    labels = {}
    for n, line in enumerate(lines):
        if line.endswith(":"):
            labels[line[:-1]] = n
        target = jump.search(line)
        start = labels.get(target[1]) if target else None
        if start is None:
            continue
        body = lines[start + 1:n + 1]
        moves = next((k for k, x in enumerate(body) if not re.match(r"\tv?movap[sd]\s+%\w+, %\w+$", x)), 0)
        if body[moves].startswith(".L"):
            del body[moves]
        if not any(x.startswith(".L") for x in body) and sum(bool(multiply_add.search(x)) for x in body) >= 4:
            yield body, [x for x in body if stack.search(x) and vector.search(x)]
