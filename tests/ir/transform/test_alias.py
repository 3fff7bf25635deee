"""Outputs in the memory of inputs: which may lie there, what runs write, what is refused."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.transform.alias import AliasError, alias_outputs


def model(nodes, outputs, inputs=None):
    tensors = inputs or {"past": [2, "rows", 3], "new": [2, "n", 3]}
    graph = helper.make_graph(
        [helper.make_node(kind, ins, outs, **attrs) for kind, ins, outs, attrs in nodes], "m",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in tensors.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


CONCAT = ("Concat", ["past", "new"], ["present"], {"axis": 1})
SUM = ("ReduceSum", ["present"], ["y"], {"keepdims": 0})


def floats(*shape):
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


@pytest.mark.parametrize("opt_level", [0, 1, 2])
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("between", [None, "Neg", "Transpose", "Reshape"])
def test_a_run_writes_its_rows(between, rows, opt_level):
    """New rows that are an input as it is, or computed by a kernel that writes them where they belong, or a view."""
    past, new = floats(2, rows, 3), floats(2, 2, 3)
    nodes = [CONCAT, SUM]
    if between == "Transpose":
        nodes = [("Transpose", ["new"], ["moved"], {"perm": [1, 0, 2]}), ("Concat", ["past", "moved"], ["present"],
                                                                         {"axis": 1}), SUM]
        new_rows = new.transpose(1, 0, 2)
    elif between:
        other = "other" if between == "Neg" else "moved"
        first = ("Neg", ["new"], [other], {}) if between == "Neg" else ("Flatten", ["new"], ["flat"], {"axis": 2})
        nodes = [first, *([("Reshape", ["flat", "shape"], ["moved"], {})] if between == "Reshape" else []),
                 ("Concat", ["past", other], ["present"], {"axis": 1}), SUM]
        new_rows = -new if between == "Neg" else new
    else:
        new_rows = new
    proto = model(nodes, ["present", "y"], {"past": [2, "rows", 3], "new": [2, 2, 3]})
    if between == "Reshape":
        from onnx import numpy_helper
        proto.graph.initializer.append(numpy_helper.from_array(np.array([2, 2, 3]), "shape"))
    cache = np.full((2, 8, 3), np.nan, np.float32)
    cache[:, :rows] = past
    with ingot.compile(proto, threads="none", bounds={"rows": 8}, aliases={"present": "past"},
                       opt_level=opt_level) as library:
        assert [t.updated for t in library.inputs] == [True, False]
        found = library.run({"past": cache, "new": new, "rows": rows})
    np.testing.assert_array_equal(cache[:, :rows], past)
    np.testing.assert_array_equal(cache[:, rows:rows + 2], new_rows)
    assert np.isnan(cache[:, rows + 2:]).all() and found.keys() == {"y"}
    np.testing.assert_allclose(found["y"], past.sum() + new_rows.sum(), rtol=1e-5, atol=1e-5)


def module(proto, bounds=None):
    return ingot.from_onnx(proto, bounds=bounds)


GROWING = model([CONCAT, SUM], ["present", "y"])


@pytest.mark.parametrize("proto, bounds, aliases, message", [
    (GROWING, {}, {"present": "past"}, "--bound rows=1024"),
    (GROWING, {"rows": 8}, {"presents": "past"}, "no output has that name; the outputs are present, y"),
    (GROWING, {"rows": 8}, {"present": "pest"}, "no input has that name; the inputs are past, new"),
    (GROWING, {"rows": 8}, {"present*": "past"}, "both names have a"),
    (GROWING, {"rows": 8}, {"present": "new"}, "no Concat that starts with the input new"),
    (GROWING, {"rows": 8}, {"y": "past"}, "no Concat that starts with the input past"),
    (model([CONCAT], ["present"]), {"rows": 8}, {"present": "past"}, "a run needs an output of its own"),
    (model([CONCAT, ("Concat", ["past", "new"], ["again"], {"axis": 1}), SUM], ["present", "again", "y"]), {"rows": 8},
     {"present": "past", "again": "past"}, "its input is another output's, too")])
def test_what_cannot_be_an_alias(proto, bounds, aliases, message):
    with pytest.raises(AliasError) as error:
        alias_outputs(module(proto, bounds), aliases)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_reference_has_the_rows_as_well():
    mod = alias_outputs(module(GROWING, {"rows": 5}), {"present": "past"})
    past, new = floats(2, 5, 3), floats(2, 1, 3)
    dims = {d: 2 for d in mod.attrs["dims"] if d.name == "rows"}
    found = evaluate(mod, [past, new], known=dims)
    np.testing.assert_allclose(found, past[:, :2].sum() + new.sum(), rtol=1e-5)


def test_a_cache_must_be_writeable_and_contiguous():
    proto = model([CONCAT, SUM], ["present", "y"])
    with ingot.compile(proto, threads="none", bounds={"rows": 4}, aliases={"present": "past"}) as library:
        fixed = np.zeros((2, 4, 3), np.float32)
        fixed.flags.writeable = False
        for cache in (fixed, np.zeros((2, 3, 4), np.float32).swapaxes(1, 2)):
            with pytest.raises(ValueError, match="writeable and contiguous"):
                library.run({"past": cache, "new": floats(2, 1, 3), "rows": 1})
        for rows, count in ((3, 2), (5, 1), (-1, 1)):
            with pytest.raises((ValueError, RuntimeError)):
                library.run({"past": np.zeros((2, 4, 3), np.float32), "new": floats(2, count, 3), "rows": rows})


def test_the_c_interface():
    """The cache is one pointer, not const; the self-test writes to a copy."""
    mod = alias_outputs(module(GROWING, {"rows": 4}), {"present": "past"})
    files = compile_module(mod, Options.check(target="c", threads="none", name="cached")).files()
    header = " ".join(files["cached.h"].split())
    assert "float *past, const float *new" in header and "both past" in header
    assert "memcpy(past" in files["cached_selftest.c"]
