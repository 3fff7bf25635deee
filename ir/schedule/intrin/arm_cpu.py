"""Dot products of bytes on Arm, by the names of tvm.tir.tensor_intrin.arm_cpu."""
from __future__ import annotations

from .dot_product_common import *  # noqa: F401,F403
from .dots import desc_of

ARM_DOT_4x4_i8_NEON_INTRIN, ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_neon", "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN, ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8u32_udot", "dot_4x4_u8u8i32_hdot"
neon_4x4_i8i8i32_desc = desc_of(ARM_DOT_4x4_i8_NEON_INTRIN)
