"""The networks that the onnx package ships with their expected outputs."""
import numpy as np
import pytest

import ingot
from networks import light_case, light_names, zoo_names


def test_all_nine_are_there():
    assert len(light_names) == 9


@pytest.mark.parametrize("name", light_names)
def test_matches_the_shipped_output(name):
    """Only the smallest of the networks is run that the zoo has with weights that tell more."""
    if name in zoo_names and name != "squeezenet":
        pytest.skip("the zoo has it")
    path, feeds, expected = light_case(name)
    with ingot.compile(path, target="host", opt_level=2) as library:
        found = library.run(feeds)
    assert len(found) == len(expected)
    for a, b in zip(found.values(), expected):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-7)
