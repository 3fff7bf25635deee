/* ingot_fragment.h: tiles of 16 x 16 elements that a warp holds together, for tensor cores (sm_80). A warp, 32 threads in
 * a row of its block, calls each function together.
 *
 * Each lane has 8 elements of a tile, laid out as the operands and sums of mma.m16n8k16 are (ingot_mma.h): of b and c
 * first those of columns 0 to 7, then those of columns 8 to 15. In memory rows (by_column: columns) of the tile are `ld`
 * elements apart. */
#ifndef INGOT_FRAGMENT_H
#define INGOT_FRAGMENT_H

#include "ingot_mma.h"

INGOT_DEVICE int ingot_fragment_lane(void)
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

template <class T> INGOT_DEVICE void ingot_fragment_load_a(T *f, const T *p, int ld, int by_column)
{
    const int g = ingot_fragment_lane() / 4, t = ingot_fragment_lane() % 4;
    for (int e = 0; e < 8; ++e) {
        const int row = g + e / 2 % 2 * 8, column = e / 4 * 8 + t * 2 + e % 2;
        f[e] = by_column ? p[column * ld + row] : p[row * ld + column];
    }
}

template <class T> INGOT_DEVICE void ingot_fragment_load_b(T *f, const T *p, int ld, int by_column)
{
    const int g = ingot_fragment_lane() / 4, t = ingot_fragment_lane() % 4;
    for (int e = 0; e < 8; ++e) {
        const int row = e / 2 % 2 * 8 + t * 2 + e % 2, column = e / 4 * 8 + g;
        f[e] = by_column ? p[column * ld + row] : p[row * ld + column];
    }
}

/* The same from shared memory, for elements of 16 bits: p on a multiple of 16 bytes, ld of 8 elements. A row of each 8 x 8
 * elements is read at once. */
template <class T> INGOT_DEVICE void ingot_fragment_fetch_a(T *f, const T *p, int ld, int by_column)
{
    const int lane = ingot_fragment_lane(), row = lane % 8, down = lane / 8 % 2 * 8, across = lane / 16 * 8;
    if (by_column) ingot_ldmatrix_x4_trans(f, p + (across + row) * ld + down);
    else ingot_ldmatrix_x4(f, p + (down + row) * ld + across);
}

template <class T> INGOT_DEVICE void ingot_fragment_fetch_b(T *f, const T *p, int ld, int by_column)
{
    const int lane = ingot_fragment_lane(), row = lane % 8, down = lane / 8 % 2 * 8, across = lane / 16 * 8;
    if (by_column) ingot_ldmatrix_x4(f, p + (across + row) * ld + down);
    else ingot_ldmatrix_x4_trans(f, p + (down + row) * ld + across);
}

template <class T> INGOT_DEVICE void ingot_fragment_load_c(T *f, const T *p, int ld, int by_column)
{
    const int g = ingot_fragment_lane() / 4, t = ingot_fragment_lane() % 4;
    for (int e = 0; e < 8; ++e) {
        const int row = g + e / 2 % 2 * 8, column = e / 4 * 8 + t * 2 + e % 2;
        f[e] = by_column ? p[column * ld + row] : p[row * ld + column];
    }
}

template <class T> INGOT_DEVICE void ingot_fragment_store(T *p, const T *f, int ld, int by_column)
{
    const int g = ingot_fragment_lane() / 4, t = ingot_fragment_lane() % 4;
    for (int e = 0; e < 8; ++e) {
        const int row = g + e / 2 % 2 * 8, column = e / 4 * 8 + t * 2 + e % 2;
        p[by_column ? column * ld + row : row * ld + column] = f[e];
    }
}

/* The second operand of two products by mma.m16n8k32, of bytes: 16 of a tile of 32 x 16. */
template <class T> INGOT_DEVICE void ingot_fragment_load_bytes_b(T *f, const T *p, int ld)
{
    const int g = ingot_fragment_lane() / 4, t = ingot_fragment_lane() % 4;
    for (int e = 0; e < 16; ++e) f[e] = p[(e % 8 / 4 * 16 + t * 4 + e % 4) * ld + e / 8 * 8 + g];
}

template <class T, class U> INGOT_DEVICE void ingot_fragment_fill(T *f, U value)
{
    for (int e = 0; e < 8; ++e) f[e] = (T)value;
}

/* d = a b + c; d may be c. */
template <class T> INGOT_DEVICE void ingot_fragment_mma_f16_f32(float *d, const T *a, const T *b, const float *c)
{
    ingot_mma_m16n8k16_f16_f32(d, a, b, c);
    ingot_mma_m16n8k16_f16_f32(d + 4, a, b + 4, c + 4);
}
template <class T> INGOT_DEVICE void ingot_fragment_mma_bf16_f32(float *d, const T *a, const T *b, const float *c)
{
    ingot_mma_m16n8k16_bf16_f32(d, a, b, c);
    ingot_mma_m16n8k16_bf16_f32(d + 4, a, b + 4, c + 4);
}
template <class T> INGOT_DEVICE void ingot_fragment_mma_f16_f16(T *d, const T *a, const T *b, const T *c)
{
    ingot_mma_m16n8k16_f16_f16(d, a, b, c);
    ingot_mma_m16n8k16_f16_f16(d + 4, a, b + 4, c + 4);
}

#endif /* INGOT_FRAGMENT_H */
