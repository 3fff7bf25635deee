/* simd/mve.h: f32x4 as one register of Arm's Helium, with floats (MVE-F).
 *
 * It has no division or square root of vectors: those go lane by lane through the FPU, which is exact. Parts of vectors
 * are predicated. Its "less" and "less or equal" hold for NaN, "greater" and "greater or equal" do not. */
#ifndef INGOT_SIMD_MVE_H
#define INGOT_SIMD_MVE_H

#include <arm_mve.h>

typedef float32x4_t f32x4;

INGOT_INLINE uint32x4_t f32x4_as_bits(f32x4 a) { return vreinterpretq_u32_f32(a); }
INGOT_INLINE f32x4 f32x4_of_bits(uint32x4_t a) { return vreinterpretq_f32_u32(a); }
INGOT_INLINE mve_pred16_t f32x4_first(ptrdiff_t n) { return vctp32q(n > 0 ? (uint32_t)n : 0); }
/* Store the first n lanes, by an instruction's name. What arm_mve.h has for it is a store of all lanes to gcc 12,
 * which leaves out what was stored there before. */
#define INGOT_MVE_STORE_FIRST(instruction, lanes, p, n, a)                                                             \
    do {                                                                                                               \
        lanes *const first_ = (lanes *)(void *)(p);                                                                    \
        __asm__("vpst\n\t" instruction " %q2, [%3]"                                                                    \
                : "+m"(*first_) : "Up"(f32x4_first(n)), "w"(a), "l"(first_));                                          \
    } while (0)
typedef struct { float lane[4]; } f32x4_in_memory;
/* s times the number of each lane. */
INGOT_INLINE uint32x4_t f32x4_places(ptrdiff_t s) { return vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)s); }

INGOT_INLINE f32x4 f32x4_set1(float x) { return vdupq_n_f32(x); }
INGOT_INLINE f32x4 f32x4_load(const float *p) { return vld1q_f32(p); }
INGOT_INLINE void f32x4_store(float *p, f32x4 a) { vst1q_f32(p, a); }
INGOT_INLINE f32x4 f32x4_held(f32x4 a) { return a; } /* operands are in registers */
INGOT_INLINE f32x4 f32x4_load_n(const float *p, ptrdiff_t n) { return vldrwq_z_f32(p, f32x4_first(n)); }
INGOT_INLINE void f32x4_store_n(float *p, ptrdiff_t n, f32x4 a)
{
    INGOT_MVE_STORE_FIRST("vstrwt.32", f32x4_in_memory, p, n, a);
}
INGOT_INLINE f32x4 f32x4_first_n(f32x4 a, f32x4 b, ptrdiff_t n) { return vpselq_f32(a, b, f32x4_first(n)); }
INGOT_INLINE f32x4 f32x4_load_strided(const float *p, ptrdiff_t s)
{
    return vldrwq_gather_shifted_offset_f32(p, f32x4_places(s));
}
INGOT_INLINE void f32x4_store_strided(float *p, ptrdiff_t s, f32x4 a)
{
    vstrwq_scatter_shifted_offset_f32(p, f32x4_places(s), a);
}

INGOT_INLINE f32x4 f32x4_turns(f32x4 a, f32x4 b, int32_t w, int32_t first)
{
    float x[4], y[4], r[4];
    vst1q_f32(x, a);
    vst1q_f32(y, b);
    for (int l = 0; l < 4; ++l) { /* blocks of a, then those of b */
        const int32_t from = l / (2 * w) * (2 * w) + first * w + l % w;
        r[l] = l / w % 2 == 0 ? x[from] : y[from];
    }
    return vld1q_f32(r);
}
INGOT_INLINE f32x4 f32x4_evens(f32x4 a, f32x4 b, int32_t w) { return f32x4_turns(a, b, w, 0); }
INGOT_INLINE f32x4 f32x4_odds(f32x4 a, f32x4 b, int32_t w) { return f32x4_turns(a, b, w, 1); }

INGOT_INLINE f32x4 f32x4_add(f32x4 a, f32x4 b) { return vaddq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_sub(f32x4 a, f32x4 b) { return vsubq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_mul(f32x4 a, f32x4 b) { return vmulq_f32(a, b); }
INGOT_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c) { return vfmaq_f32(c, a, b); }
INGOT_INLINE f32x4 f32x4_neg(f32x4 a) { return vnegq_f32(a); }
INGOT_INLINE f32x4 f32x4_abs(f32x4 a) { return vabsq_f32(a); }
INGOT_INLINE f32x4 f32x4_min(f32x4 a, f32x4 b) { return vpselq_f32(a, b, vcmpgtq_f32(b, a)); }
INGOT_INLINE f32x4 f32x4_max(f32x4 a, f32x4 b) { return vpselq_f32(a, b, vcmpgtq_f32(a, b)); }
INGOT_INLINE f32x4 f32x4_minimum(f32x4 a, f32x4 b) { return vpselq_f32(a, f32x4_min(a, b), vcmpneq_f32(a, a)); }
INGOT_INLINE f32x4 f32x4_maximum(f32x4 a, f32x4 b) { return vpselq_f32(a, f32x4_max(a, b), vcmpneq_f32(a, a)); }
INGOT_INLINE f32x4 f32x4_clamp(f32x4 a, f32x4 lo, f32x4 hi) { return f32x4_max(lo, f32x4_min(hi, a)); }
INGOT_INLINE f32x4 f32x4_select_lt(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vpselq_f32(x, y, vcmpgtq_f32(b, a)); }
INGOT_INLINE f32x4 f32x4_select_le(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vpselq_f32(x, y, vcmpgeq_f32(b, a)); }
INGOT_INLINE f32x4 f32x4_select_eq(f32x4 a, f32x4 b, f32x4 x, f32x4 y) { return vpselq_f32(x, y, vcmpeqq_f32(a, b)); }
INGOT_INLINE f32x4 f32x4_round(f32x4 a) { return vrndnq_f32(a); }
INGOT_INLINE f32x4 f32x4_floor(f32x4 a) { return vrndmq_f32(a); }

INGOT_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b)
{
    float x[4], y[4];
    vst1q_f32(x, a);
    vst1q_f32(y, b);
    for (int l = 0; l < 4; ++l) x[l] /= y[l];
    return vld1q_f32(x);
}

INGOT_INLINE f32x4 f32x4_sqrt(f32x4 a)
{
    float x[4];
    vst1q_f32(x, a);
    for (int l = 0; l < 4; ++l) x[l] = f32x1_sqrt(x[l]);
    return vld1q_f32(x);
}

INGOT_INLINE f32x4 f32x4_copysign(f32x4 a, f32x4 sign)
{
    const uint32x4_t own = vdupq_n_u32(0x80000000u);
    return f32x4_of_bits(vorrq_u32(vbicq_u32(f32x4_as_bits(a), own), vandq_u32(f32x4_as_bits(sign), own)));
}

/* Bits moved to the left, or to the right by a negative number. */
INGOT_INLINE uint32x4_t f32x4_moved(f32x4 a, int32_t n) { return vshlq_r_u32(f32x4_as_bits(a), n); }

/* As f32x1_fixed and f32x1_top_bits. */
INGOT_INLINE f32x4 f32x4_fixed(f32x4 a, f32x4 b, int32_t n)
{
    const uint32x4_t both = n == 0 ? f32x4_as_bits(a) : vorrq_u32(f32x4_moved(a, n), f32x4_moved(b, n - 32));
    return vcvtq_f32_s32(vreinterpretq_s32_u32(both));
}

INGOT_INLINE f32x4 f32x4_top_bits(f32x4 a, int32_t n, int32_t bits)
{
    const uint32x4_t top = vandq_u32(f32x4_moved(a, 32 - bits - n), vdupq_n_u32(0xffffffffu << (32 - bits)));
    return vcvtq_f32_s32(vreinterpretq_s32_u32(top));
}

/* As f32x1_ldexp, f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x4 f32x4_ldexp(f32x4 a, f32x4 n)
{
    const uint32x4_t biased = vreinterpretq_u32_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(254)));
    const uint32x4_t half = vshrq_n_u32(biased, 1);
    const uint32x4_t rest = vsubq_u32(biased, half);
    a = vmulq_f32(a, f32x4_of_bits(vshlq_n_u32(half, 23)));
    return vmulq_f32(a, f32x4_of_bits(vshlq_n_u32(rest, 23)));
}

INGOT_INLINE f32x4 f32x4_power(f32x4 a) { return f32x4_of_bits(vshlq_n_u32(f32x4_as_bits(a), 23)); }

INGOT_INLINE uint32x4_t f32x4_shifted_bits(f32x4 a)
{
    return vaddq_u32(f32x4_as_bits(a), vdupq_n_u32(0x3f800000u - 0x3f3504f3u));
}

INGOT_INLINE f32x4 f32x4_exponent(f32x4 a)
{
    return vsubq_f32(vcvtq_f32_u32(vshrq_n_u32(f32x4_shifted_bits(a), 23)), vdupq_n_f32(127.0f));
}

INGOT_INLINE f32x4 f32x4_mantissa(f32x4 a)
{
    const uint32x4_t power = vandq_u32(f32x4_shifted_bits(a), vdupq_n_u32(0xff800000u));
    return f32x4_of_bits(vsubq_u32(f32x4_as_bits(a), vsubq_u32(power, vdupq_n_u32(0x3f800000u))));
}

/* Folds the halves, then neighbours. */
#define INGOT_MVE_REDUCE(name, op)                                                                                     \
    INGOT_INLINE float f32x4_reduce_##name(f32x4 a)                                                                    \
    {                                                                                                                  \
        float x[4];                                                                                                    \
        vst1q_f32(x, a);                                                                                               \
        return op(op(x[0], x[2]), op(x[1], x[3]));                                                                     \
    }
INGOT_MVE_REDUCE(add, f32x1_add)
INGOT_MVE_REDUCE(min, f32x1_minimum)
INGOT_MVE_REDUCE(max, f32x1_maximum)

INGOT_INLINE f32x4 f32x4_greater(f32x4 a, f32x4 b)
{
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}

INGOT_INLINE float f32x4_reduce_greater(f32x4 a)
{
    return f32x1_from_bits((uint32_t)vmaxvq_s32(INT32_MIN, vreinterpretq_s32_f32(a)));
}

INGOT_SIMD_MATH(f32x4)

#endif /* INGOT_SIMD_MVE_H */
