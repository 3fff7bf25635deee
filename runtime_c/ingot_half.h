/* ingot_half.h: floats of 16 bits and fewer, kept as the unsigned integers of their bits: bf16 (bfloat16), f16 (IEEE
 * binary16), e4m3 (float8_e4m3fn: no infinity), e5m2 (float8_e5m2), e4m3fnuz and e5m2fnuz (no infinity, no negative
 * zero, one NaN), e8m0 (powers of two, no zero and no sign) and e2m1 (float4_e2m1fn: no infinity, no NaN).
 *
 * Widening is exact. Narrowing rounds to the nearest, ties to even; what is too large becomes an infinity, in formats
 * without one a NaN, in e2m1 the greatest number; a NaN stays one, with its sign where the format has that, in e2m1 it
 * is -0. No function has a branch, so a loop over them can be vectorized. */
#ifndef INGOT_HALF_H
#define INGOT_HALF_H

#include "ingot_math.h"

/* A type of gcc's and clang's that an instruction converts. */
#if defined(__aarch64__) && defined(__ARM_FP16_FORMAT_IEEE) && defined(__GNUC__)
#define INGOT_HAS_FP16 1
#endif

INGOT_INLINE uint32_t ingot_select_u32(int condition, uint32_t x, uint32_t y)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return (x & mask) | (y & ~mask);
}

/* The float whose sign is bit `bits - 1` of h, then the exponent, of which 1 means 2^least, then `mantissa` bits.
 * Magnitudes from `special` on are infinities and NaN. */
INGOT_INLINE float ingot_widen(uint32_t h, int bits, int mantissa, int least, uint32_t special)
{
    const uint32_t magnitude = h & ((1u << (bits - 1)) - 1u), sign = (h >> (bits - 1)) << 31;
    const uint32_t shifted = magnitude << (23 - mantissa);
    const float unit = f32x1_from_bits((uint32_t)(least - mantissa + 127) << 23);
    const uint32_t small = f32x1_bits((float)(int32_t)magnitude * unit);
    const uint32_t normal = shifted + ((uint32_t)(least + 126) << 23);
    const uint32_t finite = ingot_select_u32(magnitude >> mantissa == 0, small, normal);
    return f32x1_from_bits(ingot_select_u32(magnitude >= special, shifted | 0x7f800000u, finite) | sign);
}

/* The inverse: `top` is what too large magnitudes become. */
INGOT_INLINE uint32_t ingot_narrow(float x, int bits, int mantissa, int least, uint32_t top, uint32_t nan)
{
    const int shift = 23 - mantissa;
    const uint32_t u = f32x1_bits(x), magnitude = u & 0x7fffffffu, sign = (u >> 31) << (bits - 1);
    const uint32_t even = (magnitude >> shift) & 1u, half = (1u << (shift - 1)) - 1u;
    const uint32_t normal = (magnitude + half + even - ((uint32_t)(least + 126) << 23)) >> shift;
    /* the sum of a small number and one whose last bit is the unit is rounded to that unit */
    const uint32_t unit = (uint32_t)(least - mantissa + 23 + 127) << 23;
    const uint32_t small = f32x1_bits(f32x1_from_bits(magnitude) + f32x1_from_bits(unit)) - unit;
    const uint32_t finite = ingot_select_u32(normal > top, top, normal);
    const uint32_t number = ingot_select_u32(magnitude < (uint32_t)(least + 127) << 23, small, finite);
    const uint32_t exact = ingot_select_u32(magnitude == 0x7f800000u, top, number);
    return ingot_select_u32(magnitude > 0x7f800000u, nan, exact) | sign;
}

INGOT_INLINE float ingot_bf16_to_f32(uint16_t h) { return f32x1_from_bits((uint32_t)h << 16); }
INGOT_INLINE float ingot_f16_to_f32(uint16_t h)
{
#if defined(__CUDA_ARCH__) /* one instruction there */
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
#elif defined(INGOT_HAS_FP16)
    __fp16 x;
    memcpy(&x, &h, sizeof x);
    return (float)x;
#else
    return ingot_widen(h, 16, 10, -14, 0x7c00u);
#endif
}
INGOT_INLINE float ingot_e4m3_to_f32(uint8_t h) /* its one NaN becomes the usual one */
{
    const uint32_t number = f32x1_bits(ingot_widen(h, 8, 3, -6, 0x80u)), sign = (uint32_t)(h >> 7) << 31;
    return f32x1_from_bits(ingot_select_u32((h & 0x7fu) == 0x7fu, 0x7fc00000u | sign, number));
}
INGOT_INLINE float ingot_e5m2_to_f32(uint8_t h) { return ingot_widen(h, 8, 2, -14, 0x7cu); }

INGOT_INLINE uint16_t ingot_f32_to_bf16(float x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const uint32_t u = f32x1_bits(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)ingot_select_u32((u & 0x7fffffffu) > 0x7f800000u, (u >> 16) | 0x40u, rounded);
#endif
}
INGOT_INLINE uint16_t ingot_f32_to_f16(float x)
{
#if defined(__CUDA_ARCH__)
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#elif defined(INGOT_HAS_FP16)
    const __fp16 rounded = (__fp16)x;
    uint16_t h;
    memcpy(&h, &rounded, sizeof h);
    return h;
#else
    return (uint16_t)ingot_narrow(x, 16, 10, -14, 0x7c00u, 0x7e00u);
#endif
}
INGOT_INLINE uint8_t ingot_f32_to_e4m3(float x) { return (uint8_t)ingot_narrow(x, 8, 3, -6, 0x7fu, 0x7fu); }
INGOT_INLINE uint8_t ingot_f32_to_e5m2(float x) { return (uint8_t)ingot_narrow(x, 8, 2, -14, 0x7cu, 0x7eu); }

/* The formats of 8 bits whose only NaN has the bits of a negative zero. */
INGOT_INLINE float ingot_widen_fnuz(uint32_t h, int mantissa, int least)
{
    const uint32_t number = f32x1_bits(ingot_widen(h, 8, mantissa, least, 0x80u));
    return f32x1_from_bits(ingot_select_u32(h == 0x80u, 0xffc00000u, number));
}

INGOT_INLINE uint8_t ingot_narrow_fnuz(float x, int mantissa, int least)
{
    const uint32_t u = f32x1_bits(x), sign = (u >> 31) << 7;
    const uint32_t magnitude = ingot_narrow(f32x1_from_bits(u & 0x7fffffffu), 8, mantissa, least, 0x80u, 0x80u);
    return (uint8_t)(magnitude | ingot_select_u32(magnitude == 0, 0, sign));
}

INGOT_INLINE float ingot_e4m3fnuz_to_f32(uint8_t h) { return ingot_widen_fnuz(h, 3, -7); }
INGOT_INLINE float ingot_e5m2fnuz_to_f32(uint8_t h) { return ingot_widen_fnuz(h, 2, -15); }
INGOT_INLINE float ingot_e2m1_to_f32(uint8_t h) { return ingot_widen(h & 15u, 4, 1, 0, 8u); }
INGOT_INLINE uint8_t ingot_f32_to_e4m3fnuz(float x) { return ingot_narrow_fnuz(x, 3, -7); }
INGOT_INLINE uint8_t ingot_f32_to_e5m2fnuz(float x) { return ingot_narrow_fnuz(x, 2, -15); }
INGOT_INLINE uint8_t ingot_f32_to_e2m1(float x) { return (uint8_t)ingot_narrow(x, 4, 1, 0, 7u, 8u); }

INGOT_INLINE float ingot_e8m0_to_f32(uint8_t h)
{
    const uint32_t number = ingot_select_u32(h == 0, 0x00400000u, (uint32_t)h << 23);
    return f32x1_from_bits(ingot_select_u32(h == 255, 0x7fc00000u, number));
}

INGOT_INLINE uint8_t ingot_f32_to_e8m0(float x)
{
    const uint32_t u = f32x1_bits(x);
    const uint32_t number = ingot_select_u32(u < 0x00600000u, 0u, (u + 0x00400000u) >> 23); /* ties are doubled */
    return (uint8_t)ingot_select_u32(u == 0 || u >= 0x7f400000u, 255u, number); /* also of negative numbers */
}

/* A double as a float that rounds further down as the double itself would: inexact ones get an odd last bit. */
INGOT_INLINE float ingot_f64_to_odd(double x)
{
    const float nearest = (float)x;
    const uint32_t u = f32x1_bits(nearest);
    const int inexact = x < (double)nearest || x > (double)nearest;
    const int outside = (x > 0.0 && x < (double)nearest) || (x < 0.0 && x > (double)nearest);
    return f32x1_from_bits(inexact ? (u - (uint32_t)outside) | 1u : u); /* one less in bits is nearer to 0 */
}

#endif /* INGOT_HALF_H */
