/* simd/wasm.h: f32x4 as one vector of WebAssembly (simd128). There is no fused multiply-add. */
#ifndef INGOT_SIMD_WASM_H
#define INGOT_SIMD_WASM_H

#include <wasm_simd128.h>

typedef v128_t f32x4;

INGOT_INLINE f32x4 f32x4_set1(float x) { return wasm_f32x4_splat(x); }
INGOT_INLINE f32x4 f32x4_load(const float *p) { return wasm_v128_load(p); }
INGOT_INLINE void f32x4_store(float *p, f32x4 a) { wasm_v128_store(p, a); }

INGOT_INLINE f32x4 f32x4_held(f32x4 a) { INGOT_HOLD("+r", a); return a; }

INGOT_INLINE f32x4 f32x4_load_n(const float *p, ptrdiff_t n)
{
    return wasm_f32x4_make(n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f);
}

INGOT_INLINE void f32x4_store_strided(float *p, ptrdiff_t s, f32x4 a)
{
    float lanes[4];
    wasm_v128_store(lanes, a);
    for (int l = 0; l < 4; ++l) p[l * s] = lanes[l];
}

INGOT_INLINE void f32x4_store_n(float *p, ptrdiff_t n, f32x4 a)
{
    float lanes[4];
    wasm_v128_store(lanes, a);
    for (int l = 0; l < 4; ++l)
        if (l < n) p[l] = lanes[l];
}

INGOT_INLINE f32x4 f32x4_first_n(f32x4 a, f32x4 b, ptrdiff_t n)
{
    float lanes[4];
    wasm_v128_store(lanes, b);
    f32x4_store_n(lanes, n, a);
    return wasm_v128_load(lanes);
}

INGOT_INLINE f32x4 f32x4_load_strided(const float *p, ptrdiff_t s)
{
    return wasm_f32x4_make(p[0], p[s], p[2 * s], p[3 * s]);
}

INGOT_INLINE f32x4 f32x4_evens(f32x4 a, f32x4 b, int32_t w)
{
    return w == 1 ? wasm_i32x4_shuffle(a, b, 0, 4, 2, 6) : wasm_i32x4_shuffle(a, b, 0, 1, 4, 5);
}

INGOT_INLINE f32x4 f32x4_odds(f32x4 a, f32x4 b, int32_t w)
{
    return w == 1 ? wasm_i32x4_shuffle(a, b, 1, 5, 3, 7) : wasm_i32x4_shuffle(a, b, 2, 3, 6, 7);
}

INGOT_INLINE f32x4 f32x4_add(f32x4 a, f32x4 b) { return wasm_f32x4_add(a, b); }
INGOT_INLINE f32x4 f32x4_sub(f32x4 a, f32x4 b) { return wasm_f32x4_sub(a, b); }
INGOT_INLINE f32x4 f32x4_mul(f32x4 a, f32x4 b) { return wasm_f32x4_mul(a, b); }
INGOT_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b) { return wasm_f32x4_div(a, b); }
/* pmin(b, a) is a < b ? a : b. */
INGOT_INLINE f32x4 f32x4_min(f32x4 a, f32x4 b) { return wasm_f32x4_pmin(b, a); }
INGOT_INLINE f32x4 f32x4_max(f32x4 a, f32x4 b) { return wasm_f32x4_pmax(b, a); }
INGOT_INLINE f32x4 f32x4_minimum(f32x4 a, f32x4 b) { return wasm_f32x4_min(a, b); }
INGOT_INLINE f32x4 f32x4_maximum(f32x4 a, f32x4 b) { return wasm_f32x4_max(a, b); }
INGOT_INLINE f32x4 f32x4_clamp(f32x4 a, f32x4 lo, f32x4 hi) { return f32x4_max(lo, f32x4_min(hi, a)); }
INGOT_INLINE f32x4 f32x4_neg(f32x4 a) { return wasm_f32x4_neg(a); }
INGOT_INLINE f32x4 f32x4_abs(f32x4 a) { return wasm_f32x4_abs(a); }
INGOT_INLINE f32x4 f32x4_sqrt(f32x4 a) { return wasm_f32x4_sqrt(a); }
INGOT_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c) { return wasm_f32x4_add(wasm_f32x4_mul(a, b), c); }

INGOT_INLINE f32x4 f32x4_copysign(f32x4 a, f32x4 sign)
{
    return wasm_v128_bitselect(sign, a, wasm_f32x4_splat(-0.0f));
}

/* As f32x1_fixed. Counts are taken modulo 32, so that bits of b are shifted twice: by n = 0 none is left. */
INGOT_INLINE f32x4 f32x4_fixed(f32x4 a, f32x4 b, int32_t n)
{
    const v128_t second = wasm_u32x4_shr(wasm_u32x4_shr(b, 1), (uint32_t)(31 - n));
    return wasm_f32x4_convert_i32x4(wasm_v128_or(wasm_i32x4_shl(a, (uint32_t)n), second));
}

/* As f32x1_top_bits. */
INGOT_INLINE f32x4 f32x4_top_bits(f32x4 a, int32_t n, int32_t bits)
{
    const v128_t mask = wasm_i32x4_splat((int32_t)(0xffffffffu << (32 - bits)));
    return wasm_f32x4_convert_i32x4(wasm_v128_and(wasm_i32x4_shl(a, (uint32_t)(32 - bits - n)), mask));
}

INGOT_INLINE f32x4 f32x4_greater(f32x4 a, f32x4 b) { return wasm_i32x4_max(a, b); }

INGOT_INLINE f32x4 f32x4_select_lt(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return wasm_v128_bitselect(x, y, wasm_f32x4_lt(a, b));
}

INGOT_INLINE f32x4 f32x4_select_le(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return wasm_v128_bitselect(x, y, wasm_f32x4_le(a, b));
}

INGOT_INLINE f32x4 f32x4_select_eq(f32x4 a, f32x4 b, f32x4 x, f32x4 y)
{
    return wasm_v128_bitselect(x, y, wasm_f32x4_eq(a, b));
}

INGOT_INLINE f32x4 f32x4_round(f32x4 a) { return wasm_f32x4_nearest(a); }
INGOT_INLINE f32x4 f32x4_floor(f32x4 a) { return wasm_f32x4_floor(a); }

/* As f32x1_ldexp, f32x1_power, f32x1_exponent and f32x1_mantissa. */
INGOT_INLINE f32x4 f32x4_ldexp(f32x4 a, f32x4 n)
{
    const v128_t biased = wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(254));
    const v128_t half = wasm_u32x4_shr(biased, 1);
    const v128_t rest = wasm_i32x4_sub(biased, half);
    a = wasm_f32x4_mul(a, wasm_i32x4_shl(half, 23));
    return wasm_f32x4_mul(a, wasm_i32x4_shl(rest, 23));
}

INGOT_INLINE f32x4 f32x4_power(f32x4 a) { return wasm_i32x4_shl(a, 23); }

INGOT_INLINE v128_t f32x4_shifted_bits(f32x4 a)
{
    return wasm_i32x4_add(a, wasm_i32x4_splat(0x3f800000 - 0x3f3504f3));
}

INGOT_INLINE f32x4 f32x4_exponent(f32x4 a)
{
    const v128_t biased = wasm_u32x4_shr(f32x4_shifted_bits(a), 23);
    return wasm_f32x4_sub(wasm_f32x4_convert_i32x4(biased), wasm_f32x4_splat(127.0f));
}

INGOT_INLINE f32x4 f32x4_mantissa(f32x4 a)
{
    const v128_t power = wasm_v128_and(f32x4_shifted_bits(a), wasm_i32x4_splat(-0x800000));
    return wasm_i32x4_sub(a, wasm_i32x4_sub(power, wasm_i32x4_splat(0x3f800000)));
}

/* Lanes 2, 3 onto 0, 1, then lane 1 onto 0. */
#define INGOT_WASM_REDUCE(name, op)                                                                                    \
    INGOT_INLINE float f32x4_reduce_##name(f32x4 a)                                                                    \
    {                                                                                                                  \
        a = f32x4_##op(a, wasm_i32x4_shuffle(a, a, 2, 3, 2, 3));                                                       \
        return wasm_f32x4_extract_lane(f32x4_##op(a, wasm_i32x4_shuffle(a, a, 1, 1, 2, 3)), 0);                        \
    }
INGOT_WASM_REDUCE(add, add)
INGOT_WASM_REDUCE(min, minimum)
INGOT_WASM_REDUCE(max, maximum)
INGOT_WASM_REDUCE(greater, greater)

INGOT_SIMD_MATH(f32x4)

#endif /* INGOT_SIMD_WASM_H */
