"""tvm.meta_schedule: the workloads of its tests. Search is that of ingot's own rules (`--tune`), not of this module."""
from . import testing  # noqa: F401
