/* simd_f16.h: f16x8, a vector of eight float16 that are computed in float16. Single numbers are their bits. As simd.h
 * has it, with T f16x8 and p of uint16_t:
 *
 *   T_load  T_store  T_set1  T_load_n  T_store_n  T_first_n  T_load_strided  T_store_strided
 *   T_add  T_sub  T_mul  T_div  T_fma  T_accumulate  T_lane  T_fma_lane  T_held
 *   T_min  T_max  T_minimum  T_maximum  T_select_lt  T_select_le  T_select_eq  T_abs  T_sqrt
 *   T_reduce_add  T_reduce_min  T_reduce_max (a)        a float
 *
 * Machines without such arithmetic compute each operation in float32, and round. */
#ifndef INGOT_SIMD_F16_H
#define INGOT_SIMD_F16_H

#include "ingot_half.h"
#include "simd.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC) && !defined(__ARM_BIG_ENDIAN) && \
    !defined(INGOT_SIMD_SCALAR)
typedef float16x8_t f16x8;

INGOT_INLINE f16x8 f16x8_load(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
INGOT_INLINE void f16x8_store(uint16_t *p, f16x8 a) { vst1q_u16(p, vreinterpretq_u16_f16(a)); }
INGOT_INLINE f16x8 f16x8_set1(uint16_t x) { return vreinterpretq_f16_u16(vdupq_n_u16(x)); }
INGOT_INLINE f16x8 f16x8_add(f16x8 a, f16x8 b) { return vaddq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_sub(f16x8 a, f16x8 b) { return vsubq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_mul(f16x8 a, f16x8 b) { return vmulq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_div(f16x8 a, f16x8 b) { return vdivq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_min(f16x8 a, f16x8 b) { return vminq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_max(f16x8 a, f16x8 b) { return vmaxq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_minimum(f16x8 a, f16x8 b) { return vminq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_maximum(f16x8 a, f16x8 b) { return vmaxq_f16(a, b); }
INGOT_INLINE f16x8 f16x8_abs(f16x8 a) { return vabsq_f16(a); }
INGOT_INLINE f16x8 f16x8_sqrt(f16x8 a) { return vsqrtq_f16(a); }
INGOT_INLINE f16x8 f16x8_fma(f16x8 a, f16x8 b, f16x8 c) { return vfmaq_f16(c, a, b); }
INGOT_INLINE f16x8 f16x8_select_lt(f16x8 a, f16x8 b, f16x8 x, f16x8 y) { return vbslq_f16(vcltq_f16(a, b), x, y); }
INGOT_INLINE f16x8 f16x8_select_le(f16x8 a, f16x8 b, f16x8 x, f16x8 y) { return vbslq_f16(vcleq_f16(a, b), x, y); }
INGOT_INLINE f16x8 f16x8_select_eq(f16x8 a, f16x8 b, f16x8 x, f16x8 y) { return vbslq_f16(vceqq_f16(a, b), x, y); }

/* Where l is a constant, as in an unrolled loop, one instruction, with a in one of the first 16 registers. gcc's own
 * function is a vector of the lane, which it shares among several uses, and then has registers for no more. */
#if defined(__GNUC__)
#define INGOT_F16_FMA_LANE(l) __asm__("fmla %0.8h, %1.8h, %2.h[" #l "]" : "+w"(c) : "w"(b), "x"(a))
#else
#define INGOT_F16_FMA_LANE(l) c = vfmaq_laneq_f16(c, b, a, l)
#endif
INGOT_INLINE f16x8 f16x8_fma_lane(f16x8 a, int32_t l, f16x8 b, f16x8 c)
{
    switch (l) {
    case 0: INGOT_F16_FMA_LANE(0); break;
    case 1: INGOT_F16_FMA_LANE(1); break;
    case 2: INGOT_F16_FMA_LANE(2); break;
    case 3: INGOT_F16_FMA_LANE(3); break;
    case 4: INGOT_F16_FMA_LANE(4); break;
    case 5: INGOT_F16_FMA_LANE(5); break;
    case 6: INGOT_F16_FMA_LANE(6); break;
    default: INGOT_F16_FMA_LANE(7); break;
    }
    return c;
}
#else
typedef struct {
    uint16_t v[8];
} f16x8;

INGOT_INLINE f16x8 f16x8_load(const uint16_t *p)
{
    f16x8 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
INGOT_INLINE void f16x8_store(uint16_t *p, f16x8 a) { memcpy(p, a.v, sizeof a.v); }
INGOT_INLINE f16x8 f16x8_set1(uint16_t x)
{
    f16x8 r;
    for (int l = 0; l < 8; ++l) r.v[l] = x;
    return r;
}

#define INGOT_F16_OP(name, value)                                                                                      \
    INGOT_INLINE f16x8 f16x8_##name(f16x8 a, f16x8 b)                                                                  \
    {                                                                                                                  \
        for (int l = 0; l < 8; ++l) {                                                                                  \
            const float x = ingot_f16_to_f32(a.v[l]), y = ingot_f16_to_f32(b.v[l]);                                    \
            a.v[l] = ingot_f32_to_f16(value);                                                                          \
        }                                                                                                              \
        return a;                                                                                                      \
    }
INGOT_F16_OP(add, x + y)
INGOT_F16_OP(sub, x - y)
INGOT_F16_OP(mul, x * y)
INGOT_F16_OP(div, x / y)
INGOT_F16_OP(min, f32x1_min(x, y))
INGOT_F16_OP(max, f32x1_max(x, y))
INGOT_F16_OP(minimum, f32x1_minimum(x, y))
INGOT_F16_OP(maximum, f32x1_maximum(x, y))

INGOT_INLINE f16x8 f16x8_abs(f16x8 a)
{
    for (int l = 0; l < 8; ++l) a.v[l] = a.v[l] & 0x7fffu;
    return a;
}
INGOT_INLINE f16x8 f16x8_sqrt(f16x8 a)
{
    for (int l = 0; l < 8; ++l) a.v[l] = ingot_f32_to_f16(ingot_sqrtf(ingot_f16_to_f32(a.v[l])));
    return a;
}
/* The product is exact in float32, their sum is rounded to it before. */
INGOT_INLINE f16x8 f16x8_fma(f16x8 a, f16x8 b, f16x8 c)
{
    for (int l = 0; l < 8; ++l)
        c.v[l] = ingot_f32_to_f16(ingot_f16_to_f32(a.v[l]) * ingot_f16_to_f32(b.v[l]) + ingot_f16_to_f32(c.v[l]));
    return c;
}

#define INGOT_F16_SELECT(name, operator)                                                                               \
    INGOT_INLINE f16x8 f16x8_select_##name(f16x8 a, f16x8 b, f16x8 x, f16x8 y)                                         \
    {                                                                                                                  \
        for (int l = 0; l < 8; ++l)                                                                                    \
            x.v[l] = ingot_f16_to_f32(a.v[l]) operator ingot_f16_to_f32(b.v[l]) ? x.v[l] : y.v[l];                     \
        return x;                                                                                                      \
    }
INGOT_F16_SELECT(lt, <)
INGOT_F16_SELECT(le, <=)
INGOT_F16_SELECT(eq, ==)

INGOT_INLINE f16x8 f16x8_fma_lane(f16x8 a, int32_t l, f16x8 b, f16x8 c) { return f16x8_fma(f16x8_set1(a.v[l]), b, c); }
#endif

INGOT_INLINE f16x8 f16x8_accumulate(f16x8 a, f16x8 b, f16x8 c) { return f16x8_fma(a, b, c); }
INGOT_INLINE f16x8 f16x8_held(f16x8 a) { return a; }
INGOT_INLINE f16x8 f16x8_lane(f16x8 a, int32_t l)
{
    uint16_t lanes[8];
    f16x8_store(lanes, a);
    return f16x8_set1(lanes[l]);
}
INGOT_INLINE f16x8 f16x8_load_strided(const uint16_t *p, ptrdiff_t s)
{
    uint16_t lanes[8];
    for (int l = 0; l < 8; ++l) lanes[l] = p[l * s];
    return f16x8_load(lanes);
}
INGOT_INLINE void f16x8_store_strided(uint16_t *p, ptrdiff_t s, f16x8 a)
{
    uint16_t lanes[8];
    f16x8_store(lanes, a);
    for (int l = 0; l < 8; ++l) p[l * s] = lanes[l];
}
INGOT_INLINE f16x8 f16x8_load_n(const uint16_t *p, ptrdiff_t n)
{
    uint16_t lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int l = 0; l < 8; ++l)
        if (l < n) lanes[l] = p[l];
    return f16x8_load(lanes);
}
INGOT_INLINE void f16x8_store_n(uint16_t *p, ptrdiff_t n, f16x8 a)
{
    uint16_t lanes[8];
    f16x8_store(lanes, a);
    for (int l = 0; l < 8; ++l)
        if (l < n) p[l] = lanes[l];
}
INGOT_INLINE f16x8 f16x8_first_n(f16x8 a, f16x8 b, ptrdiff_t n)
{
    uint16_t lanes[8];
    f16x8_store(lanes, b);
    f16x8_store_n(lanes, n, a);
    return f16x8_load(lanes);
}

#define INGOT_F16_REDUCE(name, function)                                                                               \
    INGOT_INLINE float f16x8_reduce_##name(f16x8 a)                                                                    \
    {                                                                                                                  \
        uint16_t lanes[8];                                                                                             \
        float x[8];                                                                                                    \
        f16x8_store(lanes, a);                                                                                         \
        for (int l = 0; l < 8; ++l) x[l] = ingot_f16_to_f32(lanes[l]);                                                 \
        for (int n = 4; n; n /= 2)                                                                                     \
            for (int l = 0; l < n; ++l) x[l] = function(x[l], x[l + n]);                                               \
        return x[0];                                                                                                   \
    }
INGOT_F16_REDUCE(add, f32x1_add)
INGOT_F16_REDUCE(min, f32x1_minimum)
INGOT_F16_REDUCE(max, f32x1_maximum)

#endif /* INGOT_SIMD_F16_H */
