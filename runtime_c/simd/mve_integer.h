/* simd/mve_integer.h: i32x4 as one register of Arm's Helium. Bytes and 16 bits are widened as they are loaded, and
 * parts of vectors predicated. */
#ifndef INGOT_SIMD_MVE_INTEGER_H
#define INGOT_SIMD_MVE_INTEGER_H

typedef int32x4_t i32x4;

INGOT_INLINE i32x4 i32x4_signed(uint32x4_t a) { return vreinterpretq_s32_u32(a); }
INGOT_INLINE uint32x4_t i32x4_unsigned(i32x4 a) { return vreinterpretq_u32_s32(a); }

INGOT_INLINE i32x4 i32x4_set1(int32_t x) { return vdupq_n_s32(x); }
INGOT_INLINE i32x4 i32x4_add(i32x4 a, i32x4 b) { return vaddq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_sub(i32x4 a, i32x4 b) { return vsubq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_mul(i32x4 a, i32x4 b) { return vmulq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_add_scaled(i32x4 a, int32_t x, i32x4 c) { return vmlaq_n_s32(c, a, x); }
INGOT_INLINE i32x4 i32x4_min(i32x4 a, i32x4 b) { return vminq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_max(i32x4 a, i32x4 b) { return vmaxq_s32(a, b); }
INGOT_INLINE i32x4 i32x4_low_i8(i32x4 a) { return vshrq_n_s32(vshlq_n_s32(a, 24), 24); }
INGOT_INLINE i32x4 i32x4_low_u8(i32x4 a) { return vandq_s32(a, vdupq_n_s32(255)); }
INGOT_INLINE i32x4 i32x4_low_i16(i32x4 a) { return vshrq_n_s32(vshlq_n_s32(a, 16), 16); }
INGOT_INLINE f32x4 f32x4_from_i32(i32x4 a) { return vcvtq_f32_s32(a); }
INGOT_INLINE i32x4 i32x4_nearest_f32(f32x4 x) { return vcvtnq_s32_f32(x); }
INGOT_INLINE i32x4 i32x4_from_f32(f32x4 x)
{
    const mve_pred16_t fits = vcmpgtq_f32(vdupq_n_f32(2147483648.0f), vabsq_f32(x));
    return vpselq_s32(vcvtq_s32_f32(x), vdupq_n_s32(INT32_MIN), fits);
}
/* Conversions saturate, and so do additions, and what makes 16 bits of a lane and 8 of those, beside what was there: in
 * the register that they come from, which compilers would else copy. */
#define INGOT_MVE_ROUND(name, halves, bytes)                                                                           \
    INGOT_INLINE i32x4 i32x4_round_##name(f32x4 x, int32_t zero)                                                       \
    {                                                                                                                  \
        i32x4 near = vcvtnq_s32_f32(x);                                                                                \
        if (zero != 0) near = vqaddq_n_s32(near, zero);                                                                \
        __asm__(halves " %q0, %q0\n\t" bytes " %q0, %q0" : "+w"(near));                                                \
        return near;                                                                                                   \
    }
INGOT_MVE_ROUND(i8, "vqmovnb.s32", "vqmovnb.s16")
INGOT_MVE_ROUND(u8, "vqmovunb.s32", "vqmovnb.u16")

/* Lanes of a type, widened: instructions have the letter and the bits of it. */
#define INGOT_MVE_MEMORY(name, type, load, load_z, gather, store, store_first, scatter, in, out)                       \
    typedef struct { type lane[4]; } i32x4_in_memory##name;                                                            \
    INGOT_INLINE i32x4 i32x4_load##name(const type *p) { return in(load(p)); }                                         \
    INGOT_INLINE i32x4 i32x4_load##name##_n(const type *p, ptrdiff_t n) { return in(load_z(p, f32x4_first(n))); }      \
    INGOT_INLINE i32x4 i32x4_load##name##_strided(const type *p, ptrdiff_t s)                                          \
    {                                                                                                                  \
        return in(gather(p, f32x4_places(s)));                                                                         \
    }                                                                                                                  \
    INGOT_INLINE void i32x4_store##name(type *p, i32x4 a) { store(p, out(a)); }                                        \
    INGOT_INLINE void i32x4_store##name##_n(type *p, ptrdiff_t n, i32x4 a)                                             \
    {                                                                                                                  \
        INGOT_MVE_STORE_FIRST(store_first, i32x4_in_memory##name, p, n, a);                                            \
    }                                                                                                                  \
    INGOT_INLINE void i32x4_store##name##_strided(type *p, ptrdiff_t s, i32x4 a)                                       \
    {                                                                                                                  \
        scatter(p, f32x4_places(s), out(a));                                                                           \
    }
#define INGOT_MVE_SAME(a) (a)
INGOT_MVE_MEMORY(, int32_t, vld1q_s32, vldrwq_z_s32, vldrwq_gather_shifted_offset_s32, vst1q_s32, "vstrwt.32",
                 vstrwq_scatter_shifted_offset_s32, INGOT_MVE_SAME, INGOT_MVE_SAME)
INGOT_MVE_MEMORY(_i8, int8_t, vldrbq_s32, vldrbq_z_s32, vldrbq_gather_offset_s32, vstrbq_s32, "vstrbt.32",
                 vstrbq_scatter_offset_s32, INGOT_MVE_SAME, INGOT_MVE_SAME)
INGOT_MVE_MEMORY(_u8, uint8_t, vldrbq_u32, vldrbq_z_u32, vldrbq_gather_offset_u32, vstrbq_u32, "vstrbt.32",
                 vstrbq_scatter_offset_u32, i32x4_signed, i32x4_unsigned)
INGOT_MVE_MEMORY(_i16, int16_t, vldrhq_s32, vldrhq_z_s32, vldrhq_gather_shifted_offset_s32, vstrhq_s32, "vstrht.32",
                 vstrhq_scatter_shifted_offset_s32, INGOT_MVE_SAME, INGOT_MVE_SAME)
INGOT_INLINE i32x4 i32x4_first_n(i32x4 a, i32x4 b, ptrdiff_t n) { return vpselq_s32(a, b, f32x4_first(n)); }

/* Words, lane by lane. */
#define INGOT_MVE_DOT(mix)                                                                                             \
    INGOT_INLINE i32x4 i32x4_dot_##mix(i32x4 a, i32x4 b, i32x4 c)                                                      \
    {                                                                                                                  \
        int32_t x[4], y[4], r[4];                                                                                      \
        vst1q_s32(x, a);                                                                                               \
        vst1q_s32(y, b);                                                                                               \
        vst1q_s32(r, c);                                                                                               \
        for (int l = 0; l < 4; ++l) r[l] = ingot_dot_##mix(x[l], y[l], r[l]);                                          \
        return vld1q_s32(r);                                                                                           \
    }
INGOT_MVE_DOT(u8s8)
INGOT_MVE_DOT(s8u8)
INGOT_MVE_DOT(s8s8)
INGOT_MVE_DOT(u8u8)
INGOT_MVE_DOT(s16s16)
INGOT_INLINE i32x4 i32x4_load_pairs(const int16_t *p)
{
    return vsliq_n_s32(vldrhq_s32(p), vldrhq_s32(p + 4), 16);
}
INGOT_INLINE i32x4 i32x4_load_words(const void *p)
{
    const uint8_t *b = (const uint8_t *)p;
    int32_t r[4];
    for (int l = 0; l < 4; ++l) r[l] = ingot_word(b[l], b[4 + l], b[8 + l], b[12 + l]);
    return vld1q_s32(r);
}

#endif /* INGOT_SIMD_MVE_INTEGER_H */
