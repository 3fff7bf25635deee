"""The importer's exceptions."""


class OnnxImportError(ValueError):
    """A model that cannot be imported. The message names the node, its operator and opset, and what to do."""


class UnknownBound(OnnxImportError):
    """A dimension that a run decides needs an upper bound from the user: nothing else helps."""


class NarrowedWarning(UserWarning):
    """What the import makes of a model is narrower than the model."""


class UnknownOperand(OnnxImportError):
    """An operand that must be known when compiling is decided by a run."""
