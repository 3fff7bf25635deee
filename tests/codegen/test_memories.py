"""Several memories: which tensors lie where, what NAME_init takes, and what does not fit."""
import shutil
import subprocess
from itertools import combinations

import numpy as np
import pytest

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.limits import LimitError
from ingot.codegen.memories import check_memories
from networks import attention_net, feeds_of, load

MEMORY = {"dtcm": "6K", "sram": "20K", "psram": "1M"}
HOW = {"target": "c", "threads": "none", "weights": "array"}
STRICT = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror -O1 -fsanitize=address,undefined"


@pytest.fixture(scope="module")
def model():
    return compile_module(ingot.from_onnx(load("residual_net")), Options.check(**HOW, memory=MEMORY))


def test_tensors_keep_to_their_memories(model):
    plan, sizes = model.program.plan, dict(check_memories(MEMORY))
    assert {b.memory for b in plan.buffers} == {"global", "global.sram", "global.psram"}
    assert model.arena_bytes <= sizes["dtcm"]
    assert all(0 < size <= sizes[name] for name, size in model.further_memories)
    for a, b in combinations(range(len(plan.buffers)), 2):
        one, other = plan.buffers[a], plan.buffers[b]
        together = any(f <= last and first <= g for f, g in one.life for first, last in other.life)
        if together and one.memory == other.memory:
            assert not plan.meet(a, b)


def test_the_shortest_lived_are_in_the_first(model):
    lengths = {}
    for b in model.program.plan.buffers:
        lengths.setdefault(b.memory, []).append(b.last - b.first)
    assert min(lengths["global"]) <= min(lengths["global.psram"])


def test_results_are_the_same():
    network = load("residual_net")
    feeds = list(feeds_of(network).values())
    with ingot.compile(network, **HOW, memory=MEMORY) as spread, ingot.compile(network, **HOW) as whole:
        np.testing.assert_array_equal(spread(*feeds), whole(*feeds))


@pytest.mark.parametrize("single", [False, True])
def test_the_folder_builds_and_checks_itself(model, tmp_path, single):
    if shutil.which("gcc") is None or shutil.which("make") is None:
        pytest.skip("gcc or make is not installed")
    model.write(tmp_path / "net", single_file=single)
    header = (tmp_path / "net" / "residual_net.h").read_text()
    for name, size in (("DTCM", "RESIDUAL_NET_ARENA_BYTES"),
                       *((n.upper(), f"{s}u") for n, s in model.further_memories)):
        assert f"#define RESIDUAL_NET_ARENA_{name}_BYTES {size}" in header
    if single:
        command = ["gcc", *STRICT.split(), "-c", "residual_net.c", "-o", str(tmp_path / "net.o")]
        subprocess.run(command, cwd=tmp_path / "net", check=True)
        return
    done = subprocess.run(["make", "-C", str(tmp_path / "net"), "check", f"CFLAGS={STRICT}"], check=True,
                          capture_output=True, text=True)
    assert "max error" in done.stdout and "WRONG" not in done.stdout


def test_a_memory_that_is_missing_is_an_error(model, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    model.write(tmp_path / "net")
    (tmp_path / "net" / "main.c").write_text("""#include "residual_net.h"
INGOT_ALIGNED(64) static unsigned char a[RESIDUAL_NET_ARENA_DTCM_BYTES], b[RESIDUAL_NET_ARENA_SRAM_BYTES],
    c[RESIDUAL_NET_ARENA_PSRAM_BYTES];
int main(void)
{
    residual_net *net;
    if (residual_net_init(&net, a, sizeof a, b, sizeof b, c, sizeof c) != INGOT_OK) return 1;
    if (residual_net_init(&net, a, sizeof a, NULL, sizeof b, c, sizeof c) != INGOT_ERR_NULL || net != NULL) return 2;
    if (residual_net_init(&net, a, sizeof a, b, sizeof b, c, sizeof c - 1) != INGOT_ERR_ARENA_SIZE) return 3;
    if (residual_net_init(&net, a, sizeof a, b + 4, sizeof b, c, sizeof c) != INGOT_ERR_ARENA_ALIGN) return 4;
    return 0;
}
""")
    sources = [p.name for p in (tmp_path / "net").glob("*.c") if not p.stem.endswith(("_example", "_selftest"))
               and "selftest_data" not in p.name]
    subprocess.run(["gcc", *STRICT.split(), *sources, "-o", "main", "-lm"], cwd=tmp_path / "net", check=True)
    assert subprocess.run([tmp_path / "net" / "main"]).returncode == 0


def test_what_is_not_needed_may_be_left_out(tmp_path):
    model = compile_module(ingot.from_onnx(load("autoencoder")), Options.check(**HOW, memory="fast=1M,slow=2M"))
    assert model.further_memories == [("slow", 0)]
    files = model.files()
    assert "autoencoder_init(&net, arena_fast, sizeof arena_fast, NULL, 0);" in files["autoencoder_selftest.c"]


def test_what_fits_nowhere_is_named():
    with pytest.raises(LimitError, match=r"the memories have 10240 bytes, and no room for \w+ of \d+ bytes .* one "
                                         r"memory need \d+ bytes"):
        compile_module(ingot.from_onnx(load("residual_net")), Options.check(**HOW, memory="a=6K,b=4K"))
    with pytest.raises(LimitError, match="tiny has 32 bytes, and must hold the instance"):
        compile_module(ingot.from_onnx(load("residual_net")), Options.check(**HOW, memory="tiny=32,b=4M"))


@pytest.mark.parametrize("memory, message", [
    ("DTCM=64K", "no name that C can use"), ("=64K", "no name that C can use"), ("sram", "memory sram: expected bytes"),
    ("sram=64Q", "memory sram: expected bytes"), ({"a-b": 5}, "no name that C can use")])
def test_names_and_sizes(memory, message):
    with pytest.raises(ValueError, match=message):
        check_memories(memory)


def test_what_memories_are_not_for():
    with pytest.raises(ValueError, match="for programs of one thread"):
        Options.check(memory=MEMORY, threads="openmp")
    with pytest.raises(ValueError, match="tensors of constant size"):
        compile_module(ingot.from_onnx(attention_net()), Options.check(**HOW, memory=MEMORY))
