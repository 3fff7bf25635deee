"""--single-file: one .c and one .h build alone, without a warning, export the interface only, and share programs."""
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from c_folders import HERE, STRICT, builds, definitions, library_sources, need, need_compiler, run
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_native, toolchain
from networks import attention_net, conv_net, load, relative_error, with_symbolic_batch

def wide_net():
    """Two convolutions of 32 channels of 64x64: kernels that a team of threads shares."""
    rng, nodes, weights = np.random.default_rng(5), [], []
    for n, (x, y) in enumerate((("image", "h"), ("h", "y")), 1):
        weights += [numpy_helper.from_array((rng.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32), f"w{n}")]
        nodes += [helper.make_node("Conv", [x, f"w{n}"], [f"c{n}"], name=f"conv{n}", pads=[1] * 4),
                  helper.make_node("Relu", [f"c{n}"], [y], name=f"relu{n}")]
    image, y = (helper.make_tensor_value_info(name, 1, (1, 32, 64, 64)) for name in ("image", "y"))
    graph = helper.make_graph(nodes, "wide_net", [image], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MADE = {"any_batch": lambda: with_symbolic_batch(conv_net()), "any_length": attention_net, "wide_net": wide_net}
NETWORKS = ["conv_net", "embedding_net", "transformer", *MADE]
INTERFACE = {"info", "init_", "run", "arena_bytes_"}


def made(name):
    return MADE[name]() if name in MADE else load(name)


def instructions(library):
    """The flags for the target's instructions; tests build at the optimization that they need."""
    return [flag for flag in toolchain(library.model.target).cflags if not flag.startswith("-O")]


@pytest.fixture(scope="module", params=NETWORKS)
def case(request, tmp_path_factory):
    """(compiled library, folder of its two files), with threads where these pay."""
    name = request.param
    with ingot.compile(made(name), name=name) as library:
        yield library, library.export(tmp_path_factory.mktemp("single") / name, single_file=True)


@pytest.fixture
def single(tmp_path):
    """single(name, **options of ingot.compile) -> (compiled library, folder of its two files)."""
    def export(name, network="conv_net", **options):
        library = ingot.compile(made(network), name=name, **{"threads": "none", **options})
        return library, library.export(tmp_path / name, single_file=True)
    return export


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_builds_without_a_warning_and_exports_the_interface_alone(case, tmp_path, compiler):
    """Every second network with OpenMP, by each compiler the others."""
    need(compiler)
    (library, folder), name = case, case[0].name
    openmp = "-fopenmp" if (NETWORKS.index(name) + (compiler == "gcc")) % 2 else "-fno-openmp"
    assert {path.name for path in folder.iterdir()} == {f"{name}.c", f"{name}.h"}
    output = tmp_path / "net.o"
    run([compiler, *STRICT, *instructions(library), "-O1", openmp, "-c", f"{name}.c", "-o", output], cwd=folder)
    symbols = run(["nm", "--extern-only", "--defined-only", output]).split()[2::3]
    assert set(symbols) == {f"{name}_{end}" for end in INTERFACE}


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_header_is_cpp(case, tmp_path, compiler):
    need(compiler)
    library, folder = case
    (tmp_path / "program.cpp").write_text(
        f'#include "{library.name}.h"\n'
        "const char *text(ingot_status status) { return ingot_status_str(status); }\n"
        f"ingot_status start({library.name} **net, void *arena, size_t bytes)\n"
        f"{{\n    return {library.name}_init(net, arena, bytes);\n}}\n")
    run([compiler, "-std=c++11", *STRICT[1:], f"-I{folder}", "-c", tmp_path / "program.cpp", "-o", tmp_path / "p.o"])


@pytest.mark.parametrize("target", ["c", "x86-64-v3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "tcc", "musl-gcc"])
def test_other_targets_and_compilers(single, compiler, target):
    need(compiler)
    if not is_native(Target.get(target)) or (compiler == "tcc" and target != "c"):
        pytest.skip(f"{compiler} does not build for {target}")
    library, folder = single("tiny", target=target)
    strict = ("-std=c99", "-Wall", "-Werror", "-DINGOT_SIMD_SCALAR") if compiler == "tcc" else (
        *STRICT, *toolchain(library.model.target).cflags)
    run([compiler, *strict, "-c", "tiny.c", "-o", "tiny.o"], cwd=folder)


@pytest.mark.parametrize("threads", ["none", "openmp"])
@pytest.mark.parametrize("network", ["conv_net", "wide_net"])
def test_numbers_are_those_of_the_folder(single, tmp_path, network, threads):
    """As the folder's; under sanitizers, which see what is touched outside."""
    sanitize = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DINGOT_ROLLED",
                *(["-fopenmp"] if threads == "openmp" else []))
    need_compiler("gcc", *sanitize)
    library, folder = single("tiny", network, threads=threads)
    run(["gcc", "-std=c99", *instructions(library), *sanitize, f"-I{HERE}", f"-I{folder}", *definitions(library),
         HERE / "exact_sizes.c", folder / "tiny.c", "-o", tmp_path / "program", "-lm", "-lpthread"])
    found = np.array(run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}).split(), np.float32)
    size = np.prod(library.inputs[0].shape)
    x = ((np.arange(size) * 7 % 101).astype(np.float32) / np.float32(101)).reshape(library.inputs[0].shape)
    with library:
        assert relative_error(found, library(x).ravel()) <= 1e-5


@pytest.mark.parametrize("language, other", [("c", "single"), ("c++", "folder")])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_two_in_one_program(single, tmp_path, compiler, language, other):
    host = compiler if language == "c" else {"gcc": "g++", "clang": "clang++"}[compiler]
    need_compiler(host, "-fopenmp")
    library, first = single("first", "wide_net", threads="openmp")
    assert library.model.has_team
    if other == "single":
        second = single("second", "wide_net", threads="openmp")[1]
    else:
        with ingot.compile(wide_net(), name="second", weights="array") as beside:
            second = beside.export(tmp_path / "second")
    (x,), (y,) = library.inputs, library.outputs
    flags = [*instructions(library), "-fopenmp", f"-DIN=FIRST_{x.name.upper()}_SIZE",
             f"-DOUT=FIRST_{y.name.upper()}_SIZE"]
    objects = []
    for source in [*library_sources(first), *library_sources(second)]:
        objects.append(tmp_path / f"{source.parent.name}_{source.stem}.o")
        run([compiler, "-std=c99", "-O1", *flags, "-c", source, "-o", objects[-1]])
    run([host, "-x", language, *flags, f"-I{first}", f"-I{second}", HERE / "two_libraries.c", "-x", "none", *objects,
         "-o", tmp_path / "program", "-lm", "-lpthread"])
    assert run([tmp_path / "program"], env={**os.environ, "OMP_NUM_THREADS": "2"}) == "ok\n"


@pytest.mark.parametrize("weights, beside", [("array", set()), ("incbin", set()), ("file", {"tiny_weights.bin"}),
                                             ("extern", {"tiny_weights.bin", "tiny_weights.S"})])
def test_weights_stay_where_the_caller_has_them(single, tmp_path, weights, beside):
    need("gcc")
    library, folder = single("tiny", weights=weights)
    assert {path.name for path in folder.iterdir()} == {"tiny.c", "tiny.h", *beside}
    more = [folder / "tiny_weights.S"] if weights == "extern" else []
    run(["gcc", "-std=c99", "-O1", *instructions(library), f"-I{HERE}", f"-I{folder}", *definitions(library),
         HERE / "exact_sizes.c", folder / "tiny.c", *more, "-o", tmp_path / "program", "-lm"], cwd=folder)
    assert len(run([tmp_path / "program"], cwd=folder).split()) == 5


def test_profiling_hooks(single, tmp_path):
    need("gcc")
    library, folder = single("tiny")
    run(["gcc", *STRICT, *instructions(library), "-DINGOT_PROFILE", "-c", "tiny.c", "-o", "tiny.o"], cwd=folder)
    symbols = run(["nm", "--extern-only", "--defined-only", "tiny.o"], cwd=folder).split()[2::3]
    assert set(symbols) == {f"tiny_{end}" for end in (*INTERFACE, "set_profile", "call_names")}


def test_the_command_line(tmp_path):
    onnx.save(conv_net(), tmp_path / "tiny.onnx")
    command = [sys.executable, "-m", "ingot", "compile", "tiny.onnx", "-o", "out", "--single-file", "--threads", "none"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0 and "tiny.c says how to build it" in ran.stdout, ran.stdout + ran.stderr
    text = (tmp_path / "out" / "tiny.c").read_text()
    build = text.partition(" *   cc ")[2].partition(" -c tiny.c")[0].replace("\n *  ", "").split()
    if builds("cc"):
        run(["cc", *build, "-c", "tiny.c", "-o", "tiny.o"], cwd=tmp_path / "out")
    assert not [line for line in text.partition("/* ==== kernels")[2].splitlines() if len(line) > 120]


def test_the_same_bytes_twice():
    first, second = (ingot.compile(conv_net(), name="tiny").model.files(single_file=True) for _ in range(2))
    assert first == second
