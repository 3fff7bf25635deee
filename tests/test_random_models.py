"""Random models against onnxruntime: every family of operators, targets, threads, symbolic dimensions.

A seed of the day is drawn, and printed where one fails; INGOT_SEED=... runs the same models again. A failing model is
made small and printed."""
import datetime
import os

import numpy as np
import pytest

import ingot
from networks import onnxruntime_outputs
from random_models import RandomModel, part_of, shrunk, text_of

SEED = int(os.environ.get("INGOT_SEED") or datetime.date.today().strftime("%Y%m%d"))
MODELS = int(os.environ.get("INGOT_RANDOM_MODELS") or 40)
PER_TEST = 10
BUILDS = (("host", "openmp", 2), ("host", "none", 2), ("c", "none", 2), ("x86-64-v3", "none", 2), ("host", "none", 1),
          ("c", "openmp", 1))
TOLERANCE = 2e-5  # of an output's largest magnitude; Winograd's transforms err most


def error_of(model, feeds, build):
    """"" where the library of this build gives what onnxruntime gives; what differs otherwise, or what is raised."""
    target, threads, opt_level = build
    expected = onnxruntime_outputs(model, feeds)
    try:
        with ingot.compile(model, target=target, threads=threads, opt_level=opt_level) as library:
            found = library.run(feeds)
    except Exception as error:  # noqa: BLE001  (no model of this generator may be refused)
        return f"{type(error).__name__}: {error}"
    for (name, a), b in zip(found.items(), expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        scale = max(float(np.max(np.abs(b), initial=0, where=np.isfinite(b))), 1e-6)
        if not np.allclose(a, b, rtol=0, atol=TOLERANCE * scale, equal_nan=True):
            return f"{name} differs by {np.max(np.abs(a - b)) / scale:.1e} of its largest magnitude"
    return ""


def value_of(model, name, feeds):
    """A tensor of the model, as onnxruntime computes it."""
    return onnxruntime_outputs(part_of(model, [name]), feeds)[0]


def report(model, feeds, build, seed):
    """The failing model made small, as text with how to run it again."""
    small, given = shrunk(model, feeds, lambda m, f: bool(error_of(m, f, build)), value_of)
    shapes = {name: array.shape for name, array in given.items()}
    return (f"INGOT_SEED={SEED}: model {seed} built for {build}: {error_of(small, given, build)}\n"
            f"inputs {shapes}\n{text_of(small)}")


@pytest.mark.parametrize("first", range(0, MODELS, PER_TEST))
def test_random_models(first):
    failures = []
    for number in range(first, min(first + PER_TEST, MODELS)):
        seed = [SEED, number]
        random = RandomModel(seed)
        model, feeds, build = random.model(), random.feeds(), BUILDS[number % len(BUILDS)]
        if error_of(model, feeds, build):
            failures.append(report(model, feeds, build, seed))
    assert not failures, "\n\n".join(failures)


def test_generated_models_hold_every_family():
    """And are valid models."""
    import onnx
    operators = set()
    for number in range(150):
        model = RandomModel([1, number]).model()
        onnx.checker.check_model(model)
        operators |= {node.op_type for node in model.graph.node}
    assert {"Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "MatMul", "Gemm", "ReduceSum", "ReduceMax", "Reshape",
            "Transpose", "Concat", "Split", "Gather", "Slice", "Pad", "Softmax", "LayerNormalization", "Where",
            "BatchNormalization", "PRelu", "Add"} <= operators


def test_a_failing_model_is_made_small():
    """A rule that fails for every Softmax leaves that node alone."""
    model, feeds = next((r.model(), r.feeds()) for r in (RandomModel([2, n]) for n in range(100)) if any(
        node.op_type == "Softmax" for node in r.nodes[2:-2]))
    small, given = shrunk(model, feeds, lambda m, f: any(n.op_type == "Softmax" for n in m.graph.node), value_of)
    assert [node.op_type for node in small.graph.node] == ["Softmax"]
    assert list(given) == [i.name for i in small.graph.input] and "Softmax" in text_of(small)
