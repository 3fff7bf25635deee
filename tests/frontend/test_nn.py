"""relax.frontend.nn: modules exported as graph functions compute what numpy does."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, te
from ingot.relax.frontend import nn
from ingot.relax.frontend.nn import op, spec
from ingot.script import tir as T

RNG = np.random.default_rng(0)


class MLP(nn.Module):
    def __init__(self, act=None):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(16, 32), act or nn.ReLU(), nn.Linear(32, 10)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


def values(params):
    return {name: RNG.standard_normal(p.shape).astype(p.dtype) for name, p in params}


def mlp(w, x):
    hidden = np.maximum(x @ w["fc1.weight"].T + w["fc1.bias"], 0)
    return hidden @ w["fc2.weight"].T + w["fc2.bias"]


def run(module, given, arrays, weights=None):
    """What a module's forward gives for arrays, compiled. weights: {name: array}, by default random ones."""
    mod, params = module.export_tvm({"forward": given})
    weights = values(params) if weights is None else weights
    mod = relax.transform.BindParams("forward", weights)(mod)
    out = relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())["forward"](*arrays)
    return [o.numpy() for o in out] if isinstance(out, list) else out.numpy()


X = spec.Tensor((2, 16), "float32")


# ---------------------------------------------------------------- from a module to C

def test_two_layers_run_as_numpy_has_them():
    mod, params = MLP().export_tvm({"forward": {"x": X}})
    assert [n for n, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert [p.name for p in mod["forward"].params] == ["x", *(n for n, _ in params)]
    assert mod["forward"].attrs["num_input"] == 1
    w, x = values(params), RNG.random((2, 16), np.float32)
    vm = relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())
    np.testing.assert_allclose(vm["forward"](x, *w.values()).numpy(), mlp(w, x), rtol=1e-4, atol=1e-5)


def test_a_module_becomes_a_folder_of_c(tmp_path):
    mod, params = MLP().export_tvm({"forward": {"x": X}})
    w, x = values(params), RNG.random((2, 16), np.float32)
    lib = tvm.compile(relax.transform.BindParams("forward", w)(mod), target="c", name="mlp")
    np.testing.assert_allclose(lib(x), mlp(w, x), rtol=1e-4, atol=1e-5)
    lib.export(tmp_path)
    assert "mlp_run(mlp *net, const float *x" in (tmp_path / "mlp.h").read_text()


def test_jit_binds_parameters_and_takes_any_size():
    net = MLP()
    given = {"forward": {"x": spec.Tensor(("n", 16), "float32")}}
    with pytest.raises(ValueError, match="not set to any concrete values: fc1.weight"):
        net.jit(given, out_format="numpy")
    w = values(net.named_parameters())
    for name, param in net.named_parameters():
        param.data = w[name]
    made = net.jit(given, out_format="numpy")
    for rows in (1, 5):
        x = RNG.random((rows, 16), np.float32)
        np.testing.assert_allclose(made["forward"](x), mlp(w, x), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="Expected 1 arguments, but got 2"):
        made["forward"](x, x)
    with pytest.raises(ValueError, match="`other` is not found"):
        made["other"]


def test_subroutines_are_functions_that_compute_the_same():
    class Act(nn.Module):
        define_subroutine = True

        def forward(self, x):
            return op.relu(x)

    class Twice(MLP):
        define_subroutine = True

    mod, params = Twice(Act()).export_tvm({"forward": {"x": X}})
    assert sorted(map(str, mod.functions)) == ["act", "forward", "twice"]
    w, x = values(params), RNG.random((2, 16), np.float32)
    got = run(Twice(Act()), {"x": X}, [x], w)
    np.testing.assert_allclose(got, mlp(w, x), rtol=1e-4, atol=1e-5)


def test_layers_of_one_class_share_a_subroutine():
    class Scale(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.w = nn.Parameter((4,))

        def forward(self, x):
            return op.multiply(x, self.w)

    class Net(nn.Module):
        def __init__(self):
            self.first, self.second = Scale(), Scale()

        def forward(self, x):
            return self.second(self.first(x))

    mod, _ = Net().export_tvm({"forward": {"x": spec.Tensor((2, 4), "float32")}})
    assert sorted(map(str, mod.functions)) == ["forward", "scale"]
    x, first, second = (RNG.random(n, np.float32) for n in ((2, 4), 4, 4))
    got = run(Net(), {"x": spec.Tensor((2, 4), "float32")}, [x], {"first.w": first, "second.w": second})
    np.testing.assert_allclose(got, x * first * second, rtol=1e-6)


# ---------------------------------------------------------------- operators and layers

def test_operators_of_the_table_compute_what_their_names_say():
    class Many(nn.Module):
        def forward(self, x, y, i):
            low, high = op.split(x, 2, axis=1)
            return [x + 2 - y * 0.5, 1 / x, op.concat([x, y], 0), low, high, op.sum(x, 1, True), op.max(y),
                    op.unsqueeze(x, 1).repeat(2, 1), op.take(x, i, axis=1), op.astype(op.less(x, y), "int32"),
                    op.where(op.greater(x, y), x, y), op.softmax(x), op.square(x), op.negative(y), op.triu(x),
                    op.pad(x, [0, 0, 1, 1]), op.softplus(y, beta=2.0, threshold=0.5), op.cumsum(x, 1),
                    op.full((2, 2), 3.0), x.permute_dims(1, 0), x.reshape(4, 2), op.sort(x), op.argsort(y),
                    *op.topk(x, 2)]

    x, y, i = RNG.random((2, 4), np.float32) + 0.5, RNG.random((2, 4), np.float32), np.array([3, 0, 3], np.int32)
    exp, order = np.exp(x), np.argsort(-x, 1)[:, :2]
    expected = [x + 2 - y * 0.5, 1 / x, np.concatenate([x, y]), x[:, :2], x[:, 2:], x.sum(1, keepdims=True), y.max(),
                np.repeat(x[:, None], 2, 1), x[:, i], (x < y).astype("int32"), np.maximum(x, y),
                exp / exp.sum(1, keepdims=True), x * x, -y, np.triu(x), np.pad(x, ((0, 0), (1, 1))),
                np.where(2 * y > 0.5, y, np.log1p(np.exp(2 * y)) / 2), x.cumsum(1), np.full((2, 2), 3.0), x.T,
                x.reshape(4, 2), np.sort(x), np.argsort(y), np.take_along_axis(x, order, 1), order]
    tensor = spec.Tensor((2, 4), "float32")
    got = run(Many(), {"x": tensor, "y": tensor, "i": spec.Tensor((3,), "int32")}, [x, y, i])
    assert len(got) == len(expected)
    for n, (a, b) in enumerate(zip(got, expected)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=f"result {n}")


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_norms_and_embedding():
    class Norms(nn.Module):
        def __init__(self):
            self.table, self.layer = nn.Embedding(7, 8), nn.LayerNorm(8)
            self.rms, self.group = nn.RMSNorm(8, [-1], bias=True), nn.GroupNorm(2, 4, affine=False)

        def forward(self, i):
            x = self.table(i)
            return x, self.layer(x), self.rms(x), self.group(x)

    net, i = Norms(), np.array([[1, 6, 0, 3]] * 2, np.int32)
    w = values(net.named_parameters())
    x, layer, rms, group = run(net, {"i": spec.Tensor((2, 4), "int32")}, [i], w)
    np.testing.assert_array_equal(x, w["table.weight"][i])
    np.testing.assert_allclose(layer, normal(x, -1) * w["layer.weight"] + w["layer.bias"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rms, x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w["rms.weight"]
                               + w["rms.bias"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(group, normal(x.reshape(2, 2, 2, 8), (2, 3)).reshape(x.shape), rtol=1e-4, atol=1e-5)


def convolved(x, w, bias):
    """A convolution over all axes behind the first two, without padding."""
    kernel = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(2, x.ndim)))
    axes = [1, *range(x.ndim, 2 * x.ndim - 2)]
    out = np.moveaxis(np.tensordot(windows, w, (axes, range(1, w.ndim))), -1, 1)
    return out + bias.reshape(-1, *[1] * len(kernel))


@pytest.mark.parametrize("layer, rank", [(nn.Conv1D, 1), (nn.Conv2D, 2), (nn.Conv3D, 3)])
def test_convolutions(layer, rank):
    net, x = layer(3, 4, 2), RNG.random((1, 3, *[5] * rank), np.float32)
    w = values(net.named_parameters())
    got = run(net, {"x": spec.Tensor(x.shape, "float32")}, [x], w)
    np.testing.assert_allclose(got, convolved(x, w["weight"], w["bias"]), rtol=1e-4, atol=1e-5)


def test_transposed_convolution_and_resizing():
    class Up(nn.Module):
        def __init__(self):
            self.up = nn.ConvTranspose1D(2, 3, 2, stride=2)

        def forward(self, x, image):
            return self.up(x), op.interpolate(image, size=(1, 4), mode="bilinear"), op.interpolate(image, scale_factor=2)

    net, x, image = Up(), RNG.random((1, 2, 4), np.float32), np.array([1, 5], np.float32).reshape(1, 1, 1, 2)
    w = values(net.named_parameters())
    up, large, repeated = run(net, {"x": spec.Tensor(x.shape, "float32"), "image": spec.Tensor(image.shape, "float32")},
                    [x, image], w)
    expected = np.einsum("ncw,cok->nowk", x, w["up.weight"]).reshape(1, 3, 8) + w["up.bias"].reshape(-1, 1)
    np.testing.assert_allclose(up, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(large.ravel(), [1, 2, 4, 5], rtol=1e-5)
    assert repeated.ravel().tolist() == [1, 1, 5, 5] * 2


def test_attention_and_timesteps():
    class Both(nn.Module):
        def __init__(self):
            self.attention, self.steps = nn.Attention(8, heads=2, dim_head=4), nn.Timesteps(5)

        def forward(self, x, t):
            return self.attention(x), self.steps(t)

    net, x, t = Both(), RNG.random((1, 3, 8), np.float32), np.array([0, 7], np.int32)
    w = values(net.named_parameters())
    got, steps = run(net, {"x": spec.Tensor(x.shape, "float32"), "t": spec.Tensor((2,), "int32")}, [x, t], w)
    q, k, v = ((x @ w[f"attention.to_{n}.weight"].T).reshape(1, 3, 2, 4) for n in "qkv")
    scores = np.exp(np.einsum("bihd,bjhd->bhij", q, k) / 2)
    out = np.einsum("bhij,bjhd->bihd", scores / scores.sum(-1, keepdims=True), v).reshape(1, 3, 8)
    expected = out @ w["attention.to_out.0.weight"].T + w["attention.to_out.0.bias"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    angles = t[:, None] * np.exp(-np.log(10000) * np.arange(2) / 1)
    np.testing.assert_allclose(steps, np.pad(np.concatenate([np.sin(angles), np.cos(angles)], 1), ((0, 0), (0, 1))),
                               rtol=1e-4, atol=1e-5)


def counted(cumulative, top_p, top_k):
    """The place of the last class that counts."""
    place = 0
    while place < len(cumulative) - 1 and cumulative[place] < top_p and place + 1 < top_k:
        place += 1
    return place


def test_sampling():
    class Sample(nn.Module):
        def forward(self, prob, top_p, top_k, uniform):
            order, found = op.argsort(prob, descending=True), op.sort(prob, descending=True)
            return (op.sample_top_p_top_k_from_sorted_prob(found, order, top_p, top_k, uniform),
                    op.renormalize_top_p_top_k_prob(prob, found, top_p, top_k),
                    op.multinomial_from_uniform(prob, uniform))

    prob = np.array([[0.1, 0.5, 0.05, 0.35], [0.4, 0.3, 0.2, 0.1], [0.25, 0.15, 0.5, 0.1]], np.float32)
    top_p, top_k = np.array([[0.7], [2], [0.3]], np.float32), np.array([[4], [3], [9]], np.int32)
    uniform = np.array([[0.62], [0.85], [0.0]], np.float32)
    column = spec.Tensor((3, 1), "float32")
    picked, renormalized, drawn = run(Sample(), {"prob": spec.Tensor((3, 4), "float32"), "top_p": column, "top_k":
                                                 spec.Tensor((3, 1), "int32"), "uniform": column},
                                      [prob, top_p, top_k, uniform])
    for row in range(3):
        order = np.argsort(-prob[row])
        cumulative = prob[row][order].cumsum()
        last = counted(cumulative, top_p[row, 0], top_k[row, 0])
        assert picked[row, 0] == order[np.argmax(uniform[row, 0] < cumulative / cumulative[last])]
        kept = np.where(prob[row] >= prob[row][order][last], prob[row], 0)
        np.testing.assert_allclose(renormalized[row], kept / kept.sum(), rtol=1e-5)
        assert drawn[row, 0] == np.argmax(uniform[row, 0] < prob[row].cumsum())


def test_operators_of_ones_own():
    class Own(nn.Module):
        def forward(self, x):
            return op.tensor_expr_op(lambda a: te.compute(a.shape, lambda i, j: a[i, j] * 3.0), "triple", [x])

    x = RNG.random((2, 16), np.float32)
    np.testing.assert_allclose(run(Own(), {"x": X}, [x]), x * 3, rtol=1e-6)


def test_functions_that_write_over_their_arguments():
    @T.prim_func
    def shift(x: T.Buffer((2, 16), "float32"), y: T.Buffer((2, 16), "float32")):
        for i, j in T.grid(2, 16):
            with T.block("shift"):
                a, b = T.axis.remap("SS", [i, j])
                y[a, b] = y[a, b] + x[a, b]

    class Shifts(nn.Module):
        def forward(self, x):
            y = op.multiply(x, x)
            return op.tensor_ir_inplace_op(shift, "shift", [x, y], 1, nn.Tensor.placeholder(x.shape, "float32"))

    x = RNG.random((2, 16), np.float32)
    np.testing.assert_allclose(run(Shifts(), {"x": X}, [x]), x * x + x, rtol=1e-6)


def test_registered_functions_are_called():
    @tvm.register_func("test.nn.twice", override=True)
    def twice(x, out):
        out[:] = 2 * x.numpy()

    class Calls(nn.Module):
        def forward(self, x):
            return op.extern("test.nn.twice", [x], nn.Tensor.placeholder(x.shape, "float32"))

    x = RNG.random((2, 16), np.float32)
    np.testing.assert_array_equal(run(Calls(), {"x": X}, [x]), 2 * x)


# ---------------------------------------------------------------- what is exported

def test_packed_parameters_and_tuples():
    class Pair(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter((4,))

        def forward(self, pair, size):
            assert isinstance(pair, tuple)
            return op.reshape(pair[0] + pair[1] * self.weight, (size, -1))

    tensor = spec.Tensor(("n", 4), "float32")
    mod, _ = Pair().export_tvm({"forward": {"pair": (tensor, tensor), "size": int, "$": {"param_mode": "packed"}}})
    infos = [str(p.struct_info) for p in mod["forward"].params]
    assert [p.name for p in mod["forward"].params] == ["pair", "size", "packed_params"]
    assert infos[1].startswith("R.Shape") and infos[0].startswith("R.Tuple")


def test_methods_take_and_give_tuples():
    class Pairs(nn.Module):
        def forward(self, pairs):
            (a, b), c = pairs
            assert isinstance(pairs, list)
            return [a + b, (b - c, c)]

    t, arrays = spec.Tensor((3,), "float32"), [np.arange(3, dtype=np.float32) * k for k in (1, 2, 5)]
    a, b, c = arrays
    made = Pairs().jit({"forward": {"pairs": [(t, t), t]}}, out_format="numpy")
    total, (less, same) = made["forward"]([(a, b), c])
    for got, expected in ((total, a + b), (less, b - c), (same, c)):
        np.testing.assert_array_equal(got, expected)


def test_packed_parameters_run():
    mod, params = MLP().export_tvm({"forward": {"x": X, "$": {"param_mode": "packed"}}})
    w, x = values(params), RNG.random((2, 16), np.float32)
    vm = relax.VirtualMachine(relax.build(mod, "c"), tvm.cpu())
    for got in (vm["forward"](x, list(w.values())).numpy(), tvm.compile(mod, "c")(x, *w.values())):
        np.testing.assert_allclose(got, mlp(w, x), rtol=1e-4, atol=1e-5)


def test_shapes_as_arguments():
    class Sized(nn.Module):
        def forward(self, x, n):
            return op.reshape(x, (n, -1))

    x = np.arange(32, dtype="float32").reshape(2, 16)
    jit = Sized().jit({"forward": {"x": X, "n": int}}, out_format="numpy")
    assert np.array_equal(jit["forward"](x, 1), x.reshape(1, -1))
    mod, _ = Sized().export_tvm({"forward": {"x": X, "n": int}})
    with pytest.raises(ValueError, match="forward is no network of C"):
        tvm.compile(mod, "c").export("nowhere")


def test_debug_functions_keep_their_order(capsys):
    class Loud(nn.Module):
        def forward(self, x):
            op.print_(x)
            return x

    mod, _ = Loud().export_tvm({"forward": {"x": X}}, debug=True)
    assert "_initialize_effect" in mod and [p.name for p in mod["forward"].params] == ["x", "_io"]
    text = str(mod)
    assert "vm.builtin.debug_print" in text and "test_nn.py:" in text
    with pytest.raises(RuntimeError, match="debug mode"):
        Loud().export_tvm({"forward": {"x": X}})
    x = np.arange(32, dtype="float32").reshape(2, 16)
    assert np.array_equal(Loud().jit({"forward": {"x": X}}, out_format="numpy", debug=True)["forward"](x), x)
    printed = capsys.readouterr().out
    assert "[test_nn.py:" in printed and "shape = [2, 16], dtype = float32" in printed


@pytest.mark.parametrize("debug", [False, True])
def test_a_cache_keeps_the_rows_of_earlier_steps(debug):
    class Steps(nn.Module):
        def __init__(self):
            self.keys = nn.KVCache(1, [2, 3])

        def forward(self, x, total):
            self.keys.append(x)
            return self.keys.view(total)

    spec = {"forward": {"x": nn.spec.Tensor(("n", 2, 3), "float32"), "total": int}}
    mod, _ = Steps().export_tvm(spec, debug)
    assert tvm.ir.structural_equal(tvm.script.from_source(mod.script()), mod)
    assert tvm.relax.analysis.well_formed(mod)
    steps = [np.random.default_rng(n).random((n + 1, 2, 3), "float32") for n in range(3)]
    jit = Steps().jit(spec, out_format="numpy", debug=debug)
    for n in range(3):
        found = jit["forward"](steps[n], (n + 1) * (n + 2) // 2)
        assert np.array_equal(found, np.concatenate(steps[:n + 1]))
    with pytest.raises(ValueError, match=r"a cache of shape \[7, 2, 3\] cannot be viewed as \[9, 2, 3\]"):
        jit["forward"](steps[0], 9)
    assert np.array_equal(jit["forward"](steps[0], 7)[:6], np.concatenate(steps))  # the call that failed is not seen
    with pytest.raises(TypeError, match='has been set to use dtype "float32", but got "float16"'):
        Steps().export_tvm({"forward": {"x": nn.spec.Tensor((1, 2, 3), "float16"), "total": int}})


@pytest.mark.parametrize("given, error, words", [
    ({"y": X}, TypeError, "forward has no argument 'y'; it has x"),
    ({}, TypeError, "the spec of forward lacks argument x"),
    ({"x": "float32"}, TypeError, "Invalid spec for argument x"),
    ({"x": X, "$": {"param_mode": "some"}}, ValueError, "Invalid param_mode: some"),
    ({"x": X, "$": {"param_mode": "none"}}, ValueError,
     "forward uses fc1.weight, which its spec leaves out: param_mode"),
    ({"x": spec.Tensor((1.5, 16), "float32")}, TypeError, "Invalid shape"),
])
def test_specs_that_do_not_fit_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        MLP().export_tvm({"forward": given})


def test_operators_outside_of_an_export_say_so():
    with pytest.raises(RuntimeError, match="while a module is exported"):
        op.relu(nn.Tensor.placeholder((2,), "float32"))


# ---------------------------------------------------------------- modules

def test_state_is_saved_and_loaded():
    class Stack(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4)])
            self.named = nn.ModuleDict({"norm": nn.LayerNorm(4)})

    one, other = Stack(), Stack()
    names = ["layers.0.weight", "layers.2.weight", "layers.2.bias", "named.norm.weight", "named.norm.bias"]
    assert list(one.state_dict()) == names == [n for n, _ in one.named_parameters()]
    w = values(one.named_parameters())
    with pytest.raises(ValueError, match="layers.0.weight is not set"):
        other.load_state_dict(one.state_dict())
    for name, param in one.named_parameters():
        param.data = w[name]
    assert other.load_state_dict(one.state_dict()) == ([], [])
    np.testing.assert_array_equal(other.layers[2].bias.data.numpy(), w["layers.2.bias"])
    with pytest.raises(KeyError, match="Missing keys.*layers.0.weight"):
        other.load_state_dict({})
    assert other.load_state_dict({}, strict=False)[0] == names


def test_parameters_refuse_what_does_not_fit():
    param = nn.Parameter((2, 3), "float32")
    for data, error, words in ((np.zeros((3, 2), np.float32), ValueError, "Shape mismatch"),
                               (np.zeros((2, 3)), ValueError, "Dtype mismatch"), ("x", TypeError, "Unsupported data")):
        with pytest.raises(error, match=words):
            param.data = data
    param.to("float16")
    assert param.dtype == "float16" and nn.Linear(2, 2).weight.dtype == "float32"
    param.data = np.zeros((2, 3), np.float16)
    with pytest.raises(ValueError, match="bound to concrete data"):
        param.to("float32")


def test_mutators_replace_parts():
    class ToSiLU(nn.Mutator):
        seen = []

        def visit_module(self, name, node):
            self.seen.append(name)
            return nn.SiLU() if isinstance(node, nn.ReLU) else self.visit(name, node)

        def visit_param(self, name, node):
            return nn.Parameter(node.shape, "float16")

    net = ToSiLU().visit("", MLP())
    assert isinstance(net.act, nn.SiLU) and ToSiLU.seen == ["fc1", "act", "fc2"]
    assert {p.dtype for p in net.parameters()} == {"float16"}


def test_functions_of_c_of_ones_own(tmp_path):
    source = """
static const float *at(const ingot_arg *arg) { return (const float *)arg->value.tensor->data; }
void my_add(const ingot_arg *args, int32_t n_args)
{
    float *out = (float *)args[n_args - 1].value.tensor->data;
    for (int64_t i = 0; i < args[0].value.tensor->shape[0]; ++i) out[i] = at(&args[0])[i] + at(&args[1])[i];
}
void my_double(const ingot_arg *args, int32_t n_args)
{
    float *out = (float *)args[n_args - 1].value.tensor->data;
    for (int64_t i = 0; i < args[0].value.tensor->shape[0]; ++i) out[i] = 2.0f * at(&args[0])[i];
}
"""
    def like(*tensors):
        return nn.Tensor.placeholder(tensors[0].shape, tensors[0].dtype)

    mine = nn.SourceModule({"my_add": like, "my_double": like}, source)

    class Adds(nn.Module):
        def forward(self, x, y):
            nn.add_extern(mine)
            return mine["my_add"](mine["my_double"](x), y)

    spec = {"forward": {name: nn.spec.Tensor((5,), "float32") for name in "xy"}}
    x, y = np.arange(5, dtype="float32"), np.ones(5, "float32")
    for debug in (False, True):  # with the state of prints, so that a machine calls what has the C
        assert np.array_equal(Adds().jit(spec, out_format="numpy", debug=debug)["forward"](x, y), 2 * x + y)
    mod, _, externs = Adds().export_tvm(spec, allow_extern=True)
    assert externs == [mine]
    tvm.compile(relax.transform.AttachExternModules(externs)(mod), "c", name="adds").export(tmp_path / "adds")
    text = (tmp_path / "adds" / "adds_external_0.c").read_text()
    assert "my_add, my_double, written for this network" in text and source.strip() in text
    with pytest.raises(ValueError, match="allow_extern=True"):
        Adds().export_tvm(spec)
    with pytest.raises(ValueError, match="'my_add' is the function of two"):
        relax.transform.AttachExternModules([mine, mine])(mod)
    with pytest.raises(ValueError, match="'a.b' is no name of a function in C; 'a_b' would do"):
        relax.transform.AttachExternModules([nn.SourceModule({"a.b": like}, source)])(mod)
    with pytest.raises(ValueError, match='source_format is "c"'):
        nn.SourceModule({}, source, "cpp")
    (tmp_path / "own.c").write_text(source)
    assert nn.SourceModule({}, str(tmp_path / "own.c")).source_code == source
    with pytest.raises(ValueError, match="Not a file: nowhere.c"):
        nn.SourceModule({}, "nowhere.c")
    with pytest.raises(NotImplementedError, match="give nn.SourceModule what it was compiled from"):
        nn.ObjectModule({"my_add": like}, "own.o")


def test_a_frontend_that_is_not_there_says_what_is():
    with pytest.raises(AttributeError, match="nn, onnx and torch: export a network of another framework as ONNX"):
        relax.frontend.stablehlo
