"""Kernels on disk: a second compilation schedules nothing and gives the same bytes; what does not fit is made anew."""
import os
import pickle
from multiprocessing import get_context

import pytest

import ingot
from ingot.codegen import kernel_cache, scheduling
from ingot.codegen.compile import Options, compile_module, lower
from ingot.codegen.kernel_cache import KernelCache
from ingot.ir.node import structural_equal
from ingot.ir.schedule import tensor_intrin
from ingot.ir.schedule.tensor_intrin import TensorIntrin
from networks import attention_net, conv_net, with_symbolic_batch
from test_compile_work import chain

NETWORKS = {"conv": conv_net, "any batch": lambda: with_symbolic_batch(conv_net()), "any length": attention_net,
            "threads do not pay, as plans say": lambda: chain(3, 10, 8)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("INGOT_KERNEL_CACHE", raising=False)
    return tmp_path / "kernels"


@pytest.fixture
def scheduled(monkeypatch):
    """The functions that rules were asked about."""
    made, original = [], scheduling.Decision

    def schedule(func, cpu):
        made.append(func)
        return original(func, cpu)
    monkeypatch.setattr(scheduling, "Decision", schedule)
    return made


def files(model, name="net1", **options):
    mod = ingot.from_onnx(model, name=name)
    found = compile_module(mod, Options.check(**{"target": "x86-64-v3", **options}), "0" * 64).files()
    return {n: f if isinstance(f, str) else bytes(f) for n, f in found.items()}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("threads", ("none", "openmp"))
def test_the_second_time_nothing_is_scheduled(network, threads, scheduled):
    first = files(NETWORKS[network](), threads=threads)
    assert scheduled
    scheduled.clear()
    assert files(NETWORKS[network](), threads=threads) == first
    assert not scheduled


def test_what_steers_a_kernel_is_part_of_its_key(scheduled, monkeypatch):
    files(conv_net())
    for options in ({"target": "c"}, {"accuracy": "strict"}, {"opt_level": 1}, {"stack_limit": 12000},
                    {"name": "other1"}):
        scheduled.clear()
        cached = files(conv_net(), **options)
        assert scheduled, options
        monkeypatch.setenv("INGOT_KERNEL_CACHE", "0")
        assert files(conv_net(), **options) == cached
        monkeypatch.delenv("INGOT_KERNEL_CACHE")


@pytest.mark.parametrize("attribute, value", [("algorithm", ("another",)), ("sums", False), ("bounds", ("another",))])
def test_what_the_comment_says_is_part_of_the_key(attribute, value, folder):
    """The rest of the comment, loops, terms and the schedule, is made from the function and its settings."""
    stages = lower(ingot.from_onnx(conv_net(), name="net1"), Options.check(target="x86-64-v3"))
    func = next(f for n, f in stages.tir.functions.items() if n != "main" and f.attrs.get("algorithm"))
    cache = KernelCache(folder)
    assert cache.key(func, "net1") == cache.key(func.with_attr({}), "net1")
    assert cache.key(func, "net1") != cache.key(func.with_attr({attribute: value}), "net1")


def test_cached_kernels_have_their_whole_comment(scheduled):
    first = files(conv_net())
    scheduled.clear()
    second = files(conv_net())
    text = "".join(second[name] for name in second if "_kernels_" in name)
    assert not scheduled and second == first and "; tile " in text and "loops " in text


def test_other_sources_have_other_keys(scheduled, monkeypatch):
    files(conv_net())
    scheduled.clear()
    monkeypatch.setattr(kernel_cache, "_version", lambda: "another")
    files(conv_net())
    assert scheduled


@pytest.mark.parametrize("damage", (lambda data: b"", lambda data: data[:-1], lambda data: data[:40] + b"?" + data[41:],
                                    lambda data: pickle.dumps("no entry")))
def test_damaged_entries_are_made_anew(damage, folder, scheduled):
    first = files(conv_net())
    for path in folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    scheduled.clear()
    assert files(conv_net()) == first and scheduled
    scheduled.clear()
    assert files(conv_net()) == first and not scheduled


def test_off(folder, scheduled, monkeypatch):
    monkeypatch.setenv("INGOT_KERNEL_CACHE", "0")
    first = files(conv_net())
    assert not folder.exists()
    scheduled.clear()
    assert files(conv_net()) == first and scheduled


def test_a_context_of_ones_own_takes_nothing_and_leaves_nothing(folder, scheduled):
    files(conv_net())
    kept = set(folder.iterdir())
    with ingot.transform.PassContext(disabled_pass=["Simplify"]):
        scheduled.clear()
        files(conv_net())
    assert scheduled and set(folder.iterdir()) == kept


def test_the_folder_is_bounded(folder):
    files(conv_net())
    cache = KernelCache.default()
    names = sorted(folder.iterdir(), key=lambda p: p.name)
    for age, path in enumerate(names):
        os.utime(path, (1000 + age, 1000 + age))
    cache.stored = 1
    cache.trim(sum(p.stat().st_size for p in names) - 1)
    assert set(folder.iterdir()) == set(names[1:])


def _compile(_):
    return files(conv_net())


def test_processes_write_at_once(scheduled):
    with get_context("spawn").Pool(3) as pool:
        first, *others = pool.map(_compile, range(3))
    assert all(other == first for other in others)
    assert files(conv_net()) == first and not scheduled


def test_an_intrinsic_that_a_script_replaces_keeps_kernels_off_the_disk(folder, monkeypatch):
    """In the next process the name that a rule calls may be another intrinsic."""
    for names in ("_KNOWN", "_DECLARED"):
        monkeypatch.setattr(tensor_intrin, names, type(getattr(tensor_intrin, names))(getattr(tensor_intrin, names)))
    own = TensorIntrin.get("split_integer_tiles.4x4x8")
    assert not TensorIntrin.replaced()
    files(conv_net())
    assert (kept := set(folder.iterdir()))
    TensorIntrin.register("split_integer_tiles.4x4x8", own.desc, own.impl, override=True)
    assert TensorIntrin.replaced() == ["split_integer_tiles.4x4x8"]
    files(conv_net(), target="c")
    assert set(folder.iterdir()) == kept


def test_nodes_are_pickled_by_their_fields():
    func = next(f for f in lower(ingot.from_onnx(conv_net()), Options.check(target="c")).kernels.values())
    again = pickle.loads(pickle.dumps(func))
    assert structural_equal(again, func) and again is not func
    assert [b.name for b in again.buffers] == [b.name for b in func.buffers]
