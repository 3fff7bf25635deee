"""Constant folding, batch norm and scale folding, identities."""
import numpy as np
import pytest
from graph_check import Graph, check, const, data, execute, ops, param, weights

from ingot.ir.expr import Var
from ingot.ir.relax import Constant, MatchCast, RelaxVar, TensorStructInfo, TupleGetItem, call_op
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.ir.relax.expr import DataflowVar, RelaxCall, VarBinding, dataflow_function
from ingot.ir.module import IRModule
from ingot.ir.origin import Origin
from ingot.ir.relax.verifier import verify
from ingot.ir.transform.fold_constants import fold_constants
from ingot.ir.transform.fold_scale import decompose_batch_norm, fold_scale_axis
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.graph import GraphRewriter, on_main
from ingot.ir.transform.identities import remove_identities
from ingot.ir.transform.near_zero import near_zero

FOLD = [fold_constants, decompose_batch_norm, fold_scale_axis, remove_identities]


def vectors(channels, count=4):
    found = [const(channels, seed=n, name=f"bn{n}") for n in range(count)]
    return found[:3] + [Constant(np.abs(found[3].data) + 0.5, "var")]


# ---------------------------------------------------------------- the rewriter

def test_computed_arguments_get_variables():
    x = param("x", 2, 4)
    parts = DataflowVar("parts", call_op("split", x, sections=(1, 3), axis=1).struct_info)
    nested = call_op("add", call_op("nn.relu", TupleGetItem(parts, 1)), TupleGetItem(parts, 0))
    y = DataflowVar("y", nested.struct_info)
    bindings = [VarBinding(parts, call_op("split", x, sections=(1, 3), axis=1)), VarBinding(y, nested)]
    mod = IRModule({"main": dataflow_function([x], bindings, [y, TupleGetItem(parts, 0)])})
    after = on_main(lambda func: GraphRewriter().run(func))(mod)
    verify(after)
    assert ops(after) == ["split", "nn.relu", "add"]
    np.testing.assert_array_equal(execute(after, data(2, 4))[0], execute(mod, data(2, 4))[0])


def test_unused_bindings_go_and_run_time_checks_stay():
    x = param("x", 2, 4)
    n = Var("n", "int64")
    checked = RelaxVar("checked", TensorStructInfo((n, 4), "float32"))
    y = DataflowVar("y", x.struct_info)
    unused = DataflowVar("unused", x.struct_info)
    bindings = [MatchCast(checked, x), VarBinding(unused, call_op("exp", x)), VarBinding(y, call_op("nn.relu", x))]
    mod = fold_constants(IRModule({"main": dataflow_function([x], bindings, [y])}))
    verify(mod)
    assert ops(mod) == ["nn.relu"] and isinstance(mod["main"].bindings[0], MatchCast)


# ---------------------------------------------------------------- constants

def test_constants_fold_through_tuples_and_views():
    g = Graph(param("x", 2, 3))
    parts = g.op("split", const(2, 6), sections=(3, 3), axis=1)
    a, b = (g.bind(TupleGetItem(parts, i)) for i in (0, 1))
    c = g.op("permute_dims", g.op("reshape", g.op("concat", a, b, axis=0), [3, 4]))
    total = g.op("mean", c, axis=(0,), keepdims=True)
    mod = check(g.module(g.op("add", g.params[0], g.op("strided_slice", total, axes=(1,), begin=(0,), end=(3,),
                                                       strides=(1,)))), data(2, 3), passes=[fold_constants])
    assert ops(mod) == ["add"]


def test_shapes_with_symbols_do_not_fold():
    g = Graph(param("x", Var("n", "int64"), 3))
    wide = g.op("broadcast_to", const(1, 3), [g.params[0].struct_info.shape[0], 3])
    mod = check(g.module(g.op("add", g.params[0], wide)), data(2, 3))
    assert ops(mod) == [("broadcast_to", "add")]


def test_a_constant_output_is_written():
    g = Graph(param("x", 2))
    mod = check(g.module(g.op("exp", const(3)), g.op("nn.relu", g.params[0])), data(2))
    assert ops(mod) == ["nn.relu", "copy"]


# ---------------------------------------------------------------- batch norm and scales

def test_conv_bias_batch_norm_relu_is_one_convolution_and_one_addition():
    g = Graph(param("x", 2, 3, 5, 5))
    conv = g.op("nn.conv2d", g.params[0], const(4, 3, 3, 3), padding=(1, 1, 1, 1))
    biased = g.op("add", conv, const(4, 1, 1))
    mod = check(g.module(g.op("nn.relu", g.op("nn.batch_norm", biased, *vectors(4)))), data(2, 3, 5, 5), passes=FOLD)
    assert ops(mod) == ["nn.conv2d", "add", "nn.relu"]


def test_a_convolution_keeps_its_node_when_it_takes_in_a_batch_norm():
    """Kernels have their names of the first node, and recorded algorithms find convolutions by it."""
    g, made = Graph(param("x", 2, 3, 5, 5)), []
    for name, op, *args in (("conv", "nn.conv2d", const(4, 3, 3, 3)), ("bn", "nn.batch_norm", *vectors(4)),
                            ("relu", "nn.relu")):
        call = call_op(op, made[-1] if made else g.params[0], *args)
        made.append(DataflowVar(name, call.struct_info, Origin(name, op)))
        g.bindings.append(VarBinding(made[-1], call))
    mod = check(g.module(made[-1]), data(2, 3, 5, 5), passes=FOLD)
    assert [b.var.origin.name for b in mod["main"].bindings] == ["conv", "bn", "relu"]
    fused, = (f for name, f in fuse_ops(mod).functions.items() if name != "main")
    assert [o.name for o in fused.attrs["origin"]] == ["conv", "bn", "relu"]


def test_a_scaled_convolution_that_two_read_is_computed_once():
    g = Graph(param("x", 2, 3, 5, 5))
    scaled = g.op("multiply", g.op("nn.conv2d", g.params[0], const(4, 3, 1, 1)), const(4, 1, 1))
    mod = check(g.module(g.op("multiply", scaled, const(4, 1, 1, seed=2)), g.op("nn.relu", scaled)), data(2, 3, 5, 5),
                passes=FOLD)
    assert ops(mod) == ["nn.conv2d", "multiply", "nn.relu"]


@pytest.mark.parametrize("op, shape, weight, attrs", [
    ("nn.conv1d", (2, 4, 7), (6, 2, 3), {"groups": 2}), ("nn.conv2d", (2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4}),
    ("nn.conv3d", (1, 2, 3, 3, 3), (4, 2, 2, 2, 2), {}), ("nn.conv2d_transpose", (1, 2, 3, 3), (2, 5, 3, 3), {}),
])
def test_batch_norm_folds_into_every_convolution(op, shape, weight, attrs):
    g = Graph(param("x", *shape))
    conv = g.op(op, g.params[0], const(*weight), **attrs)
    channels = conv.struct_info.shape[1].value
    mod = check(g.module(g.op("nn.batch_norm", conv, *vectors(channels))), data(*shape), passes=FOLD)
    assert ops(mod) == [op, "add"]


def test_batch_norm_after_groups_of_a_transposed_convolution_stays():
    """Its weights are sorted by input channels."""
    g = Graph(param("x", 1, 4, 3, 3))
    conv = g.op("nn.conv2d_transpose", g.params[0], const(4, 3, 2, 2), groups=2)
    mod = check(g.module(g.op("nn.batch_norm", conv, *vectors(6))), data(1, 4, 3, 3), passes=FOLD)
    assert ops(mod) == ["nn.conv2d_transpose", "multiply", "add"]


def test_batch_norm_of_data_statistics_stays():
    g = Graph(param("x", 2, 3), *(param(f"p{n}", 3) for n in range(4)))
    mod = check(g.module(g.op("nn.batch_norm", *g.params)), data(2, 3), *(abs(data(3, seed=n)) for n in range(4)))
    assert ops(mod) == ["nn.batch_norm"]


@pytest.mark.parametrize("a, b, scale, folds", [
    ((2, 3, 4), (4, 5), (5,), True), ((2, 3, 4), (4, 5), (), True), ((2, 3, 4), (2, 4, 5), (5,), True),
    ((4,), (4, 5), (5,), True), ((4,), (2, 4, 5), (5,), True),
    ((2, 3, 4), (4, 5), (3, 1), False), ((3, 4), (4,), (3,), False), ((1, 4), (4, 1), (5,), False),
    ((3, 4), (4, 5), (1, 1, 5), False), ((3, 4), (4, 5), (2, 1, 1), False), ((5, 4), (4, 5), (5, 5), False),
])
def test_scales_fold_into_products_when_they_are_per_column(a, b, scale, folds):
    g = Graph(param("x", *a))
    y = g.op("multiply", const(*scale), g.op("matmul", g.params[0], const(*b)))
    mod = check(g.module(y), data(*a), passes=FOLD)
    assert ops(mod) == (["matmul"] if folds else ["matmul", "multiply"])


def test_packed_operands_of_products_are_no_weights():
    g = Graph(param("x", 5, 64))
    parts = [Constant(part, "w") for part in ARITHMETICS["inner_product"].pack(const(64, 16).data)]
    y = g.op("matmul", g.params[0], *parts, arithmetic="inner_product", b_layout="operands", n_size=16)
    mod = check(g.module(g.op("multiply", y, const(16))), data(5, 64), passes=FOLD)
    assert ops(mod) == ["matmul", "multiply"]


def test_chains_of_constants_become_one():
    g = Graph(param("x", 2, 3))
    y = g.op("multiply", const(3), g.op("multiply", g.params[0], const(2, 1)))  # together larger than both
    y = g.op("add", const(3, seed=2), g.op("add", y, const(3, seed=1)))
    y = g.op("add", g.op("multiply", y, const(3, seed=3)), const(1, seed=4))
    mod = check(g.module(y), data(2, 3), passes=FOLD)
    assert ops(mod) == ["multiply", "multiply", "add"]


def test_values_used_twice_are_left_alone():
    g = Graph(param("x", 2, 3, 5, 5))
    conv = g.op("nn.conv2d", g.params[0], const(4, 3, 1, 1))
    y = g.op("multiply", conv, const(4, 1, 1))
    mod = check(g.module(y, conv), data(2, 3, 5, 5), passes=FOLD)
    assert ops(mod) == ["nn.conv2d", "multiply"]


def test_a_shared_weight_is_scaled_for_one_use_only():
    g = Graph(param("x", 1, 3, 5, 5))
    w = const(3, 3, 1, 1)
    first = g.op("multiply", g.op("nn.conv2d", g.params[0], w), const(3, 1, 1))
    mod = check(g.module(g.op("nn.conv2d", first, w)), data(1, 3, 5, 5), passes=FOLD)
    assert ops(mod) == ["nn.conv2d", "nn.conv2d"] and len(weights(mod)) == 2
    assert any(found.data is w.data for found in weights(mod))


def test_constants_that_would_overflow_stay_apart():
    big = Constant(np.full(3, 1e30, np.float32), "big")
    g = Graph(param("x", 2, 3))
    y = g.op("multiply", g.op("multiply", g.params[0], big), big)
    mod = check(g.module(y), np.zeros((2, 3), np.float32), passes=FOLD)
    assert ops(mod) == ["multiply", "multiply"]


def test_integers_are_not_rescaled():
    g = Graph(param("x", 2, 3, dtype="int32"))
    three = Constant(np.array([3], np.int32), "three")
    y = g.op("multiply", g.op("multiply", g.params[0], three), three)
    mod = check(g.module(y), np.arange(6, dtype=np.int32).reshape(2, 3), passes=FOLD)
    assert ops(mod) == ["multiply", "multiply"]


# ---------------------------------------------------------------- identities

def scalar(value, dtype="float32", shape=(1,)):
    return Constant(np.full(shape, value, dtype), "c")


def _attrs(**attrs):
    return lambda g, x: g.op(attrs["op"], x, *attrs.get("args", ()), **{k: v for k, v in attrs.items()
                                                                         if k not in ("op", "args")})


@pytest.mark.parametrize("build", [
    _attrs(op="add", args=(scalar(0),)), _attrs(op="multiply", args=(scalar(1),)),
    _attrs(op="power", args=(scalar(1),)), _attrs(op="subtract", args=(scalar(0, shape=(1, 1, 3)),)),
    _attrs(op="divide", args=(scalar(1),)),
    lambda g, x: g.op("add", scalar(0), x), lambda g, x: g.op("multiply", scalar(1), x),
    _attrs(op="reshape", args=([2, 1, 3],)), _attrs(op="broadcast_to", args=([2, 1, 3],)),
    _attrs(op="astype", dtype="float32"), _attrs(op="tile", repeats=(1, 1, 1)), _attrs(op="concat", axis=1),
    _attrs(op="permute_dims", axes=(0, 1, 2)), _attrs(op="permute_dims", axes=(0, -2, -1)),
    _attrs(op="nn.pad", pad_width=(0,) * 6), _attrs(op="mean", axis=1, keepdims=True),
    _attrs(op="sum", axis=(1,), keepdims=True), _attrs(op="max", axis=-2, keepdims=True),
    _attrs(op="strided_slice", axes=(0, 2), begin=(0, 0), end=(2, 3), strides=(1, 1)),
    lambda g, x: g.op("permute_dims", g.op("permute_dims", x, axes=(2, 0, 1)), axes=(1, 2, 0)),
    lambda g, x: g.op("reshape", g.op("expand_dims", g.op("squeeze", x, axis=1), axis=0), [2, 1, 3]),
    lambda g, x: g.op("permute_dims", g.op("permute_dims", x)),
])
def test_identities_go(build):
    g = Graph(param("x", 2, 1, 3))
    x = g.op("exp", g.params[0])
    mod = check(g.module(g.op("nn.relu", build(g, x))), data(2, 1, 3), passes=[remove_identities])
    assert ops(mod) == ["exp", "nn.relu"]


@pytest.mark.parametrize("build", [
    _attrs(op="add", args=(scalar(1),)), _attrs(op="multiply", args=(scalar(0),)),
    _attrs(op="add", args=(scalar(0, shape=(1, 4, 1)),)), lambda g, x: g.op("subtract", scalar(0), x),
    lambda g, x: g.op("divide", scalar(1), x), lambda g, x: g.op("power", scalar(1), x),
    _attrs(op="sum", axis=(2,), keepdims=True), _attrs(op="sum", axis=None, keepdims=True),
    _attrs(op="strided_slice", axes=(2,), begin=(2,), end=(-1,), strides=(-1,)), _attrs(op="tile", repeats=(1, 2, 1)),
    _attrs(op="permute_dims", axes=(2, 1, 0)), _attrs(op="astype", dtype="float64"), _attrs(op="permute_dims"),
    lambda g, x: g.op("concat", x, x, axis=1), _attrs(op="nn.pad", pad_width=(0, 0, 1, 0, 0, 0)),
])
def test_what_computes_or_moves_stays(build):
    g = Graph(param("x", 2, 1, 3))
    x = g.op("exp", g.params[0])
    mod = check(g.module(g.op("abs", build(g, x))), data(2, 1, 3), passes=[remove_identities])
    assert len(ops(mod)) == 3


def narrowed(g, x, zero=0, low=0, high=255, narrow="uint8", wide="float32", whole="round"):
    x = g.op("add", g.op(whole, g.op("multiply", x, scalar(40))), scalar(zero))
    return g.op("astype", g.op("astype", g.op("clip", x, min=float(low), max=float(high)), dtype=narrow), dtype=wide)


@pytest.mark.parametrize("options", [{"zero": 100}, {"zero": -3, "low": -128, "high": 127, "narrow": "int8"},
                                     {"zero": 7, "high": 9, "narrow": "int16"}, {"zero": 5, "whole": "floor"}], ids=str)
def test_floats_that_were_integers_between_stay_floats(options):
    g = Graph(param("x", 3, 5))
    mod = check(g.module(g.op("abs", narrowed(g, g.params[0], **options))), data(3, 5), passes=[remove_identities])
    assert ops(mod) == ["multiply", options.get("whole", "round"), "add", "clip", "abs"]


@pytest.mark.parametrize("options", [{"zero": 1, "low": 0.5}, {"zero": 0.5}, {"zero": 1, "narrow": "int8"},
                                     {"zero": 1, "wide": "float64"}, {"zero": 1, "whole": "tanh"}], ids=str)
def test_narrowing_that_changes_numbers_stays(options):
    """No integers, integers that hold less than comes, another float."""
    g = Graph(param("x", 3, 5))
    mod = remove_identities(g.module(g.op("abs", narrowed(g, g.params[0], **options))))
    assert ops(mod).count("astype") == 2


def test_transposes_that_keep_the_order_become_views():
    g = Graph(param("x", 2, 1, 3, 1))
    y = g.op("permute_dims", g.op("exp", g.params[0]), axes=(1, 0, 3, 2))
    mod = check(g.module(g.op("exp", g.op("reshape", y, [6]))), data(2, 1, 3, 1), passes=[remove_identities])
    assert ops(mod) == ["exp", "reshape", "exp"]


def test_an_identity_of_the_input_is_copied_to_the_output():
    g = Graph(param("x", 2, 3))
    mod = check(g.module(g.op("add", g.params[0], scalar(0)), g.op("reshape", g.params[0], [6])), data(2, 3))
    assert ops(mod) == ["reshape", "copy", "copy"]


def test_symbolic_shapes_pass_through_the_folds():
    n = Var("n", "int64")
    g = Graph(param("x", n, 3, 4, 4))
    y = g.op("nn.batch_norm", g.op("nn.conv2d", g.params[0], const(4, 3, 3, 3), padding=(1, 1, 1, 1)), *vectors(4))
    y = g.op("reshape", g.op("mean", g.op("nn.relu", y), axis=(2, 3), keepdims=True), [n, 4])
    y = g.op("add", g.op("reshape", y, [n, 4]), scalar(0))
    mod = check(g.module(g.op("matmul", y, const(4, 5))), data(3, 3, 4, 4))
    assert ops(mod) == ["nn.pad", ("nn.conv2d", "add", "nn.relu"), "mean", "reshape", "matmul"]
    assert all(isinstance(b.value, RelaxCall) for b in mod["main"].bindings)


def test_folding_obeys_the_budget():
    """The budget holds for a module that no importer checked, before memory is allocated."""
    big = DataflowVar("big", TensorStructInfo((1 << 29,), "float32"))
    call = call_op("broadcast_to", Constant(np.ones(1, np.float32), "one"), [1 << 29])
    mod = IRModule({"main": dataflow_function([], [VarBinding(big, call)], [big])})
    with pytest.raises(ValueError, match='node "big": broadcast_to of constants: .* is a constant of 2147483648 bytes'):
        fold_constants(mod)


def test_large_constants_that_are_equal_are_one():
    w, x = const(64, 128, seed=1), param("x", 2, 128)
    g = Graph(x)
    y = x
    for _ in range(3):  # as a cell that is written once for each time step
        y = g.op("matmul", y, g.op("permute_dims", Constant(w.data, "w"), axes=(1, 0)))
        y = g.op("matmul", y, Constant(w.data.copy(), "w"))
    other = Constant(np.where(np.arange(128) == 77, -0.0, 0.0).astype(np.float32) * np.ones((128, 1), np.float32), "z")
    y = g.op("add", g.op("matmul", y, other), g.op("matmul", y, Constant(np.zeros((128, 128), np.float32), "z0")))
    mod = check(g.module(y), data(2, 128), passes=[fold_constants])
    assert len({id(c.data) for c in weights(mod)}) == 4


def test_formulas_that_lose_small_numbers_are_functions_that_keep_them():
    x, one = param("x", 3, 4), Constant(np.float32(1), "one")
    g = Graph(x)
    sums = g.op("log", g.op("add", x, one)), g.op("log", g.op("add", one, x)), g.op("log", g.op("add", x, x))
    raised = g.op("exp", x)
    less = g.op("subtract", raised, one), g.op("subtract", one, raised), g.op("log", g.op("add", raised, one))
    mod = near_zero(g.module(*sums, *less))
    assert [b.value.op for b in mod["main"].bindings] == [
        "log1p", "log1p", "add", "log", "exp", "expm1", "subtract", "add", "log"]
    small = np.full((3, 4), 1e-6, np.float32)
    assert np.all(execute(mod, small)[3] == np.expm1(small))
