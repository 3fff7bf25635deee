"""Attention of float16 and bfloat16 on tensor cores: one kernel whose scores stay in registers, near the reference for
every shape under the emulator, and what nvcc makes of it."""
import re

import ml_dtypes
import numpy as np
import pytest
import report
import sass
from emulated import run_folder
from folders import folder_of
from gpu_modules import compiles, emulated, needs_emulator
from networks import attention_net, transformer
from test_gpu_tensor_cores import instructions

import ingot as tvm
from ingot.ir.relax.ops.attention_cores import lower_on_cores
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu import RULES
from ingot.ir.target import Target
from ingot.ir.tir.buffer import decl_buffer
from ingot.ir.transform.gpu.fragments import FragmentError, infer_fragment
from ingot.script import tir as T

GPU = Target.get("cuda-sm_80")
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NEAR = {"float16": 2e-3, "bfloat16": 2e-2}  # of results, which are means of numbers up to 4


def attention(batch, heads, queries, keys, size, dtype="float16", groups=0, mask=None, by_head=True, rows=64,
              offsets=(0, 0, 0), scale=0.25):
    """The scheduled module of an attention, and the shapes of its operands and result."""
    def shape(length, count):
        return (batch, count, length, size) if by_head else (batch, length, count * size + max(offsets))

    shapes = [shape(queries, heads), *[shape(keys, groups or heads)] * 2, *([mask] if mask else [])]
    out = (batch, heads, queries, size) if by_head else (batch, queries, heads * size)
    operands = [decl_buffer(s, dtype if n < 3 else "float32", f"x{n}") for n, s in enumerate(shapes)]
    attrs = {"heads": heads, "head_size": size, "lanes": 16, "rows": rows, "kv_heads": groups, "offsets": offsets,
             "scale": scale, "by_head": by_head}
    sch = Schedule(lower_on_cores(operands, attrs, decl_buffer(out, dtype, "out")))
    RULES["attention_cores"](sch, GPU).apply(None, GPU)
    return tvm.build(sch.mod, "cuda"), shapes, out


def expected(arrays, heads, groups, offsets, scale, by_head):
    q, k, v, *mask = (a.astype(np.float32) for a in arrays)

    def split(x, offset, count):
        if by_head:
            return x
        x = x[:, :, offset:]
        return x[:, :, :count * (x.shape[2] // count)].reshape(*x.shape[:2], count, -1).swapaxes(1, 2)

    groups = groups or heads
    if not by_head:
        width = (q.shape[2] - max(offsets)) // heads
        q, k, v = (x[:, :, o:o + n * width] for x, o, n in zip((q, k, v), offsets, (heads, groups, groups)))
    q, k, v = (np.repeat(split(x, 0, n), heads // n, 1) for x, n in zip((q, k, v), (heads, groups, groups)))
    scores = q @ k.swapaxes(2, 3) * np.float32(scale) + (np.maximum(mask[0], np.float32(-1e30)) if mask else 0)
    weights = np.exp(scores - scores.max(3, keepdims=True))
    out = weights / weights.sum(3, keepdims=True) @ v
    return out if by_head else out.swapaxes(1, 2).reshape(len(out), out.shape[2], -1)


def drawn(shapes, dtype):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s).astype(np.float32 if n == 3 else NUMPY[dtype]) for n, s in enumerate(shapes)]


def run(policy, *sizes, arrays=None, **options):
    mod, shapes, out = attention(*sizes, **options)
    dtype = options.get("dtype", "float16")
    arrays = arrays or drawn(shapes, dtype)
    *_, found = emulated(mod, *arrays, np.full(out, 7, NUMPY[dtype]), policy=policy)
    wanted = expected(arrays, sizes[1], options.get("groups", 0), options.get("offsets", (0, 0, 0)),
                      options.get("scale", 0.25), options.get("by_head", True))
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=0, atol=NEAR[dtype])


CASES = {  # batch, heads, queries, keys, head size, and how
    "one tile": ((1, 1, 16, 64, 16), {"rows": 16}),
    "no tile is full, a factor below zero": ((2, 3, 19, 45, 48), {"rows": 32, "scale": -0.5}),
    "several blocks of keys": ((1, 2, 70, 150, 64), {}),
    "wide heads of bfloat16": ((1, 1, 20, 70, 128), {"rows": 32, "dtype": "bfloat16"}),
    "a mask": ((2, 2, 21, 40, 16), {"mask": (2, 1, 21, 40)}),
    "heads share keys, a mask of keys": ((1, 6, 7, 67, 32), {"groups": 2, "rows": 32, "mask": (1, 1, 1, 67)}),
    "parts of projections": ((2, 2, 21, 21, 16), {"by_head": False, "offsets": (0, 32, 64)}),
    "one query": ((1, 2, 1, 100, 64), {"rows": 16}),
}


POLICIES = ("up", "down late", "shuffled")


@needs_emulator
@pytest.mark.parametrize("name, policy", [(name, POLICIES[n % 3]) for n, name in enumerate(CASES)])
def test_results_are_near(name, policy):
    """Without races, and without an access outside."""
    sizes, options = CASES[name]
    run(policy, *sizes, **options)


@needs_emulator
def test_rows_whose_keys_are_hidden():
    """All weigh the same where all are hidden, by -inf too; the others are as if hidden keys were not there."""
    mask = np.zeros((1, 1, 20, 70), np.float32)
    mask[..., :3, :] = -np.inf
    mask[..., 3:6, :] = -1e38
    mask[..., 6:, 5:66] = -np.inf
    shapes = [(1, 1, 20, 16), *[(1, 1, 70, 16)] * 2]
    run("up", 1, 1, 20, 70, 16, rows=32, mask=mask.shape, arrays=[*drawn(shapes, "float16"), mask])


@needs_emulator
def test_scores_beyond_the_range_of_float16():
    """Products of 200 by 200 are sums of 640000, which float16 does not hold."""
    shapes = [(1, 1, 16, 16)] * 3
    arrays = [np.full(s, 200, np.float16) if n < 2 else x for n, (s, x) in enumerate(zip(shapes, drawn(
        shapes, "float16")))]
    run("up", 1, 1, 16, 16, 16, rows=16, arrays=arrays)


def test_what_nvcc_makes_of_it():
    """Nothing is spilled. In a block of 64 keys a warp multiplies 2 x 32 times, and loads each tile of keys and values
    once; threads wait for each other once in it."""
    mod, *_ = attention(1, 2, 128, 128, 64)
    assert "Used" in compiles(mod) and "Used" in compiles(mod, "-arch=sm_90a")
    source = mod.imported_modules[0].get_source()
    loop = source[source.index("block_1 < 2"):source.index("cores_whole_local[i] =")]
    assert loop.count("__syncthreads();") == 1 and "__syncwarp" not in loop
    counts = sum(instructions(mod).values(), start=sass.Counter())
    assert sass.count(counts, "HMMA.16816.F32") == 64 and sass.count(counts, "LDSM") == 4 + 2 * 16
    assert sass.count(counts, "LDGSTS.E.BYPASS.128") == 2 * 8 and sass.count(counts, "STG.E.128") == 4
    assert "LDL" not in counts and "STL" not in counts


@pytest.mark.parametrize("dtype, size", [("float16", 80), ("bfloat16", 128)])
def test_heads_of_any_size_fit_the_registers(dtype, size):
    mod, *_ = attention(1, 2, 70, 70, size, dtype, mask=(1, 1, 70, 70))
    for arch in ("sm_80", "sm_90a"):
        assert int(re.search(r"Used (\d+) registers", compiles(mod, f"-arch={arch}"))[1]) <= 200


# ---------------------------------------------------------------- networks

@needs_emulator
@pytest.mark.parametrize("network", [transformer, lambda: attention_net(length=70, mask=True), attention_net],
                         ids=["transformer", "with a mask", "of any length"])
def test_networks_have_one_kernel_of_attention(network, tmp_path):
    """It is right by the bound of the self-test, and there are no scores in memory."""
    made = folder_of(network(), tmp_path, dtype="float16")
    text = "".join(f.read_text() for f in tmp_path.glob("*.cu"))
    cores = [name for name, body in re.findall(r'__launch_bounds__\(\d+\) (\w+)\((.*?)\n}\n', text, re.DOTALL)
             if "cores_scores" in body]
    assert len(cores) == 1 and not [name for name in made.kernels if name.startswith(f"{cores[0]}_")]
    assert "exp2f(" in text and "expf(" not in text.replace("exp2f", "")  # no softmax elsewhere
    done = run_folder(tmp_path, "shuffled")
    assert done.returncode == 0 and ": ok" in done.stdout, done.stdout + done.stderr


@needs_emulator
def test_memory_is_moved_without_conflicts(tmp_path):
    """But for sums that leave as elements of 16 bits: what a lane takes of these are two vectors, apart from others."""
    folder_of(attention_net(length=64, width=128), tmp_path, dtype="float16")
    lines, done = report.traffic(tmp_path, "sm_80")
    assert done.returncode == 0, done.stderr
    found = [line for line in lines if line["kernel"] == "net__shares" and line.get("space") == "shared"]
    assert len(found) > 4 and {line["site"] for line in found if line["cost"] > line["ideal"]} <= {"ingot_cuda.h:76"}
    assert max(line["worst"] for line in found) <= 2


# ---------------------------------------------------------------- what is refused

def test_other_targets_have_no_such_rule():
    operands = [decl_buffer((1, 1, 16, 16), "float16", n) for n in "qkv"]
    attrs = {"heads": 1, "head_size": 16, "lanes": 16, "rows": 16, "kv_heads": 0, "offsets": (0, 0, 0), "scale": 1.0,
             "by_head": True}
    func = lower_on_cores(operands, attrs, decl_buffer((1, 1, 16, 16), "float16", "out"))
    assert RULES["attention_cores"](Schedule(func), Target.get("opencl")) is None


def test_elements_of_other_lanes_are_refused():
    @T.prim_func
    def func(y: T.Buffer((16,), "float32")):
        for x in T.thread_binding(32, thread="threadIdx.x"):
            c = T.decl_buffer((256,), "float32", scope="wmma.accumulator")
            y[x % 16] = c[x]

    with pytest.raises(FragmentError, match="element of c, scope wmma.accumulator.*the lane that holds it"):
        infer_fragment(func)
