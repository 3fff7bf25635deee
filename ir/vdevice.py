"""VDevice: a device that a script names for a tensor."""
from __future__ import annotations

from .node import Node, node


class GlobalInfo(Node):
    """Base of what functions of a module speak of by number."""

    __slots__ = ()


@node
class VDevice(GlobalInfo):
    """target: its name; vdevice_id: which of several alike; memory_scope: where tensors lie. Struct info carries it; a
    network runs on one device."""

    target: str = ""
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self):
        target = self.target
        if isinstance(target, dict):  # {"kind": "cuda", "arch": "sm_80"}
            options = [f"-{k}={' '.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in target.items()
                       if k not in ("kind", "tag", "keys") and v != ""]
            target = " ".join([target["kind"], *options])
        object.__setattr__(self, "target", str(target))

    @property
    def kind(self):
        """The target's name, without options."""
        return self.target.split(" ")[0]


@node
class DummyGlobalInfo(GlobalInfo):
    """A global info that says nothing."""
