"""relax.transform: the passes over graph functions by their field names, and what makes passes of functions."""
from ...ir.transform.context import PassContext, PassInfo, Sequential, function_pass, module_pass  # noqa: F401
from ...ir.transform.pass_table import RELAX

globals().update(RELAX)
__path__ = []  # relax.transform.transform, which some scripts import, is this module too
__all__ = [*RELAX, "PassContext", "PassInfo", "Sequential", "function_pass", "module_pass"]

_INSTEAD = {
    "AnnotateTIROpPattern": "FuseOps groups operators before LegalizeOps, which makes one PrimFunc of each group; "
                            "Sequential([FuseOps(), LegalizeOps()])",
    "UpdateVDevice": "a module runs on the device of its target: compile(mod, target=...)",
}


def __getattr__(name):
    """No such pass: the error says what does its work."""
    if name in _INSTEAD:
        raise AttributeError(f"there is no pass {name}: {_INSTEAD[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; passes: {', '.join(RELAX)}")
