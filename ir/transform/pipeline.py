"""The pass lists: what happens to a module between the importer and the printer, in order."""
from __future__ import annotations

from ..module import IRModule
from ..relax.accuracy import FLOAT32
from ..target import Target
from .context import Sequential
from .pass_table import RELAX, TIR


def graph_passes(opt_level, target: Target, accuracy=FLOAT32, algorithms=None):
    """The passes over a graph module. opt_level 0: only what lowering needs; 1: folding, padding as an operator,
    fusion, joining in place; 2: blocked layouts, fast convolutions and packed weights too. accuracy: that
    results keep. algorithms: of ChooseConvolution; nodes that it names are no part of others."""
    lanes = target.lanes
    given = {"CombineParallelConv2D": [lanes, algorithms or ()],
             "ChooseConvolution": [target, algorithms, accuracy], "PackWeights": [target, accuracy],
             "FuseOps": [target], "FuseAttention": [lanes], "SplitPadding": [lanes],
             "ConvertLayout": [lanes, target.cost("shuffle")]}
    names = ["ResolveMatchCast", "FoldConstant", "DecomposeOpsForInference", "FoldBatchnormToConv2D",
             "RemoveIdentities", "KeepShares", "FuseActivations", "SliceEarly", "PoolEarly", "ProjectInputs",
             "FuseAttention", "SinkViews", "RemoveIdentities", "CombineParallelConv2D", "ConvertLayout", "ChooseConvolution",
             "SplitPadding", "PackWeights", "FuseOps", "InPlace", "MaterializeOutputs"]
    passes = [RELAX[name](*given.get(name, ())) for name in names]
    return [p for p in passes if p.info.opt_level <= opt_level]


# Over scheduled PrimFuncs, in order:
# - buffers that share memory come first: the others look at each buffer alone;
# - stages that nothing needs go before allocations are planned by uses; allocations move while blocks still say which
#   loops hand a buffer on; they shrink when indices are in terms of loops, before matched buffers ask for strides;
# - small floats are float32 before anything looks for float32 to make vectors of;
# - partitioning needs the guards that LowerOpaqueBlock writes and the loops still scalar; copies that a schedule asks
#   for are made before their choices are simplified, and those before vectors are; choices of what a sum adds are
#   guards before they would choose vectors; vectors need flat buffers;
#   vector types need to see every access, single elements too, before these come as lanes;
# - copies of unrolled bodies come before memory is shared, and what is shared before large buffers are lifted;
# - the four before the last are the target's: they leave expressions that only a printer reads.
TIR_PASSES = [
    TIR["LiftImports"](),
    TIR["ResolveViews"](),
    TIR["NameLoops"](),
    TIR["LowerInitBlock"](),
    TIR["RemoveNoOp"](),
    TIR["PlanAndUpdateBufferAllocationLocation"](),
    TIR["ConvertBlocksToOpaque"](),
    TIR["CompactBufferAllocation"](),
    TIR["LowerMatchBuffer"](),
    TIR["LowerOpaqueBlock"](),
    TIR["FlattenBuffer"](),
    TIR["SmallFloatComputeLegalize"](),
    TIR["UnguardInit"](),
    TIR["LoopPartition"](),
    TIR["UnrollCopies"](),
    TIR["Simplify"](),
    TIR["RemoveNoOp"](),  # once more: what parts of loops never use
    TIR["GuardSums"](),
    TIR["VectorizeLoop"](),
    TIR["VectorTypeRewrite"](),
    TIR["LoadLanes"](),
    TIR["HoldLoads"](),
    TIR["TransposeSquares"](),
    TIR["InjectPrefetch"](),
    TIR["HoistIfThenElse"](),
    TIR["UnrollLoop"](explicit_unroll=False),
    TIR["SmallFloatStorageLegalize"](),
    TIR["StorageRewrite"](),
    TIR["LiftWorkspace"](),
    TIR["NarrowDataType"](32),
    TIR["LowerIntrin"](),
    TIR["EmbedBroadcast"](),
    TIR["Accumulate"](),
    TIR["HoistIndex"](),
    TIR["CommonSubexprElimTIR"](),
    TIR["VerifyHints"](),
]


def network_passes(kept, target):
    """TIR_PASSES for the kernels of a network on a target. Its sums hold a bound of accuracy whatever the schedules
    are; in a program of one's own they are as they are written. Its temporaries take at most `kept` bytes of stack,
    beside arrays of vectors that fit the registers: its arena has room for those of each thread."""
    after = {"HoistIfThenElse": TIR["SplitSums"](),  # when all that steers loops over terms is done
             "LiftWorkspace": TIR["LiftScratch"](kept, target.register_bytes),
             "Accumulate": TIR["OutlineTiles"]()}  # when tiles and their borders are what they will be
    distances = map(target.cost, ("line_bytes", "stream.ahead", "stream.far_ahead"))
    own = {"InjectPrefetch": TIR["InjectPrefetch"](*distances)}
    return [new for p in TIR_PASSES for new in (own.get(p.name, p), after.get(p.name)) if new is not None]


def lower_module(mod, passes=TIR_PASSES):
    """The module with its PrimFuncs lowered: scheduled ones in, what the printer takes out."""
    return Sequential(passes, name="LowerTIR")(mod)


def lower_prim_func(func, passes=TIR_PASSES):
    """A scheduled PrimFunc lowered, by the same passes."""
    name = func.attrs.get("global_symbol", "main")
    return lower_module(IRModule({name: func}), passes)[name]


__all__ = ["graph_passes", "network_passes", "TIR_PASSES", "lower_module", "lower_prim_func"]
