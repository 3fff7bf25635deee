"""Ingot casts neural networks into readable, standalone C.

    import ingot
    lib = ingot.compile("model.onnx")          # a path, an onnx.ModelProto or an IRModule
    y = lib(x)
    lib.export("model/")                       # the folder of C
"""
from .api import (  # noqa: F401
    MemoryReport, compile, from_onnx, inspect_stage, memory_report, verify)
from .codegen.compile import VERSION as __version__  # noqa: F401
from .codegen.target import Target  # noqa: F401
from .ir import te, tir, relax  # noqa: F401
from .ir.module import IRModule  # noqa: F401
from .ir.schedule import Schedule, ScheduleError  # noqa: F401
from . import script  # noqa: F401
