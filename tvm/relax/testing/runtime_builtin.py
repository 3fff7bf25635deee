"""The codes that vm.builtin.match_shape and vm.builtin.make_shape take."""
from enum import IntEnum

from ....runtime import vm_functions


class MatchShapeCode(IntEnum):
    """What is done with a dimension."""

    ASSERT_EQUAL_TO_IMM = vm_functions.ASSERT_EQUAL_TO_IMM
    STORE_TO_HEAP = vm_functions.STORE_TO_HEAP
    NO_OP = vm_functions.NO_OP
    ASSERT_EQUAL_TO_LOAD = vm_functions.ASSERT_EQUAL_TO_LOAD


class MakeShapeCode(IntEnum):
    """Where a dimension comes from."""

    USE_IMM = vm_functions.USE_IMM
    LOAD_SHAPE = vm_functions.LOAD_SHAPE


__all__ = ["MakeShapeCode", "MatchShapeCode"]
