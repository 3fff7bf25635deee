"""The importer's exceptions."""


class OnnxImportError(ValueError):
    """A model that cannot be imported. The message names the node, its operator and opset, and what to do."""
