/* simd/scalar.h: vectors in plain C, an array of floats with a loop over the lanes. For machines without vector
 * registers of a width, for INGOT_SIMD_SCALAR, and as the definition of what every operation means. */
#ifndef INGOT_SIMD_SCALAR_H
#define INGOT_SIMD_SCALAR_H

#define INGOT_SCALAR_OP1(T, L, op)                                                                                     \
    INGOT_INLINE T T##_##op(T a)                                                                                       \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_##op(a.v[l]);                                                       \
        return a;                                                                                                      \
    }

#define INGOT_SCALAR_OP2(T, L, op)                                                                                     \
    INGOT_INLINE T T##_##op(T a, T b)                                                                                  \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_##op(a.v[l], b.v[l]);                                               \
        return a;                                                                                                      \
    }

#define INGOT_SCALAR_OP3(T, L, op)                                                                                     \
    INGOT_INLINE T T##_##op(T a, T b, T c)                                                                             \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_##op(a.v[l], b.v[l], c.v[l]);                                       \
        return a;                                                                                                      \
    }

#define INGOT_SCALAR_FIXED(T, L)                                                                                       \
    INGOT_INLINE T T##_fixed(T a, T b, int32_t n)                                                                      \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_fixed(a.v[l], b.v[l], n);                                           \
        return a;                                                                                                      \
    }

#define INGOT_SCALAR_TOP_BITS(T, L)                                                                                 \
    INGOT_INLINE T T##_top_bits(T a, int32_t n, int32_t bits)                                                       \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_top_bits(a.v[l], n, bits);                                       \
        return a;                                                                                                      \
    }

#define INGOT_SCALAR_SELECT(T, L, op)                                                                                  \
    INGOT_INLINE T T##_##op(T a, T b, T x, T y)                                                                        \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) a.v[l] = f32x1_##op(a.v[l], b.v[l], x.v[l], y.v[l]);                               \
        return a;                                                                                                      \
    }

/* Halves the vector until one lane is left: the order of a tree, as the machines' own reductions. */
#define INGOT_SCALAR_REDUCE(T, L, name, op)                                                                            \
    INGOT_INLINE float T##_reduce_##name(T a)                                                                          \
    {                                                                                                                  \
        for (int half = L / 2; half > 0; half /= 2)                                                                    \
            for (int l = 0; l < half; ++l) a.v[l] = f32x1_##op(a.v[l], a.v[l + half]);                                 \
        return a.v[0];                                                                                                 \
    }

#define INGOT_SCALAR_MEMORY(T, L)                                                                                      \
    INGOT_INLINE T T##_set1(float x)                                                                                   \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = x;                                                                        \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_load_strided(const float *p, ptrdiff_t stride)                                                  \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = p[l * stride];                                                            \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_strided(float *p, ptrdiff_t stride, T a)                                               \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) p[l * stride] = a.v[l];                                                            \
    }                                                                                                                  \
    INGOT_INLINE T T##_evens(T a, T b, int32_t w)                                                                      \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = l & w ? b.v[l - w] : a.v[l];                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_odds(T a, T b, int32_t w)                                                                       \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = l & w ? b.v[l] : a.v[l + w];                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_load(const float *p) { return T##_load_strided(p, 1); }                                         \
    INGOT_INLINE T T##_held(T a) { return a; }                                                                         \
    INGOT_INLINE void T##_store(float *p, T a) { T##_store_strided(p, 1, a); }                                         \
    INGOT_INLINE T T##_load_n(const float *p, ptrdiff_t n)                                                             \
    {                                                                                                                  \
        T r;                                                                                                           \
        for (int l = 0; l < L; ++l) r.v[l] = l < n ? p[l] : 0.0f;                                                      \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_first_n(T a, T b, ptrdiff_t n)                                                                  \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l) b.v[l] = l < n ? a.v[l] : b.v[l];                                                  \
        return b;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_n(float *p, ptrdiff_t n, T a)                                                          \
    {                                                                                                                  \
        for (int l = 0; l < L; ++l)                                                                                    \
            if (l < n) p[l] = a.v[l];                                                                                  \
    }

#define INGOT_SCALAR_VECTOR(T, L)                                                                                      \
    typedef struct {                                                                                                   \
        float v[L];                                                                                                    \
    } T;                                                                                                               \
    INGOT_SCALAR_MEMORY(T, L)                                                                                          \
    INGOT_SCALAR_OP2(T, L, add)                                                                                        \
    INGOT_SCALAR_OP2(T, L, sub)                                                                                        \
    INGOT_SCALAR_OP2(T, L, mul)                                                                                        \
    INGOT_SCALAR_OP2(T, L, div)                                                                                        \
    INGOT_SCALAR_OP2(T, L, min)                                                                                        \
    INGOT_SCALAR_OP2(T, L, minimum)                                                                                    \
    INGOT_SCALAR_OP2(T, L, max)                                                                                        \
    INGOT_SCALAR_OP2(T, L, maximum)                                                                                    \
    INGOT_SCALAR_OP3(T, L, fma)                                                                                        \
    INGOT_SCALAR_OP3(T, L, clamp)                                                                                      \
    INGOT_SCALAR_FIXED(T, L)                                                                                           \
    INGOT_SCALAR_TOP_BITS(T, L)                                                                                       \
    INGOT_SCALAR_OP2(T, L, greater)                                                                                    \
    INGOT_SCALAR_OP1(T, L, neg)                                                                                        \
    INGOT_SCALAR_OP1(T, L, abs)                                                                                        \
    INGOT_SCALAR_OP1(T, L, sqrt)                                                                                       \
    INGOT_SCALAR_OP1(T, L, round)                                                                                      \
    INGOT_SCALAR_OP1(T, L, floor)                                                                                      \
    INGOT_SCALAR_OP2(T, L, copysign)                                                                                   \
    INGOT_SCALAR_OP2(T, L, ldexp)                                                                                      \
    INGOT_SCALAR_OP1(T, L, power)                                                                                      \
    INGOT_SCALAR_OP1(T, L, exponent)                                                                                   \
    INGOT_SCALAR_OP1(T, L, mantissa)                                                                                   \
    INGOT_SCALAR_SELECT(T, L, select_lt)                                                                               \
    INGOT_SCALAR_SELECT(T, L, select_le)                                                                               \
    INGOT_SCALAR_SELECT(T, L, select_eq)                                                                               \
    INGOT_SCALAR_OP1(T, L, ceil)                                                                                       \
    INGOT_SCALAR_OP1(T, L, exp)                                                                                        \
    INGOT_SCALAR_OP1(T, L, log)                                                                                        \
    INGOT_SCALAR_OP1(T, L, tanh)                                                                                       \
    INGOT_SCALAR_OP1(T, L, erf)                                                                                        \
    INGOT_SCALAR_OP1(T, L, sigmoid)                                                                                    \
    INGOT_SCALAR_OP1(T, L, gelu)                                                                                       \
    INGOT_SCALAR_OP1(T, L, silu)                                                                                       \
    INGOT_SCALAR_REDUCE(T, L, add, add)                                                                                \
    INGOT_SCALAR_REDUCE(T, L, min, minimum)                                                                            \
    INGOT_SCALAR_REDUCE(T, L, max, maximum)                                                                            \
    INGOT_SCALAR_REDUCE(T, L, greater, greater)

#endif /* INGOT_SIMD_SCALAR_H */
