/* ingot_tensor_map.h: how the host encodes the tensor maps that kernels take in place of matrices (sm_90a).
 *
 * The driver's function is asked for by CUDA's runtime: nothing links the driver. It computes 128 bytes, and neither
 * touches the device nor waits, so that a launch with maps is captured in a graph as others are. */
#ifndef INGOT_TENSOR_MAP_H
#define INGOT_TENSOR_MAP_H

#include "ingot_tma.h"

/* The map of a matrix of elements of 16 bits, row after row, for copies of tiles whose rows have 128 bytes, swizzled.
 * The matrix lies on a multiple of 16 bytes, as its rows do. */
static inline cudaError_t ingot_encode_tensor_map(ingot_tensor_map *map, const void *matrix, int64_t columns,
                                                  int64_t rows, unsigned tile_columns, unsigned tile_rows)
{
    typedef int encode_tiled(void *map, int type, uint32_t rank, void *at, const uint64_t *sizes,
                             const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                             int swizzle, int promotion, int fill);
    enum { UINT16 = 1, SWIZZLE_128 = 3, PROMOTION_128 = 2 }; /* as cuda.h has them */
    const uint64_t sizes[2] = {(uint64_t)columns, (uint64_t)rows}, strides[1] = {2 * (uint64_t)columns};
    const uint32_t box[2] = {tile_columns, tile_rows}, steps[2] = {1, 1};
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                               cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) return error;
    if (found != cudaDriverEntryPointSuccess || function == NULL) return cudaErrorNotSupported;
    return ((encode_tiled *)function)(map, UINT16, 2, (void *)matrix, sizes, strides, box, steps, 0, SWIZZLE_128,
                                      PROMOTION_128, 0) ? cudaErrorInvalidValue : cudaSuccess;
}

#endif /* INGOT_TENSOR_MAP_H */
