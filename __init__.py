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

Names are loaded when they are first used, so that importing is quick.
"""
import sys as _sys
from importlib import abc as _abc, import_module as _import_module, machinery as _machinery

# name -> the module that defines it
_NAMES = {
    **dict.fromkeys(("compile", "from_onnx", "inspect_stage", "memory_report", "recorded_schedules", "verify",
                     "MemoryReport"), "api"),
    **dict.fromkeys(("build", "lower"), "driver"),
    **dict.fromkeys(("Device", "cpu", "cuda", "device"), "runtime.device"),
    **dict.fromkeys(("Schedule", "ScheduleError"), "ir.schedule"),
    "DataType": "ir.dtype", "IRModule": "ir.module", "Target": "codegen.target", "VERSION": "codegen.compile",
}
# Modules that scripts know by another place than where they are; what is below them follows.
_PLACES = {
    "arith": "ir.arith", "contrib": "runtime.contrib", "nd": "runtime.ndarray", "relax": "ir.relax",
    "target": "codegen.target", "te": "ir.te",
    "tir": "ir.tir", "tir.expr": "ir.expr", "tir.op": "ir.tir.intrin", "tir.schedule": "ir.schedule",
    "topi": "ir.topi", "transform": "ir.transform",
    "instrument": "ir.transform.instrument", "ir.instrument": "ir.transform.instrument",
}
# What scripts know by the name of a layer below the one where it is.
_LENT = {"ir.relax": dict.fromkeys(("build", "Executable", "VirtualMachine"), "runtime.vm")}
_MODULES = (*(name for name in _PLACES if "." not in name), "ir", "runtime", "script", "testing")


TVMError = Exception  # the errors here are Python's, or of a kind of their own: what catches any TVMError, any of these


def __getattr__(name):
    if name == "__version__":
        value = _import_module(".codegen.compile", __name__).VERSION
    elif name in _NAMES:
        value = getattr(_import_module("." + _NAMES[name], __name__), name)
    elif name in _MODULES:
        return _import_module("." + name, __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_NAMES, *_MODULES, "__version__"})


class _Elsewhere(_abc.MetaPathFinder, _abc.Loader):
    """Imports ingot.tir as the module ingot.ir.tir, and so on: one module object under both names."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package == __name__ and _real_name(name) not in (None, name):
            return _machinery.ModuleSpec(fullname, self)

    def create_module(self, spec):
        place = _real_name(spec.name.partition(".")[2])
        module = _import_module("." + place, __name__)
        for name, lender in _LENT.get(place, {}).items():
            module.LENT[name] = lambda name=name, lender=lender: getattr(_import_module("." + lender, __name__), name)
        self.own_specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module):
        """The module is complete; the importer has just given it the other name's spec."""
        module.__spec__ = self.own_specs.pop(module.__spec__.name)

    own_specs = {}


def _real_name(name):
    """The place of a module below this package: "tir.stmt" is "ir.tir.stmt"; None for one that is where it says."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        place = _PLACES.get(".".join(parts[:n]))
        if place is not None:
            return ".".join((place, *parts[n:]))


_sys.meta_path.insert(0, _Elsewhere())
