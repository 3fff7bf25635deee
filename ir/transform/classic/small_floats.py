"""BF16ComputeLegalize, BF16StorageLegalize and FP8ComputeLegalize as scripts know them: GPUs of CUDA compute in
bfloat16 themselves."""
from __future__ import annotations

from ...target import Target
from ..small_floats import FLOAT8, compute_legalize, storage_legalize

DTYPES = ("bfloat16",)
PROMOTED = ("float32", "float16")  # what floats of 8 bits may be computed in


def _unless_native(func, legalize):
    target = func.attrs.get("target")
    return func if target is not None and Target.get(target).kind == "cuda" else legalize(func, DTYPES)


def bf16_compute_legalize(func):
    """Requires flat buffers. Ensures that nothing is computed in bfloat16, unless the function's target does that."""
    return _unless_native(func, compute_legalize)


def bf16_storage_legalize(func):
    """Requires what BF16ComputeLegalize ensures. Ensures that buffers hold the bits of bfloat16 as unsigned integers,
    unless the function's target has the type."""
    return _unless_native(func, storage_legalize)


def fp8_compute_legalize(func, promote_dtype="float32"):
    """Requires flat buffers. Ensures that nothing is computed in floats of 8 bits and fewer, but in `promote_dtype`:
    "float32" or "float16", which holds all their values but the great ones of float8_e8m0fnu."""
    if promote_dtype not in PROMOTED:
        raise ValueError(f"FP8ComputeLegalize computes in {' or '.join(PROMOTED)}, not {promote_dtype}")
    return compute_legalize(func, FLOAT8, promote_dtype)
