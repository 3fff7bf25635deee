/* simd/neon.h: f32x4 as one NEON register, on 64-bit and 32-bit ARM.
 *
 * 32-bit NEON flushes denormals to zero, has no fused multiply-add before VFPv4, and no division or square root of
 * vectors: those go lane by lane through VFP, which is exact. */
#ifndef INGOT_SIMD_NEON_H
#define INGOT_SIMD_NEON_H

#include <arm_neon.h>

typedef float32x4_t f32x4;

INGOT_INLINE f32x4 f32x4_set1(float x) { return vdupq_n_f32(x); }
INGOT_INLINE f32x4 f32x4_load(const float *p) { return vld1q_f32(p); }
INGOT_INLINE void f32x4_store(float *p, f32x4 a) { vst1q_f32(p, a); }
INGOT_INLINE f32x4 f32x4_held(f32x4 a) { return a; } /* operands are in registers */

INGOT_INLINE f32x4 f32x4_load_n(const float *p, ptrdiff_t n)
{
    float lanes[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int l = 0; l < 4; ++l)
        if (l < n) lanes[l] = p[l];
    return vld1q_f32(lanes);
}

INGOT_INLINE void f32x4_store_n(float *p, ptrdiff_t n, f32x4 a)
{
    float lanes[4];
    vst1q_f32(lanes, a);
    for (int l = 0; l < 4; ++l)
        if (l < n) p[l] = lanes[l];
}

INGOT_INLINE f32x4 f32x4_first_n(f32x4 a, f32x4 b, ptrdiff_t n)
{
    float lanes[4];
    vst1q_f32(lanes, b);
    f32x4_store_n(lanes, n, a);
    return vld1q_f32(lanes);
}

INGOT_INLINE f32x4 f32x4_load_strided(const float *p, ptrdiff_t s)
{
    f32x4 a = vdupq_n_f32(p[0]);
    a = vld1q_lane_f32(p + s, a, 1);
    a = vld1q_lane_f32(p + 2 * s, a, 2);
    return vld1q_lane_f32(p + 3 * s, a, 3);
}

INGOT_INLINE void f32x4_store_strided(float *p, ptrdiff_t s, f32x4 a)
{
    vst1q_lane_f32(p, a, 0);
    vst1q_lane_f32(p + s, a, 1);
    vst1q_lane_f32(p + 2 * s, a, 2);
    vst1q_lane_f32(p + 3 * s, a, 3);
}

INGOT_INLINE f32x4 f32x4_evens(f32x4 a, f32x4 b, int32_t w)
{
    return w == 1 ? vtrnq_f32(a, b).val[0] : vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}

INGOT_INLINE f32x4 f32x4_odds(f32x4 a, f32x4 b, int32_t w)
{
    return w == 1 ? vtrnq_f32(a, b).val[1] : vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}

INGOT_INLINE f32x4 f32x4_add(f32x4 a, f32x4 b) { return vaddq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_sub(f32x4 a, f32x4 b) { return vsubq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_mul(f32x4 a, f32x4 b) { return vmulq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_min(f32x4 a, f32x4 b) { return vminq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_max(f32x4 a, f32x4 b) { return vmaxq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_minimum(f32x4 a, f32x4 b) { return vminq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_maximum(f32x4 a, f32x4 b) { return vmaxq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_clamp(f32x4 a, f32x4 lo, f32x4 hi) { return f32x4_max(lo, f32x4_min(hi, a)); }
INGOT_INLINE f32x4 f32x4_neg(f32x4 a) { return vnegq_f32(a); }
INGOT_INLINE f32x4 f32x4_abs(f32x4 a) { return vabsq_f32(a); }

INGOT_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
#if defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
    return vfmaq_f32(c, a, b);
#else
    return vaddq_f32(vmulq_f32(a, b), c);
#endif
}

/* Where l is a constant, as in an unrolled loop, one instruction. 32-bit NEON has it rounding twice only. */
#if defined(__aarch64__)
#define INGOT_NEON_FMA_LANE(a, l, b, c) vfmaq_laneq_f32(c, b, a, l)
#else
#define INGOT_NEON_FMA_LANE(a, l, b, c) vmlaq_lane_f32(c, b, (l) < 2 ? vget_low_f32(a) : vget_high_f32(a), (l) % 2)
#endif
#define INGOT_HAS_F32X4_LANE 1
INGOT_INLINE f32x4 f32x4_fma_lane(f32x4 a, int32_t l, f32x4 b, f32x4 c)
{
    switch (l) {
    case 0: return INGOT_NEON_FMA_LANE(a, 0, b, c);
    case 1: return INGOT_NEON_FMA_LANE(a, 1, b, c);
    case 2: return INGOT_NEON_FMA_LANE(a, 2, b, c);
    default: return INGOT_NEON_FMA_LANE(a, 3, b, c);
    }
}

INGOT_INLINE f32x4 f32x4_lane(f32x4 a, int32_t l)
{
    switch (l) {
    case 0: return vdupq_lane_f32(vget_low_f32(a), 0);
    case 1: return vdupq_lane_f32(vget_low_f32(a), 1);
    case 2: return vdupq_lane_f32(vget_high_f32(a), 0);
    default: return vdupq_lane_f32(vget_high_f32(a), 1);
    }
}

INGOT_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b)
{
#if defined(__aarch64__)
    return vdivq_f32(a, b);
#else
    float x[4], y[4];
    vst1q_f32(x, a);
    vst1q_f32(y, b);
    for (int l = 0; l < 4; ++l) x[l] /= y[l];
    return vld1q_f32(x);
#endif
}

INGOT_INLINE f32x4 f32x4_sqrt(f32x4 a)
{
#if defined(__aarch64__)
    return vsqrtq_f32(a);
#else
    float x[4];
    vst1q_f32(x, a);
    for (int l = 0; l < 4; ++l) x[l] = f32x1_sqrt(x[l]);
    return vld1q_f32(x);
#endif
}

INGOT_INLINE f32x4 f32x4_copysign(f32x4 a, f32x4 sign) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, a); }

/* As f32x1_fixed: b is inserted below what is there. Shifts are by constants. */
#define INGOT_NEON_FROM_BIT(a, b, n)                                                                                   \
    vsriq_n_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), n), vreinterpretq_u32_f32(b), 32 - (n))
INGOT_INLINE uint32x4_t f32x4_from_bit(f32x4 a, f32x4 b, int32_t n)
{
    switch (n) {
    case 0: return INGOT_NEON_FROM_BIT(a, b, 0);
    case 4: return INGOT_NEON_FROM_BIT(a, b, 4);
    case 8: return INGOT_NEON_FROM_BIT(a, b, 8);
    case 12: return INGOT_NEON_FROM_BIT(a, b, 12);
    case 16: return INGOT_NEON_FROM_BIT(a, b, 16);
    case 20: return INGOT_NEON_FROM_BIT(a, b, 20);
    case 24: return INGOT_NEON_FROM_BIT(a, b, 24);
    default: return INGOT_NEON_FROM_BIT(a, b, 28);
    }
}

INGOT_INLINE f32x4 f32x4_fixed(f32x4 a, f32x4 b, int32_t n)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(f32x4_from_bit(a, b, n)));
}

/* As f32x1_top_bits. */
INGOT_INLINE f32x4 f32x4_top_bits(f32x4 a, int32_t n, int32_t bits)
{
    const uint32x4_t first = vshlq_u32(vreinterpretq_u32_f32(a), vdupq_n_s32(32 - bits - n));
    return vcvtq_f32_s32(vreinterpretq_s32_u32(vandq_u32(first, vdupq_n_u32(0xffffffffu << (32 - bits)))));
}

INGOT_INLINE f32x4 f32x4_select_lt(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
INGOT_INLINE f32x4 f32x4_select_le(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vbslq_f32(vcleq_f32(a, b), x, y); }
INGOT_INLINE f32x4 f32x4_select_eq(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vbslq_f32(vceqq_f32(a, b), x, y); }

/* As f32x1_round and f32x1_floor. */
INGOT_INLINE f32x4 f32x4_round(f32x4 a)
{
#if defined(__aarch64__)
    return vrndnq_f32(a);
#else
    const f32x4 two23 = vdupq_n_f32(8388608.0f), magnitude = vabsq_f32(a);
    const f32x4 rounded = f32x4_copysign(vsubq_f32(vaddq_f32(magnitude, two23), two23), a);
    return f32x4_select_lt(magnitude, two23, rounded, a);
#endif
}

INGOT_INLINE f32x4 f32x4_floor(f32x4 a)
{
#if defined(__aarch64__)
    return vrndmq_f32(a);
#else
    const f32x4 rounded = f32x4_round(a);
    return vsubq_f32(rounded, f32x4_select_lt(a, rounded, vdupq_n_f32(1.0f), vdupq_n_f32(0.0f)));
#endif
}

/* As f32x1_ldexp, f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x4 f32x4_ldexp(f32x4 a, f32x4 n)
{
    const uint32x4_t biased = vreinterpretq_u32_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(254)));
    const uint32x4_t half = vshrq_n_u32(biased, 1);
    const uint32x4_t rest = vsubq_u32(biased, half);
    a = vmulq_f32(a, vreinterpretq_f32_u32(vshlq_n_u32(half, 23)));
    return vmulq_f32(a, vreinterpretq_f32_u32(vshlq_n_u32(rest, 23)));
}

INGOT_INLINE f32x4 f32x4_power(f32x4 a)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
}

INGOT_INLINE uint32x4_t f32x4_shifted_bits(f32x4 a)
{
    return vaddq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(0x3f800000u - 0x3f3504f3u));
}

INGOT_INLINE f32x4 f32x4_exponent(f32x4 a)
{
    return vsubq_f32(vcvtq_f32_u32(vshrq_n_u32(f32x4_shifted_bits(a), 23)), vdupq_n_f32(127.0f));
}

INGOT_INLINE f32x4 f32x4_mantissa(f32x4 a)
{
    const uint32x4_t power = vandq_u32(f32x4_shifted_bits(a), vdupq_n_u32(0xff800000u));
    const uint32x4_t scale = vsubq_u32(power, vdupq_n_u32(0x3f800000u));
    return vreinterpretq_f32_u32(vsubq_u32(vreinterpretq_u32_f32(a), scale));
}

/* Folds the halves, then neighbours. */
#define INGOT_NEON_REDUCE(name, op, pairwise)                                                                          \
    INGOT_INLINE float f32x4_reduce_##name(f32x4 a)                                                                    \
    {                                                                                                                  \
        const float32x2_t half = op(vget_low_f32(a), vget_high_f32(a));                                                \
        return vget_lane_f32(pairwise(half, half), 0);                                                                 \
    }
INGOT_NEON_REDUCE(add, vadd_f32, vpadd_f32)
INGOT_NEON_REDUCE(min, vmin_f32, vpmin_f32)
INGOT_NEON_REDUCE(max, vmax_f32, vpmax_f32)

INGOT_INLINE f32x4 f32x4_greater(f32x4 a, f32x4 b)
{
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}

INGOT_INLINE float f32x4_reduce_greater(f32x4 a)
{
    const int32x4_t bits = vreinterpretq_s32_f32(a);
    const int32x2_t half = vmax_s32(vget_low_s32(bits), vget_high_s32(bits));
    return vget_lane_f32(vreinterpret_f32_s32(vpmax_s32(half, half)), 0);
}

INGOT_SIMD_MATH(f32x4)

#endif /* INGOT_SIMD_NEON_H */
