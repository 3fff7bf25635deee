"""Symbolic dimensions with bounds: the arena is a macro, and neither example nor self-test takes memory of the heap."""
import shutil
import subprocess

import pytest

import ingot
from ingot.codegen.compile import Options, compile_module
from networks import conv_net, with_symbolic_batch

MAIN = """#include "conv_net.h"
INGOT_ALIGNED(CONV_NET_ARENA_ALIGN) static unsigned char arena[CONV_NET_ARENA_BYTES];
static float image[CONV_NET_IMAGE_SIZE(5)], prob[CONV_NET_PROB_SIZE(5)];
int main(void)
{
    conv_net *net;
    if (conv_net_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
    for (int64_t n = 1; n <= 4; ++n) {
        if (conv_net_arena_bytes(n) > CONV_NET_ARENA_BYTES || conv_net_run(net, n, image, prob) != INGOT_OK) return 2;
    }
    return conv_net_arena_bytes(4) + 64 * 64 < CONV_NET_ARENA_BYTES || \
conv_net_run(net, 5, image, prob) != INGOT_ERR_DIM;
}
"""


def compiled(model, **bounds):
    options = Options.check(target="c", threads="none", weights="array")
    return compile_module(ingot.from_onnx(model, name="conv_net", bounds=bounds), options)


def test_all_sizes_up_to_the_bound_fit(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    compiled(with_symbolic_batch(conv_net()), batch=4).write(tmp_path / "net")
    (tmp_path / "net" / "main.c").write_text(MAIN)
    sources = [p.name for p in (tmp_path / "net").glob("*.c") if not p.stem.endswith(("_example", "_selftest"))]
    flags = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror -O1 -fsanitize=address,undefined"
    subprocess.run(["gcc", *flags.split(), *sources, "-o", "main", "-lm"], cwd=tmp_path / "net", check=True)
    assert subprocess.run([tmp_path / "net" / "main"]).returncode == 0


def test_no_heap():
    files = compiled(with_symbolic_batch(conv_net()), batch=4).files()
    for name in ("conv_net_example.c", "conv_net_selftest.c"):
        assert "malloc" not in files[name] and "arena[CONV_NET_ARENA_BYTES]" in files[name]
    assert "at the bounds of batch | " in files["README.md"]


def test_without_bounds_there_is_none():
    files = compiled(with_symbolic_batch(conv_net())).files()
    assert "_ARENA_BYTES" not in files["conv_net.h"] and "malloc" in files["conv_net_example.c"]
