"""Dot products of bytes on x86, by the names of tvm.tir.tensor_intrin.x86."""
from __future__ import annotations

from .dots import desc_of

VNNI_DOT_16x4_INTRIN, AVX512_DOT_16x4_INTRIN = "dot_16x4_vnni", "dot_16x4_avx512"
dot_product_16x4_u8i8i32_desc = desc_of(VNNI_DOT_16x4_INTRIN)
