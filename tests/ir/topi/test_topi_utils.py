"""topi.utils."""
import numpy as np
import pytest
from topi_check import interpret

from ingot.ir.expr import Var
from ingot.ir.topi import utils


def test_numbers_of_expressions():
    n = Var("n", "int32")
    assert utils.get_float_tuple((1.5, 2.0)) == (1.5, 2.0) and utils.get_max_power2_factor(24) == 8
    assert utils.get_max_power2_factor(24, 5) == 4 and utils.swap([1, 2, 3], 0) == [3, 2, 1]
    assert utils.get_shape((2, 3, 4), "NCW", "NWC") == (2, 4, 3) and int(utils.ceil_div(7, 2)) == 4
    assert utils.is_dynamic_shape((n, 2)) and not utils.is_dynamic_shape((3, 2))
    assert utils.is_empty_shape((n, 0)) and not utils.is_empty_shape((n, 2))
    with pytest.raises(ValueError, match="symbolic, or no float"):
        utils.get_const_float(n)
    with pytest.raises(ValueError, match="do not have the same axes"):
        utils.get_shape((2, 3), "NC", "NW")


def test_arrays_as_tensors():
    for array, make in ((np.arange(6.0, dtype="float32").reshape(2, 3), utils.const_matrix),
                        (np.arange(4, dtype="int32"), utils.const_vector)):
        (found,), _ = interpret(make(array), [], [], [array.shape])
        assert np.array_equal(found, array)
