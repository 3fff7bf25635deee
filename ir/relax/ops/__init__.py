"""The operator families. Importing this package fills the table in ir/op.py; a new operator is one row in one file."""
from . import attention, conv, conv_winograd  # noqa: F401
from . import gathered, layout, matmul  # noqa: F401
from . import norm, phases, pointwise, pool, winograd_rows  # noqa: F401
from . import broadcast, create, elementwise, image, injective, memory, recurrent, reduce, scan, view  # noqa: F401
from . import linalg, random, sample, scatter, sort, unpool  # noqa: F401
