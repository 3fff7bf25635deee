/* simd/narrow.h: loads of integers as floats, T_load_i8, T_load_u8 and T_load_i16, with their _n and _strided forms. */
#ifndef INGOT_SIMD_NARROW_H
#define INGOT_SIMD_NARROW_H

/* The least of them, by an array of floats, for all but whole vectors that lie in a row. */
#define INGOT_NARROW_PARTS(T, L, name, type)                                                                           \
    INGOT_INLINE T T##_load_##name##_strided(const type *p, ptrdiff_t s)                                               \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        for (int l = 0; l < L; ++l) lanes[l] = (float)p[l * s];                                                        \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE T T##_load_##name##_n(const type *p, ptrdiff_t n)                                                     \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        for (int l = 0; l < L; ++l) lanes[l] = l < n ? (float)p[l] : 0.0f;                                             \
        return T##_load(lanes);                                                                                        \
    }

#define INGOT_NARROW_WHOLE(T, name, type)                                                                              \
    INGOT_INLINE T T##_load_##name(const type *p) { return T##_load_##name##_strided(p, 1); }

/* Of a type of two vectors H, of so many lanes each. */
#define INGOT_NARROW_PAIR(T, H, lanes, name, type)                                                                     \
    INGOT_INLINE T T##_load_##name(const type *p)                                                                      \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_load_##name(p);                                                                                     \
        r.hi = H##_load_##name(p + lanes);                                                                             \
        return r;                                                                                                      \
    }

#define INGOT_NARROW_ALL(macro, ...)                                                                                   \
    macro(__VA_ARGS__, i8, int8_t) macro(__VA_ARGS__, u8, uint8_t) macro(__VA_ARGS__, i16, int16_t)

INGOT_NARROW_ALL(INGOT_NARROW_PARTS, f32x4, 4)
INGOT_NARROW_ALL(INGOT_NARROW_PARTS, f32x8, 8)
INGOT_NARROW_ALL(INGOT_NARROW_PARTS, f32x16, 16)

#if !defined(INGOT_HAS_GENERIC) /* simd/generic.h has whole vectors */
#if defined(INGOT_HAS_F32X4) && defined(__SSE4_1__)
INGOT_INLINE __m128i f32x4_four_bytes(const void *p)
{
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return _mm_cvtsi32_si128(bytes);
}
INGOT_INLINE f32x4 f32x4_load_i8(const int8_t *p) { return _mm_cvtepi32_ps(_mm_cvtepi8_epi32(f32x4_four_bytes(p))); }
INGOT_INLINE f32x4 f32x4_load_u8(const uint8_t *p) { return _mm_cvtepi32_ps(_mm_cvtepu8_epi32(f32x4_four_bytes(p))); }
INGOT_INLINE f32x4 f32x4_load_i16(const int16_t *p)
{
    return _mm_cvtepi32_ps(_mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
#elif defined(INGOT_HAS_F32X4) && defined(__ARM_NEON)
INGOT_INLINE uint32x2_t f32x4_four_bytes(const void *p)
{
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vdup_n_u32(bytes);
}
INGOT_INLINE f32x4 f32x4_load_i16(const int16_t *p) { return vcvtq_f32_s32(vmovl_s16(vld1_s16(p))); }
#if defined(__ARM_BIG_ENDIAN)
INGOT_NARROW_WHOLE(f32x4, i8, int8_t)
INGOT_NARROW_WHOLE(f32x4, u8, uint8_t)
#else
INGOT_INLINE f32x4 f32x4_load_i8(const int8_t *p)
{
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(f32x4_four_bytes(p))))));
}
INGOT_INLINE f32x4 f32x4_load_u8(const uint8_t *p)
{
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(f32x4_four_bytes(p))))));
}
#endif
#else
INGOT_NARROW_ALL(INGOT_NARROW_WHOLE, f32x4)
#endif

#if defined(INGOT_HAS_F32X8)
INGOT_INLINE f32x8 f32x8_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
INGOT_INLINE f32x8 f32x8_load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
INGOT_INLINE f32x8 f32x8_load_i16(const int16_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
#elif defined(INGOT_HAS_F32X4)
INGOT_NARROW_ALL(INGOT_NARROW_PAIR, f32x8, f32x4, 4)
#else
INGOT_NARROW_ALL(INGOT_NARROW_WHOLE, f32x8)
#endif

#if defined(INGOT_HAS_F32X16)
INGOT_INLINE f32x16 f32x16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
INGOT_INLINE f32x16 f32x16_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
INGOT_INLINE f32x16 f32x16_load_i16(const int16_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)));
}
#elif defined(INGOT_HAS_F32X4)
INGOT_NARROW_ALL(INGOT_NARROW_PAIR, f32x16, f32x8, 8)
#else
INGOT_NARROW_ALL(INGOT_NARROW_WHOLE, f32x16)
#endif
#endif

#endif /* INGOT_SIMD_NARROW_H */
