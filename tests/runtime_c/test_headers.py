"""The headers compile without a warning wherever they should, stand alone, and give the compiler code it vectorizes."""
import re
import shutil
from pathlib import Path

import pytest

from c_builds import RUNTIME, STRICT, check, cpu_flags

HERE = Path(__file__).parent
X86 = [[], ["-march=x86-64-v2"], ["-march=x86-64-v3"], ["-march=x86-64-v4"],
       ["-march=x86-64-v4", "-mavx512vbmi2"], ["-mavx512f"], ["-DINGOT_SIMD_SCALAR"]]
VECTORIZED = ["exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "round"]


@pytest.mark.parametrize("flags, level", [(flags, ("-O3", "-O0")[n % 2]) for n, flags in enumerate([*X86, []])],
                         ids=lambda f: "".join(f) or "default")
def test_no_warning(compiler, flags, level, tmp_path):
    """Headers; and ops.c, which uses each of them, for machines that may not run the builds of it."""
    more = [HERE / "ops.c"] if any("v4" in flag or "avx512" in flag for flag in flags) else []
    for source in (RUNTIME / "ingot.c", HERE / "everything.c", *more):
        check([compiler, *STRICT, level, *flags, f"-I{RUNTIME}", "-c", str(source), "-o", str(tmp_path / "object.o")])


@pytest.mark.parametrize("flags", [[], ["-march=x86-64-v4"]], ids=["default", "v4"])
def test_no_warning_with_openmp(compiler, flags, tmp_path):
    if compiler == "clang" and not openmp_works(compiler, tmp_path):
        pytest.skip("clang has no OpenMP here")
    check([compiler, *STRICT, "-O2", "-fopenmp", *flags, f"-I{RUNTIME}", "-c", str(HERE / "everything.c"),
           "-o", str(tmp_path / "object.o")])


def openmp_works(compiler, folder):
    """Whether the compiler turns an OpenMP pragma into code, rather than refusing the flag."""
    (folder / "omp.c").write_text("int x;\nint main(void) {\n#pragma omp parallel\n x = 1;\n return 0; }\n")
    try:
        check([compiler, "-fopenmp", "-c", str(folder / "omp.c"), "-o", str(folder / "omp.o")])
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("header", ["ingot.h", "simd.h", "ingot_half.h", "ingot_team.h", "ingot_tiles.h"])
def test_headers_are_cpp(header, tmp_path):
    cxx = shutil.which("g++")
    if cxx is None:
        pytest.skip("g++ is not installed")
    source = tmp_path / "header.cpp"
    source.write_text(f'#include "{header}"\n#include "{header}"\nint main() {{ return (int)INGOT_OK; }}\n')
    for flags in ([], ["-march=x86-64-v4"]):
        check([cxx, "-std=c++11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{RUNTIME}", "-c", str(source),
               "-o", str(tmp_path / "object.o")])


def test_tiles_of_the_unit_are_those_of_plain_c(compiler, tmp_path):
    """Digits of every value, tiles of every height: the sums are the same, since they are exact."""
    program = tmp_path / "tiles"
    check([compiler, *STRICT, "-O2", "-march=x86-64-v4", "-mamx-tile", "-mamx-int8", f"-I{RUNTIME}",
           str(HERE / "tiles.c"), "-o", str(program)])
    if not {"amx_int8", "avx512f"} <= cpu_flags():
        pytest.skip("this CPU has no amx_int8")
    assert check([str(program)]) == "ok\n"


EMULATED = ["-O1", "-march=x86-64-v4", "-mamx-tile", "-mamx-int8", "-D_POSIX_C_SOURCE=200809L", "-include",
            str(HERE / "emulated_tiles.h")]


@pytest.mark.skipif("avx512f" not in cpu_flags(), reason="this CPU has no avx512f")
@pytest.mark.parametrize("source", ["tiles.c", "emulated_tiles.c"])
def test_tiles_of_an_emulated_unit(compiler, tmp_path, source):
    """Its instructions are what Intel's manual says they are, and ingot_tiles.h makes by them what it does without."""
    program = tmp_path / "tiles"
    check([compiler, *STRICT, *EMULATED, f"-I{RUNTIME}", str(HERE / source), "-o", str(program)])
    assert check([str(program)]) == "ok\n"


def test_ingot_h_needs_only_stddef_and_stdint():
    assert re.findall(r"#include\s*(\S+)", (RUNTIME / "ingot.h").read_text()) == ["<stddef.h>", "<stdint.h>"]


def test_parts_can_be_pasted_into_one_header(compiler, tmp_path):
    """Packaging replaces every include of simd/ by the file's text."""
    for name in ("simd.h", "ingot_math.h", "ingot.h"):
        text = (RUNTIME / name).read_text()
        text = re.sub(r'#include "(simd/\w+\.h)"\n', lambda m: (RUNTIME / m[1]).read_text(), text)
        (tmp_path / name).write_text(text)
    for flags in ([], ["-march=x86-64-v4"]):
        check([compiler, *STRICT, "-O0", *flags, f"-I{tmp_path}", "-c", str(HERE / "everything.c"),
               "-o", str(tmp_path / "object.o")])


def test_ingot_c_has_no_changing_data(tmp_path):
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc or nm is not installed")
    check(["gcc", "-O2", "-c", str(RUNTIME / "ingot.c"), "-o", str(tmp_path / "ingot.o")])
    for line in check(["nm", str(tmp_path / "ingot.o")]).splitlines():
        assert line.split()[-2] in "TtrRW", line  # W: a weak function


@pytest.mark.parametrize("flags", X86, ids=lambda f: "".join(f) or "default")
def test_math_needs_no_library_but_for_sqrt(compiler, flags, tmp_path):
    source = loops(tmp_path, [*VECTORIZED, "floor", "ceil"])
    for level in ("-O0", "-O2") if flags in ([], ["-march=x86-64-v3"]) else ("-O2",):
        check([compiler, *STRICT, level, *flags, f"-I{RUNTIME}", "-c", str(source), "-o", str(tmp_path / "loops.o")])
        assert set(re.findall(r"U (\w+)", check(["nm", str(tmp_path / "loops.o")]))) <= {"memcpy", "memset", "sqrtf"}


@pytest.mark.parametrize("flags", [[], ["-march=x86-64-v3"], ["-march=x86-64-v4"]], ids=["default", "v3", "v4"])
def test_gcc_vectorizes_loops_over_math(flags, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source = loops(tmp_path, VECTORIZED)
    report = tmp_path / "report"
    check(["gcc", *STRICT, "-O3", *flags, f"-I{RUNTIME}", f"-fopt-info-vec={report}", "-c", str(source),
           "-o", str(tmp_path / "object.o")])
    lines = set(map(int, re.findall(r"loops\.c:(\d+):.*loop vectorized", report.read_text())))
    assert lines == set(range(2, 2 + len(VECTORIZED)))


TILE = """#include "simd.h"
void tile(const float *INGOT_RESTRICT a, const float *INGOT_RESTRICT b, float *INGOT_RESTRICT c, int n);
void tile(const float *INGOT_RESTRICT a, const float *INGOT_RESTRICT b, float *INGOT_RESTRICT c, int n)
{
    f32x16 acc[ROWS];
    INGOT_UNROLL(ROWS)
    for (int j = 0; j < ROWS; ++j) acc[j] = f32x16_set1(0.0f);
    for (int i = 0; i < n; ++i) {
        INGOT_UNROLL(ROWS)
        for (int j = 0; j < ROWS; ++j)
            acc[j] = f32x16_fma(f32x16_set1(a[i * ROWS + j]), f32x16_load(b + 16 * i), acc[j]);
    }
    INGOT_UNROLL(ROWS)
    for (int j = 0; j < ROWS; ++j) f32x16_store(c + 16 * j, acc[j]);
}
"""


@pytest.mark.parametrize("level, rows", [("x86-64-v3", 6), ("x86-64-v4", 14)])
def test_register_tile_stays_in_registers(compiler, level, rows, tmp_path):
    """Also where f32x16 is a pair: an array of accumulators, unrolled, must not touch the stack."""
    (tmp_path / "tile.c").write_text(TILE)
    check([compiler, *STRICT, "-O3", f"-march={level}", f"-DROWS={rows}", f"-I{RUNTIME}", "-S",
           str(tmp_path / "tile.c"), "-o", str(tmp_path / "tile.s")])
    assembly = (tmp_path / "tile.s").read_text()
    assert "vfmadd" in assembly
    assert not re.findall(r"[xyz]mm\d+, .*\(%r[sb]p|\(%r[sb]p.*[xyz]mm", assembly)


def loops(folder, names):
    """A C file with one function per line from the second on: y[i] = ingot_NAMEf(x[i])."""
    lines = ['#include "ingot_math.h"']
    for name in names:
        head = f"void v_{name}(float *INGOT_RESTRICT y, const float *INGOT_RESTRICT x, int n)"
        lines.append(f"{head}; {head} {{ for (int i = 0; i < n; ++i) y[i] = ingot_{name}f(x[i]); }}")
    path = folder / "loops.c"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_coefficients_are_the_fitted_ones():
    """simd/math.h's polynomials are what fit_math.py derives; the last digits depend on the linear algebra library."""
    from fit_math import fits
    literals = [float(v) for v in re.findall(r"(-?\d+\.\d+(?:e-?\d+)?)f", (RUNTIME / "simd" / "math.h").read_text())]
    for name, (coefficients, error) in fits().items():
        assert error < 2e-8, name
        for c in coefficients:
            assert min(abs(c / v - 1) for v in literals if v) < 1e-3, (name, c)
