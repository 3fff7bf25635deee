"""The stack of a run: what NAME_STACK_BYTES says is enough, and temporaries of threads lie in the arena."""
import re
import shutil
import subprocess
from functools import lru_cache

import numpy as np
import pytest

import ingot
from ingot.codegen.c_names import PROGRAMS
from ingot.codegen.compile import Options, compile_module
from objects import parsed
from ingot.codegen.stack import StackError, default_limit
from ingot.codegen.toolchains import toolchain
from ingot.ir.dtype import DataType
from ingot.ir.expr import Broadcast, Ramp, Var, const
from ingot.ir.node import collect
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, TupleGetItem, call_op
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.tir.buffer import decl_buffer
from ingot.ir.tir.function import prim_func
from ingot.ir.tir.stmt import BufferLoad, BufferStore, DeclBuffer, For, seq
from ingot.ir.transform.scratch import deepest, lift_scratch

LEVELS = ("-O1", "-O2", "-O3", "-Os")


def _of(cc, *more):
    """Parameters of a compiler."""
    return pytest.param(cc, *more, marks=pytest.mark.skipif(not shutil.which(cc), reason=f"no {cc}"))


KINDS = ("winograd", "depthwise", "separable", "product", "attention", "recurrent")


def network(kind):
    """A small network whose kernels need memory of a thread's own, each kind in another way."""
    bb = BlockBuilder()
    x = RelaxVar("x", TensorStructInfo(SHAPES[kind], "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(globals()[f"_{kind}"](bb, x))
    return bb.get()


SHAPES = {"winograd": (1, 64, 28, 28), "depthwise": (1, 64, 28, 28), "separable": (1, 32, 16, 16), "product": (37, 256),
          "attention": (4, 50, 32), "recurrent": (12, 1, 40)}


def weight(*shape):
    return Constant((np.random.default_rng(0).standard_normal(shape) / 8).astype(np.float32), "w")


def _convolutions(bb, x, groups):
    w = weight(64, 64 // groups, 3, 3)
    for _ in range(3):
        x = bb.emit(call_op("nn.conv2d", x, w, padding=(1, 1, 1, 1), groups=groups))
        x = bb.emit(call_op("nn.relu", x))
    return x


def _winograd(bb, x):
    return _convolutions(bb, x, 1)


def _depthwise(bb, x):
    return _convolutions(bb, x, 64)


def _separable(bb, x):
    """A 1x1 convolution whose rows go through one in groups: one kernel, with rows of vectors in between."""
    for _ in range(2):
        wide = bb.emit(call_op("nn.silu", bb.emit(call_op("nn.conv2d", x, weight(192, 32, 1, 1)))))
        wide = bb.emit(call_op("nn.conv2d", wide, weight(192, 1, 5, 5), padding=(2, 2, 2, 2), groups=192))
        x = bb.emit(call_op("nn.conv2d", bb.emit(call_op("nn.silu", wide)), weight(32, 192, 1, 1)))
    return x


def _product(bb, x):
    for _ in range(3):
        x = bb.emit(call_op("nn.relu", bb.emit(call_op("matmul", x, weight(256, 256)))))
    return x


def _attention(bb, x):
    keys, queries, values = (bb.emit(call_op("matmul", x, weight(32, 32))) for _ in range(3))
    scores = bb.emit(call_op("matmul", queries, bb.emit(call_op("permute_dims", keys, axes=(0, 2, 1)))))
    return bb.emit(call_op("matmul", bb.emit(call_op("nn.softmax", scores, axis=-1)), values))


def _recurrent(bb, x):
    size, state = 48, Constant(np.zeros((1, 1, 48), np.float32), "s")
    layer = call_op("nn.lstm", x, weight(1, 4 * size, 40), weight(1, 4 * size, size), weight(1, 8 * size), state, state,
                    hidden_size=size)
    return bb.emit(TupleGetItem(bb.emit(layer), 0))


@lru_cache
def compiled(kind, target="host", **options):
    return compile_module(network(kind), Options.check(target=target, weights="array", name="stacked", **options))


# Runs on a stack of its own of exactly so many bytes, with a page below that may not be touched.
EXACT = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "stacked.h"

INGOT_ALIGNED(STACKED_ARENA_ALIGN) static unsigned char arena[STACKED_ARENA_BYTES];
static float x[STACKED_X_SIZE], y[1 << 20];
static stacked *network;
static ingot_status status = INGOT_ERR_STATE;
static ucontext_t own, other;

static void body(void) { status = stacked_run(network, x, y); }

int main(void)
{
    const size_t page = 65536, pages = (STACKED_STACK_BYTES + page - 1) / page * page;
    unsigned char *below = mmap(NULL, page + pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (below == MAP_FAILED || mprotect(below, page, PROT_NONE) != 0) return 2;
    for (size_t i = 0; i < STACKED_X_SIZE; ++i) x[i] = (float)(i % 17) / 17.0f;
    if (stacked_init(&network, arena, sizeof arena) != INGOT_OK) return 3;
    getcontext(&own);
    own.uc_stack.ss_sp = below + page; /* what is over stays above */
    own.uc_stack.ss_size = STACKED_STACK_BYTES;
    own.uc_link = &other;
    makecontext(&own, body, 0);
    swapcontext(&other, &own);
    return status == INGOT_OK ? 0 : 4;
}
"""


RUNS = [("gcc", "-O2", "none"), ("clang", "-O2", "openmp"), ("gcc", "-O1", "openmp"), ("clang", "-O1", "none")]


@pytest.mark.parametrize("cc, level, threads, kind", [
    _of(*RUNS[(2 * n + m) % 4], kind) for n, kind in enumerate(KINDS) for m in range(2)])
def test_a_run_needs_no_more_stack_than_it_says(tmp_path, cc, level, kind, threads):
    model = compiled(kind, threads=threads)
    if cc == "clang" and threads == "openmp" and not _has_openmp(tmp_path):
        pytest.skip("clang has no OpenMP here")
    model.write(tmp_path / "net")
    (tmp_path / "net" / "exact.c").write_text(EXACT)
    _compile(tmp_path / "net", cc, [level, *(["-fopenmp"] if threads == "openmp" else [])], model,
             "-o", "exact", *_sources(tmp_path / "net"), "exact.c", "-lm")
    done = subprocess.run([str(tmp_path / "net" / "exact")], env={"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0


@pytest.mark.parametrize("cc, level, target, kind", [  # each compiler at each level with one kind, gcc -O3 with all
    _of(cc, level, ("host", "c")[(m + k) % 2], kind)
    for n, cc in enumerate(("gcc", "clang")) for m, level in enumerate(LEVELS)
    for k, kind in enumerate(("winograd", "depthwise", "separable")) if (n + m) % 3 == k or (n, m) == (0, 2)])
def test_the_largest_chain_of_frames_is_within_the_bound(tmp_path, cc, level, kind, target):
    model = compiled(kind, target=target, threads="none")
    model.write(tmp_path / "net")
    frames = {}
    for source in _sources(tmp_path / "net"):
        _compile(tmp_path / "net", cc, [level], model, "-fstack-usage", "-c", source)
        path = (tmp_path / "net" / source).with_suffix(".su")
        usage = path.read_text() if path.exists() else ""  # clang writes none for a file without functions
        frames.update((place.rsplit(":", 1)[-1], int(size))
                      for place, size, _ in (line.split("\t") for line in usage.splitlines()))
    kernels = max(frames[name] for name in model.kernels)
    helpers = max((size for name, size in frames.items() if name.startswith("ingot_")), default=0)
    assert frames["stacked_run"] + kernels + helpers <= model.stack
    assert model.stack <= default_limit(model.target, "none")


def _sources(folder):
    return sorted(p.name for p in folder.glob("*.c") if p.name != "exact.c" and not PROGRAMS.fullmatch(p.stem))


def _compile(folder, cc, flags, model, *arguments):
    own = [f for f in toolchain(model.target).cflags if not f.startswith("-O")]
    own += list(toolchain(model.target).gcc_cflags) if cc == "gcc" else []
    command, sources = [cc, "-std=gnu99", *own, *flags], [a for a in arguments if a.endswith(".c")]
    vectors = [text for source in sources if (text := parsed(command, folder / source))]
    done = subprocess.run([*command, *(vectors[-1] if len(sources) == 1 and vectors else ()), *arguments], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _has_openmp(folder):
    (folder / "probe.c").write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
    done = subprocess.run(["clang", "-fopenmp", "probe.c", "-o", "probe"], cwd=folder, capture_output=True)
    return done.returncode == 0


@pytest.mark.parametrize("threads", ("none", "openmp"))
def test_memory_of_threads_is_part_of_the_arena(threads):
    model = compiled("winograd", target="x86-64-v4", threads=threads)  # others need no memory of a thread's own
    header = model.files()["stacked.h"]
    number = {name: int(value) for name, value in re.findall(r"#define STACKED_(\w+)_BYTES (\d+)u", header)}
    assert number["STACK"] == model.stack and number["THREAD"] == model.program.scratch > 0
    assert number["ARENA"] >= model.program.plan.total.value + model.arena_threads * number["THREAD"]
    assert number["THREAD"] % 64 == 0 and all(
        o.index % 64 == 0 for c in model.program.calls for o in c.operands if o.kind == "scratch")
    assert model.arena_threads == 1 if threads == "none" else model.arena_threads > 1


def test_a_limit_moves_arrays_or_is_refused():
    with pytest.raises(StackError, match=r"takes up to \d+ bytes of stack.*stack_limit=100"):
        compiled("winograd", threads="none", stack_limit=100)
    with pytest.raises(ValueError, match="stack_limit must be a number of bytes"):
        Options.check(stack_limit=0)
    free, tight = (compiled("winograd", threads="none", target="c", stack_limit=n) for n in (1 << 20, 1536))
    assert tight.stack <= 1536 < free.stack and tight.program.scratch > free.program.scratch == 0


def test_few_bytes_of_stack_change_no_result():
    x = np.random.default_rng(1).random((1, 64, 28, 28), np.float32)
    with ingot.compile(network("winograd"), threads="none", stack_limit=1 << 20) as free, \
            ingot.compile(network("winograd")) as shared:
        np.testing.assert_allclose(free(x), shared(x), rtol=1e-4, atol=1e-4 * np.abs(free(x)).max())


@pytest.mark.parametrize("kind, target, threads", [
    (kind, target, ("none", "openmp")[(n + k) % 2]) for k, kind in enumerate(KINDS) for n, target in enumerate(
        ("c", "x86-64-v3", "x86-64-v4", "aarch64-linux-gnu", "armv7-linux-gnueabihf"))])
def test_the_default_is_a_hosts_stack_or_a_small_one(kind, target, threads):
    model = compiled(kind, target, threads=threads)
    limit = 2048 if (target, threads) == ("c", "none") else 16384
    assert model.stack <= limit == default_limit(model.target, threads)


def vectors(count, lanes):
    """Two arrays inside one another, of which the outer one is of vectors."""
    rows = decl_buffer((count,), DataType("float32").with_lanes(lanes), "rows", "local")
    few, y = decl_buffer((16,), "float32", "few"), decl_buffer((count * lanes,), "float32", "y")
    i = Var("i", "int32")
    one = Broadcast(const(1.0, "float32"), lanes)
    body = seq(For(i, const(0), const(count), "serial", BufferStore(rows, one, (i,))),
               BufferStore(few, const(2.0, "float32"), (const(3),)),
               For(i, const(0), const(count), "serial", BufferStore(
                   y, BufferLoad(rows, (i,)), (Ramp(i * lanes, const(1), lanes),))))
    return prim_func([y], DeclBuffer(rows, DeclBuffer(few, body)))


def test_arrays_of_more_vectors_than_there_are_registers_move():
    func = vectors(64, 8)
    assert deepest(func.body)[0] == 64 * 32 + 64
    registers = lift_scratch(func, 128, 64 * 32)
    assert [b.name for b in registers.buffers] == ["y", "few"]  # these stay, whatever the limit is
    lifted = lift_scratch(func, 128, 64 * 32 - 1)
    assert deepest(lifted.body)[0] == 64 and lifted.attrs["scratch_bytes"] == 64 * 32
    rows = lifted.buffers[1]
    assert (rows.name, rows.dtype, rows.shape[0].value, rows.scope) == ("rows", "float32", 512, "global")
    accesses = [a for a in collect(lifted.body, (BufferLoad, BufferStore)) if a.buffer is rows]
    assert len(accesses) == 2 and all(isinstance(a.indices[0], Ramp) and a.indices[0].lanes == 8 for a in accesses)
