"""tvm.te: tensor expressions, and the older schedules over them, of stages."""
from ...ir import te as _te
from ...ir.te import *  # noqa: F401,F403
from ...ir.schedule.te_intrin import TensorIntrin, decl_tensor_intrin  # noqa: F401
from ...ir.tir.index_map import IndexMap as _IndexMap
from ..absent import absence, no_attribute
from . import hybrid  # noqa: F401
from .schedule import Schedule, create_schedule  # noqa: F401
from .stage import Stage  # noqa: F401

AXIS_SEPARATOR = _IndexMap.AXIS_SEPARATOR


def __getattr__(name):
    if absence(f"te.{name}"):
        raise no_attribute(__name__, name)
    return getattr(_te, name)
