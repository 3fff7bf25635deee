/* simd/avx2.h: f32x8 as one AVX register; needs AVX2 and FMA. */
#ifndef INGOT_SIMD_AVX2_H
#define INGOT_SIMD_AVX2_H

#include <immintrin.h>

typedef __m256 f32x8;

INGOT_INLINE __m256i f32x8_mask_n(ptrdiff_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INGOT_INLINE f32x8 f32x8_set1(float x) { return _mm256_set1_ps(x); }
INGOT_INLINE f32x8 f32x8_load(const float *p) { return _mm256_loadu_ps(p); }
INGOT_INLINE void f32x8_store(float *p, f32x8 a) { _mm256_storeu_ps(p, a); }

INGOT_INLINE f32x8 f32x8_held(f32x8 a) { INGOT_HOLD("+x", a); return a; }

INGOT_INLINE f32x8 f32x8_load_n(const float *p, ptrdiff_t n) { return _mm256_maskload_ps(p, f32x8_mask_n(n)); }
INGOT_INLINE void f32x8_store_n(float *p, ptrdiff_t n, f32x8 a) { _mm256_maskstore_ps(p, f32x8_mask_n(n), a); }

INGOT_INLINE f32x8 f32x8_first_n(f32x8 a, f32x8 b, ptrdiff_t n)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(f32x8_mask_n(n)));
}

INGOT_INLINE f32x8 f32x8_load_strided(const float *p, ptrdiff_t s)
{
    return _mm256_setr_ps(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s]);
}

INGOT_INLINE void f32x8_store_strided(float *p, ptrdiff_t s, f32x8 a)
{
    float lanes[8];
    _mm256_storeu_ps(lanes, a);
    for (int l = 0; l < 8; ++l) p[l * s] = lanes[l];
}

INGOT_INLINE f32x8 f32x8_evens(f32x8 a, f32x8 b, int32_t w)
{
    switch (w) {
    case 1: return _mm256_blend_ps(a, _mm256_moveldup_ps(b), 0xAA);
    case 2: return _mm256_shuffle_ps(a, b, 0x44);
    default: return _mm256_permute2f128_ps(a, b, 0x20);
    }
}

INGOT_INLINE f32x8 f32x8_odds(f32x8 a, f32x8 b, int32_t w)
{
    switch (w) {
    case 1: return _mm256_blend_ps(_mm256_movehdup_ps(a), b, 0xAA);
    case 2: return _mm256_shuffle_ps(a, b, 0xEE);
    default: return _mm256_permute2f128_ps(a, b, 0x31);
    }
}

INGOT_INLINE f32x8 f32x8_add(f32x8 a, f32x8 b) { return _mm256_add_ps(a, b); }
INGOT_INLINE f32x8 f32x8_sub(f32x8 a, f32x8 b) { return _mm256_sub_ps(a, b); }
INGOT_INLINE f32x8 f32x8_mul(f32x8 a, f32x8 b) { return _mm256_mul_ps(a, b); }
INGOT_INLINE f32x8 f32x8_div(f32x8 a, f32x8 b) { return _mm256_div_ps(a, b); }
INGOT_INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c) { return _mm256_fmadd_ps(a, b, c); }
#if defined(__GNUC__)
/* Gcc puts sums where a factor was: where 12 to 14 of 16 registers are sums, these soon lie on the stack. */
INGOT_INLINE f32x8 f32x8_accumulate(f32x8 a, f32x8 b, f32x8 c)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
#define INGOT_HAS_F32X8_ACCUMULATE 1
#endif
INGOT_INLINE f32x8 f32x8_min(f32x8 a, f32x8 b) { return _mm256_min_ps(a, b); }
INGOT_INLINE f32x8 f32x8_max(f32x8 a, f32x8 b) { return _mm256_max_ps(a, b); }
/* All bits set are a NaN. */
INGOT_INLINE f32x8 f32x8_minimum(f32x8 a, f32x8 b)
{
    return _mm256_or_ps(_mm256_min_ps(b, a), _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

INGOT_INLINE f32x8 f32x8_maximum(f32x8 a, f32x8 b)
{
    return _mm256_or_ps(_mm256_max_ps(b, a), _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

INGOT_INLINE f32x8 f32x8_clamp(f32x8 a, f32x8 lo, f32x8 hi) { return f32x8_max(lo, f32x8_min(hi, a)); }
INGOT_INLINE f32x8 f32x8_neg(f32x8 a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
INGOT_INLINE f32x8 f32x8_abs(f32x8 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INGOT_INLINE f32x8 f32x8_sqrt(f32x8 a) { return _mm256_sqrt_ps(a); }

INGOT_INLINE f32x8 f32x8_round(f32x8 a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INGOT_INLINE f32x8 f32x8_floor(f32x8 a) { return _mm256_floor_ps(a); }

INGOT_INLINE f32x8 f32x8_copysign(f32x8 a, f32x8 sign)
{
    return _mm256_or_ps(f32x8_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

INGOT_X86_FIXED(f32x8, _mm256, __m256i, si256, int)

/* As f32x1_top_bits; of two bits from a table, whose index is the lowest ones of a lane. */
INGOT_X86_TOP_BITS(f32x8_any, f32x8, _mm256, si256, int)
INGOT_INLINE f32x8 f32x8_top_bits(f32x8 a, int32_t n, int32_t bits)
{
    const f32x8 two = _mm256_setr_ps(0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f, 0x0p30f, 0x1p30f, -0x2p30f, -0x1p30f);
    if (bits == 2) return _mm256_permutevar8x32_ps(two, _mm256_srli_epi32(_mm256_castps_si256(a), n));
    return f32x8_any_top_bits(a, n, bits);
}

/* As f32x1_ldexp, f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x8 f32x8_ldexp(f32x8 a, f32x8 n)
{
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(254));
    const __m256i half = _mm256_srli_epi32(biased, 1);
    const __m256i rest = _mm256_sub_epi32(biased, half);
    a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(half, 23)));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

INGOT_INLINE f32x8 f32x8_power(f32x8 a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}

INGOT_INLINE __m256i f32x8_shifted_bits(f32x8 a)
{
    return _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(0x3f800000 - 0x3f3504f3));
}

INGOT_INLINE f32x8 f32x8_exponent(f32x8 a)
{
    const __m256i biased = _mm256_srli_epi32(f32x8_shifted_bits(a), 23);
    return _mm256_sub_ps(_mm256_cvtepi32_ps(biased), _mm256_set1_ps(127.0f));
}

INGOT_INLINE f32x8 f32x8_mantissa(f32x8 a)
{
    const __m256i power = _mm256_and_si256(f32x8_shifted_bits(a), _mm256_set1_epi32(-0x800000));
    const __m256i scale = _mm256_sub_epi32(power, _mm256_set1_epi32(0x3f800000));
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), scale));
}

INGOT_INLINE f32x8 f32x8_select_lt(f32x8 a, f32x8 b, f32x8 x, f32x8 y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

INGOT_INLINE f32x8 f32x8_select_le(f32x8 a, f32x8 b, f32x8 x, f32x8 y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LE_OQ));
}

INGOT_INLINE f32x8 f32x8_select_eq(f32x8 a, f32x8 b, f32x8 x, f32x8 y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}

INGOT_INLINE f32x4 f32x8_lo(f32x8 a) { return _mm256_castps256_ps128(a); }
INGOT_INLINE f32x4 f32x8_hi(f32x8 a) { return _mm256_extractf128_ps(a, 1); }
INGOT_INLINE float f32x8_reduce_add(f32x8 a) { return f32x4_reduce_add(f32x4_add(f32x8_lo(a), f32x8_hi(a))); }
INGOT_INLINE float f32x8_reduce_min(f32x8 a) { return f32x4_reduce_min(f32x4_minimum(f32x8_lo(a), f32x8_hi(a))); }
INGOT_INLINE float f32x8_reduce_max(f32x8 a) { return f32x4_reduce_max(f32x4_maximum(f32x8_lo(a), f32x8_hi(a))); }

INGOT_INLINE f32x8 f32x8_greater(f32x8 a, f32x8 b)
{
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

INGOT_INLINE float f32x8_reduce_greater(f32x8 a)
{
    return f32x4_reduce_greater(f32x4_greater(f32x8_lo(a), f32x8_hi(a)));
}

INGOT_SIMD_MATH(f32x8)

#endif /* INGOT_SIMD_AVX2_H */
