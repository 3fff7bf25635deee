"""Warps that only copy, by tensor maps, beside those that multiply (SpecializeWarps, SplitWarpRoles): exact under the
emulator in all its schedules, no wait and no arrival that could be left out, and what nvcc makes of them."""
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sass
from emulated import FLAGS, POLICIES, build_cudart, build_kernels, emulator, run_folder, run_library, translate
from folders import check_kernels, folder_of, nvcc
from gpu_modules import call_of, compiles, emulated, ints, needs_emulator
from onnx import TensorProto, helper, numpy_helper
from test_gpu_tensor_cores import expected, product
from test_gpu_warpgroups import GPU, LAYOUTS, built, dense

import ingot as tvm
from ingot import te
from ingot.codegen.c_expr import EmitError
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.script.functions import from_source
from ingot.ir.transform.gpu.warp_roles import WarpRoleError
from ingot.ir.transform.pass_table import TIR
from ingot.runtime import gpu_module


def operands(m, n, k, dtype=np.float16):
    """Whole numbers of a few bits, whose sums are exact, and room for the result."""
    return [*(ints(s, dtype, i, 1) for i, s in enumerate(((m, k), (n, k), (n,)))), np.full((m, n), 7, dtype)]


LATE = ("up", "starving down late")


# ---------------------------------------------------------------- right

@needs_emulator
@pytest.mark.parametrize("tile, m, n, k, parts, policies", [
    ("64x32x64", 70, 33, 328, 1, POLICIES), ("64x64x64", 64, 72, 128, 1, LATE), ("128x64x64", 130, 64, 8, 1, LATE),
    ("64x32x64", 64, 32, 512, 4, LATE)])
def test_every_shape_is_exact_in_every_schedule(tile, m, n, k, parts, policies, tmp_path):
    """Tiles that end outside of the matrices, more turns than stages and fewer; no access races with copies or products
    that are under way."""
    mod, given = built(m, n, k, f"{tile} by TMA", parts=parts), operands(m, n, k)
    library = build_kernels(mod.imported_modules[0].get_source(), tmp_path / "k.so", seen=True)
    for policy in policies:
        found, = run_library(library, [(*call_of(mod, *given), -1)], policy)
        assert not isinstance(found, str), f"{policy}: {found}"
        np.testing.assert_array_equal(found["done"], expected(*given[:3], LAYOUTS, np.float16))


@needs_emulator
def test_matrices_of_a_batch(tmp_path):
    """One map has the rows of all of them, where tiles end with them."""
    sch = Schedule(product(64, 32, 72, trans=LAYOUTS, batch=(3,)))
    match = RULES["warpgroup_product"](sch, GPU)
    match.apply(next(p for p in match.kernel.candidates(GPU) if p.algorithm == "64x32x64 by TMA"), GPU)
    a, b, c = (ints(s, np.float16, i, 1) for i, s in enumerate(((3, 64, 72), (3, 32, 72), (32,))))
    *_, found = emulated(tvm.build(sch.mod, GPU.name), a, b, c, np.zeros((3, 64, 32), np.float16), policy="down late")
    np.testing.assert_array_equal(found, expected(a, b, c, LAYOUTS, np.float16))


@needs_emulator
def test_rows_that_only_a_run_knows(tmp_path):
    m = te.var("m")
    sch = Schedule(product(m, 72, 136, trans=LAYOUTS))
    match = RULES["warpgroup_product"](sch, GPU)
    match.apply(next(p for p in match.kernel.candidates(GPU) if p.algorithm == "64x64x64 by TMA"), GPU)
    mod = tvm.build(sch.mod, GPU.name)
    library = build_kernels(mod.imported_modules[0].get_source(), tmp_path / "k.so", seen=True)
    for rows in (1, 70):
        given = operands(rows, 72, 136)
        found, = run_library(library, [(*call_of(mod, *given), -1)], "starving down late")
        assert not isinstance(found, str), found
        np.testing.assert_array_equal(found["done"], expected(*given[:3], LAYOUTS, np.float16))


def with_residual(m, n):
    """a b + a: a tensor map can say what is read of b alone, as more than its copies read a."""
    a, b = te.placeholder((m, n), "float16", "a"), te.placeholder((n, n), "float16", "b")
    r = te.reduce_axis((0, n), "r")
    sums = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("float32") * b[j, r].astype("float32"), axis=r))
    done = te.compute((m, n), lambda i, j: (sums[i, j] + a[i, j].astype("float32")).astype("float16"), "done")
    sch = Schedule(te.create_prim_func([a, b, done]))
    match = RULES["warpgroup_product"](sch, GPU)
    match.apply(next(p for p in match.kernel.candidates(GPU) if p.algorithm == "64x32x64 by TMA and cp.async"), GPU)
    a, b = ints((m, n), np.float16, 0, 1), ints((n, n), np.float16, 1, 1)
    right = (a.astype(np.float32) @ b.T.astype(np.float32) + a).astype(np.float16)
    return tvm.build(sch.mod, GPU.name), (a, b, np.full((m, n), 7, np.float16)), right


@needs_emulator
def test_a_warpgroup_gathers_the_one_operand_and_maps_bring_the_other(tmp_path):
    mod, given, right = with_residual(70, 328)
    text = mod.imported_modules[0].get_source()
    assert [text.count(f"{name}(&") for name in ("ingot_tma_load_2d", "ingot_mbarrier_arrive_cp_async")] == [1, 1]
    library = build_kernels(text, tmp_path / "k.so", seen=True)
    for policy in POLICIES:
        found, = run_library(library, [(*call_of(mod, *given), -1)], policy)
        assert not isinstance(found, str), f"{policy}: {found}"
        np.testing.assert_array_equal(found["done"], right)


def sequence(batch, tokens=50, k=64, hidden=136):
    """Two layers of a transformer's: their rows are tokens of several sequences, a batch that a run may decide."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32), name)
               for name, s in (("w0", (k, hidden)), ("b0", (hidden,)), ("w1", (hidden, k)))]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"), helper.make_node("Add", ["a", "b0"], ["ab"]),
             helper.make_node("Relu", ["ab"], ["r"]), helper.make_node("MatMul", ["r", "w1"], ["c"], name="second"),
             helper.make_node("Add", ["c", "x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, tokens, k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_emulator
@pytest.mark.parametrize("model", [dense(), sequence(3), sequence("b")], ids=["dense", "sequence", "symbolic"])
def test_a_network_encodes_the_maps_of_its_launches(model, tmp_path):
    folder = tmp_path / "net"
    folder_of(model, folder, target=GPU.name, dtype="float16")
    text = "".join(f.read_text() for f in folder.glob("*.cu"))
    assert text.count("ingot_encode_tensor_map(") == text.count("ingot_tma_load_2d(") == 4
    assert len(re.findall(r"matrix product; \d+x\d+x64 by TMA; 64 terms at a time", text)) == 2
    assert "const void *w0" in "".join(f.read_text() for f in folder.glob("*kernels.h"))
    done = run_folder(folder, "starving down late", arch=90, seen=True)
    assert done.returncode == 0 and ": ok" in done.stdout, done.stdout + done.stderr
    check_kernels(folder, re.findall(r"__launch_bounds__\(\d+\) (\w+)\(", text), ("sm_90a",))


@needs_emulator
def test_a_call_from_python_encodes_them_too(tmp_path, monkeypatch):
    """The whole way of a call, with rows that it brings; an array on no multiple of 16 bytes is refused."""
    def by_emulator(sources, out, target, threads):
        source = Path(sources[0])
        source.with_suffix(".cpp").write_text(translate(source.read_text()))
        subprocess.run(["c++", *FLAGS, "-shared", "-I", source.parent, source.with_suffix(".cpp"),
                        *map(str, emulator()), "-lm", "-ldl", "-o", out], check=True)
        return out

    monkeypatch.setenv("INGOT_CUDART", str(build_cudart(tmp_path)))
    monkeypatch.setenv("EMU_ARCH", "90")
    monkeypatch.setattr(gpu_module, "build_shared", by_emulator)
    m = te.var("m")
    sch = Schedule(product(m, 32, 72, trans=LAYOUTS))
    match = RULES["warpgroup_product"](sch, GPU)
    match.apply(next(p for p in match.kernel.candidates(GPU) if p.algorithm == "64x32x64 by TMA"), GPU)
    mod = tvm.build(sch.mod, GPU.name)
    for rows in (0, 5, 66):
        given = operands(rows, 32, 72)
        arrays = [tvm.nd.array(x, tvm.cuda(0)) for x in given]
        mod(*arrays)
        np.testing.assert_array_equal(arrays[3].numpy(), expected(*given[:3], LAYOUTS, np.float16))


# ---------------------------------------------------------------- no statement too many

STATEMENT = re.compile(r"\b(?:ingot_mbarrier_\w+|ingot_fence_proxy_async|ingot_barrier_sync|"
                       r"ingot_wgmma_(?:wait|fence)|__syncthreads)\([^;]*\);")


def mutants(text, kernel):
    """(name of a copy of a kernel, what it lacks, its text): each without one of the statements that order its
    threads; then with one that does something else."""
    head = text.index('extern "C" __global__ void')
    body = text[head:]
    found = [(m.start(), m.end(), "") for m in STATEMENT.finditer(body)]
    found += [(m.start(1), m.end(1), to) for pattern, to in (
        (r"_expect_tx\(&full\[.*?\], (\d+)\)", "2048"), (r"_init\(&empty\[\w+\], (\d+)\)", "1"),
        (r"wait_parity\(&full\[.*?\], (.*?)\);", "0"), (r"wait_parity\(&empty\[.*?\], (.*?)\);", "1"))
        for m in re.finditer(pattern, body)]
    for n, (start, end, to) in enumerate(found):
        changed = body[:start] + (to or ";") + body[end:]
        yield f"{kernel}_{n}", f"{body[start:end]} -> {to}", changed.replace(f" {kernel}(", f" {kernel}_{n}(", 1)


@needs_emulator
@pytest.mark.parametrize("gathers", [False, True])
def test_every_wait_and_every_arrival_is_needed(gathers, tmp_path):
    """Without one of them, or with another count, parity or number of bytes, some schedule has a race, a wrong result,
    or threads that wait for ever."""
    if gathers:
        mod, given, right = with_residual(64, 448)
    else:
        mod, given = built(64, 32, 448, "64x32x64 by TMA"), operands(64, 32, 448)
        right = expected(*given[:3], LAYOUTS, np.float16)
    text = mod.imported_modules[0].get_source()
    made = [*mutants(text, "main__kernel")]
    assert len(made) == 16 + 2 * gathers, [what for _, what, _ in made]
    library = build_kernels("\n".join([text, *(body for *_, body in made)]), tmp_path / "k.so", seen=True)
    launches, arrays = call_of(mod, *given)
    missed = {what for _, what, _ in made}
    for policy in ("up", "starving down late", "down late"):
        calls = [([(name, *launches[0][1:])], arrays, -1) for name, what, _ in made if what in missed]
        tried = [what for _, what, _ in made if what in missed]
        for what, found in zip(tried, run_library(library, calls, policy) if calls else ()):
            if isinstance(found, str) or not np.array_equal(found["done"], right):
                missed.discard(what)
    assert missed == set()


# ---------------------------------------------------------------- what nvcc makes of it

# instructions of a turn of those that multiply, at most; with copies by all threads there are 121 and 105
TURNS = {"128x256x64": 80, "128x128x64": 85}


@pytest.mark.parametrize("tile", TURNS)
def test_what_nvcc_makes_of_it(tile, tmp_path):
    """Products that nothing serializes, no register spilled, two copies of tiles, and a shorter turn than where all
    threads copy."""
    said = compiles(built(512, 512, 1024, f"{tile} by TMA"), "-arch=sm_90a", cubin=tmp_path / "k.cubin")
    assert "C75" not in said and " 0 bytes spill stores" in said
    if sass.find_nvdisasm() is None:
        pytest.skip("no nvdisasm")
    counts = sum(sass.instructions(tmp_path / "k.cubin").values(), start=sass.Counter())
    assert sass.count(counts, "UTMALDG.2D") == 2 and sass.count(counts, "LDGSTS") == 0
    assert sass.count(counts, "SYNCS.ARRIVE") == 2 and sass.count(counts, "SYNCS.PHASECHK") >= 2
    turn, = sass.loops(tmp_path / "k.cubin", "HGMMA")
    assert sass.count(turn, f"HGMMA.64x{tile.split('x')[1]}x16.F32") == 4 and sum(turn.values()) <= TURNS[tile]
    assert not any(sass.count(turn, name) for name in ("BAR", "MEMBAR", "FENCE"))


def test_what_nvcc_makes_of_a_warpgroup_that_gathers(tmp_path):
    mod, *_ = with_residual(512, 512)
    said = compiles(mod, "-arch=sm_90a", cubin=tmp_path / "k.cubin")
    assert "C75" not in said and " 0 bytes spill stores" in said
    if sass.find_nvdisasm() is None:
        pytest.skip("no nvdisasm")
    counts = sum(sass.instructions(tmp_path / "k.cubin").values(), start=sass.Counter())
    assert [sass.count(counts, name) for name in ("UTMALDG.2D", "LDGSTS", "ARRIVES.LDGSTSBAR")] == [1, 4, 1]
    turn, = sass.loops(tmp_path / "k.cubin", "HGMMA")
    assert not any(sass.count(turn, name) for name in ("BAR", "LDGSTS"))


# ---------------------------------------------------------------- where it is not possible

def forms(func):
    match = RULES["warpgroup_product"](Schedule(func), GPU)
    plans = [*match.kernel.candidates(GPU)]
    return match.kernel, {(p.algorithm, p.parts) for p in plans if "TMA" in p.algorithm}


def test_what_tensor_maps_cannot_say_is_copied_by_all_threads():
    kernel, found = forms(product(512, 512, 1024, trans=LAYOUTS))
    assert ("128x256x64 by TMA", 1) in found and "TMA" in choose(kernel, GPU).algorithm
    assert not forms(product(512, 512, 1028, trans=LAYOUTS))[1]  # rows on multiples of 8 bytes
    _, found = forms(product(64, 64, 1056, trans=LAYOUTS))       # parts that end within a tile
    assert found and {parts for _, parts in found} == {1}
    _, found = forms(product(192, 128, 64, trans=LAYOUTS, batch=(3,)))  # tiles that end in the next matrix of a batch
    assert {name.split("x")[0] for name, _ in found} == {"64"}
    a = te.placeholder((128, 64), "float16", "a")
    r = te.reduce_axis((0, 64), "r")
    gram = te.compute((128, 128), lambda i, j: te.sum(a[i, r].astype("float32") * a[j, r].astype("float32"), axis=r))
    assert not forms(te.create_prim_func([a, gram]))[1]  # a kernel gets one map for a matrix
    kernel, _ = forms(product(512, 512, 1028, trans=LAYOUTS))
    assert choose(kernel, GPU).algorithm in {t.name for t in kernel.tiles if not t.beside}
    plan = choose(replace(kernel, mapped=(True, True), depth=1024), GPU)
    assert plan.algorithm in {t.name for t in kernel.tiles if t.beside}


RING = """
@T.prim_func
def ring(x: T.Buffer((64, 128), "float16"), y: T.Buffer((4, 2), "float32")):
    for w in T.thread_binding(4, thread="threadIdx.y"):
        for b in range(BATCH):
            for k in T.serial(2, annotations={"software_pipeline_ring": 3}):
                with T.block("turn"):
                    a = T.alloc_buffer((64, 64), "float16", scope="shared")
                    for i, j in T.grid(64, 64):
                        with T.block("copy"):
                            T.reads(x[0:64, 0:128])
                            T.writes(a[i, j])
                            T.block_attr({"buffer_swizzle": 0})
                            a[i, j] = VALUE
                    with T.block("work"):
                        T.reads(a[0:64, 0:64], x[0:64, 0:128])
                        T.writes(y[0:4, 0:2])
                        y[w, k] = T.Cast("float32", a[w * 3, k + 9])MORE
"""
TILE = "x[i, k * 64 + j]"


def ring(value=TILE, batch=1, more="", swizzle=True):
    text = RING.replace("VALUE", value).replace("BATCH", str(batch)).replace("MORE", more)
    return from_source(text if swizzle else text.replace('"buffer_swizzle": 0', ""))


@pytest.mark.parametrize("asked, message", [
    ({"swizzle": False}, "copy is no copy by a tensor map: its rows are not swizzled"),
    ({"value": "x[j, k * 64 + i]"}, "copy is no copy by a tensor map: neighbours in a tile are none in x"),
    ({"value": f"{TILE} + T.float16(1)"}, "copy .*: what it stores is not an element of global memory"),
    ({"value": f"T.if_then_else(i < 3, {TILE}, T.float16(0))"}, "copy .*: it copies only where i < 3, which is no end"),
    ({"batch": 2}, "it stands in the loop b, and its phases are counted")])
def test_the_pass_says_why_a_loop_has_no_ring(asked, message):
    with pytest.raises(WarpRoleError, match=f"ring of loop k: {message}"):
        TIR["SpecializeWarps"]()(tvm.IRModule({"main": ring(**asked)}))


def test_a_ring_becomes_two_roles():
    """What the pass makes of a loop, alone: barriers, a producer in an attribute, a consumer where the loop was."""
    done = str(TIR["SpecializeWarps"]()(tvm.IRModule({"main": ring()}))["main"])
    order = ['ingot_mbarrier_init"', "ingot_mbarrier_init_fence", 'tvm_storage_sync("shared")', "warps_beside",
             "empty[k % 3]", 'expect_tx", T.address_of(full[k]), 8192', "ingot_tma_load_2d", "full[k]), k // 3 % 2",
             "a[k, w * 3, k + 9]", 'tvm_storage_sync("warp")', 'ingot_mbarrier_arrive"']
    places = [done.index(part) for part in order]
    assert places == sorted(places), done
    assert "software_pipeline_ring" not in done


@needs_emulator
def test_threads_may_read_a_ring_as_they_read_other_memory():
    x = ints((64, 128), np.float16)
    for policy in LATE:
        *_, found = emulated(tvm.build(ring(), GPU.name), x, np.zeros((4, 2), np.float32), policy=policy)
        np.testing.assert_array_equal(found, [[x[w * 3, k * 65 + 9] for k in range(2)] for w in range(4)])


def test_a_matrix_that_a_kernel_reads_in_other_ways_too_is_refused():
    with pytest.raises(EmitError, match="copies x by a tensor map, which it gets in place of it, and reads it in"):
        tvm.build(ring(more=' + T.Cast("float32", x[w, k])'), GPU.name)
