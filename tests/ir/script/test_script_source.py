"""Where the text of a decorated function or class comes from: files, notebooks, doctests, executed text, a prompt."""
import doctest
import linecache
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
        execute(TEXT.replace("VALUE", "7"), "<cell 3>", cached=False)


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
