"""SliceEarly: what is read in part is computed in part, with the same results."""
import numpy as np
import pytest
from graph_check import Graph, PASSES, check, const, data, ops, param

from ingot.ir.expr import Var
from ingot.ir.relax import Constant, TupleGetItem
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.relax.ops.recurrent import CELLS
from ingot.ir.transform.slice_early import slice_early


def index(value):
    return Constant(np.int64(value), "index")


def part(g, x, axis, begin, end, stride=1):
    return g.op("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(stride,))


def sliced(g, *outputs, inputs, passes=(slice_early,)):
    """The module after the pass, whose results are as before."""
    return check(g.module(*outputs), *inputs, passes=passes)


def shapes(mod, op):
    """The static shapes of the results of an operator's calls; of tuples the first."""
    infos = [b.value.struct_info for b in mod["main"].bindings if getattr(b.value, "op", None) == op]
    return [getattr(i, "fields", (i,))[0].static_shape for i in infos]


# ---------------------------------------------------------------- products and what follows them

@pytest.mark.parametrize("picked, rows", [
    (lambda g, y: g.op("take", y, index(0), axis=1), 1), (lambda g, y: g.op("take", y, index(-1), axis=1), 1),
    (lambda g, y: g.op("take", y, Constant(np.array([3]), "index"), axis=1), 1),
    (lambda g, y: part(g, y, 1, 2, 5), 3), (lambda g, y: part(g, y, -2, 6, None), 1),
])
def test_only_rows_that_are_read_are_computed(picked, rows):
    g = Graph(param("x", 2, 7, 4))
    y = picked(g, g.op("nn.relu", g.op("matmul", g.params[0], const(4, 5))))
    mod = sliced(g, y, inputs=[data(2, 7, 4)])
    assert shapes(mod, "matmul") == shapes(mod, "nn.relu") == [(2, rows, 5)]


def test_a_part_of_a_part_along_another_axis():
    g = Graph(param("x", 2, 7, 4))
    y = g.op("take", g.op("nn.softmax", g.params[0], axis=-1), Constant(np.array([3]), "index"), axis=1)
    mod = sliced(g, g.op("take", y, Constant(np.array([2]), "index"), axis=2), inputs=[data(2, 7, 4)])
    assert shapes(mod, "nn.softmax") == [(2, 1, 4)]


def test_a_block_of_a_transformer_is_computed_for_the_row_that_is_read():
    g = Graph(param("x", 1, 6, 8))
    x = g.op("nn.layer_norm", g.params[0], const(8), const(8, seed=1), axes=(-1,))
    y = g.op("add", g.op("matmul", x, const(8, 8)), x)
    z = g.op("nn.layer_norm", g.op("add", g.op("matmul", g.op("tanh", g.op("matmul", y, const(8, 12))), const(12, 8)),
                                   y),
             const(8), const(8, seed=1), axes=(2,))
    mod = sliced(g, g.op("matmul", g.op("take", z, index(0), axis=1), const(8, 3)), inputs=[data(1, 6, 8)])
    assert shapes(mod, "matmul") == [(1, 1, 8), (1, 1, 12), (1, 1, 8), (1, 3)]
    assert shapes(mod, "nn.layer_norm") == [(1, 1, 8)] * 2


def test_attention_is_computed_for_the_query_that_is_read():
    g = Graph(param("x", 1, 5, 8))

    def heads(seed, axes):
        rows = g.op("reshape", g.op("matmul", g.params[0], const(8, 8, seed=seed)), [1, 5, 2, 4])
        return g.op("permute_dims", rows, axes=axes)

    q, k, v = heads(0, (0, 2, 1, 3)), heads(1, (0, 2, 3, 1)), heads(2, (0, 2, 1, 3))
    scores = g.op("nn.softmax", g.op("add", g.op("matmul", q, k), const(5, 5)), axis=-1)
    y = g.op("reshape", g.op("permute_dims", g.op("matmul", scores, v), axes=(0, 2, 1, 3)), [1, 5, 8])
    mod = sliced(g, g.op("take", y, index(2), axis=1), inputs=[data(1, 5, 8)])
    assert sorted(shapes(mod, "matmul")) == [(1, 1, 8), (1, 2, 1, 4), (1, 2, 1, 5), (1, 5, 8), (1, 5, 8)]
    assert shapes(mod, "nn.softmax") == [(1, 2, 1, 5)]


def test_views_are_passed_where_the_axis_stays_one():
    g = Graph(param("x", 6, 4))
    y = g.op("matmul", g.params[0], const(4, 8))
    through = g.op("squeeze", g.op("expand_dims", g.op("reshape", y, [6, 1, 2, 4]), axis=0), axis=(2,))
    mod = sliced(g, g.op("take", through, index(1), axis=1), inputs=[data(6, 4)])
    assert shapes(mod, "matmul") == [(1, 8)]
    g = Graph(param("x", 6, 4))
    across = g.op("reshape", g.op("matmul", g.params[0], const(4, 8)), [2, 24])
    mod = sliced(g, g.op("take", across, index(1), axis=0), inputs=[data(6, 4)])
    assert shapes(mod, "matmul") == [(6, 8)]


def test_operands_of_extent_1_and_fewer_axes_stay_whole():
    g = Graph(param("x", 3, 6, 4), param("b", 1, 6, 1))
    y = g.op("matmul", g.params[0], const(4, 5))
    y = g.op("add", g.op("multiply", g.op("add", y, g.params[1]), const(5)), const(6, 5))
    mod = sliced(g, part(g, y, 1, 1, 3), inputs=[data(3, 6, 4), data(1, 6, 1)])
    assert shapes(mod, "matmul") == [(3, 2, 5)] and ops(mod).count("strided_slice") == 2


# ---------------------------------------------------------------- what stays as it is

def _read_whole(g, y):
    return g.op("take", y, index(0), axis=0), g.op("sum", y, axis=(0,))


def _two_parts(g, y):
    return g.op("take", y, index(0), axis=0), g.op("take", y, index(1), axis=0)


def _columns(g, y):
    return (part(g, y, 1, 0, 2),)


def _every_other(g, y):
    return (part(g, y, 0, 0, 6, 2),)


def _all(g, y):
    return (part(g, y, 0, 0, 6),)


@pytest.mark.parametrize("read", [_read_whole, _two_parts, _columns, _every_other, _all,
                                  lambda g, y: (g.op("take", y, index(0), axis=0), y)])
def test_a_product_stays_whole(read):
    g = Graph(param("x", 6, 4))
    outputs = read(g, g.op("matmul", g.params[0], const(4, 5)))
    assert shapes(sliced(g, *outputs, inputs=[data(6, 4)]), "matmul") == [(6, 5)]


def test_an_axis_that_a_norm_runs_along_stays_whole():
    g = Graph(param("x", 6, 4))
    y = g.op("nn.softmax", g.op("matmul", g.params[0], const(4, 5)), axis=0)
    assert shapes(sliced(g, g.op("take", y, index(0), axis=0), inputs=[data(6, 4)]), "matmul") == [(6, 5)]


def test_what_saves_nothing_stays():
    """A map after something that must be whole is fused with that, not with the slice."""
    g = Graph(param("x", 1, 3, 6, 6))
    y = g.op("nn.relu", g.op("nn.conv2d", g.params[0], const(4, 3, 3, 3)))
    mod = sliced(g, part(g, y, 1, 0, 2), inputs=[data(1, 3, 6, 6)])
    assert ops(mod) == ["nn.conv2d", "nn.relu", "strided_slice"]


def test_the_same_part_of_a_value_is_taken_once():
    g = Graph(param("x", 6, 4))
    x = g.op("exp", g.params[0])
    y = g.op("add", g.op("matmul", x, const(4, 4)), g.op("matmul", x, const(4, 4, seed=1)))
    mod = sliced(g, g.op("take", y, index(4), axis=0), g.op("sum", x, axis=(0,)), inputs=[data(6, 4)])
    assert shapes(mod, "strided_slice") == [(1, 4)]


# ---------------------------------------------------------------- recurrent layers

def layer(g, cell, direction, steps=5, hidden=3, **attrs):
    directions, gates = 1 + (direction == "bidirectional"), CELLS[cell].gates * hidden
    given = [const(directions, gates, 2), const(directions, gates, hidden), const(directions, 2 * gates)]
    given += [const(directions, 1, hidden, seed=n) for n, _ in enumerate(CELLS[cell].states)]
    return g.op(cell, g.params[0], *given, hidden_size=hidden, direction=direction, **attrs)


def run_steps(mod):
    return [b.value.struct_info.fields[0].static_shape[0] for b in mod["main"].bindings
            if isinstance(b.value, RelaxCall) and b.value.op in CELLS]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction, begin, end, expected", [
    ("forward", 0, 1, [1]), ("forward", 1, 3, [3]), ("forward", 4, 5, [5]),
    ("reverse", 0, 1, [5]), ("reverse", 1, 3, [4]), ("reverse", 4, 5, [1]),
    ("bidirectional", 0, 1, [1, 5]), ("bidirectional", 1, 3, [3, 4]), ("bidirectional", 4, 5, [5, 1]),
])
def test_time_steps_that_nothing_reads_are_not_run(cell, direction, begin, end, expected):
    g = Graph(param("x", 5, 1, 2))
    y = g.bind(TupleGetItem(layer(g, cell, direction), 0))
    mod = sliced(g, part(g, g.op("reshape", y, [5, y.struct_info.shape[1], 3]), 0, begin, end),
                 inputs=[data(5, 1, 2)], passes=(slice_early, *PASSES))
    mod = sliced(g, part(g, y, 0, begin, end), inputs=[data(5, 1, 2)])
    assert run_steps(mod) == expected


def test_each_direction_keeps_its_activations():
    g = Graph(param("x", 5, 1, 2))
    y = layer(g, "nn.rnn", "bidirectional", activations=("Relu", "Sigmoid"))
    mod = sliced(g, g.op("take", g.bind(TupleGetItem(y, 0)), index(-1), axis=0), inputs=[data(5, 1, 2)])
    assert run_steps(mod) == [5, 1]


def test_a_layer_of_layers_runs_the_steps_that_the_next_one_needs():
    g = Graph(param("x", 6, 1, 2))
    first = g.op("reshape", g.bind(TupleGetItem(layer(g, "nn.gru", "forward", 6, hidden=2), 0)), [6, 1, 2])
    second = g.op("nn.rnn", first, const(1, 3, 2), const(1, 3, 3), const(1, 6), const(1, 1, 3), hidden_size=3)
    mod = sliced(g, g.op("take", g.bind(TupleGetItem(second, 0)), index(2), axis=0), inputs=[data(6, 1, 2)])
    assert run_steps(mod) == [3, 3]


def test_layers_stay_whose_final_state_is_read_or_whose_steps_are_symbolic():
    g = Graph(param("x", 5, 1, 2))
    found = layer(g, "nn.gru", "reverse")
    y, h = (g.bind(TupleGetItem(found, n)) for n in (0, 1))
    assert run_steps(sliced(g, part(g, y, 0, 4, 5), h, inputs=[data(5, 1, 2)])) == [5]
    g = Graph(param("x", Var("t", "int64"), 1, 2))
    y = g.bind(TupleGetItem(layer(g, "nn.gru", "forward"), 0))
    assert "nn.gru" in ops(sliced(g, part(g, y, 0, 0, 1), inputs=[data(5, 1, 2)]))
