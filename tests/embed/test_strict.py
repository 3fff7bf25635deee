"""Every folder compiles without a warning under gcc and clang, with and without OpenMP, and its header is C++, too."""
import shutil

import pytest

import ingot
from c_folders import STRICT, compile_all, need, run
from ingot.codegen.target import Target
from ingot.codegen.toolchains import is_native, toolchain
from control_networks import CONTROL
from networks import load, needs_zoo, tiny_names

LARGE = ["resnet50", "mobilenet_v2", "bert_base"]
NETWORKS = ["conv_net", "embedding_net", "light_squeezenet", *CONTROL,
            *(pytest.param(name, marks=needs_zoo) for name in [*(tiny_names or ["tiny_resnet8"]), *LARGE])]


NAMES = [name if isinstance(name, str) else name.values[0] for name in NETWORKS]


@pytest.fixture(scope="module", params=NETWORKS)
def case(request, tmp_path_factory):
    """(compiled library, its folder); pytest has one at a time."""
    place = tmp_path_factory.mktemp("strict")
    with ingot.compile(load(request.param), name=request.param) as library:
        yield library, library.export(place / request.param)
    shutil.rmtree(place)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings(case, compiler):
    """At -O1, where compilers have all warnings that look at the flow of values, and are quick. With OpenMP by one
    compiler, without by the other, for every second network the other way round."""
    need(compiler)
    library, folder = case
    openmp = "-fopenmp" if (NAMES.index(library.name) + (compiler == "gcc")) % 2 else "-fno-openmp"
    flags = [flag for flag in toolchain(library.model.target).cflags if not flag.startswith("-O")]
    compile_all(folder, compiler, *STRICT, *flags, "-O1", openmp)


@pytest.mark.parametrize("target", ["c", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings_for_other_targets(exported, compiler, target):
    """With the target's own flags, so at full optimization: clang says there when a pragma has no effect."""
    need(compiler)
    if not is_native(Target.get(target)):
        pytest.skip(f"{compiler} does not build for {target}")
    case = exported("conv_net", target=target, threads="openmp")
    compile_all(case.folder, compiler, *STRICT, *toolchain(case.library.model.target).cflags, "-fopenmp")


def test_no_warnings_with_weights_as_an_array(exported):
    need("gcc")
    compile_all(exported("conv_net", weights="array").folder, "gcc", *STRICT)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings_with_profiling(exported, compiler):
    need(compiler)
    compile_all(exported("conv_net").folder, compiler, *STRICT, "-DINGOT_PROFILE")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_header_is_cpp(case, tmp_path, compiler):
    need(compiler)
    library, folder = case
    (tmp_path / "program.cpp").write_text(
        f'#include "{library.name}.h"\n'
        f"const ingot_model_info &info() {{ return {library.name}_info; }}\n"
        f"ingot_status start({library.name} **net, void *arena, size_t bytes)\n"
        f"{{\n    return {library.name}_init(net, arena, bytes);\n}}\n")
    run([compiler, "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "-c",
         tmp_path / "program.cpp", "-o", tmp_path / "program.o"])
