"""Errors from deep inside point at the script: rules of the verifier, numbers out of range, wrong arguments, macros."""
import pytest

from ingot.ir.script.errors import ScriptError
from ingot.ir.script.functions import from_source
from ingot.ir.script.module_parser import NAMESPACES
from ingot.ir.script.tir_names import ABSENT, ROWS
from ingot.script import tir as T

HEAD = """@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8,), "int8"), i: T.int32, x: T.float32):
"""

# lines of a prim_func -> (what the message says, the text the caret points at)
PLACES = {
    # the verifier's rules
    "for k in range(4):\n    A[0, k] = x\nA[0, k] = x": ("'k' is not defined", "k] = x"),
    "for k in range(4):\n    with T.block('b'):\n        vi = T.axis.spatial(8, i)\n        A[vi, k] = x":
        ("block b uses variable k of a loop outside the block", "with T.block"),
    "T.evaluate(T.Select(i, x, x))": ("the condition of Select is int32 instead of bool", "T.evaluate"),
    # numbers and dtypes
    "D[0] = 300": ("300 is out of the range of int8", "D[0] = 300"),
    "D[0] = T.int8(128)": ("T.int8: 128 is out of the range of int8", "T.int8(128)"),
    "D[0] = D[1] + 300": ("300 is out of the range of int8", "D[1] + 300"),
    "A[0, 0] = x + T.float8_e4m3fn(1e3)": ("1000.0 is out of the range of float8_e4m3fn", "T.float8_e4m3fn(1e3)"),
    "A[0, 0] = T.float7(1)": ("T has no name 'float7'", "T.float7"),
    "A[0, 0] = x << 2": ("shift_left takes integers, not float32", "x << 2"),
    "A[0, 0] = ~x": ("bitwise_not takes integers, not float32", "~x"),
    "A[0, 0] = T.max(x, A.data)": ("operands of different dtype: float32 and handle", "T.max"),
    "A[0, 1 % 0] = x": ("by zero", "1 % 0"),
    # arguments
    "B = T.alloc_buffer((4,), dtipe='int8')": ("T.alloc_buffer: got an unexpected keyword argument 'dtipe'", "T.alloc"),
    "B = T.alloc_buffer()": ("T.alloc_buffer: missing 1 required positional argument: 'shape'", "T.alloc"),
    "B = T.alloc_buffer((4,), axis_separators=[2])": ("axis_separators [2] must not decrease", "B = T.alloc"),
    "B = T.decl_buffer((4,), buffer_type='auto')": ("buffer_type 'auto' is not supported", "T.decl"),
    "B = T.allocate([4], 'int8', condition=i > 2)": ("an allocation under a condition is not supported", "T.allocate"),
    "A[0, 0] = T.Select(i > 0, x)": ("missing 1 required positional argument: 'false_value'", "T.Select"),
    "T.evaluate(T.call_extern())": ("missing 2 required positional arguments", "T.call_extern"),
    "with T.block('b'):\n    vi = T.axis.spatial()":
        ("missing 1 required positional argument: 'dom'", "T.axis.spatial"),
    "with T.block(3): pass": ("the name of a block is a string", "T.block(3)"),
    "tx = T.launch_thread(i, 4)": ('takes a tag such as "threadIdx.x", or what T.env_thread gives', "tx = "),
    "T.evaluate(T.env_thread('threadIdx.x'))": ("this has a meaning as `name = T.env_thread", "T.evaluate"),
    "T.exp(T.grid(3))": ("this has a meaning as `for ... in` only", "T.exp"),
    "T.evaluate(T.tvm_access_ptr('int8', D.data))": ("expected T.tvm_access_ptr(dtype, A.data, offset", "T.tvm_acc"),
    "T.evaluate(T.tvm_access_ptr('int8', i, 0, 4, 1))": ("the pointer is the data of no buffer here", "i, 0, 4"),
    # what Python has and a script does not
    "A[0, 0] = f'{i}'": ("Python's JoinedStr cannot be used in a script", "f'"),
    "with T.block(f'b_{3}'): pass": ("Python's JoinedStr cannot be used in a script", "f'b"),
    "try:\n    pass\nfinally:\n    pass": ("Python's try statement has no meaning in TensorIR", "try:"),
    "import numpy": ("Python's import statement has no meaning in TensorIR", "import"),
    "A[0, 0] = (lambda v: v)(x)": ("Python's Lambda cannot be used in a script", "lambda"),
    "global x": ("Python's global statement has no meaning in TensorIR", "global"),
}


@pytest.mark.parametrize("lines", PLACES)
def test_places(lines):
    message, caret = PLACES[lines]
    text = HEAD + "".join(f"    {line}\n" for line in lines.split("\n"))
    with pytest.raises(ScriptError) as caught:
        from_source(text, filename="kernel.py")
    check(caught.value, text, message, caret)


def check(error, text, message, caret):
    assert message in error.message, error
    assert text.split("\n")[error.line - 1][error.column - 1:].startswith(caret), str(error)
    shown, mark = str(error).split("\n")[1:]
    assert shown[mark.index("^"):].startswith(caret)
    assert str(error).startswith(f"kernel.py:{error.line}:{error.column}: ")


@pytest.mark.parametrize("name", ABSENT)
def test_what_tvm_has_and_ingot_does_not(name):
    text = HEAD + f"    T.evaluate(T.{name}(1))\n"
    with pytest.raises(ScriptError) as caught:
        from_source(text, filename="kernel.py")
    check(caught.value, text, f"T.{name} is not supported: {ABSENT[name]}", f"T.{name}")
    assert name not in ROWS


def test_a_device_that_the_module_lacks():
    text = ("@I.ir_module\nclass Module:\n    I.module_global_infos({'vdevice': [I.vdevice('cuda'), I.vdevice('llvm')]})\n"
            "    @R.function\n    def main(x: R.Tensor((2,), 'int8', 'llvm:1')):\n        return x\n")
    with pytest.raises(ScriptError, match="vdevice='llvm:1': the module has 1 of these") as caught:
        from_source(text)
    assert caught.value.line == 5
    assert {"ir", "tir", "relax"} == set(NAMESPACES)


def test_a_rule_broken_in_a_macro_points_into_the_macro():
    text = """@T.macro
def put(B, j):
    B[j] = T.int8(1)
    T.evaluate(T.Select(j, j, j))

@T.prim_func
def main(D: T.Buffer((8,), "int8"), i: T.int32):
    put(D, i)
"""
    with pytest.raises(ScriptError, match="the condition of Select is int32") as caught:
        from_source(text)
    assert caught.value.line == 4 and caught.value.column == 5


def test_a_rule_broken_in_a_decorated_function_points_into_its_file():
    with pytest.raises(ScriptError) as caught:
        @T.prim_func
        def main(D: T.Buffer((8,), "int8")):
            for i in range(8):
                with T.block("b"):
                    v = T.axis.spatial(8, i)
                    D[v] = T.Cast("int8", i)  # here
    error = caught.value
    assert error.filename == __file__ and error.text.endswith("# here") and error.column == 21
    assert "uses variable i of a loop outside" in error.message


def test_a_block_of_the_past():
    with pytest.raises(ScriptError, match="the name of a block is a string") as caught:
        from_source("@T.prim_func\ndef main(D: T.Buffer((8,), 'int8')):\n"
                    "    with T.block([8], 'b') as [vi]:\n        D[vi] = T.int8(1)\n")
    assert caught.value.line == 3
