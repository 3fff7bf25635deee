"""tvm.meta_schedule: the workloads of its tests. Search is that of ingot's own rules (`--tune`), not of this module."""
from ..absent import no_attribute
from . import testing  # noqa: F401


def __getattr__(name):
    raise no_attribute(__name__, name)
