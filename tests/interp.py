"""The reference interpreter of PrimFuncs, which is ingot.ir.tir.interpreter: a short name for tests."""
from ingot.ir.tir.interpreter import build, run, source  # noqa: F401
