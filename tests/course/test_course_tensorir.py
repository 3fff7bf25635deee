"""TensorIR as TVM's documentation tells it: looking into a schedule, CPU schedules in the manner of a search, a dot
product instruction, an argmax in two steps, and GPU schedules, which are printed and read back until CUDA is there."""
import json

import numpy as np
import pytest
from interp import run

import ingot as tvm
from ingot import te, tir
from ingot.script import tir as T


@T.prim_func
def product(A: T.Buffer((30, 44), "float32"), B: T.Buffer((44, 52), "float32"), C: T.Buffer((30, 52), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i, j, k in T.grid(30, 52, 44):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def read_back(mod):
    tvm.ir.assert_structural_equal(tvm.script.from_source(mod.script()), mod)


def test_looking_into_a_schedule():
    sch = tvm.tir.Schedule(product)
    block_rv = sch.get_block("C", func_name="main")
    i, j, k = sch.get_loops(block_rv)
    assert isinstance(block_rv, tvm.tir.schedule.BlockRV) and isinstance(i, tvm.tir.schedule.LoopRV)
    block, loop = sch.get(block_rv), sch.get(i)
    assert isinstance(block, tvm.tir.Block) and isinstance(loop, tvm.tir.For)
    assert [r.buffer.name for r in block.reads] == ["A", "B"] and block.writes[0].buffer.name == block.name_hint == "C"
    assert [iv.iter_type for iv in block.iter_vars] == [tir.IterVar.DataPar] * 2 + [tir.IterVar.CommReduce]
    assert loop.extent == 30 and loop.kind == tir.ForKind.SERIAL
    sch.parallel(i)
    assert sch.get(i).kind == tir.ForKind.PARALLEL and loop.kind == tir.ForKind.SERIAL
    for error in (tvm.tir.ScheduleError, tvm.tir.schedule.ScheduleError, tvm.TVMError):
        with pytest.raises(error, match="loop k runs the reduce iterator vk"):
            sch.vectorize(k)
    assert [inst.kind.name for inst in sch.trace.insts] == ["GetBlock", "GetLoops", "Parallel"]
    assert tir.schedule.InstructionKind.get("GetLoops").is_pure
    with pytest.raises(ValueError, match="no instruction is called 'Nothing'; known: AddUnitLoop, "):
        tir.schedule.InstructionKind.get("Nothing")


def test_the_names_of_tirs_modules():
    import ingot.tir.schedule as places
    from ingot.tir.expr import Var
    from ingot.tir.op import exp
    assert tvm.tir.schedule is places and Var is tir.Var is tvm.tir.expr.Var and exp is tir.exp is tvm.tir.op.exp
    assert tir.IndexMap.from_func(lambda *i: i[::-1], ndim=3).is_equivalent_to(
        tir.IndexMap.from_func(lambda i, *rest: [rest[1], rest[0], i], 3))
    assert tir.IndexMap.from_func(lambda i: i // 2, index_dtype="int64").initial_indices[0].dtype == "int64"
    for function, message in ((lambda *i: i, r"\(\*i\) needs ndim, at least 0, not None"),
                              (lambda **i: i, r"takes indices, which \*\*i are not")):
        with pytest.raises(TypeError, match=message):
            tir.IndexMap.from_func(function)
    assert {"ScheduleState", "StmtSRef", "Trace", "TensorIntrin"} <= {n for n in vars(places)} and tir.StmtSRef


def tiled(sch):
    """A matrix product as a search writes it."""
    block, root = sch.get_block(name="C", func_name="main"), sch.get_block("root", func_name="main")
    sch.annotate(block_or_loop=block, ann_key="meta_schedule.tiling_structure", ann_val="SSRSRS")
    i, j, k = sch.get_loops(block=block)
    v = sch.sample_perfect_tile(loop=i, n=4, max_innermost_factor=64, decision=[5, 3, 2, 1])
    i0, i1, i2, i3 = sch.split(loop=i, factors=[*v], preserve_unit_iters=True)
    v = sch.sample_perfect_tile(loop=j, n=4, max_innermost_factor=64, decision=[1, 1, 13, 4])
    j0, j1, j2, j3 = sch.split(loop=j, factors=[*v], preserve_unit_iters=True)
    v = sch.sample_perfect_tile(loop=k, n=2, max_innermost_factor=64, decision=[11, 4])
    k0, k1 = sch.split(loop=k, factors=[*v], preserve_unit_iters=True)
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    cache = sch.cache_write(block=block, write_buffer_index=0, storage_scope="global")
    sch.reverse_compute_at(block=cache, loop=j1, preserve_unit_loops=True, index=-1)
    sch.annotate(block_or_loop=root, ann_key="meta_schedule.parallel", ann_val=96)
    sch.annotate(root, "notes", {"tiles": [[5, 3], [13, 4.5]], "kept": True, "by": {"hand": "yes"}})
    sch.enter_postproc()
    root = sch.get_block(name="root", func_name="main")
    sch.unannotate(block_or_loop=root, ann_key="meta_schedule.parallel")
    sch.parallel(loop=sch.fuse(i0, j0, i1, preserve_unit_iters=True))
    sch.vectorize(loop=j3)
    sch.decompose_reduction(block=block, loop=k0)


def test_a_schedule_as_a_search_writes_it():
    sch = tvm.tir.Schedule(product, seed=7, debug_mask="all")
    tiled(sch)
    read_back(sch.mod)
    root = sch.get(sch.get_block("root"))
    assert root.annotations == {"notes": {"tiles": ((5, 3), (13, 4.5)), "kept": True, "by": {"hand": "yes"}}}
    again = tir.schedule.testing.verify_trace_roundtrip(sch, mod=product)
    assert json.dumps(again.trace.as_json()) == json.dumps(sch.trace.as_json())
    x, y = (np.random.default_rng(n).random(s, "float32") for n, s in enumerate([(30, 44), (44, 52)]))
    out = tvm.nd.empty((30, 52))
    tvm.build(sch.mod, "llvm")["main"](tvm.nd.array(x), tvm.nd.array(y), out)
    tvm.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-4)


def test_the_round_trip_of_a_trace_is_checked():
    sch = tvm.tir.Schedule(product)
    sch.parallel(sch.get_loops("C")[0])
    tir.schedule.testing.assert_structural_equal_ignore_global_symbol(product, product.with_attr("global_symbol", "f"))
    tir.schedule.testing.verify_trace_roundtrip(sch, product, text_format="json")
    with pytest.raises(ValueError, match="text_format is"):
        tir.schedule.testing.verify_trace_roundtrip(sch, product, text_format="yaml")
    with pytest.raises(ValueError, match="not equal|differ"):
        tir.schedule.testing.verify_trace_roundtrip(sch, product.with_attr("kept", 1))
    sch.trace.pop()
    with pytest.raises(ValueError, match="parallel"):
        tir.schedule.testing.verify_trace_roundtrip(sch, product)
    with pytest.raises(ValueError, match="enable_check is False: a primitive is always checked"):
        tvm.tir.Schedule(product, enable_check=False)


def dot(body):
    """The text of a dot product of 4 bytes with each of 16 rows, done by `body`."""
    return tvm.script.from_source(f"""
@T.prim_func
def dot(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "int8", offset_factor=1)
    B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        {body}
""")


DOT_C = """#include <stdint.h>
static int32_t course_dot_16x4(const int8_t *a, const int8_t *b, int32_t *c)
{
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 4; ++k)
            c[i] += (int32_t)a[k] * b[i * 4 + k];
    return 0;
}
"""


def test_a_dot_product_instruction_on_packed_weights():
    tir.TensorIntrin.register("course_dot_16x4", dot("""for i, k in T.grid(16, 4):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")"""), dot(
        'T.evaluate(T.call_extern("int32", "course_dot_16x4", A.access_ptr("r"), B.access_ptr("r"), '
        'C.access_ptr("rw")))'), override=True)
    m, n, k = 7, 48, 20
    x, w = te.placeholder((m, k), name="X", dtype="int8"), te.placeholder((n // 16, k // 4, 16, 4), "int8", name="W")
    r = te.reduce_axis((0, k), name="r")
    out = te.compute((m, n), lambda i, j: te.sum(
        x[i, r].astype("int32") * w[tir.indexdiv(j, 16), tir.indexdiv(r, 4), tir.indexmod(j, 16),
                                    tir.indexmod(r, 4)].astype("int32"), axis=r), name="compute")
    func = te.create_prim_func([x, w, out])
    sch = tvm.tir.Schedule(func, debug_mask="all")
    block = sch.get_block("compute")
    i, j, r = sch.get_loops(block)
    jo, ji = sch.split(j, factors=[None, 16])
    ro, ri = sch.split(r, factors=[None, 4])
    sch.reorder(i, jo, ro, ji, ri)
    sch.decompose_reduction(block, ro)
    sch.tensorize(ji, "course_dot_16x4")
    sch.annotate(i, "pragma_import_c", DOT_C)
    read_back(sch.mod)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, s).astype("int8") for s in ((m, k), (n, k)))
    packed = np.ascontiguousarray(b.reshape(n // 16, 16, k // 4, 4).transpose(0, 2, 1, 3))
    found = tvm.nd.empty((m, n), "int32")
    tvm.build(sch.mod, target="llvm")["main"](tvm.nd.array(a), tvm.nd.array(packed), found)
    np.testing.assert_array_equal(found.numpy(), a.astype("int32") @ b.astype("int32").T)


@T.prim_func
def argmax(idx: T.Buffer((33, 70), "int32"), val: T.Buffer((33, 70), "float32"),
           argmax_v0: T.Buffer((33,), "int32"), argmax_v1: T.Buffer((33,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i0, i1 in T.grid(33, 70):
        with T.block("argmax"):
            i, k = T.axis.remap("SR", [i0, i1])
            T.reads(idx[i, k], val[i, k])
            T.writes(argmax_v0[i], argmax_v1[i])
            with T.init():
                argmax_v0[i] = -1
                argmax_v1[i] = T.min_value("float32")
            v_argmax_v0: T.int32 = T.Select(argmax_v1[i] >= val[i, k], argmax_v0[i], idx[i, k])
            v_argmax_v1: T.float32 = T.Select(argmax_v1[i] >= val[i, k], argmax_v1[i], val[i, k])
            argmax_v0[i] = v_argmax_v0
            argmax_v1[i] = v_argmax_v1


def test_an_argmax_in_two_steps():
    sch = tvm.tir.Schedule(argmax, debug_mask="all")
    _, k = sch.get_loops(sch.get_block("argmax"))
    _, ki = sch.split(k, factors=[None, 8])
    partial = sch.rfactor(ki, factor_axis=1)
    assert [r.buffer.name for r in sch.get(partial).writes] == ["argmax_v0_rf", "argmax_v1_rf"]
    sch.parallel(sch.get_loops(partial)[0])
    read_back(sch.mod)
    index = np.tile(np.arange(70, dtype="int32"), (33, 1))
    value = np.random.default_rng(4).permuted(np.linspace(-1, 1, 33 * 70, dtype="float32")).reshape(33, 70)
    where, best = tvm.nd.empty((33,), "int32"), tvm.nd.empty((33,))
    tvm.build(sch.mod, target="c")(tvm.nd.array(index), tvm.nd.array(value), where, best)
    assert (where.numpy() == value.argmax(1)).all() and (best.numpy() == value.max(1)).all()


# ---------------------------------------------------------------- GPU schedules: as text

def gpu_product(n=256):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return te.create_prim_func([a, b, te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")])


def gpu_tiled(sch, together=True):
    """Blocks of 64x64, threads of 4x4 in two virtual ones, operands through shared memory."""
    block = sch.get_block("C")
    out = sch.cache_write(block, 0, "local")
    shared = [sch.cache_read(block, n, "shared") for n in range(2)]
    local = [sch.cache_read(block, n, "local") for n in range(2)]
    x, y, k = sch.get_loops(block)
    by, vy, ty, x = sch.split(x, factors=[None, 2, 8, 4])
    bx, vx, tx, y = sch.split(y, factors=[None, 2, 8, 4])
    ko, ki = sch.split(k, factors=[None, 8])
    sch.reorder(by, bx, vy, vx, ty, tx, ko, ki, x, y)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (vy, "vthread.y"), (vx, "vthread.x"),
                       (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        sch.bind(loop, axis)
    sch.reverse_compute_at(out, tx, preserve_unit_loops=True)
    for cache in local:
        sch.compute_at(cache, ki)
    for cache in shared:
        sch.compute_at(cache, ko)
        fused = sch.fuse(*sch.get_loops(cache)[-2:])
        _, fy, fx, lanes = sch.split(fused, factors=[None, 8, 8, 4])
        sch.vectorize(lanes)
        if together:
            sch.bind(fy, "threadIdx.y")
            sch.bind(fx, "threadIdx.x")
        sch.storage_align(cache, 0, axis=-2, factor=32, offset=8)
    sch.annotate(ko, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(ko, "software_pipeline_order", [0, 1, 2])
    sch.annotate(tx, "pragma_unroll_explicit", True)
    sch.decompose_reduction(block, ko)
    return shared[0]


def test_threads_fill_shared_memory_together():
    sch = tvm.tir.Schedule(gpu_product(), debug_mask="all")
    gpu_tiled(sch)
    text = sch.mod.script()
    read_back(sch.mod)
    assert """
                                                        v0 = T.axis.spatial(256, x_0 * 64 + ax0_ax1_fused_0 * 32 + """ \
        """ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2 // 2)
""" in text
    tir.schedule.testing.verify_trace_roundtrip(sch, gpu_product())
    with pytest.raises(ValueError, match="loop .* is bound to blockIdx.y, which comes with CUDA"):
        tvm.build(sch.mod, target="llvm").get_source()
    source = tvm.build(sch.mod, target="cuda").imported_modules[0].get_source()
    assert "__shared__" in source and "__syncthreads();" in source and "__launch_bounds__(64)" in source


def test_a_gpu_schedule_computes_the_same():
    sch = tvm.tir.Schedule(gpu_product(64))
    gpu_tiled(sch)
    a, b = (np.random.default_rng(n).integers(-3, 4, (64, 64)).astype("float32") for n in range(2))
    found = np.zeros((64, 64), "float32")
    run(sch.mod["main"], a, b, found)
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("spoil, reason", [
    (lambda s, shared: s.bind(s.split(s.get_loops(shared)[-3], [4, None])[1], "threadIdx.y"),
     "is bound to threadIdx.y too, and their ranges differ: 2 and 8|their ranges differ: 8 and 2"),
    (lambda s, shared: (s.set_scope(shared, 0, "local"), s.bind(s.get_loops(shared)[-3], "threadIdx.y")),
     "is not in shared memory but in local"),
    (lambda s, shared: s.bind(s.get_loops("A_shared_local")[-1], "vthread.y"),
     "only threads of one block can share work"),
])
def test_what_threads_cannot_do_together(spoil, reason):
    sch = tvm.tir.Schedule(gpu_product(), error_render_level="fast")
    shared = gpu_tiled(sch, together=False)
    with pytest.raises(tvm.tir.ScheduleError, match=reason):
        spoil(sch, shared)


def test_what_depends_on_the_thread_is_not_shared():
    sch = tvm.tir.Schedule(product, error_render_level="fast")
    i, j, _ = sch.get_loops("C")
    io, _ = sch.split(i, [6, None])
    _, ji = sch.split(j, [None, 6])
    sch.bind(io, "threadIdx.x")
    with pytest.raises(tvm.tir.ScheduleError, match="what loop j_1 does depends on i_0; choose another axis"):
        sch.bind(ji, "threadIdx.x")


def test_threads_reduce_together():
    a = te.placeholder((64, 256), name="A")
    k = te.reduce_axis((0, 256), name="k")
    total = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="S")
    share = te.compute((64, 256), lambda i, j: a[i, j] / total[i], name="N")
    sch = tvm.tir.Schedule(te.create_prim_func([a, share]), debug_mask="all")
    i, j = sch.get_loops("N")
    _, tx = sch.split(j, [None, 32])
    sch.bind(i, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    sch.set_scope("S", 0, "shared")
    sch.compute_at("S", i)
    sch.bind(sch.split(sch.get_loops("S")[-1], [None, 32])[1], "threadIdx.x")
    read_back(sch.mod)
    assert 'T.thread_binding(32, thread="threadIdx.x"):\n                    with T.block("S"):' in sch.mod.script()
