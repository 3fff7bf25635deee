"""Programs built in Python in the words of their script: `from ingot.script.ir_builder import IRBuilder, tir as T`."""
from . import ir, relax, tir  # noqa: F401
from .base import IRBuilder, IRBuilderFrame

__all__ = ["IRBuilder", "IRBuilderFrame"]
