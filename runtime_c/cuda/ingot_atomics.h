/* ingot_atomics.h: operations on a number in global or shared memory that no other thread comes between:
 * ingot_atomic_add, _max, _min and _mul(p, x) leave the sum, the greater, the lesser number or the product at p and
 * return what was there. Of floats max and min pass on NaN. Integers wrap around. Numbers of 8 and 16 bits are changed
 * within the word that holds them; float16 and bfloat16 are the bits of their numbers, with names of their own. */
#ifndef INGOT_ATOMICS_H
#define INGOT_ATOMICS_H

#include "ingot_cuda.h"
#include "ingot_half.h"

/* An operation on the bits of the number at p: a thread tries until none came between. */
#define INGOT_ATOMIC_32(name, T, T_of, bits_of, operation)                                                             \
    INGOT_DEVICE T name(T *p, T x)                                                                                     \
    {                                                                                                                  \
        unsigned *const word = (unsigned *)p;                                                                          \
        unsigned seen = *(volatile unsigned *)word;                                                                    \
        for (;;) {                                                                                                     \
            const T old = T_of(seen);                                                                                  \
            const unsigned before = atomicCAS(word, seen, (unsigned)bits_of(operation));                               \
            if (before == seen) return old;                                                                            \
            seen = before;                                                                                             \
        }                                                                                                              \
    }
#define INGOT_ATOMIC_64(name, T, T_of, bits_of, operation)                                                             \
    INGOT_DEVICE T name(T *p, T x)                                                                                     \
    {                                                                                                                  \
        unsigned long long *const word = (unsigned long long *)p;                                                      \
        unsigned long long seen = *(volatile unsigned long long *)word;                                                \
        for (;;) {                                                                                                     \
            const T old = T_of(seen);                                                                                  \
            const unsigned long long before = atomicCAS(word, seen, (unsigned long long)bits_of(operation));           \
            if (before == seen) return old;                                                                            \
            seen = before;                                                                                             \
        }                                                                                                              \
    }
/* U: unsigned bits of a number of 8 or 16 bits at p. The word around it is changed. */
#define INGOT_ATOMIC_PART(name, T, U, operation)                                                                       \
    INGOT_DEVICE T name(T *p, T x)                                                                                     \
    {                                                                                                                  \
        unsigned *const word = (unsigned *)((uintptr_t)p & ~(uintptr_t)3);                                             \
        const unsigned shift = (unsigned)((uintptr_t)p & 3) * 8, mask = (unsigned)(U)~(U)0 << shift;                   \
        unsigned seen = *(volatile unsigned *)word;                                                                    \
        for (;;) {                                                                                                     \
            const T old = (T)(U)(seen >> shift);                                                                       \
            const unsigned next = (seen & ~mask) | (unsigned)(U)(operation) << shift;                                  \
            const unsigned before = atomicCAS(word, seen, next);                                                       \
            if (before == seen) return old;                                                                            \
            seen = before;                                                                                             \
        }                                                                                                              \
    }

INGOT_DEVICE int32_t ingot_atomic_add(int32_t *p, int32_t x) { return atomicAdd(p, x); }
INGOT_DEVICE uint32_t ingot_atomic_add(uint32_t *p, uint32_t x) { return atomicAdd(p, x); }
INGOT_DEVICE float ingot_atomic_add(float *p, float x) { return atomicAdd(p, x); }
INGOT_DEVICE double ingot_atomic_add(double *p, double x) { return atomicAdd(p, x); }
INGOT_DEVICE uint64_t ingot_atomic_add(uint64_t *p, uint64_t x)
{
    return (uint64_t)atomicAdd((unsigned long long *)p, (unsigned long long)x);
}
INGOT_DEVICE int64_t ingot_atomic_add(int64_t *p, int64_t x)
{
    return (int64_t)atomicAdd((unsigned long long *)p, (unsigned long long)x);
}
INGOT_DEVICE int32_t ingot_atomic_max(int32_t *p, int32_t x) { return atomicMax(p, x); }
INGOT_DEVICE uint32_t ingot_atomic_max(uint32_t *p, uint32_t x) { return atomicMax(p, x); }
INGOT_DEVICE int32_t ingot_atomic_min(int32_t *p, int32_t x) { return atomicMin(p, x); }
INGOT_DEVICE uint32_t ingot_atomic_min(uint32_t *p, uint32_t x) { return atomicMin(p, x); }

INGOT_ATOMIC_64(ingot_atomic_max, int64_t, (int64_t), (uint64_t), old > x ? old : x)
INGOT_ATOMIC_64(ingot_atomic_min, int64_t, (int64_t), (uint64_t), old < x ? old : x)
INGOT_ATOMIC_64(ingot_atomic_max, uint64_t, (uint64_t), (uint64_t), old > x ? old : x)
INGOT_ATOMIC_64(ingot_atomic_min, uint64_t, (uint64_t), (uint64_t), old < x ? old : x)
INGOT_ATOMIC_32(ingot_atomic_max, float, f32x1_from_bits, f32x1_bits, old > x || old != old ? old : x)
INGOT_ATOMIC_32(ingot_atomic_min, float, f32x1_from_bits, f32x1_bits, old < x || old != old ? old : x)
INGOT_ATOMIC_64(ingot_atomic_max, double, ingot_f64_from_bits, ingot_f64_bits, old > x || old != old ? old : x)
INGOT_ATOMIC_64(ingot_atomic_min, double, ingot_f64_from_bits, ingot_f64_bits, old < x || old != old ? old : x)

INGOT_ATOMIC_32(ingot_atomic_mul, int32_t, (int32_t), (uint32_t), (uint32_t)old * (uint32_t)x)
INGOT_ATOMIC_32(ingot_atomic_mul, uint32_t, (uint32_t), (uint32_t), old * x)
INGOT_ATOMIC_64(ingot_atomic_mul, int64_t, (int64_t), (uint64_t), (uint64_t)old * (uint64_t)x)
INGOT_ATOMIC_64(ingot_atomic_mul, uint64_t, (uint64_t), (uint64_t), old * x)
INGOT_ATOMIC_32(ingot_atomic_mul, float, f32x1_from_bits, f32x1_bits, old * x)
INGOT_ATOMIC_64(ingot_atomic_mul, double, ingot_f64_from_bits, ingot_f64_bits, old * x)

#define INGOT_ATOMIC_SMALL(T, U)                                                                                       \
    INGOT_ATOMIC_PART(ingot_atomic_add, T, U, old + x)                                                                 \
    INGOT_ATOMIC_PART(ingot_atomic_mul, T, U, (unsigned)old * (unsigned)x)                                             \
    INGOT_ATOMIC_PART(ingot_atomic_max, T, U, old > x ? old : x)                                                       \
    INGOT_ATOMIC_PART(ingot_atomic_min, T, U, old < x ? old : x)
INGOT_ATOMIC_SMALL(int8_t, uint8_t)
INGOT_ATOMIC_SMALL(uint8_t, uint8_t)
INGOT_ATOMIC_SMALL(int16_t, uint16_t)
INGOT_ATOMIC_SMALL(uint16_t, uint16_t)

#define INGOT_ATOMIC_HALF(name, widened)                                                                               \
    INGOT_ATOMIC_PART(ingot_atomic_add_##name, uint16_t, uint16_t, ingot_f32_to_##name(widened(old) + widened(x)))     \
    INGOT_ATOMIC_PART(ingot_atomic_mul_##name, uint16_t, uint16_t, ingot_f32_to_##name(widened(old) * widened(x)))     \
    INGOT_ATOMIC_PART(ingot_atomic_max_##name, uint16_t, uint16_t,                                                     \
                      widened(old) > widened(x) || widened(old) != widened(old) ? old : x)                             \
    INGOT_ATOMIC_PART(ingot_atomic_min_##name, uint16_t, uint16_t,                                                     \
                      widened(old) < widened(x) || widened(old) != widened(old) ? old : x)
INGOT_ATOMIC_HALF(f16, ingot_f16_to_f32)
INGOT_ATOMIC_HALF(bf16, ingot_bf16_to_f32)

#endif /* INGOT_ATOMICS_H */
