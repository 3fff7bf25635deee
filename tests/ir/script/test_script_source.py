"""Where the text of a decorated function or class comes from: files, notebooks, doctests, executed text, a prompt."""
import doctest
import linecache
import os
import subprocess
import sys
import textwrap

import pytest

from ingot.ir.node import collect
from ingot.ir.script.errors import ScriptError
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.stmt import BufferStore
from ingot.script import ir as I  # noqa: E741
from ingot.script import tir as T

TEXT = '''
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(VALUE)
'''


class Module:
    """A class with the name of the executed classes: its text is not theirs."""

    def main(self):
        pass


def stored(mod):
    """The number that TEXT's function stores."""
    return collect(mod["main"], BufferStore)[0].value.value


def execute(text, filename, cached=True):
    if cached:
        linecache.cache[filename] = len(text), None, text.splitlines(True), filename
    names = {"T": T, "I": I, "__name__": __name__}
    exec(compile(text, filename, "exec"), names)
    return names


@pytest.mark.parametrize("filename", ["<cell 1>", "/nowhere/cell_1.py"])
def test_executed_text_that_linecache_has(filename):
    assert stored(execute(TEXT.replace("VALUE", "7"), filename)["Module"]) == 7
    function = textwrap.dedent(TEXT[TEXT.index("    @T.prim"):]).replace("VALUE", "8")
    assert execute(function, filename)["main"].script().count("T.float32(8") == 1


def test_an_error_names_the_line_of_executed_text():
    with pytest.raises(ScriptError, match="'VALUE' is not defined") as caught:
        execute(TEXT, "<cell 2>")
    assert (caught.value.filename, caught.value.line) == ("<cell 2>", 7)


def test_executed_text_that_nobody_has():
    with pytest.raises(ScriptError, match="the source of 'Module' is not known to Python"):
        exec(compile(TEXT.replace("VALUE", "7"), "<cell 3>", "exec"), {"T": T, "I": I})


@pytest.mark.parametrize("value", [5, 6])
def test_executed_text_that_a_variable_holds(value):
    text = "\n" + TEXT.replace("VALUE", str(value))
    other = text.replace(str(value), "9")  # the same lines, another program
    mod = execute(text, "<cell 4>", cached=False)["Module"]
    assert stored(mod) == value and other != text
    function = textwrap.dedent(text[text.index("    @T.prim"):])
    names = {"T": T}
    exec(function, names)
    assert f"T.float32({value}" in names["main"].script()
    inside = "def make():\n" + textwrap.indent(function, "    ") + "    return main\n"
    exec(inside, names)
    assert f"T.float32({value}" in names["make"]().script()


def test_text_that_differs_in_annotations_is_another():
    """A function's own code says nothing of them, so that of the text around it is compared."""
    other = TEXT.replace("VALUE", "5")
    for text in (other.replace("(4,)", "(8,)"), textwrap.dedent(other[other.index("    @T.prim"):]).replace("(4,)", "(8,)")):
        names = {"T": T, "I": I, "kept": other, "held": text.replace("(8,)", "(6,)")}
        exec(text, names)
        assert "T.Buffer((8,)" in names["Module" if "Module" in text else "main"].script()
    names = {}
    exec(text.replace("@T.prim_func", ""), {"T": T}, names)
    with pytest.raises(ScriptError, match="the source of 'main' is not known to Python"):
        T.prim_func(names["main"])


def test_executed_text_points_to_its_line():
    with pytest.raises(ScriptError, match="'VALUE' is not defined") as caught:
        execute(TEXT, "<cell 5>", cached=False)
    assert (caught.value.filename, caught.value.line) == ("<cell 5>", 7)


@pytest.mark.parametrize("arguments, prompt", [(["-c", None], False), (["-"], False), (["-i", "-q"], True)])
def test_text_on_the_command_line(tmp_path, arguments, prompt):
    """python -c, a file on standard input, and a terminal, whose history keeps what is typed."""
    text = ("from ingot.script import ir as I, tir as T\n" + TEXT.replace("VALUE", "5")
            + "\nprint(Module.script())\n")
    command = [sys.executable, *(text if a is None else a for a in arguments)]
    if prompt:
        assert "T.float32(5" in at_a_prompt(command, text)
        return
    (tmp_path / "program").write_text(text)
    with open(tmp_path / "program") as program:
        done = subprocess.run(command, stdin=program, capture_output=True, text=True)
    assert "T.float32(5" in done.stdout, done.stderr


def at_a_prompt(command, text):
    """What a terminal shows of a program in which `text` is typed."""
    pty = pytest.importorskip("pty")
    pytest.importorskip("readline")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    for line in (*text.split("\n"), "exit()"):
        os.write(terminal, line.encode() + b"\n")
    shown = b""
    try:
        while part := os.read(terminal, 1 << 16):
            shown += part
    except OSError:  # the program has ended
        pass
    os.waitpid(child, 0)
    os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize("value", [0, 1])
def test_classes_of_one_name_in_one_scope(value):
    if value == 0:
        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                for i in range(4):
                    A[i] = T.float32(0)
    else:
        @I.ir_module(check_well_formed=True)
        class Module:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                for i in range(4):
                    A[i] = T.float32(1)
    assert stored(Module) == value


def test_nested_classes_and_classes_decorated_later():
    class Outer:
        class Inner:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                for i in range(4):
                    A[i] = T.float32(3)

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                for i in range(4):
                    A[i] = T.float32(4)

        @I.ir_module
        class Empty:
            pass

    assert stored(Outer.Module) == 4 and not Outer.Empty.functions
    assert stored(I.ir_module(Outer.Inner)) == 3
    assert isinstance(Outer.Inner.main, PrimFunc), "a class that nothing reads as a whole has functions of their own"


def test_doctest():
    example = "".join(f"{'>>> ' if n == 0 else '... '}{line}\n" for n, line in enumerate(TEXT.strip().split("\n")))
    names = {"T": T, "I": I, "stored": stored, "VALUE": 6, "__name__": "no_module"}
    test = doctest.DocTestParser().get_doctest(example + "...\n>>> stored(Module)\n6.0\n", names, "t", None, None)
    assert doctest.DocTestRunner(verbose=False).run(test) == (0, 2)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="a prompt's lines are kept from Python 3.13 on")
def test_prompt():
    text = "from ingot.script import ir as I, tir as T\n" + TEXT.replace("VALUE", "5") + "\nprint(Module.script())\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=text, capture_output=True, text=True, check=True)
    assert "T.float32(5" in done.stdout, done.stderr
