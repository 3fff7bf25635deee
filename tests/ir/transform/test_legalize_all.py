"""LegalizeOps of operators beyond those that are one function of topi: legalized, built and run they compute what
numpy does. All are functions of one module, which is built once."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.script import ir as I, tir as T, relax as R  # noqa: E741
from ingot.tvm.relax import transform


def pads(mode):
    return lambda x: R.nn.pad(x, [1, 0, 2, 1], pad_mode=mode)


def attention(q, k, v, bias=0.0, scale=None, mask=None):
    """numpy's, of [batch, sequence, heads, width]."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


def scattered(x, i, u):
    out = x.copy()
    np.add.at(out, (np.arange(len(i))[:, None], i), u)
    return out


def set_rows(x, i, u):
    out = x.copy()
    out[i[:, 0]] = u
    return out


def taken_back(g, x, i):
    out = np.zeros_like(x)
    np.add.at(out, (slice(None), i), g)
    return out


def nll_back(g, p, t, w):
    out = np.zeros_like(p)
    kept = np.where(t == 1, 0, w[t])  # 1 is ignored
    out[np.arange(len(t)), t] = -g * kept / kept.sum()
    return out


def pool_back(kind, g, x):
    """Of windows of 3 x 2 every 2, dilated by (1, 2), with a border of 1, which counts in averages."""
    out = np.zeros((*x.shape[:2], x.shape[2] + 2, x.shape[3] + 2), x.dtype)
    data = np.full_like(out, -np.inf)
    data[:, :, 1:-1, 1:-1] = x
    for n, c, y, z in np.ndindex(g.shape):
        rows, columns = np.arange(3)[:, None] + 2 * y, 2 * np.arange(2) + 2 * z
        if kind == "avg":
            out[n, c, rows, columns] += g[n, c, y, z] / 6
        else:
            window = data[n, c][rows, columns]
            at = np.unravel_index(window.argmax(), window.shape)
            out[n, c, rows[at[0], 0], columns[at[1]]] += g[n, c, y, z]
    return out[:, :, 1:-1, 1:-1]


def pool_grad(kind):
    more = {"count_include_pad": True} if kind == "avg" else {}
    return lambda g, x: getattr(R.grad, f"{kind}_pool2d_backward")(g, x, (3, 2), (2, 2), (1, 1, 1, 1), (1, 2), **more)


Q, K, V = (1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 6)
I64, N = "int64", "n"
EARLIER, SLIDING = np.tri(3, 5, dtype=bool), np.tri(3, 5, 2, dtype=bool) & ~np.tri(3, 5, 0, dtype=bool)
# name -> (what is called, numpy's, shape or (shape, dtype) of each operand; "n" is a dimension of the run, 3)
CASES = {
    "attention": (R.nn.attention, attention, Q, K, V),
    "attention_bias": (lambda q, k, v, b: R.nn.attention(q, k, v, b, scale=0.3, causal_mask="TopLeft"),
                       lambda q, k, v, b: attention(q, k, v, b, 0.3, EARLIER), Q, K, V, (1, 2, 3, 5)),
    "attention_window": (lambda q, k, v: R.nn.attention(q, k, v, causal_mask="BottomRight", window_size=2),
                         lambda q, k, v: attention(q, k, v, mask=SLIDING), Q, K, V),
    "resize2d": (lambda x: R.image.resize2d(x, (6, 8), method="nearest_neighbor"),
                 lambda x: x.repeat(2, 2).repeat(2, 3), (1, 2, 3, 4)),
    "scatter_elements": (lambda x, i, u: R.scatter_elements(x, i, u, axis=1, reduction="add"), scattered,
                         (3, 4), ((3, 2), I64), (3, 2)),
    "scatter_nd": (R.scatter_nd, set_rows, (3, 3), ((3, 1), I64), (3, 3)),
    "gather_nd": (R.gather_nd, lambda x, i: x[i[:, 0], i[:, 1]], (3, 3, 2), ((2, 2), I64)),
    "gather_nd_batch": (lambda x, i: R.gather_nd(x, i, 1), lambda x, i: x[[0, 1], i[:, 0]], (2, 3, 2), ((2, 1), I64)),
    "sort": (lambda x: R.sort(x, axis=0, descending=True), lambda x: -np.sort(-x, 0), (4, 3)),
    "argsort": (lambda x: R.argsort(x, dtype="int64"), np.argsort, (2, 5)),
    "topk": (lambda x: R.topk(x, 2, largest=False), lambda x: (np.sort(x)[:, :2], np.argsort(x)[:, :2].astype("int32")),
             (2, 5)),
    "one_hot": (lambda i: R.one_hot(i, R.prim_value(1.0), R.prim_value(0.5), 4),
                lambda i: np.maximum(np.eye(4, dtype="float32")[i], np.float32(0.5)), ((3,), I64)),
    "layout_transform": (lambda x: R.layout_transform(x, index_map=lambda a, b: (b // 2, a, b % 2)),
                         lambda x: x.reshape(2, 2, 2).transpose(1, 0, 2), (2, 4)),
    "layout_pad": (lambda x: R.layout_transform(x, index_map=lambda a, b: (b // 3, a, b % 3), pad_value=2.0),
                   lambda x: np.pad(x, ((0, 0), (0, 2)), constant_values=2).reshape(2, 2, 3).transpose(1, 0, 2), (2, 4)),
    **{f"pad_{mode}": (pads(mode), lambda x, mode=mode: np.pad(x, ((1, 0), (2, 1)), mode), (2, 3)) for mode in (
        "edge", "wrap", "reflect")},
    "einsum_diagonal": (lambda x: R.einsum((x,), "ii->i"), np.diagonal, (N, N)),
    "einsum_sum": (lambda x: R.einsum((x,), "iji->j"), lambda x: np.einsum("iji->j", x), (3, 2, 3)),
    "einsum": (lambda x, y: R.einsum((x, y), "...j,jk->...k"), np.matmul, (2, N, 4), (4, 5)),
    "full_like": (lambda x: R.full_like(x, R.const(-1, "int32")), lambda x: np.full_like(x, 255), ((2, 3), "uint8")),
    "cross_entropy": (R.nn.cross_entropy_with_logits, lambda p, y: -np.sum(p * y) / 3, (N, 2), (N, 2)),
    "cumsum": (lambda x: R.cumsum(x, 1), lambda x: x.cumsum(1), (2, 5)),
    "repeat": (lambda x: R.repeat(x, 2), lambda x: x.repeat(2), (N, 2)),
    "repeat_axis": (lambda x: R.repeat(x, 3, 1), lambda x: x.repeat(3, 1), (2, N)),
    "tile": (lambda x: R.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (2, N)),
    "tile_last": (lambda x: R.tile(x, 2), lambda x: np.tile(x, 2), (N, 2)),
    "collapse_sum_to": (lambda x: R.collapse_sum_to(x, (2, 1)), lambda x: x.sum((0, 2))[:, None], (3, 2, 3)),
    "collapse_sum_like": (R.collapse_sum_like, lambda x, _: x.sum((0, 1))[None], (3, 2, N), (1, N)),
    "softplus": (lambda x: R.nn.softplus(x, 2.0, 5.0), lambda x: np.log1p(np.exp(2 * x)) / 2, (2, 3)),
    "isnan": (R.isnan, np.isnan, (2, 3)),
    "stack": (lambda x, y: R.stack([x, y], 1), lambda *t: np.stack(t, 1), (2,), (2,)),
    "take_value": (lambda x: R.take(x, R.prim_value(1), 1), lambda x: x[:, 1], (N, 3)),
    "slice_held": (lambda x: R.strided_slice(x, [0], [1], [9], [1]), lambda x: x[1:9], (N, 2)),
    "slice_of_steps": (lambda x: R.strided_slice(x, [1, 0], [0, 1], [2, 5], [1, 2]), lambda x: x[1:5:2, :2], (N, 4)),
    "slice_from_the_end": (lambda x: R.strided_slice(x, [0], [-2], [9]), lambda x: x[-2:], (N, 2)),
    "slice_down": (lambda x: R.strided_slice(x, [0], [7], [0], [-1]), lambda x: x[7:0:-1], (N, 2)),
    "dynamic_slice": (R.dynamic_strided_slice, lambda x, *_: x[3:0:-1, 1:5:2], (4, 5), *[((2,), I64)] * 3),
    "adaptive_max_pool2d": (R.nn.adaptive_max_pool2d, lambda x: x, (1, 2, 3, 4)),
    "take_backward": (lambda g, x, i: R.grad.take_backward(g, x, i, axis=1), taken_back, (2, 3, 2), (2, 4, 2), ((3,), I64)),
    "nll_loss_backward": (lambda g, p, t, w: R.grad.nll_loss_backward(g, p, t, w, ignore_index=1), nll_back, (), (4, 3),
                          ((4,), I64), (3,)),
    **{f"{kind}_pool2d_backward": (pool_grad(kind), lambda g, x, kind=kind: pool_back(kind, g, x), (1, 2, 3, 2), (1, 2, 5, 4))
       for kind in ("max", "avg")},
    "log_softmax_of_none": (lambda x: R.nn.log_softmax(x, 1), lambda x: x, (2, 0)),
}
INDICES = {"scatter_elements": ([[0, 2], [1, 1], [3, 0]],), "scatter_nd": ([[2], [0], [1]],),
           "gather_nd": ([[0, 2], [2, 1]],), "gather_nd_batch": ([[2], [0]],), "one_hot": ([0, 3, 2],),
           "take_backward": ([3, 0, 3],), "nll_loss_backward": ([0, 2, 1, 2],),
           "dynamic_slice": ([3, 1], [0, 5], [-1, 2])}


def infos_of(name):
    n = tvm.tir.Var(N, "int64")
    for given in CASES[name][2:]:
        shape, dtype = given if given[1:] and isinstance(given[1], str) and given[1] != N else (given, "float32")
        yield relax.TensorStructInfo(tuple(n if d == N else d for d in shape), dtype)


def data_of(name):
    rng, indices = np.random.default_rng(len(name)), iter(INDICES.get(name, ()))
    return [np.array(next(indices), I64) if info.dtype == I64 else rng.normal(
        size=[getattr(d, "value", 3) for d in info.shape]).astype(str(info.dtype)) for info in infos_of(name)]


@pytest.fixture(scope="module")
def before():
    builder = relax.BlockBuilder()
    for name, (call, *_) in CASES.items():
        params = [relax.Var(f"x{n}", info) for n, info in enumerate(infos_of(name))]
        with builder.function(name, params):
            with builder.dataflow():
                result = builder.emit_output(call(*params))
            builder.emit_func_output(result)
    return builder.get()


@pytest.fixture(scope="module")
def after(before):
    return transform.LegalizeOps()(before)


@pytest.fixture(scope="module")
def machine(after):
    return relax.VirtualMachine(relax.build(after, "c"), tvm.cpu())


@pytest.mark.parametrize("name", CASES)
def test_same_numbers(name, after, machine):
    ops = {str(b.value.op) for block in after[name].body.blocks for b in block.bindings
           if isinstance(b.value, relax.Call)}
    assert ops <= {"call_tir", "call_pure_packed"} and "call_tir" in ops
    data = data_of(name)
    want, found = CASES[name][1](*data), machine[name](*map(tvm.nd.array, data))
    pairs = zip(want, found) if isinstance(want, tuple) else [(want, found)]
    for a, b in pairs:
        a = np.asarray(a)
        assert (b.shape, b.dtype) == (a.shape, a.dtype)
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-4, atol=1e-5)


def test_names(after):
    """TVM's, of functions and of what they compute."""
    assert {"attention", "attention_bias", "scatter_elements", "einsum", "collapse_sum", "te_layout_transform",
            "te_layout_transform_with_pad", "shape_func", "dynamic_strided_slice"} <= set(after.functions)


@I.ir_module
class Last:
    @R.function
    def main(x: R.Tensor((2, "n"), "float32")):
        n = T.Var("n", "int64")  # that of the signature
        with R.dataflow():
            y = R.take(x, R.prim_value(n - 1), axis=1)
            R.output(y)
        return y


@pytest.mark.parametrize("mod", [Last, transform.LegalizeOps()(Last)], ids=["operators", "legalized"])
def test_take_at_a_dimension(mod):
    x = np.arange(6, dtype="float32").reshape(2, 3)
    found = relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())["main"](tvm.nd.array(x))
    np.testing.assert_array_equal(found.numpy(), x[:, 2])


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("size, extent, dtype", [("5", 5, "int64"), ('"n"', 200, "int8"), ("200", 200, "uint8")])
def test_take_holds_indices_in_its_mode_with_and_without_the_pass(mode, size, extent, dtype):
    """Also an int8 or uint8 where these do not hold the extent, and indices that a run would else refuse."""
    mod = tvm.script.from_source(f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({size}, 2), "float32"), i: R.Tensor((4,), "{dtype}")):
        return R.take(x, i, axis=-2, mode="{mode}")
""")
    x, at = np.arange(2 * extent, dtype=np.float32).reshape(-1, 2), np.array([-1, 7, -9, 100]).astype(dtype)
    for form in (mod, relax.transform.LegalizeOps()(mod)):
        found = tvm.compile(form, "c")(x, at)
        np.testing.assert_array_equal(found, np.take(x, at.astype("int64"), axis=0, mode=mode))


def test_what_no_row_computes_is_built_without_the_pass():
    """Beside operators that a network computes, and where a run tells the shape."""
    mod = tvm.script.from_source("""
@I.ir_module
class M:
    @R.function
    def main(g: R.Tensor((2, 3), "float32"), x: R.Tensor((5, 3), "float32"), i: R.Tensor((2,), "int64")):
        y = R.grad.take_backward(g, x, i, axis=0)
        return R.add(y, x)

    @R.function
    def part(x: R.Tensor((5, 3), "float32"), b: R.Tensor((2,), "int64"), e: R.Tensor((2,), "int64"),
             s: R.Tensor((2,), "int64")):
        y = R.dynamic_strided_slice(x, b, e, s)
        return y
""")
    rng = np.random.default_rng(0)
    g, x, i = rng.random((2, 3), np.float32), rng.random((5, 3), np.float32), np.array([4, 4])
    expected = x.copy()
    np.add.at(expected, i, g)
    vm = relax.VirtualMachine(tvm.compile(mod, "c"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](*map(tvm.nd.array, (g, x, i))).numpy(), expected, rtol=1e-6)
    bounds = (np.array([4, 0]), np.array([1, 3]), np.array([-1, 2]))
    np.testing.assert_array_equal(vm["part"](*map(tvm.nd.array, (x, *bounds))).numpy(), x[4:1:-1, 0:3:2])
