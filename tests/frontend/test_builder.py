"""The builder that frontends share, without a frontend: what it evaluates, what it emits, what it refuses."""
import ast
from pathlib import Path

import numpy as np
import pytest

from ingot.frontend import builder, fitting, shapes
from ingot.frontend.builder import FOLD_BYTES, Builder
from ingot.frontend.shapes import Symbolic, settle
from ingot.ir.expr import Var
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.expr import Constant, RelaxCall, RelaxVar, TensorStructInfo

N = Var("n", "int64")
X = RelaxVar("x", TensorStructInfo((N, 4), "float32"))


def emitter():
    """(a Builder, the list of what it has emitted)"""
    emitted = []

    def emit(value):
        emitted.append(value)
        return RelaxVar(f"lv{len(emitted)}", value.struct_info)
    return Builder(emit), emitted


def test_constants_are_evaluated():
    build, emitted = emitter()
    y = build.call("add", build.const([1, 2], "int64"), build.const([10, 20], "int64"))
    assert isinstance(y, Constant) and y.data.dtype == np.int64 and y.data.tolist() == [11, 22]
    parts = build.call("split", build.const([1, 2, 3], "float32"), sections=(1, 2), axis=0)
    assert [p.data.tolist() for p in parts] == [[1], [2, 3]] and not emitted


@pytest.mark.parametrize("dtype, folds", [("float32", False), ("int32", True)])
def test_large_float_results_are_left_to_the_passes(dtype, folds):
    build, _ = emitter()
    x = build.const(np.ones(FOLD_BYTES // 4 + 1), dtype)
    assert isinstance(build.call("add", x, x), Constant if folds else RelaxCall)


def test_a_call_is_bound_once_when_it_is_used():
    build, emitted = emitter()
    y = build.call("add", X, X)
    assert isinstance(y, RelaxCall) and emitted == [] and build.bound(y) is None
    z = build.call("multiply", y, y)
    assert len(emitted) == 1 and emitted[0] is y and z.args[0] is z.args[1] is build.bound(y)


def test_operators_on_dimensions_are_evaluated():
    build, emitted = emitter()
    shape = settle([N, 4], "int64")
    assert isinstance(shape, Symbolic)
    double = build.call("multiply", shape, build.const([2, 2], "int64"))
    assert str(double.array[0]) == str(N * 2) and double.array[1] == 8 and not emitted
    last = build.call("take", shape, build.const([1], "int64"), axis=0)
    assert isinstance(last, Constant) and last.data.tolist() == [4]


def test_nothing_is_made_of_what_changes_nothing():
    build, emitted = emitter()
    assert build.reshape(X, [N, 4]) is X and build.astype(X, "float32") is X and not emitted
    assert build.broadcast(X, [N, 4]) is X and build.transpose(X, (0, 1)) is X
    assert build.filled([2], 3, "int32").data.tolist() == [3, 3]
    assert build.filled([N], 3, "int32").struct_info.shape[0] is N


@pytest.mark.parametrize("make, words", [
    (lambda b: b.call("add", b.const(np.ones(2), "float32"), b.const(np.ones(3), "float32")), "2"),
    (lambda b: b.call("take", settle([N], "int64"), b.const([2], "int64"), axis=0), "cannot evaluate take on shapes"),
    (lambda b: b.filled([1 << 20, 1 << 20], 0, "float32"), "elements"),
])
def test_errors_are_the_frontends(make, words):
    class Failed(Exception):
        pass

    class Named(Builder):
        def error(self, message):
            return Failed(f"layer 3: {message}")
    with pytest.raises(Failed, match=f"^layer 3: .*{words}"):
        make(Named(None))
    with pytest.raises(ValueError, match=words):
        make(Builder(None))


def test_dimensions_that_data_need_are_computed():
    build, emitted = emitter()
    call = build.call("argmax", X, axis=1)
    mixed = build.call("multiply", settle([N], "int64"), call)
    assert mixed.op == "multiply" and any(getattr(v, "op", "") == "shape_to_tensor" for v in emitted)
    assert build.tensor(X) is X and build.tensor(3).data.tolist() == 3


def test_with_a_block_builder():
    bb = BlockBuilder()
    x = RelaxVar("x", TensorStructInfo((2, 3), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            build = Builder(bb.emit)
            y = build.call("add", build.transpose(x, (1, 0)), build.const(1, "float32"))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    assert [b.value.op for b in bb.get()["main"].body.blocks[0].bindings] == ["permute_dims", "add"]


@pytest.mark.parametrize("module", [builder, fitting, shapes])
def test_the_shared_modules_know_no_frontend(module):
    text = Path(module.__file__).read_text()
    assert "onnx" not in text.lower()
    assert not any(isinstance(n, ast.ImportFrom) and n.level == 1 and n.module not in ("shapes", "fitting")
                   for n in ast.walk(ast.parse(text)))
