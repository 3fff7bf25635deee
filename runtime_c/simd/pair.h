/* simd/pair.h: a vector type made of two of half its width, for widths that the machine has no register for. */
#ifndef INGOT_SIMD_PAIR_H
#define INGOT_SIMD_PAIR_H

#define INGOT_PAIR_OP1(T, H, op)                                                                                       \
    INGOT_INLINE T T##_##op(T a)                                                                                       \
    {                                                                                                                  \
        a.lo = H##_##op(a.lo);                                                                                         \
        a.hi = H##_##op(a.hi);                                                                                         \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_OP2(T, H, op)                                                                                       \
    INGOT_INLINE T T##_##op(T a, T b)                                                                                  \
    {                                                                                                                  \
        a.lo = H##_##op(a.lo, b.lo);                                                                                   \
        a.hi = H##_##op(a.hi, b.hi);                                                                                   \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_OP3(T, H, op)                                                                                       \
    INGOT_INLINE T T##_##op(T a, T b, T c)                                                                             \
    {                                                                                                                  \
        a.lo = H##_##op(a.lo, b.lo, c.lo);                                                                             \
        a.hi = H##_##op(a.hi, b.hi, c.hi);                                                                             \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_FIXED(T, H)                                                                                         \
    INGOT_INLINE T T##_fixed(T a, T b, int32_t n)                                                                      \
    {                                                                                                                  \
        a.lo = H##_fixed(a.lo, b.lo, n);                                                                               \
        a.hi = H##_fixed(a.hi, b.hi, n);                                                                               \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_TOP_BITS(T, H)                                                                                   \
    INGOT_INLINE T T##_top_bits(T a, int32_t n, int32_t bits)                                                       \
    {                                                                                                                  \
        a.lo = H##_top_bits(a.lo, n, bits);                                                                         \
        a.hi = H##_top_bits(a.hi, n, bits);                                                                         \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_SELECT(T, H, op)                                                                                    \
    INGOT_INLINE T T##_##op(T a, T b, T x, T y)                                                                        \
    {                                                                                                                  \
        a.lo = H##_##op(a.lo, b.lo, x.lo, y.lo);                                                                       \
        a.hi = H##_##op(a.hi, b.hi, x.hi, y.hi);                                                                       \
        return a;                                                                                                      \
    }

#define INGOT_PAIR_REDUCE(T, H, name, op)                                                                              \
    INGOT_INLINE float T##_reduce_##name(T a) { return H##_reduce_##name(H##_##op(a.lo, a.hi)); }

/* L is the number of lanes of H. */
#define INGOT_PAIR_MEMORY(T, H, L)                                                                                     \
    INGOT_INLINE T T##_of(H lo, H hi)                                                                                  \
    {                                                                                                                  \
        T r;                                                                                                           \
        r.lo = lo;                                                                                                     \
        r.hi = hi;                                                                                                     \
        return r;                                                                                                      \
    }                                                                                                                  \
    INGOT_INLINE T T##_set1(float x) { return T##_of(H##_set1(x), H##_set1(x)); }                                      \
    INGOT_INLINE T T##_load(const float *p) { return T##_of(H##_load(p), H##_load(p + L)); }                           \
    INGOT_INLINE T T##_held(T a) { return T##_of(H##_held(a.lo), H##_held(a.hi)); }                                    \
    INGOT_INLINE T T##_load_n(const float *p, ptrdiff_t n)                                                             \
    {                                                                                                                  \
        return n < L ? T##_of(H##_load_n(p, n), H##_set1(0.0f)) : T##_of(H##_load(p), H##_load_n(p + L, n - L));       \
    }                                                                                                                  \
    INGOT_INLINE T T##_load_strided(const float *p, ptrdiff_t stride)                                                  \
    {                                                                                                                  \
        return T##_of(H##_load_strided(p, stride), H##_load_strided(p + L * stride, stride));                          \
    }                                                                                                                  \
    INGOT_INLINE void T##_store(float *p, T a)                                                                         \
    {                                                                                                                  \
        H##_store(p, a.lo);                                                                                            \
        H##_store(p + L, a.hi);                                                                                        \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_n(float *p, ptrdiff_t n, T a)                                                          \
    {                                                                                                                  \
        H##_store_n(p, n < L ? n : L, a.lo);                                                                           \
        if (n > L) H##_store_n(p + L, n - L, a.hi);                                                                    \
    }                                                                                                                  \
    INGOT_INLINE T T##_first_n(T a, T b, ptrdiff_t n)                                                                  \
    {                                                                                                                  \
        if (n < L) return T##_of(H##_first_n(a.lo, b.lo, n), b.hi);                                                    \
        return T##_of(a.lo, H##_first_n(a.hi, b.hi, n - L));                                                           \
    }                                                                                                                  \
    INGOT_INLINE T T##_evens(T a, T b, int32_t w)                                                                      \
    {                                                                                                                  \
        return w < L ? T##_of(H##_evens(a.lo, b.lo, w), H##_evens(a.hi, b.hi, w)) : T##_of(a.lo, b.lo);                \
    }                                                                                                                  \
    INGOT_INLINE T T##_odds(T a, T b, int32_t w)                                                                       \
    {                                                                                                                  \
        return w < L ? T##_of(H##_odds(a.lo, b.lo, w), H##_odds(a.hi, b.hi, w)) : T##_of(a.hi, b.hi);                  \
    }                                                                                                                  \
    INGOT_INLINE void T##_store_strided(float *p, ptrdiff_t stride, T a)                                               \
    {                                                                                                                  \
        H##_store_strided(p, stride, a.lo);                                                                            \
        H##_store_strided(p + L * stride, stride, a.hi);                                                               \
    }

#define INGOT_PAIR_VECTOR(T, H, L)                                                                                     \
    typedef struct {                                                                                                   \
        H lo, hi;                                                                                                      \
    } T;                                                                                                               \
    INGOT_PAIR_MEMORY(T, H, L)                                                                                         \
    INGOT_PAIR_OP2(T, H, add)                                                                                          \
    INGOT_PAIR_OP2(T, H, sub)                                                                                          \
    INGOT_PAIR_OP2(T, H, mul)                                                                                          \
    INGOT_PAIR_OP2(T, H, div)                                                                                          \
    INGOT_PAIR_OP2(T, H, min)                                                                                          \
    INGOT_PAIR_OP2(T, H, minimum)                                                                                      \
    INGOT_PAIR_OP2(T, H, max)                                                                                          \
    INGOT_PAIR_OP2(T, H, maximum)                                                                                      \
    INGOT_PAIR_OP3(T, H, fma)                                                                                          \
    INGOT_PAIR_OP3(T, H, clamp)                                                                                        \
    INGOT_PAIR_FIXED(T, H)                                                                                             \
    INGOT_PAIR_TOP_BITS(T, H)                                                                                       \
    INGOT_PAIR_OP2(T, H, greater)                                                                                      \
    INGOT_PAIR_OP1(T, H, neg)                                                                                          \
    INGOT_PAIR_OP1(T, H, abs)                                                                                          \
    INGOT_PAIR_OP1(T, H, sqrt)                                                                                         \
    INGOT_PAIR_OP1(T, H, round)                                                                                        \
    INGOT_PAIR_OP1(T, H, floor)                                                                                        \
    INGOT_PAIR_OP2(T, H, copysign)                                                                                     \
    INGOT_PAIR_OP2(T, H, ldexp)                                                                                        \
    INGOT_PAIR_OP1(T, H, power)                                                                                        \
    INGOT_PAIR_OP1(T, H, exponent)                                                                                     \
    INGOT_PAIR_OP1(T, H, mantissa)                                                                                     \
    INGOT_PAIR_SELECT(T, H, select_lt)                                                                                 \
    INGOT_PAIR_SELECT(T, H, select_le)                                                                                 \
    INGOT_PAIR_SELECT(T, H, select_eq)                                                                                 \
    INGOT_PAIR_OP1(T, H, ceil)                                                                                         \
    INGOT_PAIR_OP1(T, H, exp)                                                                                          \
    INGOT_PAIR_OP1(T, H, log)                                                                                          \
    INGOT_PAIR_OP1(T, H, tanh)                                                                                         \
    INGOT_PAIR_OP1(T, H, erf)                                                                                          \
    INGOT_PAIR_OP1(T, H, sigmoid)                                                                                      \
    INGOT_PAIR_OP1(T, H, gelu)                                                                                         \
    INGOT_PAIR_OP1(T, H, silu)                                                                                         \
    INGOT_PAIR_REDUCE(T, H, add, add)                                                                                  \
    INGOT_PAIR_REDUCE(T, H, min, minimum)                                                                              \
    INGOT_PAIR_REDUCE(T, H, max, maximum)                                                                              \
    INGOT_PAIR_REDUCE(T, H, greater, greater)

#endif /* INGOT_SIMD_PAIR_H */
