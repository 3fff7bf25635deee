/* ldmatrix and mma.sync: the lanes of a warp hand in their fragments, and each computes what is its own. */
#include "cuda_runtime.h"
#include <string.h>

static float f16(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
static uint16_t to_f16(float x) { _Float16 h = (_Float16)x; uint16_t u; memcpy(&u, &h, 2); return u; }
static float bf16(uint16_t h) { const uint32_t u = (uint32_t)h << 16; float x; memcpy(&x, &u, 4); return x; }
static float tf32(uint32_t u) { u &= 0xffffe000u; float x; memcpy(&x, &u, 4); return x; }

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

/* A product of 16 rows and 8 columns: element (m, k) of A and (k, n) of B lie in registers of lanes, `per` elements of
 * type T in each, 4 * per of k to the first and as many to the second. */
template <class T, class F> static void product(float *d, const void *a, const void *b, const float *c, F number)
{
    const int per = 4 / (int)sizeof(T), half = 4 * per;
    struct { uint32_t a[4], b[2]; } mine;
    memcpy(mine.a, a, 16);
    memcpy(mine.b, b, 8);
    const unsigned char *all = emu::exchange(0xffffffffu, &mine, sizeof mine, emu::MATRIX, nullptr);
    const int g = (int)emu::lane / 4, t = (int)emu::lane % 4;
    float sums[4];
    for (int i = 0; i < 4; ++i) {
        const int m = g + (i / 2) * 8, n = t * 2 + i % 2;
        float sum = c[i];
        for (int k = 0; k < 2 * half; ++k) {
            T x, y;
            const int lane = k % half / per, part = (int)sizeof(T) * (k % per);
            memcpy(&x, all + emu::SLOT * (m % 8 * 4 + lane) + 4 * (m / 8 + k / half * 2) + part, sizeof x);
            memcpy(&y, all + emu::SLOT * (n * 4 + lane) + 16 + 4 * (k / half) + part, sizeof y);
            sum += number(x) * number(y);
        }
        sums[i] = sum;
    }
    memcpy(d, sums, sizeof sums);
}
void ingot_mma_m16n8k16_f16_f32(float *d, const void *a, const void *b, const float *c) { product<uint16_t>(d, a, b, c, f16); }
void ingot_mma_m16n8k16_bf16_f32(float *d, const void *a, const void *b, const float *c) { product<uint16_t>(d, a, b, c, bf16); }
void ingot_mma_m16n8k16_f16_f16(void *d, const void *a, const void *b, const void *c)
{
    uint16_t old[4], out[4];
    float sums[4], made[4];
    memcpy(old, c, 8);
    for (int i = 0; i < 4; ++i) sums[i] = f16(old[i]);
    product<uint16_t>(made, a, b, sums, f16);
    for (int i = 0; i < 4; ++i) out[i] = to_f16(made[i]);
    memcpy(d, out, 8);
}
void ingot_mma_m16n8k8_tf32_f32(float *d, const void *a, const void *b, const float *c) { product<uint32_t>(d, a, b, c, tf32); }
