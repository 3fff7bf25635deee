"""relax.pipeline: the passes that make a module of operators one of calls, memory and registers, in TVM's order.

tvm.compile needs none of them: networks go through pipelines of their own (ir/transform/pipeline.py), which gives faster
C. What these make is for scripts that look at it, or go on with it; it is compiled and run, too, call by call.
"""
from __future__ import annotations

from ...codegen.target import Target
from ...ir.transform.context import Sequential, module_pass
from ..absent import absence
from . import transform

_FUSION = ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR")
_DATAFLOW = ("RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite")
_TVMS = ("zero_pipeline", "default_build_pipeline", "default_pipeline")  # what the passes made here are called
_FINAL = ("StaticPlanBlockMemory", "LowerAllocTensor", "KillAfterLastUse", "LowerRuntimeBuiltin", "ComputePrimValue",
          "VMShapeLower", "AttachGlobalSymbol")


def _made(names, **settings):
    """The passes of these names; settings: {name of a pass: its arguments}."""
    return [getattr(transform, name)(**settings.get(name, {})) for name in names]


def _pipeline(name, passes):
    """One pass that runs others."""
    return module_pass(lambda mod, context: Sequential(passes)(mod), opt_level=0, name=name)


# ---------------------------------------------------------------- by name

def zero_pipeline(*, enable_warning=False):
    """Operators become PrimFuncs, which are fused. enable_warning: LegalizeOps logs what it leaves."""
    return _pipeline("zero_pipeline", _made(_FUSION, LegalizeOps={"enable_warning": enable_warning}))


def default_build_pipeline():
    """Everything between operators and the machine's calls, without fusion."""
    return _pipeline("default_build_pipeline", _made(("LegalizeOps", *_DATAFLOW, *_FINAL)))


PIPELINE_MAP = {"zero": zero_pipeline, "default": default_build_pipeline, "default_build": default_build_pipeline}


def get_pipeline(name="zero", **kwargs):
    """The pipeline of a name. ValueError, which names those there are, for another one."""
    if name not in PIPELINE_MAP:
        raise ValueError(absence(f"relax.pipeline.{name}")
                         or f"Unknown pre-built pipeline {name}, candidates are {list(PIPELINE_MAP)}")
    return PIPELINE_MAP[name](**kwargs)


def register_pipeline(name):
    """A decorator: the function makes the pipeline `name`. ValueError where there is one already."""
    if name in PIPELINE_MAP:
        raise ValueError(f"Pipeline {name} has already been registered")

    def register(func):
        PIPELINE_MAP[name] = func
        return func
    return register


def applied(mod, target, relax_pipeline="default", tir_pipeline="default"):
    """A module after the pipeline that a build was given: a Pass, a function of modules, or a name; None for none.

    One of a script's own runs, with the target around it. Those of this file need not, as networks go through pipelines
    of their own. NotImplementedError for a tir_pipeline.
    """
    if tir_pipeline not in (None, "default"):
        raise NotImplementedError("tir_pipeline: PrimFuncs go through the passes of the target; run yours over the module "
                                  "before: mod = tir_pipeline(mod)")
    if isinstance(relax_pipeline, str):
        relax_pipeline = get_pipeline(relax_pipeline)
    if relax_pipeline is None or getattr(getattr(relax_pipeline, "info", None), "name", None) in _TVMS:
        return mod
    with Target.get(target):
        return relax_pipeline(mod)


# ---------------------------------------------------------------- by target

def library_dispatch_passes(target):
    """The passes that give parts to libraries: none, kernels are compiled."""
    Target.get(target)
    return []


def legalize_passes(target):
    """Operators become PrimFuncs, which are fused and, for a GPU, get threads."""
    target = Target.get(target)
    return _made(_FUSION) + ([_default_schedule(target)] if target.launch is not None else [])


def dataflow_lower_passes(target):
    """Dataflow blocks end, and calls of PrimFuncs get tensors to write to."""
    Target.get(target)
    return _made(_DATAFLOW)


def finalize_passes(target):
    """Memory is planned, and shapes become calls of the machine."""
    Target.get(target)
    return _made(_FINAL)


def get_default_pipeline(target):
    """All of these passes for a target, as one."""
    return _pipeline("default_pipeline", [p for passes in (
        library_dispatch_passes, legalize_passes, dataflow_lower_passes, finalize_passes) for p in passes(target)])


def _default_schedule(target):
    """The pass that gives kernels threads of a GPU."""
    from .. import dlight  # which GPUs alone ask for
    rules = (dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(),
             dlight.gpu.Fallback())

    def run(mod, context):
        with target:
            return dlight.ApplyDefaultSchedule(*rules)(mod)
    return module_pass(run, opt_level=0, name="ApplyDefaultSchedule")
