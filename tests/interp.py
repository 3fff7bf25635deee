"""The reference interpreter of PrimFuncs, which is ingot.ir.tir.interpreter: a short name for tests."""
from ingot.ir.tir.interpreter import build, run, source  # noqa: F401
from ingot.ir.tir.spmd import DivergenceError, RaceError, run_threads  # noqa: F401
