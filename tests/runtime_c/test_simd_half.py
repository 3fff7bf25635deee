"""Every operation of vectors from and to halves against single numbers, on every instruction set that this machine
runs or QEMU has; of those that neither has, that compilers take them."""
import subprocess
from pathlib import Path

import pytest
from c_builds import BUILDS, RUNTIME, STRICT, Build

NAMES = ("scalar", "sse2", "sse4", "avx2", "avx512", "clang-avx512", "aarch64", "armv7-vfpv4", "wasm32-simd128")
BUILDS = [
    *(build for build in BUILDS if build.name in NAMES),
    Build("aarch64-bf16", "aarch64-linux-gnu-gcc", ("-static", "-march=armv8.2-a+dotprod+i8mm+bf16"),
          emulator="qemu-aarch64 -cpu max"),
    Build("aarch64-fp16", "aarch64-linux-gnu-gcc", ("-static", "-march=armv8.2-a+fp16"),
          emulator="qemu-aarch64 -cpu max"),
    Build("s390x", "s390x-linux-gnu-gcc", ("-static",), emulator="qemu-s390x"),
]
SOURCE = Path(__file__).with_name("halves.c")


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_every_operation(build, tmp_path):
    if reason := build.missing():
        pytest.skip(reason)
    build.compile([SOURCE], tmp_path / "halves", *build.quick)
    assert build.run(tmp_path / "halves").split() == ["0"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_avx512_bf16_compiles_to_its_instruction(compiler, tmp_path):
    """VDPBF16PS runs neither here nor under QEMU."""
    build = Build(compiler, compiler)
    if reason := build.missing():
        pytest.skip(reason)
    out = tmp_path / "halves.s"
    subprocess.run([compiler, *STRICT, "-O2", "-march=x86-64-v4", "-mavx512vbmi", "-mavx512bf16", f"-I{RUNTIME}", "-S",
                    str(SOURCE), "-o", str(out)], check=True)
    registers = {name for line in out.read_text().splitlines() if "vdpbf16ps" in line for name in ("xmm", "ymm", "zmm")
                 if name in line}
    assert registers == {"xmm", "ymm", "zmm"}
