"""A notebook, run by a real kernel: its cells define functions and modules, build and run them."""
import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel (the extra `test`)")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel (the extra `test`)")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel (the extra `test`)")

CELLS = ['''
import numpy as np
import ingot as tvm
from ingot.script import ir as I, relax as R, tir as T
''', '''
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)
''', '''
def run(mod):
    a, b = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,), "float32")
    tvm.build(mod, target="llvm")["main"](a, b)
    return b.numpy()[-1]
sch = tvm.tir.Schedule(MyModule)
sch.parallel(sch.get_loops("B")[0])
print(run(sch.mod), "parallel" in sch.mod.script())
''', '''
@tvm.script.ir_module  # the name of before, another program
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(3)
print(run(MyModule))
''', '''
def scaled(by):
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * T.float32(by)
    return main
print(run(tvm.IRModule({"main": scaled(5)})))
''', '''
@I.ir_module
class WithRelax:
    @T.prim_func
    def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        cls = WithRelax
        with R.dataflow():
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((8,), "float32"))
            R.output(y)
        return y
print(sorted(g.name_hint for g in WithRelax.get_global_vars()))
''', '''
@T.prim_func
def wrong(A: T.Buffer((8,), "float32")):
    A[0] = nothing
''', '''
exec("@I.ir_module\\nclass Known:\\n    @T.prim_func\\n    def main(A: T.Buffer((8,), 'float32')): A[0] = 1.0")
print("A[0] = T.float32(1.0)" in Known.script())
''', '''
exec("""@I.ir_module
class Unknown:
    @T.prim_func
    def main(A: T.Buffer((8,), 'float32')): A[0] = VALUE
""".replace("VALUE", "2.0"))
''']


@pytest.fixture(scope="module")
def outputs():
    """The output of each cell, or (the class of its error, its message)."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True).execute()

    def shown(cell):
        errors = [(o.ename, o.evalue) for o in cell.outputs if o.output_type == "error"]
        return errors[0] if errors else "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
    return [shown(c) for c in notebook.cells]


def test_modules_and_functions_of_cells(outputs):
    assert [*outputs[:6], outputs[7]] == ["", "", "8.0 True\n", "21.0\n", "35.0\n", "['double', 'main']\n", "True\n"]


def test_errors_point_into_the_cell(outputs):
    name, message = outputs[6]
    assert name == "ScriptError" and ":3:12: 'nothing' is not defined" in message and "A[0] = nothing" in message


def test_executed_text_without_a_source_says_so(outputs):
    name, message = outputs[8]
    assert name == "ScriptError" and "the source of 'Unknown' is not known to Python" in message
