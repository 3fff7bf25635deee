/* CUDA C++ for a host compiler: what kernels find in cuda_runtime.h, with the emulator behind it. */
#pragma once
#include "cuda_runtime_api.h"
#ifdef __cplusplus
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "emu/device.h"
#include "emu/warp.h"
#include "emu/atomics.h"
#include "emu/math.h"
template <class T> inline cudaError_t cudaMalloc(T **at, size_t bytes) { return cudaMalloc((void **)at, bytes); }
template <class T> inline cudaError_t cudaMallocHost(T **at, size_t bytes) { return cudaMallocHost((void **)at, bytes); }
template <class T>
inline cudaError_t cudaLaunchKernel(T *kernel, dim3 grid, dim3 block, void **args, size_t bytes = 0, cudaStream_t s = 0)
{
    return cudaLaunchKernel((const void *)kernel, grid, block, args, bytes, s);
}
template <class T> inline cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
template <class T> inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel)
{
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
#endif
