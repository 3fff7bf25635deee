"""Exported modules: loaded again, in this process and a fresh one, and called from C."""
import ctypes
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from module_cases import ALL, Two, built, floats, vector_add

import ingot as tvm
from ingot import te
from ingot.codegen.toolchain import ToolchainError
from ingot.codegen.toolchains import toolchain
from ingot.contrib import cc
from ingot.runtime import ModuleError

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
DRIVER = Path(__file__).with_name("module_driver.c")


def check(module):
    """Everything that a module can do, of one that may have been loaded."""
    a, c = floats(6), np.empty(6, np.float32)
    module["vector_add"](a, a, c)
    np.testing.assert_array_equal(c, a + a)
    module["through_memory"](a, c)
    np.testing.assert_allclose(c, (a * a)[::-1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"^groups: argument A has dimension 1 = 3, expected n \* 2 = 4$"):
        module["groups"](floats(2, 3), np.empty(2, np.float32))
    with pytest.raises(ModuleError, match="^checked: n is above"):
        module["checked"](np.zeros(3, np.int32), np.zeros(3, np.int32), 2)
    assert module.function_names == tuple(f.attrs["global_symbol"] for f in ALL)


@pytest.mark.parametrize("suffix", ["so", "c", "tar"])
def test_round_trip(suffix, tmp_path):
    path = tmp_path / f"cases.{suffix}"
    built().export_library(str(path))
    module = tvm.runtime.load_module(str(path))
    check(module)
    assert module.type_key == ("library" if suffix == "so" else "c")
    if suffix != "so":
        again = tmp_path / f"again.{suffix}"
        module.export_library(again)
        assert again.read_bytes() == path.read_bytes() if suffix == "c" else \
            tarfile.open(again).getnames() == [n.replace("cases.c", "again.c") for n in tarfile.open(path).getnames()]


FRESH = """
import sys
import numpy as np
import ingot as tvm
module = tvm.runtime.load_module(sys.argv[1])
a, b = np.arange(4, dtype=np.float32), tvm.nd.empty((4,))
module["double"](a, b)
print(b.numpy().tolist())
module(a, b)
print(b.numpy().tolist(), module.entry_name, "jinja2.environment" in sys.modules)
try:
    module["double"](a[:3], b)
except ValueError as error:
    print(error)
"""


def test_a_fresh_process_needs_the_file_alone(tmp_path):
    path = tmp_path / "two.so"
    tvm.build(Two).export_library(path)
    done = subprocess.run([sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    doubled, added, error = done.stdout.splitlines()
    assert doubled == "[0.0, 2.0, 4.0, 6.0]" and added.startswith("[1.0, 2.0, 3.0, 4.0] main")
    assert error == "double: argument A has dimension 0 = 3, expected 4"


# ---------------------------------------------------------------- C

def program(folder, compiler, flags, sources, tail=()):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    out = folder / "program"
    done = subprocess.run([compiler, *STRICT, *flags, *map(str, sources), "-o", str(out), "-lm", *tail],
                          capture_output=True, text=True, timeout=300)
    if done.returncode and "-fsanitize" in " ".join(flags) and "cannot find" in done.stderr:
        pytest.skip(f"{compiler} has no sanitizers here")
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(out)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


EXPECTED = {
    "add": "0 -1 ", "sum": "11 66", "quiet": "-9 0 ", "workspace": "0 -1 ", "square": "36 1", "bytes": "64 0",
    "count": "-9 -1 vector_add takes 3 arguments (A, B, C), got 2",
    "no-args": "-9 -1 vector_add takes 3 arguments (A, B, C), got 0",
    "null": "-1 2 vector_add: argument C is NULL, expected float32[n]",
    "null-data": "-1 2 vector_add: argument C has data NULL, expected float32[n]",
    "null-shape": "-1 2 vector_add: argument C has shape NULL, expected float32[n]",
    "shape": "-9 2 vector_add: argument C has dimension 0 = 5, expected n = 6",
    "ndim": "-9 2 vector_add: argument C has ndim = 2, expected 1",
    "dtype": "-9 2 vector_add: argument C has dtype bfloat16, expected float32",
    "lanes": "-9 2 vector_add: argument C has dtype float32x4, expected float32",
    "device": "-9 2 vector_add: argument C has device type = 2, expected 1, the CPU",
    "offset": "-9 2 vector_add: argument C has data at an address with the remainder = 2, expected a multiple of 4",
    "strides": "-9 2 vector_add: argument C has stride 0 = -1, expected 1: the tensor must be compact, pass a "
               "contiguous copy",
    "huge": f"-9 2 vector_add: argument C has dimension 0 = {1 << 40}, expected at most {(1 << 31) - 1}",
    "kind": "-9 2 vector_add: argument C is a number, expected float32[n]",
    "overlap": "-9 2 vector_add: argument C is written, and shares memory with A: pass a copy of one",
    "no-workspace": "-10 -1 through_memory: the workspace has 0 bytes, expected 64 at a multiple of 64",
    "short-workspace": "-10 -1 through_memory: the workspace has 63 bytes, expected 64 at a multiple of 64",
    "askew-workspace": "-10 -1 through_memory: the workspace has 1000 bytes, expected 64 at a multiple of 64",
    "scaled": "0 -1 ", "half": "-0.5 2",
    "real": "-9 3 scaled: argument shift is no integer, expected a number (int8)",
    "range": f"-9 3 scaled: argument shift has value = {-(1 << 63)}, expected at least -128",
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with cases.c, the one file, and what is in cases.tar under tar/."""
    folder = tmp_path_factory.mktemp("exported")
    built().export_library(folder / "cases.c")
    built().export_library(folder / "cases.tar")
    with tarfile.open(folder / "cases.tar") as tar:
        for member in tar:
            (folder / "tar").mkdir(exist_ok=True)
            (folder / "tar" / member.name).write_bytes(tar.extractfile(member).read())
    return folder


@pytest.mark.parametrize("compiler, flags", [("gcc", ("-O2",)), ("clang", ("-O2",)), ("gcc", SANITIZED)],
                         ids=["gcc", "clang", "sanitized"])
def test_a_program_that_includes_the_one_file(exported, tmp_path, compiler, flags):
    source = f'-DMODULE_SOURCE="{exported / "cases.c"}"'
    assert program(tmp_path, compiler, (*flags, source), [DRIVER]) == EXPECTED


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_program_beside_the_files_of_the_archive(exported, tmp_path, compiler):
    folder = exported / "tar"
    found = program(tmp_path, compiler, ("-O1", f"-I{folder}"), [DRIVER, *sorted(folder.glob("*.c"))])
    assert found == EXPECTED
    assert {p.name for p in folder.iterdir()} == {"cases.c", "cases.h", "ingot.c", "ingot.h", "ingot_entry.h",
                                                  "ingot_math.h", "ingot_module.h"}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_one_file_with_vectors_and_threads(tmp_path, compiler):
    """It holds simd.h and ingot_math.h, and stays without a warning."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    x = te.placeholder((te.var("n"), 64), name="x")
    y = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), name="y")
    s = te.create_schedule(y.op)
    i, j = s[y].op.axis
    s[y].vectorize(s[y].split(j, factor=16)[1])
    s[y].parallel(i)
    module = tvm.build(s, [x, y], name="exponent")
    a, b = floats(5, 64), np.empty((5, 64), np.float32)
    module(a, b)
    np.testing.assert_allclose(b, np.exp(a), rtol=1e-5)
    source = module.get_source()
    assert "ingot_shared(worker, 1, " in source and "ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, " in source
    assert '#include "simd.h"' in source
    module.export_library(tmp_path / "exponent.c")
    done = subprocess.run([compiler, *STRICT, "-O2", "-c", "exponent.c", "-o", "exponent.o"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_two_modules_in_one_program(exported, tmp_path):
    """The one file defines nothing but its functions, so that it lies beside another one's."""
    tvm.build(Two).export_library(tmp_path / "two.c")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    program(tmp_path, "gcc", ("-O0",), [tmp_path / "main.c", tmp_path / "two.c", exported / "cases.c"])


def test_the_header_is_cxx(exported, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-x", "c++"]
    done = subprocess.run([*command, str(exported / "tar" / "cases.h")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_text_is_the_same_every_time():
    module = tvm.IRModule({f.attrs["global_symbol"]: f for f in ALL})
    assert tvm.build(module).get_source() == tvm.build(module).get_source() == built().get_source()
    assert max(map(len, built().get_source().splitlines())) <= 120
    assert '#include "ingot' not in built().get_source("standalone")


# ---------------------------------------------------------------- refusals

def test_names_that_are_no_modules(tmp_path):
    load = tvm.runtime.load_module
    with pytest.raises(ValueError, match="there is no file .*none.so"):
        load(tmp_path / "none.so")
    with pytest.raises(ValueError, match="model.onnx: modules are loaded from .so, .c or .tar"):
        load(tmp_path / "model.onnx")
    for suffix, message in ((".so", "is no module of Ingot's"), (".tar", "is no archive of a module")):
        path = (tmp_path / "text").with_suffix(suffix)
        path.write_text("text")
        with pytest.raises(ValueError, match=message):
            load(path)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(ValueError, match="it has 0 C files, expected one"):
        load(tmp_path / "empty.tar")
    (tmp_path / "other.c").write_text("int nothing;\n")
    with pytest.raises(ValueError, match="is no module of Ingot's"):
        load(tmp_path / "other.c").function_names
    (tmp_path / "broken.c").write_text("int nothing\n")
    with pytest.raises(ToolchainError, match="error:"):
        load(tmp_path / "broken.c").function_names


def test_another_version_is_refused(tmp_path):
    text = built().get_source("standalone").replace("#define INGOT_ABI 1u", "#define INGOT_ABI 77u")
    (tmp_path / "old.c").write_text(text)
    with pytest.raises(ValueError, match=r"built by another version of Ingot \(ABI 77, this one has 1\)"):
        tvm.runtime.load_module(tmp_path / "old.c").function_names


def test_exports_that_are_refused(tmp_path):
    module = built()
    with pytest.raises(ValueError, match="cases.dll: a module is exported as one of .so, .tar, .c"):
        module.export_library(tmp_path / "cases.dll")
    with pytest.raises(ValueError, match="export_library does not take cc: the compiler is the target's"):
        module.export_library(tmp_path / "cases.so", cc="gcc")
    with pytest.raises(ValueError, match='fmt must be "", "c" or "standalone", not \'ll\''):
        module.get_source("ll")
    module.export_library(tmp_path / "cases.so")
    loaded = tvm.runtime.load_module(tmp_path / "cases.so")
    for use in (loaded.get_source, lambda: loaded.export_library(tmp_path / "again.so")):
        with pytest.raises(ValueError, match="holds no source: copy that file, or export the module as .c or .tar"):
            use()


def test_libraries_that_a_function_of_the_caller_links(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "more.c").write_text("int more(void) { return 3; }\n")

    def fcompile(path, files, options):
        assert path == str(tmp_path / "own.so") and files[-1] == str(tmp_path / "more.c")
        cc.create_shared(path, files, options)

    tvm.build(vector_add).export_library(
        tmp_path / "own.so", fcompile=fcompile, addons=[tmp_path / "more.c"], workspace_dir=tmp_path / "c",
        options=["-O1"])
    assert "vector_add" in tvm.runtime.load_module(tmp_path / "own.so").function_names
    assert ctypes.CDLL(str(tmp_path / "own.so")).more() == 3 and (tmp_path / "c" / "own.c").exists()


def test_functions_of_addons_are_declared(tmp_path):
    """gcc would take an undeclared one for a function of int, and give wrong numbers."""
    source, built = tmp_path / "twice.c", {}
    source.write_text("float twice(float x) { return 2 * x; }\n")
    subprocess.run(["cc", "-c", "-fPIC", str(source), "-o", str(tmp_path / "twice.o")], check=True)
    subprocess.run(["ar", "rc", str(tmp_path / "twice.a"), str(tmp_path / "twice.o")], check=True)
    a = tvm.te.placeholder((4,), name="a")
    b = tvm.te.compute((4,), lambda i: tvm.tir.call_extern("float32", "twice", a[i]), "b")
    for declared in (False, True):
        schedule = tvm.te.create_schedule(b.op)
        if declared:
            schedule[b].pragma(b.op.axis[0], "import_c", "float twice(float x);")
        built[declared] = tvm.build(schedule, [a, b], target="c")
    for fcompile in (None, cc.create_shared):
        with pytest.raises(RuntimeError, match="declaration of function .twice"):
            built[False].export_library(tmp_path / "no.so", fcompile, [source])
    for name in ("twice.c", "twice.o", "twice.a"):
        path, out = tmp_path / f"{name}.so", np.zeros(4, np.float32)
        built[True].export_library(path, addons=[tmp_path / name])
        tvm.runtime.load_module(path)(np.ones(4, np.float32), out)
        assert out.tolist() == [2] * 4
    with pytest.raises(ValueError, match="export_library: addons is a list, not "):
        built[True].export_library(tmp_path / "no.so", addons=str(source))


def test_a_module_for_another_machine(tmp_path):
    target = "aarch64-linux-gnu" if toolchain(tvm.Target("host")).arch == "x86_64" else "x86-64-v3"
    module = tvm.build(vector_add, target=target)
    assert f"for target {target}" in module.get_source()
    module.export_library(tmp_path / "there.c")
    with pytest.raises(ToolchainError, match=f"this machine cannot run code for {target}: export the module"):
        module["vector_add"]
