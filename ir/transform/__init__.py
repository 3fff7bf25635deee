"""Passes: the functions, their names (pass_table), how they run (context, instrument), and the lists (pipeline)."""
from .context import (FunctionPass, ModulePass, Pass, PassContext, PassInfo, PrimFuncPass, PrintIR,  # noqa: F401
                      Sequential, function_pass, module_pass, prim_func_pass)
from .context import apply_pass_to_function as ApplyPassToFunction  # noqa: N812, F401 - the name that scripts use
from . import pattern_rewrite, symbols  # noqa: F401  (scripts name it: R.rewriter; builders name their functions)
