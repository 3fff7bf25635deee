"""verify: exposing intermediates, comparing tensors, the report."""
import numpy as np
import pytest
from sample_network import tensor

from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.origin import Origin
from ingot.ir.relax.block_builder import BlockBuilder, call_op
from ingot.ir.relax.expr import (Constant, DataflowVar, RelaxVar, TensorStructInfo, VarBinding, call_tir,
                                 dataflow_function)
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify
from ingot.ir.transform.expose import expose_intermediates
from ingot.runtime.verify import Report, _part, compare, compare_outputs


@pytest.fixture
def imported():
    """x[2, 3] -> relu -> exp -> reshape [6]."""
    import ingot.ir.relax.ops  # noqa: F401  (registers the operators)
    builder = BlockBuilder()
    x = RelaxVar("x", TensorStructInfo((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            relu = builder.emit(call_op("nn.relu", x), "relu")
            exp = builder.emit(call_op("exp", relu), "exp")
            flat = builder.emit(call_op("reshape", exp, [6]), "flat")
        builder.emit_func_output(flat)
    return builder.get()


def lowered_of(imported):
    """As the pipeline leaves it, with one variable that a pass added."""
    main = imported["main"]
    relu, exp, flat = (binding.var for binding in main.bindings)
    extra = DataflowVar("relu_pad", relu.struct_info)
    bindings = [VarBinding(extra, call_tir(GlobalVar("pad"), main.params, relu.struct_info)),
                VarBinding(relu, call_tir(GlobalVar("relu"), [extra], relu.struct_info)),
                VarBinding(exp, call_tir(GlobalVar("exp"), [relu], exp.struct_info)),
                VarBinding(flat, main.bindings[2].value)]
    return imported.with_function("main", dataflow_function(main.params, bindings, main.outputs, main.attrs))


def test_expose(imported):
    lowered, reference = expose_intermediates(lowered_of(imported), imported)
    for module in (lowered, reference):
        assert [output.name for output in module["main"].outputs] == ["relu", "flat"]  # exp is flat's memory
        assert module["main"].attrs["output_names"] == ("relu", "flat")


def test_expose_skips_what_took_anothers_name(imported):
    lowered = lowered_of(imported)
    main = lowered["main"]
    pad, relu, exp, flat = main.bindings
    other = DataflowVar("relu", relu.var.struct_info, Origin("elsewhere", "Relu", "y"))
    bindings = [pad, VarBinding(other, relu.value), VarBinding(exp.var, exp.value.replace(args=(other,))), flat]
    lowered = lowered.with_function("main", dataflow_function(main.params, bindings, main.outputs, main.attrs))
    module, _ = expose_intermediates(lowered, imported)
    assert [output.name for output in module["main"].outputs] == ["flat"]


@pytest.mark.parametrize("blocks, spots, names", [
    ((2, 4), None, ("conv", "relu")), ((1, 8), None, ("conv", "relu")), ((2, 5), None, ("conv", "relu")),
    ((3, 4), None, ("relu",)), ((3, 4), (0, 1, 2, 4, 5, 6, 8, 9), ("conv", "relu")),
    ((2, 4), (7, 6, 5, 4, 3, 2, 1, 0), ("conv", "relu"))])
def test_expose_gives_both_sides_the_blocked_layout(blocks, spots, names):
    x, w = RelaxVar("x", TensorStructInfo((1, 3, 5, 5))), Constant(np.ones((8, 3, 1, 1), np.float32))
    conv = DataflowVar("conv", TensorStructInfo((1, 8, 5, 5)))
    relu = DataflowVar("relu", conv.struct_info)
    imported = IRModule({"main": dataflow_function(
        [x], [VarBinding(conv, call_op("nn.conv2d", x, w)), VarBinding(relu, call_op("nn.relu", conv))], [relu])})
    own = DataflowVar("conv", TensorStructInfo((1, blocks[0], 5, 5, blocks[1])))
    lowered = imported.with_function("main", dataflow_function([x], [
        VarBinding(own, call_tir(GlobalVar("conv2d"), [x], own.struct_info)),
        VarBinding(relu, call_tir(GlobalVar("relu"), [own], relu.struct_info))], [relu],
        {"spots": ((spots, ("conv",)),)} if spots else {}))
    module, reference = expose_intermediates(lowered, imported)
    for func in (module["main"], verify(reference)["main"]):
        assert func.attrs["output_names"] == names
        if len(names) == 2:
            assert func.outputs[0].struct_info.static_shape == own.struct_info.static_shape
    data = np.random.default_rng(0).random((1, 3, 5, 5), np.float32)
    parts = reference["main"].attrs["parts"]
    assert list(parts) == list(names[:-1]) and not parts or parts["conv"] == ((), spots or tuple(range(8)))
    if parts:  # each channel lies where they say
        found, plain = evaluate(reference, [data])[0], evaluate(imported, [data.copy()])
        np.testing.assert_array_equal(np.maximum(_part(found, *parts["conv"]), 0), plain)


class Outputs:
    """A library that gives these arrays."""

    def __init__(self, names, arrays):
        self.inputs, self.arrays = [tensor("x", "float32", 1, 3, 4, 4)], arrays
        self.outputs = [tensor(n, "float32", *a.shape) for n, a in zip(names, arrays)]

    def __call__(self, x):
        return self.arrays if len(self.arrays) > 1 else self.arrays[0]


@pytest.mark.parametrize("at, ok", [((0, 0, 0, 0, 0), True), ((0, 0, 1, 1, 3), True), ((0, 1, 2, 2, 1), False),
                                    ((0, 1, 2, 2, 2), True)])
def test_only_the_tensor_is_compared(at, ok):
    """x in a border of 1, its five channels in two blocks of 3 or more: what lies around may be anything."""
    import ingot.ir.relax.ops  # noqa: F401  (registers the operators)
    x = RelaxVar("x", TensorStructInfo((1, 3, 4, 4)))
    w = Constant(np.ones((5, 3, 1, 1), np.float32))
    conv, relu = (DataflowVar(n, TensorStructInfo((1, 5, 4, 4))) for n in ("conv", "relu"))
    imported = IRModule({"main": dataflow_function(
        [x], [VarBinding(conv, call_op("nn.conv2d", x, w)), VarBinding(relu, call_op("nn.relu", conv))], [relu])})
    own = DataflowVar("conv", TensorStructInfo((1, 2, 4, 4, 4)))
    pads = (0, 0, 0, 0, 1, 1, 1, 1, 0, 0)
    border = DataflowVar("border", TensorStructInfo((1, 2, 6, 6, 4)))
    inlay = call_op("memory.inlay", border, own, pad_width=pads)
    padded = DataflowVar("conv_pad", inlay.struct_info)
    lowered = imported.with_function("main", dataflow_function([x], [
        VarBinding(border, call_tir(GlobalVar("border"), [], border.struct_info)),
        VarBinding(own, call_tir(GlobalVar("conv2d"), [x], own.struct_info)), VarBinding(padded, inlay),
        VarBinding(relu, call_tir(GlobalVar("relu"), [padded], relu.struct_info))], [relu],
        {"spots": (((0, 1, 2, 4, 5), ("conv",)),)}))
    module, reference = expose_intermediates(lowered, imported)
    assert module["main"].outputs[0].name == padded.name and verify(reference)["main"].attrs["parts"] == {
        "conv": (pads, (0, 1, 2, 4, 5))}
    data = np.random.default_rng(0).random((1, 3, 4, 4), np.float32)
    arrays = [np.array(a) for a in evaluate(reference, [data])]
    arrays[0][at] += 1
    report = compare_outputs(reference, Outputs(("conv", "relu"), arrays), {"x": data})
    assert report.ok is ok and report.rows[0].shape == (1, 5, 4, 4)


def test_compare_outputs(imported):
    _, reference = expose_intermediates(lowered_of(imported), imported)

    def run(error):
        class Library:
            inputs = [tensor("x", "float32", 2, 3)]
            outputs = [tensor("relu", "float32", 2, 3), tensor("flat", "float32", 6)]

            def __call__(self, x):
                relu = np.maximum(x, 0) + np.float32(error)
                return relu, np.exp(relu).ravel()
        return compare_outputs(reference, Library())

    report = run(0)
    assert report.ok and [row.shape for row in report.rows] == [(2, 3), (6,)]
    assert report.first_bad is None and report.summary() == "2 tensors agree within 0.0001 of their largest value"
    report = run(0.01)
    assert [row.ok for row in report.rows] == [False, False]
    assert report.first_bad is report.rows[0]
    assert "2 of 2 tensors differ" in report.summary() and report.first_bad.node in report.summary()


def test_table_highlights_the_first_bad_row():
    rows = [compare(name, np.float32([1, value]), np.float32([1, 2]), 1e-4)
            for name, value in (("a", 2), ("b", 3), ("c", 4))]
    table = Report(tuple(rows), 1e-4).table()
    assert [row.style for row in table.rows] == ["", "bold white on red", "red"]


@pytest.mark.parametrize("found, reference, ok, error", [
    ([1, 2], [1, 2], True, 0), ([1, 2.0001], [1, 2], True, 1e-4), ([1, 2.001], [1, 2], False, 1e-3),
    ([np.nan, 1], [np.nan, 1], True, 0), ([np.nan, 1], [0, 1], False, np.inf), ([0, 1], [np.nan, 1], False, np.inf),
    ([np.inf, 1], [np.inf, 1], True, 0), ([-np.inf, 1], [np.inf, 1], False, np.inf), ([], [], True, 0),
])
def test_compare_floats(found, reference, ok, error):
    row = compare("n", np.float32(found), np.float32(reference), 1e-4)
    assert row.ok is ok and (row.error == error or row.error == pytest.approx(error, rel=0.1))


def test_compare_counts_units_in_the_last_place():
    one_up = np.nextafter(np.float32(4), np.float32(5))
    assert compare("n", np.array([one_up, 0], np.float32), np.float32([4, 0]), 1e-4).ulp == 1


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_integers_must_be_equal(dtype):
    a, b = np.array([1, 0], dtype), np.array([0, 0], dtype)
    assert compare("n", a, a, 1e-4).ok and not compare("n", a, b, 1e-4).ok
