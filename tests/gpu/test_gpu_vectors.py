"""Vectorized loops of kernels for GPUs: neighbours move together where their addresses allow it, and only there."""
import numpy as np
import pytest
import sass
from folders import folder_of, kernel_facts
from gpu_modules import compiles, emulated, ints, needs_emulator
from onnx import TensorProto, helper

import ingot as tvm
from ingot import te
from ingot.codegen.compile import Options, compile_module, lower
from ingot.ir.node import collect
from ingot.ir.tir.lanes import ALIGNMENTS
from ingot.ir.tir.stmt import BufferStore
from ingot.ir.transform.pipeline import lower_prim_func, pipeline_for
from ingot.runtime.cuda_array import CudaArray, why_misaligned
from ingot.script import tir as T


def elementwise(lanes, n=4096, dtype="float32", shift=0, threads=32):
    """The schedule of c[i] = a[i + shift] * b[i] + a[i + shift], some neighbours a thread."""
    a, b = te.placeholder((n + shift,), dtype, name="a"), te.placeholder((n,), dtype, name="b")
    c = te.compute((n,), lambda i: a[i + shift] * b[i] + a[i + shift], name="c")
    sch = tvm.tir.Schedule(te.create_prim_func([a, b, c]))
    loop, = sch.get_loops(sch.get_block("c"))
    block, thread, own = sch.split(loop, [None, threads, lanes])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(own)
    return sch


def source(mod):
    return mod.imported_modules[0].get_source()


@needs_emulator
@pytest.mark.parametrize("dtype, lanes, whole", [
    ("float32", 4, 4), ("float32", 2, 2), ("float32", 8, 4), ("float32", 6, 2), ("int8", 16, 16), ("float16", 8, 8),
    ("float64", 2, 2), ("int32", 4, 4), ("float32", 3, 0), ("int8", 4, 0)])
def test_neighbours_move_together(dtype, lanes, whole):
    n = 960
    mod = tvm.build(elementwise(lanes, n, dtype).mod, target="cuda")
    assert (f"ingot_copy<{whole}>" in source(mod)) == bool(whole)
    assert ("ingot_copy" in source(mod)) == bool(whole)
    a, b = ints(n, dtype), ints(n, dtype, 1)
    *_, c = emulated(mod, a, b, np.zeros(n, dtype))
    np.testing.assert_array_equal(c, a * b + a)


@needs_emulator
@pytest.mark.parametrize("n, shift, whole", [(1000, 0, True), (1001, 0, False), (1000, 4, True), (1000, 1, False)])
def test_ends_and_places(n, shift, whole):
    """All lanes are inside or none is where 4 divides the extent; a read at an odd place stays one by one."""
    mod = tvm.build(elementwise(4, n, shift=shift).mod, target="cuda")
    assert ("ingot_copy<4>(a_4," in source(mod)) == whole
    a, b = ints(n + shift), ints(n, seed=1)
    *_, c = emulated(mod, a, b, np.zeros(n, "float32"))
    np.testing.assert_array_equal(c, a[shift:] * b + a[shift:])


@needs_emulator
def test_what_a_condition_guards_is_zeros_elsewhere():
    @T.prim_func
    def padded(x: T.Buffer((96,), "float32"), y: T.Buffer((128,), "float32"), z: T.Buffer((128,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for v in T.vectorized(4):
                y[t * 4 + v] = T.if_then_else(16 <= t * 4 + v and t * 4 + v < 112, x[t * 4 + v - 16], T.float32(0))
            for w in T.vectorized(4):
                z[t * 4 + w] = T.if_then_else(t * 4 + w < 95, x[t * 4 + w], T.float32(2)) * T.float32(3)
    mod = tvm.build(padded, target="cuda")
    assert "ingot_copy_or_zero<4>(&y[tx * 4], &x[tx * 4 - 16]" in source(mod)
    x = ints(96) + 1
    _, y, z = emulated(mod, x, np.zeros(128, "float32"), np.zeros(128, "float32"))
    np.testing.assert_array_equal(y, np.pad(x, 16))
    np.testing.assert_array_equal(z, np.concatenate([x[:95] * 3, np.full(33, 6)]))


@needs_emulator
def test_what_a_condition_reads_behind_another_one_is_read_behind_it():
    @T.prim_func
    def behind(x: T.Buffer((64,), "float32"), y: T.Buffer((128,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for v in T.vectorized(4):
                y[t * 4 + v] = T.if_then_else(t * 4 + v < 64 and x[t * 4 + v] > T.float32(0), T.float32(1),
                                              T.float32(2))
    mod = tvm.build(behind, target="cuda")
    assert "ingot_copy_or_zero<4>(x_4, &x[tx * 4], tx < 16)" in source(mod)
    x = ints(64)
    _, y = emulated(mod, x, np.zeros(128, "float32"))
    np.testing.assert_array_equal(y, np.where(np.pad(x, (0, 64)) > 0, 1, 2))


@needs_emulator
def test_vectors_that_a_program_spells():
    @T.prim_func
    def spelled(x: T.Buffer((128,), "float32"), y: T.Buffer((128,), "float32"), z: T.Buffer((128,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            y[T.ramp(t * 4, 1, 4)] = x[T.ramp(t * 4, 1, 4)] * T.broadcast(T.float32(2), 4)
            z[T.ramp(t, 32, 4)] = x[T.ramp(t * 4, 1, 4)]
    mod = tvm.build(spelled, target="cuda")
    x = ints(128)
    _, y, z = emulated(mod, x, np.zeros(128, "float32"), np.zeros(128, "float32"))
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x.reshape(32, 4).T.ravel())


def test_no_vectors_on_request():
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        mod = tvm.build(elementwise(4).mod, target="cuda")
    assert "ingot_copy" not in source(mod)


@pytest.mark.parametrize("dtype, lanes", [("float32", 4), ("float16", 8)])
def test_opencl_has_vectors_of_its_own(dtype, lanes):
    text = source(tvm.build(elementwise(lanes, dtype=dtype).mod, target="opencl"))
    assert f"vload{lanes}(0, &a[" in text and f"vstore{lanes}(" in text


def test_instructions(tmp_path):
    if sass.find_nvdisasm() is None:
        pytest.skip("no nvdisasm")
    mod = tvm.build(elementwise(4).mod, target="cuda")
    compiles(mod, cubin=tmp_path / "k.cubin")
    found, = sass.instructions(tmp_path / "k.cubin").values()
    assert sass.count(found, "LDG.E.128") == 2 and sass.count(found, "STG.E.128") == 1, found


# ---------------------------------------------------------------- addresses

def joined(height, width):
    """Two convolutions whose results lie side by side in one tensor, the second after 3 channels."""
    nodes, weights = [], []
    for n, channels in enumerate((3, 8)):
        w = np.random.default_rng(n).standard_normal((channels, 8, 1, 1)).astype("float32")
        weights.append(helper.make_tensor(f"w{n}", TensorProto.FLOAT, w.shape, w.ravel()))
        nodes.append(helper.make_node("Conv", ["x", f"w{n}"], [f"c{n}"], name=f"conv{n}"))
    nodes.append(helper.make_node("Concat", ["c0", "c1"], ["j"], axis=1))
    nodes.append(helper.make_node("MaxPool", ["j"], ["y"], kernel_shape=[2, 2], strides=[2, 2]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, height, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 11, height // 2, width // 2])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("height, width, weak", [(8, 8, None), (6, 7, {2: 8}), (7, 5, {2: 4})])
def test_parts_of_tensors_have_the_addresses_that_they_have(height, width, weak):
    stages = lower(tvm.from_onnx(joined(height, width)), Options.check(target="cuda-sm_80"))
    found = [f.attrs.get(ALIGNMENTS) for f in stages.kernels.values() if "conv1" in str(f.attrs["origin"])]
    assert found == [weak]


def test_a_kernel_of_a_part_moves_no_more_than_its_address_allows():
    """c at odd places is written one by one; all at multiples of 8 bytes two by two."""
    for weak, lanes in (({}, 4), ({n: 8 for n in range(3)}, 2), ({2: 4}, None)):
        func = lower_prim_func(elementwise(4).func.with_attr({ALIGNMENTS: weak}), pipeline_for("cuda"))
        stored, = (s for s in collect(func.body, BufferStore) if s.buffer.name == "c")
        assert getattr(stored.indices[0], "lanes", None) == lanes


def test_misaligned_arrays_are_refused():
    def at(pointer, shape=(4,)):
        return CudaArray(pointer, shape, "float32", tvm.cuda(0), None)
    assert why_misaligned(at(4096)) is None and why_misaligned(at(4100, (0,))) is None
    assert "no multiple of 16 bytes" in why_misaligned(at(4100))


# ---------------------------------------------------------------- networks

def rows_and_products(whole=False):
    """softmax(relu(x w + b)) + (x, x), of 2048 rows. whole: weights are whole numbers."""
    w = np.random.default_rng(0).random(256 * 512)
    weights = [helper.make_tensor("w", TensorProto.FLOAT, (256, 512), w.round() if whole else w),
               helper.make_tensor("b", TensorProto.FLOAT, (512,), np.zeros(512, "float32"))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Add", ["m", "b"], ["a"]),
             helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Softmax", ["r"], ["s"], axis=-1, name="row"),
             helper.make_node("Concat", ["x", "x"], ["xx"], axis=1, name="elements"),
             helper.make_node("Add", ["xx", "s"], ["y"], name="sums")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2048, 256))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2048, 512))
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_instructions_of_networks(tmp_path):
    """What products, rows and elements read and write is moved by 16 bytes, and nothing lies in local memory."""
    if sass.find_nvdisasm() is None:
        pytest.skip("no nvdisasm")
    made = folder_of(rows_and_products(), tmp_path, "moves")
    kernel_facts(tmp_path, "sm_80")
    found = {}
    for cubin in tmp_path.glob("*.cubin"):
        found.update(sass.instructions(cubin))
    product, row = (next(c for n, c in found.items() if name in made.kernels[n].nodes) for name in ("product", "row"))
    counts = {what: sass.count(product, what) for what in ("LDG.E.128", "LDS.128", "STG.E.128")}
    assert counts["LDG.E.128"] >= 2 and counts["LDS.128"] >= 16 and counts["STG.E.128"] >= 1, counts
    assert sass.count(row, "LDG.E.128") >= 3 and sass.count(row, "LDG.E.") == sass.count(row, "LDG.E.128"), row
    assert not any(sass.count(c, what) for c in found.values() for what in ("LDL", "STL"))


def test_numbers_that_are_stored_as_others_are_no_neighbours():
    """Whole numbers lie in memory as bytes, of which four are no vector."""
    made = compile_module(tvm.from_onnx(rows_and_products(whole=True)), Options.check(target="cuda-sm_80"), "0" * 64)
    text = next(k.body for k in made.kernels.values() if "product" in k.nodes)
    assert "(float)w[" in text and "&w[" not in text and "ingot_copy<4>(x_4, &x[" in text
