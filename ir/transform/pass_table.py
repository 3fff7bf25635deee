"""The passes by their field names: each row is a pure function, its name, the facts that it requires and ensures
(facts.py), its level and the settings that steer it.

A row becomes a function that makes a Pass and takes the arguments of the function behind it, without its first:
NarrowDataType(32), UnrollLoop(explicit_unroll=False). Settings of the PassContext's config go before these.
"""
from __future__ import annotations

import inspect

from ..boundary import internal_errors
from ..relax.expr import Function
from .accumulate import accumulate
from .alias import update_in_place
from .alignments import state_alignments
from .annotate_op_pattern import annotate_op_pattern
from .assumptions import remove_assume
from .begin_sums import begin_sums
from .bind_params import bind_params, bind_symbolic_vars
from .byte_columns import byte_columns
from .call_tir_rewrite import call_tir_rewrite
from .canonicalize_bindings import canonicalize_bindings
from .choose_convolution import choose_convolution
from .combine_matmul import combine_parallel_matmul
from .common_subexpr import common_subexpr_elim
from .compact_buffers import compact_buffers
from .compute_prim_value import compute_prim_value
from .context import ConfigError, Settings, CONFIG, Pass, PassContext, PassInfo, over_prim_funcs
from .convert_layout import convert_layout
from .dataflow_blocks import convert_to_dataflow, to_non_dataflow
from .dataflow_reshape import rewrite_dataflow_reshape
from .dead_code import dead_code_elimination
from .eliminate_common import eliminate_common_subexpr
from .dot_bytes import dot_bytes
from .dot_rows import dot_rows
from .facts import ENSURED_BY, words
from .fixed_requantize import fixed_requantize
from .flatten import flatten_buffer
from .fold_constants import fold_constants
from .fold_scale import decompose_batch_norm, fold_scale_axis
from .fuse import fuse_ops
from .fuse_attention import fuse_attention
from .fuse_by_pattern import fuse_ops_by_pattern
from .fuse_tir import fuse_tir
from .gpu.async_copy import inject_ptx_async_copy
from .gpu.barriers import thread_sync
from .gpu.bindings import on_loops, unify_thread_binding
from .gpu.default_schedule import default_gpu_schedule
from .gpu.fragments import infer_fragment, lower_device_ops
from .gpu.one_writer import guard_redundant_stores
from .gpu.permuted_layout import inject_permuted_layout
from .gpu.registers import accumulate_in_registers
from .gpu.shared_plan import merge_shared_memory_allocations
from .gpu.software_pipeline import inject_double_buffer, inject_software_pipeline
from .gpu.swizzle import swizzle_shared
from .gpu.thread_allreduce import lower_thread_allreduce
from .gpu.split_conditions import split_conditions
from .gpu.thread_reduction import lower_cross_thread_reduction
from .gpu.vector_access import vectorize_access
from .gpu.virtual_threads import inject_virtual_thread
from .gpu.warp_memory import lower_warp_memory
from .gpu.warp_roles import specialize_warps, split_warp_roles
from .hoist_sum_predicate import hoist_sum_predicate
from .register_promote import register_promote
from .hoist_if import hoist_if_then_else
from .hoist_index import hoist_index
from .identities import remove_identities
from .in_operators import in_operators
from .inline_functions import inline_private_functions
from .in_place import in_place
from .keep_quantized import keep_quantized
from .keep_shares import keep_shares
from .kill_after_last_use import kill_after_last_use
from .lambda_lift import lambda_lift
from .lane_indexed_dot import lane_indexed_dot
from .lane_indexed_fma import lane_indexed_fma
from .lift_params import lift_transform_params
from .lookup_tables import lookup_tables
from .loop_extents import name_extents
from .loop_partition import loop_partition
from .lower_alloc_tensor import lower_alloc_tensor
from .lower_blocks import convert_blocks_to_opaque, lower_init_block, lower_match_buffer, lower_opaque_block
from .lower_intrin import lower_intrin
from .lower_ops import lower_ops
from .match_signs import match_signs
from .matmul_rules import (adjust_matmul_order, expand_matmul_of_sum, reorder_permute_dims_after_concat,
                           reorder_take_after_matmul)
from .matrix_dots import matrix_dots
from .model_params import bundle_model_params
from .merge_composites import merge_composite_functions
from .name_loops import name_loops
from .name_strides import name_strides
from .narrow_dtype import narrow_data_type
from .near_zero import near_zero
from .normal_form import normalize
from .outline_tiles import outline_tiles
from .outputs import materialize_outputs
from .overwrites import find_overwrites
from .pack import pack_weights, split_padding
from .place_buffers import place_buffers
from .plan_blocks import static_plan_block_memory
from .pointers import resolve_pointers
from .pool_early import pool_early
from .pragmas import lift_imports, make_packed_api
from .packed_calls import lower_packed_calls
from .prefetch import inject_prefetch
from .project_inputs import project_inputs
from .private_signatures import expand_tuple_arguments, remove_unused_outputs, remove_unused_parameters
from .purity import remove_purity_checking
from .qnn_canonicalize import qnn_canonicalize
from .remove_no_op import remove_no_op
from .resolve_casts import resolve_match_cast
from .round_to_bytes import round_to_bytes
from .scratch import lift_scratch
from .segments import outline_segments
from .simplify import simplify
from .sink_views import sink_views
from .slice_early import slice_early
from .small_floats import FLOAT8, compute_legalize, legalize_scalars, storage_legalize
from .split_sums import split_sums
from .split_vectors import split_vectors
from .stream_rows import stream_rows
from .symbols import attach_global_symbol, normalize_global_var
from .register_transpose import register_transpose
from .storage_rewrite import storage_rewrite
from .stored import load_stored, store_constants
from .hoist_init_predicate import hoist_init_predicate
from .topological_sort import topological_sort
from .to_mixed_precision import to_mixed_precision
from .transpose_weights import transpose_weights
from .unroll import unroll_copies, unroll_loop
from .vectorize import rewrite_vector_types, vectorize_loop
from .verify_hints import verify_hints
from .views import resolve_views
from .workspace import lift_workspace
from .widen_images import widen_images


# ---------------------------------------------------------------- settings
# (check of the value, value -> arguments of the pass; None: leave the pass out)

def _arguments(*names):
    """A setting that is a dict of some of a pass's arguments."""
    def check(value):
        unknown = sorted(set(value) - set(names)) if isinstance(value, dict) else [value]
        if unknown:
            raise ValueError(f"it is a dict with some of {', '.join(names)}, not {unknown[0]!r}")
        return value
    return check, dict


def _disables():
    """A setting that leaves the pass out when true."""
    return _flag, lambda value: None if value else {}


def _some(taken, always):
    """A setting of TVM's, a dict: the pass takes some as arguments, and the steps of others it takes anyhow."""
    check, _ = _arguments(*taken, *always)
    return check, lambda value: {name: bool(value[name]) for name in taken if name in value}


def _flag(value):
    if not isinstance(value, (bool, int)):
        raise ValueError(f"it is True or False, not {value!r}")
    return bool(value)


def _setting(name, kind):
    """A setting that is an argument of the pass: a bool or an int."""
    def check(value):
        if not isinstance(value, (bool, int)):
            raise ValueError(f"it is {'True or False' if kind is bool else 'a number'}, not {value!r}")
        return kind(value)
    return check, lambda value: {name: value}


# ---------------------------------------------------------------- rows

_INFOS = []  # of all passes


def _rows(*rows):
    """{name: function that makes the pass}. A row: name, how it is lifted to modules, function, the facts that it
    requires, those that it ensures, level, {setting: (check, arguments)}, and arguments that are given."""
    return {name: _maker(name, *rest) for name, *rest in rows}


def _maker(name, lift, function, requires="", ensures="", opt_level=0, config=None, given=None):
    info, config, given = PassInfo(name, opt_level, (), words(requires), words(ensures)), config or {}, given or {}
    _INFOS.append(info)
    for word in info.ensures if not given else ():
        if name not in ENSURED_BY.setdefault(word, []):  # a pass for scripts may have the name of a pipeline's
            ENSURED_BY[word].append(name)
    for key, (check, _) in config.items():
        CONFIG[key] = _named(key, check, function)

    def make(*args, **kwargs):
        signature.bind(*args, **kwargs)
        arguments = dict(zip(signature.parameters, args))
        arguments.update(kwargs)

        def run(mod, context):
            settings = {**given, **arguments}
            for key, (_, as_arguments) in config.items():
                if key in context.config:
                    found = as_arguments(context.config[key])
                    if found is None:
                        return mod
                    settings.update(found)
            return lift(function, settings)(mod, context)
        return Pass(run, info)

    _, *parameters = inspect.signature(function).parameters.values()
    signature = inspect.Signature([p for p in parameters if p.name not in given])
    make.__name__ = make.__qualname__ = name
    make.__doc__ = function.__doc__
    make.__signature__ = signature
    make.info = info
    PassContext.known[name] = PassContext.known[f"tir.{name}"] = make
    return make


def _named(key, check, function):
    def checked(value):
        try:
            found = check(value)
        except ValueError as error:
            raise ConfigError(f"config option {key!r}: {error}") from None
        return Settings(found, function) if isinstance(found, dict) else found
    return checked


def _tir(function, settings):
    def run(func, mod, context):
        with internal_errors(lambda: f"{function.__name__} of {func.title}"):
            return function(func, **settings)
    return over_prim_funcs(run)


def _after_others(function, settings):
    """A pass from a function over PrimFuncs that receives the names of the passes that the context disables."""
    def run(func, mod, context):
        left_out = [info.name for info in _INFOS if not context.enabled(info)]
        return function(func, **{**settings, "left_out": left_out})
    return over_prim_funcs(run)


def _module(function, settings):
    def run(mod, context):
        with internal_errors(function.__name__):
            return function(mod, **settings)
    return run


def _scripted(function, settings):
    """A pass over modules that calls functions of a script, whose errors are the script's."""
    return lambda mod, context: function(mod, **settings)


def _graph(function, settings):
    """A pass from a function over modules whose graph function is main; another name is restored afterwards."""
    function = _module(function, settings)

    def run(mod, context):
        mod = in_operators(mod)  # the functions read operators of the table
        graphs = () if "main" in mod else [
            n for n, f in mod.functions.items() if isinstance(f, Function) and "primitive" not in f.attrs]
        if len(graphs) != 1:
            return function(mod, context)
        old = graphs[0]
        new = function(mod.with_functions({"main" if n == old else n: f for n, f in mod.functions.items()}), context)
        return new.with_functions({old if n == "main" else n: f for n, f in new.functions.items()})
    return run


_UNROLL = {"tir.UnrollLoop": _arguments("auto_max_step", "auto_max_depth", "auto_max_extent", "explicit_unroll",
                                        "unroll_local_access")}
_BF16, _FP16, _FP8 = ({"dtypes": names} for names in (("bfloat16",), ("float16",), FLOAT8))

SIMPLIFY = _some(("convert_boolean_to_and_of_ors", "apply_constraints_to_boolean_branches",
                  "propagate_knowns_to_prove_conditional", "propagate_knowns_to_simplify_expressions"),
                 ("transitively_prove_inequalities",))

TIR = _rows(
    ("DefaultGPUSchedule", _module, default_gpu_schedule, "blocks"),
    ("MakePackedAPI", _tir, make_packed_api, "shaped buffers"),
    ("LiftImports", _tir, lift_imports),
    ("ResolvePointers", _tir, resolve_pointers, "shaped buffers"),
    ("ResolveViews", _tir, resolve_views, "", "no views"),
    ("NameLoops", _tir, name_loops, "blocks"),
    ("UnifyThreadBinding", _tir, unify_thread_binding),
    ("SplitConditions", _tir, split_conditions, "no blocks"),
    ("LowerCrossThreadReduction", _tir, on_loops(lower_cross_thread_reduction), "blocks"),
    ("LowerInitBlock", _tir, lower_init_block, "blocks", "no inits"),
    ("RemoveNoOp", _tir, remove_no_op, "no views", "", 0, {"tir.RemoveNoOp": _some(
        ("use_dataflow_analysis",), ("max_simplification_steps",))}),
    ("PlanAndUpdateBufferAllocationLocation", _tir, place_buffers, "blocks, no inits, no views"),
    ("ConvertBlocksToOpaque", _tir, convert_blocks_to_opaque, "no inits", "opaque blocks"),
    ("CompactBufferAllocation", _tir, compact_buffers, "opaque blocks, no views"),
    ("SpecializeWarps", _tir, specialize_warps, "opaque blocks"),
    ("SwizzleShared", _tir, swizzle_shared, "opaque blocks"),
    ("InjectDoubleBuffer", _tir, inject_double_buffer, "opaque blocks"),
    ("InjectSoftwarePipeline", _tir, inject_software_pipeline, "opaque blocks"),
    ("LowerMatchBuffer", _tir, lower_match_buffer, "opaque blocks", "no matched buffers"),
    ("InjectPermutedLayout", _tir, inject_permuted_layout, "opaque blocks, no matched buffers"),
    ("LowerOpaqueBlock", _tir, lower_opaque_block, "opaque blocks, no matched buffers", "no blocks, guards"),
    ("NameExtents", _tir, name_extents, "no blocks"),
    ("RemoveAssume", _tir, remove_assume),
    ("InjectVirtualThread", _tir, on_loops(inject_virtual_thread), "no blocks, shaped buffers"),
    ("GuardRedundantStores", _tir, on_loops(guard_redundant_stores), "no blocks"),
    ("ThreadSync", _tir, on_loops(thread_sync), "no blocks, shaped buffers"),
    ("NameStrides", _tir, name_strides, "no blocks, shaped buffers"),
    ("FlattenBuffer", _tir, flatten_buffer, "no blocks", "flat buffers"),
    ("SmallFloatComputeLegalize", _tir, compute_legalize, "flat buffers", "widened arithmetic"),
    ("SmallFloatScalars", _tir, legalize_scalars, "flat buffers", "widened arithmetic"),
    ("BF16ComputeLegalize", _tir, compute_legalize, "flat buffers", "widened arithmetic", 0, None, _BF16),
    ("FP16ComputeLegalize", _tir, compute_legalize, "flat buffers", "widened arithmetic", 0, None, _FP16),
    ("FP8ComputeLegalize", _tir, compute_legalize, "flat buffers", "widened arithmetic", 0, None, _FP8),
    ("HoistInitPredicate", _tir, hoist_init_predicate, "flat buffers, guards"),
    ("LoopPartition", _tir, loop_partition, "flat buffers, guards, no vectors", "", 1, {"tir.LoopPartition": _arguments(
        "partition_const_loop", "no_unroll_loop_with_extent_one", "unroll_loop_with_partition_hint_no_interval")}),
    ("UnrollCopies", _tir, unroll_copies, "flat buffers, no vectors"),
    ("Simplify", _tir, simplify, "", "", 0, {"tir.Simplify": SIMPLIFY}, {"keep_no_ops": False}),
    ("HoistSumPredicate", _tir, hoist_sum_predicate, "flat buffers, no vectors", "", 1),
    ("SplitVectors", _tir, split_vectors, "flat buffers"),
    ("VectorizeLoop", _tir, vectorize_loop, "flat buffers", "vectors, no vectorized loops", 0,
     {"tir.disable_vectorize": (_flag, lambda value: {"enable_vectorize": not value})}),
    ("AccumulateInRegisters", _tir, accumulate_in_registers, "flat buffers"),
    ("VectorizeAccess", _tir, vectorize_access, "flat buffers", "no vectorized loops", 0,
     {"tir.disable_vectorize": (_flag, lambda value: {"enable_vectorize": not value})}),
    ("InjectPTXAsyncCopy", _tir, inject_ptx_async_copy, "flat buffers, no vectorized loops"),
    ("LowerThreadAllreduce", _tir, lower_thread_allreduce, "flat buffers"),
    ("LowerWarpMemory", _tir, on_loops(lower_warp_memory), "flat buffers"),
    ("InferFragment", _tir, infer_fragment, "flat buffers"),
    ("LowerDeviceOps", _tir, lower_device_ops, "flat buffers"),
    ("VectorTypeRewrite", _tir, rewrite_vector_types, "vectors", "", 1),
    ("LaneIndexedDot", _tir, lane_indexed_dot, "flat buffers, vectors, tir.fma"),
    ("MatrixDots", _tir, matrix_dots, "flat buffers, vectors, tir.fma"),
    ("LaneIndexedFMA", _tir, lane_indexed_fma, "flat buffers, vectors"),
    ("RegisterPromote", _tir, register_promote, "flat buffers, vectors"),
    ("RegisterTranspose", _tir, register_transpose, "flat buffers, vectors"),
    ("InjectPrefetch", _tir, inject_prefetch, "flat buffers"),
    ("HoistIfThenElse", _tir, hoist_if_then_else, "", "", 1),
    ("SplitSums", _tir, split_sums, "flat buffers", "", 1),
    ("UnrollLoop", _tir, unroll_loop, "flat buffers", "", 0, _UNROLL),
    ("SmallFloatStorageLegalize", _tir, storage_legalize, "widened arithmetic", "no small floats"),
    ("BF16StorageLegalize", _tir, storage_legalize, "widened arithmetic", "no small floats", 0, None, _BF16),
    ("FP16StorageLegalize", _tir, storage_legalize, "widened arithmetic", "no small floats", 0, None, _FP16),
    ("FP8StorageLegalize", _tir, storage_legalize, "widened arithmetic", "no small floats", 0, None, _FP8),
    ("StorageRewrite", _tir, storage_rewrite, "flat buffers, no views", "", 1,
     {"tir.disable_storage_rewrite": _disables()}),
    ("LiftWorkspace", _tir, lift_workspace, "flat buffers", "temporaries of constant size"),
    ("LiftScratch", _tir, lift_scratch, "temporaries of constant size"),
    ("FindOverwrites", _tir, find_overwrites, "flat buffers"),
    ("MergeSharedMemoryAllocations", _tir, on_loops(merge_shared_memory_allocations), "flat buffers"),
    ("SplitWarpRoles", _tir, split_warp_roles, "flat buffers"),
    ("NarrowDataType", _tir, narrow_data_type, "flat buffers"),
    ("LoadStored", _tir, load_stored, "flat buffers"),
    ("LowerIntrin", _tir, lower_intrin, "flat buffers", "tir.fma"),
    ("Accumulate", _tir, accumulate, "flat buffers, tir.fma"),
    ("DotBytes", _tir, dot_bytes, "flat buffers, tir.fma"),
    ("DotRows", _tir, dot_rows, "flat buffers"),
    ("RoundToBytes", _tir, round_to_bytes, "flat buffers", "", 1),
    ("ByteColumns", _tir, byte_columns, "flat buffers, vectors, tir.fma"),
    ("BeginSums", _tir, begin_sums, "flat buffers", "", 1),
    ("OutlineTiles", _tir, outline_tiles, "flat buffers", "", 1),
    ("HoistIndex", _tir, hoist_index, "flat buffers", "", 1),
    ("CommonSubexprElimTIR", _tir, common_subexpr_elim, "flat buffers", "", 1, {"tir.disable_cse_tir": _disables()}),
    ("VerifyHints", _after_others, verify_hints, "", "", 0, None, {"left_out": ()}),
)


def _functions(function, settings):
    """A pass from a function over graph functions, of which a module may have any number."""
    def run(mod, context):
        with internal_errors(function.__name__):
            return mod.with_functions({n: function(f, **settings) if isinstance(f, Function) else f
                                       for n, f in mod.functions.items()})
    return run


RELAX = _rows(
    ("Normalize", _module, normalize),
    ("NormalizeGlobalVar", _module, normalize_global_var),
    ("AttachGlobalSymbol", _module, attach_global_symbol),
    ("LambdaLift", _module, lambda_lift),
    ("ToNonDataflow", _functions, to_non_dataflow),
    ("OutlineSegments", _module, outline_segments),
    ("CallTIRRewrite", _functions, call_tir_rewrite),
    ("StaticPlanBlockMemory", _module, static_plan_block_memory),
    ("LowerAllocTensor", _functions, lower_alloc_tensor),
    ("KillAfterLastUse", _functions, kill_after_last_use),
    ("ComputePrimValue", _module, compute_prim_value),
    ("TopologicalSort", _functions, topological_sort),
    ("AnnotateTIROpPattern", _module, annotate_op_pattern),
    ("ConvertToDataflow", _module, convert_to_dataflow),
    ("RemovePurityChecking", _module, remove_purity_checking),
    ("RewriteDataflowReshape", _module, rewrite_dataflow_reshape),
    ("BundleModelParams", _module, bundle_model_params),
    ("LiftTransformParams", _module, lift_transform_params, "", "", 0, {
        "relax.lift_transform_params.consume_params": _setting("consume_params", bool)}),
    ("RemoveUnusedParameters", _module, remove_unused_parameters),
    ("RemoveUnusedOutputs", _module, remove_unused_outputs),
    ("ExpandTupleArguments", _module, expand_tuple_arguments),
    ("CombineParallelMatmul", _functions, combine_parallel_matmul),
    ("AdjustMatmulOrder", _functions, adjust_matmul_order),
    ("ExpandMatmulOfSum", _functions, expand_matmul_of_sum),
    ("ReorderPermuteDimsAfterConcat", _functions, reorder_permute_dims_after_concat),
    ("ReorderTakeAfterMatmul", _functions, reorder_take_after_matmul),
    ("BindParams", _module, bind_params),
    ("BindSymbolicVars", _module, bind_symbolic_vars),
    ("InOperators", _graph, in_operators),
    ("CanonicalizeBindings", _functions, canonicalize_bindings, "", "", 0, None, {"whole_tuples": True}),
    ("EliminateCommonSubexpr", _functions, eliminate_common_subexpr),
    ("DeadCodeElimination", _module, dead_code_elimination),
    ("InlinePrivateFunctions", _module, inline_private_functions),
    ("FuseOpsByPattern", _scripted, fuse_ops_by_pattern),
    ("MergeCompositeFunctions", _module, merge_composite_functions),
    ("LowerPackedCalls", _graph, lower_packed_calls),
    ("ResolveMatchCast", _graph, resolve_match_cast, "", "no MatchCast"),
    ("MatchSigns", _graph, match_signs, "folded constants", "", 1),
    ("QnnCanonicalize", _graph, qnn_canonicalize),
    ("FixedRequantize", _graph, fixed_requantize, "folded constants"),
    ("LookupTables", _graph, lookup_tables, "folded constants", "", 1),
    ("KeepQuantized", _graph, keep_quantized, "", "", 1),
    ("FoldConstant", _graph, fold_constants, "", "folded constants"),
    ("DecomposeOpsForInference", _graph, decompose_batch_norm, "", "no nn.batch_norm"),
    ("FoldBatchnormToConv2D", _graph, fold_scale_axis, "no nn.batch_norm", "", 1),
    ("ToMixedPrecision", _graph, to_mixed_precision, "plain layouts"),
    ("RemoveIdentities", _graph, remove_identities, "", "", 1),
    ("NearZero", _graph, near_zero),
    ("KeepShares", _graph, keep_shares, "", "", 1),
    ("WidenImages", _graph, widen_images, "folded constants", "", 2),
    ("SliceEarly", _graph, slice_early, "", "", 1),
    ("PoolEarly", _graph, pool_early, "plain layouts", "", 1),
    ("FuseAttention", _graph, fuse_attention, "", "", 2),
    ("SinkViews", _graph, sink_views, "", "", 1),
    ("ConvertLayout", _graph, convert_layout, "plain layouts", "blocked layouts", 2),
    ("ChooseConvolution", _graph, choose_convolution, "blocked layouts, padding", "", 2),
    ("SplitPadding", _graph, split_padding, "", "no padding", 1),
    ("ProjectInputs", _graph, project_inputs, "", "", 1),
    ("PackWeights", _graph, pack_weights, "", "", 2),
    ("TransposeWeights", _graph, transpose_weights, "", "", 2),
    ("StreamRows", _graph, stream_rows, "dataflow", "", 0),
    ("FuseOps", _graph, fuse_ops, "dataflow", "groups", 1),
    ("InPlace", _graph, in_place, "groups", "", 1),
    ("UpdateInPlace", _graph, update_in_place),
    ("MaterializeOutputs", _graph, materialize_outputs),
    ("LegalizeOps", _graph, lower_ops, "dataflow, no MatchCast"),
    ("FuseTIR", _module, fuse_tir),
    ("StoreConstants", _graph, store_constants),
    ("StateAlignments", _graph, state_alignments),
)

# For the tables of passes that no pipeline uses.
rows, tir_row, module_row, functions_row, scripted_row, arguments, disables, flag, setting = (
    _rows, _tir, _module, _functions, _scripted, _arguments, _disables, _flag, _setting)
