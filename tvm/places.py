"""Where the modules of TVM's names are: `import ingot.tir.stmt` finds ingot.ir.tir.stmt, one object by both names."""
from __future__ import annotations

from importlib import import_module, machinery

# Modules of this package, by their names in scripts.
OWN = frozenset("""_ffi _ffi.base contrib contrib.cblas contrib.cc contrib.clang contrib.nvcc contrib.utils dlight
dlight.base dlight.gpu driver error relax relax.analysis relax.backend relax.backend.cblas
relax.backend.pattern_registry relax.dpl relax.expr relax.expr_functor relax.ir relax.ir.instrument
relax.transform relax.vm target te te.replay
te.schedule te.stage testing
tir tir.analysis tir.stmt_functor tir.transform topi topi.cuda topi.generic""".split())
# Modules of others -> where they are below ingot. What is below a module follows it, unless it has a place of its own.
PLACES = {
    "arith": "ir.arith", "instrument": "ir.transform.instrument", "ir.base": "ir",
    "ir.instrument": "ir.transform.instrument",
    "nd": "runtime.ndarray", "relax": "ir.relax", "relax.dpl.pattern": "tvm.relax.dpl",
    "relax.transform.transform": "tvm.relax.transform",
    "relax.vm_build": "tvm.relax.vm", "script.parser": "script", "te": "ir.te", "tir": "ir.tir",
    "tir.expr": "ir.expr", "tir.op": "ir.tir.intrin", "tir.schedule": "ir.schedule",
    "tir.tensor_intrin": "ir.schedule.intrin", "topi.utils": "ir.topi.utils", "transform": "ir.transform",
}
# What stands directly below tvm.
MODULES = tuple(sorted(name for name in {*OWN, *PLACES} if "." not in name))


def place_of(name):
    """Where the module `name` of a script (below tvm) is, below ingot: "tir.stmt" is "ir.tir.stmt"."""
    if name in OWN:
        return f"tvm.{name}"
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        place = PLACES.get(".".join(parts[:n]))
        if place is not None:
            return ".".join((place, *parts[n:]))
    return name


class Places:
    """A finder and loader for sys.meta_path: imports a module below `package`, or below its `tvm`, from its place."""

    def __init__(self, package):
        self.package = package
        self.specs = {}  # name -> the spec of the module itself, while that is imported by another name

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package != self.package or name in ("", "tvm.places") or place_of(name.removeprefix("tvm.")) == name:
            return None
        return machinery.ModuleSpec(fullname, self)

    def create_module(self, spec):
        name = spec.name.removeprefix(f"{self.package}.").removeprefix("tvm.")
        module = import_module(f"{self.package}.{place_of(name)}")
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module):
        """The module is complete; the importer has just given it the other name's spec."""
        module.__spec__ = self.specs.pop(module.__spec__.name)


__all__ = ["MODULES", "OWN", "PLACES", "Places", "place_of"]
