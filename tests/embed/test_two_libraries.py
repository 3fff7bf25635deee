"""Two generated libraries in one program: from flat sources, as whole archives, as shared objects; C and C++ hosts."""
import os
from functools import lru_cache

import pytest

from ingot.codegen.toolchains import toolchain
import ingot
from c_folders import HERE, library_sources, need_compiler, objects_of, run
from networks import load


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """folders(threads) -> (-fopenmp or nothing, flags of the host program, the folders) of one network under two
    names."""
    @lru_cache
    def made(threads):
        base, flags = tmp_path_factory.mktemp(threads), []
        for name in ("first", "second"):
            with ingot.compile(load("conv_net"), name=name, weights="array", threads=threads) as library:
                library.export(base / name)
                (x,), (y,) = library.inputs, library.outputs
                flags = [f"-DIN=FIRST_{x.name.upper()}_SIZE", f"-DOUT=FIRST_{y.name.upper()}_SIZE",
                         *(f for f in toolchain(library.model.target).cflags if not f.startswith("-O"))]
        openmp = ["-fopenmp"] if threads == "openmp" else []
        return openmp, flags, [base / "first", base / "second"]
    return made


def flat(folder, compiler, flags, work):
    """Sources, for the command that links all of them at once."""
    return library_sources(folder)


def objects(folder, compiler, flags, work):
    return objects_of(folder, library_sources(folder), work / folder.name, compiler, "-O1", "-fPIC", *flags)


def archive(folder, compiler, flags, work):
    path = work / f"lib{folder.name}.a"
    run(["ar", "rcs", path, *objects(folder, compiler, flags, work)])
    return ["-Wl,--whole-archive", path, "-Wl,--no-whole-archive"]


def shared(folder, compiler, flags, work):
    path = work / f"lib{folder.name}.so"
    run([compiler, "-shared", *flags, *objects(folder, compiler, flags, work), "-o", path, "-lm", "-lpthread"])
    return [path]


@pytest.mark.parametrize("form, language, compiler, threads", [  # each two of these together
    (flat, "c", "gcc", "openmp"), (flat, "c++", "clang", "none"), (archive, "c", "clang", "none"),
    (archive, "c++", "gcc", "openmp"), (shared, "c", "gcc", "none"), (shared, "c++", "clang", "openmp")],
    ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_two_libraries(folders, tmp_path, form, language, compiler, threads):
    openmp, flags, libraries = folders(threads)
    host = compiler if language == "c" else {"gcc": "g++", "clang": "clang++"}[compiler]
    need_compiler(compiler, *openmp)
    need_compiler(host, *openmp)
    standard = "-std=c99" if language == "c" else "-std=c++11"
    main = tmp_path / "main.o"
    run([host, "-x", language, standard, *flags, *(f"-I{f}" for f in libraries), "-c", HERE / "two_libraries.c", "-o",
         main])
    parts = [part for f in libraries for part in form(f, compiler, [*flags, *openmp], tmp_path)]
    if form is flat and language == "c++":  # sources are C: the C++ compiler gets their objects
        parts = [part for f in libraries for part in objects_of(f, library_sources(f), tmp_path / f.name, compiler,
                                                                "-O1", *flags, *openmp)]
    run([host, *([standard] if language == "c" else []), *flags, *openmp, main, *parts, "-o", tmp_path / "program",
         "-lm",
         "-lpthread"])
    assert run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}) == "ok\n"


def test_one_directory_for_both(folders, tmp_path):
    """As Arduino, Keil and globs of sources build: files of two networks with one name are one file of the runtime."""
    openmp, flags, libraries = folders("openmp")
    need_compiler("gcc", *openmp)
    for folder in libraries:
        for file in folder.iterdir():
            place = tmp_path / file.name
            if place.exists() and file.name not in ("Makefile", "CMakeLists.txt", "README.md"):
                assert file.suffix in (".c", ".h") and place.read_bytes() == file.read_bytes(), file.name
            place.write_bytes(file.read_bytes())
    assert {"first.c", "second.c", "first_kernels_0.c", "second_kernels_0.c"} <= {p.name for p in tmp_path.iterdir()}
    library = objects_of(tmp_path, library_sources(tmp_path), tmp_path / "objects", "gcc", "-O1", *flags, *openmp)
    run(["gcc", "-std=c99", "-O1", *flags, *openmp, f"-I{tmp_path}", HERE / "two_libraries.c", *library,
         "-o", tmp_path / "program", "-lm", "-lpthread"])
    assert run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}) == "ok\n"
    for program in ("example", "selftest"):  # and each has programs of its own
        sources = [*library, *tmp_path.glob(f"second_{program}*.c")]
        run(["gcc", "-std=c99", "-O1", *flags, *openmp, *sources, "-o", tmp_path / program, "-lm", "-lpthread"])
    assert "max error" in run([tmp_path / "selftest"])
