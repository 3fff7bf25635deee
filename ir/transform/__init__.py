"""Passes: the functions, their names (pass_table), how they run (context, instrument), and the lists (pipeline)."""
from .context import PassContext, PassInfo, Sequential, function_pass, module_pass, prim_func_pass  # noqa: F401
from . import pattern_rewrite  # noqa: F401  (scripts name it: R.rewriter)
