/* [[ name ]]_kernels.h: one function per kernel, which launches it. Internal to the network.
 *
 * [[ stamp ]]
 */
#ifndef [[ upper ]]_KERNELS_H
#define [[ upper ]]_KERNELS_H

#include <cuda_runtime.h>

#include "ingot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An extent of a grid or block; one that CUDA cannot have becomes one that it refuses. */
INGOT_INLINE unsigned ingot_extent(int64_t n) { return n < 0 || n > INT32_MAX ? 1u << 31 : (unsigned)n; }

INGOT_INLINE dim3 ingot_dim3(int64_t x, int64_t y, int64_t z)
{
    dim3 extents;
    extents.x = ingot_extent(x);
    extents.y = ingot_extent(y);
    extents.z = ingot_extent(z);
    return extents;
}

/* Load the kernels of a file, [[ name ]]_kernels_0.cu ..., for the current device. */
[% for n in range(parts) %]
cudaError_t [[ name ]]_load_[[ n ]](void);
[% endfor %]

/* Launch a kernel: shared is the bytes of dynamic shared memory of a block. A grid of no blocks is no error. */
[% for k in kernels %]
[[ launches[k.function.name].signature ]];
[% endfor %]

#ifdef __cplusplus
}
#endif

#endif /* [[ upper ]]_KERNELS_H */
