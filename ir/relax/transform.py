"""relax.transform: the passes over graph functions by their field names, and what makes passes of functions."""
from ..transform.context import PassContext, PassInfo, Sequential, function_pass, module_pass  # noqa: F401
from ..transform.pass_table import RELAX

globals().update(RELAX)
__all__ = [*RELAX, "PassContext", "PassInfo", "Sequential", "function_pass", "module_pass"]
