"""Fusion: which operators share a kernel, and which do not."""
import numpy as np
import pytest
from graph_check import PASSES, Graph, check, const, data, execute, ops, param

from ingot.ir.expr import Var
from ingot.ir.origin import Origin
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, TupleGetItem, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.ir.relax.ops.pointwise import kernel_matrix
from ingot.ir.transform.fuse import MAX_INLINED, fuse_ops
from machines import machine

FUSE = [fuse_ops]


def scalar(value):
    return Constant(np.float32(value).reshape(()), "c")


def test_convolution_batch_norm_relu_is_one_kernel():
    g = Graph(param("x", 2, 3, 6, 6))
    conv = g.op("nn.conv2d", g.params[0], const(5, 3, 3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    norm = g.op("nn.batch_norm", conv, *(const(5, seed=n) for n in range(3)), Constant(np.ones(5, np.float32), "v"))
    mod = check(g.module(g.op("nn.relu", norm)), data(2, 3, 6, 6))
    assert ops(mod) == ["nn.pad", ("nn.conv2d", "add", "nn.relu")]


@pytest.mark.parametrize("n", [5, Var("n", "int64")])
def test_gelu_after_a_product_fuses_whole(n):
    g = Graph(param("x", n, 6))
    x = g.op("add", g.op("matmul", g.params[0], const(6, 8)), const(8))
    e = g.op("erf", g.op("divide", x, scalar(2 ** 0.5)))
    y = g.op("multiply", g.op("multiply", x, g.op("add", e, scalar(1))), scalar(0.5))
    mod = check(g.module(y), data(5, 6))
    assert ops(mod) == [("matmul", "add", "divide", "erf", "add", "multiply", "multiply")]


def test_a_residual_addition_joins_one_convolution():
    g = Graph(param("x", 1, 4, 5, 5))
    left = g.op("nn.conv2d", g.params[0], const(4, 4, 1, 1))
    right = g.op("nn.conv2d", g.params[0], const(4, 4, 1, 1, seed=1))
    y = g.op("nn.relu", g.op("add", left, right))
    mod = check(g.module(g.op("nn.conv2d", y, const(4, 4, 1, 1, seed=2))), data(1, 4, 5, 5))
    assert ops(mod) == ["nn.conv2d", ("nn.conv2d", "add", "nn.relu"), "nn.conv2d"]


@pytest.mark.parametrize("first", [True, False])
def test_an_elementwise_branch_joins_the_residual(first):
    g = Graph(param("x", 1, 4, 5, 5), param("y", 1, 4, 5, 5))
    a = g.op("tanh", g.params[1]) if first else None
    conv = g.op("nn.conv2d", g.params[0], const(4, 4, 1, 1))
    a = a or g.op("tanh", g.params[1])
    mod = check(g.module(g.op("add", conv, a)), data(1, 4, 5, 5), data(1, 4, 5, 5, seed=1))
    assert sorted(ops(mod)[0]) == ["add", "nn.conv2d", "tanh"]


def test_a_diamond_of_one_shape_fuses_and_one_across_shapes_does_not():
    def diamond(shape, side):
        g = Graph(param("x", 4, 4))
        x = g.op("add", g.op("exp", g.params[0]), const(*shape))
        return check(g.module(g.op("add", g.op("nn.relu", x), side(g, x))), data(4, 4), passes=FUSE)

    assert ops(diamond((4,), lambda g, x: g.op("tanh", x))) == [("exp", "add", "nn.relu", "tanh", "add")]
    turned = diamond((4,), lambda g, x: g.op("permute_dims", x))
    assert ops(turned) == [("exp", "add"), ("nn.relu", "permute_dims", "add")]
    reduced = diamond((4,), lambda g, x: g.op("mean", x, axis=(1,), keepdims=True))
    assert ops(reduced) == [("exp", "add"), "mean", ("nn.relu", "add")]


def test_nothing_is_computed_once_per_broadcast_element():
    g = Graph(param("x", 1, 4, 5, 5), param("s", 1, 4, 1, 1))
    gate = g.op("sigmoid", g.op("add", g.params[1], const(4, 1, 1)))
    mod = check(g.module(g.op("multiply", g.op("tanh", g.params[0]), gate)), data(1, 4, 5, 5), data(1, 4, 1, 1))
    assert ops(mod) == [("add", "sigmoid"), ("tanh", "multiply")]


def test_operands_of_an_anchor_are_computed_before_it():
    g = Graph(param("x", 4, 4))
    y = g.op("nn.relu", g.op("matmul", g.op("exp", g.params[0]), const(4, 4)))
    assert ops(check(g.module(y), data(4, 4))) == ["exp", ("matmul", "nn.relu")]
    g = Graph(param("x", 4, 4))
    y = g.op("nn.softmax", g.op("exp", g.op("tanh", g.params[0])))
    assert ops(check(g.module(y), data(4, 4))) == [("tanh", "exp"), "nn.softmax"]


@pytest.mark.parametrize("name, attrs, several", [
    ("concat", {"axis": 0}, True), ("nn.pad", {"pad_width": (1, 0, 0, 1)}, False)])
def test_concat_and_pad_are_never_fused(name, attrs, several):
    g = Graph(param("x", 4, 4))
    x = g.op("tanh", g.op("exp", g.params[0]))
    y = g.op(name, x, x, **attrs) if several else g.op(name, x, **attrs)
    mod = check(g.module(g.op("abs", g.op("nn.relu", y))), data(4, 4), passes=FUSE)
    assert ops(mod) == [("exp", "tanh"), name, ("nn.relu", "abs")]


def test_split_is_never_fused():
    g = Graph(param("x", 4, 4))
    parts = g.op("split", g.op("exp", g.params[0]), sections=(2, 2), axis=1)
    a, b = (g.bind(TupleGetItem(parts, i)) for i in (0, 1))
    mod = check(g.module(g.op("add", g.op("tanh", a), g.op("sigmoid", b))), data(4, 4))
    assert ops(mod) == ["exp", "split", ("tanh", "sigmoid", "add")]


def test_copies_at_the_end_of_a_chain_fuse():
    g = Graph(param("x", 3, 4))
    y = g.op("permute_dims", g.op("multiply", g.op("add", g.params[0], const(4)), scalar(2)))
    y = g.op("nn.relu", g.op("strided_slice", y, axes=(0,), begin=(1,), end=(3,), strides=(1,)))
    assert ops(check(g.module(y), data(3, 4), passes=FUSE)) == [
        ("add", "multiply", "permute_dims", "strided_slice", "nn.relu")]


def test_embedding_lookup_and_addition_are_one_kernel():
    g = Graph(param("ids", 2, 3, dtype="int64"))
    mod = check(g.module(g.op("add", g.op("take", const(7, 4), g.params[0], axis=0), const(3, 4))),
                np.array([[0, 6, 3], [-1, 2, 2]]))
    assert ops(mod) == [("take", "add")]


def test_values_that_are_outputs_or_read_elsewhere_end_a_group():
    g = Graph(param("x", 4, 4))
    a = g.op("exp", g.params[0])
    b = g.op("tanh", a)
    c = g.op("nn.relu", g.op("abs", b))
    mod = check(g.module(c, b), data(4, 4))
    assert ops(mod) == [("exp", "tanh"), ("abs", "nn.relu")]


def test_repeated_squares_do_not_explode():
    g = Graph(param("x", 4))
    y = g.params[0]
    for _ in range(20):
        y = g.op("tanh", g.op("multiply", y, y))
    groups = ops(check(g.module(y), data(4)))
    assert len(groups) > 2 and max(2 ** group.count("multiply") for group in groups) <= 2 * MAX_INLINED


def test_long_chains_are_cut():
    g = Graph(param("x", 4))
    y = g.params[0]
    for _ in range(80):
        y = g.op("tanh", y)
    groups = ops(check(g.module(y), data(4)))
    assert sum(map(len, groups)) == 80 and len(groups) == 3


def test_weights_become_parameters_and_numbers_stay_inside():
    g = Graph(param("x", 3, 4))
    w = const(4, name="bias")
    mod = check(g.module(g.op("add", g.op("maximum", g.op("add", g.params[0], w), scalar(0.5)), w)), data(3, 4))
    call = mod["main"].bindings[0].value
    assert [getattr(a, "name", "") for a in call.args] == ["x", "bias"]
    assert len(mod[call.attrs["gv"]].params) == 2


# ---------------------------------------------------------------- a 1x1 and a depthwise convolution

def expansion(g, x, kernel=1, stride=1, lanes=4, pad=(0, 0, 0, 0, 1, 1, 1, 1, 0, 0),
              between=lambda g, x: g.op("nn.relu", x), **pad_attrs):
    """(a 1x1 convolution, what the depthwise convolution of it reads, that) in blocked layout, padded between."""
    blocks = x.struct_info.shape[1].value
    conv = g.op("nn.conv2d", x, const(8, blocks, kernel, kernel, lanes, lanes), out_channels=8 * lanes,
                data_layout=f"NCHW{lanes}c", kernel_layout=f"OIHW{lanes}i{lanes}o")
    middle = between(g, conv)
    if pad:
        middle = g.op("nn.pad", middle, pad_width=pad, **pad_attrs)
    depthwise = g.op("nn.conv2d", middle, const(8, 1, 3, 3, lanes, seed=1), groups=8 * lanes, strides=(stride, stride),
                     out_channels=8 * lanes, data_layout=f"NCHW{lanes}c", kernel_layout=f"OIHW{lanes}o")
    return conv, middle, depthwise


APART = [("nn.conv2d", "nn.relu"), "nn.pad", ("nn.conv2d", "nn.relu")]
NARROW = machine(4, l1_bytes=1 << 10, l2_bytes=18 << 10)


@pytest.mark.parametrize("cpu, attrs, expected", [
    (NARROW, {}, [("nn.conv2d", "nn.relu", "nn.pad", "nn.conv2d", "nn.relu")]),
    (NARROW, {"pad": None}, [("nn.conv2d", "nn.relu", "nn.conv2d", "nn.relu")]),
    (NARROW, {"between": lambda g, x: x, "stride": 2}, [("nn.conv2d", "nn.pad", "nn.conv2d", "nn.relu")]),
    (NARROW, {"between": lambda g, x: g.op("multiply", x, g.op("sigmoid", x))},
     [("nn.conv2d", "sigmoid", "multiply", "nn.pad", "nn.conv2d", "nn.relu")]),
    (NARROW, {"pad_value": 1.0}, APART), (NARROW, {"pad_mode": "reflect"}, APART), (NARROW, {"kernel": 3}, APART),
    (machine(4), {}, APART),  # it stays in the cache
    (machine(8, l1_bytes=1 << 10, l2_bytes=18 << 10), {}, APART),  # other vectors
    (None, {}, APART),
])
def test_a_1x1_convolution_joins_the_depthwise_convolution_that_reads_it(cpu, attrs, expected):
    g = Graph(param("x", 1, 2, 12, 13, 4))
    y = g.op("nn.relu", expansion(g, g.params[0], **attrs)[-1])
    mod = check(g.module(y), data(1, 2, 12, 13, 4), passes=[lambda mod: fuse_ops(mod, cpu)])
    assert ops(mod) == expected


def test_a_residual_joins_both_convolutions():
    g = Graph(param("x", 1, 2, 12, 13, 4), param("y", 1, 8, 12, 13, 4))
    y = g.op("add", expansion(g, g.params[0])[-1], g.op("tanh", g.params[1]))
    mod = check(g.module(y), data(1, 2, 12, 13, 4), data(1, 8, 12, 13, 4), passes=[lambda mod: fuse_ops(mod, NARROW)])
    assert ops(mod) == [("nn.conv2d", "nn.relu", "nn.pad", "nn.conv2d", "tanh", "add")]


@pytest.mark.parametrize("reader", [
    lambda g, conv, middle: g.op("tanh", conv),
    lambda g, conv, middle: g.op("nn.max_pool2d", middle, pool_size=(3, 3), strides=(1, 1), layout="NCHW4c"),
])
def test_an_expansion_that_others_read_stays_apart(reader):
    g = Graph(param("x", 1, 2, 12, 13, 4))
    conv, middle, y = expansion(g, g.params[0])
    mod = check(g.module(g.op("add", reader(g, conv, middle), y)), data(1, 2, 12, 13, 4),
                passes=[lambda mod: fuse_ops(mod, NARROW)])
    assert "nn.pad" in ops(mod)


def test_groups_remember_the_nodes_they_compute():
    bb, x = BlockBuilder(), RelaxVar("x", TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        a = bb.emit(call_op("exp", x), "a", Origin("node_a", "Exp"))
        bb.emit_func_output(bb.emit_output(call_op("tanh", a), "b", Origin("node_b", "Tanh")))
    mod = fuse_ops(bb.get())
    group = mod[mod["main"].bindings[0].value.attrs["gv"]]
    assert [str(o) for o in group.attrs["origin"]] == ["node_a (Exp)", "node_b (Tanh)"] and group.attrs["primitive"]


def test_attention_and_normalization_keep_their_boundaries():
    g = Graph(param("q", 2, 3, 4), param("k", 2, 4, 3), param("mask", 2, 1, 3))
    scores = g.op("divide", g.op("matmul", *g.params[:2]), scalar(2))
    weights = g.op("nn.softmax", g.op("add", scores, g.params[2]), axis=-1)
    y = g.op("nn.layer_norm", weights, const(3), const(3, seed=1), axes=(-1,))
    inputs = data(2, 3, 4), data(2, 4, 3), data(2, 1, 3)
    mod = check(g.module(g.op("nn.relu", y)), *inputs)
    assert ops(mod) == [("matmul", "divide", "add"), "nn.softmax", ("nn.layer_norm", "nn.relu")]


def test_fusing_twice_changes_nothing():
    g = Graph(param("x", 4, 4))
    mod = g.module(g.op("nn.relu", g.op("add", g.op("matmul", g.params[0], const(4, 4)), const(4))))
    for p in PASSES:
        mod = p(mod)
    again = fuse_ops(mod)
    assert ops(again) == ops(mod) == [("matmul", "add", "nn.relu")]
    np.testing.assert_array_equal(execute(again, data(4, 4))[0], execute(mod, data(4, 4))[0])


# ---------------------------------------------------------------- what makes the data of a 1x1 convolution

def pointwise(g, x, outputs=2, kernel=1, lanes=4, **attrs):
    """A convolution in blocked layout."""
    weight = const(outputs, x.struct_info.shape[1].value, kernel, kernel, lanes, lanes, seed=1)
    return g.op("nn.conv2d", x, weight, **{"out_channels": outputs * lanes, "data_layout": f"NCHW{lanes}c",
                                           "kernel_layout": f"OIHW{lanes}i{lanes}o", **attrs})


def scaled(g, x, lanes=4):
    """Batch norm and relu."""
    channels = 1, x.struct_info.shape[1].value, 1, 1, lanes
    return g.op("nn.relu", g.op("add", g.op("multiply", x, const(*channels)), const(*channels, seed=1)))


SCALED, APART = ("multiply", "add", "nn.relu"), [("multiply", "add", "nn.relu"), ("nn.conv2d", "nn.relu")]


@pytest.mark.parametrize("cpu, attrs, expected", [
    (machine(4), {}, [(*SCALED, "nn.conv2d", "nn.relu")]),
    (machine(4), {"kernel": 3}, APART),
    (machine(4), {"strides": (2, 2)}, APART),
    (machine(4), {"outputs": 64}, APART),  # the weights are read for each of few tiles of points
    (machine(4, registers=400), {}, APART),  # one tile has all points
    (machine(8), {}, APART),  # other vectors
    (None, {}, APART),
])
def test_operators_that_make_the_data_of_a_1x1_convolution_join_it(cpu, attrs, expected):
    g = Graph(param("x", 1, 2, 9, 11, 4))
    y = g.op("nn.relu", pointwise(g, scaled(g, g.params[0]), **attrs))
    mod = check(g.module(y), data(1, 2, 9, 11, 4), passes=[lambda mod: fuse_ops(mod, cpu)])
    assert ops(mod) == expected


@pytest.mark.parametrize("before, strides, expected", [
    ("nn.relu", (1, 1), [("nn.relu", "nn.conv2d_pointwise", "nn.relu")]),
    ("nn.relu", (2, 2), ["nn.relu", ("nn.conv2d_pointwise", "nn.relu")]),
    ("sigmoid", (1, 1), ["sigmoid", ("nn.conv2d_pointwise", "nn.relu")])])
def test_cheap_operators_join_the_convolution_that_cuts_what_they_make_into_slices(before, strides, expected):
    """It looks at each element of its data several times."""
    g = Graph(param("x", 1, 2, 6, 8, 16))
    parts = [Constant(part, "w") for part in ARITHMETICS["split_integer"].pack(kernel_matrix(data(2, 2, 1, 1, 16, 16)))]
    y = g.op("nn.relu", g.op("nn.conv2d_pointwise", g.op(before, g.params[0]), *parts, arithmetic="split_integer",
                             out_channels=32,
                             strides=strides))
    mod = check(g.module(y), data(1, 2, 6, 8, 16), passes=[lambda mod: fuse_ops(mod, machine())])
    assert ops(mod) == expected


def test_a_gate_joins_the_1x1_convolution_and_what_computes_it_does_not():
    g = Graph(param("x", 1, 2, 9, 11, 4), param("s", 1, 2, 1, 1, 4))
    gate = g.op("sigmoid", g.op("add", g.params[1], const(1, 2, 1, 1, 4)))
    y = pointwise(g, g.op("multiply", g.params[0], gate))
    mod = check(g.module(y), data(1, 2, 9, 11, 4), data(1, 2, 1, 1, 4), passes=[lambda mod: fuse_ops(mod, machine(4))])
    assert ops(mod) == [("add", "sigmoid"), ("multiply", "nn.conv2d")]


@pytest.mark.parametrize("reader", [lambda g, x, y: (g.op("add", x, y),), lambda g, x, y: (x, y)])
def test_data_that_others_read_are_made_apart(reader):
    g = Graph(param("x", 1, 2, 9, 11, 4))
    x = scaled(g, g.params[0])
    mod = check(g.module(*reader(g, x, pointwise(g, x))), data(1, 2, 9, 11, 4),
                passes=[lambda mod: fuse_ops(mod, machine(4))])
    assert ops(mod)[0] == SCALED


def test_what_follows_a_1x1_convolution_may_read_what_its_data_are_made_of():
    g = Graph(param("x", 1, 2, 9, 11, 4))
    y = g.op("add", pointwise(g, scaled(g, g.params[0])), g.params[0])
    mod = check(g.module(y), data(1, 2, 9, 11, 4), passes=[lambda mod: fuse_ops(mod, machine(4))])
    assert ops(mod) == [(*SCALED, "nn.conv2d", "add")]


@pytest.mark.parametrize("attrs, expected", [
    (dict(strides=(2, 2)), [(*SCALED, "nn.avg_pool2d")]),
    (dict(strides=(1, 2)), [SCALED, "nn.avg_pool2d"]),
    (dict(strides=(2, 2), ceil_mode=True), [SCALED, "nn.avg_pool2d"]),
    (dict(strides=(2, 2), padding=(1, 0, 0, 0)), [SCALED, "nn.avg_pool2d"]),
])
def test_operators_join_an_average_pool_that_reads_each_element_once(attrs, expected):
    g = Graph(param("x", 1, 2, 9, 11, 4))
    y = g.op("nn.avg_pool2d", scaled(g, g.params[0]), pool_size=(2, 2), layout="NCHW4c", **attrs)
    mod = check(g.module(y), data(1, 2, 9, 11, 4), passes=[lambda mod: fuse_ops(mod, machine(4))])
    assert ops(mod) == expected
