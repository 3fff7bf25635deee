"""BF16ComputeLegalize and BF16StorageLegalize as scripts know them: GPUs of CUDA compute in bfloat16 themselves."""
from __future__ import annotations

from ...target import Target
from ..small_floats import compute_legalize, storage_legalize

DTYPES = ("bfloat16",)


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
