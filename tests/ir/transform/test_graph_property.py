"""Random graphs through every pass: well formed and equal in result after each, and once lowered."""
import numpy as np
from graph_check import Graph, check, const, data, execute, param
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ingot.ir.expr import Var
from ingot.ir.relax import TupleGetItem

SHAPE = (2, 3, 4, 4)


def _unary(name, **attrs):
    return lambda g, x, y, k: g.op(name, x, **attrs)


def _constant(name, first=False):
    """A constant of a shape that broadcasts, as first or second operand."""
    def step(g, x, y, k):
        shape = x.struct_info.shape
        sizes = [1 if n == 0 or k >> n & 1 else s.value for n, s in enumerate(shape)]
        sizes = sizes[k % 3:] if k % 2 else sizes
        c = const(*sizes, seed=k)
        return g.op(name, c, x) if first else g.op(name, x, c)
    return step


def _both(name):
    def step(g, x, y, k):
        same = [str(s) for s in x.struct_info.shape] == [str(s) for s in y.struct_info.shape]
        return g.op(name, x, y if same else x)
    return step


def _conv(g, x, y, k):
    if x.struct_info.ndim != 4:
        return g.op("nn.relu", x)
    channels, pad = x.struct_info.shape[1].value, k % 2
    groups = channels if k % 5 == 0 and channels == 3 else 1
    size = 1 + 2 * pad
    c = g.op("nn.conv2d", x, const(3, channels // groups, size, size, seed=pad), padding=(pad,) * 4, groups=groups)
    if k % 3:
        return c
    vectors = [const(3, seed=k + n) for n in range(4)]
    vectors[3] = vectors[3].replace(data=np.abs(vectors[3].data) + 0.5)
    return g.op("nn.batch_norm", c, *vectors)


def _matmul(g, x, y, k):
    n = x.struct_info.shape[-1].value
    return g.op("matmul", x, const(n, 4, seed=k % 3) if k % 2 else const(n, n))


def _permute(g, x, y, k):
    order = [(0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 2, 3)][k % 4]
    return g.op("permute_dims", x, axes=order) if x.struct_info.ndim == 4 else g.op("permute_dims", x, axes=(0, 2, 1))


def _reshape(g, x, y, k):
    n, *rest = x.struct_info.shape
    sizes = [d.value for d in rest]
    return g.op("reshape", x, [n, sizes[0], int(np.prod(sizes[1:]))] if len(rest) == 3 else [n, sizes[0], sizes[1], 1])


def _split(g, x, y, k):
    size = x.struct_info.shape[-1].value
    parts = g.op("split", x, sections=(size // 2, size - size // 2), axis=-1) if size > 1 else None
    if parts is None:
        return g.op("sigmoid", x)
    a, b = (g.bind(TupleGetItem(parts, i)) for i in (0, 1))
    return g.op("concat", b, a, axis=-1)


STEPS = [
    _unary("nn.relu"), _unary("sigmoid"), _unary("tanh"), _unary("clip", min=-1.0, max=1.0), _unary("erf"),
    _unary("mean", axis=(-1,), keepdims=True), _unary("nn.softmax", axis=-1), _unary("copy"),
    _constant("add"), _constant("multiply"), _constant("add", True), _constant("multiply", True), _constant("maximum"),
    _both("add"), _both("multiply"), _both("subtract"), _conv, _conv, _matmul, _permute, _reshape, _split,
]
programs = st.lists(st.tuples(st.sampled_from(range(len(STEPS))), st.integers(0, 30), st.integers(0, 30),
                              st.integers(0, 11)), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(programs, st.booleans(), st.integers(0, 3))
def test_random_graphs_survive_the_passes(program, symbolic, more):
    shape = (Var("n", "int64"), *SHAPE[1:]) if symbolic else SHAPE
    g = Graph(param("x", *shape))
    values = [g.params[0]]
    for step, a, b, k in program:
        values.append(STEPS[step](g, values[-1 - a % min(len(values), 3)], values[b % len(values)], k))
    outputs = [values[-1], *(values[-1 - k] for k in range(min(more, len(values) - 1)))]
    mod = g.module(*outputs)
    x = data(*SHAPE)
    assume(all(np.isfinite(o).all() and np.abs(o).max(initial=0) < 1e6 for o in execute(mod, x)))
    check(mod, x)
