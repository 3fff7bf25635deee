"""Dot products of vectors of 32 numbers on Hexagon, by the names of tvm.tir.tensor_intrin.hexagon."""
from __future__ import annotations

from . import dots  # noqa: F401  (declares them)

VRMPY_u8u8i32_INTRIN, VRMPY_u8i8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy", "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
