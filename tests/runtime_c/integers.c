/* Every operation of simd_integer.h against the same of single numbers; prints what is wrong. */
#include "simd_integer.h"

#include <stdio.h>

static uint32_t state = 1;
static int failures;

static uint32_t any(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 4 ^ state << 13;
}

/* Words of which many have the least and the greatest bytes. */
static int32_t word(void)
{
    static const uint32_t extremes[] = {0x80808080u, 0x7f7f7f7fu, 0xffffffffu, 0u, 0x80ff007fu, 0x80000000u};
    const uint32_t kind = any() % 12;
    return (int32_t)(kind < 6 ? extremes[kind] : any());
}

static float number(void)
{
    static const float extremes[] = {NAN, INFINITY, -INFINITY, 2147483648.0f, -2147483648.0f, 3e9f, -3e9f, 0.5f};
    const uint32_t kind = any() % 16;
    return kind < 8 ? extremes[kind] : (float)(int32_t)any() * 0.01f;
}

static void expect(int holds, const char *type, const char *what)
{
    if (!holds && failures++ < 20) printf("%s_%s is wrong\n", type, what);
}

#define EACH(L, holds, T, what)                                                                                        \
    for (int l = 0; l < L; ++l) expect(holds, #T, what)

#define BINARY(T, L, name)                                                                                             \
    T##_store(r, T##_##name(va, vb));                                                                                  \
    EACH(L, r[l] == ingot_##name##_i32(a[l], b[l]), T, #name);

#define DOT(T, L, mix)                                                                                                 \
    T##_store(r, T##_dot_##mix(va, vb, vc));                                                                           \
    EACH(L, r[l] == ingot_dot_##mix(a[l], b[l], c[l]), T, #mix);

#define REDUCE(T, L, name)                                                                                             \
    total = a[0];                                                                                                      \
    for (int l = 1; l < L; ++l) total = ingot_##name##_i32(total, a[l]);                                               \
    expect(T##_reduce_##name(va) == total, #T, "reduce_" #name);

#define MEMORY(T, L, name, type)                                                                                       \
    {                                                                                                                  \
        type m[2 * L];                                                                                                 \
        const type old = (type)any();                                                                                  \
        const int n = (int)(any() % (L + 1));                                                                          \
        for (int l = 0; l < 2 * L; ++l) m[l] = old;                                                                    \
        T##_store##name(m, va);                                                                                        \
        EACH(L, m[l] == (type)a[l] && m[L + l] == old, T, "store" #name);                                              \
        T##_store(r, T##_load##name(m));                                                                               \
        EACH(L, r[l] == m[l], T, "load" #name);                                                                        \
        T##_store##name##_n(m, n, vb);                                                                                 \
        EACH(L, m[l] == (type)(l < n ? b[l] : a[l]), T, "store_n" #name);                                              \
        T##_store(r, T##_load##name##_n(m, n));                                                                        \
        EACH(L, r[l] == (l < n ? m[l] : 0), T, "load_n" #name);                                                        \
        T##_store##name##_strided(m, 2, vc);                                                                           \
        EACH(L, m[2 * l] == (type)c[l], T, "store_strided" #name);                                                     \
        T##_store(r, T##_load##name##_strided(m, 2));                                                                  \
        EACH(L, r[l] == m[2 * l], T, "load_strided" #name);                                                            \
        T##_store(r, T##_first_n(va, vb, n));                                                                          \
        EACH(L, r[l] == (l < n ? a[l] : b[l]), T, "first_n");                                                          \
    }

#define CHECK(T, F, L)                                                                                                 \
    static void check_##T(void)                                                                                        \
    {                                                                                                                  \
        int32_t a[L], b[L], c[L], r[L], total;                                                                         \
        uint8_t table[256], bytes[4 * L];                                                                              \
        int16_t shorts[2 * L];                                                                                         \
        float x[L], y[L];                                                                                              \
        T va, vb, vc;                                                                                                  \
        for (int l = 0; l < L; ++l) {                                                                                  \
            a[l] = word();                                                                                             \
            b[l] = word();                                                                                             \
            c[l] = word();                                                                                             \
            x[l] = number();                                                                                           \
        }                                                                                                              \
        va = T##_load(a);                                                                                              \
        vb = T##_held(T##_load(b));                                                                                    \
        vc = T##_load(c);                                                                                              \
        DOT(T, L, u8s8)                                                                                                \
        DOT(T, L, s8u8)                                                                                                \
        DOT(T, L, s8s8)                                                                                                \
        DOT(T, L, u8u8)                                                                                                \
        BINARY(T, L, add)                                                                                              \
        BINARY(T, L, sub)                                                                                              \
        BINARY(T, L, mul)                                                                                              \
        BINARY(T, L, min)                                                                                              \
        BINARY(T, L, max)                                                                                              \
        REDUCE(T, L, add)                                                                                              \
        REDUCE(T, L, min)                                                                                              \
        REDUCE(T, L, max)                                                                                              \
        T##_store(r, T##_low_i8(va));                                                                                  \
        EACH(L, r[l] == (int8_t)a[l], T, "low_i8");                                                                    \
        T##_store(r, T##_low_u8(va));                                                                                  \
        EACH(L, r[l] == (uint8_t)a[l], T, "low_u8");                                                                   \
        T##_store(r, T##_low_i16(va));                                                                                 \
        EACH(L, r[l] == (int16_t)a[l], T, "low_i16");                                                                  \
        T##_store(r, T##_set1(a[0]));                                                                                  \
        EACH(L, r[l] == a[0], T, "set1");                                                                              \
        T##_store(r, T##_from_f32(F##_load(x)));                                                                       \
        EACH(L, r[l] == ingot_f32_to_i32(x[l]), T, "from_f32");                                                        \
        for (int l = 0; l < L; ++l) x[l] = (float)((int32_t)any() >> 8) * 0.25f;                                       \
        T##_store(r, T##_nearest_f32(F##_load(x)));                                                                    \
        EACH(L, r[l] == (int32_t)nearbyintf(x[l]), T, "nearest_f32");                                                  \
        T##_store(r, T##_add_scaled(va, b[0], vc));                                                                    \
        EACH(L, r[l] == ingot_add_i32(c[l], ingot_mul_i32(a[l], b[0])), T, "add_scaled");                              \
        for (int l = 0; l < L; ++l) x[l] = (float)((int32_t)any() >> 21) * 0.25f;                                      \
        T##_store(r, T##_round_i8(F##_load(x), a[0] % 256));                                                           \
        EACH(L, (int8_t)r[l] == ingot_round_i8(x[l], a[0] % 256), T, "round_i8");                                      \
        T##_store(r, T##_round_u8(F##_load(x), a[0] % 256));                                                           \
        EACH(L, (uint8_t)r[l] == ingot_round_u8(x[l], a[0] % 256), T, "round_u8");                                     \
        F##_store(y, F##_from_i32(va));                                                                                \
        EACH(L, y[l] == (float)a[l], T, "to_f32");                                                                     \
        for (int l = 0; l < 4 * L; ++l) bytes[l] = (uint8_t)any();                                                     \
        T##_store(r, T##_load_words(bytes));                                                                           \
        EACH(L, r[l] == ingot_word(bytes[l], bytes[L + l], bytes[2 * L + l], bytes[3 * L + l]), T, "load_words");      \
        for (int l = 0; l < 2 * L; ++l) shorts[l] = (int16_t)(uint16_t)any();                                          \
        T##_store(r, T##_load_pairs(shorts));                                                                          \
        EACH(L, r[l] == ingot_pair(shorts[l], shorts[L + l]), T, "load_pairs");                                        \
        T##_store(r, T##_dot_s16s16(va, vb, vc));                                                                      \
        EACH(L, r[l] == ingot_dot_s16s16(a[l], b[l], c[l]), T, "dot_s16s16");                                          \
        T##_store(r, T##_dot_s16s16_at(shorts + 1, vb, vc));                                                           \
        EACH(L, r[l] == ingot_dot_s16s16(ingot_load_pair(shorts + 1), b[l], c[l]), T, "dot_s16s16_at");                \
        for (int l = 0; l < 256; ++l) table[l] = (uint8_t)any();                                                       \
        for (int l = 0; l < L; ++l) r[l] = (int32_t)(any() % 256);                                                     \
        T##_store(b, T##_lookup_u8(table, T##_load(r)));                                                               \
        EACH(L, b[l] == table[r[l]], T, "lookup_u8");                                                                  \
        T##_store(b, T##_lookup_i8((const int8_t *)table, T##_load(r)));                                               \
        EACH(L, b[l] == (int8_t)table[r[l]], T, "lookup_i8");                                                          \
        T##_store(b, vb);                                                                                              \
        MEMORY(T, L, , int32_t)                                                                                        \
        MEMORY(T, L, _i8, int8_t)                                                                                      \
        MEMORY(T, L, _u8, uint8_t)                                                                                     \
        MEMORY(T, L, _i16, int16_t)                                                                                    \
    }

#define DOT_AT(T, L, mix, type)                                                                                        \
    T##_store(r, T##_dot_##mix##_at((const type *)(const void *)bytes, T##_load(b), T##_load(c)));                     \
    EACH(L, r[l] == ingot_dot_##mix(ingot_load_word(bytes), b[l], c[l]), T, #mix "_at");

#define DOTS_AT(T, L)                                                                                                  \
    static void check_##T##_dots_at(void)                                                                              \
    {                                                                                                                  \
        int8_t m[5], *const bytes = m + 1;                                                                             \
        int32_t b[L], c[L], r[L];                                                                                      \
        for (int l = 0; l < 5; ++l) m[l] = (int8_t)(uint8_t)word();                                                    \
        for (int l = 0; l < L; ++l) b[l] = word(), c[l] = word() >> 8;                                                 \
        DOT_AT(T, L, u8s8, uint8_t)                                                                                    \
        DOT_AT(T, L, u8u8, uint8_t)                                                                                    \
        DOT_AT(T, L, s8u8, int8_t)                                                                                     \
        DOT_AT(T, L, s8s8, int8_t)                                                                                     \
    }
DOTS_AT(i32x4, 4)
DOTS_AT(i32x8, 8)
DOTS_AT(i32x16, 16)

CHECK(i32x4, f32x4, 4)
CHECK(i32x8, f32x8, 8)
CHECK(i32x16, f32x16, 16)

#define DOT_LANE(mix)                                                                                                  \
    for (int k = 0; k < 4; ++k) {                                                                                      \
        i32x4_store(r, i32x4_dot_##mix##_lane(i32x4_load_bytes(bytes), k, i32x4_load(b), i32x4_load(c)));              \
        EACH(4, r[l] == ingot_dot_##mix(ingot_load_word(bytes + 4 * k), b[l], c[l]), i32x4, #mix "_lane");             \
    }

#define MATRIX_DOT(mix)                                                                                                \
    i32x4_store(r, i32x4_matrix_dot_##mix(i32x4_load(a), i32x4_load(b), i32x4_load(c)));                               \
    EACH(4, r[l] == ingot_dot_##mix(a[l / 2 * 2], b[l % 2 * 2],                                                        \
                                    ingot_dot_##mix(a[l / 2 * 2 + 1], b[l % 2 * 2 + 1], c[l])), i32x4,                 \
         "matrix_dot_" #mix);

/* Words of bytes anywhere, of which products take one lane. */
static void check_lanes(void)
{
    int8_t m[17], *const bytes = m + 1;
    int32_t a[4], b[4], c[4], r[4];
    for (int l = 0; l < 17; ++l) m[l] = (int8_t)(uint8_t)word();
    for (int l = 0; l < 4; ++l) a[l] = word(), b[l] = word(), c[l] = word() >> 8;
    DOT_LANE(u8s8)
    DOT_LANE(s8u8)
    DOT_LANE(s8s8)
    DOT_LANE(u8u8)
    DOT_LANE(s16s16)
    MATRIX_DOT(u8s8)
    MATRIX_DOT(s8s8)
    MATRIX_DOT(u8u8)
    for (int n = 0; n < 2; ++n) {
        i32x4_store(r, i32x4_zip_words(i32x4_load(a), i32x4_load(b), n));
        EACH(4, r[l] == (l % 2 ? b : a)[2 * n + l / 2], i32x4, "zip_words");
        i32x4_store(r, i32x4_unzip_words(i32x4_load(a), i32x4_load(b), n));
        EACH(4, r[l] == (l / 2 ? b : a)[2 * (l % 2) + n], i32x4, "unzip_words");
        i32x4_store(r, i32x4_zip_pairs(i32x4_load(a), i32x4_load(b), n));
        EACH(4, r[l] == (l / 2 ? b : a)[2 * n + l % 2], i32x4, "zip_pairs");
    }
}

int main(void)
{
    const int8_t bytes[] = {-128, 127, -1, 5};
    expect(ingot_load_word(bytes) == ingot_word(-128, 127, -1, 5), "ingot", "load_word");
    expect(ingot_word(-128, 127, -1, 5) == 0x05ff7f80, "ingot", "word");
    expect(ingot_dot_s16s16(0x7fff8000, (int32_t)0x80008000u, 5) == 5 + (1 << 30) - 32767 * 32768, "ingot",
           "dot_s16s16");
    expect(ingot_dot_u8s8(-1, (int32_t)0x80808080u, 1) == 1 - 4 * 255 * 128, "ingot", "dot_u8s8");
    for (int n = 0; n < 5000; ++n) {
        check_i32x4();
        check_i32x8();
        check_i32x16();
        check_i32x4_dots_at();
        check_i32x8_dots_at();
        check_i32x16_dots_at();
        check_lanes();
    }
    printf("%s %d\n", INGOT_SIMD_NAME, failures);
    return failures != 0;
}
