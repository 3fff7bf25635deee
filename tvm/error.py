"""tvm.error: the errors of scripts. Ingot's are Python's, or kinds of their own."""
from ..ir.script.errors import ScriptError as DiagnosticError  # noqa: F401

TVMError = Exception
InternalError = Exception


class OpError(Exception):
    """What importers of a script's own raise of an operator."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that is not implemented."""


class OpAttributeRequired(OpError, AttributeError):
    """An attribute that an operator needs and does not have."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute whose value an operator cannot have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute that is not implemented for an operator."""
