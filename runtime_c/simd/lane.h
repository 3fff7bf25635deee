/* simd/lane.h: f32x1, one lane in plain C. It has the operations of a vector type, so that the functions of simd/math.h
 * serve single floats too, and scalar.h builds wider types from it. Every function is branch-free: a loop that
 * calls it can be vectorized. */
#ifndef INGOT_SIMD_LANE_H
#define INGOT_SIMD_LANE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float f32x1;

INGOT_INLINE uint32_t f32x1_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

INGOT_INLINE float f32x1_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* condition ? x : y by bits. Written as ?: the compiler may compute x only where it is needed, and then gcc does not
 * vectorize the loop around it unless -fno-trapping-math is given. */
INGOT_INLINE f32x1 f32x1_blend(int condition, f32x1 x, f32x1 y)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return f32x1_from_bits((f32x1_bits(x) & mask) | (f32x1_bits(y) & ~mask));
}

INGOT_INLINE f32x1 f32x1_set1(float x) { return x; }
INGOT_INLINE f32x1 f32x1_add(f32x1 a, f32x1 b) { return a + b; }
INGOT_INLINE f32x1 f32x1_sub(f32x1 a, f32x1 b) { return a - b; }
INGOT_INLINE f32x1 f32x1_mul(f32x1 a, f32x1 b) { return a * b; }
INGOT_INLINE f32x1 f32x1_div(f32x1 a, f32x1 b) { return a / b; }
INGOT_INLINE f32x1 f32x1_min(f32x1 a, f32x1 b) { return a < b ? a : b; }
INGOT_INLINE f32x1 f32x1_max(f32x1 a, f32x1 b) { return a > b ? a : b; }
INGOT_INLINE f32x1 f32x1_minimum(f32x1 a, f32x1 b) { return f32x1_blend((a < b) | (a != a), a, b); }
INGOT_INLINE f32x1 f32x1_maximum(f32x1 a, f32x1 b) { return f32x1_blend((a > b) | (a != a), a, b); }
INGOT_INLINE f32x1 f32x1_select_lt(f32x1 a, f32x1 b, f32x1 x, f32x1 y) { return f32x1_blend(a < b, x, y); }
INGOT_INLINE f32x1 f32x1_select_le(f32x1 a, f32x1 b, f32x1 x, f32x1 y) { return f32x1_blend(a <= b, x, y); }
INGOT_INLINE f32x1 f32x1_select_eq(f32x1 a, f32x1 b, f32x1 x, f32x1 y) { return f32x1_blend(a == b, x, y); }
INGOT_INLINE f32x1 f32x1_clamp(f32x1 a, f32x1 lo, f32x1 hi)
{
    return f32x1_blend(a < lo, lo, f32x1_blend(a > hi, hi, a));
}
INGOT_INLINE f32x1 f32x1_neg(f32x1 a) { return -a; }
INGOT_INLINE f32x1 f32x1_abs(f32x1 a) { return f32x1_from_bits(f32x1_bits(a) & 0x7fffffffu); }

INGOT_INLINE f32x1 f32x1_copysign(f32x1 a, f32x1 sign)
{
    return f32x1_from_bits((f32x1_bits(a) & 0x7fffffffu) | (f32x1_bits(sign) & 0x80000000u));
}

/* The integer, with its sign, that the 32 bits from the n-th on of a and then b are. n: a multiple of 4 below 32. */
INGOT_INLINE f32x1 f32x1_fixed(f32x1 a, f32x1 b, int32_t n)
{
    const uint64_t both = (uint64_t)f32x1_bits(a) << 32 | f32x1_bits(b);
    return (float)(int32_t)(uint32_t)(both << n >> 32);
}

/* So many bits of a, from the n-th lowest on, as the highest ones of an integer with a sign. */
INGOT_INLINE f32x1 f32x1_top_bits(f32x1 a, int32_t n, int32_t bits)
{
    return (float)(int32_t)(f32x1_bits(a) << (32 - bits - n) & 0xffffffffu << (32 - bits));
}

/* That whose bits are the greater integer: of magnitudes the greater number, of which NaN is the greatest. */
INGOT_INLINE f32x1 f32x1_greater(f32x1 a, f32x1 b)
{
    return (int32_t)f32x1_bits(a) > (int32_t)f32x1_bits(b) ? a : b;
}

/* -std=c99 forbids the compiler to contract a * b + c, so ask for it where it is one instruction; a library call
 * for fmaf would be a hundred times slower than two roundings. */
INGOT_INLINE f32x1 f32x1_fma(f32x1 a, f32x1 b, f32x1 c)
{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || (defined(__GNUC__) && defined(__FP_FAST_FMAF))
    return __builtin_fmaf(a, b, c);
#elif defined(FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* May become a call of libm's sqrtf: link with -lm, or compile with -fno-math-errno. */
INGOT_INLINE f32x1 f32x1_sqrt(f32x1 a) { return sqrtf(a); }

/* To the nearest integer, ties to even. Beyond 2^23 every float is an integer; below, adding 2^23 rounds. */
INGOT_INLINE f32x1 f32x1_round(f32x1 a)
{
#if defined(__SSE4_1__) || defined(__aarch64__)
    return __builtin_rintf(a);
#else
    const float magnitude = f32x1_abs(a);
    const float above = magnitude + 8388608.0f; /* rounded to a float, where expressions are of doubles (s390x) too */
    return f32x1_blend(magnitude < 8388608.0f, f32x1_copysign(above - 8388608.0f, a), a);
#endif
}

INGOT_INLINE f32x1 f32x1_floor(f32x1 a)
{
#if defined(__SSE4_1__) || defined(__aarch64__)
    return __builtin_floorf(a);
#else
    const float rounded = f32x1_round(a);
    return rounded - f32x1_blend(rounded > a, 1.0f, 0.0f);
#endif
}

/* a * 2^n for an integral n in [-252, 254], in two factors, since 2^n itself may not be a float: rounded once when a
 * is near 1. Adding 1.5 * 2^23 leaves n in the low bits, without the undefined conversion of a NaN to an integer. */
INGOT_INLINE f32x1 f32x1_ldexp(f32x1 a, f32x1 n)
{
    const uint32_t biased = f32x1_bits(n + 12582912.0f) - 0x4b400000u + 254u;
    const uint32_t half = biased >> 1;
    return a * f32x1_from_bits(half << 23) * f32x1_from_bits((biased - half) << 23);
}

/* 2^n of a = n + 12583039, which is 1.5 * 2^23 + 127: its low bits are the exponent of 2^n. n is integral, in
 * [-127, 128]; the ends give 0 and infinity. */
INGOT_INLINE f32x1 f32x1_power(f32x1 a) { return f32x1_from_bits(f32x1_bits(a) << 23); }

/* A positive normal a is mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)); other a give an unspecified
 * number. 0x3f3504f3 is sqrt(1/2). */
INGOT_INLINE f32x1 f32x1_exponent(f32x1 a)
{
    return (float)(int32_t)((f32x1_bits(a) + (0x3f800000u - 0x3f3504f3u)) >> 23) - 127.0f;
}

INGOT_INLINE f32x1 f32x1_mantissa(f32x1 a)
{
    const uint32_t shifted = f32x1_bits(a) + (0x3f800000u - 0x3f3504f3u);
    return f32x1_from_bits(f32x1_bits(a) - (shifted & 0xff800000u) + 0x3f800000u);
}

INGOT_SIMD_MATH(f32x1)

#endif /* INGOT_SIMD_LANE_H */
