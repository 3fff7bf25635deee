/* ingot_mma.h: tensor cores by mma.sync and ldmatrix (sm_80). A warp calls each function together.
 *
 * ingot_mma_m16n8k16_f16_f32(d, a, b, c): d = a b + c of a warp's tiles, a 16 x 16, b 16 x 8, c and d 16 x 8. Each lane
 * has parts of them, in registers: d and c 4 floats (d may be c), a 4 and b 2 words of two float16 numbers each. With
 * g = lane / 4 and t = lane % 4, of elements of w bits, 32 / w in a word,
 *
 *     a[i]: row g + i % 2 * 8, columns (i / 2 * 4 + t) * 32 / w and following, of a 16 x (k)
 *     b[i]: rows (i * 4 + t) * 32 / w and following, column g
 *     c[i], d[i]: row g + i / 2 * 8, column t * 2 + i % 2; of float16 two in a word
 *
 * Float32 numbers as operands are taken as TF32: their lowest 13 bits are not seen. */
#ifndef INGOT_MMA_H
#define INGOT_MMA_H

#include "ingot_cuda.h"

#if defined(__CUDACC__)

/* Loads 1, 2 or 4 tiles of 8 x 8 elements of 16 bits: lane i gives the address of a row of 16 bytes, row i % 8 of tile
 * i / 8 (lanes beyond the tiles any address), and gets in word j the elements 2 (lane % 4) and the next of row lane / 4
 * of tile j; transposed: of column lane / 4, rows 2 (lane % 4) and the next. */
INGOT_DEVICE void ingot_ldmatrix_x1(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                             : "=r"(r[0])
                             : "r"(ingot_shared_address(row)) : "memory"));
}
INGOT_DEVICE void ingot_ldmatrix_x2(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(r[0]), "=r"(r[1])
                             : "r"(ingot_shared_address(row)) : "memory"));
}
INGOT_DEVICE void ingot_ldmatrix_x4(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                             : "r"(ingot_shared_address(row)) : "memory"));
}
INGOT_DEVICE void ingot_ldmatrix_x1_trans(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                             : "=r"(r[0])
                             : "r"(ingot_shared_address(row)) : "memory"));
}
INGOT_DEVICE void ingot_ldmatrix_x2_trans(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                             : "=r"(r[0]), "=r"(r[1])
                             : "r"(ingot_shared_address(row)) : "memory"));
}
INGOT_DEVICE void ingot_ldmatrix_x4_trans(void *words, const void *row)
{
    INGOT_SM_80(uint32_t *r = (uint32_t *)words;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                             : "r"(ingot_shared_address(row)) : "memory"));
}

/* A float32 number rounded to the nearest TF32 number, ties away from zero. */
INGOT_DEVICE float ingot_to_tf32(float x)
{
    uint32_t bits = 0;
    INGOT_SM_80(asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x)));
    return __uint_as_float(bits);
}

INGOT_DEVICE void ingot_mma_m16n8k16_f16_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k16_bf16_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k16_f16_f16(void *d, const void *a, const void *b, const void *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                uint32_t *e = (uint32_t *)d;
                const uint32_t *f = (const uint32_t *)c;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                             "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                             : "=r"(e[0]), "=r"(e[1])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "r"(f[0]), "r"(f[1])));
}
INGOT_DEVICE void ingot_mma_m16n8k8_f16_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(y[0]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k8_bf16_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(y[0]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k8_tf32_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k4_tf32_f32(float *d, const void *a, const void *b, const float *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
                             "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(y[0]),
                               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k32_s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k32_u8_s32(int32_t *d, const void *a, const void *b, const int32_t *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k32_u8s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k32_s8u8_s32(int32_t *d, const void *a, const void *b, const int32_t *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
                               "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])));
}
INGOT_DEVICE void ingot_mma_m16n8k16_s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c)
{
    INGOT_SM_80(const uint32_t *x = (const uint32_t *)a, *y = (const uint32_t *)b;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(x[0]), "r"(x[1]), "r"(y[0]),
                               "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])));
}
/* Of 8 x 4 and 4 x 8 float64 numbers, one in each lane: a at row g, column t; b at row t, column g; two sums, at row g,
 * columns 2 t and the next. */
INGOT_DEVICE void ingot_mma_m8n8k4_f64_f64(double *d, const double *a, const double *b, const double *c)
{
    INGOT_SM_80(asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
                             : "=d"(d[0]), "=d"(d[1]) : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1])));
}

#else

void ingot_mma_m8n8k4_f64_f64(double *d, const double *a, const double *b, const double *c);
void ingot_ldmatrix_x1(void *words, const void *row);
void ingot_ldmatrix_x2(void *words, const void *row);
void ingot_ldmatrix_x4(void *words, const void *row);
void ingot_ldmatrix_x1_trans(void *words, const void *row);
void ingot_ldmatrix_x2_trans(void *words, const void *row);
void ingot_ldmatrix_x4_trans(void *words, const void *row);
float ingot_to_tf32(float x);
void ingot_mma_m16n8k16_f16_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k16_bf16_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k16_f16_f16(void *d, const void *a, const void *b, const void *c);
void ingot_mma_m16n8k8_f16_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k8_bf16_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k8_tf32_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k4_tf32_f32(float *d, const void *a, const void *b, const float *c);
void ingot_mma_m16n8k32_s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c);
void ingot_mma_m16n8k32_u8_s32(int32_t *d, const void *a, const void *b, const int32_t *c);
void ingot_mma_m16n8k32_u8s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c);
void ingot_mma_m16n8k32_s8u8_s32(int32_t *d, const void *a, const void *b, const int32_t *c);
void ingot_mma_m16n8k16_s8_s32(int32_t *d, const void *a, const void *b, const int32_t *c);

#endif

#endif /* INGOT_MMA_H */
