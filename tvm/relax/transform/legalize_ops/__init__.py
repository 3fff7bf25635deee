"""relax.transform.legalize_ops: what LegalizeOps makes of operators."""
from . import common  # noqa: F401
from .common import register_legalize  # noqa: F401
