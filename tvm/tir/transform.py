"""tir.transform: the passes over PrimFuncs by their field names, and what makes passes of functions."""
from ...ir.transform.classic import CLASSIC, HoistedConditionals, HoistedLetBindings  # noqa: F401
from ...ir.transform.context import (PassContext, PassInfo, PrimFuncPass, Sequential, module_pass,  # noqa: F401
                                     prim_func_pass)
from ...ir.transform.pass_table import TIR

globals().update(TIR)
globals().update(CLASSIC)
__path__ = []  # tir.transform.transform and tir.transform.function_pass, which some scripts import, are this module too
__all__ = [*TIR, *CLASSIC, "HoistedConditionals", "HoistedLetBindings", "PassContext", "PassInfo", "PrimFuncPass",
           "Sequential", "module_pass", "prim_func_pass"]
