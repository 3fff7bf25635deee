"""What schedules ask of programs: how loops fit an intrinsic, which layout follows loops;
and tiling by an intrinsic."""
import numpy as np
import pytest
from interp import run

from ingot.ir.expr import Var, const
from ingot.ir.schedule import Schedule, TensorIntrin
from ingot.ir.schedule.intrin.dots import DOTS
from ingot.ir.te import create_prim_func
from ingot.ir.tir import Evaluate, For, IndexMap, decl_buffer
from ingot.ir.tir.buffer import substitute_buffers
from ingot.meta_schedule.testing import te_workload
from ingot.script import tir as T
from ingot.tir.schedule.analysis import (get_auto_tensorize_mapping_info, get_tensorize_loop_mapping, has_block,
                                         is_output_block, suggest_index_map)
from ingot.tir.schedule.transform import tile_with_tensor_intrin
from primitive_programs import two_stages
from schedule_programs import assert_same, replayed


@T.prim_func
def products(A: T.Buffer((6, 8), "uint8"), B: T.Buffer((32, 8), "int8"), C: T.Buffer((6, 32), "int32")):
    for k, j, i in T.grid(8, 32, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")


def test_tile_with_tensor_intrin():
    sch = Schedule(products)
    tiled = tile_with_tensor_intrin(sch, sch.get_block("C"), "dot_16x4_vnni")
    loops = [sch.get(loop) for loop in sch.get_loops("C")]
    assert [int(loop.extent) for loop in loops] == [2, 2, 6, 16, 4] and sch.get(tiled) is loops[-2]
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.tensorize(tiled, "dot_16x4_vnni")
    assert "A_1 = T.match_buffer(A[vi_o, vk_o * 4:vk_o * 4 + 4], (4,), \"uint8\"" in sch.func.script()
    assert_same(products, sch.func, exact=True)
    replayed(products, sch)


def test_tile_with_tensor_intrin_pads():
    func = create_prim_func(te_workload.matmul(9, 16, 7))
    sch = Schedule(func)
    assert tile_with_tensor_intrin(sch, sch.get_block("C"), "wmma_sync_16x16x16_f16f16f16") is None
    desc = TensorIntrin.get("wmma_sync_16x16x16_f16f16f16").desc
    assert get_tensorize_loop_mapping(sch, "C", desc, allow_padding=True).block_iter_paddings == [16, 1, 16]
    tile_with_tensor_intrin(sch, sch.get_block("C"), "wmma_sync_16x16x16_f16f16f16", allow_padding=True)
    assert [int(sch.get(loop).extent) for loop in sch.get_loops("C")] == [1, 1, 1, 16, 16, 16]
    assert_same(func, sch.func)


def test_loops_that_do_not_fit():
    sch = Schedule(two_stages)
    assert get_tensorize_loop_mapping(sch, "B", TensorIntrin.get("dot_16x4_vnni").desc) is None  # nothing is added up
    assert get_auto_tensorize_mapping_info(sch, "B", TensorIntrin.get("dot_16x4_vnni").desc) is None
    assert has_block(sch, "C") and not has_block(sch, "D")
    assert is_output_block(sch, "C") and not is_output_block(sch, sch.get_block("B"))


def test_mapping_of_a_convolution():
    sch = Schedule(create_prim_func(te_workload.conv2d_nhwc(2, 6, 5, 8, 16, 3, padding=1)))
    conv = sch.get_block("conv2d_nhwc")
    product = create_prim_func(te_workload.matmul(16, 16, 16))
    found, = get_auto_tensorize_mapping_info(sch, conv, product).mappings
    assert found.is_equivalent_to(IndexMap.from_func(
        lambda n, h, w, c, rh, rw, rc: (n * 30 + h * 5 + w, c, rh * 24 + rw * 8 + rc)))
    batch = Schedule(create_prim_func(te_workload.batch_matmul_nkkm(2, 4, 4, 4)))
    found, = get_auto_tensorize_mapping_info(batch, batch.get_block("Z"), product).mappings
    assert found.is_equivalent_to(IndexMap.from_func(lambda b, i, j, k: (b, i, j, k)))


@pytest.mark.parametrize("shape, extents, indices, expected", [
    ([8, 12], [4, 24], lambda i, j: [j // 3, i * 3 + j % 3], lambda x, y: (y // 3, x, y % 3)),
    ([6], [2, 3], lambda i, j: [j * 2 + i], lambda x: (x % 2, x // 2)),
    ([6], [2, 3], lambda i, j: [j + i], None),
    ([7], [2, 3], lambda i, j: [j * 2 + i], None),
    ([Var("n", "int32")], [2, 3], lambda i, j: [j * 2 + i], None),
])
def test_suggest_index_map(shape, extents, indices, expected):
    variables = Var("i", "int32"), Var("j", "int32")
    loops = [For(v, 0, extent, "serial", Evaluate(0)) for v, extent in zip(variables, extents)]
    found = suggest_index_map(decl_buffer(shape), indices(*variables), loops, True)
    assert found is None if expected is None else found.is_equivalent_to(IndexMap.from_func(expected))


@pytest.mark.parametrize("name", DOTS)
def test_dot_products(name):
    """An implementation computes what its description says."""
    intrin, rng = TensorIntrin.get(name), np.random.default_rng(0)
    arrays = [rng.integers(0, 100, [int(e) for e in b.shape]).astype(b.dtype) for b in intrin.desc.buffers]
    results = [[a.copy() for a in arrays] for _ in range(2)]
    for func, values in zip((intrin.desc, intrin.impl), results):
        at_start = {b: b.replace(elem_offset=const(0)) for b in func.buffers}
        run(substitute_buffers(func, at_start), *values)
    assert (results[0][2] == results[1][2]).all() and (results[0][2] != arrays[2]).any()
