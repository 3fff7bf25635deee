/* simd/generic.h: f32x4, f32x8 and f32x16 as the vectors that gcc and clang have in C itself, for machines whose
 * registers are as long as they like: the compiler takes as many of them as a vector needs. RISC-V's V says in each
 * instruction how many lanes it is of, so that the code is right whatever the length of registers, from 128 bits on. */
#ifndef INGOT_SIMD_GENERIC_H
#define INGOT_SIMD_GENERIC_H

/* V: vectors of floats; I and U: of integers with a sign, and without one. Those in memory lie anywhere. */
#define INGOT_GENERIC_TYPES(L)                                                                                         \
    typedef float f32x##L __attribute__((vector_size(4 * L)));                                                         \
    typedef int32_t i32x##L __attribute__((vector_size(4 * L)));                                                       \
    typedef uint32_t u32x##L __attribute__((vector_size(4 * L)));                                                      \
    typedef float f32x##L##_memory __attribute__((vector_size(4 * L), aligned(4), may_alias));                         \
    typedef int32_t i32x##L##_memory __attribute__((vector_size(4 * L), aligned(4), may_alias));                       \
    typedef int16_t i16x##L##_memory __attribute__((vector_size(2 * L), aligned(2), may_alias));                       \
    typedef int8_t i8x##L##_memory __attribute__((vector_size(L), aligned(1), may_alias));                             \
    typedef uint8_t u8x##L##_memory __attribute__((vector_size(L), aligned(1), may_alias));
INGOT_GENERIC_TYPES(4)
INGOT_GENERIC_TYPES(8)
INGOT_GENERIC_TYPES(16)

#define INGOT_LANES_4(x) x, x, x, x
#define INGOT_LANES_8(x) INGOT_LANES_4(x), INGOT_LANES_4(x)
#define INGOT_LANES_16(x) INGOT_LANES_8(x), INGOT_LANES_8(x)

#define INGOT_GENERIC_MEMORY(V, I, U, L)                                                                               \
    INGOT_INLINE V V##_set1(float x)                                                                                   \
    {                                                                                                                  \
        const V r = {INGOT_LANES_##L(x)};                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE U U##_set1(uint32_t x)                                                                                \
    {                                                                                                                  \
        const U r = {INGOT_LANES_##L(x)};                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE V V##_load(const float *p) { return *(const V##_memory *)p; }                                         \
    INGOT_INLINE void V##_store(float *p, V a) { *(V##_memory *)p = a; }                                               \
    INGOT_INLINE V V##_load_i8(const int8_t *p) { return __builtin_convertvector(*(const i8x##L##_memory *)p, V); }    \
    INGOT_INLINE V V##_load_u8(const uint8_t *p) { return __builtin_convertvector(*(const u8x##L##_memory *)p, V); }   \
    INGOT_INLINE V V##_load_i16(const int16_t *p) { return __builtin_convertvector(*(const i16x##L##_memory *)p, V); } \
    INGOT_INLINE V V##_held(V a) { return a; }                                                                         \
    INGOT_INLINE V V##_load_strided(const float *p, ptrdiff_t stride)                                                  \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        for (int l = 0; l < L; ++l) lanes[l] = p[l * stride];                                                          \
        return V##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE void V##_store_strided(float *p, ptrdiff_t stride, V a)                                               \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        V##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l) p[l * stride] = lanes[l];                                                          \
    }                                                                                                                  \
    INGOT_INLINE V V##_load_n(const float *p, ptrdiff_t n)                                                             \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        for (int l = 0; l < L; ++l) lanes[l] = l < n ? p[l] : 0.0f;                                                    \
        return V##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE void V##_store_n(float *p, ptrdiff_t n, V a)                                                          \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        V##_store(lanes, a);                                                                                           \
        for (int l = 0; l < L; ++l)                                                                                    \
            if (l < n) p[l] = lanes[l];                                                                                \
    }                                                                                                                  \
    INGOT_INLINE V V##_first_n(V a, V b, ptrdiff_t n)                                                                  \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        V##_store(lanes, b);                                                                                           \
        V##_store_n(lanes, n, a);                                                                                      \
        return V##_load(lanes);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE V V##_evens(V a, V b, int32_t w)                                                                      \
    {                                                                                                                  \
        V r = a;                                                                                                       \
        for (int l = 0; l < L; ++l) r[l] = l & w ? b[l - w] : a[l];                                                    \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE V V##_odds(V a, V b, int32_t w)                                                                       \
    {                                                                                                                  \
        V r = b;                                                                                                       \
        for (int l = 0; l < L; ++l) r[l] = l & w ? b[l] : a[l + w];                                                    \
        return r;                                                                                                      \
    }

/* Comparisons are vectors of integers: all bits, or none. min, max and clamp are as those of simd/lane.h. */
#define INGOT_GENERIC_ARITHMETIC(V, I)                                                                                 \
    INGOT_INLINE V V##_blend(I condition, V x, V y) { return (V)((condition & (I)x) | (~condition & (I)y)); }          \
    INGOT_INLINE V V##_select_lt(V a, V b, V x, V y) { return V##_blend((I)(a < b), x, y); }                           \
    INGOT_INLINE V V##_select_le(V a, V b, V x, V y) { return V##_blend((I)(a <= b), x, y); }                          \
    INGOT_INLINE V V##_select_eq(V a, V b, V x, V y) { return V##_blend((I)(a == b), x, y); }                          \
    INGOT_INLINE V V##_add(V a, V b) { return a + b; }                                                                 \
    INGOT_INLINE V V##_sub(V a, V b) { return a - b; }                                                                 \
    INGOT_INLINE V V##_mul(V a, V b) { return a * b; }                                                                 \
    INGOT_INLINE V V##_div(V a, V b) { return a / b; }                                                                 \
    INGOT_INLINE V V##_neg(V a) { return -a; }                                                                         \
    INGOT_INLINE V V##_min(V a, V b) { return V##_blend((I)(a < b), a, b); }                                           \
    INGOT_INLINE V V##_max(V a, V b) { return V##_blend((I)(a > b), a, b); }                                           \
    INGOT_INLINE V V##_minimum(V a, V b) { return V##_blend((I)(a < b) | (I)(a != a), a, b); }                         \
    INGOT_INLINE V V##_maximum(V a, V b) { return V##_blend((I)(a > b) | (I)(a != a), a, b); }                         \
    INGOT_INLINE V V##_clamp(V a, V lo, V hi)                                                                          \
    {                                                                                                                  \
        return V##_blend((I)(a < lo), lo, V##_blend((I)(a > hi), hi, a));                                              \
    }                                                                                                                  \
    INGOT_INLINE V V##_greater(V a, V b) { return V##_blend((I)a > (I)b, a, b); }

/* As the functions of f32x1. Shifts are of numbers without a sign. */
#define INGOT_GENERIC_BITS(V, I, U)                                                                                    \
    INGOT_INLINE V V##_abs(V a) { return (V)((U)a & U##_set1(0x7fffffffu)); }                                          \
    INGOT_INLINE V V##_copysign(V a, V sign)                                                                           \
    {                                                                                                                  \
        return (V)(((U)a & U##_set1(0x7fffffffu)) | ((U)sign & U##_set1(0x80000000u)));                                \
    }                                                                                                                  \
    INGOT_INLINE V V##_number(U a) { return __builtin_convertvector((I)a, V); }                                     \
    INGOT_INLINE V V##_fixed(V a, V b, int32_t n)                                                                      \
    {                                                                                                                  \
        const U second = ((U)b >> U##_set1(1)) >> U##_set1((uint32_t)(31 - n));                                        \
        return V##_number(((U)a << U##_set1((uint32_t)n)) | second);                                                \
    }                                                                                                                  \
    INGOT_INLINE V V##_top_bits(V a, int32_t n, int32_t bits)                                                          \
    {                                                                                                                  \
        const U first = (U)a << U##_set1((uint32_t)(32 - bits - n));                                                   \
        return V##_number(first & U##_set1(0xffffffffu << (32 - bits)));                                            \
    }                                                                                                                  \
    INGOT_INLINE V V##_round(V a)                                                                                      \
    {                                                                                                                  \
        const V two23 = V##_set1(8388608.0f), magnitude = V##_abs(a);                                                  \
        const V above = magnitude + two23;                                                                             \
        return V##_select_lt(magnitude, two23, V##_copysign(above - two23, a), a);                                     \
    }                                                                                                                  \
    INGOT_INLINE V V##_floor(V a)                                                                                      \
    {                                                                                                                  \
        const V rounded = V##_round(a);                                                                                \
        return rounded - V##_select_lt(a, rounded, V##_set1(1.0f), V##_set1(0.0f));                                    \
    }                                                                                                                  \
    INGOT_INLINE V V##_ldexp(V a, V n)                                                                                 \
    {                                                                                                                  \
        const U biased = (U)(n + V##_set1(12582912.0f)) - U##_set1(0x4b400000u - 254u);                                \
        const U half = biased >> U##_set1(1);                                                                          \
        return a * (V)(half << U##_set1(23)) * (V)((biased - half) << U##_set1(23));                                   \
    }                                                                                                                  \
    INGOT_INLINE V V##_power(V a) { return (V)((U)a << U##_set1(23)); }                                                \
    INGOT_INLINE U V##_shifted_bits(V a) { return (U)a + U##_set1(0x3f800000u - 0x3f3504f3u); }                        \
    INGOT_INLINE V V##_exponent(V a)                                                                                   \
    {                                                                                                                  \
        return V##_number(V##_shifted_bits(a) >> U##_set1(23)) - V##_set1(127.0f);                                  \
    }                                                                                                                  \
    INGOT_INLINE V V##_mantissa(V a)                                                                                   \
    {                                                                                                                  \
        const U power = V##_shifted_bits(a) & U##_set1(0xff800000u);                                                   \
        return (V)((U)a - (power - U##_set1(0x3f800000u)));                                                            \
    }

/* Halves the vector until one lane is left. */
#define INGOT_GENERIC_REDUCE(V, L, name, op)                                                                           \
    INGOT_INLINE float V##_reduce_##name(V a)                                                                          \
    {                                                                                                                  \
        float lanes[L];                                                                                                \
        V##_store(lanes, a);                                                                                           \
        for (int half = L / 2; half > 0; half /= 2)                                                                    \
            for (int l = 0; l < half; ++l) lanes[l] = f32x1_##op(lanes[l], lanes[l + half]);                           \
        return lanes[0];                                                                                               \
    }

/* Lane by lane where compilers have no functions of vectors, but make them of loops. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma) && __has_builtin(__builtin_elementwise_sqrt)
#define INGOT_GENERIC_ROUNDED(V, L)                                                                                    \
    INGOT_INLINE V V##_fma(V a, V b, V c) { return __builtin_elementwise_fma(a, b, c); }                               \
    INGOT_INLINE V V##_sqrt(V a) { return __builtin_elementwise_sqrt(a); }
#endif
#endif
#if !defined(INGOT_GENERIC_ROUNDED)
#define INGOT_GENERIC_ROUNDED(V, L)                                                                                    \
    INGOT_INLINE V V##_fma(V a, V b, V c)                                                                              \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) c[l] = f32x1_fma(a[l], b[l], c[l]);                                                \
        return c;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE V V##_sqrt(V a)                                                                                       \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a[l] = f32x1_sqrt(a[l]);                                                           \
        return a;                                                                                                      \
    }
#endif

#define INGOT_GENERIC_VECTOR(V, I, U, L)                                                                               \
    INGOT_GENERIC_MEMORY(V, I, U, L)                                                                                   \
    INGOT_GENERIC_ARITHMETIC(V, I)                                                                                     \
    INGOT_GENERIC_BITS(V, I, U)                                                                                        \
    INGOT_GENERIC_ROUNDED(V, L)                                                                                        \
    INGOT_GENERIC_REDUCE(V, L, add, add)                                                                               \
    INGOT_GENERIC_REDUCE(V, L, min, minimum)                                                                           \
    INGOT_GENERIC_REDUCE(V, L, max, maximum)                                                                           \
    INGOT_GENERIC_REDUCE(V, L, greater, greater)                                                                       \
    INGOT_SIMD_MATH(V)
INGOT_GENERIC_VECTOR(f32x4, i32x4, u32x4, 4)
INGOT_GENERIC_VECTOR(f32x8, i32x8, u32x8, 8)
INGOT_GENERIC_VECTOR(f32x16, i32x16, u32x16, 16)

#endif /* INGOT_SIMD_GENERIC_H */
