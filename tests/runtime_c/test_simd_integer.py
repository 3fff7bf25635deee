"""Every operation of vectors of integers against single numbers, on every instruction set that this machine runs."""
from pathlib import Path

import pytest
from c_builds import AVX2, AVX512, BUILDS, SANITIZE, Build

VNNI = AVX512 | {"avx512_vnni"}
FLAGS = ("-march=x86-64-v4", "-mavx512vnni")
BUILDS = [
    *BUILDS,
    Build("avx-vnni", "gcc", ("-march=x86-64-v3", "-mavxvnni"), AVX2 | {"avx_vnni"}),
    Build("avx512f", "gcc", ("-mavx2", "-mfma", "-mavx512f"), AVX2 | {"avx512f"}),
    Build("avx512-vnni", "gcc", FLAGS, VNNI),
    Build("avx512-vbmi", "gcc", (*FLAGS, "-mavx512vbmi"), VNNI | {"avx512vbmi"}),
    Build("clang-avx512-vbmi", "clang", (*FLAGS, "-mavx512vbmi"), VNNI | {"avx512vbmi"}),
    Build("avx512-vnni-sanitized", "gcc", (*FLAGS, *SANITIZE), VNNI),
    Build("clang-avx512-vnni", "clang", FLAGS, VNNI),
    Build("clang-avx-vnni", "clang", ("-march=x86-64-v3", "-mavxvnni"), AVX2 | {"avx_vnni"}),
    Build("aarch64-dotprod", "aarch64-linux-gnu-gcc", ("-static", "-march=armv8.2-a+dotprod"), emulator="qemu-aarch64"),
    Build("aarch64-i8mm", "aarch64-linux-gnu-gcc", ("-static", "-march=armv8.2-a+dotprod+i8mm"),
          emulator="qemu-aarch64"),
    Build("s390x", "s390x-linux-gnu-gcc", ("-static",), emulator="qemu-s390x"),
]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_every_operation(build, tmp_path):
    if reason := build.missing():
        pytest.skip(reason)
    build.compile([Path(__file__).with_name("integers.c")], tmp_path / "integers", *build.quick)
    assert build.run(tmp_path / "integers").split()[-1] == "0"
