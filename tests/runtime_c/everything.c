/* Uses each macro of ingot.h as generated code does. */
#include "ingot.h"
#include "simd.h"

#define TILE 4

static INGOT_ALIGNED(64) const float weights[TILE * 16] = {1.0f};
static const int64_t dims[] = {-1, 3};
static const char *const dim_names[] = {"batch", NULL};
static const ingot_tensor_info inputs[] = {{.name = "x", .dtype = INGOT_FLOAT32, .ndim = 2, .dims = dims,
                                            .dim_names = dim_names}};
extern const ingot_model_info everything_info;
const ingot_model_info everything_info = {
    .abi = INGOT_ABI, .struct_bytes = sizeof(ingot_model_info), .name = "everything", .n_inputs = 1, .inputs = inputs};

ingot_status everything_run(const float *INGOT_RESTRICT x, float *INGOT_RESTRICT y, int32_t rows);
ingot_status everything_run(const float *INGOT_RESTRICT x, float *INGOT_RESTRICT y, int32_t rows)
{
    if (!x || !y) return INGOT_ERR_NULL;
    INGOT_PARALLEL_FOR
    for (int32_t i = 0; i < rows; ++i) {
        f32x16 acc[TILE];
        INGOT_UNROLL(TILE)
        for (int32_t j = 0; j < TILE; ++j) acc[j] = f32x16_set1(0.0f);
        for (int32_t k = 0; k < 8; ++k) {
            INGOT_UNROLL(4)
            for (int32_t j = 0; j < TILE; ++j)
                acc[j] = f32x16_fma(f32x16_set1(x[i * 8 + k]), f32x16_load(weights + j * 16), acc[j]);
        }
        INGOT_UNROLL(TILE)
        for (int32_t j = 0; j < TILE; ++j) f32x16_store(y + (i * TILE + j) * 16, f32x16_tanh(acc[j]));
    }
    INGOT_OMP(parallel for collapse(2) schedule(dynamic, 1))
    for (int32_t i = 0; i < rows; ++i)
        for (int32_t j = 0; j < TILE; ++j) y[i * TILE + j] = ingot_sigmoidf(y[i * TILE + j]);
    return INGOT_OK;
}
