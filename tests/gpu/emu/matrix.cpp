/* ldmatrix and mma.sync: the lanes of a warp hand in their fragments, and each computes what is its own. */
#include "cuda_runtime.h"
#include <string.h>
#include "numbers.h"

/* ldmatrix: lane i hands in the address of row i; of matrix k a lane gets two neighbours of a row, or of a column. */
static void load(void *words, const void *row, int count, bool transposed, const void *pc)
{
    if ((int)emu::lane < 8 * count) emu::touch(row, 16, emu::READ, pc);
    const unsigned char *all = emu::exchange(0xffffffffu, &row, sizeof row, emu::MATRIX, nullptr);
    const int lane = (int)emu::lane;
    uint32_t out[4];
    for (int k = 0; k < count; ++k) {
        uint16_t pair[2];
        for (int i = 0; i < 2; ++i) {
            const int r = transposed ? lane % 4 * 2 + i : lane / 4, c = transposed ? lane / 4 : lane % 4 * 2 + i;
            const unsigned char *at;
            memcpy(&at, all + emu::SLOT * (k * 8 + r), sizeof at);
            memcpy(&pair[i], at + 2 * c, 2);
        }
        memcpy(&out[k], pair, 4);
    }
    memcpy(words, out, (size_t)count * 4);
}
void ingot_ldmatrix_x1(void *w, const void *row) { load(w, row, 1, false, __builtin_return_address(0)); }
void ingot_ldmatrix_x2(void *w, const void *row) { load(w, row, 2, false, __builtin_return_address(0)); }
void ingot_ldmatrix_x4(void *w, const void *row) { load(w, row, 4, false, __builtin_return_address(0)); }
void ingot_ldmatrix_x1_trans(void *w, const void *row) { load(w, row, 1, true, __builtin_return_address(0)); }
void ingot_ldmatrix_x2_trans(void *w, const void *row) { load(w, row, 2, true, __builtin_return_address(0)); }
void ingot_ldmatrix_x4_trans(void *w, const void *row) { load(w, row, 4, true, __builtin_return_address(0)); }

/* A product of 16 rows and 8 columns: element (m, k) of A and (k, n) of B lie in registers of lanes, 4 / sizeof
 * elements in each; `halves` words of B for each column, and twice as many of A. */
template <class A, class B, class S>
static void product(int halves, S *d, const void *a, const void *b, const S *c, S (*x_of)(A), S (*y_of)(B))
{
    const int per = 4 / (int)sizeof(A), half = 4 * per;
    struct { uint32_t a[4], b[2]; } mine = {};
    memcpy(mine.a, a, 8 * (size_t)halves);
    memcpy(mine.b, b, 4 * (size_t)halves);
    const unsigned char *all = emu::exchange(0xffffffffu, &mine, sizeof mine, emu::MATRIX, nullptr);
    const int g = (int)emu::lane / 4, t = (int)emu::lane % 4;
    S sums[4];
    for (int i = 0; i < 4; ++i) {
        const int m = g + (i / 2) * 8, n = t * 2 + i % 2;
        S sum = c[i];
        for (int k = 0; k < halves * half; ++k) {
            A x;
            B y;
            const int lane = k % half / per, part = (int)sizeof(A) * (k % per);
            memcpy(&x, all + emu::SLOT * (m % 8 * 4 + lane) + 4 * (m / 8 + k / half * 2) + part, sizeof x);
            memcpy(&y, all + emu::SLOT * (n * 4 + lane) + 16 + 4 * (k / half) + part, sizeof y);
            sum += x_of(x) * y_of(y);
        }
        sums[i] = sum;
    }
    memcpy(d, sums, sizeof sums);
}
static int32_t s8(int8_t x) { return x; }
static int32_t u8(uint8_t x) { return x; }
#define PRODUCT(name, S, halves, x, y) \
    void ingot_mma_##name(S *d, const void *a, const void *b, const S *c) { product(halves, d, a, b, c, x, y); }
PRODUCT(m16n8k16_f16_f32, float, 2, f16, f16)
PRODUCT(m16n8k16_bf16_f32, float, 2, bf16, bf16)
PRODUCT(m16n8k8_f16_f32, float, 1, f16, f16)
PRODUCT(m16n8k8_bf16_f32, float, 1, bf16, bf16)
PRODUCT(m16n8k8_tf32_f32, float, 2, tf32, tf32)
PRODUCT(m16n8k4_tf32_f32, float, 1, tf32, tf32)
PRODUCT(m16n8k32_s8_s32, int32_t, 2, s8, s8)
PRODUCT(m16n8k32_u8_s32, int32_t, 2, u8, u8)
PRODUCT(m16n8k32_u8s8_s32, int32_t, 2, u8, s8)
PRODUCT(m16n8k32_s8u8_s32, int32_t, 2, s8, u8)
PRODUCT(m16n8k16_s8_s32, int32_t, 1, s8, s8)
void ingot_mma_m8n8k4_f64_f64(double *d, const double *a, const double *b, const double *c)
{
    const double mine[2] = {*a, *b};
    const unsigned char *all = emu::exchange(0xffffffffu, &mine, sizeof mine, emu::MATRIX, nullptr);
    const int g = (int)emu::lane / 4, t = (int)emu::lane % 4;
    double sums[2];
    for (int i = 0; i < 2; ++i) {
        sums[i] = c[i];
        for (int k = 0; k < 4; ++k) {
            double x, y;
            memcpy(&x, all + emu::SLOT * (g * 4 + k), sizeof x);
            memcpy(&y, all + emu::SLOT * ((t * 2 + i) * 4 + k) + sizeof x, sizeof y);
            sums[i] += x * y;
        }
    }
    memcpy(d, sums, sizeof sums);
}
void ingot_mma_m16n8k16_f16_f16(void *d, const void *a, const void *b, const void *c)
{
    uint16_t old[4], out[4];
    float sums[4], made[4];
    memcpy(old, c, 8);
    for (int i = 0; i < 4; ++i) sums[i] = f16(old[i]);
    product(2, made, a, b, (const float *)sums, f16, f16);
    for (int i = 0; i < 4; ++i) out[i] = to_f16(made[i]);
    memcpy(d, out, 8);
}
float ingot_to_tf32(float x)    /* to the nearest, ties away from zero */
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if ((u & 0x7f800000u) != 0x7f800000u) u += 0x1000u;
    u &= 0xffffe000u;
    memcpy(&x, &u, 4);
    return x;
}
