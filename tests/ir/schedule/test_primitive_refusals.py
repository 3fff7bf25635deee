"""Every refusal in the source of the primitives and of their legality checks is reached by a row of a table."""
import ast
import pathlib

import pytest

import ingot.ir.schedule
import test_primitive_cache
import test_primitive_layout
import test_primitive_location
import test_primitive_loops
import test_primitive_notes
import test_primitive_reduction
import test_primitive_tensor
from primitive_table import refusal

TABLES = [test_primitive_loops, test_primitive_location, test_primitive_cache, test_primitive_reduction,
          test_primitive_tensor, test_primitive_layout, test_primitive_notes]
FOLDER = pathlib.Path(ingot.ir.schedule.__file__).parent
FILES = ["blocks.py", "context.py", "dependence.py", "independence.py", "legality.py", "nest.py",
         "signature.py", *(f"primitives/{name}.py" for name in (
             "annotate", "blockize", "cache", "compute_at", "inline", "kinds", "layout", "loops", "padding", "query",
             "reduction", "reindex", "reorder", "rfactor", "sample", "tensorize"))]


def sites(path):
    """{line: last line} of the calls that refuse, and of the raised Mismatches, in a file."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("refuse", "_refuse") or name == "Mismatch" and isinstance(node, ast.Raise):
            found[call.lineno] = call.end_lineno
    return found


@pytest.fixture(scope="module")
def reached():
    """{(file, line)} that the errors of all rows passed through."""
    lines = set()
    for program, step, _ in (row for table in TABLES for row in table.REFUSED):
        error = refusal(program, step)
        while error is not None:
            trace = error.__traceback__
            while trace is not None:
                lines.add((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
                trace = trace.tb_next
            error = error.__context__
    return lines


@pytest.mark.parametrize("name", FILES)
def test_every_refusal_has_a_row(name, reached):
    path = FOLDER / name
    missing = [f"{name}:{first}" for first, last in sites(path).items()
               if not any((str(path), line) in reached for line in range(first, last + 1))]
    assert not missing
