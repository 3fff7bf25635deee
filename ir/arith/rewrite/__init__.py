"""rewrite_simplify and canonical_simplify: rules as TVM's users know them; the first leave an expression its shape, the
second write sums in one way. What is known of variables, and the proofs that conditions ask for, are the Analyzer's."""
from .canonical import Canonicalizer
from .rewriter import Rewriter

__all__ = ["Canonicalizer", "Rewriter"]
