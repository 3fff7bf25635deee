"""Lowering to call_tir, and outputs with memory of their own."""
import numpy as np
import pytest
from graph_check import PASSES, Graph, check, close, const, data, execute, ops, param

from ingot.ir import te
from ingot.ir.expr import FloatImm, Var
from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.node import collect
from ingot.ir.origin import Origin
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, TupleGetItem, call_op, call_tir
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.expr import DataflowVar, MatchCast, VarBinding, dataflow_function
from ingot.ir.relax.verifier import verify
from ingot.ir.tir.function import PrimFunc
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.outputs import materialize_outputs


def lowered(mod, passes=PASSES):
    for p in passes:
        mod = p(mod)
    return verify(lower_ops(mod))


def kernels(mod):
    return {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}


# ---------------------------------------------------------------- lower_ops

def test_equal_kernels_are_one_and_remember_all_nodes():
    bb, x = BlockBuilder(), RelaxVar("x", TensorStructInfo((1, 4, 5, 5), "float32"))
    y = x
    with bb.function("main", [x]):
        for n in range(3):
            y = bb.emit(call_op("nn.conv2d", y, const(4, 4, 1, 1, seed=n)), f"conv{n}", Origin(f"conv{n}", "Conv"))
        y = bb.emit(call_op("nn.conv2d", y, const(4, 4, 3, 3)), "last", Origin("last", "Conv"))
        bb.emit_func_output(y)
    mod = lowered(bb.get())
    assert sorted(kernels(mod)) == ["conv2d", "conv2d_1"]
    assert [o.name for o in mod["conv2d"].attrs["origin"]] == ["conv0", "conv1", "conv2"]
    assert [b.value.attrs["gv"].name for b in mod["main"].bindings] == ["conv2d"] * 3 + ["conv2d_1"]
    close(execute(mod, data(1, 4, 5, 5)), execute(bb.get(), data(1, 4, 5, 5)))


def test_symbolic_dimensions_are_passed_after_the_tensors():
    n, m = Var("n", "int64"), Var("m", "int64")
    g = Graph(param("x", n, 4), param("y", m, 4))
    a, b = (g.op("tanh", p) for p in g.params)
    mod = lowered(g.module(a, b, g.op("concat", a, b, axis=0)))
    assert sorted(kernels(mod)) == ["concat", "tanh"]  # one tanh serves both dimensions
    dims = [tuple(d.name for d in binding.value.attrs["sym_args"]) for binding in mod["main"].bindings]
    assert dims == [("n",), ("m",), ("n", "m")]
    assert [p.dtype for p in mod["concat"].params[-2:]] == ["int64", "int64"]
    inputs = data(2, 4), data(3, 4)
    close(execute(mod, *inputs), execute(g.module(a, b, g.bindings[-1].var), *inputs))


def test_numbers_are_in_the_code():
    g = Graph(param("x", 2, 3))
    half = Constant(np.full((1, 1), 0.5, np.float32), "half")
    mod = lowered(g.module(g.op("multiply", half, g.op("matmul", g.params[0], const(3, 3)))), passes=[])
    assert [len(b.value.args) for b in mod["main"].bindings] == [2, 1]
    assert [f.value for f in collect(mod["multiply"].body, FloatImm)] == [0.5]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("fused", [True, False])
def test_numbers_of_any_rank(shape, fused):
    g = Graph(param("x", 2, 3))
    y = g.op("add", g.params[0], Constant(np.full(shape, 2, np.float32), "two"))
    y = g.op("where", g.op("less", y, Constant(np.full(shape, 1.5, np.float32), "c")), y, g.op("negative", y))
    check(g.module(y), data(2, 3), passes=PASSES if fused else [])


def test_one_tensor_given_twice_is_one_parameter():
    g = Graph(param("x", 2, 3))
    mod = lowered(g.module(g.op("multiply", g.params[0], g.params[0])))
    assert len(mod["main"].bindings[0].value.args) == 1
    g = Graph(param("x", 2, 3))
    check(g.module(g.op("concat", g.params[0], g.params[0], axis=0)), data(2, 3))


def test_recurrent_kernels_with_one_initial_state():
    zero = Constant(np.zeros((1, 2, 3), np.float32), "zero")
    g = Graph(param("x", 4, 2, 5))
    layer = g.op("nn.lstm", g.params[0], const(1, 12, 5), const(1, 12, 3), const(1, 24), zero, zero, hidden_size=3)
    y, h = (g.bind(TupleGetItem(layer, i)) for i in (0, 2))
    check(g.module(y, g.op("nn.relu", h)), data(4, 2, 5))


def test_views_stay_and_rename_memory():
    g = Graph(param("x", 2, 6))
    y = g.op("reshape", g.op("nn.relu", g.op("reshape", g.params[0], [3, 4])), [2, 2, 3])
    mod = lowered(g.module(y))
    assert ops(mod) == ["reshape", "call_tir", "reshape"]
    assert execute(mod, data(2, 6))[0].shape == (2, 2, 3)


def test_prim_funcs_of_the_user_are_kept():
    a = te.placeholder((4,), "float32", "a")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 3.0, "triple")])
    x = RelaxVar("x", TensorStructInfo((4,), "float32"))
    y = DataflowVar("y", x.struct_info)
    z = DataflowVar("z", x.struct_info)
    main = dataflow_function([x], [VarBinding(y, call_tir(GlobalVar("triple"), [x], x.struct_info)),
                                   VarBinding(z, call_op("nn.relu", y))], [z])
    mod = lowered(IRModule({"main": main, "triple": func}))
    assert sorted(kernels(mod)) == ["relu", "triple"] and mod["triple"].attrs["num_outputs"] == 1
    close(execute(mod, data(4)), [np.maximum(data(4) * 3, 0)])


def test_run_time_shape_checks_are_refused():
    x = param("x", 4)
    y = RelaxVar("y", TensorStructInfo((Var("n", "int64"),), "float32"))
    with pytest.raises(NotImplementedError, match="y: shapes checked at run time"):
        lower_ops(IRModule({"main": dataflow_function([x], [MatchCast(y, x)], [y])}))


def test_several_results():
    g = Graph(param("x", 2, 6))
    parts = g.op("split", g.params[0], sections=(1, 2, 3), axis=1)
    a, c = (g.bind(TupleGetItem(parts, i)) for i in (0, 2))
    mod = lowered(g.module(c, g.op("exp", a)))
    assert mod["split"].attrs["num_outputs"] == 3
    close(execute(mod, data(2, 6)), [data(2, 6)[:, 3:], np.exp(data(2, 6)[:, :1])])


# ---------------------------------------------------------------- outputs

def copies(*outputs_of):
    """How many outputs of a module are copied, and that the results stay."""
    mod, inputs = outputs_of[0], outputs_of[1:]
    after = check(mod, *inputs, passes=[materialize_outputs])
    assert ops(materialize_outputs(after)) == ops(after)
    return ops(after).count("copy")


def test_outputs_that_are_inputs_constants_or_views_of_them_are_copied():
    g = Graph(param("x", 2, 3))
    y = g.op("nn.relu", g.params[0])
    assert copies(g.module(y), data(2, 3)) == 0
    assert copies(g.module(g.params[0], y, const(3)), data(2, 3)) == 2
    assert copies(g.module(g.op("reshape", g.params[0], [6]), g.op("reshape", y, [6])), data(2, 3)) == 1


def test_outputs_that_share_memory_are_copied():
    g = Graph(param("x", 2, 3))
    y = g.op("nn.relu", g.params[0])
    assert copies(g.module(y, y, g.op("reshape", y, [6])), data(2, 3)) == 2


def test_items_of_a_tuple_have_memory_each():
    g = Graph(param("x", 2, 6))
    parts = g.op("split", g.params[0], sections=(3, 3), axis=1)
    a, b, again = (g.bind(TupleGetItem(parts, i)) for i in (0, 1, 0))
    assert copies(g.module(a, b), data(2, 6)) == 0
    assert copies(g.module(a, b, again), data(2, 6)) == 1
    assert copies(g.module(a, g.op("reshape", b, [6]), b), data(2, 6)) == 1
