/* simd/generic_integer.h: i32x4, i32x8 and i32x16 as the vectors that gcc and clang have in C itself; see generic.h.
 * What may wrap around is computed without a sign. */
#ifndef INGOT_SIMD_GENERIC_INTEGER_H
#define INGOT_SIMD_GENERIC_INTEGER_H

#define INGOT_GENERIC_NARROW(I, L, name, type)                                                                         \
    INGOT_INLINE I I##_load_##name(const type *p)                                                                      \
    {                                                                                                                  \
        return __builtin_convertvector(*(const name##x##L##_memory *)p, I);                                            \
    }                                                                                                                  \
    INGOT_INLINE void I##_store_##name(type *p, I a)                                                                   \
    {                                                                                                                  \
        *(name##x##L##_memory *)p = __builtin_convertvector(a, name##x##L##_memory);                                   \
    }

/* The n-th byte of each word, with a sign or without one. */
#define INGOT_GENERIC_BYTES(I, U)                                                                                      \
    INGOT_INLINE I I##_byte_s8(I a, uint32_t n)                                                                        \
    {                                                                                                                  \
        return (I)((U)a << U##_set1(24u - 8u * n)) >> I##_set1(24);                                                    \
    }                                                                                                                  \
    INGOT_INLINE I I##_byte_u8(I a, uint32_t n) { return (I)((U)a >> U##_set1(8u * n) & U##_set1(255)); }

/* A row gives its bytes one by one: a vector by a number is one instruction. */
#define INGOT_GENERIC_DOT(I, left, right, type)                                                                        \
    INGOT_INLINE I I##_dot_##left##right(I a, I b, I c)                                                                \
    {                                                                                                                  \
        for (uint32_t n = 0; n < 4; ++n) c = I##_add(c, I##_byte_##left(a, n) * I##_byte_##right(b, n));               \
        return c;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE I I##_dot_##left##right##_at(const type *p, I b, I c)                                                 \
    {                                                                                                                  \
        for (uint32_t n = 0; n < 4; ++n) c = I##_add(c, I##_set1(p[n]) * I##_byte_##right(b, n));                      \
        return c;                                                                                                      \
    }

#define INGOT_GENERIC_DOT_OF_SHORTS(I, U)                                                                              \
    INGOT_INLINE I I##_high_s16(I a) { return a >> I##_set1(16); }                                                     \
    INGOT_INLINE I I##_dot_s16s16(I a, I b, I c)                                                                       \
    {                                                                                                                  \
        c = I##_add(c, I##_mul(I##_low_i16(a), I##_low_i16(b)));                                                       \
        return I##_add(c, I##_mul(I##_high_s16(a), I##_high_s16(b)));                                                  \
    }                                                                                                                  \
    INGOT_INLINE I I##_dot_s16s16_at(const int16_t *p, I b, I c)                                                       \
    {                                                                                                                  \
        c = I##_add(c, I##_mul(I##_set1(p[0]), I##_low_i16(b)));                                                       \
        return I##_add(c, I##_mul(I##_set1(p[1]), I##_high_s16(b)));                                                   \
    }

/* Where a number is not in the range of integers, what a conversion gives is not defined. */
#define INGOT_GENERIC_FITTING(I, F, convert)                                                                           \
    INGOT_INLINE I I##_from_f32(F x)                                                                                   \
    {                                                                                                                  \
        const I fits = (I)(F##_abs(x) < F##_set1(2147483648.0f));                                                      \
        return (fits & convert(F##_blend(fits, x, F##_set1(0.0f)))) | (~fits & I##_set1(INT32_MIN));                   \
    }
#define INGOT_GENERIC_FROM_FLOATS(I, F)                                                                                \
    INGOT_INLINE I I##_toward_zero(F x) { return __builtin_convertvector(x, I); }                                      \
    INGOT_GENERIC_FITTING(I, F, I##_toward_zero)                                                                       \
    INGOT_INLINE I I##_nearest_f32(F x) { return I##_from_f32(F##_round(x)); }
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_rint)
/* To the nearest in one instruction, of RISC-V too, where QEMU 7 stops at the one that converts toward zero: one off
 * where that is farther from zero than x. */
#undef INGOT_GENERIC_FROM_FLOATS
#define INGOT_GENERIC_FROM_FLOATS(I, F)                                                                                \
    INGOT_INLINE I I##_nearest_f32(F x) { return __builtin_convertvector(__builtin_elementwise_rint(x), I); }          \
    INGOT_INLINE I I##_toward_zero(F x)                                                                                \
    {                                                                                                                  \
        const I n = I##_nearest_f32(x);                                                                                \
        const I farther = (I)(F##_abs(x) < F##_abs(__builtin_convertvector(n, F)));                                    \
        return n + ((farther ^ (I)x >> I##_set1(31)) - ((I)x >> I##_set1(31)));                                        \
    }                                                                                                                  \
    INGOT_GENERIC_FITTING(I, F, I##_toward_zero)
#endif
#endif

#define INGOT_GENERIC_INTEGER(I, F, U, L)                                                                              \
    INGOT_INLINE I I##_set1(int32_t x)                                                                                 \
    {                                                                                                                  \
        const I r = {INGOT_LANES_##L(x)};                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE I I##_load(const int32_t *p) { return *(const I##_memory *)p; }                                       \
    INGOT_INLINE void I##_store(int32_t *p, I a) { *(I##_memory *)p = a; }                                             \
    INGOT_GENERIC_NARROW(I, L, i8, int8_t)                                                                             \
    INGOT_GENERIC_NARROW(I, L, u8, uint8_t)                                                                            \
    INGOT_GENERIC_NARROW(I, L, i16, int16_t)                                                                           \
    INGOT_GENERIC_BYTES(I, U)                                                                                          \
    INGOT_INLINE I I##_add(I a, I b) { return (I)((U)a + (U)b); }                                                      \
    INGOT_INLINE I I##_sub(I a, I b) { return (I)((U)a - (U)b); }                                                      \
    INGOT_INLINE I I##_mul(I a, I b) { return (I)((U)a * (U)b); }                                                      \
    INGOT_INLINE I I##_min(I a, I b) { return ((a < b) & a) | (~(a < b) & b); }                                        \
    INGOT_INLINE I I##_max(I a, I b) { return ((a > b) & a) | (~(a > b) & b); }                                        \
    INGOT_INLINE I I##_low_i8(I a) { return I##_byte_s8(a, 0); }                                                       \
    INGOT_INLINE I I##_low_u8(I a) { return I##_byte_u8(a, 0); }                                                       \
    INGOT_INLINE I I##_low_i16(I a) { return (I)((U)a << U##_set1(16)) >> I##_set1(16); }                              \
    INGOT_GENERIC_DOT(I, s8, s8, int8_t)                                                                               \
    INGOT_GENERIC_DOT(I, u8, u8, uint8_t)                                                                              \
    INGOT_GENERIC_DOT(I, u8, s8, uint8_t)                                                                              \
    INGOT_GENERIC_DOT(I, s8, u8, int8_t)                                                                               \
    INGOT_GENERIC_DOT_OF_SHORTS(I, U)                                                                                  \
    INGOT_INLINE F F##_from_i32(I a) { return __builtin_convertvector(a, F); }                                         \
    INGOT_GENERIC_FROM_FLOATS(I, F)
INGOT_GENERIC_INTEGER(i32x4, f32x4, u32x4, 4)
INGOT_GENERIC_INTEGER(i32x8, f32x8, u32x8, 8)
INGOT_GENERIC_INTEGER(i32x16, f32x16, u32x16, 16)

#endif /* INGOT_SIMD_GENERIC_INTEGER_H */
