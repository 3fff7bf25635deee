"""The toolchain: finding compilers, building, the object cache, errors."""
import os
import shutil
import subprocess
import sys

import pytest

from ingot.codegen import toolchain
from ingot.codegen.object_cache import ObjectCache, content_key
from ingot.codegen.target import Target
from ingot.codegen.toolchain import (ToolchainError, build_program, build_shared, find_compiler, missing_tools,
                                     openmp_flag, run_command)
from ingot.codegen.toolchains import is_native

MAIN = '#include <stdio.h>\n#include "value.h"\nint main(void) { printf("%d\\n", VALUE); return 0; }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "objects"


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "main.c").write_text(MAIN)
    (folder / "value.h").write_text("#define VALUE 41\n")
    return folder


def output_of(program, target="host"):
    return subprocess.run(run_command(target, program), capture_output=True, text=True, check=True).stdout.strip()


def count_calls(monkeypatch):
    calls, original = [], toolchain._call
    monkeypatch.setattr(toolchain, "_call", lambda command, doing, cwd=None: (calls.append(doing),
                                                                             original(command, doing, cwd)))
    return calls


def test_program(sources, tmp_path):
    program = build_program([sources / "main.c"], tmp_path / "new" / "program")
    assert output_of(program) == "41"


def test_further_flags_of_the_environment(sources, tmp_path, monkeypatch):
    """They follow the target's, precede the caller's, and are part of the cache's key."""
    (sources / "value.h").write_text("#ifndef VALUE\n#define VALUE 41\n#endif\n")
    for flags, given, expected in (("", (), "41"), ("-DVALUE='40 + 2' -O0", (), "42"), ("", (), "41"),
                                   ("-DVALUE=43", ("-UVALUE", "-DVALUE=44"), "44")):
        monkeypatch.setenv("INGOT_CFLAGS", flags)
        assert output_of(build_program([sources / "main.c"], tmp_path / "program", cflags=given)) == expected


@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "armv7-linux-gnueabihf"])
def test_cross_program(sources, tmp_path, target):
    if reason := missing_tools(target):
        pytest.skip(reason)
    assert output_of(build_program([sources / "main.c"], tmp_path / "program", target), target) == "41"


def test_a_compiler_that_is_too_old_is_passed_over(tmp_path, monkeypatch):
    """The first one that knows the instructions is taken; where there is none, the message says which do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, says in (("riscv64-linux-gnu-gcc", "gcc (Debian 12.2.0-13) 12.2.0"), ("clang", "clang version 14.0.6"),
                       ("clang-17", "clang version 16.0.6 (https://host/llvm 1f2e3) (Own 20.1)")):
        program(tmp_path / name, says)
    with pytest.raises(ToolchainError, match=r"riscv64-v on PATH that is new enough \(gcc 14, clang 17\)"):
        find_compiler("riscv64-v")
    program(tmp_path / "clang-18", "Debian clang version 18.1.8")
    assert str(find_compiler("riscv64-v")) == f"{tmp_path / 'clang-18'} --target=riscv64-linux-gnu"
    program(tmp_path / "riscv64-linux-gnu-gcc", "riscv64-linux-gnu-gcc (GCC) 14.1.0")
    toolchain._identify.cache_clear()
    assert find_compiler("riscv64-v").kind == "gcc"


def program(path, says):
    """A program that says a line."""
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


def test_objects_are_cached_by_source_headers_and_flags(sources, tmp_path, cache, monkeypatch):
    calls = count_calls(monkeypatch)

    def build(**options):
        del calls[:]
        program = build_program([sources / "main.c"], tmp_path / "program", **options)
        return [call for call in calls if call.startswith("compiling")], output_of(program)

    assert build() == (["compiling main.c"], "41")
    assert build() == ([], "41")
    assert build(cflags=("-DOTHER",))[0] and build(target="c")[0]
    (sources / "value.h").write_text("#define VALUE 42\n")
    assert build() == (["compiling main.c"], "42")
    assert len(list(cache.iterdir())) == 4


def test_headers_of_headers_count(tmp_path):
    (tmp_path / "simd").mkdir()
    (tmp_path / "a.c").write_text('#include "simd/b.h"\n')
    (tmp_path / "simd" / "b.h").write_text('  #  include "c.h"\n#include "simd/d.h"\n#include <stdio.h>\n')
    (tmp_path / "simd" / "c.h").write_text("")
    (tmp_path / "simd" / "d.h").write_text("")
    seen = {content_key(tmp_path / "a.c", ())}
    for name in ("simd/b.h", "simd/c.h", "simd/d.h"):
        with open(tmp_path / name, "a") as file:
            file.write("\n")
        seen.add(content_key(tmp_path / "a.c", ()))
    assert len(seen) == 4


def test_embedded_files_are_not_cached(tmp_path, cache):
    (tmp_path / "blob.bin").write_bytes(b"\x07")
    (tmp_path / "blob.S").write_text('.section .rodata\n.global blob\nblob: .incbin "blob.bin"\n')
    (tmp_path / "main.c").write_text("#include <stdio.h>\nextern const char blob[];\n"
                                     'int main(void) { printf("%d\\n", blob[0]); return 0; }\n')
    files = [tmp_path / "main.c", tmp_path / "blob.S"]
    assert output_of(build_program(files, tmp_path / "program")) == "7"
    assert len(list(cache.iterdir())) == 1
    (tmp_path / "blob.bin").write_bytes(b"\x09")
    assert output_of(build_program(files, tmp_path / "program")) == "9"


def test_trim_removes_what_was_used_least_recently(tmp_path):
    store = ObjectCache(tmp_path / "objects")
    store.folder.mkdir()
    (tmp_path / "object").write_bytes(b"0" * 100)
    for age, key in enumerate("abc"):
        store.store(key, tmp_path / "object")
        os.utime(store.folder / f"{key}.o", (1000 + age, 1000 + age))
    assert store.fetch("a", tmp_path / "copy")
    store.trim(limit_bytes=250)
    assert sorted(path.name for path in store.folder.iterdir()) == ["a.o", "c.o"]
    assert not store.fetch("b", tmp_path / "copy")


def test_a_cache_that_cannot_be_written_is_no_error(sources, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "file"))
    assert output_of(build_program([sources / "main.c"], tmp_path / "program")) == "41"


def test_two_processes_share_the_cache(sources, tmp_path, cache):
    code = ("import sys; from ingot.codegen.toolchain import build_program; "
            "[build_program([sys.argv[1]], sys.argv[2], cflags=(f'-DN={i}',)) for i in range(4)]")
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(sources / "main.c"), str(tmp_path / f"program{i}")])
            for i in range(2)]
    assert [job.wait(120) for job in jobs] == [0, 0]
    assert len([path for path in cache.iterdir() if path.suffix == ".o"]) == 4
    assert output_of(tmp_path / "program0") == output_of(tmp_path / "program1") == "41"


def test_shared_library_of_a_folder(tmp_path):
    for name, text in {"net.c": "int net(void) { return 5; }\n", "net_example.c": "#error not here\n",
                       "README.md": "text", "net_selftest.c": "#error not here\n",
                       "net_selftest_data.S": ".error \"not here\"\n"}.items():
        (tmp_path / name).write_text(text)
    import ctypes
    library = build_shared(tmp_path, tmp_path / "net.so", threads="none")
    assert ctypes.CDLL(str(library)).net() == 5


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_openmp(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("CC", compiler)
    try:
        openmp_flag(find_compiler("host"))
    except ToolchainError as error:
        pytest.skip(str(error))
    (tmp_path / "main.c").write_text("#include <omp.h>\n#include <stdio.h>\nint main(void) { int n = 0;\n"
                                     "#pragma omp parallel num_threads(2) reduction(+:n)\nn += 1;\n"
                                     'printf("%d\\n", n); return 0; }\n')
    assert output_of(build_program([tmp_path / "main.c"], tmp_path / "program", threads="openmp")) == "2"


def fake_compiler(folder, name, body):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_missing_openmp(tmp_path, monkeypatch):
    fake = fake_compiler(tmp_path / "bin", "cc", '[ "$1" = --version ] && echo "clang version 1" && exit 0\nexit 1')
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(ToolchainError, match=r'install libomp-dev.*or cast with threads="none"'):
        openmp_flag(find_compiler("host"))


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="no C compiler for .* on PATH .tried cc, gcc, clang.; install one"):
        find_compiler("host")
    cross = "aarch64-linux-gnu" if not is_native(Target.get("aarch64-linux-gnu")) else "x86-64-v3"
    with pytest.raises(ToolchainError, match=f"no C compiler for {cross}.*install a cross compiler"):
        find_compiler(cross)


def test_wrong_cc(monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/cc -m64")
    with pytest.raises(ToolchainError, match="CC names it"):
        find_compiler("host")


def test_cc_with_options(monkeypatch):
    monkeypatch.setenv("CC", "gcc -m64")
    assert find_compiler("host").command[1:] == ("-m64",)


def test_compile_error_shows_the_first_error(tmp_path):
    lines = ["#warning before", "int f(void) { return missing; }", *["int g(void) { return no; }"] * 20, ""]
    (tmp_path / "bad.c").write_text("\n".join(lines))
    with pytest.raises(ToolchainError) as caught:
        build_shared([tmp_path / "bad.c"], tmp_path / "out.so", threads="none")
    lines = str(caught.value).splitlines()
    assert "failed compiling bad.c (exit status 1)" in lines[0]
    assert "bad.c:2" in lines[1] and "missing" in lines[1] and len(lines) <= 8
    assert caught.value.log.count("error:") > 1
    assert not (tmp_path / "out.so").exists()


def test_link_error(tmp_path):
    (tmp_path / "main.c").write_text("int missing(void);\nint main(void) { return missing(); }\n")
    with pytest.raises(ToolchainError, match="failed linking program(.|\n)*undefined reference"):
        build_program([tmp_path / "main.c"], tmp_path / "program")


def test_threads_is_checked(tmp_path):
    with pytest.raises(ValueError, match="openmp, none"):
        build_shared([], tmp_path / "out.so", threads="pthreads")


def test_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ToolchainError, match="no C sources"):
        build_shared(tmp_path / "empty", tmp_path / "out.so", threads="none")


@pytest.fixture
def commands(monkeypatch):
    """The commands that are run."""
    if toolchain.find_compiler("host").kind != "gcc":
        pytest.skip("gcc alone keeps what it has parsed")
    made, original = [], toolchain._run
    monkeypatch.setattr(toolchain, "_run", lambda command, cwd=None: (made.append(command),
                                                                      original(command, cwd))[1])
    return made


@pytest.fixture
def readers(tmp_path):
    """A folder with as many sources that read simd.h as make it worth to parse it once, and one that has to read
    something before."""
    folder = tmp_path / "readers"
    shutil.copytree(toolchain.Path(toolchain.__file__).parent.parent / "runtime_c", folder)
    for source in folder.glob("*.c"):
        source.unlink()
    for n in range(toolchain.LEAST_READERS):
        (folder / f"reader{n}.c").write_text(
            f'#include "simd.h"\nvoid twice{n}(float *x);\nvoid twice{n}(float *x)\n'
            "{\n    f32x4_store(x, f32x4_add(f32x4_load(x), f32x4_load(x)));\n}\n")
    (folder / "other.c").write_text('#include "ingot_threads.h"\n#include "simd.h"\n'
                                    "int other(void);\nint other(void) { return 7; }\n")
    return folder


def test_what_many_sources_include_is_parsed_once(readers, tmp_path, cache, monkeypatch, commands):
    """By gcc, and only for those that are compiled; the library is the same as without."""
    first = build_shared(readers, tmp_path / "first.so", threads="none").read_bytes()
    assert sum("c-header" in c for c in commands) == 1
    assert sum("-include" in c for c in commands) == toolchain.LEAST_READERS
    assert all("-include" not in c for c in commands if "other.c" in c)
    commands.clear()
    (readers / "reader0.c").write_text((readers / "reader0.c").read_text() + "\n")
    build_shared(readers, tmp_path / "again.so", threads="none")
    assert ["-include" in c for c in commands] == [True, False] and "c-header" not in commands[0]  # and the link
    monkeypatch.setattr(toolchain, "LEAST_READERS", 100)
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "other cache"))
    assert build_shared(readers, tmp_path / "first.so", threads="none").read_bytes() == first


def test_what_few_sources_include_is_parsed_once_for_later_builds(readers, tmp_path, cache, commands):
    """By the second build with the same header and flags; what gcc cannot use is not used."""
    for n in range(2, toolchain.LEAST_READERS):
        (readers / f"reader{n}.c").unlink()
    parsed = []
    for level in ("-O1", "-O1", "-O1", "-O2", "-O1"):
        commands.clear()
        for n in range(2):
            (readers / f"reader{n}.c").write_text((readers / f"reader{n}.c").read_text() + "\n")
        build_shared(readers, tmp_path / "out.so", threads="none", cflags=(level,))
        parsed.append((sum("c-header" in c for c in commands), sum("-include" in c for c in commands)))
        if len(parsed) == 4:
            for file in cache.with_name("headers").iterdir():
                file.write_bytes(b"not what gcc wrote" if file.stat().st_size else b"")
    assert parsed == [(0, 0), (1, 2), (0, 2), (0, 0), (0, 2)]


def test_a_parsed_header_is_found_by_a_relative_path(tmp_path, monkeypatch):
    """Of the cache, from the folder of a build, which is another one."""
    monkeypatch.chdir(tmp_path)
    toolchain.Path("cache").mkdir()
    headers = toolchain.HeaderCache(toolchain.Path("cache"))
    headers.write("key", b"parsed")
    (tmp_path / "build").mkdir()
    assert headers.link("key", "build/first.h.gch")
    assert (tmp_path / "build" / "first.h.gch").read_bytes() == b"parsed"


def test_a_header_that_cannot_be_parsed_alone_is_left_to_each_source(readers, tmp_path, cache):
    """Its error is that of the source, with the source's name."""
    (readers / "simd.h").write_text("int broken(;\n")
    with pytest.raises(ToolchainError, match=r"failed compiling reader\d.c"):
        build_shared(readers, tmp_path / "out.so", threads="none")
