"""Products of float16 and bfloat16 on tensor cores: every shape and layout is exact under the emulator, and nvcc makes
of them what the rule means."""
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import sass
from emulated import run_folder
from folders import check_kernels, folder_of
from gpu_modules import compiles, emulated, ints, needs_emulator
from onnx import TensorProto, helper, numpy_helper

import ingot as tvm
from ingot import te
from ingot.codegen.nvcc import find_nvcc
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.plan import choose
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.schedule.rules.gpu.tensor_core_product import TensorCoreProduct, by_name
from ingot.ir.schedule.rules.gpu.warpgroup_product import WarpgroupProduct
from ingot.ir.target import Target

GPU = Target.get("cuda-sm_80")
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def product(m, n, k, dtype="float16", trans=(False, False), batch=(), out=None, sizes=()):
    """max(a b, 0) + c of operands in one layout or the other, float32 sums. sizes: variables that a run gives."""
    a = te.placeholder((*batch, *((k, m) if trans[0] else (m, k))), dtype, "a")
    b = te.placeholder((*batch, *((n, k) if trans[1] else (k, n))), dtype, "b")
    c, r = te.placeholder((n,), dtype, "c"), te.reduce_axis((0, k), "r")

    def term(*at):
        *z, i, j = at
        x, y = a[(*z, *((r, i) if trans[0] else (i, r)))], b[(*z, *((j, r) if trans[1] else (r, j)))]
        return te.sum(x.astype("float32") * y.astype("float32"), axis=r)

    sums = te.compute((*batch, m, n), term, "sums")
    done = te.compute((*batch, m, n), lambda *at: (
        te.max(sums[at], te.const(0, "float32")) + c[at[-1]].astype("float32")).astype(out or dtype), "done")
    return te.create_prim_func([a, b, c, done, *sizes])


def expected(a, b, c, trans, dtype):
    a, b, c = (x.astype(np.float32) for x in (a, b, c))
    a, b = (np.swapaxes(x, -1, -2) if t else x for x, t in zip((a, b), trans))
    return (np.maximum(a @ b, 0) + c).astype(dtype)


def scheduled(func, tile, parts=1, rule="tensor_core_product", target=GPU):
    sch = Schedule(func)
    match = RULES[rule](sch, target)
    plan = next(p for p in match.kernel.candidates(target) if p.algorithm == tile)
    match.apply(plan.replace(parts=parts), target)
    return sch


def run(func, tile, trans, policy="up", parts=1):
    """Whole numbers of a few bits: every sum is exact in float32, and in the result's dtype."""
    built = tvm.build(scheduled(func, tile, parts).mod, "cuda")
    *inputs, out = func.buffers
    shapes = [tuple(int(e) for e in x.shape) for x in (*inputs, out)]
    arrays = [ints(s, NUMPY[str(x.dtype)], n, 1) for n, (s, x) in enumerate(zip(shapes, inputs))]
    dtype = NUMPY.get(str(out.dtype), np.float32)
    *_, found = emulated(built, *arrays, np.full(shapes[-1], 7, dtype), policy=policy)
    np.testing.assert_array_equal(found.astype(np.float32), expected(*arrays, trans, dtype).astype(np.float32))


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late", "shuffled"])
@pytest.mark.parametrize("trans", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_operands_in_every_layout(policy, trans):
    run(product(64, 96, 256, trans=trans), "32x32x64", trans, policy)


@needs_emulator
@pytest.mark.parametrize("m, n, k", [(37, 45, 70), (5, 8, 1), (33, 5, 17), (64, 64, 8), (1000, 9, 24)])
@pytest.mark.parametrize("policy", ["up late", "down"])
def test_shapes_that_no_tile_divides(m, n, k, policy):
    if k == 1:
        assert RULES["tensor_core_product"](Schedule(product(m, n, k)), GPU) is None
        return
    run(product(m, n, k), "32x32x64", (False, False), policy)


@needs_emulator
@pytest.mark.parametrize("tile, m, n, k", [("128x256x32", 130, 264, 96), ("64x64x64", 70, 72, 200),
                                           ("16x64x64", 16, 130, 136), ("128x64x32", 136, 64, 40)])
def test_tiles_of_every_kind(tile, m, n, k):
    run(product(m, n, k, "bfloat16"), tile, (False, False), "shuffled")


@needs_emulator
@pytest.mark.parametrize("policy", ["up", "down late"])
def test_batches_and_sums_in_parts(policy):
    run(product(33, 40, 64, batch=(2, 3)), "32x32x64", (False, False), policy)
    run(product(40, 36, 768), "32x32x64", (False, False), policy, parts=4)


@needs_emulator
@pytest.mark.parametrize("rule, target, trans", [
    ("tensor_core_product", "cuda-sm_80", (False, False)), ("warpgroup_product", "cuda-sm_90a", (False, True))])
def test_sizes_that_a_run_decides(rule, target, trans):
    """There may be fewer turns than stages, and rows and terms that fill no tile."""
    m, k = te.var("m"), te.var("k")
    func = product(m, 40, k, trans=trans, sizes=(m, k))
    built = tvm.build(scheduled(func, "64x32x64", 1, rule, Target.get(target)).mod, target)
    for rows, terms in ((33, 8), (40, 1), (65, 200)):
        shapes = (rows, terms), (40, terms) if trans[1] else (terms, 40), (40,)
        arrays = [ints(s, np.float16, n, 1) for n, s in enumerate(shapes)]
        *_, found = emulated(built, *arrays, np.full((rows, 40), 7, np.float16), rows, terms, policy="down late")
        np.testing.assert_array_equal(found, expected(*arrays, trans, np.float16))


def test_what_tensor_cores_do_not_take_is_left_to_other_rules():
    def fits(func):
        return RULES["tensor_core_product"](Schedule(func), GPU) is not None

    assert fits(product(64, 64, 64)) and not fits(product(64, 64, 1)) and not fits(product(4, 64, 64))
    a, b = te.placeholder((64, 64), "float32", "a"), te.placeholder((64, 64), "float32", "b")
    r = te.reduce_axis((0, 64), "r")
    assert not fits(te.create_prim_func([a, b, te.compute((64, 64), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r))]))
    sch = Schedule(product(64, 64, 64))
    assert RULES["tensor_core_product"](sch, Target.get("opencl")) is None


@pytest.mark.parametrize("kernel, target", [(TensorCoreProduct, "cuda-sm_80"), (WarpgroupProduct, "cuda-sm_90a")])
def test_tiles_follow_the_shape(kernel, target):
    """Large products take the largest tile; small ones as many blocks as there are SMs, of deep sums in parts. A device
    with less memory takes a smaller one."""
    target = Target.get(target)
    large = choose(kernel(4096, 4096, 4096), target)
    assert large.algorithm.startswith("128x256x") and large.parts == 1
    deep = choose(kernel(64, 512, 4608), target)
    tile = by_name(kernel.tiles, deep.algorithm)
    assert deep.parts > 1 and -(-64 // tile.rows) * -(-512 // tile.columns) * deep.parts >= target.launch.sms // 4
    small = target.derive("small", launch=replace(target.launch, shared_dyn_bytes=64 << 10))
    assert by_name(kernel.tiles, choose(kernel(4096, 4096, 4096), small).algorithm).shared_bytes <= 64 << 10


@pytest.mark.parametrize("m, n, k, copy", [(128, 256, 512, 16), (130, 264, 70, 4), (127, 33, 71, None)])
def test_copies_are_as_wide_as_rows_allow(m, n, k, copy):
    """Rows of 70 elements begin at multiples of 4 bytes, of 71 at any even one."""
    source = tvm.build(scheduled(product(m, n, k), "64x64x64").mod, "cuda").imported_modules[0].get_source()
    assert re.findall(r"ingot_cp_async(\d+)\(&a", source)[:1] == ([str(copy)] if copy else [])
    for name in ("ingot_fragment_fetch_a(", "ingot_fragment_fetch_b(", "ingot_fragment_mma_f16_f32("):
        assert name in source


def test_what_nvcc_makes_of_it():
    """No register is spilled; in the loop a warp loads 16 times 4 matrices of 8 x 8 for 64 products, and waits once."""
    built = tvm.build(scheduled(product(512, 512, 512), "128x256x32").mod, "cuda")
    assert "Used" in compiles(built)
    source = built.imported_modules[0].get_source()
    loop = source[source.index("ko_0 < 16"):]
    loop = loop[:loop.index("\n    }\n")]
    assert loop.count("__syncthreads();") == 1 and "__syncwarp" not in loop
    counts = sum(instructions(built).values(), start=sass.Counter())
    assert sass.count(counts, "HMMA.16816.F32") == 64 and sass.count(counts, "LDSM") == 16
    assert sass.count(counts, "LDGSTS.E.BYPASS.128") == 18 and sass.count(counts, "BAR") == 2
    assert "LDL" not in counts and "STL" not in counts


def instructions(mod):
    """{kernel: Counter of instructions} of a module's cubin for sm_80; skips where no tool makes or reads it."""
    nvcc = find_nvcc()
    if nvcc is None or sass.find_nvdisasm() is None:
        pytest.skip("no nvcc, or no nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in mod._module.files().items():
            Path(folder, name).write_text(text)
        subprocess.run([nvcc.path, "-arch=sm_80", "-cubin", "-o", "module.cubin", "module.cu"], cwd=folder, check=True)
        return sass.instructions(Path(folder, "module.cubin"))


# ---------------------------------------------------------------- convolutions

WINDOWS = {  # outputs, kernel, attributes, of an image of 20 channels, 13 x 11
    "same": (28, 3, {"pads": [1] * 4}), "valid": (8, 5, {}), "strided": (24, 3, {"strides": [2, 2], "pads": [1] * 4}),
    "dilated": (16, 3, {"dilations": [2, 2], "pads": [2] * 4}), "points": (40, 1, {}),
    "groups": (32, 3, {"group": 4, "pads": [1] * 4}), "uneven": (9, 3, {"pads": [0, 2, 1, 0], "strides": [1, 2]})}


def convolutions(batch=2):
    """A network of convolutions of one image, each with what follows it, after one of few channels."""
    rng = np.random.default_rng(0)
    nodes, infos, weights = [], [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array((rng.uniform(-1, 1, shape) / np.prod(shape[1:])).astype(np.float32),
                                               name))
        return name

    nodes.append(helper.make_node("Conv", ["x", weight("w", 20, 3, 3, 3), weight("b", 20)], ["image"], name="first",
                                  pads=[1] * 4))
    for name, (outputs, size, attrs) in WINDOWS.items():
        given = [weight(f"w_{name}", outputs, 20 // attrs.get("group", 1), size, size), weight(f"b_{name}", outputs)]
        nodes.append(helper.make_node("Conv", ["image", *given], [f"c_{name}"], name=name, **attrs))
        nodes.append(helper.make_node("Relu", [f"c_{name}"], [name]))
        infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 13, 11])
    graph = helper.make_graph(nodes, "net", [x], infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_emulator
@pytest.mark.parametrize("dtype, policy", [("float16", "shuffled"), ("bfloat16", "down late")])
def test_convolutions_are_near_the_reference(dtype, policy, tmp_path):
    """The self-test compares with float32 results by the bound of the dtype."""
    folder_of(convolutions(), tmp_path / "net", dtype=dtype)
    done = run_folder(tmp_path / "net", policy)
    assert done.returncode == 0 and done.stdout.count(": ok") == len(WINDOWS), done.stdout + done.stderr


def test_kernels_of_convolutions(tmp_path):
    """Images of blocked channels come by copies of 16 bytes, whatever the window; the kernels of the whole network
    compile without a warning or a spill."""
    made = folder_of(convolutions(), tmp_path, dtype="float16")
    text = "".join(f.read_text() for f in tmp_path.glob("*.cu"))
    assert "float16[2, 3, 13, 11, 8]" in text
    kernels = dict(re.findall(r'__launch_bounds__\(\d+\) (\w+)\((.*?)\n}\n', text, re.DOTALL))
    fast = {name for name, body in kernels.items() if "ingot_fragment_mma" in body and "cp_async16" in body}
    assert {f"net__{name}" for name in ("same", "valid", "strided", "dilated", "points", "uneven")} <= fast
    check_kernels(tmp_path, made.kernels, ("sm_80",))
