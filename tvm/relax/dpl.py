"""relax.dpl: patterns of values, and what rewrites by them.

    x = wildcard()
    doubled = is_op("relax.add")(x, x)
    func = rewrite_call(doubled, lambda call, found: R.multiply(found[x], R.const(2.0)), func)
"""
from ...ir.relax.patterns import *  # noqa: F401,F403
from ...ir.relax.patterns import PatternContext, PatternSeq  # noqa: F401
from ...ir.transform.pattern_rewrite import (  # noqa: F401
    ExprPatternRewriter, OrRewriter, PatternMatchingRewriter, TupleRewriter, rewrite_bindings, rewrite_call)

__path__ = []  # relax.dpl.pattern, which some scripts import, is this module too
__all__ = [name for name in globals() if name[0] != "_" and name != "annotations"]
