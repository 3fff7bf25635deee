"""Odd files end in one line that names what is odd, before memory is taken; none waits, and none is accepted."""
import resource
import subprocess
import sys

import pytest

from ingot.frontend.onnx import OnnxImportError, from_onnx
from odd_models import odd_models

MOST_MEMORY = 6 << 30


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return odd_models(tmp_path_factory.mktemp("odd"))


def test_every_odd_file_is_refused(files):
    """With an address space of a few gigabytes, so that what takes memory first would fail otherwise."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, before[1]))
    problems = []
    try:
        for name, path in files.items():
            try:
                from_onnx(path)
                problems.append(f"{name}: accepted")
            except OnnxImportError as error:
                text = str(error)
                if "internal error" in text or "\n" in text and "cannot be imported" not in text:
                    problems.append(f"{name}: {text}")
            except Exception as error:
                problems.append(f"{name}: {type(error).__name__}: {error}")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", ["Tile", "location 'fifo'", "name that is no UTF-8", "cycle"])
def test_the_command_says_it_in_one_line(files, tmp_path, name):
    result = subprocess.run([sys.executable, "-m", "ingot", "compile", str(files[name]), "-o", str(tmp_path / "out")],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("ingot: error: ") and result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr and not list(tmp_path.iterdir())
