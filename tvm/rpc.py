"""tvm.rpc: a session on this machine, with the interface that sessions on others have. Servers and trackers are not there."""
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..runtime.device import cpu, device
from ..runtime.executable import load_module
from ..runtime.registry import get_global_func


class LocalSession:
    """Files are uploaded to a folder of the session, and loaded from there; devices and functions are this process's.

        remote = rpc.LocalSession()
        remote.upload("net.so")
        vm = relax.VirtualMachine(remote.load_module("net.so"), remote.cpu())
    """

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="ingot-session-")

    def upload(self, data, target=None):
        """Put a file (a path, or its bytes) into the session's folder, under `target` or its own name."""
        if isinstance(data, (bytes, bytearray)):
            if target is None:
                raise ValueError("upload of bytes needs a target, the name of the file")
            self._path(target).write_bytes(data)
        else:
            shutil.copy(data, self._path(target or Path(data).name))

    def download(self, path):
        """The bytes of a file of the session's folder. FileNotFoundError where there is none."""
        return self._path(path).read_bytes()

    def remove(self, path):
        """Remove a file of the session's folder."""
        self._path(path).unlink()

    def load_module(self, path):
        """The module in a file of the session's folder, as tvm.runtime.load_module's."""
        return load_module(str(self._path(path)))

    def get_function(self, name):
        """The registered function `name`."""
        return get_global_func(name)

    def cpu(self, dev_id=0):
        return cpu(dev_id)

    def device(self, dev_type, dev_id=0):
        return device(dev_type, dev_id)

    def _path(self, name):
        path = Path(self._folder.name, name)
        if Path(self._folder.name).resolve() not in path.resolve().parents:
            raise ValueError(f"{name} lies outside of the session's folder")
        return path


_ABSENT = ("Server", "connect", "connect_tracker", "RPCSession", "TrackerSession", "Tracker", "with_minrpc")


def __getattr__(name):
    if name in _ABSENT:
        raise AttributeError(f"tvm.rpc.{name} is not there: sessions are of this machine, rpc.LocalSession(); how boards "
                             "are run docs/board-protocol.md says")
    raise AttributeError(f"module 'tvm.rpc' has no attribute {name!r}")


__all__ = ["LocalSession"]
