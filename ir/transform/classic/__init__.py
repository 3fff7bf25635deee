"""Passes that scripts call by their field names, and that no pipeline here needs: rows as in ../pass_table.py. CLASSIC
are over PrimFuncs, GRAPHS over graph functions; some have the name of a pipeline's, which asks for more and does more.
"""
from __future__ import annotations

from ..assumptions import remove_store_undef
from ..compact_buffers import compact_buffers
from ..gpu.async_copy import inject_ptx_async_copy
from ..gpu.bindings import on_loops
from ..gpu.virtual_threads import inject_virtual_thread
from ..lower_blocks import lower_match_buffer
from ..pass_table import SIMPLIFY, arguments, disables, flag, functions_row, module_row, rows, scripted_row, setting, tir_row
from ..place_buffers import place_buffers
from ..simplify import simplify
from ..training.append_loss import append_loss
from ..training.gradient import gradient
from .allocate_workspace import allocate_workspace
from .assumed_values import use_assume_to_reduce_branches
from .alter_op_impl import alter_op_impl
from .auto_copy import lower_auto_copy
from .common_subexpr import common_subexpr_elim
from .convert_layout import convert_layout_of_blocks
from .cuda_graph import rewrite_cuda_graph
from .contexts import combine_context_call, lower_device_storage_access_info
from .decompose import decompose_for_inference, decompose_for_training
from .device import annotate_device_regions, lower_device_kernel_launch, split_host_device
from .double_buffer import inject_double_buffer
from .extract_constants import extract_constants
from .flat import flatten_buffer
from .fold_constant import fold_constant
from .fuse_ops import fuse_ops
from .functions import annotate_entry_func, apply, bind_target, keep_if
from .hoist import HoistedConditionals, HoistedLetBindings, hoist_expression, hoist_if_then_else
from .host_api import make_packed_api, make_unpacked_api
from .index_dtype import force_narrow_index_to_int32
from .inline import inline_private_functions
from .legalize_ops import legalize_ops
from .layout_free import attach_attr_layout_free_buffers, split_layout_rewrite_preproc
from .layout_rewrite import remove_weight_layout_rewrite_block
from .merge_shared import merge_shared_memory_allocations
from .mixed_precision import mixed_precision
from .inplace_calls import dataflow_use_inplace_calls
from .ipc_memory import lower_ipc_alloc_storage
from .lazy_params import lazy_get_input, lazy_set_output, lazy_transform_params
from .lift_threads import lift_thread_binding
from .local_stage import manifest_shared_memory_local_stage
from .loop_partition import loop_partition
from .lower_builtin import lower_tvm_builtin
from .narrow_dtype import narrow_data_type
from .param_infos import update_param_struct_info
from .redundant import optimize_layout_transform, remove_redundant_reshape
from .reduce_branching import reduce_branching_through_overcompute
from .runtime_builtins import lower_runtime_builtin
from .shape_lower import lower_shapes
from .profiling import LWP_SETTINGS, instrument_profile_intrinsics
from .split_pattern import renormalize_split_pattern
from .software_pipeline import inject_software_pipeline
from .ssa import convert_ssa
from .storage_rewrite import storage_rewrite
from .statements import (convert_for_loops_to_serial, decorate_device_scope, rewrite_unsafe_select, skip_assert)
from .thread_reduction import lower_cross_thread_reduction
from .threads import lower_opaque_block, unify_threads
from .te_rewrites import fast_math, fuse_transpose_matmul
from .small_floats import bf16_compute_legalize, bf16_storage_legalize, fp8_compute_legalize
from .vdevices import realize_vdevice, update_vdevice
from .vector_types import pointer_value_type_rewrite
from .vectorize import vectorize_loop

CLASSIC = rows(
    ("Apply", tir_row, apply),
    ("Filter", tir_row, keep_if),
    ("BindTarget", tir_row, bind_target),
    ("BF16ComputeLegalize", tir_row, bf16_compute_legalize),
    ("BF16StorageLegalize", tir_row, bf16_storage_legalize),
    ("AnnotateEntryFunc", module_row, annotate_entry_func),
    ("AnnotateDeviceRegions", tir_row, annotate_device_regions),
    ("SplitHostDevice", module_row, split_host_device),
    ("LowerDeviceKernelLaunch", module_row, lower_device_kernel_launch),
    ("LowerCrossThreadReduction", tir_row, lower_cross_thread_reduction, "blocks"),
    ("InlinePrivateFunctions", module_row, inline_private_functions),
    ("CompactBufferAllocation", tir_row, compact_buffers, "opaque blocks", "", 0, None, {"scripted": True}),
    ("CommonSubexprElimTIR", tir_row, common_subexpr_elim, "", "", 0, {"tir.disable_cse_tir": (
        flag, lambda value: {"enable_cse_tir": not value})}),
    ("CombineContextCall", tir_row, combine_context_call),
    ("ConvertForLoopsToSerial", tir_row, convert_for_loops_to_serial),
    ("ConvertSSA", module_row, convert_ssa),
    ("DecorateDeviceScope", tir_row, decorate_device_scope),
    ("ExtractPrimFuncConstants", module_row, extract_constants),
    ("ForceNarrowIndexToInt32", tir_row, force_narrow_index_to_int32),
    ("FP8ComputeLegalize", tir_row, fp8_compute_legalize, "flat buffers", "widened arithmetic"),
    ("HoistExpression", tir_row, hoist_expression, "", "", 0, {"tir.HoistExpression": arguments(
        "hoisted_conditionals", "hoisted_let_bindings")}),
    ("HoistIfThenElse", tir_row, hoist_if_then_else, "", "", 0, {"tir.HoistIfThenElse": arguments(
        "support_block_scope_hosting")}),
    ("FlattenBuffer", tir_row, flatten_buffer, "no blocks"),
    ("InjectDoubleBuffer", tir_row, inject_double_buffer, "", "", 0, {
        "tir.InjectDoubleBuffer": arguments("split_loop")}),
    ("InjectPTXAsyncCopy", tir_row, inject_ptx_async_copy, "flat buffers", "", 0, None, {"offsets": True}),
    ("InjectVirtualThread", tir_row, on_loops(inject_virtual_thread), "no blocks", "", 0, None, {"flat": True}),
    ("InjectSoftwarePipeline", tir_row, inject_software_pipeline, "opaque blocks"),
    ("InstrumentProfileIntrinsics", module_row, instrument_profile_intrinsics, "", "", 0, {
        "tir.instrument_lwp": (flag, lambda value: {}), **{
            f"tir.{name}": setting(name, kind) for name, kind in LWP_SETTINGS.items()}}),
    ("LiftThreadBinding", tir_row, lift_thread_binding),
    ("LoopPartition", tir_row, loop_partition, "", "", 1, {"tir.LoopPartition": arguments(
        "partition_const_loop", "no_unroll_loop_with_extent_one", "unroll_loop_with_partition_hint_no_interval")}),
    ("LowerAutoCopy", tir_row, on_loops(lower_auto_copy)),
    ("LowerDeviceStorageAccessInfo", tir_row, lower_device_storage_access_info),
    ("LowerTVMBuiltin", tir_row, lower_tvm_builtin),
    ("LowerMatchBuffer", tir_row, lower_match_buffer, "opaque blocks", "no matched buffers", 0, None, {"proved": True}),
    ("ManifestSharedMemoryLocalStage", tir_row, manifest_shared_memory_local_stage, "opaque blocks"),
    ("MergeSharedMemoryAllocations", tir_row, on_loops(merge_shared_memory_allocations), "", "", 0, {
        "tir.merge_static_smem": setting("merge_static_smem", bool)}),
    ("MakePackedAPI", module_row, make_packed_api),
    ("MakeUnpackedAPI", module_row, make_unpacked_api),
    ("NarrowDataType", tir_row, narrow_data_type),
    ("LowerOpaqueBlock", tir_row, lower_opaque_block, "opaque blocks, no matched buffers", "no blocks"),
    ("UnifyThreadBinding", tir_row, unify_threads),
    ("PointerValueTypeRewrite", tir_row, pointer_value_type_rewrite, "no blocks"),
    ("ReduceBranchingThroughOvercompute", tir_row, reduce_branching_through_overcompute, "", "", 0, {
        "tir.ReduceBranchingThroughOvercompute": arguments("use_dataflow_analysis")}),
    ("PlanAndUpdateBufferAllocationLocation", tir_row, place_buffers, "blocks, no views", "", 0, None, {
        "precise": True}),
    ("RemoveStoreUndef", tir_row, remove_store_undef),
    ("RemoveWeightLayoutRewriteBlock", tir_row, remove_weight_layout_rewrite_block),
    ("RenormalizeSplitPattern", tir_row, renormalize_split_pattern),
    ("RewriteUnsafeSelect", tir_row, rewrite_unsafe_select),
    ("Simplify", tir_row, simplify, "", "", 0, {"tir.Simplify": SIMPLIFY}, {"keep_no_ops": True}),
    ("SkipAssert", tir_row, skip_assert),
    ("StorageRewrite", tir_row, storage_rewrite, "no blocks", "", 1, {"tir.disable_storage_rewrite": disables()}),
    ("UseAssumeToReduceBranches", tir_row, use_assume_to_reduce_branches),
    ("VectorizeLoop", tir_row, vectorize_loop, "", "no vectorized loops", 0, {"tir.disable_vectorize": (
        flag, lambda value: {"enable_vectorize": not value}), "tir.enable_buffer_level_predication": (
        flag, lambda value: {"predicate": value})}),
)

GRAPHS = rows(
    ("AlterOpImpl", scripted_row, alter_op_impl),
    ("ConvertLayout", module_row, convert_layout_of_blocks),
    ("LegalizeOps", scripted_row, legalize_ops, "", "", 0, {"relax.transform.apply_legalize_ops": (
        flag, lambda value: {} if value else None)}),
    ("FastMathTransform", module_row, fast_math),
    ("FoldConstant", module_row, fold_constant),
    ("FuseTransposeMatmul", module_row, fuse_transpose_matmul),
    ("LowerGPUIPCAllocStorage", module_row, lower_ipc_alloc_storage),
    ("OptimizeLayoutTransform", module_row, optimize_layout_transform),
    ("RemoveRedundantReshape", functions_row, remove_redundant_reshape),
    ("AppendLoss", module_row, append_loss),
    ("Gradient", module_row, gradient),
    ("FuseOps", module_row, fuse_ops),
    ("DecomposeOpsForInference", module_row, decompose_for_inference),
    ("DecomposeOpsForTraining", module_row, decompose_for_training),
    ("ToMixedPrecision", functions_row, mixed_precision),
    ("RealizeVDevice", scripted_row, realize_vdevice),
    ("UpdateVDevice", scripted_row, update_vdevice),
    ("AttachAttrLayoutFreeBuffers", module_row, attach_attr_layout_free_buffers),
    ("RewriteCUDAGraph", module_row, rewrite_cuda_graph, "", "", 0, {"relax.backend.use_cuda_graph": (
        flag, lambda value: {"enabled": value})}, {"enabled": False}),
    ("SplitLayoutRewritePreproc", module_row, split_layout_rewrite_preproc),
    ("UpdateParamStructInfo", scripted_row, update_param_struct_info),
    ("AllocateWorkspace", module_row, allocate_workspace),
    ("DataflowUseInplaceCalls", module_row, dataflow_use_inplace_calls),
    ("VMShapeLower", module_row, lower_shapes),
    *((name, functions_row, lower_runtime_builtin) for name in ("LowerRuntimeBuiltin", "VMBuiltinLower")),
    ("LazyGetInput", functions_row, lazy_get_input),
    ("LazySetOutput", functions_row, lazy_set_output),
    ("LazyTransformParams", module_row, lazy_transform_params),
)

__all__ = ["CLASSIC", "GRAPHS", "HoistedConditionals", "HoistedLetBindings"]
