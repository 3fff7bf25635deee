"""The pass lists: what happens to a module between the importer and the printer, in order."""
from __future__ import annotations

from dataclasses import dataclass

from ..module import IRModule
from ..relax.accuracy import FLOAT32
from ..target import Target
from .blocked_images import KINDS
from .context import Sequential
from .dot_bytes import dots_by_number
from .facts import IMPORTED, PRINTABLE, SCHEDULED, check_order
from .pass_table import RELAX, TIR


# The passes over graph modules, in order, by the kind of target; those of "c" for kinds that are not here. A GPU reads
# plain layouts, and a kernel of its own would pad or pack no faster than reading does: what lanes of vectors want is
# left out. Images whose convolutions tensor cores do are blocked, so that eight channels are one copy of 16 bytes.
_GRAPH = (
    "LowerPackedCalls", "ResolveMatchCast", "KeepQuantized", "FoldConstant", "FixedRequantize",
    "LookupTables", "MatchSigns", "QnnCanonicalize", "WidenImages", "DecomposeOpsForInference", "FoldBatchnormToConv2D",
    "RemoveIdentities", "ToMixedPrecision", "KeepShares", "SliceEarly", "PoolEarly", "ProjectInputs", "FuseAttention",
    "SinkViews", "RemoveIdentities", "ConvertLayout", "ChooseConvolution", "SplitPadding", "PackWeights", "StreamRows",
    "NearZero", "FuseOps", "InPlace", "UpdateInPlace", "MaterializeOutputs")
_GRAPH_OF_GPUS = tuple("TransposeWeights" if n == "PackWeights" else n for n in _GRAPH if n not in (
    "MatchSigns", "WidenImages", "KeepShares", "ChooseConvolution", "SplitPadding"))
HALVES = ("float16", "bfloat16")  # what tensor cores multiply
CHANNELS = 8  # of those in a block
ROWS_OF_ATTENTION = 8  # queries of a block of threads, which meet the keys together
_GRAPHS = {"c": _GRAPH, "cuda": _GRAPH_OF_GPUS, "opencl": _GRAPH_OF_GPUS}


# What a network that must be small is compiled without -> the passes that make it. A padded copy takes RAM; weights
# that are transformed, in whole panels or blocks take flash.
_WITHOUT = {"padding": {"SplitPadding", "WidenImages"},
            "packing": {"ConvertLayout", "ChooseConvolution", "PackWeights"}}


def graph_passes(opt_level, target: Target, accuracy=FLOAT32, algorithms=None, dtype="float32",
                 requantize="float", without=(), streaming=None):
    """The passes over a graph module. opt_level 0: only what lowering needs; 1: folding, padding as an operator,
    fusion, joining in place; 2: blocked layouts, fast convolutions and packed weights too. accuracy: that
    results keep. algorithms: of ChooseConvolution. dtype: what products of float32 are computed in. requantize: "fixed"
    where sums of integers are scaled in fixed point. without: "padding", "packing", what a network that must be small
    is compiled without; streaming: what of it is computed in bands of rows, a Streaming."""
    lanes, names = target.lanes, _GRAPHS.get(target.kind, _GRAPH)
    on_gpu = names is not _GRAPH
    cores, groups = on_gpu and "sm_80" in target.isa, "sm_90a" in target.isa  # tensor cores, of warpgroups too
    blocks = target.halves or target  # of images, of which those of float16 are computed in it
    given = {"ChooseConvolution": [target, algorithms, accuracy],
             "MatchSigns": [target], "QnnCanonicalize": [target], "KeepQuantized": [target],
             "RemoveIdentities": [target.multiplies_bytes],
             "PackWeights": [target, accuracy],
             "StreamRows": [streaming],
             "FuseOps": [None if on_gpu else target], "SplitPadding": [lanes],
             "FuseAttention": [lanes, ROWS_OF_ATTENTION if on_gpu else 0, cores],
             "ConvertLayout": [CHANNELS, 0, HALVES, groups] if cores else [
                 blocks.lanes, target.cost("shuffle"), (*KINDS, *HALVES[:1]) if target.halves else KINDS],
             "WidenImages": [HALVES[1:] if target.halves else HALVES],
             "ToMixedPrecision": [dtype]}
    left_out = {"ToMixedPrecision"} if dtype == "float32" else set()
    left_out |= set() if requantize == "fixed" else {"FixedRequantize"}
    left_out |= set() if target.kind == "c" and lanes == 1 else {"LookupTables"}  # vectors compute what a table holds
    left_out |= set() if streaming else {"StreamRows"}
    left_out |= {"ConvertLayout"} if on_gpu and not cores else set()
    left_out |= set() if groups else {"TransposeWeights"}
    left_out = left_out.union(*(_WITHOUT[word] for word in without))
    names = [n for n in names if n not in left_out]
    passes = [p for name in names if (p := RELAX[name](*given.get(name, ()))).info.opt_level <= opt_level]
    check_order([*passes, RELAX["LegalizeOps"]()], IMPORTED)
    return passes


# Over scheduled PrimFuncs, in order. The facts that passes require and ensure (facts.py) leave open:
# - stages that nothing needs go before allocations are planned by uses; allocations move while blocks still say which
#   loops hand a buffer on; they shrink before matched buffers ask for strides;
# - small floats are float32 before anything looks for float32 to make vectors of;
# - copies that a schedule asks for are made before their choices are simplified;
# - vector types need to see every access, single elements too, before these come as lanes;
# - copies of unrolled bodies come before memory is shared, and what is shared before large buffers are lifted;
# - loads of what is stored in another form come late: until then elements have the dtype that is computed in;
# - the last are the target's: they leave expressions that only a printer reads, and no hint that a pass consumes.
_LOWERING = (
    "LiftImports", "ResolvePointers", "ResolveViews", "NameLoops", "LowerInitBlock", "RemoveNoOp",
    "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque", "CompactBufferAllocation",
    "InjectDoubleBuffer", "InjectSoftwarePipeline", "LowerMatchBuffer", "LowerOpaqueBlock", "NameExtents",
    "RemoveAssume", "NameStrides", "FlattenBuffer", "SmallFloatComputeLegalize", "HoistInitPredicate", "LoopPartition",
    "UnrollCopies", "Simplify", "RemoveNoOp",  # once more: what parts of loops never use
    "HoistSumPredicate", "SplitVectors", "VectorizeLoop", "VectorTypeRewrite", "LaneIndexedFMA", "RegisterPromote",
    "RegisterTranspose", "SmallFloatScalars", "InjectPrefetch",
    "HoistIfThenElse", "SplitSums", "UnrollLoop", "SmallFloatStorageLegalize", "StorageRewrite", "LiftWorkspace",
    "LiftScratch", "LoadStored", "NarrowDataType", "FindOverwrites")
_LAST = ("LowerIntrin", "LaneIndexedDot", "MatrixDots", "DotBytes", "Accumulate", "DotRows", "RoundToBytes",
         "ByteColumns", "BeginSums", "OutlineTiles", "HoistIndex", "CommonSubexprElimTIR", "VerifyHints")
# Over PrimFuncs that are scheduled for GPUs: loops bound to threads stay whole, so that all threads of a block come by
# each barrier. Threads join their reductions while blocks say what these are; barriers go in while indices are sums of
# loops; shared memory is planned when nothing moves accesses any more.
_GPU = (
    "LiftImports", "ResolvePointers", "ResolveViews", "UnifyThreadBinding", "NameLoops", "LowerCrossThreadReduction",
    "LowerInitBlock", "RemoveNoOp", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
    "CompactBufferAllocation", "SpecializeWarps", "SwizzleShared", "InjectDoubleBuffer", "InjectSoftwarePipeline",
    "LowerMatchBuffer", "InjectPermutedLayout", "LowerOpaqueBlock", "NameExtents", "RemoveAssume",
    "InjectVirtualThread", "GuardRedundantStores", "ThreadSync", "FlattenBuffer",
    "LowerThreadAllreduce", "LowerWarpMemory", "InferFragment", "LowerDeviceOps", "SmallFloatComputeLegalize",
    "HoistInitPredicate", "UnrollCopies", "Simplify", "RemoveNoOp", "HoistIfThenElse", "AccumulateInRegisters",
    "SplitVectors", "VectorizeAccess", "InjectPTXAsyncCopy", "UnrollLoop", "SmallFloatStorageLegalize",
    "SplitConditions", "LiftWorkspace", "LoadStored", "NarrowDataType", "MergeSharedMemoryAllocations",
    "SplitWarpRoles", "LowerIntrin", "VerifyHints")
_LISTS = {"c": (*_LOWERING, *_LAST), "cuda": _GPU, "opencl": _GPU}
# Those for the kernels of networks. Their sums hold a bound of accuracy whatever the schedules are, and are cut when
# all that steers loops over terms is done; their arena has room for temporaries; their tiles and borders are printed as
# functions, their strides by names. In a program of one's own all is as it is written.
_OF_NETWORKS = ("LaneIndexedDot", "MatrixDots", "DotBytes", "DotRows", "SplitSums", "LiftScratch", "FindOverwrites",
                "RoundToBytes", "ByteColumns", "BeginSums", "OutlineTiles", "NameStrides")


@dataclass(frozen=True)
class Network:
    """The properties of a network that lowering reads. kept: most bytes of stack for temporaries, beside arrays of
    vectors that fit the registers; None: as many as they need."""

    kept: int | None = None


def pipeline_for(target, network=None):
    """The passes from a scheduled PrimFunc to what the printer of a target's kind takes, as a list.

    target: a Target, or its kind, "c", for the row of that name, "cuda" or "opencl". network: the Network whose kernels
    are lowered, with the registers and caches of the target; None for a program of one's own. Raises ValueError for a
    kind that has no pipeline, PassOrderError where a pass requires what does not hold.
    """
    kind = str(getattr(target, "kind", target))
    if kind not in _LISTS:
        raise ValueError(f"no pipeline for targets of kind {kind!r}; known: {', '.join(_LISTS)}")
    given = {"UnrollLoop": {"explicit_unroll": False}, "NarrowDataType": {"target_bits": 32},
             "InjectSoftwarePipeline": {"is_async": kind == "cuda"},
             "LowerThreadAllreduce": {"active": False, "shuffles": kind == "cuda"},
             "SplitVectors": {"simd": kind == "c"}}
    if kind == "opencl":  # which knows no warps
        given.update({"LowerCrossThreadReduction": {"shuffles": False}, "ThreadSync": {"warps": False}})
    if kind == "c" and network:
        machine = Target.get(target)
        given["LiftScratch"] = {"kept": network.kept, "registers": machine.register_bytes}
        given["LaneIndexedDot"] = {"lanes": machine.lanes, "dots": machine.dots_by_lane}
        given["ByteColumns"] = {"lanes": machine.columns.lanes if machine.columns else 0}
        given["BeginSums"] = {"integers": machine.integers is not None}
        given["DotBytes"] = {"dots": dots_by_number(machine)}
        given["MatrixDots"] = {"dots": machine.matrix_dots}
        given["InjectPrefetch"] = {"line": machine.cost("line_bytes"), "ahead": machine.cost("stream.ahead"),
                                   "far": machine.cost("stream.l2_ahead")}
    names = [n for n in _LISTS[kind] if network or n not in _OF_NETWORKS]
    passes = [TIR[n](**given.get(n, {})) for n in names]
    check_order(passes, SCHEDULED, PRINTABLE[kind], f"the printer of {kind}")
    return passes


TIR_PASSES = pipeline_for("c")


def lower_module(mod, passes=TIR_PASSES):
    """The module with its PrimFuncs lowered: scheduled ones in, what the printer takes out."""
    return Sequential(passes, name="LowerTIR")(mod)


def lower_prim_func(func, passes=TIR_PASSES):
    """A scheduled PrimFunc lowered, by the same passes."""
    name = func.attrs.get("global_symbol", "main")
    return lower_module(IRModule({name: func}), passes)[name]


__all__ = ["graph_passes", "pipeline_for", "Network", "TIR_PASSES", "lower_module", "lower_prim_func"]
