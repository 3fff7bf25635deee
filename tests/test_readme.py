"""README.md is true: its programs build, run and print what they say, and it is short."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from networks import ROOT

README = ROOT / "README.md"
TEXT = README.read_text()
MOST_LINES = 250


def block(language):
    """The text of the only code block in that language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return found[0]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A current folder that has the examples, and the command `ingot` on the path."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    launcher = tmp_path / "bin" / "ingot"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ingot "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{launcher.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_c_program(workplace):
    for program in ("cc", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (workplace / "main.c").write_text(block("c"))
    done = subprocess.run(["sh", "-euc", block("sh")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    promised = re.search(r"# (this is a .*)$", block("sh"), re.MULTILINE)[1]
    assert done.stdout.splitlines()[-1] == promised and "scores: max error" in done.stdout
    with (workplace / "examples" / "pictures" / "3.pgm").open() as picture:
        other = subprocess.run(["./main"], stdin=picture, capture_output=True, text=True)
    assert other.stdout.startswith("this is a 3 (")


def test_the_python_session(workplace, capsys):
    names = {}
    exec(compile(block("python"), str(README), "exec"), names)
    names["lib"].close()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "7" and "median" in printed[1] and "min" in printed[1]
    assert (workplace / "digits_c" / "digits.h").is_file()


def test_it_is_short():
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_what_is_said_not_to_work_has_no_converter():
    from ingot.frontend.onnx import CONVERTERS
    section = TEXT.split("Does not work:")[1].split("\n## ")[0]
    names = re.findall(r"`([A-Z]\w+)`", section)
    assert len(names) >= 5 and not set(names) & set(CONVERTERS)
