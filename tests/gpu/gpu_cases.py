"""What tests of rules for GPUs share: PrimFuncs of small networks, scheduled, and run by the interpreter."""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from interp import run

from ingot.ir.arith import Analyzer
from ingot.ir.expr import const, free_vars, substitute
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules.gpu.product import gpu_product
from ingot.ir.target import Target
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.pipeline import graph_passes

sys.path.append(str(Path(__file__).parent.parent / "ir" / "schedule"))
from rule_cases import CASES  # noqa: E402  (found by the path above)


@dataclass(frozen=True)
class Limits:
    """Those of an SM of compute capability 8.0."""

    max_threads: int = 1024
    shared_bytes: int = 49152
    registers: int = 65536
    sms: int = 108


@dataclass(frozen=True)
class Device:
    launch: Limits = Limits()
    kind: str = "cuda"


GPU = Device()
DIMS = {"n": 5, "m": 11, "k": 6, "h": 5, "w": 6}


def funcs(case):
    """The PrimFuncs of a case (a name, or a function that makes a module), with plain layouts."""
    mod = CASES[case]() if isinstance(case, str) else case()
    for run_pass in graph_passes(1, Target.get("x86-64-v3")):
        mod = run_pass(mod)
    return [f for f in lower_ops(mod).functions.values() if isinstance(f, PrimFunc)]


def scheduled(func, tile, parts=1, rule=gpu_product):
    """The Schedule of a function by a rule for GPUs, with a tile of the table and sums in parts."""
    sch = Schedule(func)
    match = rule(sch, GPU)
    plan = next(p for p in match.kernel.candidates(GPU) if p.algorithm == tile)
    match.apply(plan.replace(parts=parts), GPU)
    verify(sch.func)
    return sch


def arguments(func, seed=0):
    """Arrays for the parameters of a function; symbolic dimensions as DIMS has them."""
    rng, out = np.random.default_rng(seed), []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            out.append(DIMS[p.name.rstrip("_0123456789")])
            continue
        shape = [_number(extent) for extent in buffer.shape]
        values = rng.standard_normal(shape) * (1 if buffer.dtype.is_float else 8)
        out.append(values.astype(buffer.dtype.numpy))
    return out


def _number(extent):
    values = {v: const(DIMS[v.name.rstrip("_0123456789")], v.dtype) for v in free_vars(extent)}
    return int(Analyzer().simplify(substitute(extent, values)))


def meaning_kept(func, sch, rtol=1e-5, atol=1e-5):
    """Assert that a scheduled function computes what the function does. Every loop over threads runs as a plain one."""
    expected, found = arguments(func), arguments(func)
    run(func, *expected)
    run(sch.func, *found)
    for e, f in zip(expected, found):
        if isinstance(e, np.ndarray):
            assert np.isfinite(e.astype(np.float64)).all()
            np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol, atol)
