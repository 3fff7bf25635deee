"""The networks that the onnx package ships with their expected outputs."""
import numpy as np
import pytest

import ingot
from ingot.frontend.onnx import from_onnx
from ingot.ir.relax.evaluate import evaluate
from networks import light_case, light_names, zoo_names

pytestmark = pytest.mark.optimization("-O0")
# Those whose layers are of kinds that others have: their graphs are evaluated alone.
ALIKE = ("inception_v1", "inception_v2", "vgg19", "zfnet512")


def assert_shipped(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-7)


def test_all_nine_are_there():
    assert len(light_names) == 9 and set(ALIKE) < set(light_names)


@pytest.mark.parametrize("name", light_names)
def test_graphs_give_the_shipped_output(name):
    path, feeds, expected = light_case(name)
    found = evaluate(from_onnx(path), feeds)
    assert_shipped(found if isinstance(found, tuple) else (found,), expected)


@pytest.mark.parametrize("name", [name for name in light_names if name not in ALIKE])
def test_compiled_ones_match_the_shipped_output(name):
    """Only the smallest of the networks is run that the zoo has with weights that tell more."""
    if name in zoo_names and name != "squeezenet":
        pytest.skip("the zoo has it")
    path, feeds, expected = light_case(name)
    with ingot.compile(path, target="host", opt_level=2) as library:
        assert_shipped(library.run(feeds).values(), expected)
