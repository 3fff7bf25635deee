"""The operator families. Importing this package fills the table in ir/op.py; a new operator is one row in one file."""
from . import attention, column_digits, conv, conv_digits, gathered, layout, matmul  # noqa: F401
from . import matmul_digits, norm, phases, pool, winograd, winograd_digits, winograd_rows  # noqa: F401
from . import broadcast, create, elementwise, image, injective, memory, recurrent, reduce, scan, view  # noqa: F401
