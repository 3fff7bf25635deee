"""What TVM has and Ingot does not, by name: the error of each says what is there instead."""
from __future__ import annotations

_SEARCH = ("schedules are not searched for here: rules choose them (tvm.compile, and tvm.dlight for modules of one's own), "
           "and tvm.tir.Schedule writes them by hand")
_BOARDS = "networks for boards are folders of C: ingot.compile(model, target=...).export(folder), docs/board-protocol.md"
FRONTENDS = "frontends are nn, onnx and torch: export a network of another framework as ONNX, for onnx.from_onnx"
# A name below tvm -> what is there. What is below a module follows it.
ABSENT = {
    **dict.fromkeys(("autotvm", "auto_scheduler", "meta_schedule", "relax.pipeline.static_shape_tuning",
                     "relax.transform.MetaScheduleApplyDatabase",
                     "relax.transform.MetaScheduleTuneIRMod", "relax.transform.MetaScheduleTuneTIR"), _SEARCH),
    **dict.fromkeys(("micro", "contrib.micro"), _BOARDS),
    "contrib.cutlass": "relax.backend.cuda.cutlass.partition_for_cutlass marks what CUTLASS computes",
    "contrib.debugger": "relax.VirtualMachine.profile and set_instrument look into a run",
    "contrib.dlpack": "tvm.nd.from_dlpack and NDArray.to_dlpack exchange tensors without copies",
    **dict.fromkeys(("contrib.pipeline_executor", "contrib.pipeline_executor_build"),
                    "a network is one program, whose loops run on threads (docs/threads.md)"),
    **dict.fromkeys(("contrib.relay_viz", "contrib.tedd"), "mod.show() and print(sch.trace) show programs as texts"),
    "contrib.torch": "relax.frontend.torch.from_exported_program brings models of torch here, and tensors are exchanged "
                     "by DLPack",
    **dict.fromkeys(("relax.frontend.stablehlo", "relax.frontend.tflite"), FRONTENDS),
    "runtime.disco": "a network runs in one process, on the threads of one machine",
    "target.datatype": "dtypes are those of DLPack; numbers of one's own are integers and calls of functions",
}


def absence(name):
    """The sentence for a name below tvm that TVM has and Ingot lacks; None for others."""
    parts = name.split(".")
    why = next((ABSENT[m] for n in range(len(parts), 0, -1) if (m := ".".join(parts[:n])) in ABSENT), None)
    return None if why is None else f"tvm.{name} is not there: {why}"


def no_attribute(module, name):
    """The AttributeError of a module, by its __name__, for a name that it does not have."""
    path = f"{module}.{name}".partition(".")[2].removeprefix("tvm.")
    return AttributeError(absence(path) or f"module {module!r} has no attribute {name!r}")
