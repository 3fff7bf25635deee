"""The dot product of four bytes on AMD's GPUs, by the name of tvm.tir.tensor_intrin.rocm."""
from __future__ import annotations

from .dot_product_common import dp4a_desc  # noqa: F401

AMDGPU_SDOT4_INTRIN = "sdot4"
