"""What tvm.build makes for "cuda", run on the emulator and compiled by nvcc."""
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from emulated import MISSING, run_kernels

from ingot.codegen.cuda_program import parameters
from ingot.codegen.nvcc import find_nvcc
from ingot.codegen.package import evaluate_dim
from ingot.ir.expr import Var
from ingot.ir.tir.buffer import Buffer

needs_emulator = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


def emulated(mod, *args, policy="up", name=None, **how):
    """The arrays of a call of a GpuModule's function, after its kernels ran on them; how: as run_kernels has it."""
    function = mod.get_function(name or mod.entry_name)._function
    launches, arrays = call_of(mod, *args, name=name)
    done = run_kernels(mod.imported_modules[0].get_source(), launches, arrays, policy, **{"seen": True, **how})
    return [done[x.name] for x in function.signature if isinstance(x, Buffer)]


def call_of(mod, *args, name=None):
    """(launches, arrays) of a call of a GpuModule's function, as run_library has them."""
    function = mod.get_function(name or mod.entry_name)._function
    arrays, values, names = {}, {}, {}
    flat = iter(function.func.buffers)
    for x, value in zip(function.signature, args):
        if isinstance(x, Buffer):
            names[id(next(flat).data)] = x.name
            arrays[x.name] = np.ascontiguousarray(value)
            values.update((e.name, n) for e, n in zip(x.shape, value.shape) if isinstance(e, Var))
        else:
            values[x.name] = value
    for n, b in enumerate(function.workspace):
        names[id(b.data)] = f"workspace {n}"
        arrays[names[id(b.data)]] = _unset(evaluate_dim(b.shape[0], values), b.dtype.numpy)
    printed = {k.function.name: k.function for k in mod._module.kernels}
    launches = []
    for symbol, kernel in function.launches:
        given = [names[id(kernel.func.buffer_map[p].data)] if p in kernel.func.buffer_map else
                 np.array(values[p.name], p.dtype.numpy) for p in kernel.func.params]
        tiles = {m.name: m.tile[::-1] for m in printed[symbol].maps}
        given = [("map", x, tiles[name], 128) if name in tiles else x
                 for x, (_, name) in zip(given, parameters(printed[symbol]))]
        grid, block = ([evaluate_dim(e, values) for e in three] for three in (kernel.grid, kernel.block))
        launches.append((symbol, grid, block, given, evaluate_dim(kernel.shared, values)))
    return launches, arrays


def _unset(count, dtype):
    """Memory that nobody wrote to yet."""
    return np.full(count, np.nan if dtype.kind == "f" else 1, dtype)


def compiles(mod, *flags, cubin=None):
    """What ptxas says of a GpuModule's kernels; skips where there is no nvcc. cubin: a path for what they become."""
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in mod._module.files().items():
            Path(folder, name).write_text(text)
        done = subprocess.run(
            [nvcc.path, "-arch=sm_80", "-cubin", "-Xptxas", "-v,-warn-spills", "-Werror", "all-warnings", *flags, "-o",
             cubin or "module.cubin", "module.cu"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr


def ints(shape, dtype="float32", seed=0, most=3):
    """Small whole numbers, whose sums every order and float16 give exactly."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)
