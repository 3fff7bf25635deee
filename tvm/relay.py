"""tvm.relay: none of it is there. Each of its names is an error that says what Relax has for it.

Importing the module works, so that a script comes as far as its first such name.
"""
from __future__ import annotations

from importlib import import_module

_PARTS = frozenset("""
    analysis backend build_module contrib dataflow_pattern expr expr_functor frontend function image loops memory nn nn.nn op
    op.nn op.image op.strategy op.transform op.vision qnn qnn.op quantize random testing transform ty vision vm""".split())
_TORCH = "relax.frontend.torch.from_exported_program"
# A name of Relay's -> that of Relax's, where it is another one. Others are looked for under their own name.
TWINS = {
    "Constant": "relax.Constant", "FuncType": "relax.FuncStructInfo", "Let": "relax.VarBinding",
    "RefType": "relax.ObjectStructInfo", "TensorType": "relax.TensorStructInfo", "TupleType": "relax.TupleStructInfo",
    "var": "relax.Var", "bind": "relax.transform.BindParams",
    "build": "relax.build", "build_module": "relax.build", "build_module.build": "relax.build", "optimize": "relax.get_pipeline",
    "create_executor": "relax.VirtualMachine", "build_module.bind_params_by_name": "relax.transform.BindParams",
    "vm.compile": "relax.build", "vm.VMCompiler": "relax.build", "backend.te_compiler": "relax.BlockBuilder.emit_te",
    "frontend.from_pytorch": _TORCH, **{f"frontend.from_{name}": "relax.frontend.onnx.from_onnx" for name in (
        "caffe", "caffe2", "coreml", "darknet", "keras", "mxnet", "onnx", "paddle", "tensorflow", "tflite")},
    "ExprFunctor": "relax.PyExprVisitor", "ExprMutator": "relax.PyExprMutator", "ExprVisitor": "relax.PyExprVisitor",
    "dataflow_pattern": "relax.dpl", "Any": "tir.Var", "ShapeVar": "tir.Var", "GlobalVar": "ir.GlobalVar",
    "GlobalTypeVar": "ir.GlobalVar", "scalar_type": "relax.TensorStructInfo", "quantize": "relax.op.quantize",
    "testing": "relax.testing.nn", "testing.create_workload": "relax.frontend.nn.Module",
    "testing.init.create_workload": "relax.frontend.nn.Module", "testing.run_infer_type": "relax.transform.Normalize",
    # operators
    "cast": "relax.op.astype", "concatenate": "relax.op.concat", "transpose": "relax.op.permute_dims",
    "copy_": "relax.op.copy", "const": "relax.const", "gather": "relax.op.gather_elements", "shape_of": "relax.op.shape_of",
    "scatter": "relax.op.scatter_elements", "argwhere": "relax.op.nonzero", "fixed_point_multiply": "relax.op.multiply",
    "nn.dense": "relax.op.linear", "nn.matmul": "relax.op.matmul", "nn.batch_matmul": "relax.op.matmul",
    "nn.bias_add": "relax.op.add", "nn.batch_flatten": "relax.op.flatten", "nn.fast_softmax": "relax.op.nn.softmax",
    "nn.global_avg_pool2d": "relax.op.nn.adaptive_avg_pool2d", "nn.global_max_pool2d": "relax.op.nn.adaptive_max_pool2d",
    "nn.upsampling": "relax.op.image.resize2d", "nn.mirror_pad": "relax.op.nn.pad",
    "nn.cross_entropy_with_logits": "relax.op.nn.cross_entropy_with_logits",
    "image.resize2d": "relax.op.image.resize2d", "image.resize": "relax.op.image.resize2d",
    "qnn.op.quantize": "relax.op.quantize", "qnn.op": "relax.op.dequantize",  # whose operators have scales
    # passes
    "transform.AlterOpLayout": "relax.transform.ConvertLayout", "transform.AnnotateTarget": "relax.transform.FuseOpsByPattern",
    "transform.CombineParallelBatchMatmul": "relax.transform.CombineParallelMatmul",
    "transform.CombineParallelDense": "relax.transform.CombineParallelMatmul",
    "transform.Defunctionalization": "relax.transform.LambdaLift",
    "transform.DynamicToStatic": "relax.transform.BindSymbolicVars", "transform.FastMath": "relax.transform.FastMathTransform",
    "transform.FoldScaleAxis": "relax.transform.FoldBatchnormToConv2D", "transform.InferType": "relax.transform.Normalize",
    "transform.Inline": "relax.transform.InlinePrivateFunctions", "transform.Legalize": "relax.transform.LegalizeOps",
    "transform.MergeComposite": "relax.transform.FuseOpsByPattern",
    "transform.MergeCompilerRegions": "relax.transform.MergeCompositeFunctions",
    "transform.PartitionGraph": "relax.transform.RunCodegen", "transform.PlanDevices": "relax.transform.RealizeVDevice",
    "transform.RemoveUnusedFunctions": "relax.transform.DeadCodeElimination",
    "transform.SimplifyInference": "relax.transform.DecomposeOpsForInference",
    "transform.ToANormalForm": "relax.transform.Normalize", "transform.build_config": "transform.PassContext",
}
_HOMES = ("relax", "relax.op", "relax.op.nn", "relax.op.image", "relax.frontend", "relax.transform", "relax.analysis")


def twin(name):
    """The name below tvm that Relax has for one below tvm.relay; None where there is none."""
    if name in TWINS:
        return TWINS[name]
    name = name.removeprefix("op.")
    part, _, last = name.rpartition(".")
    if part == "qnn.op":
        return TWINS[part]
    return next((home for home in (f"relax.{name}", f"relax.op.{name}", *(f"{h}.{last}" for h in _HOMES))
                 if find(home) is not None), TWINS.get(part))


def find(path):
    """What a name below tvm is; None where there is nothing."""
    value = import_module(__name__.rpartition(".")[0])
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def absence(name):
    """The sentence for a name below tvm.relay."""
    other = twin(name)
    return f"tvm.relay.{name} is not there: Relax is the language of graphs here, " + (
        f"which has tvm.{other}" if other else "and has no operator or function of that name; docs/tvm.md names what it has")


class _Part:
    """A part of Relay's names, as relay.nn."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        return _get(f"{self._name}.{name}")


def _get(name):
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    if name in _PARTS:
        return _Part(name)
    raise AttributeError(absence(name))


__all__ = []
__path__ = []  # parts of it are imported, too, and refused by places.py


def __getattr__(name):
    return _get(name)
