"""N-grams, steps of optimizers, filters whose edges a run decides, Scan of opset 8, flexible attention:
against onnx's reference, or the standard's formulas."""
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import assert_same, model, one_node, value_info

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate
from ingot.runtime import NetworkError

RNG = np.random.default_rng(8)


def results(proto, feeds, dims=None):
    found = evaluate(from_onnx(proto, dims), feeds)
    return list(found) if isinstance(found, tuple) else [found]


# ---------------------------------------------------------------- n-grams

POOL = dict(ngram_counts=[0, 3, 7], pool_int64s=[2, 3, 5, 5, 6, 7, 8, 1, 2, 3], ngram_indexes=[4, 0, 1, 6, 3, 2])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("lengths, skips", [((1, 1), 0), ((2, 3), 1), ((1, 3), 4), ((2, 2), 9)])
@pytest.mark.parametrize("shape", [(12,), (3, 7), (2, 1)])
def test_n_grams(mode, lengths, skips, shape):
    x = RNG.integers(1, 9, shape)
    weights = [0.5, 2.0, 3.0, 0.25, 1.5, 7.0]
    proto = one_node("TfIdfVectorizer", [x], 9, mode=mode, min_gram_length=lengths[0], max_gram_length=lengths[1],
                     max_skip_count=skips, weights=weights, **POOL)
    assert_same(results(proto, {"x0": x}), [_n_grams(x, mode, lengths, skips, weights)])


def _n_grams(x, mode, lengths, skips, weights):
    """The counts by a search of every place."""
    starts, pool = [*POOL["ngram_counts"], len(POOL["pool_int64s"])], POOL["pool_int64s"]
    grams = [(n, pool[at:at + n]) for n in (1, 2, 3) for at in range(starts[n - 1], starts[n], n)]
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        counts = np.zeros(7, np.float32)
        for place, weight, (n, gram) in zip(POOL["ngram_indexes"], weights, grams):
            steps = range(1, skips + 2) if n > 1 else (1,)
            found = lengths[0] <= n <= lengths[1] and sum(
                [row[at + k * step] for k in range(n)] == gram
                for step in steps for at in range(len(row) - (n - 1) * step))
            counts[place] += (min(found, 1) if mode == "IDF" else found) * (1 if mode == "TF" else weight)
        rows.append(counts)
    return np.array(rows).reshape(*x.shape[:-1], 7)


def test_n_grams_that_share_a_place_are_added_up():
    proto = one_node("TfIdfVectorizer", [np.int64([1, 2, 1, 3])], 9, mode="TF", min_gram_length=1, max_gram_length=1,
                     max_skip_count=0, ngram_counts=[0], pool_int64s=[1, 2, 3], ngram_indexes=[1, 0, 1])
    np.testing.assert_array_equal(results(proto, {"x0": np.int64([1, 2, 1, 3])})[0], np.float32([1, 3]))


@pytest.mark.parametrize("change, text", [
    (dict(pool_int64s=None, pool_strings=["a"]), "strings are not supported"),
    (dict(ngram_counts=[0, 3, 8]), "does not fit a pool"), (dict(ngram_indexes=[0]), "has 1 numbers for 6"),
    (dict(pool_int64s=[2, 2, 5, 5, 6, 7, 8, 1, 2, 3]), "an n-gram twice"), (dict(min_gram_length=4), "are none"),
    (dict(weights=[1.0]), "has 1 numbers for 6 n-grams"), (dict(ngram_indexes=[4, 0, 1, 6, -1, 2]), "are no places")])
def test_pools_that_are_none(change, text):
    attrs = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 0, **POOL, **change}
    proto = one_node("TfIdfVectorizer", [np.int64([1, 2])], 9, **{k: v for k, v in attrs.items() if v is not None})
    with pytest.raises(OnnxImportError, match=text):
        from_onnx(proto)


# ---------------------------------------------------------------- optimizers

def training(op, arrays, outputs, **attrs):
    names = [f"x{k}" for k in range(len(arrays))]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], "the_node", domain="ai.onnx.preview.training",
                            **attrs)
    proto = model([node], {n: (list(a.shape), a.dtype.name) for n, a in zip(names, arrays)},
                  [f"y{k}" for k in range(outputs)], 20)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    return proto, dict(zip(names, arrays))


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("op, groups, attrs", [
    ("Adagrad", 3, dict(decay_factor=0.1, epsilon=1e-5, norm_coefficient=0.01)), ("Adagrad", 3, {}),
    ("Adam", 4, dict(alpha=0.95, beta=0.8, epsilon=1e-7, norm_coefficient=0.01, norm_coefficient_post=0.1)),
    ("Momentum", 3, dict(alpha=0.9, beta=0.3, mode="standard", norm_coefficient=0.01)),
    ("Momentum", 3, dict(alpha=0.9, beta=0.3, mode="nesterov", norm_coefficient=0.01))])
def test_steps_of_optimizers(op, groups, attrs, step):
    """Two tensors at once, in double precision, in which onnx's reference is compared."""
    tensors = [abs(RNG.standard_normal(shape)) for _ in range(groups) for shape in ((2, 3), (4,))]
    proto, feeds = training(op, [np.array(0.1), np.array(step), *tensors], 2 * (groups - 1), **attrs)
    expected = _adam(step, tensors, **attrs) if op == "Adam" else ReferenceEvaluator(proto).run(None, feeds)
    assert_same(results(proto, feeds), expected, rtol=1e-6)


def _adam(t, tensors, alpha, beta, epsilon, norm_coefficient, norm_coefficient_post):
    """By the standard's text: onnx's reference gives float32 whatever it takes."""
    news = []
    for x, g, v, h in zip(*(tensors[2 * k:2 * k + 2] for k in range(4))):
        g = norm_coefficient * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        rate = 0.1 * np.sqrt(1 - beta ** t) / (1 - alpha ** t) if t > 0 else 0.1
        news.append(((1 - norm_coefficient_post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h))
    return [new for column in zip(*news) for new in column]


def test_an_optimizer_needs_all_tensors():
    proto, _ = training("Adagrad", [np.array(0.1), np.array(0), np.ones(3), np.ones(3)], 2)
    with pytest.raises(OnnxImportError, match="must have 3 for each"):
        from_onnx(proto)


# ---------------------------------------------------------------- filters, Scan, attention

@pytest.mark.parametrize("bins, length, rate, low, high", [(8, 16, 8192, 0, 4096), (20, 128, 16000, 20, 7600)])
@pytest.mark.parametrize("constants", [range(5), (0, 1), ()])
def test_mel_filters(bins, length, rate, low, high, constants):
    arrays = [np.int32(bins), np.int32(length), np.int32(rate), np.float32(low), np.float32(high)]
    proto = one_node("MelWeightMatrix", arrays, 17, constants)
    proto.graph.output[0].CopyFrom(value_info("y0", [length // 2 + 1, bins]))
    feeds = {f"x{i}": v for i, v in enumerate(arrays) if i not in constants}
    assert_same(results(proto, feeds), ReferenceEvaluator(proto).run(None, feeds))


def test_filters_beyond_the_spectrum_are_refused_by_the_run():
    arrays = [np.int32(8), np.int32(16), np.int32(8192), np.float32(0), np.float32(4096)]
    proto = one_node("MelWeightMatrix", arrays, 17, (0, 1))
    with ingot.compile(proto, threads="none", name="mels") as library:
        assert library(*arrays[2:]).shape == (9, 8)
        for change in ({2: np.int32(4096)}, {3: np.float32(5000)}, {4: np.float32(np.nan)}, {2: np.int32(0)}):
            with pytest.raises(NetworkError) as error:
                library(*(change.get(k, arrays[k]) for k in (2, 3, 4)))
            assert error.value.status == -5 and "operands of the node of y0, which" in str(error.value)


@pytest.mark.parametrize("batch, directions", [(1, [0]), (3, [1])])
def test_scan_of_opset_8(batch, directions):
    nodes = [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["r"])]
    body = helper.make_graph(nodes, "b", [value_info("s", [2]), value_info("x", [2])],
                             [value_info("t", [2]), value_info("r", [2])])
    node = helper.make_node("Scan", ["", "s0", "xs"], ["y", "rows"], num_scan_inputs=1, body=body,
                            directions=directions)
    proto = model([node], {"s0": ["n", 2], "xs": ["n", 4, 2]}, ["y", "rows"], 8)
    start, xs = RNG.standard_normal((batch, 2)).astype("f"), RNG.standard_normal((batch, 4, 2)).astype("f")
    ordered = xs[:, ::-1] if directions[0] else xs
    sums = start[:, None] + np.cumsum(ordered, axis=1)
    assert_same(results(proto, {"s0": start, "xs": xs}, {"n": batch}), [sums[:, -1], sums * ordered])
    with pytest.raises(OnnxImportError, match="pin it with dims"):
        from_onnx(proto)


def test_flexible_attention():
    shape = [2, 4, 5, 6]
    plain = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], "attend", domain="ai.onnx.preview", scale=1.0)
    proto = model([plain], {n: shape for n in "qkv"}, ["y"], 26)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    q, k, v = (RNG.standard_normal(shape).astype("f") for _ in range(3))
    scores = q @ k.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    assert_same(results(proto, {"q": q, "k": k, "v": v}), [expected])
