"""relax.frontend.torch: what torch computes is what the compiled network computes."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.relax.frontend import detach_params
from ingot.relax.frontend.torch import (TorchImportError, dynamo_capture_subgraphs, from_exported_program, from_fx,
                                        relax_dynamo)

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'ingot[torch]'")
F = torch.nn.functional
networks = pytest.importorskip("torch_networks", reason="needs PyTorch")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check(model, args, *others, dims=None):
    """Export, import, compile, run, compare. others: further arguments, of other sizes. The imported module."""
    model = model.eval() if isinstance(model, torch.nn.Module) else Function(model)
    mod = from_exported_program(torch.export.export(model, args, dynamic_shapes=dims))
    run = relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"]
    for given in (args, *others):
        wanted, found = listed(model(*given)), run(*map(np.asarray, given))
        assert len(wanted) == len(found)
        for k, (w, f) in enumerate(zip(wanted, found)):
            assert tuple(w.shape) == f.shape, k
            np.testing.assert_allclose(f.numpy(), w.numpy(), rtol=1e-4, atol=1e-4, err_msg=f"result {k}")
    return mod


def words(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -1] = 0
    return torch.randint(0, 30, (batch, length)), mask


# ---------------------------------------------------------------- networks

def test_convolution_networks():
    batch = torch.export.Dim("batch", max=64)
    mod = check(networks.ResNet(), (torch.randn(2, 3, 32, 32),), (torch.randn(3, 3, 32, 32),), dims=({0: batch},))
    assert [upper for _, upper in mod.attrs["most"]] == [64]
    check(networks.MobileNet(), (torch.randn(2, 3, 16, 16),))


def test_transformers():
    length = torch.export.Dim("length", min=2, max=12)
    check(networks.Bert(), words(2, 8), words(2, 5), dims=({1: length}, {1: length}))
    check(networks.Llama(), (torch.randn(1, 6, 16),), (torch.randn(1, 9, 16),), dims=({1: length},))


def test_fx_and_layers():
    model = networks.MobileNet().eval()
    mod = from_fx(torch.fx.symbolic_trace(model), [((2, 3, 16, 16), "float32")])
    x = torch.randn(2, 3, 16, 16)
    found = relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](x.numpy())
    np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- operators

def test_elementwise_operators_and_types():
    def some(x, i):
        return (torch.celu(x, 0.5), F.elu(x, 0.7), torch.clamp(i, 1, 3), x.std(), x.var(1, correction=0), i % 3,
                torch.remainder(x, 0.7), torch.fmod(x, 0.7), x * i, i / 2, i // 2, torch.where(x > 0, x, 0.0),
                F.softplus(x, 2.0), torch.log1p(x.abs()), torch.atan2(x, x.flip(0)), F.softshrink(x), x.sum(),
                i.sum(), x.logsumexp(1), x.norm(dim=1), x.amax((0, 1)), i > 2, x.bfloat16().float() + 1)
    check(some, (torch.randn(3, 4), torch.arange(12).reshape(3, 4) - 5))


def test_indices_orders_and_writes():
    def some(x, i):
        y = x.clone()
        y[:, 0] = 2.0
        y[:, 1:3] += 1
        y[:, ::2] *= 3
        values, places = torch.sort(x, 1, descending=True)
        return (y, x[i], x[:, i], x[i, i], x[:, 0], x[0, 1:3], x[..., None, 1], values, places, *torch.topk(x, 2, 1),
                *x.max(1), torch.stack([x, x], -1), x.unbind(1)[1], x.split(2, 1)[1], x.chunk(2, 1)[1],
                torch.roll(x, 1, 1), x.index_put((i,), x[:2] * 2), torch.gather(x, 1, places), x.cumsum(1), x.tril())
    check(some, (torch.randn(3, 4, 5), torch.tensor([2, 0])))


def test_images():
    layers = [torch.nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), torch.nn.GroupNorm(3, 3),
              torch.nn.InstanceNorm2d(3, affine=True), torch.nn.Conv2d(3, 2, (3, 2), padding="same")]

    class Images(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(layers)

        def forward(self, x):
            return (*(layer(x) for layer in self.layers), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, (2, 3)),
                    F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 7)), F.pad(x, (1, 2, -1, 1)),
                    *(F.interpolate(x, (16, 12), mode=mode) for mode in ("bilinear", "bicubic")),
                    F.interpolate(x, (16, 12), mode="bilinear", align_corners=True))
    check(Images(), (torch.randn(1, 3, 8, 9),))


def test_images_by_factors_and_their_places():
    """Of factors, the places of elements are those of the factor, not of the sizes that it makes."""
    def some(x, v, c):
        values, places = F.max_pool2d(x, 2, return_indices=True)
        modes = [F.interpolate(x, scale_factor=0.7, mode=mode) for mode in ("nearest", "bilinear")]
        return (values, places, *modes, F.adaptive_max_pool1d(v, 3), F.adaptive_max_pool2d(x, (3, None)),
                F.pixel_shuffle(x[0], 2), F.pad(v, (1, 2), "circular"), v.unfold(2, 3, 2),
                F.fold(c, (4, 3), 2), F.avg_pool2d(x, 2, divisor_override=3),
                F.conv_transpose3d(x[:, None], x[:1, None, :2], stride=2, padding=1))
    check(some, (torch.randn(2, 4, 6, 5), torch.randn(2, 3, 8), torch.randn(1, 8, 6)))


def test_bags_and_numbers_at_the_ends():
    """What has no number, both zeros and infinities; and rows in bags."""
    bags = [torch.nn.EmbeddingBag(6, 2, mode=mode, padding_idx=1).eval() for mode in ("sum", "mean", "max")]

    def some(x, i, starts):
        zeros = torch.tensor([-1., 1., 0., 0., -0.])
        return (*(bag(i, starts) for bag in bags), torch.logsumexp(x[3:4], 0), x.nansum(), torch.fmax(x, zeros),
                torch.atan2(zeros, x), torch.copysign(zeros, x), x.median(), x[1:].median(0)[0],
                x[1:].kthvalue(2)[0], torch.hypot(x, x * 2))
    check(some, (torch.tensor([np.nan, 3., -0., -np.inf, 2.]), torch.tensor([1, 0, 5, 1, 2]),
                 torch.tensor([0, 2, 2, 4])))


def test_means_and_writes_at_places():
    def some(x, i):
        y = x.clone()
        y[:, i[0, :2]] = x[:, :2] * 2
        return (y, *(x.scatter_reduce(1, i, x, how, include_self=own) for how, own in (("mean", True), ("amax", False))),
                x.masked_scatter(x > 0, x * 2), torch.cdist(x, x), F.cross_entropy(x, x.softmax(1)),
                F.cross_entropy(x, i[:, 0], label_smoothing=0.1))
    check(some, (torch.randn(3, 4), torch.tensor([[2, 0, 0, 1], [1, 1, 1, 2], [3, 2, 1, 0]])))


def test_losses():
    """By each reduction, with targets that are ignored, and classes on an axis that is not the last."""
    x, target = torch.randn(2, 3, 4), torch.tensor([[0, 1, 2, -100], [2, -100, 0, 1]])
    masked, chosen = torch.tensor([[-torch.inf, 0.5, 1]] * 2), torch.tensor([2, -100])

    def losses(x, target, masked, chosen):
        return tuple(loss for how in ("none", "sum", "mean") for loss in (
            F.nll_loss(x, target, reduction=how), F.cross_entropy(x, target, reduction=how),
            F.cross_entropy(x, target, label_smoothing=0.1, reduction=how),
            F.nll_loss(masked, chosen, reduction=how)))
    check(losses, (x, target, masked, chosen))


def test_odd_numbers():
    nan, inf = torch.nan, torch.inf

    def found(x, y, i, m, v):
        return (F.threshold(x, 0.5, 7), torch.hypot(x, y), torch.float_power(i, -2), torch.argsort(x[2:], stable=True),
                x.index_put((m,), v, accumulate=True))
    mod = check(found, (torch.tensor([nan, -inf, 0, 3.0]), torch.tensor([1, nan, 0, 4.0]), torch.arange(1, 4),
                        torch.tensor([False, False, True, True]), torch.tensor(0.5)))
    dtypes = [f.dtype for f in mod["main"].ret_struct_info.fields]
    assert dtypes == ["float32", "float32", "float64", "int64", "float32"]


def test_attention_and_symbolic_sizes():
    def attended(q, mask):
        return (F.scaled_dot_product_attention(q, q, q, mask), F.scaled_dot_product_attention(q[0], q[0], q[0]),
                F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3))
    check(attended, (torch.randn(2, 2, 5, 8), torch.ones(5, 5).tril().bool()))

    def sized(x):
        b, t, d = x.shape
        return (x.view(b * t, d).sum(0), x[:, -1], x[:, :-1], torch.arange(t), x.expand(2, b, t, d), x * t,
                torch.zeros(b, t), x.var(1), F.pad(x, (0, 0, 1, 0))[:, :t])
    dims = {0: torch.export.Dim("b"), 1: torch.export.Dim("t", min=3, max=100)}
    check(sized, (torch.randn(3, 6, 4),), (torch.randn(2, 5, 4),), dims=((dims,),))


class Rotated(torch.nn.Module):
    """Positions as complex factors, a buffer."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(9.), torch.tensor([1., 0.1]))
        self.register_buffer("factors", torch.polar(torch.ones(9, 2), angles), persistent=False)

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2))
        return torch.view_as_real(pairs * self.factors[:x.shape[1], None]).flatten(3)


def test_complex_tensors():
    length = torch.export.Dim("length", min=2, max=9)
    check(Rotated(), (torch.randn(1, 5, 3, 4),), (torch.randn(1, 7, 3, 4),), dims=({1: length},))

    def spectra(x):
        z, w = torch.fft.rfft(x), torch.polar(x.abs() + 1, x)
        y = w
        y *= 2
        return (torch.view_as_real(z * 2 - 1j), torch.fft.irfft(z, n=7), torch.fft.ifft2(torch.fft.fft2(x)).real,
                (w / w.conj()).angle(), torch.cat([w @ w.T, w[:, 1:]], 1).imag,
                torch.stft(x, 4, 2, window=torch.ones(4), return_complex=True).abs())
    check(spectra, (torch.randn(3, 8),))
    with pytest.raises(TorchImportError, match="complex tensor cannot be a result"):
        from_exported_program(torch.export.export(Function(torch.fft.fft), (torch.ones(4),)))


# ---------------------------------------------------------------- the interface

def test_results_and_parameters():
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    info = from_exported_program(program)["main"].ret_struct_info
    assert len(info.fields) == 1
    mod = from_exported_program(program, keep_params_as_input=True, unwrap_unit_return_tuple=True)
    assert tuple(mod["main"].ret_struct_info.shape) == (1, 2)
    assert mod["main"].attrs["num_input"] == 1 and len(mod["main"].params) == 3
    mod, params = detach_params(mod)
    assert "params" not in mod["main"].attrs
    weights = [p.numpy() for p in params["main"]]
    found = relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](np.ones((1, 4), "float32"), *weights)
    np.testing.assert_allclose(found.numpy(), weights[0].sum(1)[None] + weights[1], rtol=1e-5)


def test_what_cannot_be_imported_is_named():
    program = torch.export.export(Function(lambda x: torch.linalg.svd(torch.special.i0(x))[1]), (torch.eye(3),))
    with pytest.raises(TorchImportError, match=r"linalg_svd.default .*node 'linalg_svd'") as error:
        from_exported_program(program)
    assert "node 'special_i0'" in str(error.value)
    graph = torch.fx.symbolic_trace(lambda x: F.interpolate(x, (4, 4), mode="area"))
    with pytest.raises(TorchImportError, match="node 'interpolate' .*'area'"):
        from_fx(graph, [((1, 1, 8, 8), "float32")])


def doubled_in_place(x):
    x.add_(1)
    return x * 2


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x):
        self.rows[:2] = x
        return self.rows * 2


def test_writes_are_right_or_refused():
    """Of tensors that share memory as well: what other names of a tensor, views and callers see."""
    def some(x):
        whole, shared = x * 2, x * 3
        again = whole.add_(1)
        again.mul_(2)
        rows = shared.reshape(-1)
        F.relu(rows, inplace=True)
        return whole, again, shared, rows, x.add_(1)
    x = torch.randn(3, 4)
    wanted = some(x.clone())
    mod = from_exported_program(torch.export.export(Function(some), (x,)))
    for w, f in zip(wanted, relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](x.numpy())):
        np.testing.assert_allclose(f.numpy(), w.numpy(), rtol=1e-5)
    program = torch.export.export(Function(doubled_in_place), (x,))
    for refused, node in ((program, "add_"), (program.run_decompositions({}), "add")):
        with pytest.raises(TorchImportError, match=f"node '{node}' writes to the input .*return the new value"):
            from_exported_program(refused)
    with pytest.raises(TorchImportError, match="'slice_scatter' writes to the buffer 'rows': .*make it an input"):
        from_exported_program(torch.export.export(Cache(), (x[:2],)))
    for trace, text in ((doubled_in_place, "node 'add_' writes to the input 'x'"),
                        (lambda x: (x.view(-1), x.add_(1))[0], "node 'add_' .* writes to memory that 'view' shares")):
        with pytest.raises(TorchImportError, match=text):
            from_fx(torch.fx.symbolic_trace(trace), [((3, 4), "float32")])
    with pytest.raises(Exception, match="writes to the input"):
        torch.compile(lambda x: x.add_(1), backend=relax_dynamo())(x)


def test_training_mode_is_refused():
    x = torch.randn(3, 4)
    with pytest.raises(TorchImportError, match="node 'batch_norm' .*running mean.* model.eval()"):
        from_exported_program(torch.export.export(torch.nn.BatchNorm1d(4), (x,)))
    check(torch.nn.BatchNorm1d(4, track_running_stats=False), (x,))  # by the batch's own statistics
    layers = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.BatchNorm1d(4)))
    with pytest.warns(UserWarning, match="'_0': .* imported as inference has it"):  # whatever the mode of a layer
        from_fx(layers, [((3, 4), "float32")])


def test_a_converter_of_ones_own():
    def doubled(node, importer):
        return importer.block_builder.emit(relax.op.multiply(importer.env[node.args[0]], relax.const(2, "float32")))
    graph = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    mod = from_fx(graph, [((2,), "float32")], custom_convert_map={"relu": doubled})
    assert "R.multiply" in mod.script()


def test_torch_compile():
    model = torch.nn.Linear(6, 3)
    compiled = torch.compile(lambda x: torch.relu(model(x)), backend=relax_dynamo(), dynamic=True)
    for n in (2, 4):
        x = torch.randn(n, 6)
        np.testing.assert_allclose(compiled(x), torch.relu(model(x)), rtol=1e-5, atol=1e-6)
    mod = dynamo_capture_subgraphs(model, torch.randn(2, 6))
    assert list(mod.functions) == ["subgraph_0"] and len(mod["subgraph_0"].params) == 1


def test_memory_is_shared_both_ways():
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.ones(2, 3, dtype=dtype)
        array = tvm.nd.from_dlpack(tensor)
        tensor[0, 0] = 5
        back = torch.from_dlpack(array)
        back[1, 1] = 7
        assert array.numpy()[0, 0] == 5 and tensor[1, 1] == 7 and back.data_ptr() == tensor.data_ptr()


# ---------------------------------------------------------------- what newer networks are made of

def test_bits_of_truth_values():
    a, b = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    check(lambda x, y: (x & y, x | y, x ^ y, ~x, x + y, x * y, torch.bitwise_and(x, y)), (a, b))


def test_sums_so_far_count_truth_values():
    check(lambda x: (torch.cumsum(x, -1), torch.cumsum(x, 0, dtype=torch.float32)), (torch.randn(3, 5) > 0,))


def test_keys_of_one_head_serve_all_heads():
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 1, 7, 8)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (q, k, k + 1))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (q[:1], k, k + 1))


def test_operators_without_a_converter_are_taken_apart_by_torch():
    check(lambda x: (torch.diff(x), F.unfold(x[None, None], (2, 3))), (torch.randn(4, 6),))
    check(torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 4, 3)), (torch.randn(1, 3, 9),))


def test_operators_that_nothing_takes_apart_are_named():
    program = torch.export.export(Function(torch.special.i0), (torch.randn(4),))
    with pytest.raises(TorchImportError, match="i0"):
        from_exported_program(program)


# ---------------------------------------------------------------- orders, searches and special functions

def test_digits_near_zero_and_special_functions():
    """log1p and expm1 keep the digits of small numbers, in the C that is compiled as in torch."""
    x = torch.tensor([0.0, -0.0, 1e-8, -3e-6, 1e-3, 0.4, -0.7, 3.0, 60.0, torch.inf, torch.nan])
    mod = check(lambda x: (x.log1p(), x.expm1(), x.lgamma(), x.digamma(), x.erfinv(), x.sign(), x.sgn()), (x,))
    assert "R.log(" in mod.script()  # as TVM has it
    found = relax.VirtualMachine(relax.build(mod), tvm.cpu())["main"](x.numpy())
    for k, wanted in enumerate((x.log1p(), x.expm1(), x.lgamma(), x.digamma(), x.erfinv())):
        np.testing.assert_allclose(found[k].numpy(), wanted.numpy(), rtol=2e-6, atol=0)


def test_orders_and_searches():
    x = torch.tensor([[3.0, 1, 3, torch.nan, 2], [0, -1, 0, -1, 7], [5, 5, 5, 5, 5]])
    i, edges = (torch.arange(15).reshape(3, 5) * 7 % 6), torch.tensor([0, 1, 3, 3, 5])

    def found(x, i, edges):
        return (*x.cummax(1), *i.cummin(0), *(i > 2).cummax(1), x[1:].logcumsumexp(1), *i.mode(1), *x[1:].mode(0, True),
                *x.nanmedian(1), x.nanmedian(), x[1:].quantile(0.3, 1), torch.searchsorted(edges, i, right=True),
                torch.bucketize(x[1:], edges, out_int32=True), torch.isin(i, edges, invert=True),
                x[1:].histc(5, -1, 5), *torch.var_mean(x, False), torch.pdist(x), x[0, 0].softmax(0),
                *x[0, 1].max(0), *i[0, 1].sort(0), *(i > 2).min(1), (i > 1) >= (i > 3))
    check(found, (x, i, edges))


def test_searches_among_nan_and_of_fractions():
    edges, whole = torch.tensor([1.0, 3, torch.nan]), torch.tensor([1, 2, 3])
    x = torch.tensor([0.0, 2, 1, torch.nan])

    def found(edges, whole, x):
        return (torch.searchsorted(edges, x), torch.searchsorted(edges, x, right=True), torch.searchsorted(whole, 2.5),
                *(x * torch.nan).mode(), torch.zeros(3).masked_scatter(x.isnan()[:, None], edges),
                torch.zeros(4).masked_scatter(x > 9, x[:0]))
    check(found, (edges, whole, x))


def test_scalars_beside_tensors_with_dimensions():
    check(lambda x, y: (torch.max(x, y), torch.min(x, y[0]), x.gather(0, torch.tensor([0, 0])), *x.max(0)),
          (torch.tensor(0.5), torch.randn(2, 3)))


def test_powers_of_two_and_tails():
    """ldexp by whole powers that the dtype does not hold; erfinv of float64 next to its ends."""
    x, places = torch.tensor([0.0, 1e-38, 3.0, -1.5]), torch.tensor([300, 140, -140, 7])
    check(lambda x, y, places: (x.ldexp(places), y.ldexp(places), y.half().ldexp(places // 30)),
          (x, x.double(), places))
    near = 1 - torch.tensor([1e-3, 1e-6, 1e-10, 1e-14, 1.2e-16], dtype=torch.float64)
    program = torch.export.export(Function(lambda x: (x.erfinv(), (-x).erfinv())), (near,))
    found = relax.VirtualMachine(relax.build(from_exported_program(program)), tvm.cpu())["main"](near.numpy())
    np.testing.assert_allclose(found[0].numpy(), near.erfinv().numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[1].numpy(), -near.erfinv().numpy(), rtol=1e-12)


def test_losses_of_weights_and_ranks():
    x, chosen, weight = torch.randn(4, 3), torch.tensor([2, 0, -100, 1]), torch.tensor([0.5, 2, 1])

    def losses(x, chosen, weight):
        one = torch.sign(x[:, 0])
        return (*(F.cross_entropy(x, target, weight, reduction=how, label_smoothing=0.2)
                  for how in ("none", "mean", "sum") for target in (chosen, x.softmax(1))),
                F.hinge_embedding_loss(x[:, 0], one), F.margin_ranking_loss(x[:, 0], x[:, 1], one),
                x.masked_scatter(chosen[:3] > 0, x * 2), torch.clamp_min(x[:, :1], weight), torch.addbmm(
                    x, x.reshape(2, 2, 3).mT.reshape(2, 2, 3).repeat(1, 2, 1), weight.diag().expand(2, 3, 3)))
    check(losses, (x, chosen, weight))


def test_parts_and_turns():
    """One part is a part too; tensor_split's numbers are places, or how many parts there are."""
    x = torch.arange(30.0).reshape(2, 5, 3)
    check(lambda x: (*x.split(5, 1), *x.chunk(1), *x.tensor_split(2, 1), *x.tensor_split((1, 3), 1), *x.hsplit(5),
                     torch.take_along_dim(x, torch.tensor([[[1], [4]]]), 1), torch.take_along_dim(x, x.long() % 9),
                     x[0, 0, 0].squeeze(0), x.mT, x[0].mH, torch.atleast_3d(x[0])[0], *torch.atleast_2d(x[0, 0], x),
                     x[0, :2].angle(), F.bilinear(x, x + 1, x[:, :3].repeat(1, 1, 1)), x.int().isnan(),
                     x[:, :0].roll(1, 1)), (x,))
