/* simd_integer.h: vectors of 32-bit integers, i32x4, i32x8 and i32x16, beside those of as many floats F. In the list T is
 * one of them:
 *
 *   T_set1  T_load  T_store  T_load_n  T_store_n  T_first_n  T_load_strided  T_store_strided    as those of floats
 *   T_load_i8  T_load_u8  T_load_i16 (p)       lanes that are narrower in memory; also ..._n(p, n), ..._strided(p, s)
 *   T_load_words(p)                            lane l of L is the word of the bytes p[l], p[L + l], p[2 * L + l] ...
 *   T_load_pairs(p)                            lane l of L is the word of the numbers of 16 bits p[l] and p[L + l]
 *   T_store_i8  T_store_u8  T_store_i16 (p, a) the lowest bits of each lane; also ..._n(p, n, a), ..._strided(p, s, a)
 *   T_add  T_sub  T_mul (a, b)                 wrap around
 *   T_add_scaled(a, x, c)                      c + a * x, where x is one number
 *   T_min  T_max (a, b)
 *   T_dot_u8s8  T_dot_s8u8  T_dot_s8s8  T_dot_u8u8 (a, b, c)   in each lane c and the products of the four bytes of a,
 *                                              with a sign (s8) or without (u8), and those of b; exact
 *   T_dot_s16s16(a, b, c)                      the same of the two numbers of 16 bits, with a sign, of a and of b
 *   T_dot_u8s8_at(p, b, c), ...                the same with the word that p points to, for all lanes
 *   i32x4_load_bytes(p)                        the words of 16 bytes
 *   i32x4_dot_u8s8_lane(a, l, b, c), ...       the same with the word that is lane l of a, for all lanes
 *   i32x4_matrix_dot_u8s8(a, b, c), ...        c and the product of two rows of eight bytes, a, by two columns, b
 *   i32x4_zip_words(a, b, n)  i32x4_zip_pairs  half n of the lanes of a and b in turns, one or two at a time
 *   i32x4_unzip_words(a, b, n)                 every other lane of a and b, from lane n on
 *   T_low_i8  T_low_u8  T_low_i16 (a)          the lowest bits of each lane, as numbers of a narrower type
 *   T_lookup_i8  T_lookup_u8 (t, a)            t[a] lane by lane, of tables of 256; 0 <= a < 256
 *   T_reduce_add  T_reduce_min  T_reduce_max (a)                an integer; sums wrap around
 *   T_held(a)                                  a, in a register
 *   T_from_f32(x)                              toward zero; INT32_MIN where it does not fit
 *   T_nearest_f32(x)                           the nearest one, ties to even, where it fits
 *   T_round_i8(x, zero)  T_round_u8(x, zero)   in the lowest bits of each lane a byte: the nearest one plus an integer
 *                                              from -255 to 255, saturated; x is not NaN
 *   F_from_i32(a)                              the nearest float
 */
#ifndef INGOT_SIMD_INTEGER_H
#define INGOT_SIMD_INTEGER_H

#include "simd.h"

/* ---------------------------------------------------------------- which are one register */

#if defined(INGOT_HAS_GENERIC)
#include "simd/generic_integer.h"
#else
#if defined(INGOT_HAS_F32X4) && defined(__SSE4_1__)
#define INGOT_HAS_I32X4 1
typedef __m128i i32x4;
#elif defined(INGOT_HAS_F32X4) && defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN)
#define INGOT_HAS_I32X4 1
typedef int32x4_t i32x4;
#elif defined(INGOT_HAS_F32X4) && defined(__ARM_FEATURE_MVE)
#define INGOT_HAS_I32X4 1
#define INGOT_HAS_I32X4_PARTS 1
#define INGOT_HAS_I32X4_ROUND 1
#include "simd/mve_integer.h"
#else
typedef struct {
    int32_t v[4];
} i32x4;
#endif

#if defined(INGOT_HAS_F32X8)
typedef __m256i i32x8;
#elif defined(INGOT_HAS_F32X4)
typedef struct {
    i32x4 lo, hi;
} i32x8;
#else
typedef struct {
    int32_t v[8];
} i32x8;
#endif

#if defined(INGOT_HAS_F32X16)
typedef __m512i i32x16;
#elif defined(INGOT_HAS_F32X4)
typedef struct {
    i32x8 lo, hi;
} i32x16;
#else
typedef struct {
    int32_t v[16];
} i32x16;
#endif
#endif

/* ---------------------------------------------------------------- arrays */

#define INGOT_INTEGER_ARRAY_OP(T, L, name, value)                                                                      \
    INGOT_INLINE T T##_##name(T a, T b)                                                                                \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = value(a.v[l], b.v[l]);                                                    \
        return a;                                                                                                      \
    }

#define INGOT_INTEGER_ARRAY_LOW(T, L, name, type)                                                                      \
    INGOT_INLINE T T##_low_##name(T a)                                                                                 \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = (type)a.v[l];                                                             \
        return a;                                                                                                      \
    }

#define INGOT_INTEGER_ARRAY_DOT(T, L, mix)                                                                             \
    INGOT_INLINE T T##_dot_##mix(T a, T b, T c)                                                                        \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) c.v[l] = ingot_dot_##mix(a.v[l], b.v[l], c.v[l]);                                  \
        return c;                                                                                                      \
    }

#define INGOT_INTEGER_ARRAY(T, F, L)                                                                                   \
    INGOT_INLINE T T##_set1(int32_t x)                                                                                 \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = x;                                                                        \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_load(const int32_t *p)                                                                          \
    {                                                                                                                  \
        T r;                                                                                                           \
        memcpy(r.v, p, sizeof r.v);                                                                                    \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store(int32_t *p, T a) { memcpy(p, a.v, sizeof a.v); }                                       \
    INGOT_INTEGER_ARRAY_OP(T, L, add, ingot_add_i32)                                                                   \
    INGOT_INTEGER_ARRAY_OP(T, L, sub, ingot_sub_i32)                                                                   \
    INGOT_INTEGER_ARRAY_OP(T, L, mul, ingot_mul_i32)                                                                   \
    INGOT_INTEGER_ARRAY_OP(T, L, min, ingot_min_i32)                                                                   \
    INGOT_INTEGER_ARRAY_OP(T, L, max, ingot_max_i32)                                                                   \
    INGOT_INTEGER_ARRAY_LOW(T, L, i8, int8_t)                                                                          \
    INGOT_INTEGER_ARRAY_LOW(T, L, u8, uint8_t)                                                                         \
    INGOT_INTEGER_ARRAY_LOW(T, L, i16, int16_t)                                                                        \
    INGOT_INTEGER_ARRAY_DOT(T, L, u8s8)                                                                                \
    INGOT_INTEGER_ARRAY_DOT(T, L, s8u8)                                                                                \
    INGOT_INTEGER_ARRAY_DOT(T, L, s8s8)                                                                                \
    INGOT_INTEGER_ARRAY_DOT(T, L, u8u8)                                                                                \
    INGOT_INTEGER_ARRAY_DOT(T, L, s16s16)                                                                              \
    INGOT_INLINE T T##_from_f32(F x)                                                                                   \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        T r;                                                                                                           \
        F##_store(lanes, x);                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = ingot_f32_to_i32(lanes[l]);                                               \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_nearest_f32(F x) { return T##_from_f32(F##_round(x)); }                                         \
    INGOT_INLINE F F##_from_i32(T a)                                                                                   \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        for (int l = 0; l < L; ++l) lanes[l] = (float)a.v[l];                                                          \
        return F##_load(lanes);                                                                                        \
    }

/* ---------------------------------------------------------------- pairs of vectors H of L lanes */

#define INGOT_INTEGER_PAIR(T, F, H, G, L)                                                                              \
    INGOT_INLINE T T##_set1(int32_t x)                                                                                 \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = r.hi = H##_set1(x);                                                                                     \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_load(const int32_t *p)                                                                          \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_load(p);                                                                                            \
        r.hi = H##_load(p + L);                                                                                        \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store(int32_t *p, T a)                                                                       \
    {                                                                                                                  \
        H##_store(p, a.lo);                                                                                            \
        H##_store(p + L, a.hi);                                                                                        \
    }                                                                                                                  \
    INGOT_PAIR_OP2(T, H, add)                                                                                          \
    INGOT_PAIR_OP2(T, H, sub)                                                                                          \
    INGOT_PAIR_OP2(T, H, mul)                                                                                          \
    INGOT_PAIR_OP2(T, H, min)                                                                                          \
    INGOT_PAIR_OP2(T, H, max)                                                                                          \
    INGOT_PAIR_OP1(T, H, low_i8)                                                                                       \
    INGOT_PAIR_OP1(T, H, low_u8)                                                                                       \
    INGOT_PAIR_OP1(T, H, low_i16)                                                                                      \
    INGOT_PAIR_OP3(T, H, dot_u8s8)                                                                                     \
    INGOT_PAIR_OP3(T, H, dot_s8u8)                                                                                     \
    INGOT_PAIR_OP3(T, H, dot_s8s8)                                                                                     \
    INGOT_PAIR_OP3(T, H, dot_u8u8)                                                                                     \
    INGOT_PAIR_OP3(T, H, dot_s16s16)                                                                                   \
    INGOT_INLINE T T##_from_f32(F x)                                                                                   \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_from_f32(x.lo);                                                                                     \
        r.hi = H##_from_f32(x.hi);                                                                                     \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_nearest_f32(F x)                                                                                \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_nearest_f32(x.lo);                                                                                  \
        r.hi = H##_nearest_f32(x.hi);                                                                                  \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE F F##_from_i32(T a)                                                                                   \
    {                                                                                                                  \
        F r;                                                                                                           \
        r.lo = G##_from_i32(a.lo);                                                                                     \
        r.hi = G##_from_i32(a.hi);                                                                                     \
        return r;                                                                                                      \
    }

/* ---------------------------------------------------------------- x86 */

/* What needs an instruction more than there is: `width` is _mm, _mm256 or _mm512, si the name of all bits. */
#define INGOT_X86_INTEGER(T, F, width, si, fp)                                                                         \
    INGOT_INLINE T T##_set1(int32_t x) { return width##_set1_epi32(x); }                                               \
    INGOT_INLINE T T##_load(const int32_t *p) { return width##_loadu_##si((const void *)p); }                          \
    INGOT_INLINE void T##_store(int32_t *p, T a) { width##_storeu_##si((void *)p, a); }                                \
    INGOT_INLINE T T##_add(T a, T b) { return width##_add_epi32(a, b); }                                               \
    INGOT_INLINE T T##_sub(T a, T b) { return width##_sub_epi32(a, b); }                                               \
    INGOT_INLINE T T##_mul(T a, T b) { return width##_mullo_epi32(a, b); }                                             \
    INGOT_INLINE T T##_min(T a, T b) { return width##_min_epi32(a, b); }                                               \
    INGOT_INLINE T T##_max(T a, T b) { return width##_max_epi32(a, b); }                                               \
    INGOT_INLINE T T##_low_i8(T a) { return width##_srai_epi32(width##_slli_epi32(a, 24), 24); }                       \
    INGOT_INLINE T T##_low_u8(T a) { return width##_and_##si(a, width##_set1_epi32(255)); }                            \
    INGOT_INLINE T T##_low_i16(T a) { return width##_srai_epi32(width##_slli_epi32(a, 16), 16); }                      \
    INGOT_INLINE T T##_from_f32(F x) { return width##_cvttps_epi32(x); }                                               \
    INGOT_INLINE T T##_nearest_f32(F x) { return width##_cvtps_epi32(x); }                                             \
    INGOT_INLINE F F##_from_i32(T a) { return width##_cvtepi32_##fp(a); }

/* An instruction takes bytes without a sign and bytes with one. Bytes with a sign are 128 less than the same with the
 * highest bit turned, of which the products with 128 are taken away. Sums are held, as gcc would else copy them from one
 * register to another, and to the stack, each time. */
#define INGOT_X86_DOT(T, width, si, dpbusd, constraint)                                                                \
    INGOT_INLINE T T##_turned(T a) { return width##_xor_##si(a, width##_set1_epi8(-128)); }                            \
    INGOT_INLINE T T##_dot_u8s8(T a, T b, T c)                                                                         \
    {                                                                                                                  \
        c = dpbusd(c, a, b);                                                                                           \
        INGOT_HOLD(constraint, c);                                                                                     \
        return c;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_dot_s8u8(T a, T b, T c) { return T##_dot_u8s8(b, a, c); }                                       \
    INGOT_INLINE T T##_dot_s8s8(T a, T b, T c)                                                                         \
    {                                                                                                                  \
        const T own = dpbusd(width##_setzero_##si(), width##_set1_epi8(-128), b);                                      \
        return T##_dot_u8s8(T##_turned(a), b, width##_sub_epi32(c, own));                                                    \
    }                                                                                                                  \
    INGOT_INLINE T T##_dot_u8u8(T a, T b, T c)                                                                         \
    {                                                                                                                  \
        const T half = dpbusd(width##_setzero_##si(), b, width##_set1_epi8(64));                                       \
        return T##_dot_u8s8(b, T##_turned(a), width##_add_epi32(c, width##_add_epi32(half, half)));                          \
    }

/* Products of 16 bits, whose sums in pairs wrap around as those of vectors do; in one instruction, or in two. */
#define INGOT_X86_DOT_OF_SHORTS(T, dpwssd, constraint)                                                                 \
    INGOT_INLINE T T##_dot_s16s16(T a, T b, T c)                                                                       \
    {                                                                                                                  \
        c = dpwssd(c, a, b);                                                                                           \
        INGOT_HOLD(constraint, c);                                                                                     \
        return c;                                                                                                      \
    }
#define INGOT_X86_MADD(T, width)                                                                                       \
    INGOT_INLINE T T##_dot_s16s16(T a, T b, T c) { return width##_add_epi32(c, width##_madd_epi16(a, b)); }

/* By products of 16 bits, whose sums in pairs are exact, where there is none: those of bytes would saturate. */
#define INGOT_X86_DOT_OF_PAIRS(T, width, si)                                                                           \
    INGOT_INLINE T T##_even_s8(T a) { return width##_srai_epi16(width##_slli_epi16(a, 8), 8); }                        \
    INGOT_INLINE T T##_odd_s8(T a) { return width##_srai_epi16(a, 8); }                                                \
    INGOT_INLINE T T##_even_u8(T a) { return width##_and_##si(a, width##_set1_epi16(255)); }                           \
    INGOT_INLINE T T##_odd_u8(T a) { return width##_srli_epi16(a, 8); }                                                \
    INGOT_X86_DOT_OF(T, width, u8, s8)                                                                                 \
    INGOT_X86_DOT_OF(T, width, s8, u8)                                                                                 \
    INGOT_X86_DOT_OF(T, width, s8, s8)                                                                                 \
    INGOT_X86_DOT_OF(T, width, u8, u8)

#define INGOT_X86_DOT_OF(T, width, left, right)                                                                        \
    INGOT_INLINE T T##_dot_##left##right(T a, T b, T c)                                                                \
    {                                                                                                                  \
        const T even = width##_madd_epi16(T##_even_##left(a), T##_even_##right(b));                                    \
        const T odd = width##_madd_epi16(T##_odd_##left(a), T##_odd_##right(b));                                       \
        return width##_add_epi32(width##_add_epi32(c, even), odd);                                                     \
    }

#if defined(INGOT_HAS_I32X4) && defined(__SSE4_1__)
INGOT_X86_INTEGER(i32x4, f32x4, _mm, si128, ps)
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
INGOT_X86_DOT(i32x4, _mm, si128, _mm_dpbusd_epi32, "+v")
INGOT_X86_DOT_OF_SHORTS(i32x4, _mm_dpwssd_epi32, "+v")
#elif defined(__AVXVNNI__)
INGOT_X86_DOT(i32x4, _mm, si128, _mm_dpbusd_avx_epi32, "+x")
INGOT_X86_DOT_OF_SHORTS(i32x4, _mm_dpwssd_avx_epi32, "+x")
#else
INGOT_X86_DOT_OF_PAIRS(i32x4, _mm, si128)
INGOT_X86_MADD(i32x4, _mm)
#endif
INGOT_INLINE i32x4 i32x4_load_i8(const int8_t *p) { return _mm_cvtepi8_epi32(f32x4_four_bytes(p)); }
INGOT_INLINE i32x4 i32x4_load_u8(const uint8_t *p) { return _mm_cvtepu8_epi32(f32x4_four_bytes(p)); }
INGOT_INLINE i32x4 i32x4_load_i16(const int16_t *p)
{
    return _mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
/* The words of four rows of four bytes. */
INGOT_INLINE i32x4 i32x4_load_words(const void *p)
{
    const __m128i turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), turned);
}
INGOT_INLINE i32x4 i32x4_load_pairs(const int16_t *p)
{
    const __m128i rows = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm_unpacklo_epi16(rows, _mm_unpackhi_epi64(rows, rows));
}
INGOT_INLINE void i32x4_store_bytes(void *p, i32x4 a)
{
    const int32_t bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(a, _mm_set1_epi32(0x0c080400)));
    memcpy(p, &bytes, sizeof bytes);
}
INGOT_INLINE void i32x4_store_i16(int16_t *p, i32x4 a)
{
    const __m128i low = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_shuffle_epi8(a, low));
}
#endif

#if defined(INGOT_HAS_F32X8)
INGOT_X86_INTEGER(i32x8, f32x8, _mm256, si256, ps)
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
INGOT_X86_DOT(i32x8, _mm256, si256, _mm256_dpbusd_epi32, "+v")
INGOT_X86_DOT_OF_SHORTS(i32x8, _mm256_dpwssd_epi32, "+v")
#elif defined(__AVXVNNI__)
INGOT_X86_DOT(i32x8, _mm256, si256, _mm256_dpbusd_avx_epi32, "+x")
INGOT_X86_DOT_OF_SHORTS(i32x8, _mm256_dpwssd_avx_epi32, "+x")
#else
INGOT_X86_DOT_OF_PAIRS(i32x8, _mm256, si256)
INGOT_X86_MADD(i32x8, _mm256)
#endif
INGOT_INLINE i32x8 i32x8_load_i8(const int8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INGOT_INLINE i32x8 i32x8_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INGOT_INLINE i32x8 i32x8_load_i16(const int16_t *p)
{
    return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INGOT_INLINE i32x8 i32x8_load_words(const void *p)
{
    const __m128i turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i squares = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)p),
                                                        _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    return _mm256_shuffle_epi8(squares, _mm256_broadcastsi128_si256(turned));
}
INGOT_INLINE i32x8 i32x8_load_pairs(const int16_t *p)
{
    const __m256i rows = _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)(const void *)p), 0xd8);
    return _mm256_unpacklo_epi16(rows, _mm256_unpackhi_epi64(rows, rows));
}
INGOT_INLINE void i32x8_store_bytes(void *p, i32x8 a)
{
    const __m256i bytes = _mm256_shuffle_epi8(a, _mm256_set1_epi32(0x0c080400));
    _mm_storel_epi64((__m128i *)p, _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}
INGOT_INLINE void i32x8_store_i16(int16_t *p, i32x8 a)
{
    i32x4_store_i16(p, _mm256_castsi256_si128(a));
    i32x4_store_i16(p + 4, _mm256_extracti128_si256(a, 1));
}
#endif

#if defined(INGOT_HAS_F32X16)
INGOT_X86_INTEGER(i32x16, f32x16, _mm512, si512, ps)
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
INGOT_X86_DOT(i32x16, _mm512, si512, _mm512_dpbusd_epi32, "+v")
INGOT_X86_DOT_OF_SHORTS(i32x16, _mm512_dpwssd_epi32, "+v")
#elif defined(__AVX512BW__)
INGOT_X86_DOT_OF_PAIRS(i32x16, _mm512, si512)
INGOT_X86_MADD(i32x16, _mm512)
#else
/* In halves, by AVX2. */
#define INGOT_X86_DOT_OF_HALVES(mix)                                                                                   \
    INGOT_INLINE i32x16 i32x16_dot_##mix(i32x16 a, i32x16 b, i32x16 c)                                                 \
    {                                                                                                                  \
        const __m256i lo = i32x8_dot_##mix(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b),                       \
                                           _mm512_castsi512_si256(c));                                                 \
        const __m256i hi = i32x8_dot_##mix(_mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1),           \
                                           _mm512_extracti64x4_epi64(c, 1));                                           \
        return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);                                                  \
    }
INGOT_X86_DOT_OF_HALVES(u8s8)
INGOT_X86_DOT_OF_HALVES(s8u8)
INGOT_X86_DOT_OF_HALVES(s8s8)
INGOT_X86_DOT_OF_HALVES(u8u8)
INGOT_X86_DOT_OF_HALVES(s16s16)
#endif
INGOT_INLINE i32x16 i32x16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INGOT_INLINE i32x16 i32x16_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INGOT_INLINE i32x16 i32x16_load_i16(const int16_t *p)
{
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
#if defined(__AVX512BW__)
INGOT_INLINE i32x16 i32x16_load_words(const void *p)
{
#if defined(__AVX512VBMI__)
    static const uint8_t places[64] = {0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51,
                                       4,  20, 36, 52, 5,  21, 37, 53, 6,  22, 38, 54, 7,  23, 39, 55,
                                       8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58, 11, 27, 43, 59,
                                       12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(places), _mm512_loadu_si512(p));
#else
    const __m128i turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i squares = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), _mm512_loadu_si512(p));
    return _mm512_shuffle_epi8(squares, _mm512_broadcast_i32x4(turned));
#endif
}
INGOT_INLINE i32x16 i32x16_load_pairs(const int16_t *p)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p + 16)));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}
#define INGOT_HAS_I32X16_LOAD_WORDS 1
#endif
INGOT_INLINE void i32x16_store_bytes(void *p, i32x16 a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a)); }
INGOT_INLINE void i32x16_store_i16(int16_t *p, i32x16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a));
}
#endif

/* ---------------------------------------------------------------- Arm */

#if defined(INGOT_HAS_I32X4) && defined(__ARM_NEON)
INGOT_INLINE i32x4 i32x4_set1(int32_t x) { return vdupq_n_s32(x); }
INGOT_INLINE i32x4 i32x4_load(const int32_t *p) { return vld1q_s32(p); }
INGOT_INLINE void i32x4_store(int32_t *p, i32x4 a) { vst1q_s32(p, a); }
INGOT_INLINE i32x4 i32x4_add(i32x4 a, i32x4 b) { return vaddq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_sub(i32x4 a, i32x4 b) { return vsubq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_mul(i32x4 a, i32x4 b) { return vmulq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_min(i32x4 a, i32x4 b) { return vminq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_max(i32x4 a, i32x4 b) { return vmaxq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_low_i8(i32x4 a) { return vshrq_n_s32(vshlq_n_s32(a, 24), 24); }
INGOT_INLINE i32x4 i32x4_low_u8(i32x4 a) { return vandq_s32(a, vdupq_n_s32(255)); }
INGOT_INLINE i32x4 i32x4_low_i16(i32x4 a) { return vshrq_n_s32(vshlq_n_s32(a, 16), 16); }
INGOT_INLINE f32x4 f32x4_from_i32(i32x4 a) { return vcvtq_f32_s32(a); }
INGOT_INLINE i32x4 i32x4_nearest_f32(f32x4 x) { return vcvtnq_s32_f32(x); }
INGOT_INLINE i32x4 i32x4_from_f32(f32x4 x)
{
    const uint32x4_t fits = vcltq_f32(vabsq_f32(x), vdupq_n_f32(2147483648.0f));
    return vbslq_s32(fits, vcvtq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}
INGOT_INLINE i32x4 i32x4_load_i8(const int8_t *p)
{
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(f32x4_four_bytes(p)))));
}
INGOT_INLINE i32x4 i32x4_load_u8(const uint8_t *p)
{
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(f32x4_four_bytes(p))))));
}
INGOT_INLINE i32x4 i32x4_load_i16(const int16_t *p) { return vmovl_s16(vld1_s16(p)); }
INGOT_INLINE i32x4 i32x4_load_words(const void *p)
{
    static const uint8_t turned[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8((const uint8_t *)p), vld1q_u8(turned)));
}
INGOT_INLINE void i32x4_store_bytes(void *p, i32x4 a)
{
    const int16x4_t half = vmovn_s32(a);
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(half, half))), 0);
    memcpy(p, &bytes, sizeof bytes);
}
INGOT_INLINE void i32x4_store_i16(int16_t *p, i32x4 a) { vst1_s16(p, vmovn_s32(a)); }

INGOT_INLINE i32x4 i32x4_load_pairs(const int16_t *p)
{
    const int16x4x2_t pairs = vzip_s16(vld1_s16(p), vld1_s16(p + 4));
    return vreinterpretq_s32_s16(vcombine_s16(pairs.val[0], pairs.val[1]));
}
/* The first numbers of all lanes and the second ones, which stay in registers where b is used again. */
INGOT_INLINE i32x4 i32x4_dot_s16s16(i32x4 a, i32x4 b, i32x4 c)
{
    c = vmlal_s16(c, vmovn_s32(a), vmovn_s32(b));
    return vmlal_s16(c, vshrn_n_s32(a, 16), vshrn_n_s32(b, 16));
}

INGOT_INLINE int8x16_t i32x4_bytes(i32x4 a) { return vreinterpretq_s8_s32(a); }
INGOT_INLINE uint8x16_t i32x4_unsigned_bytes(i32x4 a) { return vreinterpretq_u8_s32(a); }

#if defined(__ARM_FEATURE_DOTPROD)
INGOT_INLINE i32x4 i32x4_dot_s8s8(i32x4 a, i32x4 b, i32x4 c) { return vdotq_s32(c, i32x4_bytes(a), i32x4_bytes(b)); }
INGOT_INLINE i32x4 i32x4_dot_u8u8(i32x4 a, i32x4 b, i32x4 c)
{
    return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(c), i32x4_unsigned_bytes(a), i32x4_unsigned_bytes(b)));
}
#else
INGOT_INLINE i32x4 i32x4_dot_s8s8(i32x4 a, i32x4 b, i32x4 c)
{
    const int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8(i32x4_bytes(a)), vget_low_s8(i32x4_bytes(b))));
    const int32x4_t hi = vpaddlq_s16(vmull_high_s8(i32x4_bytes(a), i32x4_bytes(b)));
    return vaddq_s32(c, vpaddq_s32(lo, hi));
}
INGOT_INLINE i32x4 i32x4_dot_u8u8(i32x4 a, i32x4 b, i32x4 c)
{
    const uint8x16_t x = i32x4_unsigned_bytes(a), y = i32x4_unsigned_bytes(b);
    const uint32x4_t lo = vpaddlq_u16(vmull_u8(vget_low_u8(x), vget_low_u8(y)));
    return vaddq_s32(c, vreinterpretq_s32_u32(vpaddq_u32(lo, vpaddlq_u16(vmull_high_u8(x, y)))));
}
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
INGOT_INLINE i32x4 i32x4_dot_u8s8(i32x4 a, i32x4 b, i32x4 c)
{
    return vusdotq_s32(c, i32x4_unsigned_bytes(a), i32x4_bytes(b));
}
#else
/* Bytes without a sign are 128 more than the same with the highest bit turned. */
INGOT_INLINE i32x4 i32x4_dot_u8s8(i32x4 a, i32x4 b, i32x4 c)
{
    const i32x4 half = i32x4_dot_s8s8(vreinterpretq_s32_s8(vdupq_n_s8(64)), b, vdupq_n_s32(0));
    const i32x4 turned = veorq_s32(a, vreinterpretq_s32_s8(vdupq_n_s8(-128)));
    return i32x4_dot_s8s8(turned, b, vaddq_s32(c, vaddq_s32(half, half)));
}
#endif
INGOT_INLINE i32x4 i32x4_dot_s8u8(i32x4 a, i32x4 b, i32x4 c) { return i32x4_dot_u8s8(b, a, c); }

INGOT_INLINE i32x4 i32x4_load_bytes(const void *p) { return vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p)); }
#define INGOT_NEON_DOT_LANE(mix, dot)                                                                                  \
    INGOT_INLINE i32x4 i32x4_dot_##mix##_lane(i32x4 a, int32_t l, i32x4 b, i32x4 c)                                    \
    {                                                                                                                  \
        switch (l) {                                                                                                   \
        case 0: return dot(a, 0, b, c);                                                                                \
        case 1: return dot(a, 1, b, c);                                                                                \
        case 2: return dot(a, 2, b, c);                                                                                \
        default: return dot(a, 3, b, c);                                                                               \
        }                                                                                                              \
    }
#define INGOT_NEON_S16S16(a, l, b, c)                                                                                  \
    vmlal_laneq_s16(vmlal_laneq_s16(c, vmovn_s32(b), vreinterpretq_s16_s32(a), 2 * (l)), vshrn_n_s32(b, 16),           \
                    vreinterpretq_s16_s32(a), 2 * (l) + 1)
INGOT_NEON_DOT_LANE(s16s16, INGOT_NEON_S16S16)
#define INGOT_HAS_I32X4_DOT_LANE_OF_SHORTS 1
#if defined(__ARM_FEATURE_DOTPROD)
#define INGOT_NEON_S8S8(a, l, b, c) vdotq_laneq_s32(c, i32x4_bytes(b), i32x4_bytes(a), l)
#define INGOT_NEON_U8U8(a, l, b, c)                                                                                    \
    vreinterpretq_s32_u32(                                                                                             \
        vdotq_laneq_u32(vreinterpretq_u32_s32(c), i32x4_unsigned_bytes(b), i32x4_unsigned_bytes(a), l))
INGOT_NEON_DOT_LANE(s8s8, INGOT_NEON_S8S8)
INGOT_NEON_DOT_LANE(u8u8, INGOT_NEON_U8U8)
#define INGOT_HAS_I32X4_DOT_LANE 1
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define INGOT_NEON_U8S8(a, l, b, c) vsudotq_laneq_s32(c, i32x4_bytes(b), i32x4_unsigned_bytes(a), l)
#define INGOT_NEON_S8U8(a, l, b, c) vusdotq_laneq_s32(c, i32x4_unsigned_bytes(b), i32x4_bytes(a), l)
INGOT_NEON_DOT_LANE(u8s8, INGOT_NEON_U8S8)
INGOT_NEON_DOT_LANE(s8u8, INGOT_NEON_S8U8)
#define INGOT_HAS_I32X4_DOT_LANE_OF_BOTH 1
/* Sums are held, as gcc would else copy them from one register to another. */
INGOT_INLINE i32x4 i32x4_matrix_dot_s8s8(i32x4 a, i32x4 b, i32x4 c)
{
    c = vmmlaq_s32(c, i32x4_bytes(a), i32x4_bytes(b));
    INGOT_HOLD("+w", c);
    return c;
}
INGOT_INLINE i32x4 i32x4_matrix_dot_u8u8(i32x4 a, i32x4 b, i32x4 c)
{
    c = vreinterpretq_s32_u32(
        vmmlaq_u32(vreinterpretq_u32_s32(c), i32x4_unsigned_bytes(a), i32x4_unsigned_bytes(b)));
    INGOT_HOLD("+w", c);
    return c;
}
INGOT_INLINE i32x4 i32x4_matrix_dot_u8s8(i32x4 a, i32x4 b, i32x4 c)
{
    c = vusmmlaq_s32(c, i32x4_unsigned_bytes(a), i32x4_bytes(b));
    INGOT_HOLD("+w", c);
    return c;
}
#define INGOT_HAS_I32X4_MATRIX_DOT 1
#endif
#endif

/* ---------------------------------------------------------------- the others */

#define INGOT_INTEGER_NAMES(T)                                                                                         \
    INGOT_INLINE void T##_store_i8(int8_t *p, T a) { T##_store_bytes(p, a); }                                          \
    INGOT_INLINE void T##_store_u8(uint8_t *p, T a) { T##_store_bytes(p, a); }

/* Those of L lanes in two halves H. */
#define INGOT_INTEGER_HALVES_IN_MEMORY(T, H, L)                                                                        \
    INGOT_INTEGER_LOAD_HALVES(T, H, L, i8, int8_t)                                                                     \
    INGOT_INTEGER_LOAD_HALVES(T, H, L, u8, uint8_t)                                                                    \
    INGOT_INTEGER_LOAD_HALVES(T, H, L, i16, int16_t)

#define INGOT_INTEGER_LOAD_HALVES(T, H, L, name, type)                                                                 \
    INGOT_INLINE T T##_load_##name(const type *p)                                                                      \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = H##_load_##name(p);                                                                                     \
        r.hi = H##_load_##name(p + L);                                                                                 \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_##name(type *p, T a)                                                                   \
    {                                                                                                                  \
        H##_store_##name(p, a.lo);                                                                                     \
        H##_store_##name(p + L, a.hi);                                                                                 \
    }

/* Those of an array of L lanes. */
#define INGOT_INTEGER_ARRAY_IN_MEMORY(T, L, name, type)                                                                \
    INGOT_INLINE T T##_load_##name(const type *p)                                                                      \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = p[l];                                                                     \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_##name(type *p, T a)                                                                   \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) p[l] = (type)a.v[l];                                                               \
    }

#define INGOT_INTEGER_ARRAYS_IN_MEMORY(T, L)                                                                           \
    INGOT_INTEGER_ARRAY_IN_MEMORY(T, L, i8, int8_t)                                                                    \
    INGOT_INTEGER_ARRAY_IN_MEMORY(T, L, u8, uint8_t)                                                                   \
    INGOT_INTEGER_ARRAY_IN_MEMORY(T, L, i16, int16_t)

#if !defined(INGOT_HAS_GENERIC)
#if defined(INGOT_HAS_I32X4_PARTS)
#elif defined(INGOT_HAS_I32X4)
INGOT_INTEGER_NAMES(i32x4)
#else
INGOT_INTEGER_ARRAY(i32x4, f32x4, 4)
INGOT_INTEGER_ARRAYS_IN_MEMORY(i32x4, 4)
#endif
#if defined(INGOT_HAS_F32X8)
INGOT_INTEGER_NAMES(i32x8)
#elif defined(INGOT_HAS_F32X4)
INGOT_INTEGER_PAIR(i32x8, f32x8, i32x4, f32x4, 4)
INGOT_INTEGER_HALVES_IN_MEMORY(i32x8, i32x4, 4)
#else
INGOT_INTEGER_ARRAY(i32x8, f32x8, 8)
INGOT_INTEGER_ARRAYS_IN_MEMORY(i32x8, 8)
#endif
#if defined(INGOT_HAS_F32X16)
INGOT_INTEGER_NAMES(i32x16)
#elif defined(INGOT_HAS_F32X4)
INGOT_INTEGER_PAIR(i32x16, f32x16, i32x8, f32x8, 8)
INGOT_INTEGER_HALVES_IN_MEMORY(i32x16, i32x8, 8)
#else
INGOT_INTEGER_ARRAY(i32x16, f32x16, 16)
INGOT_INTEGER_ARRAYS_IN_MEMORY(i32x16, 16)
#endif
#endif

/* Parts of vectors, and lanes that lie apart, by an array. */
#define INGOT_INTEGER_PARTS(T, L, type, name)                                                                          \
    INGOT_INLINE T T##_load##name##_strided(const type *p, ptrdiff_t s)                                                \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        for (int l = 0; l < L; ++l) lanes[l] = p[l * s];                                                               \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE T T##_load##name##_n(const type *p, ptrdiff_t n)                                                      \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        for (int l = 0; l < L; ++l) lanes[l] = l < n ? p[l] : 0;                                                       \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE void T##_store##name##_strided(type *p, ptrdiff_t s, T a)                                             \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        T##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l) p[l * s] = (type)lanes[l];                                                         \
    }                                                                                                                  \
    INGOT_INLINE void T##_store##name##_n(type *p, ptrdiff_t n, T a)                                                   \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        T##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L && l < n; ++l) p[l] = (type)lanes[l];                                                    \
    }

#define INGOT_INTEGER_REDUCE(T, L, name)                                                                               \
    INGOT_INLINE int32_t T##_reduce_##name(T a)                                                                        \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        T##_store(lanes, a);                                                                                           \
        for (int l = 1; l < L; ++l) lanes[0] = ingot_##name##_i32(lanes[0], lanes[l]);                                 \
        return lanes[0];                                                                                               \
    }

#define INGOT_INTEGER_ANY(T, L)                                                                                        \
    INGOT_INTEGER_REDUCE(T, L, add)                                                                                    \
    INGOT_INTEGER_REDUCE(T, L, min)                                                                                    \
    INGOT_INTEGER_REDUCE(T, L, max)                                                                                    \
    INGOT_INLINE T T##_held(T a) { return a; }

#define INGOT_INTEGER_ALL_PARTS(T, L)                                                                                  \
    INGOT_INTEGER_PARTS(T, L, int32_t, )                                                                               \
    INGOT_INTEGER_PARTS(T, L, int8_t, _i8)                                                                             \
    INGOT_INTEGER_PARTS(T, L, uint8_t, _u8)                                                                            \
    INGOT_INTEGER_PARTS(T, L, int16_t, _i16)                                                                           \
    INGOT_INLINE T T##_first_n(T a, T b, ptrdiff_t n)                                                                  \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        T##_store(lanes, b);                                                                                           \
        T##_store_n(lanes, n, a);                                                                                      \
        return T##_load(lanes);                                                                                        \
    }

/* Tables: by instructions that permute bytes, else number by number. */
#define INGOT_INTEGER_LOOKUP(T, L, name, type)                                                                         \
    INGOT_INLINE T T##_lookup_##name(const type *table, T a)                                                           \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        T##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l) lanes[l] = table[lanes[l]];                                                        \
        return T##_load(lanes);                                                                                        \
    }
#if defined(INGOT_HAS_F32X16) && defined(__AVX512VBMI__)
INGOT_INLINE i32x16 i32x16_lookup_bytes(const void *table, i32x16 a)
{
    const uint8_t *t = (const uint8_t *)table;
    const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(t), a, _mm512_loadu_si512(t + 64));
    const __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(t + 128), a, _mm512_loadu_si512(t + 192));
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(a), low, high);
}
INGOT_INLINE i32x16 i32x16_lookup_u8(const uint8_t *table, i32x16 a)
{
    return i32x16_low_u8(i32x16_lookup_bytes(table, a));
}
INGOT_INLINE i32x16 i32x16_lookup_i8(const int8_t *table, i32x16 a)
{
    return i32x16_low_i8(i32x16_lookup_bytes(table, a));
}
#else
INGOT_INTEGER_LOOKUP(i32x16, 16, i8, int8_t)
INGOT_INTEGER_LOOKUP(i32x16, 16, u8, uint8_t)
#endif
#if defined(INGOT_HAS_I32X4) && defined(__ARM_NEON)
INGOT_INLINE i32x4 i32x4_lookup_bytes(const uint8_t *t, i32x4 a)
{
    const uint8x16_t at = vreinterpretq_u8_s32(a);
    uint8x16_t found = vqtbl4q_u8(vld1q_u8_x4(t), at);
    found = vqtbx4q_u8(found, vld1q_u8_x4(t + 64), vsubq_u8(at, vdupq_n_u8(64)));
    found = vqtbx4q_u8(found, vld1q_u8_x4(t + 128), vsubq_u8(at, vdupq_n_u8(128)));
    return vreinterpretq_s32_u8(vqtbx4q_u8(found, vld1q_u8_x4(t + 192), vsubq_u8(at, vdupq_n_u8(192))));
}
INGOT_INLINE i32x4 i32x4_lookup_u8(const uint8_t *table, i32x4 a)
{
    return i32x4_low_u8(i32x4_lookup_bytes(table, a));
}
INGOT_INLINE i32x4 i32x4_lookup_i8(const int8_t *table, i32x4 a)
{
    return i32x4_low_i8(i32x4_lookup_bytes((const uint8_t *)table, a));
}
#else
INGOT_INTEGER_LOOKUP(i32x4, 4, i8, int8_t)
INGOT_INTEGER_LOOKUP(i32x4, 4, u8, uint8_t)
#endif
INGOT_INTEGER_LOOKUP(i32x8, 8, i8, int8_t)
INGOT_INTEGER_LOOKUP(i32x8, 8, u8, uint8_t)

#define INGOT_INTEGER_LOAD_WORDS(T, L)                                                                                 \
    INGOT_INLINE T T##_load_words(const void *p)                                                                       \
    {                                                                                                                  \
        const uint8_t *b = (const uint8_t *)p;                                                                         \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        for (int l = 0; l < L; ++l) lanes[l] = ingot_word(b[l], b[L + l], b[2 * L + l], b[3 * L + l]);                 \
        return T##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE T T##_load_pairs(const int16_t *p)                                                                    \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[L];                                                                            \
        for (int l = 0; l < L; ++l) lanes[l] = ingot_pair(p[l], p[L + l]);                                             \
        return T##_load(lanes);                                                                                        \
    }
#if !defined(INGOT_HAS_I32X4)
INGOT_INTEGER_LOAD_WORDS(i32x4, 4)
#endif
#if !defined(INGOT_HAS_F32X8)
INGOT_INTEGER_LOAD_WORDS(i32x8, 8)
#endif
#if !defined(INGOT_HAS_I32X16_LOAD_WORDS)
INGOT_INTEGER_LOAD_WORDS(i32x16, 16)
#endif

/* A word in memory for all lanes. */
#if !defined(INGOT_HAS_GENERIC)
#define INGOT_INTEGER_DOT_AT(T, mix, type)                                                                             \
    INGOT_INLINE T T##_dot_##mix##_at(const type *p, T b, T c)                                                         \
    {                                                                                                                  \
        return T##_dot_##mix(T##_set1(ingot_load_word(p)), b, c);                                                      \
    }
#define INGOT_INTEGER_DOTS_AT(T)                                                                                       \
    INGOT_INTEGER_DOT_AT(T, s8s8, int8_t)                                                                              \
    INGOT_INTEGER_DOT_AT(T, s8u8, int8_t)                                                                              \
    INGOT_INTEGER_DOT_AT(T, u8s8, uint8_t)                                                                             \
    INGOT_INTEGER_DOT_AT(T, u8u8, uint8_t)
#define INGOT_INTEGER_DOT_OF_SHORTS_AT(T)                                                                              \
    INGOT_INLINE T T##_dot_s16s16_at(const int16_t *p, T b, T c)                                                       \
    {                                                                                                                  \
        return T##_dot_s16s16(T##_set1(ingot_load_pair(p)), b, c);                                                     \
    }
#if defined(INGOT_HAS_I32X4) && defined(__ARM_NEON)
/* By one lane of a register: neither number of the word is put in a register of its own. Sums are held, as gcc would
 * else copy them from one register to another. */
INGOT_INLINE i32x4 i32x4_dot_s16s16_at(const int16_t *p, i32x4 b, i32x4 c)
{
    c = INGOT_NEON_S16S16(vdupq_n_s32(ingot_load_pair(p)), 0, b, c);
    INGOT_HOLD("+w", c);
    return c;
}
#else
INGOT_INTEGER_DOT_OF_SHORTS_AT(i32x4)
#endif
INGOT_INTEGER_DOT_OF_SHORTS_AT(i32x8)
INGOT_INTEGER_DOT_OF_SHORTS_AT(i32x16)
INGOT_INTEGER_DOTS_AT(i32x4)
INGOT_INTEGER_DOTS_AT(i32x8)
INGOT_INTEGER_DOTS_AT(i32x16)
#endif

/* One lane of an operand for all: a vector of it, where there is no instruction. */
#define INGOT_INTEGER_DOT_LANE(mix)                                                                                    \
    INGOT_INLINE i32x4 i32x4_dot_##mix##_lane(i32x4 a, int32_t l, i32x4 b, i32x4 c)                                    \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t lanes[4];                                                                            \
        i32x4_store(lanes, a);                                                                                         \
        return i32x4_dot_##mix(i32x4_set1(lanes[l]), b, c);                                                            \
    }
#if !(defined(INGOT_HAS_I32X4) && defined(__ARM_NEON))
INGOT_INLINE i32x4 i32x4_load_bytes(const void *p)
{
    const uint8_t *b = (const uint8_t *)p;
    INGOT_ALIGNED(64) int32_t lanes[4];
    for (int l = 0; l < 4; ++l) lanes[l] = ingot_word(b[4 * l], b[4 * l + 1], b[4 * l + 2], b[4 * l + 3]);
    return i32x4_load(lanes);
}
#endif
#if defined(INGOT_HAS_I32X4) && defined(__ARM_NEON)
INGOT_INLINE i32x4 i32x4_zip_words(i32x4 a, i32x4 b, int32_t n) { return n ? vzip2q_s32(a, b) : vzip1q_s32(a, b); }
INGOT_INLINE i32x4 i32x4_unzip_words(i32x4 a, i32x4 b, int32_t n) { return n ? vuzp2q_s32(a, b) : vuzp1q_s32(a, b); }
INGOT_INLINE i32x4 i32x4_zip_pairs(i32x4 a, i32x4 b, int32_t n)
{
    const int64x2_t x = vreinterpretq_s64_s32(a), y = vreinterpretq_s64_s32(b);
    return vreinterpretq_s32_s64(n ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
}
#else
INGOT_INLINE i32x4 i32x4_zip_words(i32x4 a, i32x4 b, int32_t n)
{
    INGOT_ALIGNED(64) int32_t x[4], y[4];
    i32x4_store(x, a);
    i32x4_store(y, b);
    const int32_t r[4] = {x[2 * n], y[2 * n], x[2 * n + 1], y[2 * n + 1]};
    return i32x4_load(r);
}
INGOT_INLINE i32x4 i32x4_unzip_words(i32x4 a, i32x4 b, int32_t n)
{
    INGOT_ALIGNED(64) int32_t x[4], y[4];
    i32x4_store(x, a);
    i32x4_store(y, b);
    const int32_t r[4] = {x[n], x[n + 2], y[n], y[n + 2]};
    return i32x4_load(r);
}
INGOT_INLINE i32x4 i32x4_zip_pairs(i32x4 a, i32x4 b, int32_t n)
{
    INGOT_ALIGNED(64) int32_t x[4], y[4];
    i32x4_store(x, a);
    i32x4_store(y, b);
    const int32_t r[4] = {x[2 * n], x[2 * n + 1], y[2 * n], y[2 * n + 1]};
    return i32x4_load(r);
}
#endif
#define INGOT_INTEGER_MATRIX_DOT(mix)                                                                                  \
    INGOT_INLINE i32x4 i32x4_matrix_dot_##mix(i32x4 a, i32x4 b, i32x4 c)                                               \
    {                                                                                                                  \
        INGOT_ALIGNED(64) int32_t x[4], y[4], r[4];                                                                    \
        i32x4_store(x, a);                                                                                             \
        i32x4_store(y, b);                                                                                             \
        i32x4_store(r, c);                                                                                             \
        for (int l = 0; l < 4; ++l) {                                                                                  \
            r[l] = ingot_dot_##mix(x[l / 2 * 2], y[l % 2 * 2], r[l]);                                                  \
            r[l] = ingot_dot_##mix(x[l / 2 * 2 + 1], y[l % 2 * 2 + 1], r[l]);                                          \
        }                                                                                                              \
        return i32x4_load(r);                                                                                          \
    }
#if !defined(INGOT_HAS_I32X4_MATRIX_DOT)
INGOT_INTEGER_MATRIX_DOT(s8s8)
INGOT_INTEGER_MATRIX_DOT(u8u8)
INGOT_INTEGER_MATRIX_DOT(u8s8)
#endif
#if !defined(INGOT_HAS_I32X4_DOT_LANE_OF_SHORTS)
INGOT_INTEGER_DOT_LANE(s16s16)
#endif
#if !defined(INGOT_HAS_I32X4_DOT_LANE)
INGOT_INTEGER_DOT_LANE(s8s8)
INGOT_INTEGER_DOT_LANE(u8u8)
#endif
#if !defined(INGOT_HAS_I32X4_DOT_LANE_OF_BOTH)
INGOT_INTEGER_DOT_LANE(u8s8)
INGOT_INTEGER_DOT_LANE(s8u8)
#endif

#if !defined(INGOT_HAS_I32X4_PARTS)
INGOT_INTEGER_ALL_PARTS(i32x4, 4)
#endif
INGOT_INTEGER_ALL_PARTS(i32x8, 8)
INGOT_INTEGER_ALL_PARTS(i32x16, 16)
INGOT_INTEGER_ANY(i32x4, 4)
INGOT_INTEGER_ANY(i32x8, 8)
INGOT_INTEGER_ANY(i32x16, 16)

#define INGOT_INTEGER_ADD_SCALED(T)                                                                                    \
    INGOT_INLINE T T##_add_scaled(T a, int32_t x, T c) { return T##_add(c, T##_mul(a, T##_set1(x))); }
#define INGOT_INTEGER_ROUND(T, F, name, least, most)                                                                   \
    INGOT_INLINE T T##_round_##name(F x, int32_t zero)                                                                 \
    {                                                                                                                  \
        const F low = F##_set1((float)((least) - zero)), high = F##_set1((float)((most) - zero));                      \
        return T##_add(T##_nearest_f32(F##_min(high, F##_max(low, x))), T##_set1(zero));                               \
    }
#define INGOT_INTEGER_ROUNDS(T, F)                                                                                     \
    INGOT_INTEGER_ADD_SCALED(T)                                                                                        \
    INGOT_INTEGER_ROUND(T, F, i8, -128, 127)                                                                           \
    INGOT_INTEGER_ROUND(T, F, u8, 0, 255)
#if !defined(INGOT_HAS_I32X4_ROUND)
INGOT_INTEGER_ROUNDS(i32x4, f32x4)
#endif
INGOT_INTEGER_ROUNDS(i32x8, f32x8)
INGOT_INTEGER_ROUNDS(i32x16, f32x16)

#endif /* INGOT_SIMD_INTEGER_H */
