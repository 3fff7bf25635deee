"""The spellings of TVM's classic API (0.10 to 0.20): what `import ingot as tvm` finds beside Ingot's own names.

    places.py          modules under the names that scripts import them by
    driver.py          tvm.build and tvm.lower, with the forms of arguments that they take
    te/                the schedules of stages: te.create_schedule
    tir/, relax/       the passes by their names, visitors, analysis; relax.build
    contrib/, testing.py   small aids of scripts

Nothing in frontend/, ir/, codegen/ and runtime/ imports this package (tests/test_layering.py). Names are loaded when
they are first used.
"""
import sys as _sys
from importlib import import_module as _import_module

from . import places as _places
from .absent import no_attribute

_INGOT = __name__.rpartition(".")[0]

# name -> the module that defines it, below ingot
_DEFINED = {
    **dict.fromkeys(("build", "lower"), "tvm.driver"),
    **dict.fromkeys(("Device", "cpu", "cuda", "device", "ext_dev", "hexagon", "metal", "opencl", "rocm", "vpi", "vulkan",
                     "webgpu"), "runtime.device"),
    **dict.fromkeys(("context", "gpu", "mtl"), "tvm.devices"),
    **dict.fromkeys(("get_global_func", "register_func"), "runtime.registry"),
}
TVMError = Exception  # the errors here are Python's, or of a kind of their own: what catches any TVMError, any of these
NAMES = frozenset((*_DEFINED, *_places.MODULES, "TVMError"))


def __getattr__(name):
    """A name of TVM's; else one of Ingot's, which need not be said twice."""
    if name in _places.MODULES:
        return _import_module(f"{_INGOT}.{name}")
    value = getattr(_import_module(f"{_INGOT}.{_DEFINED[name]}" if name in _DEFINED else _INGOT), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *NAMES})


_sys.meta_path.insert(0, _places.Places(_INGOT))
