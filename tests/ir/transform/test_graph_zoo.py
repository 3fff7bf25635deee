"""The passes on whole networks: results and structure."""
import numpy as np
import pytest
from graph_check import PASSES, close, execute, ops
from networks import needs_zoo, zoo

from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.verifier import verify
from ingot.ir.transform.lower_ops import lower_ops

pytestmark = needs_zoo


def optimized(mod):
    """`mod` after each pass, each verified."""
    for p in PASSES:
        mod = verify(p(mod))
    return mod


@pytest.mark.parametrize("name", ["tiny_resnet8", "tiny_dscnn", "tiny_vww", "tiny_autoencoder", "kws_gru_lstm"])
def test_small_networks_keep_their_results(name):
    model = zoo().load(name)
    inputs = list(zoo().inputs(model).values())
    mod = from_onnx(model)
    after = optimized(mod)
    close(execute(after, *inputs), execute(mod, *inputs), 1e-5)
    verify(lower_ops(after))


def test_kernels_of_a_small_network_compute_it():
    model = zoo().load("tiny_autoencoder")
    inputs = list(zoo().inputs(model).values())
    mod = from_onnx(model)
    close(execute(verify(lower_ops(optimized(mod))), *inputs), execute(mod, *inputs), 1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_symbolic_batch_goes_through(batch):
    model = zoo().load("tiny_resnet8")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    mod = from_onnx(model)
    sizes = [d.value for d in mod["main"].params[0].struct_info.shape[1:]]
    x = np.random.default_rng(0).random((batch, *sizes), np.float32)
    after = optimized(mod)
    close(execute(after, x), execute(mod, x), 1e-5)
    fixed = optimized(from_onnx(model, dims={"batch": batch}))
    assert ops(after) == ops(fixed)
    lowered = verify(lower_ops(after))
    assert all(len(b.value.attrs["sym_args"]) == 1 for b in lowered["main"].bindings if b.value.op == "call_tir")


def test_a_residual_network_becomes_convolutions_with_epilogues():
    found = ops(optimized(from_onnx(zoo().load("resnet50"))))
    convolutions = [o for o in found if isinstance(o, tuple) and o[0] == "nn.conv2d"]
    assert len(convolutions) == 53
    assert {c for c in convolutions} == {("nn.conv2d", "add"), ("nn.conv2d", "add", "nn.relu"),
                                         ("nn.conv2d", "add", "add", "nn.relu")}
    assert not {"nn.batch_norm", "add", "multiply", "nn.relu"} & set(found)


def test_a_transformer_becomes_products_with_epilogues():
    found = ops(optimized(from_onnx(zoo().load("vit_small"))))
    assert found.count(("matmul", "add", "divide", "erf", "add", "multiply", "multiply")) == 12
    alone = [o for o in found if o in ("add", "multiply", "divide", "erf", "subtract")]
    assert alone == ["add"]  # of the positions, after a concatenation
