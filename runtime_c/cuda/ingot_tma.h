/* ingot_tma.h: barriers that count bytes, copies of tiles by the tensor memory accelerator, and what stands around the
 * asynchronous products of a warpgroup (sm_90a); ingot_wgmma.h has the products themselves. */
#ifndef INGOT_TMA_H
#define INGOT_TMA_H

#include "ingot_cuda.h"

/* What a copy knows of a matrix in global memory: 128 opaque bytes that the host encodes. Kernels take it by value, as
 * const __grid_constant__ ingot_tensor_map. */
typedef struct __align__(64) ingot_tensor_map {
    uint64_t words[16];
} ingot_tensor_map;

#if defined(__CUDACC__)

/* ---- mbarriers ----------------------------------------------------------------------------------------------------
 * 8 bytes of shared memory each. A phase ends when `count` threads have arrived, and all bytes that they expect; its
 * number, from 0 on, modulo 2 is its parity. */

INGOT_DEVICE void ingot_mbarrier_init(uint64_t *bar, int count)
{
    INGOT_SM_90(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                             :: "r"(ingot_shared_address(bar)), "r"(count) : "memory"));
}
/* Between the thread that initializes barriers and those, or copies, that use them, before __syncthreads(). */
INGOT_DEVICE void ingot_mbarrier_init_fence(void)
{
    INGOT_SM_90(asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"));
}
INGOT_DEVICE void ingot_mbarrier_arrive(uint64_t *bar)
{
    INGOT_SM_90(asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(ingot_shared_address(bar)) : "memory"));
}
/* Arrives, and says how many more bytes copies will bring in this phase. */
INGOT_DEVICE void ingot_mbarrier_arrive_expect_tx(uint64_t *bar, int bytes)
{
    INGOT_SM_90(asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             :: "r"(ingot_shared_address(bar)), "r"(bytes) : "memory"));
}
/* Whether the phase of a parity has ended; it may take some time to say no. */
INGOT_DEVICE int ingot_mbarrier_try_wait_parity(uint64_t *bar, int parity)
{
    int done = 0;
    INGOT_SM_90(asm volatile("{\n.reg .pred p;\n"
                             "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                             "selp.s32 %0, 1, 0, p;\n}"
                             : "=r"(done) : "r"(ingot_shared_address(bar)), "r"(parity) : "memory"));
    return done;
}
INGOT_DEVICE void ingot_mbarrier_wait_parity(uint64_t *bar, int parity)
{
    while (!ingot_mbarrier_try_wait_parity(bar, parity)) {
    }
}
/* Arrives when the asynchronous copies that this thread has started so far are done; the barrier counts it. */
INGOT_DEVICE void ingot_mbarrier_arrive_cp_async(uint64_t *bar)
{
    INGOT_SM_90(asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                             :: "r"(ingot_shared_address(bar)) : "memory"));
}

/* ---- fences and copies ------------------------------------------------------------------------------------------- */

/* Between this thread's accesses of shared memory and those of the accelerator or of wgmma. */
INGOT_DEVICE void ingot_fence_proxy_async(void)
{
    INGOT_SM_90(asm volatile("fence.proxy.async.shared::cta;" ::: "memory"));
}
INGOT_DEVICE void ingot_tma_prefetch_map(const ingot_tensor_map *map)
{
    INGOT_SM_90(asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"));
}
/* Starts the copy of a box of the map's matrix, from column x of row y on, whose bytes arrive at bar; what lies outside
 * is zero. One thread calls it; dst is a multiple of 128 bytes, of 1024 with a swizzle of 128 bytes. */
INGOT_DEVICE void ingot_tma_load_2d(void *dst, const ingot_tensor_map *map, uint64_t *bar, int x, int y)
{
    INGOT_SM_90(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1, {%3, %4}], [%2];"
                             :: "r"(ingot_shared_address(dst)), "l"(map), "r"(ingot_shared_address(bar)),
                                "r"(x), "r"(y) : "memory"));
}
/* The copy back, of what lies inside the matrix. Stores of a thread are grouped as its asynchronous copies are;
 * wait_read waits until shared memory of all but `pending` groups, a constant of at most 3, may be written again. */
INGOT_DEVICE void ingot_tma_store_2d(const ingot_tensor_map *map, const void *src, int x, int y)
{
    INGOT_SM_90(asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                             :: "l"(map), "r"(ingot_shared_address(src)), "r"(x), "r"(y) : "memory"));
}
INGOT_DEVICE void ingot_tma_store_commit(void)
{
    INGOT_SM_90(asm volatile("cp.async.bulk.commit_group;" ::: "memory"));
}
INGOT_DEVICE void ingot_tma_store_wait_read(int pending)
{
    switch (pending) {
    case 0: INGOT_SM_90(asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")); break;
    case 1: INGOT_SM_90(asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory")); break;
    case 2: INGOT_SM_90(asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory")); break;
    default: INGOT_SM_90(asm volatile("cp.async.bulk.wait_group.read 3;" ::: "memory")); break;
    }
}

/* ---- products of a warpgroup: what stands before and after them -------------------------------------------------- */

/* Before the first product that reads registers which were written, or accumulators. */
INGOT_DEVICE void ingot_wgmma_fence(void) { INGOT_SM_90A(asm volatile("wgmma.fence.sync.aligned;" ::: "memory")); }
INGOT_DEVICE void ingot_wgmma_commit(void)
{
    INGOT_SM_90A(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"));
}
/* Waits until at most `pending` groups of products are not done, a constant of at most 3. */
INGOT_DEVICE void ingot_wgmma_wait(int pending)
{
    switch (pending) {
    case 0: INGOT_SM_90A(asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")); break;
    case 1: INGOT_SM_90A(asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory")); break;
    case 2: INGOT_SM_90A(asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory")); break;
    default: INGOT_SM_90A(asm volatile("wgmma.wait_group.sync.aligned 3;" ::: "memory")); break;
    }
}

/* What wgmma knows of a tile in shared memory whose rows, along k, have 128, 64 or 32 bytes (swizzle), swizzled as a
 * copy with a map of that swizzle leaves them; groups of 8 rows follow one another. Along k, 16 bytes further on is + 1. */
INGOT_DEVICE uint64_t ingot_wgmma_tile(const void *at, int swizzle)
{
    const uint64_t kind = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return kind << 62 | (uint64_t)(8 * swizzle >> 4) << 32 | (uint64_t)1 << 16
         | (ingot_shared_address(at) & 0x3ffffu) >> 4;
}

/* How many registers a thread of this warpgroup has from here on, a constant multiple of 8 from 24 to 240. */
#define ingot_setmaxnreg_inc(n) INGOT_SM_90A(asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n)))
#define ingot_setmaxnreg_dec(n) INGOT_SM_90A(asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n)))

#else

void ingot_mbarrier_init(uint64_t *bar, int count);
void ingot_mbarrier_init_fence(void);
void ingot_mbarrier_arrive(uint64_t *bar);
void ingot_mbarrier_arrive_expect_tx(uint64_t *bar, int bytes);
int ingot_mbarrier_try_wait_parity(uint64_t *bar, int parity);
void ingot_mbarrier_wait_parity(uint64_t *bar, int parity);
void ingot_mbarrier_arrive_cp_async(uint64_t *bar);
void ingot_fence_proxy_async(void);
void ingot_tma_prefetch_map(const ingot_tensor_map *map);
void ingot_tma_load_2d(void *dst, const ingot_tensor_map *map, uint64_t *bar, int x, int y);
void ingot_tma_store_2d(const ingot_tensor_map *map, const void *src, int x, int y);
void ingot_tma_store_commit(void);
void ingot_tma_store_wait_read(int pending);
void ingot_wgmma_fence(void);
void ingot_wgmma_commit(void);
void ingot_wgmma_wait(int pending);
uint64_t ingot_wgmma_tile(const void *at, int swizzle);
void ingot_setmaxnreg_inc(int n);
void ingot_setmaxnreg_dec(int n);

#endif

/* The tile of 64 rows of a warpgroup, of which `at` are the 16 of this warp. Groups are threads in a row of a block. */
INGOT_DEVICE uint64_t ingot_wgmma_rows(const void *at, int swizzle)
{
    const int warp = (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32 % 4);
    return ingot_wgmma_tile((const unsigned char *)at - warp * 16 * swizzle, swizzle);
}

#endif /* INGOT_TMA_H */
