"""The script's names: `from ingot.script import ir as I, tir as T, relax as R`, and from_source(text)."""
from .codegen import target as _target  # noqa: F401  so that T.target knows what target strings mean
from .ir.script import metadata, script  # noqa: F401
from .ir.script.errors import ScriptError  # noqa: F401
from .ir.script.functions import from_source  # noqa: F401
from .ir.script.module_parser import I as ir  # noqa: F401
from .ir.script.relax_names import R as relax  # noqa: F401
from .ir.script.tir_names import T as tir  # noqa: F401
from .ir.upper import provides as _provides

__path__ = []  # script.parser, which some scripts import, is this module too
ir_module = ir.ir_module
parse = from_source


@_provides("device")
def _device(kind, number=0):
    """What R.device(kind, number) is; the runtime is loaded where a script first speaks of a device."""
    from .runtime.device import device
    return device(kind, number)
