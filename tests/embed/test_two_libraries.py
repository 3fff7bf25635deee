"""Two generated libraries in one program: from flat sources, as whole archives, as shared objects; C and C++ hosts."""
import os

import pytest

from ingot.codegen.toolchains import toolchain
import ingot
from c_folders import HERE, library_sources, need_compiler, run
from networks import load


@pytest.fixture(scope="module", params=["openmp", "none"])
def folders(request, tmp_path_factory):
    """(-fopenmp or nothing, flags of the host program, the folders) of one network under two names."""
    base, flags = tmp_path_factory.mktemp("two"), []
    for name in ("first", "second"):
        with ingot.compile(load("conv_net"), name=name, weights="array", threads=request.param) as library:
            library.export(base / name)
            (x,), (y,) = library.inputs, library.outputs
            flags = [f"-DIN=FIRST_{x.name.upper()}_SIZE", f"-DOUT=FIRST_{y.name.upper()}_SIZE",
                     *(f for f in toolchain(library.model.target).cflags if not f.startswith("-O"))]
    openmp = ["-fopenmp"] if request.param == "openmp" else []
    return openmp, flags, [base / "first", base / "second"]


def flat(folder, compiler, flags, work):
    """Sources, for the command that links all of them at once."""
    return library_sources(folder)


def objects(folder, compiler, flags, work):
    made = work / folder.name
    made.mkdir()
    run([compiler, "-std=c99", "-O1", "-fPIC", *flags, "-c", *library_sources(folder)], cwd=made)
    return sorted(made.glob("*.o"))


def archive(folder, compiler, flags, work):
    path = work / f"lib{folder.name}.a"
    run(["ar", "rcs", path, *objects(folder, compiler, flags, work)])
    return ["-Wl,--whole-archive", path, "-Wl,--no-whole-archive"]


def shared(folder, compiler, flags, work):
    path = work / f"lib{folder.name}.so"
    run([compiler, "-shared", *flags, *objects(folder, compiler, flags, work), "-o", path, "-lm", "-lpthread"])
    return [path]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("form", [flat, archive, shared], ids=lambda f: f.__name__)
def test_two_libraries(folders, tmp_path, form, language, compiler):
    openmp, flags, libraries = folders
    host = compiler if language == "c" else {"gcc": "g++", "clang": "clang++"}[compiler]
    need_compiler(compiler, *openmp)
    need_compiler(host, *openmp)
    standard = "-std=c99" if language == "c" else "-std=c++11"
    main = tmp_path / "main.o"
    run([host, "-x", language, standard, *flags, *(f"-I{f}" for f in libraries), "-c", HERE / "two_libraries.c", "-o",
         main])
    parts = [part for f in libraries for part in form(f, compiler, [*flags, *openmp], tmp_path)]
    if form is flat and language == "c++":  # sources are C: the C++ compiler gets their objects
        sources, parts = parts, []
        for n, source in enumerate(sources):
            parts.append(tmp_path / f"{n}.o")
            run([compiler, "-std=c99", "-O1", *flags, *openmp, "-c", source, "-o", parts[-1]])
    run([host, *([standard] if language == "c" else []), *flags, *openmp, main, *parts, "-o", tmp_path / "program",
         "-lm",
         "-lpthread"])
    assert run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}) == "ok\n"


def test_one_directory_for_both(folders, tmp_path):
    """As Arduino, Keil and globs of sources build: files of two networks with one name are one file of the runtime."""
    openmp, flags, libraries = folders
    need_compiler("gcc", *openmp)
    for folder in libraries:
        for file in folder.iterdir():
            place = tmp_path / file.name
            if place.exists() and file.name not in ("Makefile", "CMakeLists.txt", "README.md"):
                assert file.suffix in (".c", ".h") and place.read_bytes() == file.read_bytes(), file.name
            place.write_bytes(file.read_bytes())
    assert {"first.c", "second.c", "first_kernels_0.c", "second_kernels_0.c"} <= {p.name for p in tmp_path.iterdir()}
    run(["gcc", "-std=c99", "-O1", *flags, *openmp, f"-I{tmp_path}", HERE / "two_libraries.c",
         *library_sources(tmp_path), "-o", tmp_path / "program", "-lm", "-lpthread"])
    assert run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}) == "ok\n"
    for program in ("example", "selftest"):  # and each has programs of its own
        sources = [*library_sources(tmp_path), *tmp_path.glob(f"second_{program}*.c")]
        run(["gcc", "-std=c99", "-O1", *flags, *openmp, *sources, "-o", tmp_path / program, "-lm", "-lpthread"])
    assert "max error" in run([tmp_path / "selftest"])
