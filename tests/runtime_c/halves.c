/* Every operation of simd_half.h and simd_f16.h against the same of single numbers; prints what is wrong. */
#include "simd_half.h"
#include "simd_f16.h"

#include <stdio.h>

static uint32_t state = 1;
static int failures;

static uint32_t any(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 4 ^ state << 13;
}

static void expect(int holds, const char *type, const char *what)
{
    if (!holds && failures++ < 20) printf("%s_%s is wrong\n", type, what);
}

static int same(float a, float b) { return f32x1_bits(a) == f32x1_bits(b) || (a != a && b != b); }
static int equal(float a, float b) { return a == b || (a != a && b != b); } /* 0 is -0 */
static int near(float a, float b, float size)
{
    const float d = a - b;
    return (d < 0 ? -d : d) <= 4e-7f * size;
}
static float magnitude(float x) { return x < 0 ? -x : x; }

#define EACH(L, holds, T, what)                                                                                        \
    for (int l = 0; l < L; ++l) expect(holds, #T, what)

#define MEMORY(T, L, name)                                                                                             \
    for (int turn = 0; turn < 400; ++turn) {                                                                           \
        uint16_t m[3 * L], out[3 * L];                                                                                 \
        float x[L], r[L];                                                                                              \
        const int n = (int)(any() % (L + 1));                                                                          \
        for (int l = 0; l < 3 * L; ++l) m[l] = (uint16_t)any();                                                        \
        for (int l = 0; l < L; ++l) /* every exponent; also ties, and what is just beside them */                      \
            x[l] = f32x1_from_bits(turn % 2 ? any() : (any() & 0xffffe000u) + 0x1000u + any() % 3 - 1u);               \
        T##_store(r, T##_load_##name(m));                                                                              \
        EACH(L, same(r[l], ingot_##name##_to_f32(m[l])), T, "load_" #name);                                            \
        T##_store(r, T##_load_##name##_n(m, n));                                                                       \
        EACH(L, same(r[l], l < n ? ingot_##name##_to_f32(m[l]) : 0.0f), T, "load_n_" #name);                           \
        T##_store(r, T##_load_##name##_strided(m, 3));                                                                 \
        EACH(L, same(r[l], ingot_##name##_to_f32(m[3 * l])), T, "load_strided_" #name);                                \
        T##_store(r, T##_nearest_##name(T##_load(x)));                                                                 \
        EACH(L, same(r[l], ingot_##name##_to_f32(ingot_f32_to_##name(x[l]))), T, "nearest_" #name);                    \
        memcpy(out, m, sizeof m);                                                                                      \
        T##_store_##name(out, T##_load(x));                                                                            \
        EACH(L, same(ingot_##name##_to_f32(out[l]), r[l]) && out[L + l] == m[L + l], T, "store_" #name);               \
        memcpy(out, m, sizeof m);                                                                                      \
        T##_store_##name##_n(out, n, T##_load(x));                                                                     \
        EACH(L, l < n ? same(ingot_##name##_to_f32(out[l]), r[l]) : out[l] == m[l], T, "store_n_" #name);              \
        T##_store_##name##_strided(out, 2, T##_load(x));                                                               \
        EACH(L, same(ingot_##name##_to_f32(out[2 * l]), r[l]), T, "store_strided_" #name);                             \
    }

/* Small integers, whose sums are exact, and other numbers. */
static int32_t word(int turn, float *parts)
{
    uint16_t h[2];
    for (int n = 0; n < 2; ++n) {
        h[n] = ingot_f32_to_bf16((float)((int)(any() % 255) - 127) * (turn % 2 ? 0.37f : 1.0f));
        parts[n] = ingot_bf16_to_f32(h[n]);
    }
    return ingot_pair(h[0], h[1]);
}

#define DOT(T, I, L)                                                                                                   \
    for (int turn = 0; turn < 200; ++turn) {                                                                           \
        int32_t a[L], b[L];                                                                                            \
        float x[L][2], y[L][2], c[L], r[L];                                                                            \
        for (int l = 0; l < L; ++l) {                                                                                  \
            a[l] = word(turn, x[l]);                                                                                   \
            b[l] = word(turn, y[l]);                                                                                   \
            c[l] = (float)((int)(any() % 2001) - 1000) * (turn % 2 ? 0.21f : 1.0f);                                    \
        }                                                                                                              \
        T##_store(r, T##_dot_bf16(I##_load(a), I##_load(b), T##_load(c)));                                             \
        for (int l = 0; l < L; ++l) {                                                                                  \
            const float p = x[l][0] * y[l][0], q = x[l][1] * y[l][1], total = c[l] + (p + q);                          \
            const float size = magnitude(c[l]) + magnitude(p) + magnitude(q);                                          \
            expect(turn % 2 ? near(r[l], total, size) : same(r[l], total), #T, "dot_bf16");                            \
        }                                                                                                              \
    }

/* By one lane, and of two rows by two columns: of integers, exactly. */
static void lanes_and_matrices(void)
{
    for (int turn = 0; turn < 200; turn += 2) {
        int32_t a[4], b[4];
        float x[4][2], y[4][2], c[4], r[4], s[4];
        for (int l = 0; l < 4; ++l) {
            a[l] = word(turn, x[l]);
            b[l] = word(turn, y[l]);
            c[l] = (float)(any() % 1000);
        }
        const i32x4 va = i32x4_load(a), vb = i32x4_load(b);
        const f32x4 vc = f32x4_load(c);
        for (int n = 0; n < 4; ++n) {
            f32x4_store(r, f32x4_dot_bf16_lane(va, n, vb, vc));
            EACH(4, same(r[l], ingot_dot_bf16(a[n], b[l], c[l])), f32x4, "dot_bf16_lane");
        }
        f32x4_store(r, f32x4_matrix_dot_bf16(va, vb, vc));
        for (int l = 0; l < 4; ++l) {
            const int row = l / 2 * 2, column = l % 2 * 2;
            const float first = ingot_dot_bf16(a[row], b[column], c[l]);
            expect(same(r[l], ingot_dot_bf16(a[row + 1], b[column + 1], first)), "f32x4", "matrix_dot_bf16");
        }
        for (int n = 0; n < 2; ++n) {
            f32x4_store(s, f32x4_zip_pairs(f32x4_load(r), vc, n));
            expect(s[0] == r[2 * n] && s[1] == r[2 * n + 1] && s[2] == c[2 * n] && s[3] == c[2 * n + 1], "f32x4",
                   "zip_pairs");
        }
    }
}

static float value(uint16_t h) { return ingot_f16_to_f32(h); }
static int same16(uint16_t a, float b) { return same(value(a), value(ingot_f32_to_f16(b))); }

/* Of a sum that is rounded once or twice: it is at most the next number. */
static int near16(uint16_t a, float b)
{
    const int d = (int)a - (int)ingot_f32_to_f16(b);
    return same16(a, b) || d == 1 || d == -1;
}

static uint16_t half(int turn)
{
    static const uint16_t special[] = {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 1, 0x0400};
    const uint32_t kind = any() % 16;
    if (turn % 4 == 0 && kind < 8) return special[kind];
    return ingot_f32_to_f16((float)((int)(any() % 20001) - 10000) * 0.0017f);
}

#define F16(expected, name, ...)                                                                                       \
    f16x8_store(r, f16x8_##name(__VA_ARGS__));                                                                         \
    for (int l = 0; l < 8; ++l) {                                                                                      \
        const float x = value(a[l]), y = value(b[l]), z = value(c[l]);                                                 \
        (void)x, (void)y, (void)z;                                                                                     \
        expect(expected, "f16x8", #name);                                                                              \
    }

static void vectors_of_halves(void)
{
    for (int turn = 0; turn < 400; ++turn) {
        uint16_t a[24], b[8], c[8], r[24];
        const int n = (int)(any() % 9);
        for (int l = 0; l < 24; ++l) a[l] = half(turn);
        for (int l = 0; l < 8; ++l) {
            b[l] = half(turn);
            c[l] = half(turn);
        }
        const f16x8 va = f16x8_load(a), vb = f16x8_load(b), vc = f16x8_load(c);
        F16(same16(r[l], x + y), add, va, vb)
        F16(same16(r[l], x - y), sub, va, vb)
        F16(same16(r[l], x * y), mul, va, vb)
        F16(same16(r[l], x / y), div, va, vb)
        F16(equal(value(r[l]), f32x1_minimum(x, y)), minimum, va, vb)
        F16(equal(value(r[l]), f32x1_maximum(x, y)), maximum, va, vb)
        F16(x != x || equal(value(r[l]), f32x1_minimum(x, y)), min, va, vb)
        F16(x != x || equal(value(r[l]), f32x1_maximum(x, y)), max, va, vb)
        F16(same16(r[l], f32x1_abs(x)), abs, va)
        F16(same16(r[l], ingot_sqrtf(x)), sqrt, va)
        F16(near16(r[l], x * y + z), fma, va, vb, vc)
        F16(near16(r[l], x * y + z), accumulate, va, vb, vc)
        F16(same16(r[l], x < y ? z : x), select_lt, va, vb, vc, va)
        F16(same16(r[l], x <= y ? z : x), select_le, va, vb, vc, va)
        F16(same16(r[l], x == y ? z : x), select_eq, va, vb, vc, va)
        F16(r[l] == a[l], held, va)
        F16(r[l] == a[0], set1, a[0])
        F16(r[l] == (l < n ? a[l] : b[l]), first_n, va, vb, n)
        F16(r[l] == (l < n ? a[l] : 0), load_n, a, n)
        F16(r[l] == a[3 * l], load_strided, a, 3)
        for (int k = 0; k < 8; ++k) {
            F16(r[l] == a[k], lane, va, k)
            F16(near16(r[l], value(a[k]) * y + z), fma_lane, va, k, vb, vc)
        }
        memcpy(r, a, sizeof a);
        f16x8_store_n(r, n, vb);
        EACH(8, r[l] == (l < n ? b[l] : a[l]), f16x8, "store_n");
        f16x8_store_strided(r, 2, vc);
        EACH(8, r[2 * l] == c[l], f16x8, "store_strided");
        float total = 0.0f, least = value(b[0]), most = value(b[0]);
        for (int l = 0; l < 8; ++l) {
            total += value(b[l]);
            least = f32x1_minimum(least, value(b[l]));
            most = f32x1_maximum(most, value(b[l]));
        }
        if (turn % 4) expect(near(f16x8_reduce_add(vb), total, 200.0f), "f16x8", "reduce_add");
        expect(equal(f16x8_reduce_min(vb), least), "f16x8", "reduce_min");
        expect(equal(f16x8_reduce_max(vb), most), "f16x8", "reduce_max");
    }
}

int main(void)
{
    vectors_of_halves();
    MEMORY(f32x4, 4, f16)
    MEMORY(f32x4, 4, bf16)
    MEMORY(f32x8, 8, f16)
    MEMORY(f32x8, 8, bf16)
    MEMORY(f32x16, 16, f16)
    MEMORY(f32x16, 16, bf16)
    DOT(f32x4, i32x4, 4)
    DOT(f32x8, i32x8, 8)
    DOT(f32x16, i32x16, 16)
    lanes_and_matrices();
    printf("%d\n", failures);
    return 0;
}
