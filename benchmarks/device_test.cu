/* device_test.cu: whether the device functions of runtime_c/cuda do on a GPU what their headers say: each is compared
 * with plain loops, on small integers, which are exact. benchmarks/gpu.py builds and runs it; it prints what is WRONG.
 *
 *     nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -I runtime_c/cuda -I runtime_c -I WITH_ingot_wgmma.h ... */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <vector>

#include "ingot_mma.h"
#include "ingot_wgmma.h"

#define OK(call) \
    do { \
        const cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) { \
            printf("%s: %d %s\n", #call, (int)error_, cudaGetErrorString(error_)); \
            exit(2); \
        } \
    } while (0)

static int failures;

static void expect(const char *name, const std::vector<float> &got, const std::vector<float> &want)
{
    size_t wrong = 0, first = 0;
    for (size_t i = want.size(); i-- > 0;)
        if (got[i] != want[i]) ++wrong, first = i;
    printf("%-36s ", name);
    if (wrong) printf("WRONG: %zu of %zu, [%zu] is %g, not %g\n", wrong, want.size(), first, got[first], want[first]);
    else puts("ok");
    failures += wrong != 0;
}

/* Memory of the device that a vector is copied to, and back. */
template <class T> struct Device {
    T *p;
    size_t n;
    explicit Device(const std::vector<T> &v) : p(nullptr), n(v.size())
    {
        OK(cudaMalloc(&p, n * sizeof(T)));
        OK(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device() { cudaFree(p); }
    std::vector<T> back() const
    {
        std::vector<T> v(n);
        OK(cudaDeviceSynchronize());
        OK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
};

static std::vector<float> whole_numbers(size_t n, int least, int most)
{
    std::vector<float> v(n);
    for (float &x : v) x = (float)(rand() % (most - least + 1) + least);
    return v;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

__global__ void copies(float *out, const float *in)
{
    __shared__ __align__(16) float to[32 * 8];
    const int t = threadIdx.x;
    for (int i = 0; i < 8; ++i) to[t * 8 + i] = -1.0f;
    __syncwarp();
    ingot_cp_async16(&to[t * 8], &in[t * 8], t % 5 * 4);
    ingot_cp_async8(&to[t * 8 + 4], &in[t * 8 + 4], t % 3 * 4);
    ingot_cp_async4(&to[t * 8 + 6], &in[t * 8 + 6], t % 2 * 4);
    ingot_cp_async_commit();
    ingot_cp_async4(&to[t * 8 + 7], &in[t * 8 + 7], 4);
    ingot_cp_async_commit();
    ingot_cp_async_wait(1);
    for (int i = 0; i < 7; ++i) out[t * 8 + i] = to[t * 8 + i];
    ingot_cp_async_wait(0);
    out[t * 8 + 7] = to[t * 8 + 7];
}

static void test_copies()
{
    const std::vector<float> in = whole_numbers(256, 1, 99);
    std::vector<float> want = in;
    for (int t = 0; t < 32; ++t)
        for (int i = 0; i < 8; ++i) {
            const int have = i < 4 ? t % 5 : i < 6 ? t % 3 + 4 : i < 7 ? t % 2 + 6 : 8;
            if (i >= have) want[t * 8 + i] = 0.0f;
        }
    Device<float> a(in), out(std::vector<float>(256));
    copies<<<1, 32>>>(out.p, a.p);
    expect("cp.async", out.back(), want);
}

/* ---- ldmatrix: tiles whose element is its number ------------------------------------------------------------ */

template <int count, bool trans> __global__ void load_tiles(float *out)
{
    __shared__ __align__(16) uint16_t tiles[32 * 8];
    const int t = threadIdx.x;
    uint32_t words[4] = {0, 0, 0, 0};
    for (int i = 0; i < 8; ++i) tiles[t * 8 + i] = (uint16_t)(t * 8 + i);
    __syncwarp();
    const uint16_t *row = &tiles[t % (count * 8) * 8];
    if (count == 1) trans ? ingot_ldmatrix_x1_trans(words, row) : ingot_ldmatrix_x1(words, row);
    if (count == 2) trans ? ingot_ldmatrix_x2_trans(words, row) : ingot_ldmatrix_x2(words, row);
    if (count == 4) trans ? ingot_ldmatrix_x4_trans(words, row) : ingot_ldmatrix_x4(words, row);
    for (int j = 0; j < count; ++j) {
        out[(j * 32 + t) * 2] = (float)(words[j] & 0xffffu);
        out[(j * 32 + t) * 2 + 1] = (float)(words[j] >> 16);
    }
}

template <int count, bool trans> static void test_ldmatrix(const char *name)
{
    std::vector<float> want(count * 64);
    for (int j = 0; j < count; ++j)
        for (int t = 0; t < 32; ++t)
            for (int e = 0; e < 2; ++e) {
                const int row = trans ? t % 4 * 2 + e : t / 4, column = trans ? t / 4 : t % 4 * 2 + e;
                want[(j * 32 + t) * 2 + e] = (float)((j * 8 + row) * 8 + column);
            }
    Device<float> out(std::vector<float>(want.size()));
    load_tiles<count, trans><<<1, 32>>>(out.p);
    expect(name, out.back(), want);
}

/* ---- products: operands as words of elements ---------------------------------------------------------------- */

enum Element { F16, BF16, TF32, S8, U8 };

static std::vector<uint32_t> words_of(const std::vector<float> &v, Element kind)
{
    const size_t bytes = kind == TF32 ? 4 : kind == S8 || kind == U8 ? 1 : 2;
    std::vector<uint32_t> words(v.size() * bytes / 4);
    for (size_t i = 0; i < v.size(); ++i) {
        unsigned char *at = (unsigned char *)words.data() + i * bytes;
        const __half h = __float2half(v[i]);
        const __nv_bfloat16 b = __float2bfloat16(v[i]);
        const int8_t s = (int8_t)(int)v[i];
        memcpy(at, kind == F16 ? (const void *)&h : kind == BF16 ? &b : kind == TF32 ? (const void *)&v[i] : &s, bytes);
    }
    return words;
}

/* c[m][n] + sum of a[m][k] b[n][k]. */
static std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &c,
    int m, int n, int k)
{
    std::vector<float> d = c;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            for (int l = 0; l < k; ++l) d[i * n + j] += a[i * k + l] * b[j * k + l];
    return d;
}

#define MMA(name, D, per, depth, na, nb, ka, kb, least_a, least_b) \
    __global__ void kernel_##name(float *out, const uint32_t *a, const uint32_t *b, const float *c) \
    { \
        const int g = threadIdx.x / 4, t = threadIdx.x % 4, line = depth / per; \
        uint32_t x[na], y[nb]; \
        D d[4]; \
        for (int i = 0; i < na; ++i) x[i] = a[(g + i % 2 * 8) * line + i / 2 * 4 + t]; \
        for (int i = 0; i < nb; ++i) y[i] = b[g * line + i * 4 + t]; \
        for (int i = 0; i < 4; ++i) d[i] = (D)c[(g + i / 2 * 8) * 8 + t * 2 + i % 2]; \
        ingot_mma_##name(d, x, y, d); \
        for (int i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = (float)d[i]; \
    } \
    static void test_##name() \
    { \
        const std::vector<float> a = whole_numbers(16 * depth, least_a, 8), b = whole_numbers(8 * depth, least_b, 8); \
        const std::vector<float> c = whole_numbers(128, -50, 50); \
        Device<uint32_t> x(words_of(a, ka)), y(words_of(b, kb)); \
        Device<float> z(c), out(std::vector<float>(128)); \
        kernel_##name<<<1, 32>>>(out.p, x.p, y.p, z.p); \
        expect("mma " #name, out.back(), product(a, b, c, 16, 8, depth)); \
    }
MMA(m16n8k16_f16_f32, float, 2, 16, 4, 2, F16, F16, -8, -8)
MMA(m16n8k16_bf16_f32, float, 2, 16, 4, 2, BF16, BF16, -8, -8)
MMA(m16n8k16_f16_f16, __half, 2, 16, 4, 2, F16, F16, -2, -2)
MMA(m16n8k8_f16_f32, float, 2, 8, 2, 1, F16, F16, -8, -8)
MMA(m16n8k8_bf16_f32, float, 2, 8, 2, 1, BF16, BF16, -8, -8)
MMA(m16n8k8_tf32_f32, float, 1, 8, 4, 2, TF32, TF32, -8, -8)
MMA(m16n8k4_tf32_f32, float, 1, 4, 2, 1, TF32, TF32, -8, -8)
MMA(m16n8k32_s8_s32, int32_t, 4, 32, 4, 2, S8, S8, -8, -8)
MMA(m16n8k32_u8_s32, int32_t, 4, 32, 4, 2, U8, U8, 0, 0)
MMA(m16n8k32_u8s8_s32, int32_t, 4, 32, 4, 2, U8, S8, 0, -8)
MMA(m16n8k32_s8u8_s32, int32_t, 4, 32, 4, 2, S8, U8, -8, 0)
MMA(m16n8k16_s8_s32, int32_t, 4, 16, 2, 1, S8, S8, -8, -8)

/* ---- lanes and barriers ------------------------------------------------------------------------------------- */

__global__ void lanes(float *out)
{
    const int t = threadIdx.x;
    out[t] = (float)ingot_shfl(~0u, (int64_t)t, 5, 32);
    out[32 + t] = ingot_shfl_up(~0u, (float)t, 3, 16);
    out[64 + t] = (float)ingot_shfl_down(~0u, (double)t, 3, 32);
    out[96 + t] = (float)ingot_shfl_xor(~0u, (int8_t)t, 6, 32);
}

static void test_lanes()
{
    std::vector<float> want(128);
    for (int t = 0; t < 32; ++t) {
        want[t] = 5;
        want[32 + t] = (float)(t % 16 < 3 ? t : t - 3);
        want[64 + t] = (float)(t + 3 > 31 ? t : t + 3);
        want[96 + t] = (float)(t ^ 6);
    }
    Device<float> out(std::vector<float>(128));
    lanes<<<1, 32>>>(out.p);
    expect("shuffles", out.back(), want);
}

/* The first 64 threads hand numbers to the other 64, who hand them back, by barriers of 128 threads of 192. */
__global__ void hand_over(float *out)
{
    __shared__ float there[64], back[64];
    const int t = threadIdx.x;
    if (t < 64) {
        there[t] = (float)t;
        ingot_barrier_arrive(1, 128);
        ingot_barrier_sync(2, 128);
        out[t] = back[63 - t];
    } else if (t < 128) {
        ingot_barrier_sync(1, 128);
        back[t - 64] = there[127 - t] + 1.0f;
        ingot_barrier_arrive(2, 128);
    }
}

static void test_barriers()
{
    std::vector<float> want(64);
    for (int t = 0; t < 64; ++t) want[t] = (float)t + 1.0f;
    Device<float> out(std::vector<float>(64));
    hand_over<<<1, 192>>>(out.p);
    expect("named barriers", out.back(), want);
}

#pragma nv_diag_suppress 550 /* products from registers leave a tile unused, the others these */

/* ---- TMA and wgmma ------------------------------------------------------------------------------------------ */

/* Where byte b of row r lies in a tile of rows of `width` bytes, 128, 64 or 32, that is swizzled. */
__host__ __device__ static int swizzled(int r, int b, int width)
{
    const int at = r * width + b, mask = width / 16 - 1;
    return at ^ (at >> 7 & mask) << 4;
}

__global__ void copy_tile(const __grid_constant__ ingot_tensor_map from, const __grid_constant__ ingot_tensor_map to,
    float *out, int x, int y)
{
    __shared__ __align__(1024) unsigned char tile[64 * 128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        ingot_mbarrier_init(&bar, 1);
        ingot_mbarrier_init_fence();
    }
    __syncthreads();
    if (t == 0) {
        ingot_tma_prefetch_map(&from);
        ingot_mbarrier_arrive_expect_tx(&bar, sizeof tile);
        ingot_tma_load_2d(tile, &from, &bar, x, y);
    }
    ingot_mbarrier_wait_parity(&bar, 0);
    for (int i = t; i < 64 * 64; i += blockDim.x) {
        __half *const h = (__half *)(tile + swizzled(i / 64, i % 64 * 2, 128));
        out[i] = __half2float(*h);
        *h = __float2half(out[i] + 1.0f);
    }
    ingot_fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        ingot_tma_store_2d(&to, tile, x, y);
        ingot_tma_store_commit();
        ingot_tma_store_wait_read(0);
    }
}

typedef int (*encode_fn)(void *, int, unsigned, void *, const unsigned long long *, const unsigned long long *,
    const unsigned *, const unsigned *, int, int, int, int);

/* A map of float16 rows x columns, boxes of 64 x 64, swizzled by 128 bytes. */
static ingot_tensor_map map_of(void *p, int rows, int columns)
{
    ingot_tensor_map map;
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const unsigned long long dims[2] = {(unsigned long long)columns, (unsigned long long)rows};
    const unsigned long long strides[1] = {dims[0] * 2};
    const unsigned box[2] = {64, 64}, steps[2] = {1, 1};
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    const int float16 = 6, swizzle_128 = 3, l2_128 = 2;
    const int error = ((encode_fn)entry)(&map, float16, 2, p, dims, strides, box, steps, 0, swizzle_128, l2_128, 0);
    if (error) printf("cuTensorMapEncodeTiled: %d\n", error), exit(2);
    return map;
}

static void test_tma()
{
    const int rows = 100, columns = 136, x = 96, y = 48; /* beyond both ends */
    const std::vector<float> in = whole_numbers(rows * columns, -99, 99);
    std::vector<float> want(64 * 64), stored(rows * columns);
    for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j)
            if (y + i < rows && x + j < columns) {
                want[i * 64 + j] = in[(y + i) * columns + x + j];
                stored[(y + i) * columns + x + j] = want[i * 64 + j] + 1.0f;
            }
    Device<uint32_t> from(words_of(in, F16)), to(std::vector<uint32_t>(rows * columns / 2));
    Device<float> out(std::vector<float>(64 * 64));
    copy_tile<<<1, 128>>>(map_of(from.p, rows, columns), map_of(to.p, rows, columns), out.p, x, y);
    expect("TMA load, swizzled", out.back(), want);
    const std::vector<uint32_t> words = to.back();
    std::vector<float> got(rows * columns);
    for (size_t i = 0; i < got.size(); ++i) {
        __half h;
        memcpy(&h, (const unsigned char *)words.data() + i * 2, 2);
        got[i] = __half2float(h);
    }
    expect("TMA store", got, stored);
}

/* One warpgroup: rows of a and b of `width` bytes, in shared memory as the swizzle has them, 32 bytes of k
 * a product. The first product does not add to what d was. */
#define WGMMA(name, D, width, columns, kind, call) \
    __global__ void __launch_bounds__(128) \
    kernel_##name##_##width(float *out, const unsigned char *a, const unsigned char *b) \
    { \
        __shared__ __align__(1024) unsigned char at[64 * width], bt[columns * width]; \
        const int t = threadIdx.x, lane = t % 32, g = lane / 4; \
        D d[columns / 2]; \
        for (int i = t; i < 64 * width; i += 128) at[swizzled(i / width, i % width, width)] = a[i]; \
        for (int i = t; i < columns * width; i += 128) bt[swizzled(i / width, i % width, width)] = b[i]; \
        for (int i = 0; i < columns / 2; ++i) d[i] = (D)1000; \
        ingot_fence_proxy_async(); \
        __syncthreads(); \
        uint32_t words[width / 32][4]; \
        for (int k = 0; k < width / 32; ++k) \
            for (int i = 0; i < 4; ++i) \
                words[k][i] = ((const uint32_t *)a)[ \
                    ((t / 32 * 16 + g + i % 2 * 8) * width + k * 32) / 4 + i / 2 * 4 + lane % 4]; \
        (void)words; \
        ingot_wgmma_fence(); \
        _Pragma("unroll") for (int k = 0; k < width / 32; ++k) call; \
        ingot_wgmma_commit(); \
        ingot_wgmma_wait(0); \
        for (int i = 0; i < columns / 2; ++i) \
            out[(t / 32 * 16 + g + i / 2 % 2 * 8) * columns + i / 4 * 8 + lane % 4 * 2 + i % 2] = (float)d[i]; \
    } \
    static void test_##name##_##width() \
    { \
        const int depth = width / (kind == TF32 ? 4 : kind == S8 ? 1 : 2); \
        const std::vector<float> a = whole_numbers(64 * depth, -8, 8), b = whole_numbers(columns * depth, -8, 8); \
        Device<uint32_t> x(words_of(a, kind)), y(words_of(b, kind)); \
        Device<float> out(std::vector<float>(64 * columns)); \
        kernel_##name##_##width<<<1, 128>>>(out.p, (const unsigned char *)x.p, (const unsigned char *)y.p); \
        expect("wgmma " #name ", rows of " #width, out.back(), \
               product(a, b, std::vector<float>(64 * columns), 64, columns, depth)); \
    }
#define FROM_SHARED(name, width) \
    ingot_wgmma_##name(d, ingot_wgmma_tile(at, width) + k * 2, ingot_wgmma_tile(bt, width) + k * 2, k > 0)
#define FROM_REGISTERS(name, width) ingot_wgmma_##name(d, words[k], ingot_wgmma_tile(bt, width) + k * 2, k > 0)
WGMMA(m64n8k16_f16_f32, float, 128, 8, F16, FROM_SHARED(m64n8k16_f16_f32, 128))
WGMMA(m64n64k16_f16_f32, float, 128, 64, F16, FROM_SHARED(m64n64k16_f16_f32, 128))
WGMMA(m64n64k16_f16_f32, float, 64, 64, F16, FROM_SHARED(m64n64k16_f16_f32, 64))
WGMMA(m64n64k16_f16_f32, float, 32, 64, F16, FROM_SHARED(m64n64k16_f16_f32, 32))
WGMMA(m64n128k16_bf16_f32, float, 128, 128, BF16, FROM_SHARED(m64n128k16_bf16_f32, 128))
WGMMA(m64n256k16_f16_f32, float, 128, 256, F16, FROM_SHARED(m64n256k16_f16_f32, 128))
WGMMA(m64n64k16_f16_f32_ra, float, 128, 64, F16, FROM_REGISTERS(m64n64k16_f16_f32_ra, 128))
WGMMA(m64n64k8_tf32_f32, float, 128, 64, TF32, FROM_SHARED(m64n64k8_tf32_f32, 128))
WGMMA(m64n64k32_s8_s32, int32_t, 128, 64, S8, FROM_SHARED(m64n64k32_s8_s32, 128))

int main()
{
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    printf("%s, sm_%d%d\n", p.name, p.major, p.minor);
    test_copies();
    test_ldmatrix<1, false>("ldmatrix x1");
    test_ldmatrix<2, false>("ldmatrix x2");
    test_ldmatrix<4, false>("ldmatrix x4");
    test_ldmatrix<1, true>("ldmatrix x1 trans");
    test_ldmatrix<2, true>("ldmatrix x2 trans");
    test_ldmatrix<4, true>("ldmatrix x4 trans");
    test_m16n8k16_f16_f32();
    test_m16n8k16_bf16_f32();
    test_m16n8k16_f16_f16();
    test_m16n8k8_f16_f32();
    test_m16n8k8_bf16_f32();
    test_m16n8k8_tf32_f32();
    test_m16n8k4_tf32_f32();
    test_m16n8k32_s8_s32();
    test_m16n8k32_u8_s32();
    test_m16n8k32_u8s8_s32();
    test_m16n8k32_s8u8_s32();
    test_m16n8k16_s8_s32();
    test_lanes();
    test_barriers();
    if (p.major == 9) {
        test_tma();
        test_m64n8k16_f16_f32_128();
        test_m64n64k16_f16_f32_128();
        test_m64n64k16_f16_f32_64();
        test_m64n64k16_f16_f32_32();
        test_m64n128k16_bf16_f32_128();
        test_m64n256k16_f16_f32_128();
        test_m64n64k16_f16_f32_ra_128();
        test_m64n64k8_tf32_f32_128();
        test_m64n64k32_s8_s32_128();
    }
    puts(failures ? "WRONG" : "all agree");
    return failures != 0;
}
