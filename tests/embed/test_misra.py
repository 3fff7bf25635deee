"""MISRA C:2012: what cppcheck's addon finds in generated C is on the list of docs/misra.md, and no more."""
import re
import shutil
import subprocess

import pytest

import ingot
from c_folders import HERE, library_sources
from networks import conv_net, load, with_symbolic_batch

LIST = HERE.parent.parent / "docs" / "misra.md"
NETWORKS = {"convolutions": ("c", lambda: with_symbolic_batch(conv_net())),
            "recurrent": ("cortex-m4f", lambda: load("recurrent_net"))}
COMMAND = ("cppcheck", "--addon=misra", "--std=c99", "--enable=style", "-q", "--template={file}:{line}: {id}")


def findings(folder, sources):
    """{rule: its first place} of what the addon finds."""
    done = subprocess.run([*COMMAND, *sources], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "Bailing out" not in done.stdout + done.stderr, done.stdout + done.stderr
    found = {}
    for place, rule in re.findall(r"^(\S+:\d+): misra-c2012-([\d.]+)$", done.stderr, re.MULTILINE):
        found.setdefault(rule, place)
    return found


def listed():
    return re.findall(r"^\| (\d+\.\d+) \| (mandatory|required|advisory) \|", LIST.read_text(), re.MULTILINE)


def needs_cppcheck():
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")


@pytest.mark.parametrize("name", NETWORKS)
def test_no_rule_beyond_the_list(tmp_path, name):
    needs_cppcheck()
    target, network = NETWORKS[name]
    folder = ingot.compile(network(), name=name, target=target, threads="none", weights="array").export(tmp_path / name)
    sources = [path.name for path in library_sources(folder) if not path.name.endswith("_weights.c")
               and path.name != "board.c"]
    found = findings(folder, sources)
    assert "12.1" in found and len(found) > 10, "the addon did not look"
    assert not {rule: place for rule, place in found.items() if rule not in dict(listed())}


def test_what_is_not_on_the_list_is_found(tmp_path):
    """The addon sees a goto, an octal number and a recursion, which generated C has none of."""
    needs_cppcheck()
    (tmp_path / "bad.c").write_text("int f(int n);\nint f(int n)\n{\n    if (n == 010) {\n        goto out;\n    }\n"
                                    "    n = f(n - 1);\nout:\n    return n;\n}\n")
    assert {"7.1", "15.1", "17.2"} <= findings(tmp_path, ["bad.c"]).keys() - dict(listed()).keys()


def test_the_list_is_sorted_and_has_no_mandatory_rule():
    rules = [tuple(map(int, rule.split("."))) for rule, _ in listed()]
    assert rules == sorted(set(rules)) and "mandatory" not in dict(listed()).values() and len(rules) > 10
