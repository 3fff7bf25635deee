"""Dot products of four bytes into one number, by the names of tvm.tir.tensor_intrin.dot_product_common."""
from __future__ import annotations

from .dots import desc_of

DP4A_S8S8S32_INTRIN, DP4A_U8S8S32_INTRIN = "dp4a_s8s8s32", "dp4a_u8s8s32"
DP4A_S8U8S32_INTRIN, DP4A_U8U8U32_INTRIN = "dp4a_s8u8s32", "dp4a_u8u8u32"
dp4a_desc = desc_of(DP4A_S8S8S32_INTRIN)
