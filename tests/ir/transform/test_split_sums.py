"""SplitSums: blocks of long sums, and the errors of networks that have them."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.transform.pass_table import TIR
from ingot.script import tir as T

U = 2.0 ** -24


def split(func, terms):
    return TIR["SplitSums"](terms)(IRModule({"main": func}))["main"]


def test_a_long_loop_is_cut_into_even_blocks():
    @T.prim_func
    def before(x: T.Buffer((4096,), "float32"), y: T.Buffer((4,), "float32")):
        acc = T.decl_buffer((4,), "float32", scope="local")
        for i in T.unroll(4):
            acc[i] = T.float32(0)
        for k in T.serial(1024, annotations={"pragma_unroll": 1}):
            for i in T.unroll(4):
                acc[i] = acc[i] + x[k * 4 + i]
        for i in T.unroll(4):
            y[i] = acc[i]

    @T.prim_func
    def after(x: T.Buffer((4096,), "float32"), y: T.Buffer((4,), "float32")):
        acc = T.decl_buffer((4,), "float32", scope="local")
        for i in T.unroll(4):
            acc[i] = T.float32(0)
        for block in range(8):
            acc_part = T.decl_buffer((4,), "float32", scope="local")
            for i in T.unroll(4):
                acc_part[i] = T.float32(0)
            for k in T.serial(block * 128, block * 128 + 128, annotations={"pragma_unroll": 1}):
                for i in T.unroll(4):
                    acc_part[i] = acc_part[i] + x[k * 4 + i]
            for i in T.unroll(4):
                acc[i] = acc[i] + acc_part[i]
        for i in T.unroll(4):
            y[i] = acc[i]

    found = split(before, 130)
    assert found.script().replace("k_block", "block") == after.with_attr(dict(found.attrs)).script().replace(
        "before", "after") or structural_equal(found.body, after.body, map_free_vars=True), found.script()
    assert structural_equal(split(before, 1024).body, before.body)


def test_the_loop_whose_iterations_are_short_enough_is_one_over_blocks():
    @T.prim_func
    def before(x: T.Buffer((900,), "float32"), y: T.Buffer((1,), "float32")):
        y[0] = T.float32(0)
        for a, b in T.grid(9, 100):
            y[0] = y[0] + x[a * 100 + b]

    text = split(before, 150).script()
    assert "for a in range(9):" in text and "y_part[0] = y_part[0] + x[a * 100 + b]" in text
    assert "y[0] = y[0] + y_part[0]" in text and "_block" not in text


@pytest.mark.parametrize("why, body", [
    ("integers", "int32"), ("products", "float32")])
def test_what_is_no_sum_of_floats_stays(why, body):
    if why == "integers":
        @T.prim_func
        def func(x: T.Buffer((900,), "int32"), y: T.Buffer((1,), "int32")):
            y[0] = 0
            for k in range(900):
                y[0] = y[0] + x[k]
    else:
        @T.prim_func
        def func(x: T.Buffer((900,), "float32"), y: T.Buffer((1,), "float32")):
            y[0] = T.float32(1)
            for k in range(900):
                y[0] = y[0] * x[k]
    assert structural_equal(split(func, 100).body, func.body)


def test_a_sum_that_is_read_while_it_grows_stays():
    @T.prim_func
    def func(x: T.Buffer((900,), "float32"), y: T.Buffer((900,), "float32")):
        acc = T.decl_buffer((1,), "float32", scope="local")
        acc[0] = T.float32(0)
        for k in range(900):
            acc[0] = acc[0] + x[k]
            y[k] = acc[0]
    assert structural_equal(split(func, 100).body, func.body)


def network(op, inputs, weights, **attrs):
    graph = helper.make_graph(
        [helper.make_node(op, [*inputs, *weights], ["y"], **attrs)], "sums",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["c", "host"])
@pytest.mark.parametrize("rows, packed", [(1, True), (3, False), (40, True)])
def test_equal_terms_of_long_products_do_not_drift(target, rows, packed):
    """Rounding of equal terms is one-sided: one chain of 8192 of them is wrong by hundreds of units."""
    depth = 8192
    x, w = np.full((rows, depth), 0.1, np.float32), np.full((depth, 32), 0.7, np.float32)
    given = ({"x": x}, {"w": w}) if packed else ({"x": x, "w": w}, {})
    want = depth * float(x[0, 0]) * float(w[0, 0])
    assert abs(float(np.cumsum(np.full(depth, x[0, 0] * w[0, 0]), dtype=np.float32)[-1]) - want) > 300 * U * want
    with ingot.compile(network("MatMul", *given), target=target, threads="none", accuracy="strict") as lib:
        y = np.asarray(lib(*given[0].values()))
    assert np.abs(y.astype(np.float64) - want).max() <= 100 * U * want


@pytest.mark.parametrize("target", ["c", "host"])
def test_equal_terms_of_convolutions_and_means_do_not_drift(target):
    x, w = np.full((1, 512, 9, 9), 0.1, np.float32), np.full((16, 512, 3, 3), 0.7, np.float32)
    want = 512 * 9 * float(x.flat[0]) * float(w.flat[0])
    with ingot.compile(network("Conv", {"x": x}, {"w": w}), target=target, threads="none", accuracy="strict") as lib:
        assert np.abs(np.asarray(lib(x)).astype(np.float64) - want).max() <= 100 * U * want
    x = np.full((1, 2, 300, 301), 0.1, np.float32)
    with ingot.compile(network("GlobalAveragePool", {"x": x}, {}), target=target, threads="none") as lib:
        assert np.abs(np.asarray(lib(x)).astype(np.float64) / float(x.flat[0]) - 1).max() <= 100 * U
