/* As much of cuda_runtime.h as a folder of simple kernels needs, for a C++ and a C compiler: a launch runs the threads
 * one after another, so no kernel with barriers. cudart.c has the functions that are C. Test only. */
#pragma once
#include <stddef.h>

typedef int cudaError_t;
enum { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
typedef struct CUstream_st *cudaStream_t;
typedef struct { int binaryVersion; } cudaFuncAttributes;
typedef struct dim3 { unsigned x, y, z; } dim3;
#ifdef __cplusplus
extern "C" {
#endif
int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, cudaStream_t stream);
#ifdef __cplusplus
}
#include <utility>
#define __global__
#define __launch_bounds__(n)
static dim3 threadIdx, blockIdx;
template <class F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, F) { return cudaSuccess; }
template <class... P, size_t... I>
void fake_call(void (*kernel)(P...), void **arguments, std::index_sequence<I...>)
{
    kernel(*static_cast<P *>(arguments[I])...);
}
template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments, size_t, cudaStream_t)
{
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
                for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
                    for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
                        for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
                            fake_call(kernel, arguments, std::index_sequence_for<P...>());
    return cudaSuccess;
}
#endif
