/* simd/avx512.h: f32x16 as one AVX-512 register. Uses AVX512F only, so bitwise operations go through integers. */
#ifndef INGOT_SIMD_AVX512_H
#define INGOT_SIMD_AVX512_H

#include <immintrin.h>

typedef __m512 f32x16;

INGOT_INLINE __mmask16 f32x16_mask_n(ptrdiff_t n) { return (__mmask16)((1u << n) - 1u); }
INGOT_INLINE __m512i f32x16_bits(f32x16 a) { return _mm512_castps_si512(a); }
INGOT_INLINE f32x16 f32x16_from_bits(__m512i u) { return _mm512_castsi512_ps(u); }

INGOT_INLINE f32x16 f32x16_set1(float x) { return _mm512_set1_ps(x); }
INGOT_INLINE f32x16 f32x16_load(const float *p) { return _mm512_loadu_ps(p); }
INGOT_INLINE void f32x16_store(float *p, f32x16 a) { _mm512_storeu_ps(p, a); }

INGOT_INLINE f32x16 f32x16_held(f32x16 a) { INGOT_HOLD("+v", a); return a; }

INGOT_INLINE f32x16 f32x16_load_n(const float *p, ptrdiff_t n) { return _mm512_maskz_loadu_ps(f32x16_mask_n(n), p); }
INGOT_INLINE void f32x16_store_n(float *p, ptrdiff_t n, f32x16 a) { _mm512_mask_storeu_ps(p, f32x16_mask_n(n), a); }
INGOT_INLINE f32x16 f32x16_first_n(f32x16 a, f32x16 b, ptrdiff_t n)
{
    return _mm512_mask_blend_ps(f32x16_mask_n(n), b, a);
}

/* Sixteen loads: the gather instruction is slower on half of the machines, and limits the stride to 2^27. */
INGOT_INLINE f32x16 f32x16_load_strided(const float *p, ptrdiff_t s)
{
    return _mm512_setr_ps(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s], p[8 * s], p[9 * s],
                          p[10 * s], p[11 * s], p[12 * s], p[13 * s], p[14 * s], p[15 * s]);
}

INGOT_INLINE void f32x16_store_strided(float *p, ptrdiff_t s, f32x16 a)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, a);
    for (int l = 0; l < 16; ++l) p[l * s] = lanes[l];
}

INGOT_INLINE f32x16 f32x16_evens(f32x16 a, f32x16 b, int32_t w)
{
    switch (w) {
    case 1: return _mm512_mask_moveldup_ps(a, 0xAAAA, b);
    case 2: return _mm512_shuffle_ps(a, b, 0x44);
    case 4: return _mm512_mask_shuffle_f32x4(a, 0xF0F0, b, b, 0xA0);
    default: return _mm512_shuffle_f32x4(a, b, 0x44);
    }
}

INGOT_INLINE f32x16 f32x16_odds(f32x16 a, f32x16 b, int32_t w)
{
    switch (w) {
    case 1: return _mm512_mask_movehdup_ps(b, 0x5555, a);
    case 2: return _mm512_shuffle_ps(a, b, 0xEE);
    case 4: return _mm512_mask_shuffle_f32x4(b, 0x0F0F, a, a, 0xF5);
    default: return _mm512_shuffle_f32x4(a, b, 0xEE);
    }
}

INGOT_INLINE f32x16 f32x16_add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
INGOT_INLINE f32x16 f32x16_sub(f32x16 a, f32x16 b) { return _mm512_sub_ps(a, b); }
INGOT_INLINE f32x16 f32x16_mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
INGOT_INLINE f32x16 f32x16_div(f32x16 a, f32x16 b) { return _mm512_div_ps(a, b); }
INGOT_INLINE f32x16 f32x16_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
INGOT_INLINE f32x16 f32x16_min(f32x16 a, f32x16 b) { return _mm512_min_ps(a, b); }
INGOT_INLINE f32x16 f32x16_max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); }
/* b where it is a NaN, else the instruction's choice, which is the second operand where that is one. */
INGOT_INLINE f32x16 f32x16_minimum(f32x16 a, f32x16 b)
{
    return _mm512_mask_min_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}

INGOT_INLINE f32x16 f32x16_maximum(f32x16 a, f32x16 b)
{
    return _mm512_mask_max_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}

INGOT_INLINE f32x16 f32x16_clamp(f32x16 a, f32x16 lo, f32x16 hi) { return f32x16_max(lo, f32x16_min(hi, a)); }
INGOT_INLINE f32x16 f32x16_sqrt(f32x16 a) { return _mm512_sqrt_ps(a); }
INGOT_INLINE f32x16 f32x16_floor(f32x16 a) { return _mm512_floor_ps(a); }
INGOT_INLINE f32x16 f32x16_ldexp(f32x16 a, f32x16 n) { return _mm512_scalef_ps(a, n); }

/* Without optimization gcc's intrinsic is a macro that hands the mask 0xffff to a signed parameter. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
INGOT_INLINE f32x16 f32x16_round(f32x16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

INGOT_INLINE f32x16 f32x16_neg(f32x16 a)
{
    return f32x16_from_bits(_mm512_xor_si512(f32x16_bits(a), _mm512_set1_epi32(INT32_MIN)));
}

INGOT_INLINE f32x16 f32x16_abs(f32x16 a)
{
    return f32x16_from_bits(_mm512_and_si512(f32x16_bits(a), _mm512_set1_epi32(INT32_MAX)));
}

/* As f32x1_fixed; one instruction for the bits of both where there is one, by a constant. */
#if defined(__AVX512VBMI2__)
#define INGOT_FROM_BIT(n)                                                                                              \
    case n: bits = _mm512_shldi_epi32(bits, f32x16_bits(b), n); break
INGOT_INLINE f32x16 f32x16_fixed(f32x16 a, f32x16 b, int32_t n)
{
    __m512i bits = f32x16_bits(a);
    switch (n) {
        INGOT_FROM_BIT(4);
        INGOT_FROM_BIT(8);
        INGOT_FROM_BIT(12);
        INGOT_FROM_BIT(16);
        INGOT_FROM_BIT(20);
        INGOT_FROM_BIT(24);
        INGOT_FROM_BIT(28);
    }
    return _mm512_cvtepi32_ps(bits);
}
#undef INGOT_FROM_BIT
#else
INGOT_X86_FIXED(f32x16, _mm512, __m512i, si512, unsigned)
#endif

/* As f32x1_top_bits; of four and of two bits from a table, whose index is the lowest ones of a lane. */
INGOT_X86_TOP_BITS(f32x16_any, f32x16, _mm512, si512, unsigned)
INGOT_INLINE f32x16 f32x16_top_bits(f32x16 a, int32_t n, int32_t bits)
{
    const f32x16 four = _mm512_setr_ps(0x0p28f, 0x1p28f, 0x2p28f, 0x3p28f, 0x4p28f, 0x5p28f, 0x6p28f, 0x7p28f,
                                       -0x8p28f, -0x7p28f, -0x6p28f, -0x5p28f, -0x4p28f, -0x3p28f, -0x2p28f, -0x1p28f);
    const f32x16 two = _mm512_setr_ps(0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f, 0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f,
                                      0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f, 0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f);
    if (bits != 4 && bits != 2) return f32x16_any_top_bits(a, n, bits);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(f32x16_bits(a), (unsigned)n), bits == 4 ? four : two);
}

INGOT_INLINE f32x16 f32x16_copysign(f32x16 a, f32x16 sign)
{
    const __m512i bit = _mm512_and_si512(f32x16_bits(sign), _mm512_set1_epi32(INT32_MIN));
    return f32x16_from_bits(_mm512_or_si512(f32x16_bits(f32x16_abs(a)), bit));
}

/* As f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x16 f32x16_power(f32x16 a) { return f32x16_from_bits(_mm512_slli_epi32(f32x16_bits(a), 23)); }

INGOT_INLINE __m512i f32x16_shifted_bits(f32x16 a)
{
    return _mm512_add_epi32(f32x16_bits(a), _mm512_set1_epi32(0x3f800000 - 0x3f3504f3));
}

INGOT_INLINE f32x16 f32x16_exponent(f32x16 a)
{
    const __m512i biased = _mm512_srli_epi32(f32x16_shifted_bits(a), 23);
    return _mm512_sub_ps(_mm512_cvtepi32_ps(biased), _mm512_set1_ps(127.0f));
}

INGOT_INLINE f32x16 f32x16_mantissa(f32x16 a)
{
    const __m512i power = _mm512_and_si512(f32x16_shifted_bits(a), _mm512_set1_epi32(-0x800000));
    const __m512i scale = _mm512_sub_epi32(power, _mm512_set1_epi32(0x3f800000));
    return f32x16_from_bits(_mm512_sub_epi32(f32x16_bits(a), scale));
}

INGOT_INLINE f32x16 f32x16_select_lt(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

INGOT_INLINE f32x16 f32x16_select_le(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ), y, x);
}

INGOT_INLINE f32x16 f32x16_select_eq(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), y, x);
}

INGOT_INLINE float f32x16_reduce_add(f32x16 a) { return _mm512_reduce_add_ps(a); }
INGOT_INLINE float f32x16_reduce_min(f32x16 a)
{
    a = f32x16_minimum(a, _mm512_shuffle_f32x4(a, a, 0x4E));
    return f32x4_reduce_min(f32x4_minimum(_mm512_castps512_ps128(a), _mm512_extractf32x4_ps(a, 1)));
}
INGOT_INLINE float f32x16_reduce_max(f32x16 a)
{
    a = f32x16_maximum(a, _mm512_shuffle_f32x4(a, a, 0x4E));
    return f32x4_reduce_max(f32x4_maximum(_mm512_castps512_ps128(a), _mm512_extractf32x4_ps(a, 1)));
}

INGOT_INLINE f32x16 f32x16_greater(f32x16 a, f32x16 b)
{
    return f32x16_from_bits(_mm512_max_epi32(f32x16_bits(a), f32x16_bits(b)));
}

INGOT_INLINE float f32x16_reduce_greater(f32x16 a)
{
    return f32x1_from_bits((uint32_t)_mm512_reduce_max_epi32(f32x16_bits(a)));
}

INGOT_SIMD_MATH(f32x16)

#endif /* INGOT_SIMD_AVX512_H */
