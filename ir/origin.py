"""Where a node came from: an ONNX node (name, operator) or a line of script. Carried for comments and errors."""
from __future__ import annotations

from .node import Node, node


@node
class Origin(Node):
    """name: the source's own name (a node or output name); op: its operator ("Conv"); output: the tensor it made."""

    name: str
    op: str = ""
    output: str = ""

    def __str__(self):
        return f"{self.name} ({self.op})" if self.op else self.name
