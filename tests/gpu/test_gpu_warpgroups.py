"""Products of warpgroups (wgmma, sm_90a): exact under the emulator, which sees every access, and what nvcc makes of
them."""
from functools import lru_cache

import re
import subprocess

import numpy as np
import pytest
import sass
from emulated import run_folder
from folders import check_kernels, folder_of, nvcc
from gpu_modules import emulated, ints, needs_emulator
from onnx import TensorProto, helper, numpy_helper
from test_gpu_tensor_cores import WINDOWS, convolutions, expected, product, scheduled


import ingot as tvm
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.script.functions import from_source
from ingot.ir.target import Target
from ingot.ir.tir.stmt import Block, BufferStore
from ingot.ir.node import collect
from ingot.ir.transform.gpu.fragments import FragmentError
from ingot.ir.transform.pass_table import RELAX, TIR

GPU = Target.get("cuda-sm_90a")
LAYOUTS = (False, True)  # a by rows and b by columns: both along the terms


@lru_cache(maxsize=2)
def built(m, n, k, tile, dtype="float16", parts=1):
    sch = scheduled(product(m, n, k, dtype, LAYOUTS), tile, parts, "warpgroup_product", GPU)
    return tvm.build(sch.mod, GPU.name)


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late", "starving late"])
@pytest.mark.parametrize("tile, m, n, k", [
    ("64x64x64", 70, 72, 400), ("64x32x64", 64, 33, 71), ("128x64x64", 130, 64, 64), ("64x32x64", 64, 32, 128)])
def test_every_shape_is_exact(policy, tile, m, n, k):
    """Whole numbers of a few bits, whose sums are exact; no access races with those of the products under way."""
    a, b, c = (ints(s, np.float16, i, 1) for i, s in enumerate(((m, k), (n, k), (n,))))
    *_, found = emulated(built(m, n, k, tile), a, b, c, np.full((m, n), 7, np.float16), policy=policy, seen=True)
    np.testing.assert_array_equal(found, expected(a, b, c, LAYOUTS, np.float16))


@needs_emulator
def test_sums_in_parts_are_exact():
    a, b, c = (ints(s, np.float16, i, 1) for i, s in enumerate(((64, 512), (64, 512), (64,))))
    *_, found = emulated(built(64, 64, 512, "64x64x64", parts=4), a, b, c, np.zeros((64, 64), np.float16))
    np.testing.assert_array_equal(found, expected(a, b, c, LAYOUTS, np.float16))


def test_operands_in_other_layouts_are_left_to_warps():
    for trans in ((False, False), (True, True), (True, False)):
        assert RULES["warpgroup_product"](Schedule(product(128, 128, 128, trans=trans)), GPU) is None
    for target, rows, fits in (("cuda-sm_80", 128, False), ("cuda", 128, False), (GPU.name, 32, False),
                               (GPU.name, 128, True)):
        func = product(rows, 128, 128, trans=LAYOUTS)
        assert (RULES["warpgroup_product"](Schedule(func), Target.get(target)) is not None) is fits


@pytest.mark.parametrize("tile", ["128x256x64", "128x128x64", "64x64x64"])
def test_what_nvcc_makes_of_it(tile, tmp_path):
    """Four products a turn that nothing serializes, and no register spilled."""
    for name, text in built(512, 512, 1024, tile)._module.files().items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([nvcc().path, "-arch=sm_90a", "-cubin", "-Xptxas", "-v", "-o", "module.cubin", "module.cu"],
                          cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "C75" not in done.stderr and " 0 bytes spill stores" in done.stderr, done.stderr
    if sass.find_nvdisasm() is None:
        pytest.skip("no nvdisasm")
    counts = sum(sass.instructions(tmp_path / "module.cubin").values(), start=sass.Counter())
    columns = tile.split("x")[1]
    assert sass.count(counts, f"HGMMA.64x{columns}x16.F32") == 4 and sass.count(counts, "LDGSTS.E.BYPASS.128") > 8
    assert sass.count(counts, "FENCE.VIEW.ASYNC") == 1 and sass.count(counts, "BAR.SYNC") == 2


def test_chunks_of_rows_of_shared_memory_are_swizzled():
    """Chunk c of row r lies where c xor r % 8 would: eight rows have a chunk in eight places."""
    sch = Schedule(product(128, 128, 128, trans=LAYOUTS))
    match = RULES["warpgroup_product"](sch, GPU)
    match.apply(next(iter(match.kernel.candidates(GPU))), GPU)
    mod = sch.mod
    for name in ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
                 "CompactBufferAllocation"):
        mod = TIR[name]()(mod)
    done = TIR["SwizzleShared"]()(mod)["main"]
    tiles = {s.buffer for s in collect(done.body, BufferStore) if s.buffer.name in ("a_tile_shared", "b_tile_shared")}
    assert len(tiles) == 2 and {b.data_alignment for b in tiles} == {1024}
    assert str(done).count("T.bitwise_xor") + len(re.findall(r" \^ ", str(done))) == 2
    assert not any("buffer_swizzle" in b.annotations for b in collect(done.body, Block))


def test_rows_of_other_sizes_have_no_swizzle():
    sch = Schedule(product(64, 64, 64))
    copy = sch.cache_read("sums", 0, "shared")
    sch.annotate(copy, "buffer_swizzle", 0)
    sch.transform_layout(copy, ("write", 0), lambda i, j: (j // 32, i, j % 32))
    mod = TIR["ConvertBlocksToOpaque"]()(TIR["LowerInitBlock"]()(sch.mod))
    with pytest.raises(ValueError, match="rows of a_shared, 32 elements of float16, are not of 128 bytes"):
        TIR["SwizzleShared"]()(mod)


# ---------------------------------------------------------------- networks

def dense(m=100, k=136, h=200, n=72):
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32), name)
               for name, s in (("w0", (k, h)), ("w1", (h, n)))]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "w1"], ["y"], name="second")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [m, k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_emulator
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_network_of_dense_layers_is_near_the_reference(dtype, tmp_path):
    folder_of(dense(), tmp_path / "net", target=GPU.name, dtype=dtype)
    text = "".join(f.read_text() for f in (tmp_path / "net").glob("*.cu"))
    assert len(re.findall(r"ingot_wgmma_m64n\d+k16_b?f16_f32\(&", text)) == 2 * 4
    done = run_folder(tmp_path / "net", "down late", arch=90)
    assert done.returncode == 0 and ": ok" in done.stdout, done.stdout + done.stderr


@needs_emulator
def test_convolutions_are_near_the_reference(tmp_path):
    """Their rows are gathered to where warpgroups read them; weights lie along the terms."""
    folder_of(convolutions(), tmp_path / "net", target=GPU.name, dtype="float16")
    text = "".join(f.read_text() for f in (tmp_path / "net").glob("*.cu"))
    kernels = dict(re.findall(r"__launch_bounds__\(\d+\) (\w+)\((.*?)\n}\n", text, re.DOTALL))
    assert {f"net__{name}" for name in ("same", "valid", "strided", "dilated", "points", "uneven")} <= {
        name for name, body in kernels.items() if "ingot_wgmma_m64" in body}
    done = run_folder(tmp_path / "net", "down late", arch=90, seen=True)
    assert done.returncode == 0 and done.stdout.count(": ok") == len(WINDOWS), done.stdout + done.stderr
    check_kernels(tmp_path / "net", kernels, ("sm_90a",))


def test_sums_are_stored_after_their_products():
    """A program that lets products of a warpgroup be under way when it ends is refused."""
    source = built(64, 64, 64, "64x64x64").imported_modules[0].get_source()
    after = source[source.rindex("ingot_wgmma_m64"):]
    waits = [after.index(f"ingot_wgmma_wait({n});") for n in (1, 0)]
    assert waits == sorted(waits) and waits[1] < after.index("__syncthreads") < after.index("ingot_fragment_store")
    with pytest.raises(FragmentError, match="products of a warpgroup are under way when it ends"):
        tvm.build(from_source(NO_STORE), GPU.name)


NO_STORE = """
@T.prim_func
def no_store(x: T.Buffer((64, 64), "float16")):
    for w in T.thread_binding(4, thread="threadIdx.y"):
        for i in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("tile"):
                a = T.alloc_buffer((64, 64), "float16", scope="shared")
                sums = T.alloc_buffer((16, 64), "float32", scope="wmma.accumulator")
                T.evaluate(T.wgmma_sync(sums.data, 0, T.address_of(a[w * 16, 0]), T.address_of(a[0, 0]), 64, 1))
"""


def test_weights_lie_along_the_terms():
    mod = RELAX["ToMixedPrecision"]("float16")(tvm.from_onnx(dense()))
    turned = RELAX["TransposeWeights"]()(mod)
    products = [b.value for b in turned["main"].bindings if getattr(b.value, "op", "") == "matmul"]
    assert [(p.attrs["b_layout"], p.args[1].data.shape) for p in products] == [("NK", (200, 136)), ("NK", (72, 200))]
    x = np.random.default_rng(1).standard_normal((100, 136)).astype(np.float32)
    before, after = (evaluate(m, [x]) for m in (mod, turned))
    np.testing.assert_array_equal(*(np.asarray(y[0] if isinstance(y, (list, tuple)) else y) for y in (before, after)))
