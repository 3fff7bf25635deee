"""C programs that use exported folders: threads, status codes, exact sizes under sanitizers, indices out of range."""
import os

import numpy as np
import pytest

from ingot.codegen.toolchains import toolchain
import ingot
from c_folders import HERE, build, definitions, library_sources, need_compiler, run, selftest_sources
from control_networks import CONTROL
from networks import load, needs_zoo, relative_error, tiny_names

SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer",
            "-DINGOT_ROLLED")
SANITIZED = ["embedding_net", "dense_blocks", "transformer", "recurrent_net", *CONTROL]
TINY = [pytest.param(name, marks=needs_zoo) for name in tiny_names or ["tiny_resnet8"]]


def program_of(case, source, program, compiler, *flags):
    """A program of this folder, linked with an exported network and its kernels for its target."""
    arch = [flag for flag in toolchain(case.library.model.target).cflags if not flag.startswith("-O")]
    return build(case.folder, [*library_sources(case.folder), HERE / source], program, compiler, f"-I{HERE}",
                 *definitions(case.library), *arch, *flags)


@pytest.mark.parametrize("threads, flags, compiler", [
    ("none", ("-O2",), "gcc"), ("openmp", ("-O2", "-fopenmp"), "clang"),
    ("none", ("-O1", "-g", "-fsanitize=thread"), "gcc"),
    ("openmp", ("-O1", "-g", "-fopenmp", "-fsanitize=thread"), "gcc"),
    ("openmp", ("-O1", "-g", "-fopenmp", "-fsanitize=thread"), "clang"),
], ids=["none", "openmp", "sanitized", "teams_sanitized-gcc", "teams_sanitized-clang"])
def test_two_instances_on_two_threads(exported, tmp_path, threads, flags, compiler):
    """Under ThreadSanitizer also teams: their threads are no OpenMP runtime's, which it would not understand."""
    need_compiler(compiler, *flags)
    run([program_of(exported("conv_net", threads=threads), "two_threads.c", tmp_path / "program", compiler, *flags)],
        env={**os.environ, "OMP_NUM_THREADS": "2"})


@pytest.mark.parametrize("target, weights", [("host", "incbin"), ("c", "file"), ("c", "extern")])
def test_status_codes(exported, tmp_path, target, weights):
    need_compiler("gcc", *SANITIZE)
    case = exported("conv_net", target=target, weights=weights)
    run([program_of(case, "status_codes.c", tmp_path / "program", "gcc", *SANITIZE)], cwd=case.folder)


@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("name, weights", [("conv_net", "file"), *(pytest.param(*p.values, "incbin", marks=p.marks)
                                                                  for p in TINY)])
def test_exact_sizes_and_right_numbers(exported, tmp_path, name, weights, target):
    """No byte behind the arena, the weights or the caller's tensors is touched, wherever those lie."""
    need_compiler("gcc", *SANITIZE)
    case = exported(name, target=target, weights=weights)
    found = run([program_of(case, "exact_sizes.c", tmp_path / "program", "gcc", *SANITIZE)], cwd=case.folder)
    size = np.prod(case.library.inputs[0].shape)
    x = ((np.arange(size) * 7 % 101).astype(np.float32) / np.float32(101)).reshape(case.library.inputs[0].shape)
    expected = ingot.ir.relax.evaluate.evaluate(ingot.from_onnx(load(name)), (x,)).ravel()
    assert relative_error(np.array(found.split(), np.float32), expected) <= 1e-4


@pytest.mark.parametrize("target, compiler, name", [
    pytest.param(target, compiler, *p.values, marks=p.marks)
    for n, p in enumerate([*map(pytest.param, SANITIZED), *TINY])
    for target, compiler in (("host", "gcc"), ("c", "gcc"), (("host", "c")[n % 2], "clang"))])
def test_selftest_under_sanitizers(exported, tmp_path, compiler, name, target):
    """By gcc with vectors and without; by clang, whose sanitizers are rarer, in turns."""
    need_compiler(compiler, *SANITIZE)
    case = exported(name, target=target)
    arch = [flag for flag in toolchain(case.library.model.target).cflags if not flag.startswith("-O")]
    program = build(case.folder, selftest_sources(case.folder), tmp_path / "program", compiler, *arch, *SANITIZE)
    assert "ok" in run([program])


@pytest.mark.parametrize("target", ["host", "c"])
def test_indices_out_of_range(exported, tmp_path, target):
    need_compiler("gcc", *SANITIZE)
    case = exported("embedding_net", target=target)
    arch = [flag for flag in toolchain(case.library.model.target).cflags if not flag.startswith("-O")]
    run([build(case.folder, [*library_sources(case.folder), HERE / "indices.c"], tmp_path / "program", "gcc", *arch,
               *SANITIZE)])


@pytest.mark.parametrize("name", ["conv_net", "light_squeezenet"])
def test_openmp_gives_what_one_thread_gives(name, monkeypatch):
    need_compiler("cc", "-fopenmp")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    network = load(name)
    with ingot.compile(network, threads="none") as one, ingot.compile(network, threads="openmp") as several:
        x = np.random.default_rng(3).random(one.inputs[0].shape, np.float32)
        np.testing.assert_array_equal(one(x), several(x))
