"""The house holds: imports go one way (frontend -> ir -> codegen -> runtime), and files stay readable in size."""
import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ir", "frontend", "codegen", "runtime")
MOST_LINES = 600

# package -> (packages of ours it may import, third-party modules it may import)
ALLOWED = {
    "ir": (set(), {"numpy", "ml_dtypes"}),
    "frontend": ({"ir"}, {"numpy", "onnx", "google"}),  # google.protobuf: the errors that onnx lets through
    "codegen": ({"ir", "templates", "runtime_c"}, {"numpy", "jinja2"}),
    "runtime": ({"codegen", "ir", "templates", "runtime_c"}, {"numpy", "ml_dtypes", "cffi", "rich"}),
}
# Standard library modules that act on the world outside the process.
BARRED = {"ir": {"subprocess", "ctypes", "socket", "tempfile", "shutil"},
          "frontend": {"subprocess", "ctypes", "socket"}}


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def imports(path):
    """(line, top-level module or "ingot.<package>") of every import in a file, also those inside functions."""
    inside = path.relative_to(ROOT).parts[:-1]
    for n in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(n, ast.Import):
            names = [a.name for a in n.names]
        elif isinstance(n, ast.ImportFrom) and n.level == 0:
            names = [n.module]
        elif isinstance(n, ast.ImportFrom):
            base = ("ingot", *inside)[:len(inside) + 2 - n.level]
            names = [".".join((*base, *((n.module,) if n.module else ()), a.name)) for a in n.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield n.lineno, ".".join(parts[:2]) if parts[0] == "ingot" else parts[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package):
    ours, third_party = ALLOWED[package]
    standard = sys.stdlib_module_names - BARRED.get(package, set())
    allowed = {f"ingot.{p}" for p in ours | {package}} | third_party | standard
    wrong = [f"{path.relative_to(ROOT)}:{line} imports {module}" for path in sources(package)
             for line, module in imports(path) if module not in allowed]
    assert not wrong, "\n".join(wrong)


def test_relative_imports_are_resolved():
    """The reader above sees through relative imports, or the rule would hold nothing."""
    found = {module for path in sources("ir") for _, module in imports(path)}
    assert "ingot.ir" in found and "numpy" in found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_within_a_package_are_relative(package):
    wrong = [str(path.relative_to(ROOT)) for path in sources(package) for n in ast.walk(ast.parse(path.read_text()))
             if (isinstance(n, ast.ImportFrom) and n.level == 0 and n.module.split(".")[0] == "ingot")
             or (isinstance(n, ast.Import) and any(a.name.split(".")[0] == "ingot" for a in n.names))]
    assert not wrong, "\n".join(wrong)


def test_files_stay_readable_in_size():
    files = [*ROOT.glob("*.py"), *(path for package in PACKAGES for path in sources(package))]
    long = [f"{path.relative_to(ROOT)}: {count} lines" for path in files
            if (count := len(path.read_text().splitlines())) > MOST_LINES]
    assert not long, "\n".join(long)


def test_every_package_is_listed_for_the_wheel():
    text = (ROOT / "pyproject.toml").read_text()
    missing = [str(d.relative_to(ROOT)) for package in PACKAGES for d in {p.parent for p in sources(package)}
               if f'"ingot.{".".join(d.relative_to(ROOT).parts)}"' not in text]
    assert not missing, f"not in [tool.setuptools] packages: {missing}"
