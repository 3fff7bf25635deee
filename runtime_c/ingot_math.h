/* ingot_math.h: arithmetic on single numbers that C has no operator for.
 *
 * The float functions have the accuracy that simd/math.h states, the same results in every width on a machine, and no
 * branches: gcc -O3 and clang -O2 turn a loop over them into vector code (gcc needs -fno-trapping-math to vectorize
 * floor and ceil, -fno-math-errno for sqrt). ingot_sqrtf apart, none of them calls libm. */
#ifndef INGOT_MATH_H
#define INGOT_MATH_H

#include "ingot.h"

#include "simd/math.h"

#include "simd/lane.h"

#include <string.h>

INGOT_INLINE float ingot_expf(float x) { return f32x1_exp(x); }
INGOT_INLINE float ingot_logf(float x) { return f32x1_log(x); }
INGOT_INLINE float ingot_tanhf(float x) { return f32x1_tanh(x); }
INGOT_INLINE float ingot_erff(float x) { return f32x1_erf(x); }
INGOT_INLINE float ingot_sigmoidf(float x) { return f32x1_sigmoid(x); }
INGOT_INLINE float ingot_siluf(float x) { return f32x1_silu(x); }
INGOT_INLINE float ingot_geluf(float x) { return f32x1_gelu(x); }
INGOT_INLINE float ingot_floorf(float x) { return f32x1_floor(x); }
INGOT_INLINE float ingot_ceilf(float x) { return f32x1_ceil(x); }
INGOT_INLINE float ingot_roundf(float x) { return f32x1_round(x); } /* ties to even */
INGOT_INLINE float ingot_sqrtf(float x) { return f32x1_sqrt(x); }
INGOT_INLINE float ingot_low_bytesf(float a, float b, float c) { return f32x1_low_bytes(a, b, c); }
INGOT_INLINE float ingot_fixedf(float a, float b, int32_t n) { return f32x1_fixed(a, b, n); }
INGOT_INLINE float ingot_greaterf(float a, float b) { return f32x1_greater(a, b); }
INGOT_INLINE float ingot_fmaf(float a, float b, float c) { return f32x1_fma(a, b, c); }

/* Quotient rounded towards minus infinity, and the remainder that goes with it, which has the sign of b. b must not
 * be 0, nor the quotient overflow. */
#define INGOT_FLOORDIV(T, name)                                                                                        \
    INGOT_INLINE T ingot_floordiv_##name(T a, T b)                                                                     \
    {                                                                                                                  \
        const T quotient = a / b, remainder = a % b;                                                                   \
        return quotient - (T)(remainder != 0 && (remainder < 0) != (b < 0));                                           \
    }                                                                                                                  \
    INGOT_INLINE T ingot_floormod_##name(T a, T b)                                                                     \
    {                                                                                                                  \
        const T remainder = a % b;                                                                                     \
        return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;                               \
    }
INGOT_FLOORDIV(int32_t, i32)
INGOT_FLOORDIV(int64_t, i64)

#define INGOT_MIN_MAX(T, name)                                                                                         \
    INGOT_INLINE T ingot_min_##name(T a, T b) { return a < b ? a : b; }                                                \
    INGOT_INLINE T ingot_max_##name(T a, T b) { return a > b ? a : b; }
INGOT_MIN_MAX(int32_t, i32)
INGOT_MIN_MAX(int64_t, i64)
INGOT_MIN_MAX(float, f32)
INGOT_MIN_MAX(double, f64)

/* The bits of a double, and the double of given ones; floats have f32x1_bits and f32x1_from_bits. */
INGOT_INLINE uint64_t ingot_f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
INGOT_INLINE double ingot_f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* How many bits of x are set, and how many zeros of its 64 bits stand above the highest one that is. */
INGOT_INLINE int32_t ingot_popcount(uint64_t x)
{
    int32_t count = 0;
    for (; x != 0; x &= x - 1) count++;
    return count;
}
INGOT_INLINE int32_t ingot_clz(uint64_t x)
{
    int32_t count = 64;
    for (; x != 0; x >>= 1) count--;
    return count;
}

#endif /* INGOT_MATH_H */
