/* ingot_cuda.h: what kernels use beyond plain CUDA C, as functions: asynchronous copies, shuffles, barriers of parts
 * of a block.
 *
 * Only nvcc sees PTX. For any other compiler the same functions are declared without a body: whoever runs kernels on
 * something else defines them. A function that an architecture has no instruction for stops the kernel there.
 *
 * Addresses of shared memory are plain pointers into it; what is copied lies on a multiple of the bytes of a copy. */
#ifndef INGOT_CUDA_H
#define INGOT_CUDA_H

#include <cuda_runtime.h>
#include <stdint.h>

/* ---- for which architecture this is compiled -------------------------------------------------------------------- */

#if defined(__CUDACC__)
#define INGOT_DEVICE static __device__ __forceinline__
#else
#define INGOT_DEVICE static inline
#endif

/* INGOT_SM_80(statement): that, or a trap on older devices; INGOT_SM_90A: the instructions that Hopper alone has. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define INGOT_SM_80(...) __VA_ARGS__
#else
#define INGOT_SM_80(...) __trap()
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define INGOT_SM_90(...) __VA_ARGS__
#else
#define INGOT_SM_90(...) __trap()
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define INGOT_SM_90A(...) __VA_ARGS__
#else
#define INGOT_SM_90A(...) __trap()
#endif

/* Whether the body of a kernel for Hopper is compiled here: host code needs its name in every pass of nvcc. */
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define INGOT_HAS_SM_90A 1
#else
#define INGOT_HAS_SM_90A 0
#endif

/* Declares the shared memory whose size the launch states, as bytes. */
#if !defined(INGOT_DYNAMIC_SHARED)
#define INGOT_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

/* ---- shuffles: a value of another lane of the warp; all lanes of mask take part --------------------------------- */

template <class T> INGOT_DEVICE T ingot_shfl(unsigned mask, T value, int lane, int width)
{
    return (T)__shfl_sync(mask, value, lane, width);
}
template <class T> INGOT_DEVICE T ingot_shfl_up(unsigned mask, T value, int delta, int width)
{
    return (T)__shfl_up_sync(mask, value, (unsigned)delta, width);
}
template <class T> INGOT_DEVICE T ingot_shfl_down(unsigned mask, T value, int delta, int width)
{
    return (T)__shfl_down_sync(mask, value, (unsigned)delta, width);
}
template <class T> INGOT_DEVICE T ingot_shfl_xor(unsigned mask, T value, int lane_mask, int width)
{
    return (T)__shfl_xor_sync(mask, value, lane_mask, width);
}

/* ---- several elements at once: N of a type, 8 or 16 bytes at multiples of as many ------------------------------- */

template <int N, class T> struct __align__(N * sizeof(T)) ingot_vector { T lane[N]; };

template <int N, class T> INGOT_DEVICE void ingot_copy(T *dst, const T *src)
{
    *(ingot_vector<N, T> *)dst = *(const ingot_vector<N, T> *)src;
}
/* Zeros where the condition fails, and nothing is read. */
template <int N, class T> INGOT_DEVICE void ingot_copy_or_zero(T *dst, const T *src, bool condition)
{
    ingot_vector<N, T> v = {};
    if (condition) v = *(const ingot_vector<N, T> *)src;
    *(ingot_vector<N, T> *)dst = v;
}
template <int N, class T, class V> INGOT_DEVICE void ingot_fill(T *dst, V value)
{
    ingot_vector<N, T> v;
    for (int n = 0; n < N; ++n) v.lane[n] = (T)value;
    *(ingot_vector<N, T> *)dst = v;
}

#if defined(__CUDACC__)

/* ---- asynchronous copies from global to shared memory (sm_80) ---------------------------------------------------- */

INGOT_DEVICE uint32_t ingot_shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Starts a copy of 4, 8 or 16 bytes, of which the first `bytes` are read and the others become zeros: 0 reads nothing.
 * 16 bytes pass by the first-level cache. */
INGOT_DEVICE void ingot_cp_async4(void *dst, const void *src, int bytes)
{
    INGOT_SM_80(asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                             :: "r"(ingot_shared_address(dst)), "l"(src), "r"(bytes) : "memory"));
}
INGOT_DEVICE void ingot_cp_async8(void *dst, const void *src, int bytes)
{
    INGOT_SM_80(asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                             :: "r"(ingot_shared_address(dst)), "l"(src), "r"(bytes) : "memory"));
}
INGOT_DEVICE void ingot_cp_async16(void *dst, const void *src, int bytes)
{
    INGOT_SM_80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                             :: "r"(ingot_shared_address(dst)), "l"(src), "r"(bytes) : "memory"));
}

/* Makes a group of the copies that this thread has started since the last group. */
INGOT_DEVICE void ingot_cp_async_commit(void) { INGOT_SM_80(asm volatile("cp.async.commit_group;" ::: "memory")); }

/* Waits until at most `pending` groups of this thread are not done, a constant; of more than 7 it waits for more. */
INGOT_DEVICE void ingot_cp_async_wait(int pending)
{
    switch (pending) {
    case 0: INGOT_SM_80(asm volatile("cp.async.wait_group 0;" ::: "memory")); break;
    case 1: INGOT_SM_80(asm volatile("cp.async.wait_group 1;" ::: "memory")); break;
    case 2: INGOT_SM_80(asm volatile("cp.async.wait_group 2;" ::: "memory")); break;
    case 3: INGOT_SM_80(asm volatile("cp.async.wait_group 3;" ::: "memory")); break;
    case 4: INGOT_SM_80(asm volatile("cp.async.wait_group 4;" ::: "memory")); break;
    case 5: INGOT_SM_80(asm volatile("cp.async.wait_group 5;" ::: "memory")); break;
    case 6: INGOT_SM_80(asm volatile("cp.async.wait_group 6;" ::: "memory")); break;
    default: INGOT_SM_80(asm volatile("cp.async.wait_group 7;" ::: "memory")); break;
    }
}

/* ---- barriers of some threads of a block: number 1 to 15, threads a multiple of 32 ------------------------------- */

INGOT_DEVICE void ingot_barrier_sync(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
INGOT_DEVICE void ingot_barrier_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

#else

void ingot_cp_async4(void *dst, const void *src, int bytes);
void ingot_cp_async8(void *dst, const void *src, int bytes);
void ingot_cp_async16(void *dst, const void *src, int bytes);
void ingot_cp_async_commit(void);
void ingot_cp_async_wait(int pending);
void ingot_barrier_sync(int number, int threads);
void ingot_barrier_arrive(int number, int threads);

#endif

#endif /* INGOT_CUDA_H */
