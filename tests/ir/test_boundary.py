"""Internal errors are one line that names the place, the innermost first; deliberate errors pass as they are."""
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.ir import op as op_table
from ingot.ir.boundary import InternalError, internal_errors
from ingot.ir.op import InferError
from ingot.ir.expr import const
from networks import make_model


def test_places_are_named_from_the_inside_out():
    with pytest.raises(InternalError) as caught:
        with internal_errors("the model 'net'"), internal_errors(lambda: 'node "conv1" (Conv)'):
            np.reshape(np.zeros(3), (2, 2))
    text = str(caught.value)
    assert text.startswith('internal error in node "conv1" (Conv), in the model \'net\': ValueError: cannot reshape ')
    assert str(caught.value).endswith("; please report it with the model") and "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("fail", [lambda: {}["x"], lambda: [].pop(), lambda: 1 // 0, lambda: int("x"),
                                  lambda: np.zeros(3).reshape(2, 2), lambda: np.empty(1 << 60)])
def test_what_python_and_numpy_raise_is_internal(fail):
    with pytest.raises(InternalError):
        with internal_errors("here"):
            fail()


def test_deliberate_errors_pass():
    with pytest.raises(InferError):
        with internal_errors("here"):
            raise InferError("matmul: shapes do not multiply")
    with pytest.raises(ValueError, match="threads must be one of"):  # of no own class, raised for users all the same
        with internal_errors("here"):
            ingot.compile(_net(), threads="many")
    with pytest.raises(InternalError), internal_errors("here"):  # a wrong argument inside the compiler
        const(object(), "int32")


def _net():
    return make_model("net", [helper.make_node("Conv", ["x", "w"], ["c"], name="conv1"),
                              helper.make_node("Softmax", ["c"], ["y"], name="soft")],
                      {"x": (np.float32, [1, 3, 8, 8])}, {"y": (np.float32, [1, 4, 6, 6])},
                      {"w": np.ones((4, 3, 3, 3), np.float32)})


@pytest.mark.parametrize("stage, module, function, names", [
    ("a pass", "ingot.ir.transform.fuse", "_Grouping", ("fuse_ops",)),
    ("schedule", "ingot.codegen.scheduling", "Decision", ("the schedule of the kernel of conv1 (Conv)",)),
    ("emission", "ingot.codegen.compile", "print_kernel", ("the C of the kernel of conv1 (Conv)",)),
    ("planning", "ingot.codegen.compile", "build_program", ()),
])
def test_every_stage_names_where_it_failed(monkeypatch, stage, module, function, names):
    def fail(*args, **options):
        return {}["missing"]
    monkeypatch.setattr(f"{module}.{function}", fail)
    with pytest.raises(InternalError) as caught:
        ingot.compile(_net(), target="c", threads="none")
    text = str(caught.value)
    assert all(n in text for n in names) and "in the model 'net'" in text and "KeyError: 'missing'" in text


def test_a_failing_operator_is_named(monkeypatch):
    """In the graph's lowering, and where the self-test's reference is evaluated."""
    spec = op_table.get("nn.softmax")
    for name, place in (("lower", 'node "soft" (Softmax)'), ("evaluate", "the evaluation of soft (Softmax)")):
        with monkeypatch.context() as patch:
            patch.setitem(op_table.OPS, "nn.softmax", replace(spec, **{name: lambda *args: [].pop()}))
            with pytest.raises(InternalError) as caught:
                ingot.compile(_net(), target="c", threads="none", opt_level=0)
        assert place in str(caught.value) and "IndexError: pop from empty list" in str(caught.value)
