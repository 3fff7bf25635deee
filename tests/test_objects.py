"""Objects of tests: equal ones are compiled once, what an include changes again, and headers are parsed once."""
import shutil

import pytest

import objects


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a source that reads a header of its own, with caches of its own."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(objects, "_USES", objects.Counter())
    (tmp_path / "simd.h").write_text("#define VALUE 1\n")
    (tmp_path / "one.c").write_text('#include "simd.h"\nint value(void);\nint value(void) { return VALUE; }\n')
    return tmp_path


def commands_of(monkeypatch):
    """The commands that compile a source."""
    made, original = [], objects.subprocess.run

    def run(command, **more):
        if "-c" in command:
            made.append(command)
        return original(command, **more)
    monkeypatch.setattr(objects.subprocess, "run", run)
    return made


def test_equal_sources_are_compiled_once(folder, monkeypatch):
    made = commands_of(monkeypatch)
    for command, text in ((["gcc", "-O0"], None), (["gcc", "-O0"], None), (["gcc", "-O1"], None),
                          (["gcc", "-O0"], "#define VALUE 2\n"), (["gcc", "-O0"], "#error no value\n")):
        if text:
            (folder / "simd.h").write_text(text)
        done = objects.compile_object(command, "one.c", folder / f"{len(made)}.o", folder)
        assert done.returncode == (text == "#error no value\n"), done.stderr
    assert len(made) == 4 and (folder / "1.o").read_bytes() != (folder / "2.o").read_bytes()


def test_what_warns_is_compiled_each_time(folder, monkeypatch):
    made = commands_of(monkeypatch)
    (folder / "one.c").write_text("int value(void) { int unused; return 1; }\n")
    said = [objects.compile_object(["gcc", "-Wall"], "one.c", folder / "one.o", folder).stderr for _ in range(2)]
    assert len(made) == 2 and all("unused" in text for text in said)


def test_headers_are_parsed_for_what_reads_them_alone(folder):
    (folder / "other.c").write_text("int other;\n")
    for compiler in filter(shutil.which, ("gcc", "clang")):
        flags = [objects.parsed([compiler, "-O1", f"-DUSE={n}"], folder / "one.c") for n in range(4)]
        assert flags[:2] == [[], []] and flags[2] == flags[3] and len(flags[2]) == 2
        assert objects.parsed([compiler, "-O1"], folder / "other.c") == []
        done = objects.compile_object([compiler, "-O1", "-Wall", "-Winvalid-pch"], "one.c", folder / "one.o", folder)
        assert (done.returncode, done.stderr) == (0, "")
