"""Ingot casts neural networks into readable, standalone C.

    import ingot
    lib = ingot.compile("model.onnx")          # a path, an onnx.ModelProto or an IRModule
    y = lib(x)
    lib.export("model/")                       # the folder of C

    import ingot as tvm                        # programs of one's own: the names of TVM's classic interface
    from ingot import te, tir, relax, topi
    from ingot.script import ir as I, tir as T, relax as R
    mod = tvm.build(sch.mod, target="c")
    mod["main"](tvm.nd.array(x), y)

Names are loaded when they are first used, so that importing is quick. TVM's are those of the package ingot.tvm.
"""
from importlib import import_module as _import_module

from . import tvm as _tvm

# name -> the module that defines it
_NAMES = {
    **dict.fromkeys(("compile", "from_onnx", "inspect_stage", "memory_report", "recorded_plans",
                     "recorded_schedules", "verified_folder", "verify", "MemoryReport"), "api"),
    **dict.fromkeys(("Schedule", "ScheduleError"), "ir.schedule"), "quantize": "quantization",
    **dict.fromkeys(("DataType", "DataTypeCode"), "ir.dtype"),
    "IRModule": "ir.module", "Target": "codegen.target", "VERSION": "codegen.compile",
}
_MODULES = ("ir", "runtime", "script")


def __getattr__(name):
    if name == "__version__":
        value = __getattr__("VERSION")
    elif name in _NAMES:
        value = getattr(_import_module("." + _NAMES[name], __name__), name)
    elif name in _MODULES:
        return _import_module("." + name, __name__)
    elif name in _tvm.NAMES:
        value = getattr(_tvm, name)
    else:
        raise _tvm.no_attribute(__name__, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_NAMES, *_MODULES, *_tvm.NAMES, "__version__"})
