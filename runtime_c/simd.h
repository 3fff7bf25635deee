/* simd.h: vectors of 4, 8 and 16 floats - f32x4, f32x8, f32x16 - on every machine.
 *
 * A type is one register where the machine has one that wide, else two of the next narrower type, else an array of
 * floats. INGOT_SIMD_SCALAR makes all of them arrays, INGOT_SIMD_GENERIC vectors that gcc and clang have in C, as they
 * are on RISC-V. In the list T is a type and p points to floats of any alignment:
 *
 *   T_load(p)  T_store(p, a)  T_set1(x)        all lanes
 *   T_load_n(p, n)  T_store_n(p, n, a)         the first n lanes, 0 <= n <= lanes; the rest of the memory is not
 *                                              touched, the rest of the vector is 0
 *   T_first_n(a, b, n)                         the first n lanes of a, then those of b
 *   T_load_strided(p, s)  T_store_strided(p, s, a)   lane l is p[l * s]
 *   T_load_i8(p)  T_load_u8(p)  T_load_i16(p)  lanes that are integers in memory; also ..._n(p, n), ..._strided(p, s)
 *   T_add  T_sub  T_mul  T_div (a, b)          as the C operators
 *   T_fma(a, b, c)                             a * b + c, rounded once where the machine can, else twice
 *   T_fixed(a, b, n)                           the integer of the 32 bits from the n-th on of a and b; see simd/lane.h
 *   T_top_bits(a, n, b)                     b bits of a from the n-th lowest on, as the highest of 32
 *   T_greater(a, b)                            that whose bits are the greater integer: of magnitudes, NaN before all
 *   T_accumulate(a, b, c)                      T_fma, in the register of c, where each of a and b serves several sums
 *   T_evens(a, b, w)  T_odds(a, b, w)          of blocks of w lanes: a's even ones, each followed by b's; a's odd ones,
 *                                              each followed by b's. w: a power of two below the lanes
 *   T_held(a)                                  a, in a register: compilers load it no second time for another use
 *   T_lane(a, l)  T_fma_lane(a, l, b, c)       lane l of a in all lanes; that * b + c, rounded once or twice
 *   T_neg  T_abs  T_sqrt (a)  T_copysign(a, sign)
 *   T_round  T_floor  T_ceil (a)               to an integer; round: the nearest, ties to even
 *   T_min  T_max (a, b)                        b NaN: NaN; only a NaN: b or NaN. So max(set1(0), x) passes on NaN
 *   T_minimum  T_maximum (a, b)                a or b NaN: NaN. One or two instructions more, not after a
 *   T_clamp(a, lo, hi)                         lo <= hi; a NaN: NaN
 *   T_select_lt  T_select_le  T_select_eq (a, b, x, y)   lane by lane a < b ? x : y ...; false when one is NaN
 *   T_reduce_add  T_reduce_min  T_reduce_max (a)         a float; the order of additions is a tree; a NaN: NaN
 *   T_reduce_greater(a)                        the greatest, as T_greater has it
 *   T_exp  T_log  T_tanh  T_erf  T_sigmoid  T_silu  T_gelu (a)   see simd/math.h
 *   T_ldexp(a, n)  T_power(a)  T_exponent(a)  T_mantissa(a)          see simd/lane.h
 *
 * Rounding must be the default (to nearest), and -ffast-math must be off. */
#ifndef INGOT_SIMD_H
#define INGOT_SIMD_H

#include "ingot.h"
#include "ingot_math.h"

#include <string.h>

/* What stays in a register is, for gcc and clang, what an empty piece of assembly may have changed. */
#if defined(__GNUC__)
#define INGOT_HOLD(constraint, a) __asm__("" : constraint(a))
#else
#define INGOT_HOLD(constraint, a) ((void)0)
#endif

/* The types that are one register. */
#if defined(INGOT_SIMD_SCALAR)
#define INGOT_SIMD_NAME "scalar"
#elif defined(INGOT_SIMD_GENERIC) || (defined(__riscv_v) && defined(__GNUC__))
#define INGOT_SIMD_NAME "generic"
#define INGOT_HAS_GENERIC 1
#include "simd/generic.h"
#else
#if defined(__SSE2__)
#define INGOT_SIMD_NAME "sse"
#define INGOT_HAS_F32X4 1
#include "simd/sse.h"
#elif defined(__ARM_NEON)
#define INGOT_SIMD_NAME "neon"
#define INGOT_HAS_F32X4 1
#include "simd/neon.h"
#elif defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && !defined(__ARM_BIG_ENDIAN) && defined(__GNUC__) && \
    !defined(__clang__) /* assembly of gcc's */
#define INGOT_SIMD_NAME "mve"
#define INGOT_HAS_F32X4 1
#include "simd/mve.h"
#elif defined(__wasm_simd128__)
#define INGOT_SIMD_NAME "wasm"
#define INGOT_HAS_F32X4 1
#include "simd/wasm.h"
#else
#define INGOT_SIMD_NAME "scalar"
#endif
#if defined(__AVX2__) && defined(__FMA__)
#undef INGOT_SIMD_NAME
#define INGOT_SIMD_NAME "avx2"
#define INGOT_HAS_F32X8 1
#include "simd/avx2.h"
#endif
#if defined(__AVX512F__)
#undef INGOT_SIMD_NAME
#define INGOT_SIMD_NAME "avx512"
#define INGOT_HAS_F32X16 1
#include "simd/avx512.h"
#endif
#endif

/* The others. */
#include "simd/pair.h"
#include "simd/scalar.h"

/* One lane for all, by memory. */
#define INGOT_SIMD_LANE(T, L)                                                                                          \
    INGOT_INLINE T T##_lane(T a, int32_t l)                                                                            \
    {                                                                                                                  \
        INGOT_ALIGNED(64) float lanes[L];                                                                              \
        T##_store(lanes, a);                                                                                           \
        return T##_set1(lanes[l]);                                                                                     \
    }                                                                                                                  \
    INGOT_INLINE T T##_fma_lane(T a, int32_t l, T b, T c) { return T##_fma(T##_lane(a, l), b, c); }

#if defined(INGOT_HAS_GENERIC)
#elif !defined(INGOT_HAS_F32X4)
INGOT_SCALAR_VECTOR(f32x4, 4)
INGOT_SCALAR_VECTOR(f32x8, 8)
INGOT_SCALAR_VECTOR(f32x16, 16)
#else
#if !defined(INGOT_HAS_F32X8)
INGOT_PAIR_VECTOR(f32x8, f32x4, 4)
#endif
#if !defined(INGOT_HAS_F32X16)
INGOT_PAIR_VECTOR(f32x16, f32x8, 8)
#endif
#endif

#if !defined(INGOT_HAS_F32X4_LANE)
INGOT_SIMD_LANE(f32x4, 4)
#endif
INGOT_SIMD_LANE(f32x8, 8)
INGOT_SIMD_LANE(f32x16, 16)

/* As compilers like. */
#define INGOT_SIMD_ACCUMULATE(T)                                                                                       \
    INGOT_INLINE T T##_accumulate(T a, T b, T c) { return T##_fma(a, b, c); }

INGOT_SIMD_ACCUMULATE(f32x4)
#if !defined(INGOT_HAS_F32X8_ACCUMULATE)
INGOT_SIMD_ACCUMULATE(f32x8)
#endif
INGOT_SIMD_ACCUMULATE(f32x16)

#include "simd/narrow.h"

#endif /* INGOT_SIMD_H */
