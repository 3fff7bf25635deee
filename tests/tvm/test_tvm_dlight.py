"""tvm.dlight for rules of a script's own: what it says of blocks, the steps that rules share, and rules for CPUs."""
import numpy as np
import pytest

import ingot as tvm
from ingot import dlight as dl
from ingot.dlight import analysis, base
from ingot.ir.node import collect
from ingot.ir.tir.interpreter import run
from ingot.ir.tir.stmt import For
from ingot.script import tir as T
from ingot.target import Target


@T.prim_func
def product(A: T.Buffer((1, 8, 12), "float32"), x: T.Buffer((1, 1, 12), "float32"), Y: T.Buffer((1, 1, 8), "float32")):
    B, s = T.alloc_buffer((1, 8, 12)), T.alloc_buffer((1, 1, 8))
    for u, i, k in T.grid(1, 8, 12):
        with T.block("B"):
            vu, vi, vk = T.axis.remap("SSS", [u, i, k])
            B[vu, vi, vk] = A[vu, vi, vk] * T.float32(2)
    for u, w, i, k in T.grid(1, 1, 8, 12):
        with T.block("s"):
            vu, vw, vi, vk = T.axis.remap("SSSR", [u, w, i, k])
            with T.init():
                s[vu, vw, vi] = T.float32(0)
            s[vu, vw, vi] = s[vu, vw, vi] + B[vu, vi, vk] * x[vu, vw, vk]
    for u, w, i in T.grid(1, 1, 8):
        with T.block("Y"):
            vu, vw, vi = T.axis.remap("SSS", [u, w, i])
            Y[vu, vw, vi] = T.max(s[vu, vw, vi], T.float32(0))


@T.prim_func
def shifted(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32"), S: T.Buffer((), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi + 1]
    for i in range(8):
        with T.block("S"):
            vi = T.axis.reduce(8, i)
            with T.init():
                S[()] = T.float32(0)
            S[()] = S[()] + B[vi]


def test_blocks_in_one_form():
    sch = tvm.tir.Schedule(product)
    blocks = dl.normalize_prim_func(sch)
    assert str(blocks) == ('[BlockInfo("B", "SS", [8, 12]), BlockInfo("s", "SR", [8, 12]), BlockInfo("Y", "S", [8])]')
    assert [b.is_injective() for b in blocks] == [True, False, True]
    assert [b.is_reduction() for b in blocks] == [False, True, False]
    assert [b.name for b in blocks if b.is_elementwise(sch)] == []  # the unit dimensions are 0
    assert str(blocks[1].iters[1]) == 'Iter("R", 12)' and sch.get(blocks[1].iters[1].loop_rv).extent == 12
    assert [b.dom_kind() for b in dl.normalize_prim_func(tvm.tir.Schedule(shifted))] == ["S", "SR"]
    other = tvm.tir.Schedule(shifted)
    other.split(other.get_loops("B")[0], [2, 4])
    assert dl.normalize_prim_func(other) is None
    with pytest.raises(NotImplementedError, match="dlight.analysis.is_gemv"):
        blocks[0].is_gemv()


def test_steps_that_rules_share():
    sch = tvm.tir.Schedule(product)
    left = dl.try_inline_contiguous_spatial(sch, dl.normalize_prim_func(sch))
    assert [b.name for b in left] == ["s", "Y"] and 'T.block("B")' not in sch.mod.script()
    assert dl.try_inline(sch, left) == left and dl.try_inline_contiguous_spatial(sch, None) is None
    target = Target("cuda")
    loops = [sch.get(loop) for loop in sch.get_loops("s")]
    assert base.suggest_threads_per_block(target, loops) == [8, 8] and base.suggest_threads_per_block(
        Target("c"), loops) == [8, 8]
    assert analysis.get_max_threads_per_block(target) == base.max_threads_per_block(target) == 1024
    assert analysis.get_max_shared_memory_per_block(target) == 48 << 10 and base.max_threads_per_block(Target("c")) == 256
    with pytest.raises(ValueError, match="is no GPU"):
        analysis.get_max_threads_per_block(Target("c"))
    base.auto_vectorize(sch, sch.get_loops("s")[0], 4)
    assert sch.get(sch.get_loops("s")[1]).kind == "vectorized" and base.get_extent(sch, sch.get_loops("s")[1]) == 4
    assert base.get_bytes("float16") == 2
    assert sch.get(analysis.get_root_block(sch)).name_hint == "root"


def test_products_of_matrices_and_vectors():
    sch = tvm.tir.Schedule(product)
    blocks = dl.normalize_prim_func(sch)
    assert [b.name for b in analysis.is_gemv(sch, blocks[1])] == ["x"] and analysis.is_gemv(sch, blocks[0]) is None
    assert str(analysis.get_reduction_expr(sch.get(blocks[1].block_rv))).count("*") == 1
    assert analysis.get_reduction_expr(sch.get(blocks[0].block_rv)) is None
    read = analysis.detect_dominant_read(sch.get(blocks[1].block_rv))
    assert {v.name for v in analysis.collect_vars_used_in_prim_expr(read)} == {i.var.name for i in blocks[1].iters}
    assert analysis.normalize(sch, blocks[1]) is True
    assert [sch.get(loop).extent.value for loop in sch.get_loops("s")] == [1, 8, 12, 1]
    assert not analysis.is_broadcast_epilogue(sch, blocks[1].block_rv, blocks[2].block_rv)


def test_rules_for_cpus():
    rng = np.random.default_rng(0)
    a, x = rng.random((1, 8, 12), np.float32), rng.random((1, 1, 12), np.float32)
    with Target("c"):
        mod = dl.ApplyDefaultSchedule(dl.cpu.GEMV(), dl.gpu.Fallback())(tvm.IRModule({"main": product, "shifted": shifted}))
    assert mod["main"].attrs["tir.is_scheduled"] == 1 and mod["shifted"] is shifted
    y = tvm.nd.empty((1, 1, 8))
    tvm.build(tvm.IRModule({"main": mod["main"]}), target="c")(tvm.nd.array(a), tvm.nd.array(x), y)
    np.testing.assert_allclose(y.numpy(), np.maximum((2 * a @ x[0, 0]), 0)[None], rtol=1e-5)
    assert isinstance(dl.cpu.GEMV(), dl.ScheduleRule) and not dl.cpu.GEMV().is_target_available(Target("cuda"))


def test_the_functions_own_target_counts():
    func = shifted.with_attr("target", Target("cuda"))
    with Target("c"):
        mod = dl.ApplyDefaultSchedule(dl.gpu.Fallback())(tvm.IRModule({"main": func, "other": shifted}))
    assert 'thread="threadIdx.x"' in mod["main"].script() and mod["other"] is shifted


@T.prim_func
def constant(B: T.Buffer((16, 8), "float32")):
    A = T.alloc_buffer((8, 16))
    for i, j in T.grid(8, 16):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(3)
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]


@T.prim_func
def by_pairs(A: T.Buffer((4, 6), "float32"), x: T.Buffer((6,), "float32"), S: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 3):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk * 2:vk * 2 + 2], x[vk * 2:vk * 2 + 2])
            T.writes(S[vi])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + (A[vi, vk * 2] * x[vk * 2] + A[vi, vk * 2 + 1] * x[vk * 2 + 1])


@T.prim_func
def of_numbers(S: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 3):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.Cast("float32", vk)


@pytest.mark.parametrize("func", [constant, by_pairs, of_numbers])
def test_blocks_without_one_index_are_for_other_rules(func):
    """What reads nothing, or several elements at once, is no error of the rules that look at indices."""
    for rules, target in (((dl.gpu.Transpose(), dl.gpu.Reduction(), dl.gpu.GEMV(), dl.gpu.Fallback()), "cuda"),
                          ((dl.cpu.GEMV(),), "c")):
        with Target(target):
            mod = dl.ApplyDefaultSchedule(*rules)(tvm.IRModule({"main": func}))
        assert (mod["main"] is not func) == (target == "cuda")
    sch = tvm.tir.Schedule(func)
    with pytest.raises(analysis.UnknownAccess, match="reads nothing|more than one element"):
        analysis.detect_dominant_read(sch.get(sch.get_child_blocks("root")[0]))


@T.prim_func
def rms_norm(X: T.Buffer((1, 2, 2048), "float16"), W: T.Buffer((2048,), "float16"),
             Y: T.Buffer((1, 2, 2048), "float16")):
    wide, squares, norm = T.alloc_buffer((1, 2, 2048)), T.alloc_buffer((1, 2, 2048)), T.alloc_buffer((1, 2, 2048))
    total, root = T.alloc_buffer((1, 2)), T.alloc_buffer((1, 2))
    for u, i, j in T.grid(1, 2, 2048):
        with T.block("wide"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            wide[vu, vi, vj] = T.Cast("float32", X[vu, vi, vj])
    for u, i, j in T.grid(1, 2, 2048):
        with T.block("squares"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            squares[vu, vi, vj] = wide[vu, vi, vj] * wide[vu, vi, vj]
    for u, i, j in T.grid(1, 2, 2048):
        with T.block("total"):
            vu, vi, vj = T.axis.remap("SSR", [u, i, j])
            with T.init():
                total[vu, vi] = T.float32(0)
            total[vu, vi] = total[vu, vi] + squares[vu, vi, vj]
    for u, i in T.grid(1, 2):
        with T.block("inverse"):
            vu, vi = T.axis.remap("SS", [u, i])
            root[vu, vi] = T.rsqrt(total[vu, vi] * T.float32(1 / 2048) + T.float32(1e-6))
    for u, i, j in T.grid(1, 2, 2048):
        with T.block("norm"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            norm[vu, vi, vj] = root[vu, vi] * wide[vu, vi, vj] * T.Cast("float32", W[vj])
    for u, i, j in T.grid(1, 2, 2048):
        with T.block("Y"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            Y[vu, vi, vj] = T.Cast("float16", norm[vu, vi, vj])


def test_rms_norm_keeps_a_row_in_registers():
    """A block of threads a row, which is read once; the same numbers as before, interpreted."""
    func = dl.gpu.RMSNorm().apply(rms_norm, Target("opencl"), False).func
    loops = [s for s in collect(func.body, For) if s.kind == "thread_binding"]
    assert sorted(loop.extent.value for loop in loops) == [2, 256, 256]
    assert sorted(b.scope for b in func.body.block.alloc_buffers) == ["local"] * 4 + ["shared"]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 2, 2048)).astype("float16"), rng.standard_normal(2048).astype("float16")
    found = []
    for f in (rms_norm, func):
        found.append(np.zeros_like(x))
        run(f, x, w, found[-1])
    np.testing.assert_array_equal(*found)
    assert "barrier" in tvm.build(tvm.IRModule({"main": func}), target="opencl").imported_modules[0].get_source()


def test_targets_that_are_only_described():
    """Rules schedule for them; there is no code."""
    for name, kind in (("metal", "metal"), ("apple/m1-gpu", "metal"), ("nvidia/geforce-gtx-1080-ti", "cuda")):
        target = Target(name)
        assert target.kind.name == kind
        mod = tvm.IRModule({"main": product})
        with target:
            scheduled = dl.ApplyDefaultSchedule(dl.gpu.Fallback())(mod)
        assert any(s.kind == "thread_binding" for s in collect(scheduled["main"].body, For))
        for build in (tvm.build, tvm.compile):
            with pytest.raises(ValueError, match=f"there is no code for {name}"):
                build(scheduled, target=target)


def test_operations_of_other_devices():
    """Scripts have Metal's matrices, with the arguments that they may leave out; builds refuse them."""
    @T.prim_func
    def fill(A: T.Buffer((64,), "float32")):
        B = T.alloc_buffer((64,), "float32", scope="local")
        for i in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("fill"):
                vi = T.axis.spatial(32, i)
                T.reads()
                T.writes(B[0:64], A[vi])
                T.make_filled_simdgroup_matrix(B.data, 0, T.float32(0))
                A[vi] = T.float32(0)
    assert "T.make_filled_simdgroup_matrix(B.data, 0, T.float32(0.0), 8, 8)" in str(fill)
    with pytest.raises(ValueError, match="SIMD groups"):
        tvm.build(fill, target="cuda")
