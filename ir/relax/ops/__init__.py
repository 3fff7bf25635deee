"""The operator families. Importing this package fills the table in ir/op.py; a new operator is one row in one file."""
from . import attention, conv, conv_winograd  # noqa: F401
from . import gathered, layout, matmul, matmul_quantized  # noqa: F401
from . import norm, phases, pointwise, pool, qnn  # noqa: F401
from . import requantize  # noqa: F401
from . import broadcast, classic_ml, create, dynamic, elementwise, image, injective, linalg, memory  # noqa: F401
from . import (  # noqa: F401
    random, recurrent, reduce, sample, scan, scatter, sort, tree_branches, trees, unpool, view, words)
