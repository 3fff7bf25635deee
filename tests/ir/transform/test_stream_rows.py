"""StreamRows: bands of rows give the same numbers, no row is computed twice, and no image within a part is whole."""
import numpy as np
import pytest
from graph_check import Graph, check, const, data, param

from ingot.ir.relax import Constant
from ingot.ir.transform.fuse import fuse_ops
from ingot.ir.transform.in_place import in_place
from ingot.ir.transform.outputs import materialize_outputs
from ingot.ir.transform.pack import split_padding
from ingot.ir.transform.stream_rows import Images, Steps, Streaming, rows_of, stream_rows

REST = [fuse_ops, in_place, materialize_outputs]


def streamed(g, output, bands, first=0, passes=()):
    """The module of a Graph with all from a binding on in bands, the results checked."""
    mod, x = g.module(output), data(*(int(d) for d in g.params[0].struct_info.shape))
    for p in passes:
        mod = p(mod)
    names = [b.var.name for b in mod["main"].bindings]
    return check(mod, x, passes=[lambda m: stream_rows(m, Streaming(names[first], names[-1], bands))])


def rows_computed(mod, op):
    return sum(rows_of(b.var) for b in mod["main"].bindings if b.value.op == op)


def random_graph(rng):
    """(a Graph, its last value): convolutions, depthwise ones, pools, maps by channel and residual sums, of any
    kernels, strides and padding."""
    c, rows, columns = (int(n) for n in rng.integers((1, 9, 6), (5, 21, 14)))
    g = Graph(param("x", 1, c, rows, columns))
    x = g.params[0]
    for _ in range(rng.integers(2, 6)):
        kind, k, s = rng.choice(["conv", "depthwise", "max", "avg", "map", "sum"]), int(rng.choice([1, 2, 3, 5])), int(
            rng.choice([1, 1, 2]))
        padding = tuple(int(p) for p in rng.integers(0, k, 4))
        c, rows, columns = (d.value for d in x.struct_info.shape[1:])
        if kind in ("conv", "depthwise", "max", "avg") and (rows + padding[0] + padding[2] - k) // s >= 1 and (
                columns + padding[1] + padding[3] >= k):
            window = dict(strides=(s, s), padding=padding)
            if kind in ("max", "avg"):
                more = {"count_include_pad": bool(rng.integers(2))} if kind == "avg" else {}
                x = g.op(f"nn.{kind}_pool2d", x, pool_size=(k, k), **window, **more)
            else:
                groups = c if kind == "depthwise" else 1
                weight = const(c if groups > 1 else int(rng.integers(1, 6)), c // groups, k, k, seed=len(g.bindings))
                x = g.op("nn.conv2d", x, weight, **window, groups=groups)
        elif kind == "sum":
            y = g.op("nn.conv2d", x, const(c, c, 3, 3), padding=(1, 1, 1, 1))
            x = g.op("add", x, g.op("nn.relu", y))
        else:
            x = g.op("nn.relu", g.op("multiply", x, const(1, c, 1, 1)))
    return g, x


@pytest.mark.parametrize("seed", range(12))
def test_bands_of_random_graphs_give_the_same_numbers(seed):
    rng = np.random.default_rng(seed)
    g, last = random_graph(rng)
    passes = [split_padding] if seed % 2 else []
    mod = streamed(g, last, int(rng.integers(2, 7)), int(rng.integers(0, len(g.bindings))), passes)
    for p in REST:
        mod = p(mod)


def chain():
    """Three 3x3 convolutions, of 24, 12 and 12 rows, padded."""
    g = Graph(param("x", 1, 2, 24, 9))
    x = g.params[0]
    for n, s in enumerate((1, 2, 1)):
        x = g.op("nn.conv2d", x, const(2, 2, 3, 3, seed=n), strides=(s, s), padding=(1, 1, 1, 1))
    return g, x


@pytest.mark.parametrize("passes", [[], [split_padding]], ids=["padding", "padded"])
def test_no_row_is_computed_twice(passes):
    g, last = chain()
    assert rows_computed(streamed(g, last, 4, 0, passes), "nn.conv2d") == 24 + 12 + 12


def test_no_image_within_is_whole():
    g, last = chain()
    largest = max(rows_of(b.var) for b in streamed(g, last, 4)["main"].bindings[:-1])
    assert largest < 12


def test_values_that_others_need_stay_whole():
    g, last = chain()
    first = g.bindings[0].var
    mod = g.module(last, first)
    x = data(1, 2, 24, 9)
    mod = check(mod, x, passes=[lambda m: stream_rows(m, Streaming("conv2d", last.name, 3))])
    assert [rows_of(b.var) for b in mod["main"].bindings if b.value.op == "nn.conv2d"][0] == 24


def test_what_mixes_rows_is_not_streamed():
    g = Graph(param("x", 1, 2, 8, 8))
    x = g.op("nn.conv2d", g.params[0], const(2, 2, 3, 3))
    product = g.op("matmul", x, Constant(data(6, 6), "w"))
    whole = g.op("add", product, Constant(data(1, 2, 6, 6), "rows"))  # rows of a constant
    steps = Steps(g.module(whole)["main"])
    assert [s is not None for s in steps.steps] == [True, False, False]
    assert steps.members(0, 2) == ()


def test_branches_that_meet_wait_for_one_another():
    """The sum reads rows of x that a convolution is ahead of: they are kept."""
    g = Graph(param("x", 1, 1, 12, 4))
    x = g.op("nn.relu", g.params[0])
    y = g.op("add", x, g.op("nn.conv2d", x, const(1, 1, 3, 3), padding=(1, 1, 1, 1)))
    images = Images(Steps(g.module(y)["main"]), (0, 1, 2), 3)
    assert images.all[0].ends == [5, 9, 12] and images.all[0].starts == [0, 3, 7]
    assert rows_computed(streamed(g, y, 3), "nn.relu") == 12
