"""relax.training: what its functions compute, and a model that learns as C."""
import numpy as np
import pytest
from value_target import small_target

import ingot as tvm
from ingot import relax
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.transform.in_operators import in_operators
from ingot.relax.training import SetupTrainer, Trainer, loss, optimizer
from ingot.script import ir as I, relax as R  # noqa: E741
from ingot.testing.utils import check_numerical_grads


@I.ir_module
class Perceptron:
    """Two layers, which learn what one cannot: exclusive or. A state counts the runs."""

    I.module_attrs({"param_num": 4, "state_num": 1})

    @R.function
    def backbone(x: R.Tensor((4, 2), "float32"), w0: R.Tensor((2, 8), "float32"), b0: R.Tensor((8,), "float32"),
                 w1: R.Tensor((8, 2), "float32"), b1: R.Tensor((2,), "float32"), runs: R.Tensor((), "float32")):
        with R.dataflow():
            hidden = R.tanh(R.add(R.matmul(x, w0), b0))
            out = R.add(R.matmul(hidden, w1), b1)
            counted = R.add(runs, R.const(1, "float32"))
            R.output(out, counted)
        return out, counted


X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
CLASSES = np.array([0, 1, 1, 0])


def test_a_perceptron_of_two_layers_learns_as_c():
    """Its gradients are those that differences give, and after some steps it knows exclusive or."""
    infos = [relax.TensorStructInfo((4, 2), "float32"), relax.TensorStructInfo((4,), "int64")]
    mod = SetupTrainer(loss.CrossEntropyLoss(), optimizer.Adam(0.1), infos)(Perceptron)
    vm = relax.VirtualMachine(tvm.compile(mod, small_target()), tvm.cpu())
    trainer = Trainer(mod, vm, tvm.cpu())
    rng = np.random.default_rng(1)
    trainer.load_params([rng.standard_normal([int(d) for d in v.struct_info.shape]).astype("float32")
                         for v in trainer._param_vars])
    values = [p.numpy() for p in trainer.export_params().values()]
    counted = np.zeros((), "float32")
    (_, _), gradients = vm["backbone_loss_adjoint"](X, *values, counted, CLASSES)
    check_numerical_grads(lambda *v: float(vm["backbone_loss"](X, *v, counted, CLASSES)[0].numpy()), values,
                          [g.numpy() for g in gradients], delta=1e-2, atol=1e-3, rtol=1e-2)
    losses = [float(trainer.update(X, CLASSES).numpy()) for _ in range(60)]
    assert losses[-1] < 0.05 < losses[0]
    assert (trainer.predict(X).numpy().argmax(1) == CLASSES).all()
    assert trainer.export_states()["runs"].numpy() == 60


def results(func, values):
    """What an optimizer's function gives, by numpy."""
    return evaluate(in_operators(tvm.IRModule({"main": func})), values)


STEPS = {
    "SGD": (optimizer.SGD(0.1, 0.5), lambda p, g, s: (p - 0.1 * (g + 0.5 * p), [])),
    "MomentumSGD": (optimizer.MomentumSGD(0.1, 0.9, 0.2), lambda p, g, s: (
        p - 0.1 * (0.9 * s[1] + 0.8 * g), [0.9 * s[1] + 0.8 * g])),
    "Nesterov": (optimizer.MomentumSGD(0.1, 0.9, nesterov=True), lambda p, g, s: (
        p - 0.1 * (g + 0.9 * (0.9 * s[1] + g)), [0.9 * s[1] + g])),
    "Adam": (optimizer.Adam(0.1), lambda p, g, s: (
        p - 0.1 * g / (np.abs(g) + 1e-8), [0.9, 0.999, 0.1 * g, 0.001 * g * g])),  # the first step
}


@pytest.mark.parametrize("name", STEPS)
def test_optimizers(name):
    own, expected = STEPS[name]
    own.init(relax.Var("w", relax.TensorStructInfo((3,), "float64")))
    p, g = np.array([1.0, -2, 3]), np.array([0.5, 0.25, -1])
    state = [s.numpy() for s in own.state]
    vm = relax.VirtualMachine(tvm.compile(tvm.IRModule({"main": own.get_function().with_attr(
        "global_symbol", "main")}), small_target()), tvm.cpu())
    (found,), (steps, *after) = vm["main"]((p,), (g,), tuple(state))
    wanted, wanted_state = expected(p, g, state)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9)
    assert steps.numpy() == 1
    for a, b in zip(after, wanted_state, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9)


def test_optimizers_refuse():
    with pytest.raises(RuntimeError, match="init"):
        optimizer.SGD(0.1).get_function()
    w = relax.Var("w", relax.TensorStructInfo((3,), "float32"))
    n, d = (relax.Var("n", relax.TensorStructInfo((3,), dtype)) for dtype in ("int64", "float64"))
    s, u = (relax.Var("s", relax.TensorStructInfo(shape, "float32", ndim=1)) for shape in ((tvm.tir.Var("k", "int64"),),
                                                                                            None))
    for params, message in (([w, w], "w appears twice"), (n, "floats"), ([w, d], "one dtype"), ([], "one parameter"),
                            (s, "known shape"), (u, "known shape")):
        with pytest.raises(ValueError, match=message):
            optimizer.SGD(0.1).init(params)


P, T = np.random.default_rng(0).standard_normal((2, 3, 4))
SOFT = np.log(np.exp(P) / np.exp(P).sum(1, keepdims=True))
W = np.array([1.0, 2, 3, 4])
N = np.array([2, 0, 3])
ONE_HOT = np.eye(4, dtype="int64")[N]
LOSSES = {
    "l1": (loss.L1Loss("sum"), (P, T), np.abs(P - T).sum()), "mse": (loss.MSELoss(), (P, T), ((P - T) ** 2).mean()),
    "none": (loss.MSELoss("none"), (P, T), (P - T) ** 2),
    "cross entropy": (loss.CrossEntropyLoss(), (P, N, W), -(W[N] * SOFT[np.arange(3), N]).sum() / W[N].sum()),
    "categorical": (loss.CategoricalCrossEntropyLoss("sum"), (P, ONE_HOT), -SOFT[np.arange(3), N].sum()),
    "ignored": (loss.CategoricalCrossEntropyLoss("sum", 0), (P, ONE_HOT), -SOFT[[0, 2], [2, 3]].sum()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    own, values, expected = LOSSES[name]
    func = own(*(relax.TensorStructInfo(v.shape, str(v.dtype)) for v in values))
    np.testing.assert_allclose(results(func, values), expected, rtol=1e-6)


def test_a_loss_fits_its_model():
    scalar = relax.TensorStructInfo((), "float32")
    with pytest.raises(ValueError, match="result 0 of backbone is"):
        relax.training.AppendLoss("backbone", loss.MSELoss("none")(scalar, scalar))(Perceptron)
    with pytest.raises(ValueError, match="attribute param_num"):
        SetupTrainer(loss.MSELoss(), optimizer.SGD(0.1), [scalar, scalar])(
            tvm.IRModule({"backbone": Perceptron["backbone"]}))


def test_parameters_must_have_values():
    infos = [relax.TensorStructInfo((4, 2), "float32")] * 2
    mod = SetupTrainer(loss.MSELoss(), optimizer.SGD(0.1), infos)(Perceptron)
    trainer = Trainer(mod, None, tvm.cpu(), False)
    with pytest.raises(RuntimeError, match="w0 has no value"):
        trainer.predict(X)
    with pytest.raises(ValueError, match="no parameter w9"):
        trainer.load_params({"w9": X})
    for wrong in (np.zeros((1, 1), "float32"), np.zeros(trainer._param_vars[0].struct_info.shape, "float64")):
        with pytest.raises(ValueError, match=r"parameter w0 is R.Tensor\(.*float32.*\), got"):
            trainer.load_params({"w0": wrong})


def test_wrong_gradients_are_found():
    with pytest.raises(AssertionError, match="differs"):
        check_numerical_grads(lambda x: float((x ** 2).sum()), [np.ones(3)], [np.array([2.0, 2.0, 3.0])])
    check_numerical_grads(lambda x: float((x ** 2).sum()), {"x": np.ones(3)}, {"x": np.full(3, 2.0)})
