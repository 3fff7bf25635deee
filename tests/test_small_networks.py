"""The small networks: every tensor that survives, the outputs beside onnxruntime's, and layers that all matter."""
import pytest

from compiled import compiled, layers, own_weights, zeroed
from networks import SMALL, feeds_of, onnxruntime_outputs, relative_error

pytestmark = pytest.mark.optimization("-O3")
TOLERANCE = 1e-5
IDLE = {"attention_net": {"bk"}, "transformer": {"w8"}}  # biases of keys: softmax takes them away again


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize("name", SMALL)
def test_tensors_outputs_and_layers(name, target, monkeypatch):
    if target == "c":  # optimized as by users for one target alone
        monkeypatch.setenv("INGOT_CFLAGS", "-O1")
    model, least = SMALL[name](), 4
    feeds = feeds_of(model)
    expected = onnxruntime_outputs(model, feeds)

    def error():
        found = network.library.run(feeds).values()
        return max(relative_error(a, b) for a, b in zip(found, expected, strict=True))

    with compiled(model, target=target, weights="file", threads="none") as network:
        report = network.compare(feeds, TOLERANCE)
        assert report.ok, report.summary()
        assert error() <= TOLERANCE
        unseen = set()
        with own_weights(network.library) as weights:
            for weight in layers(network.library.model.program, least):
                with zeroed(weights, weight):
                    if error() < 100 * TOLERANCE:
                        unseen.add(weight.name)
        assert not {n for n in unseen if not any(n.startswith(idle) for idle in IDLE.get(name, ()))}
        assert error() <= TOLERANCE
