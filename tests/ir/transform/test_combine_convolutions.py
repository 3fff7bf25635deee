"""CombineParallelConv2D: convolutions of one image become one, whose results are split, with the same results."""
import pytest
from graph_check import Graph, check, const, data, ops, param, weights

import ingot
from ingot.ir.expr import Var
from ingot.ir.origin import Origin
from ingot.ir.relax import DataflowVar, VarBinding, call_op
from ingot.ir.transform.combine_convolutions import combine_parallel_conv2d
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.in_place import in_place

LANES = 4


def branch(g, x, outputs, seed=0, kernel=1, after=("add", "nn.relu"), **conv):
    """A convolution of x and the operators after it."""
    y = g.op("nn.conv2d", x, const(outputs, x.struct_info.shape[1].value // conv.get("groups", 1), kernel, kernel,
                                   seed=seed), **conv)
    for name in after:
        constant = (const(1, outputs, 1, 1, seed=seed + 1),) if name in ("add", "multiply", "subtract") else ()
        y = g.op(name, y, *constant)
    return y


def pool(g, y):
    return g.op("nn.max_pool2d", y, pool_size=(2, 2))


def combined(g, *results, apart=(), shape=(1, 8, 6, 5), lanes=LANES):
    """The operators after the pass; callers see a pool of each of the results."""
    mod = g.module(*(pool(g, y) for y in results))
    return ops(check(mod, data(*shape), passes=[lambda m: combine_parallel_conv2d(m, lanes, apart)]))


@pytest.mark.parametrize("options", [
    {}, {"kernel": 3, "padding": (1, 1, 1, 1)}, {"strides": (2, 2)}, {"after": ()}, {"after": ("nn.relu",)},
    {"after": ("multiply", "add", "subtract", "sigmoid")}])
def test_branches_become_one(options):
    g = Graph(param("x", 1, 8, 6, 5))
    found = combined(g, branch(g, g.params[0], 4, **options), branch(g, g.params[0], 12, seed=5, **options),
                     branch(g, g.params[0], 8, seed=9, **options))
    assert found == ["nn.conv2d", *options.get("after", ("add", "nn.relu")), "split", *["nn.max_pool2d"] * 3]


def test_each_image_has_its_own():
    g = Graph(param("x", 1, 8, 6, 5), param("y", 1, 8, 6, 5))
    a, b = ([branch(g, x, 4, seed) for seed in (0, 4)] for x in g.params)
    mod = g.module(*(pool(g, y) for y in (*a, *b)))
    found = ops(check(mod, data(1, 8, 6, 5), data(1, 8, 6, 5, seed=2),
                      passes=[lambda m: combine_parallel_conv2d(m, LANES)]))
    assert found.count("nn.conv2d") == found.count("split") == 2


def test_a_number_for_all_channels_is_one_for_each():
    g = Graph(param("x", 1, 8, 6, 5))
    a, b = (g.op("maximum", branch(g, g.params[0], 4, seed, after=()), const(seed=seed)) for seed in (0, 4))
    assert combined(g, a, b) == ["nn.conv2d", "maximum", "split", *["nn.max_pool2d"] * 2]


@pytest.mark.parametrize("shape, first, second", [
    ((1, 8, 6, 5), {}, {"strides": (2, 2)}), ((1, 8, 6, 5), {}, {"kernel": 3}), ((1, 8, 6, 5), {}, {"after": ("add",)}),
    ((1, 8, 6, 5), {"groups": 2}, {"groups": 2}), ((2, 8, 6, 5), {}, {}), ((Var("n", "int64"), 8, 6, 5), {}, {})])
def test_others_stay(shape, first, second):
    g = Graph(param("x", *shape))
    found = combined(g, branch(g, g.params[0], 4, **first), branch(g, g.params[0], 4, seed=5, **second),
                     shape=(shape[0] if isinstance(shape[0], int) else 3, *shape[1:]))
    assert found.count("nn.conv2d") == 2 and "split" not in found


def test_images_of_any_height():
    g = Graph(param("x", 1, 8, Var("h", "int64"), 5))
    found = combined(g, *(branch(g, g.params[0], 4, seed) for seed in (0, 4)))
    assert found == ["nn.conv2d", "add", "nn.relu", "split", *["nn.max_pool2d"] * 2]


def test_blocks_are_not_cut():
    g = Graph(param("x", 1, 8, 6, 5))
    assert "split" not in combined(g, branch(g, g.params[0], 4), branch(g, g.params[0], 6, seed=5))


def test_what_callers_see_or_others_precede_stays_apart():
    g = Graph(param("x", 1, 8, 6, 5))
    a, b, c = (branch(g, g.params[0], 4, seed) for seed in (0, 4, 8))
    mod = check(g.module(pool(g, g.op("concat", g.params[0], a, axis=1)), pool(g, b), c), data(1, 8, 6, 5),
                passes=[lambda m: combine_parallel_conv2d(m, LANES)])
    assert ops(mod).count("nn.conv2d") == 3
    assert mod["main"].outputs[2].name == c.name


def inception(seen=pool, axis=1):
    """Branches of 4, of 8 and then 12, and of 4 and then 8 channels, and what is seen of their concat."""
    g = Graph(param("x", 1, 8, 6, 5))
    first, second, third = (branch(g, g.params[0], n, seed) for seed, n in ((0, 4), (4, 8), (8, 4)))
    second, third = (branch(g, y, 12 if axis == 1 else 4, seed, 3, padding=(1, 1, 1, 1))
                     for seed, y in ((12, second), (16, third)))
    return g.module(seen(g, g.op("concat", first, second, third, axis=axis)))


def test_the_first_part_of_a_concat_is_the_last_of_all():
    """The concat is the end of a larger one, into which all convolutions write."""
    mod = check(inception(), data(1, 8, 6, 5), passes=[lambda m: combine_parallel_conv2d(m, LANES)])
    assert ops(mod).count("nn.conv2d") == 3
    splits = [b.value.attrs["sections"] for b in mod["main"].bindings if getattr(b.value, "op", "") == "split"]
    assert splits == [(8, 4, 4), (12, 28)]
    found = ops(check(mod, data(1, 8, 6, 5), passes=[fuse_ops, in_place]))
    assert found.count("memory.join") == 1 and found.count("memory.part") == 3 and "copy" not in found


@pytest.mark.parametrize("seen, axis", [(lambda g, y: y, 1), (lambda g, y: g.op("concat", y, y, axis=1), 1), (pool, 2)])
def test_a_concat_that_may_be_no_part_keeps_its_first(seen, axis):
    mod = check(inception(seen, axis), data(1, 8, 6, 5), passes=[lambda m: combine_parallel_conv2d(m, LANES)])
    assert ops(mod).count("nn.conv2d") == 4


def test_a_result_that_others_read_ends_its_chain():
    g = Graph(param("x", 1, 8, 6, 5))
    a, b = (branch(g, g.params[0], 4, seed, after=()) for seed in (0, 4))
    results = [op for y in (a, b) for op in (g.op("nn.relu", y), g.op("negative", y))]
    assert combined(g, *results)[:2] == ["nn.conv2d", "split"]


def test_origins_and_named_nodes():
    x, bindings = param("x", 1, 8, 6, 5), []
    for n in range(3):
        conv = call_op("nn.conv2d", x, const(4, 8, 1, 1, seed=n))
        bindings.append(VarBinding(DataflowVar(f"c{n}", conv.struct_info, Origin(f"conv{n}", "Conv")), conv))
        relu = call_op("nn.relu", bindings[-1].var)
        bindings.append(VarBinding(DataflowVar(f"r{n}", relu.struct_info, Origin(f"relu{n}", "Relu")), relu))
    g = Graph(x)
    g.bindings = bindings
    g.names |= {b.var.name for b in bindings}
    mod = g.module(*(pool(g, b.var) for b in bindings[1::2]))
    for apart, first in (((), "conv0 + conv1 + conv2 (Conv)"), (("conv1",), "conv0 + conv2 (Conv)")):
        after = check(mod, data(1, 8, 6, 5), passes=[lambda m: combine_parallel_conv2d(m, LANES, apart)])
        assert str(after["main"].bindings[0].var.origin) == first
        assert len(weights(after)) == 1 + len(apart)


def test_an_override_by_name_still_finds_its_convolution():
    from onnx import TensorProto, helper, numpy_helper
    nodes, kernels = [], []
    for n in range(2):
        kernels.append(numpy_helper.from_array(data(64, 64, 1, 1, seed=n), f"w{n}"))
        nodes += [helper.make_node("Conv", ["x", f"w{n}"], [f"c{n}"], name=f"conv{n}"),
                  helper.make_node("MaxPool", [f"c{n}"], [f"y{n}"], kernel_shape=[2, 2])]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 8, 8])
    results = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, [1, 64, 7, 7]) for n in range(2)]
    model = helper.make_model(helper.make_graph(nodes, "g", [image], results, kernels),
                              opset_imports=[helper.make_opsetid("", 17)])
    assert ingot.compile(model, algorithms={"conv1": "direct"}).model.files()
    with pytest.raises(ValueError, match="conv2"):
        ingot.compile(model, algorithms={"conv2": "direct"})
