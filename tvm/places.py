"""Where the modules of TVM's names are: `import ingot.tir.stmt` finds ingot.ir.tir.stmt, one object by both names."""
from __future__ import annotations

from importlib import import_module, machinery

from . import absent

# Modules of this package, by their names in scripts.
OWN = frozenset("""
_ffi _ffi.base _ffi.registry _ffi.runtime_ctypes
absent
arith arith._ffi_api
comparing
contrib contrib.cblas contrib.cc contrib.clang contrib.graph_executor contrib.nvcc contrib.popen_pool
contrib.download contrib.thrust contrib.tvmjs contrib.utils
devices
diagnostics
dlight dlight.analysis dlight.base dlight.cpu dlight.gpu dlight.gpu.base dlight.gpu.fallback
dlight.gpu.general_reduction dlight.gpu.reduction dlight.gpu.rms_norm dlight.gpu.transpose dlight.rules
driver
error
meta_schedule meta_schedule.testing meta_schedule.testing.te_workload
parsing parsing.diagnostics parsing.doc parsing.evaluator
printing printing.doc printing.doc_printer
relax relax.analysis relax.args_converter relax.dpl relax.exec_builder relax.expr relax.expr_functor relax.jit relax.memory_usage
relax.pipeline relax.report relax.transform relax.utils relax.vm
relax.backend relax.backend.blas relax.backend.cblas relax.backend.cuda relax.backend.cuda.cublas
relax.backend.cuda.cudnn relax.backend.cuda.cutlass relax.backend.cuda.workspace relax.backend.dispatch
relax.backend.metal relax.backend.metal.coreml relax.backend.pattern_registry relax.backend.patterns
relax.backend.rocm relax.backend.rocm.hipblas relax.backend.utils
relax.frontend relax.frontend.onnx
relax.ir relax.ir.instrument
relax.transform.legalize_ops relax.transform.legalize_ops.common
relax.testing relax.testing.lib_comparator relax.testing.nn relax.testing.runtime_builtin relax.testing.transform relax.testing.vm
relax.training relax.training.loss relax.training.optimizer relax.training.setup_trainer relax.training.trainer
relax.training.utils
relay
rpc
support
target target.codegen
te te.hybrid te.replay te.schedule te.stage
testing testing.tir testing.utils
tir tir.analysis tir.block_scope tir.data_layout tir.expr tir.function tir.generic tir.statements
tir.stmt_functor tir.transform tir.type_checker
topi topi.cuda topi.generic topi.gpu topi.nn topi.testing
""".split())
# Modules of others -> where they are below ingot. What is below a module follows it, unless it has a place of its own.
PLACES = {
    "arith": "ir.arith", "container": "ir.container", "instrument": "ir.transform.instrument",
    "ir._ffi_api": "ir", "ir.base": "ir",
    "ir.instrument": "ir.transform.instrument",
    "ir.diagnostics": "tvm.diagnostics",
    "dlight.analysis.common_analysis": "tvm.dlight.analysis", "dlight.analysis.gemv": "tvm.dlight.analysis",
    "dlight.base.common_schedules": "tvm.dlight.base", "dlight.base.schedule_rule": "tvm.dlight.base",
    "dlight.base.transform": "tvm.dlight.base", "dlight.base.utils": "tvm.dlight.base",
    "nd": "runtime.ndarray", "relax": "ir.relax",
    "relax.binding_rewrite": "ir.transform.binding_rewrite", "relax.dpl.pattern": "tvm.relax.dpl",
    "relax.frontend.common": "frontend.params",
    "relax.frontend.nn": "frontend.nn", "relax.frontend.torch": "frontend.torch",
    "relax.frontend.torch.exported_program_translator": "frontend.torch.exported",
    "relax.frontend.torch.fx_translator": "frontend.torch.fx_graphs",
    "relax.transform.transform": "tvm.relax.transform", "relax.vm_build": "tvm.relax.vm",
    "runtime.container": "runtime.builtins", "runtime.object_path": "ir.object_path",
    "runtime.relax_vm": "tvm.relax.vm", "script.highlight": "ir.script.highlight", "script.ir_builder": "ir.script.builder",
    **{f"script.ir_builder.{dialect}.{part}": f"ir.script.builder.{place}" for dialect in ("ir", "tir", "relax")
       for part, place in (("ir", dialect), ("frame", "ir" if dialect == "ir" else f"{dialect}_frames"))},
    "script.parser": "script", "script.parser.core": "tvm.parsing", "script.parser.core.doc_core": "tvm.parsing.doc", "script.printer": "tvm.printing",
    "target.target": "tvm.target", "te": "ir.te", "tir": "ir.tir",
    "tir.op": "ir.tir.intrin", "tir.schedule": "ir.schedule",
    "tir.schedule._type_checker": "tvm.tir.type_checker", "tir.schedule.instruction": "ir.schedule.trace",
    "tir.transform.function_pass": "tvm.tir.transform", "tir.transform.transform": "tvm.tir.transform",
    "tir.tensor_intrin": "ir.schedule.intrin", "topi.nn.pooling": "tvm.topi.nn", "topi.nn.utils": "tvm.topi.nn",
    "topi.utils": "ir.topi.utils",
    "transform": "ir.transform",
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
    """A finder and loader for sys.meta_path: imports a module below `package`, or below its `tvm`, from its place. For
    what TVM has and Ingot lacks, ImportError says what is there."""

    def __init__(self, package):
        self.package = package
        self.specs = {}  # name -> the spec of the module itself, while that is imported by another name

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package != self.package or name in ("", "tvm.places", "tvm.absent"):
            return None
        short = name.removeprefix("tvm.")
        if short not in OWN and short not in PLACES:
            self._require_there(short, fullname)
        return None if place_of(short) == name else machinery.ModuleSpec(fullname, self)

    def _require_there(self, name, fullname):
        """Raise ImportError for a name below tvm that is known not to be there."""
        part, _, rest = name.partition(".")
        why = import_module(f"{self.package}.relay").absence(rest) if part == "relay" else absent.absence(name)
        if why is not None:
            raise ImportError(why, name=fullname)

    def create_module(self, spec):
        name = spec.name.removeprefix(f"{self.package}.").removeprefix("tvm.")
        module = import_module(f"{self.package}.{place_of(name)}")
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module):
        """The module is complete; the importer has just given it the other name's spec."""
        module.__spec__ = self.specs.pop(module.__spec__.name)


__all__ = ["MODULES", "OWN", "PLACES", "Places", "place_of"]
