/* simd/math.h: exp, log, tanh, erf, sigmoid, silu and gelu over the operations of any vector type.
 *
 * INGOT_SIMD_MATH(T) defines T_ceil, T_exp, T_log, T_tanh, T_erf, T_sigmoid, T_silu and T_gelu from T's other
 * operations, without a branch. The error, in units in the last place and with or without a fused multiply-add: exp
 * 1.1, log 1, tanh 1.9, erf 1.4, sigmoid 2 or 6e-39, silu 2.8 or 4e-37; of gelu(x) it is 9e-8 |x|. NaN gives NaN,
 * overflow infinity, underflow denormals and then 0 (32-bit NEON: 0 instead of denormals, also as arguments and inside;
 * erf loses accuracy there below 1e-37).
 *
 * Arguments are reduced as in W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980): n log(2) is
 * subtracted in two parts, of which the first has 15 bits, so that its product with n is exact. The polynomials are
 * our own near-minimax fits: tests/runtime_c/fit_math.py derives them. */
#ifndef INGOT_SIMD_MATH_H
#define INGOT_SIMD_MATH_H

#define INGOT_LOG2_HI 0.693145751953125f
#define INGOT_LOG2_LO 1.42860677e-6f
#define INGOT_LOG2_E 1.44269504f
/* 1.5 * 2^23 + 127: added to a number, it leaves its integral part, as T_power reads it, in the lowest bits. */
#define INGOT_SHIFT 12583039.0f

/* p = p * x + c: one step of Horner's scheme. */
#define INGOT_HORNER(T, p, x, c) p = T##_fma(p, x, T##_set1(c))

/* x = n log(2) + r. exp(x) is 2^n (1 + the result), which loses no digits where exp(x) is near 1; *shifted is n and
 * what T_power adds to it. Beyond the bounds of exp, which exp_within relies on, the result is 0 or infinity.
 *
 * add_exp_minus is a + exp(-x) of x in [-89, 88], near whose ends 2^n is infinite or 0: enough for silu and gelu. */
#define INGOT_SIMD_EXP(T)                                                                                              \
    INGOT_INLINE T T##_exp_parts(T x, T *shifted)                                                                      \
    {                                                                                                                  \
        *shifted = T##_fma(x, T##_set1(INGOT_LOG2_E), T##_set1(INGOT_SHIFT));                                          \
        const T n = T##_sub(*shifted, T##_set1(INGOT_SHIFT));                                                          \
        const T r = T##_fma(n, T##_set1(-INGOT_LOG2_LO), T##_fma(n, T##_set1(-INGOT_LOG2_HI), x));                     \
        T q = T##_set1(0.00138182985f);                                                                                \
        INGOT_HORNER(T, q, r, 0.00836853217f);                                                                         \
        INGOT_HORNER(T, q, r, 0.0416682921f);                                                                          \
        INGOT_HORNER(T, q, r, 0.166665226f);                                                                           \
        INGOT_HORNER(T, q, r, 0.49999994f);                                                                            \
        return T##_fma(T##_mul(r, r), q, r);                                                                           \
    }                                                                                                                  \
    INGOT_INLINE T T##_exp_within(T x)                                                                                 \
    {                                                                                                                  \
        T shifted;                                                                                                     \
        const T p = T##_exp_parts(x, &shifted);                                                                        \
        return T##_ldexp(T##_add(p, T##_set1(1.0f)), T##_sub(shifted, T##_set1(INGOT_SHIFT)));                         \
    }                                                                                                                  \
    INGOT_INLINE T T##_exp(T x)                                                                                        \
    {                                                                                                                  \
        return T##_exp_within(T##_clamp(x, T##_set1(-104.0f), T##_set1(89.0f)));                                       \
    }                                                                                                                  \
    INGOT_INLINE T T##_add_exp_minus(T a, T x)                                                                         \
    {                                                                                                                  \
        T shifted;                                                                                                     \
        const T p = T##_exp_parts(T##_neg(x), &shifted);                                                               \
        return T##_fma(T##_add(p, T##_set1(1.0f)), T##_power(shifted), a);                                             \
    }

/* x = m 2^e; log(x) = e log(2) + log(1 + (m - 1)). Denormals are scaled by 2^23 first. */
#define INGOT_SIMD_LOG(T)                                                                                              \
    INGOT_INLINE T T##_log(T x)                                                                                        \
    {                                                                                                                  \
        const T least = T##_set1(1.17549435e-38f), zero = T##_set1(0.0f);                                              \
        const T normal = T##_select_lt(x, least, T##_mul(x, T##_set1(8388608.0f)), x);                                 \
        const T scaled_by = T##_select_lt(x, least, T##_set1(23.0f), zero);                                            \
        const T e = T##_sub(T##_exponent(normal), scaled_by);                                                          \
        const T f = T##_sub(T##_mantissa(normal), T##_set1(1.0f));                                                     \
        T q = T##_set1(-0.0763643533f);                                                                                \
        INGOT_HORNER(T, q, f, 0.127622157f);                                                                           \
        INGOT_HORNER(T, q, f, -0.131596103f);                                                                          \
        INGOT_HORNER(T, q, f, 0.1420158f);                                                                             \
        INGOT_HORNER(T, q, f, -0.166234091f);                                                                          \
        INGOT_HORNER(T, q, f, 0.200012416f);                                                                           \
        INGOT_HORNER(T, q, f, -0.250008196f);                                                                          \
        INGOT_HORNER(T, q, f, 0.333333313f);                                                                           \
        INGOT_HORNER(T, q, f, -0.5f);                                                                                  \
        const T small = T##_fma(T##_mul(f, f), q, T##_mul(e, T##_set1(INGOT_LOG2_LO)));                                \
        const T y = T##_fma(e, T##_set1(INGOT_LOG2_HI), T##_add(f, small));                                            \
        const T at_most_0 = T##_select_eq(x, zero, T##_set1(-INFINITY), T##_set1(NAN));                                \
        return T##_select_lt(zero, x, T##_select_lt(x, T##_set1(INFINITY), y, x), at_most_0);                          \
    }

/* With e = exp(-2|x|) - 1 it is -e / (e + 2); e has all of its digits. The last line corrects the quotient for lost,
 * what rounding took from e + 2, of 1 to 2: lost / (e + 2) would be exact, and half of lost is near enough. */
#define INGOT_SIMD_TANH(T)                                                                                             \
    INGOT_INLINE T T##_tanh(T x)                                                                                       \
    {                                                                                                                  \
        const T m = T##_clamp(T##_neg(T##_abs(x)), T##_set1(-20.0f), T##_set1(0.0f));                                  \
        T shifted;                                                                                                     \
        const T p = T##_exp_parts(T##_add(m, m), &shifted), power = T##_power(shifted);                                \
        const T e = T##_fma(p, power, T##_sub(power, T##_set1(1.0f))), more = T##_add(power, T##_set1(1.0f));          \
        const T sum = T##_fma(p, power, more), lost = T##_fma(p, power, T##_sub(more, sum));                           \
        const T quotient = T##_div(e, sum);                                                                            \
        return T##_copysign(T##_fma(quotient, T##_mul(lost, T##_set1(-0.5f)), quotient), x);                           \
    }

/* 1 / (1 + exp(-x)). Below -88 it is 6e-39. */
#define INGOT_SIMD_SIGMOID(T)                                                                                          \
    INGOT_INLINE T T##_sigmoid(T x)                                                                                    \
    {                                                                                                                  \
        const T within = T##_clamp(x, T##_set1(-88.0f), T##_set1(87.0f));                                              \
        T shifted;                                                                                                     \
        const T p = T##_exp_parts(T##_neg(within), &shifted), power = T##_power(shifted);                              \
        return T##_div(T##_set1(1.0f), T##_fma(p, power, T##_add(power, T##_set1(1.0f))));                             \
    }

/* x sigmoid(x) as x / (1 + exp(-x)). Results nearer to 0 than 4e-37, of x below -88, are 0. */
#define INGOT_SIMD_SILU(T)                                                                                             \
    INGOT_INLINE T T##_silu(T x)                                                                                       \
    {                                                                                                                  \
        const T within = T##_clamp(x, T##_set1(-89.0f), T##_set1(87.0f));                                              \
        return T##_div(x, T##_add_exp_minus(T##_set1(1.0f), within));                                                  \
    }

/* Below 0.92 x + x q(x^2), above 1 - exp(q(|x|)). */
#define INGOT_SIMD_ERF(T)                                                                                              \
    INGOT_INLINE T T##_erf(T x)                                                                                        \
    {                                                                                                                  \
        const T magnitude = T##_abs(x), square = T##_mul(x, x);                                                        \
        T q = T##_set1(-0.000600380125f);                                                                              \
        INGOT_HORNER(T, q, square, 0.00499585364f);                                                                    \
        INGOT_HORNER(T, q, square, -0.0267685801f);                                                                    \
        INGOT_HORNER(T, q, square, 0.11281877f);                                                                       \
        INGOT_HORNER(T, q, square, -0.376125008f);                                                                     \
        INGOT_HORNER(T, q, square, 0.128379151f);                                                                      \
        const T small = T##_fma(x, q, x);                                                                              \
        const T a = T##_clamp(magnitude, T##_set1(0.0f), T##_set1(3.95f));                                             \
        q = T##_set1(0.000194947235f);                                                                                 \
        INGOT_HORNER(T, q, a, -0.00303369109f);                                                                        \
        INGOT_HORNER(T, q, a, 0.0221897606f);                                                                          \
        INGOT_HORNER(T, q, a, -0.103856333f);                                                                          \
        INGOT_HORNER(T, q, a, -0.637265801f);                                                                          \
        INGOT_HORNER(T, q, a, -1.12762737f);                                                                           \
        INGOT_HORNER(T, q, a, -0.000207014615f);                                                                       \
        const T large = T##_sub(T##_set1(1.0f), T##_exp_within(q));                                                    \
        return T##_select_lt(magnitude, T##_set1(0.92f), small, T##_copysign(large, x));                               \
    }

/* x Phi(x), with Phi the normal distribution: max(x, 0) - |x| exp(-q(|x|)), where exp(-q(a)) is Phi(-a). From 12.5 on
 * that is as good as 0, and soon denormal. */
#define INGOT_SIMD_GELU(T)                                                                                             \
    INGOT_INLINE T T##_gelu(T x)                                                                                       \
    {                                                                                                                  \
        const T a = T##_clamp(T##_abs(x), T##_set1(0.0f), T##_set1(12.5f));                                            \
        T q = T##_set1(7.63399566e-09f);                                                                               \
        INGOT_HORNER(T, q, a, -3.11200779e-07f);                                                                       \
        INGOT_HORNER(T, q, a, 5.03279534e-06f);                                                                        \
        INGOT_HORNER(T, q, a, -4.10418143e-05f);                                                                       \
        INGOT_HORNER(T, q, a, 0.000162225027f);                                                                        \
        INGOT_HORNER(T, q, a, 4.93961743e-05f);                                                                        \
        INGOT_HORNER(T, q, a, -0.00486059161f);                                                                        \
        INGOT_HORNER(T, q, a, 0.0363727883f);                                                                          \
        INGOT_HORNER(T, q, a, 0.318301797f);                                                                           \
        INGOT_HORNER(T, q, a, 0.79788512f);                                                                            \
        INGOT_HORNER(T, q, a, 0.693147182f);                                                                           \
        return T##_fma(T##_neg(a), T##_add_exp_minus(T##_set1(0.0f), q), T##_max(T##_set1(0.0f), x));                  \
    }

#define INGOT_SIMD_MATH(T)                                                                                             \
    INGOT_INLINE T T##_ceil(T x) { return T##_neg(T##_floor(T##_neg(x))); }                                            \
    INGOT_SIMD_EXP(T)                                                                                                  \
    INGOT_SIMD_LOG(T)                                                                                                  \
    INGOT_SIMD_TANH(T)                                                                                                 \
    INGOT_SIMD_SIGMOID(T)                                                                                              \
    INGOT_SIMD_SILU(T)                                                                                                 \
    INGOT_SIMD_ERF(T)                                                                                                  \
    INGOT_SIMD_GELU(T)

#endif /* INGOT_SIMD_MATH_H */
