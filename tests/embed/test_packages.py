"""What --package writes, built as its ecosystem would. Conan builds itself; of Zephyr, ESP-IDF, Arduino and CMSIS-Pack,
whose SDKs are not to be had here, tests/embed/stubs has what packages use: tests of these say "stubs"."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import ingot
from c_folders import HERE, need, run
from ingot import cli
from ingot.codegen.package_forms import BUILD_FILES, FORMS, portable_flags
from ingot.codegen.target import Target
from ingot.codegen.toolchains import toolchain
from networks import conv_net, load, with_symbolic_batch

STUBS = HERE / "stubs"
ANSWER = r"prob:( [\d.e+-]+){5}\n"
TIME = r"one run: \d+ us\n"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """packages(form) -> the folder of a network as this form; read only."""
    library = ingot.compile(load("conv_net"), name="conv_net", target="c", threads="none")
    base, made = tmp_path_factory.mktemp("packages"), {}

    def package(form):
        if form not in made:
            made[form] = library.export(base / form, package=form)
        return made[form]
    return package


def yaml_of(path):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text())


def test_zephyr_with_stubs(packages, tmp_path):
    need("cmake", "make", "cc")
    folder = packages("zephyr")
    module = yaml_of(folder / "zephyr" / "module.yml")
    assert module == {"name": "conv_net", "build": {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"}}
    run(["cmake", "-S", folder / "samples/conv_net", "-B", tmp_path, f"-DZephyr_DIR={STUBS}/zephyr"])
    run(["cmake", "--build", tmp_path, "--parallel", "2"])
    text = run([tmp_path / "zephyr"])
    assert re.fullmatch(ANSWER + TIME, text), text


def test_zephyrs_options(packages):
    """By the reader of Kconfig that Zephyr uses: each option that prj.conf sets, and is the network's, exists."""
    kconfiglib = pytest.importorskip("kconfiglib")
    folder = packages("zephyr")
    options = kconfiglib.Kconfig(str(folder / "zephyr" / "Kconfig"), warn=False)
    options.load_config(str(folder / "samples/conv_net/prj.conf"))
    assert options.syms["INGOT_CONV_NET"].str_value == "y"


def test_esp_idf_with_stubs(packages, tmp_path):
    need("cmake", "make", "cc")
    folder = packages("esp-idf")
    manifest = yaml_of(folder / "idf_component.yml")
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"]) and manifest["dependencies"] == {"idf": ">=5.0"}
    environment = {**os.environ, "IDF_PATH": str(STUBS / "idf")}
    run(["cmake", "-S", folder / "examples/conv_net", "-B", tmp_path], env=environment)
    run(["cmake", "--build", tmp_path, "--parallel", "2"], env=environment)
    text = run([tmp_path / "conv_net_example"])
    assert re.fullmatch(ANSWER + TIME, text), text


def test_arduino_with_stubs(packages, tmp_path):
    """As its builder does: all sources below src/, and the sketch as C++; flags are the builder's alone."""
    need("cc", "c++")
    folder = packages("arduino")
    facts = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url",
            "architectures"} <= facts.keys() and facts["includes"] == "conv_net.h"
    assert not [*folder.glob("*.c")] and not (folder / "Makefile").exists()
    sources = sorted((folder / "src").rglob("*.c"))
    run(["cc", "-std=gnu11", "-Os", "-c", *sources], cwd=tmp_path)
    main = tmp_path / "main.cpp"
    main.write_text(f'#include "{folder}/examples/conv_net/conv_net.ino"\nint main() {{ setup(); loop(); }}\n')
    run(["c++", "-std=gnu++17", "-Os", "-Wall", "-Wextra", "-Werror", f"-I{STUBS}/arduino", f"-I{folder}/src", main,
         *sorted(tmp_path.glob("*.o")), "-lm", "-o", tmp_path / "sketch"])
    text = run([tmp_path / "sketch"])
    assert re.fullmatch(ANSWER + TIME, text), text


def test_arduinos_self_test_is_in_extras(packages, tmp_path):
    need("cc")
    folder = packages("arduino")
    command = re.search(r"```\n(cc .*) && ./selftest\n", (folder / "README.md").read_text())[1]
    copied = shutil.copytree(folder, tmp_path / "conv_net")
    subprocess.run(command, shell=True, cwd=copied, check=True)
    assert "prob: max error" in run(["./selftest"], copied)
    assert "make" not in (folder / "README.md").read_text().split()


def test_platformio_builds_what_library_json_says(packages, tmp_path):
    """By the rules of its srcFilter and flags; PlatformIO itself fetches compilers when it builds."""
    need("cc")
    folder = packages("platformio")
    manifest = json.loads((folder / "library.json").read_text())
    assert manifest["name"] == "conv_net" and (folder / manifest["headers"]).exists()
    sources = [rule[2:-1] for rule in manifest["build"]["srcFilter"] if rule.startswith("+<")]
    assert manifest["build"]["srcFilter"][0] == "-<*>" and "conv_net_example.c" not in sources
    (example,) = manifest["examples"]
    assert all((folder / example["base"] / file).exists() for file in example["files"])
    run(["cc", *manifest["build"]["flags"], *sources, "conv_net_selftest.c", "conv_net_selftest_data.c", "-lm", "-o",
         tmp_path / "selftest"], cwd=folder)
    assert "prob: max error" in run([tmp_path / "selftest"])


def test_cmsis_pack_with_stubs(packages, tmp_path):
    need("arm-none-eabi-gcc")
    folder = packages("cmsis-pack")
    (description,) = folder.glob("*.pdsc")
    package = ElementTree.parse(description).getroot()
    assert [child.tag for child in package] == ["vendor", "name", "description", "url", "releases", "keywords",
                                                "components"]
    assert description.name == f"{package.findtext('vendor')}.{package.findtext('name')}.pdsc"
    (release,), (component,) = package.find("releases"), package.find("components")
    assert {"Cclass", "Cgroup", "Csub", "Cversion"} == component.attrib.keys()
    assert release.get("version") == component.get("Cversion")
    files = component.findall("files/file")
    assert all((folder / file.get("name")).exists() for file in files)
    sources = [folder / file.get("name") for file in files if file.get("category") == "source"]
    run(["arm-none-eabi-gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-mcpu=cortex-m4", f"-I{folder}",
         f"-isystem{STUBS}/cmsis", "-c", *sources], cwd=tmp_path)
    objects = sorted(tmp_path.glob("*.o"))
    assert len(objects) == len(sources) > 3
    run(["arm-none-eabi-gcc", "-mcpu=cortex-m4", "--specs=rdimon.specs", "-Wl,--defsym=SystemCoreClock=0x20000000",
         *objects, "-lm", "-o", tmp_path / "program"])


def test_conan_creates_and_tests_it(tmp_path):
    need("cmake", "make", "cc")
    if importlib.util.find_spec("conan") is None:
        pytest.skip("conan is not installed")
    folder = ingot.compile(load("conv_net"), name="conv_net", threads="openmp").export(tmp_path / "net",
                                                                                               package="conan")
    environment = {**os.environ, "CONAN_HOME": str(tmp_path / "home")}
    conan = f"'{sys.executable}' -m conans.conan"
    text = run(["sh", "-c", f"({conan} profile detect && {conan} create . -s build_type=Release) 2>&1"], folder,
               environment)
    assert re.search(ANSWER + TIME, text), text


@pytest.mark.parametrize("form", FORMS)
def test_every_form(packages, form):
    """Every file of the plain folder is there, the README says how it is used, and nothing is left of a template."""
    folder = packages(form)
    plain = {file.rpartition("/")[2] for file in ingot.compile(load("conv_net"), name="conv_net", target="c",
                                                               threads="none").model.files()}
    written = {path.name for path in folder.rglob("*")}
    gone = {file for file in plain - written if FORMS[form].has_build_files or file not in BUILD_FILES}
    assert not [file for file in gone if not (FORMS[form].as_arrays and file.endswith((".S", ".bin")))]
    assert "## In a" in (folder / "README.md").read_text()
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".bin":
            text = path.read_text()
            assert "[%" not in text and text.endswith("\n"), path


@pytest.mark.parametrize("form", FORMS)
def test_sizes_that_only_a_run_knows(tmp_path, form):
    """The example then takes the arena from the heap."""
    library = ingot.compile(with_symbolic_batch(conv_net()), name="batches", target="c", threads="none")
    library.export(tmp_path / "batches", package=form)
    (example,) = [path for path in (tmp_path / "batches").rglob("*")
                  if path.name in ("main.c", "batches.ino", "batches_app.c")]
    assert "malloc" in example.read_text() and "enum {" in example.read_text()
    include = {"arduino": "arduino", "platformio": "arduino", "cmsis-pack": "cmsis", "zephyr": "zephyr",
               "esp-idf": "idf/tools/cmake", "conan": ""}[form]
    language = ["c++", "-std=c++11", "-x", "c++"] if example.suffix == ".ino" else ["cc", "-std=c99"]
    need(language[0])
    run([*language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}/batches",
         f"-I{tmp_path}/batches/src", f"-I{STUBS}/{include}", "-Wno-int-to-pointer-cast", example])


def test_the_command_line_knows_every_form():
    assert cli.PACKAGES == tuple(FORMS)


def test_flags_of_a_core_are_its_frameworks():
    board = Target.get("cortex-m4f")
    flags = portable_flags(board, toolchain(board).cflags)
    assert "-O3" in flags and not [f for f in flags if f.startswith(("-m", "--specs"))]
    host = Target.get("x86-64-v3")
    assert "-march=x86-64-v3" in portable_flags(host, toolchain(host).cflags)


@pytest.mark.parametrize("words, message", [
    (["--package", "cargo"], "argument --package: invalid choice: 'cargo'"),
    (["--package", "zephyr", "--single-file"], "leave out single_file"),
    (["--package", "conan", "--weights", "file"], "a package holds its weights: leave out weights='file'"),
    (["--package", "zephyr", "--target", "cuda"], "a package holds C alone"),
])
def test_what_is_refused(tmp_path, capsys, words, message):
    arguments = ["compile", str(HERE.parent.parent / "examples" / "digits.onnx"), "-o", str(tmp_path / "out"), *words]
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
