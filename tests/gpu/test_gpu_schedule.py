"""Schedules of GPU programs: what primitives allow of threads, shared memory and fragments, and what they refuse."""
import numpy as np
import pytest
from gpu_modules import emulated, ints, needs_emulator
from gpu_programs import LOOPS, lowered
from test_gpu_wmma import by_tensor_cores, product

import ingot as tvm
from ingot.ir.schedule import Schedule, ScheduleError
from ingot.script import tir as T
from ingot.tir.tensor_intrin.cuda import get_wmma_intrin_group


def tiled(bound=True):
    """A product of 32 x 32 in tiles of 8 x 8, one thread an element; the handles of block and loops."""
    s = Schedule(product(32, 32, 16, "float32", "float32", False))
    block = s.get_block("c")
    i, j, k = s.get_loops(block)
    ib, it = s.split(i, [None, 8])
    jb, jt = s.split(j, [None, 8])
    ko, ki = s.split(k, [None, 4])
    s.reorder(ib, jb, it, jt, ko, ki)
    loops = (ib, jb, it, jt, ko, ki)
    for loop, axis in zip(loops, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")) if bound else ():
        s.bind(loop, axis)
    return s, block, loops


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late", "shuffled"])
def test_read_at_and_write_at_copy_by_all_threads(policy):
    s, block, (*_, jt, ko, ki) = tiled()
    copies = [s.read_at(ko, block, n, "shared") for n in (0, 1)]
    s.write_at(jt, block, 0, "local")
    for copy in copies:
        axes = [s.get(loop).thread_binding for loop in s.get_loops(copy)]
        assert axes[-2:] == ["threadIdx.y", "threadIdx.x"]
    tvm.tir.schedule.testing.verify_trace_roundtrip(s, product(32, 32, 16, "float32", "float32", False))
    a, b = ints((32, 16)), ints((16, 32), seed=1)
    built = tvm.build(s.mod, "cuda")
    np.testing.assert_array_equal(emulated(built, a, b, np.zeros((32, 32), np.float32), policy=policy)[2], a @ b)


def test_read_at_without_threads_copies_in_order():
    s, block, (*_, ko, ki) = tiled(bound=False)
    copy = s.read_at(ko, block, 0, "local")
    loops = [s.get(loop) for loop in s.get_loops(copy)]
    assert loops[4] is s.get(ko) and all(loop.thread_binding is None for loop in loops)
    with pytest.raises(ScheduleError, match="read_at: argument 'read_buffer_index': 7 is not a position"):
        s.read_at(ko, block, 7, "local")


def test_rows_of_shared_memory_are_apart_and_in_versions():
    """storage_align and a pipeline of one buffer: the version comes first, its rows stay apart."""
    s, block, (*_, ko, ki) = tiled()
    copies = [s.read_at(ko, block, n, "shared") for n in (0, 1)]
    s.storage_align(copies[0], 0, axis=-2, factor=32, offset=8)
    s.decompose_reduction(block, ko)
    for key, values in (("stage", [0, 0, 1]), ("order", [0, 1, 2])):
        s.annotate(ko, f"software_pipeline_{key}", values)
    cut = LOOPS.index("LowerMatchBuffer")
    text = str(lowered(s.func, *LOOPS[:cut], "InjectSoftwarePipeline"))
    assert 'T.alloc_buffer((2, 8, 4), strides=(64, 8, 1), scope="shared")' in text


def test_virtual_threads_without_a_letter_nest():
    s, _, (ib, jb, it, jt, *_) = tiled(bound=False)
    for loop in (it, jt):
        s.bind(loop, "vthread")
    s.bind(ib, "vthread.x")
    with pytest.raises(ScheduleError, match="bound to vthread.x too"):
        s.bind(jb, "vthread.x")


def test_what_an_intrinsic_writes_is_what_its_block_says():
    """A tile that an intrinsic fills is complete for who reads it, and a reader of more is refused."""
    func = product(64, 32, 64, "float16", "float32", False)
    s = by_tensor_cores(func, get_wmma_intrin_group("shared", "global", "float16", "float32", False))
    assert "tvm_mma_sync" in str(s.func)  # each step was checked against those before

    @T.prim_func
    def half(x: T.Buffer((16, 16), "float16"), y: T.Buffer((16, 16), "float16")):
        tile = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
        for i in range(2):
            with T.block("load"):
                vi = T.axis.spatial(2, i)
                T.reads(x[vi * 8:vi * 8 + 8, 0:16])
                T.writes(tile[vi * 8:vi * 8 + 8, 0:16])
                T.tvm_load_matrix_sync(tile.data, 16, 16, 16, 0, T.address_of(x[vi * 8, 0]), 16, "row_major")
        for i, j in T.grid(16, 16):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = tile[15 - vi, vj]

    s = Schedule(half, error_render_level="fast")
    with pytest.raises(ScheduleError):
        s.reverse_compute_at("y", s.get_loops("load")[0])


def test_te_binds_before_producers_move():
    """Shared memory of a stage holds what all threads of the consumer read, whatever the order of the requests."""
    te = tvm.te
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    copy = s.cache_read(x, "shared", [y])
    block, thread = s[y].split(y.op.axis[0], factor=16)
    s[copy].compute_at(s[y], thread)
    s[copy].bind(copy.op.axis[0], te.thread_axis("threadIdx.x"))
    s[y].bind(block, te.thread_axis("blockIdx.x"))
    s[y].bind(thread, te.thread_axis("threadIdx.x"))
    assert "float x_shared[16]" in tvm.build(s, [x, y], "cuda").imported_modules[0].get_source()


def test_te_double_buffer():
    te = tvm.te
    x = te.placeholder((8, 16), name="x")
    k = te.reduce_axis((0, 8), "k")
    y = te.compute((16,), lambda i: te.sum(x[k, i], axis=k), name="y")
    s = te.create_schedule(y.op)
    copy = s.cache_read(x, "shared", [y])
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[y], k)
    s[copy].bind(copy.op.axis[1], te.thread_axis("threadIdx.x"))
    s[copy].double_buffer()
    source = tvm.build(s, [x, y], "cuda").imported_modules[0].get_source()
    assert "x_shared[32]" in source
