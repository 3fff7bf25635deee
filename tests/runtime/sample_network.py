"""A network in the shape that `ingot compile` writes, by hand: what the runtime's tests load.

    sums:  x[rows, 4] float32, shift[4] float32 -> shifted[rows, 4] = x + shift + weight, ones[2 * rows] int64 = 1

`rows` is a number or the symbolic dimension "rows"; the weight is 0.5, in the code or in a file.
"""
import shutil
from dataclasses import dataclass
from pathlib import Path

import ingot
from ingot.codegen.program import TensorDesc
from ingot.ir.dtype import DataType
from ingot.ir.expr import IntImm, Var, const

RUNTIME = Path(ingot.__file__).parent / "runtime_c"

SOURCE = """
#include "ingot.h"
typedef struct sums {{ const float *weight; uint64_t bytes; }} sums;
static const float embedded = 0.5f;
extern const ingot_model_info sums_info;
const ingot_model_info sums_info = {{INGOT_ABI, (uint32_t)sizeof(ingot_model_info), "sums", 2, 2, {n_dims}, NULL, NULL,
                                    NULL, 0, 64, {weights_bytes}, 0, "", "c"}};
uint64_t sums_arena_bytes_({dims_or_void});
ingot_status sums_init_(sums **net, void *arena, size_t arena_bytes, uint32_t abi, size_t info_bytes);
ingot_status sums_set_weights(sums *net, const void *weights, size_t bytes);
ingot_status sums_run(sums *net, {dims}const float *x, const float *shift, float *shifted, int64_t *ones);

uint64_t sums_arena_bytes_({dims_or_void}) {{ return 64u * (uint64_t){rows}; }}

ingot_status sums_init_(sums **net, void *arena, size_t arena_bytes, uint32_t abi, size_t info_bytes)
{{
    ingot_status status = ingot_check_abi(abi, info_bytes);
    if (status == INGOT_OK) status = ingot_check_arena(arena, arena_bytes, 64, 64);
    if (status != INGOT_OK) return status;
    *net = (sums *)arena;
    (*net)->weight = {weight};
    (*net)->bytes = arena_bytes;
    return INGOT_OK;
}}

ingot_status sums_set_weights(sums *net, const void *weights, size_t bytes)
{{
    if (bytes != 4) return INGOT_ERR_WEIGHTS;
    net->weight = (const float *)weights;
    return INGOT_OK;
}}

ingot_status sums_run(sums *net, {dims}const float *x, const float *shift, float *shifted, int64_t *ones)
{{
    if (!net->weight) return INGOT_ERR_WEIGHTS;
    if ({rows} > 100) return INGOT_ERR_DIM;
    if (net->bytes < 64u * (uint64_t){rows}) return INGOT_ERR_ARENA_SIZE;
    for (int64_t i = 0; i < {rows} * 4; ++i) shifted[i] = x[i] + shift[i % 4] + *net->weight;
    for (int64_t i = 0; i < {rows} * 2; ++i) ones[i] = 1;
    return INGOT_OK;
}}
"""


ROWS = Var("rows", "int64")


def tensor(name, dtype, *dims):
    """An input or output; `name` is made an identifier by leaving out what is none."""
    dims = tuple(const(dim, "int64") if isinstance(dim, int) else dim for dim in dims)
    shape = tuple(dim.value if isinstance(dim, IntImm) else str(dim) for dim in dims)
    return TensorDesc(name.replace(":", "_"), name, DataType(dtype), shape, dims)


@dataclass
class SampleNetwork:
    rows: object = 3
    weights: str = "array"
    threads: str = "none"
    target: str = "host"
    name: str = "sums"
    written: int = 0
    dim_checks: tuple = ()

    @property
    def dims(self):
        return ("rows",) if self.rows == "rows" else ()

    @property
    def _rows(self):
        return ROWS if self.dims else self.rows

    @property
    def inputs(self):
        return [tensor("x:0", "float32", self._rows, 4), tensor("shift", "float32", 4)]

    @property
    def outputs(self):
        return [tensor("shifted", "float32", self._rows, 4), tensor("ones", "int64", 2 * self._rows)]

    def write(self, folder, single_file=False, package=None, sbom=False):
        folder = Path(folder)
        folder.mkdir(parents=True)
        self.written += 1
        for name in ("ingot.h", "ingot.c"):
            shutil.copy(RUNTIME / name, folder / name)
        pointer = self.weights == "file"
        (folder / "sums.c").write_text(SOURCE.format(
            n_dims=len(self.dims), rows=self.rows, dims="int64_t rows, " if self.dims else "",
            dims_or_void="int64_t rows" if self.dims else "void", weight="NULL" if pointer else "&embedded",
            weights_bytes=4 if pointer else 0))
        if pointer:
            (folder / "sums_weights.bin").write_bytes(b"\x00\x00\x00\x3f")
