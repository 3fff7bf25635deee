"""The program: operands, lives, weights, names."""
import numpy as np
import pytest

import ingot
from ingot.codegen.memory_plan import Buffer, MemoryPlan, Region
from ingot.codegen.blob import blob_of
from ingot.codegen.program import build_program, lasting_borders, without_repetitions
from ingot.codegen.tree import Call, Operand
from ingot.ir.arith import Analyzer
from ingot.ir.expr import Var, const, substitute
from ingot.ir.module import IRModule
from ingot.ir.relax import (Constant, DataflowVar, RelaxVar, TensorStructInfo, TupleGetItem, VarBinding, call_op,
                            dataflow_function)
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.tir.buffer import decl_buffer
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.outputs import materialize_outputs

N = Var("n", "int64")


def param(name, *shape, dtype="float32"):
    return RelaxVar(name, TensorStructInfo(shape, dtype))


def weight(*shape, seed=0, name="w"):
    return Constant(np.random.default_rng(seed).random(shape, np.float32), name)


class Network:
    """net.op("nn.relu", x) binds a call; net.program(outputs) is what the lowered module becomes."""

    def __init__(self, *params):
        self.params, self.bindings = params, []

    def op(self, name, *args, **attrs):
        return self.bind(call_op(name, *args, **attrs), name.rpartition(".")[2])

    def bind(self, value, name="item"):
        var = DataflowVar(f"{name}_{len(self.bindings)}", value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    def module(self, *outputs, **attrs):
        main = dataflow_function(self.params, self.bindings, outputs, attrs)
        return lower_ops(materialize_outputs(IRModule({"main": main})))

    def program(self, *outputs, **attrs):
        return build_program(self.module(*outputs, **attrs), "net")


def operands(call):
    return [(o.kind, o.index) for o in call.operands]


def test_a_chain():
    net = Network(param("x", 2, 3))
    w = weight(3, 3)
    y = net.op("exp", net.op("matmul", net.op("nn.relu", net.params[0]), w))
    program = net.program(y)
    assert [c.kernel for c in program.calls] == ["relu", "matmul", "exp"]
    assert [operands(c) for c in program.calls] == [
        [("input", 0), ("arena", 0)], [("arena", 0), ("weight", 0), ("arena", 1)], [("arena", 1), ("output", 0)]]
    assert [b.life for b in program.plan.buffers] == [((0, 1),), ((1, 2),)]
    assert program.calls[1].comment == "matmul_1: [2, 3]"
    assert program.buffer_dtypes == ("float32", "float32") and program.inputs[0].shape == (2, 3)


def test_views_share_memory_and_keep_it_alive():
    net = Network(param("x", 2, 6))
    a = net.op("nn.relu", net.params[0])
    view = net.op("reshape", net.op("reshape", a, [12]), [3, 4])
    b = net.op("exp", net.op("tanh", net.params[0]))
    out = net.op("concat", view, net.op("reshape", b, [3, 4]), axis=0)
    program = net.program(net.op("reshape", out, [24]))
    assert [operands(c) for c in program.calls][-1] == [("arena", 0), ("arena", 2), ("output", 0)]
    assert [b.life for b in program.plan.buffers] == [((0, 3),), ((1, 2),), ((2, 3),)]
    assert program.outputs[0].shape == (24,)


def test_items_of_tuples_and_unused_results():
    net = Network(param("x", 2, 6))
    parts = net.op("split", net.params[0], sections=(1, 2, 3), axis=1)
    first, last = (net.bind(TupleGetItem(parts, i)) for i in (0, 2))
    program = net.program(last, net.op("exp", first))
    assert operands(program.calls[0]) == [("input", 0), ("arena", 0), ("arena", 1), ("output", 0)]
    assert operands(program.calls[1]) == [("arena", 0), ("output", 1)]
    assert [b.life for b in program.plan.buffers] == [((0, 1),), ((0, 0),)]


def test_an_output_may_be_read_again():
    net = Network(param("x", 4))
    y = net.op("nn.relu", net.params[0])
    program = net.program(y, net.op("exp", y), net.params[0])
    assert [operands(c) for c in program.calls] == [
        [("input", 0), ("output", 0)], [("output", 0), ("output", 1)], [("input", 0), ("output", 2)]]


def test_outputs_need_memory_of_their_own():
    x = param("x", 4)
    for outputs in ([x], [x, x]):
        with pytest.raises(ValueError, match="output x has no memory of its own; run materialize_outputs"):
            build_program(lower_ops(IRModule({"main": dataflow_function([x], [], outputs)})), "net")


def test_weights_are_stored_once_aligned_and_little_endian():
    net = Network(param("x", 2, 3))
    w, bias = weight(3, 3), weight(3, seed=1, name="b")
    y = net.op("matmul", net.op("add", net.op("matmul", net.params[0], w), bias), w)
    transposed = Constant(w.data.T, "t")
    program = net.program(net.op("matmul", y, transposed))
    assert [(v.name, v.offset) for v in program.weights] == [("w", 0), ("b", 64), ("t", 128)]
    blob = blob_of([v.data for v in program.weights], "little")
    assert len(blob) == program.weights_bytes == 192
    np.testing.assert_array_equal(np.frombuffer(blob, "<f4", 9).reshape(3, 3), w.data)
    np.testing.assert_array_equal(np.frombuffer(blob, "<f4", 9, 128).reshape(3, 3), w.data.T)
    assert blob[36:64] == bytes(28)
    big = blob_of([v.data for v in program.weights], "big")
    np.testing.assert_array_equal(np.frombuffer(big, ">f4", 9, 128).reshape(3, 3), w.data.T)


def test_no_weights():
    net = Network(param("x", 2))
    program = net.program(net.op("exp", net.params[0]))
    assert program.weights == () and program.weights_bytes == 0


def test_names_are_identifiers_and_distinct():
    net = Network(param("x", 2), param("y", 2))
    a, b = net.op("exp", net.params[0]), net.op("tanh", net.params[1])
    program = net.program(a, b, input_names=("data:0", "data/0"), output_names=("data.0", "net"))
    names = [t.name for t in (*program.inputs, *program.outputs)]
    assert len(set(names)) == 4 and all(n.isidentifier() for n in names) and "net" not in names
    assert [t.source_name for t in program.inputs] == ["data:0", "data/0"]


def test_symbolic_dimensions():
    net = Network(param("x", N, 3, N + 1))
    y = net.op("exp", net.op("nn.relu", net.params[0]))
    program = net.program(y)
    assert program.dims == (N,) and program.inputs[0].shape == ("n", 3, "n + 1")
    assert all(c.dims == (N,) for c in program.calls)
    size = Analyzer().simplify(substitute(program.plan.buffers[0].bytes, {N: const(4, "int64")}))
    assert size.value == 4 * 4 * 3 * 5
    assert program.calls[0].comment == "relu_0: [n, 3, n + 1]"


def test_declared_dimensions_keep_their_order():
    m = Var("m", "int64")
    net = Network(param("x", m, 3), param("y", N, 3))
    mod = net.module(net.op("exp", net.params[0]), net.op("exp", net.params[1]))
    assert build_program(mod, "net").dims == (m, N)
    assert build_program(mod.with_attr("dims", (N, m)), "net").dims == (N, m)


def test_workspace_follows_the_results_in_the_dimensions_of_the_call():
    """One kernel called with two dimensions: its workspace has the size that each call asks for."""
    m = Var("m", "int64")
    net = Network(param("x", N, 3), param("y", m, 3))
    mod = net.module(net.op("exp", net.params[0]), net.op("exp", net.params[1]))
    func = mod["exp"]
    own = func.params[-1]
    handle, scratch = Var("scratch", "handle"), decl_buffer((own * 7,), "float32", "scratch")
    func = func.replace(params=(*func.params[:-1], handle, own), buffer_map={**func.buffer_map, handle: scratch},
                        attrs={**func.attrs, "num_workspace": 1})
    program = build_program(mod.with_function("exp", func), "net")
    assert [operands(c) for c in program.calls] == [[("input", 0), ("output", 0), ("arena", 0)],
                                                    [("input", 1), ("output", 1), ("arena", 1)]]
    sizes = [Analyzer().simplify(substitute(b.bytes, {N: const(2, "int64"), m: const(5, "int64")})).value
             for b in program.plan.buffers]
    assert sizes == [2 * 7 * 4, 5 * 7 * 4]
    assert [b.life for b in program.plan.buffers] == [((0, 0),), ((1, 1),)]


# ---------------------------------------------------------------- borders

def border_calls(layers):
    """How many borders are written once and how many in each run, in a chain of convolutions of one shape, joined at
    the end or with other tensors in between. layers: "conv", "wide" (another shape) or "keep" (the value lives on)."""
    x = RelaxVar("x", TensorStructInfo((1, 3, 6, 6), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y, kept = bb.emit(call_op("nn.relu", x)), []
        for n, kind in enumerate(layers):
            channels = y.struct_info.shape[1].value
            if kind == "keep":
                kept.append(y)
                continue
            weights = weight(5 if kind == "wide" else 3, channels, 3, 3, seed=n)
            y = bb.emit(call_op("nn.conv2d", y, weights, padding=(1, 1, 1, 1)))
            y = bb.emit(call_op("nn.relu", y))
        for other in kept:
            y = bb.emit(call_op("add", y, other))
        bb.emit_func_output(y)
    mod = bb.get()
    with ingot.compile(mod, threads="none", opt_level=1) as library:
        data = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
        for _ in range(3):  # each finds what the one before left in the arena
            np.testing.assert_allclose(library(data), evaluate(mod, [data]), rtol=1e-4, atol=1e-3)
        program = library.model.program
        return len(program.once), sum(call.border for call in program.calls)


@pytest.mark.parametrize("layers, borders", [
    (["conv"], (1, 0)), (["conv", "conv"], (2, 0)), (["conv"] * 5, (2, 0)), (["conv"] * 4 + ["wide", "conv"], (1, 2)),
    (["conv", "wide"] * 3, (1, 2)), (["conv", "keep", "conv"] * 2, (3, 0)),
])
def test_a_border_that_is_still_there_is_not_written_again(layers, borders):
    assert border_calls(layers) == borders


def test_a_border_is_written_before_what_lies_inside():
    """So that nobody waits between both: threads write the inside while one of them writes the border."""
    x = RelaxVar("x", TensorStructInfo((1, 3, 6, 6), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        inside = bb.emit(call_op("nn.relu", x))
        other = bb.emit(call_op("nn.max_pool2d", x, pool_size=(3, 3), strides=(1, 1), padding=(1, 1, 1, 1)))
        y = bb.emit(call_op("nn.conv2d", inside, weight(3, 3, 3, 3), padding=(1, 1, 1, 1)))
        y = bb.emit(call_op("add", y, other))
        for channels in ((12, 3), (3, 12)):  # more of them lie where the border was
            y = bb.emit(call_op("nn.relu", bb.emit(call_op("nn.conv2d", y, weight(*channels, 1, 1)))))
        bb.emit_func_output(y)
    mod = bb.get()
    with ingot.compile(mod, threads="none", opt_level=1) as library:
        calls = library.model.program.calls
        at, = (n for n, call in enumerate(calls) if call.border)
        assert calls[at + 1].operands[calls[at + 1].reads].index == calls[at].operands[0].index
        data = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
        np.testing.assert_allclose(library(data), evaluate(mod, [data]), rtol=1e-4, atol=1e-3)


def _border(kernel, index, dims=()):
    return Call(kernel, (Operand("arena", index),), dims, "", True)


def test_what_lay_between_two_borders_decides():
    """Buffers 0 and 1 at one place, 2 over its end in between, 3 beside it."""
    def plan(*lives):
        sizes = [const(64, "int64")] * 4
        buffers = tuple(Buffer("b", size, (life,)) for size, life in zip(sizes, lives))
        return MemoryPlan(buffers, (Region(const(1), 256, 256),), ((0, 0), (0, 0), (0, 32), (0, 64)))

    between, others = plan((0, 1), (3, 4), (2, 2), (0, 4)), [Call("k", (Operand("arena", 3),), (), "")] * 2
    after = plan((0, 1), (3, 4), (4, 5), (0, 4))
    same = [_border("border", 0), *others, _border("border", 1)]
    assert without_repetitions(same, between) == same
    assert without_repetitions(same, after) == same[:3]
    other_kernel = [_border("border", 0), *others, _border("other", 1)]
    assert without_repetitions(other_kernel, after) == other_kernel
    inner = Call("border", (Operand("arena", 1, offset=const(4)),), (), "", True)
    assert without_repetitions([*same[:3], inner], after) == [*same[:3], inner]


def test_borders_that_nothing_covers_last():
    """Buffers 0 and 1 at one place, 2 elsewhere, 3 over the end of 2."""
    buffers = tuple(Buffer("b", const(64, "int64"), ((n, n + 1),)) for n in range(4))
    plan = MemoryPlan(buffers, (Region(const(1), 256, 256),), ((0, 0), (0, 0), (0, 64), (0, 96)))
    calls = [_border("border", 0), _border("border", 1), _border("border", 2)]
    assert lasting_borders(calls, plan) == {("border", (0, 0))}
    assert lasting_borders([calls[0], _border("other", 1)], plan) == set()
    assert lasting_borders([calls[0]], plan) == set()  # 1 is without one
    assert lasting_borders([_border("border", 0, dims=(N,))], plan) == set()


def test_names_end_no_comment():
    """Neither that of a kernel, nor those of its calls, in a run or of a new instance."""
    x = RelaxVar("x", TensorStructInfo((1, 3, 6, 6), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("nn.relu", x), "a*/b")
        bb.emit_func_output(bb.emit(call_op("nn.conv2d", y, weight(3, 3, 3, 3), padding=(1, 1, 1, 1)), "*/"))
    mod = bb.get()
    with ingot.compile(mod, threads="none", opt_level=1) as library:
        assert any("*/" in call.comment for call in library.model.program.once)
        data = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
        np.testing.assert_allclose(library(data), evaluate(mod, [data]), rtol=1e-4, atol=1e-3)


def test_buffers_of_symbolic_size_may_meet():
    buffers = (Buffer("a", N * 4, ((0, 1),)), Buffer("b", N * 4, ((2, 3),)), Buffer("c", const(64, "int64"), ((0, 3),)))
    plan = MemoryPlan(buffers, (Region(const(1), 64, 64), Region(N, 8, 8)), ((1, 0), (1, 4), (0, 0)))
    assert plan.meet(0, 1) and not plan.meet(0, 2)
