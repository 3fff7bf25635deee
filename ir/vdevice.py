"""VDevice: a device that a script names for a tensor."""
from __future__ import annotations

from .node import Node, node


@node
class VDevice(Node):
    """target: its name; vdevice_id: which of several alike; memory_scope: where tensors lie. Struct info carries it; a
    network runs on one device."""

    target: str = ""
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self):
        object.__setattr__(self, "target", str(self.target))


@node
class DummyGlobalInfo(Node):
    """A global info that says nothing."""
