"""tir.transform: the passes over PrimFuncs by their field names, and what makes passes of functions."""
from ...ir.transform.context import PassContext, PassInfo, Sequential, module_pass, prim_func_pass  # noqa: F401
from ...ir.transform.pass_table import TIR

globals().update(TIR)
__all__ = [*TIR, "PassContext", "PassInfo", "Sequential", "module_pass", "prim_func_pass"]
