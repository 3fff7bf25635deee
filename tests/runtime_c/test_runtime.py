"""ingot.h's functions and ingot_math.h's integer arithmetic."""
import re
from pathlib import Path

import pytest

from c_builds import BUILDS, RUNTIME
from ingot.ir.dtype import DataType


# nothing here depends on the vector instructions: one build per platform
PLATFORMS = [b for b in BUILDS if b.name in ("scalar-sanitized", "clang-scalar", "aarch64", "armv7-scalar")]


@pytest.fixture(scope="session", params=PLATFORMS, ids=lambda build: build.name)
def lines(request, tmp_path_factory):
    """Keyword -> the lines of runtime.c's output that begin with it, without it."""
    build = request.param
    if reason := build.missing():
        pytest.skip(reason)
    program = tmp_path_factory.mktemp(build.name) / "runtime"
    build.compile([Path(__file__).with_name("runtime.c"), RUNTIME / "ingot.c"], program)
    found = {}
    for line in build.run(program).splitlines():
        keyword, rest = line.split(" ", 1)
        found.setdefault(keyword, []).append(rest)
    return found


def test_every_status_has_its_own_text(lines):
    text = dict(line.split(" ", 1) for line in lines["status"])
    names = re.findall(r"(INGOT_OK|INGOT_ERR_\w+) = (-?\d+)", (RUNTIME / "ingot.h").read_text())
    codes = [code for _, code in names]
    assert len(codes) >= 7 and len({text[code] for code in codes}) == len(codes)
    assert {text[code] for code in text if code not in codes} == {"unknown status"}


def test_every_dtype_has_numpys_name_and_size(lines):
    rows = {int(code): (name, int(size)) for code, name, size in map(str.split, lines["dtype"])}
    enum = re.search(r"typedef enum ingot_dtype \{(.*?)\}", (RUNTIME / "ingot.h").read_text(), re.S)[1]
    declared = re.findall(r"INGOT_(\w+) = (\d+)", enum)
    assert len(declared) == 23
    for name, code in declared:
        assert rows.pop(int(code)) == (name.lower(), DataType(name.lower()).numpy.itemsize)
    assert set(rows.values()) == {("?", 0)}


def test_arena_and_abi_checks(lines):
    assert lines["arena"] == ["ok 0", "null -1", "short -2", "askew -3"]
    assert lines["abi"] == ["same 0", "other -4", "size -4"]


def test_floor_division_and_modulo_are_pythons(lines):
    assert len(lines["divmod"]) > 200
    for line in lines["divmod"]:
        a, b, quotient, remainder = map(int, line.split())
        assert (quotient, remainder) == divmod(a, b)


def test_min_max(lines):
    for line in lines["minmax"]:
        a, b, least, most = map(int, line.split())
        assert (least, most) == (min(a, b), max(a, b))
