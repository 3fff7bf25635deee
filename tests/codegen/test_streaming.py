"""Weights that a run reads by a function of the caller's: when, how many bytes, and what happens where that fails."""
import shutil
import subprocess

import numpy as np
import pytest

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.program import Weight
from ingot.codegen.streaming import with_reads
from ingot.codegen.tree import Call, Copy, If, Operand, ProgramError, Seq, Wait
from ingot.ir.expr import const
from networks import feeds_of, load

HOW = {"target": "c", "threads": "none", "weights": "stream"}
STRICT = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror -O1 -fsanitize=address,undefined"
FAILING = """#include <string.h>
#include "autoencoder.h"
static int calls, failing = -1;
static unsigned char data[AUTOENCODER_WEIGHTS_BYTES];
static int read_weights(void *user, uint64_t offset, void *to, size_t bytes)
{
    if (user != data || calls++ == failing) return 1;
    if (to != NULL && (offset > sizeof data || bytes > sizeof data - offset)) return 2;
    if (to != NULL) memcpy(to, data + offset, bytes);
    return 0;
}
int main(void)
{
    INGOT_ALIGNED(64) static unsigned char arena[AUTOENCODER_ARENA_BYTES];
    static float x[40], y[40];
    autoencoder *net;
    if (autoencoder_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
    if (autoencoder_run(net, x, y) != INGOT_ERR_WEIGHTS) return 2;
    if (autoencoder_set_reader(net, NULL, data) != INGOT_ERR_NULL) return 3;
    if (autoencoder_set_reader(net, read_weights, data) != INGOT_OK) return 4;
    if (autoencoder_run(net, x, y) != INGOT_OK) return 5;
    for (int most = calls, k = 0; k < most; ++k) {
        calls = 0;
        failing = k;
        if (autoencoder_run(net, x, y) != INGOT_ERR_WEIGHTS || calls != k + 1) return 6;
    }
    return 0;
}
"""


def compiled(name, **options):
    return compile_module(ingot.from_onnx(load(name)), Options.check(**{**HOW, **options}))


@pytest.mark.parametrize("name", ["residual_net", "transformer"])
def test_results_are_the_same(name):
    network = load(name)
    feeds = list(feeds_of(network).values())
    with ingot.compile(network, **HOW) as streamed, ingot.compile(network, **{**HOW, "weights": "array"}) as whole:
        np.testing.assert_array_equal(streamed(*feeds), whole(*feeds))


def test_each_call_waits_for_its_weights_and_the_next_ones_are_under_way():
    program = compiled("residual_net").program
    begun, there, read = set(), set(), set()
    for step in program.run.items:
        if isinstance(step, Copy):
            assert step.src.kind == "weight" and step.bytes.value == program.weights[step.src.index].data.nbytes
            begun.add(step.dst.index)
        elif isinstance(step, Wait):
            there |= begun
        elif isinstance(step, Call):
            own = {o.index for o in step.operands if o.kind == "arena" and o.name.endswith("_read")}
            assert own <= there and all(o.kind != "weight" for o in step.operands)
            later = begun - there - read
            assert not own or later or own | read == begun  # the last has none after it
            read |= own
    assert read == begun and len(begun) == len(program.weights)


def test_no_more_than_two_calls_have_weights_in_the_arena():
    streamed, whole = compiled("residual_net"), compiled("residual_net", weights="file")
    each = sorted(sum(streamed.program.plan.buffers[o.index].bytes.value for o in step.operands
                      if o.kind == "arena" and o.name.endswith("_read"))
                  for step in streamed.program.run.items if isinstance(step, Call))
    assert streamed.arena_bytes <= whole.arena_bytes + sum(each[-2:]) + 64 * 8
    assert streamed.arena_bytes < whole.arena_bytes + streamed.program.weights_bytes


@pytest.mark.parametrize("single", [False, True])
def test_the_folder_builds_and_checks_itself(tmp_path, single):
    if shutil.which("gcc") is None or shutil.which("make") is None:
        pytest.skip("gcc or make is not installed")
    folder = tmp_path / "net"
    compiled("residual_net").write(folder, single_file=single)
    assert (folder / "residual_net_weights.bin").exists()
    if single:
        subprocess.run(["gcc", *STRICT.split(), "-c", "residual_net.c", "-o", "net.o"], cwd=folder, check=True)
        return
    done = subprocess.run(["make", "-C", str(folder), "check", "example", f"CFLAGS={STRICT}"], check=True,
                          capture_output=True, text=True)
    assert "max error" in done.stdout and "WRONG" not in done.stdout
    subprocess.run([folder / "example"], cwd=folder, check=True, capture_output=True)


def test_a_reader_that_fails_ends_the_run(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    compiled("autoencoder").write(tmp_path / "net")
    (tmp_path / "net" / "main.c").write_text(FAILING)
    sources = [p.name for p in (tmp_path / "net").glob("*.c") if not p.stem.endswith(("_example", "_selftest"))]
    subprocess.run(["gcc", *STRICT.split(), *sources, "-o", "main", "-lm"], cwd=tmp_path / "net", check=True)
    assert subprocess.run([tmp_path / "net" / "main"]).returncode == 0


def test_branches_that_read_weights_are_refused():
    call = Call("k", (Operand("weight", 0, "w"), Operand("arena", 0, "y")), reads=1)
    weights = (Weight("w", np.zeros(4, np.float32), 0),)
    with pytest.raises(ProgramError, match="a branch or loop of the network reads w: use weights=\"file\""):
        with_reads([If(const(True, "bool"), Seq((call,)))], weights, lambda name, data: None)


def test_what_weights_are_not_streamed_for():
    for options in ({"threads": "openmp"}, {"target": "cuda"}):
        with pytest.raises(ValueError, match='weights="stream" is for programs of one thread on CPUs'):
            Options.check(**{**HOW, **options})
