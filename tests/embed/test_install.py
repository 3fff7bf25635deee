"""Installed libraries, used by other projects: find_package, pkg-config, add_subdirectory; and Microsoft's compiler."""
import json
import shutil

import pytest

from c_folders import need, run

PROGRAM = """#include <stdio.h>
#include "conv_net.h"

INGOT_ALIGNED(CONV_NET_ARENA_ALIGN) static unsigned char arena[CONV_NET_ARENA_BYTES];
static float x[CONV_NET_X_SIZE], y[CONV_NET_Y_SIZE];

int main(void)
{
    conv_net *net;
    ingot_status status = conv_net_init(&net, arena, sizeof arena);
    if (status == INGOT_OK) status = conv_net_run(net, x, y);
    puts(ingot_status_str(status));
    return status != INGOT_OK;
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.13)
project(app {language})
{network}
add_executable(app main.{end})
target_link_libraries(app PRIVATE conv_net::conv_net)
"""


@pytest.fixture(scope="module", params=["none", "openmp"])
def installed(request, exported, tmp_path_factory):
    """(the network, the place it was installed in, after a move)."""
    need("cmake", "make", "cc")
    made = exported("conv_net", threads=request.param, weights="incbin")
    place = tmp_path_factory.mktemp("installed")
    run(["cmake", "-S", made.folder, "-B", place / "build", "-DCMAKE_INSTALL_PREFIX=/usr", "-DCONV_NET_PROGRAMS=OFF"])
    run(["cmake", "--build", place / "build", "--parallel", "2"])
    run(["cmake", "--install", place / "build", "--prefix", place / "first"])
    shutil.rmtree(place / "build")
    return made, (place / "first").rename(place / "moved")


def program(made, tmp_path, end="c"):
    """A program that runs the network, in a folder of its own."""
    (x,), (y,) = made.library.inputs, made.library.outputs
    text = PROGRAM.replace("_X_", f"_{x.name.upper()}_").replace("_Y_", f"_{y.name.upper()}_")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / f"main.{end}").write_text(text)
    return tmp_path / "app"


def build(project, place, network, language="C", end="c", **variables):
    """The program of a CMake project that gets conv_net::conv_net by the line `network`."""
    (project / "CMakeLists.txt").write_text(PROJECT.format(language=language, network=network, end=end))
    run(["cmake", "-S", project, "-B", place, *(f"-D{name}={value}" for name, value in variables.items())])
    run(["cmake", "--build", place])
    return place / "app"


@pytest.mark.parametrize("language, end", [("C", "c"), ("C CXX", "cpp")])
def test_find_package(installed, tmp_path, language, end):
    made, prefix = installed
    project = program(made, tmp_path, end)
    app = build(project, tmp_path / "build", "find_package(conv_net 0.1 REQUIRED)", language, end,
                CMAKE_PREFIX_PATH=prefix)
    assert run([app]) == "ok\n"


def test_another_major_version_is_not_taken(installed, tmp_path):
    made, prefix = installed
    with pytest.raises(AssertionError, match='compatible with requested version "99"'):
        build(program(made, tmp_path), tmp_path / "build", "find_package(conv_net 99 REQUIRED)",
              CMAKE_PREFIX_PATH=prefix)


def test_pkg_config(installed, tmp_path, monkeypatch):
    need("pkg-config")
    made, prefix = installed
    (description,) = prefix.rglob("conv_net.pc")
    monkeypatch.setenv("PKG_CONFIG_PATH", str(description.parent))
    flags = run(["pkg-config", "--cflags", "--libs", "conv_net"]).split()
    project = program(made, tmp_path)
    run(["cc", project / "main.c", *flags, "-o", project / "app"])
    assert run([project / "app"]) == "ok\n"


def test_only_the_interface_is_installed(installed):
    _, prefix = installed
    assert sorted(p.name for p in (prefix / "include" / "conv_net").iterdir()) == ["conv_net.h", "ingot.h"]


def test_a_part_of_another_project(exported, tmp_path):
    need("cmake", "make", "cc")
    made = exported("conv_net")
    network = f"add_subdirectory({made.folder} {tmp_path}/network)"
    app = build(program(made, tmp_path), tmp_path / "build", network)
    assert run([app]) == "ok\n" and not list((tmp_path / "network").glob("*_example"))


@pytest.mark.parametrize("target, expected", [("x86-64-v4", "/arch:AVX512"), ("x86-64-v3", "/arch:AVX2"),
                                              ("c", "-DINGOT_SIMD_SCALAR")])
def test_flags_of_microsofts_compiler(exported, tmp_path, target, expected):
    """By what CMake would call: that compiler is not to be had here."""
    need("cmake", "make", "cc")
    folder = exported("conv_net", target=target, weights="array").folder
    run(["cmake", "-S", folder, "-B", tmp_path, "-DMSVC=1", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"])
    commands = [row["command"].split() for row in json.loads((tmp_path / "compile_commands.json").read_text())
                if "selftest" not in row["file"] and "example" not in row["file"]]
    linked = (tmp_path / "CMakeFiles" / "conv_net_example.dir" / "link.txt").read_text().split()
    for words in commands:
        assert {"/O2", expected} <= {*words} and not [w for w in words if w.startswith(("-f", "-m", "-O3"))]
    assert "-lm" not in linked and commands


def test_a_machine_without_a_system(exported, tmp_path):
    """The library alone: programs there need startup code and a linker script."""
    need("cmake", "make", "arm-none-eabi-gcc")
    folder = exported("conv_net", target="c", weights="array").folder
    run(["cmake", "-S", folder, "-B", tmp_path, "-DCMAKE_SYSTEM_NAME=Generic",
         "-DCMAKE_C_COMPILER=arm-none-eabi-gcc", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"])
    run(["cmake", "--build", tmp_path])
    assert (tmp_path / "libconv_net.a").exists() and not [*tmp_path.glob("conv_net_*")]
