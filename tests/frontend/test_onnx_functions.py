"""Model-local functions: attributes and their defaults, nesting, opsets, overloads, optional inputs, and errors."""
import numpy as np
import pytest
from onnx import AttributeProto, helper

from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate
from onnx_models import model

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
N = helper.make_node
DOMAIN = "pkg.mine"


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), opset=18, **kw):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    made = helper.make_function(DOMAIN, name, inputs, outputs, nodes, imports, list(attributes), **kw)
    made.attribute_proto.extend(defaults)
    return made


def refers(node, name, source, kind=AttributeProto.FLOAT):
    node.attribute.append(AttributeProto(name=name, type=kind, ref_attr_name=source))
    return node


def call(op, inputs, outputs, **attrs):
    return N(op, inputs, outputs, domain=DOMAIN, **attrs)


def built(nodes, outputs, functions, **options):
    proto = model(nodes, {"x": [3, 4]}, outputs, 18, **options)
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    proto.functions.extend(functions)
    return proto


def run(*args, **options):
    return evaluate(from_onnx(built(*args, **options)), [X])


def leaky(alpha, x=X):
    return np.where(x < 0, x * np.float32(alpha), x)


def slope_function(**default):
    node = refers(N("LeakyRelu", ["x"], ["y"]), "alpha", "slope")
    defaults = [helper.make_attribute("slope", default["slope"])] if default else []
    return function("f", ["x"], ["y"], [node], [] if default else ["slope"], defaults)


@pytest.mark.parametrize("attrs, default, alpha", [
    ({}, {"slope": 0.4}, 0.4), ({"slope": 0.9}, {"slope": 0.4}, 0.9), ({"slope": 0.7}, {}, 0.7), ({}, {}, 0.01)])
def test_attribute(attrs, default, alpha):
    """The call's value, else the function's default, else the operator's."""
    found = run([call("f", ["x"], ["y"], **attrs)], ["y"], [slope_function(**default)])
    np.testing.assert_allclose(found, leaky(alpha), rtol=1e-6)


@pytest.mark.parametrize("attrs, alpha", [({"s": 0.6}, 0.6), ({}, 0.4)])
def test_attribute_passed_on_or_absent_there(attrs, alpha):
    """An outer attribute that is absent leaves the inner call without it, and so its default holds."""
    outer = function("outer", ["x"], ["y"], [refers(call("f", ["x"], ["y"]), "slope", "s")], ["s"])
    found = run([call("outer", ["x"], ["y"], **attrs)], ["y"], [outer, slope_function(slope=0.4)])
    np.testing.assert_allclose(found, leaky(alpha), rtol=1e-6)


def test_default_of_ints_and_text():
    node = refers(N("ReduceMax", ["x"], ["y"]), "keepdims", "keep", AttributeProto.INT)
    gelu = refers(N("Gelu", ["y"], ["z"]), "approximate", "how", AttributeProto.STRING)
    f = function("f", ["x"], ["z"], [node, gelu], [], [helper.make_attribute("keep", 0),
                                                     helper.make_attribute("how", "tanh")], opset=20)
    m = from_onnx(built([call("f", ["x"], ["y"])], ["y"], [f]))
    top = X.max()
    expected = 0.5 * top * (1 + np.tanh(np.sqrt(2 / np.pi) * (top + 0.044715 * top ** 3)))
    np.testing.assert_allclose(evaluate(m, [X]), expected, rtol=1e-6)


def test_a_function_keeps_its_opset():
    """Axes are an attribute in opset 11, an input in the model's."""
    old = function("old", ["x"], ["y"], [N("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0)], opset=11)
    np.testing.assert_allclose(run([call("old", ["x"], ["t"]), N("Neg", ["t"], ["y"])], ["y"], [old]), -X.sum(1),
                               rtol=1e-6)


def test_overloads():
    fs = [function("f", ["x"], ["y"], [N(op, ["x"], ["y"])], overload=o) for o, op in (("a", "Neg"), ("b", "Abs"))]
    nodes = [call("f", ["x"], ["y"]), call("f", ["x"], ["z"])]
    nodes[0].overload, nodes[1].overload = "a", "b"
    y, z = run(nodes, ["y", "z"], fs)
    np.testing.assert_array_equal(y, -X)
    np.testing.assert_array_equal(z, abs(X))


def test_optional_inputs_and_outputs():
    """An input that the call leaves out, in the middle or at the end, is absent inside; an output may be unused."""
    f = function("f", ["x", "low", "high"], ["y", "z"],
                 [N("Clip", ["x", "low", "high"], ["y"]), N("Neg", ["x"], ["z"])])
    high = {"h": np.float32(0.5)}
    np.testing.assert_array_equal(run([call("f", ["x", "", "h"], ["y"])], ["y"], [f], weights=high), np.minimum(X, 0.5))
    np.testing.assert_array_equal(run([call("f", ["x"], ["", "y"])], ["y"], [f]), -X)
    np.testing.assert_array_equal(run([call("f", ["x", "h"], ["y"])], ["y"], [f], weights=high), np.maximum(X, 0.5))


def test_inner_names_equal_outer_ones():
    f = function("f", ["a"], ["t"], [N("Relu", ["a"], ["y"]), N("Neg", ["y"], ["t"])])
    found = run([call("f", ["x"], ["a"]), call("f", ["a"], ["y"]), N("Sub", ["y", "a"], ["t"])], ["t"], [f])
    a = -np.maximum(X, 0)
    np.testing.assert_array_equal(found, -np.maximum(a, 0) - a)


def test_an_output_that_is_an_input():
    f = function("f", ["a", "b"], ["a", "c"], [N("Add", ["a", "b"], ["c"])])
    first, second = run([call("f", ["x", "x"], ["y", "z"])], ["y", "z"], [f])
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X + X)


def test_deep_nesting():
    fs = [function("f0", ["x"], ["y"], [N("Relu", ["x"], ["y"])])]
    fs += [function(f"f{i}", ["x"], ["y"], [call(f"f{i - 1}", ["x"], ["t"]), N("Neg", ["t"], ["y"])])
           for i in range(1, 500)]
    np.testing.assert_array_equal(run([call("f499", ["x"], ["y"])], ["y"], fs[::-1]), -np.maximum(X, 0))


def test_a_function_of_the_default_domain_hides_the_operator():
    f = function("Relu", ["x"], ["y"], [N("Abs", ["x"], ["y"])])
    f.domain = "ai.onnx"
    np.testing.assert_array_equal(run([N("Relu", ["x"], ["y"])], ["y"], [f]), abs(X))


def test_names_of_nodes_tell_the_call():
    f = function("f", ["x"], ["y"], [N("Relu", ["x"], ["t"], name="r"), N("Neg", ["t"], ["y"], name="n")])
    main = from_onnx(built([call("f", ["x"], ["y"], name="block1")], ["y"], [f]))["main"]
    assert [b.var.origin.name for b in main.bindings] == ["block1_r", "block1_n"]


# ---------------------------------------------------------------- errors

def fails(nodes, functions, *words):
    with pytest.raises(OnnxImportError) as caught:
        from_onnx(built(nodes, ["y"], functions))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_recursion():
    f = function("f", ["x"], ["y"], [call("g", ["x"], ["y"])])
    g = function("g", ["x"], ["y"], [call("f", ["x"], ["y"])])
    fails([call("f", ["x"], ["y"])], [f, g], f"function {DOMAIN}::", "calls itself")
    fails([call("h", ["x"], ["y"])], [function("h", ["x"], ["y"], [call("h", ["x"], ["y"])])], "::h calls itself")


def test_unused_recursion_does_no_harm():
    run([N("Relu", ["x"], ["y"])], ["y"], [function("h", ["x"], ["y"], [call("h", ["x"], ["y"])])])


def test_expansion_without_end():
    """40 functions that call the one before twice would be 2**40 nodes; they are counted, not made."""
    fs = [function("f0", ["x"], ["y"], [N("Relu", ["x"], ["y"])])]
    fs += [function(f"f{i}", ["x"], ["y"], [call(f"f{i - 1}", ["x"], ["t"]), call(f"f{i - 1}", ["t"], ["y"])])
           for i in range(1, 40)]
    fails([call("f39", ["x"], ["y"])], fs, "functions expand to", "::f39", "split the model")


def test_calls_that_do_not_fit():
    f = slope_function(slope=0.4)
    fails([call("f", ["x", "x"], ["y"])], [f], 'f node "y"', "2 inputs", "function in the model has 1")
    fails([call("f", ["x"], ["y", "z"])], [f], 'f node "y"', "2 outputs")
    fails([call("f", ["x"], ["y"], bias=1.0)], [f], "attribute 'bias'", "it has slope")
    fails([call("f", ["x"], ["y"], slope=1)], [f], "attribute 'alpha' is a int")
    fails([call("f", ["x"], ["y"])], [f, f], "is defined twice")
    fails([call("f", ["x"], ["y"])], [function("f", ["x", "x"], ["y"], [N("Relu", ["x"], ["y"])])],
          "declares the input")
    fails([call("f", ["x"], ["y"])], [function("f", ["x"], ["y"], [N("Relu", ["z"], ["y"])])],
          "y_z", "nothing in the graph")
    fails([call("f", ["x"], ["y"])], [function("f", ["x"], ["y"], [N("Relu", ["x"], ["y"])], opset=99)], "opset 99")
