"""The C functions that programs call: what of them the rest of the compiler has to know."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MicroKernel:
    """header: of the runtime, that has the function; None for a function of the program's own. writes: which of its
    arguments point to what it writes; stack: bytes that it takes there at most."""

    header: str | None = None
    writes: tuple[int, ...] = ()
    stack: int = 0


# Those of runtime_c/ and runtime_c/cuda/, by name.
MICRO_KERNELS = {
    "ingot_tiles_product": MicroKernel("ingot_tiles.h", writes=(0,), stack=4096),
    "ingot_tiles_products": MicroKernel("ingot_tiles.h", writes=(0,), stack=4096),
    **{f"ingot_tiles_{mix}": MicroKernel("ingot_tiles.h", writes=(0,), stack=512) for mix in (
        "s8s8", "s8u8", "u8s8", "u8u8")},
    "ingot_tiles_slices": MicroKernel("ingot_tiles.h", writes=(0,)),
    **{f"ingot_fragment_{name}": MicroKernel("ingot_fragment.h", writes=(0,)) for name in (
        "fill", "load_a", "load_b", "load_c", "fetch_a", "fetch_b", "store",
        "mma_f16_f32", "mma_bf16_f32", "mma_f16_f16")},
}


def micro_kernel(call):
    """The MicroKernel that a call_extern or call_pure_extern calls."""
    return MICRO_KERNELS.get(call.args[0].value, MicroKernel())
