"""The house holds: imports go one way (frontend -> ir -> codegen -> runtime -> tvm); files stay readable in size."""
import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ir", "frontend", "codegen", "runtime", "tvm")
MOST_LINES = 600

# package -> (packages of ours it may import, third-party modules it may import)
ALLOWED = {
    "ir": (set(), {"numpy", "ml_dtypes"}),
    "frontend": ({"ir"}, {"numpy", "onnx", "google"}),  # google.protobuf: the errors that onnx lets through
    "codegen": ({"ir", "templates", "runtime_c"}, {"numpy", "jinja2"}),
    "runtime": ({"codegen", "ir", "templates", "runtime_c"}, {"numpy", "ml_dtypes", "cffi", "rich", "serial"}),
    # The façade, of which the others know nothing.
    "tvm": ({"codegen", "frontend", "ir", "runtime"}, {"numpy", "onnx", "pytest"}),
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


# ---------------------------------------------------------------- imports inside functions

# file -> what it imports inside functions: packages that are optional, and those that take long where few calls need
# them. `ingot --help` answers in 50 ms; with all of these at the top of cli.py it would take 650 ms (rich: 20 ms, numpy
# 45 ms, the compiler 570 ms).
INSIDE = {
    "cli.py": {"importlib.metadata", "ingot.codegen.limits", "ingot.codegen.output_folder",
               "ingot.codegen.target", "ingot.compile",
               "ingot.inspect_stage", "ingot.memory_report", "ingot.quantize", "ingot.runtime.board",
               "ingot.runtime.emulated", "ingot.runtime.sample", "ingot.runtime.shapes", "ingot.verified_folder",
               "ingot.verify", "numpy", "rich", "rich.console",
               "rich.progress", "rich.table"},
    "frontend/torch/dtypes.py": {"import_module('torch')"},
    # The table imports what passes are made of, and this module with it.
    "ir/transform/context.py": {"import_module(f'{__package__}.classic')"},
    "quantization.py": {"onnxruntime", "onnxruntime.quantization.shape_inference"},
    "runtime/board.py": {"serial"},
    "script.py": {"ingot.runtime.device"},  # R.device: scripts are read without a runtime
}


def imports_inside(text, package):
    """The modules that functions in a source text import when they are called, and calls of import_module.
    package: the names of the package that it is in."""
    functions = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda
    for function in (n for n in ast.walk(ast.parse(text)) if isinstance(n, functions)):
        for n in ast.walk(function):
            if isinstance(n, ast.Import):
                yield from (alias.name for alias in n.names)
            elif isinstance(n, ast.ImportFrom):
                base = package[:len(package) + 1 - n.level] if n.level else ()
                yield from [".".join((*base, n.module))] if n.module else [".".join((*base, a.name)) for a in n.names]
            elif isinstance(n, ast.Call) and ast.unparse(n.func).split(".")[-1] in ("import_module", "__import__"):
                yield ast.unparse(n)


def test_imports_stand_at_the_top():
    """Names that are loaded when they are first used are those of the package itself and of the façade."""
    files = [*ROOT.glob("*.py"), *(path for package in PACKAGES if package != "tvm" for path in sources(package))]
    found = {}
    for path in files:
        place = path.relative_to(ROOT)
        modules = set(imports_inside(path.read_text(), ("ingot", *place.parts[:-1])))
        if modules and place != Path("__init__.py"):
            found[str(place)] = modules
    assert found == INSIDE


def test_imports_inside_functions_are_found():
    text = "import os\nfrom . import a\ndef f():\n    from .b import c\n    import d.e\n    import_module('g')\n"
    assert set(imports_inside(text, ("ingot", "ir"))) == {"ingot.ir.b", "d.e", "import_module('g')"}


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


# ---------------------------------------------------------------- inside ir

# A module of ir/ imports only what stands left of it, also inside functions. Nodes are at the bottom; topi applies the
# operators of relax to tensors of te, and so stands above both, as the script does, which prints all nodes.
ORDER = ("upper container costs measured target_attributes target pieces dtype folding equal_op node types substitution vdevice module "
         "analysis names elements supply op expr origin boundary arith tir env_func te relax topi script object_path compare schedule "
         "transform").split()


def ir_modules():
    """{dotted name below ir: path}, a package under its own name."""
    paths = {path.relative_to(ROOT / "ir").with_suffix("").parts: path for path in sources("ir")}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path for p, path in paths.items()}


def ir_imports(name, path, modules):
    """The modules of ir that one imports: submodules where they are named, else the package."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [p for p in package if p]
    for n in ast.walk(ast.parse(path.read_text())):
        if isinstance(n, ast.ImportFrom) and n.level <= len(package) + 1 and n.level:
            base = [*package[:len(package) + 1 - n.level], *(n.module or "").split(".")]
            base = ".".join(filter(None, base))
            for alias in n.names:
                whole = f"{base}.{alias.name}".lstrip(".")
                yield whole if whole in modules else base


def largest_cycle(graph):
    """The largest set of nodes that all reach each other, sorted; [] where there is none. graph: {node: its
    successors}"""
    reached = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo.extend(new)
        reached[start] = seen
    return max((sorted(b for b in reached[a] if a in reached[b]) for a in graph), key=len, default=[])


def test_ir_imports_go_one_way():
    modules = ir_modules()
    rank = {part: n for n, part in enumerate(ORDER)}
    upward = set()
    for name, path in modules.items():
        own = name.split(".")[0]
        if own:  # the package itself, ir/__init__.py, is above all
            for other in ir_imports(name, path, modules):
                part = other.split(".")[0]
                assert part in rank and own in rank, f"{path}: where do {own} and {part or 'ir'} stand in ORDER?"
                if rank[part] > rank[own]:
                    upward.add((str(path.relative_to(ROOT)), part))
    assert not upward, sorted(upward)


def test_ir_has_no_import_cycle():
    modules = ir_modules()
    graph = {name: set(ir_imports(name, path, modules)) - {name, ""} for name, path in modules.items() if name}
    cycle = largest_cycle(graph)
    assert not cycle, f"{len(cycle)} modules import each other: {', '.join(cycle)}"


def test_cycles_are_found():
    assert largest_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]
    assert largest_cycle({"a": {"b"}, "b": set()}) == []
