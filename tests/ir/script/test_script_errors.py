"""Every refusal of the script parser: its message, and that it points at the place."""
import pytest

from ingot.ir.script.errors import ScriptError
from ingot.ir.script.functions import from_source, prim_func
from ingot.script import relax as R
from ingot.script import tir as T

HEAD = """@T.prim_func
def main(p: T.handle, i: T.int32, x: T.float32):
    A = T.match_buffer(p, (8, 8), "float32")
"""
BLOCK = 'with T.block("b"):\n'

# line(s) of a prim_func -> (what the message says, where the caret points: how the text goes on there)
TIR = {
    # names and values
    "A[0, 0] = xs": ("'xs' is not defined; did you mean x?", "xs"),
    "A[0, 0] = T.foo(x)": ("T has no name 'foo'", "T.foo"),
    "A[0, 0] = T.vectorised(x)": ("did you mean T.vectorized?", "T.vectorised"),
    "A[0, 0] = A.shapes": ("buffer A has no 'shapes'", "A.shapes"),
    "A[0, 0] = A._fields": ("names that start with an underscore", "A._fields"),
    "A[0, 0] = A": ("buffer A is used as a value: index it", "A"),
    "A[0, 0] = T.grid(4)": ("this has a meaning as `for ... in` only", "T.grid"),
    "A[0, 0] = None": ("expected an expression, not a NoneType", "None"),
    "A[0, 0] = [1.0 for _ in A]": ("Python's ListComp cannot be used in a script", "[1.0"),
    "A.vstore([0], x)": ("A.vstore: buffer A has 2 dimensions, indexed with 1", "A.vstore"),
    # operators
    "A[0, i / 2] = x": ("`/` on integers is ambiguous", "i / 2"),
    "A[0, 0] = x @ x": ("this operator has no meaning in a script", "x @ x"),
    "A[0, 1 // 0] = x": ("by zero", "1 // 0"),
    'A[0, 0] = x + "a"': ("operands of different dtype: float32 and handle", 'x + "a"'),
    "A[0, 0] = not x": ("a condition is bool, this is float32", "not x"),
    "A[0, 0] = x and 1": ("a condition is bool, this is float32", "x and"),
    # calls
    "A[0, 0] = T.exp(x, x)": ("T.exp: exp takes 1 argument, got 2", "T.exp"),
    "A[0, 0] = T.Cast('floaty', x)": ("T.Cast: unknown dtype 'floaty'", "T.Cast"),
    "A[0, 0] = T.exp(x, dtype='float16')": ("T.exp: the result is float32, not float16 as the keyword", "T.exp"),
    "A[0, 0] = T.reinterpret('int8', x)": ("takes a number of as many bits as the result: float32", "T.reinterpret"),
    "A[0, 0] = T.call_llvm_pure_intrin('float32', 5, x)": ("goes by its name, not by the number 5", "T.call_llvm_pure"),
    "A[0, 0] = i(3)": ("a Var cannot be called", "i(3)"),
    "A[0, 0] = T.Let(x)": ("expected T.Let(body, where={name: value})", "T.Let"),
    "A[0, 0] = T.let(1, x)": ("expected T.let(name, value, body)", "T.let"),
    # indexing
    "A[0] = x": ("buffer A has 2 dimensions, indexed with 1", "A[0]"),
    "A[x, 0] = x": ("an index is an integer, this is float32", "x, 0]"),
    "A[0, ::2] = x": ("a slice with a step", ":"),
    "A[0, 0:i] = x": ("a slice used as a value is a vector: its length must be known", "A[0, 0:i]"),
    "A[0, 0] = i[3]": ("a Var cannot be indexed", "i[3]"),
    "i[0] = x": ("a Var cannot be stored into", "i[0]"),
    # assignments
    "k = m = 3": ("one name at a time", "k = m"),
    "k += 1": ("variables are assigned once", "k += 1"),
    "k: T.int32": ("expected `name: T.dtype = value`", "k: T"),
    "k: 3 = 4": ("the type of a variable is a dtype", "3 = 4"),
    "A.name = 3": ("expected a name or a buffer element on the left", "A.name"),
    "k, m = 1, 2, 3": ("2 names for 3 values", "k, m"),
    "k, k = 1, 2": ("Duplicate vars assigned: k stands twice here", "k, k"),
    "for k, k in T.grid(4, 4): A[k, k] = x": ("Duplicate vars assigned: k stands twice here", "k, k"),
    "T.reads(A[0, 0])": ("T.reads outside a block: it describes the block it stands in", "T.reads"),
    "k, m = x": ("a Var cannot be taken apart into 2 names", "k, m"),
    "k = T.init()": ("this has a meaning as `with T.init():` in a block only", "k = "),
    'B = T.decl_buffer((4,), "int8"); B[0] = x': ("buffer B holds int8, the value is float32: cast it", "x"),
    # buffers
    'B = T.alloc_buffer((4,), "flt")': ("unknown dtype 'flt'", "B = "),
    "B = T.match_buffer(i, (4,))": ("T.match_buffer of i, which is no T.handle parameter", "B = "),
    "B = T.match_buffer(p, (4,))": ("parameter p is matched twice", "B = "),
    "B = T.match_buffer(p)": ("give the shape of the matched buffer", "T.match_buffer"),
    "B = T.match_buffer(3, (4,))": ("expected a region of a buffer such as A[i, 0:8], not a int", "B = "),
    # loops
    "for k in A: pass": ("a loop runs over range, T.grid", "A: pass"),
    "for k, m in T.serial(4): pass": ("2 names for 1 loops", "for k"),
    "for k in T.grid(): pass": ("T.grid: give one extent per loop", "T.grid"),
    "for k in range(0, 8, 2): pass": ("range: a loop has a step of 1", "range"),
    "for k in T.thread_binding(4): pass": ("T.thread_binding: name the thread", "T.thread"),
    # statements
    "return A": ("a prim_func returns a number or nothing", "return"),
    "del x": ("Python's delete statement has no meaning in TensorIR", "del"),
    "def f(): pass": ("functions inside a prim_func are macros", "def f"),
    "T.grid(4)": ("this has a meaning as `for ... in` only", "T.grid"),
    "(1, 2)": ("expected a statement, not a tuple", "(1, 2)"),
    "if i: pass": ("a condition is bool, this is int32: compare it", "i: pass"),
    "while x: pass": ("a condition is bool, this is float32", "x: pass"),
    "assert x": ("a condition is bool", "assert"),
    "with T.grid(4): pass": ("expected T.block, T.init, T.LetStmt", "T.grid"),
    "with T.LetStmt(x): pass": ("expected `with T.LetStmt(value) as name:`", "T.LetStmt"),
    "with T.decl_buffer((4,)): pass": ("expected `with T.decl_buffer(shape, dtype) as name:`", "T.decl"),
    # blocks
    "T.where(i < 3)": ("T.where outside a block", "T.where"),
    'T.block_attr({"a": 1})': ("T.block_attr outside a block", "T.block_attr"),
    "T.block_attr(3)": ("T.block_attr: takes a dict of attributes", "T.block_attr"),
    "with T.init(): pass": ("T.init outside a block", "T.init"),
    "vi = T.axis.spatial(8, i)": ("T.axis.spatial outside a block", "vi = "),
    BLOCK + "    vi = T.axis.spatial(8)\n    A[vi, 0] = x": ("block b: every iterator needs a value", "T.block"),
    BLOCK + "    vi = T.axis.spatial((1, 2, 3), i)": ("the domain of an iterator is its extent, or (begin, end)", "vi"),
    BLOCK + '    vi, vj = T.axis.remap("SS", [i])': ("one letter, S or R, per loop", "vi"),
    BLOCK + '    vi = T.axis.remap("S", [i])': ("T.axis.remap takes loop variables", "vi"),
    BLOCK + '    vi = T.axis.remap("X", [i])': ("one letter, S or R, per loop", "vi"),
    BLOCK + "    T.where(i < 3)\n    T.where(i < 2)": ("T.where is given twice", "T.where(i < 2)"),
    BLOCK + "    T.block_attr({})\n    T.block_attr({})": ("T.block_attr is given twice", "T.block_attr"),
    BLOCK + "    T.reads()\n    T.reads()": ("T.reads is given twice in one block", "T.reads"),
    BLOCK + "    T.reads(i)": ("expected a region of a buffer", "T.reads"),
    BLOCK + "    with T.init(): pass\n    with T.init(): pass": ("T.init is given twice", "T.init"),
    BLOCK + '    T.func_attr({"a": 1})': ("T.func_attr inside a block", "T.func_attr"),
    "for a, b in T.grid(2, 2):\n    " + BLOCK + '        vi, *vs, vj = T.axis.remap("S", [a])': ("3 names for 1 values", "vi"),
}


@pytest.mark.parametrize("lines", TIR)
def test_tensor_programs(lines):
    message, caret = TIR[lines]
    text = HEAD + "".join(f"    {line}\n" for line in lines.split("\n"))
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    check(caught.value, text, message, caret)


def check(error, text, message, caret):
    """The message, and that line, column and the drawn caret agree."""
    assert message in error.message
    assert text.split("\n")[error.line - 1][error.column - 1:].startswith(caret), str(error)
    shown, mark = str(error).split("\n")[1:]
    assert shown[mark.index("^"):].startswith(caret) and f"{error.filename}:{error.line}:{error.column}: " in str(error)


# whole documents
DOCUMENTS = {
    "@T.prim_func\ndef main(a: T.handle:\n    pass": ("invalid syntax", ":"),
    "@T.prim_func\ndef main(a):\n    pass": ("parameter a has no type", "a):"),
    "@T.prim_func\ndef main(a: T.grid(3)):\n    pass": ("the type of a parameter is T.handle", "T.grid"),
    "@T.prim_func\ndef main(a: T.int32 = 3):\n    pass": ("plain parameters only", "def main"),
    "def main(a: T.int32):\n    pass": ("function main needs a decorator", "def main"),
    "@T.macro\ndef m(A, i): A[i] = 1.0\n@T.prim_func\ndef main(A: T.Buffer(4)):\n    m(A)":
        ("macro m takes (A, i)", "m(A)"),
    "from ingot.script import tirr as T": ("ingot.script has no name 'tirr'; it has ir, tir, relax", "from"),
    "for i in range(3): pass": ("expected imports, constants", "for"),
    "@I.ir_module\nclass Module:\n    for i in range(3): pass": ("a module holds functions", "for"),
    "@I.ir_module\nclass Module:\n    T.grid(4)": ("expected I.module_attrs", "T.grid"),
    "x = I.Origin(nom='a')": ("I.Origin: Origin has no field nom", "I.Origin"),
    "x = I.Nothing()": ("I has no name 'Nothing'", "I.Nothing"),
}


@pytest.mark.parametrize("text", DOCUMENTS)
def test_documents(text):
    message, caret = DOCUMENTS[text]
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    check(caught.value, text, message, caret)


def test_a_text_without_a_program():
    with pytest.raises(ScriptError, match="found 0 classes and 0 functions"):
        from_source("x = 3")
    with pytest.raises(TypeError, match="takes script text, not a int"):
        from_source(3)


# ---------------------------------------------------------------- graph functions

GRAPH = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, "n"), "float32"), y: R.Tensor((4, 4), "float32")) -> R.Object:
"""
RELAX = {
    "z = R.nn.rel(x)\nreturn z": ("no operator nn.rel; did you mean nn.relu?", "R.nn.rel"),
    "z = R.matmul(x)\nreturn z": ("matmul needs argument x2", "R.matmul"),
    "z = R.add(x, y, k=3)\nreturn z": ("add has no attribute k", "R.add"),
    "z = R.matmul(y, R.const([[1.0]]))\nreturn z": ("matmul", "R.matmul"),
    "z = x @ y\nreturn z": ("this operator has no meaning on tensors", "x @ y"),
    "z: R.Tensor((2, 2), 'float32') = R.nn.relu(y)\nreturn z": ("the variable is declared as", "z: R"),
    "z: 3 = R.nn.relu(y)\nreturn z": ("expected struct info such as", "3 ="),
    "z: R.Tensor((1,), 'f') = y\nreturn z": ("R.Tensor: unknown dtype 'f'", "R.Tensor"),
    "z: R.Tensor(('n +',), 'int8') = y\nreturn z": ("'n +' is no expression of dimensions", "R.Tensor"),
    "z: R.Tensor\nreturn z": ("expected `name: info = value`", "z: R"),
    "a = b = y\nreturn a": ("expected `name = value`", "a = b"),
    "a, b = y\nreturn a": ("2 names for 0 values", "a, b"),
    "z = R.call_tir(f, (x,), R.Tensor((1,), 'int8'))\nreturn z": ("'f' is not defined", "f, (x"),
    "z = R.call_tir(x, (x,), R.Tensor((1,), 'int8'))\nreturn z":
        ("R.call_tir calls a function of the module", "R.call_tir"),
    "z = R.call_tir(cls.f, (x,))\nreturn z": ("R.call_tir needs out_sinfo", "R.call_tir"),
    "z = cls.f(x)\nreturn z": ("what call gives is not known: annotate the variable", "z = "),
    "z = y[0]\nreturn z": ("0 is no element of R.Tensor", "y[0]"),
    "z = metadata['relax.expr.Constant'][0]\nreturn z": ("is not in the metadata", "metadata"),
    "z = 'text'\nreturn R.dataflow()": ("expected a value of the graph", "return"),
    "return": ("return needs a value", "return"),
    "return x\nreturn y": ("nothing may follow return", "return y"),
    "z = R.nn.relu(x)": ("function main ends without `return value`", "def main"),
    "while x: pass\nreturn x": ("Python's while statement has no meaning in a graph function", "while"),
    "R.output(x)\nreturn x": ("R.output outside", "R.output"),
    "with x: pass\nreturn x": ("expected `with R.dataflow():`", "with"),
    "with R.dataflow():\n    with R.dataflow():\n        R.output()\n    R.output()\nreturn x":
        ("a dataflow block inside another", "with R.dataflow():"),
    "with R.dataflow():\n    z = R.nn.relu(x)\nreturn x": ("a dataflow block ends with R.output(names)", "z ="),
    "if x:\n    a = x\nelse:\n    b = x\nreturn a": ("they must assign the same name", "if x"),
    "if x:\n    a = x\nelse:\n    a = (y,)\nreturn a": ("the branches give R.Tensor", "if x"),
    "if x:\n    a = x\nreturn a": ("both branches of an `if` end with `name = value`", "if x"),
    "with R.dataflow():\n    if x:\n        pass\n    R.output()\nreturn x": ("has no control flow", "if x"),
    "3 + 4\nT.grid(4)\nreturn x": ("expected a binding", "3 + 4"),
}


@pytest.mark.parametrize("lines", RELAX)
def test_graph_functions(lines):
    message, caret = RELAX[lines]
    text = GRAPH + "".join(f"        {line}\n" for line in lines.split("\n"))
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    check(caught.value, text, message, caret)


def test_a_graph_parameter_without_a_type():
    with pytest.raises(ScriptError, match="parameter x has no type: write x: R.Tensor"):
        from_source("@R.function\ndef main(x):\n    return x")


# ---------------------------------------------------------------- where it stands in a file

def test_decorated_functions_point_into_their_file():
    with pytest.raises(ScriptError) as caught:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = T.sin(B[i])  # noqa: F821
    error = caught.value
    with open(__file__) as file:
        line = file.read().split("\n")[error.line - 1]
    assert error.filename == __file__ and line[error.column - 1:].startswith("B[i])  #")
    assert "'B' is not defined" in str(error)


def test_functions_without_source():
    names = {"T": T}
    with pytest.raises(ScriptError, match="the source of 'f' is not known to Python"):
        exec("@T.prim_func\ndef f(): VALUE".replace("VALUE", "pass"), names)


def test_names_of_the_script_outside_of_it():
    with pytest.raises(TypeError, match="T.Let has a meaning inside a script only"):
        T.Let(1, where={})
    assert "grid" in dir(T) and "T" in repr(T)
    assert R.Tensor((1, "n"), "float32").args == ((1, "n"), "float32") and prim_func is T.prim_func


def test_columns_count_characters():
    error = caught_in("@T.prim_func\ndef main(A: T.Buffer((4,))):\n    T.evaluate(T.call_extern('int32', 'é', nope))")
    assert error.column == 44 and "nope" == error.text[error.column - 1:][:4]


def caught_in(text):
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    return caught.value


@pytest.mark.parametrize("text, message", [
    ('@T.prim_func(private=True)\ndef f():\n    T.func_attr({"global_symbol": "g"})\n    T.evaluate(0)',
     "f is private and has a global_symbol, g"),
    ('@R.function(private=True)\ndef f(x: R.Tensor((1,), "float32")):\n    R.func_attr({"global_symbol": "g"})\n'
     '    return x', "f is private and has a global_symbol, g"),
    ('@R.function\ndef f(x: R.Tensor(("n",), "float32"), _: R.Prim(value="t")):\n    n = T.int64()\n    t = T.float32()\n'
     '    y = x >= R.prim_value(t / T.cast(n, "float32"))\n    return y',
     "t / T.Cast\\(\"float32\", n\\) is symbolic: compute with it in a prim_func"),
])
def test_functions_are_refused(text, message):
    with pytest.raises(ScriptError, match=message):
        from_source(text)


def test_what_is_returned_is_as_declared():
    text = "@T.prim_func\ndef f(a: T.int32) -> T.{}:\n    return {}"
    assert from_source(text.format("int64", "1")).ret_type == "int64"
    with pytest.raises(ScriptError, match="f is declared to return float32, but returns a, which is int32"):
        from_source(text.format("float32", "a"))
