"""The language (relax.dpl) of dataflow patterns: what a value looks like, and how values use one another.

    pattern.py   patterns of values, and how each is matched
    forms.py     how scripts write them
    graph.py     PatternContext: patterns that use one another in a dataflow block

What rewrites by patterns is transform/pattern_rewrite.py.
"""
from .forms import *  # noqa: F401,F403
from .graph import PatternContext, PatternSeq  # noqa: F401
from .pattern import *  # noqa: F401,F403
