"""tvm.meta_schedule.testing: workloads as tensor expressions."""
from . import te_workload  # noqa: F401
