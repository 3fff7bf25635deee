"""The operator families. Importing this package fills the table in ir/op.py; a new operator is one row in one file."""
from . import attention, conv, conv_digits, conv_pairs  # noqa: F401
from . import gathered, layout, matmul, matmul_digits, matmul_pairs, matmul_short  # noqa: F401
from . import norm, phases, pool, winograd, winograd_digits, winograd_pairs, winograd_rows  # noqa: F401
from . import broadcast, create, elementwise, image, injective, memory, recurrent, reduce, scan, view  # noqa: F401
