"""register_legalize("relax.add", f): LegalizeOps calls f(builder, call) for the operator."""
from .....ir.transform.classic.legalize_ops import register_legalize

__all__ = ["register_legalize"]
