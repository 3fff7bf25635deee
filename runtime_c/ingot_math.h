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

#if defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_SAT)
#include <arm_acle.h>
#endif
#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

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
INGOT_INLINE float ingot_fixedf(float a, float b, int32_t n) { return f32x1_fixed(a, b, n); }
INGOT_INLINE float ingot_top_bitsf(float a, int32_t n, int32_t bits) { return f32x1_top_bits(a, n, bits); }
INGOT_INLINE float ingot_greaterf(float a, float b) { return f32x1_greater(a, b); }
INGOT_INLINE float ingot_fmaf(float a, float b, float c) { return f32x1_fma(a, b, c); }

/* Integers where C leaves the result undefined. Sums, differences and products wrap around. Quotients are rounded
 * towards zero (div) or minus infinity (floordiv), and their remainders have the sign of a (mod) or of b (floormod); a
 * quotient by 0, and its remainder, is 0; the least number by -1 is itself. A shift by a negative number, or by as many
 * bits as the type has or more, leaves no bit: 0, or to the right -1 of what is negative. */
#define INGOT_WRAPPING(T, U, name)                                                                                     \
    INGOT_INLINE T ingot_add_##name(T a, T b) { return (T)((U)a + (U)b); }                                             \
    INGOT_INLINE T ingot_sub_##name(T a, T b) { return (T)((U)a - (U)b); }                                             \
    INGOT_INLINE T ingot_mul_##name(T a, T b) { return (T)((U)a * (U)b); }                                             \
    INGOT_INLINE T ingot_shift_left_##name(T a, T b) { return (U)b < 8 * sizeof a ? (T)((U)a << b) : 0; }              \
    INGOT_INLINE T ingot_shift_right_##name(T a, T b) { return a >> ((U)b < 8 * sizeof a ? (U)b : 8 * sizeof a - 1); } \
    INGOT_INLINE T ingot_div_##name(T a, T b)                                                                          \
    {                                                                                                                  \
        return b == 0 ? 0 : b == -1 ? ingot_sub_##name(0, a) : a / b;                                                  \
    }                                                                                                                  \
    INGOT_INLINE T ingot_mod_##name(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }                                \
    INGOT_INLINE T ingot_floordiv_##name(T a, T b)                                                                     \
    {                                                                                                                  \
        const T remainder = ingot_mod_##name(a, b);                                                                    \
        return ingot_div_##name(a, b) - (T)(remainder != 0 && (remainder < 0) != (b < 0));                             \
    }                                                                                                                  \
    INGOT_INLINE T ingot_floormod_##name(T a, T b)                                                                     \
    {                                                                                                                  \
        const T remainder = ingot_mod_##name(a, b);                                                                    \
        return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;                               \
    }                                                                                                                  \
    /* a to the power of b; of b below 0 what is left of 1 / a^-b: 0, or 1 and -1 of these. */                         \
    INGOT_INLINE T ingot_pow_##name(T a, T b)                                                                          \
    {                                                                                                                  \
        U power = 1, square = (U)a;                                                                                    \
        if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;                                    \
        for (; b > 0; b /= 2) {                                                                                        \
            if (b % 2 != 0) power *= square;                                                                           \
            square *= square;                                                                                          \
        }                                                                                                              \
        return (T)power;                                                                                               \
    }
INGOT_WRAPPING(int32_t, uint32_t, i32)
INGOT_WRAPPING(int64_t, uint64_t, i64)
#define INGOT_UNSIGNED(U, name)                                                                                        \
    INGOT_INLINE U ingot_div_##name(U a, U b) { return b == 0 ? 0 : a / b; }                                           \
    INGOT_INLINE U ingot_mod_##name(U a, U b) { return b == 0 ? 0 : a % b; }                                           \
    INGOT_INLINE U ingot_shift_left_##name(U a, U b) { return b < 8 * sizeof a ? a << b : 0; }                         \
    INGOT_INLINE U ingot_shift_right_##name(U a, U b) { return b < 8 * sizeof a ? a >> b : 0; }
INGOT_UNSIGNED(uint32_t, u32)
INGOT_UNSIGNED(uint64_t, u64)

/* Numbers to integers, towards zero; NaN and what the type does not hold, to its least number, as x86 has it. Narrower
 * types take the lowest bits of int32_t's, uint32_t of int64_t's; below 0 so does uint64_t. */
#define INGOT_TO_INTEGER(T, name, is_above)                                                                            \
    INGOT_INLINE int32_t ingot_##name##_to_i32(T x)                                                                    \
    {                                                                                                                  \
        const int fits = is_above && x < (T)2147483648.0;                                                              \
        const int32_t n = (int32_t)(fits ? x : 0);                                                                     \
        return fits ? n : INT32_MIN;                                                                                   \
    }                                                                                                                  \
    INGOT_INLINE int64_t ingot_##name##_to_i64(T x)                                                                    \
    {                                                                                                                  \
        const int fits = x >= (T)-9223372036854775808.0 && x < (T)9223372036854775808.0;                               \
        const int64_t n = (int64_t)(fits ? x : 0);                                                                     \
        return fits ? n : INT64_MIN;                                                                                   \
    }                                                                                                                  \
    INGOT_INLINE uint64_t ingot_##name##_to_u64(T x)                                                                   \
    {                                                                                                                  \
        const int high = x >= (T)9223372036854775808.0 && x < (T)18446744073709551616.0;                               \
        const uint64_t n = (uint64_t)(high ? x : 0);                                                                   \
        return high ? n : x > 0 && !(x < (T)9223372036854775808.0) ? 0 : (uint64_t)ingot_##name##_to_i64(x);           \
    }
INGOT_TO_INTEGER(float, f32, x >= -2147483648.0f) /* without a double, which few boards compute with */
INGOT_TO_INTEGER(double, f64, x > -2147483649.0)

/* x to the power of 0.5: infinity of minus infinity, 0 of -0. Gcc makes pow() a square root, which it is not there. */
INGOT_INLINE float ingot_half_power_f32(float x) { return x == -INFINITY ? INFINITY : f32x1_sqrt(x) + 0.0f; }
INGOT_INLINE double ingot_half_power_f64(double x) { return x == -INFINITY ? INFINITY : sqrt(x) + 0.0; }

#if !defined(__OPENCL_VERSION__)
/* 2 to the power of x; by CUDA in one instruction: 2 ulp, and 0 for what is less than the least normal number. */
INGOT_INLINE float ingot_exp2f(float x)
{
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
#endif

/* The greater and the lesser number: max and min of a that is no NaN, maximum and minimum of any; NaN if one is. */
#define INGOT_MIN_MAX(T, name)                                                                                         \
    INGOT_INLINE T ingot_min_##name(T a, T b) { return a < b ? a : b; }                                                \
    INGOT_INLINE T ingot_max_##name(T a, T b) { return a > b ? a : b; }
INGOT_MIN_MAX(int32_t, i32)
INGOT_MIN_MAX(int64_t, i64)
INGOT_MIN_MAX(float, f32)
INGOT_MIN_MAX(double, f64)
INGOT_INLINE float ingot_minimum_f32(float a, float b) { return f32x1_minimum(a, b); }
INGOT_INLINE float ingot_maximum_f32(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#else
    return f32x1_maximum(a, b);
#endif
}
INGOT_INLINE double ingot_minimum_f64(double a, double b) { return a < b || a != a ? a : b; }
INGOT_INLINE double ingot_maximum_f64(double a, double b) { return a > b || a != a ? a : b; }

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

/* x rounded, ties to even, plus an integer of no more than 255, or 65535, as one of 8, or 16, bits that saturates; x is
 * not NaN. Where processors have an instruction for them integers saturate, too; where they have no floats the bits of
 * x tell, and 1 << 24 stands for all above. */
#if defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__aarch64__) && defined(__GNUC__)
#define INGOT_ROUND_I32(x, n) __asm__("vcvtr.s32.f32 %0, %1" : "=t"(n) : "t"(x))
#elif defined(__riscv_flen) && defined(__GNUC__)
#define INGOT_ROUND_I32(x, n) __asm__("fcvt.w.s %0, %1, rne" : "=r"(n) : "f"(x))
#elif defined(__SOFTFP__) || (defined(__riscv) && !defined(__riscv_flen))
#define INGOT_ROUND_I32(x, n) (n) = ingot_round_bits(x)
INGOT_INLINE int32_t ingot_round_bits(float x)
{
    const uint32_t bits = f32x1_bits(x), exponent = bits >> 23 & 255u;
    const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u, shift = 150u - exponent;
    uint32_t n = 1u << 24;
    if (exponent < 126u) n = 0;
    else if (exponent < 150u) n = (mantissa + ((1u << (shift - 1u)) - 1u) + (mantissa >> shift & 1u)) >> shift;
    return bits >> 31 != 0 ? -(int32_t)n : (int32_t)n;
}
#endif
#if defined(INGOT_ROUND_I32) && defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SAT)
#define INGOT_SATURATED_SUM(n, bits, least) /* __ssat of gcc's header is a macro that warns */                         \
    ((least) < 0 ? (int32_t)__builtin_arm_ssat(n, bits) : (int32_t)__builtin_arm_usat(n, bits))
#define INGOT_SATURATED(n, zero, bits, least, most)                                                                    \
    INGOT_SATURATED_SUM((zero) == 0 ? (n) : __qadd(n, zero), bits, least)
#else
#define INGOT_SATURATED(n, zero, bits, least, most)                                                                    \
    ((n) < (least) - (zero) ? (least) : (n) > (most) - (zero) ? (most) : (n) + (zero))
#endif
#if defined(INGOT_ROUND_I32)
#define INGOT_ROUND(T, name, bits, least, most)                                                                        \
    INGOT_INLINE T ingot_round_##name(float x, int32_t zero)                                                           \
    {                                                                                                                  \
        int32_t n;                                                                                                     \
        INGOT_ROUND_I32(x, n);                                                                                         \
        return (T)INGOT_SATURATED(n, zero, bits, least, most);                                                         \
    }
#else
#define INGOT_ROUND(T, name, bits, least, most)                                                                        \
    INGOT_INLINE T ingot_round_##name(float x, int32_t zero)                                                           \
    {                                                                                                                  \
        const float n = ingot_roundf(x) + (float)zero;                                                                 \
        return (T)ingot_f32_to_i32(ingot_min_f32((float)(most), ingot_max_f32((float)(least), n)));                    \
    }
#endif
INGOT_ROUND(int8_t, i8, 8, -128, 127)
INGOT_ROUND(uint8_t, u8, 8, 0, 255)
INGOT_ROUND(int16_t, i16, 16, -32768, 32767)
INGOT_ROUND(uint16_t, u16, 16, 0, 65535)

/* Four bytes as a word, the first one lowest; of four that follow one another in memory. */
INGOT_INLINE int32_t ingot_word(int32_t a, int32_t b, int32_t c, int32_t d)
{
    const uint32_t low = ((uint32_t)a & 255u) | ((uint32_t)b & 255u) << 8;
    return (int32_t)(low | ((uint32_t)c & 255u) << 16 | (uint32_t)d << 24);
}
INGOT_INLINE int32_t ingot_load_word(const void *p)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    int32_t word;
    memcpy(&word, p, sizeof word);
    return word;
#else
    const uint8_t *bytes = (const uint8_t *)p;
    return ingot_word(bytes[0], bytes[1], bytes[2], bytes[3]);
#endif
}

/* Two numbers of 16 bits as a word, the first one lowest; of two that follow one another in memory. */
INGOT_INLINE int32_t ingot_pair(int32_t a, int32_t b)
{
    return (int32_t)(((uint32_t)a & 65535u) | (uint32_t)b << 16);
}
INGOT_INLINE int32_t ingot_load_pair(const void *p)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return pair;
#else
    const int16_t *parts = (const int16_t *)p;
    return ingot_pair(parts[0], parts[1]);
#endif
}
/* The same at a multiple of 4: compilers for Arm make one load of two such pairs. */
INGOT_INLINE int32_t ingot_load_aligned_pair(const void *p)
{
#if defined(__GNUC__) && !defined(__TINYC__)
    p = __builtin_assume_aligned(p, 4);
#endif
    return ingot_load_pair(p);
}

/* c and the products of the four bytes of a word a and those of b, each with a sign (s8) or without (u8). Bytes 0 and 2
 * of a word are a pair of 16 bits, and so are 1 and 3; the products of two pairs are one instruction of Arm's DSP.
 * ingot_dot_s16s8: of pairs a and b, and these two of a word. */
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(__aarch64__)
#define INGOT_PAIRS(sign, letter)                                                                                      \
    INGOT_INLINE int32_t ingot_even_##sign(int32_t a)                                                                  \
    {                                                                                                                  \
        int32_t pair;                                                                                                  \
        __asm__(letter "xtb16 %0, %1" : "=r"(pair) : "r"(a));                                                          \
        return pair;                                                                                                   \
    }                                                                                                                  \
    INGOT_INLINE int32_t ingot_odd_##sign(int32_t a)                                                                   \
    {                                                                                                                  \
        int32_t pair;                                                                                                  \
        __asm__(letter "xtb16 %0, %1, ror #8" : "=r"(pair) : "r"(a));                                                  \
        return pair;                                                                                                   \
    }
INGOT_PAIRS(s8, "s")
INGOT_PAIRS(u8, "u")
#define INGOT_DOT(left, right, A, B)                                                                                   \
    INGOT_INLINE int32_t ingot_dot_##left##right(int32_t a, int32_t b, int32_t c)                                      \
    {                                                                                                                  \
        c = __smlad(ingot_even_##left(a), ingot_even_##right(b), c);                                                   \
        return __smlad(ingot_odd_##left(a), ingot_odd_##right(b), c);                                                  \
    }
INGOT_INLINE int32_t ingot_dot_s16s8(int32_t a, int32_t b, int32_t c, int32_t word)
{
    c = __smlad(a, ingot_even_s8(word), c);
    return __smlad(b, ingot_odd_s8(word), c);
}
#else
INGOT_INLINE int32_t ingot_dot_s16s8(int32_t a, int32_t b, int32_t c, int32_t word)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b, w = (uint32_t)word;
    c = ingot_add_i32(c, (int16_t)x * (int8_t)w);
    c = ingot_add_i32(c, (int16_t)(x >> 16) * (int8_t)(w >> 16));
    c = ingot_add_i32(c, (int16_t)y * (int8_t)(w >> 8));
    return ingot_add_i32(c, (int16_t)(y >> 16) * (int8_t)(w >> 24));
}
#define INGOT_DOT(left, right, A, B)                                                                                   \
    INGOT_INLINE int32_t ingot_dot_##left##right(int32_t a, int32_t b, int32_t c)                                      \
    {                                                                                                                  \
        for (int n = 0; n < 32; n += 8) c = ingot_add_i32(c, (A)((uint32_t)a >> n) * (B)((uint32_t)b >> n));           \
        return c;                                                                                                      \
    }
#endif
/* c and the products of the two numbers of a pair a and those of b. */
INGOT_INLINE int32_t ingot_dot_s16s16(int32_t a, int32_t b, int32_t c)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    c = ingot_add_i32(c, (int16_t)x * (int16_t)y);
    return ingot_add_i32(c, (int16_t)(x >> 16) * (int16_t)(y >> 16));
}
/* c and the products of the two bfloat16 of a word a and those of b, which float32 holds. */
INGOT_INLINE float ingot_dot_bf16(int32_t a, int32_t b, float c)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    const float low = f32x1_from_bits(x << 16) * f32x1_from_bits(y << 16);
    return c + (low + f32x1_from_bits(x & 0xffff0000u) * f32x1_from_bits(y & 0xffff0000u));
}

/* c and the products of 16 bytes of a and those of b. */
#if defined(__ARM_FEATURE_MVE) && !defined(__ARM_BIG_ENDIAN)
INGOT_INLINE int32_t ingot_dot_row_s8s8(const int8_t *a, const int8_t *b, int32_t c)
{
    return vmladavaq_s8(c, vld1q_s8(a), vld1q_s8(b));
}
INGOT_INLINE int32_t ingot_dot_row_u8u8(const uint8_t *a, const uint8_t *b, int32_t c)
{
    return (int32_t)vmladavaq_u8((uint32_t)c, vld1q_u8(a), vld1q_u8(b));
}
INGOT_INLINE int32_t ingot_dot_row_u8s8(const uint8_t *a, const int8_t *b, int32_t c)
{
    c = vmladavaq_s16(c, vreinterpretq_s16_u16(vldrbq_u16(a)), vldrbq_s16(b));
    return vmladavaq_s16(c, vreinterpretq_s16_u16(vldrbq_u16(a + 8)), vldrbq_s16(b + 8));
}
INGOT_INLINE int32_t ingot_dot_row_s8u8(const int8_t *a, const uint8_t *b, int32_t c)
{
    return ingot_dot_row_u8s8(b, a, c);
}
#else
#define INGOT_DOT_ROW(left, right, A, B)                                                                               \
    INGOT_INLINE int32_t ingot_dot_row_##left##right(const A *a, const B *b, int32_t c)                                \
    {                                                                                                                  \
        for (int n = 0; n < 16; ++n) c = ingot_add_i32(c, a[n] * b[n]);                                                \
        return c;                                                                                                      \
    }
INGOT_DOT_ROW(u8, s8, uint8_t, int8_t)
INGOT_DOT_ROW(s8, u8, int8_t, uint8_t)
INGOT_DOT_ROW(s8, s8, int8_t, int8_t)
INGOT_DOT_ROW(u8, u8, uint8_t, uint8_t)
#endif

/* c and the products of three bytes of a, from its n-th on, 0 or 1, and three weights: the outer ones are the halves of
 * `sides`, the left one lowest. Two neighbours in a row of a window's results. */
#if defined(INGOT_PAIRS)
#define INGOT_TAPS(sign, A)                                                                                            \
    INGOT_INLINE int32_t ingot_taps_##sign(int32_t a, int32_t sides, int32_t c, int32_t middle, int32_t n)             \
    {                                                                                                                  \
        const int32_t even = ingot_even_##sign(a), odd = ingot_odd_##sign(a);                                          \
        c = __smlad(n == 0 ? even : odd, sides, c);                                                                    \
        return n == 0 ? __smlabb(odd, middle, c) : __smlatb(even, middle, c);                                          \
    }
#else
#define INGOT_TAPS(sign, A)                                                                                            \
    INGOT_INLINE int32_t ingot_taps_##sign(int32_t a, int32_t sides, int32_t c, int32_t middle, int32_t n)             \
    {                                                                                                                  \
        const uint32_t bytes = (uint32_t)a >> 8 * n;                                                                   \
        c = ingot_add_i32(c, (A)bytes * (int16_t)(uint16_t)sides);                                                     \
        c = ingot_add_i32(c, (A)(bytes >> 8) * middle);                                                                \
        return ingot_add_i32(c, (A)(bytes >> 16) * (int16_t)(uint16_t)((uint32_t)sides >> 16));                        \
    }
#endif
/* The same of three of the numbers of 16 bits of the pairs a and b. */
INGOT_INLINE int32_t ingot_taps_s16(int32_t a, int32_t b, int32_t c, int32_t sides, int32_t middle, int32_t n)
{
#if defined(INGOT_PAIRS)
    c = n == 0 ? __smlabb(a, sides, c) : __smlatb(a, sides, c);
    c = n == 0 ? __smlatb(a, middle, c) : __smlabb(b, middle, c);
    return n == 0 ? __smlabt(b, sides, c) : __smlatt(b, sides, c);
#else
    const uint32_t two = n == 0 ? (uint32_t)a : (uint32_t)a >> 16 | (uint32_t)b << 16;
    c = ingot_add_i32(c, (int16_t)two * (int16_t)(uint16_t)sides);
    c = ingot_add_i32(c, (int16_t)(two >> 16) * middle);
    return ingot_add_i32(c, (int16_t)((uint32_t)b >> 16 * n) * (int16_t)(uint16_t)((uint32_t)sides >> 16));
#endif
}
INGOT_TAPS(s8, int8_t)
INGOT_TAPS(u8, uint8_t)
INGOT_DOT(u8, s8, uint8_t, int8_t)
INGOT_DOT(s8, u8, int8_t, uint8_t)
INGOT_DOT(s8, s8, int8_t, int8_t)
INGOT_DOT(u8, u8, uint8_t, uint8_t)

#endif /* INGOT_MATH_H */
