"""tvm.error: the errors of scripts. Ingot's are Python's, or kinds of their own."""
from ..ir.script.errors import ScriptError as DiagnosticError  # noqa: F401

TVMError = Exception
InternalError = Exception
