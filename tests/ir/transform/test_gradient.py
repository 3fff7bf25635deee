"""transform.Gradient: each row against differences, tuples, checkpoints, PrimFuncs, and what is refused."""
import numpy as np
import pytest

import ingot
from ingot import relax, te
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.transform.classic.legalize_ops import legalize_for_builds
from ingot.ir.transform.in_operators import in_operators
from ingot.ir.transform.training.gradient import GradientError
from ingot.ir.transform.training.gradient_rows import GRADIENTS
from ingot.script import relax as R
from ingot.tvm.relax.training.utils import register_te_gradient

op = relax.op
Gradient = relax.transform.Gradient


def scalar_module(function, infos, weight=None):
    """The module whose main gives the weighted sum of function(variables)."""
    variables = [relax.Var(f"x{n}", i) for n, i in enumerate(infos)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            y = builder.emit(function(*variables))
            if weight is not None:
                y = builder.emit(op.sum(op.multiply(y, relax.const(weight(y.struct_info), "float64"))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get()


def run(mod, name, values):
    mod = in_operators(legalize_for_builds(mod))
    return evaluate(mod.with_function("main", mod[name]), values)


def check_gradients(function, values, sources=None):
    """Hold the gradients of function(variables) against central differences, in float64."""
    rng = np.random.default_rng(0)
    infos = [relax.TensorStructInfo(v.shape, str(v.dtype)) for v in values]
    mod = scalar_module(function, infos, lambda i: rng.uniform(0.5, 1.5, [int(d) for d in i.shape]))
    after = Gradient("main")(mod)
    assert relax.analysis.well_formed(after)
    loss, gradients = run(after, "main_adjoint", values)
    np.testing.assert_allclose(loss, run(mod, "main", values))
    for n, (value, found) in enumerate(zip(values, gradients)):
        assert found.shape == value.shape
        if value.dtype != np.float64:
            assert not found.any()
            continue
        for place in list(np.ndindex(value.shape))[::max(1, value.size // 6)]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() for v in values]
                moved[n][place] += step
                ends.append(run(mod, "main", moved))
            np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-6)


def some(*shape, low=0.3, high=0.9):
    return np.random.default_rng(sum(shape) + 1).uniform(low, high, shape)


ELEMENTS = """abs acos asin asinh atan atanh cos cosh erf exp log negative nn.relu nn.silu nn.softplus nn.gelu reciprocal
    rsqrt sigmoid sin sinh sqrt square tan tanh nn.softmax nn.log_softmax mean variance copy flatten squeeze""".split()


def member(name):
    found = op
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", ELEMENTS)
def test_rows_of_one_tensor(name):
    check_gradients(member(name), [some(2, 1, 3)])
    assert name in GRADIENTS


@pytest.mark.parametrize("name", "add subtract multiply divide power maximum minimum".split())
def test_rows_of_broadcast_operators(name):
    check_gradients(getattr(op, name), [some(2, 3), some(3) + 0.05])


X = some(2, 3, 4)
CASES = {
    "acosh": (op.acosh, [X + 1]),
    "where": (lambda x, y: op.where(op.less(x, relax.const(0.5, "float64")), x, y), [X, some(4)]),
    "clip": (lambda x: op.clip(x, 0.4, 0.7), [X]), "full": (lambda x: op.full((2, 3), x), [some()]),
    "leaky": (lambda x: op.nn.leaky_relu(x - relax.const(0.6, "float64")), [X]),
    "sum": (lambda x: op.sum(x * x, [-1, 0]), [X]), "keepdims": (lambda x: op.mean(x * x, 1, True), [X]),
    "variance": (lambda x: op.variance(x, [0, 2]), [X]), "max": (lambda x: op.max(x, [1]), [X]),
    "min": (lambda x: op.min(x, [-1, 0], True), [X]),
    "permute_dims": (lambda x: op.permute_dims(x, [2, 0, -2]), [X]), "reversed": (op.permute_dims, [X]),
    "concat": (lambda x, y: op.concat((x, y, x), 1), [X, some(2, 1, 4)]),
    "one": (lambda x: op.concat((x,), 0) * x, [X]),
    "split": (lambda x: (lambda t: t[1] * t[0])(op.split(x, 2, -1)), [X]),
    "parts": (lambda x: op.split(x, [1, 3], 2)[1], [X]),
    "expand_dims": (lambda x: op.expand_dims(x, [1, -1]), [X]), "reshape": (lambda x: op.reshape(x, (4, 6)), [X]),
    "broadcast_to": (lambda x: op.broadcast_to(x, (3, 2, 4)), [some(2, 1)]), "flip": (lambda x: op.flip(x, 1), [X]),
    "cumsum": (lambda x: op.cumsum(x, 1), [X]), "exclusive": (lambda x: op.cumsum(x, -1, exclusive=True), [X]),
    "triu": (lambda x: op.triu(x, 1), [X]), "tril": (lambda x: op.tril(x, -1), [X]),
    "take": (lambda x: op.take(x, relax.const([[1, 2], [1, 0]], "int64"), 1), [X]),
    "matmul": (op.matmul, [X, some(4, 2)]), "batch": (op.matmul, [some(2, 1, 2, 3), some(3, 3, 2)]),
    "row": (op.matmul, [some(3), some(2, 3, 2)]), "column": (op.matmul, [some(2, 2, 3), some(3)]),
    "vectors": (op.matmul, [some(3), some(3)]),
    "cross_entropy": (op.nn.cross_entropy_with_logits, [some(2, 3), some(2, 3)]),
    "nll": (lambda x: op.nn.nll_loss(x, relax.const([2, 0], "int64"), relax.const(some(3)), "mean", 1), [some(2, 3)]),
    "ignored": (lambda x: op.nn.nll_loss(x, relax.const([2, -100], "int64"), reduction="none"), [some(2, 3)]),
    "class weights": (lambda x, w: op.nn.nll_loss(x, relax.const([2, 0, 1, 2], "int64"), w, "mean", 1), [
        some(4, 3), some(3)]),
    "each": (lambda x, w: op.nn.nll_loss(x, relax.const([[2, 1]], "int64"), w, "none"), [some(1, 3, 2), some(3)]),
    "of one": (lambda x, w: op.nn.nll_loss(x, relax.const(2, "int64"), w, "sum"), [some(3), some(3)]),
    "avg_pool2d": (lambda x: op.nn.avg_pool2d(x, 2, 1, 1, count_include_pad=True), [some(1, 1, 3, 3)]),
    "max_pool2d": (lambda x: op.nn.max_pool2d(x, 2, 2, (0, 1, 1, 0), ceil_mode=True), [some(1, 1, 4, 3)]),
    "conv2d": (lambda x, w: op.nn.conv2d(x, w, 2, (1, 0, 1, 2), 1), [some(1, 2, 5, 4), some(2, 2, 3, 2)]),
    "dilated": (lambda x, w: op.nn.conv2d(x, w, 1, 1, 2), [some(2, 1, 5, 4), some(2, 1, 2, 2)]),
    "grouped": (lambda x, w: op.nn.conv2d(x, w, (1, 2), 0, 1, 2), [some(2, 4, 3, 4), some(4, 2, 2, 2)]),
    "layer_norm": (lambda x, g, b: op.nn.layer_norm(x, g, b, [-1], 0.01), [X, some(4), some(4) - 1]),
    "layer_norm of two": (lambda x, g, b: op.nn.layer_norm(x, g, b, [1, 2], 0.01), [X, some(3, 4), some(3, 4) - 1]),
    "rms_norm": (lambda x, g: op.nn.rms_norm(x, g, [-1], 0.01), [X, some(4)]),
    "pad": (lambda x: op.nn.pad(x, (0, 1, 2, 0, 0, 0)), [X]),
    "cut": (lambda x: op.nn.pad(x, (0, 1, -1, 0, 1, -2)), [X]),
    "slice": (lambda x: op.strided_slice(x, [1, -1], [1, -3], [3, 4]), [X]),
    "group_norm": (lambda x, g, b: op.nn.group_norm(x, g, b, 2, 1, [2]), [some(1, 4, 3), some(4), some(4) - 1]),
    "stack": (lambda x, y: op.stack((x, y), 1), [some(2, 3), some(2, 3) + 1]),
    "einsum": (lambda x, y: op.einsum((x, y), "ij,kj->ik"), [some(2, 3), some(4, 3)]),
    "integers": (lambda x, n: op.astype(n, "float64") * x, [X, np.arange(4)]),
    "no_grad": (lambda x: op.add(x, op.multiply(op.floor(x), x)), [X]),
}


@pytest.mark.parametrize("name", CASES)
def test_rows(name):
    check_gradients(*CASES[name])


def test_a_product_of_a_wider_dtype():
    mod = scalar_module(lambda x, y: op.matmul(x, y, "float64"), [
        relax.TensorStructInfo(shape, "float32") for shape in ((1, 2), (2, 1))], lambda i: np.array([[2.0]]))
    _, (of_x, of_y) = run(Gradient("main")(mod), "main_adjoint", [np.float32([[1, 2]]), np.float32([[3], [4]])])
    assert of_x.tolist() == [[6, 8]] and of_y.tolist() == [[2], [4]] and of_x.dtype == of_y.dtype == np.float32


def test_of_zero_to_a_power():
    """Neither the logarithm of 0 nor its power of -1 must make a gradient NaN."""
    mod = scalar_module(op.power, [relax.TensorStructInfo((), "float64")] * 2)
    for exponent in (2.0, 0.0):
        _, found = run(Gradient("main")(mod), "main_adjoint", [np.array(0.0), np.array(exponent)])
        assert found == (0, 0)


def test_tuples():
    def f(x, y):
        t = relax.Tuple([relax.Tuple([y, x]), x])
        bind = relax.BlockBuilder.current().emit
        t = bind(t)
        u = bind(t[0])
        again = bind(t)
        return u[0] * u[1] * bind(again[0])[0] * t[1]
    check_gradients(f, [some(2), some(2) * 2])


def test_tuples_of_parameters():
    """What is not used has zeros."""
    @R.function
    def f(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32")), y: R.Tensor((2,), "float32")):
        with R.dataflow():
            z = R.sum(x[0] * y)
            R.output(z)
        return z
    adjoint = Gradient("main")(ingot.IRModule({"main": f}))["main_adjoint"]
    assert [str(i) for i in adjoint.ret_struct_info.fields[1].fields] == [str(p.struct_info) for p in f.params]
    assert "R.zeros(R.shape([3])" in str(adjoint)


def checkpointed(x):
    bind = relax.BlockBuilder.current().emit
    begin = bind(op.grad.start_checkpoint(x))
    a = bind(op.exp(begin))
    b = bind(op.sin(a))
    return bind(op.multiply(bind(op.grad.end_checkpoint(b)), x))


def test_checkpoints():
    """What lies between the marks is computed again, from what is kept; the gradients are the same."""
    check_gradients(checkpointed, [some(3)])
    mod = scalar_module(checkpointed, [relax.TensorStructInfo((3,), "float64")], lambda i: some(3))
    text = str(Gradient("main")(mod)["main_adjoint"])
    assert text.count("R.exp(") == 2 and "checkpoint" not in text


def test_products_of_transposes():
    def f(a, b):
        return op.matmul(op.permute_dims(a, [0, 2, 1]), op.permute_dims(b))
    check_gradients(f, [some(2, 3, 2), some(4, 3)])
    infos = [relax.TensorStructInfo((3, 2), "float64"), relax.TensorStructInfo((4, 3), "float64")]
    mod = scalar_module(lambda a, b: op.matmul(op.permute_dims(a), op.permute_dims(b)), infos, lambda i: some(2, 4))
    values = Gradient("main")(mod)["main_adjoint"].bindings
    assert sum(getattr(b.value, "op", "") == "permute_dims" for b in values) == 6  # two forward, four backward


def times(a, b):
    return te.compute(a.shape, lambda *i: a[i] * b[i], name="times")


def test_gradients_of_prim_funcs():
    register_te_gradient("times_grad", lambda g, a, b, scale: [
        te.compute(a.shape, lambda *i: g[i] * b[i] * scale, name="of_a"),
        te.compute(b.shape, lambda *i: g[i] * a[i] * scale, name="of_b")])
    check_gradients(lambda a, b: relax.BlockBuilder.current().call_te_with_grad(
        times, a, b, te_grad_name="times_grad", te_grad_kwargs={"scale": 1.0}), [some(2, 3), some(2, 3) * 2])


def test_registered_rows():
    """A row of a script's own, by TVM's name of the operator."""
    before = GRADIENTS["tan"]
    try:
        op.register_gradient("relax.tan", lambda result, call, g, builder: [op.multiply(g, relax.const(7, "float64"))])
        _, (found,) = run(Gradient("main")(scalar_module(op.tan, [relax.TensorStructInfo((), "float64")])),
                          "main_adjoint", [np.array(0.5)])
        assert found == 7
    finally:
        GRADIENTS["tan"] = before


F32 = relax.TensorStructInfo((2,), "float32")
REFUSED = {
    "must be a variable that holds a float without dimensions": (lambda x: op.exp(x), [F32], {}),
    "target_index is 1": (lambda x: op.sum(x), [F32], {"target_index": 1}),
    "prod, which has no gradient": (lambda x: op.prod(x), [F32], {}),
    "takes known dimensions": (lambda x: op.mean(x), [
        relax.TensorStructInfo((ingot.tir.Var("n", "int64"),), "float32")], {}),
    "there is no variable z": (lambda x: op.sum(x), [F32], {"require_grads": relax.Var("z", F32)}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    function, infos, options = REFUSED[message]
    with pytest.raises(ValueError, match=message):
        Gradient("main", **options)(scalar_module(function, infos))


def test_two_blocks_are_refused():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.sum(x)
        return y
    with pytest.raises(GradientError, match="ConvertToDataflow"):
        Gradient("main")(ingot.IRModule({"main": f}))


def test_a_second_adjoint_has_a_name_of_its_own():
    mod = Gradient("main")(Gradient("main")(scalar_module(op.sum, [F32])))
    assert {n: f.attrs["global_symbol"] for n, f in mod.functions.items()} == {
        n: n for n in ("main", "main_adjoint", "main_adjoint1")}
