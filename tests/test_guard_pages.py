"""Networks between guard pages: no byte outside the arena, the weights, the inputs and the outputs is touched."""
import re

import numpy as np
import pytest

import ingot
from control_networks import CONTROL, control_feeds
from guards import run_guarded
from ingot.codegen.toolchain import build_shared
from networks import SMALL, attention_net, conv_net, feeds_of, with_symbolic_batch


@pytest.mark.parametrize("name, target, threads, weights", [
    *((name, "host", "openmp", "file") for name in SMALL),
    *((name, "c", "none", "incbin") for name in list(SMALL)[::2])])
def test_small_networks(tmp_path, name, target, threads, weights):
    model = SMALL[name]()
    with ingot.compile(model, target=target, threads=threads, weights=weights) as library:
        run_guarded(library, feeds_of(model), tmp_path)


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("make", [lambda: with_symbolic_batch(conv_net()), attention_net], ids=["batch", "length"])
def test_symbolic_dimensions(tmp_path, make, target):
    model = make()
    with ingot.compile(model, target=target, threads="none", weights="file") as library:
        for size in (1, 3):
            run_guarded(library, feeds_of(model, dims=size), tmp_path)


@pytest.mark.parametrize("name, target, weights", [
    *((name, "host", "file") for name in CONTROL), *((name, "c", "incbin") for name in list(CONTROL)[::2])])
def test_courses_that_a_run_decides(tmp_path, name, target, weights):
    """Branches, loops, scans and sizes of the data: whatever course they take; and arenas of random sizes that are too
    small are refused, with nothing written."""
    rng = np.random.default_rng(7)
    with ingot.compile(CONTROL[name](), target=target, threads="none", weights=weights) as library:
        for seed in range(4):
            run_guarded(library, control_feeds(name, seed, rows=1 + 20 * seed), tmp_path, rng.uniform(0, 0.999, 3))


@pytest.mark.parametrize("what, change", [
    ("behind the output", r"(\bsoftmax\[)([^\]]+)(\])"), ("behind the input", r"(image\[)([^\]]+)(\])")])
def test_an_access_outside_is_seen(tmp_path, what, change):
    """A run fails where a kernel's subscript is changed to lie behind the tensor."""
    model = conv_net()
    with ingot.compile(model, target="c", threads="none", name="crooked") as library:
        library.build()
        sources = library._folder / library.name
        changed = 0
        for file in sources.glob("*_kernels_*.c"):
            text, times = re.subn(change, r"\g<1>(\2) + 2000\3", file.read_text(), count=1)
            changed += times
            file.write_text(text)
        assert changed
        feeds = feeds_of(model)
        outside = build_shared(sources, tmp_path / "crooked.so", "c", "none", cflags=("-O0",))
        library.run(feeds)
        outside.replace(library._folder / "crooked.so")
        with pytest.raises(AssertionError, match="SIGSEGV|SIGBUS|not equal"):
            run_guarded(library, {k: np.asarray(v) for k, v in feeds.items()}, tmp_path)
