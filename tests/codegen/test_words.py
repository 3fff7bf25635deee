"""Arrays as words of C: the same numbers in memory on machines of either byte order, where a section is asked for."""
import shutil
import subprocess

import numpy as np
import pytest

import ingot
from ingot.codegen.blob import groups_of
from ingot.codegen.compile import Options
from ingot.codegen.render import render
from ingot.codegen.words import segments
from networks import load

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-I", "runtime_c")
COMPILERS = [("gcc", ()), ("clang", ()), ("tcc", ()),
             ("s390x-linux-gnu-gcc", ("qemu-s390x", "-L", "/usr/s390x-linux-gnu")),
             ("powerpc64-linux-gnu-gcc", ("qemu-ppc64", "-L", "/usr/powerpc64-linux-gnu"))]
MAIN = """#include <stdio.h>
extern const unsigned char *const data;
int main(void)
{
    for (int i = 0; i < COUNT; ++i) printf("%02x", data[i]);
    return ((unsigned long)data & 63u) != 0u;
}
"""


def arrays():
    """Numbers of each size, of which some words have a first half of zeros;
    each array is 64 bytes or padded to that."""
    rng = np.random.default_rng(0)
    signed = rng.integers(-128, 128, 80).astype(np.int8)
    return [signed, rng.integers(0, 1 << 16, 7).astype(np.uint16), rng.standard_normal(21).astype(np.float32),
            np.array([0, 1, 0, 2], np.int32), rng.standard_normal(3), np.array([5, 0, 0, 0, 0, 0, 0, 9], np.uint8)]


def expected(numbers, order):
    """The bytes of arrays in a byte order, each padded to 64."""
    swapped = (a.astype(a.dtype.newbyteorder(order)).tobytes() for a in numbers)
    return b"".join(raw + bytes(-len(raw) % 64) for raw in swapped)


def blob(tmp_path, numbers, placed=""):
    path = tmp_path / "data.c"
    path.write_text(render("blob.c", file="data.c", what="numbers", symbol="data", stamp="Made by a test.",
                           segments=segments(numbers), placed=placed))
    return path


@pytest.mark.parametrize("compiler, runner", COMPILERS, ids=[c for c, _ in COMPILERS])
def test_numbers_lie_as_the_machine_reads_them(tmp_path, compiler, runner):
    if not all(map(shutil.which, (compiler, *runner[:1]))):
        pytest.skip(f"{compiler} or what runs its programs is not installed")
    want = expected(arrays(), "big" if runner else "little")
    main = tmp_path / "main.c"
    main.write_text(MAIN.replace("COUNT", str(len(want))))
    flags = STRICT if compiler != "tcc" else STRICT[-2:]
    command = [compiler, *flags, str(blob(tmp_path, arrays())), str(main), "-o", str(tmp_path / "main")]
    subprocess.run(command, check=True)
    done = subprocess.run([*runner, tmp_path / "main"], check=True, capture_output=True, text=True)
    assert bytes.fromhex(done.stdout) == want


def test_text_is_the_same_each_time_and_of_one_type():
    text = segments(arrays())
    assert text == segments(arrays())
    assert [(p["bits"], p["count"]) for p in text] == [(8, 16), (16, 8), (32, 24), (64, 8), (8, 8)]
    assert text[1]["rows"].startswith("        INGOT_WORDS_16(0x")
    assert segments([])[0]["count"] == 8


@pytest.mark.parametrize("suffix", [".c", ".S"])
def test_weights_go_to_the_section_that_is_asked_for(tmp_path, suffix):
    if not shutil.which("gcc") or not shutil.which("objdump"):
        pytest.skip("gcc or objdump is not installed")
    if suffix == ".c":
        path = blob(tmp_path, arrays(), placed="WEIGHTS")
    else:
        (tmp_path / "data.bin").write_bytes(expected(arrays(), "little"))
        path = tmp_path / "data.S"
        path.write_text(render("blob.S", file="data.S", what="numbers", symbol="data", stamp="Made by a test.",
                               blob=str(tmp_path / "data.bin"), large=False, placed="WEIGHTS",
                               bytes=0))
    for flags, there in ((("-DINGOT_SECTION_WEIGHTS=\".psram\"",), True), ((), False)):
        subprocess.run(["gcc", "-I", "runtime_c", *flags, "-c", str(path), "-o", str(tmp_path / "data.o")], check=True)
        done = subprocess.run(["objdump", "-h", str(tmp_path / "data.o")], check=True, capture_output=True, text=True)
        assert (".psram" in done.stdout) == there


@pytest.mark.parametrize("sizes, count, found", [
    ([10, 10, 10, 10], 2, [2, 2]), ([100, 1, 1], 3, [1, 1, 1]), ([1, 1, 100], 2, [3]), ([5], 4, [1]), ([], 2, [0]),
    ([3] * 10, 3, [4, 3, 3]), ([7, 7], 1, [2])])
def test_groups_of_about_as_many_bytes(sizes, count, found):
    groups = groups_of(sizes, count)
    assert [len(g) for g in groups] == found and len(groups) <= count
    assert [i for g in groups for i in g] == list(range(len(sizes)))


@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_groups_of_weights_are_placed_one_by_one(tmp_path, weights):
    if not all(map(shutil.which, ("gcc", "make", "objdump"))):
        pytest.skip("gcc, make or objdump is not installed")
    folder = tmp_path / "net"
    ingot.compile(load("residual_net"), target="c", threads="none", weights=weights, weight_groups=3).export(folder)
    sections = r'-O1 -DINGOT_SECTION_WEIGHTS=\".slow\" -DINGOT_SECTION_WEIGHTS_1=\".fast\"'
    done = subprocess.run(["make", "-C", folder, "check", f"CFLAGS={sections}"], capture_output=True, text=True)
    assert done.returncode == 0 and "max error" in done.stdout, done.stderr
    for n, section in enumerate((".slow", ".fast", ".slow")):
        done = subprocess.run(["objdump", "-h", folder / f"residual_net_weights_{n}.o"], capture_output=True, text=True)
        assert section in done.stdout


def test_what_groups_are_not_for(tmp_path):
    with pytest.raises(ValueError, match="weights that lie in 2 groups are embedded"):
        Options.check(weight_groups=2, weights="file")
    with pytest.raises(ValueError, match="weight_groups must be a number"):
        Options.check(weight_groups=0)
    library = ingot.compile(load("autoencoder"), target="c", threads="none", weights="array", weight_groups=2)
    with pytest.raises(ValueError, match="one file has all weights"):
        library.export(tmp_path / "net", single_file=True)
