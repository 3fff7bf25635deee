"""Every row that scripts and topi brought, compiled to C in one network, against the reference evaluation."""
import numpy as np

import ingot
from ingot.ir import relax
from ingot.ir.module import IRModule
from ingot.ir.relax import op
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.verifier import verify


def network():
    x = relax.Var("x", relax.TensorStructInfo((2, 6, 7, 5), "float32"))
    i = relax.Var("i", relax.TensorStructInfo((3, 4), "int32"))
    v = relax.const(np.linspace(0.5, 1.5, 6, dtype=np.float32))
    row = relax.const(np.linspace(-1, 1, 5, dtype=np.float32))
    outputs = lambda: [  # noqa: E731
        op.tril(x, 1), op.triu(x), op.flip(x, 2), op.repeat(x, 2, 1), op.one_hot(i, 1.0, 0.0, 6, 1),
        op.variance(x, [1, 3]), op.std(x, -1, True), op.argmax(x), op.argmin(i, keepdims=True),
        op.all(x > -0.9, 1), op.any(x > 0.95, [0, 3]),
        op.nn.rms_norm(x, row, -1), op.nn.adaptive_avg_pool2d(x, (3, 4)), op.nn.adaptive_max_pool2d(x, 2),
        op.image.resize2d(x, (14, 9)), op.image.resize2d(x, (3, 10), method="nearest_neighbor"),
        op.image.resize2d(x, (7, 8), coordinate_transformation_mode="align_corners"), x // 0.3, x % 0.3, i // 3,
        op.floor_mod(i, -3), op.mod(i, -3), op.floor_mod(x, 0.3), op.isfinite(x / 0.0), op.nn.selu(x), op.zeros_like(i),
        op.cumsum(x, 2), op.cumprod(x), op.bitwise_and(i, 5), op.bitwise_not(i), op.right_shift(i, 1),
        op.bitwise_xor(i, i),
        op.full((3, 2), 7, "int8"), op.arange(0, 9, 2), op.nn.group_norm(x, v, v, 3, 1, [2, 3]),
        op.nn.prelu(x, v), op.stack([x, x * 2], 1), op.tile(x, (2, 1, 1, 1, 2)), op.nn.relu6(x * 7)]
    bb = relax.BlockBuilder()
    with bb.function("main", [x, i]):
        with bb.dataflow():
            results = [bb.emit_output(value) for value in outputs()]
        bb.emit_func_output(results)
    return IRModule(bb.get().functions, {"name": "rows"})


def test_the_rows_as_c():
    mod = verify(network())
    rng = np.random.default_rng(0)
    x, i = rng.uniform(-1, 1, (2, 6, 7, 5)).astype(np.float32), rng.integers(-7, 7, (3, 4)).astype(np.int32)
    expected = evaluate(mod, [x, i])
    with ingot.compile(mod, threads="none") as library:
        for n, (mine, want) in enumerate(zip(library(x, i), expected)):
            assert mine.dtype == want.dtype and mine.shape == want.shape, n
            np.testing.assert_allclose(mine, want, rtol=2e-5, atol=2e-5, err_msg=str(mod["main"].bindings[n]))
