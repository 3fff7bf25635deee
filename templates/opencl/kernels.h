/* [[ name ]]_kernels.h: one function per kernel, which launches it. Internal to the network.
 *
 * [[ stamp ]]
 */
#ifndef [[ upper ]]_KERNELS_H
#define [[ upper ]]_KERNELS_H

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <string.h>

#include "ingot.h"

/* Three extents of a grid, in groups, or of a group. */
#define INGOT_SIZES(x, y, z) ((const size_t[3]){(size_t)(x), (size_t)(y), (size_t)(z)})

/* Enqueue a kernel whose arguments are set. A grid of no groups is no error. */
INGOT_INLINE cl_int ingot_enqueue(cl_command_queue queue, cl_kernel kernel, const size_t *grid, const size_t *block)
{
    const size_t all[3] = {grid[0] * block[0], grid[1] * block[1], grid[2] * block[2]};
    if (all[0] == 0 || all[1] == 0 || all[2] == 0) return CL_SUCCESS;
    return clEnqueueNDRangeKernel(queue, kernel, 3, NULL, all, block, 0, NULL, NULL);
}

/* Enqueue a copy of bytes, of which there may be none. */
INGOT_INLINE cl_int ingot_copy(cl_command_queue queue, void *dst, const void *src, size_t bytes)
{
    return bytes == 0 ? CL_SUCCESS : clEnqueueSVMMemcpy(queue, CL_FALSE, dst, src, bytes, 0, NULL, NULL);
}

/* Compile the kernels of a file, [[ name ]]_kernels_0.cl ..., for a queue's device. */
[% for n in range(parts) %]
cl_int [[ name ]]_load_[[ n ]](cl_command_queue queue, cl_program *program, cl_kernel *kernels);
[% endfor %]

[% for k in kernels %]
[[ launches[k.function.name].signature ]];
[% endfor %]

#endif /* [[ upper ]]_KERNELS_H */
