/* Applies every operation of every type of simd.h to the same operands, for test_simd.py.
 *
 * usage: ops OPERANDS RESULTS
 * OPERANDS: three equally long arrays of float, a, b and c, of a length that is a multiple of 16.
 * RESULTS: records of a name ("f32x8_add", 32 bytes, zero-padded), the number of floats (int64) and the floats.
 * Exit status: 0, or 1 when a file cannot be read or written, or 2 when a store wrote outside its bounds. */
#include <stdio.h>
#include <stdlib.h>
#include "simd.h"

enum { STRIDE = 3 };

static FILE *out;
static int status;

static void record(const char *type, const char *op, const float *y, size_t n)
{
    char name[32] = {0};
    const int64_t count = (int64_t)n;
    snprintf(name, sizeof name, "%s_%s", type, op);
    if (fwrite(name, 1, sizeof name, out) != sizeof name || fwrite(&count, sizeof count, 1, out) != 1 ||
        fwrite(y, sizeof *y, n, out) != n)
        status = 1;
}

#define EACH(T, L, op, n, value)                                                                                       \
    for (size_t i = 0; i < n; i += L) T##_store(y + i, value);                                                         \
    record(#T, #op, y, n);
#define UNARY(T, L, op) EACH(T, L, op, n, T##_##op(T##_load(a + i)))
#define BINARY(T, L, op) EACH(T, L, op, n, T##_##op(T##_load(a + i), T##_load(b + i)))
#define TERNARY(T, L, op) EACH(T, L, op, n, T##_##op(T##_load(a + i), T##_load(b + i), T##_load(c + i)))
#define SELECT(T, L, op)                                                                                               \
    EACH(T, L, op, n, T##_##op(T##_load(a + i), T##_load(b + i), T##_load(c + i), T##_set1(1.0f)))
#define FIXED(T, L, n_) EACH(T, L, fixed_##n_, n, T##_fixed(T##_load(a + i), T##_load(b + i), n_))
#define TOP_BITS(T, L, n_, b_) EACH(T, L, top_bits_##n_##_##b_, n, T##_top_bits(T##_load(a + i), n_, b_))
#define REDUCE(T, L, op)                                                                                               \
    for (size_t i = 0; i < n / L; ++i) y[i] = T##_##op(T##_load(a + i * L));                                           \
    record(#T, #op, y, n / L);

/* The exponents of b, forced into the range that ldexp accepts. */
#define LDEXP(T, L)                                                                                                    \
    EACH(T, L, ldexp, n,                                                                                               \
         T##_ldexp(T##_load(a + i), T##_clamp(T##_round(T##_load(b + i)), T##_set1(-252.0f), T##_set1(254.0f))))

/* Blocks of exactly n floats, so that the address sanitizer sees a byte too many; the result is the loaded vectors. */
#define PARTIAL(T, L)                                                                                                  \
    for (size_t n_ = 0; n_ <= L; ++n_) {                                                                               \
        float *from = malloc(n_ * sizeof *from + 1), *to = malloc(n_ * sizeof *to + 1);                                \
        if (!from || !to) exit(1);                                                                                     \
        memcpy(from, a, n_ * sizeof *from);                                                                            \
        T##_store(y + n_ * L, T##_load_n(from, (ptrdiff_t)n_));                                                        \
        T##_store_n(to, (ptrdiff_t)n_, T##_load(a));                                                                   \
        if (memcmp(to, a, n_ * sizeof *to) != 0) status = 2;                                                           \
        T##_store(y + (L + 1 + n_) * L, T##_first_n(T##_load(a), T##_load(b), (ptrdiff_t)n_));                         \
        free(from);                                                                                                    \
        free(to);                                                                                                      \
        for (int l = 0; l <= L; ++l) guard[l] = -1.0f;                                                                 \
        T##_store_n(guard, (ptrdiff_t)n_, T##_set1(2.0f));                                                             \
        for (size_t l = 0; l <= L; ++l)                                                                                \
            if (!((l < n_ && guard[l] > 1.0f) || (l >= n_ && guard[l] < 0.0f))) status = 2;                            \
    }                                                                                                                  \
    record(#T, "load_n", y, (L + 1) * L);                                                                              \
    record(#T, "first_n", y + (L + 1) * L, (L + 1) * L);

#define STRIDED(T, L)                                                                                                  \
    T##_store(y, T##_load_strided(a, STRIDE));                                                                         \
    T##_store(y + L, T##_load_strided(a + (L - 1) * STRIDE, -STRIDE));                                                 \
    T##_store(y + 2 * L, T##_load(a + 1));                                                                             \
    record(#T, "load_strided", y, 3 * L);                                                                              \
    memcpy(y, b, L * STRIDE * sizeof *y);                                                                              \
    T##_store_strided(y, STRIDE, T##_load(a));                                                                         \
    record(#T, "store_strided", y, L * STRIDE);

/* Integers as floats: whole vectors of the bytes of a from the second on, those apart, and parts of blocks of their own. */
#define NARROW(T, L, name, type)                                                                                       \
    {                                                                                                                  \
        type own[L * STRIDE + 1];                                                                                      \
        memcpy(own, a, sizeof own);                                                                                    \
        T##_store(y, T##_load_##name(own + 1));                                                                        \
        T##_store(y + L, T##_load_##name##_strided(own, STRIDE));                                                      \
        for (size_t n_ = 0; n_ <= L; ++n_) {                                                                           \
            type *from = malloc(n_ * sizeof *from + 1);                                                                \
            if (!from) exit(1);                                                                                        \
            memcpy(from, own, n_ * sizeof *from);                                                                      \
            T##_store(y + (2 + n_) * L, T##_load_##name##_n(from, (ptrdiff_t)n_));                                     \
            free(from);                                                                                                \
        }                                                                                                              \
        record(#T, "load_" #name, y, (L + 3) * L);                                                                     \
    }

/* Blocks of 1, 2, 4 ... lanes of two vectors. */
#define BLOCKS(T, L)                                                                                                   \
    for (int w = 1, k = 0; w < L; w *= 2, ++k) {                                                                       \
        T##_store(y + 2 * k * L, T##_evens(T##_load(a), T##_load(b), w));                                              \
        T##_store(y + (2 * k + 1) * L, T##_odds(T##_load(a), T##_load(b), w));                                         \
    }                                                                                                                  \
    record(#T, "blocks", y, 2 * L * (L == 4 ? 2 : L == 8 ? 3 : 4));

/* Each lane of one vector, with the others. */
#define BY_LANE(T, L)                                                                                                  \
    for (int l = 0; l < L; ++l) T##_store(y + l * L, T##_lane(T##_load(b), l));                                        \
    record(#T, "lane", y, L * L);                                                                                      \
    for (int l = 0; l < L; ++l) T##_store(y + l * L, T##_fma_lane(T##_load(b), l, T##_load(c), T##_load(b)));          \
    record(#T, "fma_lane", y, L * L);                                                                                  \
    for (int l = 0; l < L; ++l)                                                                                        \
        T##_store(y + l * L, T##_accumulate(T##_set1(b[l]), T##_load(c), T##_load(b)));                                \
    record(#T, "accumulate", y, L * L);                                                                                \
    T##_store(y, T##_held(T##_load(b)));                                                                               \
    record(#T, "held", y, L);

#define ELEMENTWISE(T, L)                                                                                              \
    UNARY(T, L, neg) UNARY(T, L, abs) UNARY(T, L, sqrt) UNARY(T, L, round) UNARY(T, L, floor) UNARY(T, L, ceil)        \
    UNARY(T, L, exp) UNARY(T, L, log) UNARY(T, L, tanh) UNARY(T, L, erf) UNARY(T, L, sigmoid)                          \
    UNARY(T, L, silu) UNARY(T, L, gelu)                                                                                \
    UNARY(T, L, exponent) UNARY(T, L, mantissa)                                                                        \
    BINARY(T, L, add) BINARY(T, L, sub) BINARY(T, L, mul) BINARY(T, L, div) BINARY(T, L, min) BINARY(T, L, max)        \
    BINARY(T, L, copysign) TERNARY(T, L, fma) LDEXP(T, L)                                                              \
    FIXED(T, L, 0) FIXED(T, L, 4) FIXED(T, L, 8) FIXED(T, L, 12) FIXED(T, L, 16)                                       \
    FIXED(T, L, 20) FIXED(T, L, 24) FIXED(T, L, 28)                                                                    \
    TOP_BITS(T, L, 0, 4) TOP_BITS(T, L, 12, 4) TOP_BITS(T, L, 28, 4) TOP_BITS(T, L, 0, 2) TOP_BITS(T, L, 14, 2)        \
    TOP_BITS(T, L, 30, 2) TOP_BITS(T, L, 8, 8) TOP_BITS(T, L, 24, 8)                                                   \
    BINARY(T, L, greater) BINARY(T, L, minimum) BINARY(T, L, maximum)                                                  \
    EACH(T, L, clamp, n, T##_clamp(T##_load(a + i), T##_set1(-1.5f), T##_set1(6.0f)))                                  \
    SELECT(T, L, select_lt) SELECT(T, L, select_le) SELECT(T, L, select_eq)

#define ALL(T, L)                                                                                                      \
    static void run_##T(const float *a, const float *b, const float *c, float *y, size_t n)                            \
    {                                                                                                                  \
        float guard[L + 1];                                                                                            \
        ELEMENTWISE(T, L)                                                                                              \
        REDUCE(T, L, reduce_add) REDUCE(T, L, reduce_min) REDUCE(T, L, reduce_max) REDUCE(T, L, reduce_greater)        \
        PARTIAL(T, L)                                                                                                  \
        STRIDED(T, L)                                                                                                  \
        NARROW(T, L, i8, int8_t) NARROW(T, L, u8, uint8_t) NARROW(T, L, i16, int16_t)                                  \
        BLOCKS(T, L)                                                                                                   \
        BY_LANE(T, L)                                                                                                  \
    }

ALL(f32x4, 4)
ALL(f32x8, 8)
ALL(f32x16, 16)

/* One lane, from an array to an array as the vectors. */
static f32x1 f32x1_load(const float *p) { return *p; }
static void f32x1_store(float *p, f32x1 a) { *p = a; }

static void run_f32x1(const float *a, const float *b, const float *c, float *y, size_t n) { ELEMENTWISE(f32x1, 1) }

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    out = argc == 3 ? fopen(argv[2], "wb") : NULL;
    if (!in || !out || fseek(in, 0, SEEK_END)) return 1;
    const size_t n = (size_t)ftell(in) / (3 * sizeof(float));
    float *operands = malloc(3 * n * sizeof *operands), *y = malloc((n + 512) * sizeof *y);
    rewind(in);
    if (!operands || !y || fread(operands, sizeof *operands, 3 * n, in) != 3 * n) return 1;
    record(INGOT_SIMD_NAME, "", y, 0);
    run_f32x1(operands, operands + n, operands + 2 * n, y, n);
    run_f32x4(operands, operands + n, operands + 2 * n, y, n);
    run_f32x8(operands, operands + n, operands + 2 * n, y, n);
    run_f32x16(operands, operands + n, operands + 2 * n, y, n);
    free(operands);
    free(y);
    fclose(in);
    return fclose(out) ? 1 : status;
}
