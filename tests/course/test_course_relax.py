"""The course's graphs: built with BlockBuilder or written, rewritten, compiled, called as a VM's functions."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, te, topi
from ingot.script import ir as I, relax as R, tir as T

RNG = np.random.default_rng(7)
W0, B0, W1, B1 = (RNG.standard_normal(s).astype(np.float32) for s in ((16, 12), (16,), (5, 16), (5,)))


def reference(x):
    return np.maximum(x @ W0.T + B0, 0) @ W1.T + B1


@I.ir_module
class Forward:
    @R.function
    def forward(x: R.Tensor(("n", 12), "float32"), w0: R.Tensor((16, 12), "float32"), b0: R.Tensor((16,), "float32"),
                w1: R.Tensor((5, 16), "float32"), b1: R.Tensor((5,), "float32")) -> R.Tensor(("n", 5), "float32"):
        n = T.int64()  # noqa: F841
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, R.permute_dims(w0)) + b0)
            y = R.matmul(h, R.permute_dims(w1)) + b1
            R.output(y)
        return y


def test_a_function_of_any_name_and_batch():
    exe = relax.build(Forward, target="llvm")
    vm = relax.VirtualMachine(exe, tvm.cpu())
    for n in (1, 3):
        x = RNG.standard_normal((n, 12)).astype(np.float32)
        y = vm["forward"](tvm.nd.array(x), *map(tvm.nd.array, (W0, B0, W1, B1)))
        assert isinstance(y, tvm.nd.NDArray)
        np.testing.assert_allclose(y.numpy(), reference(x), rtol=1e-4, atol=1e-4)
    assert len(vm.time_evaluator("forward", tvm.cpu(), number=2, repeat=3)(x, W0, B0, W1, B1).results) == 3


def test_passes_keep_the_function_s_name():
    seq = tvm.transform.Sequential([relax.transform.FuseOps(), relax.transform.LegalizeOps()])
    with tvm.transform.PassContext(opt_level=3):
        mod = seq(Forward)
    assert next(iter(mod.functions)) == "forward" and "main" not in mod
    assert any(isinstance(f, tvm.tir.PrimFunc) for f in mod.functions.values())


def test_parameters_bound_by_name():
    params = {"w0": tvm.nd.array(W0), "b0": B0, "w1": W1, "b1": B1}
    bound = relax.transform.BindParams("forward", params)(Forward)
    assert [p.name for p in bound["forward"].params] == ["x"]
    x = RNG.standard_normal((2, 12)).astype(np.float32)
    y = relax.VirtualMachine(relax.build(bound))["forward"](x)
    np.testing.assert_allclose(y.numpy(), reference(x), rtol=1e-4, atol=1e-4)


def test_a_bound_parameter_settles_dimensions():
    x = RNG.standard_normal((2, 12)).astype(np.float32)
    bound = relax.transform.BindParams("forward", {"x": x})(Forward)
    assert [int(d.value) for d in bound["forward"].ret_struct_info.shape] == [2, 5]


@pytest.mark.parametrize("params, message", [
    ({"w9": W0}, "BindParams: forward has no parameter 'w9'; it has x, w0, b0, w1, b1"),
    ({"w0": W1}, r"BindParams: parameter w0 is R.Tensor\(\(16, 12\), .*, the array .*5, 16.*: they must agree"),
    ({"b0": B0.astype(np.float64)}, "BindParams: parameter b0 is .*float32.*, the array .*float64"),
])
def test_parameters_that_do_not_fit(params, message):
    with pytest.raises(ValueError, match=message):
        relax.transform.BindParams("forward", params)(Forward)


def test_te_functions_emitted():
    def scaled(x, factor):
        return te.compute(x.shape, lambda *i: x(*i) * factor, name="scaled")

    x = relax.Var("x", R.Tensor((3, 12), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            h = bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, bb.emit_te(topi.nn.dense, x, relax.const(W0)),
                                                    relax.const(B0)))
            gv = bb.emit_output((h, bb.emit_te(scaled, h, 2.0)))
        bb.emit_func_output(gv)
    data = RNG.standard_normal((3, 12)).astype(np.float32)
    with tvm.target.Target("llvm"):
        outputs = relax.VirtualMachine(relax.build(bb.get()), tvm.cpu())["main"](tvm.nd.array(data))
    expected = np.maximum(data @ W0.T + B0, 0)
    assert isinstance(outputs, list)
    for found, want in zip(outputs, (expected, expected * 2), strict=True):
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)


def test_batch_norm_is_a_tuple():
    x = relax.Var("x", R.Tensor((2, 3, 4, 4), "float32"))
    vectors = [relax.Var(n, R.Tensor((3,), "float32")) for n in ("gamma", "beta", "mean", "var")]
    bb = relax.BlockBuilder()
    with bb.function("main", [x, *vectors]):
        norm = bb.emit(relax.op.nn.batch_norm(x, *vectors, axis=1))
        bb.emit_func_output(bb.emit((relax.op.nn.relu(norm[0]), norm[1])))
    mod = bb.get()
    tvm.ir.assert_structural_equal(tvm.script.from_source(mod.script()), mod)
    data = [RNG.random(s).astype(np.float32) for s in ((2, 3, 4, 4), *[(3,)] * 4)]
    y, mean = relax.VirtualMachine(relax.build(mod))["main"](*data)
    a, g, b, m, v = (d if d.ndim > 1 else d[:, None, None] for d in data)
    np.testing.assert_allclose(y.numpy(), np.maximum((a - m) / np.sqrt(v + 1e-5) * g + b, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mean.numpy(), data[3])


@R.function
def unpacked(x: R.Tensor((1, 3, 8, 8), "float32"), g: R.Tensor((3,), "float32")):
    with R.dataflow():
        y, m, v = R.nn.batch_norm(x, g, g, g, g, axis=1)  # noqa: F841
        z = R.nn.relu(R.nn.batch_norm(y, g, g, g, g, axis=1)[0])
        R.output(z)
    return z


def test_batch_norm_in_a_script():
    tvm.ir.assert_structural_equal(tvm.script.from_source(unpacked.script()), unpacked)
    assert unpacked.script().count("R.nn.batch_norm(") == 2


@pytest.mark.parametrize("request_, error, message", [
    (lambda: relax.build(Forward["forward"]), TypeError, "relax.build takes an IRModule, not a Function"),
    (lambda: relax.build(tvm.IRModule({})), TypeError, "the module has no graph function .*; tvm.build builds"),
    (lambda: relax.VirtualMachine(Forward), TypeError,
     "VirtualMachine takes what relax.build or tvm.compile returns for a module, not a IRModule"),
    (lambda: relax.VirtualMachine(relax.build(Forward), tvm.cuda()), ValueError, r"no device cuda\(0\) here"),
    (lambda: relax.VirtualMachine(relax.build(Forward))["main"], AttributeError, "no function 'main'; there is for"),
    (lambda: relax.VirtualMachine(relax.build(Forward))["forward"](W0), ValueError, "inputs"),
    (lambda: relax.transform.UpdateVDevice(None, 0)(Forward), TypeError, "the new device must be a VDevice, not None"),
    (lambda: relax.transform.Nope, AttributeError, "no attribute 'Nope'; passes: Normalize"),
])
def test_errors(request_, error, message):
    with pytest.raises(error, match=message):
        request_()
