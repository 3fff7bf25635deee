"""rewrite_simplify: rules that leave an expression its shape, as TVM's users know them. What is known of variables, and
the proofs that conditions of rules ask for, are the Analyzer's."""
from .rewriter import Rewriter

__all__ = ["Rewriter"]
