/* simd_half.h: vectors of floats whose memory are numbers of 16 bits, f16 or bf16 (ingot_half.h), and products of words
 * of two bf16. In the list T is f32x4, f32x8 or f32x16, I the vector of as many integers, h either name:
 *
 *   T_load_h(p)  T_store_h(p, a)               all lanes; widening is exact, narrowing to the nearest, ties to even
 *   ..._n(p, n[, a])  ..._strided(p, s[, a])   as those of floats
 *   T_nearest_h(a)                             each lane as it would be loaded after it was stored
 *   T_dot_bf16(I a, I b, c)                    in each lane c and the products of the two bf16 of a and those of b: they
 *                                              are exact, their sums are rounded as the machine's instruction does
 *   f32x4_dot_bf16_lane(a, l, b, c)            the same with the word that is lane l of a, for all lanes
 *   f32x4_matrix_dot_bf16(a, b, c)             c and the product of two rows of four bf16, a, by two columns, b
 *   f32x4_zip_pairs(a, b, n)                   half n of the lanes of a and b in turns, two at a time
 */
#ifndef INGOT_SIMD_HALF_H
#define INGOT_SIMD_HALF_H

#include "ingot_half.h"
#include "simd_integer.h"

/* ---------------------------------------------------------------- memory */

#define INGOT_HALF_PARTS(T, L, name)                                                                                   \
    INGOT_INLINE T T##_load_##name##_strided(const uint16_t *p, ptrdiff_t s)                                           \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        for (int l = 0; l < L; ++l) lanes[l] = ingot_##name##_to_f32(p[l * s]);                                        \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE T T##_load_##name##_n(const uint16_t *p, ptrdiff_t n)                                                 \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        for (int l = 0; l < L; ++l) lanes[l] = l < n ? ingot_##name##_to_f32(p[l]) : 0.0f;                             \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_##name##_strided(uint16_t *p, ptrdiff_t s, T a)                                        \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        T##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l) p[l * s] = ingot_f32_to_##name(lanes[l]);                                          \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_##name##_n(uint16_t *p, ptrdiff_t n, T a)                                              \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        T##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l)                                                                                    \
            if (l < n) p[l] = ingot_f32_to_##name(lanes[l]);                                                           \
    }

#define INGOT_HALF_ONE_BY_ONE(T, name)                                                                                 \
    INGOT_INLINE T T##_load_##name(const uint16_t *p) { return T##_load_##name##_strided(p, 1); }                      \
    INGOT_INLINE void T##_store_##name(uint16_t *p, T a) { T##_store_##name##_strided(p, 1, a); }

/* Of a type of two vectors H, of so many lanes each. */
#define INGOT_HALF_PAIR(T, H, lanes, name)                                                                             \
    INGOT_INLINE T T##_load_##name(const uint16_t *p)                                                                  \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_load_##name(p);                                                                                     \
        r.hi = H##_load_##name(p + lanes);                                                                             \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_##name(uint16_t *p, T a)                                                               \
    {                                                                                                                  \
        H##_store_##name(p, a.lo);                                                                                     \
        H##_store_##name(p + lanes, a.hi);                                                                             \
    }

INGOT_HALF_PARTS(f32x4, 4, f16)
INGOT_HALF_PARTS(f32x4, 4, bf16)
INGOT_HALF_PARTS(f32x8, 8, f16)
INGOT_HALF_PARTS(f32x8, 8, bf16)
INGOT_HALF_PARTS(f32x16, 16, f16)
INGOT_HALF_PARTS(f32x16, 16, bf16)

#if defined(INGOT_HAS_F32X4) && defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN)
INGOT_INLINE f32x4 f32x4_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
INGOT_INLINE void f32x4_store_f16(uint16_t *p, f32x4 a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
INGOT_INLINE f32x4 f32x4_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
INGOT_INLINE void f32x4_store_bf16(uint16_t *p, f32x4 a)
{
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    vst1_u16(p, vreinterpret_u16_bf16(vcvt_bf16_f32(a)));
#else
    const uint32x4_t u = vreinterpretq_u32_f32(a), last = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(u, vaddq_u32(last, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16));
#endif
}
#elif defined(INGOT_HAS_F32X4) && defined(__SSE4_1__)
#if defined(__F16C__)
INGOT_INLINE f32x4 f32x4_load_f16(const uint16_t *p)
{
    return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INGOT_INLINE void f32x4_store_f16(uint16_t *p, f32x4 a)
{
    _mm_storel_epi64((__m128i *)(void *)p, _mm_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
#else
INGOT_HALF_ONE_BY_ONE(f32x4, f16)
#endif
INGOT_INLINE f32x4 f32x4_load_bf16(const uint16_t *p)
{
    const __m128i bits = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm_castsi128_ps(_mm_slli_epi32(bits, 16));
}
INGOT_INLINE void f32x4_store_bf16(uint16_t *p, f32x4 a)
{
    const __m128i u = _mm_castps_si128(a), last = _mm_and_si128(_mm_srli_epi32(u, 16), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(u, _mm_add_epi32(last, _mm_set1_epi32(0x7fff)));
    const __m128i quiet = _mm_or_si128(u, _mm_set1_epi32(0x400000));
    const __m128i nan = _mm_castps_si128(_mm_cmpunord_ps(a, a));
    const __m128i r = _mm_srli_epi32(_mm_blendv_epi8(rounded, quiet, nan), 16);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi32(r, r));
}
#else
INGOT_HALF_ONE_BY_ONE(f32x4, f16)
INGOT_HALF_ONE_BY_ONE(f32x4, bf16)
#endif

#if defined(INGOT_HAS_F32X8)
#if defined(__F16C__)
INGOT_INLINE f32x8 f32x8_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INGOT_INLINE void f32x8_store_f16(uint16_t *p, f32x8 a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
#else
INGOT_HALF_ONE_BY_ONE(f32x8, f16)
#endif
INGOT_INLINE f32x8 f32x8_load_bf16(const uint16_t *p)
{
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}
INGOT_INLINE void f32x8_store_bf16(uint16_t *p, f32x8 a)
{
    f32x4_store_bf16(p, _mm256_castps256_ps128(a));
    f32x4_store_bf16(p + 4, _mm256_extractf128_ps(a, 1));
}
#elif defined(INGOT_HAS_F32X4)
INGOT_HALF_PAIR(f32x8, f32x4, 4, f16)
INGOT_HALF_PAIR(f32x8, f32x4, 4, bf16)
#else
INGOT_HALF_ONE_BY_ONE(f32x8, f16)
INGOT_HALF_ONE_BY_ONE(f32x8, bf16)
#endif

#if defined(INGOT_HAS_F32X16)
INGOT_INLINE f32x16 f32x16_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INGOT_INLINE void f32x16_store_f16(uint16_t *p, f32x16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
INGOT_INLINE f32x16 f32x16_load_bf16(const uint16_t *p)
{
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
INGOT_INLINE void f32x16_store_bf16(uint16_t *p, f32x16 a)
{
    const __m512i u = _mm512_castps_si512(a), last = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i r = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
#elif defined(INGOT_HAS_F32X4)
INGOT_HALF_PAIR(f32x16, f32x8, 8, f16)
INGOT_HALF_PAIR(f32x16, f32x8, 8, bf16)
#else
INGOT_HALF_ONE_BY_ONE(f32x16, f16)
INGOT_HALF_ONE_BY_ONE(f32x16, bf16)
#endif

#define INGOT_HALF_NEAREST(T, L, name)                                                                                 \
    INGOT_INLINE T T##_nearest_##name(T a)                                                                             \
    {                                                                                                                  \
        INGOT_ALIGNED(64) uint16_t lanes[L];                                                                           \
        T##_store_##name(lanes, a);                                                                                    \
        return T##_load_##name(lanes);                                                                                 \
    }

INGOT_HALF_NEAREST(f32x4, 4, f16)
INGOT_HALF_NEAREST(f32x4, 4, bf16)
INGOT_HALF_NEAREST(f32x8, 8, f16)
INGOT_HALF_NEAREST(f32x8, 8, bf16)
INGOT_HALF_NEAREST(f32x16, 16, f16)
INGOT_HALF_NEAREST(f32x16, 16, bf16)

/* ---------------------------------------------------------------- products of words */

#define INGOT_HALF_DOT(T, I, L)                                                                                        \
    INGOT_INLINE T T##_dot_bf16(I a, I b, T c)                                                                         \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t x[L], y[L];                                                                          \
        INGOT_ALIGNED(64) float r[L];                                                                                  \
        I##_store(x, a);                                                                                               \
        I##_store(y, b);                                                                                               \
        T##_store(r, c);                                                                                               \
        for (int l = 0; l < L; ++l) r[l] = ingot_dot_bf16(x[l], y[l], r[l]);                                           \
        return T##_load(r);                                                                                            \
    }

#if defined(INGOT_HAS_I32X4) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
INGOT_INLINE bfloat16x8_t i32x4_bf16(i32x4 a) { return vreinterpretq_bf16_s32(a); }
INGOT_INLINE f32x4 f32x4_dot_bf16(i32x4 a, i32x4 b, f32x4 c) { return vbfdotq_f32(c, i32x4_bf16(a), i32x4_bf16(b)); }
INGOT_INLINE f32x4 f32x4_dot_bf16_lane(i32x4 a, int32_t l, i32x4 b, f32x4 c)
{
    switch (l) {
    case 0: return vbfdotq_laneq_f32(c, i32x4_bf16(b), i32x4_bf16(a), 0);
    case 1: return vbfdotq_laneq_f32(c, i32x4_bf16(b), i32x4_bf16(a), 1);
    case 2: return vbfdotq_laneq_f32(c, i32x4_bf16(b), i32x4_bf16(a), 2);
    default: return vbfdotq_laneq_f32(c, i32x4_bf16(b), i32x4_bf16(a), 3);
    }
}
INGOT_INLINE f32x4 f32x4_matrix_dot_bf16(i32x4 a, i32x4 b, f32x4 c)
{
    c = vbfmmlaq_f32(c, i32x4_bf16(a), i32x4_bf16(b));
    INGOT_HOLD("+w", c);
    return c;
}
#else
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
INGOT_INLINE f32x4 f32x4_dot_bf16(i32x4 a, i32x4 b, f32x4 c) { return _mm_dpbf16_ps(c, (__m128bh)a, (__m128bh)b); }
#else
INGOT_HALF_DOT(f32x4, i32x4, 4)
#endif
INGOT_INLINE f32x4 f32x4_dot_bf16_lane(i32x4 a, int32_t l, i32x4 b, f32x4 c)
{
    INGOT_ALIGNED(64) int32_t lanes[4];
    i32x4_store(lanes, a);
    return f32x4_dot_bf16(i32x4_set1(lanes[l]), b, c);
}
INGOT_INLINE f32x4 f32x4_matrix_dot_bf16(i32x4 a, i32x4 b, f32x4 c)
{
    INGOT_ALIGNED(64) int32_t x[4], y[4];
    INGOT_ALIGNED(64) float r[4];
    i32x4_store(x, a);
    i32x4_store(y, b);
    f32x4_store(r, c);
    for (int l = 0; l < 4; ++l) {
        r[l] = ingot_dot_bf16(x[l / 2 * 2], y[l % 2 * 2], r[l]);
        r[l] = ingot_dot_bf16(x[l / 2 * 2 + 1], y[l % 2 * 2 + 1], r[l]);
    }
    return f32x4_load(r);
}
#endif

#if defined(INGOT_HAS_F32X8) && defined(__AVX512BF16__) && defined(__AVX512VL__)
INGOT_INLINE f32x8 f32x8_dot_bf16(i32x8 a, i32x8 b, f32x8 c) { return _mm256_dpbf16_ps(c, (__m256bh)a, (__m256bh)b); }
#else
INGOT_HALF_DOT(f32x8, i32x8, 8)
#endif
#if defined(INGOT_HAS_F32X16) && defined(__AVX512BF16__)
/* In the register of c, with a word of memory for all lanes where it is one. */
INGOT_INLINE f32x16 f32x16_dot_bf16(i32x16 a, i32x16 b, f32x16 c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)b, (__m512bh)a);
}
#else
INGOT_HALF_DOT(f32x16, i32x16, 16)
#endif

#if defined(INGOT_HAS_F32X4) && defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN)
INGOT_INLINE f32x4 f32x4_zip_pairs(f32x4 a, f32x4 b, int32_t n)
{
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(n ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}
#else
INGOT_INLINE f32x4 f32x4_zip_pairs(f32x4 a, f32x4 b, int32_t n)
{
    INGOT_ALIGNED(64) float x[4], y[4];
    f32x4_store(x, a);
    f32x4_store(y, b);
    const float r[4] = {x[2 * n], x[2 * n + 1], y[2 * n], y[2 * n + 1]};
    return f32x4_load(r);
}
#endif

#endif /* INGOT_SIMD_HALF_H */
