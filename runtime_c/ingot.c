/* ingot.c: the functions of ingot.h. Constant data only.
 *
 * Every library holds them. They are weak: of several libraries in one program any may serve, for what a code means
 * never changes. Not in Windows' format, where no archive would give a weak function. */
#if defined(__GNUC__) && (defined(__ELF__) || defined(__APPLE__))
#define INGOT_COMMON __attribute__((weak))
#endif
#include "ingot.h"

INGOT_COMMON const char *ingot_status_str(ingot_status status)
{
    switch (status) {
    case INGOT_OK: return "ok";
    case INGOT_ERR_NULL: return "a required pointer is NULL";
    case INGOT_ERR_ARENA_SIZE: return "the arena is too small";
    case INGOT_ERR_ARENA_ALIGN: return "the arena is not aligned as the model requires";
    case INGOT_ERR_ABI: return "caller and model were built with different versions of ingot.h";
    case INGOT_ERR_DIM: return "a dimension is out of range or disagrees with another input";
    case INGOT_ERR_WEIGHTS: return "the weights are missing or belong to another model";
    case INGOT_ERR_INDEX: return "an index in an input tensor is out of range";
    case INGOT_ERR_STATE: return "the handle was not initialized";
    case INGOT_ERR_ARGUMENT: return "an argument does not fit the function";
    case INGOT_ERR_WORKSPACE: return "the workspace is missing, too small or misaligned";
    case INGOT_ERR_ASSERT: return "an assertion of the program does not hold";
    case INGOT_ERR_DEVICE: return "the device or its driver refuses; NAME_device_error has its code";
    case INGOT_ERR_TARGET: return "there is no code for this processor";
    }
    return "unknown status";
}

typedef struct ingot_dtype_row {
    char name[16];
    unsigned char bytes;
} ingot_dtype_row;

INGOT_INLINE const ingot_dtype_row *ingot_row_of_dtype(ingot_dtype dtype)
{
    static const ingot_dtype_row rows[] = {
        {"?", 0},       {"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},   {"int16", 2},
        {"int32", 4},   {"int64", 8},   {"uint8", 1},   {"uint16", 2},  {"uint32", 4},   {"uint64", 8}, {"bool", 1},
        {"float8_e4m3fn", 1}, {"float8_e5m2", 1}, {"float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", 1},
        {"float8_e8m0fnu", 1}, {"float4_e2m1fn", 1}, {"int4", 1}, {"uint4", 1}, {"int2", 1}, {"uint2", 1},
    };
    return &rows[(unsigned)dtype < sizeof rows / sizeof rows[0] ? (size_t)dtype : 0];
}

INGOT_COMMON size_t ingot_dtype_bytes(ingot_dtype dtype)
{
    return ingot_row_of_dtype(dtype)->bytes;
}

INGOT_COMMON const char *ingot_dtype_str(ingot_dtype dtype)
{
    return ingot_row_of_dtype(dtype)->name;
}
