/* simd/sse.h: f32x4 as one SSE register. SSE2 is enough; SSE4.1 and FMA are used where they are there. */
#ifndef INGOT_SIMD_SSE_H
#define INGOT_SIMD_SSE_H

#include <immintrin.h>

typedef __m128 f32x4;

INGOT_INLINE f32x4 f32x4_set1(float x) { return _mm_set1_ps(x); }
INGOT_INLINE f32x4 f32x4_load(const float *p) { return _mm_loadu_ps(p); }
INGOT_INLINE void f32x4_store(float *p, f32x4 a) { _mm_storeu_ps(p, a); }

INGOT_INLINE f32x4 f32x4_held(f32x4 a) { INGOT_HOLD("+x", a); return a; }

INGOT_INLINE f32x4 f32x4_load_n(const float *p, ptrdiff_t n)
{
    return _mm_setr_ps(n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f);
}

INGOT_INLINE void f32x4_store_strided(float *p, ptrdiff_t s, f32x4 a)
{
    float lanes[4];
    _mm_storeu_ps(lanes, a);
    for (int l = 0; l < 4; ++l) p[l * s] = lanes[l];
}

INGOT_INLINE void f32x4_store_n(float *p, ptrdiff_t n, f32x4 a)
{
    float lanes[4];
    _mm_storeu_ps(lanes, a);
    for (int l = 0; l < 4; ++l)
        if (l < n) p[l] = lanes[l];
}

INGOT_INLINE f32x4 f32x4_first_n(f32x4 a, f32x4 b, ptrdiff_t n)
{
    float lanes[4];
    _mm_storeu_ps(lanes, b);
    f32x4_store_n(lanes, n, a);
    return _mm_loadu_ps(lanes);
}

INGOT_INLINE f32x4 f32x4_load_strided(const float *p, ptrdiff_t s)
{
    return _mm_setr_ps(p[0], p[s], p[2 * s], p[3 * s]);
}

INGOT_INLINE f32x4 f32x4_evens(f32x4 a, f32x4 b, int32_t w)
{
    const f32x4 ab = _mm_shuffle_ps(a, b, 0x88);
    return w == 1 ? _mm_shuffle_ps(ab, ab, 0xD8) : _mm_movelh_ps(a, b);
}

INGOT_INLINE f32x4 f32x4_odds(f32x4 a, f32x4 b, int32_t w)
{
    const f32x4 ab = _mm_shuffle_ps(a, b, 0xDD);
    return w == 1 ? _mm_shuffle_ps(ab, ab, 0xD8) : _mm_movehl_ps(b, a);
}

INGOT_INLINE f32x4 f32x4_add(f32x4 a, f32x4 b) { return _mm_add_ps(a, b); }
INGOT_INLINE f32x4 f32x4_sub(f32x4 a, f32x4 b) { return _mm_sub_ps(a, b); }
INGOT_INLINE f32x4 f32x4_mul(f32x4 a, f32x4 b) { return _mm_mul_ps(a, b); }
INGOT_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b) { return _mm_div_ps(a, b); }
INGOT_INLINE f32x4 f32x4_min(f32x4 a, f32x4 b) { return _mm_min_ps(a, b); }
INGOT_INLINE f32x4 f32x4_max(f32x4 a, f32x4 b) { return _mm_max_ps(a, b); }
/* All bits set are a NaN. */
INGOT_INLINE f32x4 f32x4_minimum(f32x4 a, f32x4 b) { return _mm_or_ps(_mm_min_ps(b, a), _mm_cmpunord_ps(b, b)); }
INGOT_INLINE f32x4 f32x4_maximum(f32x4 a, f32x4 b) { return _mm_or_ps(_mm_max_ps(b, a), _mm_cmpunord_ps(b, b)); }
INGOT_INLINE f32x4 f32x4_clamp(f32x4 a, f32x4 lo, f32x4 hi) { return f32x4_max(lo, f32x4_min(hi, a)); }
INGOT_INLINE f32x4 f32x4_neg(f32x4 a) { return _mm_xor_ps(a, _mm_set1_ps(-0.0f)); }
INGOT_INLINE f32x4 f32x4_abs(f32x4 a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
INGOT_INLINE f32x4 f32x4_sqrt(f32x4 a) { return _mm_sqrt_ps(a); }

INGOT_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
#if defined(__FMA__)
    return _mm_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(_mm_mul_ps(a, b), c);
#endif
}

INGOT_INLINE f32x4 f32x4_copysign(f32x4 a, f32x4 sign)
{
    return _mm_or_ps(f32x4_abs(a), _mm_and_ps(_mm_set1_ps(-0.0f), sign));
}

/* As f32x1_fixed, of vectors T: M is the prefix of their intrinsics, I the type of their bits, S what these call it, N
 * the type of a count. A shift by 32 leaves nothing. */
#define INGOT_X86_FIXED(T, M, I, S, N)                                                                                 \
    INGOT_INLINE T T##_fixed(T a, T b, int32_t n)                                                                      \
    {                                                                                                                  \
        const I first = M##_slli_epi32(M##_castps_##S(a), (N)n);                                                       \
        const I second = M##_srli_epi32(M##_castps_##S(b), (N)(32 - n));                                               \
        return M##_cvtepi32_ps(M##_or_##S(first, second));                                                             \
    }

INGOT_X86_FIXED(f32x4, _mm, __m128i, si128, int)

/* As f32x1_top_bits: shifts take more of the time than what cuts bits off. */
#define INGOT_X86_TOP_BITS(name, T, M, S, N)                                                                           \
    INGOT_INLINE T name##_top_bits(T a, int32_t n, int32_t bits)                                                       \
    {                                                                                                                  \
        return M##_cvtepi32_ps(M##_and_##S(M##_slli_epi32(M##_castps_##S(a), (N)(32 - bits - n)),                      \
                                           M##_set1_epi32((int32_t)(0xffffffffu << (32 - bits)))));                    \
    }

INGOT_X86_TOP_BITS(f32x4, f32x4, _mm, si128, int)

INGOT_INLINE f32x4 f32x4_blend(__m128 mask, f32x4 x, f32x4 y)
{
#if defined(__SSE4_1__)
    return _mm_blendv_ps(y, x, mask);
#else
    return _mm_or_ps(_mm_and_ps(mask, x), _mm_andnot_ps(mask, y));
#endif
}

INGOT_INLINE f32x4 f32x4_greater(f32x4 a, f32x4 b)
{
#if defined(__SSE4_1__)
    return _mm_castsi128_ps(_mm_max_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
#else
    return f32x4_blend(_mm_castsi128_ps(_mm_cmpgt_epi32(_mm_castps_si128(a), _mm_castps_si128(b))), a, b);
#endif
}

INGOT_INLINE f32x4 f32x4_select_lt(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return f32x4_blend(_mm_cmplt_ps(a, b), x, y);
}

INGOT_INLINE f32x4 f32x4_select_le(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return f32x4_blend(_mm_cmple_ps(a, b), x, y);
}

INGOT_INLINE f32x4 f32x4_select_eq(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return f32x4_blend(_mm_cmpeq_ps(a, b), x, y);
}

/* As f32x1_round and f32x1_floor. */
INGOT_INLINE f32x4 f32x4_round(f32x4 a)
{
#if defined(__SSE4_1__)
    return _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const f32x4 two23 = _mm_set1_ps(8388608.0f), magnitude = f32x4_abs(a);
    const f32x4 rounded = f32x4_copysign(_mm_sub_ps(_mm_add_ps(magnitude, two23), two23), a);
    return f32x4_select_lt(magnitude, two23, rounded, a);
#endif
}

INGOT_INLINE f32x4 f32x4_floor(f32x4 a)
{
#if defined(__SSE4_1__)
    return _mm_floor_ps(a);
#else
    const f32x4 rounded = f32x4_round(a);
    return _mm_sub_ps(rounded, _mm_and_ps(_mm_cmplt_ps(a, rounded), _mm_set1_ps(1.0f)));
#endif
}

/* As f32x1_ldexp, f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x4 f32x4_ldexp(f32x4 a, f32x4 n)
{
    const __m128i biased = _mm_add_epi32(_mm_cvtps_epi32(n), _mm_set1_epi32(254));
    const __m128i half = _mm_srli_epi32(biased, 1);
    const __m128i rest = _mm_sub_epi32(biased, half);
    a = _mm_mul_ps(a, _mm_castsi128_ps(_mm_slli_epi32(half, 23)));
    return _mm_mul_ps(a, _mm_castsi128_ps(_mm_slli_epi32(rest, 23)));
}

INGOT_INLINE f32x4 f32x4_power(f32x4 a) { return _mm_castsi128_ps(_mm_slli_epi32(_mm_castps_si128(a), 23)); }

INGOT_INLINE __m128i f32x4_shifted_bits(f32x4 a)
{
    return _mm_add_epi32(_mm_castps_si128(a), _mm_set1_epi32(0x3f800000 - 0x3f3504f3));
}

INGOT_INLINE f32x4 f32x4_exponent(f32x4 a)
{
    const __m128i biased = _mm_srli_epi32(f32x4_shifted_bits(a), 23);
    return _mm_sub_ps(_mm_cvtepi32_ps(biased), _mm_set1_ps(127.0f));
}

INGOT_INLINE f32x4 f32x4_mantissa(f32x4 a)
{
    const __m128i power = _mm_and_si128(f32x4_shifted_bits(a), _mm_set1_epi32(-0x800000));
    const __m128i scale = _mm_sub_epi32(power, _mm_set1_epi32(0x3f800000));
    return _mm_castsi128_ps(_mm_sub_epi32(_mm_castps_si128(a), scale));
}

/* Lanes 2, 3 onto 0, 1, then lane 1 onto 0. */
#define INGOT_SSE_REDUCE(name, op)                                                                                     \
    INGOT_INLINE float f32x4_reduce_##name(f32x4 a)                                                                    \
    {                                                                                                                  \
        a = f32x4_##op(a, _mm_movehl_ps(a, a));                                                                        \
        return _mm_cvtss_f32(f32x4_##op(a, _mm_shuffle_ps(a, a, 1)));                                                  \
    }
INGOT_SSE_REDUCE(add, add)
INGOT_SSE_REDUCE(min, minimum)
INGOT_SSE_REDUCE(max, maximum)

INGOT_INLINE float f32x4_reduce_greater(f32x4 a)
{
    a = f32x4_greater(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(f32x4_greater(a, _mm_shuffle_ps(a, a, 1)));
}

INGOT_SIMD_MATH(f32x4)

#endif /* INGOT_SIMD_SSE_H */
