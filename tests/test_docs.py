"""The pages of docs/ and the others are true: links and paths exist, programs run, tables are complete."""
import importlib
import os
import re
import shutil
import sys
import urllib.parse

import numpy as np
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot import cli
from networks import ROOT, light_case, relative_error

PAGES = sorted(path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md"),
                                 *(ROOT / "examples").glob("*.md")))
FOLDERS = "ir|frontend|codegen|templates|runtime_c|runtime|tests|benchmarks|docs|examples"
PATH = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./*-]*[\w/*])")
# Pages that say what a file was called when something was tried or changed.
HISTORY = {"NOTES.md", "CHANGELOG.md"}
KERNEL = re.compile(r"(?<=<!-- kernel -->\n).*?(?=<!-- /kernel -->)", re.DOTALL)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def text_of(name):
    return (ROOT / "docs" / name).read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


# ---------------------------------------------------------------- links and paths

@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in links:
        place, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = page.parent / urllib.parse.unquote(place) if place else page
        assert target.exists(), link
        if anchor:
            assert anchor in headings(target.read_text()), link


def headings(text):
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in HISTORY], ids=name_of)
def test_paths_of_the_repository_exist(page):
    text = re.sub(r"^\| [^|]*, new \|.*$", "", page.read_text(), flags=re.MULTILINE)  # a file that a reader is to add
    for path in PATH.findall(re.sub(r"\]\([^)]*\)", "]", text)):
        assert list(ROOT.glob(path)) if "*" in path else (ROOT / path).exists(), path


def test_the_rules_above_find_something():
    assert PATH.findall("see `ir/node.py`, and ir/relax/ops/. Not x/ir/node.py") == ["ir/node.py", "ir/relax/ops/"]
    assert headings("# A `b`\n## What works, and what does not") == {"a-b", "what-works-and-what-does-not"}
    assert len(PAGES) > 20


def test_every_page_is_reached_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[\w./-]+)\)", (ROOT / "README.md").read_text()))
    for page in sorted((ROOT / "docs").glob("*.md")):
        linked |= {f"docs/{link}" for link in re.findall(r"\]\(([\w-]+\.(?:md|ipynb))\)", page.read_text())}
    missing = {f"docs/{p.name}" for p in (ROOT / "docs").iterdir() if p.suffix in (".md", ".ipynb")} - linked
    assert not missing


def test_no_private_paths():
    for page in PAGES:
        assert not re.search(r"/(home|work|root|tmp)/", page.read_text()), page.name


# ---------------------------------------------------------------- programs

@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty current folder with squeezenet.onnx."""
    path, _, _ = light_case("squeezenet")
    shutil.copy(path, tmp_path / "squeezenet.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_session_of_python(workplace, capsys):
    names = {}
    exec(compile(blocks(text_of("python.md"), "python")[0], "python.md", "exec"), names)
    with names["lib"] as lib:
        assert relative_error(names["y"], lib(names["x"])) == 0.0
        assert relative_error(names["ys"]["softmaxout_1"], names["y"]) == 0.0
        assert names["again"].model.files() == lib.model.files()
    assert (workplace / "folder" / "squeezenet.h").is_file()
    assert {p.name for p in (workplace / "two_files").iterdir()} == {"squeezenet.c", "squeezenet.h"}
    assert "median" in capsys.readouterr().out


def test_the_script_of_tvm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = re.search(r"<!-- script -->\n```python\n(.*?)```\n<!-- /script -->", text_of("tvm.md"), re.DOTALL)[1]
    (tmp_path / "script.py").write_text(script)  # a file, as the script's parser reads the source
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "script", raising=False)
    importlib.import_module("script")
    printed = capsys.readouterr().out
    assert "for i_0 in T.parallel(63)" in printed and "sch.decompose_reduction(" in printed
    assert (tmp_path / "main.c").is_file()


def test_the_training_of_tvm(tmp_path, monkeypatch):
    script = re.search(r"<!-- training -->\n```python\n(.*?)```\n<!-- /training -->", text_of("tvm.md"), re.DOTALL)[1]
    (tmp_path / "training_of_docs.py").write_text(script)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("training_of_docs")
    assert set(made.mod.functions) >= {"backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"}
    assert list(made.trainer.export_params()) == ["w", "b"]


def test_the_module_of_tvm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = re.search(r"<!-- nn -->\n```python\n(.*?)```\n<!-- /nn -->", text_of("tvm.md"), re.DOTALL)[1]
    names = {}
    exec(compile(script, "tvm.md", "exec"), names)
    np.testing.assert_allclose(names["y"].numpy().sum(1), np.ones(3), rtol=1e-5)
    assert (tmp_path / "mlp" / "mlp.h").is_file()


def test_the_network_of_torch(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(re.search(r"<!-- torch -->\n```python\n(.*?)```\n", text_of("tvm.md"), re.DOTALL)[1],
                 "tvm.md", "exec"), {})
    assert (tmp_path / "mlp" / "mlp.h").is_file()


@pytest.mark.parametrize("name", ["tutorial", "modules"])
def test_the_notebooks_run(tmp_path, name):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat
    path = ROOT / "docs" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code" and "print(" in cell.source), \
        f"the notebook is kept executed: jupyter execute --inplace docs/{name}.ipynb"
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "docs").mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path / "docs")}}).execute(env=env)


# ---------------------------------------------------------------- what tables say

def kernel_model():
    """A convolution of 16 channels of 32 x 32 into 32 with a 3 x 3 window, and a Relu."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.random(shape, np.float32), name)
               for name, shape in {"weight": (32, 16, 3, 3), "bias": (32,)}.items()]
    nodes = [helper.make_node("Conv", ["x", "weight", "bias"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["y"], name="relu1")]
    x, y = (helper.make_tensor_value_info(name, 1, (1, channels, 32, 32)) for name, channels in (("x", 16), ("y", 32)))
    graph = helper.make_graph(nodes, "cnn", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_kernel_is_what_ingot_emits():
    page = ROOT / "docs" / "generated-c.md"
    text = ingot.inspect_stage(kernel_model(), "c", target="x86-64-v4", threads="none", accuracy="strict")
    kernel = re.search(r"^/\* A tile of cnn_conv1_2\..*?^/\* conv1 \(Conv\) \+ relu1 \(Relu\)\n.*?^}\n", text,
                       re.DOTALL | re.MULTILINE)[0]
    shown = f"```c\n{kernel}```\n"
    if os.environ.get("INGOT_UPDATE_README"):
        page.write_text(KERNEL.sub(lambda _: shown, page.read_text()))
        return
    how = "INGOT_UPDATE_README=1 python -m pytest tests/test_docs.py rewrites it"
    assert KERNEL.search(page.read_text())[0] == shown, how


def test_every_file_of_a_folder_is_listed(workplace):
    cells = re.findall(r"^\| (`[^|]*) \|", text_of("generated-c.md"), re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`(.*?)`", cell)}
    with ingot.compile("squeezenet.onnx") as library:
        for file in library.export("squeezenet").iterdir():
            if file.stem not in ("example", "selftest", "squeezenet_weights"):
                assert any(file.match(pattern) for pattern in listed), f"{file.name} is not in docs/generated-c.md"


def test_options_and_commands_exist(capsys):
    known = set()
    for command in ("compile", "run", "verify", "bench", "inspect", "quantize"):
        with pytest.raises(SystemExit):
            cli.build_parser().parse_args([command, "--help"])
        known |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    benchmarks = "".join(p.read_text() for p in (ROOT / "benchmarks").glob("*.py"))
    known |= {"--help", *re.findall(r'"(--[a-z-]+)"', benchmarks)}
    texts = [(ROOT / "README.md").read_text(), *map(text_of, ("command-line.md", "performance.md", "c-api.md"))]
    assert set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", "\n".join(texts))) <= known
    for command in re.findall(r"\bingot ([a-z]+) [A-Z-]", text_of("command-line.md")):
        assert f"ingot {command}" in cli.EXAMPLES[command]


def test_targets_are_all_listed():
    rows = re.findall(r"^\| `([\w-]+)` \|", text_of("command-line.md").split("## Targets")[1], re.MULTILINE)
    assert rows == list(ingot.Target.names())


def test_every_option_of_compile_is_listed():
    import inspect
    rows = set(re.findall(r"^\| `(\w+)` \|", text_of("python.md"), re.MULTILINE))
    assert rows == set(inspect.signature(ingot.compile).parameters) - {"model", "exact"}


def test_notes_are_a_table_that_sorts():
    lines = (ROOT / "benchmarks" / "NOTES.md").read_text().splitlines()
    lines = [line.strip("|") for line in lines if line.startswith("| 2")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    assert len(rows) > 400
    for row in rows:
        assert len(row) == 8 and re.fullmatch(r"\d{4}-\d\d-\d\d", row[0]), row
        assert row[1] in ("Xeon", "Xeon AMX", "Zen 5", "Zen 4", "Zen 3", "AVX2", "NEON, QEMU", "Cortex-M, QEMU"), row
        assert row[6] in ("kept", "dropped", "not built", "not taken", "not chosen", "left", "open", "-"), row


def test_every_function_of_the_c_interface_is_described():
    """Every function of ingot.h, and of a header with all that a header may have."""
    page = text_of("c-api.md")
    header = (ROOT / "runtime_c" / "ingot.h").read_text()
    for name in {*re.findall(r"^(?:INGOT_COMMON |INGOT_INLINE )[^(]*?\b(ingot_\w+)\(", header, re.MULTILINE),
                 *re.findall(r"^ +(INGOT_(?:OK|ERR_\w+|[A-Z]+\d*)) =", header, re.MULTILINE),
                 *re.findall(r"^#define (INGOT_[A-Z_]*[A-Z])\b(?!_)", header, re.MULTILINE)} - {"INGOT_H"}:
        assert f"`{name}" in page or f"`{name.lower()}" in page, name
    template = (ROOT / "templates" / "model.h").read_text()
    for name in re.findall(r"\[\[ (?:name|upper) \]\](_[A-Za-z_]+)", template):
        if name not in ("_H", "_weights", "_ARENA_"):  # the last: of a memory, NAME_ARENA_X_BYTES
            assert re.search(rf"NAME{name}\b", page), name
